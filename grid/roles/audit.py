"""Whether what a judge was shown was right by the reference, and its decisions restored where a setting says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from grid.core.engine import Prompt
from grid.core.errors import VerdictError
from grid.core.roles import Role
from grid.engines.places import Places, calls_nothing, is_right, is_whole
from grid.episode.judging import Scoring
from grid.episode.requests import Requests
from grid.planners.restoring import Bounds, Restoring


@dataclass(frozen=True)
class Audit:
    """Asks as `judging` does, and holds what was shown against the reference. The run layer's own: no planner sees it.

    `right` has, by the last part of a question's key, whether what was judged is right (`is_right`). The judge's own
    answers stand in the messages, whatever is restored; one without a score counts as 0, as planners count it.
    """

    judging: Scoring
    restoring: Restoring
    places: Places
    right: dict[str, bool] = field(default_factory=dict)

    async def score(
        self, requests: Requests, role: Role, prompt: Prompt, *key: object, samples: int = 1, temperature: float = 0.0
    ) -> float:
        """As `Judging.score`; restored."""
        right = self.right[str(key[-1])] = is_right(prompt, self.places)
        bounds = self._bounds(prompt)
        try:
            given = await self.judging.score(requests, role, prompt, *key, samples=samples, temperature=temperature)
        except VerdictError:
            if not self.restoring.fixes(0.0, right, bounds):
                raise
            given = 0.0
        return self.restoring.restore(given, right, bounds)

    async def vote(
        self,
        requests: Requests,
        role: Role,
        prompt: Prompt,
        candidates: Sequence[str],
        *key: object,
        samples: int,
        temperature: float,
    ) -> list[float]:
        """As `Judging.vote`: a vote is held against no threshold."""
        return await self.judging.vote(
            requests, role, prompt, candidates, *key, samples=samples, temperature=temperature
        )

    def _bounds(self, prompt: Prompt) -> Bounds:
        """The thresholds that a score is held against: that before a call, or that of what is known after it.

        To call no tool, and to finish, return nothing that could be judged: one score is held against both.
        """
        pre, post = self.restoring.pre_threshold, self.restoring.post_threshold
        if prompt.entries("outcome") or is_whole(prompt):
            return Bounds(post, post)
        if calls_nothing(prompt):
            return Bounds(min(pre, post), max(pre, post))
        return Bounds(pre, pre)
