"""The protocol of robustness settings: seeded, pure changes of a problem, of which the planner is not told."""

from __future__ import annotations

from typing import ClassVar, Protocol

from grid.core.problem import Index, Problem


class Robustness(Protocol):
    """A robustness setting. `needs` names what a setting needs from a dataset.

    Several settings can be combined: each changes the outcome of the setting before. If the tools of a setting can ask
    the judge, its `asks` is `{"judge": KEY}`, where KEY is the setting's key that turns this on.
    """

    needs: ClassVar[frozenset[str]]

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The disturbed problem, in which only the things that the setting announces are changed.

        The result depends on the arguments alone. `index` searches the problem's tool library. `seed` follows from the
        case, the trial and the sweep's seed. It does not depend on the planner and the model, so that planners are
        compared under the same disturbance.
        """
        ...
