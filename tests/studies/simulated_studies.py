"""Does the study's regression find what is planted? Whole studies of the simulated policy, each with another seed.

The policy loses `foresight` logits at every step that `fh` plans ahead of its observations, and `sh` none: the longer
the chain, the more `fh` falls behind, so that depth:SH is above 0 (planning_horizon §4.3). How large it is follows from
the closed form: the regression's own coefficients where every case has its expected successes (`population`).

A study is every cell of `+experiment=planning_horizon` under one robustness setting, run by the sweep's own code in
this process: its rows are those of the sweep with `seed=`, without Ray and Parquet.
"""

from __future__ import annotations

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
from statsmodels.api import GLM
from statsmodels.genmod.families import Binomial

from analysis.load.provenance import EXPECTED
from analysis.papers import study
from analysis.stats.design import design
from analysis.stats.spec import FAMILY, Spec, load
from analysis.tables import regression
from grid.core.errors import GridError
from grid.settings.plan import Plan
from grid.sweeps import inline

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


def interaction(spec: Spec) -> str:
    """The regression's own name of depth:SH, in whichever definition of depth."""
    return next(":".join(term) for term in spec.parsed.terms if len(term) == 2 and term[0].startswith("depth"))


def estimated(rows: pd.DataFrame, spec: Spec, name: str) -> Found:
    """The coefficient that the regression finds in one study. Raises GridError where it is not fitted."""
    ((_, fit),) = regression.fits(rows, spec)
    if isinstance(fit, regression.Refused):
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
    return inline.plan_of([*fixed, *overrides])


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
    return pd.DataFrame(asyncio.run(inline.episodes(plan, wanted, NAME, seed)))
