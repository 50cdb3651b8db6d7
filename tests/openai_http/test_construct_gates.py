"""What a scripted model gets wrong: each gate refuses it, says why, and a repair is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from grid.core.types import Json
from grid.synthesis import config, slate
from grid.synthesis.slate import main
from tests.support.constructing import arguments, changed, lines, run_in
from tests.support.http_server import LocalServer
from tests.support.scripted_slate import STAGES, right, stage_of


@pytest.fixture(autouse=True)
def one_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """All plans have one shape, so that a flaw knows what it changes."""

    def drawn(seed: int, topic: str, users: Sequence[str], shares: object, count: int) -> list[config.Shape]:
        return [config.Shape(users[0], "simple", ((True, False), (True, True)))] * count

    monkeypatch.setattr(config, "drawn", drawn)


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """How good the sets are as benchmarks is worked out in test_construct.py."""
    monkeypatch.setattr(slate, "_quality", lambda *_: None)


@pytest.mark.long
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
    assert f"was kept after {3 * wanted} answers; these rules refused them: JSON {3 * wanted}." in first
    assert "'I would rather \\x1b[31mnot.'" in first
    assert f"All answers are in {tmp_path}/out/stages/{stage}.jsonl" in first
    earlier = STAGES[: STAGES.index(stage)]
    assert all(line["refused"] == [] for one in earlier for line in lines(tmp_path / "out", one))
    assert not (tmp_path / "out/cases.jsonl").exists()


def first_tool(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer["tools"][0].update(values)


def arguments_of(step: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer[step]["arguments"].update(item_code=value)


def tool_of(number: str, tool: str) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer[number].update(tool=tool)


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
    ("plans", "shape", lambda answer: answer.pop("2")),
    ("plans", "shape", tool_of("1.2", "find_repairs")),
    ("plans", "unknown tool", tool_of("1.1", "find_nothing")),
    ("plans", "neighbours", lambda answer: answer["2.2"].update(tool=answer["2.1"]["tool"])),
    ("plans", "text", lambda answer: answer.update({"1": " "})),
    ("plans", "form", lambda answer: answer.update({"1": 1})),
    (
        "plans",
        "example",
        lambda answer: answer.update(goal="A farmer wants to know whether a meadow can be mown on a day."),
    ),
    ("queries", "value", lambda answer: answer["values"].update(item_code="BK-000000")),
    ("queries", "type", lambda answer: answer["values"].update(item_code=7)),
    ("queries", "argument name", lambda answer: answer.update(query=answer["query"] + ", and that is the item's code")),
    ("queries", "names tool", lambda answer: answer.update(query=answer["query"] + " by weigh_repairs, paint_repairs")),
    ("queries", "length", lambda answer: answer.update(query=" ".join(answer["query"].split()[:5]))),
    ("substeps", "names tool", lambda answer: answer["1.1"].update(text="Weigh or paint, for repairs and bikehire")),
    ("substeps", "names tool", lambda answer: answer["1.2"].update(text="See what find_bikehire or find_repairs told")),
    (
        "substeps",
        "example",
        lambda answer: answer["1.1"].update(text="Settle which weather station is nearest to the meadow"),
    ),
    ("substeps", "duplicate", lambda answer: answer["1.2"].update(text=answer["1.1"]["text"])),
    ("substeps", "chain", lambda answer: answer["2.2"].update(arguments={"item_code": "you"})),
    ("substeps", "source", arguments_of("2.1", "BK-000000")),
    ("substeps", "reference", arguments_of("2.1", "OUTPUT_FROM_STEP_1.2.code")),
    ("substeps", "arguments", lambda answer: answer["2.1"].update(arguments={})),
    ("substeps", "form", lambda answer: answer.pop("2.1")),
    ("outcomes", "fields", lambda answer: answer["1.1"].update(more=1)),
    ("outcomes", "empty", outcome("1.1", "")),
    ("outcomes", "type", outcome("1.1", 7)),
    ("outcomes", "resolves", outcome("2.2", "It failed.")),
    ("outcomes", "reference", outcome("2.1", "OUTPUT_FROM_STEP_1.1.x")),
    ("equivalents", "mapping", lambda answer: answer["arguments"].clear()),
    ("equivalents", "duplicate", lambda answer: answer.update(name="find_repairs")),
    ("distractors", "style", first_tool(description="so " * 40)),
]


@pytest.mark.long
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
    repairs = [one.body["messages"][1]["content"] for one in server.asked if "was refused, because" in str(one.body)]
    assert len(repairs) == len(refused)
    assert all(any(f"- {rule}" in text for rule in rules) for text in repairs)
    assert re.search(rf"{stage} +{gate}  +\d+ +\d+ +0", told)


def test_a_draft_that_came_back_unchanged_is_not_shown_again(tmp_path: Path) -> None:
    def flaw(at: str, repair: bool, answer: dict[str, Any]) -> Json:
        return {"values": {"item_code": "BK-1"}, "query": "Only BK-1"} if at == "queries" else answer

    _, server = run_in(tmp_path, right(flaw), "out", "repairs=3", "sizes.queries=1")
    texts = [one.body["messages"][1]["content"] for one in server.asked if stage_of(one) == "queries"]
    first, *repairs = [text for text in texts if "customer. The goal: Wish early about Repairs" in text]
    told = [("Your last answer was:" in text, "Write a query of at least" in text) for text in repairs]
    assert told == [(True, True), (False, True), (False, True)]
    assert "was refused, because" not in first


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
