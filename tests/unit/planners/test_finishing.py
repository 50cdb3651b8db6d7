"""Finishing as an answer (`Case.answered`): what the world takes, what it refuses, and what follows for a path."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from grid.cells.rows import step_rows
from grid.core.engine import PlanAnswer, Prompt, ToolCallAnswer
from grid.core.problem import Reference
from grid.core.types import FINISH, Case, Demonstration, Json, Plan, ToolCall, Trajectory, to_json
from grid.episode.acting import Acting, begin
from grid.episode.asking import sections
from grid.episode.episode import Episode, Planner
from grid.episode.planning import whole_view
from grid.episode.progress import Budget
from grid.metrics.stepwise import score
from grid.planners.astar import AStar
from grid.planners.horizon import FullHorizon, SingleStepHorizon
from grid.planners.react import ReAct
from grid.planners.self_consistency import SelfConsistency
from grid.planners.zero_shot import ZeroShot
from grid.robustness.schema_matching import Lexical, MatchingWorld
from grid.store.steps import step_of
from grid.worlds.kopl.values import GLOSSARY
from grid.worlds.kopl.world import KoplWorld
from tests.support.kopl_world import kopl_world
from tests.support.numbers_world import Script, finish, plan, result
from tests.support.walks import Walk

RIVERS: dict[str, Json] = {"tool": "FilterConcept", "arguments": {"entities": result(0), "concept_name": "river"}}
ALL: dict[str, Json] = {"tool": "FindAll", "arguments": {}}


def find(name: str) -> dict[str, Json]:
    return {"tool": "Find", "arguments": {"name": name}}


def name_of(step: int) -> dict[str, Json]:
    return {"tool": "QueryName", "arguments": {"entities": result(step)}}


def answered(step: int) -> dict[str, Json]:
    return finish(answer=result(step))


SOLVED = Demonstration(
    "Which lake?", {"0": ToolCall("Find", {"name": "Como"}), "1": ToolCall("Count", {"entities": result(0)})}, "1"
)


@dataclass(frozen=True)
class Ended:
    """How an episode ended."""

    found: Trajectory
    episode: Episode
    world: Any
    prompts: list[Prompt]

    @property
    def resolved(self) -> bool:
        return bool(self.world.resolved(self.found.end))

    @property
    def chosen(self) -> list[str | None]:
        return [step.chosen for step in self.found.steps]


def solved(planner: Planner, *answers: str, reference: str = "Elbe", strict: bool = False) -> Ended:
    engine = Script(answers)
    inner: KoplWorld = kopl_world(reference, answered=True)
    world = MatchingWorld(inner, Lexical(), 1) if strict else inner
    case = Case("q", "Which river flows through Czechia?", Plan(()), answered=True, notes=GLOSSARY)
    episode = Episode(
        case,
        world,
        engine,
        lambda case, substep: inner.tools,
        Budget(),
        7,
        demonstrations=lambda count: [SOLVED][:count],
    )
    return Ended(asyncio.run(planner.solve(episode)), episode, world, engine.prompts)


def steps(planner: Planner, *calls: dict[str, Json]) -> list[str]:
    """The calls as the planner's answers: one each, or one plan of them."""
    return [plan(*calls)] if isinstance(planner, FullHorizon | ZeroShot) else list(map(to_json, calls))


BOTH = pytest.mark.parametrize("planner", [FullHorizon(), SingleStepHorizon()])


@pytest.mark.parametrize("strict", [False, True])
@BOTH
def test_a_finish_with_a_set_of_entities_is_a_failed_step_and_the_path_goes_on(planner: Planner, strict: bool) -> None:
    again = [name_of(0), answered(2)]
    ended = solved(planner, *steps(planner, find("Elbe"), answered(0)), *steps(planner, *again), strict=strict)
    assert ended.chosen == ["Find", FINISH, "QueryName", FINISH]
    refused, last = ended.found.steps[1], ended.found.steps[3]
    assert refused.call == ToolCall(FINISH, {"answer": "$0"})
    assert refused.written == ToolCall(FINISH, {"answer": result(0)})
    assert refused.observation
    assert refused.observation.failed
    assert "QueryName" in refused.observation.text()
    assert (refused.finished, last.finished, last.call) == (False, True, None)
    assert (ended.found.answer, ended.resolved) == ("Elbe", True)
    assert ended.episode.tool_calls == 2, "to finish is no tool's call"
    scores = score(ended.found, Reference({}, ()), ended.resolved)
    assert (scores["failed_calls"], scores["finished"]) == (1, True)
    line = next(entry for entry in ended.prompts[-1].entries("history") if entry.startswith("1 -> "))
    assert f"{to_json(answered(0))} failed: " in line
    assert not any("$" in prompt.text() for prompt in ended.prompts), "one notation for earlier results"
    if isinstance(planner, FullHorizon):
        assert (ended.found.replans, len(ended.prompts)) == (1, 2)


@BOTH
def test_finishes_that_are_refused_count_among_the_failed_calls(planner: Planner) -> None:
    ended = solved(planner, *steps(planner, find("Elbe"), answered(0)), *steps(planner, answered(0)))
    assert ended.chosen == ["Find", *[FINISH] * 9]
    assert (ended.found.answer, ended.resolved, ended.episode.tool_calls) == (None, False, 1)


@BOTH
def test_an_earlier_result_answers_though_another_call_came_later(planner: Planner) -> None:
    ended = solved(planner, *steps(planner, find("Elbe"), name_of(0), find("Rhine"), name_of(2), answered(1)))
    assert (ended.found.answer, ended.resolved) == ("Elbe", True)


@BOTH
def test_a_wrong_answer_ends_the_path_although_the_latest_result_is_right(planner: Planner) -> None:
    ended = solved(planner, *steps(planner, find("Elbe"), name_of(0), finish(answer="Rhine"), finish(answer="Elbe")))
    assert (ended.found.answer, ended.resolved, len(ended.found.steps)) == ("Rhine", False, 3)


@pytest.mark.parametrize("before", [29, 30])
@BOTH
def test_the_finish_is_one_of_thirty_steps(planner: Planner, before: int) -> None:
    """An answer after the limits is none, also where the latest result is right."""
    calls = [*[find("Elbe")] * (before - 1), name_of(0), answered(before - 1)]
    one_by_one = isinstance(planner, SingleStepHorizon)
    ended = solved(planner, *(steps(planner, *calls) if one_by_one else [plan(*calls)]))
    assert len(ended.found.steps) == 30
    assert ended.resolved == (before == 29)
    assert ended.found.answer == ("Elbe" if before == 29 else None)
    assert ended.found.steps[-1].finished == (before == 29)


@pytest.mark.parametrize("planner", [FullHorizon(), ZeroShot()])
def test_a_plan_that_does_not_finish_is_asked_for_again_and_told_why(planner: Planner) -> None:
    calls = [find("Elbe"), name_of(0)]
    ended = solved(planner, plan(*calls), plan(*calls, finish(answer="Elbe"), ALL), plan(*calls, answered(1)))
    assert (len(ended.prompts), ended.resolved) == (3, True)
    reasons = [message.unreadable.get(0) for message in ended.episode.messages]
    assert reasons == [
        "a plan whose last call is QueryName, where it must be finish, with the answer",
        "a plan whose last call is FindAll, where it must be finish, with the answer",
        None,
    ]


def test_a_plan_may_be_longer_than_what_is_left_and_is_run_as_far_as_it_may_be() -> None:
    """Cut to what is left by its schema it could not finish, and would be asked for nine times."""
    long = [find("Elbe")] * 20
    ended = solved(FullHorizon(), plan(*long, find("Aller"), answered(0)), plan(*long, answered(0)))
    answer = ended.prompts[-1].answer
    assert isinstance(answer, PlanAnswer)
    assert (len(ended.prompts), len(ended.found.steps), answer.most) == (2, 30, 30)
    assert (ended.found.answer, ended.found.steps[-1].finished) == (None, False)


def test_what_is_asked_for_is_shown() -> None:
    """The finish takes an answer, the demonstration ends with one, and what the tools speak of is explained."""
    for planner, answers in (
        (FullHorizon(), [plan(finish(answer="Elbe"))]),
        (ReAct(), [to_json(finish(answer="Elbe"))]),
    ):
        first = solved(planner, *answers).prompts[0]
        assert isinstance(first.answer, PlanAnswer | ToolCallAnswer)
        tool = next(tool for tool in first.answer.tools if tool.name == FINISH)
        assert [(parameter.name, parameter.required) for parameter in tool.parameters] == [("answer", True)]
        assert to_json(answered(1)) in first.entries("demonstrations")[1]
        assert first.entries("notes")[1:] == GLOSSARY
        assert [section.kind for section in first.sections][:2] == ["role", "notes"]


def test_without_an_answer_to_give_finishing_stays_as_it_was() -> None:
    case = Case("q", "x", Plan(()))
    world = kopl_world("Elbe")
    episode = Episode(case, world, Script([]), lambda case, substep: world.tools, Budget(), 7,
                      demonstrations=lambda count: [SOLVED][:count])  # fmt: skip
    view = whole_view(episode, begin(episode), 30)
    assert view is not None
    shown = sections(episode, view, view.offer.section, Acting())
    assert "finish(answer: string)" in "".join(view.offer.section.options)
    assert not any(
        FINISH in entry for section in shown if section.kind == "demonstrations" for entry in section.entries
    )
    assert "notes" not in [section.kind for section in shown if section.entries]


def test_passes_vote_by_their_answers() -> None:
    """A pass that calls more, and gives the same answer, has the same vote; one that gives none has none."""
    one = to_json(finish(answer="Elbe"))
    two = [to_json(finish(answer="Rhine")), to_json(find("Rhine")), to_json(finish(answer="Rhine"))]
    ended = solved(SelfConsistency(level="plan", samples=3), one, *two)
    assert (ended.found.answer, ended.resolved) == ("Rhine", False)
    none = [to_json(ALL)] * 4
    ended = solved(SelfConsistency(level="plan", samples=3, max_calls=2), *none, one)
    assert (ended.found.answer, ended.resolved) == ("Elbe", True)


def test_a_search_goes_on_where_the_plan_that_it_runs_ends_in_a_refused_finish() -> None:
    first, second = [find("Elbe"), answered(0)], [name_of(0), answered(2)]
    answers = [text for call, end in (first, second) for text in (to_json(call), plan(end), to_json(end))]
    ended = solved(AStar(branching=1, thought=0), *answers)
    assert (ended.chosen, ended.resolved) == (["Find", FINISH, "QueryName", FINISH], True)


def test_rows_tell_a_refused_finish_from_one_that_ended_the_path() -> None:
    ended = solved(SingleStepHorizon(), *map(to_json, (find("Elbe"), answered(0), finish(answer="Elbe"))))
    rows = step_rows("c", "a", ended.found, Reference({}, (), followed=False), lambda step: ())
    assert [(row["chosen_tool"], row["failed"]) for row in rows] == [("Find", False), (FINISH, True), (FINISH, False)]
    assert [step_of(row).finished for row in rows] == [False, False, True]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("$1", "Elbe"),
        (" $1 ", "Elbe"),
        ("Elbe", "Elbe"),
        ("$1; $3", "Elbe; Rhine"),
        ("Elbe; Rhine", "Elbe; Rhine"),
        (["$1", "Rhine"], "Elbe; Rhine"),
        ("the $1 river", "the $1 river"),
    ],
)
def test_answers_that_the_world_takes(answer: Json, found: str) -> None:
    walk = finishing("Elbe")
    observation = walk.call(FINISH, answer=answer)
    assert (observation.failed, observation.content) == (False, {"answer": found})
    assert walk.answer == found
    assert walk.resolved == (found == "Elbe")
    kept = walk.state
    assert walk.call("FindAll").failed
    assert walk.call(FINISH, answer="Rhine").failed
    assert walk.state is kept, "the answer stays"


@pytest.mark.parametrize("answer", ["$0", "$2", "$9", "$01", "", "  ", " ; ", [], {"$1": 1}, 3, None, [3],
                                    "OUTPUT_FROM_STEP_7.result", "$1; $0", "$" + "9" * 5000])  # fmt: skip
def test_answers_that_the_world_refuses(answer: Json) -> None:
    walk = finishing("Elbe")
    before = walk.state
    observation = walk.call(FINISH, answer=answer)
    assert (observation.failed, walk.state is before, walk.answer, walk.resolved) == (True, True, None, False)
    assert len(observation.text()) < 400


def finishing(reference: str) -> Walk:
    """Behind two sets, each with its one name."""
    walk = Walk(kopl_world(reference, answered=True))
    walk.call("Find", name="Elbe")
    walk.call("QueryName", entities="$0")
    walk.call("Find", name="Rhine")
    walk.call("QueryName", entities="$2")
    return walk


def test_values_that_hold_what_parts_values_are_right_as_a_whole() -> None:
    walk = Walk(kopl_world("river; stream", answered=True))
    assert (walk.answer, walk.resolved) == (None, False)
    walk.call(FINISH, answer="river; stream")
    assert walk.resolved


def test_where_an_outline_says_when_it_is_over_there_is_no_finish() -> None:
    walk = Walk(kopl_world("Elbe"))
    walk.call("Find", name="Elbe")
    assert "there is no tool 'finish'" in str(walk.call(FINISH, answer="Elbe").content["error"])
    walk.call("QueryName", entities="$0")
    assert walk.resolved
