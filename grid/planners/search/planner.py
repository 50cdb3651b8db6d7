"""What every planner that searches a tree is configured with, and how its search ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import SAMPLE
from grid.core.errors import BudgetError
from grid.core.problem import BRANCHING
from grid.core.roles import JUDGE
from grid.core.strict import STRICT
from grid.core.types import Trajectory
from grid.episode.acting import Acting
from grid.episode.episode import Episode
from grid.episode.view import View
from grid.planners.search.gate import Repeats
from grid.planners.search.kernel import Search


@dataclass(frozen=True, config=STRICT)
class TreeSearch(Acting, ABC):
    """A search over paths of calls, until it stops by itself or `budget.*` is used up; its best path is the result.

    `branching` is how many actions are proposed at a node. `oracle_stop`: each complete path is asked about, and the
    first that resolves the case ends the search (the protocol of EGB and LATS); without it nobody is asked. `repeats`:
    which calls are not admissible again on a path without an outline, any that the `path` has made (tooltree §3.1:
    A(s) without a_1 to a_t) or those that it made from the same `state`.
    """

    thought: Annotated[int, Field(ge=0, le=10_000)] = 400
    branching: Annotated[int, Field(ge=1, le=2000)] = 5
    oracle_stop: bool = False
    repeats: Repeats = "path"
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE, BRANCHING, JUDGE})

    async def solve(self, episode: Episode) -> Trajectory:
        """Search; the best path, with every step that was taken.

        Raises:
            VerdictError: not one of the judge's answers has a score.
        """
        search = Search(episode, self, oracle_stop=self.oracle_stop, repeats=self.repeats, look=self.look)
        with suppress(BudgetError):  # the episode says which part
            await self.search(search)
        search.scores.check()
        return search.trajectory()

    def look(self, view: View) -> View:
        """What a decision sees and may take; as it is, if a planner does not say otherwise."""
        return view

    @abstractmethod
    async def search(self, search: Search) -> None:
        """Grow the tree, and say of each path that may be the answer what it is worth (`Search.reached`)."""
