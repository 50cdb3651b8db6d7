"""The simulated engine: a policy with planted skill. The engine is neither a language model nor an agent.

This engine is the only one that gets each case's reference, which comes from the run layer and not from a planner. The
engine answers as a model would, in text that goes through the parsers for models' answers, and is right with known
probabilities. The engine can therefore show that a planner gains as much as theory predicts, that a results table tells
different planners apart, and how many cases are needed to tell them apart.

A step has the effects e_case ~ N(0, case_spread) and e_step ~ N(0, step_spread), the same for all trials and planners.
At a step with these effects, the policy calls the right tool with probability sigmoid(logit(tool_skill) + e_case +
e_step). If the tool is right, the arguments are right with probability sigmoid(logit(argument_skill) + e_case +
e_step).
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from functools import lru_cache
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import CHOOSE, SAMPLE, Choice, Engine, Home, Prompt, Sampled, VerdictAnswer
from grid.core.problem import Reference
from grid.core.types import ERRORS, MAX_SCORE, Json, ToolSpec, Usage, Verdict, to_json
from grid.core.util import STRICT, derive_seed
from grid.engines.hosted import SinglePass, Stage
from grid.engines.places import count_tokens, places_of, prompt_tokens
from grid.engines.simulated.plans import Difficulty, Planted, chances, shares, uniforms
from grid.engines.simulated.policy import Deciding, Policy

_Share = Annotated[float, Field(ge=0, le=1)]
_Logits = Annotated[float, Field(ge=0, le=100)]


@dataclass(frozen=True, config=STRICT)
class Simulated:
    """The engine `simulated`.

    Args:
        tool_skill: the probability of the right tool at a step of average difficulty.
        argument_skill: the probability of the right arguments at a step of average difficulty, given the right tool.
        foresight: the loss in both skills, in logits, at a step that is planned without the preceding observations.
        insight: the probability that a reflection names the step that went wrong.
        case_spread: the standard deviation of the cases' effects, in logits.
        step_spread: the standard deviation of the steps' effects, in logits.
        calibration: the share of steps at which `choose` returns the distribution from which `sample` draws.
        confusion: the share of the wrong tools' probability that is divided according to their similarity to the right
            tool.
        judge_auc: the probability that a judge scores a right call above a wrong call. If a planner allows giving up,
            the policy gives up when, as a judge, it would give the previous steps a score below 3 of 10. As a judge of
            whole plans, the engine calls a plan right if its score is above 5, and decides at random if the score is 5
            (`PlantedVerdicts`).
        malformed: the share of sampled answers that cannot be read; free texts are never malformed.
        misspelt: the share of wrong arguments that are right except for one misspelt name, among calls that have a name
            in their arguments; forgiving tools may read the name as intended.
        recovery: the probability, drawn once for each broken tool of a case, that the policy calls the replacement
            after the tool has failed (`RecoveringPlaces`; `robustness=broken_tool`). In the paper, the best models
            replace a failed tool in over 77% of cases, and the worst in under 45% (agent_planning_benchmark §4.2.3).
        refusal: the probability that the policy refuses an unsolvable case, if refusing is an option.
        overrefusal: the probability that the policy refuses a solvable case.
        repair: the probability that a critique of a plan names a given wrong step, which is then corrected when the
            plan is rewritten.
        overcorrection: the probability that a critique names a given right step, which then becomes wrong when the plan
            is rewritten.
        taxonomy: the amount added to `repair` if the critique goes through a list of error types.
        memory: the gain in both skills, in logits, at a step whose right tool (or `no_tool`) occurs in a trace in the
            prompt's memory.
        least_temperature: lower temperatures of planners are raised to this value. At temperature 0 all trials of a
            case would be equal.
    """

    tool_skill: _Share = 0.95
    argument_skill: _Share = 0.95
    foresight: _Logits = 1.0
    insight: _Share = 0.5
    case_spread: _Logits = 1.0
    step_spread: _Logits = 1.0
    calibration: _Share = 1.0
    confusion: _Share = 0.5
    judge_auc: Annotated[float, Field(ge=0.5, le=1)] = 0.8
    malformed: _Share = 0.01
    misspelt: _Share = 0.0
    recovery: _Share = 0.6
    refusal: _Share = 0.4
    overrefusal: _Share = 0.01
    repair: _Share = 0.3
    overcorrection: _Share = 0.03
    taxonomy: _Share = 0.3
    memory: _Logits = 1.0
    least_temperature: Annotated[float, Field(ge=0)] = 0.0
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "simulated"
    sampler: ClassVar[None] = None
    version: str = field(default="simulated-1", init=False)

    def told(self, reference: Reference, tools: Mapping[str, ToolSpec], seed: int) -> Engine:
        """The policy for one case."""
        difficulty = Difficulty(seed, self.case_spread, self.step_spread)
        return Policy(
            places_of(reference, self._minded(reference, seed)),
            Deciding(self.tool_skill, self.argument_skill, self.confusion, self.calibration, difficulty, tools),
            self.foresight,
            self.insight,
            self.judge_auc,
            self.malformed,
            self.misspelt,
            self.version,
            Planted(self.refusal, self.overrefusal, self.repair, self.overcorrection, self.taxonomy),
            self.memory,
            self.least_temperature,
        )

    def knowing(self, truth: Verdict, seed: int) -> Engine:
        """The judge for one plan."""
        return PlantedVerdicts(truth, self.judge_auc, self.malformed, seed, self.version)

    def _minded(self, reference: Reference, seed: int) -> frozenset[str]:
        """The broken tools that the policy replaces after they fail, drawn at random for the case."""
        lots = {tool: random.Random(derive_seed(seed, "recovery", tool)).random() for tool in reference.substitutes}
        return frozenset(tool for tool, lot in lots.items() if lot < self.recovery)

    def expected(self, single: SinglePass) -> float:
        """The probability that a single pass succeeds, over cases, steps and draws."""
        skill = Skill(
            self.tool_skill,
            self.argument_skill,
            self.foresight,
            self.case_spread,
            self.step_spread,
            self.malformed,
            self.misspelt,
            self.confusion,
        )
        return expected_success(skill, single)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """Raise RuntimeError: only the engine that `told` returns for a reference can answer."""
        raise RuntimeError("the simulated engine answers for a case whose reference it is told")

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """Raise RuntimeError: only the engine that `told` returns for a reference can answer."""
        raise RuntimeError("the simulated engine answers for a case whose reference it is told")


# A judge of plans with a planted accuracy: it knows a plan's true verdict, and gives this verdict as often as
# configured.
#
# The judge's accuracy follows from `judge_auc`: it scores a plan like a call, and calls the plan right if the score is
# above the middle of the scale; if the score is in the middle, it decides at random. The judge is therefore equally
# accurate for right plans and for wrong plans. If it errs, it reports one error, drawn uniformly, in a plan without
# errors, and no error in a plan with errors.


UNREADABLE = "The plan looks good to me on the whole."
_FLAWED = 0.6  # the grade of a right plan in which the judge finds an error


def accuracy(auc: float) -> float:
    """The share of plans for which a judge with this AUC gives the true verdict."""
    middle = MAX_SCORE // 2
    right = shares(auc)[1]
    return sum(right[middle + 1 :]) + right[middle] / 2


@plain_dataclass(frozen=True)
class PlantedVerdicts:
    """The engine for one plan whose true verdict is `truth`; it only samples verdicts."""

    truth: Verdict
    auc: float
    malformed: float
    seed: int
    version: str
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "simulated"
    sampler: ClassVar[None] = None

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` verdicts; at temperature 0 the same prompt always gets the same verdict."""
        if not isinstance(prompt.answer, VerdictAnswer):
            raise TypeError("a judge of plans gives verdicts")
        base = seed if temperature > 0 else self._own_seed(prompt)
        texts = tuple(self._text(prompt.answer, base, index) for index in range(n))
        return Sampled(texts, Usage(n, 0, n * prompt_tokens(prompt), 0, sum(map(count_tokens, texts))))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """Raise TypeError, because a judge of plans does not choose between options."""
        raise TypeError("a judge of plans gives verdicts")

    def _own_seed(self, prompt: Prompt) -> int:
        text = "".join(section.digest for section in prompt.sections)
        digest = hashlib.blake2b(text.encode(), digest_size=8, key=self.seed.to_bytes(8, "big"))
        return int.from_bytes(digest.digest(), "big")

    def _text(self, wanted: VerdictAnswer, base: int, index: int) -> str:
        if uniforms(base, index)[0] < self.malformed:
            return UNREADABLE
        said, which, _ = uniforms(base, index, 1)
        right, truth = said < accuracy(self.auc), self.truth
        correct = truth.correct if right else not truth.correct
        found: dict[str, Json] = {"reasoning": f"It is {'right' if correct else 'wrong'}."}
        if wanted.errors:
            errors, grade = truth.errors or frozenset(), truth.grade
            if not right:
                errors = frozenset({ERRORS[int(which * len(ERRORS))]}) if truth.correct else frozenset()
                grade = None
            known = grade if grade is not None else 1.0 if correct else _FLAWED
            found |= {name: name in errors for name in ERRORS} | {"grade": known}
        return to_json(found | {"is_correct": correct})


# The success probability of a single pass of the simulated policy: a closed form except for integrals over difficulty.
#
# For a given effect c of the case, the steps' effects are independent. The probability that a pass succeeds is
# therefore the product of the steps' means, each taken over the step's own effect; the expected probability is the mean
# of this product over c. Both means are computed by Gauss-Hermite quadrature. A plan for the whole case is followed
# stage by stage, since the loss `foresight` depends on the stage at which a new plan is made.


NODES = 61
"""The number of nodes of each quadrature."""


class Skill(NamedTuple):
    """The policy's parameters on which a single pass depends."""

    tool: float
    arguments: float
    foresight: float
    case_spread: float
    step_spread: float
    malformed: float
    misspelt: float
    confusion: float


class _Odds(NamedTuple):
    """A stage's probabilities of the right call and of a wrong tool, for each value of the case's effect.

    Both arrays have the shape (NODES,).
    """

    right: np.ndarray
    wrong_tool: np.ndarray


_State = tuple[bool, int, frozenset[int]]
"""Whether the next stage is the first of its plan, the number of new plans so far, and the stages that have failed."""


@lru_cache(maxsize=16384)  # most cells are another trial of the same case, or a case of the same form
def expected_success(skill: Skill, single: SinglePass) -> float:
    """The probability that a pass succeeds: the mean over cases of this form, their steps and all draws."""
    by_case = _one_by_one(skill, single) if single.replans is None else _planned(skill, single, single.replans)
    return float(_nodes()[1] @ by_case)


def _one_by_one(skill: Skill, single: SinglePass) -> np.ndarray:
    readable = 1 - skill.malformed**single.answers
    by_case = np.full(NODES, readable if single.fatal and not single.outlined else 1.0)  # for the decision to finish
    for place, stage in enumerate(single.stages):
        if stage.needed:
            by_case = by_case * _odds(skill, stage, single.blind and place > 0).right
        if stage.needed or single.fatal:
            by_case = by_case * readable
    return by_case


def _planned(skill: Skill, single: SinglePass, most: int) -> np.ndarray:
    """The probability that every needed stage of a planned pass is right, computed stage by stage; shape (NODES,)."""
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
    """The probabilities that a stage has no failed call, and that the stage's call is left out.

    `broken`: a stage whose output the call uses has failed.
    """
    if not stage.calls:
        return 1 - odds.wrong_tool, np.zeros(NODES)
    declining = (1 - skill.confusion) / stage.others if stage.others else 0.0  # declining is similar to no tool
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
    """The nodes and weights of the quadrature for the mean over a standard normal number."""
    places, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return places, weights / math.sqrt(2 * math.pi)
