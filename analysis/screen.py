"""The first screen after a sweep: engines, data, planners' success, losses from disturbances, and places of results.

The screen fits into 45 lines of 100 columns however many planners, data sets and disturbances there are. If it leaves
something out, it says how much; `analysis.report` shows everything.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from analysis import load
from analysis.load import answers, partial, provenance, spending, unknowns
from analysis.load.baselines import OF_CASES, baselines
from analysis.page.render import READABLE, wide
from analysis.page.table import marks
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from analysis.tables import rates
from analysis.tables.disturbances import change, corrected
from grid.core.errors import one_line
from grid.core.untrusted import shown

LINES = 45
"""Maximum number of lines of the screen, on a console with READABLE columns."""
_WARNINGS, _ROWS, _PLACES, _DISTURBANCES = 3, 18, 4, 3
"""Maximum numbers of warnings, rows, places and disturbances that are shown; the rest are only counted.

A place is a pair of a model and a data set.
"""
_NAME, _BAR = 26, 21
_WIDTHS = (_NAME, 7, _BAR, 24, 9, 6)
"""The widths of six columns: planner's name, success, drawn interval, difference, cost of a case, failed cells.

A longer planner's name gets its own line.
"""
_FURTHER = (
    *provenance.COLUMNS,
    *spending.SPENT,
    "money",
    *rates.PAIRED,
    rates.CHECKS,
    "n_messages",
    "budget_reached",
    *partial.CALLS,
    *OF_CASES.values(),
)
"""The further columns that the screen needs; no others are read, because there may be a million episodes."""
_CAPTION = f"success: % of cases (●), with its 95% interval (├ ┤) {intervals.BRIEFLY}"
_LESS = (
    "minus {}: percentage points on the cases that both ran (*: the 95% interval excludes 0, †: also after "
    "Holm's correction); "
)
_FAILED = "failed: cells that ended in an error"
_ASKS = " (asks)"
_ASKED = "(asks): planners that may ask the world whether a case is resolved"
_TOKENS, _MONEY = (
    "tokens: input and output of planner, judge and critic, per run of a case",
    "USD: cost of all roles, per run of a case",
)


def print_screen(root: Path, console: Console) -> None:
    """Print the screen: at most `LINES` lines if the console has `READABLE` columns.

    Raises:
        StoreError: the folder cannot be read.
    """
    console = wide(console, READABLE)
    cells = load.episodes(root, _FURTHER, names=load.FEW)
    if cells.empty:
        console.print(shown(f"{provenance.EMPTY}: {root}"), markup=False)
        return
    for line in _head(root, cells):
        console.print(shown(line), markup=False)
    console.print()
    cases, settings = rates.by_case(cells).rows, rates.by_setting(cells).rows
    for text in _success(root, cells, rates.ranked(rates.rated(settings, cases)), cases):
        console.print(text)
    console.print()
    for line in _lost(cases):
        console.print(shown(line), markup=False)
    for line in _places(root):
        console.print(shown(line), soft_wrap=True, markup=False)  # so that paths can be copied


def _head(root: Path, cells: pd.DataFrame) -> list[str]:
    """A sentence on engines and data, and the warnings that a reader has to know before reading the figures."""
    skipped = [line.partition(" (")[0] for line in partial.skipped(root).values()]
    warned = [
        *provenance.unsent(cells), *partial.lines(partial.planned(root, cells)), *answers.unreadable(root, cells),
        *partial.stopped(cells), *partial.failing(cells), *unknowns.warnings(cells), *answers.served(root), *skipped,
    ]  # fmt: skip
    more = [f"and {len(warned) - _WARNINGS:,} further warnings, shown by: agent-grid report {root}"]
    lines = [_briefly(line, 2 * READABLE) for line in warned[:_WARNINGS]]
    return [_briefly(provenance.first_line(cells), 3 * READABLE), *lines, *more * (len(warned) > _WARNINGS)]


def _briefly(text: str, most: int) -> str:
    """A text on one line; if longer than `most` characters, it is cut at the end of a sentence, clause or word."""
    flat = " ".join(text.split())
    if len(flat) <= most:
        return one_line(flat)
    kept = flat[: most - len(" ...")]
    ends = [kept.rfind(mark) for mark in (". ", "; ", " (", " ")]
    end = next((end for end in ends if end > most // 3), len(kept))
    return one_line(f"{kept[:end]} ...")


def _success(root: Path, cells: pd.DataFrame, settings: pd.DataFrame, cases: pd.DataFrame) -> Iterator[Text]:
    """The success of undisturbed settings by place: first the reference, then the other planners, best first."""
    places = list(cells.groupby(["model", "dataset"], sort=False, observed=True))
    most = _ROWS // len(places[:_PLACES]) - 2
    priced = bool((cells["money"].fillna(0) > 0).any())
    reference = _reference(cells)
    cost, scale = ("USD" if priced else "tokens"), "0%" + "100%".rjust(_BAR - 2)
    long = max(len(shown(str(planner))) for planner in cells["planner"].unique()) > _NAME - 2
    most = most // 2 if long else most
    yield Text(
        _row(["planner", "success", scale, f"minus {reference}" if reference else "", cost, "failed"]), style="bold"
    )
    more = 0
    for (model, dataset), own in places[:_PLACES]:
        plain = own[own["robustness"] == own["robustness"].iloc[0]]  # undisturbed cells come first
        here, robustness = {"model": model, "dataset": dataset}, str(plain["robustness"].iloc[0])
        results, own_cases = (frame[(frame[[*here]] == pd.Series(here)).all(axis=1)] for frame in (settings, cases))
        less = _less(own_cases, reference, robustness)
        results, own_cases = (frame[frame["robustness"] == robustness] for frame in (results, own_cases))
        yield Text(shown(_heading(f"{model} on {dataset}", plain, own_cases[CLUSTER].nunique())))
        more += max(len(results) - most, 0)
        yield from map(Text, _planners(own_cases, results.head(most), less, priced))
        if told := _without_model(root, plain):
            yield Text(shown(told))
    if more:
        yield Text(f"and {more:,} more rows: agent-grid report {root}", style="dim")
    if len(places) > _PLACES:
        yield Text(f"and {len(places) - _PLACES:,} more pairs of a model and a data set", style="dim")
    minus = _LESS.format(reference) if reference else ""
    said = [f"{_CAPTION}; {minus}{_MONEY if priced else _TOKENS}", _FAILED, *[_ASKED] * bool(_asking(cells))]
    yield Text("; ".join(said), style="dim")


def _reference(cells: pd.DataFrame) -> str:
    """The planner with which all others are compared; an empty text if none is suitable, or if only one planner ran.

    It is `rates.REFERENCE`, or else the first planner in alphabetical order that ran in only one form (not, for
    example, as `react` and as `react[temperature=0]`).
    """
    if cells["planner"].nunique() < 2:
        return ""
    forms = Counter(load.name_of(str(planner)) for planner in cells["planner"].unique())
    alone = sorted(name for name, count in forms.items() if count == 1)
    return rates.REFERENCE if rates.REFERENCE in forms else next(iter(alone), "")


def _heading(place: str, plain: pd.DataFrame, clusters: int) -> str:
    robustness = str(plain["robustness"].iloc[0])
    disturbed = "undisturbed" if robustness == load.UNCHANGED else one_line(robustness, _NAME)
    trials, count = plain["trial"].nunique(), plain["case_id"].nunique()
    told = f"{count:,} cases" + f" in {clusters:,} cluster{'s' * (clusters > 1)}" * (clusters < count)
    told += f" x {trials:,} trials" * (trials > 1)
    return f"{one_line(place, 2 * _NAME)}, {disturbed}, {told}"


def _without_model(root: Path, plain: pd.DataFrame) -> str:
    """The success of the baselines that need no model; an empty text if no such baseline has a success rate."""
    known = [
        f"{row['planner']} {100 * row['success_mean']:.1f}"
        for row in baselines(root, plain).to_dict("records")
        if pd.notna(row["success_mean"])
    ]
    return _fitting("  without a model: ", known) if known else ""


def _planners(cases: pd.DataFrame, results: pd.DataFrame, less: Mapping[str, str], priced: bool) -> Iterator[str]:
    """A line for each setting; two lines if its planner's name is long. `less`: the result of `_less`."""
    cost = "money" if priced else "tokens"
    costs = cases.groupby("planner", observed=True)[cost].mean()
    asked = _asking(cases)
    for row in results.to_dict("records"):
        planner, success = str(row["planner"]), float(row["success_mean"])
        spent = float(costs.get(planner, math.nan))
        name = f"  {shown(planner)}{_ASKS * (planner in asked)}"
        if cell_len(name) > _NAME:
            yield set_cell_size(name, READABLE).rstrip()
            name = ""
        yield _row([
            name,
            "none" if math.isnan(success) else f"{100 * success:.1f}",
            bar(success, row["success_low"], row["success_high"]),
            less.get(planner, ""),
            "" if math.isnan(spent) else format(spent, ",.6f" if priced else ",.0f"),
            f"{row['failed']:,}",
        ])  # fmt: skip


def _asking(cells: pd.DataFrame) -> set[str]:
    """The planners that asked, in at least one case, whether the case was resolved; others are not allowed to ask."""
    asked = cells["planner"][cells[rates.CHECKS].fillna(0) > 0]
    return set(map(str, asked.unique()))


def _row(texts: Sequence[str]) -> str:
    """Texts in their columns: the name and the drawn interval are left-aligned, the others right-aligned."""
    found = []
    for number, (text, width) in enumerate(zip(texts, _WIDTHS, strict=True)):
        free = max(width - cell_len(text), 0)
        found.append(set_cell_size(text if number in (0, 2) else " " * free + text, width))
    return " ".join(found).rstrip()


def _less(cases: pd.DataFrame, reference: str, robustness: str) -> dict[str, str]:
    """Map each planner to the text of the difference between its success and the reference's, under one setting.

    `cases` are those of all settings: Holm's correction is over all differences, as in the report's table.
    """
    paired = rates.compared(cases, reference) if reference else pd.DataFrame()
    if paired.empty:
        return {}
    rows = rates.corrected(paired).query("robustness == @robustness").to_dict("records")
    return {str(row["planner"]): " ".join(rates.marked(row, "success")) for row in rows}


def bar(mean: float, low: float, high: float) -> str:
    """A mean and its interval, drawn from 0 to 1 in `_BAR` columns; only the mean if it has no bounds."""
    if math.isnan(mean):
        return ""
    drawn = [" "] * _BAR
    if not math.isnan(low):
        first, last = _column(low), _column(high)
        drawn[first : last + 1] = "─" * (last + 1 - first)
        drawn[first], drawn[last] = "├", "┤"
    drawn[_column(mean)] = "●"
    return "".join(drawn)


def _column(share: float) -> int:
    return round(share * (_BAR - 1))


def _lost(cases: pd.DataFrame) -> Iterator[str]:
    """A line for each disturbance with the change in each planner's success, largest loss first.

    A disturbed setting is compared with the setting whose success is shown above; that setting is undisturbed if any
    undisturbed setting ran.
    """
    lines = []
    places = list(cases.groupby(["model", "dataset"], sort=False, observed=True))
    for (model, dataset), own in places:
        above = own["robustness"].iloc[0]
        before = _by_case(own[own["robustness"] == above])
        place = f"{model} on {dataset}, " if len(places) > 1 else ""
        rows: list[dict[str, Any]] = []
        for robustness, part in own[own["robustness"] != above].groupby("robustness", sort=False, observed=True):
            after = (_by_case(part) - before).dropna().groupby(level="planner", observed=True, sort=False)
            rows += [
                {"robustness": str(robustness), "planner": str(planner), **change(values.droplevel("planner"))}
                for planner, values in after
            ]
        for robustness, part in corrected(rows).groupby("robustness", sort=False) if rows else ():
            told = _changes(part)
            lines.append(_fitting(f"  {one_line(place + str(robustness), 2 * _NAME)}: ", told))
    if lines:
        yield "change in success under disturbances, in points, largest loss first (*, †: as above; see the report):"
        yield from lines[:_DISTURBANCES]
        if len(lines) > _DISTURBANCES:
            yield f"  and {len(lines) - _DISTURBANCES:,} more"
        yield ""


def _by_case(cases: pd.DataFrame) -> pd.Series[float]:
    return cases.set_index(["planner", CLUSTER, "case_id"])["success"].dropna()


def _changes(rows: pd.DataFrame) -> list[str]:
    """The text of each planner's change under one disturbance (rows as in `disturbances`), largest loss first."""
    found = rows.dropna(subset=["difference"]).sort_values(["difference", "planner"], kind="stable")
    return [
        f"{one_line(row['planner'], _NAME)} {round(100 * row['difference'], 1) + 0.0:+.1f}"
        f"{marks(row['low'], row['high'], row['holm'], level=intervals.LEVEL)}"
        for row in found.to_dict("records")
    ]


def _fitting(start: str, told: Sequence[str]) -> str:
    """A line with as many texts as fit, then the number of remaining texts."""
    for count in range(len(told), 0, -1):
        rest = f", and {len(told) - count:,} more" * (count < len(told))
        line = start + ", ".join(told[:count]) + rest
        if len(line) <= READABLE:
            return line
    return start + f"{len(told):,} planners"


def _places(root: Path) -> list[str]:
    """Lines that say where all further results are."""
    return [
        f"all tables, and a page with figures: agent-grid report {root}",
        f"episodes, step by step: agent-grid view {root}",
        f"results: {root} (episodes/*.parquet: a row per cell; steps/*.parquet: a row per decision)",
    ]
