"""Where the pilot of `agent-grid power` comes from: a results folder, or the simulated policy in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis import load, measured, spending, unknowns
from analysis.intervals import CLUSTER
from analysis.power.pilot import Counts, counts
from analysis.tables import reference_of
from grid import store
from grid.core.errors import ConfigError, GridError, one_line
from grid.core.problem import Dataset
from grid.metrics.scores import SUCCESS
from grid.settings.make import make
from grid.store.schema import LONG
from grid.sweeps import in_process
from grid.sweeps.refusals import nearest
from launch.power_arguments import PLACE

UNDISTURBED = "none"
_READ = (*PLACE, "planner", CLUSTER, "case_id", "trial", "success", *spending.SPENT, "money", "config")
_NAME = "power"
_ALL = 10**9
_GIVEN = {"robustness": "none", "trials": "3", "dataset.limit": "200", "model": "simulated"}
"""What the simulated pilot takes where the command line says nothing else."""


@dataclass(frozen=True)
class Pilot:
    """Two planners on the same cases.

    `told` says where they come from. `order` is the cluster of each case of the whole dataset, in the order in which
    `dataset.limit` takes them, and None where it cannot be read (`unread` says why). `tokens` (0: not known) and
    `money` (US dollars; None: not known) are of one trial of a case by both planners. `warnings` tell of cells of which
    it is not known whether they succeeded, where they are many.
    """

    told: str
    dataset: str
    reference: str
    other: str
    counts: Counts
    order: npt.NDArray[np.int64] | None
    unread: str
    tokens: float
    money: float | None
    warnings: Sequence[str] = ()


def of_folder(
    root: Path,
    place: Mapping[str, str],
    planners: Sequence[str],
    unknown: unknowns.Unknown | None = None,
    metric: str = SUCCESS,
) -> Pilot:
    """The pilot that a results folder holds; `unknown` is how its unknown cells count (`unknowns.counted`).

    `metric`, whose values are from 0 to 1, takes the place of success. A cell that has a share of it is taken as if it
    had it with that chance: cells vary less than that, so that power is told too low rather than too high.

    Raises:
        AnalysisError: there is no such metric.
        ConfigError: it has other values; the place or the planners are none of its, or not two, or have no case in
            common.
        StoreError: the folder cannot be read.
    """
    store.check_there(root)
    store.check(root)
    with unknowns.counted(unknown):
        name = measured.named(root, metric).name
        further = [] if name == SUCCESS else [name]
        rows = load.episodes(root, ["config", *further, *spending.SPENT])
        return _pilot(_in_place(rows, name), str(root), place, planners, name)


def _in_place(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """With a metric's values as `success`."""
    values = rows[metric].astype("float64")
    if not values.dropna().between(0, 1).all():
        told = f"{values.min():g} to {values.max():g}"
        raise ConfigError("metric", metric, f"a metric whose values are from 0 to 1; in the pilot they are {told}")
    return rows.assign(success=values)


def of_policy(overrides: Sequence[str], planners: Sequence[str], metric: str = SUCCESS) -> Pilot:
    """The pilot that the simulated policy makes of a sweep's command line; `metric` as for `of_folder`.

    Raises:
        GridError, or what Hydra raises: it cannot run.
    """
    given = {key: value for key, _, value in (one.partition("=") for one in overrides)}
    if given.get("model", "simulated") != "simulated":
        raise ConfigError(
            "model", given["model"], "simulated: --simulated runs no other; run a sweep for a pilot of it"
        )
    if "planner" not in given:
        raise ConfigError("planner", None, "two planners with a comma between: planner=react,egb_logits")
    fixed = [f"{key}={value}" for key, value in _GIVEN.items() if key not in given]
    plan = in_process.plan_of([*overrides, *fixed, f"name={_NAME}"])
    if metric != SUCCESS and metric not in LONG.names:
        raise ConfigError("metric", metric, "one of ours: a plugin's takes a folder of results")
    read = list(dict.fromkeys([*_READ, metric]))
    rows = _in_place(pd.DataFrame(asyncio.run(in_process.episodes(plan, read, _NAME))), metric)
    place = {key: given[key] for key in PLACE if key in given and key != "robustness"}
    return _pilot(rows, "the simulated policy", place, planners, metric)


def _pilot(
    episodes: pd.DataFrame, source: str, place: Mapping[str, str], planners: Sequence[str], metric: str
) -> Pilot:
    for key in PLACE:
        there = [str(one) for one in episodes[key].unique()]
        wanted = _one_of(key, place.get(key), there, source)
        episodes = episodes[episodes[key].astype(str) == wanted]
    there = sorted(str(one) for one in episodes["planner"].unique())
    reference, other = _pair(planners, there, source)
    found = counts(episodes, reference, other)
    if not len(found.cluster):
        raise ConfigError("planners", f"{reference},{other}", f"two with a case in common in {source}; these have none")
    own = episodes[episodes["planner"].isin([reference, other])]
    order, unread = _order(str(own["config"].iloc[0]))
    own = own.assign(tokens=spending.tokens(own), money=own["money"].astype("float64"))
    means = own.groupby("planner", observed=True)[["tokens", "money"]].mean()
    tokens, money = (float(means[name].sum(min_count=2)) for name in ("tokens", "money"))
    named = " on ".join(str(own[key].iloc[0]) for key in PLACE[:2])
    robustness = str(own["robustness"].iloc[0])
    told = f"{source}: {named}" + ("" if robustness == UNDISTURBED else f", {robustness}")
    told += "" if metric == SUCCESS else f"; what is called success below is the metric {metric}"
    dataset = str(own["dataset"].iloc[0])
    warnings = unknowns.warnings(own) if unknowns.COLUMN in own else ()
    return Pilot(told, dataset, reference, other, found, order, unread, *_known(tokens, money), warnings)


def _known(tokens: float, money: float) -> tuple[float, float | None]:
    return 0.0 if np.isnan(tokens) else tokens, None if np.isnan(money) else money


def _one_of(key: str, wanted: str | None, there: Sequence[str], source: str) -> str:
    if wanted is None and len(there) > 1 and not (key == "robustness" and UNDISTURBED in there):
        raise ConfigError(key, None, f"{key}=NAME says which of {', '.join(there)} in {source}")
    if wanted is None:
        return UNDISTURBED if UNDISTURBED in there else there[0]
    if wanted not in there:
        raise ConfigError(key, wanted, f"one of {', '.join(there)}{nearest(wanted, there)}")
    return wanted


def _pair(planners: Sequence[str], there: Sequence[str], source: str) -> tuple[str, str]:
    """The reference and the other: those that are named, or the only two there are."""
    if len(there) < 2:
        raise ConfigError("planners", ",".join(there), f"a pilot of two planners; {source} has only one")
    for label in planners:
        if label not in there:
            raise ConfigError("planners", label, f"one of {', '.join(there)}{nearest(label, there)}")
    if planners and (len(planners) != 2 or planners[0] == planners[1]):
        raise ConfigError("planners", ",".join(planners), "two different ones, the reference first")
    if planners:
        return planners[0], planners[1]
    if len(there) > 2:
        raise ConfigError("planners", None, f"--planners A,B names two of {', '.join(there)}, the reference first")
    return (there[1], there[0]) if reference_of(there[0], there, "react") else (there[0], there[1])


def _order(config: str) -> tuple[npt.NDArray[np.int64] | None, str]:
    """The clusters of all cases of the dataset that a row's config names, or why they cannot be read."""
    try:
        values = {**json.loads(config)["dataset"], "limit": _ALL}
        dataset = cast(Dataset, make("dataset", values))
        clusters = [dataset.cluster(case) for case in dataset.case_ids()]
    except (GridError, OSError, KeyError, ValueError) as error:
        return None, one_line(error, 200)
    return pd.factorize(np.array(clusters))[0].astype(np.int64), ""
