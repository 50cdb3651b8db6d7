"""What data sets share: cases out of records, of which some cannot be cases, drawn so that a first part is a sample.

A data set that is read from files says its `name`, `files`, `tools`, `rows`, how a row becomes a `record`, what a
`cluster` is, and how a record becomes a `problem`; all else is here (`ultratool` is an example in one file).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError, DataError
from grid.core.problem import BRANCHING, REFERENCES, Outline, Problem
from grid.core.types import Skipped, ToolSpec
from grid.core.util import STRICT
from grid.datasets.files import fingerprint, folder
from grid.datasets.sampling import Order, Stratum, ordered

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
