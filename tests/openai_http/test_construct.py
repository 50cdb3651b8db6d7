"""A SLATE of one's own domain, written by a scripted model: whole, resumed, and refused with reasons."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grid.datasets.slate.construct import plans
from grid.datasets.slate.construct.__main__ import main
from grid.runner.build import build
from grid.runner.cell import cells
from grid.runner.config import BudgetConfig
from grid.runner.run import Stamp, run_chunk
from grid.types import Json
from tests.configs import setting_of
from tests.http_server import Asked, LocalServer, Play, Reply, refusal
from tests.oracle import oracle_of
from tests.scripted_slate import STAGES, Flaw, counted, right, stage_of

DOMAIN = {
    "name": "Workshop",
    "description": "A small workshop.",
    "users": ["customer", "mechanic"],
    "topics": {"Repairs": "what is broken", "Bike hire": "what is free"},
}
SMALL = ["sizes.tools=6", "sizes.workflows=2", "sizes.queries=2", "sizes.equivalents=0.3", "sizes.distractors=2"]
SIMPLE = ["complexity.simple=1", *(f"complexity.{kind}=0" for kind in ("moderate", "complex", "advanced"))]
ANSWERS = 4 + 4 + 8 + 8 + 8 + 2 + 5
"""What that takes, stage by stage, where nothing is refused."""


def arguments(url: str, folder: Path, out: str = "out", *more: str) -> list[str]:
    domain = folder / "domain.yaml"
    domain.write_text(json.dumps(DOMAIN), encoding="utf-8")
    model = ["model=openai_http", f"model.base_url={url}", "model.model=m", "model.serving.tries=1"]
    return [*model, f"domain={domain}", f"out={folder / out}", *SMALL, *SIMPLE, *more]


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.suffix == ".jsonl"}


def lines(out: Path, stage: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "stages" / f"{stage}.jsonl").read_text().splitlines()]


def of_stages(server: LocalServer) -> int:
    return sum(counted(server.asked).values())


def run_in(folder: Path, play: Play, out: str = "out", *more: str) -> tuple[int, LocalServer]:
    with LocalServer(play) as server:
        return main(arguments(server.url, folder, out, *more)), server


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
        self.process: subprocess.Popen[bytes] | None = None
        self.answered: list[Asked] = []
        self._stage, self._left, self._play, self._lock = stage, at, right(), threading.Lock()

    def __call__(self, asked: Asked) -> Reply:
        with self._lock:
            if self.process and stage_of(asked) == self._stage:
                self._left -= 1
                if not self._left:
                    self.process.kill()
                    self.process.wait()
                    self.process = None
                    return Reply(503)
            reply = self._play(asked)
            self.answered += [asked] if stage_of(asked) else []
        return reply


@pytest.mark.parametrize("stage", STAGES)
def test_killed_in_a_stage_nothing_is_paid_twice(stage: str, tmp_path: Path) -> None:
    killing = Killing(stage, 2)
    with LocalServer(killing) as server:
        command = [sys.executable, "-m", "grid.datasets.slate.construct"]
        given = arguments(server.url, tmp_path, "killed", "at_once=1")
        killing.process = process = subprocess.Popen(
            [*command, *given], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert process.wait(120) == -signal.SIGKILL
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
    assert "tools: 12 of 12 kept, 0 answers now, 4 from before\n" in told
    assert "outcomes: 12 of 12 kept, 4 answers now, 8 from before\n" in told
    assert of_stages(server) == asked + 3 * 4


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
    assert f"{path}: its last line was cut off; it is removed, and asked for again" in capsys.readouterr().out
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
    assert first.startswith(f"error: {path}:1: no line of this pipeline (")
    assert second.startswith(f"error: {path}:2: ")
    assert second.endswith("stands in it twice")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("seed=1", "error: seed=1: as the set in out="),
        ("temperature=0.5", "error: temperature=0.5: as the set in out="),
        ("complexity.moderate=1", "error: complexity.moderate=1.0: as the set in out="),
        ("model.strict=true", "error: model.strict=True: as the set in out="),
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
        assert "tools: 12 of 12 kept, 0 answers now, 4 from before\n" in told
        assert "plans: 4 of 4 kept, 4 answers now, 0 from before; 4 earlier answers to other questions" in told
        assert {stage_of(one) for one in server.asked if stage_of(one)} == {"plans"}, "the plans are the same"
        server.asked.clear()
        assert main(given) == 0
        assert server.asked == [], "earlier answers are kept"
    after = contents(tmp_path / "out")
    assert len(lines(tmp_path / "out", "plans")) == 8
    assert {name: data for name, data in after.items() if name != "stages/plans.jsonl"} == {
        name: data for name, data in before.items() if name != "stages/plans.jsonl"
    }


@pytest.mark.parametrize("stage", STAGES)
def test_a_model_that_writes_no_json_for_a_stage(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def flaw(at: str, repair: bool, answer: dict[str, Json]) -> Json:
        return "I would rather \x1b[31mnot." if at == stage else answer

    with LocalServer(right(flaw)) as server:
        given = arguments(server.url, tmp_path)
        assert main(given) == 1
        wanted = len({line["item"] for line in lines(tmp_path / "out", stage)})
        asked = len(server.asked)
        assert main(given) == 1
        assert len(server.asked) == asked, "what is known to be refused is not paid for again"
    first, second = capsys.readouterr().err.splitlines()
    assert first == second
    assert first.startswith(f"stopped: stage {stage}: none of ")
    assert f"was kept after {3 * wanted} answers; refused by: JSON {3 * wanted}." in first
    assert "'I would rather \\x1b[31mnot.'" in first
    assert f"All answers are kept in {tmp_path}/out/stages/{stage}.jsonl" in first
    earlier = STAGES[: STAGES.index(stage)]
    assert all(line["refused"] == [] for one in earlier for line in lines(tmp_path / "out", one))
    assert not (tmp_path / "out/cases.jsonl").exists()


def changed(stage: str, change: Callable[[dict[str, Any]], object]) -> Flaw:
    """The first answers of a stage with a change, repairs without."""

    def flaw(at: str, repair: bool, answer: dict[str, Json]) -> Json:
        if at == stage and not repair:
            change(answer)
        return answer

    return flaw


def first_tool(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer["tools"][0].update(values)


def arguments_of(step: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer[step]["arguments"].update(item_code=value)


def tool_of(place: int, tool: str) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer["steps"][0]["substeps"][place].update(tool=tool)


def neighbours(answer: dict[str, Any]) -> None:
    answer["steps"][0]["substeps"][1]["tool"] = answer["steps"][1]["substeps"][0]["tool"]


def outcome(step: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer[step].update(dict.fromkeys(answer[step], value))


FLAWS: list[tuple[str, str, Callable[[dict[str, Any]], object]]] = [
    ("tools", "name", first_tool(name="findRepairs")),
    ("tools", "vague", first_tool(name="handle_request")),
    ("tools", "arguments", first_tool(arguments=[])),
    ("tools", "results", first_tool(results=["a", "b", "c", "d"])),
    ("tools", "type", lambda answer: answer["tools"][0]["arguments"][0].update(type="uuid")),
    ("tools", "argument text", lambda answer: answer["tools"][0]["arguments"][0].update(description="Item code")),
    ("tools", "description", first_tool(description="Finds it.")),
    ("tools", "count", lambda answer: answer["tools"].pop()),
    ("tools", "form", first_tool(results="x")),
    ("plans", "shape", lambda answer: answer["steps"].pop()),
    ("plans", "unknown tool", tool_of(0, "find_nothing")),
    ("plans", "neighbours", neighbours),
    ("queries", "value", lambda answer: answer["values"].update(item_code="BK-000000")),
    ("queries", "type", lambda answer: answer["values"].update(item_code=7)),
    ("queries", "length", lambda answer: answer.update(query=" ".join(answer["query"].split()[:5]))),
    ("substeps", "names tool", lambda answer: answer["1.1"].update(text="Weigh or paint, for repairs and bikehire")),
    ("substeps", "duplicate", lambda answer: answer["1.2"].update(text=answer["1.1"]["text"])),
    ("substeps", "first call", arguments_of("1.1", "BK-000000")),
    ("substeps", "chain", lambda answer: answer["2.1"].update(arguments=answer["1.1"]["arguments"])),
    ("substeps", "source", arguments_of("2.1", "BK-000000")),
    ("substeps", "reference", arguments_of("2.1", "OUTPUT_FROM_STEP_1.2.code")),
    ("substeps", "arguments", lambda answer: answer["2.1"].update(arguments={})),
    ("substeps", "form", lambda answer: answer.pop("2.1")),
    ("outcomes", "fields", lambda answer: answer["1.1"].update(more=1)),
    ("outcomes", "empty", outcome("1.1", "")),
    ("outcomes", "type", outcome("1.1", 7)),
    ("outcomes", "resolves", outcome("2.1", "It failed.")),
    ("outcomes", "reference", outcome("2.1", "OUTPUT_FROM_STEP_1.1.x")),
    ("equivalents", "mapping", lambda answer: answer["arguments"].clear()),
    ("equivalents", "duplicate", lambda answer: answer.update(name="find_repairs")),
    ("distractors", "style", first_tool(description="so " * 40)),
]


@pytest.mark.parametrize(("stage", "gate", "change"), FLAWS, ids=[f"{stage}-{gate}" for stage, gate, _ in FLAWS])
def test_each_gate_refuses_and_a_repair_is_told_the_rule(
    stage: str,
    gate: str,
    change: Callable[[dict[str, Any]], object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, server = run_in(tmp_path, right(changed(stage, change)), "out", "repairs=1")
    told = capsys.readouterr().out
    assert status == 0
    found = lines(tmp_path / "out", stage)
    refused = [line for line in found if line["refused"]]
    assert {line["attempt"] for line in refused} == {0}
    assert gate in {broken["gate"] for line in refused for broken in line["refused"]}
    assert len(found) == len({line["item"] for line in found}) + len(refused)
    rules = {broken["text"] for line in refused for broken in line["refused"]}
    repairs = [one.body["messages"][1]["content"] for one in server.asked if "It was refused" in str(one.body)]
    assert len(repairs) == len(refused)
    assert all(any(f"- {rule}" in text for rule in rules) for text in repairs)
    assert re.search(rf"{stage} +{gate}  +\d+ +\d+ +0", told)


def test_workflows_that_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def flaw(at: str, repair: bool, answer: dict[str, Any]) -> Json:
        if at == "plans":
            answer["goal"] = "A wish, for the two!" if repair else "The wishes of THE two"
        return answer

    status, _ = run_in(tmp_path, right(flaw))
    told = capsys.readouterr().out
    assert status == 0
    workflows = {json.loads(line)["workflow"] for line in (tmp_path / "out/cases.jsonl").read_text().splitlines()}
    assert workflows == {"repairs-000"}
    assert re.search(r"plans  +4 +1 +0 +3 +8", told), "two topics, each with a second plan asked for 3 times"
    assert re.search(r"plans +duplicate  +7 +88 +3", told)


def test_outcomes_that_contradict_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two queries of a workflow give the same value, so that they make the same call; it returns something else."""

    def flaw(at: str, repair: bool, answer: dict[str, Any]) -> Json:
        if at == "queries":
            code = answer["values"]["item_code"]
            answer["query"] = answer["query"].replace(code, f"BK-000000 of {code[3:]}xyz")
            answer["values"]["item_code"] = "BK-000000"
        return answer

    status, _ = run_in(tmp_path, right(flaw))
    told = capsys.readouterr().out
    assert status == 0
    cases = [json.loads(line) for line in (tmp_path / "out/cases.jsonl").read_text().splitlines()]
    first = [(case["plan"][0]["substeps"][0]["call"]["tool"]) for case in cases]
    assert len(first) == len(set(first)), "of each first call one outcome is left"
    dropped = 8 - len(cases)
    assert dropped > 0
    assert re.search(rf"outcomes +contradiction  +{dropped} +\d+ +{dropped}", told)


def test_a_domain_of_one_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def flaw(at: str, repair: bool, answer: dict[str, Any]) -> Json:
        if at == "tools":
            answer["tools"] = [
                {**answer["tools"][0], "name": "find_it", "description": "It finds what is lost somewhere"}
            ]
        return answer

    status, server = run_in(tmp_path, right(flaw), "out", "repairs=0")
    assert status == 1
    assert {stage_of(one) for one in server.asked if stage_of(one)} == {"tools"}
    told = capsys.readouterr().err
    assert told == "stopped: stage tools: a library of 1 tool leaves nothing to choose; raise sizes.tools\n"


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
    from grid.datasets.slate.construct.pipeline import Held

    with Held(tmp_path / "out"):
        status, server = run_in(tmp_path, right())
    assert (status, server.asked) == (2, [])
    assert capsys.readouterr().err == f"error: out={tmp_path}/out: another process constructs there; wait for it\n"
