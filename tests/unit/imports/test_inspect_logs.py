"""Logs that Inspect itself wrote become rows that say what it says; what cannot be read is told in a line."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis import load
from analysis.tables import rates
from grid import store
from grid.core.errors import ConfigError
from grid.imports import inspect_logs
from grid.imports.episodes import Found, Names
from launch import importing
from launch.main import main

CASES, EPOCHS = 5, 2


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Of two solvers, each 5 samples in 2 epochs: a call that fails or not, then a word that is right or not."""
    pytest.importorskip("inspect_ai", reason="the extra inspect is not installed")
    import inspect_ai
    from inspect_ai import Task
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import includes, match
    from inspect_ai.solver import generate, system_message, use_tools
    from inspect_ai.tool import ToolError, tool

    @tool  # type: ignore[untyped-decorator]  # the package is no part of what is checked
    def look() -> Any:
        async def execute(place: str) -> str:
            """Look at a place.

            Args:
                place: which.
            """
            if place == "nowhere":
                raise ToolError("no such place")
            return f"seen {place}"

        return execute

    def outputs() -> Iterator[Any]:
        for number in range(CASES * EPOCHS):
            called = ModelOutput.for_tool_call("mockllm/model", "look", {"place": "nowhere" if number % 2 else "here"})
            called.usage = ModelUsage(input_tokens=30, output_tokens=7, total_tokens=40, input_tokens_cache_read=3)
            done = ModelOutput.from_content("mockllm/model", "yes" if number % 3 else "it is not yes, but no")
            done.usage = ModelUsage(input_tokens=50, output_tokens=5, total_tokens=57, input_tokens_cache_read=2)
            yield from (called, done)

    folder = tmp_path_factory.mktemp("logs")
    samples = [
        Sample(id=f"case-{n}", input=f"Is it {n}?", target="yes", metadata={"cluster": n // 2}) for n in range(CASES)
    ]
    for solver in ([system_message("You look."), use_tools(look()), generate()], [use_tools(look()), generate()]):
        task = Task(dataset=samples, solver=solver, scorer=[match(), includes()], name="looking")
        model = get_model("mockllm/model", custom_outputs=list(outputs()))
        inspect_ai.eval(task, model=model, epochs=EPOCHS, log_dir=str(folder), display="none", max_samples=1)
    return sorted(folder.glob("*.eval"))


def imported(*arguments: object) -> int:
    sys.argv = ["agent-grid", "import", "inspect", *map(str, arguments)]
    return main()


@pytest.fixture(autouse=True)
def given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [])


def test_rows_are_those_of_inspect(tmp_path: Path, logs: list[Path]) -> None:
    from inspect_ai.log import read_eval_log

    assert imported(*logs, "--into", tmp_path) == 0
    samples = [sample for path in logs for sample in read_eval_log(str(path), resolve_attachments=True).samples or []]
    rows = store.read(tmp_path, "episodes", wide=True).to_pylist()
    assert len(rows) == len(samples) == 2 * CASES * EPOCHS
    assert {row["planner"] for row in rows} == {
        "inspect:system_message+use_tools+generate", "inspect:use_tools+generate"
    }  # fmt: skip
    told = sorted(
        (s.id, s.epoch - 1, s.scores["match"].value == "C", s.scores["includes"].value == "C") for s in samples
    )
    assert sorted((r["case_id"], r["trial"], r["success"], r["inspect_includes"] == 1) for r in rows) == told
    assert len({row["success"] for row in rows}) == 2
    for row in rows:
        assert (row["model"], row["dataset"], row["engine"]) == ("mockllm/model", "looking", "inspect_ai")
        assert (row["llm_calls"], row["input_tokens"], row["cached_input_tokens"], row["output_tokens"]) == (
            2,
            85,
            5,
            12,
        )
        assert (row["money"], row["depth"], row["tool_match_rate"]) == (None, None, None)
        assert row["cluster"] == str(int(row["case_id"][-1]) // 2)
    steps = store.read(tmp_path, "steps").to_pylist()
    assert len(steps) == len(samples)
    assert {(s["arguments"], s["observation"], s["failed"]) for s in steps} == {
        ('{"place": "here"}', "seen here", False), ('{"place": "nowhere"}', "no such place", True)
    }  # fmt: skip
    assert len(store.read(tmp_path, "messages")) == 2 * len(samples)


def test_the_same_log_again_adds_nothing(tmp_path: Path, logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    for new, there in ((CASES * EPOCHS, 0), (0, CASES * EPOCHS)):
        imported(logs[0], "--into", tmp_path)
        assert (
            f"{new} new samples, {there} already in the folder, of {CASES * EPOCHS} planned samples"
            in capsys.readouterr().out
        )


def test_tables_have_intervals_of_both_solvers(tmp_path: Path, logs: list[Path]) -> None:
    imported(*logs, "--into", tmp_path, "--success", "includes", "--dataset", "mine", "--model", "m")
    frame = rates.results(load.episodes(tmp_path))
    assert set(frame["dataset"].astype(str)) == {"mine"}
    assert (frame["success_low"] < frame["success_mean"]).all()
    assert (frame["clusters"] == 3).all()


def test_a_log_of_one_json_is_read_too(tmp_path: Path, logs: list[Path]) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    write_eval_log(read_eval_log(str(logs[0])), str(tmp_path / "log.json"), format="json")
    imported(tmp_path / "log.json", "--into", tmp_path / "one")
    imported(logs[0], "--into", tmp_path / "other")
    one, other = (store.read(tmp_path / name, "episodes", wide=True) for name in ("one", "other"))
    differ = ["config", "attempt_id"]
    assert one.drop_columns(differ).equals(other.drop_columns(differ))
    assert (
        store.read(tmp_path / "one", "steps")
        .drop_columns("attempt_id")
        .equals(store.read(tmp_path / "other", "steps").drop_columns("attempt_id"))
    )


def test_what_a_run_that_broke_off_has_is_taken_and_the_rest_is_said(tmp_path: Path, logs: list[Path]) -> None:
    from inspect_ai.log import EvalError, read_eval_log, write_eval_log

    log = read_eval_log(str(logs[0]))
    assert log.samples
    log.status, log.samples = "error", log.samples[:3]
    log.samples[0].error = EvalError(message="it broke", traceback="a\nb", traceback_ansi="")
    log.samples[0].scores = None
    write_eval_log(log, str(tmp_path / "log.eval"))
    source, found = importing.take(tmp_path / "log.eval", "inspect", tmp_path / "run")
    assert (found.new, source.planned) == (3, CASES * EPOCHS)
    rows = store.read(tmp_path / "run", "episodes").to_pylist()
    (failed,) = [row for row in rows if row["status"] == "failed"]
    assert (failed["success"], failed["error_kind"], failed["error_message"]) == (None, None, "it broke")


def test_scores_that_are_no_shares_tell_no_success(tmp_path: Path, logs: list[Path]) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(str(logs[0]))
    values: list[Any] = [7, "P", {"a": 1, "b": "x"}, float("nan"), "a word"]
    assert log.samples
    for sample, value in zip(log.samples, values, strict=False):
        assert sample.scores
        sample.scores["match"].value = value
    write_eval_log(log, str(tmp_path / "log.eval"))
    _, found = importing.take(tmp_path / "log.eval", "inspect", tmp_path / "run")
    assert sum(found.notes.values()) == 4
    rows = store.read(tmp_path / "run", "episodes", ["success", "inspect_match", "inspect_match_a"]).to_pylist()
    assert sum(row["success"] is None for row in rows) == 4
    assert [row["success"] for row in rows if row["inspect_match"] == 0.5] == [False]
    assert {7.0, 0.5} <= {row["inspect_match"] for row in rows}
    assert [row["inspect_match_a"] for row in rows].count(1.0) == 1
    with pytest.raises(ConfigError, match="a scorer of this log: match, includes"):
        importing.take(tmp_path / "log.eval", "inspect", tmp_path / "run", "matches")


@pytest.mark.parametrize("form", ["eval", "json"])
def test_scores_whose_names_would_be_equal_are_told_apart(tmp_path: Path, logs: list[Path], form: Any) -> None:
    """By the whole log, so that names stay as they are where a sample lacks a score or comes with a later import."""
    from inspect_ai.log import read_eval_log, write_eval_log
    from inspect_ai.scorer import Score

    log = read_eval_log(str(logs[0]))
    assert log.samples
    assert log.results
    for scorer, name in zip(log.results.scores, ("acc-1", "acc_1"), strict=True):
        scorer.scorer = name
    for place, sample in enumerate(log.samples):
        values: dict[str, Any] = {"acc-1": "IC"[place % 2], "acc_1": "CI"[place % 2]}
        if not place:
            values |= {"m": "a word", "m_text": 0.5, f"{'x' * 80}1": 1, f"{'x' * 80}2": 10**400}
        sample.scores = {name: Score(value=value) for name, value in values.items() if (place, name) != (3, "acc-1")}
    every, path = log.samples, tmp_path / f"log.{form}"
    for success in ("acc-1", "acc_1"):
        run = tmp_path / success
        for log.samples in (every[:3], every):
            write_eval_log(log, str(path), format=form)
            _, found = importing.take(path, "inspect", run, success)
        assert any("because another score has the name inspect_acc_1" in note for note in found.notes)
        rows = store.read(run, "episodes", ["success", "scores", "texts"]).to_pylist()
        scores = [dict(row["scores"]) for row in rows]
        names = sorted({name for one in scores for name in one})
        first, second = (name for name in names if name.startswith("inspect_acc_1"))
        assert first == "inspect_acc_1"
        assert sorted((one.get(first, -1), one[second]) for one in scores) == [(-1, 0), *[(0, 1)] * 5, *[(1, 0)] * 4]
        mine = {"acc-1": first, "acc_1": second}[success]
        assert [row["success"] for row in rows] == [one[mine] == 1 if mine in one else None for one in scores]
        assert [name for row in rows for name, _ in row["texts"]] == ["inspect_m_text"]
        assert [len(name) for name in names if "xx" in name] == [64]


def test_own_logs_come_back_as_they_were(tmp_path: Path, logs: list[Path]) -> None:
    from launch.export import export

    imported(*logs, "--into", tmp_path / "run")
    export(tmp_path / "run", tmp_path / "exported")
    imported(*sorted((tmp_path / "exported").iterdir()), "--into", tmp_path / "back")
    names = ["case_id", "trial", "success", "answer", "input_tokens", "output_tokens", "n_steps", "cluster"]
    first, back = (store.read(tmp_path / name, "episodes", names).to_pylist() for name in ("run", "back"))
    assert sorted(map(str, first)) == sorted(map(str, back))


@pytest.mark.parametrize("kinds", [("number", "number"), ("text", "number")])
def test_a_name_belongs_to_the_first_score_that_asks_for_it(kinds: tuple[str, str]) -> None:
    names, found = Names(), Found()
    first, second = [names.of("a" * 64, kind, part, found=found) for kind, part in zip(kinds, "bc", strict=True)]
    assert (first, second[:55], len(second)) == ("a" * 64, "a" * 55, 64)
    assert [names.of("a" * 64, kind, part) for kind, part in zip(kinds, "bc", strict=True)] == [first, second]
    assert found.notes == {f"have the score c as {second}, because another score has the name {first}": 1}


def test_bad_logs_are_one_line(
    tmp_path: Path, logs: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = logs[0].read_bytes()
    (tmp_path / "cut.eval").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.eval").touch()
    (tmp_path / "pickle.eval").write_bytes(b"\x80\x04\x95")
    with zipfile.ZipFile(tmp_path / "other.eval", "w") as other:
        other.writestr("a.txt", "b")
    with zipfile.ZipFile(tmp_path / "version.json", "w") as other:
        other.writestr("header.json", json.dumps({"version": 99}))
    (tmp_path / "version2.json").write_text(json.dumps({"version": 99, "status": "success", "eval": {}}))
    for name in (
        "cut.eval",
        "empty.eval",
        "pickle.eval",
        "other.eval",
        "version.json",
        "version2.json",
        "gone.eval",
        ".",
    ):
        capsys.readouterr()
        status = imported(tmp_path / name, "--into", tmp_path / "run")
        out, err = capsys.readouterr()
        assert (status, out, err.count("\n"), err[:7]) == (2, "", 1, "error: "), (name, err)
        assert not (tmp_path / "run").exists()
    monkeypatch.setattr(inspect_logs, "LARGEST", 100)
    assert imported(logs[0], "--into", tmp_path / "run") == 2
    assert "more than 100" in capsys.readouterr().err


def test_a_damaged_sample_is_counted_and_the_others_are_taken(tmp_path: Path, logs: list[Path]) -> None:
    with zipfile.ZipFile(logs[0]) as log, zipfile.ZipFile(tmp_path / "log.eval", "w") as damaged:
        assert "samples/case-1_epoch_1.json" in log.namelist()
        for name in log.namelist():
            text = log.read(name)
            damaged.writestr(name, text[:50] if name == "samples/case-1_epoch_1.json" else text)
    _, found = importing.take(tmp_path / "log.eval", "inspect", tmp_path / "run")
    assert (found.new, sum(found.notes.values())) == (CASES * EPOCHS - 1, 1)


def test_without_the_package_it_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_logs, "find_spec", lambda name: None)
    (tmp_path / "log.eval").touch()
    with pytest.raises(ConfigError, match=r"pip install 'agent-grid\[inspect\]'"):
        importing.take(tmp_path / "log.eval", "inspect", tmp_path / "run")
