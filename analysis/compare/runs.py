"""Two results folders, and which of their settings are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from analysis.errors import AnalysisError
from analysis.load import queries, spending, unknowns
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from grid import store
from grid.core.engine import ASKED
from grid.core.errors import one_line

SAME = ["dataset", "robustness", "planner"]
"""The labels that settings which are compared share."""
ACROSS = ["model", "retriever", "pool", "refine", "memory", *ASKED]
"""Those that they share too, but where each run has one of its own: two models are compared as well."""
PARTS = [*SAME, *ACROSS]
VERSIONS = ["dataset_version", "code_parts", "engine", "engine_version", "sampler", "git_commit", "config"]
_SETTING = [*PARTS, "setting_id", "dataset_version"]
_TEXTS = [*PARTS, "setting_id", *VERSIONS, "case_id", "case_digest", CLUSTER]
_COLUMNS = [*_TEXTS, "cell_id", "trial", "success", "money", "case_seconds", *spending.SPENT, *unknowns.READ]
_NAMED = 6  # settings or cases that an error names
_NONE = "none"
Key: TypeAlias = "tuple[str, ...]"


@dataclass(frozen=True)
class Run:
    """A results folder: one row a cell with `place`, that of its setting among `settings` (the labels, by place)."""

    root: Path
    cells: pd.DataFrame
    settings: pd.DataFrame


@dataclass(frozen=True)
class Pair:
    """Two settings that are compared: their labels, and their cells in the first run and in the second."""

    labels: tuple[Mapping[str, str], Mapping[str, str]]
    cells: tuple[pd.DataFrame, pd.DataFrame]

    def label(self, part: str) -> str:
        """What both are called, or `one → other`."""
        first, second = (labels[part] for labels in self.labels)
        return first if first == second else f"{first} → {second}"


@dataclass(frozen=True)
class Matched:
    """The settings that are compared, and in words those that only one run has."""

    pairs: Sequence[Pair]
    alone: tuple[Sequence[str], Sequence[str]]


def read(root: Path) -> Run:
    """The cells of a results folder.

    Raises:
        StoreError: the folder cannot be read.
        AnalysisError: it holds no episodes.
    """
    store.check_there(root)
    store.check(root)
    cells: pd.DataFrame = store.read(root, "episodes", _COLUMNS, categories=_TEXTS).to_pandas()
    if cells.empty:
        raise AnalysisError(f"{one_line(root, 200)}: it holds no episodes yet, so there is nothing to compare")
    place = cells.groupby(_SETTING, sort=True, dropna=False, observed=True).ngroup()
    first = ~place.duplicated()
    settings = cells.loc[first, _SETTING].astype(object).set_index(place[first]).sort_index()
    cells = cells.assign(tokens=spending.tokens(cells), success=cells["success"].astype("float64"), place=place)
    cells = unknowns.applied(cells, ["place"])
    cells = cells.drop(columns=spending.SPENT).rename(columns={"case_seconds": "seconds"})
    return Run(root, cells, settings.where(settings.notna(), _NONE).astype(str))


def matched(first: Run, second: Run) -> Matched:
    """The settings of two runs that are compared: same planner, dataset and robustness, and same model and the like.

    A part of ACROSS of which each run has a single one may differ. Where one run has several settings of the same
    labels, those of the same id are compared. Of what is left over, settings are compared that differ in what was
    changed (`react` with `react[temperature=0]`), where there is no other such.

    Raises:
        AnalysisError: no setting, or no case of any setting, is in both; it names what each has.
    """
    runs = (first, second)
    shared = [part for part in PARTS if part in SAME or not _each_its_own(part, runs)]
    left = (set(first.settings.index), set(second.settings.index))
    found: list[tuple[int, int]] = []
    plain: Callable[[str], str] = _name_of
    for written in (str, plain):
        found += _paired(runs, left, shared, written)
    pairs = sorted((_pair(runs, places) for places in found), key=_turn)
    with_cases = [pair for pair in pairs if set(pair.cells[0]["case_id"]) & set(pair.cells[1]["case_id"])]
    if not with_cases:
        raise AnalysisError(_nothing_common(runs, "case" if pairs else "setting"))
    told = tuple([_told(run.settings.loc[place]) for place in sorted(own)] for run, own in zip(runs, left, strict=True))
    without = [f"{_told(pair.labels[0])}: no common case" for pair in pairs if pair not in with_cases]
    return Matched(with_cases, ([*told[0], *without], told[1]))


def _each_its_own(part: str, runs: tuple[Run, Run]) -> bool:
    one, other = (set(run.settings[part]) for run in runs)
    return len(one) == len(other) == 1 and one != other


def _paired(
    runs: tuple[Run, Run], left: tuple[set[int], set[int]], shared: Sequence[str], written: Callable[[str], str]
) -> list[tuple[int, int]]:
    """Pairs of places, taken out of `left`: first those of one id, then those that are alone with their labels."""
    found: list[tuple[int, int]] = []
    for further in (["setting_id", "dataset_version"], ["setting_id"], []):
        names = [*shared, *further]
        by_key = [_by_key(run.settings.loc[sorted(own)], names, written) for run, own in zip(runs, left, strict=True)]
        for key, (place, *others) in by_key[0].items():
            theirs = by_key[1].get(key, [])
            if not others and len(theirs) == 1:
                found.append((place, theirs[0]))
                left[0].remove(place)
                left[1].remove(theirs[0])
    return found


def _by_key(settings: pd.DataFrame, names: Sequence[str], written: Callable[[str], str]) -> dict[Key, list[int]]:
    keys: dict[Key, list[int]] = {}
    for place, row in settings[list(names)].iterrows():
        keys.setdefault(tuple(written(str(value)) for value in row), []).append(int(str(place)))
    return keys


def _name_of(label: str) -> str:
    return label.partition("[")[0]


def _pair(runs: tuple[Run, Run], places: tuple[int, int]) -> Pair:
    labels = tuple(dict(run.settings.loc[place]) for run, place in zip(runs, places, strict=True))
    cells = tuple(run.cells[run.cells["place"] == place] for run, place in zip(runs, places, strict=True))
    return Pair((labels[0], labels[1]), (cells[0], cells[1]))


def _turn(pair: Pair) -> tuple[str | bool, ...]:
    """Undisturbed settings come first, as everywhere."""
    model, dataset, robustness, planner = (pair.label(part) for part in ("model", "dataset", "robustness", "planner"))
    return model, dataset, robustness != _NONE, robustness, planner


def _told(labels: Mapping[str, str] | pd.Series[str]) -> str:
    return f"{labels['planner']} on {labels['dataset']} ({labels['robustness']}, {labels['model']})"


def _nothing_common(runs: tuple[Run, Run], what: str) -> str:
    has = []
    for run in runs:
        cases = sorted(map(str, run.cells["case_id"].unique()))
        own = list(map(_told, (row for _, row in run.settings.iterrows()))) if what == "setting" else cases
        has.append(f"{one_line(run.root, 100)} has {_listed(own)}")
    return f"the two runs have no {what} in common: {'; '.join(has)}"


def _listed(names: Iterable[str]) -> str:
    every = list(dict.fromkeys(one_line(name, 60) for name in names))
    more = f" and {len(every) - _NAMED:,} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more


# What two runs differ in on the cases that both have: success, tokens, seconds and money, and which cases flipped.


HOLM = "p_holm"
UP, DOWN = "up", "down"
LABELS = ["model", "dataset", "robustness", "planner"]
COSTS = ["tokens", "seconds", "money"]
_MEANS = ["success", *COSTS]


def by_case(pair: Pair) -> pd.DataFrame:
    """One row a case that both have, by its cluster (of the first run) and id, in the ids' order.

    Columns: `success` and COSTS of the first run (means over trials, `_a`) and of the second (`_b`),
    `flip` (UP, DOWN or nothing), and `changed`: what is asked for or its reference is not the same in both.

    A case flips where more than half of the trials of one run solve it, and fewer than half of the other's.
    """
    means = [
        cells.groupby("case_id", sort=True, observed=True)[_MEANS].mean().add_suffix(f"_{name}")
        for name, cells in zip("ab", pair.cells, strict=True)
    ]
    known = [cells.drop_duplicates("case_id").set_index("case_id").astype(object) for cells in pair.cells]
    found = means[0].join(means[1], how="inner")
    digests = [own["case_digest"].reindex(found.index) for own in known]
    changed = digests[0].notna() & digests[1].notna() & (digests[0] != digests[1])
    sides = [np.sign(found[f"success_{name}"] - 0.5) for name in "ab"]
    crossed = sides[0] * sides[1] < 0
    flip = pd.Series(np.where(~crossed, "", np.where(sides[1] > 0, UP, DOWN)), index=found.index)
    cluster = known[0][CLUSTER].reindex(found.index).astype(str)
    found = found.assign(flip=flip, changed=changed, **{CLUSTER: cluster}).reset_index()
    return found.astype({"case_id": str}).set_index([CLUSTER, "case_id"])


def compared(pairs: Sequence[Pair]) -> pd.DataFrame:
    """One row a pair of settings: LABELS, counts, and what changed from the first run (a) to the second (b).

    Columns: `cases` and `clusters` that both have, `cells_a` and `cells_b` of them, `changed` (cases whose contents
    differ), `success_a` and `success_b` with `_low` and `_high` (over the cases whose success both know: `known`),
    their paired `difference` with its bounds, its `p` and, over all rows, `p_holm`; how many cases flipped `up` and
    `down`; the ratios of COSTS (b / a) with bounds, NaN where one has none.
    """
    rows = [{label: pair.label(label) for label in LABELS} | _row(pair) for pair in pairs]
    found = pd.DataFrame(rows)
    return found.assign(**{HOLM: intervals.holm(found["p"])})


def flipped(pairs: Sequence[Pair]) -> pd.DataFrame:
    """One row a case that flipped: LABELS, `case_id`, its cluster, `flip`, and its success in both runs."""
    parts = []
    for pair in pairs:
        cases = by_case(pair).reset_index()
        labels = {label: pair.label(label) for label in LABELS}
        parts.append(cases[cases["flip"] != ""].assign(**labels))
    columns = [*LABELS, "case_id", CLUSTER, "flip", "success_a", "success_b"]
    return pd.concat(parts, ignore_index=True)[columns]


def _row(pair: Pair) -> dict[str, Any]:
    cases = by_case(pair)
    known = cases[cases["success_a"].notna() & cases["success_b"].notna()]
    common = set(cases.index.get_level_values("case_id"))
    cells = [int(own["case_id"].isin(common).sum()) for own in pair.cells]
    difference = known["success_b"] - known["success_a"]
    found: dict[str, Any] = {
        "cases": len(cases),
        "known": len(known),
        "clusters": intervals.n_clusters(cases),
        "cells_a": cells[0],
        "cells_b": cells[1],
        "changed": int(cases["changed"].sum()),
    }
    measured = {
        "success_a": intervals.share(known["success_a"]),
        "success_b": intervals.share(known["success_b"]),
        "difference": intervals.interval(difference, reach=1.0),
        **{name: _ratio(cases[[f"{name}_a", f"{name}_b"]].dropna(), name) for name in COSTS},
    }
    for name, of_cases in measured.items():
        found |= of_cases.named(name)
    flips = known["flip"].value_counts()
    return found | {"p": intervals.p_value(difference, 1.0), **{way: int(flips.get(way, 0)) for way in (UP, DOWN)}}


def _ratio(both: pd.DataFrame, name: str) -> intervals.Interval:
    return intervals.ratio(both[f"{name}_b"], both[f"{name}_a"])


# The SQL under the tables of a comparison: DuckDB runs it in the folder from which the report was made.


_MEASURES_SETTING = [*LABELS, *ACROSS[1:], "setting_id", "dataset_version"]


def cases(runs: tuple[Run, Run], pairs: Sequence[Pair]) -> str:
    """Each case's means over trials in both runs, where both have it."""
    across = [part for part in [*LABELS, *ACROSS[1:]] if any(pair.labels[0][part] != pair.labels[1][part]
                                                              for pair in pairs)]  # fmt: skip
    shared = [part for part in [*LABELS, *ACROSS[1:]] if part not in across]
    same = " AND ".join(f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in [*shared, "case_id"])
    apart = "".join(f"a.{name} AS {name}_a, b.{name} AS {name}_b, " for name in [*across, "success", *COSTS])
    return (
        f"WITH a AS ({_means(runs[0])}),\nb AS ({_means(runs[1])})\n"
        f"SELECT {', '.join(f'a.{name}' for name in [*shared, 'cluster', 'case_id'])}, {apart.rstrip(', ')}\n"
        f"FROM a JOIN b ON {same}\nORDER BY ALL"
    )


def _means(run: Run) -> str:
    return (
        f"{queries.latest(run.root)}\n"
        f"SELECT {', '.join(_MEASURES_SETTING)}, any_value(cluster) AS cluster, case_id, count(*) AS cells,\n"
        "  avg(success::INT) AS success, avg(case_seconds) AS seconds, avg(money) AS money,\n"
        f"  avg({spending.SQL}) AS tokens\nFROM e GROUP BY ALL"
    )


def versions(runs: tuple[Run, Run]) -> str:
    """What each setting of both runs was made with."""
    columns = ", ".join(dict.fromkeys([*_MEASURES_SETTING, *VERSIONS]))
    each = (
        f"SELECT DISTINCT '{name}' AS run, {columns} FROM ({queries.latest(run.root)} SELECT * FROM e)"  # noqa: S608  a text to be shown
        for name, run in zip("ab", runs, strict=True)
    )
    return "\nUNION ALL\n".join(each) + "\nORDER BY ALL"
