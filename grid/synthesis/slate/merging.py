"""Tools by category, and those of a category that do the same made one (egb_slate §3.3, figure 14)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

from pydantic import BaseModel, TypeAdapter

from grid.core.engine import Section
from grid.core.types import Json, to_json
from grid.datasets.slate.records import ToolRecord
from grid.engines.answer_schema import object_schema
from grid.synthesis.slate.asking import Asker, Settled
from grid.synthesis.slate.config import Domain, slug
from grid.synthesis.slate.items import Checked, Item
from grid.synthesis.slate.journal import Broken
from grid.synthesis.slate.nearby import Nearby
from grid.synthesis.slate.plans import Workflow
from grid.synthesis.slate.rules import broken
from grid.synthesis.slate.tools import RULES, SHOWN, Written, line, notes, tool_problems, tool_schema

AT_A_TIME = 15
"""Tools that are categorised in one answer: 10 to 20 (figure 14)."""
TOGETHER = 40
"""Tools of a category that one answer is shown to merge; of a larger category, those nearest to each other."""
Pair = frozenset[str]
_CATEGORIES = TypeAdapter(dict[str, str])


class _Merged(Written):
    replaces: list[str]


class _Answer(BaseModel):
    merged: list[_Merged]


@dataclass(frozen=True)
class Merge:
    """What tools of a category became, by their names: those that stay as they are have none here."""

    into: Mapping[str, ToolRecord]


async def categorised(
    asker: Asker, domain: Domain, number: int, tools: Sequence[ToolRecord]
) -> list[Settled[ToolRecord]]:
    """Some tools with their categories: each is of one of the domain's topics."""
    topics = [f"- {topic}: {about}" for topic, about in domain.topics.items()]
    sections = (
        Section("role", ("You sort the tools of a service. A tool is where what it is mainly for belongs.",)),
        notes(domain),
        Section("tools", ("Categories:", *topics, "Tools:", *map(line, tools))),
    )
    form = ('Answer with JSON only, an object with the category of each tool: {"name_of_tool": "Category", ...}.',)
    schema = {tool.name: {"enum": [*domain.topics]} for tool in tools}

    def check(answer: Mapping[str, Json]) -> Checked[ToolRecord]:
        given = _CATEGORIES.validate_python(dict(answer))
        right = [tool for tool in tools if given.get(tool.name) in domain.topics]
        wrong = [tool.name for tool in tools if tool not in right]
        problems = [broken("category", f"{name} is in one of the categories that are listed.") for name in wrong]
        kept = tuple(tool.model_copy(update={"category": given[tool.name]}) for tool in right)
        return Checked(kept, tuple(problems))

    item = Item(f"{number:03}", sections, form, object_schema(schema, [*schema]), check, len(tools))
    return [await asker.settle(item)]


def together(library: Sequence[ToolRecord], nearby: Nearby) -> Iterator[tuple[str, list[ToolRecord]]]:
    """What is merged at a time, and its key: the tools of a category, of a large one `TOGETHER` near ones."""
    for category in dict.fromkeys(tool.category for tool in library):
        left = [tool for tool in library if tool.category == category]
        number = 0
        while len(left) > 1:
            near = left if len(left) <= TOGETHER else nearby(line(left[0]), left, TOGETHER)
            yield f"{slug(category)}-{number:03}", near
            left = [tool for tool in left if tool not in near]
            number += 1


async def merged(
    asker: Asker, domain: Domain, key: str, tools: Sequence[ToolRecord], apart: Set[Pair]
) -> list[Settled[Merge]]:
    """Which of some tools do the same, and the tool that each such group becomes; `apart` are never one."""
    sections = (
        Section(
            "role",
            (
                "You tidy the library of a service: tools that do the same become one.",
                "Rules:",
                "- Only tools that do the same are merged: a caller could use either. Tools that are only alike stay.",
                "- The merged tool has the name of one of them. Its arguments and results serve all calls of those "
                "that it replaces.",
                "- A tool is replaced once at most. Where no two do the same, the list is empty.",
                *RULES[3:],
            ),
        ),
        notes(domain),
        Section("tools", ("Tools:", *map(line, tools))),
    )
    form = (
        "Answer with JSON only; this example of another domain has one tool for two:",
        to_json({"merged": [{"replaces": [SHOWN["name"], "tell_rain_ahead"], **SHOWN}]}),
    )

    def check(answer: Mapping[str, Json]) -> Checked[Merge]:
        given = _Answer.model_validate(answer).merged
        if problems := [*_problems(given, tools, apart)]:
            return Checked((), tuple(problems))
        records = {one.name: one.record(tools[0].category) for one in given}
        return Checked((Merge({name: records[one.name] for one in given for name in one.replaces}),), ())

    return [await asker.settle(Item(key, sections, form, _schema([tool.name for tool in tools]), check))]


def neighbours(plans: Sequence[Workflow]) -> set[Pair]:
    """The names of tools that neighbouring substeps of a plan call: as one tool they would be called twice in a row."""
    return {
        Pair((one.tool.name, other.tool.name))
        for plan in plans
        for one, other in pairwise(plan.substeps)
        if one.tool and other.tool
    }


def rewritten(plan: Workflow, library: Mapping[str, ToolRecord]) -> Workflow:
    """A plan that calls what its tools have become, by their names."""
    steps = tuple(
        (text, tuple(replace(sub, tool=library[sub.tool.name] if sub.tool else None) for sub in substeps))
        for text, substeps in plan.steps
    )
    return replace(plan, steps=steps)


def _problems(given: Sequence[_Merged], tools: Sequence[ToolRecord], apart: Set[Pair]) -> Iterator[Broken]:
    known, taken = {tool.name for tool in tools}, set[str]()
    for one in given:
        yield from tool_problems(one)
        names = set(one.replaces)
        if len(names) < 2 or len(names) < len(one.replaces):
            yield broken("group", f"{one.name:.60}: it replaces two or more different tools.")
        for name in sorted(names - known):
            yield broken("unknown tool", f"{one.name:.60} replaces {name!r:.60}, which is not in the list.")
        for name in sorted(names & taken):
            yield broken("twice", f"{name:.60} is replaced twice.")
        if one.name not in names:
            yield broken("name", f"{one.name:.60}: a merged tool has the name of one that it replaces.")
        for pair in combinations(sorted(names & known), 2):
            if Pair(pair) in apart:
                yield broken(
                    "neighbours", f"Leave {pair[0]} and {pair[1]} apart: a plan calls one right after the other."
                )
        taken |= names


def _schema(names: Sequence[str]) -> dict[str, Any]:
    replaces = {"type": "array", "items": {"enum": [*names]}, "minItems": 2, "maxItems": len(names)}
    groups = {"type": "array", "items": tool_schema(names, replaces=replaces), "maxItems": len(names) // 2}
    return object_schema({"merged": groups}, ["merged"])
