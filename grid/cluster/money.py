"""Spending under `budget.money`, in US dollars: how many cells may begin, and which requests the workers may send.

One actor counts the requests of all workers. Spending can exceed the limit only through requests that were already at
servers when the latest answers showed how much a request costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from grid.core.engine import Role
from grid.core.errors import UnfinishedError

if TYPE_CHECKING:  # the actor does not need it
    from grid.cluster.worker import Report

_ROUNDING = 1e-9  # allows for rounding errors, so that a limit of ten requests allows ten


class Purse:
    """The class of an actor that counts the money spent and the requests that are currently at servers.

    A request may be sent if the limit covers the money spent, the cost of all requests at servers, and the cost of this
    request. The cost of a request is assumed to be the mean cost of the answered requests of its setting and role.
    Until a setting's role has received an answer, only one of the role's requests is sent at a time.
    """

    def __init__(self, limit: float, spent: float) -> None:
        self._limit, self._spent = limit, spent
        self._sent: dict[str, dict[int, tuple[str, int]]] = {}  # setting/role and number of calls, by attempt, request
        self._open, self._calls = Counter[str](), Counter[str]()
        self._dollars: dict[str, float] = {}

    def may(self, attempt_id: str, request: int, whose: str, calls: int) -> bool | None:
        """Whether a request for `calls` calls may be sent; if so, it counts as sent.

        `whose` names the setting and the role. False: the money does not suffice, and no answer will change that. None
        means that the caller has to wait for requests at servers, and ask again.
        """
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
        """Record that a request has ended, with its cost in US dollars; the cost is None if there was no answer."""
        whose, calls = self._sent.get(attempt_id, {}).pop(request, (None, 0))
        if whose is None:
            return
        self._open[whose] -= calls
        self._open += Counter()  # drops entries that are 0
        if dollars is not None:
            self._spent += dollars
            self._calls[whose] += calls
            self._dollars[whose] = self._dollars.get(whose, 0.0) + dollars

    def gone(self, attempt_id: str) -> None:
        """Record that an attempt's worker is gone; its requests at servers are charged at the mean cost."""
        for whose, calls in self._sent.pop(attempt_id, {}).values():
            self._open[whose] -= calls
            self._spent += calls * (self._each(whose) or 0.0)
        self._open += Counter()

    def _each(self, whose: str) -> float | None:
        return self._dollars[whose] / self._calls[whose] if self._calls[whose] else None


@dataclass(frozen=True)
class Till:
    """Gives one attempt at a chunk access to a `Purse`."""

    actor: Any
    setting_id: str
    attempt_id: str

    async def may(self, request: int, role: Role, calls: int) -> bool | None:
        """Ask the actor's `may`. Raises UnfinishedError if the actor is gone."""
        import ray

        try:
            answer: bool | None = await self.actor.may.remote(self.attempt_id, request, self._whose(role), calls)
        except ray.exceptions.RayActorError:
            raise UnfinishedError("the actor that counts budget.money is gone; run again with the same name") from None
        return answer

    def ended(self, request: int, dollars: float | None) -> None:
        """Call the actor's `ended`; the call reaches the actor before this attempt's next request."""
        self.actor.ended.remote(self.attempt_id, request, dollars)

    def _whose(self, role: Role) -> str:
        return f"{self.setting_id}/{role}"


class Money:
    """The driver's record of the money spent. Inside this context manager, requests beyond a `hard` limit are refused.

    `dollars` is the money spent by attempts that have ended. `known` has the cost and the number of cells of each
    setting. `unpaid` is the number of cells that began but have no row because some of their requests were refused.
    For each setting, `done` has the number of cells that need not run any more, and the number of all cells; `expect`
    sets both, and `count` adds to the first.
    """

    def __init__(self, limit: float, hard: bool, dollars: float, known: Mapping[str, tuple[float, int]]) -> None:
        self.limit, self.hard, self.dollars, self.unpaid = limit, hard, dollars, 0
        self.done: dict[str, tuple[int, int]] = {}
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

    def expect(self, done: Mapping[str, tuple[int, int]]) -> None:
        """Set `done` for the settings that have cells to run."""
        self.done = dict(done)

    def count(self, report: Report) -> None:
        """Add the report of an attempt at a chunk."""
        self.dollars += report.money or 0.0
        done, total = self.done.get(report.setting_id, (0, 0))
        self.done[report.setting_id] = done + report.cells, total
        self.unpaid += report.unpaid
        dollars, cells = self._known.get(report.setting_id, (0.0, 0))
        if report.ok + report.failed:
            self._known[report.setting_id] = dollars + (report.money or 0.0), cells + report.ok + report.failed

    def gone(self, attempt_id: str) -> None:
        """Record that an attempt's worker is gone, along with the requests that it had sent."""
        if self.actor is not None:
            self.actor.gone.remote(attempt_id)

    def each(self, setting_id: str) -> float | None:
        """The mean cost, in US dollars, of a cell of the setting; None if no cell has ended."""
        dollars, cells = self._known.get(setting_id, (0.0, 0))
        return dollars / cells if cells else None

    def cells(
        self, setting_id: str, most: int, in_flight: Iterable[tuple[str, int, float]], settings: Iterable[str]
    ) -> int:
        """The number of cells of a setting that may begin with the money that the attempts `in_flight` do not need.

        Each attempt is given as its setting, its number of cells, and its spending so far. As long as the cost of a
        setting's cells is unknown, only one of its cells begins. A mean over few cells is trusted less: half of the
        money is kept back after the first cell, a third after two cells. The money is shared by all `settings` whose
        cells can begin now: no setting may exceed the number of cells that the money allows each of these settings to
        reach.
        """
        left, taken, flying = self.limit - self.dollars, 0.0, Counter[str]()
        for other, cells, spent in in_flight:
            taken += max(spent, cells * (self.each(other) or 0.0))
            flying[other] += cells
        each, known = self.each(setting_id), self._known.get(setting_id, (0.0, 0))[1]
        if each is None or left <= taken:
            return int(setting_id not in flying and left > taken)
        if not each:
            return most
        begun = {one: self.done[one][0] + flying[one] for one in {*settings, setting_id}}
        sure = self._level(begun, left * known / (known + 1) - taken, each) - begun[setting_id]
        next_one = not flying and left / each + _ROUNDING >= 1
        return min(most, max(int(sure + _ROUNDING), int(next_one)))

    def _level(self, begun: Mapping[str, int], dollars: float, each: float) -> float:
        """The number of cells, including the `begun` ones, that each setting could reach if `dollars` more were spent.

        `each`: the cost assumed for a cell whose setting has no known cost.
        """
        steps = []
        for setting_id, cells in begun.items():
            cost = self.each(setting_id)
            cost = each if cost is None else cost
            steps += [(cells, cost), (max(cells, self.done[setting_id][1]), -cost)]
        level, slope, left = 0, 0.0, max(dollars, 0.0)
        for place, change in sorted(steps):
            if (cost := slope * (place - level)) > left:
                return level + left / slope
            level, slope, left = place, slope + change, left - cost
        return level
