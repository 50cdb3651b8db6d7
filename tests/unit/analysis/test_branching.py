"""Which mechanism corrected what a first pass failed (egb_slate B.2): hand-made episodes, brute force, real sweeps."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from rich.console import Console

from analysis import load
from analysis.page.table import Table
from analysis.report import print_report
from analysis.stats import intervals
from analysis.tables.branches import (
    CASCADE,
    CORRECTED,
    DIRECT,
    EQUIVALENCE,
    FAILED,
    LATER,
    MECHANISMS,
    OTHER,
    by_case,
    by_setting,
    cells,
    steps,
)
from grid import store
from grid.cells.rows import step_rows
from grid.core.problem import Problem
from grid.core.types import NO_TOOL, ToolCall, Trajectory
from grid.store.schema import STEPS
from grid.worlds.layers import bare
from grid.worlds.lookup import LookupSimulator
from tests.support import planted, searched
from tests.support.disturbed import problems
from tests.support.failing import right_calls, walked
from tests.support.tables import printed

ABC = ("a", "b", "c")
WORKS = frozenset({"a", "b", "c", "b2"})
"""Tools whose calls do not fail: the reference's, and one that does what `b` does."""
EGB = ("egb_logits", "egb_names", "egb_sampling")


def decision(cell: str, branch: int, step: int, wanted: str | None, tool: str | None, path: bool) -> dict[str, Any]:
    """A row of `steps`; `wanted` None: no outline is followed; `tool` None: the answer could not be read."""
    required = None if wanted is None else wanted != NO_TOOL
    called = tool not in (None, NO_TOOL)
    return {
        "cell_id": cell,
        "attempt_id": "first",
        "branch": branch,
        "step": step,
        "on_path": path,
        "tool_required": required,
        "reference_tool": wanted,
        "chosen_tool": tool,
        "failed": tool not in WORKS if called else None,
        "tool_matches": tool == wanted if required else None,
    }


def corrected(
    wanted: Sequence[str | None], first: Sequence[str | None], at: int, branch: Sequence[str | None], cell: str = "cell"
) -> list[dict[str, Any]]:
    """The rows of a cell whose second branch resolved the case; the first one, left at step 0, did not."""
    rows = [decision(cell, 0, place, wanted[place], tool, place < at) for place, tool in enumerate(first)]
    rows += [decision(cell, 1, place, wanted[place], "vain", False) for place in range(len(wanted))]
    return rows + [decision(cell, 2, at + place, wanted[at + place], tool, True) for place, tool in enumerate(branch)]


def told(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """What is said of cells with these steps, by `cell_id`."""
    names = ("model", "dataset", "robustness", "planner", "setting_id")
    alike = dict.fromkeys(names, "x") | {"success": True, "branched_steps": 1}
    made = [alike | dict.fromkeys(("cell_id", "case_id", "cluster"), cell) for cell in {row["cell_id"] for row in rows}]
    kept = pa.Table.from_pylist(list(rows), pa.schema([STEPS.field(name) for name in rows[0]]))
    found = cells(pd.DataFrame(made), kept).rows.set_index("cell_id")
    return found.assign(mechanism=found["mechanism"].fillna(""), **{LATER: found[LATER].fillna(0).astype(int)})


@pytest.mark.parametrize(
    ("wanted", "first", "at", "branch", "mechanism", "later"),
    [
        (ABC, ("a", "x", "c"), 1, ("b", "c"), DIRECT, 0),
        (ABC, ("a", "x", "y"), 1, ("b", "c"), DIRECT, 1),  # a later step becomes right as well
        (ABC, ("a", "b", "x"), 2, ("c",), DIRECT, 0),
        (ABC, ("a", "x", "y"), 1, ("z", "c"), CASCADE, 1),
        (ABC, ("a", "x", "y"), 1, ("b2", "c"), CASCADE, 1),  # the paper's order: equivalence would hold too
        (ABC, ("a", "x", "y"), 1, (NO_TOOL, "c"), CASCADE, 1),
        (("a", NO_TOOL, "c"), ("a", "x", None), 1, (NO_TOOL, "c"), CASCADE, 1),
        (ABC, ("a", "x", "c"), 1, ("b2", "c"), EQUIVALENCE, 0),
        (ABC, ("a", "b", "c"), 1, ("b2", "c"), EQUIVALENCE, 0),
        (ABC, ("a", "x", "c"), 1, ("b2", "y"), EQUIVALENCE, 1),  # a later step becomes wrong
        (ABC, ("a", "x", "c"), 1, ("z", "c"), OTHER, 0),  # only later arguments can be different
        (ABC, ("a", "x", "c"), 1, (NO_TOOL, "c"), OTHER, 0),
        (ABC, ("a", "x", "c"), 1, (None, "c"), OTHER, 0),  # an answer that could not be read
        (ABC, ("a", "x", "c"), 1, ("c", "c"), OTHER, 0),  # a tool of the reference's, of another step
        (("a", NO_TOOL, "c"), ("a", "x", "c"), 1, (NO_TOOL, "c"), OTHER, 0),  # rightly none, but that fixes nothing
        (("a", NO_TOOL, "c"), ("a", NO_TOOL, "c"), 1, ("b2", "c"), OTHER, 0),  # there is nothing to be equivalent to
        (("a", "b", NO_TOOL), ("a", "x", "y"), 1, ("z", NO_TOOL), OTHER, 1),  # a step that needs no tool
        ((None, None), ("x", "y"), 0, ("a", "y"), "", 0),  # no outline
    ],
)
def test_mechanisms_by_hand(
    wanted: Sequence[str | None],
    first: Sequence[str | None],
    at: int,
    branch: Sequence[str | None],
    mechanism: str,
    later: int,
) -> None:
    (found,) = told(corrected(wanted, first, at, branch)).to_dict("records")
    assert (found["mechanism"], found[LATER]) == (mechanism, later)
    assert found["equal"] == (branch[0] == "b2" and wanted[at] not in (NO_TOOL, None))


def by_definition(
    wanted: Sequence[str], first: Sequence[str | None], at: int, branch: Sequence[str | None]
) -> tuple[str, int]:
    """The docstring's rules, a step at a time."""
    later = [(wanted[place], first[place], branch[place - at]) for place in range(at + 1, len(wanted))]
    changes = sum(before != after for _, before, after in later)
    needs, now = wanted[at] != NO_TOOL, branch[0]
    if needs and now == wanted[at]:
        return DIRECT, changes
    if any(want not in (NO_TOOL, before) and after == want for want, before, after in later):
        return CASCADE, changes
    if needs and now in WORKS and now not in wanted:
        return EQUIVALENCE, changes
    return OTHER, changes


def test_mechanisms_are_what_the_definitions_say_of_random_episodes() -> None:
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    expected: dict[str, tuple[str, int]] = {}
    for number in range(600):
        length = int(rng.integers(1, 6))
        wanted = [str(rng.choice(["a", "b", "c", NO_TOOL])) for _ in range(length)]
        first = [rng.choice(np.array(["a", "b", "b2", "x", NO_TOOL, None], dtype=object)) for _ in range(length)]
        at = int(rng.integers(length))
        branch = [rng.choice(np.array(["a", "b", "c", "b2", "x", NO_TOOL, None], dtype=object)) for _ in wanted[at:]]
        rows += corrected(wanted, first, at, branch, f"cell-{number:03}")
        expected[f"cell-{number:03}"] = by_definition(wanted, first, at, branch)
    found = told([rows[place] for place in rng.permutation(len(rows))])
    got = {str(cell): (row["mechanism"], row[LATER]) for cell, row in found.to_dict("index").items()}
    assert got == expected
    assert set(found["mechanism"]) == set(MECHANISMS), "all of them occur"


def episode(case: int, success: bool | None, branches: int | None, **other: Any) -> dict[str, Any]:
    return searched.episode("egb_logits", case, success, branches=branches, branched_steps=branches, **other)


def written(root: Path) -> None:
    """Cases 0 to 5: resolved at once, never, by a direct fix, by a cascade, unknown, broken off; react beside."""
    fixes = {2: corrected(ABC, ("a", "x", "c"), 1, ("b", "c")), 3: corrected(ABC, ("a", "x", "y"), 1, ("z", "c"))}
    rows = [
        episode(0, True, 0),
        episode(1, False, 4),
        *(episode(case, True, 2) for case in fixes),
        episode(4, None, 2, status="failed"),
        episode(5, False, None, status="failed"),
        *(searched.episode("react", case, case < 3) for case in range(6)),
    ]
    ids = {row["case_id"]: row["cell_id"] for row in rows if row["planner"] == "egb_logits"}
    steps = [row | {"cell_id": ids[f"case-{case}"]} for case, taken in fixes.items() for row in taken]
    first = [decision(ids["case-1"], 0, place, ABC[place], "x", True) for place in range(3)]
    store.write(root, {"episodes": rows, "steps": steps + first})


def test_which_cells_count(tmp_path: Path) -> None:
    written(tmp_path)
    found = of_cases(tmp_path).astype({"case_id": str}).set_index("case_id").sort_index()
    assert set(found["planner"]) == {"egb_logits"}, "react does not branch"
    assert found[FAILED].to_dict() == {"case-0": 0, "case-1": 1, "case-2": 1, "case-3": 1, "case-5": 1}
    assert found[CORRECTED].dropna().to_dict() == {"case-1": 0, "case-2": 1, "case-3": 1, "case-5": 0}
    assert found[list(MECHANISMS)].dropna().sum(axis=1).to_dict() == {"case-2": 1, "case-3": 1}
    assert (found.loc["case-2", DIRECT], found.loc["case-3", CASCADE]) == (1, 1)
    assert found[LATER].dropna().to_dict() == {"case-2": 0, "case-3": 1}


@pytest.mark.long
def test_the_table_counts_cells_and_has_intervals_over_clusters(tmp_path: Path) -> None:
    written(tmp_path)
    (row,) = by_setting(of_cases(tmp_path)).to_dict("records")
    counts = {name: row[name] for name in ("cells", FAILED, "corrected_cells", "direct_cells", "cascade_cells")}
    assert counts == {"cells": 5, FAILED: 4, "corrected_cells": 2, "direct_cells": 1, "cascade_cells": 1}
    index = pd.MultiIndex.from_tuples([(0, 1), (1, 2), (1, 3), (2, 5)], names=[intervals.CLUSTER, "case_id"])
    share = intervals.share(pd.Series([0.0, 1.0, 1.0, 0.0], index=index))
    assert (row[CORRECTED], row["corrected_low"], row["corrected_high"]) == pytest.approx(share)
    assert row[LATER] == 0.5
    table = report(tmp_path)
    assert list(table.rows[0][2:5]) == ["5", "4", "2"]
    assert table.rows[0][5].startswith("50.0 [")
    assert any("68 of 114" in note for note in table.notes)


def of_cases(root: Path) -> pd.DataFrame:
    return by_case(load.episodes(root), steps(root)).rows


def report(root: Path, width: int = 100) -> Table:
    out = io.StringIO()
    found = [
        table for table in print_report(root, Console(file=out, width=width)) if table.name.startswith("branching")
    ]
    assert found[0].title in out.getvalue(), "a terminal has room for it"
    return found[0]


def test_without_an_outline_corrections_are_counted_and_mechanisms_left_open(tmp_path: Path) -> None:
    row = episode(0, True, 1)
    steps = [line | {"cell_id": row["cell_id"]} for line in corrected((None, None), ("x", "y"), 0, ("a", "y"))]
    store.write(tmp_path, {"episodes": [row, episode(1, False, 1)], "steps": steps})
    table = report(tmp_path)
    assert list(table.figures) == ["cells", "failed first", "corrected cells", "corrected"]
    assert any("they follow no outline" in note for note in table.notes)


def test_a_sweep_without_branches_has_no_table(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [searched.episode("retry", case, True, branches=1) for case in range(3)]})
    assert by_setting(of_cases(tmp_path)).empty
    assert not any(table.name.startswith("branching") for table in print_report(tmp_path, Console(file=io.StringIO())))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The planners that branch on SLATE under the simulated policy; some cases need several corrections."""
    root = tmp_path_factory.mktemp("swept")
    for planner in EGB:
        rows = planted.grid(planner, cases=45, planner_values={"trajectories": 15}, all_offered=True,
                            dataset_values={"max_substeps": 13}, tool_skill=0.75, argument_skill=0.98)  # fmt: skip
        store.write(root, rows)
    return root


@pytest.mark.long
def test_shares_of_a_sweep_add_up_and_every_corrected_cell_has_one_mechanism(swept: Path) -> None:
    episodes = load.episodes(swept, ["branches"])
    found = of_cases(swept).merge(episodes[["planner", "case_id", "branches", "success"]], on=["planner", "case_id"])
    assert (found[FAILED] == ((found["branches"] > 0) | (found["success"] == 0))).all()
    mended = found[found[CORRECTED] == 1]
    assert set(mended["planner"]) == set(EGB)
    assert (mended[list(MECHANISMS)].sum(axis=1) == 1).all()
    assert found.loc[found[CORRECTED] != 1, list(MECHANISMS)].isna().all(axis=None)
    assert mended[[DIRECT, CASCADE]].sum().min() > 0, "both occur"
    for row in by_setting(found).to_dict("records"):
        assert sum(row[name] for name in MECHANISMS) == pytest.approx(1)
        assert sum(row[f"{name}_cells"] for name in MECHANISMS) == row["corrected_cells"] == row["classed_cells"]
        assert row[FAILED] >= row["corrected_cells"]
    table = report(swept)
    assert len(duckdb.connect().execute(table.query).df()) == len(found)
    for figures in printed(table):
        assert sum(float(figures[name]) for name in MECHANISMS if name in figures) == pytest.approx(100, abs=0.3)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [DIRECT, EQUIVALENCE])
def test_a_tool_of_slate_that_does_the_same_is_equivalent(mechanism: str, tmp_path: Path) -> None:
    """Real cases: the first pass calls nothing at one step; the branch calls the reference's tool, or its twin."""
    for number, (problem, at, twin) in enumerate(twins()):
        right = right_calls(problem)
        calls = [*right[:at], (right[at][0], right[at][1] if mechanism == DIRECT else twin), *right[at + 1 :]]
        first, _ = asyncio.run(walked(problem, [*right[:at], (right[at][0], None), *right[at + 1 :]]))
        whole, end = asyncio.run(walked(problem, calls))
        assert problem.world.resolved(end)
        taken = [replace(step, branch=1) for step in whole[at:]]
        trajectory = Trajectory((*first[:at], *taken), (*first, *taken), end, branches=1, branched_steps=1)
        row = episode(number, True, 1)
        store.write(tmp_path, {"episodes": [row], "steps": step_rows(row["cell_id"], "first", trajectory,
                                                                     problem.reference, lambda step: ())})  # fmt: skip
    (found,) = by_setting(of_cases(tmp_path)).to_dict("records")
    assert found[f"{mechanism}_cells"] == found["corrected_cells"] == number + 1 > 5


def twins() -> Iterator[tuple[Problem, int, ToolCall]]:
    """Cases of SLATE with a place in the reference, and the call there of a tool that does the same."""
    for problem in problems("slate", None, 40):
        world = bare(problem.world)
        assert isinstance(world, LookupSimulator)
        names = {same.tool: name for name, same in world.same_function.items()}
        for at, (_, call) in enumerate(right_calls(problem)):
            if call and call.tool in names:
                own = {theirs: mine for mine, theirs in world.same_function[names[call.tool]].arguments.items()}
                twin = ToolCall(
                    names[call.tool], {own.get(name, name): value for name, value in call.arguments.items()}
                )
                yield problem, at, twin
                break
