"""The simulated engine: a policy of planted skill. It is no language model, and no agent either.

It is told each case's reference, the only engine that is, by the run layer and through no planner. It answers as a
model would, in text that goes through the same parsers, and is right with probabilities that are known. So it serves to
show that a planner gains what theory says, that a table tells apart what is different, and how many cases that takes.

At a step with the effects e_case ~ N(0, case_spread) and e_step ~ N(0, step_spread), the same for all trials and
planners, it takes the right tool with probability sigmoid(logit(tool_skill) + e_case + e_step) and, having taken it,
writes the right arguments with sigmoid(logit(argument_skill) + e_case + e_step).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.chains import Verdict
from grid.core.engine import CHOOSE, SAMPLE, Choice, Engine, Home, Prompt, Sampled
from grid.core.reference import Reference
from grid.core.seeds import derive_seed
from grid.core.strict import STRICT
from grid.core.types import ToolSpec
from grid.engines.informed import SinglePass
from grid.engines.recovering import places_of
from grid.engines.simulated.deciding import Deciding
from grid.engines.simulated.difficulty import Difficulty
from grid.engines.simulated.plan_judge import PlantedVerdicts
from grid.engines.simulated.policy import Policy
from grid.engines.simulated.refining import Planted
from grid.engines.simulated.theory import Skill, expected_success

_Share = Annotated[float, Field(ge=0, le=1)]
_Logits = Annotated[float, Field(ge=0, le=100)]


@dataclass(frozen=True, config=STRICT)
class Simulated:
    """The engine `simulated`.

    Args:
        tool_skill: the probability of the right tool at a step of no particular difficulty.
        argument_skill: that of the right arguments, given the right tool.
        foresight: what a step loses, in logits of both, that is planned without the observations before it.
        insight: the probability that a reflection names the step that went wrong.
        case_spread: standard deviation of the cases' effects, in logits.
        step_spread: that of the steps' effects.
        calibration: the share of steps at which `choose` tells what `sample` draws from.
        confusion: how much of what wrong tools get goes by their similarity to the right one.
        judge_auc: the probability that a judge scores a right call above a wrong one. Where a planner offers to give
            up, the policy does so where as a judge it would give its steps so far less than 3 of 10. As a judge of
            whole plans it holds one for right where it scores above 5, by lot at 5 (`simulated.plan_judge`).
        malformed: the share of sampled answers that cannot be read.
        misspelt: the share of wrong arguments that are the right ones with a name misspelt, where they have a name;
            forgiving tools may read it as it was meant.
        recovery: the share of cases in which it calls the replacement of a tool that it saw failing
            (`grid.engines.recovering`; `robustness=broken_tool`). The paper's models replace it in over 77% of cases,
            the best, to under 45% (agent_planning_benchmark §4.2.3).
        refusal: the probability that it refuses a case that cannot be solved, where refusing is offered.
        overrefusal: that it refuses one that can.
        repair: that a critique of a plan names a step that is wrong, which the plan's rewriting then sets right.
        overcorrection: that it names one that is right, which the rewriting then spoils.
        taxonomy: what `repair` gains where the critique goes through the kinds of error.
        memory: what a step gains, in logits of both, whose tool (or no tool) a trace in the prompt's memory shows.
        least_temperature: a planner's lower one counts as this. At 0 every trial of a case would be the same.
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
        """The policy on one case."""
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
        """The judge of one plan."""
        return PlantedVerdicts(truth, self.judge_auc, self.malformed, seed, self.version)

    def _minded(self, reference: Reference, seed: int) -> frozenset[str]:
        """Of the tools that are out of service those whose failures lead to their replacement, by lot for the case."""
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
        """Not before it is told a reference."""
        raise RuntimeError("the simulated engine answers for a case whose reference it is told")

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """Not before it is told a reference."""
        raise RuntimeError("the simulated engine answers for a case whose reference it is told")
