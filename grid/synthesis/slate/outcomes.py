"""The stage that writes what the calls return, each case's as one coherent whole (egb_slate §3.4, figure 15)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from grid.core.engine import Section
from grid.core.types import Json, ToolCall, to_json
from grid.datasets.slate.records import CallRecord, CaseRecord, StepRecord, SubstepRecord, ToolRecord, check_case
from grid.engines.answer_schema import object_schema, text_schema
from grid.synthesis.slate.asking import Asker, Settled
from grid.synthesis.slate.config import Domain
from grid.synthesis.slate.items import Checked, Item
from grid.synthesis.slate.journal import Broken
from grid.synthesis.slate.rules import broken, fits, stands_in
from grid.synthesis.slate.substeps import Outlined
from grid.synthesis.slate.tools import notes
from grid.text.references import PATTERN, resolve
from grid.worlds.lookup import build_entries, means

_VALUE = 120
_FAILED = re.compile(
    r"\b(?:errors?|fail(?:s|ed|ure)?|not found|no result|unknown|unavailable|invalid|n/?a|none|null)\b", re.I
)
_ANY = [{"type": "number"}, {"type": "boolean"}]
_RULES = (
    "Rules:",
    "- Values are specific and real: identifiers such as RS-48213, amounts, dates as YYYY-MM-DD, names, states.",
    "- They agree with the query and with each other: what is computed is right, and dates are in their order.",
    "- All succeed. What the last call returns answers the query or confirms that it is done.",
    "- What a later call takes is new: the query does not state it.",
    "- The same call returns the same.",
)
_ANSWER = TypeAdapter(dict[str, dict[str, str | int | float | bool]])
Tools = Mapping[str, ToolRecord]


async def of_case(asker: Asker, domain: Domain, outlined: Outlined, tools: Tools) -> list[Settled[CaseRecord]]:
    """The outcomes of one case, which they make whole."""
    kinds = _taken(outlined, tools)
    sections = (
        Section("role", ("You play the tools of a service: you write what calls of them return.", *_RULES)),
        notes(domain),
        Section("task", (f"Query: {outlined.query.text}", "Calls, in their order:", *_calls(outlined, tools, kinds))),
    )
    form = ('Answer with JSON only, an object with every call by its number: {"1.1": {"field": value, ...}, ...}.',)
    item = Item(outlined.query.key, sections, form, _schema(outlined, tools, kinds), _checking(outlined, tools, kinds))
    return [await asker.settle(item)]


def coherent() -> Callable[[CaseRecord], Broken | None]:
    """A rule that refuses a case in which a call returns something else than in a case before it."""
    known: dict[str, Mapping[str, Json]] = {}

    def rule(case: CaseRecord) -> Broken | None:
        reference, outcomes = case.reference(), case.outcomes()
        own: dict[str, Mapping[str, Json]] = {}
        for step, call in reference.calls.items():
            if call:
                made = resolve(call, outcomes)
                key = to_json([made.tool, dict(sorted(made.arguments.items()))])
                if known.get(key, outcomes[step]) != outcomes[step]:
                    return broken("contradiction", f"{made.text():.200} returns something else in another case.")
                own[key] = outcomes[step]
        known.update(own)
        return None

    return rule


def _taken(outlined: Outlined, tools: Tools) -> dict[tuple[str, str], str]:
    """Step and field of the results that later calls take, with the type that they need; a text where they differ."""
    kinds: dict[tuple[str, str], str] = {}
    for call in outlined.calls.values():
        types = {one.name: one.type for one in tools[call.tool].arguments}
        for name, value in call.arguments.items():
            if isinstance(value, str) and (found := PATTERN.fullmatch(value)):
                place = found[1], found[2]
                kinds[place] = types[name] if kinds.get(place, types[name]) == types[name] else "string"
    return kinds


def _calls(outlined: Outlined, tools: Tools, kinds: Mapping[tuple[str, str], str]) -> Iterator[str]:
    for step, call in outlined.calls.items():
        tool = tools[call.tool]
        fields = [f"{name}, a {kinds[step, name]}" if (step, name) in kinds else name for name in tool.results]
        yield f"{step} {outlined.texts[step]}"
        about = tool.description.rstrip(".")
        yield f"  {call.tool}({to_json(dict(call.arguments))}): {about}. It returns {'; '.join(fields)}."


def _checking(
    outlined: Outlined, tools: Tools, kinds: Mapping[tuple[str, str], str]
) -> Callable[[Mapping[str, Json]], Checked[CaseRecord]]:
    def check(answer: Mapping[str, Json]) -> Checked[CaseRecord]:
        given = _ANSWER.validate_python({step: answer.get(step) for step in outlined.calls}, strict=True)
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
        yield broken("fields", f"{step} returns {', '.join(wanted)}, and nothing else.")
        return
    for name, value in outcome.items():
        kind = kinds.get((step, name))
        if value == "":
            yield broken("empty", f"{step}: {name} has a value.")
        elif kind and not fits(value, kind):
            yield broken("type", f"{step}: {name} is a {kind}, as a later call takes it.")
        elif kind and isinstance(value, str) and stands_in(value, outlined.query.text):
            yield broken(
                "given away", f"{step}: a later call takes {name}, so that the query may not state {value!r:.60}."
            )
        if isinstance(value, str) and PATTERN.search(value):
            yield broken("reference", f"{step}: {name} is a value, not the name of another result.")
    if step == [*outlined.calls][-1]:
        given_to = {to_json(value) for value in resolve(outlined.calls[step], given).arguments.values()}
        if any(value is False or (isinstance(value, str) and _FAILED.search(value)) for value in outcome.values()):
            yield broken("resolves", f"{step} is the last call: it succeeds, and its result resolves the query.")
        elif {to_json(value) for value in outcome.values()} <= given_to:
            yield broken("resolves", f"{step} is the last call: it returns more than it was given.")


def _contradictions(calls: Mapping[str, ToolCall], given: Mapping[str, Mapping[str, Json]]) -> Iterator[Broken]:
    """Calls that mean the same and return something else: the simulator would answer one with the other's outcome."""
    try:
        entries = build_entries(calls, given)
    except ValueError as error:
        yield broken("contradiction", f"The same call returns the same: {error}."[:300])
        return
    for place, one in enumerate(entries):
        for other in entries[:place]:
            same = one.call.tool == other.call.tool and means(other, one.call.arguments)
            if same and one.outcome != other.outcome:
                steps = f"{min(other.substeps)} and {min(one.substeps)}"
                yield broken("contradiction", f"{steps} make the same call, and return the same.")


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


def _schema(outlined: Outlined, tools: Tools, kinds: Mapping[tuple[str, str], str]) -> dict[str, Any]:
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
