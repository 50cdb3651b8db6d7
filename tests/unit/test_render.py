"""Every format holds what the table holds, whatever its texts are."""

from __future__ import annotations

import csv as reader
import io

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from analysis.render import Sheet, csv, latex, markdown, terminal

NASTY = r"a|b & 50% $x_1$ {y} #1 ~ ^ \cmd <b>*bold*</b> [red]x[/red] `c`"


def sheet(label: str, value: str = "-0.5 [-1.0, +0.1]", number: float = 1 / 3) -> Sheet:
    values = pd.DataFrame({"planner": [label], "success": [number]})
    return Sheet("a table", f"title {label}", "caption 95%", ["planner"], ["success"], [[label, value]], values, "SQL")


def printed(shown: Sheet) -> str:
    out = io.StringIO()
    Console(file=out, width=400).print(terminal(shown))
    return out.getvalue()


def test_terminal_shows_texts_literally() -> None:
    assert printed(sheet(NASTY)).count(NASTY) == 2


def test_terminal_drops_control_characters() -> None:
    assert "\x1b" not in printed(sheet("red\x1b[31m\nalert\x07"))


def test_markdown_escapes_what_has_a_meaning() -> None:
    lines = markdown(sheet(NASTY)).splitlines()
    assert lines[2:4] == ["| planner | success |", "| --- | ---: |"]
    assert lines[4] == (
        r"| a\|b \& 50% $x\_1$ \{y\} \#1 \~ ^ \\cmd \<b\>\*bold\*\</b\> \[red\]x\[/red\] \`c\` | -0.5 \[-1.0, +0.1\] |"
    )


def test_latex_escapes_what_has_a_meaning() -> None:
    text = latex(sheet(NASTY))
    row = next(line for line in text.splitlines() if line.startswith("a"))
    assert row == (
        r"a\textbar{}b \& 50\% \$x\_1\$ \{y\} \#1 \textasciitilde{} \textasciicircum{} \textbackslash{}cmd "
        r"\textless{}b\textgreater{}*bold*\textless{}/b\textgreater{} {[}red{]}x{[}/red{]} `c` & "
        r"$-$0.5 {[}$-$1.0, +0.1{]} \\"
    )
    assert r"\begin{tabular}{lr}" in text
    assert r"\label{tab:a-table}" in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


def test_csv_holds_unrounded_values() -> None:
    rows = list(reader.reader(io.StringIO(csv(sheet('a,"b"\nc')))))
    assert rows == [["planner", "success"], ['a,"b"\nc', str(1 / 3)]]


@given(st.text(max_size=30))
def test_any_text_keeps_one_row_one_row(label: str) -> None:
    assert len(markdown(sheet(label)).split("\n")) == len(markdown(sheet("x")).split("\n"))
    assert len(latex(sheet(label)).split("\n")) == len(latex(sheet("x")).split("\n"))
    row = latex(sheet(label)).split("\n")[9]
    assert row.replace(r"\&", "").count("&") == 1


def test_a_row_of_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="a row without 2 cells"):
        Sheet("name", "", "", ["planner"], ["success"], [["only one"]], pd.DataFrame(), "")
