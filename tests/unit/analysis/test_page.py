"""The page holds every table and loads nothing; figures are the same for the same rows."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console

from analysis.figures import drawings
from analysis.load import frames
from analysis.page import html
from analysis.page.drawing import Drawing
from analysis.page.table import Table
from analysis.papers import study
from analysis.report import print_report
from grid import store
from launch.report import main, write_page, write_tables
from tests.support import simulated
from tests.support.tables import without_sorting

EVIL = '<script src="http://127.0.0.1:9/x.js"></script><img src=x onerror=alert(1)>$x$ & "q" \x1b[31m'


class Reported(NamedTuple):
    """A folder that the command has reported on: what it printed, the page, and the tables as they are made anew."""

    root: Path
    printed: str
    text: str
    tables: Sequence[Table]


def written(root: Path) -> tuple[str, Sequence[Table]]:
    found = print_report(root, Console(file=io.StringIO()), papers=True)
    return write_page(root, found).read_text(encoding="utf-8"), found


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """A report takes seconds: the tests that only look at one share this."""
    root = tmp_path_factory.mktemp("page") / "swept"
    simulated.write(root)
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        assert reported(patch, root, "--papers", "--tables", root.parent / "tables") == 0
    text = (root / "report.html").read_text(encoding="utf-8")
    return Reported(root, printed.getvalue(), text, print_report(root, Console(file=io.StringIO()), papers=True))


_COUNTED = """
import sys
from grid import store
from launch import report
read, tables = store.read, []
def counted(root, table, *arguments, **named):
    tables.append(table)
    return read(root, table, *arguments, **named)
store.read = counted
report.main()
heavy = {"hydra", "ray", "torch", "rich.live", "grid.sweeps.progress"}
print(tables.count("episodes") <= 2, *sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.long
def test_a_report_reads_its_cells_twice_at_most_and_imports_nothing_that_runs_a_sweep(
    swept: Reported, tmp_path: Path
) -> None:
    root = shutil.copytree(swept.root, tmp_path / "copy")
    found = subprocess.run([sys.executable, "-c", _COUNTED, root], capture_output=True, text=True, check=True)
    assert found.stderr == "True\n", "nearly all that tables ask for comes at once"


def test_memory_that_holds_cached_files_can_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, whole, told = tmp_path / "empty", set[Path](), tmp_path / "meminfo"
    monkeypatch.setattr(frames, "_whole", whole)
    monkeypatch.setattr(frames, "_MEMORY", told)
    root.mkdir()
    frames.hold(root)
    assert not whole, "nothing is told"
    told.write_text("MemFree: 20000000 kB\nMemAvailable: 1 kB\n", encoding="utf-8")
    frames.hold(root)
    assert not whole
    told.write_text("MemFree: 1 kB\nMemAvailable: 20000000 kB\n", encoding="utf-8")
    frames.hold(root)
    assert whole == {root}


@pytest.fixture(scope="module")
def drawn(swept: Reported) -> Sequence[Drawing]:
    """The figures of that folder, drawn another time."""
    return drawings.drawings(swept.root)


def test_the_page_holds_every_table_figure_and_query(swept: Reported, drawn: Sequence[Drawing]) -> None:
    text, tables = swept.text, swept.tables
    assert len(text.encode()) < 2_000_000
    assert text.count("<table>") == len(tables) == 20
    assert text.count("<svg") == len(drawn) + 1 == 9, "success of every planner besides"
    assert text.count("<pre><code>") == len(tables) + 9
    places = [text.index(mark) for mark in ("This shows lexical: ", 'class="summary"', "<svg", "<nav", "<table>")]
    assert places == sorted(places), "what can be quoted, then pictures, then all tables"
    headings = ["Planning horizon", "By model and data set", "Cost against success"]
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", text) == headings
    contents = text[text.index("<nav") : text.index("</nav>")]
    assert re.findall(r"<summary>(.*?) \(\d+\)</summary>", contents) == headings, "they fold by subject"
    for table in tables:
        for cell in (cell for row in table.rows for cell in row):
            assert cell.replace("<", "&lt;").replace(">", "&gt;") in text


def test_the_page_names_no_other_place_and_runs_nothing(swept: Reported) -> None:
    text = without_sorting(swept.text)
    assert "default-src 'none'" in text
    script = (Path(html.__file__).parent / "page.js").read_bytes()
    assert f"script-src 'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}';" in text
    links = re.findall(r"""(?:href|src|url)\s*[=(]\s*["']?([^"')\s>]*)""", text)
    assert links
    inside = [link[1:] for link in links if link.startswith("#")]
    assert all(link.startswith("http://127.0.0.1:8321/") for link in links if link[1:] not in inside), "the viewer's"
    assert not re.search(r"<(script|link|iframe|object|embed|img|image)\b", text)
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    assert set(inside) <= set(ids)


@pytest.mark.long
def test_labels_are_escaped_everywhere(tmp_path: Path) -> None:
    rows = simulated.episodes(0, 60).assign(model=EVIL, dataset=EVIL)
    rows["last_step"] = rows["last_step"].replace("Count", EVIL)
    store.write(tmp_path, {"episodes": [simulated.row(row) for row in rows.to_dict("records")]})
    whole, found = written(tmp_path)
    text = without_sorting(whole)
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "&lt;script src=" in text
    assert "$x$" in text, "no mathematics in figures' labels"
    write_tables(tmp_path / "tables", found)
    assert len(list((tmp_path / "tables").iterdir())) == 3 * len(found) == 3 * 10


def test_figures_are_deterministic(swept: Reported, drawn: Sequence[Drawing]) -> None:
    assert drawn
    assert all(one.svg in swept.text for one in drawn)


@pytest.mark.long
def test_a_page_without_the_studys_planners(tmp_path: Path) -> None:
    rows = simulated.episodes(0, 5).assign(planner="react")
    store.write(tmp_path, {"episodes": [simulated.row(row) for row in rows.to_dict("records")]})
    text, _ = written(tmp_path)
    assert text.count("<table>") == 5
    assert [one.name for one in drawings.drawings(tmp_path)] == ["failures lexical kqa_synthetic"], (
        "one planner has nobody to be compared with"
    )
    assert "figures are missing" not in text, "nobody asked for the study"


def test_many_warnings_leave_the_results_in_sight() -> None:
    told = [f"warning {number}" for number in range(7)]
    before, after = html.document("x", "", [], [], told).split("<summary>and 3 more warnings and notes</summary>")
    assert [line for line in told if f">{line}<" in before] == told[:4]
    assert [line for line in told if f">{line}<" in after] == told[4:]


def test_a_long_table_is_cut_and_says_so(swept: Reported) -> None:
    table = swept.tables[0]
    long = html._bounded(replace(table, lines=[table.read[0]] * 3000))
    assert len(long.rows) == 2000
    assert "of 3,000 rows" in long.notes[-1]


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("chromium"), reason="needs a browser")
def test_a_browser_shows_it_and_reports_nothing_blocked(swept: Reported, tmp_path: Path) -> None:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    command += [f"--user-data-dir={tmp_path}/profile", "--dump-dom", (swept.root / "report.html").as_uri()]
    found = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    assert found.stdout.count("<table>") == 20
    assert 'tabindex="0" title="sort"' in found.stdout, "the script ran"
    assert "Content Security Policy" not in found.stderr
    assert "CONSOLE" not in found.stderr


def reported(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["report.py", *map(str, arguments)])
    return main()


def test_the_command_prints_tables_and_writes_the_page_and_files(swept: Reported) -> None:
    for title in ("table 2", "table 3", "table 4", "table 5"):
        assert title in swept.printed
    assert "all regression coefficients" not in swept.printed, "it is long: the page and the files have it"
    assert (swept.root / "report.html").is_file()
    assert len([*(swept.root.parent / "tables").glob("*_coefficients.tex")]) == 1


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_the_command_tells_success_by_what_cases_are_and_papers_by_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = simulated.episodes(0, 45).to_dict("records")
    store.write(tmp_path / "swept", {"episodes": [simulated.row(row) | {"engine": "lexical"} for row in rows]})
    assert reported(monkeypatch, tmp_path / "swept", "--by", "depth", "--wide") == 0
    printed = capsys.readouterr().out
    assert "success by depth" in printed
    assert "published values beside ours" not in printed
    assert "published figures are not shown, because no language model was used (--papers shows them)" in printed
    assert reported(monkeypatch, tmp_path / "swept", "--papers", "--wide") == 0
    assert "published values beside ours" in capsys.readouterr().out
    assert reported(monkeypatch, tmp_path / "swept", "--by", "dept") == 2
    assert (
        "by=dept: the table `episodes` has no such column (did you mean depth?); allowed: category, tools, template, "
        in capsys.readouterr().err
    )


@pytest.mark.long
@pytest.mark.usefixtures("undrawn")
def test_the_command_fits_another_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated.write(tmp_path / "swept", count=45)
    text = study.PLANNING_HORIZON.read_text().replace(
        "depth_edges * SH + breadth_edges * SH + controls + C(dataset)", "depth"
    )
    other = tmp_path / "other.yaml"
    other.write_text(text)
    assert reported(monkeypatch, tmp_path / "swept", "--analysis", other) == 0
    assert "success ~ depth; binomial GEE" in capsys.readouterr().out
    other.write_text(text.replace("~ depth", "~ dept"))
    assert reported(monkeypatch, tmp_path / "swept", "--analysis", other) == 2
    assert "no column 'dept'; allowed: " in capsys.readouterr().err
    assert reported(monkeypatch, tmp_path / "swept", "--analysis", "not_there") == 2


def test_a_folder_without_rows_has_a_page_without_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "episodes").mkdir()
    assert reported(monkeypatch, tmp_path) == 0
    text = (tmp_path / "report.html").read_text()
    assert "<table>" not in text
    assert "There is nothing to show" in text
