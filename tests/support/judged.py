"""A small planner that asks a judge, before and after its calls; and a worker that may load it."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal
from unittest.mock import patch

import numpy as np
from pydantic.dataclasses import dataclass

from grid.cluster import worker
from grid.cluster.worker import Chunk, Report
from grid.core.engine import JUDGE, SAMPLE, ChoiceAnswer, Engine, Prompt, ScoreAnswer, Section
from grid.core.types import Case, Observation, ToolCall, ToolSpec, Trajectory
from grid.core.util import STRICT
from grid.episode import prompts
from grid.episode.acting import Acting, Decision, View, begin, rollout, trajectory
from grid.episode.asking import sample_actions
from grid.episode.episode import Episode
from grid.episode.judging import Judging, outcome_section, proposal_section
from grid.episode.progress import Budget
from grid.settings import make
from tests.support.teacher_forcing import teacher_forced
from tests.support.world import PLAN, TOOLS, small_world

CONFIG: dict[str, Any] = {"_target_": "tests.support.judged.BetterOfTwo", "temperature": 1.0}
ROOM = {"planner": "tests"}
ROLE = ("You judge the calls of an agent.", "A call is good where it brings the request nearer to its end.")
solve_chunk = worker.solve_chunk


def before(task: Section, history: Section, call: ToolCall | None, tools: Mapping[str, ToolSpec]) -> Prompt:
    """Is this call worth making, or is it well to make none?"""
    proposal = proposal_section(tools[call.tool], call) if call else Section("proposal", ("Call:", "none"))
    return prompts.prompt(ScoreAnswer(), Section("role", ROLE), task, history, proposal)


def after(task: Section, tool: ToolSpec, call: ToolCall, observation: Observation) -> Prompt:
    """Was this call worth making?"""
    shown = proposal_section(tool, call), outcome_section(observation)
    return prompts.prompt(ScoreAnswer(), Section("role", ROLE), task, *shown)


@dataclass(frozen=True, config=STRICT)
class BetterOfTwo(Acting):
    """Two sampled actions at each point, of which the judge's favourite is executed; then what it brought is judged."""

    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, JUDGE})

    async def solve(self, episode: Episode) -> Trajectory:
        """One pass."""
        done = await rollout(episode, self._decide, self, begin(episode), max_candidates=10)
        task = prompts.task_section(episode)
        tools = {tool.name: tool for view in done.views for tool in view.options.tools}
        for step in done.path.steps:
            if step.call and step.observation:
                asked = after(task, tools[step.call.tool], step.call, step.observation)
                await episode.judge(asked, "after", step.substep.id)
        return trajectory(episode, done.path)

    async def _decide(self, episode: Episode, view: View, name: str) -> Decision:
        actions, usage = await sample_actions(episode, view, name, 2, self)
        task, history = prompts.task_section(episode), prompts.history_section(view.history)
        scores = [
            await episode.judge(before(task, history, action.call, view.offer.tools), name, view.substep.id, place)
            for place, action in enumerate(actions)
        ]
        return Decision(actions[int(np.argmax(scores))], usage)


def judged_chunk(chunk: Chunk) -> Report:
    """A worker that takes planners from the tests."""
    with patch.dict(make.ROOMS, ROOM):
        return solve_chunk(chunk)


def dying_once(chunk: Chunk) -> Report:
    """The same; the first worker of a run dies when its case has been judged."""
    solve = BetterOfTwo.solve

    async def die(self: BetterOfTwo, episode: Episode) -> Trajectory:
        found = await solve(self, episode)
        try:
            (chunk.root / "died").touch(exist_ok=False)
        except FileExistsError:
            return found
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it lives on")

    with patch.object(BetterOfTwo, "solve", die):
        return judged_chunk(chunk)


def asking(
    judge: Engine, form: Literal["text", "digits"] = "text", budget: Budget | None = None, **more: Any
) -> Episode:
    """An episode of the small case whose judge is `judge`."""
    return Episode(
        Case("small", "Please book again what I bought in order A-1.", PLAN),
        small_world(),
        judge,
        lambda case, substep: tuple(TOOLS.values()),
        budget or Budget(),
        1,
        roles={JUDGE: judge},
        judging=Judging(form=form, **more),
    )


def a_prompt(words: str = "book again", observation: Observation | None = None) -> Prompt:
    """Of a call that books `words`; with what it returned, after it."""
    task = Section("task", ("Query: Please book again what I bought in order A-1.",))
    call = ToolCall("book", {"quote": words})
    if observation:
        return after(task, TOOLS["book"], call, observation)
    return before(task, prompts.history_section(()), call, TOOLS)


ASKED = [
    a_prompt("book again"),
    a_prompt("white rabbits and a wallet"),
    a_prompt("book again", Observation({"booking": "B-9"})),
    a_prompt("book again", Observation({"error": "no such quote"}, failed=True)),
]


def brute_force(folder: Path, run: Episode, form: str = "natural") -> list[float]:
    """The scores of an episode's messages, every label of every score by itself."""
    sent: list[Prompt] = [message.prompt for message in run.messages]
    assert all(isinstance(prompt.answer, ChoiceAnswer) for prompt in sent)
    return [float(np.arange(11) @ shares) / 10 for shares in teacher_forced(folder, sent, form=form)]
