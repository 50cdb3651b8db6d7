"""What a tool does with an identifier that its schema does not have (planning_horizon §3.2, §4.1, §4.4, B.1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from grid.types import Observation, ToolCall
from grid.worlds.base import State
from grid.worlds.schema import ERROR, SchemaWorld, Vocabulary

READ_AS = "read_as"
"""The field of an observation that says which identifiers were put in the place of given ones."""


@dataclass(frozen=True)
class MatchingWorld:
    """A world whose failed calls are told the nearest identifiers, and mended first where `mends` is true.

    Identifiers are compared as texts (`Vocabulary.nearest`). A call is mended by the nearest candidates with which it
    returns something valid; of several unknown identifiers those whose ranks add up to least. There is no language
    model here that judges whether a candidate means what was meant, as the paper has it. States are the inner world's.
    """

    inner: SchemaWorld
    candidates: int
    mends: bool

    @property
    def branches(self) -> bool:
        """Whether the inner world does."""
        return self.inner.branches

    def start(self) -> State:
        """The inner world's."""
        return self.inner.start()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """Run a call, or the nearest that does not fail; one that fails leaves the state as it was."""
        after, observation = await self.inner.apply(state, call)
        unknown = self._unknown(call) if observation.failed else {}
        if not unknown:
            return after, observation
        near = {name: vocabulary.nearest(text, self.candidates) for name, (text, vocabulary) in unknown.items()}
        mended = await self._mended(state, call, near) if self.mends else None
        told = {ERROR: f"{observation.content[ERROR]} {_feedback(unknown, near)}"}
        return mended or (state, Observation(told, failed=True))

    def resolved(self, state: State) -> bool:
        """Whether a state resolves the case."""
        return self.inner.resolved(state)

    def answer(self, state: State) -> str | None:
        """What a state says in answer."""
        return self.inner.answer(state)

    def _unknown(self, call: ToolCall) -> dict[str, tuple[str, Vocabulary]]:
        """By parameter the texts that are in the place of an identifier and are none."""
        return {
            name: (text, vocabulary)
            for name, vocabulary in self.inner.identifiers(call.tool).items()
            if isinstance(text := call.arguments.get(name), str) and text not in vocabulary
        }

    async def _mended(
        self, state: State, call: ToolCall, near: Mapping[str, list[str]]
    ) -> tuple[State, Observation] | None:
        """What follows the first call with candidates in the place of what is unknown that does not fail."""
        ranks = product(*(range(len(names)) for names in near.values()))
        for choice in sorted(ranks, key=sum):
            chosen = {name: near[name][rank] for name, rank in zip(near, choice, strict=True)}
            after, observation = await self.inner.apply(state, ToolCall(call.tool, {**call.arguments, **chosen}))
            if not observation.failed:
                return after, Observation({**observation.content, READ_AS: {**chosen}})
        return None


def _feedback(unknown: Mapping[str, tuple[str, Vocabulary]], near: Mapping[str, list[str]]) -> str:
    """The nearest identifiers, in a sentence for each unknown one."""
    return " ".join(
        f"Nearest {vocabulary.noun} to {text!r:.80}: {', '.join(map(repr, near[name])) or 'none'}."
        for name, (text, vocabulary) in unknown.items()
    )
