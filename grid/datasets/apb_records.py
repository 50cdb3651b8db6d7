"""The released JSON Lines: which records can be cases, and why the others cannot.

Fields whose names end in `_json` contain JSON text; a value that is already parsed is used as it is. A record's task is
derived from its content, not from the name of its split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from grid.core.errors import DataError
from grid.core.types import (
    FINISH,
    GIVE_UP,
    NO_TOOL,
    REJECT,
    RESULT,
    Family,
    Json,
    Observation,
    Parameter,
    Skipped,
    Stage,
    Step,
    Substep,
    TaskKind,
    ToolCall,
    ToolSpec,
)
from grid.core.untrusted import loads_storable
from grid.datasets.dataset import UnusableError
from grid.datasets.files import MAX_LINE_BYTES
from grid.datasets.grading import children, described, listed, type_of
from grid.text.objects import MAX_DEPTH, depth

MOST_FIELD = 1_000_000
"""Maximum length of a field, in characters."""
MOST_FILES = 64
MOST_STEPS = 8
"""Maximum number of steps to predict."""
_PICTURES = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".svg", ".heic"), "image"),
    **dict.fromkeys((".mp4", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".flv"), "video"),
    **dict.fromkeys((".mp3", ".wav", ".flac", ".ogg", ".m4a"), "recording"),
}
_KINDS = (
    (("visual", "image", "video", "attachment", "multimodal"), "attachment_missing"),
    (("tool", "capabilit"), "tool_removal"),
    (("contradict", "constraint", "conflict", "compliance"), "contradictory_constraints"),
    (("info", "missing", "context"), "missing_information"),
)
"""Words in the released names that identify a kind of unsolvable request (§B.4.3), and our name for the kind."""


@dataclass(frozen=True)
class Record:
    """A case: the query with the names of its files, its tools, and the facts that only a judge may know.

    `reference` has the known solution's calls after `done`, and is empty if nothing solves the case. `split` and
    `source` are as released.
    """

    query: str
    kind: TaskKind
    tools: Mapping[str, ToolSpec]
    reference: tuple[ToolCall, ...]
    done: tuple[Step, ...] = ()
    extraneous: tuple[str, ...] = ()
    broken: str | None = None
    replacement: str | None = None
    costs: Mapping[str, int] = field(default_factory=dict)
    split: str = ""
    source: str = ""


def read(files: Mapping[str, Path]) -> tuple[dict[str, Record], list[Skipped]]:
    """The records by id, and the skipped records with file, line and reason.

    Raises:
        DataError: a file cannot be read.
    """
    records: dict[str, Record] = {}
    skipped: list[Skipped] = []
    for name, path in files.items():
        for number, row in _rows(path):
            place = f"{name}:{number}"
            if isinstance(row, str):
                skipped.append(Skipped(place, row))
                continue
            try:
                case_id = _id(row)
                need(case_id not in records, f"another record has the id {case_id!r:.60}")
                records[case_id] = record_of(row)
            except UnusableError as error:
                skipped.append(Skipped(place, str(error)))
    return records, skipped


def record_of(row: Mapping[str, Any]) -> Record:
    """A record as a case. Raises UnusableError if the record cannot be a case."""
    query = row.get("query")
    need(isinstance(query, str) and query.strip(), "the query is missing or empty")
    need(len(str(query)) <= MOST_FIELD, f"the query has more than {MOST_FIELD:,} characters")
    tools, costs = tools_of(_value(row, "tools"))
    extraneous = _names(row, "extraneous_tool_names")
    need(all(name in tools for name in extraneous), "an extraneous tool is not in the record's list of tools")
    broken, replacement = _text(row, "broken_tool_name"), None
    if broken is not None:
        spec, cost = tool_of(_first(_value(row, "replacement_tool")))
        need(
            tools.setdefault(spec.name, spec) == spec,
            "the replacement has the name of another tool, but a different definition",
        )
        replacement, costs = spec.name, costs | ({} if cost is None else {spec.name: cost})
    done = prefix_of(_value(row, "trajectory_prefix"), broken)
    kind, reference = _kind(row, done, extraneous, broken, bool(costs)), _reference(row, done)
    if kind.task_family == "unsolvable":
        reference = ()
    need(
        all(call.tool in tools for call in reference),
        "the solution calls a tool that is not in the record's list of tools",
    )
    return Record(
        _with_files(str(query).strip(), _value(row, "files")), kind, dict(sorted(tools.items())), reference, done,
        extraneous, broken, replacement, costs, str(row.get("split") or "")[:100],
        "/".join(filter(None, (_text(row, "source"), _text(row, "source_subset")))),
    )  # fmt: skip


def _kind(
    row: Mapping[str, Any], done: tuple[Step, ...], extraneous: tuple[str, ...], broken: str | None, costs: bool
) -> TaskKind:
    unsolvable, horizon = _text(row, "unsolvable_type"), _horizon(row)
    family: Family = "holistic"
    if broken is not None:
        family, horizon = "broken", horizon or 1
        need(
            done and done[-1].call and done[-1].call.tool == broken,
            "the prefix does not end with a call of the broken tool",
        )
    elif unsolvable is not None:
        family, horizon = "unsolvable", None
    elif extraneous:
        family = "extraneous"
    elif costs:
        family = "costs"
    elif horizon is not None or done:
        family = "stepwise"
    if horizon is None and done and family in ("stepwise", "extraneous"):
        raise UnusableError("the record has a prefix but no prediction_horizon, the number of steps to predict")
    return TaskKind(
        family,
        _text(row, "task_category") or "",
        horizon,
        _stage(row, len(done)) if horizon is not None else None,
        len(extraneous) or None,
        None if unsolvable is None else _unsolvable(unsolvable),
    )


def _unsolvable(name: str) -> str:
    found = next((kind for words, kind in _KINDS if any(word in name.casefold() for word in words)), None)
    if found is None:
        raise UnusableError(f"the unsolvable_type is not known: {name!r:.60}")
    return found


def _horizon(row: Mapping[str, Any]) -> int | None:
    """The number of steps to predict; None for whole plans."""
    found = row.get("prediction_horizon")
    if isinstance(found, str) and re.fullmatch(r"\s*-?[0-9]{1,9}\s*", found):
        found = int(found)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if found is None or found in ("", 0, -1):
        return None
    need(isinstance(found, int) and not isinstance(found, bool) and 1 <= found <= MOST_STEPS,
         f"the prediction_horizon is not a whole number from 1 to {MOST_STEPS}")  # fmt: skip
    return int(found)


def _stage(row: Mapping[str, Any], done: int) -> Stage | None:
    """The third of the whole trajectory in which the prediction begins (figure 6); None if the length is unknown."""
    left = calls_of(_value(row, "reference_remaining_steps"))
    if not left:
        return None
    place = done / (done + len(left))
    return "early" if place < 1 / 3 else "middle" if place < 2 / 3 else "late"


def _reference(row: Mapping[str, Any], done: tuple[Step, ...]) -> tuple[ToolCall, ...]:
    """The calls after the prefix: the record's steps to predict, its remaining steps, or the rest of its solution.

    The first of these three that the record has is used.
    """
    for name in ("ground_truth_steps", "reference_remaining_steps"):
        found = calls_of(_value(row, name))
        if found:
            return found
    return chain_calls(_value(row, "tool_chain"))[len(done) :]


def _with_files(query: str, files: Any) -> str:
    """The query with the names of its files. Raises UnusableError for images, videos and recordings."""
    rows = files if isinstance(files, list) else [] if files in (None, "") else [files]
    need(len(rows) <= MOST_FILES, f"the record has more than {MOST_FILES} files")
    names: list[str] = []
    for row in rows:
        name = next((row[key] for key in ("name", "path", "file", "url") if row.get(key)), None) \
            if isinstance(row, dict) else row  # fmt: skip
        need(isinstance(name, str) and name.strip(), "a file has no name")
        kind = _PICTURES.get(PurePosixPath(str(name).split("?")[0].lower()).suffix)
        told = str(row.get("type") or row.get("mime_type") or "") if isinstance(row, dict) else ""
        kind = kind or next((one for one in ("image", "video", "audio") if told.lower().startswith(one)), None)
        need(kind is None, f"the record has {_article(kind)} ({name!s:.80}), which no engine here accepts")
        names.append(str(name)[:500])
    return f"{query}\nFiles: {', '.join(names)}" if names else query


def _article(kind: str | None) -> str:
    return f"{'an' if (kind or '')[:1] in 'aeiou' else 'a'} {kind}"


def _value(row: Mapping[str, Any], name: str) -> Any:
    """The value of the field NAME_json, or NAME; None if the record has neither. Raises UnusableError."""
    key = next((key for key in (f"{name}_json", name) if row.get(key) not in (None, "")), None)
    if key is None:
        return None
    found = row[key]
    if isinstance(found, str) and (key.endswith("_json") or found.lstrip()[:1] in ("[", "{")):
        need(len(found) <= MOST_FIELD, f"{key} has more than {MOST_FIELD:,} characters")
        try:
            found = loads_storable(found)
        except (ValueError, RecursionError) as error:
            raise UnusableError(f"{key} is broken JSON: {error}") from None
    need(depth(found) <= MAX_DEPTH, f"{key} is nested more than {MAX_DEPTH} levels deep")
    return found


def _names(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    found = _value(row, name)
    need(found is None or (isinstance(found, list) and all(isinstance(one, str) for one in found)),
         f"{name} is not a list of names")  # fmt: skip
    return tuple(dict.fromkeys(found or ()))


def _text(row: Mapping[str, Any], name: str) -> str | None:
    """A field's text; None if the text is empty or a word that stands for no text, such as `null`."""
    found = row.get(name)
    need(found is None or isinstance(found, str), f"{name} is not a text")
    text = str(found or "").strip()[:500]
    return None if text.casefold() in ("", "none", "null", "n/a") else text


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _id(row: Mapping[str, Any]) -> str:
    found = row.get("id")
    need(isinstance(found, str | int) and not isinstance(found, bool) and 0 < len(str(found).strip()) <= 200,
         "the record has no id of 1 to 200 characters")  # fmt: skip
    return f"apb-{str(found).strip()}"


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """A pair (line number, object) for every line that is not blank.

    If a line is not an object, its pair has a reason in place of the object.
    """
    try:
        with path.open("rb") as file:
            long = False
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
                ended = line.endswith(b"\n")
                if long:  # the rest of an overlong line, which `number` counts as more lines
                    long = not ended
                elif len(line) > MAX_LINE_BYTES:
                    long = not ended
                    yield number, f"the line has more than {MAX_LINE_BYTES:,} bytes"
                elif line.strip():
                    yield number, _object(line)
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None


def _object(line: bytes) -> dict[str, Any] | str:
    try:
        found = loads_storable(line)
    except (ValueError, RecursionError) as error:
        return f"broken JSON: {error}"
    return found if isinstance(found, dict) else f"a JSON object is expected, not {type(found).__name__}"


# The calls of a released record, which are given as messages or plain steps: solutions, and the steps before the
# prediction.


MOST_CALLS = 256
MOST_OUTCOME = 20_000
"""Maximum length of a step's result, in characters."""
_MESSAGES = ("system", "user")
_OUTCOMES = ("tool", "function", "observation", "environment")
_OUTCOME_KEYS = ("observation", "result", "output", "response")


def chain_calls(rows: Any) -> tuple[ToolCall, ...]:
    """A whole solution: `[{"name", "parameter_description", "reason"}, ...]`. Raises UnusableError."""
    if isinstance(rows, dict) and isinstance(rows.get("tool_chain"), list):
        rows = rows["tool_chain"]
    return calls_of(rows)


def calls_of(rows: Any) -> tuple[ToolCall, ...]:
    """The calls of a list of steps, in order; messages without calls are left out, and so are outcomes.

    Raises UnusableError if a step or a call does not have the expected form, or if there are too many calls.
    """
    if rows is None:
        return ()
    rows = rows if isinstance(rows, list) else [rows]
    found = tuple(call for row in rows if not _is_outcome(row) for call, _ in _calls(row))
    need(len(found) <= MOST_CALLS, f"a list of steps has more than {MOST_CALLS} calls")
    return found


def prefix_of(rows: Any, broken: str | None) -> tuple[Step, ...]:
    """The steps already taken: calls with their outcomes.

    The last call of the broken tool is marked as failed. Raises UnusableError if the steps cannot be read.
    """
    if rows is None:
        return ()
    need(isinstance(rows, list), "the prefix is not a list of steps")
    calls: list[tuple[ToolCall, str]] = []
    outcomes: list[Any] = []
    for row in rows:
        if _is_outcome(row):
            need(len(outcomes) < len(calls), "the prefix has an outcome without a call")
            outcomes.append(row.get("content", row.get("result")))
            continue
        own = list(_calls(row))
        calls += own
        need(len(calls) <= MOST_CALLS, f"the prefix has more than {MOST_CALLS} calls")
        inline = next((row[key] for key in _OUTCOME_KEYS if key in row), None) if own else None
        if inline is not None:
            outcomes += [None] * (len(calls) - 1 - len(outcomes)) + [inline]
    outcomes += [None] * (len(calls) - len(outcomes))
    last = max((place for place, (call, _) in enumerate(calls) if call.tool == broken), default=-1)
    return tuple(
        Step(0, Substep(str(place), "", ""), call, _observed(outcome, place == last), written=call, thought=thought)
        for place, ((call, thought), outcome) in enumerate(zip(calls, outcomes, strict=True))
    )


def _is_outcome(row: Any) -> bool:
    return isinstance(row, dict) and row.get("role") in _OUTCOMES


def _calls(row: Any) -> Iterator[tuple[ToolCall, str]]:
    """The calls of one step, each with the step's thought."""
    need(isinstance(row, dict), "a step is not an object")
    if row.get("role") in _MESSAGES:
        return
    thought = str(row.get("thought") or row.get("content") or "")[:MOST_OUTCOME]
    listed = row.get("tool_calls")
    if listed is None and not isinstance(row.get("name", row.get("tool")), str):
        return  # text without a call
    need(listed is None or isinstance(listed, list), "the tool_calls of a step are not a list")
    for one in [row] if listed is None else listed:
        yield _call(one), thought


def _call(row: Any) -> ToolCall:
    inner = row.get("function") if isinstance(row, dict) else None
    row = inner if isinstance(inner, dict) else row
    need(isinstance(row, dict), "a call is not an object")
    name = row.get("name", row.get("tool"))
    need(isinstance(name, str) and name, "a call has no tool name")
    given: Any = next((row[key] for key in ("arguments", "parameter_description", "parameters") if key in row), {})
    if isinstance(given, str):
        given = _read(given)
    need(given is None or isinstance(given, Mapping), "the arguments of a call are not an object")
    return ToolCall(str(name), dict(given or {}))


def _read(text: str) -> Any:
    try:
        return loads_storable(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UnusableError(f"the arguments of a call are broken JSON: {error}") from None


def _observed(outcome: Any, failed: bool) -> Observation:
    """An outcome as an observation: an object's fields unchanged, or else the whole value; a long text is truncated."""
    if isinstance(outcome, dict) and not failed:
        return Observation(outcome)
    if isinstance(outcome, str) and len(outcome) > MOST_OUTCOME:
        outcome = f"{outcome[:MOST_OUTCOME]}... (cut here: {len(outcome):,} characters)"
    content: dict[str, Json] = {} if outcome is None else {"error" if failed else RESULT: outcome}
    return Observation(content, failed)


# The tools of a released record, in any of the usual forms.


MOST_TOOLS = 256
MOST_PARAMETERS = 128
MOST_TEXT = 4_000
"""Maximum number of characters that are kept of a description."""
_TAKEN = (NO_TOOL, FINISH, GIVE_UP, REJECT)
_REAL_TYPES = {"str": "string", "text": "string", "int": "integer", "float": "number", "bool": "boolean",
               "list": "array", "dict": "object"}  # fmt: skip
_JSON_TYPES = ("string", "integer", "number", "boolean", "array", "object")


def need(condition: object, reason: str) -> None:
    """Raise UnusableError if a condition does not hold."""
    if not condition:
        raise UnusableError(reason)


def tools_of(rows: Any) -> tuple[dict[str, ToolSpec], dict[str, int]]:
    """The tools by name, in their original order, and the costs of tools that have a cost. Raises UnusableError."""
    if isinstance(rows, dict):  # name to definition
        rows = [{"name": name, **row} if isinstance(row, dict) else row for name, row in rows.items()]
    need(isinstance(rows, list) and 0 < len(rows) <= MOST_TOOLS, f"the record has no list of 1 to {MOST_TOOLS} tools")
    found: dict[str, ToolSpec] = {}
    costs: dict[str, int] = {}
    for row in rows:
        tool, cost = tool_of(row)
        if found.setdefault(tool.name, tool) != tool:
            raise UnusableError(f"two tools of the record have the name {tool.name!r:.60}, but different definitions")
        if cost is not None:
            costs[tool.name] = cost
    return found, costs


def tool_of(row: Any) -> tuple[ToolSpec, int | None]:
    """One tool, and its cost. Raises UnusableError."""
    inner = row.get("function") if isinstance(row, dict) else None
    row = inner if isinstance(inner, dict) else row
    need(isinstance(row, dict), "a tool is not an object")
    name, cost = row.get("name"), row.get("cost")
    need(isinstance(name, str) and name.strip() and len(name) <= 200, "a tool has no name of 1 to 200 characters")
    need(name not in _TAKEN, f"a tool has the name {name}, which is reserved")
    need(cost is None or (isinstance(cost, int) and not isinstance(cost, bool) and cost >= 0),
         f"the tool {name!r:.60} has a cost that is not a whole number of 0 or more")  # fmt: skip
    parameters = _parameters(row.get("parameters", row.get("inputs", row.get("arguments"))))
    need(len(parameters) <= MOST_PARAMETERS, f"a tool has more than {MOST_PARAMETERS} parameters")
    text = " ".join(str(row.get("description") or "").split())[:MOST_TEXT]
    told = text if cost is None else f"{text} (cost: {cost})".strip()
    return ToolSpec(name, told, parameters, (RESULT,)), cost


def _parameters(given: Any) -> tuple[Parameter, ...]:
    if isinstance(given, list):
        pairs = [(row.get("name"), row) for row in given if isinstance(row, dict)]
        need(len(pairs) == len(given), "a parameter of a tool is not an object")
        return tuple(_parameter(name, row, row.get("required") is not False) for name, row in pairs)
    if given is None:
        return ()
    need(isinstance(given, dict), "the parameters of a tool are neither a list nor an object")
    schema = children(given)
    if schema or given.get("type") == "object":
        required = given.get("required")
        names = required if isinstance(required, list) else []
        return tuple(_parameter(name, row, name in names) for name, row in schema.items())
    return tuple(_parameter(name, row, not isinstance(row, dict) or row.get("required") is not False)
                 for name, row in given.items())  # fmt: skip


def _parameter(name: Any, row: Any, required: bool) -> Parameter:
    need(isinstance(name, str) and name.strip() and len(name) <= 200, "a parameter has no name of 1 to 200 characters")
    kind = type_of(row).lower() if isinstance(row, Mapping) else "string"
    kind = _REAL_TYPES.get(kind, kind)
    text = described(row) if isinstance(row, dict) else str(row)
    text = " ".join(text.split())[:MOST_TEXT]
    return Parameter(name, kind if kind in _JSON_TYPES else "string", text, required, listed(row))
