"""`agent-grid data`: counts, rules and cases of any data set, in its own words where its folder has some."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grid import data
from grid.core.types import FINISH, ToolCall
from grid.datasets.null import Null
from launch import new
from tests.support import apb, documented, mcp
from tests.support.plugins import standing_in, write

DESK = '''
from grid import STRICT, FunctionTasks
from pydantic.dataclasses import dataclass
from dataclasses import replace

def add(a: int, b: int) -> int:
    """The sum."""
    return a + b

@dataclass(config=STRICT)
class Desk(FunctionTasks):
    """Sums, of which one asks for another tool's outcome."""

    def functions(self):
        return (add,)

    def problem(self, case_id):
        found = super().problem(case_id)
        if "9" not in found.case.query:
            return found
        return replace(found, world=replace(found.world, goal=super().problem(self.case_ids()[0]).world.goal))
'''
STATS = """
def tables(dataset):
    yield f"{len(dataset.tools)} tool in its own words"

def broken(dataset):
    yield "a rule of its own"
"""


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = data.main(arguments)
    found = capsys.readouterr()
    return status, found.out + found.err


@pytest.mark.long
@pytest.mark.parametrize("name", ["slate", "kqa_synthetic", "gta_generated", "null_cases"])
def test_what_ships_says_what_it_holds_and_keeps_its_rules(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    few = [] if name == "null_cases" else ["dataset.limit=30"]
    status, text = said(capsys, name, *few, "--stats", "--check", "--show", "1")
    assert status == 0, text
    assert "clusters, the independent units for confidence intervals" in text
    assert " 0 rules broken" in text


def test_a_case_is_written_in_its_own_words(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = said(capsys, "apb_synthetic", "dataset.families=[unsolvable]", "--show", "2")
    assert status == 0
    assert text.count("\n  unsolvable, ") == 2


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    line = {"question": "What are 3 and 4 together?", "calls": [{"tool": "add", "arguments": {"a": 3, "b": 4}}]}
    other = {"question": "And 2 and 9?", "calls": [{"tool": "add", "arguments": {"a": 2, "b": 9}}]}
    lost = {"question": "And 2 less 9?", "calls": [{"tool": "subtract", "arguments": {"a": 2, "b": 9}}]}
    files = {
        "mylab/__init__.py": "",
        "mylab/datasets/__init__.py": "",
        "mylab/datasets/desk.py": DESK,
        "mylab/datasets/desk.jsonl": "".join(json.dumps(one) + "\n" for one in (line, other, lost)),
        "mylab/conf/dataset/desk.yaml": "_target_: mylab.datasets.desk.Desk\npath: null\norder: file\n",
    }
    return write(tmp_path, files)


def test_a_case_that_its_own_calls_do_not_resolve_is_told(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with standing_in(lab):
        status, text = said(capsys, "--plugin", "mylab", "desk", "--check")
        assert status == 1
        assert "desk-0002: the calls of its reference do not resolve it" in text
        assert "2 cases were run with the calls of their references; 1 rules broken; 1 skipped\n" in text
        assert "skipped: desk.jsonl:3 (desk-0003): there is no tool subtract; the tools are add" in text
        status, text = said(capsys, "--plugin", "mylab", "desk")
        assert status == 0
        assert "there is no tool subtract" in text, "what is skipped is told"
        assert "desk.jsonl:3 desk-0003" in text, "and where it is"
        status, text = said(capsys, "--plugin", "mylab", "desk", "--show", "1")
        assert '"a": 3' in text
        assert '"result": 7' in text


def test_a_skipped_task_of_ones_own_file_breaks_a_rule(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (lab / "mylab/datasets/desk.jsonl").read_text(encoding="utf-8").splitlines()
    write(lab, {"mylab/datasets/desk.jsonl": "\n".join([lines[0], lines[2]])})
    with standing_in(lab):
        status, text = said(capsys, "--plugin", "mylab", "desk", "--check")
    assert status == 1, text
    assert "0 rules broken; 1 skipped" in text


def test_skipped_records_of_published_files_break_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = apb.write(tmp_path, apb.row("1"), apb.row("2", query=" "))
    status, text = said(capsys, "apb", f"dataset.path={path}", "dataset.scorer=rules", "--check")
    assert status == 0, text
    assert "0 rules broken; 1 skipped (--stats says why)" in text


def test_cases_that_are_not_run_are_told_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"id": "odd", "query": "q", "calls": [{"tool": "prise"}]}
    values = [f"dataset.{key}={value}" for key, value in mcp.command().items()]
    given = [f"dataset.path={mcp.write(tmp_path, [*mcp.tasks(), row])}", *values]
    status, text = said(capsys, "mcp", *given, "--check")
    assert status == 1, text
    assert "0 cases were run with the calls of their references; 0 rules broken; 1 skipped" in text
    assert "tasks.jsonl:12 (odd): the reference calls 'prise', which is not a tool of the server (did you mean" in text
    assert "3 cases were not run: calls alone do not resolve them" in text
    assert "8 cases were not run: their tools are live, and calls may change the tools' data; --show N" in text


def test_the_tools_and_tasks_of_the_page_can_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new.write("dataset", "desk", "mylab", tmp_path)
    documented.with_desk(tmp_path)
    with standing_in(tmp_path):
        status, text = said(capsys, "--plugin", "mylab", "desk", "--check")
    assert (status, text) == (0, "8 cases were run with the calls of their references; 0 rules broken\n")


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, []),
        ({"query": " "}, ["it has no query"]),
        ({"call": ToolCall("lookup", {"kard": 1})}, ["step 0 of its reference gives answer an argument"]),
        ({"call": ToolCall("nope", {})}, ["step 0 of its reference calls nope, which is not a tool"]),
        ({"call": ToolCall("nope", {}), "unsolvable": True}, []),
        ({"call": ToolCall(FINISH, {"answer": "x"})}, []),
    ],
)
def test_calls_that_no_tool_takes_are_told(changes: dict[str, Any], wanted: list[str]) -> None:
    problem = Null(cases=1).problem("null-0")
    (tool,) = problem.library
    call = changes.get("call", ToolCall(tool, {}))
    call = replace(call, tool=tool) if call.tool == "lookup" else call
    case = replace(problem.case, query=changes.get("query", problem.case.query))
    reference = replace(problem.reference, calls={"0": call}, unsolvable=changes.get("unsolvable", False))
    found = list(data.wrong_calls(replace(problem, case=case, reference=reference)))
    assert len(found) == len(wanted)
    assert all(line.startswith(begun) for line, begun in zip(found, wanted, strict=True))


@pytest.mark.parametrize("module", ["mylab.datasets.desk", "mylab.datasets", "mylab"])
def test_its_own_words_come_beside_ours(lab: Path, capsys: pytest.CaptureFixture[str], module: str) -> None:
    folder = lab / "mylab" if module == "mylab" else lab / "mylab/datasets"
    (lab / "mylab/datasets/desk.py").replace(folder / ("desk.py" if module.endswith("desk") else "__init__.py"))
    file = f"_target_: {module}.Desk\npath: {lab}/mylab/datasets/desk.jsonl\norder: file\n"
    write(lab, {"mylab/conf/dataset/desk.yaml": file, f"{folder}/stats.py": STATS})
    with standing_in(lab):
        status, text = said(capsys, "--plugin", "mylab", "desk", "--stats", "--check")
    assert status == 1
    assert "1 tool in its own words" in text
    assert "a rule of its own" in text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["slat"], "dataset='slat'"),
        (["slate", "planner.samples=3"], "planner="),
        (["slate", "dataset=ultratool"], "dataset="),
        (["slate", "dataset.limt=3"], "limt"),
        (["ultratool"], "dataset.path"),
        (["ultratool", "dataset.path=/nowhere/at/all"], "/nowhere/at/all"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_line(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = said(capsys, *arguments)
    assert (status, text.count("\n")) == (2, 1)
    assert named in text
