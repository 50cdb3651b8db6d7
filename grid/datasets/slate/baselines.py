"""What needs no model on SLATE: the retriever's first tool, chance, and the reference itself; measured case by case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from statistics import mean

from grid.core.types import Case, ToolCall
from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.scoring import METRICS, Calls, Estimate, ScoredCase, Verdict, estimated, judged
from grid.retrievers.bm25 import BM25
from grid.text.references import needed

OFFERED = 50
"""Tools that are offered at a substep, as in the default setting; `no tool` stands beside them."""
_REFERENCE, _FIRST, _CHANCE = "the reference (oracle)", "the retriever's first", "chance"


@dataclass(frozen=True)
class Baseline:
    """One that planners are held against. `bound`: it has no arguments; its success is that of right ones."""

    name: str
    success: Estimate
    tool_match: Estimate
    action: Estimate
    bound: bool


@dataclass(frozen=True)
class Ceiling:
    """What retrieval leaves possible, as shares.

    `recall`: of the reference's calls those whose tool is offered. `all_offered`: cases in which it is for every call.
    `resolvable`: cases in which it, or a tool with the same function, is for every call that the resolution takes.
    """

    recall: float
    all_offered: float
    resolvable: float


@dataclass(frozen=True)
class Offer:
    """A substep: the reference's tool (None: no tool), what is offered, best first, and who would do.

    `right` are the tool and those with the same function; `taken`: the resolution needs this call.
    """

    tool: str | None
    offered: tuple[str, ...]
    right: frozenset[str]
    taken: bool

    @property
    def chance(self) -> float:
        """The probability of one option among the tools and `no tool`."""
        return 1 / (len(self.offered) + 1)


def offers(dataset: Slate) -> dict[str, list[Offer]]:
    """What each substep of each case is offered by BM25."""
    index = BM25(top_k=OFFERED).index(dataset.tools)
    found = {}
    for record in dataset.case_records.values():
        plan, reference = record.visible_plan(), record.reference()
        asked, taken = Case(record.case_id, record.query, plan), needed(reference)
        repeats: dict[str, set[str]] = {}
        for name, same in dataset.problem(record.case_id).same_function.items():
            repeats.setdefault(same, set()).add(name)
        found[record.case_id] = [
            Offer(
                call.tool if call else None,
                tuple(tool.name for tool in index.retrieve(asked, shown)),
                frozenset({call.tool, *repeats.get(call.tool, ())}) if call else frozenset(),
                shown.id in taken,
            )
            for shown, call in ((shown, reference.calls[shown.id]) for shown in plan.substeps)
        ]
    return found


def ceiling(offered: Mapping[str, Sequence[Offer]]) -> Ceiling:
    """What retrieval leaves possible."""
    calls = [[one for one in substeps if one.tool] for substeps in offered.values()]
    hits = [[one.tool in one.offered for one in substeps] for substeps in calls]
    return Ceiling(
        mean(hit for substeps in hits for hit in substeps),
        mean(map(all, hits)),
        mean(all(one.right & set(one.offered) for one in substeps if one.taken) for substeps in calls),
    )


def baselines(
    dataset: Slate, scored: Mapping[str, ScoredCase], offered: Mapping[str, Sequence[Offer]]
) -> list[Baseline]:
    """The reference, measured by the scorer itself; the retriever's first tool, called at every substep; chance."""
    ways: dict[str, Callable[[str], Verdict]] = {
        _REFERENCE: lambda one: judged(scored[one], dataset.case_records[one].reference().calls),
        _FIRST: lambda one: _first(scored[one], dataset.case_records[one].reference().calls, offered[one]),
        _CHANCE: lambda one: _chance(offered[one]),
    }
    found = []
    for name, verdict in ways.items():
        rows = [(case.workflow, verdict(one)) for one, case in scored.items()]
        success, tool_match, action = (
            estimated([(workflow, value) for workflow, row in rows if (value := row[index]) is not None])
            for index in range(len(METRICS))
        )
        found.append(Baseline(name, success, tool_match, action, bound=name != _REFERENCE))
    return found


def _first(case: ScoredCase, calls: Calls, substeps: Sequence[Offer]) -> Verdict:
    """The reference's calls where the first tool does what they do, and calls that mean nothing elsewhere."""
    made = {}
    for (place, call), one in zip(calls.items(), substeps, strict=True):
        first = one.offered[0] if one.offered else ""
        made[place] = call if first in one.right else ToolCall(first, {})
    called = [one for one in substeps if one.tool]
    return Verdict(
        judged(case, made).success,
        mean(one.offered[:1] == (one.tool,) for one in called) if called else None,
        len(called) / len(substeps),
    )


def _chance(substeps: Sequence[Offer]) -> Verdict:
    """Expected values."""
    calls = [one for one in substeps if one.tool]
    return Verdict(
        prod(len(one.right & set(one.offered)) * one.chance for one in calls if one.taken),
        mean((one.tool in one.offered) * one.chance for one in calls) if calls else None,
        mean(1 - one.chance if one.tool else one.chance for one in substeps),
    )
