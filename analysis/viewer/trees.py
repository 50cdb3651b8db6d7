"""A search tree as it is drawn: from left to right, one line for each leaf, the returned path the topmost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ACROSS, DOWN = 190, 40
"""Between a node and its child, and between two leaves, in pixels."""
MOST = 250
"""Nodes that one drawing has: those of the path first, then those that are visited most."""
_MARGIN = 24
_LABEL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})*")


@dataclass
class Node:
    """A row of `nodes` with its place; `hidden` counts the nodes below it that are not drawn."""

    row: Mapping[str, Any]
    x: int = 0
    y: int = 0
    children: list[Node] = field(default_factory=list)
    hidden: int = 0


@dataclass(frozen=True)
class Drawing:
    """Nodes, parents before their children, edges between them, and the size in pixels."""

    nodes: Sequence[Node]
    edges: Sequence[tuple[Node, Node]]
    width: int
    height: int
    hidden: int


def draw(rows: Sequence[Mapping[str, Any]], root: str = "0", most: int = MOST) -> Drawing | None:
    """The tree below a node, as far as `most` nodes go; None where there is no such node."""
    below = _below(rows, root)
    if not below:
        return None
    kept = _kept(below, root, most)
    nodes = {row["node"]: Node(row) for row in below if row["node"] in kept}
    top = nodes[root]
    ordered, edges = _placed(nodes, top)
    for row in below:
        if row["node"] not in kept:
            nodes[_nearest(row["node"], kept)].hidden += 1
    width = max(node.x for node in ordered) + ACROSS + _MARGIN
    height = max(node.y for node in ordered) + DOWN
    return Drawing(ordered, edges, width, height, len(below) - len(kept))


def _below(rows: Sequence[Mapping[str, Any]], root: str) -> list[Mapping[str, Any]]:
    """A node and all that hang together with it; labels that are none, or of nobody's children, are left out."""
    named = {row["node"]: row for row in rows if _LABEL.fullmatch(row["node"] or "")}
    found = [root] if root in named else []
    children: dict[str, list[str]] = {}
    for label in named:
        children.setdefault(label.rpartition(".")[0], []).append(label)
    for label in found:  # which grows
        found += children.get(label, ())
    return [named[label] for label in found]


def _kept(rows: Sequence[Mapping[str, Any]], root: str, most: int) -> set[str]:
    """The nodes that are drawn: with each also those that lead to it."""
    ranked = sorted(rows, key=lambda row: (not row["on_path"], -(row["visits"] or 0), row["depth"], row["order"]))
    labels, kept = {row["node"] for row in rows}, {root}
    for row in ranked:
        label, chain = row["node"], list[str]()
        while label not in kept and label in labels:
            chain.append(label)
            label = label.rpartition(".")[0]
        if len(kept) + len(chain) <= most:
            kept.update(chain)
    return kept


def _placed(nodes: Mapping[str, Node], top: Node) -> tuple[list[Node], list[tuple[Node, Node]]]:
    """Nodes from the root on and their edges; leaves below one another, a parent beside its first child."""
    edges = []
    for label, node in nodes.items():
        if node is not top:
            parent = nodes[label.rpartition(".")[0]]
            parent.children.append(node)
            edges.append((parent, node))
    ordered, pending = list[Node](), [top]
    while pending:
        node = pending.pop()
        node.children.sort(key=lambda child: (not child.row["on_path"], int(child.row["node"].rpartition(".")[2])))
        ordered.append(node)
        pending += reversed(node.children)
    least, line = int(top.row["depth"]), 0
    for node in ordered:
        node.x = _MARGIN + ACROSS * (int(node.row["depth"]) - least)
        if not node.children:
            node.y, line = _MARGIN + DOWN * line, line + 1
    for node in reversed(ordered):
        if node.children:
            node.y = node.children[0].y
    return ordered, edges


def _nearest(label: str, kept: set[str]) -> str:
    while label not in kept:
        label = label.rpartition(".")[0]
    return label
