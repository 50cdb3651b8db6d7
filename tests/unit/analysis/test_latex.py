"""Every table that is written as LaTeX compiles, with the two packages that its first line names."""

from __future__ import annotations

import io
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from analysis.page.render import latex
from analysis.report import print_report
from launch.report import write_tables
from tests.support import simulated
from tests.support.tables import table_of

NASTY = r"a|b & 50% $x_1$ {y} #1 ~ ^ \cmd <b>*bold*</b> [red] `c` 'd' – √p ≥ ≤ τ − ± × ∞ † é ß 漢 \x1b 🙂"

pytestmark = pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs a TeX")


def compiled(folder: Path, tables: list[str]) -> str:
    """The log of a document with all tables, which must not have an error."""
    preamble = r"\documentclass{article}\usepackage{booktabs}\usepackage[T1]{fontenc}\begin{document}"
    body = "\n".join(rf"{table}\clearpage" for table in tables)
    (folder / "all.tex").write_text(f"{preamble}\n{body}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    log = (folder / "all.log").read_text(encoding="utf-8", errors="replace")
    assert ended.returncode == 0, log[-3000:]
    assert (folder / "all.pdf").is_file()
    return log


@pytest.mark.long
def test_all_tables_of_a_report_compile(tmp_path: Path) -> None:
    simulated.write(tmp_path / "swept", count=30)
    tables = print_report(tmp_path / "swept", Console(file=io.StringIO()))
    write_tables(tmp_path / "tables", tables)
    files = sorted((tmp_path / "tables").glob("*.tex"))
    assert len(files) == len(tables) > 10
    log = compiled(tmp_path, [file.read_text(encoding="utf-8") for file in files])
    assert "Missing character" not in log, "nothing that is written is left out"
    assert "Overfull" not in log, "no table is wider than the text"


def test_labels_of_any_kind_compile(tmp_path: Path) -> None:
    values = pd.DataFrame({"planner": [NASTY], "success": [1.0]})
    shown = table_of([[NASTY, NASTY]], values, title=f"title {NASTY}", about=NASTY, notes=[NASTY])
    text = latex(shown)
    assert "U+6F22" in text
    assert "Missing character" not in compiled(tmp_path, [text])


def test_every_letter_of_the_latin_alphabets_compiles(tmp_path: Path) -> None:
    letters = "".join(map(chr, range(0xA0, 0x180)))
    values = pd.DataFrame({"planner": [letters], "success": [1.0]})
    compiled(tmp_path, [latex(table_of([[letters, ""]], values))])
