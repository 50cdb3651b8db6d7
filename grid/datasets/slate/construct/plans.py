"""The stage that plans: how a user's goal is reached in steps and substeps, and by which tools (egb_slate §3.3)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from grid.datasets.slate.construct.asking import Asker, Settled
from grid.datasets.slate.construct.config import Domain, slug
from grid.datasets.slate.construct.items import Checked, Item
from grid.datasets.slate.construct.journal import Broken
from grid.datasets.slate.construct.rules import broken, copied, normal
from grid.datasets.slate.construct.tools import line, notes
from grid.datasets.slate.records import ToolRecord
from grid.datasets.slate.stock import SHAPES, Complexity
from grid.engines.answer_schema import object_schema, text_schema
from grid.engines.base import Section
from grid.retrievers.bm25 import BM25
from grid.seeds import derive_seed
from grid.types import NO_TOOL, Json, to_json

OFFERED = 30
"""Tools that a plan may use: the topic's own, then the nearest of the others (figure 10)."""
_LENGTH = 160
_KINDS: Mapping[Complexity, str] = {
    "simple": "It goes straight to its end.",
    "moderate": "At least one call takes a result, and one substep decides something.",
    "complex": "Several calls take results; something is checked first, and what is found decides what follows.",
    "advanced": "It has several parts whose results meet; special cases are seen to, and the tools are of many kinds.",
}
"""What plans of a complexity have beside their numbers (figure 12)."""


class _Substep(BaseModel):
    purpose: str
    tool: str


class _Step(BaseModel):
    step: str
    substeps: list[_Substep]


class _Plan(BaseModel):
    goal: str
    steps: list[_Step]


@dataclass(frozen=True)
class Planned:
    """A substep: its number `i.j`, what it is for, and its tool if any."""

    id: str
    purpose: str
    tool: ToolRecord | None


@dataclass(frozen=True)
class Workflow:
    """One way in which a goal is reached; `steps` are the high-level ones, each with its substeps."""

    key: str
    topic: str
    user: str
    complexity: Complexity
    goal: str
    steps: tuple[tuple[str, tuple[Planned, ...]], ...]

    @cached_property
    def substeps(self) -> tuple[Planned, ...]:
        """All, in order."""
        return tuple(sub for _, substeps in self.steps for sub in substeps)

    @property
    def calls(self) -> list[tuple[str, ToolRecord]]:
        """Number and tool of each substep that calls one."""
        return [(sub.id, sub.tool) for sub in self.substeps if sub.tool]

    def signature(self) -> tuple[str, ...]:
        """The tools in their order."""
        return tuple(tool.name for _, tool in self.calls)


async def of_topic(
    asker: Asker,
    domain: Domain,
    topic: str,
    library: Sequence[ToolRecord],
    wanted: Sequence[tuple[str, Complexity]],
) -> list[Settled[Workflow]]:
    """Workflows of a topic, one after another, for the users and of the complexities `wanted`."""
    offered = _offered(topic, domain.topics[topic], library)
    found: list[Settled[Workflow]] = []
    for number, (user, complexity) in enumerate(wanted):
        before = [plan for one in found for plan in one.products]
        key = f"{slug(topic)}-{number:03}"
        goals = [f"- {plan.goal}" for plan in before]
        shown = ("Plans that are there already; write one for another goal, with other tools in another order:", *goals)
        sections = (
            Section("role", ("You plan how an assistant resolves what a user asks for, by calling tools.", *_RULES)),
            notes(domain),
            Section("tools", ("Tools:", *map(line, offered))),
            Section(
                "task",
                (
                    f"Topic: {topic}: {domain.topics[topic]}.",
                    f"The user is a {user}.",
                    *_shape(complexity),
                    *(shown if before else ()),
                ),
            ),
        )
        check = _checking(key, topic, user, complexity, offered, before)
        item = Item(key, sections, _FORM, _schema(complexity, offered), check)
        found.append(await asker.settle(item))
    return found


def drawn(
    seed: int, topic: str, users: Sequence[str], shares: Mapping[Complexity, float], count: int
) -> list[tuple[str, Complexity]]:
    """User and complexity of each of a topic's workflows: users take turns, complexities are drawn by their shares."""
    rng = random.Random(derive_seed(seed, "complexity", topic))
    kinds = rng.choices([*shares], weights=[*shares.values()], k=count)
    return [(users[number % len(users)], kind) for number, kind in enumerate(kinds)]


def distinct() -> Callable[[Workflow], Broken | None]:
    """A rule that refuses a workflow whose goal, or whose tools in their order, one before it has."""
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
    "- High-level steps, each with substeps. A substep says what it is for; it calls one tool, or none "
    f"({NO_TOOL}) where something is decided, compared or told.",
    "- The first call needs nothing but what the user says.",
    "- Each later call takes something that an earlier one returned: the plan is a chain.",
    "- Two neighbouring substeps never call the same tool, and different calls use different tools where they can.",
    "- What the last call returns resolves what the user asked for.",
    "- The goal is one sentence without names, numbers or dates: queries that ask for it are written later.",
)
_EXAMPLE: Mapping[str, Any] = {
    "goal": "A farmer wants to know whether a meadow can be mown on a day.",
    "steps": [
        {
            "step": "Learn how wet it will be",
            "substeps": [
                {"purpose": "Choose the weather station nearest to the meadow", "tool": NO_TOOL},
                {"purpose": "Get the rain at that station on the day", "tool": "foretell_rainfall"},
            ],
        },
        {"step": "Answer", "substeps": [{"purpose": "Tell whether so much rain spoils the hay", "tool": NO_TOOL}]},
    ],
}
_PURPOSES = [sub["purpose"] for step in _EXAMPLE["steps"] for sub in step["substeps"]]
_FORM = (f"Answer with JSON only, as in this short example of another domain: {to_json(_EXAMPLE)}",)


def _offered(topic: str, about: str, library: Sequence[ToolRecord]) -> list[ToolRecord]:
    named = {tool.name: tool for tool in library}
    own = [tool for tool in library if tool.category == topic]
    index = BM25(top_k=OFFERED).index({name: tool.spec() for name, tool in named.items()})
    others = [named[tool.name] for tool in index.nearest(f"{topic} {about}")]
    return [*own, *(tool for tool in others if tool.category != topic)][: max(OFFERED, len(own))]


def _span(allowed: range) -> str:
    return f"{allowed.start} to {allowed.stop - 1}"


def _shape(complexity: Complexity) -> tuple[str, ...]:
    steps, per_step, substeps, _ = SHAPES[complexity]
    return (
        f"The plan is {complexity}: {_span(steps)} high-level steps with {_span(per_step)} substeps each, "
        f"{_span(substeps)} substeps in all. {_calling(complexity)} {_KINDS[complexity]}",
    )


def _calling(complexity: Complexity) -> str:
    """How many substeps call a tool, and what the others are: models that are told no more give every substep one."""
    _, _, substeps, calls = SHAPES[complexity]
    others = max(substeps.start - calls.stop + 1, 0)
    rest = f"at least {others}" if others else "others"
    return f"{_span(calls)} substeps call a tool, and {rest} have {NO_TOOL}: they decide, compare or tell something."


def _checking(
    key: str,
    topic: str,
    user: str,
    complexity: Complexity,
    offered: Sequence[ToolRecord],
    before: Sequence[Workflow],
) -> Callable[[Mapping[str, Json]], Checked[Workflow]]:
    tools = {tool.name: tool for tool in offered}

    def check(answer: Mapping[str, Json]) -> Checked[Workflow]:
        given = _Plan.model_validate(answer)
        rows = [(f"{i}.{j}", sub) for i, step in enumerate(given.steps, 1) for j, sub in enumerate(step.substeps, 1)]
        problems = [*_shape_problems(given, complexity), *_call_problems(rows, tools)]
        problems += copied(given.goal, (_EXAMPLE["goal"],), "The goal")
        for number, sub in rows:
            problems += copied(sub.purpose, _PURPOSES, f"The purpose of {number}")
        if not given.goal.strip() or any(not sub.purpose.strip() for _, sub in rows):
            problems.append(broken("text", "The goal and every purpose are sentences."))
        if problems:
            return Checked((), tuple(problems))
        numbered = {number: Planned(number, sub.purpose, tools.get(sub.tool)) for number, sub in rows}
        steps = tuple(
            (step.step, tuple(numbered[f"{i}.{j}"] for j in range(1, len(step.substeps) + 1)))
            for i, step in enumerate(given.steps, 1)
        )
        plan = Workflow(key, topic, user, complexity, given.goal, steps)
        rule = distinct()
        for other in before:
            rule(other)
        repeated = rule(plan)
        return Checked((), (repeated,)) if repeated else Checked((plan,), ())

    return check


def _shape_problems(plan: _Plan, complexity: Complexity) -> Iterator[Broken]:
    steps, per_step, substeps, calls = SHAPES[complexity]
    counts = [len(step.substeps) for step in plan.steps]
    made = sum(sub.tool != NO_TOOL for step in plan.steps for sub in step.substeps)
    for label, number, allowed in [
        ("high-level steps", len(counts), steps),
        ("substeps", sum(counts), substeps),
        ("substeps that call a tool", made, calls),
        *((f"substeps in step {place}", count, per_step) for place, count in enumerate(counts, 1)),
    ]:
        if number not in allowed:
            told = f"The plan has {number} {label}, and needs {_span(allowed)}."
            yield broken("shape", f"{told} {_calling(complexity)}")


def _call_problems(rows: Sequence[tuple[str, _Substep]], tools: Mapping[str, ToolRecord]) -> Iterator[Broken]:
    for number, sub in rows:
        if sub.tool != NO_TOOL and sub.tool not in tools:
            yield broken("unknown tool", f"Substep {number} calls {sub.tool!r:.60}, which is not in the list.")
    for (first, one), (second, other) in pairwise(rows):
        if one.tool == other.tool != NO_TOOL:
            yield broken("neighbours", f"Substeps {first} and {second} both call {one.tool:.60}.")


def _schema(complexity: Complexity, offered: Sequence[ToolRecord]) -> dict[str, Any]:
    steps, per_step, _, _ = SHAPES[complexity]
    tool = {"enum": [*(one.name for one in offered), NO_TOOL]}
    substep = {"purpose": text_schema(_LENGTH), "tool": tool}
    substeps = _list(object_schema(substep, [*substep]), per_step)
    step = {"step": text_schema(_LENGTH), "substeps": substeps}
    plan = {"goal": text_schema(_LENGTH), "steps": _list(object_schema(step, [*step]), steps)}
    return object_schema(plan, [*plan])


def _list(items: dict[str, Any], allowed: range) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": allowed.start, "maxItems": allowed.stop - 1}
