"""Tools that forgive inexact identifiers: the study's high robustness (planning_horizon §3.2, §4.1, B.1.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.datasets.base import Problem
from grid.retrievers.base import Index
from grid.robustness.schema_matching import MatchingWorld
from grid.strict import STRICT
from grid.worlds.schema import SchemaWorld


@dataclass(frozen=True, config=STRICT)
class ToolsForgiving:
    """An identifier that the schema lacks is replaced by the nearest with which the call returns something valid.

    It is one of the `candidates` nearest by lexical similarity; where none will do, they come back in the error. Which
    ones were put in is told in the observation. The paper takes embeddings and has a language model validate; here a
    candidate is valid where the call with it returns something, so that a wrong one can be taken.

    A problem whose world has no schema vocabulary (`SchemaWorld`) stays as it is.
    """

    candidates: Annotated[int, Field(ge=1, le=100)] = 10

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with forgiving tools."""
        if not isinstance(problem.world, SchemaWorld):
            return problem
        return replace(problem, world=MatchingWorld(problem.world, self.candidates, mends=True))
