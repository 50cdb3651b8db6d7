"""tooltree and mcts with judges, worlds, candidates and budgets that are of no use."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grid.core.errors import ModelError
from grid.core.types import Parameter, Plan, Substep, ToolSpec
from grid.episode.progress import Budget
from grid.planners.mcts import MCTS
from grid.planners.tooltree import ToolTree
from tests.support.loops import each
from tests.support.places import letter
from tests.support.search import Letters, Script, episode, searched

ROOT = Path(__file__).parents[3]
FORMS: dict[str, Any] = {
    "tooltree": ToolTree(max_calls=3),
    "tooltree of all tools": ToolTree(candidates="tools", max_calls=3),
    "tooltree by the policy": ToolTree(prior="policy", max_calls=3, rollout="end", dead_end="reopen"),
    "tooltree that stops": ToolTree(max_calls=3, dead_end="stop"),
    "mcts": MCTS(max_calls=3),
}
PLANNERS = pytest.mark.parametrize("planner", FORMS.values(), ids=FORMS.keys())
SOME = {"*": ["a", "b", "a1", "finish", "c"]}
OUTLINE = Plan((Substep("1", "go", ""), Substep("2", "rest", "")))


def script(**more: Any) -> Script:
    known: dict[str, Any] = {"proposed": SOME, "shares": {"*": {"a": 0.5, "b": 0.3, "finish": 0.2}}}
    return Script(**(known | more))


def judged(said: Any) -> Script:
    return script(pre={"*": said}, post={"*": said}, value={"*": said})


@PLANNERS
@pytest.mark.parametrize("plan", [Plan(()), OUTLINE], ids=["hidden", "given"])
@pytest.mark.parametrize("score", [0.0, 1.0])
def test_a_judge_that_always_says_the_same(planner: Any, plan: Plan, score: float) -> None:
    """A finished trajectory all the same; nothing where all is pruned and that is the end."""
    found = searched(planner, judged(score), plan=plan)
    stops = isinstance(planner, ToolTree) and planner.dead_end == "stop" and score == 0
    length = len(found.trajectory.steps)
    assert length == 0 if stops else length == 2 if plan.substeps else 1 <= length <= 3


@pytest.mark.long
@PLANNERS
@pytest.mark.parametrize("said", ["Who knows?", '{"score": NaN}', '{"score": -3}', '{"score": 0.7}', "{" * 500])
def test_a_judge_that_never_gives_a_score(planner: Any, said: str) -> None:
    with pytest.raises(ModelError, match="judge"):
        searched(planner, judged(said))


@PLANNERS
def test_a_judge_that_sometimes_gives_none(planner: Any) -> None:
    """That counts as the lowest score."""
    found = searched(planner, script(pre={"a": "?", "*": 0.8}, post={"b": "?", "*": 0.8}, value={"a b": 0.5, "*": "?"}))
    scores = {place: (node.r_pre, node.r_post) for place, node in found.nodes.items()}
    assert scores.get("a", (None,))[0] in (0.0, None, 1.0)
    assert scores.get("b", (None, None))[1] in (0.0, None)
    assert found.episode.improvements


@PLANNERS
def test_a_judge_in_digits(planner: Any) -> None:
    known = script(pre={"*": 0.75}, post={"*": 0.65}, value={"*": 0.5})
    found = searched(planner, known, form="digits")
    assert {node.r_post for node in found.nodes.values() if node.r_post is not None} <= {0.65, 0.75}
    assert sum(usage.forward_passes for usage in found.episode.spent.values()) > 0


@PLANNERS
@pytest.mark.parametrize("plan", [Plan(()), OUTLINE], ids=["hidden", "given"])
def test_a_world_in_which_all_fails(planner: Any, plan: Plan) -> None:
    found = searched(planner, script(), plan=plan, world=Letters(frozenset("*")))
    assert found.trajectory.end == ()
    assert len(found.world.executed) == len(set(found.world.executed)), "a failure is cached too"


@pytest.mark.long
@PLANNERS
@pytest.mark.parametrize("plan", [Plan(()), OUTLINE], ids=["hidden", "given"])
@pytest.mark.parametrize("count", [0, 1, 500])
def test_candidates(planner: Any, plan: Plan, count: int) -> None:
    """Without a tool there is still `finish`, or to call none."""
    names = [chr(0x4E00 + place) for place in range(count)]
    words = [*names[:3], "none" if plan.substeps else "finish"]
    options = [*names[:3], "no_tool" if plan.substeps else "finish"]
    known = Script(proposed={"*": words}, shares={"*": {option: 1 / len(options) for option in options}})
    few = replace(planner, rollouts=1 if count == 500 else 60)
    found = searched(few, known, tools="".join(names), plan=plan, budget=Budget(llm_calls=100_000))
    assert found.trajectory.steps
    assert found.episode.budget_reached is None


@PLANNERS
def test_two_tools_of_one_name(planner: Any) -> None:
    """As two retrievers may give: they are one option, and its probability is that of both."""
    known, other = script(), ToolSpec("a", "goes elsewhere", (Parameter("x", "string", "", required=False),))
    run = episode(known, Letters(), tools=[letter("a"), letter("b"), other], plan=OUTLINE)
    asyncio.run(planner.solve(run))
    calls = [node.action.call.text() for node in run.nodes[0].children if node.action and node.action.call]
    assert len(calls) == len(set(calls))
    if ("choose", "") in known.asked:  # 0.5 for each a, 0.3 for b
        assert {node.action.tool: node.r_pre for node in run.nodes[0].children if node.action} == {"a": 1.0, "b": 0.3}


@PLANNERS
@pytest.mark.parametrize("repeats", ["path", "state"])
def test_a_loop_ends(planner: Any, repeats: Any) -> None:
    """The policy knows one call alone, and the world stays as it is."""
    known = Script(proposed={"*": ["a"]}, shares={"*": {"a": 1.0}}, pre={"*": 0.8}, post={"*": 0.8})
    found = searched(replace(planner, repeats=repeats), known, world=Letters(frozenset("*")))
    assert len(found.world.executed) <= 3


@PLANNERS
@each("part", ["steps", "llm_calls", "tokens"])
@each("most", [0, 1, 3])
def test_hardly_any_budget(planner: Any, part: str, most: int) -> None:
    """No error; what is best so far, if there is anything."""
    found = searched(planner, script(), budget=Budget(**{part: most}))
    assert found.episode.budget_reached == part
    assert len(found.world.executed) <= (most if part == "steps" else 100)
    if most == 0:
        assert found.world.executed == []


LARGE = """
from grid.episode.progress import Budget
from grid.planners.tooltree import ToolTree
from launch.benchmarks import peak_bytes
from tests.support.search import Script, searched

class Drawn(dict):
    def get(self, place, default=None):
        return sum(place.encode()) % 6 / 10 + 0.5

words = [letter + digit for letter in "abcde" for digit in "1234"]
planner = ToolTree(
    rollouts=10**6, patience=10**6, branching=20, unvisited="prior", candidates="sampled", dead_end="reopen"
)
budget = Budget(llm_calls=10**9, steps=12_500)
found = searched(planner, Script(proposed={"*": words}, pre=Drawn(), post=Drawn()), tools="abcde", budget=budget)
print(len(found.episode.nodes), peak_bytes())
"""


@pytest.mark.slow
def test_a_tree_of_100_000_nodes_stays_below_1_gb() -> None:
    """With every prompt that was sent for it."""
    done = subprocess.run([sys.executable, "-c", LARGE], cwd=ROOT, capture_output=True, text=True, check=True)
    nodes, peak = map(int, done.stdout.split())
    assert nodes >= 100_000
    assert peak < 10**9
