"""How far an episode is: what it may use, what was done before it, what a call led to, what was best."""

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
    """How much one episode may use before it is stopped, and what is best so far is its result.

    `steps` are executed calls, `llm_calls` completions and scoring passes, `tokens` those in and out, all of every
    role that a planner asks; `seconds` are of the case's own time; None: without limit. They are looked at before each
    request and each call, so that what is used goes beyond them by what is in flight at most: of tokens and seconds, by
    the requests that were sent side by side.
    """

    llm_calls: int = 5000
    steps: int = 1000
    tokens: int | None = None
    seconds: float | None = None
    prompt_characters: int = 1_000_000
    observation_characters: int = 100_000
    answer_characters: int = MOST_CHARACTERS


class Improvement(NamedTuple):
    """A trajectory that was better than all before, and what had been used when it was found.

    `value` is what the planner takes it to be worth, None where it has no measure; `node` its place in a search tree.
    """

    trajectory: Trajectory
    value: float | None
    node: str | None
    tool_calls: int
    usage: Usage
    seconds: float


class Executed(NamedTuple):
    """The state after a call, the call with its references filled in, and what it returned; None without a call."""

    state: State
    call: ToolCall | None
    observation: Observation | None


class Before(NamedTuple):
    """What was done before a planner begins; by the places of the steps what the user said behind one, and answers."""

    steps: tuple[Step, ...] = ()
    said: Mapping[int, str] = MappingProxyType({})
    answers: Mapping[int, str | None] = MappingProxyType({})


@dataclass
class Plans:
    """The first plan that an episode's planner wrote: `draft` is the digest of its text, before any critique.

    Where it was written before anything was run, and then carried out: `planned` as it was then, `unrefined` before a
    critique.
    """

    draft: str | None = None
    planned: Chain | None = None
    unrefined: Chain | None = None
