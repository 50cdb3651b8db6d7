"""Does the study's regression find what is planted? Whole studies of the simulated policy, each with another seed.

The policy loses `foresight` logits at every step that `fh` plans ahead of its observations, and `sh` none: the longer
the chain, the more `fh` falls behind, so that depth:SH is above 0 (planning_horizon §4.3). How large it is follows from
the closed form: the regression's own coefficients where every case has its expected successes (`population`).

A study is every cell of `+experiment=planning_horizon` under one robustness setting, run by the sweep's own code in
this process: its rows are those of the sweep with `seed=`, without Ray and Parquet.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from statsmodels.api import GLM
from statsmodels.genmod.families import Binomial

from analysis import gee, study
from analysis.design import design
from analysis.planted import EXPECTED
from analysis.spec import FAMILY, Spec, load
from grid.core.errors import GridError
from grid.settings.plan import Plan
from grid.sweeps import in_process

PRESET = "planning_horizon"
NAME = "planted"
_NOTHING = 0.005  # logits; the two planners differ a little in which unreadable answers end an episode


@dataclass(frozen=True)
class Found:
    """One study's coefficient beside what is planted: estimate, standard error, and the bounds of its 95% interval."""

    estimate: float
    se: float
    low: float
    high: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many studies, and of what."""
    parser.add_argument("--studies", type=int, default=100, help="their seeds are 0, 1, ...")
    parser.add_argument("--foresight", type=float, nargs="+", default=[1.0, 0.0], help="logits, each a row")
    parser.add_argument("--robustness", nargs="+", default=["tools_strict"], help="files of conf/robustness")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--processes", type=int, default=2)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print, for each foresight and robustness setting, how often sign and size are found."""
    spec = load(study.PLANNING_HORIZON)
    name = interaction(spec)
    table = Table(
        title=f"{name} in {arguments.studies} studies of the simulated policy, {arguments.trials} trials",
        caption="planted: the coefficient of the expected successes; covered: it lies in the 95% interval",
    )
    for column in ("foresight", "robustness", "cells", "planted", "mean estimate", "deviation", "mean se",
                   "sign found", "p < 0.05", "covered", "sign and covered"):  # fmt: skip
        table.add_column(column, justify="left" if column == "robustness" else "right")
    for foresight in arguments.foresight:
        for robustness in arguments.robustness:
            plan = plan_of(f"model.foresight={foresight}", f"robustness={robustness}", f"trials={arguments.trials}")
            rows = list(studies(plan, range(arguments.studies), arguments.processes))
            planted = population(rows[0], spec)[name]
            found = [estimated(one, spec, name) for one in rows]
            cells = f"{len(rows[0]):,}", f"{planted:+.3f}"
            table.add_row(f"{foresight:g}", robustness, *cells, *summary(found, planted))
    console.print(table)


def summary(found: Sequence[Found], planted: float) -> list[str]:
    """Mean, deviation and mean standard error of the estimates; of how many sign, p, and size are right.

    Where nothing is planted there is no sign to find.
    """
    signs = [one.estimate * planted > 0 for one in found]
    covered = [one.low <= planted <= one.high for one in found]
    estimates, something = [one.estimate for one in found], abs(planted) > _NOTHING
    return [
        f"{np.mean(estimates):+.3f}",
        f"{np.std(estimates, ddof=1):.3f}",
        f"{np.mean([one.se for one in found]):.3f}",
        str(sum(signs)) if something else "none",
        str(sum(one.low > 0 or one.high < 0 for one in found)),
        str(sum(covered)),
        str(sum(sign and size for sign, size in zip(signs, covered, strict=True))) if something else "none",
    ]


def interaction(spec: Spec) -> str:
    """The regression's own name of depth:SH, in whichever definition of depth."""
    return next(":".join(part.column for part in term) for term in spec.parsed.terms
                if len(term) == 2 and term[0].column.startswith("depth"))  # fmt: skip


def estimated(rows: pd.DataFrame, spec: Spec, name: str) -> Found:
    """The coefficient that the regression finds in one study. Raises GridError where it is not fitted."""
    ((_, fit),) = gee.fits(rows, spec)
    if isinstance(fit, gee.Refused):
        raise GridError(f"a study was not fitted: {fit.reason}")
    row = fit.coefficients[fit.coefficients["name"] == name]
    ((estimate, se, low, high),) = row[["coefficient", "se", "low", "high"]].to_numpy(float).tolist()
    return Found(estimate, se, low, high)


def population(rows: pd.DataFrame, spec: Spec) -> dict[str, float]:
    """The coefficients that estimates tend to: the same estimating equations, of every case's expected successes.

    Each row stands there twice, as a success and as a failure, weighted by the probability of either.

    Raises:
        GridError: the formula leaves rows out, or a row has no closed form.
    """
    once = rows.drop_duplicates(["planner", "case_id"])
    once = once.assign(**{FAMILY: once["dataset"].map(spec.family)})
    expected = once[EXPECTED].astype(float)
    both = pd.concat([once.assign(success=1.0), once.assign(success=0.0)], ignore_index=True)
    found = design(both, spec)
    if expected.isna().any() or len(found.outcome) != len(both):
        raise GridError("not every row has a closed form and a place in the regression")
    weights = np.concatenate([expected, 1 - expected])
    fit: Any = GLM(found.outcome, found.matrix, family=Binomial(), freq_weights=weights).fit()
    return dict(zip(found.names, map(float, fit.params), strict=True))


def plan_of(*overrides: str) -> Plan:
    """The preset's sweep with the simulated policy, checked."""
    fixed = [f"+experiment={PRESET}", "dataset=kqa_synthetic", "model=simulated", f"name={NAME}"]
    return in_process.plan_of([*fixed, *overrides])


def studies(plan: Plan, seeds: Sequence[int], processes: int) -> Iterator[pd.DataFrame]:
    """The episodes of a study for each seed, in their order."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for number, rows in enumerate(pool.map(partial(one_study, plan), seeds), start=1):
            print(f"\r{number} of {len(seeds)} studies", end="", file=sys.stderr, flush=True)
            yield rows
    print(file=sys.stderr)


def one_study(plan: Plan, seed: int) -> pd.DataFrame:
    """What the regression reads of the episodes of one seed, and their expected successes."""
    wanted = [*load(study.PLANNING_HORIZON).columns(), "case_id", EXPECTED]
    return pd.DataFrame(asyncio.run(in_process.episodes(plan, wanted, NAME, seed)))
