"""Tables of rewards (τ²-bench): mean reward, share of runs with the right database, how runs ended, parts met."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.compute as pc

from analysis import load
from analysis.errors import AnalysisError
from analysis.load import SETTING, queries
from analysis.load.queries import Asked, ask
from analysis.page.table import Table, count
from analysis.stats import intervals
from analysis.tables.measures import Measure, columns, known, measured, partly
from grid.core.untrusted import loads

REWARD, PARTS, DB, TERMINATION = "reward", "reward_parts", "success_db", "termination"
_LABELS = SETTING[2:]
_TOLD = f"means over cases in %; in brackets 95% intervals: {intervals.SHARES}"
_CAPTION = (
    f"{_TOLD} (a terminal shows only the intervals of reward and DB); reward: the product over the task's reward "
    "basis, 0 if the run did not end properly; DB: runs whose database is as the gold actions leave it; no reward: the "
    "number of cells whose reward is not known, which the means leave out; the other columns: the reasons why runs "
    "ended, as shares of the runs whose end is known"
)
_OF_PARTS = (
    f"{_TOLD}; met: the mean reward of a part over the cases with this part in their reward basis; known: the number "
    "of cases for which this reward is known in at least one trial"
)
_MET = Measure("met", "met")


def tables(root: Path) -> list[Table]:
    """For each model and dataset with rewards, a table of rewards and ends of runs and, if known, one of their parts.

    Raises:
        AnalysisError: `reward_parts` of a cell is not a JSON object of numbers from 0 to 1, or null.
        StoreError: the folder cannot be read.
    """
    known = pc.field(REWARD).is_valid() | pc.field(DB).is_valid() | pc.field(TERMINATION).is_valid()
    columns = [REWARD, PARTS, DB, TERMINATION]
    cells = load.episodes(root, columns, known | pc.field(PARTS).is_valid())
    found = []
    for model, dataset, own in load.places(cells):
        found += [_rewards(root, own, model, dataset), *_parts(root, own, model, dataset)]
    return found


def rewards(cells: pd.DataFrame, where: str = "true") -> tuple[Asked, list[Measure]]:
    """One row per planner and robustness setting of one model and dataset, and the measures of the columns.

    Columns: mean reward, `success_db` and the shares of ends, each with `_low`, `_high` and `_cases`, the counts of
    `measured`, and `unknown`, the number of cells whose reward is not known. A measure may have no value in any row.
    """
    ends = sorted(cells[TERMINATION].dropna().astype(str).unique())
    values = {REWARD: REWARD, DB: DB, **{f"end_{end}": f"{TERMINATION} = '{end}'" for end in ends}}
    all_of_them = [Measure(REWARD, "reward"), Measure(DB, "DB"), *(Measure(f"end_{end}", end) for end in ends)]
    some = " OR ".join(f"{name} IS NOT NULL" for name in (REWARD, PARTS, DB, TERMINATION))
    counts = [f"count(*) - count({REWARD}) AS unknown"]
    asked = ask(cells, queries.of_cases(values, f"{where} AND ({some})", further=counts))
    unknown = asked.rows.groupby(_LABELS, sort=False, observed=True)["unknown"].sum()
    frame = measured(asked.rows, _LABELS, all_of_them).assign(unknown=unknown.to_numpy())
    return asked._replace(rows=frame), all_of_them


def parts(cells: pd.DataFrame, where: str = "true") -> Asked:
    """One row per planner, robustness setting and `part` of reward bases: `cases`, `clusters`, `met` with its interval.

    `met_cases` is the number of cases for which it is known whether the part was met. The frame is empty if no cell has
    parts.

    Raises:
        AnalysisError: as for `tables`.
    """
    for cell, text in (
        cells.loc[cells[PARTS].notna(), ["cell_id", PARTS]].drop_duplicates(PARTS).itertuples(index=False)
    ):
        _check(text, cell)
    asked = ask(cells, queries.of_cases({_MET.column: _VALUE}, where, ["part"], ["min(place) AS place"], _EACH))
    rows = asked.rows.sort_values(["disturbed", *_LABELS, "case_id", "place"], kind="stable")
    return asked._replace(rows=measured(rows, [*_LABELS, "part"], [_MET]))


_EACH = f"""(SELECT *, unnest(json_keys({PARTS})) AS part, generate_subscripts(json_keys({PARTS}), 1) AS place
  FROM e WHERE {PARTS} IS NOT NULL)"""  # noqa: S608  names are ours
_VALUE = f"""{PARTS}->>('$."' || part || '"')"""


def _check(text: str, cell: str) -> None:
    try:
        found = loads(text)
    except (ValueError, RecursionError) as error:
        raise AnalysisError(f"{PARTS} of cell {cell} is not JSON: {error}") from None
    if not isinstance(found, dict) or not all(value is None or _is_share(value) for value in found.values()):
        raise AnalysisError(
            f"{PARTS} of cell {cell} is {text[:80]!r}; allowed: a JSON object whose values are numbers from 0 to 1, "
            "or null"
        )


def _is_share(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def _rewards(root: Path, cells: pd.DataFrame, model: str, dataset: str) -> Table:
    (frame, query), all_of_them = rewards(cells, queries.place(model, dataset))
    figures = columns(frame, all_of_them, counts=[], bounded=[REWARD, DB])
    return Table(
        name=f"rewards {model} {dataset}",
        title=f"{model} on {dataset}: rewards, and reasons why runs ended",
        by=_LABELS,
        columns=[count("cases"), count("cells"), count("unknown", "no reward"), *figures],
        values=frame,
        query=queries.of_files(root, query),
        about=_CAPTION,
        notes=partly(frame, known(frame, all_of_them)),
        breaks=["robustness"],
    )


def _parts(root: Path, cells: pd.DataFrame, model: str, dataset: str) -> list[Table]:
    frame, query = parts(cells, queries.place(model, dataset))
    if frame.empty:
        return []
    return [
        Table(
            name=f"reward parts {model} {dataset}",
            title=f"{model} on {dataset}: the parts of the reward",
            by=[*_LABELS, "part"],
            columns=[count("cases"), count("met_cases", "known"), _MET.shown(bounded=True)],
            values=frame,
            query=queries.of_files(root, query),
            about=_OF_PARTS,
            breaks=_LABELS,
        )
    ]
