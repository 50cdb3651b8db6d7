"""Every format holds what the table holds, whatever its texts are."""

from __future__ import annotations

import csv as reader
import io
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from analysis.page.render import csv, latex, markdown, show
from analysis.page.table import Table, texts
from tests.support.tables import table_of

NASTY = r"a|b & 50% $x_1$ {y} #1 ~ ^ \cmd <b>*bold*</b> [red]x[/red] `c`"


def table(label: str, value: str = "-0.5 [-1.0, +0.1]", number: float = 1 / 3) -> Table:
    values = pd.DataFrame({"planner": [label], "success": [number]})
    return table_of([[label, value]], values, title=f"title {label}", about="caption 95%")


def printed(shown: Table) -> str:
    out = io.StringIO()
    assert show(Console(file=out, width=400), shown)
    return out.getvalue()


def test_terminal_shows_texts_literally() -> None:
    assert printed(table(NASTY)).count(NASTY) == 2


HIDDEN = "red\x1b[31m\nalert\x07 \u202egnp.exe\u2028end"
SHOWN = r"red\x1b[31m\nalert\x07 \u202egnp.exe\u2028end"


def test_what_hides_or_moves_is_shown_as_an_escape() -> None:
    assert printed(table(HIDDEN)).count(SHOWN) == 2
    assert markdown(table(HIDDEN)) == markdown(table(SHOWN))
    assert latex(table(HIDDEN)) == latex(table(SHOWN))
    assert SHOWN.replace("\\n", "\n") in csv(table(HIDDEN))


def test_markdown_escapes_what_has_a_meaning() -> None:
    lines = markdown(table(NASTY)).splitlines()
    assert lines[2:4] == ["| planner | success |", "| --- | ---: |"]
    assert lines[4] == (
        r"| a\|b \& 50% $x\_1$ \{y\} \#1 \~ ^ \\cmd \<b\>\*bold\*\</b\> \[red\]x\[/red\] \`c\` | -0.5 \[-1.0, +0.1\] |"
    )


def test_latex_escapes_what_has_a_meaning() -> None:
    text = latex(table(NASTY))
    row = next(line for line in text.splitlines() if line.startswith("a"))
    assert row == (
        r"a\textbar{}b \& 50\% \$x\_1\$ \{y\} \#1 \textasciitilde{} \textasciicircum{} \textbackslash{}cmd "
        r"\textless{}b\textgreater{}*bold*\textless{}/b\textgreater{} {[}red{]}x{[}/red{]} `c` & "
        r"$-$0.5 {[}$-$1.0, +0.1{]} \\"
    )
    assert r"\begin{tabular}{p{114pt}r}" in text, "a long label has several lines"
    assert r"\label{tab:a-table}" in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_latex_keeps_an_interval_beside_its_figure_and_leaves_empty_columns_out() -> None:
    figures = ["cases", "undisturbed", "difference", "95% interval", "tool match", "p"]
    wide = "1" * 22
    row = ["planner", *[wide] * 2, "+0.5", "[+0.1, +0.9]" + wide, "none", "0.010"]
    text = latex(table_of([row, row], labels=["planner"], figures=figures))
    heads = [
        line for line in text.splitlines() if line.startswith("planner & ") and "{]}" not in line and "+" not in line
    ]
    assert len(heads) > 1, "it is wider than the text"
    assert all(("difference" in head) == ("95\\% interval" in head) for head in heads)
    assert "tool match &" not in text
    assert "no row has a value in these columns: tool match" in text


def test_csv_holds_unrounded_values() -> None:
    rows = list(reader.reader(io.StringIO(csv(table('a,"b"\nc')))))
    assert rows == [["planner", "success"], ['a,"b"\nc', str(1 / 3)]]


@pytest.mark.parametrize(
    "text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "-", "=1e5", "+1.2*"]
)
def test_a_cell_that_a_spreadsheet_would_compute_is_a_text(text: str) -> None:
    [_, [cell, _]] = reader.reader(io.StringIO(csv(table(text))))
    assert cell.startswith("'")
    assert not set(cell) & set("\t\r")
    values = pd.DataFrame({text: [1]})
    header = csv(Table("a", "", [text], [], values, "")).splitlines()[0]
    assert header.lstrip('"').startswith("'")


@pytest.mark.parametrize("text", ["-1.3", "+2", "-1e-05", "a=b", "mean - 2", "react[k=4]", ""])
def test_numbers_and_other_texts_are_cells_as_they_are(text: str) -> None:
    assert list(reader.reader(io.StringIO(csv(table(text)))))[1] == [text, str(1 / 3)]


def test_negative_numbers_stay_numbers() -> None:
    assert csv(table("react", number=-1.3)) == "planner,success\nreact,-1.3\n"


@given(st.text(max_size=30))
def test_any_text_keeps_one_row_one_row(label: str) -> None:
    assert len(markdown(table(label)).split("\n")) == len(markdown(table("x")).split("\n"))
    assert len(latex(table(label)).split("\n")) == len(latex(table("x")).split("\n"))
    row = latex(table(label)).split("\n")[10]
    assert row.replace(r"\&", "").count("&") == 1


def test_a_table_without_room_is_not_printed_unless_all_of_it_is_asked_for() -> None:
    wide = table("a label of many words", value="[-1.0, +0.1] " * 10)
    out = io.StringIO()
    assert not show(Console(file=out, width=100), wide)
    assert out.getvalue() == ""
    assert show(Console(file=out, width=100), wide, wide=True)
    assert "[-1.0, +0.1] " * 10 in out.getvalue()
    assert show(Console(file=io.StringIO(), width=160), wide)


def test_a_terminal_has_the_columns_and_the_caption_that_are_meant_for_it() -> None:
    brief = replace(texts(["success"], 1)[0], brief=lambda row: "brief")
    both = replace(table("react"), columns=[brief], briefly="a short caption")
    assert "brief" in printed(both)
    assert "a short caption" in printed(both)
    assert "95%" not in printed(both)
    out = io.StringIO()
    show(Console(file=out, width=100), both, wide=True)
    assert "brief" not in out.getvalue()
    assert "caption 95%" in out.getvalue()
    without = printed(replace(both, columns=[replace(brief, printed=False)]))
    assert "brief" not in without
    assert "short" not in markdown(both)
