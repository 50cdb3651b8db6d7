"""The columns of plans that are diagnosed (agent_planning_benchmark §3; `grid.metrics.scores`, `grid.chains`)."""

from __future__ import annotations

import pyarrow as pa

PLAN_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    *((name, pa.string()) for name in ("task_family", "task_category", "stage", "unsolvable_kind", "behaviour")),
    *((name, pa.int32()) for name in ("horizon_k", "n_extraneous", "extraneous_calls", "unresolved_arguments")),
    *((name, pa.bool_()) for name in ("plan_correct", "unrefined_correct", "judged_correct", "judge_contradicted")),
    *((name, pa.float64()) for name in ("plan_grade", "unrefined_grade", "judged_grade", "plan_cost", "least_cost")),
    *((name, pa.list_(pa.string())) for name in ("plan_errors", "unrefined_errors", "judged_errors")),
    ("refused", pa.bool_()),
    ("draft", pa.string()),
)
