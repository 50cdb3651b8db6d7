"""The figures of a results folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import figures, heatmaps, horizon, intervals, load, planted, queries, study
from analysis.calibration import drawings as calibration
from analysis.failures import sheets as failures
from analysis.figures import Drawing
from analysis.frontier import drawings as frontier
from analysis.plans import cells as plans
from analysis.plans import figures as of_plans
from analysis.search import drawings as search
from analysis.trajectory import figures as trajectories
from analysis.trajectory import metrics
from analysis.varied import drawings as varied

_EDGES = "the official code's: calls / dependencies in the longest chain"


def of(root: Path) -> list[Drawing]:
    """Of the study, varied numbers, failures, calibration, trajectories, searches, plans, where each applies; of cost.

    Raises:
        StoreError: the folder cannot be read.
    """
    of_study = [replace(drawing, section=study.SECTION) for drawing in _of_study(root)]
    of_failures = failures.drawings(root, planted.told(load.episodes(root, planted.COLUMNS)))
    return [
        *of_study,
        *varied.of(root),
        *of_failures,
        *calibration.drawings(root),
        *_of_trajectories(root),
        *search.of(root),
        *of_plans.drawings(root, plans.read(root)),
        *frontier.drawings(root),
    ]


def _of_trajectories(root: Path) -> list[Drawing]:
    cells = metrics.read(root)
    return trajectories.drawings(root, cells, planted.told(cells)) if len(cells) else []


def _of_study(root: Path) -> list[Drawing]:
    """Success against depth and against breadth, and tokens, where both of the study's planners ran."""
    episodes = study.rows(root, [planted.ENGINE])
    if not study.both(episodes):
        return []
    about = planted.told(episodes)
    found = _of_instances(root, episodes, about)
    told = f"{about}95% intervals: {intervals.SHARES}"
    for column in ("depth", "breadth"):
        if episodes[column].notna().any():
            query = queries.by_case(root, study.SUCCESS | {column: column}, queries.where(study.PLANNERS))
            title = f"success against {column} (planning_horizon §4.3)"
            svg = figures.success_against(episodes, column)
            found.append(Drawing(column, title, f"{told}; more than 8 values are binned by quantiles", svg, query))
    query = queries.by_case(root, study.TOKENS, queries.where(study.PLANNERS))
    svg = figures.tokens(horizon.accuracy_and_tokens(episodes), episodes)
    told = f"{about}95% intervals: {intervals.AMOUNTS}"
    found.append(Drawing("tokens", "tokens of each planner (planning_horizon §4.2)", told, svg, query))
    return [*found, *_heatmaps(root, episodes, about)]


def _of_instances(root: Path, episodes: pd.DataFrame, about: str) -> list[Drawing]:
    """Figure 3; none where no plan's shape is known."""
    cases = episodes.drop_duplicates(["dataset", "case_id"]).dropna(subset=["depth", "breadth"])
    if cases.empty:
        return []
    told = f"{about}cases by the depth and breadth of their reference's plan, counted in calls (§3.1)"
    alike = _correlations(cases.dropna(subset=["breadth_edges"]))
    if alike:
        told += f"; breadth so and in edges ({_EDGES}) correlate with {', '.join(alike)}"
    title = "figure 3: cases by depth and breadth (planning_horizon §4.1)"
    query = queries.shapes(root, queries.where(study.PLANNERS))
    return [Drawing("instances", title, told, heatmaps.instances(episodes), query)]


def _correlations(cases: pd.DataFrame) -> list[str]:
    """Of each data set in which both kinds of breadth vary: how they go together, over how many cases."""
    found = []
    for dataset, own in cases.groupby("dataset", sort=True, observed=True):
        if own["breadth"].nunique() > 1 and own["breadth_edges"].nunique() > 1:
            found.append(f"{own['breadth'].corr(own['breadth_edges']):.2f} ({dataset}, {len(own):,} cases)")
    return found


def _heatmaps(root: Path, episodes: pd.DataFrame, about: str) -> list[Drawing]:
    """Those of §4.4, where both robustness settings ran, and §4.5."""
    found = []
    changes, condition = horizon.robustness_change(episodes), queries.where(study.PLANNERS)
    if not changes.empty:
        title = f"change of accuracy from {horizon.HIGH} to {horizon.LOW} (planning_horizon §4.4)"
        told = f"{about}points, as in table 4, which has the intervals; red: fewer questions are solved"
        query = queries.by_case(root, study.SUCCESS, condition)
        found.append(Drawing("robustness-change", title, told, heatmaps.robustness(changes), query))
    title = "episodes with a repeated call (planning_horizon §4.5)"
    told = f"{about}% of episodes, as in table 5, with its intervals; SH − FH in points; blue there: SH repeats more"
    query = queries.by_case(root, list(horizon.REPEATS), condition)
    svg = heatmaps.repeated(horizon.repeated_calls(episodes))
    return [*found, Drawing("repeated-calls", title, told, svg, query)]
