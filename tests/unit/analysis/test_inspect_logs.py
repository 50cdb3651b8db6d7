"""Logs of Inspect hold what the tables hold, and Inspect's own reader and viewer find it there."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from grid import store
from grid.core.engine import Section
from grid.core.errors import ConfigError
from launch import export
from launch.export import main
from tests.support import simulated
from tests.support.clusters import free_port, wait_for

EVIL = '<script>alert(1)</script>![x](http://127.0.0.1:9/x.png) \x1b[31m \u202e {"a": "\\ud800"}'


def rows(planner: str, case: int, trial: int, success: bool | None, **more: Any) -> dict[str, list[dict[str, Any]]]:
    """One cell with three decisions, the second beside the path, and what it asked."""
    cell = f"{planner}-{case}-{trial}"
    prompt = [Section("role", ("You call tools.",)), Section("request", (f"Case {case}?",))]
    step = {"cell_id": cell, "attempt_id": "x", "branch": 0, "chosen_tool": "look", "on_path": True,
            "arguments": '{"place": [1, {"deep": "x"}]}', "observation": f"seen {case}", "failed": False,
            "reference_tool": "look", "tool_matches": True, "entropy": 0.5,
            "options": [{"tool": "look", "probability": 1.0}]}  # fmt: skip
    asked = {"cell_id": cell, "attempt_id": "x", "role": "actor", "decision": "pass0/1", "request": "sample",
             "wanted": "tool_call", "seed": 1, "n": 1, "temperature": 0.0, "max_tokens": 9, "message": 0,
             "prompt": [one.digest for one in prompt], "answers": [f"answer {cell}"], "unreadable": []}  # fmt: skip
    return {
        "episodes": [
            {"cell_id": cell, "cell_key": cell, "setting_id": planner, "sweep": "s", "model": "qwen", "engine": "vllm",
             "planner": planner, "dataset": "slate", "dataset_version": "v1", "robustness": "none", "pool": "all",
             "case_id": f"case-{case}", "case_digest": f"digest-{case}", "cluster": f"template-{case // 2}",
             "trial": trial, "attempt_id": "x", "status": "ok" if success is not None else "failed",
             "error_kind": None if success is not None else "model", "error_message": "broke", "success": success,
             "tool_match_rate": 0.25 * case, "answer": f"done {case}", "n_messages": 1, "input_tokens": 100,
             "output_tokens": 10 + trial, "judge_input_tokens": 7, "judge_output_tokens": 3, "wall_seconds": 1.0,
             "config": '{"seed": 0}', "created_at": simulated.NOON, "git_commit": "abc"} | more
        ],
        "steps": [step | {"step": 0, "thought": "I look."}, step | {"step": 1, "on_path": False, "branch": 1},
                  step | {"step": 2, "chosen_tool": "no_tool", "arguments": None, "observation": None}],
        "messages": [asked],
        "sections": [{"digest": one.digest, "kind": one.kind, "entries": list(one.entries), "options": []}
                     for one in prompt],
        "cases": [{"digest": f"digest-{case}", "case_id": f"case-{case}", "query": f"Find {case}.", "messages": [],
                   "outline": [], "calls": [{"substep_id": "1", "tool": "look", "arguments": '{"place": 1}'},
                                            {"substep_id": "2", "tool": None, "arguments": None}]}],
    }  # fmt: skip


def written(root: Path, *cells: dict[str, list[dict[str, Any]]]) -> Path:
    for cell in cells:
        store.write(root, cell)
    return root


def planted(root: Path) -> Path:
    return written(
        root,
        *(rows("react", case, trial, (case + trial) % 2 == 0) for case in range(4) for trial in range(2)),
        *(rows("sh", case, 0, None if case == 3 else case < 2) for case in range(4)),
    )


def exported(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["export.py", "inspect", *map(str, arguments)])
    return main()


@pytest.fixture
def inspect_log() -> Any:
    return pytest.importorskip("inspect_ai.log", reason="the extra inspect is not installed")


def test_counts_scores_and_usage_are_those_of_the_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inspect_log: Any
) -> None:
    root = planted(tmp_path / "run")
    assert exported(monkeypatch, root) == 0
    logs = {log.eval.solver: log for log in map(inspect_log.read_eval_log, (root / "inspect").iterdir())}
    assert set(logs) == {"react", "sh"}
    for row in store.read(root, "episodes", wide=True).to_pylist():
        (sample,) = [one for one in logs[row["planner"]].samples if one.uuid == row["cell_id"]]
        assert (sample.id, sample.epoch) == (row["case_id"], row["trial"] + 1)
        known = {True: "C", False: "I"}.get(row["success"])
        assert (sample.scores["success"].value if "success" in sample.scores else None) == known
        assert sample.scores["tool_match_rate"].value == row["tool_match_rate"]
        assert sample.model_usage["qwen"].output_tokens == row["output_tokens"]
        assert sample.role_usage["judge"].total_tokens == 10
        assert (sample.error is None) == (row["status"] == "ok")
    react, sh = logs["react"], logs["sh"]
    assert len(react.samples) == react.results.total_samples == 8
    means = {score.name: score.metrics["mean"].value for score in react.results.scores}
    assert means == {"success": 0.5, "tool_match_rate": 0.375}
    (success,) = [score for score in sh.results.scores if score.name == "success"]
    assert (success.metrics["mean"].value, success.unscored_samples) == (pytest.approx(2 / 3), 1)
    assert success.metrics["low"].value < 2 / 3 < success.metrics["high"].value
    assert (react.eval.config.epochs, react.eval.dataset.samples, sh.results.completed_samples) == (2, 4, 3)
    assert react.stats.model_usage["qwen"].output_tokens == 84


def test_a_sample_reads_as_the_episode_went(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inspect_log: Any) -> None:
    root = written(tmp_path, rows("react", 1, 0, True))
    assert exported(monkeypatch, root) == 0
    (path,) = (root / "inspect").iterdir()
    (sample,) = inspect_log.read_eval_log(path, resolve_attachments=True).samples
    assert (sample.input, sample.target) == ("Find 1.", 'look({"place": 1})')
    assert [message.role for message in sample.messages] == ["user", "assistant", "tool", "assistant", "assistant"]
    _, called, seen, none, answer = sample.messages
    assert (called.text, seen.text, none.text, answer.text) == ("I look.", "seen 1", "no_tool", "done 1")
    (call,) = called.tool_calls
    assert (call.function, call.arguments) == ("look", {"place": [1, {"deep": "x"}]})
    assert seen.tool_call_id == call.id
    (event,) = sample.events
    assert [message.text for message in event.input] == ["You call tools.", "Case 1?"]
    assert event.output.completion == "answer react-1-0"
    assert sample.metadata["decisions not on the path"] == 1
    assert sample.metadata["mean_entropy_nats"] == 0.5


def test_large_settings_are_cut_between_cases_and_large_texts_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inspect_log: Any
) -> None:
    from analysis.viewer import inspect_logs as logs

    monkeypatch.setattr(logs, "CELLS", 3)
    monkeypatch.setattr(logs, "MOST", 50)
    monkeypatch.setattr(logs, "STEPS", 1)
    monkeypatch.setattr(logs, "EVENTS", 0)
    cells = [rows("react", c, t, True, answer="y" * 500) for c in range(3) for t in range(2)]
    root = written(tmp_path, *cells)
    assert exported(monkeypatch, root) == 0
    parts = [inspect_log.read_eval_log(path) for path in (root / "inspect").iterdir()]
    assert sorted(len(part.samples) for part in parts) == [2, 2, 2]
    assert {part.eval.task.rpartition(" (")[2] for part in parts} == {"1 of 3)", "2 of 3)", "3 of 3)"}
    for part in parts:
        for sample in part.samples:
            assert sample.messages[-1].text == "y" * 50 + "\n[... 450 characters left out]"
            assert len(sample.messages) == 4
            assert sample.events == []
            assert sample.metadata["decisions left out"] == sample.metadata["requests left out"] == 1


def test_hostile_texts_are_kept_as_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inspect_log: Any) -> None:
    cell = rows(EVIL, 0, 0, True, dataset=EVIL, model=EVIL, robustness="../../x", answer=EVIL, case_id=EVIL)
    for step in cell["steps"]:
        step |= {"arguments": EVIL if step["branch"] else '{"a": "\\ud800"}', "observation": EVIL, "thought": EVIL}
    cell["cases"][0] |= {"query": EVIL, "calls": [{"substep_id": "1", "tool": EVIL, "arguments": "[" * 9_000}]}
    assert exported(monkeypatch, written(tmp_path, cell)) == 0
    (path,) = (tmp_path / "inspect").iterdir()
    assert path.name.isascii()
    assert ".." not in path.name
    log = inspect_log.read_eval_log(path, resolve_attachments=True)
    assert log.eval.viewer.trust_content is False, "the viewer shows plain text"
    (sample,) = log.samples
    assert sample.input == EVIL
    (call,) = sample.messages[1].tool_calls
    assert call.arguments == {"text": '{"a": "\\ud800"}'}
    assert "surrogate" in call.parse_error


def test_what_was_not_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inspect_log: Any) -> None:
    cell = rows("react", 0, 0, True, n_messages=None, case_digest=None, answer=None, created_at=simulated.NOON)
    store.write(tmp_path, {"episodes": cell["episodes"]})
    assert exported(monkeypatch, tmp_path) == 0
    (path,) = (tmp_path / "inspect").iterdir()
    (sample,) = inspect_log.read_eval_log(path).samples
    assert "was not kept" in sample.input
    assert (sample.target, len(sample.messages), sample.events) == ("", 1, [])


@contextmanager
def viewer(folder: Path, port: int) -> Iterator[str]:
    """`inspect view` on loopback, as a user starts it."""
    command = [sys.executable, "-m", "inspect_ai", "view", "--log-dir", str(folder), "--host", "127.0.0.1"]
    with subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as own:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            own.kill()


def test_inspect_view_lists_every_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inspect_log: Any) -> None:
    root = planted(tmp_path / "run")
    assert exported(monkeypatch, root, "--into", tmp_path / "logs") == 0
    names = {path.name for path in (tmp_path / "logs").iterdir()}
    assert len(names) == 2
    assert {Path(log.name).name for log in inspect_log.list_eval_logs(str(tmp_path / "logs"))} == names
    with viewer(tmp_path / "logs", free_port()) as address:

        def listed() -> set[str]:
            try:
                with urllib.request.urlopen(f"{address}/api/logs", timeout=5) as answer:  # noqa: S310
                    return {Path(one["name"]).name for one in json.load(answer)["files"]}
            except OSError:
                return set()

        wait_for(lambda: listed() == names)


def test_an_earlier_export_is_replaced_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], inspect_log: Any
) -> None:
    root = written(tmp_path / "run", rows("react", 0, 0, True))
    assert exported(monkeypatch, root) == 0
    written(root, rows("react", 1, 0, True))
    assert exported(monkeypatch, root) == 0
    assert "1 logs" in capsys.readouterr().out
    (path,) = (root / "inspect").iterdir()
    assert len(inspect_log.read_eval_log(path).samples) == 2
    (root / "inspect" / "notes.txt").touch()
    assert exported(monkeypatch, root) == 2
    assert "may contain only .eval logs, but has notes.txt" in capsys.readouterr().err
    assert path.is_file()


def test_bad_input_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    run = written(tmp_path / "run", rows("react", 0, 0, True))
    for arguments in (
        ["gone"],
        ["file"],
        ["a\0b"],
        ["x" * 5_000],
        [run, "--into", tmp_path / "file"],
        [run, "--into", run],
    ):
        monkeypatch.chdir(tmp_path)
        assert exported(monkeypatch, *arguments) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n"), err[:7]) == ("", 1, "error: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "run"]


def test_without_the_package_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    root = written(tmp_path / "run", rows("react", 0, 0, True))
    with pytest.raises(ConfigError, match=r"pip install 'agent-grid\[inspect\]'"):
        export.export(root, tmp_path / "logs")
    assert not (tmp_path / "logs").exists()
