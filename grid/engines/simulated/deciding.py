"""Which option the policy takes: the distribution that its samples come from, and the one that it tells."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

from grid.core.seeds import derive_seed
from grid.core.types import FINISH, GIVE_UP, REJECT, ToolSpec
from grid.engines.places import Place
from grid.engines.simulated.difficulty import Difficulty, chance
from grid.text.words import stems

Shares = dict[str, float]
"""The probability of each option that has any."""


@dataclass(frozen=True)
class Deciding:
    """The choices of one case. `tools` is the library, which similarity is taken from."""

    tool_skill: float
    argument_skill: float
    confusion: float
    calibration: float
    difficulty: Difficulty
    tools: Mapping[str, ToolSpec]
    _known: dict[tuple[str | None, str, bool, tuple[str, ...], float], tuple[Shares, list[float]]] = field(
        default_factory=dict
    )

    def sampled(self, place: Place, names: tuple[str, ...], bonus: float = 0.0) -> Shares:
        """What `sample` draws from: the right option has sigmoid(logit(tool_skill) + effects + bonus), others the rest.

        After the last call it finishes, and never before. A right option that is not offered has no share.
        """
        return self._of(place, names, bonus)[0]

    def draw(self, place: Place, names: tuple[str, ...], bonus: float, uniform: float) -> str:
        """The option that a uniform number stands for; the order of the names makes no difference."""
        shares, bounds = self._of(place, names, bonus)
        return [*shares][min(bisect_right(bounds, uniform), len(shares) - 1)]

    def told(self, place: Place, names: tuple[str, ...], bonus: float = 0.0) -> Shares:
        """What `choose` tells. At a share `calibration` of the steps, drawn once for a case, it is `sampled`.

        At the others only its best option is the same: the probabilities are those of a step of another difficulty,
        and are dealt at random to the options behind the best. They say neither where the policy is wrong nor what
        would be right.
        """
        true = self.sampled(place, names, bonus)
        if place.step is None:
            return true
        rng = random.Random(derive_seed(self.difficulty.seed, "told", place.step))
        if rng.random() < self.calibration:
            return true
        effect = self.difficulty.effect(place.step, drawing="told") + bonus
        masses = sorted(self._shares(place, names, effect).values(), reverse=True)
        best = max(true, key=lambda name: true[name])
        others = [name for name in true if name != best]
        rng.shuffle(others)
        return dict(zip([best, *others], masses, strict=True))

    def arguments(self, place: Place, bonus: float) -> float:
        """The probability that the arguments of the right tool are right."""
        return chance(self.argument_skill, self.difficulty.effect(str(place.step)) + bonus)

    def _of(self, place: Place, names: tuple[str, ...], bonus: float) -> tuple[Shares, list[float]]:
        key = place.step, place.right, place.known, names, bonus
        found = self._known.get(key)
        if found is None:
            effect = 0.0 if place.step is None else self.difficulty.effect(place.step) + bonus
            shares = self._shares(place, names, effect)
            found = self._known[key] = shares, [*accumulate(shares.values())]
        return found

    def _shares(self, place: Place, names: tuple[str, ...], effect: float) -> Shares:
        wrong = sorted(name for name in names if name not in (place.right, FINISH, GIVE_UP, REJECT))
        offered = place.right in names and place.known
        if place.right == FINISH or not wrong:
            return {place.right: 1.0}
        right = chance(self.tool_skill, effect) if offered else 0.0
        if not place.known and place.right in names:
            wrong.append(place.right)
        spread = shared(self.tools.get(place.right), [self.tools.get(name) for name in wrong], self.confusion)
        shares = {place.right: right} if offered else {}
        return shares | {name: (1 - right) * share for name, share in zip(wrong, spread, strict=True)}


def shared(right: ToolSpec | None, wrong: Sequence[ToolSpec | None], confusion: float) -> list[float]:
    """How the wrong options (None: no tool) share what the right one leaves; sums to 1.

    Of `confusion` the most similar to the right tool gets half, the next half of what is left, and so on, as whoever is
    wrong mostly takes one thing for one other; what remains is shared evenly. To call no tool is similar to nothing.
    """
    tools = [place for place, other in enumerate(wrong) if right and other]
    even = (1 - confusion if tools else 1.0) / len(wrong)
    shares = [even] * len(wrong)
    tools.sort(key=lambda place: -_likeness(right, wrong[place]))
    left = confusion
    for place in tools:
        left /= 2
        shares[place] += left
    if tools:
        shares[tools[0]] += left
    return shares


@lru_cache(maxsize=262144)
def _likeness(first: ToolSpec | None, second: ToolSpec | None) -> float:
    """The words that two tools' names and descriptions share, of those that either has."""
    one, other = _words(first), _words(second)
    return len(one & other) / len(one | other) if one | other else 0.0


@lru_cache(maxsize=16384)
def _words(tool: ToolSpec | None) -> frozenset[str]:
    return frozenset(stems(f"{tool.name} {tool.description}")) if tool else frozenset()
