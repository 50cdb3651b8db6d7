"""What a tool does with an identifier that its schema does not have (planning_horizon §3.2, §4.1, §4.4, B.1.1)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import product

from grid.types import Observation, ToolCall
from grid.worlds.schema import ERROR, SchemaEnvironment, Vocabulary, failed

READ_AS = "read_as"
"""The field of an observation that says which identifiers were put in the place of given ones."""


@dataclass
class MatchingEnvironment:
    """An environment whose failed calls are told the nearest identifiers, and mended first where `mends` is true.

    Identifiers are compared as texts (`Vocabulary.nearest`). A call is mended by the nearest candidates with which it
    returns something valid; of several unknown identifiers those whose ranks add up to least. There is no language
    model here that judges whether a candidate means what was meant, as the paper has it.
    """

    inner: SchemaEnvironment
    candidates: int
    mends: bool

    def execute(self, call: ToolCall) -> Observation:
        """Run a call; one that fails leaves the state as it was, whatever was tried."""
        observation = self.inner.execute(call)
        unknown = self._unknown(call) if failed(observation) else {}
        if not unknown:
            return observation
        near = {name: vocabulary.nearest(text, self.candidates) for name, (text, vocabulary) in unknown.items()}
        mended = self._mended(call, near) if self.mends else None
        return mended or Observation({ERROR: f"{observation.content[ERROR]} {_feedback(unknown, near)}"})

    def snapshot(self) -> Hashable:
        """The environment's own."""
        return self.inner.snapshot()

    def restore(self, mark: Hashable) -> None:
        """The environment's own."""
        self.inner.restore(mark)

    def resolved(self) -> bool:
        """Whether the environment's present state resolves the case."""
        return self.inner.resolved()

    def answer(self) -> str | None:
        """What the environment's present state says in answer."""
        return self.inner.answer()

    def _unknown(self, call: ToolCall) -> dict[str, tuple[str, Vocabulary]]:
        """By parameter the texts that are in the place of an identifier and are none."""
        return {
            name: (text, vocabulary)
            for name, vocabulary in self.inner.identifiers(call.tool).items()
            if isinstance(text := call.arguments.get(name), str) and text not in vocabulary
        }

    def _mended(self, call: ToolCall, near: Mapping[str, list[str]]) -> Observation | None:
        """The observation of the first call with candidates in the place of what is unknown that does not fail."""
        ranks = product(*(range(len(names)) for names in near.values()))
        for choice in sorted(ranks, key=sum):
            chosen = {name: near[name][rank] for name, rank in zip(near, choice, strict=True)}
            observation = self.inner.execute(ToolCall(call.tool, {**call.arguments, **chosen}))
            if not failed(observation):
                return Observation({**observation.content, READ_AS: {**chosen}})
        return None


def _feedback(unknown: Mapping[str, tuple[str, Vocabulary]], near: Mapping[str, list[str]]) -> str:
    """The nearest identifiers, in a sentence for each unknown one."""
    return " ".join(
        f"Nearest {vocabulary.noun} to {text!r:.80}: {', '.join(map(repr, near[name])) or 'none'}."
        for name, (text, vocabulary) in unknown.items()
    )
