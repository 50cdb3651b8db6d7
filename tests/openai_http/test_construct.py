"""A SLATE of one's own domain, written by a scripted model: whole, resumed, and refused with reasons."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import threading
from dataclasses import replace
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from grid.synthesis import plans
from grid.synthesis.slate import main
from tests.support.commands import forks
from tests.support.configs import setting_of
from tests.support.constructing import ANSWERS, arguments, contents, lines, of_stages, run_in
from tests.support.http_server import Asked, LocalServer, Reply, refusal
from tests.support.oracle import oracle_of
from tests.support.scripted_slate import STAGES, counted, right, stage_of


def test_a_whole_set_is_written_and_an_oracle_resolves_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, server = run_in(tmp_path, right(), "out", "model.price.input=1", "model.price.output=2")
    out = tmp_path / "out"
    told = capsys.readouterr()
    assert (status, told.err) == (0, "")
    assert of_stages(server) == ANSWERS == sum(len(lines(out, stage)) for stage in STAGES)
    assert re.search(r"plans  +4 +4 +0 +0 +4 +28 +12 +0.0001", told.out)
    assert "arguments from the query whose name stands in it" in told.out
    for stage in STAGES:
        for line in lines(out, stage):
            assert (line["attempt"], line["refused"]) == (0, [])
            assert line["money"] == pytest.approx((7 * 1 + 3 * 2) / 1_000_000)
    setting = setting_of({"path": str(out)}, dataset="slate", planner="react", retriever="oracle")
    built = build(setting, BudgetConfig())
    case_ids = built.dataset.case_ids()
    assert len(case_ids) == 8
    built = replace(built, engine=oracle_of(built.dataset, case_ids))
    chunk = list(cells(setting, built.dataset.version, case_ids, 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert [(row["success"], row["tool_match_rate"], row["action_accuracy"]) for row in rows] == [(True, 1, 1)] * 8
    tools = [json.loads(line) for line in (out / "tools.jsonl").read_text().splitlines()]
    assert sum(tool["same_function"] is not None for tool in tools) == 2
    assert len(tools) == 12 + 2 + 5 * 2


@pytest.mark.long
def test_the_same_questions_whatever_runs_side_by_side(tmp_path: Path) -> None:
    with LocalServer(right()) as server:
        one, many, other = (
            arguments(server.url, tmp_path, out, f"at_once={count}", f"seed={seed}")
            for out, count, seed in (("one", 1, 0), ("many", 16, 0), ("other", 16, 1))
        )
        assert main(one) == 0
        first = counted(server.asked)
        server.asked.clear()
        assert main(many) == 0
        assert counted(server.asked) == first
        server.asked.clear()
        assert main(other) == 0
    assert contents(tmp_path / "one") == contents(tmp_path / "many")
    assert not counted(server.asked) & first, "another seed asks with other seeds"


class Killing:
    """A server that kills the process which asks, at one request of a stage, instead of answering."""

    def __init__(self, stage: str, at: int) -> None:
        self.process: ForkServerProcess | None = None
        self.answered: list[Asked] = []
        self._stage, self._left, self._play, self._lock = stage, at, right(), threading.Lock()

    def __call__(self, asked: Asked) -> Reply:
        with self._lock:
            if self.process and stage_of(asked) == self._stage:
                self._left -= 1
                if not self._left:
                    self.process.kill()
                    wait([self.process.sentinel])
                    self.process = None
                    return Reply(503)
            reply = self._play(asked)
            self.answered += [asked] if stage_of(asked) else []
        return reply


def quietly(given: list[str]) -> None:
    """The command in a process of its own, whose output nobody reads."""
    with open(os.devnull, "wb") as nowhere:
        for descriptor in (1, 2):
            os.dup2(nowhere.fileno(), descriptor)
    main(given)


@pytest.mark.long
@pytest.mark.parametrize("stage", STAGES)
def test_killed_in_a_stage_nothing_is_paid_twice(stage: str, tmp_path: Path) -> None:
    killing = Killing(stage, 2)
    with LocalServer(killing) as server:
        given = arguments(server.url, tmp_path, "killed", "at_once=1")
        killing.process = process = forks().Process(target=quietly, args=(given,), daemon=True)
        process.start()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
        before = contents(tmp_path / "killed")
        assert f"stages/{stage}.jsonl" in before
        assert "tools.jsonl" not in before
        assert main(given) == 0
        assert set(counted(killing.answered).values()) == {1}, "no question was answered twice"
        assert len(killing.answered) == ANSWERS
        assert of_stages(server) == ANSWERS + 1, "but the one that the kill came between"
        assert main(arguments(server.url, tmp_path, "undisturbed")) == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "undisturbed")


def test_a_finished_set_is_not_asked_for_again(tmp_path: Path) -> None:
    with LocalServer(right()) as server:
        given = arguments(server.url, tmp_path)
        assert main(given) == 0
        before, asked = contents(tmp_path / "out"), len(server.asked)
        (tmp_path / "out/cases.jsonl").unlink()
        assert main(given) == 0
        assert len(server.asked) == asked, "not even whether the server is there"
    assert contents(tmp_path / "out") == before


def test_a_larger_set_keeps_what_there_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalServer(right()) as server:
        assert main(arguments(server.url, tmp_path)) == 0
        asked = of_stages(server)
        capsys.readouterr()
        assert main(arguments(server.url, tmp_path, "out", "sizes.queries=3")) == 0
        told = capsys.readouterr().out
    assert "tools: 12 of 12 kept, 0 new answers, 4 from earlier runs\n" in told
    assert "outcomes: 12 of 12 kept, 4 new answers, 8 from earlier runs\n" in told
    assert of_stages(server) == asked + 3 * 4


@pytest.mark.long
@pytest.mark.parametrize("stage", ["tools", "outcomes"])
def test_a_file_that_was_cut_off(stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalServer(right()) as server:
        given = arguments(server.url, tmp_path)
        assert main(given) == 0
        before = contents(tmp_path / "out")
        path = tmp_path / "out/stages" / f"{stage}.jsonl"
        whole = path.read_bytes().split(b"\n")
        path.write_bytes(b"\n".join(whole[:2]) + b"\n" + whole[2][:50])
        server.asked.clear()
        assert main(given) == 0
        assert {stage_of(one) for one in server.asked if stage_of(one)} == {stage}
        assert of_stages(server) == len(whole) - 1 - 2
    assert (
        f"{path}: the last line is incomplete; it is removed, and its answer is asked for again"
        in capsys.readouterr().out
    )
    assert contents(tmp_path / "out") == before


def test_a_line_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalServer(right()) as server:
        given = arguments(server.url, tmp_path)
        assert main(given) == 0
        path = tmp_path / "out/stages/plans.jsonl"
        path.write_bytes(b'{"item": 1}\n' + path.read_bytes())
        assert main(given) == 2
        twice = path.read_bytes().split(b"\n", 2)[1]
        path.write_bytes(twice + b"\n" + twice + b"\n")
        assert main(given) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: {path}:1: not a line of this pipeline (")
    assert second.startswith(f"error: {path}:2: ")
    assert re.search(r": the file has \S+ attempt \d+ twice$", second)


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("seed=1", "error: seed=1: the value of the set in out="),
        ("temperature=0.5", "error: temperature=0.5: the value of the set in out="),
        ("complexity.moderate=1", "error: complexity.moderate=1.0: the value of the set in out="),
        ("model.strict=true", "error: model.strict=True: the value of the set in out="),
    ],
)
def test_other_settings_are_refused(change: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalServer(right()) as server:
        assert main(arguments(server.url, tmp_path)) == 0
        before, asked = contents(tmp_path / "out"), len(server.asked)
        assert main(arguments(server.url, tmp_path, "out", change)) == 2
        assert main(arguments(server.url, tmp_path, "out", "model.serving.max_in_flight=2", "at_once=2")) == 0
        assert len(server.asked) == asked
    assert says in capsys.readouterr().err
    assert contents(tmp_path / "out") == before


def test_a_changed_prompt_is_asked_again_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalServer(right()) as server:
        given = arguments(server.url, tmp_path)
        assert main(given) == 0
        before = contents(tmp_path / "out")
        server.asked.clear()
        with monkeypatch.context() as patch:
            patch.setattr(plans, "_RULES", (*plans._RULES, "- One more rule."))
            assert main(given) == 0
        told = capsys.readouterr().out
        assert "tools: 12 of 12 kept, 0 new answers, 4 from earlier runs\n" in told
        assert "plans: 4 of 4 kept, 4 new answers, 0 from earlier runs; 4 earlier answers to other requests" in told
        assert {stage_of(one) for one in server.asked if stage_of(one)} == {"plans"}, "the plans are the same"
        server.asked.clear()
        assert main(given) == 0
        assert server.asked == [], "earlier answers are kept"
    after = contents(tmp_path / "out")
    assert len(lines(tmp_path / "out", "plans")) == 8
    assert {name: data for name, data in after.items() if name != "stages/plans.jsonl"} == {
        name: data for name, data in before.items() if name != "stages/plans.jsonl"
    }


def test_a_server_that_stops_answering(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered: list[Asked] = []
    play = right()

    def until(asked: Asked) -> Reply:
        if len(answered) == 10:
            return refusal(400, "You have used up your budget.")
        answered.append(asked)
        return play(asked)

    with LocalServer(until) as server:
        given = arguments(server.url, tmp_path, "out", "at_once=1")
        assert main(given) == 1
        told = capsys.readouterr().err
        assert told.startswith("stopped: ")
        assert "You have used up your budget." in told
        server.play = play
        server.asked.clear()
        assert main(given) == 0
        assert of_stages(server) == ANSWERS - sum(stage_of(one) is not None for one in answered)


def test_two_at_once_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from grid.synthesis.slate import held

    with held(tmp_path / "out"):
        status, server = run_in(tmp_path, right())
    assert (status, server.asked) == (2, [])
    assert (
        capsys.readouterr().err
        == f"error: out={tmp_path}/out: another construction runs in this folder; wait until it has ended\n"
    )
