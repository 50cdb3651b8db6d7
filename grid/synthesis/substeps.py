"""A case's substeps, its reference calls with their arguments, and the calls' outcomes (egb_slate §3.3, §3.4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter

from grid.core.engine import Section
from grid.core.types import Json, ToolCall, to_json
from grid.datasets.slate.drafts import CallRecord, CaseRecord, StepRecord, SubstepRecord, ToolRecord, check_case
from grid.datasets.slate.stats import names_tool
from grid.engines.answer_schema import object_schema, text_schema
from grid.synthesis.asking import Asker, Broken, Checked, Item, Settled, broken, copied, fits, normal, stands_in
from grid.synthesis.config import Domain
from grid.synthesis.plans import Workflow
from grid.synthesis.queries import Query, described, value_schema
from grid.synthesis.tools import notes
from grid.text.references import PATTERN, found_in, reference, resolve, unreadable
from grid.worlds.lookup import build_entries, means

_LENGTH = 200
_LEAST_WORDS = 4
_LEAST_CHAINED = 0.75
"""The minimum share of calls that must use an earlier call's result, among all calls of a case except the first."""
# Plans never use the substep numbers of this example, since they have at most seven steps: if a number occurred in
# both, small models would copy the example's text for it.
_EXAMPLE: Mapping[str, Mapping[str, Any]] = {
    "8.1": {"text": "Settle which weather station is nearest to the meadow"},
    "8.2": {"text": "Find out how wet it will get at WS-118 on 14 May 2026"},
    "9.1": {
        "text": "Ask how sure the people at the station are of that",
        "arguments": {"prediction": reference("8.2", "forecast_id")},
    },
}
_RULES = (
    "Rules:",
    "- A substep's text states its purpose in this case, as a colleague would write it: with its details, and "
    "not in the words of the tool's name.",
    "- Later calls use results of earlier ones wherever one fits, written as OUTPUT_FROM_STEP_i.j.field with "
    "nothing around it. Take from the query only what no result provides. Write dates as YYYY-MM-DD. Do not "
    "make anything up.",
    "- The last call uses an earlier result.",
)


class _Written(BaseModel):
    text: str
    arguments: dict[str, Any] = {}


_ANSWER = TypeAdapter(dict[str, _Written])


@dataclass(frozen=True)
class Outlined:
    """A query with the texts of its substeps and its reference calls, both keyed by substep number."""

    query: Query
    texts: Mapping[str, str]
    calls: Mapping[str, ToolCall]


async def of_query(asker: Asker, domain: Domain, query: Query) -> list[Settled[Outlined]]:
    """Ask for the texts and calls of one case's substeps."""
    plan = query.workflow
    later = [number for number, _ in plan.calls[1 if query.values is not None else 0 :]]
    sections = (
        Section("role", ("You write down how an assistant resolves a user's query, substep by substep.", *_RULES)),
        notes(domain),
        Section(
            "task",
            (f"Query: {query.text}", f"Goal: {plan.goal}", "Substeps:", *_outline(plan), "Calls:", *_calls(query)),
        ),
    )
    form = (
        f"Answer with JSON only, as in this part of an example from another domain: {to_json(_EXAMPLE)}",
        f"Your substeps are {', '.join(sub.id for sub in plan.substeps)}."
        + (f" These have arguments: {', '.join(later)}." if later else " None has arguments."),
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
            yield f"- {number} calls {tool.name}, which takes {takes}. The query states all of it."
        else:
            yield f"- {number} calls {tool.name} with values of the query: {to_json(dict(query.values))}."
        results += [reference(number, field) for field in tool.results]


def _checking(query: Query) -> Callable[[Mapping[str, Json]], Checked[Outlined]]:
    plan = query.workflow

    def check(answer: Mapping[str, Json]) -> Checked[Outlined]:
        given = _ANSWER.validate_python(dict(answer))
        missing = [sub.id for sub in plan.substeps if sub.id not in given]
        if missing:
            return Checked(
                (),
                (broken("form", f"The answer must contain every substep; these are missing: {', '.join(missing)}."),),
            )
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
            yield broken("names tool", f"Write the text of {sub.id} with words other than {words}.")
        for name in sorted({tool.name for _, tool in plan.calls if tool.name in text}):
            yield broken("names tool", f"Do not name {name} in the text of {sub.id}.")
        if (other := seen.setdefault(normal(text), sub.id)) != sub.id:
            yield broken(
                "duplicate", f"The texts of {other} and {sub.id} say the same thing: write another one for {sub.id}."
            )


def _call_problems(
    number: str, tool: ToolRecord, call: ToolCall, results: Mapping[str, list[str]], query: str
) -> Iterator[Broken]:
    wanted = {one.name: one for one in tool.arguments}
    if wanted.keys() != call.arguments.keys():
        yield broken("arguments", f"{number}: {tool.name} must have exactly these arguments: {', '.join(wanted)}.")
        return
    if unreadable(call):
        yield broken("reference", f"{number}: results must be written as OUTPUT_FROM_STEP_i.j.field.")
        return
    for name, value in call.arguments.items():
        taken = PATTERN.fullmatch(value) if isinstance(value, str) else None
        if taken and taken[2] not in results.get(taken[1], ()):
            known = ", ".join(reference(step, field) for step, fields in results.items() for field in fields)
            yield broken(
                "reference", f"{number}: {value} is not an earlier result; the earlier results are: {known or 'none'}."
            )
        elif taken:
            continue
        elif any(found_in(ToolCall("", {name: value}))):
            yield broken("reference", f"{number}: {name} must be a result with nothing around it.")
        elif not fits(value, wanted[name].type):
            yield broken("type", f"{number}: {name} must be a {wanted[name].type} or an earlier result.")
        elif not stands_in(value, query):
            yield broken("source", f"{number}: {name}={value!r:.60} is neither in the query nor in a result.")


def _chain_problems(calls: list[ToolCall]) -> Iterator[Broken]:
    later = calls[1:]
    chained = [any(found_in(call)) for call in later]
    if later and not chained[-1]:
        yield broken("chain", "The last call must use an earlier result.")
    elif later and sum(chained) < _LEAST_CHAINED * len(later):
        yield broken("chain", f"{sum(chained)} of the {len(later)} later calls use an earlier result: too few.")


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


# The stage that writes calls' outcomes: one request per case, so that the outcomes agree (egb_slate §3.4, figure 15).


_VALUE = 120
_FAILED = re.compile(
    r"\b(?:errors?|fail(?:s|ed|ure)?|not found|no result|unknown|unavailable|invalid|n/?a|none|null)\b", re.I
)
_ANY = [{"type": "number"}, {"type": "boolean"}]
_OUTCOME_RULES = (
    "Rules:",
    "- Values are specific and realistic: identifiers such as RS-48213, amounts, dates as YYYY-MM-DD, names, states.",
    "- They agree with the query and with each other: computed values are right, and dates are in order.",
    "- All calls succeed. The result of the last call answers the query or confirms that it is done.",
    "- A value that a later call uses is new: the query does not state it.",
    "- The same call always returns the same.",
)
_OUTCOME_ANSWER = TypeAdapter(dict[str, dict[str, str | int | float | bool]])
Tools = Mapping[str, ToolRecord]


async def of_case(asker: Asker, domain: Domain, outlined: Outlined, tools: Tools) -> list[Settled[CaseRecord]]:
    """Ask for the outcomes of one case's calls, which complete the case."""
    kinds = _taken(outlined, tools)
    sections = (
        Section("role", ("You play the tools of a service: you write the results of their calls.", *_OUTCOME_RULES)),
        notes(domain),
        Section("task", (f"Query: {outlined.query.text}", "Calls, in order:", *_outcome_calls(outlined, tools, kinds))),
    )
    form = ('Answer with JSON only: an object with every call under its number, {"1.1": {"field": value, ...}, ...}.',)
    item = Item(
        outlined.query.key,
        sections,
        form,
        _outcome_schema(outlined, tools, kinds),
        _outcome_checking(outlined, tools, kinds),
    )
    return [await asker.settle(item)]


def coherent() -> Callable[[CaseRecord], Broken | None]:
    """A rule that refuses a case if one of its calls has a different outcome from the same call in an earlier case."""
    known: dict[str, Mapping[str, Json]] = {}

    def rule(case: CaseRecord) -> Broken | None:
        reference, outcomes = case.reference(), case.outcomes()
        own: dict[str, Mapping[str, Json]] = {}
        for step, call in reference.calls.items():
            if call:
                made = resolve(call, outcomes)
                key = to_json([made.tool, dict(sorted(made.arguments.items()))])
                if known.get(key, outcomes[step]) != outcomes[step]:
                    return broken("contradiction", f"{made.text():.200} returns something different in another case.")
                own[key] = outcomes[step]
        known.update(own)
        return None

    return rule


def _taken(outlined: Outlined, tools: Tools) -> dict[tuple[str, str], str]:
    """The results (step, field) that later calls use, each with the required type (string if the types differ)."""
    kinds: dict[tuple[str, str], str] = {}
    for call in outlined.calls.values():
        types = {one.name: one.type for one in tools[call.tool].arguments}
        for name, value in call.arguments.items():
            if isinstance(value, str) and (found := PATTERN.fullmatch(value)):
                place = found[1], found[2]
                kinds[place] = types[name] if kinds.get(place, types[name]) == types[name] else "string"
    return kinds


def _outcome_calls(outlined: Outlined, tools: Tools, kinds: Mapping[tuple[str, str], str]) -> Iterator[str]:
    for step, call in outlined.calls.items():
        tool = tools[call.tool]
        fields = [f"{name}, a {kinds[step, name]}" if (step, name) in kinds else name for name in tool.results]
        yield f"{step} {outlined.texts[step]}"
        about = tool.description.rstrip(".")
        yield f"  {call.tool}({to_json(dict(call.arguments))}): {about}. It returns {'; '.join(fields)}."


def _outcome_checking(
    outlined: Outlined, tools: Tools, kinds: Mapping[tuple[str, str], str]
) -> Callable[[Mapping[str, Json]], Checked[CaseRecord]]:
    def check(answer: Mapping[str, Json]) -> Checked[CaseRecord]:
        given = _OUTCOME_ANSWER.validate_python({step: answer.get(step) for step in outlined.calls}, strict=True)
        problems = [problem for step in outlined.calls for problem in _problems(outlined, step, given, tools, kinds)]
        problems += _contradictions(outlined.calls, given) if not problems else ()
        if problems:
            return Checked((), tuple(problems))
        case = _case(outlined, given)
        try:
            check_case(case, dict(tools))
        except ValueError as error:
            return Checked((), (broken("case", f"The case cannot be run as it is written: {error}"[:300]),))
        return Checked((case,), ())

    return check


def _problems(
    outlined: Outlined, step: str, given: Mapping[str, Mapping[str, Json]], tools: Tools, kinds: Mapping[Any, str]
) -> Iterator[Broken]:
    wanted, outcome = tools[outlined.calls[step].tool].results, given[step]
    if outcome.keys() != set(wanted):
        yield broken("fields", f"{step} must return exactly {', '.join(wanted)}.")
        return
    for name, value in outcome.items():
        kind = kinds.get((step, name))
        if value == "":
            yield broken("empty", f"{step}: {name} must have a value.")
        elif kind and not fits(value, kind):
            yield broken("type", f"{step}: {name} must be a {kind}, because a later call uses it.")
        elif kind and isinstance(value, str) and stands_in(value, outlined.query.text):
            yield broken("given away", f"{step}: a later call uses {name}, so the query must not state {value!r:.60}.")
        if isinstance(value, str) and PATTERN.search(value):
            yield broken("reference", f"{step}: {name} must be a value, not the name of another result.")
    if step == [*outlined.calls][-1]:
        given_to = {to_json(value) for value in resolve(outlined.calls[step], given).arguments.values()}
        if any(value is False or (isinstance(value, str) and _FAILED.search(value)) for value in outcome.values()):
            yield broken(
                "resolves", f"{step} is the last call: it must succeed, and its result must resolve the query."
            )
        elif {to_json(value) for value in outcome.values()} <= given_to:
            yield broken("resolves", f"{step} is the last call: it must return more than it was given.")


def _contradictions(calls: Mapping[str, ToolCall], given: Mapping[str, Mapping[str, Json]]) -> Iterator[Broken]:
    """Calls that mean the same thing but have different outcomes.

    The simulator would return only one of the outcomes.
    """
    try:
        entries = build_entries(calls, given)
    except ValueError as error:
        yield broken("contradiction", f"The same call must return the same: {error}."[:300])
        return
    for place, one in enumerate(entries):
        for other in entries[:place]:
            same = one.call.tool == other.call.tool and means(other, one.call.arguments)
            if same and one.outcome != other.outcome:
                steps = f"{min(other.substeps)} and {min(one.substeps)}"
                yield broken("contradiction", f"{steps} make the same call and must return the same.")


def _case(outlined: Outlined, outcomes: Mapping[str, Mapping[str, Json]]) -> CaseRecord:
    query, plan = outlined.query, outlined.query.workflow

    def call(step: str) -> CallRecord | None:
        made = outlined.calls.get(step)
        if made is None:
            return None
        return CallRecord(tool=made.tool, arguments=dict(made.arguments), outcome=dict(outcomes[step]))

    steps = [
        StepRecord(
            text=text,
            substeps=[SubstepRecord(id=sub.id, text=outlined.texts[sub.id], call=call(sub.id)) for sub in substeps],
        )
        for text, substeps in plan.steps
    ]
    return CaseRecord(
        case_id=query.key,
        user=plan.user,
        category=plan.topic,
        complexity=plan.complexity,
        workflow=plan.key,
        query=query.text,
        plan=steps,
        resolution=[plan.calls[-1][0]],
    )


def _outcome_schema(outlined: Outlined, tools: Tools, kinds: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    whole = dict[str, Any]()
    for step, call in outlined.calls.items():
        fields = {name: _value(kinds.get((step, name))) for name in tools[call.tool].results}
        whole[step] = object_schema(fields, [*fields])
    return object_schema(whole, [*whole])


def _value(kind: str | None) -> dict[str, Any]:
    if kind == "date":
        return {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}
    if kind == "string":
        return text_schema(_VALUE)
    return {"type": kind} if kind else {"anyOf": [text_schema(_VALUE), *_ANY]}
