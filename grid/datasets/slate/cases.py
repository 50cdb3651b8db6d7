"""SLATE's cases: a query, a hierarchical plan with calls and outcomes, a resolution (egb_slate §3, appendix D)."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from grid.datasets.slate import values
from grid.datasets.slate.records import CallRecord, CaseRecord, StepRecord, SubstepRecord
from grid.datasets.slate.stock import Complexity, Stock, StockTool, Substep, Workflow
from grid.datasets.slate.values import Value
from grid.text.references import reference

SHARES: dict[Complexity, float] = {"simple": 0.0, "moderate": 0.1, "complex": 0.8, "advanced": 0.1}
"""Appendix D, figure 9."""
User = Literal["buyer", "seller"]
Pools = dict[str, tuple[str, ...]]
_SLOT = re.compile(r"\{(\w+)\}")


def build_cases(stocks: Sequence[Stock], pools: Pools, count: int, seed: int) -> list[CaseRecord]:
    """Draw `count` cases: users alternate, complexities come in their shares, workflows are dealt evenly."""
    rng = random.Random(f"slate-{seed}")
    complexities = _complexities(count, rng)
    decks: dict[tuple[User, Complexity], Iterator[tuple[Stock, str]]] = {}
    cases = []
    for index, complexity in enumerate(complexities):
        user: User = "buyer" if index % 2 == 0 else "seller"
        if (user, complexity) not in decks:
            decks[user, complexity] = _deal(stocks, user, complexity, rng)
        stock, workflow = next(decks[user, complexity])
        draft = _Draft(stock, workflow, stock.workflows[workflow], pools, random.Random(f"slate-{seed}-{index}"))
        cases.append(draft.case(f"slate-{index:04d}"))
    return cases


def _complexities(count: int, rng: random.Random) -> list[Complexity]:
    drawn: list[Complexity] = [name for name, share in SHARES.items() for _ in range(round(share * count))]
    drawn = (drawn + ["complex"] * count)[:count]
    rng.shuffle(drawn)
    return drawn


def _deal(
    stocks: Sequence[Stock], user: User, complexity: Complexity, rng: random.Random
) -> Iterator[tuple[Stock, str]]:
    """The names of the workflows of a kind in seeded order, each once before any comes again."""
    deck = [(s, n) for s in stocks for n, w in s.workflows.items() if (w.user, w.complexity) == (user, complexity)]
    if not deck:
        raise ValueError(f"the stock has no {complexity} workflow for a {user}")
    while True:
        yield from rng.sample(deck, len(deck))


@dataclass
class _Draft:
    """One case in the making. `outputs` maps a substep id to its outcome's raw values."""

    stock: Stock
    name: str
    workflow: Workflow
    pools: Pools
    rng: random.Random
    known: dict[str, Value] = field(default_factory=dict)
    outputs: dict[str, dict[str, Value]] = field(default_factory=dict)
    returned: dict[str, dict[str, Value]] = field(default_factory=dict)

    def case(self, case_id: str) -> CaseRecord:
        for name, text in self.workflow.values.items():
            self.known[name] = values.draw(values.parse(text), self.rng, self.known, self.pools)
        query = self._write(self.rng.choice(self.workflow.queries))
        plan = [
            StepRecord(
                text=self._write(step.step),
                substeps=[self._substep(f"{i}.{j}", sub) for j, sub in enumerate(step.substeps, 1)],
            )
            for i, step in enumerate(self.workflow.plan, 1)
        ]
        return CaseRecord(
            case_id=case_id,
            user=self.workflow.user,
            category=self.stock.query_category,
            complexity=self.workflow.complexity,
            workflow=self.name,
            query=query,
            plan=plan,
            resolution=[list(self.outputs)[-1]],
        )

    def _substep(self, place: str, substep: Substep) -> SubstepRecord:
        text = self._write(self.rng.choice(substep.say))
        if substep.call is None:
            return SubstepRecord(id=place, text=text)
        tool = self.stock.tools[substep.call]
        raw, arguments = self._arguments(substep)
        # The same call returns the same within a case.
        key = f"{substep.call} {raw}"
        if key not in self.returned:
            self.returned[key] = self._outcome(tool, raw)
        self.outputs[place] = self.returned[key]
        outcome = {name: values.plain(value) for name, value in self.outputs[place].items()}
        return SubstepRecord(
            id=place, text=text, call=CallRecord(tool=substep.call, arguments=arguments, outcome=outcome)
        )

    def _arguments(self, substep: Substep) -> tuple[dict[str, Value], dict[str, Any]]:
        """The arguments' values, and how the reference call writes them."""
        raw: dict[str, Value] = {}
        shown: dict[str, Any] = {}
        for name, source in substep.arguments.items():
            if source in self.known:
                raw[name] = self.known[source]
                shown[name] = values.plain(raw[name])
            else:
                place, _, output = source.rpartition(".")
                raw[name] = self.outputs[place][output]
                shown[name] = reference(place, output)
        return raw, shown

    def _outcome(self, tool: StockTool, arguments: dict[str, Value]) -> dict[str, Value]:
        return {
            name: values.draw(values.parse(text), self.rng, arguments, self.pools)
            for name, text in tool.results.items()
        }

    def _write(self, template: str) -> str:
        return " ".join(_SLOT.sub(lambda slot: values.written(self.known[slot[1]], self.rng), template).split())
