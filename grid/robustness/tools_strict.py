"""Tools that take exact identifiers only: the study's low robustness (planning_horizon §4.4, B.1.1)."""

from __future__ import annotations

from dataclasses import replace

from pydantic.dataclasses import dataclass

from grid.datasets.base import Problem
from grid.retrievers.base import Index
from grid.robustness.schema_matching import MatchingWorld
from grid.strict import STRICT
from grid.worlds.schema import SchemaWorld


@dataclass(frozen=True, config=STRICT)
class ToolsStrict:
    """A call with an identifier that the schema lacks fails, and is told the nearest one by lexical similarity.

    A problem whose world has no schema vocabulary (`SchemaWorld`) stays as it is; so does one whose tools
    another setting has made forgiving already.
    """

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with the nearest identifier as feedback."""
        if not isinstance(problem.world, SchemaWorld):
            return problem
        return replace(problem, world=MatchingWorld(problem.world, 1, mends=False))
