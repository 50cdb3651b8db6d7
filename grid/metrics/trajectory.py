"""Trajectory metrics: the calls that were made against the reference's, whatever they led to (traject_bench §4.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grid.metrics.usage import same_arguments
from grid.types import Reference, Step, ToolCall


def trajectory_scores(steps: Sequence[Step], reference: Reference) -> Mapping[str, Any]:
    """The metrics on tools and arguments of a path; none where the reference calls no tool.

    exact_match: the names are the reference's, as lists where its calls are ordered, else as sets. inclusion: the names
    found, by the length of the reference's *list*, as published: where that names a tool twice it cannot reach 1, which
    `inclusion_set` can. usage: of the names in both, the share whose first call has the reference's first arguments
    (`usage.same_arguments`); None with none in common. retrieval_rate: inclusion's formula on the tools offered at any
    step. tool_precision, tool_recall: of the set of names called against the reference's; 0 where nothing was called.
    """
    wanted = [call for call in reference.calls.values() if call]
    if not wanted:
        return {}
    made = [step for step in steps if step.call]
    names, called = [call.tool for call in wanted], [step.call.tool for step in made if step.call]
    distinct, both = set(names), set(names) & set(called)
    return {
        "exact_match": called == names if reference.ordered else set(called) == distinct,
        "inclusion": len(both) / len(names),
        "inclusion_set": len(both) / len(distinct),
        "usage": _usage(wanted, made, both),
        "retrieval_rate": len(distinct & {name for step in steps for name in step.candidates}) / len(names),
        "tool_precision": len(both) / len(set(called)) if called else 0.0,
        "tool_recall": len(both) / len(distinct),
    }


def _usage(wanted: Sequence[ToolCall], made: Sequence[Step], names: set[str]) -> float | None:
    hits = []
    for name in names:
        first = next(call for call in wanted if call.tool == name)
        own = next(step for step in made if step.call and step.call.tool == name)
        calls = [call for call in (own.call, own.written) if call]  # a reference to an earlier result may be either's
        hits.append(any(same_arguments(call.arguments, first.arguments) for call in calls))
    return sum(hits) / len(hits) if hits else None
