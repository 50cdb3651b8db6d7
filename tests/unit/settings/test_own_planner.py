"""What docs/planner.md shows runs as it stands there: planners, paid for what they ask, and a robustness setting."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from grid import plugins
from grid.contracts.test_product import test_every_point_runs_and_repeats_itself as check_point
from grid.contracts.trying import problem, row
from grid.core.engine import Choice, ChoiceAnswer, Prompt
from grid.core.types import Usage
from grid.settings.make import make
from tests.support.engines import Scripted
from tests.support.plugins import standing_in, write
from tests.support.world import certain, episode, right_arguments

PAGE = Path(__file__).parents[3] / "docs" / "planner.md"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    planner, replanner, setting = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    return write(
        tmp_path,
        {
            "mylab/__init__.py": "",
            "mylab/planners/__init__.py": "",
            "mylab/planners/twice.py": planner,
            "mylab/planners/replan.py": replanner,
            "mylab/robustness/__init__.py": "",
            "mylab/robustness/closed.py": setting,
            "mylab/conf/robustness/closed.yaml": "closed:\n  _target_: mylab.robustness.closed.Closed\n",
            "mylab/conf/planner/replan.yaml": "# A plan first, in words.\n_target_: mylab.planners.replan.Replan\n",
            "mylab/conf/planner/twice.yaml": "# The second of two answers.\n_target_: mylab.planners.twice.Twice\n",
        },
    )


def ran(planner: str) -> dict[str, Any]:
    return row("mylab", planner=planner, dataset="slate", model="simulated")


def test_it_asks_twice_for_each_step(lab: Path) -> None:
    with standing_in(lab):
        plugins.allow(["mylab"])
        twice, once = ran("twice"), ran("react")
        assert twice["status"] == once["status"] == "ok", twice["error_message"]
        per_step = [found["llm_calls"] / found["n_steps"] for found in (twice, once)]
    assert per_step[0] >= 2 * per_step[1] - 1e-9


def test_each_result_says_what_the_setting_adds(lab: Path) -> None:
    with standing_in(lab):
        plugins.allow(["mylab"])
        plain, noted = (problem("mylab", dataset="slate", robustness=name) for name in ("none", "closed"))
        call = next(call for call in plain.reference.calls.values() if call)
        before, after = (asyncio.run(found.world.apply(found.world.start(), call))[1] for found in (plain, noted))
    assert after.content == {**before.content, "notice": "Closed on Sunday."}


class Choosing(Scripted):
    """The same choice of how to go on after every failed call; else as scripted."""

    way = ""

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        assert isinstance(prompt.answer, ChoiceAnswer)
        assert prompt.entries("instruction")[1:] == tuple(
            f"{n}. {text}" for n, text in enumerate(prompt.answer.options)
        )
        self.prompts.append(prompt)
        chosen = tuple(float(option == self.way) for option in prompt.answer.options)
        return Choice(chosen, Usage(forward_passes=1))


@pytest.mark.parametrize(
    ("way", "calls", "offered"),
    [("Give up.", 1, None), ("Call another tool.", 4, False), ("Call the same tool again.", 4, True)],
)
def test_it_plans_then_chooses_after_a_failed_call_and_may_give_up(
    lab: Path, way: str, calls: int, offered: bool | None
) -> None:
    engine = Choosing(certain(s1_1="other"), right_arguments)
    engine.way = way
    run = episode(engine)
    with standing_in(lab):
        plugins.allow(["mylab"])
        planner: Any = make("planner", {"_target_": "mylab.planners.replan.Replan"})
        found = asyncio.run(planner.solve(run))
    assert len(found.steps) == calls
    decisions = [message.decision for message in run.messages]
    assert decisions[:3] == ["draft", "pass0/1.1", "pass0/1.2/how"]
    assert ("think again" in engine.prompts[1].text(), way in engine.prompts[2].text()) == (True, True), "plan, choice"
    if offered is not None:
        assert ("other(" in engine.prompts[3].text().partition("Tools:")[2]) == offered
        assert found.steps[1].input_tokens, "of the choice and the call"


@pytest.mark.parametrize("model", ["simulated", "lexical", "null_engine"])
def test_it_runs_with_engines_that_cost_nothing(lab: Path, model: str) -> None:
    with standing_in(lab):
        plugins.allow(["mylab"])
        rows = [row("mylab", case, planner="replan", dataset="kqa_synthetic", model=model) for case in range(4)]
    assert [one["error_message"] for one in rows] == [None] * 4


FAULTS = {
    "Decision(Action(ToolCall('nosuch', {})), Usage())": "step 1.1: the tool 'nosuch' is not on offer; a decision must",
    "Decision(Action(None, unreadable='no'), Usage())": "step 1.1: the step has an answer that could not be used.*"
    "agent-grid show null_cases 0+ --planner faulty --model null_engine --robustness none --plugin mylab"
    " dataset.outline=given",
    "Decision(Action(None, given_up=True, finished=True), Usage())": "the cell must end without an error(?s:.)*"
    "an action that gives up has no call and does not finish",
    "Decision(Action(None), Usage())": "the planner asked a model 0 times",
}
FAULTY = """from dataclasses import dataclass
from grid import SAMPLE, Acting, Action, Decision, ToolCall, Usage, begin, rollout, trajectory


@dataclass
class Faulty:
    needs = frozenset({SAMPLE})

    async def solve(self, episode):
        done = await rollout(episode, self.decide, Acting(), begin(episode))
        return trajectory(episode, done.path)

    async def decide(self, episode, view, name):
        from grid import single_pass
        if DECISION[:21] != "Decision(Action(None)":
            await single_pass(episode, view, name, Acting())
        return eval(DECISION)
"""


@pytest.mark.parametrize("decision", FAULTS)
def test_a_broken_promise_is_named_with_planner_data_set_and_step(
    lab: Path, pytestconfig: pytest.Config, decision: str
) -> None:
    yaml = "# It breaks a promise.\n_target_: mylab.planners.faulty.Faulty\n"
    text = f"DECISION = {decision!r}\n{FAULTY}"
    write(lab, {"mylab/planners/faulty.py": text, "mylab/conf/planner/faulty.yaml": yaml})
    with standing_in(lab):
        plugins.allow(["mylab"])
        point = "null_cases", "given", "faulty", "none", "null_engine", False
        told = f"(?s)^faulty on null_cases, outline given, model null_engine, robustness none.*{FAULTS[decision]}"
        with pytest.raises(AssertionError, match=told):
            check_point(pytestconfig, lambda dataset: None, *point)
