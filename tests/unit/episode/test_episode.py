"""What a planner can reach and what it cannot: the reference, a world that breaks its word, one that cannot branch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from grid.cells.run import Stamp, episode_of, run_cell, solve
from grid.core.engine import Prompt, Section, TextAnswer
from grid.core.errors import ContextError, ToolError
from grid.core.problem import BRANCHING, OUTLINE, Outline, Problem, Reference
from grid.core.types import Observation, ToolCall
from grid.core.world import State
from grid.datasets.slate.dataset import Slate
from grid.episode.acting import begin, rollout
from grid.episode.asking import single_pass
from grid.episode.episode import Episode, Planner
from grid.episode.progress import Budget
from grid.episode.requests import Answers
from grid.planners.egb import EGBLogits
from grid.planners.horizon import SingleStepHorizon
from grid.planners.react import BaselineLLM, ReAct
from grid.planners.reflexion import Reflexion
from grid.planners.self_consistency import SelfConsistency
from grid.pools.whole import Whole
from grid.robustness.schema_matching import MatchingWorld
from grid.settings import check
from grid.settings.build import Built, build
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from grid.settings.parts import Pooled, parts_of
from grid.settings.setting import Cell
from grid.worlds.kopl.world import KoplWorld
from grid.worlds.lookup import Entry, LookupSimulator
from tests.support.configs import outlines, setting_of, solvers
from tests.support.engines import Distribution, Scripted
from tests.support.world import CALLS, RIGHT, TOOLS, Counting, certain, episode, right_arguments, small_world

SECRET = (Reference, Entry, LookupSimulator, KoplWorld, MatchingWorld, Problem, Built)
RIGHTLY: Mapping[str, Distribution] = MappingProxyType(certain())
BUDGET = BudgetConfig()


def reachable(root: object) -> Iterator[tuple[str, object]]:
    """Everything that public attributes, items, closures and bound methods lead to, with the way there."""
    pending: list[tuple[str, object]] = [("episode", root)]
    seen: set[int] = set()
    while pending:
        way, found = pending.pop()
        if id(found) in seen or isinstance(found, str | int | float | bytes | type | None):
            continue
        seen.add(id(found))
        yield way, found
        if isinstance(found, Mapping):
            pending += [(f"{way}[{key!r:.20}]", value) for key, value in found.items()]
            pending += [(f"{way} key", key) for key in found]
        elif isinstance(found, list | tuple | set | frozenset):
            pending += [(f"{way}[]", value) for value in found]
        if callable(found):
            cells = getattr(found, "__closure__", None) or ()
            pending += [(f"{way} closure", cell.cell_contents) for cell in cells]
            pending += [(f"{way}.{name}", getattr(found, name, None)) for name in ("__self__", "__wrapped__")]
        if is_dataclass(found) or isinstance(found, Episode | partial) or type(found).__module__.startswith("grid"):
            names = [name for name in dir(found) if not name.startswith("_")]
            pending += [(f"{way}.{name}", getattr(found, name)) for name in names]


@pytest.mark.parametrize("planner", ["react", "reflexion", "egb_logits", "fh"])
@pytest.mark.parametrize(
    ("dataset", "outline"), [(name, outline) for name in ("slate", "kqa_synthetic") for outline in outlines(name)]
)
def test_nothing_public_of_an_episode_leads_to_the_reference(dataset: str, outline: str, planner: str) -> None:
    values = {"outline": outline, "limit": 1}
    setting = setting_of(dataset=dataset, planner=planner, robustness="tools_forgiving", dataset_values=values)
    built = build(setting, BUDGET)
    problem = built.problem(built.dataset.case_ids()[0], 0)
    run = episode_of(built, problem, seed=3)
    trajectory = asyncio.run(solve(built, run))
    assert run.messages
    kinds, cluster = set(), built.dataset.cluster(problem.case.id)
    for way, found in (*reachable(run), *reachable(trajectory)):
        assert not isinstance(found, SECRET), way
        assert found not in (built.engine, built.dataset, problem.world, problem.reference.calls), way
        assert found != cluster, way
        kinds.add(type(found).__name__)
    assert {"Case", "Prompt", "Message", "Step", "Observation"} <= kinds, "the walk goes everywhere"
    shown = "\n".join(message.prompt.text() for message in run.messages)
    assert cluster not in shown
    own = built.dataset.problem(problem.case.id).case.plan.substeps
    assert all((f"{substep.id} {substep.text}" in shown) == (outline == "given") for substep in own)


def test_the_walk_finds_what_is_hidden_badly() -> None:
    """The test above could see nothing and pass."""
    reference = Reference(dict(CALLS), ("2.2",))
    run: Any = episode(Scripted(certain()))
    for hidden in ([{"x": (reference,)}], partial(print, reference), lambda: reference):
        run.here = hidden
        assert any(found is reference for _, found in reachable(run))


class Small:
    """The small world as a dataset, its world another one where that is wanted."""

    version = "small-1"
    outline: ClassVar[Outline] = "given"

    def __init__(self, world: Counting) -> None:
        self.world = world

    def cluster(self, case_id: str) -> str:
        return "small"

    def problem(self, case_id: str) -> Problem:
        case = episode(Scripted(certain())).case
        reference = Reference({step: CALLS.get(step) for step in RIGHT}, ("2.2",))
        return Problem(case, reference, self.world, lambda case, substep: tuple(TOOLS.values()), TOOLS, {})


class SmallIndex:
    query_top_k = 50
    mode = "static"

    def retrieve(self, case: Any, substep: Any) -> Any:
        return tuple(TOOLS.values())


def row(
    planner: Planner, world: Counting, script: Mapping[str, Distribution] = MappingProxyType(certain())
) -> dict[str, Any]:
    dataset: Any = Small(world)
    index: Any = SmallIndex()
    engine = Scripted(script, right_arguments)
    built = Built(engine, planner, dataset, Pooled(dataset, Whole(), TOOLS, index), (), Budget())
    setting = setting_of(dataset="null_cases")
    return asyncio.run(run_cell(built, setting, Cell("small", 0, "c", "c", "d"), Stamp("s", None), "a"))[0]


@dataclass(frozen=True)
class Unhashable(Counting):
    """Its states are lists, which anybody could change."""

    async def apply(self, state: State, call: ToolCall) -> tuple[Any, Observation]:
        after, observation = await super().apply(frozenset(state) if isinstance(state, list) else state, call)
        return sorted(after), observation


def test_a_state_that_cannot_be_hashed_is_a_failure_of_the_tool() -> None:
    found = row(ReAct(), Unhashable(small_world().entries, small_world().resolution))
    assert (found["status"], found["error_kind"], found["success"]) == ("failed", "tool", None)
    assert found["error_message"] == "Unhashable: a state must be hashable (unhashable type: 'list')"


def test_a_prompt_as_long_as_the_budget_allows_is_sent_and_none_longer() -> None:
    def asked(most: int) -> list[int]:
        run = episode(Scripted(certain(), right_arguments), budget=Budget(prompt_characters=most))
        asyncio.run(ReAct().solve(run))
        return [message.prompt.size() for message in run.messages]

    sizes = asked(10**6)
    assert asked(max(sizes)) == sizes
    with pytest.raises(ContextError, match=f"prompt_characters={max(sizes) - 1}"):
        asked(max(sizes) - 1)


@dataclass(frozen=True)
class Live(Counting):
    """A service that runs on: what was done stays done."""

    branches: ClassVar[bool] = False


def live() -> Live:
    return Live(small_world().entries, small_world().resolution)


@pytest.mark.parametrize("planner", [ReAct(), BaselineLLM(), SingleStepHorizon(), SelfConsistency(level="step")])
def test_who_goes_on_from_the_latest_state_needs_no_branches(planner: Planner) -> None:
    assert BRANCHING not in planner.needs
    assert (found := row(planner, live()))["success"] is True, found["error_message"]


@pytest.mark.parametrize(
    "planner", [EGBLogits(), Reflexion(), SelfConsistency(level="plan", samples=2)], ids=["egb", "reflexion", "plan"]
)
def test_who_goes_back_breaks_on_a_world_that_cannot(planner: Planner) -> None:
    assert BRANCHING in planner.needs
    wrong = row(planner, live(), certain(s2_1="other") | {"1.1": {"find": 0.6, "more": 0.4}})
    assert (wrong["status"], wrong["error_kind"]) == ("failed", "tool")
    assert wrong["error_message"].startswith("Live cannot ")


def test_a_second_call_from_an_old_state_is_refused_where_the_world_runs_on() -> None:
    async def twice(world: Counting) -> None:
        run = episode(Scripted(certain()), world)
        start, call = run.start(), ToolCall("find", {"order": "A-1"})
        await run.execute(start, call, ())
        await run.execute(start, call, ())

    asyncio.run(twice(small_world()))
    world = live()
    with pytest.raises(ToolError, match="Live cannot go on from an earlier state"):
        asyncio.run(twice(world))
    assert world.calls == ["find"], "nothing is run before it is refused"


@dataclass(frozen=True)
class Stateless:
    """A live service that has no state to speak of."""

    branches: ClassVar[bool] = False
    started: list[Hashable] = field(default_factory=list)

    def start(self) -> State:
        self.started.append(None)
        return None

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        return None, Observation({})

    def resolved(self, state: State) -> bool:
        return False

    def answer(self, state: State) -> str | None:
        return None


def test_it_cannot_begin_again_whatever_its_states_are() -> None:
    world: Any = Stateless()
    run = episode(Scripted(certain()), world)
    run.start()
    with pytest.raises(ToolError, match="Stateless cannot begin again"):
        run.start()
    assert len(world.started) == 1


class Lasting(Slate):
    """SLATE as if its tools were live."""

    provides: ClassVar[frozenset[str]] = frozenset({OUTLINE})


@pytest.mark.parametrize("planner", solvers())
def test_planners_that_branch_are_refused_before_the_sweep_where_worlds_run_on(
    monkeypatch: pytest.MonkeyPatch, planner: str
) -> None:
    setting = setting_of(dataset="slate", planner=planner)
    assert invalid_reason(setting) is None
    lasting = replace(parts_of(setting.config), dataset=Lasting(limit=1))
    monkeypatch.setattr(check, "parts_of", lambda config: lasting)
    needs = build_needs(planner)
    said = f"conf/planner/{planner}.yaml needs branching, which conf/dataset/slate.yaml does not have"
    assert invalid_reason(setting) == (said if BRANCHING in needs else None)
    onward = ("baseline_llm", "cot", "direct", "fh", "react", "self_consistency", "sh", "tot", "zero_shot")
    ahead = ("holistic", "plan_first", "stepwise", "stepwise_1", "stepwise_2", "stepwise_3")
    assert (BRANCHING in needs) == (planner not in (*onward, *ahead))


def build_needs(planner: str) -> frozenset[str]:
    return build(setting_of(dataset="null_cases", planner=planner), BUDGET).planner.needs


# Seeds: each request has a key of its own.


def words(*key: str) -> Callable[[Episode], Coroutine[Any, Any, Answers]]:
    return lambda run: run.sample(Prompt((Section("role", ("Think.",)),), TextAnswer()), *key)


def test_a_key_that_was_used_is_refused_since_the_seed_would_be_the_same() -> None:
    run = episode(Scripted(certain()))
    asyncio.run(words("pass0", "think")(run))
    with pytest.raises(ValueError, match=r"the key \('pass0', 'think'\) was used before.*view\.substep\.id"):
        asyncio.run(words("pass0", "think")(run))
    for step in ("0", "1"):
        asyncio.run(words("pass0", step, "think")(run))
    assert len({message.seed for message in run.messages}) == len(run.messages) == 3


def test_requests_at_the_same_time_need_different_keys_too() -> None:
    async def both() -> list[Answers | BaseException]:
        run = episode(Scripted(certain()))
        return await asyncio.gather(*(words("pass0")(run) for _ in range(2)), return_exceptions=True)

    assert [isinstance(found, ValueError) for found in asyncio.run(both())] == [False, True]


def test_a_request_that_was_not_answered_leaves_its_key_free() -> None:
    run = episode(Scripted(certain()), budget=Budget(prompt_characters=10))
    long = Prompt((Section("role", ("Think about it.",)),), TextAnswer())
    with pytest.raises(ContextError):
        asyncio.run(run.sample(long, "pass0", "think"))
    assert asyncio.run(words("pass0", "think")(run)).texts


def test_passes_of_one_name_are_refused_and_with_branches_they_are_not() -> None:
    run, acting = episode(Scripted(certain(), right_arguments)), ReAct()
    policy = partial(single_pass, acting=acting)
    asyncio.run(rollout(run, policy, acting, begin(run)))
    asyncio.run(rollout(run, policy, acting, begin(run), branch=1))
    with pytest.raises(ValueError, match="was used before"):
        asyncio.run(rollout(run, policy, acting, begin(run)))
