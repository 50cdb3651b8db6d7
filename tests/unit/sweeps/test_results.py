"""What `grid.load` gives: tables and figures of the report, and what is said of a name that nothing has."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import grid
from analysis.page.drawing import Drawing
from grid.core.errors import ConfigError, StoreError
from grid.sweeps import notebook
from grid.sweeps.api import Figures
from grid.sweeps.notebook import one_output
from tests.support import simulated
from tests.unit.analysis.test_tables import written


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> grid.Results:
    folder = tmp_path_factory.mktemp("results")
    simulated.write(folder, count=20)
    return grid.load(folder)


@pytest.mark.long
def test_tables_are_those_of_the_report_by_their_names_or_how_these_begin(results: grid.Results) -> None:
    names = [table.name for table in results.tables()]
    assert results.table(names[0]).name == names[0]
    alone = next(name for name in names if sum(other.startswith(name.split()[0]) for other in names) == 1)
    assert results.table(alone.split()[0]).name == alone
    assert [table.name for table in results.tables("results ")] == [name for name in names if name[:8] == "results "]
    with pytest.raises(ConfigError, match="did you mean costs"):
        results.table("cots")
    with pytest.raises(ConfigError, match=f"one of {re.escape(names[0])}, "):
        results.table("")
    with pytest.raises(ConfigError, match="did you mean success"):
        results.figure("sucess")
    figure = results.figure("success")
    assert isinstance(figure, Drawing)
    assert figure.svg.startswith("<svg")


def test_a_table_shows_itself_as_text_and_as_html(results: grid.Results) -> None:
    table = results.tables()[0]
    html, text = table._repr_html_(), repr(table)
    for row in table.rows:
        assert all(cell in text for cell in row)
        assert all(f">{cell}</td>" in html for cell in row if cell.isalnum())
    assert "\x1b" not in text
    assert html.count("<tr") == len(table.rows) + 1
    assert table._repr_html_() in results._repr_html_()
    figure = results.figure("success")
    assert isinstance(figure, Drawing)
    assert figure.svg in figure._repr_html_()


def test_tables_and_figures_of_several_models_come_together_or_by_model(tmp_path: Path) -> None:
    """docs/python.md's own examples, in a sweep with two models, of which one's name begins like the other's."""
    for model in ("lab7", "lab70"):
        for robustness in ("none", "extraneous"):
            written(tmp_path, {"react": 0.3, "cot": 0.6}, robustness, model=model)
    results = grid.load(tmp_path)
    for table in (results.table("results"), results.differences(), results.table("costs"), results.table("disturb")):
        assert set(table.values["model"]) == {"lab7", "lab70"}
        assert table.labels[:2] == ["model", "dataset"]
        assert {row[0] for row in table.rows} == {"lab7", "lab70"}
        assert len(table.rows) == sum(len(own.rows) for own in results.tables(table.name))
    assert results.table("costs lab7").name == "costs lab7 slate"
    assert results.table("results", model="lab70").name == "results lab70 slate"
    costs, failures = results.figure("cost"), results.figure("failures", model="lab7")
    assert isinstance(costs, Figures)
    assert [figure.name for figure in costs] == ["cost undisturbed", "cost disturbed"]
    assert all(figure.svg in costs._repr_html_() for figure in costs)
    assert isinstance(failures, Drawing)
    assert failures.name == "failures lab7 slate"
    with pytest.raises(ConfigError, match="model='lab77': one of lab7, lab70"):
        results.table("results", model="lab77")


@pytest.mark.parametrize(
    ("table", "columns", "said"),
    [
        ("epsodes", None, "did you mean episodes"),
        ("episodes", ["planer"], "did you mean planner"),
        ("steps", ["planner", "entrpy"], "did you mean entropy|no column 'planner'"),
        ("costs", ["rol"], "did you mean role"),
    ],
)
def test_a_name_that_nothing_has_is_told_in_a_line(
    results: grid.Results, table: Any, columns: list[str] | None, said: str
) -> None:
    for read in (results.arrow, results.pandas, results.duckdb):
        with pytest.raises((ConfigError, StoreError), match=said) as refused:
            read(table, columns)
        assert len(str(refused.value).splitlines()) == 1


def test_columns_of_the_joined_form_and_of_the_stored_one_are_there(results: grid.Results) -> None:
    named = ["planner", "success", "input_tokens"]
    assert list(results.pandas("episodes", named)) == named
    assert set(results.arrow().column_names) <= {*results.arrow("episodes").column_names}


class Cell:
    """A notebook's cell: the outputs that it has, each as it is now."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []
        self.states: list[str] = []

    def display(self, shown: object, display_id: bool) -> Cell:
        self.outputs.append(shown)
        return self

    def update(self, shown: object) -> None:
        self.states.append(repr(shown))


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    found = Cell()
    monkeypatch.setattr("IPython.display.display", found.display)
    monkeypatch.setattr(notebook, "_is_notebook", lambda: True)
    monkeypatch.setattr(notebook, "_EVERY", -1.0)
    return found


def test_what_is_printed_is_one_output_that_ends_as_one_line(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    with one_output() as output:
        assert output is not None
        print("sweep mine: 2 settings")
        print("left out null x egb: it cannot choose")
        print("ran 12 cells in 1 s: 12 ok, 0 failed\nfurther <lines>")
        output.end(unfolded=False)
    assert capsys.readouterr().out == ""
    assert cell.outputs == [output]
    assert cell.states[0] == "sweep mine: 2 settings"
    assert cell.states[-1].splitlines() == [
        "ran 12 cells in 1 s: 12 ok, 0 failed",
        "left out null x egb: it cannot choose",
    ]
    html = output._repr_html_()
    assert html.startswith("<details><summary>ran 12 cells")
    assert "further &lt;lines&gt;" in html
    output.write("later\n")
    assert capsys.readouterr().out == "later\n"


def test_what_raises_or_is_no_run_is_shown_whole(cell: Cell) -> None:
    with suppress(OSError), one_output():
        print("one\ntwo")
        raise OSError
    assert cell.states[-1] == "one\ntwo"
    assert cell.outputs[0]._repr_html_() == "<pre>one\ntwo</pre>"


def test_elsewhere_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with one_output() as output:
        print("seen")
    assert output is None
    assert capsys.readouterr().out == "seen\n"
