"""The files of conf/, and jobs as the command line composes them, for tests of what comes after."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from omegaconf import OmegaConf

from grid.datasets.base import BRANCHING, DRAFTED, GIVEN, OUTLINE, Dataset
from grid.engines.roles import ASKED
from grid.planners.base import Planner
from grid.runner.cell import Setting
from grid.runner.check import Job
from grid.runner.make import make
from grid.runner.roles import judges_plans, with_roles
from tests import mcp

CONF = Path(__file__).parents[1] / "conf"

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

NEEDED: dict[str, dict[str, Any]] = {"mcp": mcp.command()}
"""What a dataset's file leaves open besides its path."""


def names(group: str) -> list[str]:
    """The YAML files of a group."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def solvers() -> list[str]:
    """The files of conf/planner whose planners work on a case."""
    return [name for name in names("planner") if name != "refuser"]


def yaml(group: str, name: str) -> dict[str, Any]:
    """A file's own values, missing ones as '???'; a program is the tests' own."""
    return copy.deepcopy(_read(group, name)) | (NEEDED.get(name, {}) if group == "dataset" else {})


@cache
def _read(group: str, name: str) -> dict[str, Any]:
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"), resolve=True))


def absent(dataset: str) -> dict[str, Any]:
    """The values of a file of conf/dataset, with a path that is not there where it has none."""
    return {name: "/absent" if value == "???" else value for name, value in yaml("dataset", dataset).items()}


def outlines(dataset: str) -> list[str]:
    """The values of `dataset.outline` that a file of conf/dataset can have."""
    provides = cast(Dataset, make("dataset", absent(dataset))).provides
    return [GIVEN, "hidden", DRAFTED] if OUTLINE in provides else ["hidden", DRAFTED]


def goes_together(dataset: str, planner: str) -> bool:
    """Whether a planner that goes on from a state more than once meets worlds that can."""
    branches = BRANCHING in cast(Dataset, make("dataset", absent(dataset))).provides
    return branches or BRANCHING not in cast(Planner, make("planner", yaml("planner", planner))).needs


def setting_of(
    dataset_values: Mapping[str, Any] = MappingProxyType({}),
    planner_values: Mapping[str, Any] = MappingProxyType({}),
    model_values: Mapping[str, Any] = MappingProxyType({}),
    **labels: str,
) -> Setting:
    """A setting of files of conf/, some values of dataset, planner and model changed."""
    labels = {"model": "lexical", "planner": "react", "robustness": "none", "retriever": "bm25", "pool": "all"} | labels
    config = {group: yaml("model" if group in ASKED else group, name) for group, name in labels.items()}
    config["dataset"] |= dataset_values
    config["planner"] |= planner_values
    config["model"] |= model_values
    if judges_plans(config):
        config["evaluator"], labels["evaluator"] = yaml("model", "lexical"), "lexical"
    return Setting(with_roles(config), labels, seed=0)


def job(root: Path, **changes: Any) -> Job:
    """ReAct on two SLATE cases; `group__key=value` and `key=value` change the config, `...` drops a key."""
    config: dict[str, Any] = {
        "model": {"_target_": "grid.engines.lexical.engine.Lexical"},
        "planner": {"_target_": "grid.planners.react.ReAct"},
        "dataset": {"_target_": "grid.datasets.slate.dataset.Slate", "limit": 2, "path": None},
        "robustness": {},
        "retriever": {"_target_": "grid.retrievers.bm25.BM25"},
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
