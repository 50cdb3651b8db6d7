"""The tables and the figure of a comparison of two runs, and the differences between the runs themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis.compare import runs
from analysis.compare.runs import DOWN, HOLM, LABELS, PARTS, UP, VERSIONS, Matched
from analysis.errors import AnalysisError
from analysis.load import provenance, spending, unknowns
from analysis.page.drawing import COLOURS, Drawing, svg_of
from analysis.page.table import (
    NONE,
    POINTS,
    Column,
    Table,
    bounded,
    bounds,
    count,
    label,
    marks,
    number,
    probability,
    texts,
)
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from grid.core.errors import one_line
from grid.core.untrusted import loads, shown

_PRINTED = 20
"""A terminal shows at most this number of rows of a list."""
_LEVEL = 0.05
_NAMED = 8  # maximum number of settings that a sentence names, and of differences that have a sentence
_CUT = 60  # maximum length of a value in a terminal, in characters
_RATES = (
    "success: % of the cases that both runs have, averaged over trials; B − A: paired difference in percentage "
    f"points; 95% interval: {intervals.TOLD}; *: the interval excludes 0; {intervals.ALIKE}"
)
_FLIPS = "a case flips if more than half of its trials succeed in one run and fewer than half in the other"
_SECONDS = "seconds: each case's own time, comparable only if both runs used the same machine"
_INTERVALS = "95% intervals by the delta method over clusters"


def compared_tables(matched: Matched, frame: pd.DataFrame) -> list[Table]:
    """A table for each model and dataset: success in both runs, the difference, flips, and the costs."""
    found = []
    for (model, dataset), own in frame.groupby(LABELS[:2], sort=False):
        found.append(_compared(f"{model} on {dataset}", own, matched.cases.query, len(frame)))
    return found


def _compared(place: str, own: pd.DataFrame, query: str, tests: int) -> Table:
    priced = bool(own["money"].notna().any())
    return Table(
        name=f"comparison {place}",
        title=f"{place}: A against B",
        by=LABELS[2:],
        columns=[
            count("cases"),
            count("clusters", printed=False),
            *(_share(f"success_{run}", run.upper()) for run in "ab"),
            Column("B − A", _difference),
            Column("95% interval", lambda row: bounds(row["difference_low"], row["difference_high"], POINTS)),
            Column("p holm", lambda row: probability(row[HOLM])),
            count(UP),
            count(DOWN),
            _ratio("tokens", "tokens B/A"),
            _ratio("seconds", "seconds B/A", printed=False),
            *[_ratio("money", "USD B/A")] * priced,
        ],
        values=own,
        query=query,
        about=f"{_RATES}; p holm: p value with Holm's correction over the {tests:,} compared settings; {UP}, {DOWN}: "
        f"cases that flipped to success and to failure; {_FLIPS}; {spending.TOLD}, B divided by A; "
        f"{_SECONDS}{'; USD: US dollars, all roles' * priced}; in brackets (only on the page): {_INTERVALS}",
        briefly="success: % of the cases that both runs have; B − A: in percentage points; *: the 95% interval over "
        f"clusters excludes 0; p holm: p with Holm's correction over the {tests:,} compared settings; {UP}, {DOWN}: "
        "cases that flipped; tokens: B / A",
        notes=list(_notes(own.to_dict("records"))),
        breaks=["robustness"],
        reading=reading(own),
    )


def _share(name: str, header: str) -> Column:
    return Column(header, lambda row: bounded(row, name), lambda row: number(row[name], scale=100))


def _difference(row: Mapping[Any, Any]) -> str:
    mark = marks(row["difference_low"], row["difference_high"]) or " "
    return NONE if pd.isna(row["difference"]) else f"{number(row['difference'], POINTS, 100)}{mark}"


def _ratio(name: str, header: str, printed: bool = True) -> Column:
    return Column(
        header, lambda row: bounded(row, name, ".2f", 1.0), lambda row: number(row[name], ".2f"), printed=printed
    )


def reading(frame: pd.DataFrame) -> str:
    """A sentence for each difference that is significant after Holm's correction, the largest of them first.

    At most `_NAMED` differences have a sentence. If no difference is significant, one sentence says so.
    """
    left = frame[frame[HOLM] < _LEVEL].sort_values("difference", key=abs, ascending=False)
    if left.empty:
        widest = frame["difference"].abs().max()
        most = "" if pd.isna(widest) else f"; the largest difference is {100 * widest:.1f} points"
        return f"No difference in success is significant after Holm's correction (p < {_LEVEL}){most}."
    return "\n".join(
        f"{row['planner']} ({row['robustness']}): success is {_points(row['difference'])} in B than in A "
        f"(Holm's p {'< 0.001' if row[HOLM] < 0.001 else f'= {row[HOLM]:.3f}'})."
        for row in left.to_dict("records")[:_NAMED]
    )


def _points(difference: float) -> str:
    return f"{100 * abs(difference):.1f} points {'higher' if difference > 0 else 'lower'}"


def _notes(rows: Iterable[Mapping[Any, Any]]) -> Iterable[str]:
    for row in rows:
        where = f"{row['planner']} ({row['robustness']})"
        if row["changed"]:
            yield (
                f"{where}: {row['changed']:,} of {row['cases']:,} cases have the same id but a different question or "
                "reference in the two runs, so the differences on these cases do not come from the runs alone"
            )
        if row["known"] < row["cases"]:
            yield (
                f"{where}: the success of {row['cases'] - row['known']:,} cases is not known in at least one of the "
                "runs"
            )
        if row["cells_a"] != row["cells_b"]:
            yield f"{where}: on the common cases A has {row['cells_a']:,} cells, and B has {row['cells_b']:,}"


def flips_table(matched: Matched) -> Table:
    """The cases that flipped; cases that flipped to failure come first."""
    cases, query = matched.cases
    flips = cases.loc[cases["flip"] != "", [*LABELS, "case_id", CLUSTER, "flip", "success_a", "success_b"]]
    flips = flips.sort_values(["flip", *LABELS, "case_id"], kind="stable", ignore_index=True)
    varying = [label for label in LABELS[:3] if cases[label].nunique() > 1]
    ups = int((flips["flip"] == UP).sum())
    return Table(
        name="flipped cases",
        title=f"cases that flipped: {len(flips) - ups:,} down, {ups:,} up",
        by=[*varying, "planner", label("case_id", "case"), "cluster", "flip"],
        columns=[Column("A → B", lambda row: f"{100 * row['success_a']:.0f} → {100 * row['success_b']:.0f}")],
        values=flips,
        query=query,
        about=f"{_FLIPS}; A → B: % of the case's trials that succeed in A and in B; cases that flipped to failure come "
        "first",
        notes=_more(len(flips)),
        breaks=frozenset({len(flips) - ups} - {0, len(flips)}),
        printed=_PRINTED,
    )


def changes_table(matched: Matched) -> Table:
    """The table of differences between the runs themselves: labels, configs, versions and code."""
    found = differing(matched)
    rows = [[str(value) for value in row] for row in found.itertuples(index=False)]
    by = [replace(one, brief=partial(_cut, place)) for place, one in enumerate(texts(["what", "A", "B", "settings"]))]
    return Table(
        name="what differs",
        title="differences between the runs: configs, versions and code",
        by=by,
        columns=[],
        values=found,
        query=matched.versions.query,
        about="config keys, versions and digests of code (`code of planner` and so on) that differ between the runs, "
        "with all values that the cells have; settings: the settings in which the values differ (all: every compared "
        "setting)",
        lines=rows,
        notes=_more(len(rows)) if rows else ["nothing differs: configs, versions and code are the same"],
        wraps=True,
        printed=_PRINTED,
    )


def _cut(place: int, row: Sequence[str]) -> str:
    text = row[place]
    return text if len(text) <= _CUT else f"{text[: _CUT - 3]}..."


def _more(rows: int) -> list[str]:
    return [f"a terminal shows the first {_PRINTED} of {rows:,} rows; the page and --tables FOLDER have all rows"] * (
        rows > _PRINTED
    )


def alone_lines(matched: Matched) -> list[str]:
    """A sentence for each run that has settings that are not compared."""
    return [
        f"Not compared, because only {name} has these settings or cases: {'; '.join(own[:_NAMED])}"
        + (f"; and {len(own) - _NAMED:,} more" if len(own) > _NAMED else "")
        + "."
        for name, own in zip("AB", matched.alone, strict=True)
        if own
    ]


# The differences between the runs themselves: keys of their configs, versions, and code.


COLUMNS = ["what", "a", "b", "settings"]
ALL = "all"
_NESTED = {"config": "", "code_parts": "code of "}
"""Map each column that holds JSON objects to the prefix that is put before the names in these objects."""
_ABSENT = "(not set)"
_DEEPEST = 8


def differing(matched: Matched) -> pd.DataFrame:
    """One row for each label, key or version that differs, with its values in both runs and the settings concerned.

    Columns: `what` (a label, a dotted key of the config, a column of versions, or `code of` a group), `a` and `b` (all
    values found in each run's cells, sorted), and `settings` (ALL, or the planners and robustness settings for which it
    differs).
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    made = matched.versions.rows
    for place, pair in enumerate(matched.pairs):
        with_it = made[made["pair"] == str(place)]
        values = [_values(with_it[with_it["run"] == run], pair.labels[side]) for side, run in enumerate("ab")]
        name = f"{pair.label('planner')} ({pair.label('robustness')})"
        for what in dict.fromkeys([*values[0], *values[1]]):
            a, b = (own.get(what, _ABSENT) for own in values)
            if a != b:
                found.setdefault((what, a, b), []).append(name)
    rows = [(*key, ALL if len(own) == len(matched.pairs) else ", ".join(own)) for key, own in found.items()]
    order = {what: place for place, what in enumerate([*PARTS, *VERSIONS])}
    rows.sort(key=lambda row: (order.get(row[0], len(order)), row))
    return pd.DataFrame(rows, columns=COLUMNS)


def _values(made: pd.DataFrame, labels: Mapping[str, str]) -> dict[str, str]:
    found = {part: labels[part] for part in PARTS}
    for column in VERSIONS:
        texts = sorted(map(str, made[column].dropna().unique()))
        if column in _NESTED:
            found |= _flat(texts, _NESTED[column])
        elif texts:
            found[column] = ", ".join(texts)
    return found


def _flat(texts: Sequence[str], before: str) -> dict[str, str]:
    """Map each dotted key of these JSON objects to its value, or to all its values if the objects disagree."""
    every: dict[str, dict[str, None]] = {}
    for text in texts:
        for key, value in _leaves(_object(text), _DEEPEST):
            every.setdefault(before + key, {})[json.dumps(value, ensure_ascii=False)] = None
    return {key: ", ".join(values) for key, values in every.items()}


def _object(text: str) -> dict[str, Any]:
    """The values of a JSON object by name; if the text is not a JSON object, the text itself, named `text`."""
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"text": text}


def _leaves(found: Mapping[str, Any], depth: int, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        if isinstance(value, dict) and value and depth:
            yield from _leaves(value, depth - 1, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


# The figure of a comparison: each setting's difference in success, with its interval.


_MOST = 60  # maximum number of settings in a figure
_DRAWINGS_CUT = 70


def compared_drawings(matched: Matched, frame: pd.DataFrame) -> list[Drawing]:
    """One figure of all known differences; no figure if no difference is known, or if there are too many to read."""
    known = frame[frame["difference"].notna()]
    if known.empty or len(known) > _MOST:
        return []
    return [
        Drawing(
            name="differences",
            title="difference in success, B − A",
            caption="in percentage points, paired over the cases that both runs have; bars: 95% intervals, "
            f"{intervals.TOLD}; filled markers: Holm's p < {_LEVEL}",
            svg=_differences(known),
            query=matched.cases.query,
        )
    ]


def _differences(known: pd.DataFrame) -> str:
    varying = [name for name in ("model", "dataset", "robustness") if known[name].nunique() > 1]

    def draw(axes: Sequence[Axes]) -> None:
        (axis,) = axes
        for place, row in enumerate(known.to_dict("records")):
            reach = np.nan_to_num(np.abs(np.array([row["difference_low"], row["difference_high"]]) - row["difference"]))
            filled = COLOURS[0] if row[HOLM] < _LEVEL else "white"
            axis.errorbar(100 * row["difference"], place, xerr=100 * reach[:, None], color=COLOURS[0], marker="o",
                          markersize=5, markerfacecolor=filled, capsize=3, linestyle="none")  # fmt: skip
        names = [" · ".join([row["planner"], *(row[name] for name in varying)]) for row in known.to_dict("records")]
        axis.set_yticks(range(len(known)), [shown(name[:_DRAWINGS_CUT]) for name in names])
        axis.set_ylim(len(known) - 0.5, -0.5)
        axis.axvline(0, color="#4d5560", linewidth=0.8)
        axis.set_xlabel("success, B − A, in percentage points")
        axis.grid(axis="x", alpha=0.3)

    return svg_of("differences", 1, 1, draw, width=8.0, height=1.0 + 0.3 * len(known))


# Everything that a comparison of two runs shows.


@dataclass(frozen=True)
class Comparison:
    """A comparison's title, its results in sentences, its tables and its figures."""

    title: str
    lines: list[str]
    tables: list[Table]
    drawings: list[Drawing]


def compare(first: Path, second: Path, unknown: unknowns.Unknown | None = None) -> Comparison:
    """Compare the run in `first` (A) with the run in `second` (B).

    `unknown` says how to count cells whose success is not known (`unknowns.counted`).

    Raises:
        AnalysisError: the two folders are the same, a folder is empty, or the runs share no setting or no case.
        ConfigError: `unknown` is not one of the allowed values.
        StoreError: a folder cannot be read.
    """
    if first.resolve() == second.resolve():
        raise AnalysisError(
            f"{one_line(first, 200)}: this folder is named twice; name two different runs to compare them"
        )
    with unknowns.counted(unknown):
        return _of_both(first, second)


def _of_both(first: Path, second: Path) -> Comparison:
    both = (runs.read(first), runs.read(second))
    matched = runs.matched(*both)
    frame = runs.compared(matched)
    kinds = provenance.kinds(pd.concat([provenance.kinds(run.cells) for run in both]))
    about = provenance.simulated_notice(kinds) + provenance.notice(kinds)
    found = [*compared_tables(matched, frame), flips_table(matched), changes_table(matched)]
    lines = [
        *(f"{name} is {run.root}. {provenance.headline(run.root)}" for name, run in zip("AB", both, strict=True)),
        *alone_lines(matched),
        *(f"{name}: {line}" for name, run in zip("AB", both, strict=True) for line in unknowns.warnings(run.cells)),
    ]
    return Comparison(
        title=f"{first.resolve().name} against {second.resolve().name}",
        lines=lines,
        tables=unknowns.noted(provenance.captioned(found, kinds)),
        drawings=[replace(one, caption=about + one.caption) for one in compared_drawings(matched, frame)],
    )
