"""What the rules look at: the reference's calls of a case, and the decisions on a cell's final path."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from grid.core.types import FINISH, GIVE_UP, NO_TOOL, REJECT, to_json
from grid.core.untrusted import loads
from grid.text import references
from grid.text.references import PATTERN
from grid.worlds import equivalence

NO_RETRIEVAL, WRONG_TOOL, WRONG_ARGUMENT = "no_retrieval", "wrong_tool", "wrong_argument"
MISSING, REDUNDANT, GAVE_UP = "missing_call", "redundant_call", "gave_up"
UNREADABLE, BUDGET, CASCADE, ERROR, UNKNOWN = "unreadable", "budget", "cascade", "error", "unknown"
CLASSES = (
    NO_RETRIEVAL, WRONG_TOOL, WRONG_ARGUMENT, MISSING, REDUNDANT, GAVE_UP, UNREADABLE, BUDGET, CASCADE, ERROR, UNKNOWN,
)  # fmt: skip
"""All classes, in the order in which tables and figures show them."""
VALUE, SOURCE, FORMAT = "value", "source", "format"
"""What is wrong with an argument."""
_NO_CALLS = frozenset({NO_TOOL, FINISH, GIVE_UP, REJECT})

Arguments = Mapping[str, Any]


@dataclass(slots=True)
class Fault:
    """One thing that went wrong. `detail` begins with the sub-kind, where the class has any.

    `step` is `steps.step` of the decision, None where it belongs to none. `harmless`: it may have cost nothing, as a
    call too many does where tools only look things up, so that it is the first fault only where there is no other.
    `place` orders faults.
    """

    kind: str
    detail: str | None = None
    step: int | None = None
    harmless: bool = False
    place: float = 0.0


class Wanted:
    """One call of the reference: the place in its order, the substep's id, the tool (None: no call) and arguments."""

    __slots__ = ("_arguments", "_read", "_sources", "id", "place", "text", "tool")

    def __init__(self, place: int, identity: str, tool: str | None, arguments: str | None) -> None:
        self.place, self.id, self.tool = place, identity, tool
        self.text = f'{{"tool": {to_json(tool)}, "arguments": {arguments}}}' if tool is not None else None
        self._arguments: Arguments | None = None
        self._sources: tuple[str, ...] | None = None
        self._read = arguments

    @property
    def sources(self) -> tuple[str, ...]:
        """The substeps whose results it takes."""
        if self._sources is None:
            self._sources = tuple(step for step, _ in PATTERN.findall(self._read or ""))
        return self._sources

    @property
    def arguments(self) -> Arguments:
        """Empty where they cannot be read."""
        if self._arguments is None:
            self._arguments = read_object(self._read) or {}
        return self._arguments


@dataclass(frozen=True)
class Reference:
    """The calls that resolve a case. `followed`: planners are given its substeps, one decision each."""

    wanted: Sequence[Wanted]
    followed: bool
    ordered: bool = True

    @cached_property
    def calls(self) -> Sequence[Wanted]:
        """Those that call a tool."""
        return [one for one in self.wanted if one.tool is not None]

    @cached_property
    def by_id(self) -> Mapping[str, Wanted]:
        """By the substep's id."""
        return {one.id: one for one in self.wanted}


NOTHING = Reference((), followed=False)


class Taken:
    """One decision on the path, as `steps` has it; texts are read when they are asked for."""

    __slots__ = (
        *("_arguments", "_outcome", "_read", "_written", "arguments_text", "asked", "failed", "id", "observed"),
        *("offered", "step", "tool", "written_text"),
    )

    def __init__(
        self,
        step: int,
        identity: str,
        tool: str | None,
        written: str | None = None,
        arguments: str | None = None,
        observed: str | None = None,
        failed: bool | None = None,
        offered: bool | None = None,
        asked: bool = True,
    ) -> None:
        """`offered`: whether the reference's tool of this substep was; None where that is not known.

        `asked`: whether the model was asked for this decision, rather than for one before it and this in one answer.
        """
        self.step, self.id, self.tool = step, identity, tool
        self.written_text, self.arguments_text, self.observed = written, arguments, observed
        self.failed, self.offered, self.asked = failed, offered, asked
        self._read = 0
        self._written: Arguments | None = None
        self._arguments: Arguments | None = None
        self._outcome: Arguments | None = None

    @property
    def calls(self) -> bool:
        """Whether it called a tool."""
        return self.tool is not None and self.tool not in _NO_CALLS

    @property
    def written(self) -> Arguments | None:
        """The arguments as the model wrote them, with references; None where they cannot be read."""
        if not self._read & 1:
            self._read |= 1
            found = read_object(self.written_text)
            own = None if found is None else found.get("arguments")
            self._written = own if isinstance(own, dict) else None
        return self._written

    @property
    def run(self) -> Arguments:
        """The arguments as the call was run, or as they were written where it was not."""
        if not self._read & 2:
            self._read |= 2
            self._arguments = read_object(self.arguments_text)
        return self.written or {} if self._arguments is None else self._arguments

    @property
    def outcome(self) -> Arguments:
        """The fields of what the call returned; none where it failed."""
        if not self._read & 4:
            self._read |= 4
            self._outcome = None if self.failed else read_object(self.observed)
        return self._outcome or {}


@dataclass(slots=True)
class Cell:
    """A failed cell: how it ended, its final path in order, and its case's reference.

    `looked_up`: its tools look calls up in a table of the reference's, so that a call that failed is one that the
    scorer does not accept, and any other is one that it does. `at_once`: all decisions came in one answer, and its
    entries need not stand at the substeps that they are for. `cut`: the path has as many decisions as the planner may
    take. `searched`: the path is one of a tree's. `retrieved` is the share of the reference's tools that were offered,
    where no outline is followed.
    """

    reference: Reference
    path: Sequence[Taken]
    status: str = "ok"
    error_kind: str | None = None
    error_message: str | None = None
    budget_reached: str | None = None
    looked_up: bool = False
    at_once: bool = False
    cut: bool = False
    searched: bool = False
    refused: bool = False
    unsolvable: bool = False
    behaviour: str | None = None
    plan_errors: Sequence[str] | None = None
    retrieved: float | None = None


def read_object(text: str | None) -> Any:
    """The object that a column holds; None where it holds none, or one that was cut to fit."""
    if text is None:
        return None
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# What was told of a folder's failed cells, kept beside them: under the digest of the rules that told it.
#
# A cell's rows never change under one `attempt_id`, so that what was told of it stays true. Whoever cannot write goes
# without; of two who write at once the last one's file stays, whole.


FOLDER = ".failures"
"""In a results folder; no table's, so that the store does not look at it."""
SCHEMA = pa.schema(
    [
        ("cell_id", pa.string()),
        ("failure", pa.string()),
        ("failure_detail", pa.string()),
        ("failure_step", pa.int32()),
        ("failures", pa.list_(pa.string())),
        ("attempt_id", pa.string()),
    ]
)
_KEY = ["cell_id", "attempt_id"]
_RULES = ("cells", "read", "rules", "values")


def known(root: Path) -> pa.Table:
    """What these rules told before; empty where nothing is kept, or it cannot be read."""
    try:
        found = pq.read_table(root / FOLDER / f"{rules()}.parquet", page_checksum_verification=True)
    except (OSError, pa.ArrowException):
        return SCHEMA.empty_table()
    return found if found.schema.equals(SCHEMA) else SCHEMA.empty_table()


def unknown(failed: pa.Table, known: pa.Table) -> pa.Table:
    """The rows of which nothing is known yet, in their order."""
    return failed.filter(pc.invert(pc.is_in(_names(failed), _names(known)))) if known.num_rows else failed


def joined(failed: pa.Table, known: pa.Table, fresh: pa.Table) -> pa.Table:
    """For each row of `failed` what is told of it, in their order."""
    if not known.num_rows:
        return fresh
    told = pa.concat_tables([known, fresh])
    return told.take(pc.index_in(_names(failed), _names(told)))


def keep(root: Path, table: pa.Table) -> None:
    """Keep what was told, and nothing that other rules did; nothing happens where it cannot be written."""
    folder, name = root / FOLDER, f"{rules()}.parquet"
    draft = folder / f".{uuid.uuid4().hex}"
    try:
        folder.mkdir(exist_ok=True)
        pq.write_table(table, draft, compression="zstd", write_page_checksum=True)
        os.replace(draft, folder / name)
        for other in folder.iterdir():
            if other.suffix == ".parquet" and other.name != name:
                other.unlink(missing_ok=True)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


@cache
def rules() -> str:
    """Sixteen hexadecimal digits of the code that tells classes."""
    own = (Path(__file__).with_name(f"{name}.py") for name in _RULES)
    files = [*own, *(Path(module.__file__) for module in (equivalence, references) if module.__file__)]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _names(table: pa.Table) -> pa.ChunkedArray:
    """Cell and try as one text."""
    return pc.binary_join_element_wise(*(table[name] for name in _KEY), "/")
