"""Cases with several messages of the user's, and cases behind steps of the reference: what planners see, and scores."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import pytest

from grid.datasets.base import Problem
from grid.engines.base import Engine
from grid.engines.lexical.engine import Lexical
from grid.engines.roles import JUDGE
from grid.engines.simulated.engine import Simulated
from grid.errors import BudgetError
from grid.metrics.stepwise import scored
from grid.planners.base import Episode, Planner
from grid.planners.judging import Judging
from grid.planners.progress import Budget
from grid.planners.turns import all_turns
from grid.reference import Reference
from grid.runner.build import build
from grid.runner.cell import cells
from grid.runner.config import BudgetConfig
from grid.runner.make import make
from grid.runner.run import Stamp, run_chunk
from grid.types import (
    FINISH,
    USER,
    Case,
    Json,
    Observation,
    Parameter,
    Plan,
    Step,
    Substep,
    ToolCall,
    ToolSpec,
    Trajectory,
    UserMessage,
)
from grid.worlds.base import State
from tests.configs import setting_of, solvers, yaml

TOOLS = {
    name: ToolSpec(name, f"{name} a thing", (Parameter("thing", "string", "what"),), ("result",), "box")
    for name in ("open", "paint", "close", "weigh")
}
CALLS: Mapping[str, ToolCall | None] = {
    "0": ToolCall("open", {"thing": "box"}),
    "1": None,
    "2": ToolCall("paint", {"thing": "box"}),
    "3": ToolCall("close", {"thing": "box"}),
    "4": None,
    "5": ToolCall("weigh", {"thing": "box"}),
}
MESSAGES = (UserMessage("Now paint the box, then close the box."), UserMessage("Weigh the box.", frozenset({"weigh"})))
SKILLED = Simulated(tool_skill=1.0, argument_skill=1.0, foresight=0.0, malformed=0.0, judge_auc=1.0)


@dataclass(frozen=True)
class Box:
    """Every call returns what it was; the state is what was called, a turn each."""

    before: tuple[tuple[str, ...], ...] = ((),)
    wanted: tuple[tuple[str, ...], ...] = (("open",), ("paint", "close"), ("weigh",))
    branches: ClassVar[bool] = True

    def start(self) -> State:
        return self.before

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        turns = cast(tuple[tuple[str, ...], ...], state)
        return (*turns[:-1], (*turns[-1], call.tool)), Observation({"result": f"{call.tool} done"})

    def next_turn(self, state: State) -> State:
        return (*cast(tuple[tuple[str, ...], ...], state), ())

    def turn_resolved(self, state: State) -> bool:
        turns = cast(tuple[tuple[str, ...], ...], state)
        return turns == self.wanted[: len(turns)]

    def resolved(self, state: State) -> bool:
        return state == self.wanted

    def answer(self, state: State) -> str | None:
        return None


def case_problem(case: Case, world: Box) -> Problem:
    tools = tuple(TOOLS.values())
    reference = Reference(CALLS, tuple(step for step, call in CALLS.items() if call), followed=False)
    return Problem(case, reference, world, lambda case, substep: tools, TOOLS, {})


TURNS = case_problem(Case("box", "Open the box.", Plan(()), MESSAGES), Box())


def episode_of(problem: Problem, engine: Simulated | Lexical, budget: Budget | None = None) -> Episode:
    told: Engine = engine
    if isinstance(engine, Simulated):
        told = engine.told(problem.reference, problem.library, 1)
    return Episode(
        problem.case,
        problem.world,
        told,
        problem.candidates,
        budget or Budget(),
        1,
        order_seed=2,
        roles={JUDGE: told},
        judging=Judging(),
    )


def planner_of(name: str, **changes: Json) -> Planner:
    return cast(Planner, make("planner", yaml("planner", name) | changes))


def called(found: Trajectory) -> list[str | None]:
    return [step.chosen for step in found.steps]


@pytest.mark.parametrize("name", solvers())
def test_every_planner_solves_all_turns(name: str) -> None:
    """Each turn begins behind the one before; whoever is always right resolves the case."""
    episode = episode_of(TURNS, SKILLED)
    found = asyncio.run(all_turns(planner_of(name), episode))
    assert [tool for tool in called(found) if tool != FINISH] == [call.tool for call in CALLS.values() if call]
    assert TURNS.world.resolved(found.end)
    assert scored(TURNS, found, True).exact_match
    assert len({id(step) for step in found.decisions}) == len(found.decisions)
    assert {step.substep.id for step in found.steps} == set(map(str, range(len(found.steps))))
    nodes = [node.label for node in episode.nodes]
    assert len(set(nodes)) == len(nodes)


def test_a_message_is_told_when_its_turn_has_come_and_not_before() -> None:
    """Prompts of a turn hold the messages up to it, the answers' lines once, and no tool that comes later."""
    episode = episode_of(TURNS, SKILLED)
    asyncio.run(all_turns(planner_of("lats"), episode))
    turns = {0: list[str](), 1: list[str](), 2: list[str]()}
    for message in episode.messages:
        turn = int(message.decision.rpartition("turn")[2]) if "turn" in message.decision else 0
        turns[turn].append("\n".join(line for section in message.prompt.sections for line in section.lines()))
    for turn, prompts in turns.items():
        assert prompts
        for text in prompts:
            assert [f"{USER}{said.text}" in text for said in MESSAGES] == [turn > 0, turn > 1]
            assert turn == 2 or "weigh" not in text.lower()


@pytest.mark.parametrize("steps", range(5))
def test_a_budget_that_ends_within_a_turn_leaves_what_was_done(steps: int) -> None:
    """Some calls fewer than it takes: what was done stands, and the case is not resolved."""
    episode = episode_of(TURNS, SKILLED, Budget(steps=steps))
    try:
        found = asyncio.run(all_turns(planner_of("react"), episode))
    except BudgetError:
        found = episode.best()
    assert [tool for tool in called(found) if tool != FINISH] == ["open", "paint", "close", "weigh"][:steps]
    assert TURNS.world.resolved(found.end) is (steps == 4)


def test_the_lexical_engine_follows_the_last_message() -> None:
    episode = episode_of(TURNS, Lexical())
    found = asyncio.run(all_turns(planner_of("react", temperature=0.0), episode))
    assert called(found) == ["open", FINISH, "paint", "close", FINISH, "weigh", FINISH]


def test_a_turn_without_decisions_left_is_over_all_the_same() -> None:
    """A planner that may take one decision a turn, and calls a tool with it."""
    episode = episode_of(TURNS, Lexical())
    found = asyncio.run(all_turns(planner_of("react", max_calls=1, temperature=0.0), episode))
    assert called(found) == ["open", FINISH, "paint", FINISH, "weigh"]


GIVEN = tuple(
    Step(0, Substep(str(place), "", ""), call, Observation({"result": f"{call.tool} done"}), call)
    for place, call in enumerate([ToolCall("open", {"thing": "box"}), ToolCall("paint", {"thing": "box"})])
)
STEPWISE = {
    "0": ToolCall("open", {"thing": "box"}),
    "1": ToolCall("paint", {"thing": "box"}),
    "2": ToolCall("close", {"thing": "box"}),
    "3": ToolCall("weigh", {"thing": "box"}),
}


def behind(done: int) -> Problem:
    tools = tuple(TOOLS.values())
    case = Case("box", "Do it all.", Plan(()), done=GIVEN[:done], decisions=1)
    world = Box((tuple(call.tool for call in list(STEPWISE.values())[:done]),))
    return Problem(case, Reference(STEPWISE, ("3",), followed=False), world, lambda case, substep: tools, TOOLS, {})


@pytest.mark.parametrize("name", solvers())
@pytest.mark.parametrize("done", [0, 1, 2])
def test_one_decision_behind_steps_of_the_reference(name: str, done: int) -> None:
    """Every planner sees the given steps, decides once, and is scored by that decision alone."""
    problem = behind(done)
    episode = episode_of(problem, SKILLED)
    found = episode.own(asyncio.run(all_turns(planner_of(name), episode)))
    wanted = list(STEPWISE.values())[done]
    assert called(found) == [wanted.tool]
    assert all(id(step) not in set(map(id, GIVEN)) for step in found.decisions)
    scores = scored(problem, found, False)
    assert scores.exact_match
    assert scores.inclusion == 1.0
    text = "\n".join(line for message in episode.messages for s in message.prompt.sections for line in s.lines())
    assert all(step.call.text() in text for step in GIVEN[:done] if step.call)


@pytest.mark.parametrize(("mode", "closed"), [("end_to_end", True), ("step_by_step", False)])
def test_a_closed_form_is_of_whole_cases(mode: str, closed: bool) -> None:
    setting = setting_of(
        dataset="gta_generated", planner="react", model="simulated", dataset_values={"limit": 3, "mode": mode}
    )
    built = build(setting, BudgetConfig())
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()
    assert [row["expected_success"] is not None for row in rows["episodes"]] == [closed] * 3
