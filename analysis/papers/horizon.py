"""Comparisons of `fh` and `sh`, paired over cases, and their results in words (planning_horizon §4.2, §4.4, §4.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from analysis.page.table import changed, joined, shown_by
from analysis.stats.intervals import CLUSTER, interval, n_clusters, ratio, share

FH, SH = "fh", "sh"
HIGH, LOW = "tools_forgiving", "tools_strict"
"""The robustness settings that §4.4 calls high and low."""
PLACE = ["dataset", "model", "robustness"]
REPEATS = {"repeated_call": "any two", "repeated_call_in_a_row": "in a row"}
"""The columns for the two definitions of a repeated call (`grid.metrics.stepwise`), and their names in tables."""
_MEASURES = ["success", "input_tokens", "output_tokens"]


def folded(episodes: pd.DataFrame) -> pd.DataFrame:
    """The rows with plain planner names; changes of a planner (`sh[temperature=0]`) are added to the model's name."""
    labels = [str(label) for label in episodes["planner"].unique()]
    names = {label: re.split(r"\[| ", label)[0] for label in labels}
    changes = {label: label[len(names[label]) :].removeprefix(" / ") for label in labels}
    if not any(changes.values()):
        return episodes
    planner = episodes["planner"].astype(str)
    more = planner.map(changes)
    model = episodes["model"].astype(str)
    return episodes.assign(
        planner=planner.map(names).astype("category"),
        model=model.where(more == "", model + ", " + more).astype("category"),
    )


def accuracy_and_tokens(episodes: pd.DataFrame) -> pd.DataFrame:
    """Table 2: for each dataset, model and robustness, accuracy and mean tokens per case for FH and SH.

    Here and in the functions below, `episodes` are cells, or each case's means over its cells.

    Columns: `cases` that both planners have, and their `clusters`; `unpaired`, the number of remaining cases; each
    measure with `_fh` and `_sh`. `success_difference` (SH - FH), `input_tokens_ratio` and `output_tokens_ratio` (SH /
    FH) have a 95% interval, `_low` and `_high`; NaN if there is none.
    """
    rows = []
    for found, cases in _places(episodes, _MEASURES):
        found |= _difference("success", cases["success"])
        for name in _MEASURES[1:]:
            found |= ratio(cases[name][SH], cases[name][FH]).named(f"{name}_ratio")
        rows.append(found)
    return pd.DataFrame(rows)


def repeated_calls(episodes: pd.DataFrame) -> pd.DataFrame:
    """Table 5: the share of episodes with a repeated call, for FH and SH, by each of the two definitions in `REPEATS`.

    Columns as in `accuracy_and_tokens`, for each definition; the columns of FH and SH have intervals too.
    """
    rows = []
    for found, cases in _places(episodes, list(REPEATS)):
        for name in REPEATS:
            found |= _difference(name, cases[name])
            for planner in (FH, SH):
                own = share(cases[name][planner].astype(np.float64))
                found |= {f"{name}_{planner}_low": own.low, f"{name}_{planner}_high": own.high}
        rows.append(found)
    return pd.DataFrame(rows)


def robustness_change(episodes: pd.DataFrame) -> pd.DataFrame:
    """Table 4: accuracy under `LOW` minus accuracy under `HIGH`, for FH, SH, and SH minus FH, with 95% intervals.

    Columns: dataset, model, `cases` (with all four values), `clusters`, `change_fh`, `change_sh`, `change_difference`,
    each with `_low` and `_high`. A model and dataset that lack one of the two settings are left out. If no setting
    has one of these names without changes, the only setting that has it with changes
    (`tools_strict[similarity=embeddings]`) is used.
    """
    rows: list[dict[str, object]] = []
    for key, group in episodes.groupby(["dataset", "model"], sort=True, observed=True):
        labels = group["robustness"].astype(str)
        high, low = (only(sorted(labels.unique()), name) for name in (HIGH, LOW))
        own = group.assign(robustness=labels)[labels.isin([high, low])]
        means = own.groupby([CLUSTER, "case_id", "planner", "robustness"], observed=True)["success"].mean()
        wide = means.unstack(["planner", "robustness"]).reindex(
            columns=pd.MultiIndex.from_product([[FH, SH], [high, low]])
        )
        changes = {planner: wide[planner][low] - wide[planner][high] for planner in (FH, SH)}
        if all(change.isna().all() for change in changes.values()):
            continue
        found: dict[str, object] = dict(zip(["dataset", "model"], map(str, key), strict=True))
        found |= {"cases": len(wide.dropna()), "clusters": n_clusters(wide.dropna())}
        for planner, change in changes.items():
            found |= interval(change.dropna(), reach=1.0).named(f"change_{planner}")
        rows.append(found | interval((changes[SH] - changes[FH]).dropna(), reach=2.0).named("change_difference"))
    return pd.DataFrame(rows)


def only(labels: Sequence[str], name: str) -> str:
    """The only label that is `name` with changes, if `name` itself is not among the labels; otherwise `name`."""
    changed = [label for label in labels if label.startswith(f"{name}[")]
    return changed[0] if name not in labels and len(changed) == 1 else name


def _places(
    episodes: pd.DataFrame, measures: Sequence[str]
) -> Iterator[tuple[dict[str, object], dict[str, pd.DataFrame]]]:
    """For each place, the means of both planners, and for each measure a frame of its cases with a column per planner.

    Means are over the cases that both planners have, so that each difference equals the difference of the two means
    shown. If the planners have no case in common, each mean is over the planner's own cases, and there is no
    difference.
    """
    for key, group in episodes.groupby(PLACE, sort=True, observed=True):
        means = group.groupby([CLUSTER, "case_id", "planner"], observed=True)[list(measures)].mean()
        wide = cast(pd.DataFrame, means.unstack("planner")).reindex(
            columns=pd.MultiIndex.from_product([measures, [FH, SH]])
        )
        paired = wide.dropna()
        found: dict[str, object] = dict(zip(PLACE, map(str, key), strict=True))
        found |= {"cases": len(paired), "clusters": n_clusters(paired), "unpaired": len(wide) - len(paired)}
        shown = wide if paired.empty else paired
        for measure in measures:
            found |= {f"{measure}_{planner}": shown[measure][planner].mean() for planner in (FH, SH)}
        yield found, {measure: cast(pd.DataFrame, paired[measure]) for measure in measures}


def _difference(name: str, cases: pd.DataFrame) -> dict[str, object]:
    found = cases[SH].astype(np.float64) - cases[FH].astype(np.float64)
    return {**interval(found, reach=1.0).named(f"{name}_difference")}


# The study's tables in words, which are computed from the tables' numbers and claim no more than these show.
#
# A difference is called shown if its 95% interval excludes 0. Otherwise, the interval's ends say how large the
# difference may still be, because a difference that is not shown may still exist.


_EFFECTS = {
    "depth": ("deeper questions are solved less often", "deeper questions are solved more often"),
    "breadth": ("wider questions are solved less often", "wider questions are solved more often"),
    "depth:SH": ("with depth, SH loses more than FH", "with depth, SH loses less than FH"),
    "breadth:SH": ("with breadth, SH loses more than FH", "with breadth, SH loses less than FH"),
}
"""The meanings of a coefficient below 0 and above 0; they also hold for columns with `_edges` in their names."""


def accuracy(comparisons: pd.DataFrame) -> str:
    """Table 2 in words, from the rows of `accuracy_and_tokens`: which planner solves more, and at what cost."""
    parts = []
    for row in comparisons.to_dict("records"):
        verdict = _verdict(row, "success_difference", ("FH solves more questions", "SH solves more questions"))
        parts.append(f"{_place(row)}: {verdict}; {_cost(row)}")
    return joined(parts)


def robustness(changes: pd.DataFrame) -> str:
    """Table 4 in words, from the rows of `robustness_change`: the losses under strict tools, and who loses more."""
    parts = []
    for row in changes.to_dict("records"):
        told = [
            changed(row, f"change_{planner}", name, (f"{name} solves fewer", f"{name} solves more"))
            for planner, name in (("fh", "FH"), ("sh", "SH"))
        ]
        both = _verdict(row, "change_difference", ("SH loses more than FH", "SH loses less than FH"))
        parts.append(f"{_place(row)}, from {HIGH} to {LOW}: {'; '.join(told)}; {both}")
    return joined(parts)


def repeats(shares: pd.DataFrame) -> str:
    """Table 5 in words, from the rows of `repeated_calls`: which planner repeats calls more often."""
    parts = []
    for row in shares.to_dict("records"):
        told = [
            f"{name}: {_verdict(row, f'{column}_difference', ('FH repeats more often', 'SH repeats more often'))}"
            for column, name in REPEATS.items()
        ]
        parts.append(f"{_place(row)}: {'; '.join(told)}")
    return joined(parts)


def coefficients(found: pd.DataFrame, per: Sequence[str]) -> str:
    """The effects of a regression in words, from columns `per`, `name`, `coefficient`, `low`, `high`."""
    fits: dict[str, list[str]] = {}
    for row in found.to_dict("records"):
        name = str(row["name"]).replace("_edges", "")
        if name in _EFFECTS and not pd.isna(row["low"]):
            told = shown_by(row["low"], row["high"], _EFFECTS[name]) or "no effect is shown"
            bounds = f"{row['coefficient']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
            where = ", ".join(str(row[column]) for column in per) or "all rows"
            fits.setdefault(where, []).append(f"{row['name']} {bounds}: {told}")
    parts = [f"{where}: {'; '.join(told)}" for where, told in fits.items()]
    return joined(parts, sum(map(len, fits.values())))


def _verdict(row: Mapping[Any, Any], name: str, verdicts: tuple[str, str]) -> str:
    """SH minus FH in points, and the conclusion from it."""
    return changed(row, name, "SH − FH", verdicts, "no difference is shown")


def _cost(row: Mapping[Any, Any]) -> str:
    told = [
        f"{row[f'{column}_ratio']:.1f} times the {label} tokens of FH"
        for column, label in (("input_tokens", "input"), ("output_tokens", "output"))
        if not pd.isna(row[f"{column}_ratio"])
    ]
    return f"SH used {' and '.join(told)}" if told else "tokens cannot be compared"


def _place(row: Mapping[Any, Any]) -> str:
    return f"{row['dataset']}, {row['model']}"
