"""Tools that take exact names only: the study's low robustness (planning_horizon §4.4, B.1.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.problem import Index, Problem
from grid.core.util import STRICT
from grid.core.world import World
from grid.robustness.schema_matching import Matching, MatchingWorld
from grid.worlds.layers import RetrievingWorld, within
from grid.worlds.schema import SchemaWorld


@dataclass(frozen=True, config=STRICT)
class ToolsStrict(Matching):
    """A call with a name that its input entities do not have fails, and is told the nearest that they have.

    Nearness is the forgiving tools'. Where the tools search texts (`RetrievingWorld`), a search has the best paragraph
    alone to go by. A problem whose world neither has a schema (`SchemaWorld`) nor searches stays as it is; so does one
    whose tools another setting has made forgiving already.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    key: ClassVar[str] = "robustness.tools_strict"
    candidates: Annotated[int, Field(ge=1, le=100)] = 1
    paragraphs: Annotated[int, Field(ge=1, le=100)] = 1

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with the nearest name as feedback."""

        def strict(world: World) -> World:
            if isinstance(world, RetrievingWorld):
                return world.reading(self.paragraphs)
            return MatchingWorld(world, self.nearness, self.candidates) if isinstance(world, SchemaWorld) else world

        return replace(problem, world=within(problem.world, strict))
