"""The base of data sets: makes cases from the usable records, ordered so that every prefix of the cases is a sample.

A data set that is read from files defines its `name`, `files`, `tools` and `rows`. The data set also defines how a row
becomes a `record`, which `cluster` a case belongs to, and how a record becomes a `problem`. This module does everything
else that a data set needs (`ultratool` is an example of a data set in one file).
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

# The order of a dataset's cases. Because files are sorted by domain, the cases within a `limit` have to be drawn as a
# sample.


Order: TypeAlias = Literal["sampled", "file"]
Part: TypeAlias = Literal["all", "validation", "test"]
Stratum: TypeAlias = Callable[[str], str]
"""Maps a case id to the name of the part of the dataset that the case belongs to."""
SEED = 0
"""The datasets' own seed. A sweep's `seed` does not change the cases, so that sweeps are compared on the same cases."""


def ordered(case_ids: Sequence[str], order: Order, strata: Sequence[Stratum] = ()) -> list[str]:
    """All cases, ordered so that every prefix is a sample. A longer prefix extends every shorter one.

    Each stratum has its proportional share of every prefix, to within about one case. `strata` gives the outermost
    strata first, then strata inside them. With the order `file` the cases stay in the given order.
    """
    return list(case_ids) if order == "file" else _sampled(case_ids, strata, "")


def part_of(case_ids: Sequence[str], part: Part) -> Sequence[str]:
    """One half of a dataset's cases, in the given order; of every two consecutive cases, a random one is in `test`.

    The two halves share no case, even if each half is made with a different limit, because a larger limit only adds
    cases to each half. If `part` is `all`, all cases are returned.
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
        # Systematic sampling: cases are placed evenly over [0, 1) from a random start.
        for number, case_id in enumerate(_sampled(group, strata[1:], inner)):
            places[case_id] = (number + begins) / len(group)
    return sorted(places, key=places.__getitem__)


# Samples that are balanced by the number of plan nodes (planning_horizon B.1, 'Sampling').


Item = TypeVar("Item")
KQA, ATOMIC = (3, 5, 7, 9), (3, 5, 7)
"""For KQA Pro and for Atomic KBQA: the maximum number of nodes in each complexity bin except the last."""


def bins(most: Sequence[int]) -> tuple[str, ...]:
    """The names of the bins, such as 1-3, 4-5, 6-7, 8+; the last bin has no upper end."""
    starts = [1, *(last + 1 for last in most)]
    return (*(f"{first}-{last}" for first, last in zip(starts, most, strict=False)), f"{starts[-1]}+")


def bin_of(nodes: int, most: Sequence[int] = KQA) -> str:
    """The bin of a plan with `nodes` nodes."""
    return bins(most)[sum(nodes > last for last in most)]


def balanced(
    items: Sequence[Item],
    seed: int,
    nodes: Callable[[Item], int],
    usable: Callable[[Item], bool] = lambda item: True,
    within: Sequence[Callable[[Item], Hashable]] = (),
    most: Sequence[int] = KQA,
) -> Iterator[Item]:
    """The usable items, one from each bin in turn, so that every prefix is balanced. `seed` decides the random order.

    Empty bins are skipped. `usable` is called on an item only when the item is drawn. The functions in `within` group
    the items of a bin, the first function into the outermost groups. At every level, the groups take turns at giving an
    item.
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
    """One item from each group per round, until all groups are empty."""
    waiting = [iter(group) for group in groups]
    while waiting:
        left = []
        for group in waiting:
            for item in group:
                yield item
                left.append(group)
                break
        waiting = left


# The base of data sets: makes cases from the usable records, ordered so that every prefix of the cases is a sample.


R = TypeVar("R")


class UnusableError(ValueError):
    """The reason why a record cannot be a case."""


@dataclass(config=STRICT, kw_only=True)
class RecordDataset(ABC, Generic[R]):
    """Cases that are made from records, by id.

    Args:
        limit: the maximum number of cases; null: all.
        order: `sampled`, so that the first cases represent all strata in proportion, or `file`, the records' own order.
        outline: the plan that planners have to follow (`grid.core.problem.Outline`).
    """

    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    outline: Outline = "hidden"

    @property
    def provides(self) -> frozenset[str]:
        """The features that the cases offer to planners (`grid.core.problem.Dataset`)."""
        return frozenset({BRANCHING, REFERENCES})

    @property
    @abstractmethod
    def version(self) -> str:
        """A text that changes whenever a case, a tool or an outcome changes."""

    @property
    @abstractmethod
    def tools(self) -> Mapping[str, ToolSpec]:
        """The whole tool library by name."""

    @property
    @abstractmethod
    def records(self) -> Mapping[str, R]:
        """The records from which cases are made, by case id."""

    @abstractmethod
    def cluster(self, case_id: str) -> str:
        """The name of the case's cluster. All cases made from one template are in one cluster."""

    @abstractmethod
    def problem(self, case_id: str) -> Problem:
        """One case. Its candidate tools are the whole library."""

    @property
    def skipped(self) -> Sequence[Skipped]:
        """No records, because every record is a case."""
        return ()

    def chosen(self) -> Sequence[str]:
        """The ids from which cases are drawn: all ids, in the records' order."""
        return list(self.records)

    def strata(self) -> Sequence[Stratum]:
        """The strata that every prefix of the cases represents in proportion, the outermost strata first."""
        return (self.cluster,)

    def case_ids(self) -> Sequence[str]:
        """The cases, at most `limit` of them."""
        return ordered(self.chosen(), self.order, self.strata())[: self.limit]


@dataclass(config=STRICT)
class FileDataset(RecordDataset[R]):
    """Cases from released files, which may have errors. A record that cannot be a case is skipped with a reason.

    Args:
        path: the folder of the files. If a file is missing, the error says which files the folder must contain.
    """

    adapter: ClassVar[int] = 1
    """Increase this number when changed code yields different cases, tools or outcomes for the same files."""
    path: str | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """The benchmark's name, with the values of the keys that select some of the benchmark's cases."""

    @property
    @abstractmethod
    def files(self) -> Sequence[Path]:
        """All files from which cases, tools and outcomes come; raises ConfigError if a file is missing."""

    @abstractmethod
    def rows(self) -> Iterable[tuple[str, Any]]:
        """The id and the row of each case in the files; raises DataError if a file cannot be read at all."""

    @abstractmethod
    def record(self, case_id: str, row: Any) -> R:
        """A row as a record; raises UnusableError if it cannot be a case.

        Another error, such as a KeyError, stops the reading of the files, because the mistake may be in this method's
        code. It is then raised as a DataError that names the case's id.
        """

    def folder(self, *needed: str) -> Path:
        """The folder at `path`.

        Raises ConfigError, which names the key, if no folder is given, if the folder cannot be found or read, or if one
        of the `needed` files is missing or empty.
        """
        return folder("dataset.path", self.path, *needed)

    @cached_property
    def version(self) -> str:
        """The name, the adapter's version and the files' fingerprint."""
        return f"{self.name}-a{self.adapter}-{fingerprint(*self.files)}"

    @property
    def records(self) -> Mapping[str, R]:
        """The usable records.

        Raises ConfigError if there are none or a file is missing, or DataError if a file or a row cannot be read.
        """
        return self._read[0]

    @property
    def skipped(self) -> Sequence[Skipped]:
        """The records that cannot be cases."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[dict[str, R], list[Skipped]]:
        records, skipped = dict[str, R](), list[Skipped]()
        for case_id, row in self.rows():
            try:
                record = self.record(case_id, row)
                if case_id in records:
                    raise UnusableError("an earlier record has this id")
                records[case_id] = record
            except UnusableError as error:
                skipped.append(Skipped(case_id, str(error)))
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
                raise DataError(
                    self.files[0], None, f"{case_id} cannot be read: {type(error).__name__}: {error}"
                ) from error
        if not records:
            why = f"; reason for the first of {len(skipped):,} skipped records: {skipped[0].reason}" if skipped else ""
            raise ConfigError("dataset.path", self.path, f"files with at least one usable record{why}")
        return records, skipped
