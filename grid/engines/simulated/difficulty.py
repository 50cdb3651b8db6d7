"""How hard a case's steps are, on the logit scale."""

from __future__ import annotations

import hashlib
import math
import random
from dataclasses import dataclass, field

import numpy as np

from grid.core.seeds import derive_seed

LESSON = 2.0
"""What a lesson that names the step adds to both skills there, on the logit scale: odds 7.4 times as good."""


@dataclass(frozen=True)
class Difficulty:
    """The effects of one case: normal around 0, of the two spreads, and the same for all trials and planners."""

    seed: int
    case_spread: float
    step_spread: float
    _known: dict[tuple[str, str], float] = field(default_factory=dict)

    def effect(self, step: str, drawing: str = "") -> float:
        """A step's, above 0 where it is easy; under another `drawing`, that of a step like it in another case."""
        found = self._known.get((step, drawing))
        if found is None:
            case = normal(self.seed, f"case{drawing}", *([step] if drawing else []))
            found = self.case_spread * case + self.step_spread * normal(self.seed, f"step{drawing}", step)
            self._known[step, drawing] = found
        return found


def logit(skill: float) -> float:
    """ln(p / (1 - p)); infinite for 0 and 1, so that no difficulty spoils a skill of 1."""
    if skill in (0, 1):
        return math.inf if skill else -math.inf
    return math.log(skill / (1 - skill))


def chance(skill: float, effect: float) -> float:
    """The probability of being right where the effects on the logit scale sum to `effect`."""
    return 0.5 * (1 + math.tanh((logit(skill) + effect) / 2))


def chances(skill: float, effects: np.ndarray) -> np.ndarray:
    """The same for many effects at once."""
    result: np.ndarray = 0.5 * (1 + np.tanh((logit(skill) + effects) / 2))
    return result


def normal(seed: int, *key: object) -> float:
    """A standard normal number that depends on seed and key only."""
    return random.Random(derive_seed(seed, *key)).gauss(0.0, 1.0)


def uniforms(*key: int) -> tuple[float, float, float]:
    """Three numbers in [0, 1) that depend on the key only."""
    digest = hashlib.blake2b(",".join(map(str, key)).encode(), digest_size=24).digest()
    first, second, third = (int.from_bytes(digest[place : place + 8], "big") >> 11 for place in (0, 8, 16))
    return first * 2**-53, second * 2**-53, third * 2**-53
