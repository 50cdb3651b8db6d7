"""UltraTool, adapted to be executable (egb_slate appendix B.3): the released `English-dataset` folder as cases.

The library has all tools that the queries define. The arguments of a reference call come from
`test_set/tool_usage.json` if that file gives them in full, otherwise from the plan's call strings. The tool and the
arguments of a call determine its result. Some values in the data contain a placeholder (`<booking number>`) or are the
argument's own name. Such a value is replaced by a reference to the latest earlier output that has the argument's name
or the placeholder's. If no earlier output has such a name, the argument is left open, so that any value is accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError, DataError
from grid.core.problem import (
    BRANCHING,
    JUDGED,
    OUTLINE,
    REFERENCES,
    TEXTS,
    Equivalence,
    Outline,
    Problem,
    Reference,
    Resolution,
)
from grid.core.types import Case, Json, Parameter, Plan, Substep, ToolCall, ToolSpec
from grid.core.untrusted import loads
from grid.core.util import STRICT
from grid.datasets.dataset import FileDataset, Stratum, UnusableError
from grid.datasets.files import folder, read_jsonl
from grid.datasets.grading import described, ground, listed, properties, required, type_of
from grid.text.references import final_steps, order, reference, resolve
from grid.worlds.lookup import LookupSimulator, build_entries

QUERIES, USAGE = "test.json", "test_set/tool_usage.json"
HEADING, NO_CALL = "null", "No tool required"
_STEP = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,15})\.?\s+(.+)", re.S)
_PLACEHOLDER = re.compile(r"<[^<>]*>")


@plain_dataclass(frozen=True)
class _Record:
    """One usable query."""

    case: Case
    calls: dict[str, ToolCall | None]
    open_arguments: dict[str, frozenset[str]]
    domain: str
    own: tuple[str, ...]


@dataclass(config=STRICT)
class UltraTool(FileDataset[_Record]):
    """UltraTool's test queries, without those that cannot be cases.

    If `resolution` is `all`, a case is resolved when the outcomes of all calls whose results no other call uses (nearly
    all calls) have been obtained. If `resolution` is `last`, the outcome of the last of these calls is enough. `limit`
    draws a sample that keeps the proportions of the domains and of the clusters within each domain (`order`); the file
    itself is sorted by domain.
    """

    name: ClassVar[str] = "ultratool"
    adapter: ClassVar[int] = 3
    provides: ClassVar[frozenset[str]] = frozenset({OUTLINE, BRANCHING, REFERENCES})
    outline: Outline = field(default="given", kw_only=True)
    resolution: Resolution = "all"
    equivalence: Equivalence = "rules"

    @property
    def asks(self) -> Mapping[str, str]:
        """The question for an evaluator, if one is configured: which texts mean the same thing."""
        return {TEXTS: "equivalence"} if self.equivalence == JUDGED else {}

    @cached_property
    def root(self) -> Path:
        """The `English-dataset` folder; its parent folder is accepted too."""
        if self.path is not None and (Path(self.path).expanduser() / "English-dataset").is_dir():
            return folder("dataset.path", str(Path(self.path) / "English-dataset"), QUERIES, USAGE)
        return folder("dataset.path", self.path, QUERIES, USAGE)

    @property
    def files(self) -> Sequence[Path]:
        """The queries, and the arguments of their calls."""
        return self.root / QUERIES, self.root / USAGE

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """All tools that the queries define; a tool's category is the domain that uses it most."""
        domains: dict[str, Counter[str]] = {}
        for _, row in self._rows:
            for tool in row["tools"]:
                domains.setdefault(tool["name"], Counter())[str(row.get("domain", ""))] += 1
        return MappingProxyType(
            {
                name: ToolSpec(
                    name,
                    str(tool.get("description") or ""),
                    tuple(
                        Parameter(arg, type_of(spec), described(spec), arg in required(tool, "arguments"), listed(spec))
                        for arg, spec in properties(tool, "arguments").items()
                    ),
                    tuple(properties(tool, "results")),
                    domains[name].most_common(1)[0][0],
                )
                for name, tool in self._definitions.items()
            }
        )

    def strata(self) -> Sequence[Stratum]:
        """The strata: domains (the file is sorted by domain), and clusters within each domain."""
        return lambda case_id: self.records[case_id].domain, self.cluster

    def cluster(self, case_id: str) -> str:
        """The set of tools that the reference calls.

        Queries with the same set ask for the same thing in different words. The released 700 queries have 253 such
        sets; the largest cluster has 46 queries. Using the offered tools instead of the called tools would give the
        same clusters.
        """
        return "+".join(sorted({call.tool for call in self.records[case_id].calls.values() if call}))

    def problem(self, case_id: str) -> Problem:
        """One query; the lookup simulator stands in for its tools."""
        record = self.records[case_id]
        calls = {step: call for step, call in record.calls.items() if call}
        entries = build_entries(calls, self._outcomes(calls), record.open_arguments, self.tools)
        resolution = tuple(final_steps(calls)[-1 if self.resolution == "last" else 0 :])
        return Problem(
            case=record.case,
            reference=Reference(record.calls, resolution),
            world=LookupSimulator(entries, frozenset(resolution)),
            candidates=lambda case, substep: tuple(self.tools.values()),
            library=self.tools,
            same_function={},
            domain=record.domain,
            own=record.own,
        )

    def _outcomes(self, calls: dict[str, ToolCall]) -> dict[str, dict[str, Json]]:
        """The outcome of each call.

        A call's references are filled in first, so that equal calls have equal outcomes.
        """
        outcomes: dict[str, dict[str, Json]] = {}
        for step in order(calls):
            call = resolve(calls[step], outcomes)
            outcomes[step] = ground(call, properties(self._definitions[call.tool], "results"))
        return outcomes

    @cached_property
    def _rows(self) -> list[tuple[int, dict[str, Any]]]:
        path = self.root / QUERIES
        rows = list(read_jsonl(path))
        for line, row in rows:
            for key, kind in (("question", str), ("plan", list), ("tools", list)):
                if not isinstance(row.get(key), kind):
                    raise DataError(path, line, f"{key} must be a {kind.__name__}")
            for key, name in (("tools", "name"), ("plan", "step")):
                if not all(isinstance(item, dict) and isinstance(item.get(name), str) for item in row[key]):
                    raise DataError(path, line, f"every item of {key} must be an object with a {name}")
        if not rows:
            raise ConfigError("dataset.path", self.path, f"{QUERIES} holds no query")
        return rows

    @cached_property
    def _definitions(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for line, row in self._rows:
            for tool in row["tools"]:
                known = found.setdefault(tool["name"], tool)
                if _signature(known) != _signature(tool):
                    raise DataError(
                        self.root / QUERIES,
                        line,
                        f"tool {tool['name']!r} is defined twice with different arguments: "
                        f"{_signature(known)} and {_signature(tool)}",
                    )
        if not found:
            raise ConfigError("dataset.path", self.path, f"{QUERIES} defines no tool")
        return found

    @cached_property
    def _usage(self) -> dict[str, dict[tuple[str, str], dict[str, Json]]]:
        """The listed arguments of calls, keyed first by question and then by (step's text, tool)."""
        found: dict[str, dict[tuple[str, str], dict[str, Json]]] = {}
        for line, row in read_jsonl(self.root / USAGE):
            listed = row.get("reference") or []
            if not isinstance(listed, list):
                raise DataError(self.root / USAGE, line, "reference must be a list")
            for item in listed:
                if isinstance(item, dict) and isinstance(item.get("param"), dict):
                    key = (str(item.get("step")), str(item.get("tool")))
                    found.setdefault(str(row.get("question")), {})[key] = item["param"]
        return found

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The queries, numbered in the order of the file."""
        for index, (_, row) in enumerate(self._rows):
            yield f"ultratool-{index:04d}", row

    def record(self, case_id: str, row: dict[str, Any]) -> _Record:
        """Convert a row to a record.

        The plan's steps must be numbered (only headings may repeat a number), some step must call a tool, and each tool
        that is called must be defined by some query. Otherwise, or if a call cannot be used, UnusableError is raised.
        """
        substeps: list[Substep] = []
        calls: dict[str, ToolCall | None] = {}
        headings: dict[str, str] = {}
        for item in row["plan"]:
            match = _STEP.fullmatch(item["step"].strip())
            if not match:
                raise UnusableError("a step has no number")
            number, text = match[1], match[2]
            headings[number] = text
            if item.get("tool") in (HEADING, None):
                continue
            if number in calls:
                raise UnusableError("a step number comes twice")
            goal = next((headings[above] for above in _above(number) if above in headings), text)
            substeps.append(Substep(number, text, goal))
            calls[number] = self._call(row, item)
        if not any(calls.values()):
            raise UnusableError("no step calls a tool")
        tied, open_arguments = self._tie(calls)
        try:
            order({step: call for step, call in tied.items() if call})
        except ValueError as error:
            raise UnusableError(str(error)) from None
        case = Case(case_id, row["question"].strip(), Plan(tuple(substeps)))
        own = dict.fromkeys(tool["name"] for tool in row["tools"]) | dict.fromkeys(c.tool for c in tied.values() if c)
        return _Record(case, tied, open_arguments, str(row.get("domain", "")), tuple(own))

    def _call(self, row: dict[str, Any], item: dict[str, Any]) -> ToolCall | None:
        text = str(item.get("tool", ""))
        if text == NO_CALL:
            return None
        name = text.partition("(")[0].strip()
        if name not in self._definitions:
            raise UnusableError("a step calls a tool that no query defines")
        names = list(properties(self._definitions[name], "arguments"))
        parsed = parse_call(text, names)
        listed = self._usage.get(row["question"], {}).get((item["step"], name))
        if listed is None and parsed is None:
            raise UnusableError("a call string cannot be parsed")
        arguments = completed(listed, parsed or {}) if listed is not None else parsed or {}
        if not arguments.keys() <= set(names):
            raise UnusableError("a call has an argument that its tool does not define")
        return ToolCall(name, arguments)

    def _tie(self, calls: dict[str, ToolCall | None]) -> tuple[dict[str, ToolCall | None], dict[str, frozenset[str]]]:
        """The calls, with references to earlier outputs in place of placeholders, and each call's open arguments."""
        tied: dict[str, ToolCall | None] = {}
        open_arguments: dict[str, frozenset[str]] = {}
        for step, call in calls.items():
            if call is None:
                tied[step] = None
                continue
            arguments = dict(call.arguments)
            left_open = set()
            for name, value in call.arguments.items():
                if isinstance(value, str) and (_PLACEHOLDER.search(value) or _squeeze(value) == _squeeze(name)):
                    source = self._source(name, value, tied)
                    if source:
                        arguments[name] = source
                    else:
                        left_open.add(name)
            tied[step] = ToolCall(call.tool, arguments)
            open_arguments[step] = frozenset(left_open)
        return tied, open_arguments

    def _source(self, argument: str, placeholder: str, before: dict[str, ToolCall | None]) -> str | None:
        """A reference to the latest earlier output that has a field named like the argument or the placeholder.

        Fields for lists and objects are left out. None if there is no such field.
        """
        wanted = {_squeeze(argument), _squeeze(placeholder)}
        for step, call in reversed(before.items()):
            for name, spec in properties(self._definitions[call.tool], "results").items() if call else ():
                if name.isidentifier() and _squeeze(name) in wanted and type_of(spec) not in ("array", "object"):
                    return reference(step, name)
        return None


def _signature(tool: dict[str, Any]) -> dict[str, str]:
    """The names and types of a tool's arguments."""
    return {name: type_of(spec) for name, spec in properties(tool, "arguments").items()}


def _above(number: str) -> list[str]:
    """The step numbers of all steps that contain a step, the innermost first: 1.2 and 1 for `1.2.1`."""
    parts = number.split(".")
    return [".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1)]


def _squeeze(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


# Reading calls written as text: `tool(name='it's', count=2)`, with unescaped quotes.


MAX_CHARACTERS = 20_000
_CONSTANTS: dict[str, Json] = {"True": True, "False": False, "None": None}
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.S)


def parse_call(text: str, names: Sequence[str]) -> dict[str, Json] | None:
    """The arguments of a call string; None if the string is not a call with the tool's own arguments.

    A value ends at the next `, name=` with a name from `names`, the tool's arguments, so that quotes and commas inside
    a value do no harm.
    """
    match = _CALL.fullmatch(text[:MAX_CHARACTERS])
    if not match:
        return None
    body = match[2].strip()
    if not body:
        return {}
    choices = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    marks = list(re.finditer(rf"(?:^|,)\s*({choices})\s*=", body)) if choices else []
    if not marks or marks[0].start() != 0:
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(body)]
    arguments: dict[str, Json] = {}
    for mark, end in zip(marks, ends, strict=True):
        # If a name occurs twice, its first occurrence is used, because the second is part of a value.
        arguments.setdefault(mark[1], _literal(body[mark.end() : end].strip().rstrip(",").strip()))
    return arguments


def completed(listed: Mapping[str, Json], parsed: Mapping[str, Json]) -> dict[str, Json]:
    """The listed arguments.

    If a listed text is truncated (`Notes of March 1` for `Notes of March 18, 2023`), the parsed text replaces it.
    """
    return {
        name: full
        if isinstance(value, str) and isinstance(full := parsed.get(name), str) and full.startswith(value)
        else value
        for name, value in listed.items()
    }


def _literal(text: str) -> Json:
    """A quoted string without its quotes, a JSON value, a constant of Python, or the unchanged text."""
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        value: Json = loads(text)
    except (ValueError, RecursionError):
        return text
    return value
