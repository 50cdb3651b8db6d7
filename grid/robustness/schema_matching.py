"""What a tool does with a name that it does not know (planning_horizon §3.2, §4.1, §4.4, B.1.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from grid.core.errors import ToolError
from grid.core.types import Observation, ToolCall
from grid.core.world import State
from grid.robustness.similarity import Similarity, nearest
from grid.worlds.schema import ERROR, READ_AS, Expected, SchemaWorld

_ROUNDING = 1e-6  # of a cosine of 32-bit numbers


class Grounding(Protocol):
    """Whoever says which candidate means what was given: the role `judge`."""

    async def choose(self, question: str, call: ToolCall, parameter: str, candidates: Sequence[str]) -> str | None:
        """One of the candidates; None where none of them does, or where no answer can be read."""
        ...


@dataclass(frozen=True)
class Rule:
    """When a name is replaced without a model's word.

    `floor` is the least similarity of identifiers of the schema, `value_floor` that of entities' names and texts of
    facts (the official code's 0.9). `ratio` tells what is clearly nearer (Lowe's ratio test): the distance, 1 minus the
    similarity, is at most so much of the other's. What is taken must be clearly nearer than all other candidates, and
    no name of the vocabulary that the input lacks clearly nearer than it.
    """

    floor: float
    value_floor: float
    ratio: float

    def least(self, expected: Expected) -> float:
        """The floor that holds for what is expected."""
        return self.floor if expected.sort == "identifier" else self.value_floor

    def clear(self, near: float, far: float) -> bool:
        """Whether the one similarity is of what is clearly nearer than the other."""
        return 1 - near <= self.ratio * (1 - far) + _ROUNDING and near > far


class Near(NamedTuple):
    """The candidates nearest to a text, nearest first, their similarities, and the best that the input lacks."""

    names: list[str]
    scores: list[float]
    elsewhere: float


@dataclass(frozen=True)
class MatchingWorld:
    """A world whose failed calls are told the nearest names of what they expect; with a `rule` it mends them first.

    The candidates are what the call's own input has (`SchemaWorld.identifiers`). Arguments are looked at in their
    order. One that the vocabulary has is never replaced: it says what is meant. Another is replaced by the nearest
    candidate under the rule; where `asks` says so a model chooses instead, among those of the `candidates` nearest
    that reach `floor`, for all but texts of facts. The first argument that stays unknown ends it. A call that fails
    mended too is told as it was made. States are the inner world's.
    """

    inner: SchemaWorld
    similarity: Similarity
    candidates: int
    rule: Rule | None = None
    question: str = ""
    asks: bool = False
    judge: Grounding | None = None

    @property
    def mends(self) -> bool:
        """Whether it replaces names."""
        return self.rule is not None

    @property
    def branches(self) -> bool:
        """Whether the inner world does."""
        return self.inner.branches

    def judged_by(self, judge: Grounding) -> MatchingWorld:
        """The same tools, with a model that chooses among candidates."""
        return replace(self, judge=judge)

    def start(self) -> State:
        """The inner world's."""
        return self.inner.start()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """Run a call, or mend it and run it then; one that fails leaves the state as it was."""
        after, observation = await self.inner.apply(state, call)
        if not observation.failed:
            return after, observation
        mended, told, seen = call, list[str](), set[str]()
        while (found := await self._next(state, mended, seen)) is not None:
            name, expected = found
            seen.add(name)
            given = call.arguments[name]
            if not isinstance(given, str) or given in expected.here:
                continue
            near = self._near(given, expected)
            taken = await self._taken(call, name, expected, near, self.rule) if self.rule else None
            told.append(_feedback(expected, given, near.names))
            if taken is None:
                break
            mended = ToolCall(call.tool, {**mended.arguments, name: taken})
        else:
            outcome = await self._run(state, call, mended) if mended is not call else None
            if outcome is not None:
                return outcome
        if not told:
            return after, observation
        return state, Observation({ERROR: " ".join([str(observation.content[ERROR]), *told])}, failed=True)

    def resolved(self, state: State) -> bool:
        """Whether a state resolves the case."""
        return self.inner.resolved(state)

    def answer(self, state: State) -> str | None:
        """What a state says in answer."""
        return self.inner.answer(state)

    async def _next(self, state: State, call: ToolCall, seen: set[str]) -> tuple[str, Expected] | None:
        """The next argument to look at: which there are may follow from what was put in the place of others."""
        expected = (await self.inner.identifiers(state, call)).items()
        return next(((name, found) for name, found in expected if name not in seen), None)

    async def _run(self, state: State, call: ToolCall, mended: ToolCall) -> tuple[State, Observation] | None:
        """What follows the mended call, which says what was read as what; None where it fails."""
        after, observation = await self.inner.apply(state, mended)
        if observation.failed:
            return None
        changed = {name: value for name, value in mended.arguments.items() if value != call.arguments[name]}
        return after, Observation({**observation.content, READ_AS: changed})

    def _near(self, given: str, expected: Expected) -> Near:
        """The candidates by their similarity."""
        vocabulary = expected.vocabulary
        scores = np.concatenate([self.similarity.scores(given, names) for names in vocabulary.parts])
        everything = expected.here is vocabulary.names  # which may be thousands
        here = np.full(len(scores), everything)
        if not everything:
            here[[vocabulary.place(name) for name in expected.here]] = True
        inside = np.flatnonzero(here)
        first = inside[nearest(scores[inside], max(self.candidates, 2))]
        elsewhere = float(scores[~here].max(initial=-1.0))
        names = [vocabulary.names[place] for place in first[: self.candidates]]
        return Near(names, [float(score) for score in scores[first]], elsewhere)

    async def _taken(self, call: ToolCall, name: str, expected: Expected, near: Near, rule: Rule) -> str | None:
        """What is put in the place of a text; None: it is not replaced."""
        if call.arguments[name] in expected.vocabulary or not near.names:
            return None
        if self.asks and expected.sort != "text":
            if self.judge is None:
                raise ToolError(call.tool, "its settings ask a judge, and there is none")
            among = [name for name, score in zip(near.names, near.scores, strict=False) if score >= rule.floor]
            return await self.judge.choose(self.question, call, name, among) if among else None
        best, *others = near.scores
        if best < rule.least(expected) - _ROUNDING or rule.clear(near.elsewhere, best):
            return None
        return near.names[0] if not others or rule.clear(best, others[0]) else None


def _feedback(expected: Expected, given: str, names: Sequence[str]) -> str:
    """The nearest candidates, in a sentence."""
    return f"Nearest {expected.vocabulary.noun} to {given!r:.80}: {', '.join(map(repr, names)) or 'none'}."
