"""The tables of planning_horizon, a study that compares planners by regression: tables 2 to 6 and C.1."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis import load
from analysis.load import grading, provenance, queries
from analysis.load.queries import Asked, ask
from analysis.page.table import FIRST_SECTION, Column, Table, bounded, count, mean, texts
from analysis.papers import horizon
from analysis.papers import published as coefficients
from analysis.papers.horizon import FH, SH
from analysis.stats import intervals
from analysis.stats.spec import Spec
from analysis.stats.spec import load as read_spec
from analysis.tables import regression
from grid import CONF, store
from grid.core.errors import StoreError
from grid.core.types import to_json
from grid.core.untrusted import shown

PLANNING_HORIZON = CONF / "analysis" / "planning_horizon.yaml"
COLUMNS = ["depth", "breadth", "breadth_edges", "last_step", "task_family", *horizon.REPEATS, *grading.SOURCES]
_TABLE_3, _OWN = "table 3: regression coefficients (planning_horizon §4.3)", "Regression"
SUCCESS = {"success": grading.COLUMN}
"""The SQL expression for success in queries."""
PLANNERS = {"planner": [horizon.FH, horizon.SH]}
Family: TypeAlias = Callable[[str], str]
"""A function that returns a data set's family from the data set's label (`Spec.family`)."""
OF_PAPER = "published planning_horizon "
"""The prefix of the names of the study's published tables."""
TOKENS = ("input_tokens", "output_tokens")
PAIRED = f"95% intervals: {intervals.TOLD}; {intervals.ALIKE}"
_REPEATED = (
    "% of episodes that call the same tool with identical arguments at least twice; any two: among all calls, "
    "comparing arguments as they were run (as in the paper's text); in a row: in two consecutive calls, comparing "
    "arguments as they were written (as in the paper's official code, which made its table); 95% intervals of shares: "
    f"{intervals.SHARES}; 95% intervals of differences: {intervals.TOLD}; {intervals.ALIKE}"
)
_HOLD_OUT = "demonstrations_hold_out"
_HELD_OUT = {
    "template": "without questions of the case's own template; the paper includes these",
    "question": "including questions of the case's own template, as in the paper; only the question itself is left out",
}


def rows(root: Path, further: Sequence[str] = ()) -> pd.DataFrame:
    """The episodes of the planners `fh` and `sh`, with the columns that the study needs and `further` ones.

    `success` is an evaluator's verdict if there is a verdict (`grading`). Episodes whose plans are diagnosed, not run,
    are left out, because they are in the tables of plans.

    Raises:
        StoreError: the folder cannot be read.
    """
    return horizon.folded(_cells(root, further))


def _cells(root: Path, further: Sequence[str]) -> pd.DataFrame:
    """The same episodes as in `rows`, with labels as in queries."""
    planner = pc.match_substring_regex(pc.field("planner"), r"^(fh|sh)(\[|$)")
    run = planner & pc.field("task_family").is_null()
    return grading.taken(load.episodes(root, [*COLUMNS, *further], run))


def regressed(root: Path, spec: Spec) -> pd.DataFrame:
    """The rows of a regression, with success as in `rows`.

    Raises:
        StoreError: the folder cannot be read.
    """
    return _fitted(grading.taken(load.episodes(root, [*spec.columns(), *grading.SOURCES])), spec).rows


def _fitted(cells: pd.DataFrame, spec: Spec) -> Asked:
    """The rows that enter the regression."""
    named = {name if name == "planner" else f"{name}::VARCHAR": values for name, values in spec.rows.items()}
    return _folded(ask(cells, queries.rows(spec.columns(), queries.where(named))))


def _folded(asked: Asked) -> Asked:
    return asked._replace(rows=horizon.folded(asked.rows))


def tables(
    root: Path, analysis: Spec | None = None, published: Sequence[Table] = (), papers: bool = True
) -> list[Table]:
    """Tables 2 to 6 and C.1 if both of the study's planners ran; a given regression is always fitted.

    Without a given regression, the study's own regression is fitted. Each table is followed by the paper's tables with
    the same number (from `published`). Published coefficients follow if `papers` is true and the regression has the
    same coefficients as the study's regression, whatever its standard errors.

    Raises:
        AnalysisError: the file of the study's regression or, with `papers`, a file of analysis/papers/tables is wrong,
            or the regression names a column or a reference level that the rows lack.
        StoreError: the folder cannot be read.
    """
    cells = _cells(root, provenance.COLUMNS)
    episodes = horizon.folded(cells)
    found: list[Table] = []
    regressions: list[Table] = []
    if analysis is None and not both(episodes):
        return _with(published, [])
    own = read_spec(PLANNING_HORIZON)
    spec = analysis or own
    same = spec.estimates_as(own)
    if both(episodes):
        makers = (accuracy_tables, robustness_tables, repeated_tables)
        found = [table for make in makers for table in make(root, cells, spec.family)]
        found += example_tables(root, episodes)
    if analysis or found:
        taken = grading.taken(load.episodes(root, [*spec.columns(), *grading.SOURCES]))
        asked = _fitted(taken, spec)
        fits, graded = regression.fits(asked.rows, spec), grading.notes(regression.wanted(horizon.folded(taken), spec))
        titles = (_TABLE_3, regression.EVERY) if same else (f"regression: {spec.formula}", "its coefficients")
        regressions = regression.tables(titles, spec, fits, queries.of_files(root, asked.query), not same)
        regressions = [replace(one, notes=[*one.notes, *graded]) for one in regressions]
        if not same:
            return [*_with(published, found), *(replace(one, section=_OWN) for one in regressions)]
        for brief in regressions[:1]:
            regressions[0] = replace(brief, reading=horizon.coefficients(brief.values, spec.per))
            notes = list(provenance.made_up(episodes).values())
            published = [
                *published,
                *(coefficients.coefficient_tables(fits, brief.query, notes) if papers else []),
            ]
    place = sum(table.title.startswith("table 2") for table in found)
    return _with(published, [*found[:place], *regressions[:1], *found[place:], *regressions[1:]])


def _with(published: Sequence[Table], own: Sequence[Table]) -> list[Table]:
    """Our tables, each followed by the paper's tables with the same number (`2`, `2 ratios`).

    The paper's other tables come last.
    """
    last = {_number_of(table.title): place for place, table in enumerate(own)}
    behind: dict[int, list[Table]] = {}
    for table in published:
        number = table.name.removeprefix(OF_PAPER).split()[0]
        behind.setdefault(last.get(number, len(own) - 1), []).append(table)
    found = [one for place, table in enumerate(own) for one in (table, *behind.get(place, []))]
    return [replace(table, section=FIRST_SECTION) for table in found or published]


def _number_of(title: str) -> str:
    """The number in a title: 2 for `table 2: ...`; C.1 for the title of all coefficients."""
    return "C.1" if title == regression.EVERY else title.removeprefix("table ").partition(":")[0]


def both(episodes: pd.DataFrame) -> bool:
    """Whether both of the study's planners ran."""
    return set(episodes["planner"].astype(str)) >= {horizon.FH, horizon.SH}


def accuracy_tables(root: Path, cells: pd.DataFrame, family: Family) -> list[Table]:
    """Table 2, one for each robustness setting."""
    found = []
    for robustness in _robustness(cells):
        asked = _asked(cells, SUCCESS | {name: name for name in TOKENS}, [robustness])
        group, labels = _by_family(horizon.accuracy_and_tokens(asked.rows), family)
        own = horizon.folded(cells[cells["robustness"] == robustness])
        found.append(
            Table(
                name=f"accuracy {robustness}",
                title=f"table 2: accuracy and tokens per case, {robustness} (planning_horizon §4.2)",
                by=labels,
                columns=[
                    *_OF_CASES,
                    *(mean(f"success_{planner}", planner.upper(), ".3f", 1.0) for planner in PLANNERS["planner"]),
                    _column("success_difference", "SH − FH", "+.3f"),
                    *_tokens("input_tokens", "in"),
                    *_tokens("output_tokens", "out"),
                ],
                values=group,
                query=queries.of_files(root, asked.query),
                about=f"in, out: mean input and output tokens; {PAIRED}; 95% intervals of ratios: by the delta "
                "method on the logarithm, and no interval if no case differs from another",
                breaks=_breaks(group),
                notes=[*_unpaired(group), *grading.notes(own), *held_out(own)],
                reading=horizon.accuracy(group),
            )
        )
    return found


def robustness_tables(root: Path, cells: pd.DataFrame, family: Family) -> list[Table]:
    """Table 4; no table unless both robustness settings were run."""
    settings = (horizon.HIGH, horizon.LOW)
    changed = [name for name in _robustness(cells) if load.name_of(name) in settings]
    asked = _asked(cells, SUCCESS, sorted({*settings, *changed}))
    changes = horizon.robustness_change(asked.rows)
    if changes.empty:
        return []
    changes, labels = _by_family(changes, family)
    names = {"change_fh": "FH", "change_sh": "SH", "change_difference": "SH − FH"}
    return [
        Table(
            name="robustness",
            title=f"table 4: change of accuracy from {horizon.HIGH} to {horizon.LOW} (planning_horizon §4.4)",
            by=labels,
            columns=[*_OF_CASES, *(_column(name, header, "+.3f") for name, header in names.items())],
            values=changes,
            query=queries.of_files(root, asked.query),
            about=PAIRED,
            breaks=_breaks(changes),
            notes=grading.notes(horizon.folded(cells)),
            reading=horizon.robustness(changes),
        )
    ]


def repeated_tables(root: Path, cells: pd.DataFrame, family: Family) -> list[Table]:
    """Table 5, one for each robustness setting."""
    found = []
    parts = {horizon.FH: ("FH", ".1f"), horizon.SH: ("SH", ".1f"), "difference": ("SH − FH", "+.1f")}
    columns = [
        _column(f"{column}_{end}", f"{name}: {header}", form, 100)
        for column, name in horizon.REPEATS.items()
        for end, (header, form) in parts.items()
    ]
    for robustness in _robustness(cells):
        asked = _asked(cells, list(horizon.REPEATS), [robustness])
        group, labels = _by_family(horizon.repeated_calls(asked.rows), family)
        found.append(
            Table(
                name=f"repeated {robustness}",
                title=f"table 5: episodes with a repeated call, {robustness} (planning_horizon §4.5)",
                by=labels,
                columns=[*_OF_CASES, *columns],
                values=group,
                query=queries.of_files(root, asked.query),
                about=_REPEATED,
                breaks=_breaks(group),
                notes=_unpaired(group),
                reading=horizon.repeats(group),
            )
        )
    return found


def _by_family(rows: pd.DataFrame, family: Family) -> tuple[pd.DataFrame, list[str]]:
    """The rows sorted by family, and the label columns.

    `family` is a label column only if some family's name differs from its data set's label.
    """
    ordered = rows.assign(family=rows["dataset"].map(family)).sort_values(["family", "dataset", "model"], kind="stable")
    return ordered, [*["family"] * len(_breaks(ordered)), "dataset", "model"]


def _breaks(rows: pd.DataFrame) -> list[str]:
    """The columns whose changes are marked by lines between rows: `family`, if it differs from `dataset` in any row."""
    return ["family"] * bool((rows["family"] != rows["dataset"]).any())


def _robustness(cells: pd.DataFrame) -> list[str]:
    """The robustness settings in the order of their tables."""
    places = cells[horizon.PLACE].drop_duplicates().sort_values(horizon.PLACE)
    return [*map(str, places["robustness"].unique())]


def _asked(cells: pd.DataFrame, values: Sequence[str] | Mapping[str, str], robustness: Sequence[str]) -> Asked:
    """Each case's means over trials under these robustness settings."""
    condition = f"{queries.where({**PLANNERS, 'robustness': robustness})} AND task_family IS NULL"
    return _folded(ask(cells, queries.of_cases(values, condition)))


_OF_CASES = [count("cases"), count("clusters")]


def _unpaired(group: pd.DataFrame) -> list[str]:
    return [
        f"{row['dataset']}, {row['model']}: {row['unpaired']:,} cases are left out, because at least one of the "
        "planners did not finish them"
        for row in group.to_dict("records")
        if row["unpaired"]
    ]


def _tokens(name: str, told: str) -> list[Column]:
    means = [mean(f"{name}_{planner}", f"{told} {planner.upper()}", ",.0f", 1.0) for planner in PLANNERS["planner"]]
    return [*means, _column(f"{name}_ratio", "SH / FH", ".1f")]


def _column(name: str, header: str, form: str, scale: float = 1.0) -> Column:
    """A column of values with their intervals."""
    return Column(header, lambda row: bounded(row, name, form, scale))


def held_out(episodes: pd.DataFrame) -> list[str]:
    """Lines that say, for each data set, which near copies of a question are left out of the question's demonstrations.

    Near copies among the demonstrations would make a question easier.

    There is no line for a data set without demonstrations, or for one whose record does not say what is left out.
    `episodes` have `dataset` and `config`.
    """
    found: dict[str, None] = {}
    for dataset, text in episodes[["dataset", "config"]].dropna().drop_duplicates().itertuples(index=False, name=None):
        config: Mapping[str, Mapping[str, object]] = json.loads(text)
        left_out = config.get("dataset", {}).get(_HOLD_OUT)
        if left_out in _HELD_OUT and config.get("planner", {}).get("demonstrations"):
            told = f"{_HELD_OUT[str(left_out)]} (dataset.{_HOLD_OUT}={left_out})"
            found[f"{dataset}: demonstrations are the solved questions nearest to the case's, {told}"] = None
    return [*found]


# The missing parts of the planning-horizon study in a results folder that has only a part of it.


_HOW = "`agent-grid sweep -m +experiment=planning_horizon` runs everything that is needed"


def missing(root: Path) -> list[str]:
    """A sentence for each missing part of the study; no sentence if neither `fh` nor `sh` was run.

    Raises:
        StoreError: the folder cannot be read.
    """
    episodes = rows(root)
    return [] if episodes.empty else sentences(episodes)


def opened(root: Path) -> tuple[pd.DataFrame, list[str]]:
    """The data for the start of a notebook: the result of `rows`, and sentences on the contents and gaps of these rows.

    If the folder cannot be read, there are no rows, and a single sentence gives the reason.
    """
    try:
        episodes = rows(root, provenance.COLUMNS)
        return episodes, [provenance.headline(root), *sentences(episodes)]
    except StoreError as error:
        return pd.DataFrame({"planner": [], "robustness": []}), [f"There is nothing to show: {error}"]


def sentences(episodes: pd.DataFrame) -> list[str]:
    """The sentences of `missing`, from the result of `rows`."""
    if not both(episodes):
        there = ", ".join(sorted(set(episodes["planner"].astype(str)))) or "neither"
        compared = (
            "they compare the planners fh and sh on cases whose calls are run, and of these two planners this folder "
            f"has {there}"
        )
        return [f"planning_horizon's tables 2 to 6 and figures are missing: {compared}; {_HOW}."]
    found = []
    if horizon.robustness_change(episodes).empty:
        needed = f"the robustness settings {horizon.HIGH} and {horizon.LOW} of one model on one data set"
        found.append(f"planning_horizon's table 4 is missing: it needs {needed}; {_HOW}.")
    if episodes["depth"].isna().all():
        found.append(
            "planning_horizon's table 3 and the figures by depth and breadth are missing, because no case has a "
            "known reference plan."
        )
    return found


# Table 6 and C.2: a trajectory of SH that repeats a failing call, and the trajectory of FH on the same case.
#
# The SH trajectory is drawn, not chosen by hand: of all SH episodes of a model and dataset that repeat a failed call
# word for word, it is the one whose hash with `SEED` is smallest. If no SH episode repeats such a call, one of all SH
# episodes is drawn in the same way, and the table says so.


SEED = 0
"""The seed of the draw; with it, every report of the same rows shows the same trajectories."""
_KEY = ["model", "dataset", "robustness", "case_id", "trial"]
_STEPS = ["cell_id", "step", "chosen_tool", "written", "arguments", "observation", "failed", "output_tokens"]
_LONG = 300  # maximum number of characters shown of a call or an outcome
_CALLS = 8  # maximum number of calls shown of a plan
_SHEETS = 6  # maximum number of tables, one per model and dataset
_RULE = (
    f"the SH episode was drawn by hash (seed {SEED}) among the SH episodes that repeat a failed call word for word, "
    "and the FH episode is of the same case and trial"
)
_OTHERWISE = (
    f"no SH episode repeats a failed call, so the SH episode was drawn by hash (seed {SEED}) among all cases and "
    "trials that both planners finished"
)
_CAPTION = (
    "SH: one row per call; FH: one row per plan, with the calls that were executed (until one failed) and the result "
    "of the last of these calls; steps are counted from 0, as in references; [again]: the same call, word for word, "
    f"has failed before; texts are cut after {_LONG} characters"
)


def example_tables(root: Path, episodes: pd.DataFrame) -> list[Table]:
    """A table for each of the first `_SHEETS` pairs of a model and a dataset with a case that both planners finished.

    There is no table for a case without recorded steps. `episodes` have plain planner names.

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
            found.append(_table(root, f"{model} on {dataset}", chosen, steps, (len(repeating), len(own))))
    return found


def _pairs(episodes: pd.DataFrame) -> pd.DataFrame:
    """The cases and trials that both planners finished: `_KEY`, and `cell_id` and `success` with `_sh` and `_fh`."""
    ended = episodes[(episodes["status"] == "ok").to_numpy()]
    halves = [
        ended.loc[(ended["planner"].astype(str) == planner).to_numpy(), [*_KEY, "cell_id", "success"]]
        .astype(dict.fromkeys(_KEY[:4], str)).drop_duplicates(_KEY)
        for planner in (SH, FH)
    ]  # fmt: skip
    return halves[0].merge(halves[1], on=_KEY, suffixes=("_sh", "_fh"))


def _repeating(root: Path, cells: list[str]) -> set[str]:
    """The cells in which a failed call is made again, word for word."""
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
    """Each step of one cell, and whether the same call, word for word, has failed before."""
    failed: set[str] = set()
    for row in steps.to_dict("records"):
        call = row["written"] if isinstance(row["written"], str) else None
        yield row, call in failed
        if call and row["failed"] is True:
            failed.add(call)


def _draw(cell: str) -> str:
    return hashlib.sha256(f"{SEED}/{cell}".encode()).hexdigest()


def _table(root: Path, place: str, chosen: dict[Any, Any], steps: pd.DataFrame, of: tuple[int, int]) -> Table:
    cells = {SH: str(chosen["cell_id_sh"]), FH: str(chosen["cell_id_fh"])}
    rows: list[list[str]] = []
    breaks: set[int] = set()
    for planner, told in ((SH, _calls), (FH, _plans)):
        breaks.add(len(rows))
        rows += [[planner.upper(), *map(shown, row)] for row in told(steps[steps["cell_id"] == cells[planner]])]
    rule = f"{_RULE}; {of[0]:,} of {of[1]:,} SH episodes repeat a failed call" if of[0] else f"{_OTHERWISE} ({of[1]:,})"
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
    """One row per plan; a plan starts at each step whose number of output tokens is unknown or is not 0."""
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
    """`tool(name=value)` as the call was written; for a decision without a call, the decision's name."""
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
    """The question, as in the first prompt of the cell."""
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
