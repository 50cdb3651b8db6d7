"""A cell's metrics."""

from __future__ import annotations

from dataclasses import dataclass

SCORING = "3"
"""Raise when the same trajectory gets another score; part of every cell's id."""
PATTERNS = (
    "similar_tool_confusion", "wrong_parameters", "missing_parameters", "redundant_related", "redundant_unrelated",
    "intent_missed",
)  # fmt: skip
"""How trajectories go wrong (traject_bench §4.2; `grid.metrics.failure_patterns` has the rules)."""


@dataclass(frozen=True)
class Scores:
    """A cell's metrics; None where a metric does not apply (design, 'The tables').

    `traj_satisfy` is from 0 to 10, `passed` 1 for Solved, 0.5 for Unsure, 0 for Unsolved (`passed_sd`: over repeated
    judgements), `extra_calls` counts calls beyond the reference's; the other numbers are shares.

    `repeated_call` and `repeated_call_in_a_row` are of `grid.metrics.repeats`; `failed_calls` counts those that
    returned nothing valid, `finished` says whether the path ended by its own decision. `replaced_arguments` were put by
    a tool in the place of others that it did not know, `wrongly_replaced_arguments` are those of them that the
    reference does not have; None where no tool replaces any.

    `answer_em` and `answer_f1` hold the parts of an answer against the right ones by token
    (`grid.text.short_answers`); `verdict` is an evaluator's: correct, partially_correct, incorrect or refusal.

    Of plans (agent_planning_benchmark §3.3), by the scorer that `success` goes by: `plan_correct`, `plan_grade` (of
    GRADES) and `plan_errors` (of ERRORS); `unrefined_*` are those of the version before a critique, `judged_*` the
    judge's where both scorers are asked, and `judge_contradicted` says that the judge's verdict and errors disagree.
    `behaviour` (of BEHAVIOURS) is what follows a broken tool, `refused` whether the plan is an explicit refusal
    (`grid.text.refusals`), `extraneous_calls` counts calls of extraneous tools, `unresolved_arguments` those arguments
    of which the symbolic scorer cannot tell what they mean; `plan_cost` is the sum of the calls' costs, `least_cost`
    the least that solves.

    Of tasks with a reward (τ²-bench): `reward` is the product over the task's reward basis, from 0 to 1, 0 unless the
    run ended properly, and None where nobody could tell. `reward_parts` has the reward of each part of the basis: JSON,
    `{"DB": 1.0, "COMMUNICATE": 0.0}`, null for a part of which nobody could tell. `success_db` says whether the
    database is as the gold actions leave it; None where that cannot be said. `termination` is why the run ended:
    agent_stop, user_stop, unfinished, too_many_errors or user_error.

    `tool_counts` has hits, predictions and references by kind of tool, for scores that are taken over all cases: JSON,
    `{kind: [hits, predicted, gold]}`. The benchmark's own docstrings define what is theirs.
    """

    success: bool | None = None
    tool_match_rate: float | None = None
    action_accuracy: float | None = None
    exact_match: bool | None = None
    inclusion: float | None = None
    inclusion_set: float | None = None
    usage: float | None = None
    retrieval_rate: float | None = None
    tool_precision: float | None = None
    tool_recall: float | None = None
    correct_path: bool | None = None
    extra_calls: int | None = None
    traj_satisfy: float | None = None
    accuracy: bool | None = None
    passed: float | None = None
    passed_sd: float | None = None
    reward: float | None = None
    reward_parts: str | None = None
    success_db: bool | None = None
    termination: str | None = None
    instruction_accuracy: float | None = None
    tool_accuracy: float | None = None
    argument_accuracy: float | None = None
    answer_score: float | None = None
    tool_f1: float | None = None
    argument_f1: float | None = None
    plan_f1: float | None = None
    execution_f1: float | None = None
    argument_name_f1: float | None = None
    argument_value_f1: float | None = None
    edge_f1: float | None = None
    plan_accuracy: bool | None = None
    plan_names_accuracy: bool | None = None
    plan_values_accuracy: bool | None = None
    edit_distance: float | None = None
    tool_counts: str | None = None
    answer_em: float | None = None
    answer_f1: float | None = None
    verdict: str | None = None
    plan_correct: bool | None = None
    plan_grade: float | None = None
    plan_errors: tuple[str, ...] | None = None
    unrefined_correct: bool | None = None
    unrefined_grade: float | None = None
    unrefined_errors: tuple[str, ...] | None = None
    judged_correct: bool | None = None
    judged_grade: float | None = None
    judged_errors: tuple[str, ...] | None = None
    judge_contradicted: bool | None = None
    behaviour: str | None = None
    refused: bool | None = None
    extraneous_calls: int | None = None
    unresolved_arguments: int | None = None
    plan_cost: float | None = None
    least_cost: float | None = None
    hallucinated: bool | None = None
    side_effect: bool | None = None
    failure_patterns: tuple[str, ...] | None = None
    repeated_call: bool = False
    repeated_call_in_a_row: bool = False
    failed_calls: int = 0
    finished: bool = False
    replaced_arguments: int | None = None
    wrongly_replaced_arguments: int | None = None
