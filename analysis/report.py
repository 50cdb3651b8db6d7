"""The tables of a results folder, all of them in one list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.console import Console

from analysis import load
from analysis.load import answers, baselines, partial, provenance, queries, spending, unknowns
from analysis.page.render import READABLE, show, wide
from analysis.page.table import Table
from analysis.papers import published, study
from analysis.stats.spec import Spec
from analysis.tables import (
    branches,
    by_value,
    calibration,
    disturbances,
    failures,
    frontier,
    measures,
    plans,
    rates,
    remembered,
    restoration,
    rewards,
    scored_again,
    search,
    success,
    trajectories,
    two_numbers,
    win_rates,
)
from analysis.tables.plan_cells import SECTION as OF_PLANS
from grid.core.untrusted import shown

_LONG = ("coefficients", "trajectories", f"{study.OF_PAPER}C.1", plans.OF_PAPER, frontier.NAME, *calibration.LONG)
"""Prefixes of the names of long tables, which a terminal shows only if all tables are asked for."""
_WITHOUT = "published figures are not shown, because no language model was used (--papers shows them)"


def print_report(
    root: Path,
    console: Console,
    analysis: Spec | None = None,
    all_columns: bool = False,
    unknown: unknowns.Unknown | None = None,
    metrics: Sequence[str] = (),
    papers: bool | None = None,
    by: Sequence[str] = (),
) -> list[Table]:
    """Print every table for which there are data, and the places of the data; return the tables.

    Args:
        root: a results folder.
        console: where the tables are printed; a console with fewer than 100 columns is treated as if it had 100.
        analysis: a further regression to fit.
        all_columns: print every table with all its columns, on lines as long as necessary. Otherwise columns are left
            out, tables that do not fit the console are only named, and long tables that were not asked for are left
            out.
        unknown: how to count cells whose success is not known: `left_out` or `failure`. None: as the context
            `unknowns.counted` says, or `left_out` outside such a context.
        metrics: names of metrics that get their own table; metrics that a plugin declared always get one.
        papers: whether published figures are shown next to ours. None: only if a language model answered, so that
            nobody compares a simulated policy with a real model by accident.
        by: columns of episodes, or names of `by_value.SHORT`; success is also shown by the values of these columns.

    Raises:
        AnalysisError: `analysis` names a missing column or reference level, one of `metrics` was not declared or has
            texts as values, a name in `by` is refused (`by_value.tables`), `reward_parts` of a cell is wrong, or a file
            of a published table or of the study's regression is wrong.
        ConfigError: `unknown` is not one of the allowed values.
        StoreError: the folder cannot be read.
    """
    with unknowns.counted(unknown):
        return _print_report(root, console, analysis, all_columns, metrics, papers, by)


def _print_report(
    root: Path,
    console: Console,
    analysis: Spec | None,
    all_columns: bool,
    named: Sequence[str],
    papers: bool | None,
    by: Sequence[str],
) -> list[Table]:
    console = wide(console, READABLE)
    load.hold(root)
    episodes = load.episodes(
        root, [*provenance.SIMULATED_COLUMNS, *provenance.COLUMNS, *spending.SPENT, *answers.COLUMNS]
    )
    if episodes.empty:
        console.print(shown(f"{provenance.EMPTY}: {root}"), markup=False)
        return []
    plan = partial.planned(root, episodes)
    for line in provenance.lines(root):
        console.print(shown(line), markup=False)
    for line in warned(root):
        console.print(shown(line), soft_wrap=True, markup=False)  # so that commands in them can be copied
    console.print()
    beside = provenance.answered(episodes) if papers is None else papers
    found = _tables(root, episodes, plan, analysis, named, beside, by)
    asked = (*["coefficients"] * bool(analysis), *["metrics "] * bool(named), *["by "] * bool(by))
    spared = []
    for table in found:
        if table.name.startswith(asked):
            show(console, table, all_columns) or show(console, table, wide=True)
        elif (all_columns or not table.name.startswith(_LONG)) and not show(console, table, all_columns):
            spared.append(table)
    names = "; ".join(table.title for table in spared)
    for line in (
        *study.missing(root),
        *_unfitted(found, analysis),
        *[_WITHOUT] * (not beside),
        *[f"tables that are too wide to be printed here: {names}"] * bool(spared),
    ):
        console.print(shown(line), markup=False)
    for line in _places(root, all_columns):
        console.print(shown(line), soft_wrap=True, markup=False)  # so that paths can be copied
    return found


def _unfitted(found: Sequence[Table], analysis: Spec | None) -> list[str]:
    """A line that says why a requested regression has no table."""
    if analysis is None or any(table.name == "coefficients" for table in found):
        return []
    rows = " and ".join(f"{name}={' or '.join(values)}" for name, values in analysis.rows.items())
    return [f"no regression is shown, because no episode matches its key `rows` ({rows or 'all rows'})"]


def warned(root: Path) -> list[str]:
    """Warnings about answers, spent budgets, failed calls, and cells whose success is not known; one line each."""

    def made() -> list[str]:
        cells = load.episodes(root, ["budget_reached", *partial.CALLS])
        of_settings = [*partial.stopped(cells), *partial.failing(cells), *unknowns.warnings(cells)]
        return [*answers.unreadable(root), *of_settings, *answers.served(root)]

    return load.once(root, "warned", made, few=True)


def _places(root: Path, all_columns: bool) -> list[str]:
    """Lines that say where the data and all other results are."""
    how = f"`agent-grid report {root} --wide` prints all tables with all columns; report.html shows them too"
    rows = f"results: {root}/episodes/*.parquet (one row per cell), {root}/steps/*.parquet (one row per decision)"
    return [rows] if all_columns else [how, rows]


def _tables(
    root: Path,
    episodes: pd.DataFrame,
    plan: pd.DataFrame,
    analysis: Spec | None,
    named: Sequence[str],
    papers: bool,
    by: Sequence[str],
) -> list[Table]:
    found = [*_of_places(root, episodes, plan), *measures.tables(root, named), *rewards.tables(root)]
    found += provenance.closed_form(root, episodes)
    found += [*_models(root, episodes), *win_rates.rank_tables(root, episodes)]
    found += [table for name in by for table in by_value.tables(root, name)]
    kinds_of_data = provenance.kinds(episodes)
    left_open = unknowns.left_open(episodes)
    del episodes  # the study's tables read their own columns
    beside = published.tables(root) if papers else []
    of_study = [table for table in beside if table.name.startswith(study.OF_PAPER)]
    of_plans = [replace(table, section=OF_PLANS) for table in beside if table.name.startswith(plans.OF_PAPER)]
    found += [table for table in beside if not table.name.startswith((study.OF_PAPER, plans.OF_PAPER))]
    found += [*partial.with_skipped(plans.tables(root), partial.skipped(root)), *of_plans]
    found += failures.tables(root)
    found += calibration.tables(root)
    found += [
        *_trajectories(root),
        *trajectories.kind_tables(root),
        *trajectories.pattern_tables(root),
        *disturbances.replacement_tables(root),
    ]
    found += [*disturbances.tables(root), *remembered.tables(root)]
    found += study.tables(root, analysis, of_study, papers)
    found += [*two_numbers.tables(root), *scored_again.tables(root)]
    found += [*search.tables(root), *restoration.tables(root), *win_rates.tables(root), *frontier.tables(root)]
    found = unknowns.under(found, left_open)
    return unknowns.noted(provenance.captioned(found, kinds_of_data, restoration.notice(root)))


def _trajectories(root: Path) -> list[Table]:
    """Tables that compare calls with the reference's calls, if any reference calls are known."""
    cells = trajectories.read(root)
    return [*trajectories.tables(root, cells), *trajectories.scaling_tables(root, cells)] if len(cells) else []


def _of_places(root: Path, episodes: pd.DataFrame, plan: pd.DataFrame) -> list[Table]:
    """Tables for each model and dataset: rates and baselines, differences, pass^k, costs, entropy and branches."""
    steps = baselines.decisions(root, episodes)
    choices = branches.choices(root)
    branching = branches.steps(root) if episodes["branched_steps"].notna().any() else None
    shares, prefixes = answers.shares(root, episodes), load.answer_prefixes(root)
    found, skipped = [], partial.skipped(root)
    for model, dataset, cells in load.places(episodes):
        place = (model, dataset)
        where = queries.place(*place)
        cases = rates.by_case(cells, where)
        without = "".join(f"UNION ALL BY NAME\n{one}" for one in baselines.selects(cells, steps, where))
        asked = rates.by_setting(cells, where, without, steps=steps)
        ran = asked.rows["cells"].notna()
        settings = partial.with_planned(rates.ranked(rates.rated(asked.rows[ran], cases.rows)), plan)
        own = settings.merge(shares, "left", load.SETTING)
        by_case = rates.in_order(cases.rows, own)
        query = queries.of_files(root, cases.query)
        both = queries.of_files(root, cases.query, asked.query)
        unread = [answers.by_setting(root, episodes).query] * bool((own["unreadable"] > answers.MANY).any())
        counted = queries.of_files(root, *unread, cases.query, asked.query)
        results = success.table(own, baselines.named(asked.rows[~ran]), by_case, counted)
        found += [*partial.with_skipped([results], skipped), *_differences(by_case, query)]
        found += success.tables(by_case, query)
        costs = own.merge(rates.token_ratios(by_case), "left", load.SETTING)
        found.append(rates.costs_table(costs, both, prefixes.get(model, "")))
        met = branches.entropies(cells, choices, where)
        if len(met.rows):
            steps_met = rates.in_order(met.rows, own)
            text = queries.of_files(root, met.query)
            found.append(branches.entropy_table(branches.entropy_errors(steps_met), steps_met, text))
        if branching is not None:
            mended = branches.by_case(cells, branching, where)
            if len(mended.rows):
                branched = rates.in_order(branches.by_setting(mended.rows), own)
                found.append(branches.table(branched, queries.of_files(root, mended.query)))
    return found


def _differences(cases: pd.DataFrame, query: str) -> list[Table]:
    """Tables of differences from ReAct.

    `retry` is the control for planners that ask whether a case is resolved; if both ran, there is a table of these
    planners' differences from `retry`.
    """
    found = []
    for reference in (rates.REFERENCE, "retry"):
        paired = rates.compared(cases, reference)
        if reference == "retry" and not paired.empty:
            paired = paired[paired[rates.CHECKS] > 0]
        if not paired.empty:
            found.append(rates.differences_table(rates.corrected(paired), reference, query))
    return found


def _models(root: Path, episodes: pd.DataFrame) -> list[Table]:
    """A table for each data set on which the same planner ran with several models."""
    if episodes["model"].nunique() < 2:
        return []
    found = []
    for dataset, own in episodes.groupby("dataset", sort=False, observed=True):
        cases = rates.by_case(own, queries.where({"dataset": [str(dataset)]}))
        paired = rates.paired_models(cases.rows)
        if not paired.empty:
            found.append(rates.models_table(rates.corrected(paired), queries.of_files(root, cases.query)))
    return found
