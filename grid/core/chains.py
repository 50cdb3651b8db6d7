"""A predicted plan: a chain of tool calls, or a refusal (agent_planning_benchmark §3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

REPLACE, ALTER, RETRY, REFUSE, OTHER = "replace", "alter", "retry", "refuse", "other"
BEHAVIOURS = (REPLACE, ALTER, RETRY, REFUSE, OTHER)
"""What an agent does behind a tool that broke (agent_planning_benchmark §4.2.3)."""
ERRORS = ("E1", "E2", "E3", "E4", "E5", "E6")
"""Goal understanding; premature conclusion or incompleteness; constraint; logic; tool use; hallucination (§3.3)."""
GRADES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""What a plan's grade may be (agent_planning_benchmark §3.3)."""
Family: TypeAlias = Literal["holistic", "stepwise", "extraneous", "broken", "unsolvable", "costs", "stages"]
"""The benchmark's tasks (agent_planning_benchmark §3.1, §5.4); `stages` are the next calls early and late in the
trajectories of `stepwise` (§5.2, table 15), which its counts leave out.
"""
Stage: TypeAlias = Literal["early", "middle", "late"]


@dataclass(frozen=True)
class ChainCall:
    """One node of a tool chain: the tool's name, its arguments and why it is called.

    An argument is a value, a reference `OUTPUT_FROM_STEP_i.field`, or words that say where the value comes from.
    """

    name: str
    arguments: Mapping[str, Any]
    reason: str = ""


@dataclass(frozen=True)
class Chain:
    """What a planner predicted: its calls in order, or why it refuses.

    `plan` are its words: the summary in front of the calls, or what is said in their place or at their end.

    `first` is the number by which references and words call the first call's step.
    """

    calls: tuple[ChainCall, ...]
    refusal: str | None = None
    plan: str = ""
    first: int = 0


@dataclass(frozen=True)
class TaskKind:
    """Which of the benchmark's tasks a case is (agent_planning_benchmark §3.1): the columns of the same names.

    `horizon_k` are the steps to predict, `stage` where in the trajectory they stand; both None for whole plans.
    `unsolvable_kind`: contradictory_constraints, missing_information, tool_removal or attachment_missing.
    """

    task_family: Family
    task_category: str = ""
    horizon_k: int | None = None
    stage: Stage | None = None
    n_extraneous: int | None = None
    unsolvable_kind: str | None = None


@dataclass(frozen=True)
class Verdict:
    """What a scorer says of a plan: whether it is right, its errors (of ERRORS) and its grade (of GRADES).

    `errors` and `grade` are None where only the first was asked for.
    """

    is_correct: bool
    errors: frozenset[str] | None = None
    grade: float | None = None
    reasoning: str = field(default="", compare=False)

    @property
    def correct(self) -> bool:
        """What counts: any error means that the plan is not right (§C.2), and so does a plain no."""
        return self.is_correct and not self.errors

    @property
    def contradicted(self) -> bool | None:
        """Whether it calls a plan with an error right, or one without an error wrong; None without errors to name."""
        return None if self.errors is None else self.is_correct == bool(self.errors)
