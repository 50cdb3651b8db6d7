"""Test whether methods are in the same order as in a published table, by Kendall's tau-b with an interval.

The published figures are fixed. Ours are resampled: each draw takes clusters of cases with replacement, and takes the
same clusters for all methods.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.load import name_of
from analysis.page.table import MISSING, Table, bounds, number, texts
from analysis.papers.beside import Block
from analysis.papers.files import Metric, Published
from analysis.stats.intervals import CLUSTER

NAME = "order of methods"
AGREES, DISAGREES, UNKNOWN = "agrees", "disagrees", "cannot tell"
LEAST_METHODS, LEAST_CLUSTERS = 3, 10
"""Minimum numbers of methods (fewer say little) and of clusters (with fewer, bootstrap intervals are too narrow)."""
DRAWS, SEED = 2_000, 20_261_124
_METHOD = ("planner", "refine", "memory", "judge", "budget")
"""The keys, or first parts of keys, in which the rows of one order may differ."""
_ROUNDING = 1e-9
_LABELS = ["table", "part", "metric", "published model", "our model", "our data"]
_FIGURES = ["methods", "alike", "clusters", "tau-b", "95% interval", "by chance", "order"]
_CAPTION = (
    "tau-b: Kendall's tau-b between the published values of a table's methods and our values, over the methods that "
    f"the paper and this folder share (at least {LEAST_METHODS}) and the cases that all our methods ran; 1 is the same "
    "order, -1 the reverse order; alike: the number of pairs of methods that have the same order in both; 95% "
    f"interval: percentiles of {DRAWS:,} bootstrap draws of clusters of our cases, with the published values held "
    f"fixed; no interval for fewer than {LEAST_CLUSTERS} clusters; agrees: the interval is above 0, which means that "
    "in nearly all draws more pairs are in the same order than in the reverse order; disagrees: the interval is below "
    "0; by chance: the share of random orders of the same number of methods that would agree at least as well (large "
    "if there are few methods); no interval is adjusted for the number of rows. This compares orders, not levels; with "
    "other cases, prompts and budgets the order may differ"
)
_PLANTED = (
    "under a simulated policy the order follows from the policy's planted skills: this shows that the comparison "
    "works, but is no evidence for or against the paper"
)
Floats = NDArray[np.float64]


class Order(NamedTuple):
    """Tau-b and its 95% interval (NaN if there is none), with the numbers of methods, cases and clusters.

    `pairs` counts the pairs of methods, and `alike` the pairs in the same order; `by_chance` is the share of random
    orders whose tau is at least as high.
    """

    methods: int
    alike: int
    pairs: int
    cases: int
    clusters: int
    tau: float
    low: float
    high: float
    by_chance: float

    @property
    def verdict(self) -> str:
        """Whether the interval is above 0, below 0, or includes 0."""
        return AGREES if self.low > 0 else DISAGREES if self.high < 0 else UNKNOWN


def tau_b(ours: Floats, theirs: Floats) -> Floats:
    """Kendall's tau-b between each row of `ours` (draws, methods) and `theirs` (methods,); NaN if all tie."""
    own, other = _pairs(ours), _pairs(theirs[None])
    untied = np.abs(own).sum(axis=1) * np.abs(other).sum()
    with np.errstate(invalid="ignore"):
        found: Floats = _products(ours, theirs).sum(axis=1) / np.sqrt(untied)
    return found


def order(methods: Sequence[pd.Series[float]], published: Sequence[float]) -> Order | None:
    """The agreement of our methods' order with the published order.

    Args:
        methods: for each method the values of cases, indexed by cluster and case, from `Block.values`.
        published: the same methods' figures.

    Returns:
        The order, or None if no case has values of all methods. Draws in which all methods are tied count as tau 0.
    """
    frame = pd.concat(methods, axis=1, join="inner", keys=range(len(methods)))
    if frame.empty:
        return None
    theirs = np.asarray(published, dtype=float)
    grouped = frame.groupby(level=CLUSTER, observed=True)
    sums, sizes = grouped.sum().to_numpy(), grouped.size().to_numpy()
    means = frame.to_numpy().mean(axis=0, keepdims=True)
    tau, alike = float(tau_b(means, theirs)[0]), _products(means, theirs)[0]
    low = high = float("nan")
    if len(sizes) >= LEAST_CLUSTERS and not np.isnan(tau):
        draws = _draws(len(sizes))
        taus = np.nan_to_num(tau_b((draws @ sums) / (draws @ sizes)[:, None], theirs))
        low, high = (float(one) for one in np.quantile(taus, [0.025, 0.975], method="inverted_cdf"))
    from scipy.stats import kendalltau  # the import takes a quarter of a second, and few reports have an order

    chance = float(kendalltau(means[0], theirs, alternative="greater").pvalue)
    pairs = int((alike > 0).sum()), len(alike)
    return Order(len(methods), *pairs, len(frame), len(sizes), tau, low, high, chance)


def tables(papers: Sequence[tuple[Published, Sequence[Block]]], query: str, simulated: bool) -> list[Table]:
    """One table with a row per published table, part, metric, published model and model of ours; none without rows.

    Args:
        papers: published tables with their blocks.
        query: the query for our cases' values.
        simulated: whether any of our cells is from a simulated policy.
    """
    rows, values, breaks = list[list[str]](), list[dict[str, Any]](), set[int]()
    for published, beside in papers:
        for labels, found in _orders(published, beside):
            breaks |= {len(rows)} if rows and rows[-1][0] != labels[0] else set()
            rows.append([*labels, *_shown(found)])
            told = found._asdict() | {"verdict": found.verdict}
            values.append(dict(zip(_LABELS, labels, strict=True)) | told)
    if not rows:
        return []
    return [
        Table(
            name=NAME,
            section="Published: the order of methods",
            title="the order of methods, published and ours",
            by=texts(_LABELS),
            columns=texts(_FIGURES, len(_LABELS)),
            lines=rows,
            about=_CAPTION,
            values=pd.DataFrame(values),
            query=query,
            notes=[_PLANTED] * simulated,
            breaks=frozenset(breaks),
            reading=_reading([str(row["verdict"]) for row in values]),
        )
    ]


def _orders(published: Published, beside: Sequence[Block]) -> Iterator[tuple[list[str], Order]]:
    """Labels and order for each part, metric, published model and model of ours for which there are enough methods."""
    if published.against:
        return
    for part, data, blocks in _parts(published, beside):
        ours = dict.fromkeys(str(model) for block in blocks for model in block.cases["model"].unique())
        for name, metric in published.metrics.items():
            for theirs in published.models:
                for model in ours:
                    found = _compared(published, blocks, (name, metric), theirs, model)
                    if found:
                        yield [f"{published.paper} {published.table}", part, name, theirs, model, data], found


def _compared(
    table: Published, blocks: Sequence[Block], named: tuple[str, Metric], theirs: str, model: str
) -> Order | None:
    """The order of the methods that have both a published figure and cases of ours; None if these are too few."""
    methods, published = list["pd.Series[float]"](), list[float]()
    for block in blocks:
        figure, values = table.figure(block.row, theirs, named[0]), block.values(model, named[1])
        if figure is not None and len(values):
            methods.append(values)
            published.append(figure)
    return order(methods, published) if len(methods) >= LEAST_METHODS else None


def _parts(published: Published, beside: Sequence[Block]) -> Iterator[tuple[str, str, list[Block]]]:
    """Groups of rows that differ only in the method and share our data; each group as its labels, our data and blocks.

    If several of our settings belong next to a row, the setting without changes is used; if there is not exactly one
    such setting, the row is left out.
    """
    parts: dict[str, list[Block]] = {}
    for block in beside:
        if block.setting is not None:
            conditions = {
                **(published.conditions(block.row) or {}),
                **{f"cells {k}": v for k, v in block.row.cells.items()},
            }
            kept = {key: wanted for key, wanted in conditions.items() if key.partition(".")[0] not in _METHOD}
            data = [block.setting["dataset"], block.setting["robustness"]]
            parts.setdefault(json.dumps([sorted(kept.items()), data], default=str), []).append(block)
    for blocks in parts.values():
        one_each = _one_each(blocks)
        if len(one_each) >= LEAST_METHODS:
            setting = one_each[0].setting or {}
            robustness = f" / {setting['robustness']}" if setting["robustness"] != "none" else ""
            shared = [
                texts[0] for texts in zip(*(one.row.labels for one in one_each), strict=True) if len({*texts}) == 1
            ]
            yield ", ".join(shared) or "–", f"{setting['dataset']}{robustness}", one_each


def _one_each(blocks: Sequence[Block]) -> list[Block]:
    """One block for each row that has a single setting or, among several settings, a single plain setting."""
    several = Counter(tuple(block.row.labels) for block in blocks)
    plain = [block for block in blocks if _is_plain(block.setting or {})]
    of_plain = Counter(tuple(block.row.labels) for block in plain)
    return [
        block
        for block in blocks
        if several[tuple(block.row.labels)] == 1 or (of_plain[tuple(block.row.labels)] == 1 and block in plain)
    ]


def _is_plain(setting: Mapping[str, str]) -> bool:
    """Whether a setting's planner has no changes, and is not a variant of the paper's planner (`sampled/tooltree`)."""
    planner = setting["planner"].partition(" ")[0]
    return planner == name_of(planner) and "/" not in planner


def _products(ours: Floats, theirs: Floats) -> Floats:
    """For each row and pair of methods: 1 if `ours` and `theirs` have the same order, -1 if the reverse, 0 if tied."""
    return _pairs(ours) * _pairs(theirs[None])


def _pairs(values: Floats) -> Floats:
    """For each row and pair of columns: the sign of the difference, 0 if both are equal except for rounding."""
    first, second = np.triu_indices(values.shape[1], 1)
    one, other = values[:, first], values[:, second]
    apart = np.abs(one - other) > _ROUNDING * np.maximum(np.abs(one), np.abs(other))
    signs: Floats = np.sign(one - other) * apart
    return signs


@lru_cache(maxsize=8)
def _draws(clusters: int) -> NDArray[np.int64]:
    """The number of times that each cluster is drawn, shape (draws, clusters)."""
    return np.random.default_rng(SEED).multinomial(clusters, np.full(clusters, 1 / clusters), DRAWS)


def _shown(found: Order) -> list[str]:
    tau, chance = number(found.tau, "+.2f", missing=MISSING), number(found.by_chance, ".2f", missing=MISSING)
    interval = bounds(found.low, found.high, "+.2f", 1.0)
    counts = [f"{found.methods}", f"{found.alike} of {found.pairs}", f"{found.clusters:,}"]
    return [*counts, tau, interval, chance, found.verdict]


def _reading(verdicts: Sequence[str]) -> str:
    counts = Counter(verdicts)
    told = f"{counts[AGREES]} agree with the published order, {counts[DISAGREES]} disagree"
    return f"Of {len(verdicts)} orders, {told}, and {counts[UNKNOWN]} are undecided."
