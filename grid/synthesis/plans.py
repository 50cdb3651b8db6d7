"""The stage that writes plans: the steps, substeps and tools that reach a user's goal (egb_slate §3.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, TypeAdapter

from grid.core.engine import Section
from grid.core.types import NO_TOOL, Json, to_json
from grid.datasets.slate.drafts import ToolRecord
from grid.datasets.slate.shop import Complexity
from grid.engines.answer_schema import object_schema, text_schema
from grid.retrievers.scored import BM25
from grid.synthesis.asking import FORM, Asker, Broken, Checked, Item, Settled, broken, copied, normal
from grid.synthesis.config import Domain, Shape, slug
from grid.synthesis.tools import line, notes

OFFERED = 30
"""Number of tools that a plan may choose from (figure 10); it is higher if the topic itself has more tools.

These are the topic's own tools, followed by the tools of other topics that are nearest to the topic.
"""
LENGTH = 160
KINDS: Mapping[Complexity, str] = {
    "simple": "It goes straight to the goal.",
    "moderate": "At least one call uses a result, and one substep decides something.",
    "complex": "Several calls use results. Something is checked first, and the finding decides what follows.",
    "advanced": (
        "It has several parts whose results are combined. Special cases are handled, and many kinds of tools are used."
    ),
}
"""For each complexity, the properties of its plans, except for the numbers of steps and substeps (figure 12)."""


class _Substep(BaseModel):
    purpose: str
    tool: str = NO_TOOL


_SUBSTEPS = TypeAdapter(dict[str, _Substep])
GOAL = "goal"


@dataclass(frozen=True)
class Planned:
    """A substep: its number `i.j`, its purpose, and its tool (None if it calls no tool)."""

    id: str
    purpose: str
    tool: ToolRecord | None


@dataclass(frozen=True)
class Workflow:
    """One way to reach a goal; `steps` are the high-level steps, each with its text and its substeps."""

    key: str
    topic: str
    user: str
    complexity: Complexity
    goal: str
    steps: tuple[tuple[str, tuple[Planned, ...]], ...]

    @cached_property
    def substeps(self) -> tuple[Planned, ...]:
        """All substeps, in order."""
        return tuple(sub for _, substeps in self.steps for sub in substeps)

    @property
    def calls(self) -> list[tuple[str, ToolRecord]]:
        """The number `i.j` and the tool of each substep that calls a tool."""
        return [(sub.id, sub.tool) for sub in self.substeps if sub.tool]

    def signature(self) -> tuple[str, ...]:
        """The names of the called tools, in the order of the calls."""
        return tuple(tool.name for _, tool in self.calls)


async def of_topic(
    asker: Asker, domain: Domain, topic: str, library: Sequence[ToolRecord], shapes: Sequence[Shape]
) -> list[Settled[Workflow]]:
    """Ask for the workflows of a topic, one after another, one for each of the `shapes`."""
    offered = _offered(topic, domain.topics[topic], library)
    found: list[Settled[Workflow]] = []
    for number, shape in enumerate(shapes):
        before = [plan for one in found for plan in one.products]
        key = f"{slug(topic)}-{number:03}"
        goals = [f"- {plan.goal}" for plan in before]
        shown = (
            "These plans exist already. Write one for a different goal, with other tools in another order:",
            *goals,
        )
        sections = (
            Section("role", ("You plan how an assistant resolves a user's request by calling tools.", *_RULES)),
            notes(domain),
            Section("tools", ("Tools:", *map(line, offered))),
            Section(
                "task",
                (
                    f"Topic: {topic}: {domain.topics[topic]}.",
                    f"The user is a {shape.user}.",
                    f"The plan is {shape.complexity}. {KINDS[shape.complexity]} Its parts are:",
                    *parts_of(shape),
                    *(shown if before else ()),
                ),
            ),
        )
        check = _checking(key, topic, shape, offered, before)
        item = Item(key, sections, _FORM, _schema(shape, offered), check)
        found.append(await asker.settle(item))
    return found


def distinct() -> Callable[[Workflow], Broken | None]:
    """A rule that refuses a workflow if an earlier one has the same goal, or the same tools in the same order."""
    goals, tools = set[str](), set[tuple[str, ...]]()

    def rule(plan: Workflow) -> Broken | None:
        goal, signature = normal(plan.goal), plan.signature()
        if goal in goals:
            return broken("duplicate", f"Another plan has this goal already: {plan.goal}"[:200])
        if signature in tools:
            return broken("duplicate", f"Another plan calls the same tools in the same order: {', '.join(signature)}.")
        goals.add(goal)
        tools.add(signature)
        return None

    return rule


_RULES = (
    "Rules:",
    "- The plan has high-level steps, each with substeps. A substep states its purpose. It calls one tool, or "
    "none if something is decided, compared or reported.",
    "- The first call needs only what the user says.",
    "- Each later call uses something that an earlier one returned: the plan is a chain.",
    "- Two substeps in a row never call the same tool. Different calls use different tools if they can.",
    "- The result of the last call resolves the user's request.",
    "- The goal is one sentence without names, numbers or dates. Queries that ask for it are written later.",
)
EXAMPLE: Mapping[str, Any] = {
    GOAL: "A farmer wants to know whether a meadow can be mown on a day.",
    "1": "Learn how wet it will be",
    "1.1": {"purpose": "Choose the weather station nearest to the meadow"},
    "1.2": {"purpose": "Get the rain at that station on the day", "tool": "foretell_rainfall"},
    "2": "Answer",
    "2.1": {"purpose": "Tell whether so much rain spoils the hay"},
}
_PURPOSES = [part["purpose"] for part in EXAMPLE.values() if isinstance(part, dict)]
_FORM = (f"Answer with JSON only, as in this short example from another domain: {to_json(EXAMPLE)}",)


def parts_of(shape: Shape) -> Iterator[str]:
    """The lines of a prompt that describe a shape."""
    for i, substeps in enumerate(shape.steps, 1):
        yield f"{i} a high-level step"
        for j, calls in enumerate(substeps, 1):
            told = "calls a tool" if calls else "has no tool: something is decided, compared or reported"
            yield f"  {i}.{j} a substep that {told}"


def _offered(topic: str, about: str, library: Sequence[ToolRecord]) -> list[ToolRecord]:
    named = {tool.name: tool for tool in library}
    own = [tool for tool in library if tool.category == topic]
    index = BM25(top_k=OFFERED).index({name: tool.spec() for name, tool in named.items()})
    others = [named[tool.name] for tool in index.nearest(f"{topic} {about}")]
    return [*own, *(tool for tool in others if tool.category != topic)][: max(OFFERED, len(own))]


def _checking(
    key: str, topic: str, shape: Shape, offered: Sequence[ToolRecord], before: Sequence[Workflow]
) -> Callable[[Mapping[str, Json]], Checked[Workflow]]:
    tools = {tool.name: tool for tool in offered}
    numbers = [number for number, _ in shape.numbered()]
    heads = [str(place) for place, _ in enumerate(shape.steps, 1)]

    def check(answer: Mapping[str, Json]) -> Checked[Workflow]:
        parts = [GOAL, *heads, *numbers]
        if answer.keys() != {*parts}:
            return Checked((), (broken("shape", f"The plan must have exactly these parts: {', '.join(parts)}."),))
        texts = {name: answer[name] for name in (GOAL, *heads)}
        given = _SUBSTEPS.validate_python({number: answer[number] for number in numbers})
        problems = [*_text_problems(texts, given), *_call_problems(shape, given, tools)]
        if problems:
            return Checked((), tuple(problems))
        numbered = {number: Planned(number, sub.purpose, tools.get(sub.tool)) for number, sub in given.items()}
        steps = tuple(
            (str(texts[head]), tuple(numbered[f"{head}.{j}"] for j, _ in enumerate(substeps, 1)))
            for head, substeps in zip(heads, shape.steps, strict=True)
        )
        plan = Workflow(key, topic, shape.user, shape.complexity, str(texts[GOAL]), steps)
        rule = distinct()
        for other in before:
            rule(other)
        repeated = rule(plan)
        return Checked((), (repeated,)) if repeated else Checked((plan,), ())

    return check


def _text_problems(texts: Mapping[str, Json], given: Mapping[str, _Substep]) -> Iterator[Broken]:
    for name, text in texts.items():
        if not isinstance(text, str):
            yield broken(FORM, f"The answer must have the form that was asked for: {name} must be a text.")
        elif not text.strip():
            yield broken("text", f"{name} is a sentence.")
    yield from copied(str(texts[GOAL]), (EXAMPLE[GOAL],), "The goal")
    for number, sub in given.items():
        yield from copied(sub.purpose, _PURPOSES, f"The purpose of {number}")
        if not sub.purpose.strip():
            yield broken("text", f"The purpose of {number} must be a sentence.")


def _call_problems(shape: Shape, given: Mapping[str, _Substep], tools: Mapping[str, ToolRecord]) -> Iterator[Broken]:
    for number, calls in shape.numbered():
        tool = given[number].tool
        if not calls and tool != NO_TOOL:
            yield broken("shape", f"Substep {number} must have no tool: something is decided, compared or reported.")
        elif calls and tool not in tools:
            yield broken("unknown tool", f"Substep {number} calls {tool!r:.60}, which is not in the list.")
    for (first, one), (second, other) in pairwise(given.items()):
        if one.tool == other.tool != NO_TOOL:
            yield broken("neighbours", f"Substeps {first} and {second} both call {one.tool:.60}.")


def _schema(shape: Shape, offered: Sequence[ToolRecord]) -> dict[str, Any]:
    purpose, tool = text_schema(LENGTH), {"enum": [one.name for one in offered]}
    whole: dict[str, Any] = {GOAL: text_schema(LENGTH)}
    for i, substeps in enumerate(shape.steps, 1):
        whole[str(i)] = text_schema(LENGTH)
        for j, calls in enumerate(substeps, 1):
            written = {"purpose": purpose, "tool": tool} if calls else {"purpose": purpose}
            whole[f"{i}.{j}"] = object_schema(written, [*written])
    return object_schema(whole, [*whole])
