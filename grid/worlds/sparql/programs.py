"""S-expressions as chains of tool calls (planning_horizon §B.1.2, 'Plan DAG Annotation')."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Protocol

import pyoxigraph as ox

from grid.core.errors import DataError
from grid.core.types import RESULT, Json, Skipped, ToolCall
from grid.text.references import reference
from grid.worlds.sparql import tools
from grid.worlds.sparql.graph import spoken, wrong
from grid.worlds.sparql.queries import (
    SIGNS,
    And,
    Arg,
    Class,
    Compare,
    Count,
    Entity,
    Expression,
    Join,
    TimeConstraint,
    Value,
)

FINISHING = 1
"""The number of nodes that a plan has in addition to its calls.

The published function lists end with STOP, which counts as a node.
"""


def calls(expression: Expression, name: Callable[[str], str]) -> dict[str, ToolCall]:
    """The calls for an expression, by step number. A call comes after the calls whose results it uses.

    As in the published plans, equal calls are not merged. `name` returns the text by which a call names the entity with
    a given id.
    """
    found: dict[str, ToolCall] = {}
    numbers = count()

    def step(tool: str, **arguments: Json) -> str:
        number = str(next(numbers))
        found[number] = ToolCall(tool, arguments)
        return reference(number, RESULT)

    def result(part: Expression) -> str:
        match part:
            case Entity(identity):
                return step(tools.EXTRACT, input_value=name(identity))
            case Class(identity):
                return step(tools.EXTRACT, input_value=identity)
            case Value():
                return step(tools.EXTRACT, input_value=spoken(part))
            case Join(relation, target, reverse):
                target_ref = result(target)
                direction = tools.BACKWARD if reverse else tools.FORWARD
                return step(tools.FIND, relation=relation, direction=direction, target_ref=target_ref)
            case And(left, right):
                first, second = result(left), result(right)
                return step(tools.MERGE, input_ref1=first, input_ref2=second)
            case Arg(mode, operand, relation):
                of = result(operand)
                return step(tools.ORDER, mode=mode, input_ref=of, property_relation=relation)
            case Compare(operator, relation, value):
                literal = result(value)
                return step(tools.COMPARE, operator=SIGNS[operator], property_relation=relation, literal_ref=literal)
            case TimeConstraint(operand, relation, time):
                of = result(operand)
                return step(tools.TIME, input_ref=of, temporal_relation=relation, temporal_literal=time)
            case Count(operand):
                return step(tools.COUNT, input_ref=result(operand))

    result(expression)
    return found


# Loads N-Triples or N-Quads into a store; lines that cannot be used are named and counted.


MAX_LINE_BYTES = 100_000
MAX_BYTES = 20_000_000_000
"""The maximum total size of a graph's files in bytes, after unpacking."""
MAX_REMARKS = 1_000
"""The maximum number of lines named in `remarks`. Further lines are only counted."""
_TOGETHER = 10_000  # number of lines that are parsed together


@dataclass
class Read:
    """A count of the facts read from files, and of the lines that were left out.

    Attributes:
        facts: the number of facts read, including repeated facts.
        skipped: the number of lines left out.
        remarks: file, line and reason for the first thousand lines that were left out.
    """

    facts: int = 0
    skipped: int = 0
    remarks: list[Skipped] = field(default_factory=list)

    def leave_out(self, path: Path, line: int, reason: str) -> None:
        """Record a line that cannot be used."""
        self.skipped += 1
        if len(self.remarks) < MAX_REMARKS:
            self.remarks.append(Skipped(f"{path.name}:{line}", reason))


def in_memory(*paths: Path) -> tuple[ox.Store, Read]:
    """A store in memory with the facts from files, and the count of facts; raises the errors of `fill`."""
    store = ox.Store()
    return store, fill(store, *paths)


def on_disk(folder: Path, *paths: Path) -> Read:
    """Create a store in a new or empty folder.

    Afterwards many processes may read the store at the same time (`opened`).

    Raises:
        DataError: the folder is not empty or cannot be written to, or `fill` raises this error.
        OSError: writing to the store fails later, for example because the disk is full.
    """
    try:
        if folder.exists() and any(folder.iterdir()):
            raise DataError(folder, None, "a store cannot be made in this folder, because the folder is not empty")
        store = ox.Store(folder)
    except OSError as error:
        raise DataError(folder, None, f"a store cannot be made in this folder: {error}") from None
    read = fill(store, *paths)
    store.optimize()
    store.flush()
    return read


def opened(folder: Path) -> ox.Store:
    """A store on disk, opened read-only; raises DataError if the folder has no store."""
    try:
        return ox.Store.read_only(str(folder))
    except OSError as error:
        raise DataError(folder, None, f"the folder does not have the store of a graph: {error}") from None


def fill(store: ox.Store, *paths: Path) -> Read:
    """Put the facts of N-Triples or N-Quads files into a store, one per line; `.gz` is unpacked.

    A line is left out and counted in `skipped` (the first thousand such lines are named in `remarks`) in four cases: it
    cannot be parsed; it has more than MAX_LINE_BYTES bytes; it has a node without an IRI; or it has a literal that is
    not valid for its datatype (a 13th month, for example). Empty lines and comments are not counted.

    Raises:
        DataError: a file cannot be read, or the files are too large once unpacked.
        OSError: the store cannot be written to.
    """
    read = Read()
    store.bulk_extend(_Files(paths, read).quads())
    return read


class _Lines(Protocol):
    def readline(self, size: int, /) -> bytes: ...


class _Files:
    def __init__(self, paths: Iterable[Path], read: Read) -> None:
        self._paths, self._read = paths, read
        self._bytes = 0

    def quads(self) -> Iterator[ox.Quad]:
        for path in self._paths:
            try:
                with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                    yield from self._of(path, file)
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(path, None, f"cannot be read: {error}") from None

    def _of(self, path: Path, file: _Lines) -> Iterator[ox.Quad]:
        lines = self._lines(path, file)
        while some := list(islice(lines, _TOGETHER)):
            try:
                quads = list(_parsed(b"\n".join(line for _, line in some)))
            except (SyntaxError, ValueError):
                quads = list(self._one_by_one(path, some))
            else:
                if any(map(_wrong, quads)):
                    quads = list(self._one_by_one(path, some))
            self._read.facts += len(quads)
            yield from quads

    def _one_by_one(self, path: Path, lines: Iterable[tuple[int, bytes]]) -> Iterator[ox.Quad]:
        for number, line in lines:
            try:
                quads = list(_parsed(line))
                wrong = next(filter(None, map(_wrong, quads)), None)
            except (SyntaxError, ValueError) as error:
                wrong = str(error)
            if wrong is None:
                yield from quads
            else:
                self._read.leave_out(path, number, wrong)

    def _lines(self, path: Path, file: _Lines) -> Iterator[tuple[int, bytes]]:
        """The lines that are not too long, each with its number (from 1)."""
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
            self._count(path, len(line))
            if len(line) > MAX_LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES + 1)
                    self._count(path, len(line))
                self._read.leave_out(path, number, f"the line has more than {MAX_LINE_BYTES:,} bytes")
            else:
                yield number, line

    def _count(self, path: Path, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            raise DataError(path, None, f"the graph's files have more than {MAX_BYTES:,} bytes unpacked")


def _parsed(lines: bytes) -> Iterator[ox.Quad]:
    return ox.parse(input=lines, format=ox.RdfFormat.N_QUADS)  # every N-Triples line is also valid N-Quads


def _wrong(quad: ox.Quad) -> str | None:
    """The reason why a fact cannot be used; None if it can be used."""
    if isinstance(quad.subject, ox.NamedNode):
        if isinstance(quad.object, ox.Literal):
            return None if quad.object.language else wrong(quad.object.value, quad.object.datatype.value)
        if isinstance(quad.object, ox.NamedNode):
            return None
    return "a node has no IRI"
