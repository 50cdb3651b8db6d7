"""Tools that take exact identifiers only: the study's low robustness (planning_horizon §4.4, B.1.1)."""

from __future__ import annotations

from dataclasses import replace

from pydantic.dataclasses import dataclass

from grid.datasets.base import Problem
from grid.retrievers.base import Index
from grid.robustness.schema_matching import MatchingEnvironment
from grid.strict import STRICT
from grid.worlds.schema import SchemaEnvironment


@dataclass(frozen=True, config=STRICT)
class ToolsStrict:
    """A call with an identifier that the schema lacks fails, and is told the nearest one by lexical similarity.

    A problem whose environment has no schema vocabulary (`SchemaEnvironment`) stays as it is; so does one whose tools
    another setting has made forgiving already.
    """

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with the nearest identifier as feedback."""
        if not isinstance(problem.environment, SchemaEnvironment):
            return problem
        return replace(problem, environment=MatchingEnvironment(problem.environment, 1, mends=False))
