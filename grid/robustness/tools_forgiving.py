"""Tools that forgive inexact names: the study's high robustness (planning_horizon §3.2, §4.1, B.1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import JUDGE
from grid.core.problem import Index, Problem
from grid.core.util import STRICT
from grid.core.world import World
from grid.robustness.schema_matching import Matching, MatchingWorld, Rule
from grid.worlds.layers import RetrievingWorld, within
from grid.worlds.schema import SchemaWorld

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True, config=STRICT)
class ToolsForgiving(Matching):
    """A name that the schema lacks is replaced by the nearest of those that the call's input entities have.

    Nothing below the floors is replaced, and nothing that is not clearly nearest (`grid.robustness.schema_matching`).
    Where nothing is, the call fails and is told the `candidates` nearest. What was read as what is told in the
    observation.

    Args:
        floor: of concepts, attribute keys, relations and qualifier keys.
        value_floor: of entities' names (`Find`) and of text values; the official code's 0.9.
        ratio: the nearest's distance to that of the next, at most.
        judge: a model (`model@judge`) is shown the candidates of at least `floor`, for `Find` too, and names one or
            none, as in the paper; text values are replaced by similarity alone.

    Where the tools search texts (`RetrievingWorld`), a search has the ten best paragraphs to go by. A problem whose
    world neither has a schema (`SchemaWorld`) nor searches stays as it is.
    """

    needs: ClassVar[frozenset[str]] = frozenset()
    key: ClassVar[str] = "robustness.tools_forgiving"
    floor: Share = 0.35
    value_floor: Share = 0.9
    ratio: Share = 0.8
    judge: bool = False

    @property
    def asks(self) -> Mapping[str, str]:
        """The judge, where that is configured, which names were meant."""
        return {JUDGE: "judge"} if self.judge else {}

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The same problem with forgiving tools."""

        def forgiving(world: World) -> World:
            if isinstance(world, RetrievingWorld):
                return world.reading(self.paragraphs)
            return self.around(world, problem.case.query) if isinstance(world, SchemaWorld) else world

        return replace(problem, world=within(problem.world, forgiving))

    def around(self, world: SchemaWorld, question: str) -> MatchingWorld:
        """A world with forgiving tools; the question is what the judge is shown."""
        rule = Rule(self.floor, self.value_floor, self.ratio)
        return MatchingWorld(world, self.nearness, self.candidates, rule, question, self.judge)
