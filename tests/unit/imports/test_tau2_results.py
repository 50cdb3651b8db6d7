"""Results of τ²-bench's runner become rows that say what the file says, each once, and are told for what they are."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from analysis import load
from analysis.load import provenance
from analysis.report import print_report
from analysis.tables import rates
from grid import store
from grid.core.errors import ConfigError, StoreError
from grid.imports import episodes, tau2_results
from grid.imports.episodes import Sample
from grid.store.transcripts import transcript
from launch import importing
from launch.main import main

NOON = "2026-01-01T12:00:00"
CASES, TRIALS = 12, 2
TASK = "tau2-retail-task-"  # what a case's id begins with


def said(role: str, content: str | None, *calls: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A message as the runner writes it; those of models have usage and cost."""
    made = [
        {"id": f"c{n}", "name": name, "arguments": given, "requestor": role} for n, (name, given) in enumerate(calls)
    ]
    told = {"usage": {"prompt_tokens": 100, "completion_tokens": 10}, "cost": 0.25} if more.pop("model", True) else {}
    return {"role": role, "content": content, "tool_calls": made or None, "turn_idx": 0, "raw_data": None} | told | more


def simulation(case: int, trial: int | None, reward: float | None, **more: Any) -> dict[str, Any]:
    """Greeting, wish, two calls at once of which the second fails, and the end."""
    returned = {"role": "tool", "requestor": "assistant", "turn_idx": 3}
    messages = [
        said("assistant", "Hi!", model=False),
        said("user", f"I want {case}"),
        said("assistant", "I look.", ("look", {"place": case}), ("cancel", {})),
        returned | {"id": "c0", "content": f"seen {case}", "error": False},
        returned | {"id": "c1", "content": "Error: no", "error": True},
        said("assistant", "Done."),
        said("user", "###STOP###"),
    ]
    told = {"reward": reward, "reward_breakdown": {"DB": reward, "COMMUNICATE": 1.0}, "reward_basis": ["DB"]}
    return {"id": f"{case}-{trial}", "task_id": f"task-{case}", "trial": trial, "seed": 7 + (trial or 0),
            "timestamp": NOON, "start_time": NOON, "end_time": f"{NOON}.5", "duration": 1.5,
            "termination_reason": "user_stop", "reward_info": None if reward is None else told,
            "messages": messages, "skipped": False} | more  # fmt: skip


def resolved(case: int, trial: int) -> bool:
    return (case + trial) % 3 == 0


def results(*simulations: dict[str, Any], agent: str = "llm_agent") -> dict[str, Any]:
    found = simulations or [
        simulation(case, trial, float(resolved(case, trial))) for case in range(CASES) for trial in range(TRIALS)
    ]
    agents = {"implementation": agent, "llm": "gpt", "llm_args": {"temperature": 0.0}}
    actions = [{"action_id": "0", "requestor": "assistant", "name": "look", "arguments": {"place": 1}, "info": None}]
    criteria = {"actions": actions, "reward_basis": ["DB"]}
    tasks = [{"id": f"task-{case}", "user_scenario": {"persona": None}, "evaluation_criteria": criteria}
             for case in range(CASES)]  # fmt: skip
    return {"timestamp": NOON, "tasks": tasks, "simulations": list(found),
            "info": {"git_commit": "abc", "num_trials": TRIALS, "max_steps": 100, "max_errors": 10, "seed": 300,
                     "agent_info": agents, "user_info": agents | {"implementation": "user_simulator", "llm": "sim"},
                     "environment_info": {"domain_name": "retail", "policy": "…", "tool_defs": None}}}  # fmt: skip


def written(path: Path, *simulations: dict[str, Any], **more: Any) -> Path:
    path.write_text(json.dumps(results(*simulations, **more), indent=2))
    return path


def imported(*arguments: object) -> int:
    sys.argv = ["agent-grid", "import", "tau2", *map(str, arguments)]
    return main()


@pytest.fixture(autouse=True)
def given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [])


def test_rows_say_what_the_file_says(tmp_path: Path) -> None:
    assert imported(written(tmp_path / "r.json"), "--into", tmp_path / "run") == 0
    rows = store.read(tmp_path / "run", "episodes", wide=True).to_pylist()
    assert {(row["case_id"], row["trial"]): row["success"] for row in rows} == {
        (f"{TASK}{case}", trial): resolved(case, trial) for case in range(CASES) for trial in range(TRIALS)
    }
    row = next(row for row in rows if (row["case_id"], row["trial"]) == (f"{TASK}3", 0))
    assert (row["model"], row["planner"], row["dataset"]) == ("gpt", "tau2:llm_agent", "tau2/retail")
    assert (row["robustness"], row["user"]) == ("none", "sim")
    assert (row["tau2_reward"], row["tau2_db"], row["tau2_communicate"]) == (1.0, 1.0, 1.0)
    assert row["tau2_termination"] == "user_stop"
    assert (row["llm_calls"], row["input_tokens"], row["output_tokens"], row["user_calls"]) == (2, 200, 20, 2)
    assert (row["money"], row["wall_seconds"], row["seed"], row["answer"]) == (1.0, 1.5, 7, "Done.")
    assert row["created_at"] == dt.datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=dt.UTC)
    unknown = (
        "depth",
        "case_seconds",
        "retriever",
        "pool",
        "code",
        "tool_match_rate",
        "cached_input_tokens",
        "branches",
    )
    assert [name for name in unknown if row[name] is not None] == []
    assert json.loads(row["config"])["imported"] | {"sha256": ""} == {
        "tool": "tau2", "version": None, "file": "r.json", "sha256": "", "success": "reward", "domain": "retail",
        "git_commit": "abc", "max_steps": 100, "max_errors": 10, "seed": 300, "user": "user_simulator",
    }  # fmt: skip
    first, second = [
        one for one in store.read(tmp_path / "run", "steps").to_pylist() if one["cell_id"] == row["cell_id"]
    ]
    assert (first["chosen_tool"], first["arguments"], first["observation"]) == ("look", '{"place": 3}', "seen 3")
    assert (first["thought"], first["failed"], first["input_tokens"]) == ("I look.", False, 100)
    assert (second["chosen_tool"], second["failed"], second["thought"], second["input_tokens"]) == (
        "cancel",
        True,
        None,
        None,
    )
    called, done = [request for request in transcript(tmp_path / "run", row["cell_id"]) if request]
    assert called.text() == "Hi!\n\nI want 3"
    assert called.answers == ('I look.\nlook({"place": 3})\ncancel({})',)
    assert done.text().endswith("seen 3\n\nError: no")
    (case,) = [one for one in store.read(tmp_path / "run", "cases").to_pylist() if one["case_id"] == f"{TASK}3"]
    assert (case["query"], case["calls"][0]["tool"]) == ("I want 3", "look")


def test_what_is_not_known_is_null_and_no_zero(tmp_path: Path) -> None:
    free = simulation(0, 0, 1.0)
    for message in free["messages"]:
        message["cost"] = 0.0  # what the runner writes where it has no price
    unmeasured = simulation(1, 0, None)
    for message in unmeasured["messages"]:
        message.pop("usage", None)
    skipped = simulation(2, 0, 0.0, skipped=True, termination_reason="agent_error", messages=[], duration=0.0)
    broken = simulation(3, 0, 0.0, termination_reason="agent_error")
    most = simulation(4, 0, 0.0, termination_reason="max_steps")
    path = written(tmp_path / "r.json", free, unmeasured, skipped, broken, most)
    assert imported(path, "--into", tmp_path / "run") == 0
    rows = {row["case_id"]: row for row in store.read(tmp_path / "run", "episodes", wide=True).to_pylist()}
    assert (rows[f"{TASK}0"]["money"], rows[f"{TASK}0"]["input_tokens"]) == (None, 200)
    assert [rows[f"{TASK}1"][name] for name in ("success", "llm_calls", "input_tokens", "money")] == [None] * 4
    assert [rows[f"{TASK}2"][name] for name in ("success", "error_kind", "wall_seconds")] == [
        None,
        "infrastructure",
        None,
    ]
    assert [rows[f"{TASK}3"][name] for name in ("success", "status", "error_kind")] == [False, "failed", "model"]
    assert [rows[f"{TASK}4"][name] for name in ("success", "status", "budget_reached")] == [False, "ok", "steps"]


def test_the_same_file_again_adds_nothing_and_a_grown_one_what_is_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = [simulation(case, 0, 1.0) for case in range(3)]
    path, run = written(tmp_path / "r.json", *some[:2]), tmp_path / "run"
    imported(path, "--into", run)
    files = sorted(file.name for file in (run / "episodes").iterdir())
    capsys.readouterr()
    imported(path, "--into", run)
    assert "0 new samples, 2 already in the folder" in capsys.readouterr().out
    assert sorted(file.name for file in (run / "episodes").iterdir()) == files
    imported(written(path, *some), "--into", run)
    assert "1 new samples, 2 already in the folder" in capsys.readouterr().out
    assert len(store.read(run, "episodes")) == 3
    assert len(load.episodes(run)["planner"].unique()) == 1


def test_of_samples_with_one_case_and_trial_the_first_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = [simulation(0, 0, 1.0), simulation(0, 0, 0.0), simulation(0, None, 0.0), simulation(0, 1, 1.0)]
    path, run = written(tmp_path / "r.json", *some), tmp_path / "run"
    for new, there in ((3, 0), (0, 3)):
        imported(path, "--into", run)
        told = capsys.readouterr().out
        assert f"{new} new samples, {there} already in the folder" in told
        assert "  1 have the case and the trial of an earlier sample, and are left out" in told
    rows = store.read(run, "episodes").to_pylist()
    assert sorted((row["trial"], row["success"]) for row in rows) == [(0, True), (1, True), (2, False)]


def test_a_file_whose_rows_have_the_case_ids_of_an_earlier_version_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "r.json")
    with monkeypatch.context() as earlier:
        earlier.setattr(tau2_results, "replace", lambda sample, **_: sample)
        importing.take(path, "tau2", tmp_path / "run")
    before = store.read(tmp_path / "run", "episodes")
    assert before["case_id"].to_pylist()[0].startswith("task-")
    _, found = importing.take(path, "tau2", tmp_path / "run")
    assert (found.new, found.there) == (0, CASES * TRIALS)
    assert store.read(tmp_path / "run", "episodes").equals(before)


def test_parts_of_the_reward_whose_names_would_be_equal_are_told_apart(tmp_path: Path) -> None:
    some = [simulation(0, trial, 0.0) for trial in range(2)]
    some[1]["reward_info"]["reward_breakdown"] |= {"db": 1.0, "Reward": 1.0, "termination": 1.0}
    for success in ("DB", "db"):
        imported(written(tmp_path / "r.json", *some), "--into", tmp_path / success, "--success", success)
        rows = store.read(tmp_path / success, "episodes", wide=True).to_pylist()
        first, second = sorted(rows, key=lambda row: row["trial"])
        assert (first["success"], second["success"]) == ((False, False) if success == "DB" else (None, True))
        assert (second["tau2_db"], second["tau2_reward"], second["tau2_termination"]) == (0.0, 0.0, "user_stop")
        for name in ("tau2_db", "tau2_reward", "tau2_termination"):
            (other,) = [one for one in second if one.startswith(f"{name}_")]
            assert (first[other], second[other]) == (None, 1.0)


def test_an_import_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, run, made = written(tmp_path / "r.json"), tmp_path / "run", list[Sample]()

    def dies(*given: Any) -> Iterator[Sample]:
        for sample in read(*given):
            if len(made) == 5:
                raise KeyboardInterrupt
            made.append(sample)
            yield sample

    read = tau2_results._samples
    monkeypatch.setattr(episodes, "AT_ONCE", 2)
    monkeypatch.setattr(tau2_results, "_samples", dies)
    with pytest.raises(KeyboardInterrupt):
        imported(path, "--into", run)
    monkeypatch.setattr(tau2_results, "_samples", read)
    assert len(store.read(run, "episodes")) == 4
    imported(path, "--into", run)
    assert len(store.read(run, "episodes")) == CASES * TRIALS


def test_success_is_by_the_score_that_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "r.json")
    imported(path, "--into", tmp_path / "run", "--success", "COMMUNICATE")
    assert store.read(tmp_path / "run", "episodes")["success"].to_pylist() == [True] * (CASES * TRIALS)
    with pytest.raises(StoreError, match="in which a score other than reward decides success"):
        importing.take(path, "tau2", tmp_path / "run")
    with pytest.raises(ConfigError, match="reward or a part of it: COMMUNICATE, DB"):
        importing.take(path, "tau2", tmp_path / "other", "NL")


def own(root: Path) -> Path:
    """A sweep's rows of the same cases, two a cluster."""
    rows = [
        {"cell_id": f"{case}-{trial}", "cell_key": f"{case}-{trial}", "setting_id": "s", "model": "gpt",
         "engine": "vllm", "planner": "react", "dataset": "tau2", "dataset_version": "v", "robustness": "none",
         "retriever": "bm25", "pool": "all", "case_id": f"{TASK}{case}", "cluster": f"pair-{case // 2}",
         "depth": case, "trial": trial, "attempt_id": "a", "status": "ok", "success": case % 2 == 0, "config": "{}",
         "created_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}
        for case in range(CASES) for trial in range(TRIALS)
    ]  # fmt: skip
    store.write(root, {"episodes": rows})
    return root


def test_imported_runs_are_paired_with_own_ones_by_case_and_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = own(tmp_path / "run")
    imported(written(tmp_path / "r.json"), "--into", run, "--dataset", "tau2")
    frame = load.episodes(run, ["depth"])
    assert set(frame["planner"]) == {"react", "tau2:llm_agent"}
    theirs = frame[(frame["planner"] == "tau2:llm_agent") & (frame["case_id"] == f"{TASK}5")]
    assert (set(theirs["cluster"]), set(theirs["depth"])) == ({"pair-2"}, {5})
    (paired,) = rates.compared(rates.by_case(frame).rows).to_dict("records")
    wins = [sum(resolved(case, trial) for trial in range(TRIALS)) / TRIALS for case in range(CASES)]
    assert (paired["planner"], paired["cases"], paired["clusters"]) == ("tau2:llm_agent", CASES, CASES // 2)
    assert paired["success"] == pytest.approx(sum(wins) / CASES - 0.5)
    tables = print_report(run, Console(width=200))
    assert len(tables) > 3
    assert all(table.caption.startswith("imported, not run here (τ²-bench's runner); ") for table in tables)
    assert "gpt: imported as recorded by τ²-bench's runner" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([("v", False)], None),
        ([("v", True)], "tau2 (imported): it is not known whether these are the paper's data; if not, differences"),
        ([("v", True), ("v", False)], "tau2 (imported): it is not known"),
        ([("v-simulated", True)], "tau2 (imported): differences"),
        ([("v-ticket", False), ("v", True)], "tau2 (read from released files or from your own, the ticket"),
        ([("v", True), ("v-ticket", False)], "tau2 (read from released files or from your own, the ticket"),
    ],
)
def test_of_imported_data_is_said_only_what_is_known(given: list[tuple[str, bool]], said: str | None) -> None:
    configs = {
        True: json.dumps({"imported": {"file": "f", "tool": "tau2", "version": None, "sha256": "a"}}),
        False: "{}",
    }
    rows = [{"dataset": "tau2", "dataset_version": version, "config": configs[taken]} for version, taken in given]
    found = provenance.made_up(pd.DataFrame(rows))
    assert list(found) == ["tau2"] * (said is not None)
    assert all(line.startswith(str(said)) for line in found.values())


def test_two_files_are_two_settings_whatever_their_labels(tmp_path: Path) -> None:
    other = results() | {"timestamp": "2026-01-02T12:00:00"}
    (tmp_path / "b.json").write_text(json.dumps(other))
    imported(written(tmp_path / "a.json"), tmp_path / "b.json", "--into", tmp_path / "run")
    planners = load.episodes(tmp_path / "run")["planner"].astype(str).value_counts()
    assert sorted(planners) == [CASES * TRIALS] * 2


def test_what_is_planned_and_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imported(written(tmp_path / "r.json", simulation(0, 0, 1.0)), "--into", tmp_path / "run")
    print_report(tmp_path / "run", Console(width=200))
    assert f"1 of {CASES * TRIALS} cells" in " ".join(capsys.readouterr().out.split())


def test_texts_that_no_table_can_hold_are_written_so_that_it_can(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(results()).replace("I want 3", "\\ud800 \\u001b[31m"))
    assert imported(tmp_path / "r.json", "--into", tmp_path / "run") == 0
    (case,) = [one for one in store.read(tmp_path / "run", "cases").to_pylist() if one["case_id"] == f"{TASK}3"]
    assert case["query"] == "? \x1b[31m"


def test_bad_files_are_one_line_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.dumps(results())
    bad = {
        "cut.json": whole[: len(whole) // 2],
        "empty.json": "",
        "list.json": "[1]",
        "deep.json": "[" * 100_000,
        "nan.json": whole.replace('"reward": 1.0', '"reward": NaN', 1),
        "version.json": whole.replace('"termination_reason"', '"ended"'),
    }
    for name, text in bad.items():
        (tmp_path / name).write_text(text)
    run = tmp_path / "run"
    for name in [*bad, "gone.json", "."]:
        status = imported(tmp_path / name, "--into", run)
        out, err = capsys.readouterr()
        assert (status, out, err.count("\n"), err[:7]) == (2, "", 1, "error: "), name
        assert str(tmp_path) not in err or name in ("gone.json", ".")
        assert not run.exists()
    monkeypatch.setattr(tau2_results, "LARGEST", 100)
    assert imported(written(tmp_path / "r.json"), "--into", run) == 2
    assert "more than 100" in capsys.readouterr().err
