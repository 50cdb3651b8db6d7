"""ReAct (Yao et al. 2023b, as used in egb_slate §6.1), and Baseline-LLM, which decides without history."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE, Section, ThoughtAnswer
from grid.core.types import Trajectory, Usage
from grid.core.util import STRICT
from grid.episode import prompts
from grid.episode.acting import Acting, Decision, View, begin, rollout, trajectory
from grid.episode.asking import sections, single_pass
from grid.episode.episode import Episode
from grid.episode.prompts import Seen
from grid.text.objects import UnreadableError


@dataclass(frozen=True, config=STRICT)
class ReAct(Acting):
    """One sampled thought and action for each decision, given all earlier thoughts, calls and observations.

    With `retriever.mode=thought`, the thought is sampled first, in its own request, and the action is chosen among the
    tools that the retriever finds for this thought (`thought_first`).
    """

    thought: Annotated[int, Field(ge=0, le=10_000)] = 400
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    @property
    def thinks_first(self) -> bool:
        """Whether tools can be retrieved between the thought and the action."""
        return self.thought > 0

    async def solve(self, episode: Episode) -> Trajectory:
        """One pass."""
        policy = thought_first if episode.retrieved == "thought" else single_pass
        done = await rollout(episode, partial(policy, acting=self), self, begin(episode))
        return trajectory(episode, done.path)


@dataclass(frozen=True, config=STRICT)
class BaselineLLM(Acting):
    """One sampled action for each decision, without a thought and without execution history (egb_slate §6.1).

    With an outline, each substep is decided independently. Without an outline, the model sees its own calls, but not
    their results; the calls show how far the work has come.
    """

    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})

    async def solve(self, episode: Episode) -> Trajectory:
        """One pass, without observations."""
        seen: Seen = "none" if episode.case.plan.substeps else "calls"
        done = await rollout(episode, partial(single_pass, acting=self), self, begin(episode), seen=seen)
        return trajectory(episode, done.path)


# Retrieval between thought and action: ReAct's dynamic mode as TRAJECT-Bench's authors run it (traject_bench §4.4).
#
# The paper says that retrieval occurs before each thought and action. The authors' script first asks for a thought,
# given the tools found for the previous thought (for the first thought: for the query). It then retrieves with the new
# thought alone, and asks for a thought and an action, given the tools found. So each decision needs two answers.


ASK = (
    "Say in one or two sentences what has to be done next and what a tool for it does, or that nothing is left "
    "to do. Do not call a tool yet: your words are used to search for tools, which replace the tools listed "
    "above."
)


async def thought_first(episode: Episode, view: View, name: str, acting: Acting) -> Decision:
    """A decision among the tools retrieved for a thought; without a thought, among the tools already offered."""
    thought, spent = await _thought(episode, view, name, acting)
    if thought:
        substep = None if view.whole_query else view.substep
        found = episode.options(substep, view.path.steps, thought=thought)
        view = replace(view, options=found, thought=thought)
    decision = await single_pass(episode, view, name, acting)
    thoughts = " ".join(filter(None, (thought, decision.action.thought))) or None
    action = replace(decision.action, thought=thoughts)
    return replace(decision, action=action, usage=decision.usage + spent, view=view)


async def _thought(episode: Episode, view: View, name: str, acting: Acting) -> tuple[str, Usage]:
    """A thought on one line, cut to its maximal length; empty if no thought could be read."""
    before = sections(episode, view, view.offer.section, acting)
    ask = Section("instruction", (ASK,))
    asked = await episode.sample(
        prompts.prompt(ThoughtAnswer(), *before, prompts.request_section(view.substep), ask),
        *(name, view.substep.id, "thought"),
        temperature=acting.temperature,
        max_tokens=acting.max_tokens,
    )
    try:
        words = asked.read()
    except UnreadableError as error:
        asked.message.unreadable[0] = str(error)
        return "", asked.usage
    return " ".join(words.rpartition("</think>")[2].split())[: acting.thought], asked.usage
