"""Jobs as the command line composes them, for tests of what comes after."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from grid.sweep.check import Job

SHARED: dict[str, Any] = {
    "name": "test",
    "store": {"root": "results"},
    "trials": 1,
    "seed": 0,
    "dry_run": False,
    "retry_failed": False,
    "budget": {"llm_calls": 5000, "tool_calls": 1000},
    "cluster": {"kind": "local"},
}
LABELS = {group: group for group in ("model", "planner", "dataset", "robustness", "retriever")}


def job(root: Path, **changes: Any) -> Job:
    """ReAct on two SLATE cases; `group__key=value` and `key=value` change the config, `...` drops a key."""
    config: dict[str, Any] = {
        "model": {"_target_": "grid.engines.lexical.engine.Lexical"},
        "planner": {"_target_": "grid.planners.react.ReAct"},
        "dataset": {"_target_": "grid.datasets.slate.dataset.Slate", "limit": 2, "path": None},
        "robustness": {},
        "retriever": {"_target_": "grid.retrievers.bm25.BM25"},
        **SHARED,
        "store": {"root": str(root)},
    }
    for key, value in changes.items():
        group, _, name = key.partition("__")
        if name:
            config[group] = copy.deepcopy(config[group]) | {name: value}
        else:
            config[key] = value
    return Job({key: value for key, value in config.items() if value is not ...}, LABELS)
