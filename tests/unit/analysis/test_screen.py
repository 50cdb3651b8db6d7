"""The first screen after a sweep: it fits a screen whatever ran, and its figures are those of the report."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from analysis import load
from analysis.screen import LINES, _briefly, bar, print_screen
from analysis.stats.intervals import CLUSTER
from analysis.tables import rates
from grid import store
from tests.unit.analysis.test_tables import NOON, row

PLACES = ("all tables", "episodes, step by step", "results: ")


def screen(root: Path, rows: Iterable[Mapping[str, Any]], width: int = 80) -> list[str]:
    told: dict[str, Any] = {cost: 1 for cost in rates.COSTS if cost not in ("wall_seconds", "unassigned", "money")}
    told |= {"money": None, "created_at": NOON, "attempt_id": "a"}
    found = [{**line, **told, rates.CHECKS: line.get("asked", 0)} for line in rows]
    for line in found:
        line.pop("asked", None)
    for line in found:
        line["success"] = None if line["status"] == "failed" else bool(line["success"])
    store.write(root, {"episodes": found})
    text = io.StringIO()
    print_screen(root, Console(file=text, width=width))
    return text.getvalue().splitlines()


def cells(planner: str, right: int, robustness: str = "none", **own: str) -> list[dict[str, Any]]:
    """Twenty cases of which so many succeed."""
    rows = [row(planner, case, 0, float(case < right), robustness) | own for case in range(20)]
    ids = (hashlib.sha256(f"{one['cell_id']}{own}".encode()).hexdigest() for one in rows)
    return [one | dict.fromkeys(("cell_id", "cell_key"), cell_id) for one, cell_id in zip(rows, ids, strict=True)]


def test_it_tells_who_is_best_by_how_much_and_what_disturbances_take(tmp_path: Path) -> None:
    rows = [*cells("react", 8), *cells("egb", 19), *cells("react", 8, "broken"), *cells("egb", 9, "broken")]
    lines = screen(tmp_path, rows)
    paired = rates.paired_differences(load.episodes(tmp_path)).set_index(["robustness", "planner"])
    low, high = (100 * float(paired[f"success_{bound}"].loc[("none", "egb")]) for bound in ("low", "high"))
    (egb,) = (line for line in lines if re.match(" +egb ", line))
    assert egb.split()[1] == "95.0"
    assert f"+55.0*† [{low:+.1f}, {high:+.1f}]" in egb
    react = next(line for line in lines if re.match(" +react ", line))
    assert lines.index(react) < lines.index(egb), "the reference stands first"
    (lost,) = (line for line in lines if line.startswith("  broken: "))
    assert lost == "  broken: egb -50.0*†, react +0.0"


def test_stars_are_the_reports_where_only_the_number_of_differences_decides(tmp_path: Path) -> None:
    """The report corrects over the differences under all settings, of which the screen shows those of one."""
    sizes = {"react": 8, "egb": 14} | {f"same{number}": 8 for number in range(2)}
    disturbed = ("one", "two", "three")
    rows = [cell for planner, right in sizes.items() for cell in cells(planner, right)]
    alone = screen(tmp_path / "alone", rows)
    rows += [cell for setting in disturbed for planner in sizes for cell in cells(planner, 8, setting)]
    beside = screen(tmp_path / "beside", rows)
    for folder, lines in (("alone", alone), ("beside", beside)):
        paired = rates.corrected(rates.paired_differences(load.episodes(tmp_path / folder)))
        known = paired[paired["robustness"] == "none"].set_index("planner")
        for planner in sizes.keys() - {"react"}:
            (line,) = (line for line in lines if re.match(f" +{planner} ", line))
            assert " ".join(rates.marked(dict(known.loc[planner]), "success")) in line
    assert ["†" in line for lines in (alone, beside) for line in lines if " egb " in line[:8]] == [True, False]


def test_clusters_are_counted_if_they_are_fewer_than_the_cases(tmp_path: Path) -> None:
    assert any(line.endswith(", undisturbed, 20 cases") for line in screen(tmp_path / "apart", cells("react", 8)))
    rows = [one | {CLUSTER: f"c{number % 3}"} for number, one in enumerate(cells("react", 8))]
    assert any(line.endswith(", undisturbed, 20 cases in 3 clusters") for line in screen(tmp_path / "joined", rows))


def test_planners_that_ask_whether_a_case_is_resolved_are_marked(tmp_path: Path) -> None:
    lines = screen(tmp_path, [*cells("react", 8), *(cell | {"asked": 2} for cell in cells("egb", 19))])
    assert any(re.match(r" +egb \(asks\)  ", line) for line in lines)
    assert any(re.match(" +react  ", line) for line in lines)
    assert "(asks): planners that may ask the world whether a case is resolved" in " ".join(" ".join(lines).split())


@pytest.mark.long
def test_it_fits_whatever_ran(tmp_path: Path) -> None:
    rows = [
        cell
        for data in range(12)
        for number in range(40)
        for robustness in ("none", "a" * 60, "b", "c", "d")
        for cell in cells(f"planner_{number}", number % 21, robustness, dataset=f"data_{data}")[:2]
    ]
    lines = screen(tmp_path, rows)
    assert len(lines) <= LINES
    assert max(map(cell_len, [line for line in lines if not line.startswith(PLACES)])) <= 100
    assert any("8 more pairs of a model and a data set" in line for line in lines)
    assert any(re.search(r"and \d+ more rows", line) for line in lines)
    assert any(re.search(r"^  and \d+ more$", line) for line in lines), "disturbances"


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["[bold]x[/bold]", "n" * 200, "\u202eevil", "規劃器" * 20, "a\x1b[31mb\nc"],
    ids=["markup", "long", "right to left", "wide", "control"],
)
def test_names_are_shown_as_they_are_and_break_no_line(tmp_path: Path, name: str) -> None:
    lines = screen(tmp_path, [*cells("react", 8), *cells(name, 12)])
    assert max(map(cell_len, [line for line in lines if not line.startswith(PLACES)])) <= 100
    assert not any(char in line for line in lines for char in "\u202e\x1b")
    assert any("60.0" in line for line in lines)
    if name.startswith("["):
        assert any("[bold]x[/bold]" in line for line in lines)


def test_what_is_not_known_is_no_figure(tmp_path: Path) -> None:
    rows = [row("react", case, 0, None) for case in range(3)]
    lines = screen(tmp_path, rows)
    (react,) = (line for line in lines if re.match(" +react ", line))
    assert react.split() == ["react", "none", "4", "3"], "no success; tokens; failed cells"


def test_one_cell_and_no_cell(tmp_path: Path) -> None:
    (react,) = (line for line in screen(tmp_path, [row("react", 0, 0, 1.0)]) if re.match(" +react ", line))
    assert "100.0" in react
    text = io.StringIO()
    print_screen(tmp_path / "nothing", Console(file=text))
    assert "holds no episodes yet" in text.getvalue()


@pytest.mark.parametrize(("mean", "low", "high"), [(0.0, 0.0, 0.2), (1.0, 0.9, 1.0), (0.5, 0.4, 0.6), (0.3, 0.3, 0.3)])
def test_a_bar_holds_its_mean_between_its_bounds(mean: float, low: float, high: float) -> None:
    drawn = bar(mean, low, high)
    assert len(drawn) == len(bar(mean, float("nan"), float("nan"))) == 21
    assert drawn.index("●") == round(20 * mean)
    assert [drawn.rstrip().__len__() - 1, len(drawn) - len(drawn.lstrip())] == [round(20 * high), round(20 * low)]


def test_one_planner_is_compared_with_no_other(tmp_path: Path) -> None:
    assert "minus" not in " ".join(screen(tmp_path, cells("react", 8)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A short one.", "A short one."),
        ("First sentence here. The second is far too long for it", "First sentence here ..."),
        ("a clause that is said; the other one is far too long", "a clause that is said ..."),
        ("a warning with a remark (which is far too long for it)", "a warning with a remark ..."),
        ("words without any mark that go on and on and on", "words without any mark that go on ..."),
        ("x" * 60, "x" * 36 + " ..."),
    ],
)
def test_a_long_warning_ends_behind_a_sentence_a_clause_or_a_word(text: str, shown: str) -> None:
    assert _briefly(text, 40) == shown
