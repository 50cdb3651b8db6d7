"""The protocol of robustness settings: seeded, pure changes to a problem, which are hidden from the planner."""

from __future__ import annotations

from typing import ClassVar, Protocol

from grid.core.problem import Index, Problem


class Robustness(Protocol):
    """A robustness setting. `needs` lists the features that the setting needs from a dataset.

    Several settings can be combined: each changes the problem as the preceding setting has left it. If the tools of a
    setting can ask the judge, its `asks` is `{"judge": KEY}`, where KEY is the setting's key that enables this.
    """

    needs: ClassVar[frozenset[str]]

    def disturb(self, problem: Problem, index: Index, seed: int) -> Problem:
        """The disturbed problem; only the parts named in the docstring of the setting's class are changed.

        The result depends only on the arguments. `index` searches the problem's tool library. `seed` is derived from
        the case, the trial and the sweep's seed. It does not depend on the planner or the model, so that planners are
        compared under the same disturbance.
        """
        ...
