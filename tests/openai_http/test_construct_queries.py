"""SLATE's construction in the paper's order: queries, plans, tools used again or made, merged, and then whole cases."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.types import Json
from grid.datasets.slate.dataset import Slate
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from grid.synthesis import config
from grid.synthesis.slate import main
from tests.support.configs import setting_of
from tests.support.constructing import arguments, changed, contents, lines, of_stages, run_in
from tests.support.http_server import Asked, LocalServer, Reply, refusal
from tests.support.oracle import oracle_of
from tests.support.scripted_slate import right, stage_of

ORDER = ["order=queries", "retriever=bm25"]
FILES = {
    "wishes": "queries",
    "outlines": "plans",
    "grounding": "tools",
    "categories": "categories",
    "merging": "merging",
}
"""The stages' files, by what they write."""


@pytest.fixture(autouse=True)
def one_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """All plans have one shape, so that a flaw knows what it changes; users take turns."""

    def drawn(seed: int, topic: str, users: Sequence[str], shares: object, count: int) -> list[config.Shape]:
        steps = ((True, False), (True, True))
        return [config.Shape(users[number % len(users)], "simple", steps) for number in range(count)]

    monkeypatch.setattr(config, "drawn", drawn)


def records(out: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / f"{name}.jsonl").read_text().splitlines()]


def test_the_order_of_appendix_d_and_an_oracle_resolves_every_case(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, server = run_in(tmp_path, right(), "out", *ORDER)
    out, told = tmp_path / "out", capsys.readouterr()
    assert (status, told.err) == (0, "")
    order = dict.fromkeys(stage for one in server.asked if (stage := stage_of(one)))
    assert [*order] == [*FILES, "tools", "substeps", "outcomes", "equivalents", "distractors"]
    setting = setting_of({"path": str(out)}, dataset="slate", planner="react", retriever="oracle")
    built = build(setting, BudgetConfig())
    case_ids = built.dataset.case_ids()
    assert len(case_ids) == 2 * 2 * 2
    built = replace(built, engine=oracle_of(built.dataset, case_ids))
    chunk = list(cells(setting, built.dataset.version, case_ids, 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert [(row["success"], row["tool_match_rate"], row["action_accuracy"]) for row in rows] == [(True, 1, 1)] * 8


def test_near_tools_are_used_again_and_others_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, server = run_in(tmp_path, right(), "out", *ORDER)
    assert status == 0
    prompts = [one.body["messages"][1]["content"] for one in server.asked if stage_of(one) == "grounding"]
    answers = [json.loads(line["answer"]) for line in lines(tmp_path / "out", "tools")]
    by_item = {line["item"]: answer for line, answer in zip(lines(tmp_path / "out", "tools"), answers, strict=True)}
    assert "There are no tools yet." in prompts[0]
    assert "find_repairs(" in prompts[1], "the first query of the other topic is offered what there is"
    assert len(by_item["bike-hire-000"]["new"]) == 3, "which is far from it"
    assert by_item["repairs-002"] == {"use": by_item["repairs-000"]["use"], "new": []}, "and the next finds its own"
    assert [tool["name"] for tool in by_item["repairs-001"]["new"]] == ["desk_find_repairs"]
    assert "tools: 8 new tools for 8 plans; 16 of 24 calls use a tool of an earlier plan\n" in capsys.readouterr().out


def test_merging_leaves_no_call_of_what_was_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _ = run_in(tmp_path, right(), "out", *ORDER, "sizes.equivalents=0", "sizes.distractors=0")
    assert status == 0
    tools = {tool["name"]: tool for tool in records(tmp_path / "out", "tools")}
    assert not [name for name in tools if name.startswith("desk_")]
    assert tools["find_repairs"]["results"] == ["both_code"]
    assert {tool["category"] for tool in tools.values()} == {"Repairs", "Bike hire"}
    assert len(tools) == 2 * 6, "as many of each topic as sizes.tools asks for"
    cases = records(tmp_path / "out", "cases")
    for case in cases:
        calls = [sub["call"] for step in case["plan"] for sub in step["substeps"]]
        assert [call["tool"].split("_")[0] for call in calls if call] == ["find", "weigh", "paint"]
        taken = re.findall(r"OUTPUT_FROM_STEP_1.1.(\w+)", json.dumps(case))
        assert set(taken) == {"both_code"}, "arguments take what the merged tool returns"
    assert {case["workflow"] for case in cases} == {"repairs-000", "bike-hire-000"}, "now the others are the same"
    assert "merging: 8 tools became 6\n" in capsys.readouterr().out


def grouped(*names: str) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer["merged"][0].update(replaces=[*names])


FLAWS: list[tuple[str, str, Callable[[dict[str, Any]], object]]] = [
    ("wishes", "details", lambda answer: answer.update(query="I want it, and I want it " * 4)),
    ("wishes", "length", lambda answer: answer.update(query="Where is BK-1?")),
    ("wishes", "names tool", lambda answer: answer.update(query=answer["query"] + " by find_repairs")),
    ("wishes", "form", lambda answer: answer.update(query=7)),
    ("outlines", "shape", lambda answer: answer.pop("2")),
    ("outlines", "form", lambda answer: answer.update({"1.1": {"purpose": "x"}})),
    ("outlines", "text", lambda answer: answer.update({"1": " "})),
    ("outlines", "duplicate", lambda answer: answer.update({"1.2": answer["1.1"]})),
    ("grounding", "shape", lambda answer: answer["use"].pop("1.1")),
    ("grounding", "unknown tool", lambda answer: answer["use"].update({"1.1": "find_nothing"})),
    ("grounding", "neighbours", lambda answer: answer["use"].update({"2.2": answer["use"]["2.1"]})),
    ("grounding", "form", lambda answer: answer.update(new={})),
    ("categories", "category", lambda answer: answer.update(dict.fromkeys(answer, "Gardens"))),
    ("categories", "form", lambda answer: answer.update(dict.fromkeys(answer, 7))),
    ("merging", "unknown tool", grouped("find_repairs", "find_nothing")),
    ("merging", "group", grouped("find_repairs")),
    ("merging", "neighbours", grouped("weigh_repairs", "paint_repairs")),
    ("merging", "name", grouped("weigh_repairs", "desk_find_repairs")),
    ("merging", "twice", lambda answer: answer["merged"].append(answer["merged"][0])),
    ("merging", "form", lambda answer: answer.update(merged=None)),
    ("substeps", "source", lambda answer: answer["1.1"]["arguments"].update(item_code="BK-000000")),
    ("substeps", "reference", lambda answer: answer["1.1"]["arguments"].update(item_code="OUTPUT_FROM_STEP_2.1.x")),
    ("substeps", "arguments", lambda answer: answer["1.1"].pop("arguments")),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("stage", "gate", "change"), FLAWS, ids=[f"{stage}-{gate}" for stage, gate, _ in FLAWS])
def test_each_gate_refuses_and_a_repair_mends_it(
    stage: str,
    gate: str,
    change: Callable[[dict[str, Any]], object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ["sizes.workflows=1", "sizes.equivalents=0", "sizes.distractors=0", "repairs=1"]
    status, _ = run_in(tmp_path, right(changed(stage, change)), "out", *ORDER, *few)
    told = capsys.readouterr().out
    assert status == 0
    file = FILES.get(stage, stage)
    found = lines(tmp_path / "out", file)
    refused = [line for line in found if line["refused"]]
    assert {line["attempt"] for line in refused} == {0}
    assert gate in {broken["gate"] for line in refused for broken in line["refused"]}
    assert len(found) == len({line["item"] for line in found}) + len(refused)
    assert re.search(rf"{file} +{gate}  +\d+ +\d+ +0", told)
    assert len(Slate(path=str(tmp_path / "out")).records) == 4


@pytest.mark.long
@pytest.mark.parametrize("stage", FILES)
def test_a_model_that_writes_no_json_for_a_stage(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def flaw(at: str, repair: bool, answer: dict[str, Json]) -> Json:
        return "I would rather \x1b[31mnot." if at == stage else answer

    with LocalServer(right(flaw)) as server:
        given = arguments(server.url, tmp_path, "out", *ORDER)
        assert main(given) == 1
        asked = len(server.asked)
        assert main(given) == 1
        assert len(server.asked) == asked, "what is known to be refused is not paid for again"
    said = capsys.readouterr().err.splitlines()
    assert said[0] == said[1]
    assert said[0].startswith(f"stopped: stage {FILES[stage]}: none of ")
    assert not (tmp_path / "out/cases.jsonl").exists()


def test_one_plan_without_tools_is_counted_and_the_others_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def flaw(at: str, repair: bool, answer: dict[str, Any]) -> Json:
        broken = at == "grounding" and any(name.startswith("desk_") for name in answer["use"].values())
        return {"use": {}, "new": []} if broken else answer

    status, _ = run_in(tmp_path, right(flaw), "out", *ORDER)
    told = capsys.readouterr().out
    assert status == 0
    assert "tools: 4 of 8 kept, " in told
    assert re.search(r"tools +shape  +12 +\d+ +4", told)
    users = {case["user"] for case in records(tmp_path / "out", "cases")}
    assert users == {"customer"}


@pytest.mark.long
def test_a_construction_that_was_stopped_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play = right()
    with LocalServer(play) as server:
        assert main(arguments(server.url, tmp_path, "whole", *ORDER)) == 0
        whole, answers = contents(tmp_path / "whole"), of_stages(server)
        given = arguments(server.url, tmp_path, "out", *ORDER, "at_once=1")
        for allowed in (5, 9, 7, 3, 10):  # stops in several stages
            left = [allowed]

            def until(asked: Asked, left: list[int] = left) -> Reply:
                left[0] -= stage_of(asked) is not None
                return refusal(400, "You have used up your budget.") if left[0] < 0 else play(asked)

            server.play = until
            assert main(given) == 1
        server.play = play
        server.asked.clear()
        assert main(given) == 0
        assert of_stages(server) == answers - (5 + 9 + 7 + 3 + 10)
        assert main(given) == 0
        assert of_stages(server) == answers - (5 + 9 + 7 + 3 + 10)
    assert contents(tmp_path / "out") == whole
    assert "used up your budget" in capsys.readouterr().err


def test_a_folder_has_one_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalServer(right()) as server:
        assert main(arguments(server.url, tmp_path, "out", *ORDER)) == 0
        assert main(arguments(server.url, tmp_path)) == 2
        assert main(arguments(server.url, tmp_path, "other")) == 0
        assert main(arguments(server.url, tmp_path, "other", *ORDER)) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: order=None: the value of the set in out=")
    assert second.startswith("error: order='queries': the value of the set in out=")
    assert "order" not in json.loads((tmp_path / "other/construction.json").read_text())


def test_a_larger_set_keeps_what_there_is(tmp_path: Path) -> None:
    with LocalServer(right()) as server:
        assert main(arguments(server.url, tmp_path, "out", *ORDER)) == 0
        before = {
            file: {line["prompt"] for line in lines(tmp_path / "out", file)} for file in ("queries", "plans", "tools")
        }
        assert main(arguments(server.url, tmp_path, "out", *ORDER, "sizes.workflows=3")) == 0
    for file, known in before.items():
        after = lines(tmp_path / "out", file)
        assert len(after) == 12
        assert known <= {line["prompt"] for line in after}


def test_no_plan_calls_a_tool_twice_in_a_row(tmp_path: Path) -> None:
    assert run_in(tmp_path, right(), "out", *ORDER)[0] == 0
    for case in records(tmp_path / "out", "cases"):
        names = [sub["call"]["tool"] if sub["call"] else None for step in case["plan"] for sub in step["substeps"]]
        assert all(one is None or one != other for one, other in pairwise(names))
