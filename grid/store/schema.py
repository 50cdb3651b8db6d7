"""The columns of the tables (design, 'The tables')."""

from __future__ import annotations

import pyarrow as pa

from grid.engines.roles import ASKED
from grid.store.asked_columns import CASES, MESSAGES, SECTIONS
from grid.store.plan_columns import PLAN_COLUMNS
from grid.store.reward_columns import REWARD_COLUMNS

SCHEMA_VERSION = "17"
OLDEST = 16
"""The first version whose files are read: what they lack is null, as 17 has further columns and no other meaning."""
_COSTS = (
    "calls", "passes", "input_tokens", "cached_input_tokens", "output_tokens", "resent_requests", "empty_answers",
    "cut_answers", "reasoning_tokens", "uncounted_answers",
)  # fmt: skip

CANCELLED = ("llm_calls", "forward_passes", "input_tokens", "output_tokens")
"""What is told of paths that were cancelled, as `cancelled_*`."""
_SCORES = (
    "instruction_accuracy", "tool_accuracy", "argument_accuracy", "answer_score", "tool_f1", "argument_f1", "plan_f1",
    "execution_f1", "argument_name_f1", "argument_value_f1", "edge_f1", "answer_em", "answer_f1",
)  # fmt: skip
_PLANS = ("plan_accuracy", "plan_names_accuracy", "plan_values_accuracy")

EPISODES = pa.schema(
    [
        ("cell_id", pa.string()),
        ("cell_key", pa.string()),
        ("setting_id", pa.string()),
        ("sweep", pa.string()),
        ("model", pa.string()),
        ("engine", pa.string()),
        ("planner", pa.string()),
        ("dataset", pa.string()),
        ("dataset_version", pa.string()),
        ("robustness", pa.string()),
        ("retriever", pa.string()),
        *((group, pa.string()) for group in ("pool", "refine", "memory")),
        *((role, pa.string()) for role in ASKED),
        ("case_id", pa.string()),
        ("case_digest", pa.string()),
        ("cluster", pa.string()),
        ("trial", pa.int32()),
        ("seed", pa.int64()),
        ("attempt_id", pa.string()),
        ("status", pa.string()),
        ("error_kind", pa.string()),
        ("error_message", pa.string()),
        ("error_traceback", pa.string()),
        ("success", pa.bool_()),
        ("solvable", pa.bool_()),
        *((f"{name}_success", pa.bool_()) for name in ("constant", "constant_by_function", "nothing", "transfer")),
        ("expected_success", pa.float64()),
        ("tool_match_rate", pa.float64()),
        ("action_accuracy", pa.float64()),
        ("exact_match", pa.bool_()),
        ("inclusion", pa.float64()),
        ("inclusion_set", pa.float64()),
        ("usage", pa.float64()),
        ("retrieval_rate", pa.float64()),
        *((f"tool_{share}", pa.float64()) for share in ("precision", "recall")),
        ("correct_path", pa.bool_()),
        ("extra_calls", pa.int32()),
        ("traj_satisfy", pa.float64()),
        ("accuracy", pa.bool_()),
        *((name, pa.float64()) for name in ("passed", "passed_sd")),
        *REWARD_COLUMNS,
        *((name, pa.float64()) for name in _SCORES),
        *((name, pa.bool_()) for name in _PLANS),
        ("edit_distance", pa.float64()),
        *((name, pa.string()) for name in ("tool_counts", "verdict")),
        *PLAN_COLUMNS,
        ("hallucinated", pa.bool_()),
        ("side_effect", pa.bool_()),
        ("failure_patterns", pa.list_(pa.string())),
        ("answer", pa.string()),
        ("depth", pa.int32()),
        ("breadth", pa.float64()),
        ("depth_edges", pa.int32()),
        ("breadth_edges", pa.float64()),
        ("plan_nodes", pa.int32()),
        ("last_step", pa.string()),
        ("controls", pa.string()),
        *((f"n_{counted}", pa.int32()) for counted in ("steps", "messages", "nodes", "improvements")),
        ("budget_reached", pa.string()),
        ("tool_calls", pa.int32()),
        ("resolved_checks", pa.int32()),
        ("replans", pa.int32()),
        *((name, pa.int32()) for name in ("branches", "branched_steps")),
        ("unassigned", pa.float64()),
        ("repeated_call", pa.bool_()),
        ("repeated_call_in_a_row", pa.bool_()),
        ("failed_calls", pa.int32()),
        ("finished", pa.bool_()),
        *((f"{kind}_arguments", pa.int32()) for kind in ("replaced", "wrongly_replaced")),
        ("input_tokens", pa.int64()),
        ("cached_input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("llm_calls", pa.int64()),
        ("forward_passes", pa.int64()),
        ("resent_requests", pa.int64()),
        ("empty_answers", pa.int64()),
        *((name, pa.int64()) for name in ("cut_answers", "reasoning_tokens", "uncounted_answers")),
        *((f"cancelled_{name}", pa.int64()) for name in CANCELLED),
        *((f"{role}_{cost}", pa.int64()) for role in ASKED for cost in _COSTS),
        ("money", pa.float64()),
        *((f"{role}_failures", pa.int32()) for role in ("simulator", "user", "judge", "evaluator")),
        ("wall_seconds", pa.float64()),
        ("case_seconds", pa.float64()),
        ("config", pa.string()),
        *((name, pa.string()) for name in ("code", "code_parts", "git_commit", "engine_version", "sampler")),
        *((name, pa.string()) for name in ("answered_by", "system_fingerprint", "provider")),
        ("created_at", pa.timestamp("us", tz="UTC")),
    ]
)

STEPS = pa.schema(
    [
        ("cell_id", pa.string()),
        ("attempt_id", pa.string()),
        ("branch", pa.int32()),
        ("step", pa.int32()),
        ("substep_id", pa.string()),
        ("substep", pa.string()),
        ("on_path", pa.bool_()),
        ("tool_required", pa.bool_()),
        ("reference_tool", pa.string()),
        ("chosen_tool", pa.string()),
        ("thought", pa.string()),
        ("written", pa.string()),
        ("arguments", pa.string()),
        ("observation", pa.string()),
        ("failed", pa.bool_()),
        ("replaced", pa.string()),
        ("entropy", pa.float64()),
        ("n_options", pa.int32()),
        ("options", pa.list_(pa.struct([("tool", pa.string()), ("probability", pa.float64())]))),
        ("tool_matches", pa.bool_()),
        ("reference_rank", pa.int32()),
        ("unassigned", pa.float64()),
        ("error_bound", pa.float64()),
        ("input_tokens", pa.int64()),
        ("cached_input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
    ]
)

NODES = pa.schema(
    [
        ("cell_id", pa.string()),
        ("attempt_id", pa.string()),
        ("node", pa.string()),
        ("parent", pa.string()),
        ("depth", pa.int32()),
        ("order", pa.int32()),
        ("execution", pa.int32()),
        ("chosen_tool", pa.string()),
        ("written", pa.string()),
        ("failed", pa.bool_()),
        ("share", pa.float64()),
        ("entropy", pa.float64()),
        ("r_pre", pa.float64()),
        ("r_post", pa.float64()),
        ("pre_right", pa.bool_()),
        ("post_right", pa.bool_()),
        ("visits", pa.int64()),
        ("value", pa.float64()),
        ("pruned", pa.string()),
        ("on_path", pa.bool_()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
    ]
)
"""One row a node of a search tree, with the edge that leads to it: `0` is the root, `0.2` its third child.

`pre_right` and `post_right`: whether what the judge scored (r_pre, r_post) is right by the reference; null where it was
not asked, or there is no reference.
"""

IMPROVEMENTS = pa.schema(
    [
        ("cell_id", pa.string()),
        ("attempt_id", pa.string()),
        ("improvement", pa.int32()),
        ("node", pa.string()),
        ("value", pa.float64()),
        ("success", pa.bool_()),
        ("n_steps", pa.int32()),
        ("tool_calls", pa.int32()),
        ("llm_calls", pa.int64()),
        ("forward_passes", pa.int64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("seconds", pa.float64()),
    ]
)
"""One row for each trajectory that was the best so far, and what all roles had used when it was found.

The last one within a limit of executed calls is what the planner would have returned at that limit.
"""

ATTEMPTS = pa.schema(
    [
        ("attempt_id", pa.string()),
        ("setting_id", pa.string()),
        ("status", pa.string()),
        ("cells", pa.int32()),
        ("ok", pa.int32()),
        ("failed", pa.int32()),
        ("llm_calls", pa.int64()),
        ("forward_passes", pa.int64()),
        ("input_tokens", pa.int64()),
        ("cached_input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("resent_requests", pa.int64()),
        ("empty_answers", pa.int64()),
        *((name, pa.int64()) for name in ("cut_answers", "reasoning_tokens", "uncounted_answers")),
        ("money", pa.float64()),
        ("seconds", pa.float64()),
        ("created_at", pa.timestamp("us", tz="UTC")),
    ]
)

COMPARISONS = pa.schema(
    [
        ("comparison_id", pa.string()),
        ("cell_id", pa.string()),
        ("against_cell_id", pa.string()),
        ("planner", pa.string()),
        ("against", pa.string()),
        ("evaluator", pa.string()),
        ("evaluator_config", pa.string()),
        ("evaluator_version", pa.string()),
        ("rule", pa.string()),
        ("win", pa.float64()),
        ("decided_by", pa.string()),
        ("shown_first", pa.float64()),
        ("shown_second", pa.float64()),
        ("llm_calls", pa.int64()),
        ("forward_passes", pa.int64()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("git_commit", pa.string()),
        ("created_at", pa.timestamp("us", tz="UTC")),
    ]
)
"""One row for two cells that were compared: `win` is 1 where the first one's trajectory is better, 0.5 for a tie, or 0.

`shown_first` and `shown_second` are the same by where it stood; null where nobody was asked or said neither.
"""

TABLES: dict[str, pa.Schema] = {
    "episodes": EPISODES,
    "steps": STEPS,
    "nodes": NODES,
    "improvements": IMPROVEMENTS,
    "attempts": ATTEMPTS,
    "messages": MESSAGES,
    "sections": SECTIONS,
    "cases": CASES,
    "comparisons": COMPARISONS,
}
IDS = {
    "episodes": ("cell_id", "cell_key", "cluster"),
    "steps": ("cell_id",),
    "nodes": ("cell_id",),
    "improvements": ("cell_id",),
    "attempts": (),
    "messages": ("cell_id",),
    "sections": ("digest",),
    "cases": ("digest",),
    "comparisons": ("comparison_id", "cell_id", "against_cell_id"),
}
"""Columns without a null: rows are told apart by them, and counted by them."""
DIGESTS = {"sections": "digest", "cases": "digest", "comparisons": "comparison_id"}
"""Columns that name what a row holds: of rows with the same value one is enough."""
TIMES = (
    *("wall_seconds", "case_seconds", "created_at", "attempt_id", "sweep", "seconds", "git_commit"),
    *("resent_requests", *(f"{role}_resent_requests" for role in ASKED), "n_messages"),
)
"""Columns in which two runs of the same cells may differ."""
