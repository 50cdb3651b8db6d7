"""The figures of README.md and BENCHMARKS.md are what their commands print, or it is said."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from launch import readme
from tests.support import simulated

END = "<!-- end of figures -->\n"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "README.md"
    monkeypatch.setattr(readme, "FILES", (found,))
    return found


def written(*blocks: tuple[str, str]) -> str:
    """A text with a block for each marker and content."""
    return "before\n" + "between\n".join(f"<!-- figures {mark} -->\n{old}{END}" for mark, old in blocks) + "behind\n"


def test_every_block_has_a_command_that_can_be_run() -> None:
    folders = dict.fromkeys(readme.FOLDERS.values(), Path("a folder"))
    blocks = readme.every(readme.FILES)
    assert {"default", "ultratool", "choose", "throughput", "kopl", "chaos"} <= set(blocks)
    assert blocks["default"].file.name == "README.md"
    assert blocks["chaos"].file.name == "BENCHMARKS.md"
    for block in blocks.values():
        python, script, *rest = readme.command_line(block.command, folders)
        assert python == sys.executable
        assert (readme.ROOT / script).is_file()
        assert not [part for part in rest if not part.strip() or "..." in part], block.command
        assert block.content.startswith(f"\n{block.head}\n\n"), "a reader sees the command that the marker names"
        assert block.measured.startswith("measured at ")


def test_what_a_benchmark_prints_is_written_without_its_progress(page: Path) -> None:
    page.write_text(written(("help:\npython launch/bench.py \\\n  --help\n", "")).replace("\n -->", "\n-->"))
    assert readme.main(["write", "all"]) == 0
    said = page.read_text(encoding="utf-8")
    assert "\n\n```bash\npython launch/bench.py \\\n  --help\n```\n\n```text\nusage: bench.py" in said
    assert max(map(len, said.split("\n"))) <= readme.WIDTH
    out = subprocess.run(
        [sys.executable, "-c", "from launch import bench; print('1'); bench._figures().write('2'); print('3')"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (out.stdout, out.stderr) == ("1\n2", "3\n")


@pytest.mark.long
def test_tables_are_held_against_a_sweep(tmp_path: Path, page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated.write(tmp_path)
    shown = ["results", "robustness=tools_strict"]
    figures = readme.tables(tmp_path, shown)
    assert "| tools\\_strict | " in figures
    assert "forgiving" not in figures
    right = f"\n```bash\nc\n```\n\n{figures}\n\nran 7 cells in 1 s\n\nmeasured at x\n\n"
    mark = f"some ({', '.join(shown)}): c"
    page.write_text(written((mark, right)))
    page.write_text(written((mark, right.replace("in 1 s", "in 900 s"))))
    assert readme.main(["check", "some", str(tmp_path)]) == 0, "no time is compared"
    for wrong in (right.replace("| tools\\_strict | ", "| tools\\_strict |  ", 1), ""):
        page.write_text(written((mark, wrong)))
        capsys.readouterr()
        assert readme.main(["check", "some", str(tmp_path)]) == 1
        assert figures in capsys.readouterr().err
        assert page.read_text(encoding="utf-8") == written((mark, wrong)), "nothing is changed"


@pytest.mark.long
def test_a_command_that_fails_leaves_its_block(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = written(
        ("refused (results): python launch/sweep.py -m planner=nonsense", "old\n"),
        ("foreign: python -c 'open(\"/etc/passwd\")'", "old\n"),
        ("shell: python launch/../launch/sweep.py -m; rm -r results", "old\n"),
        ("placeless: python launch/sweep.py -m dataset=ultratool dataset.path=...", "old\n"),
        ("quoted: python launch/sweep.py 'planner=react", "old\n"),
        ("empty: python launch/sweep.py --cfg job", "old\n"),
        ("last: python launch/bench.py nonsense", "old\n"),
    )
    page.write_text(before)
    assert readme.main(["write", "all"]) == 1
    out, err = capsys.readouterr()
    assert "error: refused is unchanged: exit status 2\nerror: " in err
    assert "nonsense" in err
    assert err.count("must begin with python and one of launch/sweep.py, ") == 2
    assert "placeless" not in err
    assert "placeless: left out, because it needs --ultratool FOLDER" in out
    assert "invalid choice: 'nonsense'" in err
    assert "not written: refused, foreign, shell, quoted, empty, last" in err
    assert "error: quoted is unchanged: python launch/sweep.py 'planner=react: No closing quotation" in err
    assert "error: empty is unchanged: the sweep wrote no results" in err
    assert page.read_text(encoding="utf-8") == before
    assert readme.main(["write", "placeless"]) == 1
    assert "give it with --ultratool FOLDER" in capsys.readouterr().err


def test_all_goes_on_where_it_was_and_begins_with_the_shortest(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks measured with this code stay; see `is_of_this_code` for the changes that do not count."""
    here = readme.commit_of(readme.ROOT)
    if here is None:
        pytest.skip("no checkout")
    command = "python launch/bench.py --help"
    page.write_text(
        written(
            (f"unknown: {command}", "old\n\nmeasured at 0000000 on 2026-01-01\n"),
            (f"slow: {command}", "old\n\nmeasured at an earlier commit, in 1,200 s\n"),
            (f"quick: {command}", "old\n\nmeasured at 0000000-dirty on 2026-01-01, in 3 s\n"),
            (f"here: {command}", "old\n\nmeasured at abcdef0 on 2026-01-01, in 3 s\n"),
        )
    )
    monkeypatch.setattr(readme, "is_of_this_code", lambda measured: "abcdef0" in measured)
    assert readme.main(["write", "all"]) == 0
    out = capsys.readouterr().out
    places = [out.index(f"\n{name}:\n") for name in ("quick", "slow", "unknown")]
    assert places == sorted(places)
    assert "3 blocks to measure; the last measurements of 2 of these blocks took 20 minutes" in out
    assert "here: measured at abcdef0" in out
    blocks = readme.every(readme.FILES)
    assert blocks["here"].content.startswith("old\n")
    assert [blocks[name].seconds is not None for name in ("quick", "slow", "unknown")] == [True] * 3
    assert f"measured at {here} on " in blocks["quick"].measured


CODE = '''"""Old."""

def one() -> str:
    """Old."""
    return "Old. 1"  # old
'''


METRIC = "found | number | share | higher | | The old meaning. | an old reason\n"


def test_a_block_is_of_this_code_if_only_texts_without_influence_on_figures_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.net"]
        return subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    metrics = "grid/core/declared.txt"
    files = {"grid/a.py": CODE, "conf/a.yaml": "a: 1  # one\n", "grid/a.txt": "1", metrics: METRIC}
    for name, text in {**files, "docs/a.md": "1", "tests/test_a.py": "1", "NOTES.md": "1"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    first = git("rev-parse", "--short", "HEAD").strip()
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    for name in ("docs/a.md", "tests/test_a.py", "NOTES.md"):
        (tmp_path / name).write_text("2")
    (tmp_path / "grid/a.py").write_text(CODE.replace('"""Old.', '"""New,\n    on two lines.').replace("# old", "# new"))
    (tmp_path / "conf/a.yaml").write_text("# A head.\na: 1\n")
    (tmp_path / metrics).write_text("# A head.\n" + METRIC.replace("old", "new"))
    git("commit", "-qam", "pages")
    assert readme.is_of_this_code(f"measured at {first} on 2026-11-29, in 3 s")
    assert not readme.is_of_this_code(f"measured at {first}-dirty on 2026-11-29")
    assert not readme.is_of_this_code("measured at 0000000 on 2026-11-29")
    assert not readme.is_of_this_code("measured at an earlier commit")
    changes = {"grid/a.py": CODE.replace("1", "2"), "conf/a.yaml": "a: 2", "grid/a.txt": "2", "grid/new.py": ""}
    changes |= {metrics: METRIC.replace("share", "calls")}
    for name, text in changes.items():
        before = (tmp_path / name).read_text() if (tmp_path / name).exists() else None
        (tmp_path / name).write_text(text)
        git("add", name)
        assert not readme.is_of_this_code(f"measured at {first} on 2026-11-29"), f"{name}, though not committed"
        (tmp_path / name).write_text(before or "")
        git("reset", "-q", name) if before is not None else git("rm", "-qf", name)
    assert readme.is_of_this_code(f"measured at {first} on 2026-11-29")
    (tmp_path / "grid/a.txt").unlink()
    assert not readme.is_of_this_code(f"measured at {first} on 2026-11-29"), "a file is gone"


def test_a_block_is_written_into_its_own_file(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "BENCHMARKS.md"
    monkeypatch.setattr(readme, "FILES", (page, other))
    first, second = written(("one: python launch/bench.py --help", "old\n")), written(("two: a", "old\n"))
    page.write_text(second)
    other.write_text(first)
    assert readme.main(["write", "one"]) == 0
    assert page.read_text(encoding="utf-8") == second
    assert "usage: bench.py" in other.read_text(encoding="utf-8")


def test_a_folder_is_given_and_never_shown(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder; of $mine"
    line = readme.command_line("python launch/bench.py overhead --against ... --rounds 1", {"against": folder})
    assert line[3:] == ["--against", str(folder), "--rounds", "1"]
    assert shlex.join(line).count("overhead") == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<!-- figures one: python x -->\nold\n", "figures must stand between"),
        (written(("one: a", "old\n"), ("one: b", "old\n")), "two blocks of figures have the name one"),
        (written(("one more: a", "old\n")), "figures must stand between"),
        ("<!-- figures one: a -->\n" + written(("two: b", "old\n")), "figures must stand between"),
        (written(("one: a", "old\n")), "no block of figures has the name default; the blocks are one"),
    ],
)
def test_what_is_no_block_is_said(page: Path, capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    page.write_text(text)
    assert readme.main(["check", "default", "nowhere"]) == 2
    assert told in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == text


def test_results_that_are_not_there_are_said(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page.write_text(written(("one (results): a", "old\n")))
    assert readme.main(["check", "one", "nowhere"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert readme.main([]) == 0
    assert capsys.readouterr().out == "one: old\n  a\n"
