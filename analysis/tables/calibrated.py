"""The calibration of settings: one row per setting, per bin of its reliability diagram, or per share handed over."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis import load
from analysis.load import SETTING, provenance, queries
from analysis.stats import calibration
from analysis.stats.calibration import Clusters, Numbers
from analysis.stats.intervals import CLUSTER, Interval, share
from analysis.tables.rates import Place
from grid import store

_Row = dict[str, Any]
_POINTS = 200  # maximum number of points of a drawn curve
_LEAST_KEPT = 20  # minimum number of decisions kept (or 5%, if more), because the error rate of fewer is noise


def table(decisions: pd.DataFrame) -> pd.DataFrame:
    """One row per setting with `known` decisions; figures with intervals have `_low` and `_high` (95%, over clusters).

    Columns: SETTING, `distribution`, `decisions`, `clusters`; `silent` and `unknown`, the numbers of decisions left out
    because they have no distribution or no reference; `accuracy`, the share of right choices; `confidence`, the mean
    confidence; `ece`, the expected calibration error in bins of equal width, with `_corrected`, `_noise` (the mean
    error of a calibrated distribution with the same number of decisions), `_low` and `_high`; `ece_masses`, the same in
    bins of equal mass; `brier`, the mean of (confidence − right)²; `brier_constant`, the same mean if every confidence
    were equal to the accuracy; `area`, the area under the risk-coverage curve; `area_perfect`, the area if all errors
    came last (in random order it is 1 − accuracy); `auroc`, the AUROC of entropy as a predictor of wrong choices.
    """
    return _by_setting(decisions, _row)


def reliability(decisions: pd.DataFrame) -> pd.DataFrame:
    """One row per setting and bin of equal width that has decisions.

    Columns: SETTING, `bin` (its number, from 0), `decisions`, `part` (their share of all decisions), `confidence`, and
    `accuracy` with bounds.
    """
    return _by_setting(decisions, _bins)


def handing_over(decisions: pd.DataFrame) -> pd.DataFrame:
    """One row per setting and share in `calibration.HANDED`.

    Columns: SETTING, `distribution`; `most`, this share; `above`, an entropy in nats; `handed`, the share of decisions
    above this entropy, which are handed over; `caught`, the share of all errors that these decisions contain; `error`,
    the error rate of the decisions that are kept, with bounds; `error_random` and `error_perfect`, this error rate for
    a random and for a perfect order.
    """
    return _by_setting(decisions, _handed)


def curves(decisions: pd.DataFrame) -> pd.DataFrame:
    """One row per setting and number of decisions kept: `handed` (share not kept), `error`, `error_perfect`.

    A setting has at most `_POINTS` of these numbers, and none that is too small (`_LEAST_KEPT`). Further columns:
    SETTING, `distribution`.
    """
    return _by_setting(decisions, _curve)


def known(decisions: pd.DataFrame) -> pd.DataFrame:
    """The decisions that have both a distribution and a reference."""
    return decisions.dropna(subset=["confidence", "entropy", "right"])


class _Setting(NamedTuple):
    """A setting's `known` decisions as arrays, with numbered clusters.

    `silent` counts the decisions without a distribution, and `unknown` the decisions without a reference.
    """

    place: _Row
    distribution: str
    right: Numbers
    confidence: Numbers
    entropy: Numbers
    cluster: npt.NDArray[np.intp]
    silent: int
    unknown: int

    @property
    def wrong(self) -> Numbers:
        """For each decision, 1 if the choice was wrong, else 0."""
        return 1 - self.right


def _by_setting(decisions: pd.DataFrame, rows: Callable[[_Setting], list[_Row]]) -> pd.DataFrame:
    return pd.DataFrame([own.place | row for own in _settings(decisions) for row in rows(own)])


def _settings(decisions: pd.DataFrame) -> Iterator[_Setting]:
    numbers = pd.factorize(decisions[CLUSTER], sort=True)[0]
    figures = [decisions[name].to_numpy(np.float64) for name in ("right", "confidence", "entropy")]
    there, silent = (np.asarray(part) for part in (~np.isnan(figures).any(axis=0), np.isnan(figures[1:]).any(axis=0)))
    levels = list[Hashable](SETTING)
    groups: Any = decisions.groupby(levels, sort=False, observed=True).indices
    for key, every in groups.items():
        own = every[there[every]]
        if len(own):
            place = dict(zip(SETTING, map(str, key), strict=True))
            left_out = int(silent[every].sum())
            right, confidence, entropy = (values[own] for values in figures)
            kind, unknown = str(decisions["distribution"].iloc[own[0]]), len(every) - len(own) - left_out
            yield _Setting(place, kind, right, confidence, entropy, numbers[own], left_out, unknown)


def _row(own: _Setting) -> list[_Row]:
    right, confidence, entropy, wrong, cluster = own.right, own.confidence, own.entropy, own.wrong, own.cluster
    decisions = pd.DataFrame({"right": right, "confidence": confidence, CLUSTER: cluster})
    row: _Row = {
        "distribution": own.distribution,
        "decisions": len(right),
        "clusters": len(pd.unique(cluster)),
        "silent": own.silent,
        "unknown": own.unknown,
        **_share(right, cluster).named("accuracy"),
        "confidence": confidence.mean(),
    }
    for name, bins in (("ece", calibration.equal_widths), ("ece_masses", calibration.equal_masses)):
        found = calibration.error(decisions, bins(confidence))
        row |= {name: found.plain, f"{name}_corrected": found.corrected, f"{name}_noise": found.noise,
                f"{name}_low": found.low, f"{name}_high": found.high}  # fmt: skip
    accuracy = float(right.mean())
    row |= {
        **_share((confidence - right) ** 2, cluster).named("brier"),
        "brier_constant": accuracy * (1 - accuracy),
        **_share(calibration.area(entropy, wrong), cluster).named("area"),
        "area_perfect": float(calibration.risks(entropy, wrong).perfect.mean()),
        **_separation(entropy, wrong, cluster).named("auroc"),
    }
    return [row]


def _bins(own: _Setting) -> list[_Row]:
    bins = calibration.equal_widths(own.confidence)
    rows = []
    for place in np.unique(bins):
        met = bins == place
        row = {
            "bin": int(place),
            "decisions": int(met.sum()),
            "part": met.mean(),
            "confidence": own.confidence[met].mean(),
        }
        rows.append(row | _share(own.right[met], own.cluster[met]).named("accuracy"))
    return rows


def _handed(own: _Setting) -> list[_Row]:
    wrong = own.wrong
    found = calibration.handed_over(own.entropy, wrong, own.cluster)
    return [
        {"distribution": own.distribution, "most": most, "above": one.above, "handed": one.share,
         "caught": one.caught, **one.error.named("error"), "error_random": wrong.mean(),
         "error_perfect": one.perfect}
        for most, one in zip(calibration.HANDED, found, strict=True)
    ]  # fmt: skip


def _curve(own: _Setting) -> list[_Row]:
    found = calibration.risks(own.entropy, own.wrong)
    count = len(own.right)
    fewest = min(count, max(_LEAST_KEPT, count // 20))
    places = np.unique(np.linspace(fewest - 1, count - 1, _POINTS).astype(int))
    return [
        {"distribution": own.distribution, "handed": 1 - (place + 1) / count,
         "error": found.kept[place], "error_perfect": found.perfect[place]}
        for place in places
    ]  # fmt: skip


def _separation(entropy: Numbers, wrong: Numbers, cluster: Clusters) -> Interval:
    """AUROC; it has no bounds if few clusters have errors (or right choices), and is NaN if no cluster has any.

    Student's degrees of freedom come from the number of clusters on which AUROC rests (`calibration.telling`). With the
    degrees of freedom of all clusters, only 90% of intervals would contain the truth.
    """
    values = calibration.over_clusters(calibration.separation(entropy, wrong), cluster)
    telling = calibration.telling(wrong, cluster)
    if telling < calibration.LEAST:
        return Interval(float(values.values.mean()), np.nan, np.nan)
    return share(values, degrees=telling - 1)


def _share(values: Numbers, cluster: Clusters) -> Interval:
    return share(calibration.over_clusters(values, cluster))


# First-pass decisions with a distribution over the options: confidence, entropy, and whether the choice was right.


EXACT = "exact choice"
"""The name of a distribution's source if the distribution consists of the model's own probabilities.

The only other source is votes; its name includes the planner's number of samples.
"""
_STEPS = ["cell_id", "branch", "step", "entropy", "reference_tool", "options"]
_QUERY = """SELECT {labels}, cluster, cell_id, step,
  coalesce('votes of ' || (config::VARCHAR->'planner'->>'samples'), '{exact}') AS distribution,
  round(entropy, 9) AS entropy, round(most, 9) AS confidence,
  [o.tool FOR o IN told IF o.probability = most][1] = reference_tool AS right
FROM e JOIN (SELECT cell_id, branch, step, entropy, reference_tool,
  [o FOR o IN options IF o.tool IS NOT NULL AND NOT isnan(o.probability)] AS told,
  list_max([o.probability FOR o IN told]) AS most FROM steps) USING (cell_id)
WHERE {where} AND branch = 0
QUALIFY count(entropy) OVER (PARTITION BY model, dataset, robustness, planner) > 0 ORDER BY ALL"""
"""If several options share the highest probability, the first of them counts as chosen.

Entropies and shares that differ only by rounding count as equal.
"""


class Decisions(NamedTuple):
    """The first-pass decisions of a model on a data set, from settings that recorded distributions.

    `rows` has the columns SETTING, `cell_id`, `cluster`, `step`, `distribution` (EXACT, or votes with their number),
    `confidence` (the probability of the most probable option, which counts as chosen), `entropy` in nats, and `right`
    (whether this option is the reference's, which may be that no tool is needed). `right` is NaN if no reference is
    known. `confidence` is NaN if the planner recorded no option with a probability, for example because no answer could
    be read. `query` is the query for the rows, and `told` is the text with which captions start.
    """

    root: Path
    place: Place
    rows: pd.DataFrame
    query: str
    told: str

    @property
    def measured(self) -> pd.DataFrame:
        """The result of `table` for these decisions."""
        return load.once(self.root, f"calibration {self.place}", lambda: table(self.rows), few=True)

    @property
    def handed_over(self) -> pd.DataFrame:
        """The result of `handing_over` for these decisions."""
        return load.once(self.root, f"handing over {self.place}", lambda: handing_over(self.rows), few=True)


def read(root: Path) -> list[Decisions]:
    """The decisions of each model and data set, if at least one of them can be judged.

    Raises:
        StoreError: the folder cannot be read.
    """

    def made() -> list[Decisions]:
        first = pc.field("branch") == 0
        if not store.read(root, "steps", ["cell_id"], first & pc.field("entropy").is_valid()).num_rows:
            return []
        steps = store.read(root, "steps", _STEPS, first)
        cells = load.episodes(root, [*provenance.SIMULATED_COLUMNS, "config"])
        return [_of(root, Place(model, dataset), own, steps) for model, dataset, own in load.places(cells)]

    return [own for own in load.once(root, "calibration", made) if len(known(own.rows))]


def _of(root: Path, place: Place, cells: pd.DataFrame, steps: pa.Table) -> Decisions:
    query = _QUERY.format(labels=queries.LABELLED, exact=EXACT, where=queries.place(*place))
    rows = queries.ask(cells, query, steps=steps).rows
    rows = rows.assign(right=rows["right"].astype("float64"))
    told = provenance.simulated_notice(cells[cells["cell_id"].isin(rows["cell_id"])])
    return Decisions(root, place, rows, queries.of_files(root, query), told)
