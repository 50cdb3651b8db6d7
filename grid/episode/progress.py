"""The progress of an episode: its budget, the steps done before it, a call's outcome, and the best trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from grid.core.types import Chain, Observation, Step, ToolCall, Trajectory, Usage
from grid.core.world import State
from grid.episode.requests import MOST_CHARACTERS


@dataclass(frozen=True)
class Budget:
    """The limits of an episode. At the first four, it is stopped, and the best trajectory so far is the result.

    `steps` are executed calls, without the finish. `llm_calls` are completions and scoring passes, and `tokens` are
    input and output tokens, both summed over all roles that a planner asks. `seconds` count the time used by the case
    itself. None: no limit. These limits are checked before each request and each call, so they can be exceeded by the
    tokens and seconds of requests that are in flight. A longer prompt than `prompt_characters` and a longer observation
    than `observation_characters` end the episode with an error (ContextError, ToolError). An answer that is longer than
    `answer_characters` counts as unreadable.
    """

    llm_calls: int = 5000
    steps: int = 1000
    tokens: int | None = None
    seconds: float | None = None
    prompt_characters: int = 1_000_000
    observation_characters: int = 100_000
    answer_characters: int = MOST_CHARACTERS


class Improvement(NamedTuple):
    """A trajectory that was better than all earlier ones, and the budget used when it was found.

    `value` is the planner's own value of the trajectory, or None if the planner has no such measure; `node` is the
    label of the trajectory's node in a search tree, or None if there is no tree.
    """

    trajectory: Trajectory
    value: float | None
    node: str | None
    tool_calls: int
    usage: Usage
    seconds: float


class Executed(NamedTuple):
    """The new state, the call with references filled in, and its observation; without a call, the last two are None."""

    state: State
    call: ToolCall | None
    observation: Observation | None


class Before(NamedTuple):
    """The steps done before a planner starts; user messages and answers, keyed by the index of the step before them."""

    steps: tuple[Step, ...] = ()
    said: Mapping[int, str] = MappingProxyType({})
    answers: Mapping[int, str | None] = MappingProxyType({})


@dataclass
class Plans:
    """The first plan that an episode's planner wrote; `draft` is the digest of the plan's text before any critique.

    `planned` is the plan of the first turn, if the planner records it before it runs anything (`holistic` and
    `plan_first`, unless the case is diagnosed); `unrefined` is this plan before its critique, or None if there was no
    critique.
    """

    draft: str | None = None
    planned: Chain | None = None
    unrefined: Chain | None = None
