"""The world of a BFCL case of several turns: the authors' classes, checked at the end of each turn as they do.

A turn passes (bfcl_eval `multi_turn_checker`) when its gold calls are none; or when a call was made in it, all public
attributes of all objects are equal to those that the gold calls leave, and what the turn's gold calls return is among
what the calls of all turns so far returned, as often and in whatever order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import ClassVar, NamedTuple

from grid.core.types import Observation, ToolCall
from grid.core.world import State, own_state
from grid.datasets.bfcl.classes import too_large
from grid.worlds.instances import Outcome, invoke, refused, same_public_state


@dataclass(frozen=True)
class Talk:
    """How far a conversation is. Two are equal when the same calls were made in the same turns.

    `past` stands for the calls that returned something, `called` says whether one was made in the present turn.
    `results` are those of the texts returned that a turn's check asks for, `passed` whether all turns before did.
    """

    past: str
    called: bool = False
    turn: int = field(default=0, compare=False)
    snapshots: tuple[bytes, ...] = field(default=(), compare=False)
    results: tuple[str, ...] = field(default=(), compare=False)
    passed: bool = field(default=True, compare=False)


class Gold(NamedTuple):
    """What the gold calls of a turn leave and return, call by call."""

    snapshots: tuple[bytes, ...]
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True)
class Conversation:
    """One case. `tools` maps each function to the place of its object in `snapshots`, `gold` has each turn's calls.

    A call that fails leaves the state as it was, but for three things that the check sees: that a call was made in this
    turn, what it changed before it failed, and an error that the gold calls return too.
    """

    case_id: str
    snapshots: tuple[bytes, ...]
    tools: Mapping[str, int]
    gold: tuple[tuple[ToolCall, ...], ...]
    branches: ClassVar[bool] = True

    def start(self) -> Talk:
        """The scenario as it is loaded."""
        return Talk(sha256(self.case_id.encode()).hexdigest(), snapshots=self.snapshots)

    async def apply(self, state: State, call: ToolCall) -> tuple[Talk, Observation]:
        """What the function returns: a mapping's own fields, any other value as `result`."""
        talk = own_state(state, Talk)
        snapshots, outcome = self._performed(talk.snapshots, call)
        sought = outcome.text in self._sought
        if outcome.observation.failed and not sought and snapshots == talk.snapshots:
            return replace(talk, called=True), outcome.observation
        results = (*talk.results, outcome.text) if sought else talk.results
        past = _behind(talk, call.text())
        return replace(talk, past=past, called=True, snapshots=snapshots, results=results), outcome.observation

    def next_turn(self, state: State) -> Talk:
        """The state behind the user's next message."""
        talk = own_state(state, Talk)
        if talk.turn + 1 >= len(self.gold):
            raise ValueError(f"{self.case_id} has no turn behind {talk.turn}")
        passed = self.turn_resolved(talk)
        return replace(talk, past=_behind(talk, ""), called=False, turn=talk.turn + 1, passed=passed)

    def turn_resolved(self, state: State) -> bool:
        """Whether all turns up to now pass, were the present one over."""
        talk = own_state(state, Talk)
        if not talk.passed or not self.gold[talk.turn]:
            return talk.passed
        expected = self.expected[talk.turn]
        if not talk.called or Counter(outcome.text for outcome in expected.outcomes) - Counter(talk.results):
            return False
        return all(map(same_public_state, talk.snapshots, expected.snapshots))

    def resolved(self, state: State) -> bool:
        """Whether all turns pass, and this is the last."""
        return own_state(state, Talk).turn == len(self.gold) - 1 and self.turn_resolved(state)

    def answer(self, state: State) -> str | None:
        """None: nothing is asked that a text would answer."""
        return None

    @cached_property
    def expected(self) -> tuple[Gold, ...]:
        """What the gold calls lead to, turn by turn, on objects of their own."""
        snapshots, found = self.snapshots, list[Gold]()
        for calls in self.gold:
            outcomes = []
            for call in calls:
                snapshots, outcome = self._performed(snapshots, call)
                outcomes.append(outcome)
            found.append(Gold(snapshots, tuple(outcomes)))
        return tuple(found)

    @cached_property
    def _sought(self) -> frozenset[str]:
        return frozenset(outcome.text for turn in self.expected for outcome in turn.outcomes)

    def _performed(self, snapshots: tuple[bytes, ...], call: ToolCall) -> tuple[tuple[bytes, ...], Outcome]:
        place = self.tools.get(call.tool)
        if place is None:
            return snapshots, refused(b"", f"name {call.tool[:80]!r} is not defined")
        if why := too_large(call.tool, call.arguments):
            return snapshots, refused(b"", why)
        outcome = invoke(snapshots[place], call.tool, call.arguments)
        return (*snapshots[:place], outcome.snapshot, *snapshots[place + 1 :]), outcome


def _behind(talk: Talk, what: str) -> str:
    return sha256(f"{talk.past} {what}".encode(errors="replace")).hexdigest()
