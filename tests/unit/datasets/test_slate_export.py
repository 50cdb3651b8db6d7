"""SLATE's card and its files for others: measured, the same every time, and refused where they were changed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import grid.datasets.slate.export as cards
from grid.core.errors import ConfigError, DataError
from grid.core.types import ToolCall
from grid.datasets.slate.__main__ import main
from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.export import (
    _check_names,
    baselines,
    card,
    ceiling,
    example,
    export,
    offers,
    scored_cases,
    standalone,
    table,
)
from grid.datasets.slate.quality import figures
from grid.datasets.slate.scoring import DATA_FILES, MANIFEST
from grid.datasets.slate.stats import categories, statistics

CASES, SEEDS = 30, (0, 1, 2)


@pytest.fixture(scope="module")
def slate() -> Slate:
    return Slate(cases=CASES)


@pytest.fixture(scope="module")
def text(slate: Slate) -> str:
    return card(slate, SEEDS)


@pytest.fixture(scope="module")
def made(slate: Slate, text: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slate") / "new" / "export"
    export(slate, folder, text)
    return folder


@pytest.fixture
def exported(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(made, tmp_path / "export"))


def rows(text: str) -> dict[str, list[str]]:
    """The cells of every table's rows by the first cell."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {first: rest for first, *rest in lines}


@pytest.mark.long
def test_the_head_is_what_hubs_read(text: str) -> None:
    _, head, body = text.split("---\n", 2)
    found = yaml.safe_load(head)
    assert (found["license"], found["language"], found["size_categories"]) == ("cc-by-4.0", ["en"], ["n<1K"])
    assert found["task_categories"]
    assert {"tool-use", "benchmark"} <= set(found["tags"])
    titles = re.findall(r"^## (.+)$", body, re.M)
    assert titles == [
        "How it was made", "Files", "Scoring", "Statistics", "Quality", "Baselines", "Ceiling", "Known limits",
        "What it should not be used for", "Licence", "How to cite", "Version",
    ]  # fmt: skip
    assert body.count("\n# ") == 1
    assert "{{" not in body
    assert "{%" not in body


@pytest.mark.long
def test_every_figure_is_measured(slate: Slate, text: str) -> None:
    cells = rows(text)
    seeds = [Slate(library_seed=seed, cases=CASES) for seed in SEEDS]
    for found in zip(*map(statistics, seeds), strict=True):
        assert cells[found[0].name] == [f"{found[0].paper:g}", *(f"{one.ours:.4g}" for one in found)]
    for own in categories(slate):
        assert cells[own.name] == [str(own.tools), f"{own.share:.1%}", str(own.used)]
    for place, seed in enumerate(seeds):
        for one in figures(seed):
            assert cells[one.name][1 + place].startswith(f"{one.value:.3g}")
            assert cells[one.name][1 + place].endswith("(missed)") is (one.holds is False)
    offered = offers(slate)
    for base in baselines(slate, scored_cases(slate), offered):
        assert f"{base.tool_match.mean:.1%} [" in cells[base.name][1]
        assert cells[base.name][0].startswith("at most") is base.bound
    assert [value.split(" in ")[0] for value in cells[cards._AGAIN]] == ["none", *["0"] * len(SEEDS)]
    assert cells["calls whose tool is offered (recall)"] == [f"{ceiling(offered).recall:.1%}"]
    words = (Path(cards.__file__).parent / "card.md").read_text(encoding="utf-8")
    assert set(re.findall(r"[\d.]+%", words)) == {"95%"}, "the template has no figure"


def test_targets_that_are_missed_stand_among_the_limits(slate: Slate, text: str) -> None:
    short = [one for one in figures(slate) if one.holds is False]
    limits = text.partition("## Known limits")[2].partition("## What")[0]
    assert limits.count("Its own target is missed") == len(short)
    assert all(one.name in limits for one in short)


def test_the_folder_is_a_slate_with_the_same_version_and_hashes(slate: Slate, made: Path, text: str) -> None:
    again = Slate(path=str(made))
    assert again.version == slate.version
    assert again.records == slate.records
    manifest = json.loads((made / MANIFEST).read_text())
    assert manifest["version"] == slate.version
    assert {path.name for path in made.iterdir()} == {*manifest["files"], MANIFEST}
    for name, said in manifest["files"].items():
        content = (made / name).read_bytes()
        assert (said["bytes"], said["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
        if name in DATA_FILES:
            assert said["sha256"] in text


@pytest.mark.long
def test_the_same_dataset_gives_the_same_bytes(slate: Slate, made: Path, text: str, tmp_path: Path) -> None:
    assert card(Slate(cases=CASES), SEEDS) == text
    for path in export(Slate(cases=CASES), tmp_path / "again", text):
        assert path.read_bytes() == (made / path.name).read_bytes()
    for path in export(Slate(path=str(made)), tmp_path / "of the export", text):
        assert path.read_bytes() == (made / path.name).read_bytes(), "an export's export is the same"


def test_the_tables_are_the_simulators(slate: Slate, made: Path) -> None:
    lines = (made / "simulator.jsonl").read_text(encoding="utf-8").splitlines()
    for tables in map(json.loads, lines):
        world = slate.problem(tables["case_id"]).world
        for entry in tables["entries"]:
            state, seen = asyncio.run(world.apply(world.start(), ToolCall(entry["tool"], entry["arguments"])))
            assert seen.content == entry["outcome"]
            assert state == frozenset(entry["substeps"])
            assert "OUTPUT_FROM_STEP" not in json.dumps(entry)
        _, missed = asyncio.run(world.apply(world.start(), ToolCall("x", {})))
        default = {name: text.replace("{tool}", "x") for name, text in tables["default"].items()}
        assert missed.content == default
    assert len(lines) == CASES


@pytest.mark.long
def test_a_card_of_an_export_says_how_it_was_made_and_of_other_files_does_not(
    made: Path, exported: Path, text: str
) -> None:
    of_export = card(Slate(path=str(made)))
    assert "**An authored stock.**" in of_export
    assert rows(of_export)["tools"] == rows(text)["tools"][:2]
    for name in ("score.py", "README.md", MANIFEST, "simulator.jsonl"):
        (exported / name).unlink()
    of_others = card(Slate(path=str(exported)))
    assert "does not guess" in of_others
    assert "**An authored stock.**" not in of_others
    assert yaml.safe_load(of_others.split("---\n")[1])["license"] == "unknown"


@pytest.mark.parametrize("name", ["tools.jsonl", "cases.jsonl"])
def test_changed_data_is_refused_by_name(exported: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = exported / name
    lines = path.read_text(encoding="utf-8").splitlines()
    record = json.loads(lines[0])
    record["category"] = "Other"
    path.write_text("\n".join([json.dumps(record), *lines[1:]]), encoding="utf-8")
    with pytest.raises(DataError, match="the file differs from the exported file"):
        card(Slate(path=str(exported)))
    (exported / "p.jsonl").write_text('{"case_id": "slate-0000", "calls": {}}')
    command = [sys.executable, "-I", "-S", str(exported / "score.py"), str(exported / "p.jsonl")]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 2
    assert found.stderr.startswith(f"error: {path}: the file differs from the exported file: its sha256 is ")
    assert called(capsys, "--card", "--path", str(exported)) == (2, found.stderr)


@pytest.mark.parametrize("manifest", [None, "", "[]", "{}", '{"files": []}', '{"files": {"tools.jsonl": 1}}'])
def test_a_folder_without_a_sound_manifest_is_refused_by_the_scorer(exported: Path, manifest: str | None) -> None:
    if manifest is None:
        (exported / MANIFEST).unlink()
    else:
        (exported / MANIFEST).write_text(manifest)
    command = [sys.executable, "-I", "-S", str(exported / "score.py"), "p.jsonl"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert (found.returncode, found.stderr.count("\n")) == (2, 1)
    assert found.stderr.startswith(f"error: {exported}")


def test_a_lost_file_is_named(exported: Path) -> None:
    (exported / "simulator.jsonl").unlink()
    with pytest.raises(DataError, match=r"simulator\.jsonl: cannot be read"):
        card(Slate(path=str(exported)))


def test_nothing_is_overwritten(slate: Slate, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(ConfigError, match="new or empty") as caught:
            export(slate, folder, "# A card\n")
        assert caught.value.key == "--export"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["slate", *arguments])
        status = main()
    return status, capsys.readouterr().err


def test_the_command_line(exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = tmp_path / "again"
    status, said = called(capsys, "--path", str(exported), "--export", str(again))
    assert (status, said) == (0, "measuring 3 libraries for the card, about half a minute each\n")
    assert sorted(path.name for path in again.iterdir()) == sorted([*DATA_FILES, "README.md", "score.py", MANIFEST])
    status, said = called(capsys, "--path", str(exported), "--export", str(again))
    assert (status, said.count("\n")) == (2, 1)
    assert str(again) in said
    status, said = called(capsys, "--card", "--path", str(tmp_path / "nowhere"))
    assert (status, said.count("\n")) == (2, 1)
    with pytest.raises(SystemExit, match="2"):
        called(capsys, "--path", str(exported))


def test_what_stands_in_a_case_cannot_leave_its_fence(slate: Slate) -> None:
    case = next(iter(slate.records.values()))
    hostile = Slate(cases=CASES)
    hostile.__dict__["records"] = {"x": case.model_copy(update={"query": "```\n# mine\n````"})}
    fence, *_, end = example(hostile).splitlines()
    assert (fence, end) == ("`````json", "`````")
    assert table(["", "a"], [["x | y", "1"]]).endswith("| x &#124; y | 1 |")


def test_a_file_that_would_need_more_than_python_is_refused() -> None:
    with pytest.raises(ValueError, match="must run without packages"):
        standalone("grid.retrievers.scored", ["BM25"], "A file")
    with pytest.raises(ValueError, match=r"one is defined in grid\.a and in grid\.b"):
        _check_names({"grid.a": {"one", "two"}, "grid.b": {"one", "three"}})
