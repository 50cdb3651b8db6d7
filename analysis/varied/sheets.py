"""The table beside the heat map: success over two numbers of a planner."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from analysis import intervals, queries
from analysis.render import Sheet
from analysis.varied import cells
from analysis.varied.cells import Grid

SECTION = "Two numbers of a planner"
_FIGURES = {("egb_sampling", "samples", "trajectories"): " (egb_slate, figure 6)"}
_UNKNOWN = "–"


def sheets(root: Path) -> list[Sheet]:
    """A table for each planner of which two numbers vary; none where there is no such sweep.

    Raises:
        StoreError: the folder cannot be read.
    """
    return [_sheet(root, grid) for grid in cells.grids(cells.read(root))]


def title(grid: Grid) -> str:
    """How its table and its figure are headed."""
    place = grid.place
    robustness = f", {place['robustness']}" if place["robustness"] != "none" else ""
    figure = _FIGURES.get((grid.planner, grid.first, grid.second), "")
    name = f"{place['model']} on {place['dataset']}{robustness}"
    return f"{name}: success of {grid.planner} by {grid.first} and {grid.second}{figure}"


def query(root: Path, grid: Grid) -> str:
    """Each case's success in every setting of that planner there."""
    return queries.by_case(root, ["success"], queries.where({name: [of] for name, of in _place(grid).items()}))


def _place(grid: Grid) -> dict[str, str]:
    return {**grid.place, "planner": grid.planner}


def _sheet(root: Path, grid: Grid) -> Sheet:
    columns = grid.values(grid.second)
    counts = sorted(grid.table["cases"].unique())
    cases = f"{counts[0]:,} cases" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,} cases"
    return Sheet(
        name=" ".join(["varied", *_place(grid).values()]),
        title=title(grid),
        caption=f"success in %, in brackets 95% intervals ({intervals.SHARES}); a row a value of {grid.first}, a "
        f"column a value of {grid.second}; {cases} each; {_UNKNOWN}: no such setting ran",
        labels=[grid.first],
        figures=[f"{grid.second}={value:g}" if place == 0 else f"{value:g}" for place, value in enumerate(columns)],
        rows=[
            [f"{first:g}", *(_shown(grid.at(first, second)) for second in columns)] for first in grid.values(grid.first)
        ],
        values=pd.DataFrame(grid.table).assign(**_place(grid)),
        query=query(root, grid),
        section=SECTION,
    )


def _shown(found: intervals.Interval | None) -> str:
    if found is None:
        return _UNKNOWN
    mean = f"{100 * found.mean:.0f}"
    return mean if pd.isna(found.low) else f"{mean} [{100 * found.low:.0f}, {100 * found.high:.0f}]"
