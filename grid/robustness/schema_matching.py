"""Strict and forgiving tools, which treat unknown names differently (planning_horizon §3.2, §4.1, §4.4)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from scipy.sparse import csr_array

from grid.core.engine import JUDGE
from grid.core.errors import ToolError
from grid.core.problem import Index, Problem
from grid.core.types import Observation, ToolCall
from grid.core.util import STRICT
from grid.core.world import State, World
from grid.retrievers.scored import Embedder, EmbeddingModel
from grid.text.words import stems
from grid.worlds.layers import RetrievingWorld, within
from grid.worlds.schema import ERROR, READ_AS, Expected, SchemaWorld

# The similarity of texts: by their words and letters, or by their meaning according to an embedding model.


_GRAM = 3  # characters
_KEPT = 512  # vocabularies
_QUERIES = 4096
_LONGEST = 1_000  # characters used of a planner's text; the rest is ignored


class Similarity(Protocol):
    """A measure of the similarity of texts."""

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        """The similarity of a text to each name, from -1 to 1; the array has the shape (names,).

        At 1, text and name are practically equal.
        """
        ...


class Lexical:
    """Cosines of vectors that count word stems and groups of three letters. This needs no model or other data."""

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        """The cosine between a text and each name; 0 if they have no token in common."""
        columns, matrix = _counted(names)
        counts = Counter(_tokens(text))
        length = float(np.sqrt(sum(count**2 for count in counts.values())))
        query = np.zeros(len(columns))
        for token, count in counts.items():
            if token in columns:
                query[columns[token]] = count / length
        found: np.ndarray = matrix @ query
        return found


@plain_dataclass(frozen=True)
class Embeddings:
    """Cosines of embeddings from a sentence-transformers model. `key` is the config key that errors name.

    A vocabulary's embeddings are stored on disk under the fingerprint of the model's files, so that they are never used
    for a different model.
    """

    model: EmbeddingModel
    key: str

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        """The cosines between a text and the names."""
        if not names:
            return np.zeros(0)
        embedder = self.model.embedder(self.key)
        found: np.ndarray = _library(embedder, names) @ _query(embedder, self.model.query_prefix + _spaced(text))
        return found


@lru_cache(maxsize=_KEPT)
def _library(embedder: Embedder, names: tuple[str, ...]) -> np.ndarray:
    return embedder.library([_spaced(name) for name in names])


@lru_cache(maxsize=_QUERIES)
def _query(embedder: Embedder, text: str) -> np.ndarray:
    found: np.ndarray = embedder.texts([text])[0]
    return found


@lru_cache(maxsize=_KEPT)
def _counted(names: tuple[str, ...]) -> tuple[dict[str, int], csr_array]:
    """The column of each token, and a matrix with a row for each name.

    A row has length 1, or 0 if the name has no token.
    """
    columns: dict[str, int] = {}
    rows, places, values = [], [], []
    for row, name in enumerate(names):
        counts = Counter(_tokens(name))
        length = np.sqrt(sum(count**2 for count in counts.values()))
        for token, count in counts.items():
            rows.append(row)
            places.append(columns.setdefault(token, len(columns)))
            values.append(count / length)
    return columns, csr_array((values, (rows, places)), shape=(len(names), len(columns)), dtype=float)


def _tokens(text: str) -> list[str]:
    """The stems of a text's words, and the groups of three letters in each word (word ends count as letters)."""
    spaced = _spaced(text)
    words = "".join(c if c.isalnum() else " " for c in spaced.lower()).split()
    grams = [f"<{word}>"[i : i + _GRAM] for word in words for i in range(len(word) + 3 - _GRAM)]
    return [*(f"stem:{stem}" for stem in stems(spaced)), *grams]


def _spaced(text: str) -> str:
    """A text with snake_case and camelCase split into words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text[:_LONGEST].replace("_", " "))


def nearest(scores: np.ndarray, count: int) -> Sequence[int]:
    """The indices of the `count` highest scores, highest first. Ties keep their order."""
    return [int(place) for place in np.argsort(-scores, kind="stable")[:count]]


_ROUNDING = 1e-6  # of a cosine of 32-bit numbers


class Grounding(Protocol):
    """A judge that decides which candidate was meant by a given name: the role `judge`."""

    async def choose(self, question: str, call: ToolCall, parameter: str, candidates: Sequence[str]) -> str | None:
        """The candidate that was meant; None if no candidate was meant, or if no answer can be read."""
        ...


@plain_dataclass(frozen=True)
class Rule:
    """The conditions for replacing a name without asking a model.

    `floor` is the minimum similarity for identifiers of the schema. `value_floor` is the minimum similarity for entity
    names and texts of facts (0.9 in the official code). `ratio` defines "clearly nearer" (Lowe's ratio test): the
    distance of the nearer name, which is 1 minus its similarity, is at most this share of the other name's distance.
    Two conditions apply to the chosen candidate. It must be clearly nearer than all other candidates, and no name that
    is in the vocabulary but not in the input may be clearly nearer than this candidate.
    """

    floor: float
    value_floor: float
    ratio: float

    def least(self, expected: Expected) -> float:
        """The minimum similarity for the expected sort of name."""
        return self.floor if expected.sort == "identifier" else self.value_floor

    def clear(self, near: float, far: float) -> bool:
        """Whether a name with similarity `near` is clearly nearer than a name with similarity `far`."""
        return 1 - near <= self.ratio * (1 - far) + _ROUNDING and near > far


class Near(NamedTuple):
    """The candidates nearest to a text, nearest first, and their similarities (of the two nearest at least).

    `elsewhere` is the highest similarity of a name that is not in the input.
    """

    names: list[str]
    scores: list[float]
    elsewhere: float


@plain_dataclass(frozen=True)
class MatchingWorld:
    """A world in which a failed call returns the expected names that are nearest to the given name.

    With a `rule`, the world first tries to mend the call. The candidates for an argument are the names in the call's
    own input (`SchemaWorld.identifiers`). Arguments are examined in order. An argument that is in the vocabulary is
    never replaced, since its meaning is clear. Any other argument is replaced by the nearest candidate if the rule
    allows it. If `asks`, a model chooses instead, except for texts of facts. The model chooses among the `candidates`
    nearest candidates whose score is at least the rule's `floor`. Mending stops at the first argument that is neither
    in the call's input nor replaced. If the mended call fails too, the feedback is about the original call. This world
    has the same states as the inner world.
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
        """Whether this world replaces names."""
        return self.rule is not None

    @property
    def branches(self) -> bool:
        """Whether the inner world supports branching."""
        return self.inner.branches

    def judged_by(self, judge: Grounding) -> MatchingWorld:
        """The same world, with a model that chooses among candidates."""
        return replace(self, judge=judge)

    def start(self) -> State:
        """The inner world's start."""
        return self.inner.start()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """Run a call; if it fails, mend it and run it again. A failed call leaves the state unchanged."""
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
        """The answer in a state."""
        return self.inner.answer(state)

    async def _next(self, state: State, call: ToolCall, seen: set[str]) -> tuple[str, Expected] | None:
        """The next argument to examine, and its expected names, which may depend on earlier replacements."""
        expected = (await self.inner.identifiers(state, call)).items()
        return next(((name, found) for name, found in expected if name not in seen), None)

    async def _run(self, state: State, call: ToolCall, mended: ToolCall) -> tuple[State, Observation] | None:
        """The outcome of the mended call; None if the call fails.

        The observation shows which names were replaced, and by which names.
        """
        after, observation = await self.inner.apply(state, mended)
        if observation.failed:
            return None
        changed = {name: value for name, value in mended.arguments.items() if value != call.arguments[name]}
        return after, Observation({**observation.content, READ_AS: changed})

    def _near(self, given: str, expected: Expected) -> Near:
        """The candidates that are nearest to a given name."""
        vocabulary = expected.vocabulary
        scores = np.concatenate([self.similarity.scores(given, names) for names in vocabulary.parts])
        everything = expected.here is vocabulary.names  # there may be thousands of names
        here = np.full(len(scores), everything)
        if not everything:
            here[[vocabulary.place(name) for name in expected.here]] = True
        inside = np.flatnonzero(here)
        first = inside[nearest(scores[inside], max(self.candidates, 2))]
        elsewhere = float(scores[~here].max(initial=-1.0))
        names = [vocabulary.names[place] for place in first[: self.candidates]]
        return Near(names, [float(score) for score in scores[first]], elsewhere)

    async def _taken(self, call: ToolCall, name: str, expected: Expected, near: Near, rule: Rule) -> str | None:
        """The name that replaces an argument; None if it is not replaced."""
        if call.arguments[name] in expected.vocabulary or not near.names:
            return None
        if self.asks and expected.sort != "text":
            if self.judge is None:
                raise ToolError(f"{call.tool}: the setting needs a judge, but there is none")
            among = [name for name, score in zip(near.names, near.scores, strict=False) if score >= rule.floor]
            return await self.judge.choose(self.question, call, name, among) if among else None
        best, *others = near.scores
        if best < rule.least(expected) - _ROUNDING or rule.clear(near.elsewhere, best):
            return None
        return near.names[0] if not others or rule.clear(best, others[0]) else None


def _feedback(expected: Expected, given: str, names: Sequence[str]) -> str:
    """A sentence that names the nearest candidates."""
    return f"Nearest {expected.vocabulary.noun} to {given!r:.80}: {', '.join(map(repr, names)) or 'none'}."


# Shared by strict and forgiving tools: the measure of nearness, and the number of candidates after a failed call.


@dataclass(frozen=True, config=STRICT)
class Matching(EmbeddingModel):
    """The keys that strict and forgiving tools share.

    Args:
        similarity: whether names are compared by words and letters (`lexical`) or by a sentence-transformers model
            (`embeddings`).
        candidates: the number of candidates; these are the names in the call's input nearest to the given name.
        paragraphs: the number of paragraphs that a search uses, if the tools search texts (`RetrievingWorld`).
        hub, wheel, path, query_prefix: the model for `embeddings`, with the same keys as a dense retriever.
    """

    similarity: Literal["lexical", "embeddings"] = "lexical"
    candidates: Annotated[int, Field(ge=1, le=100)] = 10
    paragraphs: Annotated[int, Field(ge=1, le=100)] = 10

    key: ClassVar[str] = "robustness"

    def __post_init__(self) -> None:
        """Raise ConfigError if the model for embeddings is not specified or cannot be run."""
        if self.similarity == "embeddings":
            self.check(self.key)

    @property
    def nearness(self) -> Similarity:
        """The measure by which names are compared."""
        return Lexical() if self.similarity == "lexical" else Embeddings(self, self.key)


# Tools that accept only exact names: the study's low robustness (planning_horizon §4.4, B.1.1).


@dataclass(frozen=True, config=STRICT)
class ToolsStrict(Matching):
    """Strict tools: a call fails if it contains a name that its input entities do not have.

    The failed call returns the nearest names that its input entities have. Nearness is measured as for forgiving tools.
    If the tools search texts (`RetrievingWorld`), a search uses only the best paragraph. A problem is not changed if
    its world has no schema (`SchemaWorld`) and does not search, or if another setting has already made its tools
    forgiving.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    key: ClassVar[str] = "robustness.tools_strict"
    candidates: Annotated[int, Field(ge=1, le=100)] = 1
    paragraphs: Annotated[int, Field(ge=1, le=100)] = 1

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with strict tools: a failed call returns the nearest names."""

        def strict(world: World) -> World:
            if isinstance(world, RetrievingWorld):
                return world.reading(self.paragraphs)
            return MatchingWorld(world, self.nearness, self.candidates) if isinstance(world, SchemaWorld) else world

        return replace(problem, world=within(problem.world, strict))


# Tools that forgive inexact names: the study's high robustness (planning_horizon §3.2, §4.1, B.1.1).


Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class ToolsForgiving(Matching):
    """Forgiving tools: a name that is not in the schema is replaced by a similar name.

    An unknown name is replaced by the nearest name that the call's input entities have. This name must reach the floor
    and be clearly nearest (see `Rule`). The observation shows which names were replaced. If no name can be used, the
    call fails and returns the `candidates` nearest names.

    Args:
        floor: the minimum similarity for concepts, attribute keys, relations and qualifier keys.
        value_floor: the minimum similarity for entity names (`Find`) and text values; 0.9 as in the official code.
        ratio: the maximum distance of the nearest name, as a share of the next name's distance.
        judge: whether a model (`model@judge`) chooses, as in the paper. The model sees the candidates that reach
            `floor` (for `Find` too) and names one candidate or none. Text values are still replaced by similarity
            alone.

    If the tools search texts (`RetrievingWorld`), a search uses the `paragraphs` best paragraphs, ten by default. A
    problem is not changed if its world has no schema (`SchemaWorld`) and does not search, or if another setting has
    already made its tools strict.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    key: ClassVar[str] = "robustness.tools_forgiving"
    floor: Share = 0.35
    value_floor: Share = 0.9
    ratio: Share = 0.8
    judge: bool = False

    @property
    def asks(self) -> Mapping[str, str]:
        """The key that enables asking the judge which names were meant; empty if the judge is not asked."""
        return {JUDGE: "judge"} if self.judge else {}

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with forgiving tools."""

        def forgiving(world: World) -> World:
            if isinstance(world, RetrievingWorld):
                return world.reading(self.paragraphs)
            return self.around(world, problem.case.query) if isinstance(world, SchemaWorld) else world

        return replace(problem, world=within(problem.world, forgiving))

    def around(self, world: SchemaWorld, question: str) -> MatchingWorld:
        """The world with forgiving tools. `question` is shown to the judge."""
        rule = Rule(self.floor, self.value_floor, self.ratio)
        return MatchingWorld(world, self.nearness, self.candidates, rule, question, self.judge)
