"""What a pilot tells of two planners on the same cases: their rates, and how alike cells are.

Products of two cells' outcomes, averaged over all pairs of a kind (one case, one cluster, two clusters), estimate the
covariances without bias whatever the clusters' sizes; the model's correlations are those that give the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.errors import AnalysisError
from analysis.stats.intervals import CLUSTER
from analysis.stats.latent import Floats, Latent, Rates, covariance

_MOST = 1 - 1e-6  # a correlation: 1 leaves a trial no luck


@dataclass(frozen=True)
class Counts:
    """Cases that both planners ran, a row each.

    `cluster`: a whole number from 0; `won` and `tried`: (cases, 2), successes and trials whose success is known, of the
    reference and of the other planner.
    """

    cluster: npt.NDArray[np.int64]
    won: Floats
    tried: Floats

    @property
    def clusters(self) -> int:
        """How many clusters the cases are of."""
        return int(self.cluster.max()) + 1 if len(self.cluster) else 0

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """How many cases each cluster has."""
        return np.bincount(self.cluster)

    @property
    def rates(self) -> Rates:
        """Each planner's success: a mean over cases of their means over trials."""
        first, second = (self.won / self.tried).mean(axis=0)
        return float(first), float(second)

    @property
    def trials(self) -> int:
        """The most that both planners have of any case."""
        return int(self.tried.min(axis=1).max())

    @property
    def differences(self) -> pd.Series[float]:
        """Of each case, as the report's intervals take them."""
        means = self.won / self.tried
        return pd.Series(means[:, 1] - means[:, 0], index=pd.Index(self.cluster, name=CLUSTER))

    def drawn(self, rng: np.random.Generator) -> Counts:
        """As many clusters, drawn with replacement (a bootstrap over clusters)."""
        rows = np.argsort(self.cluster, kind="stable")
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        picked = rng.integers(0, self.clusters, self.clusters)
        parts = [rows[starts[cluster] : starts[cluster + 1]] for cluster in picked]
        taken = np.concatenate(parts)
        cluster = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        return Counts(cluster, self.won[taken], self.tried[taken])


def counts(episodes: pd.DataFrame, reference: str, other: str) -> Counts:
    """The cases that both planners have known successes of.

    Args:
        episodes: rows of one model, dataset and robustness setting: `planner`, `case_id`, `cluster`, `success`.
        reference: the label of one planner.
        other: that of another.
    """
    known = episodes[episodes["planner"].isin([reference, other]) & episodes["success"].notna()]
    keys = [known[name].astype(str) for name in (CLUSTER, "case_id", "planner")]
    table = known["success"].groupby(keys, sort=False).agg(["sum", "count"]).unstack("planner").dropna()
    if table.empty or table.shape[1] < 4:
        return Counts(np.zeros(0, dtype=np.int64), np.zeros((0, 2)), np.zeros((0, 2)))
    cluster = table.index.get_level_values(CLUSTER)
    codes = np.unique(cluster, return_inverse=True)[1].astype(np.int64)
    won, tried = (table[name][[reference, other]].to_numpy(np.float64) for name in ("sum", "count"))
    return Counts(codes, won, tried)


class Covariances(NamedTuple):
    """Of cells of one planner, added up over both, and of one planner and the other; NaN where no pair tells.

    The names are those of `Latent`.
    """

    own_case: float
    own_cluster: float
    other_case: float
    other_cluster: float


def covariances(found: Counts) -> Covariances:
    """Estimates from all pairs of cells. Needs two clusters."""
    means = found.won / found.tried
    sums = np.stack([np.bincount(found.cluster, column) for column in means.T], axis=1)
    sizes, cases = found.sizes.astype(np.float64), len(means)
    with np.errstate(invalid="ignore", divide="ignore"):
        again = found.won * (found.won - 1) / (found.tried * (found.tried - 1))
    same = np.einsum("ci,cj->ij", means, means)
    clusters = np.einsum("ci,cj->ij", sums, sums)
    apart = (np.outer(means.sum(axis=0), means.sum(axis=0)) - clusters) / (cases**2 - (sizes**2).sum())
    pairs = float((sizes * (sizes - 1)).sum())
    within = (clusters - same) / pairs - apart if pairs else np.full((2, 2), np.nan)
    several = np.isfinite(again).any(axis=0).all()
    repeated = float(np.nanmean(again, axis=0).sum()) - float(np.trace(apart)) if several else np.nan
    return Covariances(repeated, float(np.trace(within)), float((same / cases - apart)[0, 1]), float(within[0, 1]))


def fitted(found: Counts, icc: float | None = None) -> Latent:
    """The model whose covariances at the pilot's rates are the estimates, as far as a model has them.

    Where no case has two trials of each planner, a trial's luck cannot be told from what is the case's own: all that
    can be is luck, which is right for designs of one trial alone. Where no two cases share a cluster, all that cases
    differ by is taken to be their clusters' own, the worst there can be where luck is known.

    Args:
        found: the pilot's counts.
        icc: the share of the cases' variances that lies between clusters; None: as estimated.

    Raises:
        AnalysisError: all cases are of one cluster.
    """
    if found.clusters < 2:
        raise AnalysisError(
            f"the pilot has {found.clusters:,} clusters of cases; an error over clusters needs 2 or more"
        )
    first, second = found.rates
    told = covariances(found)

    def own(correlation: float) -> float:
        return covariance(first, first, correlation) + covariance(second, second, correlation)

    def other(correlation: float) -> float:
        return covariance(first, second, correlation)

    other_case = _solved(other, told.other_case, -_MOST, _MOST)
    one_trial = np.isnan(told.own_case)
    own_case = abs(other_case) if one_trial else _solved(own, told.own_case, 0.0, _MOST)
    other_case = min(max(other_case, -own_case), own_case)
    if icc is None and np.isnan(told.own_cluster):
        icc = 1.0
    if icc is not None:
        return Latent(own_case, icc * own_case, other_case, icc * other_case)
    own_cluster = _solved(own, told.own_cluster, 0.0, _MOST)
    if one_trial:
        own_case = max(own_case, own_cluster)
    own_cluster = min(own_cluster, own_case)
    other_cluster = _solved(other, told.other_cluster, -own_cluster, own_cluster)
    rest = own_case - own_cluster
    return Latent(
        own_case, own_cluster, min(max(other_case, other_cluster - rest), other_cluster + rest), other_cluster
    )


def _solved(of: Callable[[float], float], value: float, low: float, high: float) -> float:
    """Where an increasing function has the value, or the end that comes nearest."""
    if low >= high or value <= of(low):
        return low
    from scipy.optimize import brentq  # half the time of a first screen's imports

    return high if value >= of(high) else float(brentq(lambda x: of(x) - value, low, high, xtol=1e-6))
