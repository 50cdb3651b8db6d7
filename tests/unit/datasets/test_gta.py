"""GTA as cases: the released format, what is refused of it, and metrics of paths that are followed by hand."""

from __future__ import annotations

import asyncio
import copy
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.errors import ConfigError, DataError
from grid.core.problem import Problem
from grid.core.types import RESULT, Observation, Step, Substep, ToolCall, Trajectory
from grid.datasets.gta import CATEGORIES, Gta, Lists, answer_score, category_of, image_score, tool_counts
from grid.metrics.stepwise import scored
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support import gta
from tests.support.configs import setting_of, solvers

PRICE, CHAIRS, BIRD, ROOMS = (f"gta-{number}" for number in range(4))
Row = dict[str, Any]


def played(problem: Problem, calls: list[ToolCall], answer: str | None) -> Row:
    """The scores of calls and an answer, as a row has them."""
    state, steps = problem.world.start(), []
    for place, call in enumerate(calls):
        state, seen = asyncio.run(problem.world.apply(state, call))
        steps.append(Step(0, Substep(str(place), "", ""), call, seen, written=call))
    if answer is not None:
        steps.append(Step(0, Substep(str(len(steps)), "", ""), None, None, finished=True))
    found = Trajectory(tuple(steps), tuple(steps), state, answer=answer)
    return defaultdict(lambda: None, scored(problem, found, problem.world.resolved(state)))


def gold_calls(problem: Problem) -> list[ToolCall]:
    return [call for call in problem.reference.calls.values() if call]


def written(folder: Path, *records: Row) -> Gta:
    return Gta(gta.write(folder, list(records)))


def changed(change: Callable[[Row], Any], number: int = 0) -> Row:
    record = copy.deepcopy(gta.RECORDS[number])
    change(record)
    return record


def test_the_released_format_becomes_cases(small_gta: str) -> None:
    dataset = Gta(small_gta, order="file")
    assert list(dataset.case_ids()) == [f"gta-{number}" for number in range(len(gta.RECORDS))]
    assert not dataset.skipped
    assert sorted(dataset.tools) == sorted(name for tools in CATEGORIES.values() for name in tools)
    problem = dataset.problem(CHAIRS)
    assert problem.case.query == "How many more chairs than tables are there?\nFiles: image/0.jpg (image)"
    assert problem.own == ("CountGivenObject", "Calculator")
    assert [(p.name, p.type, p.required) for p in problem.library["CountGivenObject"].parameters] == [
        ("image", "string", True), ("text", "string", True), ("bbox", "string", False),
    ]  # fmt: skip
    assert "path of the image" in problem.library["CountGivenObject"].parameters[0].description
    assert asyncio.run(problem.world.apply(problem.world.start(), gold_calls(problem)[0]))[1].content == {RESULT: 7}


def test_a_sample_has_its_share_of_facts_texts_and_images(small_gta: str) -> None:
    drawn = Gta(small_gta, limit=5).case_ids()
    kinds = [Gta(small_gta).cases[case_id][0].record.wanted for case_id in drawn]
    assert sum(kind is None for kind in kinds) in (1, 2)
    assert sum(isinstance(kind, tuple) for kind in kinds) == 1


def test_end_to_end_success_is_the_calls_and_the_answer_has_its_own_score(small_gta: str) -> None:
    problem = Gta(small_gta).problem(PRICE)
    calls = gold_calls(problem)
    right = played(problem, calls, "That makes 13.50!")
    assert (right["success"], right["answer_score"]) == (True, 1.0)
    assert {right[name] for name in ("tool_f1", "argument_f1", "plan_f1", "execution_f1")} == {1.0}
    assert json.loads(right["tool_counts"]) == {
        "perception": [1, 1, 1], "operation": [0, 0, 0], "logic": [1, 1, 1], "creativity": [0, 0, 0],
    }  # fmt: skip
    assert played(problem, calls, "Not 9, but 13.5.")["answer_score"] == 0, "9 is on the black list"
    assert played(problem, calls, None)["answer_score"] == 0, "nobody answered"
    guessed = played(problem, [], "13.5")
    assert (guessed["success"], guessed["answer_score"], guessed["tool_f1"]) == (False, 1.0, 0)


def test_images_and_free_texts_have_no_score_without_the_sentence_model(small_gta: str) -> None:
    for case_id in (BIRD, ROOMS):
        problem = Gta(small_gta).problem(case_id)
        row = played(problem, gold_calls(problem), "Yes")
        assert row["success"] is True
        assert row["answer_score"] is None


def test_doing_nothing_scores_nothing(small_gta: str) -> None:
    for mode in ("end_to_end", "step_by_step"):
        dataset = Gta(small_gta, mode=mode)
        for case_id in dataset.case_ids():
            row = played(dataset.problem(case_id), [], None)
            assert row["success"] is False
            shares = ("instruction_accuracy", "tool_accuracy", "argument_accuracy", "answer_score", "tool_f1")
            assert {row[name] for name in shares} <= {0, None}


def test_step_by_step_a_case_is_one_decision_behind_the_gold_ones(small_gta: str) -> None:
    dataset = Gta(small_gta, mode="step_by_step", order="file")
    assert [name for name in dataset.case_ids() if name.startswith(CHAIRS)] == [f"{CHAIRS}-{at}" for at in range(4)]
    assert {dataset.cluster(f"{CHAIRS}-{at}") for at in range(4)} == {"1"}
    problem = dataset.problem(f"{CHAIRS}-2")
    assert [step.call for step in problem.case.done] == gold_calls(problem)[:2]
    assert [step.observation for step in problem.case.done] == [Observation({RESULT: 7}), Observation({RESULT: 2})]
    assert problem.case.decisions == 1
    right = played(problem, [ToolCall("Calculator", {"expression": "7 - 2"})], None)
    assert right["success"] is True
    assert [right[name] for name in ("instruction_accuracy", "tool_accuracy", "argument_accuracy")] == [1, 1, 1]
    assert [right[name] for name in ("tool_f1", "argument_f1", "execution_f1")] == [1, 1, 1]
    assert right["answer_score"] is None
    other = played(problem, [ToolCall("Calculator", {"expression": "7-2"})], None)
    assert [other[name] for name in ("instruction_accuracy", "tool_accuracy", "argument_accuracy")] == [1, 1, 0]
    early = played(problem, [], "5")
    assert [early[name] for name in ("instruction_accuracy", "tool_accuracy", "argument_accuracy")] == [0, 0, 0]


def test_the_last_step_is_the_answer(small_gta: str) -> None:
    problem = Gta(small_gta, mode="step_by_step").problem(f"{CHAIRS}-3")
    right = played(problem, [], "Five.")
    assert [right[name] for name in ("success", "instruction_accuracy", "answer_score")] == [True, 1, 1]
    assert right["tool_accuracy"] is None
    assert right["tool_f1"] is None
    more = played(problem, gold_calls(problem)[:1], None)
    assert [more[name] for name in ("success", "instruction_accuracy", "answer_score")] == [False, 0, 0]


@pytest.mark.long
@pytest.mark.parametrize("robustness", ["none", "extraneous"])
@pytest.mark.parametrize("planner", solvers())
def test_who_knows_the_gold_path_is_right_at_every_step(small_gta: str, planner: str, robustness: str) -> None:
    setting = setting_of(
        {"path": small_gta, "mode": "step_by_step", "limit": 12},
        model_values={"tool_skill": 1.0, "argument_skill": 1.0, "foresight": 0.0, "malformed": 0.0, "judge_auc": 1.0},
        model="simulated", planner=planner, dataset="gta", retriever="oracle", robustness=robustness,
    )  # fmt: skip
    built = build(setting, BudgetConfig(llm_calls=300))
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert len(rows) == 12
    for row in rows:
        assert row["status"] == "ok", row["error_message"]
        assert row["success"] is True, row["case_id"]
        assert {row[name] for name in ("instruction_accuracy", "tool_accuracy", "argument_accuracy")} <= {1, None}


def test_a_step_that_was_made_before_is_not_done_yet(tmp_path: Path) -> None:
    """The gold path asks twice for the same: behind the first time the second is still to be asked."""
    calls = [("OCR", {"image": gta.IMAGE}, "4"), ("OCR", {"image": gta.IMAGE}, "4")]
    dataset = written(tmp_path, gta.record("Read it twice.", 1, calls, "4", gta.facts(["4"])))
    problem = replace_mode(dataset).problem("gta-0-1")
    assert not problem.world.resolved(problem.world.start())
    assert played(problem, [ToolCall("OCR", {"image": gta.IMAGE})], None)["success"] is True


def replace_mode(dataset: Gta) -> Gta:
    return Gta(dataset.path, mode="step_by_step")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "an object with records"),
        ({}, "an object with records"),
        ({"0": []}, "record 0 is not an object"),
        ({"0": {"tools": [], "files": [], "dialogs": []}}, "the key gt_answer is missing"),
        ({"0": {"tools": [{"name": "OCR", "inputs": []}], "files": [], "sub_tasks": [], "dialogs": [], "gt_answer": 0}},
         "GTA-2"),
        ({"0": {"dialogs": [], "files": [], "tools": {}, "gt_answer": None}}, "the key tools is missing"),
        ({"0": {"dialogs": [], "files": [], "tools": ["OCR"], "gt_answer": None}}, "no list of inputs"),
    ],
)  # fmt: skip
def test_files_of_another_version_are_refused(tmp_path: Path, content: Any, said: str) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(DataError, match=said):
        Gta(str(tmp_path)).case_ids()


@pytest.mark.parametrize("content", ["{", '{"0": NaN}', "[" * 100_000])
def test_broken_files_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "dataset.json").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="broken JSON"):
        Gta(str(tmp_path)).case_ids()


def test_a_folder_of_gta_2_is_refused(tmp_path: Path) -> None:
    (tmp_path / "end.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"dataset\.json"):
        Gta(str(tmp_path)).case_ids()


def test_tools_of_one_name_with_other_inputs_are_refused(tmp_path: Path) -> None:
    other = changed(lambda record: record["tools"][0]["inputs"].pop())
    with pytest.raises(DataError, match="record 1: tool 'OCR' has other inputs"):
        written(tmp_path, gta.RECORDS[0], other).case_ids()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda r: r["dialogs"].clear(), "does not begin with the user's query"),
        (lambda r: r["dialogs"][0].update(content=" "), "query is empty"),
        (lambda r: r["dialogs"].insert(1, {"role": "user", "content": "And?"}), "a result has no call"),
        (lambda r: r["dialogs"].pop(2), "a result has no call"),
        (lambda r: r["dialogs"][1]["tool_calls"].append(r["dialogs"][1]["tool_calls"][0]), "not exactly one call"),
        (lambda r: r["dialogs"][1]["tool_calls"][0].update(function=None), "names no function"),
        (lambda r: r["dialogs"][1]["tool_calls"][0]["function"].update(name="Knife"), "not one of the record's tools"),
        (lambda r: r["dialogs"][1]["tool_calls"][0]["function"].update(arguments="{}"), "not an object"),
        (lambda r: r["dialogs"][2].update(name="Plot"), "from another tool"),
        (lambda r: r["dialogs"][2].update(content=None), "result is empty"),
        (lambda r: r["dialogs"].pop(), "the gold path gives no answer"),
        (lambda r: r["dialogs"].__delitem__(slice(1, 5)), "calls no tool"),
        (lambda r: r["dialogs"].extend(r["dialogs"][1:3] * 40), "more than 64 messages"),
        (lambda r: r["dialogs"][-1].update(content=5), "last message is not a text"),
        (lambda r: r["files"].append({"path": 3}), "no type or no path"),
        (lambda r: r["tools"].clear(), "no tools"),
        (lambda r: r["tools"][0]["inputs"][0].update(type="smell"), "the unknown type 'smell'"),
        (lambda r: r.update(gt_answer="13.5"), "none of the known forms"),
        (lambda r: r.update(gt_answer=[1]), "one of the answers is not a text"),
        (lambda r: r.update(gt_answer={"whitelist": []}), "whitelist is empty"),
        (lambda r: r.update(gt_answer={"whitelist": ["13.5"]}), "no list of aliases"),
        (lambda r: r.update(gt_answer={"whitelist": [["5"]], "blacklist": [[]]}), "no list of aliases"),
        (lambda r: r.update(gt_answer={"whitelist": [["5" * 2000]]}), "1000 characters"),
        (lambda r: r["dialogs"].__setitem__(slice(3, 5), [r["dialogs"][1], r["dialogs"][2] | {"content": "else"}]),
         "expects another outcome"),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_a_case_is_skipped_and_counted(
    tmp_path: Path, change: Callable[[Row], Any], reason: str
) -> None:
    dataset = written(tmp_path, changed(change), gta.RECORDS[1])
    assert list(dataset.case_ids()) == ["gta-1"]
    (skipped,) = dataset.skipped
    assert skipped.record == "0"
    assert reason in skipped.reason


def test_a_file_without_a_single_case_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least one usable record"):
        written(tmp_path, changed(lambda record: record["files"].append(3))).case_ids()


def test_answers_need_every_group_as_whole_words_in_any_case_and_nothing_of_the_black_list() -> None:
    wanted = Lists((("mulberry falls",), ("48", "forty-eight")), (("north pole",),))
    assert wanted.allow("MULBERRY FALLS (48)")
    assert not wanted.allow("Mulberry Falls")
    assert not wanted.allow("Mulberry Falls, 148")
    assert not wanted.allow("Mulberry Falls at forty-eight, near the North Pole")
    assert answer_score(None, wanted, None) == answer_score("", wanted, None) == 0
    assert wanted.allow("a" * 1_000_000 + " mulberry falls 48")


def test_free_texts_score_as_the_nearest_and_images_as_the_product() -> None:
    likeness = {("a", "b"): 0.5, ("a", "c"): 0.75, ("a", "d"): -0.5}

    def alike(one: str, other: str) -> float:
        return likeness.get((one, other), 0.5)

    assert answer_score("a", ("b", "c", "d"), alike) == 0.75
    assert answer_score("a", ("d",), alike) == 0
    assert answer_score(None, ("b",), alike) == 0
    gold = [ToolCall("OCR", {}), ToolCall("DrawBox", {"bbox": "1"}), ToolCall("AddText", {"text": "x"})]
    assert image_score(gold, gold, alike) == 0.25
    assert image_score(gold[:2], gold, alike) == 0


def test_a_gold_call_is_hit_where_its_tool_was_called_at_all() -> None:
    assert tool_counts(["OCR", "Knife"], ["OCR", "OCR", "Plot"]) == {
        "perception": [2, 1, 2], "operation": [0, 0, 0], "logic": [0, 0, 1], "creativity": [0, 0, 0],
    }  # fmt: skip
    assert category_of("Knife") == ""


def test_the_version_tells_files_and_modes_apart(tmp_path: Path, small_gta: str) -> None:
    versions = {Gta(small_gta).version, Gta(small_gta, mode="step_by_step").version}
    assert len(versions | {written(tmp_path, gta.RECORDS[0]).version}) == 3


def test_the_sentence_model_is_looked_for_before_anything_runs(small_gta: str) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.sentence_model"):
        _ = Gta(small_gta, sentence_model="/nowhere").version
