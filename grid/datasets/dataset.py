"""What data sets share: cases out of records, of which some cannot be cases, drawn so that a first part is a sample.

A data set that is read from files says its `name`, `files`, `tools`, `rows`, how a row becomes a `record`, what a
`cluster` is, and how a record becomes a `problem`; all else is here (`ultratool` is an example in one file).
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError, DataError
from grid.core.problem import BRANCHING, REFERENCES, Outline, Problem
from grid.core.types import Skipped, ToolSpec
from grid.core.util import STRICT, derive_seed
from grid.datasets.files import fingerprint, folder

# In which order a dataset's cases are taken: `limit` should draw a sample, and files stand in order of domain.


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


# What data sets share: cases out of records, of which some cannot be cases, drawn so that a first part is a sample.


R = TypeVar("R")


class UnusableError(ValueError):
    """Why a record cannot be a case."""


@dataclass(config=STRICT, kw_only=True)
class RecordDataset(ABC, Generic[R]):
    """Cases that are made of records, by id.

    Args:
        limit: so many cases; null: all.
        order: `sampled`, so that the first cases have their share of each stratum, or as the records stand (`file`).
        outline: what planners follow.
    """

    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    outline: Outline = "hidden"

    @property
    def provides(self) -> frozenset[str]:
        """What planners find in the cases (`grid.core.problem.Dataset`)."""
        return frozenset({BRANCHING, REFERENCES})

    @property
    @abstractmethod
    def version(self) -> str:
        """Changes whenever a case, a tool or an outcome does."""

    @property
    @abstractmethod
    def tools(self) -> Mapping[str, ToolSpec]:
        """The whole library by name."""

    @property
    @abstractmethod
    def records(self) -> Mapping[str, R]:
        """What cases are made of, by case id."""

    @abstractmethod
    def cluster(self, case_id: str) -> str:
        """What the case shares with others: the same name for all that were made from one template."""

    @abstractmethod
    def problem(self, case_id: str) -> Problem:
        """One case. Its candidates are the whole library."""

    @property
    def skipped(self) -> Sequence[Skipped]:
        """None: every record is a case."""
        return ()

    def chosen(self) -> Sequence[str]:
        """The ids that cases are drawn from: all, in the records' order."""
        return list(self.records)

    def strata(self) -> Sequence[Stratum]:
        """By what a first part has its shares, the outermost first."""
        return (self.cluster,)

    def case_ids(self) -> Sequence[str]:
        """The cases, at most `limit` of them."""
        return ordered(self.chosen(), self.order, self.strata())[: self.limit]


@dataclass(config=STRICT)
class FileDataset(RecordDataset[R]):
    """Cases out of released files, which nobody vouches for: what cannot be a case is skipped, with the reason.

    Args:
        path: the folder of the files; what it must hold is said where one lacks.
    """

    adapter: ClassVar[int] = 1
    """Raise when the same files give other cases, tools or outcomes."""
    path: str | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """The benchmark's, with the keys that say which of its cases these are."""

    @property
    @abstractmethod
    def files(self) -> Sequence[Path]:
        """All that cases, tools and outcomes come from; raises ConfigError where one is missing."""

    @abstractmethod
    def rows(self) -> Iterable[tuple[str, Any]]:
        """What the files say of each case, by its id; raises DataError where a file cannot be read at all."""

    @abstractmethod
    def record(self, case_id: str, row: Any) -> R:
        """A row as a record; raises UnusableError where it cannot be a case.

        Whatever else it raises (a key that a row lacks) ends the reading, with the case's id: it may be a mistake here.
        """

    def folder(self, *needed: str) -> Path:
        """The folder `path`; raises ConfigError, naming the key, where it or one of the files is missing or empty."""
        return folder("dataset.path", self.path, *needed)

    @cached_property
    def version(self) -> str:
        """The name, the adapter's version and the files' fingerprint."""
        return f"{self.name}-a{self.adapter}-{fingerprint(*self.files)}"

    @property
    def records(self) -> Mapping[str, R]:
        """The usable ones."""
        return self._read[0]

    @property
    def skipped(self) -> Sequence[Skipped]:
        """What cannot be cases."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[dict[str, R], list[Skipped]]:
        records, skipped = dict[str, R](), list[Skipped]()
        for case_id, row in self.rows():
            try:
                record = self.record(case_id, row)
                if case_id in records:
                    raise UnusableError("its id comes twice")
                records[case_id] = record
            except UnusableError as error:
                skipped.append(Skipped(case_id, str(error)))
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise DataError(
                    self.files[0], None, f"{case_id} cannot be read: {type(error).__name__}: {error}"
                ) from error
        if not records:
            why = f"; the first of {len(skipped):,} skipped: {skipped[0].reason}" if skipped else ""
            raise ConfigError("dataset.path", self.path, f"files with a record that can be a case{why}")
        return records, skipped
