"""Trajectory metrics: the calls that were made against the reference's, whatever they led to (traject_bench §4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

from grid.core.reference import Reference
from grid.core.types import FINISH, Step, ToolCall
from grid.metrics.usage import same_arguments
from grid.text import references


def trajectory_scores(
    steps: Sequence[Step], reference: Reference, concrete: Mapping[str, ToolCall] = MappingProxyType({})
) -> Mapping[str, Any]:
    """The metrics on tools and arguments of a path; none where the reference calls no tool.

    exact_match: the names are the reference's, as lists where its calls are ordered, else as sets. inclusion: the names
    found, by the length of the reference's *list*, as published: where that names a tool twice it cannot reach 1, which
    `inclusion_set` can. usage: of the names in both, the share whose first call has the reference's first arguments
    (`usage.same_arguments`), those left out that take a result which nobody knows; None with none to compare.
    retrieval_rate: inclusion's formula on the tools offered at any step. tool_precision, tool_recall: of the set of
    names called against the reference's; 0 where nothing was called. `concrete` has the reference's calls, by substep,
    with the earlier results filled in that they refer to.
    """
    wanted = {step: call for step, call in reference.calls.items() if call}
    if not wanted:
        return {}
    made = [step for step in steps if step.call and step.call.tool != FINISH]  # which may be refused
    names, called = [call.tool for call in wanted.values()], [step.call.tool for step in made if step.call]
    distinct, both, offered = set(names), set(names) & set(called), [step.candidates for step in steps]
    return {
        "exact_match": called == names if reference.ordered else set(called) == distinct,
        "inclusion": len(both) / len(names),
        "inclusion_set": len(both) / len(distinct),
        "usage": _usage(wanted, concrete, made, both),
        "retrieval_rate": len(distinct.intersection(chain.from_iterable(offered))) / len(names),
        "tool_precision": len(both) / len(set(called)) if called else 0.0,
        "tool_recall": len(both) / len(distinct),
    }


def _usage(
    wanted: Mapping[str, ToolCall], concrete: Mapping[str, ToolCall], made: Sequence[Step], names: set[str]
) -> float | None:
    hits = []
    for name in names:
        place, first = next((place, call) for place, call in wanted.items() if call.tool == name)
        if place not in concrete and references.refers(first):
            continue  # what it takes from an earlier result is told by no number of a step
        own = next(step for step in made if step.call and step.call.tool == name)
        # An earlier result may stand in a call by its reference or as itself.
        right, calls = [first, concrete.get(place, first)], [call for call in (own.call, own.written) if call]
        hits.append(any(same_arguments(call.arguments, one.arguments) for call in calls for one in right))
    return sum(hits) / len(hits) if hits else None
