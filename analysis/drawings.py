"""The figures of a results folder."""

from __future__ import annotations

from pathlib import Path

from analysis import figures, horizon, planted, queries, study
from analysis.figures import Drawing
from analysis.search import drawings as search
from analysis.trajectory import figures as trajectories
from analysis.trajectory import metrics


def of(root: Path) -> list[Drawing]:
    """Those of the planning-horizon study, of trajectories by their length, and of searches, where each applies.

    Raises:
        StoreError: the folder cannot be read.
    """
    return [*_of_study(root), *_of_trajectories(root), *search.of(root)]


def _of_trajectories(root: Path) -> list[Drawing]:
    cells = metrics.read(root)
    return trajectories.drawings(root, cells, planted.told(cells)) if len(cells) else []


def _of_study(root: Path) -> list[Drawing]:
    """Success against depth and against breadth, and tokens, where both of the study's planners ran."""
    episodes = study.rows(root, [planted.ENGINE])
    if not study.both(episodes):
        return []
    found, told = [], planted.told(episodes) + study.PAIRED
    for column in ("depth", "breadth"):
        if episodes[column].notna().any():
            query = queries.by_case(root, [column, "success"], queries.where(study.PLANNERS))
            title = f"success against {column} (planning_horizon §4.3)"
            svg = figures.success_against(episodes, column)
            found.append(Drawing(column, title, f"{told}; more than 8 values are binned by quantiles", svg, query))
    query = queries.by_case(root, ["input_tokens", "output_tokens"], queries.where(study.PLANNERS))
    svg = figures.tokens(horizon.accuracy_and_tokens(episodes), episodes)
    found.append(Drawing("tokens", "tokens of each planner (planning_horizon §4.2)", told, svg, query))
    return found
