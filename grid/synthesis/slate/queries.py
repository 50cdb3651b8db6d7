"""The stage that writes queries: what users who have a workflow's goal would write (egb_slate §3.2, figure 9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from grid.core.engine import Section
from grid.core.types import Json, to_json
from grid.datasets.slate.records import ArgumentRecord, ToolRecord
from grid.datasets.slate.stock import Complexity
from grid.engines.answer_schema import object_schema, text_schema
from grid.synthesis.slate.asking import Asker, Settled
from grid.synthesis.slate.config import Domain
from grid.synthesis.slate.items import Checked, Item
from grid.synthesis.slate.journal import Broken
from grid.synthesis.slate.plans import Workflow
from grid.synthesis.slate.rules import broken, copied, fits, normal, stands_in
from grid.synthesis.slate.tools import notes
from grid.text.words import stems

WORDS: Mapping[Complexity, tuple[int, str]] = {
    "simple": (10, "one wish with its details, in one or two sentences"),
    "moderate": (15, "one wish with a condition, in two or three sentences"),
    "complex": (25, "several conditions, what happened before, a deadline or a preference, in three to five sentences"),
    "advanced": (
        40,
        "several wishes that hang together, exceptions, deadlines and priorities, in five or more sentences",
    ),
}
"""The least words of a query, and what it holds, by complexity."""
_VALUE = 100
ANY_TEXT = {"type": "string"}  # of 1,200 characters at most it takes xgrammar half a minute to compile
EXAMPLE: Mapping[str, Any] = {
    "values": {"station_code": "WS-118", "target_day": "2026-05-14"},
    "query": "I have a meadow to mow on 14 May 2026, and wet hay is no use to my cows. WS-118 is just up the road. How "
    "much is going to come down there?",
}
AS_A_PERSON = (
    "- A person writes it, in the first person, with the details that person would have at hand: names, identifiers "
    "(such as BK-20417), full dates with the year, amounts with their currency, quantities."
)
_RULES = (
    "Rules:",
    AS_A_PERSON,
    "- Every value that the tools need and that no tool returns stands in it. Values that tools return do not.",
    "- Values stand as a person says them, without the names of arguments. No tool is named, and no step.",
)


class _Query(BaseModel):
    query: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Query:
    """What a user writes; `key` is the case's id, `values` are the first call's arguments.

    None where the query was there before the tools: then the stage of the substeps finds them in it.
    """

    key: str
    workflow: Workflow
    text: str
    values: Mapping[str, Json] | None


async def of_workflow(asker: Asker, domain: Domain, plan: Workflow, count: int) -> list[Settled[Query]]:
    """Queries of a workflow, one after another."""
    found: list[Settled[Query]] = []
    for number in range(count):
        before = [query for one in found for query in one.products]
        first = plan.calls[0][1]
        told = ("Queries that are there already; write another person's, with other values:",)
        sections = (
            Section("role", ("You write what users ask an assistant for.", *_RULES)),
            notes(domain),
            Section(
                "task",
                (
                    f"The user is a {plan.user}. The goal: {plan.goal}",
                    "The assistant will go this way:",
                    *(f"- {sub.purpose}{_takes(sub.tool)}" for sub in plan.substeps),
                    f"The query holds {WORDS[plan.complexity][1]}.",
                    "It must state, for the first call: " + "; ".join(map(described, first.arguments)) + ".",
                    *((*told, *(f"- {query.text}" for query in before)) if before else ()),
                ),
            ),
        )
        names = " and ".join(one.name for one in first.arguments)
        form = (
            f"Answer with JSON only, as in this example of another domain: {to_json(EXAMPLE)}",
            f"Your values are those of {names}, the first call's, as they stand in your query.",
        )
        item = Item(f"{plan.key}-{number:03}", sections, form, _schema(first), _checking(plan, number, before))
        found.append(await asker.settle(item))
    return found


class Said(Protocol):
    """What has a query's text."""

    @property
    def text(self) -> str:
        """As the user writes it."""
        ...


def distinct(before: Sequence[Said] = ()) -> Callable[[Said], Broken | None]:
    """A rule that refuses a query that is, but for its form, one before it."""
    texts = {normal(query.text) for query in before}

    def rule(query: Said) -> Broken | None:
        text = normal(query.text)
        if text in texts:
            return broken("duplicate", "Another query says the same: write another one.")
        texts.add(text)
        return None

    return rule


def value_schema(argument: ArgumentRecord) -> dict[str, Any]:
    """Of a value of an argument's type."""
    if argument.type == "date":
        return {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
    return text_schema(_VALUE) if argument.type == "string" else {"type": argument.type}


def _takes(tool: ToolRecord | None) -> str:
    if tool is None:
        return ""
    return f" (a tool takes {'; '.join(map(described, tool.arguments))}; it returns {', '.join(tool.results)})"


def described(argument: ArgumentRecord) -> str:
    """An argument's name, type and meaning, as prompts show it."""
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
                said = f"Say {value!r:.60} without the words of {argument.name}, as people do."
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
