"""The input of the rules (reference and path of a cell), the stored classes, and the kinds of wrong arguments."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from grid.core.places import beside, hand_over, readable
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, REJECT, to_json
from grid.core.untrusted import loads
from grid.text import references
from grid.text.references import PATTERN
from grid.worlds import equivalence
from grid.worlds.equivalence import equivalent

NO_RETRIEVAL, WRONG_TOOL, WRONG_ARGUMENT = "no_retrieval", "wrong_tool", "wrong_argument"
MISSING, REDUNDANT, GAVE_UP = "missing_call", "redundant_call", "gave_up"
UNREADABLE, BUDGET, CASCADE, ERROR, UNKNOWN = "unreadable", "budget", "cascade", "error", "unknown"
CLASSES = (
    NO_RETRIEVAL, WRONG_TOOL, WRONG_ARGUMENT, MISSING, REDUNDANT, GAVE_UP, UNREADABLE, BUDGET, CASCADE, ERROR, UNKNOWN,
)  # fmt: skip
"""All classes, in the order in which tables and figures show them."""
VALUE, SOURCE, FORMAT = "value", "source", "format"
"""The ways in which an argument can be wrong."""
_NO_CALLS = frozenset({NO_TOOL, FINISH, GIVE_UP, REJECT})

Arguments = Mapping[str, Any]


@dataclass(slots=True)
class Fault:
    """One thing that went wrong; `detail` starts with the sub-kind if the class has sub-kinds.

    `step` is the decision's `steps.step`, None if the fault belongs to no decision. `harmless` is true if the fault may
    have done no harm, for example a superfluous call of a tool that only looks things up; such a fault gives the cell's
    class only if there is no other fault. Faults are sorted by `place`.
    """

    kind: str
    detail: str | None = None
    step: int | None = None
    harmless: bool = False
    place: float = 0.0


class Wanted:
    """One step of the reference: its place in the order, its substep's id, its tool (None: no call) and arguments."""

    __slots__ = ("_arguments", "_read", "_sources", "id", "place", "text", "tool")

    def __init__(self, place: int, identity: str, tool: str | None, arguments: str | None) -> None:
        self.place, self.id, self.tool = place, identity, tool
        self.text = f'{{"tool": {to_json(tool)}, "arguments": {arguments}}}' if tool is not None else None
        self._arguments: Arguments | None = None
        self._sources: tuple[str, ...] | None = None
        self._read = arguments

    @property
    def sources(self) -> tuple[str, ...]:
        """The substeps whose results the call uses."""
        if self._sources is None:
            self._sources = tuple(step for step, _ in PATTERN.findall(self._read or ""))
        return self._sources

    @property
    def arguments(self) -> Arguments:
        """The arguments; empty if they cannot be read."""
        if self._arguments is None:
            self._arguments = read_object(self._read) or {}
        return self._arguments


@dataclass(frozen=True)
class Reference:
    """The calls that resolve a case; if `followed`, planners get the reference's substeps and decide once for each."""

    wanted: Sequence[Wanted]
    followed: bool
    ordered: bool = True

    @cached_property
    def calls(self) -> Sequence[Wanted]:
        """The reference's steps that call a tool."""
        return [one for one in self.wanted if one.tool is not None]

    @cached_property
    def by_id(self) -> Mapping[str, Wanted]:
        """The reference's steps, by the id of their substep."""
        return {one.id: one for one in self.wanted}


NOTHING = Reference((), followed=False)


def asked_for(ids: Sequence[str], horizon: int | None, first: str | None) -> slice:
    """The part of a reference that a planner was asked to predict, as the metrics count it.

    A case with a horizon may begin after some of its reference's calls, and only the next `horizon` calls count. The
    decisions' ids continue those of the calls that were already made, so the part begins at the id of the episode's
    first decision. Without such a decision, or without a horizon (whole plans), it is the whole reference.

    Args:
        ids: the ids of the reference's steps (`cases.calls.substep_id`), in order.
        horizon: `episodes.horizon_k`.
        first: the first decision's `steps.substep_id`.
    """
    if horizon is None or first not in ids:
        return slice(None)
    begun = ids.index(first)
    return slice(begun, begun + horizon)


class Taken:
    """One decision on the path, as stored in `steps`; texts are parsed only when needed."""

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
        """`offered`: whether the reference's tool of this substep was offered; None if that is not known.

        `asked`: whether the model was asked for this decision separately; False if it came in one answer with an
        earlier decision.
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
        """Whether the decision called a tool."""
        return self.tool is not None and self.tool not in _NO_CALLS

    @property
    def written(self) -> Arguments | None:
        """The arguments as the model wrote them, with references; None if they cannot be read."""
        if not self._read & 1:
            self._read |= 1
            found = read_object(self.written_text)
            own = None if found is None else found.get("arguments")
            self._written = own if isinstance(own, dict) else None
        return self._written

    @property
    def run(self) -> Arguments:
        """The arguments with which the call was run; if these are not known, the arguments as they were written.

        They are empty if neither can be read.
        """
        if not self._read & 2:
            self._read |= 2
            self._arguments = read_object(self.arguments_text)
        return self.written or {} if self._arguments is None else self._arguments

    @property
    def outcome(self) -> Arguments:
        """The fields of the call's result; empty if the call failed, or if its result is not known or has no fields."""
        if not self._read & 4:
            self._read |= 4
            self._outcome = None if self.failed else read_object(self.observed)
        return self._outcome or {}


@dataclass(slots=True)
class Cell:
    """A failed cell: how it ended, its final path in order, and its case's reference.

    `looked_up` is true if the case's tools look calls up in a table of the reference's calls; the scorer then rejects
    failed calls and accepts all others. `at_once` is true if all decisions came in one answer, whose entries may stand
    at substeps other than the intended ones. `cut` is true if no outline is followed and the path has as many decisions
    as the planner may make, and `searched` if the path is from a search tree. `retrieved` is the share of the
    reference's list of tools that was offered, if no outline is followed.
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
    """The object in a column's text; None if there is none, for example because the text was cut to fit."""
    if text is None:
        return None
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# The classes of a folder's failed cells, stored in the folder under the digest of the rules that gave them.
#
# The rows of an `attempt_id` never change, so a cell's classes stay valid. A process that cannot write does not store
# classes. If two processes write at once, the complete file of the last one remains.


FOLDER = ".failures"
"""The folder of classes within a results folder; the store ignores it, because its name is not that of a table."""
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
_RULES = ("failure_cells", "failed", "failure_rules")


def known(root: Path) -> pa.Table:
    """The stored classes of the current rules; empty if none are stored, or if they cannot be read."""
    try:
        path = root / FOLDER / f"{rules()}.parquet"
        found = pq.read_table(readable(path), page_checksum_verification=True)
    except (OSError, pa.ArrowException):
        return SCHEMA.empty_table()
    return found if found.schema.equals(SCHEMA) else SCHEMA.empty_table()


def unknown(failed: pa.Table, known: pa.Table) -> pa.Table:
    """The rows whose class is not known yet, in the same order."""
    return failed.filter(pc.invert(pc.is_in(_names(failed), _names(known)))) if known.num_rows else failed


def joined(failed: pa.Table, known: pa.Table, fresh: pa.Table) -> pa.Table:
    """The classes of each row of `failed`, in the order of these rows; `fresh` are those of the `unknown` rows."""
    if not known.num_rows:
        return fresh
    told = pa.concat_tables([known, fresh])
    return told.take(pc.index_in(_names(failed), _names(told)))


def keep(root: Path, table: pa.Table) -> None:
    """Store these classes, and remove the classes of other rules; do nothing if the classes cannot be written."""
    folder, name = root / FOLDER, f"{rules()}.parquet"
    draft = beside(root) / FOLDER / f".{uuid.uuid4().hex}"
    try:
        draft.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, draft, compression="zstd", write_page_checksum=True)
        hand_over(draft, folder / name)
        for other in folder.iterdir():
            if other.suffix == ".parquet" and other.name != name:
                other.unlink(missing_ok=True)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


@cache
def rules() -> str:
    """Sixteen hexadecimal digits that identify the code which determines classes."""
    own = (Path(__file__).with_name(f"{name}.py") for name in _RULES)
    files = [*own, *(Path(module.__file__) for module in (equivalence, references) if module.__file__)]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:16]


def _names(table: pa.Table) -> pa.ChunkedArray:
    """The ids of cell and attempt, joined into one text."""
    return pc.binary_join_element_wise(*(table[name] for name in _KEY), "/")


# Kinds of wrong arguments: wrong in their value, in their source, or only in their format.


_OPEN = re.compile(r"<[^<>]*>")
_WORDS = re.compile(r"[^\W_]+")
_MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august",
         "sep sept september", "oct october", "nov november", "dec december"), 1)
    for name in names.split()
}  # fmt: skip
_FILLERS = frozenset({"the", "a", "an", "of", "and", "in", "at", "on", "to", "for"})
_SHOWN = 48  # maximum length of a value in a detail, in characters
_LONGEST = 2_000  # maximum length of the start of a value whose words are compared


class Wrong(NamedTuple):
    """One wrong argument: its kind (VALUE, SOURCE or FORMAT), a short text, and the results that it should use."""

    kind: str
    text: str
    needs: frozenset[str] = frozenset()


def wrong_arguments(wanted: Wanted, taken: Taken, standing: Mapping[str, Taken], looked_up: bool) -> list[Wrong]:
    """The wrong arguments of a call of the right tool, in the reference's order; empty if none is wrong.

    They are also empty if the arguments that the model wrote cannot be read. An argument is not wrong if the scorer
    accepts it: if it means the same by the scorer's rules (`grid.worlds.equivalence`), refers to the same result, or,
    if calls are looked up, is left open by a placeholder of the reference. Arguments that the reference does not have
    come last; they are wrong unless the call is known to have succeeded. If a call failed although no argument is
    wrong, and calls are not looked up, every constant that is written differently counts as wrong in its format.
    `standing` maps substeps of the reference to the decisions that correspond to them, if there are such decisions.
    """
    written = taken.written
    if written is None:
        return []
    found = [
        wrong
        for name, value in wanted.arguments.items()
        if not (looked_up and is_open(name, value)) and (wrong := _wrong(name, value, written, taken.run, standing))
    ]
    accepted = taken.failed is False
    if not accepted:
        more = [name for name, value in written.items() if name not in wanted.arguments and value not in (None, "")]
        found += [Wrong(FORMAT, f"gives {name:.40}, which the reference does not") for name in more]
    if not found and taken.failed and not looked_up:
        found = [
            Wrong(FORMAT, f"{name:.40}={_shown(written[name])} for {_shown(value)}")
            for name, value in wanted.arguments.items()
            if name in written and not PATTERN.search(to_json(value)) and written[name] != value
        ]
    return found


def first_wrong(wrongs: list[Wrong]) -> tuple[str, str]:
    """The kind of error of a call with wrong arguments (at least one), and the first text of this kind.

    If there are several kinds, VALUE comes first, then SOURCE, then FORMAT.
    """
    kind = next(kind for kind in (VALUE, SOURCE, FORMAT) if any(wrong.kind == kind for wrong in wrongs))
    return kind, next(wrong.text for wrong in wrongs if wrong.kind == kind)


def _wrong(
    name: str,
    value: Any,
    written: Mapping[str, Any],
    run: Mapping[str, Any],
    standing: Mapping[str, Taken],
) -> Wrong | None:
    if name not in written:
        return Wrong(FORMAT, f"lacks {name:.40}", frozenset(step for step, _ in sources_of(value)))
    given, real = written[name], run.get(name, written[name])
    if given == value and not isinstance(value, str | list | dict):
        return None
    wanted_sources, sources = sources_of(value), sources_of(given)
    if not (wanted_sources or sources):
        return _constant(name, value, given)
    expected = _resolved(value, standing) if wanted_sources else value
    if not sources_of(expected) and equivalent(expected, real, name):
        return None
    needs = frozenset(step for step, _ in wanted_sources)
    if wanted_sources and sources:
        mapped = [(own.id, part) for step, part in wanted_sources if (own := standing.get(step))]
        if Counter(mapped) == Counter(sources) or Counter(wanted_sources) == Counter(sources):
            same = _rest(value) == _rest(given)
            return None if same else Wrong(VALUE, f"{name:.40}={_shown(given)} for {_shown(value)}", needs)
        return Wrong(SOURCE, f"{name:.40} refers to {_named(sources)}, not {_named(wanted_sources)}", needs)
    if wanted_sources:
        return Wrong(SOURCE, f"{name:.40}={_shown(given)}, not the result {_named(wanted_sources)}", needs)
    return Wrong(SOURCE, f"{name:.40} refers to {_named(sources)}, not {_shown(value)}")


def _constant(name: str, value: Any, given: Any) -> Wrong | None:
    if equivalent(value, given, name):
        return None
    kind = FORMAT if same_content(value, given) else VALUE
    return Wrong(kind, f"{name:.40}={_shown(given)} for {_shown(value)}")


def is_open(name: str, value: Any) -> bool:
    """Whether the reference leaves an argument open: a placeholder like `<booking number>` or the argument's name."""
    if not isinstance(value, str):
        return False
    return bool(_OPEN.search(value)) or (value != "" and _squeezed(value) == _squeezed(name))


def same_content(value: Any, given: Any) -> bool:
    """Whether two values have the same content: the same words and numbers, in any order and nesting."""
    mine, its = _content(value), _content(given)
    return bool(mine) and mine == its


def _content(value: Any) -> Counter[str]:
    """The words and numbers of a value, without the keys of objects."""
    found: Counter[str] = Counter()
    pending = [value]
    for part in pending:  # the list grows during the loop
        if isinstance(part, dict):
            pending += part.values()
        elif isinstance(part, list):
            pending += part
        elif part is not None:
            found.update(_word(word) for word in _WORDS.findall(str(part)[:_LONGEST].casefold()))
    for filler in _FILLERS:
        del found[filler]
    return found


def _word(word: str) -> str:
    if word in _MONTHS:
        return str(_MONTHS[word])
    return word.lstrip("0") or "0" if word.isdecimal() else word


def sources_of(value: Any) -> list[tuple[str, str]]:
    """The results that a value refers to, each as (step, field)."""
    if not isinstance(value, str | list | dict):
        return []
    text = value if isinstance(value, str) else to_json(value)
    return PATTERN.findall(text) if "OUTPUT_FROM" in text else []


def _resolved(value: Any, standing: Mapping[str, Taken]) -> Any:
    """A value of the reference's call, with step references replaced by the path's results for these steps."""
    if isinstance(value, list):
        return [_resolved(item, standing) for item in value]
    if isinstance(value, dict):
        return {name: _resolved(item, standing) for name, item in value.items()}
    if not isinstance(value, str):
        return value

    def result(step: str, field: str) -> Any:
        return standing[step].outcome.get(field) if step in standing else None

    whole = PATTERN.fullmatch(value)
    if whole:
        found = result(whole[1], whole[2])
        return value if found is None else found

    def within(match: re.Match[str]) -> str:
        found = result(match[1], match[2])
        return match[0] if found is None else found if isinstance(found, str) else to_json(found)

    return PATTERN.sub(within, value)


def _rest(value: Any) -> Counter[str]:
    """The content of a value, without its references to results."""
    return _content(PATTERN.sub(" ", value if isinstance(value, str) else to_json(value)))


def _named(sources: list[tuple[str, str]]) -> str:
    return ", ".join(f"{step}.{field}" for step, field in sources)[:80]


def _squeezed(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _shown(value: Any) -> str:
    text = " ".join(to_json(value).split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
