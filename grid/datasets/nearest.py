"""Demonstrations: the solved questions nearest to a question, by words or by meaning (planning_horizon B.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Generic, Literal, TypeVar

from grid.core.errors import ConfigError
from grid.datasets.files import folder
from grid.engines.wheels import Hub
from grid.retrievers.scored import Scorer, best
from grid.retrievers.sources import Wheel, model_folder

_NAME = re.compile(r"\b[A-Z]\w*")
_WORD = re.compile(r"[a-z]+")
T = TypeVar("T")
HoldOut = Literal["template", "question"]
"""Which solved questions no case is shown: those of its own template, or itself alone (planning_horizon B.1)."""


class Nearest(Generic[T]):
    """An index of solved questions, and what is shown of each."""

    def __init__(
        self,
        texts: Sequence[str],
        solved: Callable[[int], T],
        scorer: Scorer,
        templates: Sequence[Set[str]],
        parts: Sequence[Set[str]] | None = None,
    ) -> None:
        """`solved` makes what is shown of the question at a place, `scorer` scores all of them for a text.

        `templates` are those that each question is an instance of, several where it asks several things; `parts` are
        what each question is made of, where questions share some.
        """
        self._texts, self._solved, self._score, self._parts = texts, solved, scorer, parts
        self._of_text, self._of_template = _places([text] for text in texts), _places(templates)
        self._found = lru_cache(maxsize=8192)(self._nearest)

    def __call__(self, text: str, count: int, templates: Set[str]) -> tuple[T, ...]:
        """At most `count`, nearest first; ties in the order of the questions.

        Never the question itself, nor one that shares any of `templates`, which are its own or none: that would be the
        question with other names in it. Others take their places; where too few are left there are fewer
        demonstrations. Where questions are made of parts, those that share none come before others: ten with one part
        would show it ten times.
        """
        return self._found(text, count, frozenset(templates))

    def _nearest(self, text: str, count: int, templates: frozenset[str]) -> tuple[T, ...]:
        if not self._texts:
            return ()
        own = set(self._of_text.get(text, ())).union(*(self._of_template.get(name, ()) for name in templates))
        wanted = len(self._texts) if self._parts else count + len(own)
        others = (place for place in map(int, best(self._score(text), wanted)) if place not in own)
        found = list(islice(others, count)) if self._parts is None else _apart(others, self._parts, count)
        return tuple(map(self._solved, found))


def _places(keys: Iterable[Iterable[str]]) -> Mapping[str, Sequence[int]]:
    """By key the places of those that have it."""
    found: dict[str, list[int]] = {}
    for place, own in enumerate(keys):
        for key in own:
            found.setdefault(key, []).append(place)
    return found


def _apart(ranked: Iterable[int], parts: Sequence[Set[str]], count: int) -> list[int]:
    """The first so many that share no part, in their order, then the first of the others."""
    used: set[str] = set()
    apart: list[int] = []
    others: list[int] = []
    for place in ranked:
        if len(apart) == count:
            break
        if used.isdisjoint(parts[place]):
            apart.append(place)
            used |= parts[place]
        elif len(others) < count:
            others.append(place)
    return [*apart, *others[: count - len(apart)]]


def question_words(text: str) -> list[str]:
    """A question's words without its names, 'which' and 'when' kept: they say what is asked, names say nothing of it.

    Over `kqa_synthetic` the nearest question ends in the same function in 56% of cases, with the names and without
    stop words in 47%.
    """
    return _WORD.findall(_NAME.sub("", text[:1].lower() + text[1:]))


def sentence_model_folder(
    hub: Hub | None, wheel: Wheel | None, sentence_model: str | None, asked_by: tuple[str, str]
) -> Path:
    """The folder of a dataset's sentence model, by its keys `hub`, `wheel` and `sentence_model`.

    Raises ConfigError where there is none, or nothing to load it with; `asked_by` is the key, and its value, that needs
    one.
    """
    if find_spec("sentence_transformers") is None:
        raise ConfigError(*asked_by, "installed: pip install 'agent-grid[dense]'")
    if sentence_model is not None:
        return folder("dataset.sentence_model", sentence_model, "config.json")
    if hub is None:
        raise ConfigError("dataset.hub", None, "a model: dataset.hub or dataset.sentence_model")
    return model_folder(hub, wheel, None, "dataset")
