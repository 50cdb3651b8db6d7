"""Decides which models are loaded together, and in which order, if the GPUs cannot hold all of them at once.

A team is the set of models that one setting asks; all of them are loaded before a cell of the setting begins. GPUs are
given as one list per machine, with the free share of each GPU: `[[1, 1], [0.5]]` are two machines, the first with two
free GPUs, the second with half a GPU free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

Team = frozenset[str]
Machines = Sequence[Sequence[float]]
_LEAST = 1e-6  # a smaller share of a GPU is a rounding error


def machine(gpus: float) -> list[float]:
    """The GPUs of a machine as a list: 1 for each GPU that is wholly free, then the free share of one further GPU."""
    whole, rest = divmod(gpus + _LEAST, 1)
    return [1.0] * int(whole) + ([rest] if rest > 2 * _LEAST else [])


def placed(shares: Iterable[float], machines: Machines) -> list[list[float]] | None:
    """The GPUs left free on each machine once processes have taken these shares; None if a share does not fit.

    The largest share is placed first. All whole GPUs of a process are on one machine. Each process goes to the machine
    whose free shares have the smallest sum after the process is placed there.
    """
    left = [sorted(gpus) for gpus in machines]
    for share in sorted(shares, reverse=True):
        places = [found for gpus in left if (found := _in(share, gpus)) is not None]
        if not places:
            return None
        gpus, rest = min(places, key=lambda one: (sum(one[1]), len(one[1])))
        left[next(place for place, one in enumerate(left) if one is gpus)] = rest
    return left


def _in(share: float, gpus: list[float]) -> tuple[list[float], list[float]] | None:
    """A machine's GPUs, before and after the share is taken; None if the machine does not have this share free."""
    if share >= 1:
        whole = [free for free in gpus if free > 1 - 2 * _LEAST]
        if len(whole) < round(share):
            return None
        return gpus, sorted([free for free in gpus if free <= 1 - 2 * _LEAST] + whole[round(share) :])
    place = next((place for place, free in enumerate(gpus) if free > share - _LEAST), None)
    if place is None:
        return None
    rest = gpus[place] - share
    return gpus, sorted([*gpus[:place], *gpus[place + 1 :], *([rest] if rest > 2 * _LEAST else [])])


@dataclass
class Turns:
    """The teams of a run: those that wait, in the order in which they will begin, and those that have begun.

    Args:
        shares: the GPU shares that each model's processes take, by the model's key.
        waiting: the teams, in order.
    """

    shares: Mapping[str, Sequence[float]]
    waiting: list[Team]
    begun: set[Team] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    """The models that are loaded or being loaded."""

    def missing(self, team: Team) -> list[str]:
        """The models of a team that are neither loaded nor being loaded."""
        return sorted(team - self.held)

    def next(self, free: Machines) -> tuple[Team, list[str], list[list[float]]] | None:
        """Begin the first waiting team whose missing models fit in the `free` GPUs.

        Returns:
            The team, its missing models, and the GPUs that are then still free; None if no team fits.
        """
        for team in self.waiting:
            missing = self.missing(team)
            left = placed((share for key in missing for share in self.shares[key]), free)
            if left is not None:
                self.waiting.remove(team)
                self.begun.add(team)
                self.held |= team
                return team, missing, left
        return None

    def end(self, team: Team) -> list[str]:
        """End a team that has no work left; returns the models to stop. No model is stopped if no other team waits."""
        self.begun.discard(team)
        return self._let_go(set().union(*self.begun, *self.waiting)) if self.waiting else []

    def fail(self, key: str) -> tuple[list[Team], list[str]]:
        """Handle a model that cannot be loaded; returns its teams, and their models that no other team needs."""
        lost = [team for team in (*self.begun, *self.waiting) if key in team]
        self.begun.difference_update(lost)
        self.waiting = [team for team in self.waiting if team not in lost]
        gone = sorted({key, *set().union(*lost)} - set().union(*self.begun, *self.waiting))
        self.held.difference_update(gone)
        return lost, gone

    def make_way(self) -> list[str]:
        """The models to stop so that the first waiting team finds room; empty as long as any team runs."""
        return self._let_go(set(self.waiting[0])) if self.waiting and not self.begun else []

    def _let_go(self, needed: set[str]) -> list[str]:
        gone = sorted(self.held - needed)
        self.held &= needed
        return gone


def ordered(
    work: Mapping[Team, float], shares: Mapping[str, Sequence[float]], machines: Machines
) -> tuple[list[Team], float]:
    """The best of three orders (as given, most GPUs first, longest first), and the time at which its last team ends.

    Args:
        work: the time that each team takes, in any unit.
        shares: as in `Turns`.
        machines: the machines that the teams have to themselves.
    """
    given = list(work)
    sizes = {team: sum(share for key in team for share in shares[key]) for team in given}
    orders = [
        given,
        sorted(given, key=lambda team: (-sizes[team], -work[team])),
        sorted(given, key=lambda team: (-work[team], -sizes[team])),
    ]
    ends = [_end(order, work, shares, machines) for order in orders]
    best = min(range(len(orders)), key=lambda place: ends[place])
    return orders[best], ends[best]


def _end(
    order: Sequence[Team], work: Mapping[Team, float], shares: Mapping[str, Sequence[float]], machines: Machines
) -> float:
    """The end time of the last team if teams begin in order, each as soon as it fits; infinite if a team never fits."""
    turns, now, running = Turns(shares, list(order)), 0.0, list[tuple[float, int, Team]]()
    serial = count()
    while turns.waiting or running:
        free = placed((share for key in turns.held for share in shares[key]), machines)
        if (found := turns.next(free or [])) is not None:
            running.append((now + work[found[0]], next(serial), found[0]))
        elif running:
            running.sort()
            now, _, team = running.pop(0)
            turns.end(team)
        elif not turns.make_way():
            return float("inf")
    return now
