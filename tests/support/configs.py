"""Jobs as the command line composes them, and the files of conf/, for tests of what comes after."""

from __future__ import annotations

import copy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from grid import CONF
from grid.contracts.subject import LEFT_OPEN, covering, goes_together, names, outlines, setting_of, yaml
from grid.settings.check import Job
from tests.support import mcp

__all__ = [
    "CONF",
    "FOLDERS",
    "LABELS",
    "MAY_LACK",
    "SHARED",
    "few_of",
    "goes_together",
    "job",
    "names",
    "outlines",
    "setting_of",
    "solvers",
    "yaml",
]

SHARED: dict[str, Any] = {
    "name": "test",
    "store": {"root": "results"},
    "trials": 1,
    "seed": 0,
    "dry_run": False,
    "retry_failed": False,
    "budget": {"llm_calls": 5000, "steps": 1000},
    "cluster": {"kind": "local"},
}
LABELS = {group: group for group in ("model", "planner", "dataset", "robustness", "retriever", "pool")}
FOLDERS = {
    "ultratool": "released_ultratool",
    "traject_bench": "small_traject_bench",
    "restbench": "small_restbench",
    "mnms": "small_mnms",
    "stabletoolbench": "small_stabletoolbench",
    "apb": "small_apb",
    "apibench": "small_apibench",
    "bfcl": "small_bfcl",
    "gta": "small_gta",
    "hotpotqa_multi": "small_hotpotqa",
    "mcp": "small_mcp",
    "workbench": "small_workbench",
}
"""The datasets that need files, by the fixture that has them."""

MAY_LACK = [name for name, fixture in FOLDERS.items() if fixture.startswith("released_") or name == "mcp"]
"""The datasets that a machine may lack: what every other one meets, it meets without them."""

LEFT_OPEN["mcp"] = mcp.command()
LEFT_OPEN["outside"] = {"command": f"{sys.executable} -I -S {Path(__file__).with_name('agent.py')} loop"}


ENDS = {"tooltree"}
"""Planners whose search ends with nothing where their judge, which cannot tell tools apart, rejects all of them."""


def few_of(points: Sequence[tuple[str, ...]]) -> list[Any]:
    """For `parametrize`: so few points, each with its dataset first, that every two values meet; all others are slow's.

    The dataset's name may have a kind behind it.
    """

    def lacking(point: tuple[str, ...]) -> bool:
        return point[0].split(" ")[0] in MAY_LACK

    sure = covering([point for point in points if not lacking(point)])
    few = {*sure, *covering([point for point in points if lacking(point)], sure)}
    return [pytest.param(*point, marks=[] if point in few else [pytest.mark.slow]) for point in points]


def solvers() -> list[str]:
    """The files of conf/planner whose planners work on a case, and are no program of somebody else's."""
    return [name for name in names("planner") if name not in ("refuser", "outside")]


def job(root: Path, **changes: Any) -> Job:
    """ReAct on two SLATE cases; `group__key=value` and `key=value` change the config, `...` drops a key."""
    config: dict[str, Any] = {
        "model": {"_target_": "grid.engines.lexical.engine.Lexical"},
        "planner": {"_target_": "grid.planners.react.ReAct"},
        "dataset": {"_target_": "grid.datasets.slate.dataset.Slate", "limit": 2, "path": None},
        "robustness": {},
        "retriever": {"_target_": "grid.retrievers.scored.BM25"},
        "pool": {"_target_": "grid.pools.whole.Whole"},
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
