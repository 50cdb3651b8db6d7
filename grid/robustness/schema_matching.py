"""Strict and forgiving tools: how they treat a name that they do not know (planning_horizon §3.2, §4.1, §4.4)."""

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

# The similarity of a text to others: by their words and letters, or by their meaning to an embedding model.


_GRAM = 3  # characters
_KEPT = 512  # vocabularies
_QUERIES = 4096
_LONGEST = 1_000  # characters of a text that a planner gives; the rest is left out


class Similarity(Protocol):
    """Cosines of texts."""

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        """The similarity of a text to each of the names, shape (names,), from -1 to 1; 1: as good as equal."""
        ...


class Lexical:
    """Cosines by word stems and groups of three letters, with how often each occurs; needs nothing but the texts."""

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        """The cosines; 0 if nothing is shared."""
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
    """Cosines by a sentence-transformers model; `key` is the config's key, for errors.

    A vocabulary's embeddings are kept on disk under the fingerprint of the model's files: another model never finds
    them.
    """

    model: EmbeddingModel
    key: str

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        """The cosines."""
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
    """Each token's column, and a row of length 1 for each name (0 if it has no token)."""
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
    """Word stems, and each word's groups of three letters with its ends marked."""
    spaced = _spaced(text)
    words = "".join(c if c.isalnum() else " " for c in spaced.lower()).split()
    grams = [f"<{word}>"[i : i + _GRAM] for word in words for i in range(len(word) + 3 - _GRAM)]
    return [*(f"stem:{stem}" for stem in stems(spaced)), *grams]


def _spaced(text: str) -> str:
    """A text with snake_case and camelCase split into words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text[:_LONGEST].replace("_", " "))


def nearest(scores: np.ndarray, count: int) -> Sequence[int]:
    """The places of the highest scores, the highest first, ties in their order."""
    return [int(place) for place in np.argsort(-scores, kind="stable")[:count]]


_ROUNDING = 1e-6  # of a cosine of 32-bit numbers


class Grounding(Protocol):
    """A judge that says which candidate a given name means: the role `judge`."""

    async def choose(self, question: str, call: ToolCall, parameter: str, candidates: Sequence[str]) -> str | None:
        """One of the candidates; None if none of them was meant, or if no answer can be read."""
        ...


@plain_dataclass(frozen=True)
class Rule:
    """The conditions for replacing a name without asking a model.

    `floor` is the least similarity of identifiers of the schema, `value_floor` that of entities' names and texts of
    facts (the official code's 0.9). `ratio` defines "clearly nearer" (Lowe's ratio test): the distance, 1 minus the
    similarity, is at most this share of the other distance. The chosen candidate must be clearly nearer than all other
    candidates, and no name of the vocabulary that the input lacks may be clearly nearer than it.
    """

    floor: float
    value_floor: float
    ratio: float

    def least(self, expected: Expected) -> float:
        """The floor that holds for the expected sort of name."""
        return self.floor if expected.sort == "identifier" else self.value_floor

    def clear(self, near: float, far: float) -> bool:
        """Whether a name with the similarity `near` is clearly nearer than a name with the similarity `far`."""
        return 1 - near <= self.ratio * (1 - far) + _ROUNDING and near > far


class Near(NamedTuple):
    """The candidates nearest to a text, nearest first, their similarities, and the best of names not in the input."""

    names: list[str]
    scores: list[float]
    elsewhere: float


@plain_dataclass(frozen=True)
class MatchingWorld:
    """A world whose failed calls return the nearest of the names that they expect; with a `rule` it mends them first.

    The candidates are the names in the call's own input (`SchemaWorld.identifiers`). Arguments are looked at in their
    order. An argument that is in the vocabulary is never replaced: it says what is meant. Any other is replaced by the
    nearest candidate under the rule. With `asks`, a model chooses instead, among those of the `candidates` nearest that
    reach `floor`, except for texts of facts. The first argument that stays unknown ends the mending. If the mended call
    fails too, the feedback is about the call as it was made. States are the inner world's.
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
        """Whether the inner world branches."""
        return self.inner.branches

    def judged_by(self, judge: Grounding) -> MatchingWorld:
        """The same tools, with a model that chooses among candidates."""
        return replace(self, judge=judge)

    def start(self) -> State:
        """The inner world's start."""
        return self.inner.start()

    async def apply(self, state: State, call: ToolCall) -> tuple[State, Observation]:
        """Run a call; if it fails, mend it and run it again. A call that fails leaves the state as it was."""
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
        """The next argument to look at: the names that it expects may depend on replacements of earlier arguments."""
        expected = (await self.inner.identifiers(state, call)).items()
        return next(((name, found) for name, found in expected if name not in seen), None)

    async def _run(self, state: State, call: ToolCall, mended: ToolCall) -> tuple[State, Observation] | None:
        """The outcome of the mended call, which says which name was read as which; None if it fails."""
        after, observation = await self.inner.apply(state, mended)
        if observation.failed:
            return None
        changed = {name: value for name, value in mended.arguments.items() if value != call.arguments[name]}
        return after, Observation({**observation.content, READ_AS: changed})

    def _near(self, given: str, expected: Expected) -> Near:
        """The candidates by their similarity."""
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


# Shared by the settings of tool robustness: the measure of nearness, and how many candidates a failed call returns.


@dataclass(frozen=True, config=STRICT)
class Matching(EmbeddingModel):
    """Names are compared by their words and letters (`lexical`) or by a sentence-transformers model (`embeddings`).

    Args:
        similarity: which of the two.
        candidates: how many of the nearest names in the call's input are candidates.
        paragraphs: how many paragraphs a search uses, if the tools search texts instead (`RetrievingWorld`).
        hub, wheel, path, query_prefix: the model of embeddings, as for a dense retriever.
    """

    similarity: Literal["lexical", "embeddings"] = "lexical"
    candidates: Annotated[int, Field(ge=1, le=100)] = 10
    paragraphs: Annotated[int, Field(ge=1, le=100)] = 10

    key: ClassVar[str] = "robustness"

    def __post_init__(self) -> None:
        """Raises ConfigError if the model is not named, or cannot be run."""
        if self.similarity == "embeddings":
            self.check(self.key)

    @property
    def nearness(self) -> Similarity:
        """The measure by which names are compared."""
        return Lexical() if self.similarity == "lexical" else Embeddings(self, self.key)


# Tools that accept exact names only: the study's low robustness (planning_horizon §4.4, B.1.1).


@dataclass(frozen=True, config=STRICT)
class ToolsStrict(Matching):
    """A call with a name that its input entities do not have fails, and returns the nearest that they have.

    Nearness is measured as for the forgiving tools. If the tools search texts (`RetrievingWorld`), a search uses the
    best paragraph alone. A problem stays as it is if its world neither has a schema (`SchemaWorld`) nor searches, or if
    another setting has made its tools forgiving already.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    key: ClassVar[str] = "robustness.tools_strict"
    candidates: Annotated[int, Field(ge=1, le=100)] = 1
    paragraphs: Annotated[int, Field(ge=1, le=100)] = 1

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with the nearest name as feedback."""

        def strict(world: World) -> World:
            if isinstance(world, RetrievingWorld):
                return world.reading(self.paragraphs)
            return MatchingWorld(world, self.nearness, self.candidates) if isinstance(world, SchemaWorld) else world

        return replace(problem, world=within(problem.world, strict))


# Tools that forgive inexact names: the study's high robustness (planning_horizon §3.2, §4.1, B.1.1).


Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class ToolsForgiving(Matching):
    """A name that the schema lacks is replaced by the nearest of those that the call's input entities have.

    A name is replaced only if the nearest reaches the floor and is clearly nearest (`grid.robustness.schema_matching`).
    Otherwise the call fails and returns the `candidates` nearest. The observation says which name was read as which.

    Args:
        floor: the least similarity of concepts, attribute keys, relations and qualifier keys.
        value_floor: that of entities' names (`Find`) and of text values; the official code's 0.9.
        ratio: the most that the nearest's distance may be, as a share of the next one's.
        judge: a model (`model@judge`) is shown the candidates of at least `floor`, for `Find` too, and names one or
            none, as in the paper; text values are replaced by similarity alone.

    If the tools search texts (`RetrievingWorld`), a search uses the ten best paragraphs. A problem whose world neither
    has a schema (`SchemaWorld`) nor searches stays as it is.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    key: ClassVar[str] = "robustness.tools_forgiving"
    floor: Share = 0.35
    value_floor: Share = 0.9
    ratio: Share = 0.8
    judge: bool = False

    @property
    def asks(self) -> Mapping[str, str]:
        """The judge is asked which names were meant, if that is configured."""
        return {JUDGE: "judge"} if self.judge else {}

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with forgiving tools."""

        def forgiving(world: World) -> World:
            if isinstance(world, RetrievingWorld):
                return world.reading(self.paragraphs)
            return self.around(world, problem.case.query) if isinstance(world, SchemaWorld) else world

        return replace(problem, world=within(problem.world, forgiving))

    def around(self, world: SchemaWorld, question: str) -> MatchingWorld:
        """A world with forgiving tools; `question` is shown to the judge."""
        rule = Rule(self.floor, self.value_floor, self.ratio)
        return MatchingWorld(world, self.nearness, self.candidates, rule, question, self.judge)
