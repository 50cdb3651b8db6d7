"""User queries for a workflow's goal or, if there are no tools yet, queries and prose plans (egb_slate §3.2, §3.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from grid.core.engine import Section
from grid.core.types import Json, to_json
from grid.datasets.slate.drafts import ArgumentRecord, ToolRecord
from grid.datasets.slate.shop import Complexity
from grid.engines.answer_schema import object_schema, text_schema
from grid.synthesis.asking import FORM, Asker, Broken, Checked, Item, Settled, broken, copied, fits, normal, stands_in
from grid.synthesis.config import Domain, Shape, slug
from grid.synthesis.plans import EXAMPLE as PLAN_EXAMPLE
from grid.synthesis.plans import GOAL, KINDS, LENGTH, Workflow, parts_of
from grid.synthesis.tools import notes
from grid.text.words import stems

WORDS: Mapping[Complexity, tuple[int, str]] = {
    "simple": (10, "one wish with its details, in one or two sentences"),
    "moderate": (15, "one wish with a condition, in two or three sentences"),
    "complex": (25, "several conditions, what happened before, a deadline or a preference, in three to five sentences"),
    "advanced": (
        40,
        "several related wishes, exceptions, deadlines and priorities, in five or more sentences",
    ),
}
"""For each complexity, the minimum number of words in a query, and a description of a query's content."""
_VALUE = 100
ANY_TEXT = {"type": "string"}  # no limit, because xgrammar needs half a minute to compile one of 1,200 characters
EXAMPLE: Mapping[str, Any] = {
    "values": {"station_code": "WS-118", "target_day": "2026-05-14"},
    "query": "I have a meadow to mow on 14 May 2026, and wet hay is no use to my cows. WS-118 is just up the road. How "
    "much is going to come down there?",
}
AS_A_PERSON = (
    "- It is written by a person, in the first person, with the details that this person would have at hand: "
    "names, identifiers (such as BK-20417), full dates with the year, amounts with their currency, quantities."
)
_RULES = (
    "Rules:",
    AS_A_PERSON,
    "- It contains every value that the tools need and that no tool returns. It contains no value that a tool returns.",
    "- Values are given in the way a person would say them, without the names of arguments. It names no tool "
    "and no step.",
)


class _Query(BaseModel):
    query: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Query:
    """A user's query; `key` is the case's id, and `values` are the first call's arguments.

    `values` is None if the query was written before the tools; the stage that writes substeps then finds the arguments
    in the query's text.
    """

    key: str
    workflow: Workflow
    text: str
    values: Mapping[str, Json] | None


async def of_workflow(asker: Asker, domain: Domain, plan: Workflow, count: int) -> list[Settled[Query]]:
    """Ask for the queries of a workflow, one after another."""
    found: list[Settled[Query]] = []
    for number in range(count):
        before = [query for one in found for query in one.products]
        first = plan.calls[0][1]
        told = ("These queries exist already. Write the query of another person, with other values:",)
        sections = (
            Section("role", ("You write the requests that users make to an assistant.", *_RULES)),
            notes(domain),
            Section(
                "task",
                (
                    f"The user is a {plan.user}. The goal: {plan.goal}",
                    "The assistant will take these steps:",
                    *(f"- {sub.purpose}{_takes(sub.tool)}" for sub in plan.substeps),
                    f"The query holds {WORDS[plan.complexity][1]}.",
                    "For the first call it must state: " + "; ".join(map(described, first.arguments)) + ".",
                    *((*told, *(f"- {query.text}" for query in before)) if before else ()),
                ),
            ),
        )
        names = " and ".join(one.name for one in first.arguments)
        form = (
            f"Answer with JSON only, as in this example from another domain: {to_json(EXAMPLE)}",
            f"Your values are those of {names}, the arguments of the first call, exactly as in your query.",
        )
        item = Item(f"{plan.key}-{number:03}", sections, form, _schema(first), _checking(plan, number, before))
        found.append(await asker.settle(item))
    return found


class Said(Protocol):
    """Any object that has the text of a query."""

    @property
    def text(self) -> str:
        """The text that the user writes."""
        ...


def distinct(before: Sequence[Said] = ()) -> Callable[[Said], Broken | None]:
    """A rule that refuses a query that repeats the text of an earlier one, possibly with words in different forms."""
    texts = {normal(query.text) for query in before}

    def rule(query: Said) -> Broken | None:
        text = normal(query.text)
        if text in texts:
            return broken("duplicate", "Another query says the same thing: write a different one.")
        texts.add(text)
        return None

    return rule


def value_schema(argument: ArgumentRecord) -> dict[str, Any]:
    """The JSON schema for a value of an argument's type."""
    if argument.type == "date":
        return {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
    return text_schema(_VALUE) if argument.type == "string" else {"type": argument.type}


def _takes(tool: ToolRecord | None) -> str:
    if tool is None:
        return ""
    return f" (a tool takes {'; '.join(map(described, tool.arguments))}; it returns {', '.join(tool.results)})"


def described(argument: ArgumentRecord) -> str:
    """An argument's name, type and meaning, as prompts show them."""
    return f"{argument.name}, {argument.type}: {argument.description.rstrip('.')}"


def _checking(plan: Workflow, number: int, before: Sequence[Query]) -> Callable[[Mapping[str, Json]], Checked[Query]]:
    first = plan.calls[0][1]
    least, _ = WORDS[plan.complexity]

    def check(answer: Mapping[str, Json]) -> Checked[Query]:
        given = _Query.model_validate(answer)
        values = {one.name: given.values.get(one.name) for one in first.arguments}
        query = Query(f"{plan.key}-{number:03}", plan, given.query, values)
        problems = [*copied(query.text, (EXAMPLE["query"],), "The query")]
        for argument in first.arguments:
            value = values[argument.name]
            if not fits(value, argument.type):
                problems.append(broken("type", f"Write a value of {argument.name} that is a {argument.type}."))
            elif not stands_in(value, query.text):
                problems.append(broken("value", f"Write the value of {argument.name}, {value!r:.60}, into the query."))
            elif set(stems(argument.name)) <= set(stems(query.text)):
                said = f"Say {value!r:.60} without the words of {argument.name}, in the way people would."
                problems.append(broken("argument name", said))
        if len(query.text.split()) < least:
            problems.append(broken("length", f"Write a query of at least {least} words, with all details."))
        named = [tool.name for _, tool in plan.calls if tool.name in query.text]
        problems += [broken("names tool", f"Do not name {name} in the query.") for name in named]
        repeated = distinct(before)(query)
        problems += [repeated] if repeated else []
        return Checked((), tuple(problems)) if problems else Checked((query,), ())

    return check


def _schema(first: ToolRecord) -> dict[str, Any]:
    values = {one.name: value_schema(one) for one in first.arguments}
    whole = {"values": object_schema(values, [*values]), "query": ANY_TEXT}
    return object_schema(whole, [*whole])


# Queries from a topic's users, written before there are tools (egb_slate §3.2, figure 9).


_LEAST_DETAILS: Mapping[Complexity, int] = {"simple": 1, "moderate": 2, "complex": 3, "advanced": 4}
"""Minimum number of different details in a query: identifiers, dates, amounts, quantities (words with a digit)."""
_WISH_RULES = (
    "Rules:",
    AS_A_PERSON,
    "- It has several such details, which tools can use as they are.",
    "- It is not known yet how the assistant will proceed: it names no tool and no step.",
    "- It can be resolved by looking things up, checking them and changing them, without asking back.",
)


class _Answer(BaseModel):
    query: str


@dataclass(frozen=True)
class Wish:
    """A query written before its plan: its topic, its text, and the shape of its plan, which also names the user."""

    key: str
    topic: str
    shape: Shape
    text: str


async def of_topic(asker: Asker, domain: Domain, topic: str, shapes: Sequence[Shape]) -> list[Settled[Wish]]:
    """Ask for the queries of a topic, one after another, one for each of the `shapes`."""
    found: list[Settled[Wish]] = []
    for number, shape in enumerate(shapes):
        before = [wish for one in found for wish in one.products]
        told = ("These queries exist already. Write a different one, with another wish and other details:",)
        sections = (
            Section("role", ("You are a user of a service and write to its assistant.", *_WISH_RULES)),
            notes(domain),
            Section(
                "task",
                (
                    f"Topic: {topic}: {domain.topics[topic]}.",
                    f"You are a {shape.user}.",
                    f"The query is {shape.complexity}: it contains {WORDS[shape.complexity][1]}.",
                    *((*told, *(f"- {wish.text}" for wish in before)) if before else ()),
                ),
            ),
        )
        example = to_json({"query": EXAMPLE["query"]})
        form = (f"Answer with JSON only, as in this example from another domain: {example}",)
        key = f"{slug(topic)}-{number:03}"
        item = Item(
            key,
            sections,
            form,
            object_schema({"query": ANY_TEXT}, ["query"]),
            _wish_checking(key, topic, shape, before),
        )
        found.append(await asker.settle(item))
    return found


def _wish_checking(
    key: str, topic: str, shape: Shape, before: Sequence[Wish]
) -> Callable[[Mapping[str, Json]], Checked[Wish]]:
    words, details = WORDS[shape.complexity][0], _LEAST_DETAILS[shape.complexity]

    def check(answer: Mapping[str, Json]) -> Checked[Wish]:
        wish = Wish(key, topic, shape, _Answer.model_validate(answer).query)
        problems = [*copied(wish.text, (EXAMPLE["query"],), "The query")]
        if len(wish.text.split()) < words:
            problems.append(broken("length", f"Write a query of at least {words} words, with all details."))
        if len(set(re.findall(r"[^\s,;()]*\d[^\s,;()]*", wish.text))) < details:
            problems.append(
                broken("details", f"State {details} or more different identifiers, dates, amounts or quantities.")
            )
        if re.search(r"\b\w+_\w+\b", wish.text):
            problems.append(broken("names tool", "Write in words, without names that contain an underscore."))
        repeated = distinct(before)(wish)
        problems += [repeated] if repeated else []
        return Checked((), tuple(problems)) if problems else Checked((wish,), ())

    return check


# Plans written before there are tools: a query is divided into steps and substeps in prose (egb_slate §3.3, figure 10).


_OUTLINE_RULES = (
    "Rules:",
    "- The plan has high-level steps, each with substeps. A substep states its purpose and its context.",
    "- It is not known yet which tools exist. Name no tool and no function.",
    "- A substep that calls a tool looks up, checks, computes or changes one thing. A substep without a tool "
    "decides, compares or reports.",
    "- The first call needs only what the query says. Each later call needs something that came before.",
    "- The last call resolves the query.",
    "- The goal is one sentence without names, numbers or dates.",
)
_SHORT = {name: part["purpose"] if isinstance(part, dict) else part for name, part in PLAN_EXAMPLE.items()}
_FORM = (f"Answer with JSON only, as in this short example from another domain: {to_json(_SHORT)}",)


@dataclass(frozen=True)
class Outline:
    """The plan for a wish, written in prose: its goal, and the texts of its steps `i` and substeps `i.j`."""

    wish: Wish
    goal: str
    texts: Mapping[str, str]

    @property
    def calling(self) -> list[str]:
        """The numbers `i.j` of the substeps that call a tool."""
        return [number for number, calls in self.wish.shape.numbered() if calls]

    def lines(self) -> Iterator[str]:
        """The plan's lines in a prompt."""
        calling = {*self.calling}
        for number, text in self.texts.items():
            yield (
                f"{number} {text}"
                if "." not in number
                else f"  {number} {text}{' (calls a tool)' * (number in calling)}"
            )


async def of_wish(asker: Asker, domain: Domain, wish: Wish) -> list[Settled[Outline]]:
    """Ask for the plan for a query, in prose."""
    shape = wish.shape
    sections = (
        Section(
            "role",
            ("You break a user's request down into a plan, before it is known which tools exist.", *_OUTLINE_RULES),
        ),
        notes(domain),
        Section(
            "task",
            (
                f"Query from a {shape.user}: {wish.text}",
                f"The plan is {shape.complexity}. {KINDS[shape.complexity]} Its parts are:",
                *parts_of(shape),
            ),
        ),
    )
    texts = dict.fromkeys([GOAL, *_numbers(shape)], text_schema(LENGTH))
    return [
        await asker.settle(Item(wish.key, sections, _FORM, object_schema(texts, [*texts]), _outline_checking(wish)))
    ]


def _numbers(shape: Shape) -> list[str]:
    """The numbers `i` of all steps and `i.j` of all substeps, in order."""
    found = list[str]()
    for i, substeps in enumerate(shape.steps, 1):
        found += [str(i), *(f"{i}.{j}" for j, _ in enumerate(substeps, 1))]
    return found


def _outline_checking(wish: Wish) -> Callable[[Mapping[str, Json]], Checked[Outline]]:
    parts = [GOAL, *_numbers(wish.shape)]

    def check(answer: Mapping[str, Json]) -> Checked[Outline]:
        if answer.keys() != {*parts}:
            return Checked((), (broken("shape", f"The plan must have exactly these parts: {', '.join(parts)}."),))
        if problems := [*_problems({name: answer[name] for name in parts})]:
            return Checked((), tuple(problems))
        texts = {name: str(answer[name]) for name in parts[1:]}
        return Checked((Outline(wish, str(answer[GOAL]), texts),), ())

    return check


def _problems(texts: Mapping[str, Any]) -> Iterator[Broken]:
    seen: dict[str, str] = {}
    for name, text in texts.items():
        if not isinstance(text, str):
            yield broken(FORM, f"The answer must have the form that was asked for: {name} must be a text.")
            continue
        if not text.strip():
            yield broken("text", f"{name} is a sentence.")
        yield from copied(text, _SHORT.values(), name)
        if "." in name and (other := seen.setdefault(normal(text), name)) != name:
            yield broken("duplicate", f"{other} and {name} say the same thing: write another text for {name}.")
