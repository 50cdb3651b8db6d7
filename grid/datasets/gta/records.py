"""GTA's `dataset.json` (Wang et al. 2024, release 0.1.0): what of it can be cases, and why the rest cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grid.core.errors import DataError
from grid.core.types import RESULT, Json, Parameter, Skipped, ToolCall, ToolSpec
from grid.datasets.files import read_json
from grid.datasets.gta.answers import Lists, Wanted
from grid.datasets.gta.metrics import category_of

FILE = "dataset.json"
_MAX_BYTES = 100_000_000
_MOST = 64  # of the tools, files, messages, groups and aliases of a record
_LONGEST_ALIAS = 1_000  # characters
_KEYS: Mapping[str, type] = {"tools": list, "files": list, "dialogs": list}
_TYPES = {"int": "integer", "float": "number", "bool": "boolean", "text": "string"}
"""The types of a tool's inputs by JSON's names; files (image, audio, video, file) are given by their path."""
_PATHS = ("image", "audio", "video", "file")


@dataclass(frozen=True)
class Record:
    """A query with its files (type and path), the calls of its gold path, what they returned, and the gold answers.

    `conclusion` is the last message of the gold path, None where it ends with a tool's result; `tools` are those that
    the benchmark offers for the query.
    """

    query: str
    files: tuple[tuple[str, str], ...]
    tools: tuple[str, ...]
    calls: tuple[ToolCall, ...]
    outcomes: tuple[Mapping[str, Json], ...]
    conclusion: str | None
    wanted: Wanted


class _UnusableError(Exception):
    """Why a record is no case."""


def read(file: Path) -> tuple[dict[str, Record], dict[str, ToolSpec], list[Skipped]]:
    """The records by their number, all tools by name, and what was left out.

    Raises:
        DataError: the file is of another version, or tools of one name take different arguments.
    """
    rows = read_json(file, _MAX_BYTES)
    if not isinstance(rows, dict) or not rows:
        raise DataError(file, None, "an object of records by their number is expected (GTA, release 0.1.0)")
    records: dict[str, Record] = {}
    tools: dict[str, ToolSpec] = {}
    skipped: list[Skipped] = []
    for number, row in rows.items():
        _check_version(file, number, row)
        try:
            own = _tools(row["tools"])
            for name, spec in own.items():
                if tools.setdefault(name, spec).parameters != spec.parameters:
                    raise DataError(file, None, f"record {number:.20}: tool {name!r} has other inputs than before")
            records[number] = _record(row, own)
        except _UnusableError as error:
            skipped.append(Skipped(number, str(error)))
    return records, tools, skipped


def _check_version(file: Path, number: str, row: Any) -> None:
    """Refuse what has not GTA's keys: the later GTA-2 has `sub_tasks`, tools without inputs, and no answers."""
    if not isinstance(row, dict):
        raise DataError(file, None, f"record {number:.20} is no object (GTA, release 0.1.0)")
    wrong = [key for key, kind in _KEYS.items() if not isinstance(row.get(key), kind)]
    wrong += ["gt_answer"] * ("gt_answer" not in row)
    if wrong or "sub_tasks" in row:
        lacks = f"it has no {wrong[0]} in the form of GTA" if wrong else "sub_tasks are of GTA-2"
        raise DataError(file, None, f"record {number:.20} is of another version than GTA, release 0.1.0: {lacks}")
    if not all(isinstance(tool, dict) and isinstance(tool.get("inputs"), list) for tool in row["tools"]):
        raise DataError(file, None, f"record {number:.20} is of another version: a tool has no list of inputs")


def _need(condition: object, reason: str) -> None:
    if not condition:
        raise _UnusableError(reason)


def _tools(rows: list[dict[str, Any]]) -> dict[str, ToolSpec]:
    _need(0 < len(rows) <= _MOST, f"it has no tools, or more than {_MOST}")
    found = {}
    for row in rows:
        name = row.get("name")
        _need(isinstance(name, str) and name, "a tool has no name")
        parameters = tuple(map(_parameter, row["inputs"]))
        _need(len(parameters) <= _MOST, f"a tool has more than {_MOST} inputs")
        text = str(row.get("description") or "")
        found[str(name)] = ToolSpec(str(name), text, parameters, (RESULT,), category_of(str(name)))
    return found


def _parameter(row: Any) -> Parameter:
    _need(isinstance(row, dict) and isinstance(row.get("name"), str), "an input of a tool has no name")
    kind = row.get("type")
    _need(kind in _TYPES or kind in _PATHS, f"an input of a tool is of the type {kind!r:.40}")
    told = [str(row.get("description") or "")] + [f"path of the {kind}"] * (kind in _PATHS)
    if row.get("default") is not None:
        told.append(f"default: {row['default']!s:.100}")
    text = "; ".join(filter(None, told))
    return Parameter(row["name"], _TYPES.get(kind, "string"), text, required=not row.get("optional"))


def _record(row: dict[str, Any], tools: Mapping[str, ToolSpec]) -> Record:
    first, *rest = row["dialogs"] or [None]
    _need(len(rest) < _MOST, f"it has more than {_MOST} messages")
    _need(isinstance(first, dict) and first.get("role") == "user", "it does not begin with the user's query")
    query = first.get("content")
    _need(isinstance(query, str) and query.strip(), "its query is empty")
    conclusion = None
    if rest and isinstance(rest[-1], dict) and rest[-1].get("role") == "assistant" and "tool_calls" not in rest[-1]:
        conclusion = rest.pop().get("content")
        _need(isinstance(conclusion, str), "its last message is no text")
    _need(len(rest) % 2 == 0, "a call has no result, or a result no call")
    pairs = [(_call(rest[at], tools), _outcome(rest[at], rest[at + 1])) for at in range(0, len(rest), 2)]
    _need(pairs, "it calls no tool")
    wanted = _wanted(row["gt_answer"])
    _need(wanted is None or conclusion is not None, "there is an answer to give, and its gold path gives none")
    return Record(
        query=str(query).strip(),
        files=_files(row["files"]),
        tools=tuple(tools),
        calls=tuple(call for call, _ in pairs),
        outcomes=tuple(outcome for _, outcome in pairs),
        conclusion=conclusion,
        wanted=wanted,
    )


def _call(message: Any, tools: Mapping[str, ToolSpec]) -> ToolCall:
    """The one call of a message."""
    calls = message.get("tool_calls") if isinstance(message, dict) and message.get("role") == "assistant" else None
    _need(isinstance(calls, list) and len(calls) == 1, "a step is not one call of a tool")
    function = calls[0].get("function") if calls and isinstance(calls[0], dict) else None
    _need(isinstance(function, dict), "a call names no function")
    name, arguments = (function or {}).get("name"), (function or {}).get("arguments")
    _need(isinstance(name, str) and name in tools, f"it calls {name!r:.40}, which is none of its tools")
    _need(isinstance(arguments, dict), "the arguments of a call are no object")
    return ToolCall(str(name), arguments or {})


def _outcome(call: Any, message: Any) -> dict[str, Json]:
    """What a tool returned: a text, or an object with its type and content."""
    _need(isinstance(message, dict) and message.get("role") == "tool", "a call is not followed by its result")
    name = call["tool_calls"][0]["function"]["name"]
    _need(message.get("name", name) == name, "a result is of another tool than the call before it")
    content = message.get("content")
    if isinstance(content, dict):
        content = content.get("content")
    _need(content is not None and not isinstance(content, dict), "a result is empty")
    return {RESULT: content}


def _files(rows: list[Any]) -> tuple[tuple[str, str], ...]:
    _need(len(rows) <= _MOST, f"it has more than {_MOST} files")
    for row in rows:
        told = isinstance(row, dict) and isinstance(row.get("type"), str) and isinstance(row.get("path"), str)
        _need(told, "a file has no type or no path")
    return tuple((row["type"], row["path"]) for row in rows)


def _wanted(answer: Any) -> Wanted:
    """None, [] and {} say that there is no answer to give: the query asks for an image."""
    if not answer:
        return None
    if isinstance(answer, dict):
        _need(answer.get("whitelist"), "its white list is empty")
        return Lists(_groups(answer["whitelist"]), _groups(answer.get("blacklist") or []))
    _need(isinstance(answer, list) and len(answer) <= _MOST, "its answer has none of the known forms")
    _need(all(isinstance(text, str) for text in answer), "one of its answers is no text")
    return tuple(answer)


def _groups(rows: Any) -> tuple[tuple[str, ...], ...]:
    _need(isinstance(rows, list) and len(rows) <= _MOST, "its white or black list is no list of groups")
    for row in rows:
        _need(isinstance(row, list) and 0 < len(row) <= _MOST, "a group of its white or black list has no aliases")
        short = all(isinstance(alias, str) and len(alias) <= _LONGEST_ALIAS for alias in row)
        _need(short, f"an alias is no text of {_LONGEST_ALIAS} characters at most")
    return tuple(map(tuple, rows))
