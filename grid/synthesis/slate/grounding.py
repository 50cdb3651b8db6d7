"""The tools of plans: near ones of the library are used again, others made (egb_slate §3.3, figure 11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from grid.core.engine import Section
from grid.core.types import Json, to_json
from grid.datasets.slate.checking import names_tool
from grid.datasets.slate.records import ToolRecord
from grid.engines.answer_schema import object_schema
from grid.synthesis.slate.asking import Asker, Settled
from grid.synthesis.slate.config import Domain
from grid.synthesis.slate.items import Checked, Item
from grid.synthesis.slate.journal import Broken
from grid.synthesis.slate.nearby import Nearby
from grid.synthesis.slate.outlines import Outline
from grid.synthesis.slate.plans import OFFERED, Planned, Workflow
from grid.synthesis.slate.rules import NAME, broken
from grid.synthesis.slate.tools import (
    EXAMPLE,
    RULES,
    SHOWN,
    Written,
    distinct,
    line,
    notes,
    pattern_schema,
    tool_problems,
    tool_schema,
)

_CHOICE = (
    "- A tool of the list is used again wherever it does what a substep needs. Only for what none of them does is a "
    "new one described, such as other queries can use too.",
    "- The first call's arguments are all stated by the query. Each later call takes a result of an earlier one.",
    "- Two neighbouring substeps never call the same tool, and different calls use different tools where they can.",
    "- What the last call returns resolves the query.",
    "- A tool's name is not the text of a substep in other form.",
    "New tools:",
)
_FORM = (
    "Answer with JSON only, as in this example of another domain: under `use` the tool of each substep that calls one, "
    "under `new` those that are not in the list, which may be none:",
    to_json({"use": {"1.2": EXAMPLE.name}, "new": [SHOWN]}),
)


class _Answer(BaseModel):
    use: dict[str, str]
    new: list[Written]


@dataclass(frozen=True)
class Grounded:
    """A plan with its tools; `made` are those that were not in the library before."""

    plan: Workflow
    text: str
    made: tuple[ToolRecord, ...]


async def of_outlines(
    asker: Asker, domain: Domain, outlines: Sequence[Outline], nearby: Nearby
) -> list[Settled[Grounded]]:
    """The tools of plans, one plan after another: each is offered the nearest of what those before have made."""
    found: list[Settled[Grounded]] = []
    library: list[ToolRecord] = []
    for outline in outlines:
        offered = nearby(outline.wish.text, library, OFFERED)
        listed = ("Tools that are there:", *map(line, offered)) if offered else ("No tool is there yet.",)
        sections = (
            Section(
                "role",
                ("You choose the tools by which an assistant carries out a plan.", "Rules:", *_CHOICE, *RULES[1:]),
            ),
            notes(domain),
            Section("tools", listed),
            Section(
                "task",
                (
                    f"Query of a {outline.wish.shape.user}: {outline.wish.text}",
                    f"Goal: {outline.goal}",
                    "Plan:",
                    *outline.lines(),
                    f"Substeps that call a tool: {', '.join(outline.calling)}.",
                ),
            ),
        )
        item = Item(outline.wish.key, sections, _FORM, _schema(outline), _checking(outline, offered, tuple(library)))
        settled = await asker.settle(item)
        found.append(settled)
        library += [tool for one in settled.products for tool in one.made]
    return found


def _checking(
    outline: Outline, offered: Sequence[ToolRecord], library: Sequence[ToolRecord]
) -> Callable[[Mapping[str, Json]], Checked[Grounded]]:
    def check(answer: Mapping[str, Json]) -> Checked[Grounded]:
        given = _Answer.model_validate(answer)
        if given.use.keys() != {*outline.calling}:
            told = f"Under `use` stand {', '.join(outline.calling)}, and nothing else."
            return Checked((), (broken("shape", told),))
        problems = [*_new_problems(given, outline, library), *_use_problems(given, outline, offered)]
        if problems:
            return Checked((), tuple(problems))
        made = tuple(tool.record("") for tool in given.new)
        return Checked((Grounded(_workflow(outline, given.use, [*offered, *made]), outline.wish.text, made),), ())

    return check


def _new_problems(given: _Answer, outline: Outline, library: Sequence[ToolRecord]) -> Iterator[Broken]:
    rule = distinct([EXAMPLE, *library])
    for tool in given.new:
        own = [*tool_problems(tool)]
        yield from own
        if tool.name not in given.use.values():
            yield broken("unused", f"{tool.name:.60}: no substep calls this new tool; leave it out.")
        if not own and (repeated := rule(tool.record(""))):
            yield repeated
        for number in [number for number, name in given.use.items() if name == tool.name]:
            if names_tool(outline.texts[number], tool.name):
                yield broken("names tool", f"{tool.name:.60} says in its name what {number} says: call it otherwise.")


def _use_problems(given: _Answer, outline: Outline, offered: Sequence[ToolRecord]) -> Iterator[Broken]:
    known = {tool.name for tool in offered} | {tool.name for tool in given.new}
    for number, name in given.use.items():
        if name not in known:
            yield broken("unknown tool", f"Substep {number} calls {name!r:.60}, which is neither in the list nor new.")
    for (first, _), (second, _) in pairwise(outline.wish.shape.numbered()):
        if given.use.get(first) is not None and given.use.get(first) == given.use.get(second):
            yield broken("neighbours", f"Substeps {first} and {second} both call {given.use[first]:.60}.")


def _workflow(outline: Outline, use: Mapping[str, str], tools: Sequence[ToolRecord]) -> Workflow:
    named, wish, texts = {tool.name: tool for tool in tools}, outline.wish, outline.texts
    steps = tuple(
        (
            texts[str(i)],
            tuple(
                Planned(f"{i}.{j}", texts[f"{i}.{j}"], named[use[f"{i}.{j}"]] if calls else None)
                for j, calls in enumerate(substeps, 1)
            ),
        )
        for i, substeps in enumerate(wish.shape.steps, 1)
    )
    return Workflow(wish.key, wish.topic, wish.shape.user, wish.shape.complexity, outline.goal, steps)


def _schema(outline: Outline) -> dict[str, Any]:
    use = dict.fromkeys(outline.calling, pattern_schema(NAME))
    new = {"type": "array", "items": tool_schema(), "maxItems": len(use)}
    whole = {"new": new, "use": object_schema(use, [*use])}
    return object_schema(whole, [*whole])
