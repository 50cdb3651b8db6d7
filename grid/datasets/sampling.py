"""In which order a dataset's cases are taken: `limit` should draw a sample, and files stand in order of domain."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Generic, Literal, TypeAlias, TypeVar

from grid.core.errors import ConfigError
from grid.core.seeds import derive_seed
from grid.datasets.files import folder
from grid.engines.wheels import Hub
from grid.retrievers.scored import Scorer, best
from grid.retrievers.sources import Wheel, model_folder

Order: TypeAlias = Literal["sampled", "file"]
Part: TypeAlias = Literal["all", "validation", "test"]
Stratum: TypeAlias = Callable[[str], str]
"""The part of the dataset that a case is of."""
SEED = 0
"""The datasets' own: a sweep's `seed` draws no other cases, so that sweeps are compared on the same ones."""


def ordered(case_ids: Sequence[str], order: Order, strata: Sequence[Stratum] = ()) -> list[str]:
    """All cases, so that any first part is a sample: a longer one holds every shorter one, and goes on from it.

    Of each stratum (the outermost first, further ones inside it) a first part has its share, to within about a case.
    `file` leaves them as they stand.
    """
    return list(case_ids) if order == "file" else _sampled(case_ids, strata, "")


def part_of(case_ids: Sequence[str], part: Part) -> Sequence[str]:
    """One of the two halves of a dataset's cases, in their order: of every two cases one is `test`, by lot.

    Whatever the limit, the halves of its first cases share none: a longer list goes on from a shorter one.
    """
    if part == "all":
        return case_ids
    pairs = (case_ids[start : start + 2] for start in range(0, len(case_ids), 2))
    lots = ((pair, derive_seed(SEED, "part", pair[0]) % 2) for pair in pairs)
    return [case_id for pair, lot in lots for place, case_id in enumerate(pair) if (place == lot) == (part == "test")]


def _sampled(case_ids: Sequence[str], strata: Sequence[Stratum], where: str) -> list[str]:
    if not strata:
        return sorted(case_ids, key=lambda case_id: derive_seed(SEED, "sample", case_id))
    groups: dict[str, list[str]] = {}
    for case_id in case_ids:
        groups.setdefault(strata[0](case_id), []).append(case_id)
    places: dict[str, float] = {}
    for name, group in groups.items():
        inner = f"{where}/{name}"
        begins = derive_seed(SEED, "stratum", inner) / 2**63
        # Evenly over [0, 1) from a random beginning: systematic sampling.
        for number, case_id in enumerate(_sampled(group, strata[1:], inner)):
            places[case_id] = (number + begins) / len(group)
    return sorted(places, key=places.__getitem__)


# Samples that are balanced by the number of plan nodes (planning_horizon B.1, 'Sampling').


Item = TypeVar("Item")
KQA, ATOMIC = (3, 5, 7, 9), (3, 5, 7)
"""The most nodes of each complexity bin but the last: of KQA Pro and of Atomic KBQA."""


def bins(most: Sequence[int]) -> tuple[str, ...]:
    """The bins' names, the last without an end: 1-3, 4-5, 6-7, 8+."""
    starts = [1, *(last + 1 for last in most)]
    return (*(f"{first}-{last}" for first, last in zip(starts, most, strict=False)), f"{starts[-1]}+")


def bin_of(nodes: int, most: Sequence[int] = KQA) -> str:
    """The bin of a plan with so many nodes."""
    return bins(most)[sum(nodes > last for last in most)]


def balanced(
    items: Sequence[Item],
    seed: int,
    nodes: Callable[[Item], int],
    usable: Callable[[Item], bool] = lambda item: True,
    within: Sequence[Callable[[Item], Hashable]] = (),
    most: Sequence[int] = KQA,
) -> Iterator[Item]:
    """The usable items, one of each bin in turn while it lasts: every beginning is balanced. `seed` draws the order.

    An item is looked at only when it is drawn. Inside a bin the groups of each `within`, outermost first, take turns.
    """
    rng = random.Random(derive_seed(seed, "balance"))
    groups: dict[str, list[Item]] = {name: [] for name in bins(most)}
    for item in items:
        groups[bin_of(nodes(item), most)].append(item)
    return _in_turns([filter(usable, _spread(group, within, rng)) for group in groups.values()])


def _spread(items: list[Item], within: Sequence[Callable[[Item], Hashable]], rng: random.Random) -> list[Item]:
    if not within:
        return rng.sample(items, len(items))
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(within[0](item), []).append(item)
    return list(_in_turns([_spread(group, within[1:], rng) for group in groups.values()]))


def _in_turns(groups: Iterable[Iterable[Item]]) -> Iterator[Item]:
    """One of each group, round after round."""
    waiting = [iter(group) for group in groups]
    while waiting:
        left = []
        for group in waiting:
            for item in group:
                yield item
                left.append(group)
                break
        waiting = left


# Demonstrations: the solved questions nearest to a question, by words or by meaning (planning_horizon B.1).


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
