"""Turns code into the sub-trees that Gorilla's scorer examines.

The code is parsed with `ast`, within limits, and never run.

The authors parse code with tree-sitter. The sub-trees are tree-sitter's nodes that have children; the scorer uses the
text of each such node and the text of its first child. Both texts can be derived from the positions of nodes in
Python's own tree if three kinds of nodes are added: a call's list of arguments, a statement that is an expression, and
a keyword with its name.
"""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

MAX_BYTES = 20_000
"""Maximum size of code in bytes; the benchmark's longest call has 300 bytes."""
_LEAVES = (ast.Name, ast.Pass, ast.Break, ast.Continue)


class Subtree(NamedTuple):
    """A node's text; `head` is the first child's text, empty if this child is a bracket, quotation mark or keyword."""

    head: str
    text: str


class _Node(NamedTuple):
    """A node: the byte offsets of its start, its end and its first child's end (`head`), and the nodes inside it."""

    start: int
    head: int
    end: int
    inside: tuple[ast.AST | _Node, ...]


class Code:
    """Parsed code. Positions are byte offsets in the stripped text."""

    def __init__(self, source: bytes, tree: ast.Module) -> None:
        self.tree, self._source = tree, source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def text(self, node: ast.AST) -> str:
        """The text of a node; the node must have a position."""
        return self._source[slice(*self._span(node))].decode()

    def subtrees(self) -> list[Subtree]:
        """Every node that has children; there is at least one such node.

        Each node comes before the nodes inside it, which are listed in reverse order.
        """
        pending: list[_Node] = [self._module()]
        found: list[Subtree] = []
        while pending:
            node = pending.pop()
            head, text = self._source[node.start : node.head], self._source[node.start : node.end]
            found.append(Subtree(head.decode(), text.decode()))
            pending.extend(one if isinstance(one, _Node) else self._node(one) for one in node.inside)
        return found

    def _span(self, node: ast.AST) -> tuple[int, int]:
        place: ast.expr = node  # type: ignore[assignment]  # whatever has a place
        start = self._lines[place.lineno - 1] + place.col_offset
        return start, self._lines[(place.end_lineno or place.lineno) - 1] + (place.end_col_offset or 0)

    def _module(self) -> _Node:
        body = self.tree.body
        end = self._span(body[0])[1] if body else 0
        return _Node(0, end, len(self._source), tuple(body))

    def _node(self, node: ast.AST) -> _Node:
        start, end = self._span(node)
        children = list(_placed(node))
        typed = node.annotation if isinstance(node, ast.AnnAssign) else None  # in tree-sitter, a name there has a child
        inside = tuple(child for child in children if child is typed or not _is_leaf(child))
        head = next((e for s, e in map(self._span, children[:1]) if s == start), start)
        if isinstance(node, ast.Expr):  # the parts of a bare tuple count as the statement's parts
            bare = isinstance(node.value, ast.Tuple) and self._source[start : start + 1] != b"("
            return self._node(node.value) if bare else _Node(start, end, end, inside)
        if isinstance(node, ast.Call):
            arguments = [child for child in children if child is not node.func]
            listed = _Node(head, head, end, tuple(child for child in arguments if not _is_leaf(child)))
            return _Node(start, head, end, (*(() if _is_leaf(node.func) else (node.func,)), listed))
        if isinstance(node, ast.keyword) and node.arg:
            return _Node(start, start + len(node.arg.encode()), end, inside)
        return _Node(start, head, end, inside)


@lru_cache(maxsize=4096)
def parse(text: str) -> Code | None:
    """The code; None if the code cannot be parsed, is empty or is larger than `MAX_BYTES`.

    Two errors that occur in the benchmark's own calls are accepted: a full stop after the code, and a positional
    argument after a named one.
    """
    source = text.strip().removesuffix(".").rstrip()
    try:
        encoded = source.encode()
    except UnicodeEncodeError:  # an unpaired surrogate
        return None
    if not encoded or len(encoded) > MAX_BYTES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about invalid escapes
            tree = _tree(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):  # the last two: nested too deeply
        return None
    return Code(encoded, tree) if tree.body else None


def _tree(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        if "positional argument follows keyword" not in error.msg:
            raise
        return ast.parse(_compared(source))


def _compared(source: str) -> str:
    """The code with `<` in place of every single `=`; empty if the code cannot be split into tokens.

    With `<`, Python reads each named argument as a comparison, so that positional arguments may follow it. No position
    changes.
    """
    lines = [list(line) for line in source.split("\n")]
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.exact_type == tokenize.EQUAL:
                lines[token.start[0] - 1][token.start[1]] = "<"
    except (tokenize.TokenError, SyntaxError, IndexError):
        return ""
    return "\n".join(map("".join, lines))


def _placed(node: ast.AST) -> Iterator[ast.AST]:
    """A node's nearest descendants that have a position, in the order in which they occur in the code."""
    pending, found = list(ast.iter_child_nodes(node)), list[ast.AST]()
    for child in pending:  # `pending` grows in the loop
        if hasattr(child, "lineno"):
            found.append(child)
        else:
            pending += ast.iter_child_nodes(child)
    place = [(one.lineno, one.col_offset) for one in found]  # type: ignore[attr-defined]
    return (found[index] for index in sorted(range(len(found)), key=place.__getitem__))


def _is_leaf(node: ast.AST) -> bool:
    """Whether the node has no children in tree-sitter, as is the case for names and numbers.

    A string's children are its quotation marks.
    """
    return isinstance(node, _LEAVES) or (isinstance(node, ast.Constant) and not isinstance(node.value, str | bytes))
