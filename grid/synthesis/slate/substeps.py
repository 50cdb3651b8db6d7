"""The stage that writes a case's substeps, and the reference calls with their arguments (egb_slate §3.3, figure 11)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter

from grid.core.engine import Section
from grid.core.types import Json, ToolCall, to_json
from grid.datasets.slate.records import ToolRecord
from grid.datasets.slate.stats import names_tool
from grid.engines.answer_schema import object_schema, text_schema
from grid.synthesis.slate.asking import Asker, Settled
from grid.synthesis.slate.config import Domain
from grid.synthesis.slate.items import Checked, Item
from grid.synthesis.slate.journal import Broken
from grid.synthesis.slate.plans import Workflow
from grid.synthesis.slate.queries import Query, described, value_schema
from grid.synthesis.slate.rules import broken, copied, fits, normal, stands_in
from grid.synthesis.slate.tools import notes
from grid.text.references import PATTERN, found_in, reference, unreadable

_LENGTH = 200
_LEAST_WORDS = 4
_LEAST_CHAINED = 0.75
"""Share of a case's calls behind the first that take an earlier result."""
# Its numbers are none of a plan's: small models repeat what stands under a number of theirs.
_EXAMPLE: Mapping[str, Mapping[str, Any]] = {
    "6.1": {"text": "Settle which weather station is nearest to the meadow"},
    "6.2": {"text": "Find out how wet it will get at WS-118 on 14 May 2026"},
    "7.1": {
        "text": "Ask how sure the people at the station are of that",
        "arguments": {"prediction": reference("6.2", "forecast_id")},
    },
}
_RULES = (
    "Rules:",
    "- A substep's text says for what it is done in this case, as a colleague would write it: with its details, not "
    "in the words of its tool's name.",
    "- Later calls take results of earlier ones wherever one fits, written as OUTPUT_FROM_STEP_i.j.field, and nothing "
    "around it. Only what no result gives is taken from the query; dates as YYYY-MM-DD. Nothing is made up.",
    "- The last call takes an earlier result.",
)


class _Written(BaseModel):
    text: str
    arguments: dict[str, Any] = {}


_ANSWER = TypeAdapter(dict[str, _Written])


@dataclass(frozen=True)
class Outlined:
    """A query with the texts of its substeps and its reference calls, by the substep's number."""

    query: Query
    texts: Mapping[str, str]
    calls: Mapping[str, ToolCall]


async def of_query(asker: Asker, domain: Domain, query: Query) -> list[Settled[Outlined]]:
    """The substeps of one case."""
    plan = query.workflow
    later = [number for number, _ in plan.calls[1 if query.values is not None else 0 :]]
    sections = (
        Section("role", ("You write how an assistant resolves a user's query, substep by substep.", *_RULES)),
        notes(domain),
        Section(
            "task",
            (f"Query: {query.text}", f"Goal: {plan.goal}", "Substeps:", *_outline(plan), "Calls:", *_calls(query)),
        ),
    )
    form = (
        f"Answer with JSON only, as in this part of an example of another domain: {to_json(_EXAMPLE)}",
        f"Your substeps are {', '.join(sub.id for sub in plan.substeps)}."
        + (f" Those with arguments are {', '.join(later)}." if later else " None has arguments."),
    )
    return [await asker.settle(Item(query.key, sections, form, _schema(query), _checking(query)))]


def _outline(plan: Workflow) -> Iterator[str]:
    for number, (step, substeps) in enumerate(plan.steps, 1):
        yield f"{number} {step}"
        for sub in substeps:
            yield f"  {sub.id} {sub.purpose}"


def _calls(query: Query) -> Iterator[str]:
    results: list[str] = []
    for place, (number, tool) in enumerate(query.workflow.calls):
        takes = "; ".join(map(described, tool.arguments))
        if place:
            yield f"- {number} calls {tool.name}, which takes {takes}. Earlier results: {', '.join(results)}."
        elif query.values is None:
            yield f"- {number} calls {tool.name}, which takes {takes}. All of it stands in the query."
        else:
            yield f"- {number} calls {tool.name} with values of the query: {to_json(dict(query.values))}."
        results += [reference(number, field) for field in tool.results]


def _checking(query: Query) -> Callable[[Mapping[str, Json]], Checked[Outlined]]:
    plan = query.workflow

    def check(answer: Mapping[str, Json]) -> Checked[Outlined]:
        given = _ANSWER.validate_python(dict(answer))
        missing = [sub.id for sub in plan.substeps if sub.id not in given]
        if missing:
            return Checked((), (broken("form", f"Every substep stands in the answer; {', '.join(missing)} does not."),))
        texts = {sub.id: given[sub.id].text for sub in plan.substeps}
        (first, start), *later = plan.calls
        problems = [*_text_problems(plan, texts)]
        values = given[first].arguments if query.values is None else query.values
        calls = {first: ToolCall(start.name, dict(values))}
        if query.values is None:
            problems += _call_problems(first, start, calls[first], {}, query.text)
        results = {first: start.results}
        for number, tool in later:
            calls[number] = ToolCall(tool.name, given[number].arguments)
            problems += _call_problems(number, tool, calls[number], results, query.text)
            results[number] = tool.results
        problems += _chain_problems(list(calls.values()))
        return Checked((), tuple(problems)) if problems else Checked((Outlined(query, texts, calls),), ())

    return check


def _text_problems(plan: Workflow, texts: Mapping[str, str]) -> Iterator[Broken]:
    seen: dict[str, str] = {}
    for sub in plan.substeps:
        text = texts[sub.id]
        yield from copied(text, (one["text"] for one in _EXAMPLE.values()), f"The text of {sub.id}")
        if len(text.split()) < _LEAST_WORDS or "OUTPUT_FROM" in text:
            yield broken("text", f"Write a sentence of at least {_LEAST_WORDS} words for {sub.id}, in words only.")
        if sub.tool and names_tool(text, sub.tool.name):
            words = ", ".join(sub.tool.name.split("_"))
            yield broken("names tool", f"Write the text of {sub.id} in other words than {words}.")
        for name in sorted({tool.name for _, tool in plan.calls if tool.name in text}):
            yield broken("names tool", f"Do not name {name} in the text of {sub.id}.")
        if (other := seen.setdefault(normal(text), sub.id)) != sub.id:
            yield broken(
                "duplicate", f"The texts of {other} and {sub.id} say the same: write another one for {sub.id}."
            )


def _call_problems(
    number: str, tool: ToolRecord, call: ToolCall, results: Mapping[str, list[str]], query: str
) -> Iterator[Broken]:
    wanted = {one.name: one for one in tool.arguments}
    if wanted.keys() != call.arguments.keys():
        yield broken("arguments", f"{number}: {tool.name} takes {', '.join(wanted)}, and all of them.")
        return
    if unreadable(call):
        yield broken("reference", f"{number}: results are written as OUTPUT_FROM_STEP_i.j.field.")
        return
    for name, value in call.arguments.items():
        taken = PATTERN.fullmatch(value) if isinstance(value, str) else None
        if taken and taken[2] not in results.get(taken[1], ()):
            known = ", ".join(reference(step, field) for step, fields in results.items() for field in fields)
            yield broken("reference", f"{number}: {value} is no earlier result; those are {known or 'none'}.")
        elif taken:
            continue
        elif any(found_in(ToolCall("", {name: value}))):
            yield broken("reference", f"{number}: {name} is a result with nothing around it.")
        elif not fits(value, wanted[name].type):
            yield broken("type", f"{number}: {name} is a {wanted[name].type}, or an earlier result.")
        elif not stands_in(value, query):
            yield broken("source", f"{number}: {name}={value!r:.60} stands neither in the query nor in a result.")


def _chain_problems(calls: list[ToolCall]) -> Iterator[Broken]:
    later = calls[1:]
    chained = [any(found_in(call)) for call in later]
    if later and not chained[-1]:
        yield broken("chain", "The last call takes an earlier result.")
    elif later and sum(chained) < _LEAST_CHAINED * len(later):
        yield broken("chain", f"{sum(chained)} of the {len(later)} later calls take an earlier result: too few.")


def _schema(query: Query) -> dict[str, Any]:
    plan = query.workflow
    results: list[str] = []
    whole = dict[str, Any]()
    for sub in plan.substeps:
        written = {"text": text_schema(_LENGTH)}
        if sub.tool:
            if results:
                values = {one.name: {"anyOf": [{"enum": [*results]}, value_schema(one)]} for one in sub.tool.arguments}
                written["arguments"] = object_schema(values, [*values])
            elif query.values is None:
                values = {one.name: value_schema(one) for one in sub.tool.arguments}
                written["arguments"] = object_schema(values, [*values])
            results += [reference(sub.id, field) for field in sub.tool.results]
        whole[sub.id] = object_schema(written, [*written])
    return object_schema(whole, [*whole])
