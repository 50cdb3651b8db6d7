"""A sweep's US dollars under `budget.money`: how many cells may begin, and which of all workers' requests may be sent.

What is left is known of all workers' requests in one place, an actor: whatever goes beyond the limit was at a server
before the last answers told what they cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from grid.core.engine import Role
from grid.core.errors import UnfinishedError

if TYPE_CHECKING:  # the actor needs none of it
    from grid.cluster.worker import Report

_ROUNDING = 1e-9  # of sums: a limit of ten requests lets ten pass


class Purse:
    """An actor's class: what was spent, and what is at servers now.

    A request may be sent if, by what others of its setting and role cost in the mean, it and all that are at servers
    stay within the limit. Of a role that none has answered yet there is one at a time.
    """

    def __init__(self, limit: float, spent: float) -> None:
        self._limit, self._spent = limit, spent
        self._sent: dict[str, dict[int, tuple[str, int]]] = {}  # by try and number: whose, and how many calls
        self._open, self._calls = Counter[str](), Counter[str]()
        self._dollars: dict[str, float] = {}

    def may(self, attempt_id: str, request: int, whose: str, calls: int) -> bool | None:
        """Whether a request may be sent, which it then is; None: that depends on what is at servers."""
        each = self._each(whose)
        left = self._limit * (1 + _ROUNDING) - self._spent
        left -= sum(number * (self._each(other) or 0.0) for other, number in self._open.items())
        if self._spent >= self._limit or (each is not None and calls * each > left):
            return None if self._open and self._spent < self._limit else False
        if each is None and self._open[whose]:
            return None
        self._sent.setdefault(attempt_id, {})[request] = whose, calls
        self._open[whose] += calls
        return True

    def ended(self, attempt_id: str, request: int, dollars: float | None) -> None:
        """A request has: what it cost; None without an answer."""
        whose, calls = self._sent.get(attempt_id, {}).pop(request, (None, 0))
        if whose is None:
            return
        self._open[whose] -= calls
        self._open += Counter()  # without those that are 0
        if dollars is not None:
            self._spent += dollars
            self._calls[whose] += calls
            self._dollars[whose] = self._dollars.get(whose, 0.0) + dollars

    def gone(self, attempt_id: str) -> None:
        """A try's worker is: what it had at servers costs what others did."""
        for whose, calls in self._sent.pop(attempt_id, {}).values():
            self._open[whose] -= calls
            self._spent += calls * (self._each(whose) or 0.0)
        self._open += Counter()

    def _each(self, whose: str) -> float | None:
        return self._dollars[whose] / self._calls[whose] if self._calls[whose] else None


@dataclass(frozen=True)
class Till:
    """The same for one try of a chunk."""

    actor: Any
    setting_id: str
    attempt_id: str

    async def may(self, request: int, role: Role, calls: int) -> bool | None:
        """As the actor's. Raises UnfinishedError where it is gone."""
        import ray

        try:
            answer: bool | None = await self.actor.may.remote(self.attempt_id, request, self._whose(role), calls)
        except ray.exceptions.RayActorError:
            raise UnfinishedError("what counts budget.money is gone; run again with the same name") from None
        return answer

    def ended(self, request: int, dollars: float | None) -> None:
        """As the actor's, which hears of it before this try asks again."""
        self.actor.ended.remote(self.attempt_id, request, dollars)

    def _whose(self, role: Role) -> str:
        return f"{self.setting_id}/{role}"


class Money:
    """The driver's side. A context manager: inside it requests are refused, if the limit is `hard`.

    `dollars` were spent by tries that have ended, by setting `known` has what cells took, and how many these were.
    `unpaid` cells were begun and have no row, as requests of theirs were refused.
    """

    def __init__(self, limit: float, hard: bool, dollars: float, known: Mapping[str, tuple[float, int]]) -> None:
        self.limit, self.hard, self.dollars, self.unpaid = limit, hard, dollars, 0
        self._known = dict(known)
        self.actor: Any = None

    def __enter__(self) -> Money:
        if self.hard:
            import ray
            from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
            remote: Any = ray.remote(num_cpus=0, scheduling_strategy=here)(Purse)
            self.actor = remote.remote(self.limit, self.dollars)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.actor is not None:
            import ray

            ray.kill(self.actor)
            self.actor = None

    def count(self, report: Report) -> None:
        """Take in what a try of a chunk reports."""
        self.dollars += report.money or 0.0
        self.unpaid += report.unpaid
        dollars, cells = self._known.get(report.setting_id, (0.0, 0))
        if report.ok + report.failed:
            self._known[report.setting_id] = dollars + (report.money or 0.0), cells + report.ok + report.failed

    def gone(self, attempt_id: str) -> None:
        """A try's worker is, and its requests with it."""
        if self.actor is not None:
            self.actor.gone.remote(attempt_id)

    def each(self, setting_id: str) -> float | None:
        """What a cell takes in the mean; None where none has ended."""
        dollars, cells = self._known.get(setting_id, (0.0, 0))
        return dollars / cells if cells else None

    def cells(self, setting_id: str, most: int, in_flight: Iterable[tuple[str, int, float]]) -> int:
        """How many cells of a setting may begin: as there is money for behind those of the tries `in_flight`.

        These are settings, cells, and what they have spent so far. One cell of a setting begins alone, if it is not
        known what that takes; and what few cells tell is taken for the less: half of the money is kept behind the
        first, a third behind two.
        """
        left, taken, alone, idle = self.limit - self.dollars, 0.0, True, True
        for other, cells, spent in in_flight:
            taken, idle = taken + max(spent, cells * (self.each(other) or 0.0)), False
            alone = alone and other != setting_id
        each, known = self.each(setting_id), self._known.get(setting_id, (0.0, 0))[1]
        if each is None or left <= taken:
            return int(alone and left > taken)
        if not each:
            return most
        sure, next_one = (left * known / (known + 1) - taken) / each, idle and left / each + _ROUNDING >= 1
        return min(most, max(int(sure + _ROUNDING), int(next_one)))
