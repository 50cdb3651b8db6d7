"""Planned first: nothing is run while it plans, decisions differ from direct ones by the plan, drafts are shared."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from grid.cells.run import episode_of, solve
from grid.core.types import Trajectory
from grid.engines.http.engine import OpenAIHTTP
from grid.engines.lexical.engine import Lexical
from grid.episode.episode import Episode
from grid.episode.progress import Budget
from grid.planners.apb import PlanFirst
from grid.planners.react import ReAct
from grid.planners.refining import Refining
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.setting import Setting, cells
from tests.support.configs import setting_of, yaml
from tests.support.http_server import Asked, LocalServer, Reply, completion, models
from tests.support.plans import Says, plan_episode, simulated

PLAN = (
    '{"plan": "Find it,\\n\\nthen book.", "tool_chain": ['
    '{"name": "find", "parameter_description": {"order": "A-1"}, "reason": "what was bought"},'
    '{"name": "quote", "parameter_description": {"item": "OUTPUT_FROM_STEP_0.item"}, "reason": "its price"}]}'
)
CALL = '{"action": {"tool": "find", "arguments": {"order": "A-1"}}}'
END = '{"action": {"tool": "finish", "arguments": {}}}'


def direct() -> ReAct:
    return ReAct(temperature=0.0, thought=0, max_retries=8, demonstrations=0, max_tokens=2048)


def planned(*texts: str, refine: Refining | None = None, **keys: Any) -> tuple[Episode, Trajectory, Says]:
    engine = Says(texts)
    run = plan_episode(engine, diagnosed=False, **keys)
    return run, asyncio.run((refine or Refining()).around(PlanFirst()).solve(run)), engine


def test_the_two_files_differ_in_nothing_but_the_class() -> None:
    first, second = (yaml("planner", name) for name in ("direct", "plan_first"))
    assert first.pop("_target_") != second.pop("_target_")
    assert first == second


def test_decisions_are_asked_for_as_direct_ones_but_for_the_plan() -> None:
    run, found, engine = planned(PLAN, CALL, END)
    assert [step.chosen for step in found.steps] == ["find", "finish"]
    alone = plan_episode(other := Says([CALL, END]), diagnosed=False)
    asyncio.run(direct().solve(alone))
    without = [
        replace(prompt, sections=tuple(part for part in prompt.sections if part.kind != "plan"))
        for prompt in engine.prompts[1:]
    ]
    assert [prompt.text() for prompt in without] == [prompt.text() for prompt in other.prompts]
    asked = [[(m.temperature, m.max_tokens, m.n) for m in one.messages] for one in (run, alone)]
    assert asked[0][1:] == asked[1]


def test_the_plan_stands_in_every_decision_before_what_was_done() -> None:
    _, _, engine = planned(PLAN, CALL, CALL, END)
    texts = [prompt.text() for prompt in engine.prompts]
    assert not engine.prompts[0].entries("plan")
    shown = {prompt.entries("plan") for prompt in engine.prompts[1:]}
    assert len(shown) == 1
    lines = next(iter(shown))
    assert "Summary: Find it, then book." in lines, "the model's own lines cannot look like parts of the prompt"
    assert any("OUTPUT_FROM_STEP_0.item" in line and line.startswith("1 -> Thought: its price") for line in lines)
    shared = texts[1].partition("\n\n")[0]
    assert all(text.startswith(shared) for text in texts[1:])
    assert texts[2].index("A plan of the work") < texts[2].index("Done so far:")


def test_nothing_is_run_while_it_plans_and_what_is_run_is_the_result() -> None:
    run, found, _ = planned(PLAN, END)
    assert (run.tool_calls, len(found.steps)) == (0, 1)
    assert found.chain is None
    assert found.planned is not None
    assert [call.name for call in found.planned.calls] == ["find", "quote"]
    assert found.unrefined is None


def test_the_cost_of_the_plan_stands_with_the_first_decision() -> None:
    run, found, _ = planned(PLAN, CALL, END)
    assert [step.input_tokens for step in found.steps] == [20, 10]
    assert sum(step.input_tokens or 0 for step in found.steps) == run.usage.input_tokens


def test_a_plan_that_cannot_be_read_is_asked_for_again() -> None:
    run, found, engine = planned("no plan", PLAN, END)
    assert len(engine.prompts) == 3
    assert run.messages[0].unreadable
    assert found.planned is not None


def test_a_refusal_in_the_plan_is_not_carried_out_by_itself() -> None:
    run, found, engine = planned('{"status": "REJECT", "reason": "no date"}', CALL, END)
    assert [step.chosen for step in found.steps] == ["find", "finish"]
    assert any('"reject"' in line for line in engine.prompts[1].entries("plan"))
    assert found.planned is not None
    assert found.planned.refusal == "no date"
    assert run.tool_calls == 1


def test_what_is_carried_out_is_the_refined_plan_and_the_draft_is_kept() -> None:
    better = PLAN.replace("A-1", "A-2")
    run, found, engine = planned(PLAN, "The order is A-2.", better, END, refine=Refining("self", taxonomy=True))
    plain, _, _ = planned(PLAN, END)
    assert found.planned is not None
    assert found.unrefined is not None
    assert found.planned.calls[0].arguments == {"order": "A-2"}
    assert found.unrefined.calls[0].arguments == {"order": "A-1"}
    assert any("A-2" in line for line in engine.prompts[3].entries("plan"))
    assert run.plans.draft == plain.plans.draft
    assert planned(better, END)[0].plans.draft != plain.plans.draft


def test_a_diagnosed_case_ends_with_the_plan() -> None:
    run = plan_episode(simulated())
    found = asyncio.run(PlanFirst().solve(run))
    assert found.chain is not None
    assert (len(run.messages), run.tool_calls, found.planned) == (1, 0, None)


def test_where_a_budget_ends_the_work_the_plan_is_kept() -> None:
    setting = setting_of({"limit": 1, "outline": "hidden"}, dataset="slate", planner="plan_first")
    run = plan_episode(Says([PLAN, CALL]), diagnosed=False, budget=Budget(llm_calls=2))
    found = asyncio.run(solve(build(setting, BudgetConfig()), run))
    assert run.budget_reached == "llm_calls"
    assert [step.chosen for step in found.steps] == ["find"]
    assert found.planned is not None


def one_cell(setting: Setting) -> tuple[Built, Episode]:
    """The first cell of a setting, not yet run."""
    built = build(setting, BudgetConfig())
    cell = next(cells(setting, built.version, built.dataset.case_ids(), 1))
    return built, episode_of(built, built.problem(cell.case_id, cell.disturbance_seed), cell.seed)


@pytest.mark.parametrize("planner", ["plan_first", "holistic", "stepwise", "fh"])
@pytest.mark.parametrize("model", ["lexical", "simulated"])
def test_refined_or_not_the_same_draft_is_asked_for_with_the_same_seed(planner: str, model: str) -> None:
    keys: dict[str, Any] = {"dataset": "slate", "planner": planner, "model": model}
    told = []
    for refine in ("none", "self"):
        built, run = one_cell(setting_of({"limit": 1, "outline": "hidden"}, refine=refine, **keys))
        asyncio.run(solve(built, run))
        first = run.messages[0]
        told.append((first.prompt, first.seed, first.temperature, first.max_tokens, first.answers, run.plans.draft))
    assert told[0] == told[1]
    assert told[0][-1] is not None


def served(asked: Asked) -> Reply:
    """A model that plans, finds nothing wrong with its plan, and finishes."""
    if asked.path == "/v1/models":
        return models("m")
    text = str(asked.body)
    if "Review the draft" in text:
        return completion("All is well.")
    return completion('{"plan": "nothing", "tool_chain": []}' if "tool_chain" in text else END)


async def loaded_and_solved(built: Built, run: Episode) -> None:
    assert isinstance(built.engine, OpenAIHTTP)
    await built.engine.load()
    await solve(built, run)


def test_a_server_is_sent_the_same_first_request_refined_or_not() -> None:
    sent = []
    with LocalServer(served) as server:
        for refine in ("none", "self"):
            server.asked.clear()
            keys = {"base_url": server.url, "model": "m", "structured": False, "sampling": "plain"}
            values: dict[str, Any] = {"limit": 1, "outline": "hidden"}
            labels: dict[str, Any] = {
                "dataset": "slate",
                "planner": "plan_first",
                "model": "openai_http",
                "refine": refine,
            }
            built, run = one_cell(setting_of(values, model_values=keys, **labels))
            asyncio.run(loaded_and_solved(built, run))
            assert len(run.messages) == (2 if refine == "none" else 4)
            bodies = [body for body in server.bodies("/v1/chat/completions") if "Plan all calls" in str(body)]
            sent.append(bodies[0])
    assert sent[0] == sent[1]
    assert sent[0]["seed"] is not None


@pytest.mark.parametrize("outline", ["given", "hidden"])
def test_it_works_with_an_outline_and_without(outline: str) -> None:
    built, run = one_cell(setting_of({"limit": 1, "outline": outline}, dataset="slate", planner="plan_first"))
    found = asyncio.run(solve(built, run))
    assert found.steps
    assert found.planned is not None
    assert all(message.prompt.entries("plan") for message in run.messages[1:])


def test_the_lexical_engine_acts_with_a_plan_in_its_prompt() -> None:
    run = plan_episode(Lexical(), diagnosed=False)
    assert asyncio.run(PlanFirst().solve(run)).steps
