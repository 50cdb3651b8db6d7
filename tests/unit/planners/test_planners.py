"""The other planners against scripted engines, and what all planners do with unreadable answers and budgets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from grid.core.engine import PlanAnswer, Prompt, TextAnswer
from grid.core.errors import BudgetError
from grid.core.types import NO_TOOL, ToolCall, Usage, to_json
from grid.core.untrusted import loads
from grid.core.util import derive_seed
from grid.episode.acting import Action
from grid.episode.progress import Budget
from grid.planners.astar import AStar
from grid.planners.best_first import BestFirst
from grid.planners.dfsdt import DFSDT
from grid.planners.horizon import FullHorizon
from grid.planners.lats import LATS
from grid.planners.mcts import MCTS
from grid.planners.react import BaselineLLM, ReAct
from grid.planners.reflexion import Reflexion, Retry
from grid.planners.self_consistency import SelfConsistency
from grid.planners.tooltree import ToolTree
from grid.planners.tot import TreeOfThoughts
from grid.planners.votes import entropy, vote
from grid.planners.zero_shot import ZeroShot
from grid.text.answers import read_call
from grid.text.objects import UnreadableError
from tests.support.engines import RawText, Scripted, UniformRandom
from tests.support.places import written
from tests.support.search import Leaving, Script, searched
from tests.support.world import RIGHT, TOOLS, certain, episode, right_arguments, small_world

UNREADABLE = Action(None, unreadable="no JSON object with a tool")


def test_react_sees_every_observation_and_the_baseline_none() -> None:
    for planner, sees in ((ReAct(), True), (BaselineLLM(), False)):
        engine = Scripted(certain(), right_arguments)
        world = small_world()
        trajectory = asyncio.run(planner.solve(episode(engine, world)))
        history = engine.prompts[-1].entries("history")
        assert any("I-7" in entry and "returned" in entry for entry in history) is sees
        assert len(trajectory.steps) == 4
        assert world.resolved(trajectory.end), "references to earlier outputs are filled in for both"


def test_static_sections_come_first_so_that_prompts_of_a_case_share_a_prefix() -> None:
    engine = Scripted(certain(), right_arguments)
    asyncio.run(ReAct().solve(episode(engine)))
    texts = [prompt.text() for prompt in engine.prompts]
    shared = texts[0].index("Tools:")
    assert all(text.startswith(texts[0][:shared]) for text in texts)


def test_self_consistency_by_plan_keeps_the_majoritys_final_outcome() -> None:
    engine = UniformRandom()
    run = episode(engine, seed=3)
    trajectory = asyncio.run(SelfConsistency(level="plan", samples=7).solve(run))
    assert trajectory.branches == 6
    assert {step.branch for step in trajectory.decisions} == set(range(7))
    assert run.resolved_checks == 0, "a vote may not ask whether the case is resolved"


def test_reflexion_tries_again_with_its_latest_lessons_until_resolved() -> None:
    engine = Scripted(certain(s2_1="other"), right_arguments)
    run = episode(engine)
    trajectory = asyncio.run(Reflexion(attempts=5, memory=2).solve(run))
    assert trajectory.branches == 4
    assert engine.asked.count(("text", "", 1)) == 4, "no reflection after the last attempt"
    header, *lessons = engine.prompts[-1].entries("lessons")
    assert header == "Lessons from earlier attempts:"
    assert lessons == ["Attempt 3: think again", "Attempt 4: think again"]
    for prompt in engine.prompts:
        if isinstance(prompt.answer, TextAnswer):
            listed = [line.partition("(")[0] for line in prompt.entries("tools")[1:]]
            assert listed == list(TOOLS), "a reflection sees which tools there are"
    solved = Scripted(certain(), right_arguments)
    assert asyncio.run(Reflexion().solve(episode(solved))).branches == 0


def test_retry_tries_as_often_as_reflexion_and_asks_as_often_but_learns_nothing() -> None:
    found = {}
    for planner in (Reflexion(attempts=4), Retry(attempts=4)):
        engine = Scripted(certain(s2_1="other"), right_arguments)
        run = episode(engine)
        trajectory = asyncio.run(planner.solve(run))
        found[type(planner)] = trajectory, run.resolved_checks
        lessons = [prompt for prompt in engine.prompts if prompt.entries("lessons")]
        assert bool(lessons) == (type(planner) is Reflexion)
        assert engine.asked.count(("text", "", 1)) == (3 if lessons else 0)
    assert found[Retry][1] == found[Reflexion][1] == 3
    taken = [[(s.branch, s.substep.id, s.chosen) for s in found[cls][0].decisions] for cls in (Retry, Reflexion)]
    assert taken[0] == taken[1]
    assert {step.branch for step in found[Retry][0].steps} == {3}, "the last attempt is returned"


def test_each_attempt_of_retry_is_a_pass_of_react_with_a_seed_of_its_own() -> None:
    run, alone = episode(UniformRandom()), episode(UniformRandom())
    tried = asyncio.run(Retry(attempts=6).solve(run))
    once = asyncio.run(ReAct().solve(alone))
    assert [step for step in tried.decisions if step.branch == 0] == list(once.steps)
    assert run.resolved_checks == tried.branches == 5
    assert alone.resolved_checks == 0
    assert len({tuple(s.chosen for s in tried.decisions if s.branch == branch) for branch in range(6)}) > 1
    assert asyncio.run(Retry(attempts=1).solve(episode(UniformRandom()))).steps == once.steps


def test_votes_count_tools_ties_go_to_the_first_sampled_and_unreadable_ones_cannot_win() -> None:
    a, b, none = Action(ToolCall("a", {"x": 1})), Action(ToolCall("b", {})), Action(None)
    decision = vote([UNREADABLE, b, a, none, a, b, UNREADABLE], Usage())
    assert decision.action is b
    assert [(o.tool, o.probability) for o in decision.options] == [("b", 2 / 7), ("a", 2 / 7), (NO_TOOL, 1 / 7)]
    assert decision.entropy == pytest.approx(entropy([2 / 7, 2 / 7, 1 / 7, 2 / 7]))
    shaky = vote([a, *[UNREADABLE] * 9], Usage())
    assert shaky.entropy == pytest.approx(entropy([0.1, 0.9])), "nine unreadable answers are no certainty"
    nothing = vote([UNREADABLE, UNREADABLE], Usage())
    assert nothing.action.unreadable
    assert nothing.entropy is None


@pytest.mark.parametrize(
    "text", ["", "no json", '{"tool": 5}', '{"tool": "unknown"}', "{" * 5000, '{"tool": "find", "arguments": 3}']
)
def test_unreadable_answers_are_steps_without_a_call(text: str) -> None:
    world = small_world()
    trajectory = asyncio.run(ReAct().solve(episode(RawText(text), world)))
    assert [step.chosen for step in trajectory.steps] == [None] * 4
    assert world.calls == []


@pytest.mark.parametrize(
    "arguments", ['{"a": "\\ud800"}', '{"a": NaN}', '{"a": Infinity}', '{"a": ' + "[" * 40 + "]" * 40 + "}"]
)
def test_arguments_that_no_table_can_hold_are_unreadable(arguments: str) -> None:
    with pytest.raises(UnreadableError):
        read_call('{"tool": "find", "arguments": ' + arguments + "}")
    assert read_call('{"tool": "find", "arguments": {"a": [[["deep enough"]]]}}').tool == "find"


def test_a_call_is_found_among_thoughts_and_fences() -> None:
    text = 'Thought: {not json} then\n```json\n{"thought": "x", "tool": "find", "arguments": {"order": "A-1"}}\n```'
    call = read_call(text)
    assert (call.tool, call.arguments, call.thought) == ("find", {"order": "A-1"}, "x")
    assert read_call('{"tool": "find", "thought": ["x"]}').thought is None, "what is no text is no thought"


def test_the_budget_ends_an_episode() -> None:
    sampling = SelfConsistency(samples=10).solve(episode(Scripted(certain()), budget=Budget(llm_calls=12)))
    with pytest.raises(BudgetError, match=r"budget\.llm_calls=12"):
        asyncio.run(sampling)
    stopped = episode(Scripted(certain(), right_arguments), budget=Budget(steps=1))
    with pytest.raises(BudgetError, match=r"budget\.steps=1"):
        asyncio.run(ReAct().solve(stopped))
    assert [step.substep.id for step in stopped.best().steps] == ["1.1", "1.2"], "the pass as far as it went"
    assert stopped.budget_reached == "steps"


def test_seeds_depend_on_every_part_of_their_key_and_on_nothing_else() -> None:
    keys = [("pass0", "1.1"), ("pass0", "1.2"), ("pass1", "1.1"), ("pass", "01.1")]
    seeds = {derive_seed(1, *key) for key in keys}
    assert len(seeds) == 4
    assert derive_seed(1, *keys[0]) == derive_seed(1, *keys[0]) != derive_seed(2, *keys[0])
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_every_substep_is_decided_once_in_plan_order() -> None:
    trajectory = asyncio.run(ReAct().solve(episode(UniformRandom())))
    assert [step.substep.id for step in trajectory.steps] == list(RIGHT)


# A user may leave in the middle of a plan, and then nothing more can be done.


class Ahead(Script):
    """Writes whole plans too, all of them alike."""

    def _texts(self, prompt: Prompt, n: int) -> list[str]:
        if isinstance(prompt.answer, PlanAnswer):
            return [to_json({"plan": [loads(written(word)) for word in ("a", "b", "finish")]})] * n
        return super()._texts(prompt, n)


SMALL: Any = {"branching": 2, "max_calls": 3, "thought": 0}
RUNNING: dict[str, Any] = {
    "react": ReAct(),
    "zero_shot": ZeroShot(),
    "fh": FullHorizon(),
    "tot": TreeOfThoughts(**SMALL),
    "tot with an oracle": TreeOfThoughts(**SMALL, oracle_stop=True),
    "astar": AStar(**SMALL),
    "astar with an oracle": AStar(**SMALL, oracle_stop=True),
    "astar step by step": AStar(**SMALL, executes="expanded"),
    "astar step by step with an oracle": AStar(**SMALL, executes="expanded", oracle_stop=True),
    "best_first": BestFirst(**SMALL),
    "dfsdt": DFSDT(**SMALL),
    "dfsdt compared": DFSDT(**SMALL, order="compared"),
    "lats": LATS(**SMALL, oracle_stop=True),
    "mcts": MCTS(**SMALL, rollouts=5),
    "tooltree": ToolTree(**SMALL, candidates="sampled", rollout="end", result="greedy"),
}


@pytest.mark.parametrize("resolving", ["a", "a b"])
@pytest.mark.parametrize("planner", RUNNING.values(), ids=RUNNING.keys())
def test_nothing_is_called_after_the_world_has_ended_the_work(planner: Any, resolving: str) -> None:
    world = Leaving(leaving=frozenset({"a"}), resolving=frozenset({resolving}))
    found = searched(planner, Ahead({"": ["a"], "*": ["b", "finish"]}, value={"*": 1.0}), world=world)
    assert (found.path, world.executed, found.trajectory.end) == ("a", ["a"], ("a",))
    assert found.trajectory.answer == "a"
    assert found.episode.resolved_checks == getattr(planner, "oracle_stop", False)


@pytest.mark.parametrize("executes", ["end", "expanded"])
def test_a_search_for_what_resolves_goes_on_beside_the_plan_that_the_world_ended(executes: Any) -> None:
    script = Ahead({"": ["a", "a", "b"], "a": ["b", "b", "c"], "b": ["c"], "*": ["finish"]}, value={"*": 0.5})
    world = Leaving(leaving=frozenset({"a"}), resolving=frozenset({"b c"}))
    planner = AStar(branching=3, max_calls=3, oracle_stop=True, executes=executes)
    found = searched(planner, script, world=world)
    assert (found.path, found.episode.resolved_checks) == ("b c finish", 2)
    assert world.executed == ["a", "b", "b c"]
