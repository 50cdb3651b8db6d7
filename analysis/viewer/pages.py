"""The viewer's pages as HTML, made from an index and from the files of its folder."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.viewer import addresses as places
from analysis.viewer import episodes, matrix
from analysis.viewer.addresses import OTHER, OUTCOMES, SORTS, UNKNOWN, Addresses, Filters
from analysis.viewer.index import UNRESOLVED, Index, Setting
from analysis.viewer.runs import Run
from grid.core.metric import Metric
from grid.core.untrusted import shown_lines
from grid.store import metrics
from grid.store.scanning import MAPS
from grid.store.transcripts import Request, request_of, section_of

# An episode's requests and answers: a few requests at a time, since some episodes have hundreds.


PAGE = 10
"""The number of requests on a page."""
_BEST = 8  # maximum number of options shown for a choice


@dataclass(frozen=True)
class Asked:
    """A request with its number; `best` has a choice's likeliest options, each with its number and probability."""

    number: int
    request: Request
    best: Sequence[tuple[int, float]]


def read(index: Index, row: Mapping[str, Any], page: int) -> list[Asked]:
    """An episode's requests on one page; pages count from 1, and requests from damaged files are missing.

    Raises:
        StoreError: a file cannot be read.
    """
    first = (page - 1) * PAGE
    mine = {"cell": row["cell_id"], "attempt": row["attempt_id"], "first": first, "end": first + PAGE}
    query = (
        "SELECT * FROM $files WHERE cell_id = $cell AND attempt_id = $attempt\n"
        "  AND message >= $first AND message < $end ORDER BY message"
    )
    rows = index.rows("messages", query, mine)
    digests = sorted({digest for request in rows for digest in request["prompt"]})
    parts = index.rows("sections", "SELECT * FROM $files WHERE digest IN $digests", {"digests": digests or [""]})
    sections = {part["digest"]: section_of(part) for part in parts}
    return [_asked(request["message"], request_of(request, sections)) for request in rows]


def _asked(number: int, request: Request) -> Asked:
    ranked = sorted(enumerate(request.probabilities or ()), key=lambda option: -option[1])
    return Asked(number, request, ranked[:_BEST])


_FOLDER = Path(__file__).parent
_ALL = Filters()
_LISTED = 200  # maximum number of categories in a list of suggestions
_PER_PAGE_ASKED = PAGE


@dataclass(frozen=True)
class Found:
    """A page's HTML and HTTP status."""

    html: str
    status: int = 200


class Pages:
    """Pages over one folder or two, of which the second is for comparison; `note` is shown on each page.

    All methods except `run` and `missing` raise StoreError if a folder is gone or a file cannot be read.
    """

    def __init__(self, runs: Sequence[Run], note: str = "") -> None:
        self.runs, self._note = runs, note
        self._environment = Environment(
            loader=FileSystemLoader(_FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_finalized,
        )
        self._environment.globals |= {"unresolved": UNRESOLVED, "unknowns": UNKNOWN}
        self._environment.filters |= {"number": _number, "percent": _percent, "figure": _figure}

    def run(self, filters: Filters) -> Run:
        """The folder that the filters name; the first folder if there is no such folder."""
        return next((one for one in self.runs if one.key == filters.run), self.runs[0])

    def sweeps(self, addresses: Addresses, filters: Filters = _ALL, wrong: Sequence[str] = ()) -> Found:
        """The first page: summaries of every folder's settings, and the progress of a running sweep."""
        told, running, bounded = [], False, False
        for run in self.runs:
            index = run.index()
            progress = run.watch()
            running = running or bool(progress and progress.running)
            sums = places.summed_up(run, index, filters)
            bounded = bounded or any(row.bounds for place in sums for row in place["settings"])
            told.append({"run": run, "progress": progress, "places": sums, "cells": places.count(index)})
        return self._page(
            "sweeps.html",
            addresses,
            told=told,
            refresh=running,
            title=self.runs[0].name,
            filters=Filters(unknown=filters.unknown),
            bounded=bounded,
            notices=wrong,
        )

    def cases(
        self, addresses: Addresses, filters: Filters, wrong: Sequence[str] = (), codes: Sequence[int] | None = None
    ) -> Found:
        """A place's page of cases against planners: `codes` or, if None, the cases that match the filters, in order."""
        run = self.run(filters)
        index = run.index()
        place = places.place_of(index, filters)
        if place is None:
            return self.missing(addresses, "This folder has no setting with this model, dataset and robustness.")
        filters = filters.but(page=filters.page, model=place[0], dataset=place[1], robustness=place[2], run=run.key)
        table, told = self.matrix(run, index, filters)
        order = table.order() if codes is None else codes
        last = max(math.ceil(len(order) / matrix.PAGE), 1)
        filters = filters.but(page=min(filters.page, last))
        first = (filters.page - 1) * matrix.PAGE
        progress = run.watch()
        rows = table.rows(order[first : first + matrix.PAGE])
        return self._page(
            "cases.html",
            addresses,
            title=" · ".join(place),
            run=run,
            filters=filters,
            settings=table.settings,
            reference=places.reference_of(table.settings, filters),
            summaries=index.summed_up(filters.cells),
            rows=rows,
            again=run.again([row.case_id for row in rows], place[1]) if rows else None,
            count=len(order),
            first=first,
            last=last,
            kinds=table.kinds(),
            depths=table.depths(),
            categories=index.categories[:_LISTED],
            places=index.places,
            outcomes=OUTCOMES,
            sorts=SORTS,
            other=OTHER if len(self.runs) > 1 else None,
            notices=[*wrong, *told],
            sorting=run.sorting,
            refresh=bool(progress and progress.running) or run.sorting,
        )

    def matrix(self, run: Run, index: Index, filters: Filters) -> tuple[matrix.Matrix, list[str]]:
        """The matrix of a place's cases; if the comparison is not possible, also sentences that say so."""
        run.classify()
        settings = index.of_place((filters.model, filters.dataset, filters.robustness))
        told: list[str] = []
        reference = places.reference_of(settings, filters)
        beside = next((one for one in self.runs if one is not run), None)
        other = beside.index() if beside and filters.against == OTHER else None
        if beside and other:
            base = matrix.against_other(index, settings, other, filters.cells)
            if not len(base):
                told.append(
                    f"For these planners, {run.name} and {beside.name} have no case in common, so nothing can be "
                    "compared."
                )
        else:
            base = matrix.against_planner(index, settings, reference, filters.cells)
            if filters.against and (reference is None or reference.planner != filters.against):
                told.append(f"In this setting there is no planner {filters.against[:80]} to compare with.")
        ranked = places.ranked(index.summed_up(filters.cells), settings, reference)
        return matrix.Matrix(index, ranked, filters, base, other), told

    def episode(
        self, addresses: Addresses, filters: Filters, cell: str, branch: int | None = None, first: int | None = None
    ) -> Found:
        """The page of an episode: its path or a branch, or some branches side by side."""
        run = self.run(filters)
        index = run.index()
        found = episodes.page(index, cell, branch)
        if found is None:
            return self._no_episode(addresses, cell)
        side = episodes.sides(index, found.row, first) if first is not None else None
        before, after = self._beside(run, index, filters, found)
        return self._of_episode(
            "episode.html",
            addresses,
            filters,
            (run, found.row, found.setting),
            page=found,
            branch=branch,
            side=side,
            before=before,
            after=after,
            failure=dict(zip(("kind", "detail", "step"), index.failure(cell), strict=True)),
            shown=_shown(found.row, metrics(index.root)),
            reaches=episodes.SIDES,
        )

    def _beside(
        self, run: Run, index: Index, filters: Filters, found: episodes.EpisodePage
    ) -> tuple[str | None, str | None]:
        """The same planner's episodes of the previous and the next case, in the order of the filters."""
        own = places.in_place(filters, found.setting)
        table, _ = self.matrix(run, index, own)
        codes = table.order().tolist()
        query = "SELECT enum_code($case::cases)::BIGINT"
        code = index.ask(query, {"case": found.row["case_id"]})[0][0]
        if code not in codes:
            return None, None
        at, key = codes.index(code), found.setting.key
        before, after = codes[at - 1 : at] if at else [], codes[at + 1 : at + 2]
        first = [table.first(near[0], key) if near else None for near in (before, after)]
        return first[0], first[1]

    def tree(self, addresses: Addresses, filters: Filters, cell: str, node: str = "") -> Found:
        """The page of an episode's search tree below a node."""
        run = self.run(filters)
        index = run.index()
        found = episodes.find(index, cell)
        if found is None:
            return self._no_episode(addresses, cell)
        row, setting = found
        nodes = episodes.of_try(index, "nodes", row, '"order"')
        drawing = draw(nodes, node or "0")
        if drawing is None:
            what = f"This episode has no node {node[:60]}." if nodes else "This episode has no search tree."
            return self.missing(addresses, what)
        return self._of_episode(
            "tree.html",
            addresses,
            filters,
            (run, row, setting),
            " · tree",
            drawing=drawing,
            node=node,
            count=len(nodes),
            improvements=episodes.of_try(index, "improvements", row, "improvement"),
        )

    def asked(self, addresses: Addresses, filters: Filters, cell: str, request: int = 0) -> Found:
        """The page of an episode's requests and answers that has the given request."""
        run = self.run(filters)
        index = run.index()
        found = episodes.find(index, cell)
        if found is None:
            return self._no_episode(addresses, cell)
        row, setting = found
        count = row["n_messages"]
        page = min(request, max((count or 0) - 1, 0)) // _PER_PAGE_ASKED + 1
        return self._of_episode(
            "asked.html",
            addresses,
            filters,
            (run, row, setting),
            " · prompts",
            requests=read(index, row, page) if count else [],
            request=request,
            count=count,
            first=(page - 1) * _PER_PAGE_ASKED,
            size=_PER_PAGE_ASKED,
        )

    def missing(self, addresses: Addresses, message: str, status: int = 404) -> Found:
        """A page that says why the requested page cannot be shown."""
        found = self._page("error.html", addresses, title="Not here", message=message)
        return Found(found.html, status)

    def _no_episode(self, addresses: Addresses, cell: str) -> Found:
        name = cell if len(cell) <= 80 else f"{cell[:80]}… ({len(cell):,} characters)"
        return self.missing(addresses, f"This folder has no episode {name}; perhaps it was run again with other code.")

    def _of_episode(
        self,
        template: str,
        addresses: Addresses,
        filters: Filters,
        episode: tuple[Run, Mapping[str, Any], Setting],
        part: str = "",
        **values: Any,
    ) -> Found:
        """A page about one episode, which is given by run, row and setting."""
        run, row, setting = episode
        values |= {"title": f"{row['case_id']} · {setting.planner}{part}", "run": run, "row": row, "setting": setting}
        return self._page(template, addresses, filters=places.in_place(filters, setting), **values)

    def _page(self, template: str, addresses: Addresses, *, refresh: bool = False, **values: Any) -> Found:
        values |= {"to": addresses, "runs": self.runs, "note": self._note, "refresh": refresh and not addresses.export}
        return Found(self._environment.get_template(template).render(**values))


def _finalized(value: object) -> object:
    """Strings, with characters that cannot be shown replaced by escapes; HTML comes only from templates."""
    return shown_lines(value) if type(value) is str else "–" if value is None else value


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _shown(row: Mapping[str, Any], known: Mapping[str, Metric]) -> dict[str, Any]:
    """An episode's columns as its page lists them; metrics have their unit and the direction that is better."""
    own = {name: value for name, value in row.items() if value not in (None, "", []) and name not in MAPS}
    return {_told(name, known.get(name)): value for name, value in own.items()}


def _told(name: str, metric: Metric | None) -> str:
    if metric is None:
        return name
    better = "" if metric.better == "neither" else f"{metric.better} is better"
    told = ", ".join(filter(None, (metric.unit, better)))
    return f"{name} ({told})" if told else name


# A search tree as it is drawn: from left to right, one line for each leaf, with the returned path at the top.


ACROSS, DOWN = 190, 40
"""The distances, in pixels, from a node to its child and from a leaf to the next leaf."""
MOST = 250
"""Maximum number of nodes in a drawing; nodes of the path come first, then the nodes with the most visits."""
_MARGIN = 24
_LABEL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})*")


@dataclass
class Node:
    """A row of `nodes` with its place in the drawing; `hidden` counts the nodes below it that are not drawn."""

    row: Mapping[str, Any]
    x: int = 0
    y: int = 0
    children: list[Node] = field(default_factory=list)
    hidden: int = 0


@dataclass(frozen=True)
class Drawing:
    """A drawn tree: nodes (parents before children), edges, size in pixels, and the number of hidden nodes."""

    nodes: Sequence[Node]
    edges: Sequence[tuple[Node, Node]]
    width: int
    height: int
    hidden: int


def draw(rows: Sequence[Mapping[str, Any]], root: str = "0", most: int = MOST) -> Drawing | None:
    """The tree below a node, with at most `most` nodes; None if there is no such node."""
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
    """A node and all nodes below it; nodes with an unusable label, or without a parent in the rows, are left out."""
    named = {row["node"]: row for row in rows if _LABEL.fullmatch(row["node"] or "")}
    found = [root] if root in named else []
    children: dict[str, list[str]] = {}
    for label in named:
        children.setdefault(label.rpartition(".")[0], []).append(label)
    for label in found:  # the list grows during the loop
        found += children.get(label, ())
    return [named[label] for label in found]


def _kept(rows: Sequence[Mapping[str, Any]], root: str, most: int) -> set[str]:
    """The labels of the nodes that are drawn; with each node, the nodes that lead to it are drawn too."""
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
    """The placed nodes, starting at the root, and their edges.

    Leaves form a column, and a parent is level with its first child.
    """
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
