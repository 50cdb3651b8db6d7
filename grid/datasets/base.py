"""What a dataset gives: cases with their environments, a tool library, and an account of what it skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from grid.types import Case, Demonstration, Reference, Skipped, Substep, ToolSpec
from grid.worlds.base import Environment

OUTLINE, DEMONSTRATIONS = "outline", "demonstrations"


class Candidates(Protocol):
    """Which tools a substep is offered, best first."""

    def __call__(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The candidate tools of one substep of a case."""
        ...


class Demonstrations(Protocol):
    """Solved questions like a case's."""

    def __call__(self, count: int) -> Sequence[Demonstration]:
        """The `count` nearest, the nearest first."""
        ...


def _none(count: int) -> Sequence[Demonstration]:
    return ()


@dataclass(frozen=True)
class Problem:
    """One case ready to run: what the planner sees, what it acts on, and what it is scored against.

    Robustness settings map a Problem to a Problem. `same_function` maps a tool to the name that stands for all
    tools of its function.
    """

    case: Case
    reference: Reference
    environment: Environment
    candidates: Candidates
    library: Mapping[str, ToolSpec]
    same_function: Mapping[str, str]
    demonstrations: Demonstrations = _none


class Dataset(Protocol):
    """A benchmark. Built from YAML; reads its files on first use and then answers from memory.

    `provides` says what a planner finds in its cases: OUTLINE, a plan of substeps to follow; DEMONSTRATIONS.
    """

    provides: ClassVar[frozenset[str]]

    @property
    def version(self) -> str:
        """Changes whenever a case, a tool or an outcome does; part of every cell's id."""
        ...

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The whole tool library by name."""
        ...

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Records that cannot be cases, each with its reason."""
        ...

    def case_ids(self) -> Sequence[str]:
        """The cases in the dataset's order, at most `limit` of them."""
        ...

    def problem(self, case_id: str) -> Problem:
        """A fresh problem; every call gives an environment of its own. Its candidates are the whole library."""
        ...
