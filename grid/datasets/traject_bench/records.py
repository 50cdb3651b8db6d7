"""The released files of TRAJECT-Bench as records: tools by domain, and queries with their recorded steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from grid.core.errors import DataError
from grid.core.types import Json, Skipped
from grid.datasets.dataset import UnusableError
from grid.datasets.files import read_json

Kind: TypeAlias = Literal["parallel", "sequential"]
Level: TypeAlias = Literal["simple", "hard"]
TOOLS, SUFFIX = "tools", "_tool.json"
FILES: Mapping[tuple[Kind, Level | None], str] = {
    ("parallel", "simple"): "simple_ver.json",
    ("parallel", "hard"): "hard_ver.json",
    ("sequential", None): "traj_query.json",
}
"""The file of a domain's queries."""
_FAILED = "failed"
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True)
class Given:
    """A parameter's value, and whether the record lists the parameter as required."""

    value: Json
    required: bool


@dataclass(frozen=True)
class Recorded:
    """One step: the tool, the parameters that are not empty, and the output, as text."""

    tool: str
    description: str
    parameters: Mapping[str, Given]
    output: str
    failed: bool


@dataclass(frozen=True)
class Record:
    """One usable query."""

    id: str
    domain: str
    query: str
    steps: tuple[Recorded, ...]
    answer: str


def domains(root: Path, kind: Kind, name: str) -> list[str]:
    """The domains whose folders contain a query file with this name."""
    parent = root / kind
    return sorted(path.name for path in parent.iterdir() if (path / name).is_file()) if parent.is_dir() else []


def read_tools(path: Path) -> list[dict[str, Any]]:
    """The definitions in a domain's file.

    Raises DataError if the file does not have the expected form, or has no definitions.
    """
    rows = _rows(path)
    for index, row in rows:
        _name(path, index, row)
        for key in ("required", "optional"):
            listed = parameters(row, key)
            if listed is None or not all(isinstance(item, dict) and _is_name(item.get("name")) for item in listed):
                raise _broken(path, index, f"{key} parameters must be a list of objects with a name")
    if not rows:
        raise DataError(path, None, "the file has no tools, but the domain's queries need tools")
    return [row for _, row in rows]


def read_queries(path: Path, kind: Kind, level: Level | None, domain: str) -> tuple[list[Record], list[Skipped]]:
    """A domain's usable queries, and the skipped queries with the reasons.

    Raises:
        DataError: the file does not have the expected form; for example, a record lacks a query or a list of tools.
    """
    found, skipped = list[Record](), list[Skipped]()
    for index, row in _rows(path):
        if not isinstance(row.get("query"), str) or not isinstance(row.get("tool list"), list):
            raise _broken(path, index, "the record must have a query (text) and a tool list")
        case_id = "-".join(("traject", kind, *([level] if level else []), domain.lower(), f"{index:03d}"))
        try:
            steps = tuple(_step(path, index, step) for step in row["tool list"])
            if not row["query"].strip():
                raise UnusableError("the query is empty")
            if not steps:
                raise UnusableError("the query calls no tool")
        except UnusableError as error:
            skipped.append(Skipped(case_id, str(error)))
            continue
        found.append(Record(case_id, domain, row["query"].strip(), steps, _answer(row.get("final_answer"))))
    return found, skipped


def parameters(row: Mapping[str, Any], key: str) -> list[Any] | None:
    """The parameters under a key, which files write with `_` (`required_parameters`) or a space.

    None if they are not a list; empty if the row has no such key.
    """
    for name in (f"{key}_parameters", f"{key} parameters"):
        if row.get(name) is not None:
            return row[name] if isinstance(row[name], list) else None
    return []


def plain(name: str) -> str:
    """The name, with each run of spaces replaced by one space.

    Some files have two spaces where other files have one, and models do not copy two spaces.
    """
    return _BLANKS.sub(" ", name).strip()


def _rows(path: Path) -> list[tuple[int, dict[str, Any]]]:
    rows = read_json(path)
    if not isinstance(rows, list):
        raise DataError(path, None, f"a list of records is expected, not {type(rows).__name__}")
    for index, row in enumerate(rows):
        if not isinstance(row, dict):
            raise _broken(path, index, f"an object is expected, not {type(row).__name__}")
    return list(enumerate(rows))


def _broken(path: Path, index: int, message: str) -> DataError:
    return DataError(path, None, f"record {index} (from 0): {message}")


def _name(path: Path, index: int, row: Mapping[str, Any]) -> str:
    if not _is_name(row.get("tool name")):
        raise _broken(path, index, "every tool must have a tool name")
    return plain(row["tool name"])


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _step(path: Path, index: int, step: object) -> Recorded:
    if not isinstance(step, dict):
        raise _broken(path, index, f"a tool of the tool list must be an object, not {type(step).__name__}")
    name, output, given = _name(path, index, step), step.get("executed_output"), dict[str, Given]()
    for parameter, found in _given(step):
        if parameter in given:
            raise UnusableError("a step gives a parameter twice")
        given[parameter] = found
    return Recorded(
        name,
        str(step.get("tool description") or ""),
        {parameter: found for parameter, found in given.items() if not _is_empty(found.value)},
        output if isinstance(output, str) else "" if output is None else str(output),
        step.get("execution_status") == _FAILED,
    )


def _given(step: Mapping[str, Any]) -> Iterator[tuple[str, Given]]:
    for key in ("required", "optional"):
        listed = parameters(step, key)
        if listed is None:
            raise UnusableError("a step's parameters are not a list")
        for item in listed:
            if not isinstance(item, dict) or not _is_name(item.get("name")):
                raise UnusableError("a step's parameter has no name")
            yield item["name"].strip(), Given(item.get("value"), key == "required")


def _is_empty(value: Json) -> bool:
    """Whether a value is empty according to the authors' scorer. Parameters with empty values are left out."""
    return value is None or (isinstance(value, str) and not value.strip())


def _answer(found: object) -> str:
    """The final answer's text: the answer itself, or its field `answer`."""
    text = found.get("answer") if isinstance(found, dict) else found
    return text.strip() if isinstance(text, str) else ""
