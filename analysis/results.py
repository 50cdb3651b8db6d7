"""The table of results: rates of planners, and beside them those of what needs no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import intervals, pass_k, queries, tables, unknowns, unreadable
from analysis.baselines import BY_FUNCTION, CEILING, CHANCE, CONSTANT, FIRST, NOTHING, OF_CASES, SOLVABLE, TRANSFER
from analysis.load import SETTING
from analysis.render import Sheet
from analysis.sheets import LABELS, figure, place_of

_NOT_DEFINED = "–"
_INTERVAL = "95% interval"
_SEVERAL = 2
"""Trials of which it is told whether any succeeds, and whether all do."""
_MATCH = "tool match: of the steps that need a tool, those with the reference's"
_ACTION = "action acc.: steps that rightly called a tool, or rightly called none"
_FAILED = "failed: cells that ended in an error"
_DEVIATIONS = "±: standard deviation over trials"
_PARTIAL = "cells: of a setting that is not complete, those done/those planned"
_BASELINES = (
    f"{FIRST}: always calls the first tool that is offered; {CHANCE}: takes any option with the same probability; both "
    "need no model, and give no arguments that could succeed; "
    f"{CEILING}: right wherever the reference's tool is offered"
)
_OF_SOLVABLE = "solvable: success on the solvable cases"
_SOLVABLE = f"{SOLVABLE}: the share of cases whose arguments all follow from what a planner sees"
_CONSTANTS = (
    f"{CONSTANT}: the commonest answer of the training questions; {BY_FUNCTION}: the commonest of those whose program "
    "ends in the same function, which it is told; neither reads the question"
)
_ENDS = (
    f"{NOTHING}: ends without a call; {TRANSFER}: hands the user over to a person and does nothing else; neither asks "
    "a model"
)
_UNKNOWN = {
    unknowns.LEFT_OUT: "unknown: cells of which nobody can tell whether they succeeded; success leaves them out",
    unknowns.FAILURE: "unknown: cells of which nobody can tell whether they succeeded; they count as failures",
}
_BOUNDS = "bounds"
_BOUNDED = (
    f"{_BOUNDS}: success if all unknown cells failed, and if all succeeded, where they are more than "
    f"{100 * unknowns.MOST:.0f}% of the row's cells"
)
_UNREADABLE = "unreadable: answers of the acting model that could not be read"
_CUT = "cut: answers that a limit on tokens, or a filter, ended"
_MONEY = "USD: US dollars per case, all roles together, by their models' prices; engines that run in the task are free"


def sheet(root: Path, results: pd.DataFrame, baselines: pd.DataFrame, cases: pd.DataFrame) -> Sheet:
    """Rates of planner x robustness for one model and dataset, under each robustness setting the baselines.

    Args:
        root: the results folder.
        results: the rows of `tables.results` in their order, with `planned` cells.
        baselines: those of this model and dataset.
        cases: their trials and successes (`pass_k.by_case`).
    """
    place = place_of(results)
    columns = _Columns.of(results, int(cases["trials"].max()))
    of_trials = _by_setting(cases, columns.trials)
    rows: list[list[str]] = []
    printed: list[list[str]] = []
    breaks: set[int] = set()
    for robustness, group in results.groupby("robustness", sort=False, observed=True):
        breaks.add(len(rows))
        for row in group.to_dict("records"):
            own = of_trials.get((str(robustness), str(row["planner"])), {})
            rows.append(columns.row(row, own, brief=False))
            printed.append(columns.row(row, own, brief=True))
        without = [columns.baseline(row) for row in baselines[baselines["robustness"] == robustness].to_dict("records")]
        rows += without
        printed += without
    shown = [name for name in OF_CASES if (baselines["planner"] == name).any()]
    without_model = _of_baselines(baselines, shown)
    return Sheet(
        name=f"results {place.model} {place.dataset}",
        title=place.title,
        caption="; ".join([columns.told(brief=False), *without_model]),
        short="; ".join([columns.told(brief=True), *without_model]),
        labels=LABELS,
        figures=columns.figures,
        rows=rows,
        printed=printed,
        unprinted=columns.unprinted,
        values=_joined(results, baselines),
        query=queries.results(root, *place, *["retrieval"] * _has(baselines, FIRST), *shown),
        notes=_notes(results),
        breaks=frozenset(breaks - {0}),
    )


def _by_setting(cases: pd.DataFrame, trials: int) -> dict[tuple[str, str], Mapping[Any, Any]]:
    """What is known of all trials of cases, by robustness setting and planner; nothing of single trials."""
    if trials < _SEVERAL:
        return {}
    table = pass_k.rates(cases, trials)
    return {(str(row["robustness"]), str(row["planner"])): row for row in table.to_dict("records")}


def _of_baselines(baselines: pd.DataFrame, shown: Sequence[str]) -> list[str]:
    told = (
        [_BASELINES] * _has(baselines, FIRST) + [_SOLVABLE] * (SOLVABLE in shown) + [_CONSTANTS] * (CONSTANT in shown)
    )
    return told + [_ENDS] * bool({NOTHING, TRANSFER} & set(shown))


@dataclass(frozen=True)
class _Columns:
    """The columns of a results table: which there are, and what stands in them."""

    partial: bool
    unknown: bool
    bounded: bool
    unreadable: bool
    cut: bool
    solvable: bool
    priced: bool
    trials: int

    @classmethod
    def of(cls, results: pd.DataFrame, trials: int) -> _Columns:
        """Those that some row has something for."""
        return cls(
            partial=bool((results["cells"] < results["planned"]).any()),
            unknown=bool(results["unknown"].any()),
            bounded=bool(_bounded(results).any()),
            unreadable=_many(results, "unreadable"),
            cut=_many(results, "cut"),
            solvable=bool(results["success_solvable"].notna().any()),
            priced=bool((results["money"].fillna(0) > 0).any()),
            trials=trials,
        )

    @property
    def _together(self) -> list[str]:
        return [f"pass@{self.trials}", f"pass^{self.trials}"] * (self.trials >= _SEVERAL)

    @property
    def figures(self) -> list[str]:
        """Their headers."""
        return [
            "cases", "cells", "failed", *["unreadable"] * self.unreadable, *["cut"] * self.cut,
            *["unknown"] * self.unknown, "success", *[_BOUNDS] * self.bounded, _INTERVAL,
            *["solvable"] * self.solvable, "tool match", "action acc.", *self._together, *["USD"] * self.priced,
        ]  # fmt: skip

    @property
    def unprinted(self) -> frozenset[str]:
        """Those that a terminal leaves out."""
        left_out = {"solvable", "action acc.", *self._together} | ({"cells"} if not self.partial else set())
        warned = self.unreadable + self.cut + self.bounded  # what there is to be seen first, in 100 columns
        dropped = warned if warned < 2 else warned + self.partial
        return frozenset([*left_out, *("tool match", "USD", "failed", _INTERVAL)[:dropped]])

    def row(self, row: Mapping[Any, Any], of_trials: Mapping[Any, Any], brief: bool) -> list[str]:
        """A setting's texts; `brief` ones have no deviations."""
        success, match, action = (
            _rate(row[f"{rate}_mean"], np.nan if brief else row[f"{rate}_std"]) for rate in tables.RATES
        )
        done, planned = int(row["cells"]), int(row["planned"])
        together = [figure(of_trials.get(f"{name}_{self.trials}", np.nan)) for name in ("any", "all")]
        return [
            *(str(row[name]) for name in LABELS),
            f"{row['cases']:,}",
            f"{done:,}/{planned:,}" if done < planned else f"{done:,}",
            f"{row['failed']:,}",
            *[figure(row.get("unreadable", np.nan))] * self.unreadable,
            *[figure(row.get("cut", np.nan))] * self.cut,
            *[f"{row['unknown']:,}"] * self.unknown,
            success,
            *[_left_open(row)] * self.bounded,
            _bounds(row["success_low"], row["success_high"]),
            *[figure(row["success_solvable"])] * self.solvable,
            match,
            action,
            *together[: len(self._together)],
            *[figure(row["money"], ",.6f")] * self.priced,
        ]

    def baseline(self, row: Mapping[Any, Any]) -> list[str]:
        """The texts of what needs no model."""
        success, match, action = (figure(row[f"{rate}_mean"], missing=_NOT_DEFINED) for rate in tables.RATES)
        known = {"cases": f"{row['cases']:,}", "success": success, "tool match": match, "action acc.": action}
        return [*(str(row[name]) for name in LABELS), *(known.get(name, _NOT_DEFINED) for name in self.figures)]

    def told(self, brief: bool) -> str:
        """What a caption says of them; a `brief` one of those that a terminal shows."""
        several = self.trials >= _SEVERAL
        told = [
            f"in %; success: of cases; its 95% interval: {intervals.BRIEFLY if brief else intervals.SHARES}",
            _MATCH,
            *[_ACTION] * (not brief),
            _FAILED,
            *[_PARTIAL] * self.partial,
            *[_DEVIATIONS, pass_k.brief(self.trials)] * (several and not brief),
            *[_OF_SOLVABLE] * (self.solvable and not brief),
            *[_UNREADABLE] * self.unreadable,
            *[_CUT] * self.cut,
            *[_UNKNOWN[unknowns.how_counted()]] * self.unknown,
            *[_BOUNDED] * self.bounded,
            *[_MONEY] * self.priced,
        ]
        return "; ".join(told)


def _has(baselines: pd.DataFrame, name: str) -> bool:
    return any(str(label).startswith(name) for label in baselines["planner"])


def _many(results: pd.DataFrame, share: str) -> bool:
    """Whether any row's share has a column of its own."""
    return share in results and bool((results[share] > unreadable.MANY).any())


def _bounded(results: pd.DataFrame) -> pd.Series[bool]:
    """Which rows have so many unknown cells that what they leave open is told."""
    known = results[unknowns.LEAST].notna() if unknowns.LEAST in results else pd.Series(False, index=results.index)
    return known & (results["unknown"] > unknowns.MOST * results["cells"])


def _left_open(row: Mapping[Any, Any]) -> str:
    """What success is if all unknown cells failed, and if all succeeded."""
    if not row["unknown"] > unknowns.MOST * row["cells"]:
        return _NOT_DEFINED
    return _bounds(row[unknowns.LEAST], row[unknowns.LARGEST])


def _rate(mean: float, deviation: float) -> str:
    return figure(mean) + (f" ± {100 * deviation:.1f}" if pd.notna(deviation) else "")


def _bounds(low: float, high: float) -> str:
    return "none" if pd.isna(low) else f"[{100 * low:.1f}, {100 * high:.1f}]"


def _joined(results: pd.DataFrame, baselines: pd.DataFrame) -> pd.DataFrame:
    """All rows of a table's values; counts stay whole numbers."""
    counts = ["cases", "clusters", "cells", "planned", "failed", "unknown"]
    texts = dict.fromkeys(SETTING, str)
    joined = pd.concat([results.astype(texts), baselines.astype(texts)], ignore_index=True)
    return joined.astype(dict.fromkeys(counts, "Int64")).drop(columns="repeated")


def _notes(results: pd.DataFrame) -> list[str]:
    """What is not shown, and why: deviations over trials that are all equal."""
    repeated = results[results["repeated"]]
    if len(repeated) == len(results):
        return ["no ±: in every setting all trials are equal, case by case"]
    labels = [f"{planner} ({robustness})" for robustness, planner in repeated[LABELS].itertuples(index=False)]
    return [f"no ± where all trials are equal, case by case: {', '.join(labels)}"] if labels else []
