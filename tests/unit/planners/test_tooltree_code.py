"""ToolTree as it was released, against its authors' code on random trees, and plan F1 against theirs."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from grid.core.problem import Reference
from grid.core.types import Step, Substep, ToolCall, Trajectory
from grid.core.util import derive_seed
from grid.metrics.closed_set import closed_set_scores
from grid.planners.tooltree import ToolTree
from tests.support.configs import yaml
from tests.support.search import Script, Searched, searched
from tests.support.tooltree_code import Theirs, official

TREES = 200


class Drawn(dict[str, Any]):
    """A score for every place: sixteenths, so that many are equal and none is rounded on its way through a text."""

    def __init__(self, seed: int, kind: str, least: int) -> None:
        super().__init__()
        self.key, self.least = (seed, kind), least

    def get(self, place: str, default: Any = None) -> float:
        return random.Random(derive_seed(*self.key, place)).randint(self.least, 16) / 16


class Drafted(dict[str, Any]):
    """Arguments of a tool at a place: none, or one of two, so that a tool may be called again."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def get(self, place: str, default: Any = None) -> str:
        return place.split()[-1] + random.Random(derive_seed(self.seed, "draft", place)).choice(["", "", "1", "2"])


@dataclass(frozen=True)
class Drawing:
    """One random game, with the settings that both are given."""

    seed: int

    @property
    def script(self) -> Script:
        least = random.Random(self.seed).choice([0, 4, 6])
        drafted = Drafted(self.seed)
        return Script(pre=Drawn(self.seed, "pre", least), post=Drawn(self.seed, "post", least), drafted=drafted)

    @property
    def keys(self) -> dict[str, Any]:
        """By our names."""
        rng = random.Random(derive_seed(self.seed, "keys"))
        return {
            "branching": rng.randint(2, 5),
            "rollouts": rng.randint(4, 60),
            "patience": rng.choice([3, 10, 25]),
            "max_calls": rng.randint(2, 6),
            "pre_threshold": rng.choice([0.3, 5 / 16]),
            "post_threshold": rng.choice([0.4, 7 / 16]),
            "exploration": rng.choice([0.0, 0.5, 1.4]),
        }

    @property
    def tools(self) -> str:
        return "abcdef"[: random.Random(derive_seed(self.seed, "tools")).randint(2, 6)]

    def ours(self, **changed: Any) -> Searched:
        given = yaml("planner", "tooltree") | yaml("planner", "released/tooltree") | self.keys | changed
        given = {key: value for key, value in given.items() if key not in ("_target_", "defaults")}
        return searched(ToolTree(**given), self.script, tools=self.tools, seed=self.seed)

    def theirs(self, monkeypatch: pytest.MonkeyPatch) -> Theirs:
        names = {
            "branching": "top_k", "rollouts": "max_rollouts", "patience": "early_stop_patience",
            "max_calls": "max_depth", "pre_threshold": "tau_pre", "post_threshold": "tau_post",
            "exploration": "exploration_constant",
        }  # fmt: skip
        keys = {names[key]: value for key, value in self.keys.items()}
        return Theirs(self.script, self.tools, self.seed).run(monkeypatch, **keys)


def told_of_ours(found: Searched) -> dict[str, Any]:
    visited = {place: node for place, node in found.nodes.items() if node.visits}
    return {
        "executed": [place for place in found.executed if place in visited],
        "visits": {place: node.visits for place, node in sorted(visited.items())},
        "values": {place: node.value for place, node in sorted(visited.items())},
        "result": found.path,
        "judged": sorted(place for kind, place in found.script.asked if kind == "pre"),
    }


def told_of_theirs(found: Theirs) -> dict[str, Any]:
    return {
        "executed": found.executed,
        "visits": dict(sorted(found.visits.items())),
        "values": dict(sorted(found.values.items())),
        "result": found.result,
        "judged": sorted(found.judged_before),
    }


def test_the_released_form_is_the_authors_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Visits, values, the order of execution, what was judged before a call, and the result: to the last bit."""
    mismatches = {}
    for seed in range(TREES):
        with monkeypatch.context() as patch:
            theirs = told_of_theirs(Drawing(seed).theirs(patch))
        wrong = [part for part, told in released(seed).items() if told != theirs[part]]
        if wrong:
            mismatches[seed] = wrong
    assert not mismatches, f"{len(mismatches)} of {TREES} trees: {mismatches}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("unvisited", "first"),
        ("state_visits", "below"),
        ("candidates", "tools"),
        ("dead_end", "reopen"),
        ("result", "best"),
        ("post_pruned", "kept"),
        ("stop_by", "trajectory"),
        ("empty_rollouts", "counted"),
    ],
)
def test_every_key_of_the_released_form_makes_a_difference(key: str, value: str) -> None:
    """On some of the same trees: none of them is without effect, so that the comparison would see a wrong one."""
    assert any(told_of_ours(Drawing(seed).ours(**{key: value})) != released(seed) for seed in range(40))


@cache
def released(seed: int) -> dict[str, Any]:
    return told_of_ours(Drawing(seed).ours())


def test_plan_f1_of_whole_calls_is_the_authors() -> None:
    """And tool F1, of any two plans with a call in each."""
    theirs = official("src.evaluation.metrics")
    for seed in range(TREES):
        rng = random.Random(seed)
        made, wanted = ([_drawn_call(rng) for _ in range(rng.randint(1, 6))] for _ in range(2))
        steps = tuple(Step(0, Substep(str(place), "", ""), call, None) for place, call in enumerate(made))
        reference = Reference({str(place): call for place, call in enumerate(wanted)}, (), followed=False)
        ours = closed_set_scores(Trajectory(steps, steps), reference, plan_f1="calls")
        plans = [[{"tool": call.tool, "args": dict(call.arguments)} for call in calls] for calls in (made, wanted)]
        names = [[call.tool for call in calls] for calls in (made, wanted)]
        assert ours["plan_f1"] == pytest.approx(theirs.plan_f1(*plans), abs=1e-12)
        assert ours["tool_f1"] == pytest.approx(theirs.tool_f1(*names), abs=1e-12)


def _drawn_call(rng: random.Random) -> ToolCall:
    names = rng.sample("xy", rng.randint(0, 2))
    return ToolCall(rng.choice("ab"), {name: rng.choice(["1", 1, "2"]) for name in names})
