"""The columns of tasks with a reward (τ²-bench; `grid.metrics.scores` says what they hold)."""

from __future__ import annotations

import pyarrow as pa

REWARD_COLUMNS: tuple[tuple[str, pa.DataType], ...] = (
    ("reward", pa.float64()),
    ("reward_parts", pa.string()),
    ("success_db", pa.bool_()),
    ("termination", pa.string()),
)
