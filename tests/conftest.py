"""How the tests share a machine: a process a core; files that start Ray or an engine come first."""

from __future__ import annotations

import os

import pytest

FIRST = ("ray", "vllm")  # the longest files, and much of their time is waiting
PROCESSES = 4  # at most: each imports and collects everything


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """None where files are named: they begin at once and in this process, and a debugger works."""
    if config.args_source == pytest.Config.ArgsSource.ARGS:
        return 0
    return min(len(os.sched_getaffinity(0)), PROCESSES)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What comes last should be short, so that no process waits for the others."""
    items.sort(key=lambda item: item.path.parent.name not in FIRST)
