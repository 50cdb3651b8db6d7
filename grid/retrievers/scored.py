"""Ranks tools and other texts by a score for a query: by the words that a text and the query share, or by meaning."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, cached_property, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
import platformdirs
from filelock import FileLock
from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import Index, Mode
from grid.core.types import Case, Substep, ToolSpec
from grid.core.untrusted import loads
from grid.core.util import STRICT, made_once
from grid.engines.wheels import Hub
from grid.retrievers.sources import Wheel, check_modules, check_source, fingerprint, model_folder
from grid.text.words import stems

Scores: TypeAlias = np.ndarray
"""A text's score for each tool, as float32. A higher score means that the tool is nearer to the text."""
Scorer: TypeAlias = Callable[[str], Scores]
"""A function that returns the scores of a library's tools for a text."""
FoundBy: TypeAlias = Literal["all", "description"]
"""The parts of a tool that are searched: name, description and arguments, or the description alone."""
FUSION = 60
"""The constant k of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009)."""
LONGEST = 20_000
"""The maximum length of a tool's text, in characters; the rest is cut off."""
_SCORES = 8_000_000
"""The number of scores that a scorer keeps, for all texts together (32 MB)."""


@dataclass(frozen=True, config=STRICT)
class Ranking:
    """The config keys of a ranking.

    For a substep, the `top_k` tools nearest to it are offered. For a whole query, at most `query_top_k` of its
    substeps' tools are offered; if it has no substeps or `mode` is not `static`, at most `query_top_k` of the `top_k`
    tools nearest to the query's text. A tool's score for a substep is the sum of three scores: for the substep's text,
    for its goal (times `goal_weight`) and for the query (times `query_weight`), because egb_slate algorithm 1 retrieves
    by query and substep. `mode` says when tools are retrieved. `found_by` names the parts of a tool that are compared
    with substeps and queries. TRAJECT-Bench embeds the description alone (traject_bench §4.1, and its authors' code).
    """

    top_k: Annotated[int, Field(ge=1)] = 50
    query_top_k: Annotated[int, Field(ge=1)] = 50
    goal_weight: Annotated[float, Field(ge=0)] = 0.5
    query_weight: Annotated[float, Field(ge=0)] = 0.3
    mode: Mode = "static"
    found_by: FoundBy = "all"


class ScoredIndex:
    """A library's tools, ranked by one scorer, or by several scorers whose ranks are fused. Results are kept.

    If the tools are only part of the library that the scorers score, `places` has their positions in that library;
    otherwise it is None.
    """

    def __init__(
        self,
        tools: Sequence[ToolSpec],
        scorers: Sequence[Scorer],
        ranking: Ranking,
        places: np.ndarray | None = None,
        at_least: int = 0,
    ) -> None:
        self._tools, self._scorers, self._ranking, self._places = tuple(tools), scorers, ranking, places
        self._at_least = at_least
        self.top_k, self.query_top_k = max(ranking.top_k, at_least), max(ranking.query_top_k, at_least)
        self.mode = ranking.mode
        self._found = lru_cache(maxsize=65536)(self._retrieve)

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The `top_k` tools with the highest scores for a substep."""
        return self._found(case.query, substep.goal, substep.text)

    def nearest(self, text: str) -> list[ToolSpec]:
        """All tools, sorted by their score for a text."""
        return [self._tools[i] for i in self._best([(text, 1.0)], len(self._tools))]

    def of(self, names: Collection[str], at_least: int = 0) -> Index:
        """An index of some of the tools."""
        chosen = [place for place, tool in enumerate(self._tools) if tool.name in names]
        places = np.array(chosen, dtype=np.intp)
        known = places if self._places is None else self._places[places]
        return ScoredIndex([self._tools[i] for i in chosen], self._scorers, self._ranking, known, at_least)

    def _retrieve(self, query: str, goal: str, text: str) -> tuple[ToolSpec, ...]:
        weights = self._ranking.goal_weight, self._ranking.query_weight
        texts = [(text, 1.0), (goal, weights[0]), (query, weights[1])]
        return tuple(self._tools[i] for i in self._best(texts, self.top_k))

    def _best(self, texts: Sequence[tuple[str, float]], count: int) -> np.ndarray:
        """The positions of the `count` tools with the highest scores, highest first."""
        scores = [self._weighed(scorer, texts) for scorer in self._scorers]
        return best(scores[0] if len(scores) == 1 else fused(scores), count)

    def _weighed(self, scorer: Scorer, texts: Sequence[tuple[str, float]]) -> Scores:
        total = np.zeros(len(self._tools), dtype=np.float32)
        for text, weight in texts:
            if text and weight:
                scores = scorer(text)
                total += np.float32(weight) * (scores if self._places is None else scores[self._places])
        return total


def remembered(scorer: Scorer, tools: int) -> Scorer:
    """A scorer with the scores of `scorer` for `tools` tools; it keeps about 32 MB of scores for later calls."""
    return lru_cache(maxsize=_SCORES // max(tools, 1) + 1)(scorer)


def fused(scores: Sequence[Scores]) -> Scores:
    """Reciprocal rank fusion: Σ 1 / (60 + rank) over the rankings.

    Ranks start at 1; ties are ranked in the library's order.
    """
    total = np.zeros(len(scores[0]))
    for one in scores:
        ranks = np.empty(len(one), dtype=np.intp)
        ranks[np.argsort(-one, kind="stable")] = np.arange(1, len(one) + 1)
        total += 1 / (FUSION + ranks)
    return total


def best(scores: Scores, count: int) -> np.ndarray:
    """The positions of the `count` highest scores (or of all, if there are fewer), highest first.

    Ties stay in order.
    """
    if not count:
        return np.empty(0, dtype=np.intp)
    if count >= len(scores):
        return np.argsort(-scores, kind="stable")
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    among = np.flatnonzero(scores >= least)
    return among[np.argsort(-scores[among], kind="stable")][:count]


def document(tool: ToolSpec, by: FoundBy = "all") -> str:
    """The text by which a tool is found: its name, description and arguments, or its description alone."""
    if by == "description":
        return tool.description[:LONGEST]
    arguments = " ".join(f"{parameter.name} {parameter.description}" for parameter in tool.parameters)
    return f"{tool.name} {tool.description} {arguments}"[:LONGEST]


# Returns tools as a case defines them. Cases may define a tool of the same name differently, but a library has only one
# definition per name.


class RedefinedIndex:
    """An index that finds tools by the library's definitions, but returns the definitions in `own`, if any."""

    def __init__(self, other: Index, own: Mapping[str, ToolSpec]) -> None:
        self._other, self._own = other, own
        self.query_top_k = other.query_top_k
        self.mode: Mode = other.mode
        self._replaced = lru_cache(maxsize=64)(self._as_own)  # the same tuple for the same question

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The tools that the other index finds, as `own` defines them."""
        return self._replaced(self._other.retrieve(case, substep))

    def nearest(self, text: str) -> list[ToolSpec]:
        """All tools in the other index's order, as `own` defines them."""
        return [*self._as_own(tuple(self._other.nearest(text)))]

    def of(self, names: Collection[str], at_least: int = 0) -> Index:
        """An index of some of the tools."""
        return RedefinedIndex(self._other.of(names, at_least), self._own)

    def _as_own(self, tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        return tuple(self._own.get(tool.name, tool) for tool in tools)


# Scores of texts (tools, paragraphs, questions) by the words that they share with a query, or by meaning.


Words: TypeAlias = Callable[[str], Sequence[str]]
"""A function that returns the words of a text, in the form in which they are compared."""
_LARGE = 5_000
"""The minimum number of texts for which the word index is kept on disk."""
_AT_ONCE = 4096
"""The number of texts that are embedded and saved together. After an interruption, at most this number of texts is
embedded again."""
_FILES = (
    "data.csc.index.npy",
    "indices.csc.index.npy",
    "indptr.csc.index.npy",
    "vocab.index.json",
    "params.index.json",
)
_log = logging.getLogger(__name__)


def bm25_texts(texts: Callable[[], Sequence[str]], words: Words, version: str = "") -> Scorer:
    """A scorer that returns the BM25 scores of texts for a query. The texts are indexed at the first query.

    Args:
        texts: the texts to search.
        words: a function that returns the words of a text or a query.
        version: a name that changes whenever `words` returns different words. If `version` is given and there are at
            least `_LARGE` texts, their index is kept in the user's cache.
    """

    @cache
    def indexed() -> tuple[Any, int]:
        found = texts()
        return _kept(found, words, version) if version and len(found) >= _LARGE else _made(found, words), len(found)

    def score(text: str) -> Scores:
        model, count = indexed()
        known = [word for word in words(text) if word in model.vocab_dict] if model else []
        scores: Scores = model.get_scores(known) if known else np.zeros(count, dtype=np.float32)
        return scores

    return score


def dense_texts(texts: Callable[[], Sequence[str]], embedder: Callable[[], Embedder], query_prefix: str = "") -> Scorer:
    """A scorer that returns the cosines between the texts and a query.

    The first query embeds the texts, unless they are in the user's cache.
    """

    @cache
    def matrix() -> np.ndarray:
        found, own = texts(), embedder()
        parts = [np.zeros((0, 0), dtype=np.float32)] if not found else []
        for start in range(0, len(found), _AT_ONCE):
            parts.append(own.library(found[start : start + _AT_ONCE]))
            if len(found) > _AT_ONCE:
                _log.info("%s of %s texts embedded", f"{min(start + _AT_ONCE, len(found)):,}", f"{len(found):,}")
        return np.concatenate(parts)

    def score(text: str) -> Scores:
        known = matrix()
        if not len(known):
            return np.zeros(0, dtype=np.float32)
        scores: Scores = known @ embedder().texts([query_prefix + text])[0]
        return scores

    return score


def _made(texts: Sequence[str], words: Words) -> Any:
    """The index of the texts; None if no text contains a word, because bm25s cannot index such texts."""
    import bm25s  # importing it compiles code, for which a finished sweep need not wait

    documents = [list(words(text)) for text in texts]
    if not any(documents):
        return None
    model = bm25s.BM25()
    model.index(documents, show_progress=False)
    return model


def _kept(texts: Sequence[str], words: Words, version: str) -> Any:
    """The index of the texts, from the user's cache. If it is not there, one process makes it while the others wait."""
    import bm25s

    digest = hashlib.sha256(f"{bm25s.__version__} {version}".encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "replace")).digest())
    make = partial(_write, texts, words)
    return bm25s.BM25.load(made_once("bm25", digest.hexdigest()[:24], _FILES, make), mmap=True, show_progress=False)


def _write(texts: Sequence[str], words: Words, target: Path) -> None:
    model = _made(texts, words)
    if model is None:
        raise ValueError("none of the texts has a word")
    model.save(target, show_progress=False)


# Sentence embeddings. A library's embeddings are computed once and kept on disk under a digest of its content; a
# query's embedding is computed when needed.


_BATCH = 64  # number of texts
_HEADER = 1_000  # maximum number of bytes
_TYPE = np.dtype("<f4")


@dataclass(frozen=True, config=STRICT)
class EmbeddingModel:
    """The keys by which a config names a sentence-transformers model.

    Args:
        hub: a model on the hub.
        wheel: a wheel with the same files, in case the hub cannot be reached.
        path: a folder with the model, in place of `hub` and `wheel`.
        query_prefix: a text put before every query, because some models were trained with such a prefix.
    """

    hub: Hub | None = None
    wheel: Wheel | None = None
    path: str | None = None
    query_prefix: str = ""

    @property
    def installed(self) -> bool:
        """Whether the packages that run an embedding model are installed."""
        return find_spec("sentence_transformers") is not None

    def check(self, key: str) -> None:
        """Raise ConfigError if no model is named, `path` is not a folder, or no model could be run. Fetches nothing.

        `key` is the config key that errors name.
        """
        check_source(self.hub, self.path, key)
        if not self.installed:
            raise ConfigError(
                f"{key}._target_", type(self).__name__, "needs sentence_transformers: pip install 'agent-grid[dense]'"
            )

    def embedder(self, key: str) -> Embedder:
        """The model, fetched if necessary; raises ConfigError, for a key below `key`, if there is no way to get it."""
        return embedder_of(model_folder(self.hub, self.wheel, self.path, key))


class Embedder:
    """A sentence-transformers model, loaded when the first text is embedded. Embeddings have length 1.

    Loading raises DataError if the model's files name classes of other packages (`check_modules`).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """The embeddings of texts: shape (texts, dimensions), float32.

        Only the first tokens of a long text are embedded.
        """
        cut = [text[:LONGEST] for text in texts]
        found = self._model.encode(cut, batch_size=_BATCH, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(found, dtype=_TYPE)

    def library(self, texts: Sequence[str]) -> np.ndarray:
        """The same as `texts`, but from the user's cache.

        If the embeddings are not in the cache, one process makes them while other processes wait.
        """
        distinct = list(dict.fromkeys(texts))
        key = f"{fingerprint(self.folder)}-{_digest(distinct)}"
        cache = platformdirs.user_cache_path("agent-grid") / "embeddings"
        cache.mkdir(parents=True, exist_ok=True)
        with FileLock(cache / f"{key}.lock"):
            found = read(cache / key, key, len(distinct))
            if found is None:
                found = self.texts(distinct)
                write(cache / key, key, found)
        places = {text: place for place, text in enumerate(distinct)}
        return found if len(distinct) == len(texts) else found[[places[text] for text in texts]]

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        check_modules(self.folder)
        logging.disable_progress_bar()
        return SentenceTransformer(str(self.folder), device="cpu", local_files_only=True)


@lru_cache(maxsize=4)
def embedder_of(folder: Path) -> Embedder:
    """The embedder of a model. A process has only one embedder for each model."""
    return Embedder(folder)


def write(file: Path, key: str, embeddings: np.ndarray) -> None:
    """Write embeddings to a file: a line of JSON with their key, then their bytes.

    The file appears only when complete.
    """
    content = np.ascontiguousarray(embeddings, dtype=_TYPE).tobytes()
    head = {"key": key, "shape": list(embeddings.shape), "sha256": hashlib.sha256(content).hexdigest()}
    number, draft = tempfile.mkstemp(dir=file.parent, prefix=".draft-")
    try:
        with os.fdopen(number, "wb") as out:
            out.write(json.dumps(head).encode() + b"\n")
            out.write(content)
        os.replace(draft, file)
    except BaseException:
        os.unlink(draft)
        raise


def read(file: Path, key: str, texts: int) -> np.ndarray | None:
    """The embeddings of `texts` texts from a file; None if it is missing, damaged, or for a different key or count."""
    try:
        with file.open("rb") as opened:
            head: Any = loads(opened.readline(_HEADER).decode())
            content = opened.read()
        count, dimensions = head["shape"]
        whole = (head["key"], count, count * dimensions * _TYPE.itemsize) == (key, texts, len(content))
        if not whole or head["sha256"] != hashlib.sha256(content).hexdigest():
            return None
        return np.frombuffer(content, dtype=_TYPE).reshape(count, dimensions)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _digest(texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "replace")).digest())
    return digest.hexdigest()[:24]


# BM25 over tools' names, descriptions and arguments (bm25s).


@dataclass(frozen=True, config=STRICT)
class BM25(Ranking):
    """A ranking by the words that a text and a tool share. A word's weight depends on its frequency in the library."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """Index every tool of a library."""
        tools = tuple(library.values())
        return ScoredIndex(tools, [bm25_scorer(tools, self.found_by)], self)


def bm25_scorer(tools: Sequence[ToolSpec], by: FoundBy = "all") -> Scorer:
    """A scorer that returns the BM25 scores of the tools for a text. The tools are indexed on the first call."""
    return remembered(bm25_texts(lambda: [document(tool, by) for tool in tools], stems), len(tools))


# Dense retrieval: the exact cosines of sentence embeddings, in one matrix product.


@dataclass(frozen=True, config=STRICT)
class Dense(EmbeddingModel, Ranking):
    """A ranking by meaning, with a sentence-transformers model.

    The cosines for several texts are weighted and added in the same way as BM25's scores. The model is given by the
    keys of `EmbeddingModel`.
    """

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """An index of all tools of a library. The tools are embedded at the first search. Raises ConfigError."""
        tools = tuple(library.values())
        return ScoredIndex(tools, [self._scorer(tools)], self)

    def _scorer(self, tools: Sequence[ToolSpec]) -> Scorer:
        self.check("retriever")
        return dense_scorer(tools, partial(self.embedder, "retriever"), self.query_prefix, self.found_by)


@dataclass(frozen=True, config=STRICT)
class Hybrid(Dense):
    """A ranking that fuses the ranks of BM25 and of dense retrieval."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """An index of all tools of a library. Raises ConfigError."""
        tools = tuple(library.values())
        return ScoredIndex(tools, [bm25_scorer(tools, self.found_by), self._scorer(tools)], self)


def dense_scorer(
    tools: Sequence[ToolSpec], embedder: Callable[[], Embedder], query_prefix: str = "", by: FoundBy = "all"
) -> Scorer:
    """A scorer that returns the cosines between the tools and a text."""
    return remembered(dense_texts(lambda: [document(tool, by) for tool in tools], embedder, query_prefix), len(tools))
