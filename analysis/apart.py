"""What tells settings apart, beside their labels: columns of `episodes`."""

from __future__ import annotations

from grid.core.roles import ASKED

APART = (
    *("model", "dataset", "robustness", "planner", "refine", "memory", "retriever", "pool"),
    *(*ASKED, "setting_id", "dataset_version", "code"),
)  # fmt: skip
