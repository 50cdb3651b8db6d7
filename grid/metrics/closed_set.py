"""Tool, Arg, Plan and Exec F1 for closed tool sets (tooltree §4.2, table 1).

The ToolTree paper reports these four metrics but defines none of them; `plan_f1="calls"` computes Plan F1 as the code
of ToolTree's authors does. Our metrics use the items that the paper's two benchmarks count: tool names (GTA's and m&m's
tool F1), `tool--argument=value` (m&m's argument F1), names and edges of the plan (m&m's edge F1), and calls that ran
and returned the wanted result. Each metric is the F1 of two multisets in one case, 2 · hits / (predicted + gold). Each
item of the reference is hit at most once, so superfluous calls reduce precision. The metric over several cases is the
mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from grid.core.problem import Reference
from grid.core.types import Json, Step, ToolCall, Trajectory, to_json
from grid.text import references
from grid.worlds.equivalence import equivalent, paired_off

Outcome: TypeAlias = Mapping[str, Json]
PlanF1: TypeAlias = Literal["links", "calls"]
"""The items that plan_f1 counts: tool names and links, or whole calls as in the released code of ToolTree."""


@dataclass(frozen=True)
class _Made:
    """A call on a path: as run, as written (with references), and its result if known."""

    place: str
    call: ToolCall
    written: ToolCall
    outcome: Outcome | None


class _Argument(NamedTuple):
    value: Json
    linked: str | None
    """The value as written, with tool names instead of steps; None if the value refers to no step."""


def closed_set_scores(
    trajectory: Trajectory,
    reference: Reference,
    concrete: Mapping[str, ToolCall] = MappingProxyType({}),
    outcomes: Mapping[str, Outcome] | None = None,
    done: Sequence[Step] = (),
    decisions: int | None = None,
    plan_f1: PlanF1 = "links",
) -> dict[str, float | None]:
    """tool_f1, argument_f1, plan_f1 and execution_f1 of one trajectory, each in [0, 1].

    tool_f1 compares tool names. argument_f1 compares (tool, argument, value); two values are the same if they are
    `equivalent` or refer to the same result field of the same tool; empty arguments do not count. plan_f1 compares tool
    names and links (tool whose result is used, tool that uses it). An argument uses the results to which it refers or,
    if it refers to none, the latest result that it repeats as a whole. With `plan_f1="calls"`, plan_f1 compares whole
    calls instead: a tool with all its arguments, which must be identical. execution_f1 compares (tool, outcome): a call
    that ran hits a reference call that returned the same outcome.

    Args:
        trajectory: the planner's trajectory, without the steps of the gold prefix.
        reference: the case's reference; a call of None is a step without a call.
        concrete: the reference's calls by substep, with all known earlier results filled in.
        outcomes: the results of the reference's calls by substep; without results, execution_f1 is None.
        done: the gold prefix (`Case.done`), which counts only for links.
        decisions: the number of reference steps wanted after the prefix (`Case.decisions`); None: all.
        plan_f1: the items that plan_f1 counts.

    A metric is None if the reference (after the prefix) contains no item for it.
    """
    part = reference.part(len(done), decisions).calls
    known = outcomes or {}
    gold = [
        _Made(place, concrete.get(place, call), call, known.get(place))
        for place, call in reference.calls.items()
        if call
    ]
    new, wanted = _made(trajectory.steps), [one for one in gold if one.place in part]
    made = _made(done) + new
    names, gold_names = (Counter[Hashable](one.call.tool for one in calls) for calls in (new, wanted))
    if plan_f1 == "links":
        plans = names + Counter(_links(made, new)), gold_names + Counter(_links(gold, wanted))
    else:
        plans = Counter(_whole(new)), Counter(_whole(wanted))
    returned, gold_returned = Counter(map(_returned, new)), Counter(map(_returned, wanted))
    return {
        "tool_f1": _f1(names, gold_names),
        "argument_f1": _argument_f1(_arguments(new, made), _arguments(wanted, gold)),
        "plan_f1": _f1(*plans),
        "execution_f1": None if outcomes is None else _f1(returned, gold_returned),
    }


def f1(hits: float, predicted: float, gold: float) -> float | None:
    """2 · hits / (predicted + gold); None if `gold` is 0."""
    return 2 * hits / (predicted + gold) if gold else None


def _f1(predicted: Counter[Hashable], gold: Counter[Hashable]) -> float | None:
    return f1((predicted & gold).total(), predicted.total(), gold.total())


def _made(steps: Sequence[Step]) -> list[_Made]:
    return [
        _Made(
            step.substep.id,
            step.call,
            step.written or step.call,
            step.observation.content if step.observation else None,
        )
        for step in steps
        if step.call
    ]


def _whole(calls: Sequence[_Made]) -> Iterator[Hashable]:
    return ((one.call.tool, to_json(dict(sorted(one.call.arguments.items())))) for one in calls)


def _returned(one: _Made) -> Hashable:
    return one.call.tool, None if one.outcome is None else to_json(dict(sorted(one.outcome.items())))


def _links(calls: Sequence[_Made], into: Sequence[_Made]) -> Iterator[Hashable]:
    """The links from earlier calls to the calls in `into`; a pair of calls has at most one link."""
    wanted = set(map(id, into))
    for number, one in enumerate(calls):
        earlier, producers = calls[:number], set[int]()
        for name, value in one.written.arguments.items():
            referred = {place for place, _ in references.found_in(ToolCall("", {name: value}))}
            if referred:
                producers |= {at for at, other in enumerate(earlier) if other.place in referred}
            else:
                producers |= _repeated(one.call.arguments.get(name), earlier)
        if id(one) in wanted:
            yield from ((calls[at].call.tool, one.call.tool) for at in producers)


def _repeated(value: Json, earlier: Sequence[_Made]) -> set[int]:
    """The latest call that returned the value as a field; if the value is a list, the latest call for each item."""
    items = value if isinstance(value, list) else [value]
    texts = {str(item) for item in items if isinstance(item, (str, int, float)) and not isinstance(item, bool)} - {""}
    found = (
        next((at for at in range(len(earlier) - 1, -1, -1) if text in _fields(earlier[at])), None) for text in texts
    )
    return {at for at in found if at is not None}


def _fields(one: _Made) -> set[str]:
    return {str(field) for field in (one.outcome or {}).values()}


def _arguments(calls: Sequence[_Made], path: Sequence[_Made]) -> dict[tuple[str, str], list[_Argument]]:
    """The non-empty arguments, keyed by tool and name; `path` contains the calls to which arguments may refer."""
    tools = {one.place: one.call.tool for one in path}
    found: dict[tuple[str, str], list[_Argument]] = {}
    for one in calls:
        for name, value in one.call.arguments.items():
            if value in (None, ""):
                continue
            raw = ToolCall("", {name: one.written.arguments.get(name)})
            linked = references.PATTERN.sub(
                lambda match: f"{tools.get(match[1])}.{match[2]}", to_json(raw.arguments[name])
            )
            pair = _Argument(value, linked if references.refers(raw) else None)
            found.setdefault((one.call.tool, name), []).append(pair)
    return found


def _argument_f1(
    predicted: Mapping[tuple[str, str], list[_Argument]], gold: Mapping[tuple[str, str], list[_Argument]]
) -> float | None:
    hits = sum(_pairs(key[1], predicted[key], gold[key]) for key in predicted.keys() & gold.keys())
    return f1(hits, sum(map(len, predicted.values())), sum(map(len, gold.values())))


def _pairs(about: str, predicted: Sequence[_Argument], gold: Sequence[_Argument]) -> int:
    """Maximum number of pairs of equal arguments; no groups are counted, since `equivalent` is not transitive."""
    return paired_off([[_same(about, one, other) for other in gold] for one in predicted])


def _same(about: str, one: _Argument, other: _Argument) -> bool:
    return (one.linked is not None and one.linked == other.linked) or equivalent(other.value, one.value, about)
