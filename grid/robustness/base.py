"""Robustness settings: seeded, pure changes of a problem that the planner is not told about."""

from __future__ import annotations

from typing import ClassVar, Protocol

from grid.core.problem import Index, Problem


class Robustness(Protocol):
    """One setting. Several compose, each on the outcome of the one before. `needs`: what it needs from a dataset.

    A setting whose tools ask the judge says so in `asks`: `{"judge": KEY}`, with its own key that makes them ask.
    """

    needs: ClassVar[frozenset[str]]

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The disturbed problem; it depends on the arguments only, and nothing changes but what the setting says.

        `index` is the problem's tool library made searchable. The same case, trial and sweep seed give the same
        `seed` whatever the planner and the model, so that planners are compared under the same disturbance.
        """
        ...
