"""Table 6 and C.2: a trajectory of SH that repeats a failing call, and FH's of the same case.

Which one is a matter of a draw, not of choice: of all SH episodes of a model and dataset in which a call that had
failed was made again as it was written, the one whose hash with `SEED` is smallest. Where no SH episode repeats such a
call, one that does not is drawn likewise, and the table says so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.load import queries
from analysis.page.table import Table, texts
from analysis.papers.horizon import FH, SH
from grid import store
from grid.core.errors import StoreError
from grid.core.types import to_json
from grid.core.untrusted import shown

SEED = 0
"""Of the draw; every report of the same rows shows the same trajectories."""
_KEY = ["model", "dataset", "robustness", "case_id", "trial"]
_STEPS = ["cell_id", "step", "chosen_tool", "written", "arguments", "observation", "failed", "output_tokens"]
_LONG = 300  # characters of a call or an outcome that are shown
_CALLS = 8  # of a plan
_SHEETS = 6  # models and datasets of which a table is shown
_RULE = (
    f"drawn by hash (seed {SEED}) among the SH episodes that make a failed call again as it was written, with FH's of "
    "the same case and trial"
)
_OTHERWISE = f"no SH episode makes a failed call again: one is drawn by hash (seed {SEED}) among those that both have"
_CAPTION = (
    "SH: one row per call; FH: one row per plan, with the calls of it that were executed, until one failed, and what "
    "the last returned; steps count from 0, as references do; [again]: this call has failed before, word for word; "
    f"texts end after {_LONG} characters"
)


def example_sheets(root: Path, episodes: pd.DataFrame) -> list[Table]:
    """A table for each model and dataset in which both planners ran the same case; `episodes` have plain planners.

    Raises:
        StoreError: the folder cannot be read.
    """
    pairs = _pairs(episodes)
    found = []
    for (model, dataset), own in list(pairs.groupby(["model", "dataset"], observed=True, sort=True))[:_SHEETS]:
        repeating = own[own["cell_id_sh"].isin(_repeating(root, own["cell_id_sh"].tolist()))]
        pair = (own if repeating.empty else repeating).to_dict("records")
        chosen = min(pair, key=lambda row: _draw(str(row["cell_id_sh"])))
        steps = _steps(root, [str(chosen[f"cell_id_{planner}"]) for planner in (SH, FH)])
        if not steps.empty:
            found.append(_sheet(root, f"{model} on {dataset}", chosen, steps, (len(repeating), len(own))))
    return found


def _pairs(episodes: pd.DataFrame) -> pd.DataFrame:
    """Cases and trials that both planners ran to an end: `_KEY`, `cell_id_` and `success_` of each."""
    ended = episodes[(episodes["status"] == "ok").to_numpy()]
    halves = [
        ended.loc[(ended["planner"].astype(str) == planner).to_numpy(), [*_KEY, "cell_id", "success"]]
        .astype(dict.fromkeys(_KEY[:4], str)).drop_duplicates(_KEY)
        for planner in (SH, FH)
    ]  # fmt: skip
    return halves[0].merge(halves[1], on=_KEY, suffixes=("_sh", "_fh"))


def _repeating(root: Path, cells: list[str]) -> set[str]:
    """The cells in which a call that failed is made again as it was written."""
    taken = _steps(root, cells).dropna(subset="written").assign(place=lambda steps: range(len(steps)))
    call = ["cell_id", "written"]
    failed = taken[taken["failed"].fillna(False).astype(bool)].drop_duplicates(call)[[*call, "place"]]
    found = taken.merge(failed, on=call, suffixes=("", "_failed"))
    return {*found.loc[found["place"] > found["place_failed"], "cell_id"].astype(str)}


def _steps(root: Path, cells: list[str]) -> pd.DataFrame:
    mine = pc.field("cell_id").isin(pa.array(cells, pa.string())) & pc.field("on_path")
    found: pd.DataFrame = store.read(root, "steps", _STEPS, mine).to_pandas()
    return found.sort_values(["cell_id", "step"], kind="stable")


def _marked(steps: pd.DataFrame) -> Iterator[tuple[dict[Any, Any], bool]]:
    """Each step of one cell, and whether its call has failed before, word for word."""
    failed: set[str] = set()
    for row in steps.to_dict("records"):
        call = row["written"] if isinstance(row["written"], str) else None
        yield row, call in failed
        if call and row["failed"] is True:
            failed.add(call)


def _draw(cell: str) -> str:
    return hashlib.sha256(f"{SEED}/{cell}".encode()).hexdigest()


def _sheet(root: Path, place: str, chosen: dict[Any, Any], steps: pd.DataFrame, of: tuple[int, int]) -> Table:
    cells = {SH: str(chosen["cell_id_sh"]), FH: str(chosen["cell_id_fh"])}
    rows: list[list[str]] = []
    breaks: set[int] = set()
    for planner, told in ((SH, _calls), (FH, _plans)):
        breaks.add(len(rows))
        rows += [[planner.upper(), *map(shown, row)] for row in told(steps[steps["cell_id"] == cells[planner]])]
    rule = f"{_RULE}: {of[0]:,} of {of[1]:,} episodes" if of[0] else f"{_OTHERWISE} ({of[1]:,})"
    labels = ["planner", "step", "call or plan", "came back"]
    condition = f"{queries.where({'cell_id': list(cells.values())})} AND on_path"
    return Table(
        name=f"trajectories {place}",
        title=f"table 6: a trajectory of each planner, {place} (planning_horizon §4.5, C.2)",
        by=texts(labels),
        columns=[],
        lines=rows,
        about=f"{_CAPTION}; {rule}",
        values=pd.DataFrame(rows, columns=labels),
        query=queries.steps(root, _STEPS, condition),
        reading=f"{chosen['case_id']}, {chosen['robustness']}, trial {chosen['trial']}: "
        f"{_question(root, cells[SH])} {_ended(chosen, SH)}; {_ended(chosen, FH)}.",
        breaks=frozenset(breaks - {0}),
        wraps=True,
    )


def _calls(steps: pd.DataFrame) -> Iterator[list[str]]:
    for row, again in _marked(steps):
        yield [str(row["step"]), _cut(_call(row)) + " [again]" * again, _cut(_outcome(row))]


def _plans(steps: pd.DataFrame) -> Iterator[list[str]]:
    """A row a plan: it begins with the step that has an answer's tokens, of which nobody may know how many."""
    plans: list[list[tuple[dict[Any, Any], bool]]] = []
    for row, again in _marked(steps):
        if not plans or row["output_tokens"] != 0:
            plans.append([])
        plans[-1].append((row, again))
    for place, plan in enumerate(plans):
        calls = [f"{row['step']}: {_call(row)}" + " [again]" * again for row, again in plan[:_CALLS]]
        more = [f"and {len(plan) - _CALLS} more"] * (len(plan) > _CALLS)
        written = _cut("; ".join([*calls, *more]), _LONG * 2)
        yield ["plan" if place == 0 else f"plan {place + 1}", written, _cut(_outcome(plan[-1][0]))]


def _call(row: dict[Any, Any]) -> str:
    """`tool(name=value)` as it was written; a decision without a call by its name."""
    text = next((row[name] for name in ("written", "arguments") if isinstance(row[name], str)), None)
    if text is None:
        return str(row["chosen_tool"]) if isinstance(row["chosen_tool"], str) else "(an answer that cannot be read)"
    found = json.loads(text)
    arguments = found.get("arguments", {}) if isinstance(row["written"], str) else found
    return f"{row['chosen_tool']}({', '.join(f'{name}={_value(value)}' for name, value in arguments.items())})"


def _value(value: object) -> str:
    return value if isinstance(value, str) else to_json(value)


def _outcome(row: dict[Any, Any]) -> str:
    return row["observation"] if isinstance(row["observation"], str) else "–"


def _ended(chosen: dict[Any, Any], planner: str) -> str:
    found = chosen[f"success_{planner}"]
    return f"{planner.upper()}: " + ("not judged" if pd.isna(found) else "right" if found else "wrong")


def _question(root: Path, cell: str) -> str:
    """As its first prompt has it."""
    try:
        requests = store.transcript(root, cell)
    except StoreError:
        return "not kept (store.transcripts)"
    told = [
        section.entries[0].removeprefix("Query: ")
        for request in requests[:1] if request
        for section in request.sections if section and section.kind == "task" and section.entries
    ]  # fmt: skip
    return _cut(" ".join(told[0].split()), _LONG * 2) if told else "not kept (store.transcripts)"


def _cut(text: str, most: int = _LONG) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
