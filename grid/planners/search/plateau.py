"""When the best value of a search has not risen for long (tooltree B.4)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class Plateau(Protocol):
    """Told the best value after each rollout."""

    def reached(self, best: float | None) -> bool:
        """Whether it rose by too little for long; None: there is none yet, and the rollout does not count."""
        ...


@dataclass
class Since:
    """So many rollouts since the best value last rose by `rise`, over all smaller rises together."""

    patience: int
    rise: float
    best: float = 0.0
    since: int = 0

    def reached(self, best: float | None) -> bool:
        """As `Plateau`."""
        if best is None:
            return False
        rose = best - self.best >= self.rise
        self.best, self.since = (best, 0) if rose else (self.best, self.since + 1)
        return self.since == self.patience


@dataclass
class Window:
    """The highest of the last so many values is not `rise` above the one before them; values may fall."""

    patience: int
    rise: float
    seen: list[float] = field(default_factory=list)

    def reached(self, best: float | None) -> bool:
        """As `Plateau`."""
        if best is None:
            return False
        self.seen = [*self.seen, best][-self.patience - 1 :]
        return len(self.seen) > self.patience and max(self.seen[1:]) - self.seen[0] < self.rise
