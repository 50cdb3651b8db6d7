"""Figures and tables for a paper: vector files a column wide, and captions of two lines."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.axes import Axes
from rich.console import Console

from analysis.page.drawing import Drawing, svg_of
from analysis.page.render import _latex, _with_values, latex
from analysis.report import print_report
from launch.report import write_figures
from tests.support import simulated
from tests.support.tables import table_of

POINTS = 72


def drawn(across: int) -> Drawing:
    def draw(axes: object) -> None:
        for axis in axes:  # type: ignore[attr-defined]
            assert isinstance(axis, Axes)
            axis.plot([1, 2], [3, 4])
            axis.set_title("a label")

    return Drawing("cost 1", "title", "caption", svg_of("cost", 1, across, draw, width=7.2), "SELECT 1")


@pytest.mark.parametrize(("across", "inches"), [(1, 3.35), (2, 6.9)])
def test_a_figure_is_a_vector_file_as_wide_as_a_column_or_the_text(tmp_path: Path, across: int, inches: float) -> None:
    write_figures(tmp_path, [drawn(across)])
    pdf, svg = (tmp_path / f"01_cost_1.{form}" for form in ("pdf", "svg"))
    content, text = pdf.read_bytes(), svg.read_text()
    (box,) = re.findall(rb"/MediaBox \[([^\]]*)\]", content)
    assert float(box.split()[2]) == pytest.approx(inches * POINTS)
    assert b"/FontFile2" in content, "the font is in the file"
    assert b"/Subtype /Image" not in content
    assert b"/Title (title)" in content
    assert "<dc:title>title</dc:title>" in text
    assert re.search(rf'width="{inches * POINTS:g}pt"', text)
    assert "<text" not in text
    assert "<image" not in text
    before = content, text
    write_figures(tmp_path, [drawn(across)])
    assert (pdf.read_bytes(), svg.read_text()) == before, "the same bytes for the same rows"


@pytest.mark.long
def test_captions_have_two_lines_figures_align_and_nothing_is_lost(tmp_path: Path) -> None:
    simulated.write(tmp_path, count=30)
    tables = print_report(tmp_path, Console(file=io.StringIO()))
    for table in tables:
        text = latex(table)
        (caption,) = re.findall(r"\\caption\{(.*)\}\n", text)
        assert len(caption) < len(table.title) + 190
        assert "resizebox" not in text
        assert text.count(r"\begin{tabular}") == text.count(r"\toprule") == text.count(r"\bottomrule") >= 1
        if not table.wraps:
            assert all(rule.endswith("r") for rule in re.findall(r"\\begin\{tabular\}\{(.*)\}", text) if table.figures)
        there = _with_values(table)
        clauses = there.caption.split("; ")
        assert sum(text.count(_latex(clause)) for clause in clauses) >= len(clauses)
        assert all(_latex(cell) in text for row in there.rows for cell in row)
        left_out = set(table.figures) - set(there.figures)
        assert not left_out or all(name in there.notes[-1] for name in left_out), "named in the note"


def test_marks_leave_digits_below_one_another() -> None:
    table = table_of([["a", "+1.0*†"], ["b", "-2.0"], ["c", "+3.0*"]], pd.DataFrame({"x": [1]}))
    rows = [line for line in latex(table).splitlines() if line[:3] in ("a &", "b &", "c &")]
    assert rows == [
        r"a & +1.0*\textdagger{} \\",
        r"b & $-$2.0\phantom{*\textdagger{}} \\",
        r"c & +3.0*\phantom{\textdagger{}} \\",
    ]


def test_a_wide_table_has_several_parts_each_with_its_labels() -> None:
    row = ["label", *(f"{place}.25" * 3 for place in range(12))]
    text = latex(table_of([row], pd.DataFrame({"x": [1]}), figures=[f"f{place}" for place in range(12)]))
    assert text.count(r"\begin{tabular}") > 1
    assert text.count("label &") == text.count(r"\begin{tabular}")
    assert all(text.count(figure) == 1 for figure in row[1:])
