"""The planning-horizon study's comparisons of `fh` and `sh` (planning_horizon §4.2, §4.4, §4.5), paired over cases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import pandas as pd

from analysis.stats.intervals import CLUSTER, Interval, count, interval, ratio, share

FH, SH = "fh", "sh"
HIGH, LOW = "tools_forgiving", "tools_strict"
"""The robustness settings that §4.4 calls high and low."""
PLACE = ["dataset", "model", "robustness"]
REPEATS = {"repeated_call": "any two", "repeated_call_in_a_row": "in a row"}
"""The columns of both definitions of a repeated call (`grid.metrics.stepwise`), and what tables call them."""
_MEASURES = ["success", "input_tokens", "output_tokens"]


def folded(episodes: pd.DataFrame) -> pd.DataFrame:
    """The rows with planners by their plain names; what was changed in one (`sh[temperature=0]`) joins its model's."""
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
    """Table 2: for each dataset, model and robustness, accuracy and mean tokens a case for FH and SH.

    Columns: `cases` and their `clusters` (that both planners have; `unpaired` are other cases), each measure with
    `_fh` and `_sh`, `success_difference` (SH - FH) and `input_tokens_ratio`, `output_tokens_ratio` (SH / FH), each with
    `_low` and `_high`, its 95% interval; NaN where there is none.
    """
    rows = []
    for found, cases in _places(episodes, _MEASURES):
        found |= _difference("success", cases["success"])
        for name in _MEASURES[1:]:
            found |= _named(f"{name}_ratio", ratio(cases[name][SH], cases[name][FH]))
        rows.append(found)
    return pd.DataFrame(rows)


def repeated_calls(episodes: pd.DataFrame) -> pd.DataFrame:
    """Table 5: the share of episodes with a repeated call, for FH and SH, by both of `REPEATS`' definitions.

    Columns as in `accuracy_and_tokens`, of each definition; those of FH and SH have intervals too.
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
    """Table 4: accuracy under `LOW` less that under `HIGH`, for FH, SH, and SH less FH, with 95% intervals.

    Columns: dataset, model, `cases` (with all four values), `clusters`, `change_fh`, `change_sh`, `change_difference`,
    each with `_low` and `_high`. A model and dataset without both settings is left out; where one has no setting of
    just that name, the only one in which something was changed (`tools_strict[similarity=embeddings]`) takes its place.
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
        found |= {"cases": len(wide.dropna()), "clusters": count(wide.dropna())}
        for planner, change in changes.items():
            found |= _named(f"change_{planner}", interval(change.dropna(), reach=1.0))
        rows.append(found | _named("change_difference", interval((changes[SH] - changes[FH]).dropna(), reach=2.0)))
    return pd.DataFrame(rows)


def only(labels: Sequence[str], name: str) -> str:
    """Of settings' labels the name itself or, where that is not among them, the only one that begins with it."""
    changed = [label for label in labels if label.startswith(f"{name}[")]
    return changed[0] if name not in labels and len(changed) == 1 else name


def _places(
    episodes: pd.DataFrame, measures: Sequence[str]
) -> Iterator[tuple[dict[str, object], dict[str, pd.DataFrame]]]:
    """Each place's means by planner, and its cases: for each measure, a column for each planner.

    Means are over the cases that both planners have, so that a difference is that of what stands beside it.
    """
    for key, group in episodes.groupby(PLACE, sort=True, observed=True):
        means = group.groupby([CLUSTER, "case_id", "planner"], observed=True)[list(measures)].mean()
        wide = cast(pd.DataFrame, means.unstack("planner")).reindex(
            columns=pd.MultiIndex.from_product([measures, [FH, SH]])
        )
        paired = wide.dropna()
        found: dict[str, object] = dict(zip(PLACE, map(str, key), strict=True))
        found |= {"cases": len(paired), "clusters": count(paired), "unpaired": len(wide) - len(paired)}
        shown = wide if paired.empty else paired
        for measure in measures:
            found |= {f"{measure}_{planner}": shown[measure][planner].mean() for planner in (FH, SH)}
        yield found, {measure: cast(pd.DataFrame, paired[measure]) for measure in measures}


def _difference(name: str, cases: pd.DataFrame) -> dict[str, object]:
    found = cases[SH].astype(np.float64) - cases[FH].astype(np.float64)
    return _named(f"{name}_difference", interval(found, reach=1.0))


def _named(name: str, found: Interval) -> dict[str, object]:
    return {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
