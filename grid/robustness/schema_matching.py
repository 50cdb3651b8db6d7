"""Strict and forgiving tools: what one does with a name it does not know (planning_horizon §3.2, §4.1, §4.4)."""

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

# How near one text is to others: by their words and letters, or by what they mean to an embedding model.


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
    """By word stems and groups of three letters, each as often as it is there; needs nothing but the texts."""

    def scores(self, text: str, names: tuple[str, ...]) -> np.ndarray:
        """The cosines; 0 where nothing is shared."""
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
    """By a sentence-transformers model; `key` is the config's, for errors.

    A vocabulary's are kept on disk under the fingerprint of the model's files: another model never finds them.
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
    """Each token's column, and a row of length 1 for each name (0 where it has no token)."""
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
    """A text with snake_case and camelCase taken apart."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text[:_LONGEST].replace("_", " "))


def nearest(scores: np.ndarray, count: int) -> Sequence[int]:
    """The places of the highest scores, the highest first, ties in their order."""
    return [int(place) for place in np.argsort(-scores, kind="stable")[:count]]


_ROUNDING = 1e-6  # of a cosine of 32-bit numbers


class Grounding(Protocol):
    """Whoever says which candidate means what was given: the role `judge`."""

    async def choose(self, question: str, call: ToolCall, parameter: str, candidates: Sequence[str]) -> str | None:
        """One of the candidates; None where none of them does, or where no answer can be read."""
        ...


@plain_dataclass(frozen=True)
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


@plain_dataclass(frozen=True)
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


# What the settings of tool robustness share: what nearness is, and how many candidates a failed call is told.


@dataclass(frozen=True, config=STRICT)
class Matching(EmbeddingModel):
    """Names are compared by their words and letters (`lexical`) or by a sentence-transformers model (`embeddings`).

    Args:
        similarity: which.
        candidates: of the call's input, the nearest so many.
        paragraphs: that a search has to go by, where the tools search texts instead (`RetrievingWorld`).
        hub, wheel, path, query_prefix: the model of embeddings, as a dense retriever's.
    """

    similarity: Literal["lexical", "embeddings"] = "lexical"
    candidates: Annotated[int, Field(ge=1, le=100)] = 10
    paragraphs: Annotated[int, Field(ge=1, le=100)] = 10

    key: ClassVar[str] = "robustness"

    def __post_init__(self) -> None:
        """Raises ConfigError where the model is not named, or cannot be run."""
        if self.similarity == "embeddings":
            self.check(self.key)

    @property
    def nearness(self) -> Similarity:
        """How names are compared."""
        return Lexical() if self.similarity == "lexical" else Embeddings(self, self.key)


# Tools that take exact names only: the study's low robustness (planning_horizon §4.4, B.1.1).


@dataclass(frozen=True, config=STRICT)
class ToolsStrict(Matching):
    """A call with a name that its input entities do not have fails, and is told the nearest that they have.

    Nearness is the forgiving tools'. Where the tools search texts (`RetrievingWorld`), a search has the best paragraph
    alone to go by. A problem whose world neither has a schema (`SchemaWorld`) nor searches stays as it is; so does one
    whose tools another setting has made forgiving already.
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

    Nothing below the floors is replaced, and nothing that is not clearly nearest (`grid.robustness.schema_matching`).
    Where nothing is, the call fails and is told the `candidates` nearest. What was read as what is told in the
    observation.

    Args:
        floor: of concepts, attribute keys, relations and qualifier keys.
        value_floor: of entities' names (`Find`) and of text values; the official code's 0.9.
        ratio: the nearest's distance to that of the next, at most.
        judge: a model (`model@judge`) is shown the candidates of at least `floor`, for `Find` too, and names one or
            none, as in the paper; text values are replaced by similarity alone.

    Where the tools search texts (`RetrievingWorld`), a search has the ten best paragraphs to go by. A problem whose
    world neither has a schema (`SchemaWorld`) nor searches stays as it is.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    key: ClassVar[str] = "robustness.tools_forgiving"
    floor: Share = 0.35
    value_floor: Share = 0.9
    ratio: Share = 0.8
    judge: bool = False

    @property
    def asks(self) -> Mapping[str, str]:
        """The judge, where that is configured, which names were meant."""
        return {JUDGE: "judge"} if self.judge else {}

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with forgiving tools."""

        def forgiving(world: World) -> World:
            if isinstance(world, RetrievingWorld):
                return world.reading(self.paragraphs)
            return self.around(world, problem.case.query) if isinstance(world, SchemaWorld) else world

        return replace(problem, world=within(problem.world, forgiving))

    def around(self, world: SchemaWorld, question: str) -> MatchingWorld:
        """A world with forgiving tools; the question is what the judge is shown."""
        rule = Rule(self.floor, self.value_floor, self.ratio)
        return MatchingWorld(world, self.nearness, self.candidates, rule, question, self.judge)
