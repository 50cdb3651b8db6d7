"""What a single pass of the simulated policy succeeds with: closed but for an integral over difficulty.

Given the case's effect c, the steps' effects are independent, so that the probability of a pass is a product of each
step's mean over its own effect; the mean of the product over c is what is expected. Both means are Gauss-Hermite
quadratures. A plan of the whole case is followed stage by stage, since where it is made anew decides what it loses.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from grid.engines.informed import SinglePass, Stage
from grid.engines.simulated.difficulty import chances

NODES = 61
"""Of each quadrature."""


class Skill(NamedTuple):
    """The keys of the policy that a single pass depends on."""

    tool: float
    arguments: float
    foresight: float
    case_spread: float
    step_spread: float
    malformed: float
    misspelt: float
    confusion: float


class _Odds(NamedTuple):
    """Of a stage, by the case's effect (shape (NODES,)): that the call is right, and that the tool is wrong."""

    right: np.ndarray
    wrong_tool: np.ndarray


_State = tuple[bool, int, frozenset[int]]
"""Whether the next stage is the first of its plan, how often it was planned anew, and which stages failed so far."""


@lru_cache(maxsize=16384)  # most cells repeat another trial's, or a case of the same form
def expected_success(skill: Skill, single: SinglePass) -> float:
    """The probability that a pass succeeds, over cases of this form, their steps and what is drawn."""
    by_case = _one_by_one(skill, single) if single.replans is None else _planned(skill, single, single.replans)
    return float(_nodes()[1] @ by_case)


def _one_by_one(skill: Skill, single: SinglePass) -> np.ndarray:
    readable = 1 - skill.malformed**single.answers
    by_case = np.full(NODES, readable if single.fatal and not single.outlined else 1.0)  # of the decision to finish
    for place, stage in enumerate(single.stages):
        if stage.needed:
            by_case = by_case * _odds(skill, stage, single.blind and place > 0).right
        if stage.needed or single.fatal:
            by_case = by_case * readable
    return by_case


def _planned(skill: Skill, single: SinglePass, most: int) -> np.ndarray:
    """The paths on which all that is needed is right, stage by stage."""
    readable, over = 1 - skill.malformed**single.answers, np.zeros(NODES)
    alive: dict[_State, np.ndarray] = {(True, 0, frozenset()): np.full(NODES, readable)}
    for place, stage in enumerate(single.stages):
        left, after = single.stages[place + 1 :], defaultdict[_State, np.ndarray](lambda: np.zeros(NODES))
        for (first, replans, failed), share in alive.items():
            odds, lost = _odds(skill, stage, not first), failed | {place}
            if stage.needed:
                after[False, replans, failed] += share * odds.right
                continue
            fine, silent = _quiet(skill, stage, odds, not failed.isdisjoint(stage.uses))
            after[False, replans, failed] += share * fine
            after[False, replans, lost] += share * silent
            failing = share * (1 - fine - silent)
            if not left and single.outlined:
                over += failing
            elif replans < most:
                after[True, replans + 1, lost] += failing * readable
            elif not any(other.needed for other in left):
                over += failing
        alive = after
    return over + sum(alive.values(), np.zeros(NODES))


def _quiet(skill: Skill, stage: Stage, odds: _Odds, broken: bool) -> tuple[np.ndarray, np.ndarray]:
    """That a stage is done without a failed call, and that it is left out; `broken`: what its call uses is missing."""
    if not stage.calls:
        return 1 - odds.wrong_tool, np.zeros(NODES)
    declining = (1 - skill.confusion) / stage.others if stage.others else 0.0  # it is similar to no tool
    return np.zeros(NODES) if broken else odds.right, odds.wrong_tool * declining


@lru_cache(maxsize=256)
def _odds_of(skill: Skill, offered: bool, arguments: bool, forgiven: bool, foresight: bool) -> _Odds:
    if not offered:
        return _Odds(np.zeros(NODES), np.ones(NODES))
    places, weights = _nodes()
    effects = skill.case_spread * places[:, None] + skill.step_spread * places - skill.foresight * foresight
    tool = chances(skill.tool, effects)
    call = tool
    if arguments:
        right = chances(skill.arguments, effects)
        call = tool * (right + (1 - right) * skill.misspelt * forgiven)
    return _Odds(call @ weights, (1 - tool) @ weights)


def _odds(skill: Skill, stage: Stage, foresight: bool) -> _Odds:
    return _odds_of(skill, stage.offered, stage.arguments and stage.calls, stage.forgiven, foresight)


@lru_cache(maxsize=1)
def _nodes() -> tuple[np.ndarray, np.ndarray]:
    """Places and weights for the mean over a standard normal number."""
    places, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return places, weights / math.sqrt(2 * math.pi)
