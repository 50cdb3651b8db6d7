"""The table that `agent-grid power` prints.

It stands apart from the command because it takes seconds to import, and the command line is checked first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from analysis import load
from analysis.load import spending, unknowns
from analysis.page.render import wide
from analysis.stats.intervals import CLUSTER, interval
from analysis.stats.latent import Counts, Latent, components, counts, fitted, planted
from analysis.stats.power import MOST, Row, Wanted, doubts, endless, false_alarms, rows
from analysis.tables import measures
from analysis.tables.rates import reference_of
from grid import store
from grid.core.errors import ConfigError, GridError, StoreError, nearest, one_line
from grid.core.places import folder_at
from grid.core.problem import Dataset
from grid.core.untrusted import shown
from grid.metrics.scores import SUCCESS
from grid.settings.make import make
from grid.store.schema import LONG
from grid.sweeps import inline

PLACE = ("model", "dataset", "robustness")
"""Columns in which both planners of a pilot must agree; `key=value` chooses a value if a column has several."""
_TRIALS = (1, 3, 5)
_REFERENCE, _OTHER = "the reference", "the other planner"
_SIZE, _CASE_SD, _DIFFERENCE_SD = 1, 1.0, 0.5
_WIDTH = 100


@dataclass(frozen=True)
class _Question:
    """All input for a table; `tokens` and `money` are the cost of one trial of a case by both planners together."""

    reference: str
    other: str
    rate: float
    latent: Latent
    order: npt.NDArray[np.int64]
    wanted: Wanted
    told: Sequence[str]
    icc: float | None = None
    pilot: Counts | None = None
    tokens: float = 0.0
    money: float | None = None


def answer(arguments: argparse.Namespace) -> None:
    """Print the question, a table with one design for each number of trials, and the conclusions.

    A design that does not have enough power even with all cases is marked in the table.

    Raises:
        GridError: the question cannot be answered from the arguments.
    """
    console = wide(Console(), _WIDTH)
    question = _alone(arguments) if arguments.rate is not None else _of_pilot(arguments)
    _say(console, _asked(arguments, question), *question.told)
    for line in _components(question):
        _say(console, line)
    found = rows(question.latent, question.rate, question.order, question.wanted, question.pilot, question.icc)
    enough = [row for row in found if row.enough]
    best = min(enough, key=lambda row: _cost(question, row), default=None)
    console.print(_table(question, found, best))
    _say(console, *_conclusions(question, found, best))


def _of_pilot(arguments: argparse.Namespace) -> _Question:
    given = arguments.given
    if arguments.simulated:
        pilot = of_policy(given, arguments.planners, arguments.metric)
    else:
        place = dict(one.split("=", 1) for one in given if "=" in one)
        if unknown := [key for key in place if key not in PLACE]:
            raise ConfigError(unknown[0], place[unknown[0]], f"not a key of a pilot; the keys are {', '.join(PLACE)}")
        (folder,) = (folder_at(one) for one in given if "=" not in one)
        pilot = of_folder(folder, place, arguments.planners, arguments.unknown, arguments.metric)
    counts, rate = pilot.counts, pilot.counts.rates[0]
    if not 0 < rate < 1:
        many = "all" if rate else "none"
        cells = f"{pilot.reference} succeeds in {many} of its {int(counts.tried[:, 0].sum()):,} cells"
        allowed = f"the first planner, the reference, must succeed in some cells and fail in others; {cells}"
        raise ConfigError("planners", f"{pilot.reference},{pilot.other}", allowed)
    _expect_possible(arguments.difference, rate, pilot.reference)
    trials = arguments.trials or (_TRIALS if counts.trials > 1 else (1,))
    if counts.trials < 2 and max(trials) > 1:
        raise ConfigError("trials", ",".join(map(str, trials)), "must be 1, because the pilot has no case with two "
                          "trials of both planners, so it cannot show the gain from more trials")  # fmt: skip
    latent = fitted(counts, arguments.icc)
    if pilot.order is not None and pilot.order.max() == 0:
        allowed = f"must have several clusters of cases, but all {len(pilot.order):,} cases are in one cluster"
        raise ConfigError("dataset", pilot.dataset, allowed)
    order = endless([int(size) for size in counts.sizes], MOST) if pilot.order is None else pilot.order
    if pilot.order is None:
        cases = f"assumed to be in clusters like the pilot's, because its dataset cannot be read here ({pilot.unread})"
    else:
        cases = (
            f"the dataset's {len(order):,} cases, in {int(order.max()) + 1:,} clusters, in the order in which "
            "dataset.limit takes them"
        )
    told = [_pilot(pilot), *pilot.warnings, f"further cases: {cases}"]
    return _Question(
        pilot.reference, pilot.other, rate, latent, order, _wanted(arguments, trials), told,
        arguments.icc, counts, pilot.tokens, pilot.money
    )  # fmt: skip


def _alone(arguments: argparse.Namespace) -> _Question:
    def value(name: str, default: float) -> float:
        return default if getattr(arguments, name) is None else float(getattr(arguments, name))

    _expect_possible(arguments.difference, arguments.rate, _REFERENCE)
    size, icc = int(value("cluster_size", _SIZE)), value("icc", 0.0)
    case_sd, difference_sd = value("case_sd", _CASE_SD), value("difference_sd", _DIFFERENCE_SD)
    told = (
        f"without a pilot: the cases' difficulty varies by {case_sd:g} logits (--case-sd), and the planners' "
        f"difference by {difference_sd:g} (--difference-sd); {100 * icc:g}% of both variations lies between clusters "
        f"(--icc) of {size:,} case{'s' * (size > 1)} each (--cluster-size)"
    )
    latent = planted(case_sd, difference_sd, icc)
    wanted = _wanted(arguments, arguments.trials or _TRIALS)
    return _Question(_REFERENCE, _OTHER, arguments.rate, latent, endless([size], MOST), wanted, [told])


def _expect_possible(points: float, rate: float, reference: str) -> None:
    """Raise ConfigError if a difference of this many points gives a rate that is not between 0 and 1."""
    if not 0 < rate + points / 100 < 1:
        below = f" (--difference -{points:g})" if 0 < points < 100 * rate else ""
        raise ConfigError(
            "difference",
            points,
            f"must be less than {100 * (1 - rate):.1f} points above the {100 * rate:.1f}% of {reference}, or "
            f"less than {100 * rate:.1f} points below it{below}",
        )


def _wanted(arguments: argparse.Namespace, trials: Sequence[int]) -> Wanted:
    alpha = arguments.alpha / arguments.comparisons
    return Wanted(arguments.difference / 100, arguments.power, alpha, trials, arguments.studies, arguments.seed)


def _asked(arguments: argparse.Namespace, question: _Question) -> str:
    level = f"α = {arguments.alpha:g}"
    if arguments.comparisons > 1:
        level += f" / {arguments.comparisons:,} comparisons = {question.wanted.alpha:.3g} (Bonferroni)"
    return (
        f"to see that {question.other} differs from {question.reference} by {arguments.difference:+g} points "
        f"({100 * question.rate:.1f}% to {100 * question.rate + arguments.difference:.1f}%) with power "
        f"{100 * arguments.power:g}%, two-sided, {level}"
    )


def _pilot(pilot: Pilot) -> str:
    found, rates = pilot.counts, [f"{100 * rate:.1f}%" for rate in pilot.counts.rates]
    mean, low, high = (100 * value for value in interval(found.differences, reach=1.0))
    bounds = "" if math.isnan(low) else f", 95% interval [{low:+.1f}, {high:+.1f}]"
    return (
        f"pilot: {pilot.told}; {len(found.cluster):,} cases in {found.clusters:,} clusters, {_trials(found.trials)}; "
        f"{pilot.reference} {rates[0]}, {pilot.other} {rates[1]}: {mean:+.1f} points{bounds}"
    )


def _components(question: _Question) -> list[str]:
    parts = components(question.latent, (question.rate, question.rate + question.wanted.difference))
    told = {
        "clusters": "between clusters of cases: averaged out only by more clusters",
        "cases": "between cases of a cluster: averaged out by more cases",
        "trial": "luck of one trial of each planner: averaged out by more cases or more trials",
    }
    if question.pilot is not None and question.pilot.trials < 2:
        told["trial"] += (
            " (not separated from the variation between cases, because no case has two trials of each planner)"
        )
    lines = ["the difference varies (standard deviations, in points of success):"]
    return lines + [f"  {100 * math.sqrt(getattr(parts, name)):5.1f}  {text}" for name, text in told.items()]


def _cost(question: _Question, row: Row) -> float:
    """The cost by which designs are compared: US dollars if known, else tokens if known, else cells."""
    return (question.money or question.tokens or 2) * row.claim.cases * row.trials


def _table(question: _Question, found: Sequence[Row], best: Row | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    priced, tokens = bool(question.money), bool(question.tokens)
    bounded = question.pilot is not None
    names = ["trials", "cases", *["95% interval"] * bounded, "clusters", "cells", *["tokens"] * tokens,
             *["US dollars"] * priced, "power", "simulated", ""]  # fmt: skip
    for name in names:
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    most = len(question.order)
    for row in found:
        each = row.claim.cases * row.trials
        cells = [f"{row.trials}", f"{row.claim.cases:,}" if row.enough else f"> {most:,}"]
        cells += [f"[{_count(row.low, most)}, {_count(row.high, most)}]"] * bounded
        cells += [f"{row.claim.clusters:,}", f"{row.cells:,}"]
        cells += [_large(each * question.tokens)] * tokens + [f"{each * (question.money or 0):,.2f}"] * priced
        cells += [f"{100 * row.claim.power:.1f}%", f"{100 * row.found.share:.1f} ± {200 * row.found.error:.1f}%"]
        table.add_row(*cells, "cheapest" if row is best and len(found) > 1 else "" if row.enough else "not enough")
    return table


def _count(value: float, most: int) -> str:
    return "unknown" if math.isnan(value) else f"> {most:,}" if math.isinf(value) else f"{value:,.0f}"


def _large(value: float) -> str:
    return f"{value / 1e6:,.1f} million" if value >= 1e6 else f"{value:,.0f}"


def _conclusions(question: _Question, found: Sequence[Row], best: Row | None) -> list[str]:
    lines = [_caption(question)]
    for row in (row for row in found if not row.enough):
        beyond = f"about {row.beyond:,}" if row.beyond else f"more than {MOST:,}"
        told = f"with all {row.claim.cases:,} cases, the power is {100 * row.claim.power:.0f}%"
        lines.append(f"{_trials(row.trials)}: {told}; {beyond} cases in clusters like these would be needed")
    if best:
        null = false_alarms(question.latent, question.rate, question.order, best, question.wanted)
        cases, trials = best.claim.cases, best.trials
        alone = f"{cases:,} cases, {_trials(trials)}"
        lines.append(
            f"{f'run: dataset.limit={cases} trials={trials}' if question.pilot else alone}; if there is no difference, "
            f"the test finds one in {100 * null.share:.1f} ± {200 * null.error:.1f}% of simulated studies "
            f"(α: {100 * question.wanted.alpha:.3g}%)"
        )
    if question.pilot is not None:
        cases = (best or found[-1]).claim.cases
        sizes = np.bincount(question.order[:cases]).astype(np.float64)
        lines += [f"warning: {line}" for line in doubts(question.pilot, found, sizes, question.icc)]
    return lines


def _caption(question: _Question) -> str:
    bootstrap = "95% interval: bootstrap over the pilot's clusters; " if question.pilot is not None else ""
    used = "cells and tokens (input and output)" if question.tokens else "cells"
    return (
        f"{bootstrap}{used}: for both planners together; power: that of the report's paired test over clusters, by a "
        "formula that simulated studies correct if the mean difference is skewed; simulated: the share of further "
        "studies, drawn from the same components, in which this test finds the difference, ± twice the standard error"
    )


def _trials(count: int) -> str:
    return f"{count:,} trial{'s' * (count != 1)}"


def _say(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(shown(line), markup=False)


# The source of the pilot of `agent-grid power`: a results folder, or the simulated policy in this process.


UNDISTURBED = "none"
_READ = (*PLACE, "planner", CLUSTER, "case_id", "trial", "success", *spending.SPENT, "money", "config")
_NAME = "power"
_ALL = 10**9
_GIVEN = {"robustness": "none", "trials": "3", "dataset.limit": "200", "model": "simulated"}
"""The keys of the simulated pilot and their values, unless the command line gives these keys."""


@dataclass(frozen=True)
class Pilot:
    """Two planners on the same cases.

    `told` names the source of the data. `order` is the cluster of each case of the whole dataset, in the order in which
    `dataset.limit` takes the cases; it is None if the dataset cannot be read (`unread` says why). `tokens` (0 if
    unknown) and `money` (US dollars; None if unknown) are the cost of one trial of a case by both planners together. If
    there are many unknown cells (cells whose success cannot be determined), `warnings` has lines about them.
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
    """The pilot in a results folder; `unknown` says how unknown cells are counted (`unknowns.counted`).

    `metric`, whose values are from 0 to 1, replaces success. A cell with a value between 0 and 1 is treated as a
    success with that probability. Real cells vary less than such successes, so the power shown is too low rather than
    too high.

    Raises:
        AnalysisError: there is no such metric.
        ConfigError: the metric has values below 0 or above 1; the folder has no rows for `place` or for the planners;
            it has several models, datasets or robustness settings (none of them `none`), and `place` does not choose;
            there is only one planner; there are more than two, and `planners` does not name two of them; or the two
            planners have no case in common.
        StoreError: the folder cannot be read, or has no episodes.
    """
    store.check_there(root)
    store.check(root)
    with unknowns.counted(unknown):
        name = measures.named(root, metric).name
        further = [] if name == SUCCESS else [name]
        rows = load.episodes(root, ["config", *further, *spending.SPENT])
        return _pilots_pilot(_in_place(rows, name), str(root), place, planners, name)


def _in_place(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows, with `success` replaced by a metric's values."""
    values = rows[metric].astype("float64")
    if not values.dropna().between(0, 1).all():
        told = f"{values.min():g} to {values.max():g}"
        raise ConfigError("metric", metric, f"a metric whose values are from 0 to 1; in the pilot they are {told}")
    return rows.assign(success=values)


def of_policy(overrides: Sequence[str], planners: Sequence[str], metric: str = SUCCESS) -> Pilot:
    """A pilot run with the simulated policy, from a sweep's command line; `metric` as for `of_folder`.

    Raises:
        GridError, or an error of Hydra: the sweep cannot run.
    """
    given = {key: value for key, _, value in (one.partition("=") for one in overrides)}
    if given.get("model", "simulated") != "simulated":
        raise ConfigError(
            "model",
            given["model"],
            "must be simulated, because --simulated runs no other model; for a pilot with this model, run a sweep",
        )
    if "planner" not in given:
        raise ConfigError("planner", None, "must be two planners separated by a comma: planner=react,egb_logits")
    fixed = [f"{key}={value}" for key, value in _GIVEN.items() if key not in given]
    plan = inline.plan_of([*overrides, *fixed, f"name={_NAME}"])
    if metric != SUCCESS and metric not in LONG.names:
        raise ConfigError("metric", metric, "a metric of agent-grid; a plugin's metric needs a folder of results")
    read = list(dict.fromkeys([*_READ, metric]))
    rows = _in_place(pd.DataFrame(asyncio.run(inline.episodes(plan, read, _NAME))), metric)
    place = {key: given[key] for key in PLACE if key in given and key != "robustness"}
    return _pilots_pilot(rows, "the simulated policy", place, planners, metric)


def _pilots_pilot(
    episodes: pd.DataFrame, source: str, place: Mapping[str, str], planners: Sequence[str], metric: str
) -> Pilot:
    if episodes.empty:
        raise StoreError(f"{source}: a pilot needs episodes, and there are none yet")
    for key in PLACE:
        there = [str(one) for one in episodes[key].unique()]
        wanted = _one_of(key, place.get(key), there, source)
        episodes = episodes[episodes[key].astype(str) == wanted]
    there = sorted(str(one) for one in episodes["planner"].unique())
    reference, other = _pair(planners, there, source)
    found = counts(episodes, reference, other)
    if not len(found.cluster):
        raise ConfigError(
            "planners", f"{reference},{other}", f"two planners with a case in common in {source}; these have none"
        )
    own = episodes[episodes["planner"].isin([reference, other])]
    order, unread = _order(str(own["config"].iloc[0]))
    own = own.assign(tokens=spending.tokens(own), money=own["money"].astype("float64"))
    means = own.groupby("planner", observed=True)[["tokens", "money"]].mean()
    tokens, money = (float(means[name].sum(min_count=2)) for name in ("tokens", "money"))
    named = " on ".join(str(own[key].iloc[0]) for key in PLACE[:2])
    robustness = str(own["robustness"].iloc[0])
    told = f"{source}: {named}" + ("" if robustness == UNDISTURBED else f", {robustness}")
    told += "" if metric == SUCCESS else f"; below, success means the metric {metric}"
    dataset = str(own["dataset"].iloc[0])
    warnings = unknowns.warnings(own) if unknowns.COLUMN in own else ()
    return Pilot(told, dataset, reference, other, found, order, unread, *_known(tokens, money), warnings)


def _known(tokens: float, money: float) -> tuple[float, float | None]:
    return 0.0 if np.isnan(tokens) else tokens, None if np.isnan(money) else money


def _one_of(key: str, wanted: str | None, there: Sequence[str], source: str) -> str:
    if wanted is None and len(there) > 1 and not (key == "robustness" and UNDISTURBED in there):
        raise ConfigError(
            key, None, f"must be given as {key}=NAME, with one of {', '.join(there)}, because {source} has several"
        )
    if wanted is None:
        return UNDISTURBED if UNDISTURBED in there else there[0]
    if wanted not in there:
        raise ConfigError(key, wanted, f"one of {', '.join(there)}{nearest(wanted, there)}")
    return wanted


def _pair(planners: Sequence[str], there: Sequence[str], source: str) -> tuple[str, str]:
    """The reference planner and the other one: the two given names or, without names, the only two planners."""
    if len(there) < 2:
        raise ConfigError("planners", ",".join(there), f"a pilot with two planners; {source} has only one")
    for label in planners:
        if label not in there:
            raise ConfigError("planners", label, f"one of {', '.join(there)}{nearest(label, there)}")
    if planners and (len(planners) != 2 or planners[0] == planners[1]):
        raise ConfigError("planners", ",".join(planners), "two different planners, the reference first")
    if planners:
        return planners[0], planners[1]
    if len(there) > 2:
        raise ConfigError(
            "planners", None, f"must be given as --planners A,B, with two of {', '.join(there)}, the reference first"
        )
    return (there[1], there[0]) if reference_of(there[0], there, "react") else (there[0], there[1])


def _order(config: str) -> tuple[npt.NDArray[np.int64] | None, str]:
    """The clusters of all cases of the dataset in a row's config; or None, and the reason why they cannot be read."""
    try:
        values = {**json.loads(config)["dataset"], "limit": _ALL}
        dataset = cast(Dataset, make("dataset", values))
        clusters = [dataset.cluster(case) for case in dataset.case_ids()]
    except (GridError, OSError, KeyError, ValueError) as error:
        return None, one_line(error, 200)
    return pd.factorize(np.array(clusters))[0].astype(np.int64), ""
