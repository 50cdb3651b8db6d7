"""The stages that write tools: the topics' tools, equivalents, and distractors (egb_slate §3.3, figure 13)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from grid.core.engine import Section
from grid.core.types import Json, to_json
from grid.datasets.slate.drafts import ArgumentRecord, SameFunctionRecord, ToolRecord
from grid.engines.answer_schema import object_schema, text_schema
from grid.synthesis.asking import (
    FIELD,
    LONGEST,
    NAME,
    TYPES,
    Asker,
    Broken,
    Checked,
    Item,
    Settled,
    broken,
    name_problems,
    normal,
)
from grid.synthesis.config import Domain, slug
from grid.text.words import stems

AT_A_TIME = 5
_MOST = 3  # maximum number of arguments, and of result fields, of a tool
_WORDS = range(5, 41)  # allowed numbers of words in a tool's description
_LENGTH, _SHORT = 200, 100
RULES = (
    "Rules:",
    "- A tool does one thing, and its name and description say which. No tool can do everything.",
    "- Names are snake_case with two to five words: what is done, and to what. Every name is new.",
    f"- A tool has one to {_MOST} arguments of the types {', '.join(TYPES)}. An argument's description says what "
    "the value means, in words other than the argument's name.",
    f"- A tool has one to {_MOST} result fields in snake_case: what a caller of the tool wants to know, and "
    "identifiers that other tools need.",
    f"- A description is one sentence with {_WORDS.start} to {_WORDS.stop - 1} words.",
)
EXAMPLE = ToolRecord(
    name="foretell_rainfall",
    category="",
    description="Says how much rain will fall at a weather station on one day.",
    arguments=[
        ArgumentRecord(name="station_code", type="string", description="Which place it is for, as WS-118"),
        ArgumentRecord(name="target_day", type="date", description="When the rain would fall"),
    ],
    results=["rain_in_mm", "forecast_id"],
)
SHOWN = EXAMPLE.model_dump(exclude={"category", "same_function"})
"""The example tool, in the form in which a model's answer must describe a tool."""
_FORM = (
    "Answer with JSON only, as in this example from another domain. Do not repeat the example:",
    to_json({"tools": [SHOWN]}),
)


class _Argument(BaseModel):
    name: str
    type: str
    description: str


class Written(BaseModel):
    """A tool, as a model's answer must describe it."""

    name: str
    description: str
    arguments: list[_Argument]
    results: list[str]

    def record(self, category: str) -> ToolRecord:
        """The tool in the library's form; it must break no rule of `tool_problems`."""
        return ToolRecord(
            name=self.name,
            category=category,
            description=self.description,
            arguments=[ArgumentRecord.model_validate(one.model_dump()) for one in self.arguments],
            results=self.results,
        )


class _Tools(BaseModel):
    tools: list[Written]


class _Renamed(BaseModel):
    name: str
    same_as: str
    description: str


class _Equivalent(BaseModel):
    name: str
    description: str
    arguments: list[_Renamed]


def notes(domain: Domain) -> Section:
    """The section on the domain, which is in every prompt."""
    return Section("notes", (f"Domain: {domain.name}. {domain.description}", f"Users: {', '.join(domain.users)}."))


def line(tool: ToolRecord) -> str:
    """The text of a tool, on one line."""
    arguments = ", ".join(f"{one.name}: {one.type} ({one.description})" for one in tool.arguments)
    return f"{tool.name}({arguments}) -> {', '.join(tool.results)}. {tool.description.rstrip('.')}."


async def of_topic(
    asker: Asker, domain: Domain, topic: str, count: int, there: Sequence[ToolRecord] = ()
) -> list[Settled[ToolRecord]]:
    """Ask for `count` tools for a topic, a few at a time.

    Each request shows the existing tools (`there`) and the tools written so far.
    """
    found: list[Settled[ToolRecord]] = []
    for number in range(math.ceil(count / AT_A_TIME)):
        known = [*there, *(tool for one in found for tool in one.products)]
        wanted = min(AT_A_TIME, count - number * AT_A_TIME)
        shown = ["The tools so far (do not write them again):", *map(line, known)] if known else []
        sections = (
            Section("role", ("You design the tools of a service. An assistant calls them for its users.", *RULES)),
            notes(domain),
            Section(
                "tools",
                (
                    "Tools build on each other: one returns something, such as an identifier, that another one needs.",
                    *shown,
                ),
            ),
            Section("task", (f"Topic: {topic}: {domain.topics[topic]}.", f"Write exactly {wanted} new tools for it.")),
        )
        check = _checking(topic, known, wanted)
        item = Item(f"{slug(topic)}-{number:03}", sections, _FORM, _schema(wanted), check, wanted)
        found.append(await asker.settle(item))
    return found


async def near(
    asker: Asker, domain: Domain, host: ToolRecord, library: Sequence[ToolRecord], style: range, count: int
) -> list[Settled[ToolRecord]]:
    """Ask for `count` distractors for one tool, in one request.

    `style` is the range of lengths of the used tools' descriptions, in words.
    """
    sections = (
        Section(
            "role",
            (
                "You add tools to the library of a service. They are easily mistaken for an existing tool, but "
                "none of them does what that tool does: it would be wrong to call one of them instead.",
                *RULES,
                f"- In length and style they resemble the existing tool: their descriptions have {style.start} "
                f"to {style.stop - 1} words.",
            ),
        ),
        notes(domain),
        Section("task", (f"The existing tool: {line(host)}", f"Write exactly {count} new tools that resemble it.")),
    )
    usual = _checking(host.category, library, count)

    def check(answer: Mapping[str, Json]) -> Checked[ToolRecord]:
        found = usual(answer)
        other = [tool for tool in found.kept if len(tool.description.split()) not in style]
        problems = [
            broken(
                "style",
                f"{tool.name}: its description has {len(tool.description.split())} words; it must have "
                f"{style.start} to {style.stop - 1}.",
            )
            for tool in other
        ]  # fmt: skip
        return Checked(tuple(tool for tool in found.kept if tool not in other), (*found.broken, *problems))

    return [await asker.settle(Item(host.name, sections, _FORM, _schema(count), check, count))]


async def equivalent(
    asker: Asker, domain: Domain, host: ToolRecord, library: Sequence[ToolRecord]
) -> list[Settled[ToolRecord]]:
    """Ask for a second tool with the same function as the given one."""
    names = [one.name for one in host.arguments]
    sections = (
        Section(
            "role",
            (
                "You describe a tool that does exactly what another tool does. A different team wrote it, so "
                "its name, the names of its arguments and all descriptions use other words.",
                "Rules:",
                "- The name is new, and snake_case with two to five words.",
                "- Each argument corresponds to one argument of the other tool (`same_as`), and each of those "
                "has exactly one counterpart.",
                f"- The description is one sentence with {_WORDS.start} to {_WORDS.stop - 1} words that are not "
                "the other tool's.",
            ),
        ),
        notes(domain),
        Section("task", (f"The other tool: {line(host)}", "Describe a tool that does the same.")),
    )
    form = (
        'Answer with JSON only: {"name": "...", "description": "...", "arguments": [{"name": "...", "same_as": "...", '
        '"description": "..."}]}',
    )
    one = {"name": pattern_schema(FIELD), "same_as": {"enum": names}, "description": text_schema(_SHORT)}
    listed = {"type": "array", "items": object_schema(one, [*one]), "minItems": len(names), "maxItems": len(names)}
    whole = {"name": pattern_schema(NAME), "description": text_schema(_LENGTH), "arguments": listed}

    def check(answer: Mapping[str, Json]) -> Checked[ToolRecord]:
        return _same(_Equivalent.model_validate(answer), host, library)

    return [await asker.settle(Item(host.name, sections, form, object_schema(whole, [*whole]), check))]


def distinct(taken: Sequence[ToolRecord] = ()) -> Callable[[ToolRecord], Broken | None]:
    """A rule that refuses a tool with the name or description of an earlier tool."""
    names, texts = {tool.name for tool in taken}, {normal(tool.description) for tool in taken}

    def rule(tool: ToolRecord) -> Broken | None:
        text = normal(tool.description)
        if tool.name in names or text in texts:
            return broken("duplicate", f"{tool.name}: a tool with this name or description exists already.")
        names.add(tool.name)
        texts.add(text)
        return None

    return rule


def _checking(
    category: str, known: Sequence[ToolRecord], wanted: int
) -> Callable[[Mapping[str, Json]], Checked[ToolRecord]]:
    def check(answer: Mapping[str, Json]) -> Checked[ToolRecord]:
        kept, problems, rule = list[ToolRecord](), list[Broken](), distinct([EXAMPLE, *known])
        given = _Tools.model_validate(answer).tools
        for tool in given[:wanted]:
            found = [*tool_problems(tool)]
            if not found:
                record = tool.record(category)
                repeated = rule(record)
                found = [repeated] if repeated else []
                kept += [] if repeated else [record]
            problems += found
        if len(given) < wanted:
            problems.append(broken("count", f"There are {len(given)} tools, but {wanted} were asked for."))
        return Checked(tuple(kept), tuple(problems))

    return check


def tool_problems(tool: Written) -> Iterator[Broken]:
    """The rules that a tool breaks by itself, regardless of other tools."""
    yield from name_problems(tool.name)
    name = f"{tool.name:.60}"
    for label, names in (("arguments", [one.name for one in tool.arguments]), ("results", tool.results)):
        if not 1 <= len(names) <= _MOST or len(set(names)) < len(names):
            yield broken(label, f"{name} has {len(names)} {label}; 1 to {_MOST} different ones are allowed.")
        for one in names:
            if not _is_field(one):
                yield broken("name", f"{name}: the names of {label} must be snake_case; {one!r:.60} is not.")
    for argument in tool.arguments:
        if argument.type not in TYPES:
            yield broken("type", f"{name}: the type of {argument.name:.40} must be one of {', '.join(TYPES)}.")
        if not _says_more(argument.name, argument.description):
            yield broken("argument text", f"{name}: the description of {argument.name:.40} says no more than its name.")
    yield from _text_problems(name, tool.description)


def _text_problems(name: str, description: str) -> Iterator[Broken]:
    if len(description.split()) not in _WORDS:
        yield broken(
            "description",
            f"{name}: its description must be one sentence with {_WORDS.start} to {_WORDS.stop - 1} words.",
        )


def _is_field(name: str) -> bool:
    return re.fullmatch(FIELD, name) is not None and len(name) <= LONGEST


def _says_more(name: str, description: str) -> bool:
    return bool(set(stems(description)) - set(stems(name)) - set(stems("identifier number code")))


def _same(tool: _Equivalent, host: ToolRecord, library: Sequence[ToolRecord]) -> Checked[ToolRecord]:
    problems = [*name_problems(tool.name), *_text_problems(tool.name, tool.description)]
    wanted, given = [one.name for one in host.arguments], [one.same_as for one in tool.arguments]
    names = [one.name for one in tool.arguments]
    if sorted(wanted) != sorted(given):
        told = (
            f"Each of {', '.join(wanted)} must have one counterpart; yours correspond to {', '.join(given) or 'none'}."
        )
        problems.append(broken("mapping", told[:300]))
    if len(set(names)) < len(names) or not all(map(_is_field, names)):
        problems.append(broken("name", "The names of the arguments must be snake_case and all different."))
    if normal(tool.name.replace("_", " ")) == normal(host.name.replace("_", " ")):
        problems.append(broken("same words", f"The name must use words other than those of {host.name}."))
    if problems:
        return Checked((), tuple(problems))
    types = {one.name: one.type for one in host.arguments}
    record = ToolRecord(
        name=tool.name,
        category=host.category,
        description=tool.description,
        arguments=[
            ArgumentRecord(name=one.name, type=types[one.same_as], description=one.description)
            for one in tool.arguments
        ],
        results=host.results,
        same_function=SameFunctionRecord(tool=host.name, arguments={one.name: one.same_as for one in tool.arguments}),
    )
    repeated = distinct(library)(record)
    return Checked((), (repeated,)) if repeated else Checked((record,), ())


def pattern_schema(pattern: str) -> dict[str, Any]:
    """The JSON schema of a text that fully matches a pattern."""
    return {"type": "string", "pattern": f"^{pattern}$"}


def _schema(count: int) -> dict[str, Any]:
    """The JSON schema of `count` tools."""
    tools = {"type": "array", "items": tool_schema(), "minItems": count, "maxItems": count}
    return object_schema({"tools": tools}, ["tools"])


def tool_schema(names: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """The JSON schema of a tool; its first properties are those in `more`.

    If `names` are given, the tool must have one of these names.
    """
    argument = {"name": pattern_schema(FIELD), "type": {"enum": [*TYPES]}, "description": text_schema(_SHORT)}
    arguments = {"type": "array", "items": object_schema(argument, [*argument]), "minItems": 1, "maxItems": _MOST}
    results = {"type": "array", "items": pattern_schema(FIELD), "minItems": 1, "maxItems": _MOST}
    name = {"enum": [*names]} if names else pattern_schema(NAME)
    tool = {**more, "name": name, "description": text_schema(_LENGTH), "arguments": arguments, "results": results}
    return object_schema(tool, [*tool])
