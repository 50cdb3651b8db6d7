"""The columns of all tables (design, 'The tables').

`episodes` has few columns: metrics and roles' costs are in three maps, to which plugins may add names. So a cell's row
has all measurements or does not exist, and a benchmark's new metric needs no new column. `JOINED` has a column for each
metric and cost, because readers ask for them by name.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from grid.core.engine import ACTOR, ASKED, Role
from grid.core.metric import METRICS as OURS
from grid.core.metric import TEXTS, Kind, Metric

SCHEMA_VERSION = "18"
OLDEST = 16
"""The oldest version whose files can be read; in versions 16 and 17 each metric and each cost is a column."""
SCORES, TEXT, COSTS = "scores", "texts", "costs"
"""The maps of `episodes`: numbers by metric (a flag is 0 or 1), texts by metric (a list is JSON), costs by role."""
SOURCE = ("answered_by", "system_fingerprint", "provider")
"""The columns that say what answered for the acting model, according to its server (`grid.core.engine.Source`)."""
_COUNTS = (
    "llm_calls", "forward_passes", "input_tokens", "cached_input_tokens", "output_tokens", "resent_requests",
    "empty_answers", "cut_answers", "reasoning_tokens", "uncounted_answers",
)  # fmt: skip
COST = pa.struct([*((name, pa.int64()) for name in _COUNTS), ("money", pa.float64())])
"""A role's costs in a cell: the counts in `grid.core.types.Usage`, null for uncounted tokens, and US dollars."""

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
        *((name, pa.string()) for name in ("status", "error_kind", "error_message", "error_traceback")),
        ("success", pa.bool_()),
        ("answer", pa.string()),
        *((name, pa.string()) for name in ("task_family", "task_category", "stage", "unsolvable_kind")),
        *((name, pa.int32()) for name in ("horizon_k", "n_extraneous")),
        ("depth", pa.int32()),
        ("breadth", pa.float64()),
        ("depth_edges", pa.int32()),
        ("breadth_edges", pa.float64()),
        ("plan_nodes", pa.int32()),
        *((name, pa.string()) for name in ("last_step", "controls", "draft")),
        *((f"n_{counted}", pa.int32()) for counted in ("steps", "messages", "nodes", "improvements")),
        ("budget_reached", pa.string()),
        *((name, pa.int32()) for name in ("tool_calls", "resolved_checks", "replans", "branches", "branched_steps")),
        ("wall_seconds", pa.float64()),
        ("case_seconds", pa.float64()),
        ("money", pa.float64()),
        (SCORES, pa.map_(pa.string(), pa.float64())),
        (TEXT, pa.map_(pa.string(), pa.string())),
        (COSTS, pa.map_(pa.string(), COST)),
        ("config", pa.string()),
        *((name, pa.string()) for name in ("code", "code_parts", "git_commit", "engine_version", "sampler")),
        *((name, pa.string()) for name in SOURCE),
        ("created_at", pa.timestamp("us", tz="UTC")),
    ]
)
"""One row per cell. `money` is the sum over all roles."""

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
"""One row per node of a search tree, with the edge that leads to it: `0` is the root, `0.2` its third child.

`pre_right` (for the judge's score r_pre) and `post_right` (for r_post): whether the judged call is right according to
the reference; null if the judge was not asked, or if there is no reference.
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
"""One row for each time that a trajectory became the best so far, with the usage of all roles until then.

The last row within a limit on executed calls has the trajectory that the planner would have returned at that limit.
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

MESSAGES = pa.schema(
    [
        ("cell_id", pa.string()),
        ("attempt_id", pa.string()),
        ("message", pa.int32()),
        ("role", pa.string()),
        ("decision", pa.string()),
        ("request", pa.string()),
        ("wanted", pa.string()),
        ("seed", pa.int64()),
        ("n", pa.int64()),
        ("temperature", pa.float64()),
        ("max_tokens", pa.int64()),
        ("prompt", pa.list_(pa.string())),
        ("answers", pa.list_(pa.string())),
        ("probabilities", pa.list_(pa.float64())),
        ("unreadable", pa.list_(pa.struct([("place", pa.int32()), ("why", pa.string())]))),
        ("altered", pa.string()),
    ]
)
"""One row per request: `prompt` has the digests of sections, in order; `altered` names parts that are not verbatim."""

SECTIONS = pa.schema(
    [
        ("digest", pa.string()),
        ("kind", pa.string()),
        ("entries", pa.list_(pa.string())),
        ("options", pa.list_(pa.string())),
        ("altered", pa.string()),
    ]
)
"""Parts of prompts, by the digest of their content. Several files may have the same row; any of them may be used."""

CASES = pa.schema(
    [
        ("digest", pa.string()),
        ("case_id", pa.string()),
        ("domain", pa.string()),
        ("query", pa.string()),
        ("messages", pa.list_(pa.string())),
        ("outline", pa.list_(pa.struct([(name, pa.string()) for name in ("id", "goal", "text")]))),
        ("calls", pa.list_(pa.struct([(name, pa.string()) for name in ("substep_id", "tool", "arguments")]))),
        ("followed", pa.bool_()),
        ("ordered", pa.bool_()),
        ("answer", pa.string()),
    ]
)
"""Cases by their contents (`episodes.case_digest`): the query, and the reference's calls, in order.

Several files may have the same row, and any of them may be used.
"""

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
"""One row for two compared cells: `win` is 1 if the first cell's trajectory is better, 0 if worse, 0.5 for a tie.

`shown_first` and `shown_second` are the values of `win` when the first cell's trajectory was shown first or second.
They are null if the evaluator was not asked, or if no answer could be read. If the evaluator was asked, `win` is their
mean, and is null if either is null.
"""

SCORINGS = pa.schema(
    [
        *((name, pa.string()) for name in ("scoring", "digest", "setting_id", "dataset_version", "code_parts")),
        *((name, pa.string()) for name in ("plugins", "evaluator", "evaluator_config", "evaluator_version")),
        *((name, pa.int64()) for name in ("llm_calls", "forward_passes", "input_tokens", "output_tokens")),
        ("money", pa.float64()),
        ("git_commit", pa.string()),
        ("created_at", pa.timestamp("us", tz="UTC")),
    ]
)
"""One row for each time that some of a setting's cells were scored again: the code, the evaluator, and the cost.

Scorings with the same `digest` cannot give different values.
"""

RESCORES = pa.schema(
    [
        *((name, pa.string()) for name in ("scoring", "cell_id", "name")),
        ("value", pa.float64()),
        ("text", pa.string()),
        ("why", pa.string()),
    ]
)
"""The results of scoring a cell again, one row per metric; the scores in `episodes` do not change.

`success` is one of the names. If a value that `episodes` has cannot be computed now, the row has no value, and `why`
has the reason. A metric to which its scorer now gives no value has no row.
"""

METRICS = pa.schema(
    [("digest", pa.string()), *((name, pa.string()) for name in ("name", "unit", "better", "paper", "kind", "meaning"))]
)
"""The meaning of each metric among the scores, with the fields of `grid.core.metric.Metric`."""

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
    "scorings": SCORINGS,
    "rescores": RESCORES,
    "metrics": METRICS,
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
    "scorings": ("scoring", "digest"),
    "rescores": ("scoring", "cell_id", "name"),
    "metrics": ("digest", "name"),
}
"""Columns without nulls: the ids by which rows are found and, in `episodes`, the cluster, which intervals need."""
DIGESTS = {
    "sections": "digest",
    "cases": "digest",
    "comparisons": "comparison_id",
    "scorings": "scoring",
    "metrics": "digest",
}
"""The column that identifies a row's content; if several rows have the same digest, one is enough."""
LATEST = ("created_at", "attempt_id")
"""The columns that decide which of several rows with the same `cell_key` counts.

The row that counts has the greatest value in the first column or, if these values are equal, in the second. Null is the
smallest value. All readers follow this rule: `tables`, queries in DuckDB (`sql.COUNTS`), and the viewer.
"""
APART = (
    *("model", "dataset", "robustness", "planner", "refine", "memory", "retriever", "pool"),
    *(*ASKED, "setting_id", "dataset_version", "code"),
)  # fmt: skip
"""The columns of `episodes` in which settings differ: labels, the setting's id, the data's version, and the code."""
TIMES = (
    *("wall_seconds", "case_seconds", "created_at", "attempt_id", "sweep", "seconds", "git_commit"),
    *("resent_requests", *(f"{role}_resent_requests" for role in ASKED), "n_messages"),
)
"""The columns in which two runs of the same cells may differ."""


class Part(NamedTuple):
    """The source of a column of the joined form: its map, its key in the map and, for costs, the cost's name."""

    map: str
    key: str
    cost: str = ""


_ARROW: dict[Kind, pa.DataType] = {
    "flag": pa.bool_(),
    "count": pa.int32(),
    "tokens": pa.int64(),
    "number": pa.float64(),
    "text": pa.string(),
    "list": pa.list_(pa.string()),
}
_SHORT = {"llm_calls": "calls", "forward_passes": "passes"}
SPENT: dict[Role, dict[str, str]] = {
    ACTOR: {name: name for name in _COUNTS},
    **{role: {name: f"{role}_{_SHORT.get(name, name)}" for name in _COUNTS} for role in ASKED},
}
"""The columns of each role's counts in the joined form, by role and then by the count's name."""
_OF_COSTS = {column: Part(COSTS, role, name) for role, columns in SPENT.items() for name, column in columns.items()}


def part_of(metric: Metric) -> Part:
    """The source of a metric's column."""
    return Part(TEXT if metric.kind in TEXTS else SCORES, metric.name)


def field_of(metric: Metric) -> pa.Field:
    """A metric's column in the joined form."""
    return pa.field(metric.name, _ARROW[metric.kind])


PARTS: dict[str, Part] = {**{metric.name: part_of(metric) for metric in OURS}, **_OF_COSTS}
"""The sources of all columns of the joined form that are not columns of `episodes`."""
LONG = pa.schema([*map(field_of, OURS), *((column, pa.int64()) for column in _OF_COSTS)])
JOINED = pa.schema([*(column for column in EPISODES if column.name not in (SCORES, TEXT, COSTS)), *LONG])
"""`episodes` with a column for each of our metrics and each role's costs."""
