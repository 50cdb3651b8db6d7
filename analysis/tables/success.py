"""The table of results: the rates of planners, and of baselines that need no model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from analysis.load import SETTING, answers, unknowns
from analysis.load.baselines import BY_FUNCTION, CEILING, CHANCE, CONSTANT, FIRST, NOTHING, OF_CASES, SOLVABLE, TRANSFER
from analysis.page.table import MISSING, Column, Row, Table, bounds, count, number
from analysis.stats import intervals
from analysis.tables.measures import Measure, known, measured
from analysis.tables.rates import LABELS, place_of

_INTERVAL = "95% interval"
_WITHOUT = "without a model"
"""A key that only rows of baselines have."""
_SEVERAL = 2
"""With at least this number of trials, the table also has the chances that any or all trials succeed."""
_MATCH = "tool match: of the steps that need a tool, the share in which the reference's tool was called"
_ACTION = "action acc.: share of the steps that rightly called a tool, or rightly called none"
_HEADERS = {"success": "success", "tool_match_rate": "tool match", "action_accuracy": "action acc."}
"""The headers of rates."""
_FAILED = "failed: cells that ended in an error"
_DEVIATIONS = "±: standard deviation over trials"
_PARTIAL = "cells: for an incomplete setting, shown as finished/planned"
_BASELINES = (
    f"{FIRST}: always calls the first tool that is offered; {CHANCE}: takes each option with equal probability; "
    "neither of these two needs a model or gives arguments that could succeed; "
    f"{CEILING}: is right whenever the reference's tool is offered"
)
_OF_SOLVABLE = "solvable: success on the solvable cases"
_SOLVABLE = f"{SOLVABLE}: share of cases whose needed arguments can all be found in what the planner sees"
_CONSTANTS = (
    f"{CONSTANT}: always gives the commonest answer to the training questions; {BY_FUNCTION}: is told the last "
    "function of the question's program and gives the commonest answer to the training questions whose programs end "
    "in that function; neither reads the question"
)
_ENDS = (
    f"{NOTHING}: ends without a call; {TRANSFER}: hands the user over to a person and does nothing else; neither asks "
    "a model"
)
_UNKNOWN = {
    unknowns.LEFT_OUT: "unknown: cells whose success is not known; they are left out of success",
    unknowns.FAILURE: "unknown: cells whose success is not known; they count as failures",
}
_BOUNDS = "bounds"
_BOUNDED = (
    f"{_BOUNDS}: success if all unknown cells had failed, and if all had succeeded; shown if more than "
    f"{100 * unknowns.MOST:.0f}% of the row's cells are unknown"
)
_UNREADABLE = "unreadable: share of the acting model's answers that could not be read"
_CUT = "cut: share of the acting model's answers that were cut off by a token limit or a filter"
_STOPPED = "stopped: cells whose budget (budget.*) was used up; they are scored on their best result by then"
_CLUSTERS = (
    "clusters: groups of cases that are not independent, such as cases of one domain; intervals are computed over "
    "clusters"
)
_MONEY = (
    "USD: cost per case in US dollars, summed over all roles, at the prices of their models; engines inside the task "
    "are free"
)


def table(results: pd.DataFrame, baselines: pd.DataFrame, cases: pd.DataFrame, query: str) -> Table:
    """Rates by planner and robustness for one model and dataset, with baselines below each robustness setting.

    Args:
        results: the rows of `rates.results` in their order, with `planned` cells and perhaps shares of `unreadable`
            answers.
        baselines: the baselines of this model and dataset.
        cases: the rows of `rates.by_case`.
        query: the query for these rows.
    """
    place = place_of(results)
    trials = int(cases["tried"].max())
    of_trials = _by_setting(cases, trials)
    lines: list[Row] = []
    for robustness, group in results.groupby("robustness", sort=False, observed=True):
        ran = group.to_dict("records")
        lines += [{**row, **of_trials.get((str(robustness), str(row["planner"])), {})} for row in ran]
        without = baselines[baselines["robustness"] == robustness]
        lines += [{**row, _WITHOUT: True} for row in without.to_dict("records")]
    shown = [name for name in OF_CASES if (baselines["planner"] == name).any()]
    without_model = _of_baselines(baselines, shown)
    return Table(
        name=f"results {place.model} {place.dataset}",
        title=place.title,
        by=LABELS,
        columns=_columns(results, trials),
        values=_joined(results, baselines),
        query=query,
        about="; ".join([f"in %; success: share of cases; its 95% interval: {intervals.SHARES}", *without_model]),
        briefly="; ".join([f"in %; success: share of cases; its 95% interval: {intervals.BRIEFLY}", *without_model]),
        lines=lines,
        notes=_notes(results),
        breaks=["robustness"],
    )


def _by_setting(cases: pd.DataFrame, trials: int) -> dict[tuple[str, str], Mapping[Any, Any]]:
    """For each robustness setting and planner, the row of `rates` over all trials; empty with fewer than two trials."""
    if trials < _SEVERAL:
        return {}
    frame = rates(cases, trials)
    return {(str(row["robustness"]), str(row["planner"])): row for row in frame.to_dict("records")}


def _of_baselines(baselines: pd.DataFrame, shown: Sequence[str]) -> list[str]:
    told = (
        [_BASELINES] * _has(baselines, FIRST) + [_SOLVABLE] * (SOLVABLE in shown) + [_CONSTANTS] * (CONSTANT in shown)
    )
    return told + [_ENDS] * bool({NOTHING, TRANSFER} & set(shown))


def _columns(results: pd.DataFrame, trials: int) -> list[Column]:
    """The columns for which any row has a value; a terminal leaves out more of them if there are more warnings."""
    partial = bool((results["cells"] < results["planned"]).any())
    unreadable_too, cut, stopped = (_many(results, share) for share in ("unreadable", "cut", "stopped"))
    bounded = bool(_bounded(results).any())
    warned = unreadable_too + cut + stopped + bounded  # columns that must be visible within a width of 100
    dropped = ("tool match", "USD", "failed", _INTERVAL)[: warned if warned < 2 else warned + partial]
    several = trials >= _SEVERAL
    together = {f"pass@{trials}": f"any_{trials}", f"pass^{trials}": f"all_{trials}"} if several else {}
    deviations = _DEVIATIONS * several
    found = [
        _of_all("cases", lambda row: f"{row['cases']:,}"),
        *[_column("clusters", lambda row: f"{row['clusters']:,}", _CLUSTERS)]
        * bool((results["clusters"] < results["cases"]).any()),
        _column("cells", _cells, _PARTIAL * partial, printed=partial),
        _column("failed", lambda row: f"{row['failed']:,}", _FAILED),
        *[_column("unreadable", _share_of("unreadable"), _UNREADABLE)] * unreadable_too,
        *[_column("cut", _share_of("cut"), _CUT)] * cut,
        *[_column("stopped", _share_of("stopped"), _STOPPED)] * stopped,
        *[_column("unknown", lambda row: f"{row['unknown']:,}", _UNKNOWN[unknowns.how_counted()])]
        * bool(results["unknown"].any()),
        _rate("success", deviations),
        *[_column(_BOUNDS, _left_open, _BOUNDED)] * bounded,
        _column(_INTERVAL, lambda row: bounds(row["success_low"], row["success_high"])),
        *[_column("solvable", _share_of("success_solvable"), _OF_SOLVABLE, printed=False)]
        * bool(results["success_solvable"].notna().any()),
        _rate("tool_match_rate", _MATCH),
        replace(_rate("action_accuracy", _ACTION), printed=False),
        *(_column(name, _share_of(key), brief(trials), printed=False) for name, key in together.items()),
        *[_column("USD", lambda row: number(row["money"], ",.6f"), _MONEY)]
        * bool((results["money"].fillna(0) > 0).any()),
    ]
    return [replace(column, printed=column.printed and column.header not in dropped) for column in found]


def _column(header: str, text: Callable[[Row], str], said: str = "", printed: bool = True) -> Column:
    """A column in which baselines without a model have no value."""
    return Column(header, lambda row: MISSING if _WITHOUT in row else text(row), printed=printed, said=said)


def _of_all(header: str, text: Callable[[Row], str]) -> Column:
    return Column(header, text)


def _share_of(name: str) -> Callable[[Row], str]:
    return lambda row: number(row.get(name, np.nan), scale=100)


def _rate(rate: str, said: str) -> Column:
    """A column of a rate's mean, with the deviation over trials if there is room."""

    def brief(row: Row) -> str:
        return number(row[f"{rate}_mean"], scale=100, missing=MISSING if _WITHOUT in row else "none")

    def text(row: Row) -> str:
        deviation = row.get(f"{rate}_std")
        return brief(row) + (f" ± {100 * deviation:.1f}" if _WITHOUT not in row and pd.notna(deviation) else "")

    return Column(_HEADERS[rate], text, brief, said=said, briefly="" if said == _DEVIATIONS else None)


def _cells(row: Row) -> str:
    done, planned = int(row["cells"]), int(row["planned"])
    return f"{done:,}/{planned:,}" if done < planned else f"{done:,}"


def _has(baselines: pd.DataFrame, name: str) -> bool:
    return any(str(label).startswith(name) for label in baselines["planner"])


def _many(results: pd.DataFrame, share: str) -> bool:
    """Whether any row's share is large enough for a column of its own."""
    return share in results and bool((results[share] > answers.MANY).any())


def _bounded(results: pd.DataFrame) -> pd.Series[bool]:
    """For each row, whether it has so many unknown cells that bounds of its success are shown."""
    known = results[unknowns.LEAST].notna() if unknowns.LEAST in results else pd.Series(False, index=results.index)
    return known & (results["unknown"] > unknowns.MOST * results["cells"])


def _left_open(row: Row) -> str:
    """A text with the two values that a row's success would have if all unknown cells failed or all succeeded."""
    if not row["unknown"] > unknowns.MOST * row["cells"]:
        return MISSING
    return bounds(row[unknowns.LEAST], row[unknowns.LARGEST])


def _joined(results: pd.DataFrame, baselines: pd.DataFrame) -> pd.DataFrame:
    """The values of the table, with the rows of planners and of baselines; counts stay whole numbers."""
    counts = ["cases", "clusters", "cells", "planned", "failed", "unknown"]
    texts = dict.fromkeys(SETTING, str)
    joined = pd.concat([results.astype(texts), baselines.astype(texts)], ignore_index=True)
    return joined.astype(dict.fromkeys(counts, "Int64")).drop(
        columns=["repeated", *(f"{rate}_repeated" for rate in _HEADERS)]
    )


def _notes(results: pd.DataFrame) -> list[str]:
    """Notes on settings that have no deviations because all their trials are equal, in all rates or in some."""
    found: dict[str, list[str]] = {}
    rows = results.to_dict("records")
    for row in rows:
        known = [rate for rate in _HEADERS if pd.notna(row[f"{rate}_mean"])]
        equal = [rate for rate in known if row[f"{rate}_repeated"]]
        of = "" if equal == known else f" of {' and '.join(_HEADERS[rate] for rate in equal)}"
        if equal:
            found.setdefault(of, []).append(f"{row['planner']} ({row['robustness']})")
    if len(found.get("", [])) == len(rows):
        return ["no ±, because in every setting all trials of a case gave equal results"]
    return [
        f"no ±{of} for settings in which all trials of a case gave equal {'values' if of else 'results'}: "
        f"{', '.join(labels)}"
        for of, labels in found.items()
    ]


# pass^k and pass@k: whether all of k trials of a case succeed (τ-bench, Yao et al. 2024), or at least one of them.


_LABELS = SETTING[2:]
_PRINTED = 4
"""Maximum k for which a terminal shows columns."""
_EVERY = 8
"""Each k up to this value has columns; above it, only 16, 32 and so on, and the number of trials, have columns."""
_CAPTION = (
    "in % of cases; for a case with c successes in n trials, pass^k is the chance that k trials, drawn without "
    "replacement, all succeed, C(c, k) / C(n, k) (τ-bench, Yao et al. 2024), and pass@k the chance that at least "
    "one of them succeeds, 1 − C(n − c, k) / C(n, k); pass^1 is the success rate over these cases; with more than "
    f"{_EVERY} trials, k is 1 to {_EVERY}, then 16, 32 and so on, and the number of trials; in brackets 95% intervals: "
    f"{intervals.SHARES}; for k above 1 the effective number of cases is at most their actual number if few cases "
    "are above 0% or few are below 100%"
)
_SHORT = (
    "% of cases; pass^k: k trials of a case, drawn from those that ran, all succeed (τ-bench, Yao et al. 2024); "
    "pass@k: at least one of the k trials succeeds; pass^1 is the success rate"
)


def brief(k: int) -> str:
    """The caption if only one k is shown."""
    return f"pass@{k}: at least one of {k} trials succeeds; pass^{k}: all do (% of cases with {k} known trials)"


def all_of(successes: int, trials: int, k: int) -> float:
    """pass^k of one case: C(c, k) / C(n, k), for 1 <= k <= n trials of which c succeeded."""
    return math.comb(successes, k) / math.comb(trials, k)


def any_of(successes: int, trials: int, k: int) -> float:
    """pass@k of one case: 1 − C(n − c, k) / C(n, k), for 1 <= k <= n trials of which c succeeded."""
    return 1 - all_of(trials - successes, trials, k)


def shown(most: int) -> list[int]:
    """The k that tables show: 1 to 8, then 16, 32 and so on, and `most` (13 numbers for 200 trials)."""
    doubled = (_EVERY << power for power in range(1, most.bit_length()))
    return [*range(1, min(most, _EVERY) + 1), *(k for k in doubled if k < most), *[most] * (most > _EVERY)]


def rates(cases: pd.DataFrame, most: int) -> pd.DataFrame:
    """One row per planner and robustness setting: each of `measures(most)` with `_low`, `_high` and `_cases`.

    Args:
        cases: the rows of `rates.by_case`, of one model and dataset.
        most: the largest k.

    A case with fewer than k known trials is left out of pass^k and pass@k; `_cases` counts the remaining cases. A
    figure is NaN if no case remains.
    """
    counts = cases[["won", "tried"]].astype(int).to_numpy()
    pairs, place = np.unique(counts, axis=0, return_inverse=True)
    columns = {
        f"{name}{k}": np.array([of(won, trials, k) if trials >= k else math.nan for won, trials in pairs.tolist()])
        for name, of in (("all_", all_of), ("any_", any_of))
        for k in shown(most)
    }
    values = pd.DataFrame({name: known[place.ravel()] for name, known in columns.items()}, index=cases.index)
    return measured(pd.concat([cases, values], axis=1), _LABELS, measures(most)).drop(columns="cells")


def measures(most: int) -> list[Measure]:
    """pass^1 to pass^most, then pass@2 to pass@most, for each k that is `shown`; pass@1 equals pass^1."""
    return [
        *(Measure(f"all_{k}", f"pass^{k}", "rare" if k > 1 else "share") for k in shown(most)),
        *(Measure(f"any_{k}", f"pass@{k}", "rare") for k in shown(most)[1:]),
    ]


def tables(cases: pd.DataFrame, query: str) -> list[Table]:
    """A table of one model and dataset from the rows of `rates.by_case`, if some case has two known trials or more."""
    most = int(cases["tried"].max())
    if most < _SEVERAL:
        return []
    (model, dataset), frame = place_of(cases), rates(cases, most)
    table = Table(
        name=f"pass^k {model} {dataset}",
        title=f"{model} on {dataset}: success of all of k trials (pass^k), or of at least one (pass@k)",
        by=_LABELS,
        columns=_trial_columns(frame, most),
        values=frame,
        query=query,
        about=_CAPTION,
        briefly=_SHORT,
        notes=_left_out(frame.to_dict("records"), most),
        breaks=["robustness"],
    )
    return [table]


def _trial_columns(frame: pd.DataFrame, most: int) -> list[Column]:
    """The columns of a table; a terminal shows only the columns for small k."""
    printed = {one.header for one in measures(_PRINTED)}
    figures = [one.shown(printed=one.header in printed) for one in known(frame, measures(most))]
    return [count("cases"), count("clusters", printed=False), *figures]


def _left_out(rows: Iterable[dict[Any, Any]], most: int) -> list[str]:
    """Notes on the number of cases that each row leaves out for each k."""
    found = []
    for row in rows:
        missing = {k: row["cases"] - row[f"all_{k}_cases"] for k in shown(most)}
        told = ", ".join(f"{count:,} at k = {k}" for k, count in missing.items() if count)
        if told:
            found.append(
                f"{row['planner']} ({row['robustness']}): of {row['cases']:,} cases, those with fewer than k known "
                f"trials are left out: {told}"
            )
    return found
