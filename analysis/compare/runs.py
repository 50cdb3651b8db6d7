"""Read two results folders, and match the settings that are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from analysis.errors import AnalysisError
from analysis.load import queries, spending, unknowns
from analysis.load.queries import Asked
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from grid import store
from grid.core.engine import ASKED
from grid.core.errors import one_line

SAME = ["dataset", "robustness", "planner"]
"""The labels that two compared settings share."""
ACROSS = ["model", "retriever", "pool", "refine", "memory", *ASKED]
"""Further labels that compared settings share.

Any of these labels may differ if each run has a single value for it, so that two models can be compared.
"""
PARTS = [*SAME, *ACROSS]
VERSIONS = ["dataset_version", "code_parts", "engine", "engine_version", "sampler", "git_commit", "config"]
_SETTING = [*PARTS, "setting_id", "dataset_version"]
_TEXTS = [*PARTS, "setting_id", *VERSIONS, "case_id", "case_digest", CLUSTER]
_COLUMNS = [*_TEXTS, "cell_id", "trial", "success", "money", "case_seconds", *spending.SPENT, *unknowns.READ]
_NAMED = 6  # maximum number of settings or cases that an error names
_NONE = "none"
Key: TypeAlias = "tuple[str, ...]"


@dataclass(frozen=True)
class Run:
    """A results folder: `cells` has a row per cell; a row's `place` is the index of its setting in `settings`."""

    root: Path
    cells: pd.DataFrame
    settings: pd.DataFrame


@dataclass(frozen=True)
class Pair:
    """Two settings that are compared: their labels in the first run and in the second."""

    labels: tuple[Mapping[str, str], Mapping[str, str]]

    def label(self, part: str) -> str:
        """The label's value if it is the same in both settings; otherwise both values, as `one → other`."""
        first, second = (labels[part] for labels in self.labels)
        return first if first == second else f"{first} → {second}"


@dataclass(frozen=True)
class Matched:
    """The settings of two runs that are compared; `alone` has, for each run, a line about each setting that is not.

    A pair of settings without a common case has its line in the first run's part.
    """

    runs: tuple[Run, Run]
    pairs: Sequence[Pair]
    alone: tuple[Sequence[str], Sequence[str]]

    @cached_property
    def cases(self) -> Asked:
        """One row per case that both settings of a pair have, sorted by pair and case id.

        Columns: `pair` (the number of the pair, as a text), LABELS of the pair, `cluster` (the case's cluster in the
        first run), `case_id`, `cells_a`, `cells_b`, `changed` (whether the case's request or reference differs between
        the runs; false if this is not known), and `success` and COSTS, each as a mean over the trials of the first run
        (`_a`) and of the second run (`_b`). `flip` is UP or DOWN if more than half of one run's trials solve the case
        but fewer than half of the other run's trials do; otherwise it is an empty text.
        """
        means = ", ".join(f"avg({text}) AS {name}" for name, text in _MEANS.items())
        both = ", ".join(f"a.{name} AS {name}_a, b.{name} AS {name}_b" for name in ("cells", *_MEANS))
        return self._ask(_CASES, means=means, both=both)

    @cached_property
    def versions(self) -> Asked:
        """The versions with which each run produced each setting's cells; columns: `pair`, LABELS, `run`, VERSIONS."""
        return self._ask(_VERSIONS, versions=", ".join(VERSIONS))

    def _ask(self, template: str, **parts: str) -> Asked:
        """Run a query over the first run's cells (`e`), the second run's cells (`other`) and the pairs (`p`).

        The result's query text reads the runs' files, so that it can be run on its own.
        """
        apart = [name for name in _SETTING if any(run.settings[name].nunique() > 1 for run in self.runs)]
        rows = [
            [place, *map(pair.label, LABELS), *(labels[name] for labels in pair.labels for name in apart)]
            for place, pair in enumerate(self.pairs)
        ]
        names = ["pair", *LABELS, *(f"{name}_{run}" for run in "ab" for name in apart)]
        alike = {
            run: " AND ".join(f"coalesce({table}.{name}, '{_NONE}') = {name}_{run}" for name in apart) or "true"
            for run, table in zip("ab", ("e", "other"), strict=True)
        }
        query = template.format(names=", ".join(names), rows=queries.values(rows), **alike, **parts)
        found = queries.ask(self.runs[0].cells, query, other=self.runs[1].cells)
        views = [
            f"CREATE OR REPLACE TEMP VIEW {name} AS {queries.latest(run.root)} SELECT * FROM e"  # noqa: S608  names are ours
            for name, run in zip(("e", "other"), self.runs, strict=True)
        ]
        return found._replace(query=";\n".join([*views, query]))


def read(root: Path) -> Run:
    """The cells of a results folder.

    Raises:
        StoreError: the folder cannot be read.
        AnalysisError: the folder contains no episodes.
    """
    store.check_there(root)
    store.check(root)
    cells: pd.DataFrame = store.read(root, "episodes", _COLUMNS, categories=_TEXTS).to_pandas()
    if cells.empty:
        raise AnalysisError(f"{one_line(root, 200)}: this folder holds no episodes yet, so there is nothing to compare")
    place = cells.groupby(_SETTING, sort=True, dropna=False, observed=True).ngroup()
    first = ~place.duplicated()
    settings = cells.loc[first, _SETTING].astype(object).set_index(place[first]).sort_index()
    cells = unknowns.applied(cells.assign(success=cells["success"].astype("float64"), place=place), ["place"])
    return Run(root, cells, settings.where(settings.notna(), _NONE).astype(str))


def matched(first: Run, second: Run) -> Matched:
    """Match the settings of two runs that have the same planner, dataset, robustness and further labels.

    A label in ACROSS may differ if each run has a single value for it. If a run has several settings with the same
    labels, the settings with the same id are compared. Two remaining settings, one from each run, are compared if their
    labels are the same once the changes in brackets are left out (`react` and `react[temperature=0]`), and if neither
    run has another remaining setting with these shortened labels.

    Raises:
        AnalysisError: the runs share no setting, or the settings that they share have no case in common; the error
            lists the settings or cases of each run.
    """
    runs = (first, second)
    shared = [part for part in PARTS if part in SAME or not _each_its_own(part, runs)]
    left = (set(first.settings.index), set(second.settings.index))
    found: list[tuple[int, int]] = []
    plain: Callable[[str], str] = _name_of
    for written in (str, plain):
        found += _paired(runs, left, shared, written)
    pairs = sorted((_pair(runs, places) for places in found), key=lambda pair: _turn(pair[0]))
    with_cases = [pair for pair, common in pairs if common]
    if not with_cases:
        raise AnalysisError(_nothing_common(runs, "case" if pairs else "setting"))
    told = tuple([_told(run.settings.loc[place]) for place in sorted(own)] for run, own in zip(runs, left, strict=True))
    without = [f"{_told(pair.labels[0])}: no common case" for pair, common in pairs if not common]
    return Matched(runs, with_cases, ([*told[0], *without], told[1]))


def _each_its_own(part: str, runs: tuple[Run, Run]) -> bool:
    one, other = (set(run.settings[part]) for run in runs)
    return len(one) == len(other) == 1 and one != other


def _paired(
    runs: tuple[Run, Run], left: tuple[set[int], set[int]], shared: Sequence[str], written: Callable[[str], str]
) -> list[tuple[int, int]]:
    """The indices of each pair of settings; both indices are removed from `left`.

    Settings with the same id are paired first. Then two settings are paired if each is the only remaining one with its
    labels in its run.
    """
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


def _pair(runs: tuple[Run, Run], places: tuple[int, int]) -> tuple[Pair, bool]:
    """The pair of two settings, and whether they have a case in common."""
    labels, cases = zip(*(_setting(run, place) for run, place in zip(runs, places, strict=True)), strict=True)
    return Pair(labels), not cases[0].isdisjoint(cases[1])


def _setting(run: Run, place: int) -> tuple[Mapping[str, str], set[str]]:
    return dict(run.settings.loc[place]), set(run.cells.loc[run.cells["place"] == place, "case_id"])


def _turn(pair: Pair) -> tuple[str | bool, ...]:
    """The sorting key of pairs: undisturbed settings come first, as in all tables."""
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


# The differences between two runs on the cases that both have: success, tokens, seconds, money, and flipped cases.


HOLM = "p_holm"
UP, DOWN = "up", "down"
LABELS = ["model", "dataset", "robustness", "planner"]
COSTS = ["tokens", "seconds", "money"]
_MEANS = {"success": "success::DOUBLE", "tokens": spending.SQL, "seconds": "case_seconds", "money": "money"}
_CASES = """WITH p({names}) AS (VALUES {rows}),
a AS (SELECT pair, case_id::VARCHAR AS case_id, any_value(cluster::VARCHAR) AS cluster,
  any_value(case_digest) AS digest, count(*) AS cells, {means} FROM e JOIN p ON {a} GROUP BY ALL),
b AS (SELECT pair, case_id::VARCHAR AS case_id, any_value(case_digest) AS digest, count(*) AS cells,
  {means} FROM other JOIN p ON {b} GROUP BY ALL)
SELECT pair, model, dataset, robustness, planner, cluster, case_id, coalesce(a.digest <> b.digest, false) AS changed,
  {both},
  CASE WHEN (a.success - 0.5) * (b.success - 0.5) < 0 THEN if(b.success > 0.5, 'up', 'down') ELSE '' END AS flip
FROM p JOIN a USING (pair) JOIN b USING (pair, case_id) ORDER BY pair::INT, case_id"""
_VERSIONS = """WITH p({names}) AS (VALUES {rows})
SELECT DISTINCT pair, p.model, p.dataset, p.robustness, p.planner, 'a' AS run, {versions} FROM e JOIN p ON {a}
UNION ALL
SELECT DISTINCT pair, p.model, p.dataset, p.robustness, p.planner, 'b' AS run, {versions} FROM other JOIN p ON {b}
ORDER BY ALL"""


def compared(matched: Matched) -> pd.DataFrame:
    """One row per pair of settings: LABELS, counts, and the changes from the first run (a) to the second (b).

    Columns with counts: `cases` and `clusters` (those that both runs have), `cells_a` and `cells_b` (the cells of these
    cases in each run), `changed` (cases whose contents differ), and `known` (cases whose success is known in both
    runs). Columns over the known cases: `success_a` and `success_b` with `_low` and `_high`, their paired `difference`
    with its bounds and `p`, and `p_holm` (Holm's correction over all rows). `up` and `down` are the numbers of cases
    that flipped to success and to failure. The ratios of COSTS (b / a) have bounds, and are NaN if a run has no value.
    """
    rows = [
        {label: own[label].iloc[0] for label in LABELS} | _row(own.set_index([CLUSTER, "case_id"]))
        for _, own in matched.cases.rows.groupby("pair", sort=False)
    ]
    found = pd.DataFrame(rows)
    return found.assign(**{HOLM: intervals.holm(found["p"])})


def _row(cases: pd.DataFrame) -> dict[str, Any]:
    known = cases[cases["success_a"].notna() & cases["success_b"].notna()]
    difference = known["success_b"] - known["success_a"]
    found: dict[str, Any] = {"cases": len(cases), "known": len(known), "clusters": intervals.n_clusters(cases)}
    found |= {name: int(cases[name].sum()) for name in ("cells_a", "cells_b", "changed")}
    measured = {
        "success_a": intervals.share(known["success_a"]),
        "success_b": intervals.share(known["success_b"]),
        "difference": intervals.interval(difference, reach=1.0),
        **{name: _ratio(cases[[f"{name}_a", f"{name}_b"]].dropna(), name) for name in COSTS},
    }
    for name, of_cases in measured.items():
        found |= of_cases.named(name)
    flips = {way: int((known["flip"] == way).sum()) for way in (UP, DOWN)}
    return found | {"p": intervals.p_value(difference, 1.0), **flips}


def _ratio(both: pd.DataFrame, name: str) -> intervals.Interval:
    return intervals.ratio(both[f"{name}_b"], both[f"{name}_a"])
