"""Multi-objective HotpotQA as a data set: its cases, who reads for whom, the ceiling of retrieval, grades."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import Prompt, Section, TextAnswer, ToolCallAnswer
from grid.core.errors import ConfigError
from grid.core.types import FINISH, Observation, Step, Substep, ToolCall, Trajectory
from grid.datasets.grading import NUMBERED
from grid.datasets.hotpotqa.dataset import HotpotQAMulti
from grid.datasets.hotpotqa.stats import replayed
from grid.engines.lexical.engine import plans_left
from grid.engines.places import Places, is_right
from grid.episode import prompts
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.setting import Setting, cells
from grid.store.schema import JOINED
from grid.text.references import numbered
from grid.worlds.readers import ByReference, ByRules
from grid.worlds.search import QuestionWorld
from tests.support import hotpotqa
from tests.support.configs import setting_of
from tests.support.hotpotqa import NAMES, book, bridge, comparison, person, records

BUDGET = BudgetConfig()


@pytest.fixture(scope="module")
def small(small_hotpotqa: str) -> HotpotQAMulti:
    return HotpotQAMulti(path=small_hotpotqa, cases=30)


def world_of(built: Built, case_id: str) -> QuestionWorld:
    world = built.problem(case_id, 0).world
    assert isinstance(world, QuestionWorld)
    return world


def test_so_many_cases_of_each_number_and_none_shares_a_question_with_a_demonstration(small: HotpotQAMulti) -> None:
    ids = small.case_ids()
    assert Counter(case_id[:2] for case_id in ids) == {"k1": 24, "k2": 30, "k3": 30, "k4": 30, "k5": 30}
    assert len({small.records[case_id].query for case_id in ids}) == len(ids)
    assert "30 cases are asked for, but only 24 can be drawn" in {skip.reason for skip in small.skipped}
    for case_id in ids[::7]:
        sample = small.records[case_id]
        own, shown = {part.question for part in sample.parts}, small.demonstrations(case_id, 10)
        assert len(shown) == 10
        for one in shown:
            lines = one.question.split("\n")
            assert len(lines) == len(sample.parts)
            assert own.isdisjoint(line.partition(". ")[2] if len(lines) > 1 else line for line in lines)
            assert one.answer.count("\n") == len(lines) - 1
            assert len(one.resolution) == len(lines)
    first = [len(small.records[case_id].parts) for case_id in ids[:20]]
    assert {1, 2, 3, 4, 5} == set(first), "any first part has each number's share"


def test_a_demonstration_ends_with_all_results_in_numbered_lines(small: HotpotQAMulti) -> None:
    case_id = next(case_id for case_id in small.case_ids() if case_id.startswith("k2"))
    (shown,) = small.demonstrations(case_id, 1)
    text = prompts._demonstration_text(shown, answered=True)
    plan = json.loads(text.split("\nPlan: ")[1].split("\n")[0])["plan"]
    one, other = shown.resolution
    answer = f"1. OUTPUT_FROM_STEP_{one}.result\n2. OUTPUT_FROM_STEP_{other}.result"
    assert plan[-1] == {"tool": FINISH, "arguments": {"answer": answer}}
    prompt = Prompt(
        (Section("demonstrations", ("Solved:", text)), Section("task", (f"Query: {small.records[case_id].query}",))),
        ToolCallAnswer(tuple(small.tools.values()), False),
    )
    ((left, _),) = plans_left(prompt, lambda texts: np.ones(len(texts)))
    assert [call["tool"] for call in left] == [call["tool"] for call in plan], "the lexical engine reads it"


def test_a_result_that_looks_like_a_name_is_shown_as_it_is() -> None:
    step = Step(
        0, Substep("3", "", ""), ToolCall("search", {}), Observation({"result": "$500"}), ToolCall("search", {})
    )
    assert prompts.step_text(step).endswith('returned {"result": "$500"}')
    named = replace(step, observation=Observation({"result": "$5", "value": "a set"}))
    assert "OUTPUT_FROM_STEP_3.result" in prompts.step_text(named)


def test_a_judge_that_knows_the_reference_knows_a_finish_of_several_results(small: HotpotQAMulti) -> None:
    problem = small.problem(next(case_id for case_id in small.case_ids() if case_id.startswith("k2")))
    calls = problem.reference.calls.items()
    lines = [f"{step}  -> {call.text()} returned {{}}" for step, call in calls if call]
    places = Places(problem.reference)
    one, other = problem.reference.resolution
    right = f"1. OUTPUT_FROM_STEP_{one}.result\n2. OUTPUT_FROM_STEP_{other}.result"
    swapped = f"1. OUTPUT_FROM_STEP_{other}.result\n2. OUTPUT_FROM_STEP_{one}.result"
    for answer, expected in ((right, True), (swapped, False), (right.split("\n")[0], False)):
        shown = (
            Section("task", (f"Query: {problem.case.query}",)),
            Section("history", ("Done so far:", *lines)),
            Section("proposal", ("Next:", prompts.finishing(answer).text())),
        )
        prompt = Prompt(shown, TextAnswer())
        assert places.left(prompt, 1)[0].answer == right
        assert is_right(prompt, places) == expected


@pytest.mark.parametrize(
    ("objectives", "numbers"),
    [("1..5", [1, 2, 3, 4, 5]), (3, [3]), ("2..2", [2]), ("4..9", [4, 5, 6, 7, 8, 9]), ("3", [3])],
)
def test_objectives_are_a_number_or_some(small_hotpotqa: str, objectives: Any, numbers: list[int]) -> None:
    found = HotpotQAMulti(path=small_hotpotqa, objectives=objectives, cases=2)
    assert sorted({len(sample.parts) for sample in found.records.values()}) == numbers


@pytest.mark.parametrize("objectives", [0, 10, -1, "0..3", "1..", "5..1", "a", "1..10", ""])
def test_other_objectives_are_refused_by_name(objectives: Any) -> None:
    with pytest.raises(ConfigError, match="a number from 1 to 9") as caught:
        HotpotQAMulti(objectives=objectives)
    assert caught.value.key == "dataset.objectives"


@pytest.mark.parametrize("objectives", [1.5, None, True, [1]])
def test_objectives_of_another_kind_are_refused(objectives: Any) -> None:
    with pytest.raises(ValidationError, match="objectives"):
        HotpotQAMulti(objectives=objectives)


def test_more_objectives_than_questions_are_refused_by_name(tmp_path: Path) -> None:
    path = hotpotqa.write(tmp_path, [made(number) for number in range(4) for made in (bridge, comparison)])
    with pytest.raises(ConfigError, match="at most 2, because there are 2 bridge and 2 comparison questions") as caught:
        HotpotQAMulti(path=path, objectives="1..5").case_ids()
    assert (caught.value.key, caught.value.value) == ("dataset.objectives", "1..5")
    apart = HotpotQAMulti(path=path, train=path, objectives=4)
    assert len(apart.case_ids()) > 100
    assert apart.trainings == [], "no demonstration is of a question that a case has"
    assert apart.demonstrations(apart.case_ids()[0], 10) == ()
    assert any("too few questions for demonstrations" in skip.reason for skip in apart.skipped)


def test_demonstrations_come_from_the_other_file_where_one_is_named(tmp_path: Path) -> None:
    for name, kept in (("dev.json", range(12)), ("train.json", range(10, 24))):
        hotpotqa.write(tmp_path, [made(number) for number in kept for made in (bridge, comparison)], name)
    both = HotpotQAMulti(path=str(tmp_path / "dev.json"), train=str(tmp_path / "train.json"), objectives=2, cases=5)
    assert len(both.parts) == 24
    assert {part.id for part in both.trainings} == {f"{kind}{n}" for kind in "bc" for n in range(12, 24)}
    assert len(both.searched.paragraphs) == 5 * 24, "what is searched are the paragraphs of both"


def test_the_version_tells_files_and_draws_apart(tmp_path: Path, small_hotpotqa: str) -> None:
    again = hotpotqa.write(tmp_path, records())
    base = HotpotQAMulti(path=small_hotpotqa).version
    assert HotpotQAMulti(path=again).version == base
    assert HotpotQAMulti(path=small_hotpotqa, limit=3, objectives=2).version == base
    corpus = Path(hotpotqa.write(tmp_path, [{"title": "t", "text": "t"}], "corpus.jsonl")) / "corpus.jsonl"
    others = [{"seed": 1}, {"cases": 3}, {"train": small_hotpotqa}, {"corpus": str(corpus)}]
    versions = {HotpotQAMulti(path=small_hotpotqa, **values).version for values in others}  # type: ignore[arg-type]
    assert len(versions | {base}) == 5


def test_cases_are_a_cluster_where_they_are_made_of_the_same_questions(small_hotpotqa: str) -> None:
    small = HotpotQAMulti(path=small_hotpotqa, objectives="1..2", cases=400)
    samples, clusters = small.records, {case_id: small.cluster(case_id) for case_id in small.case_ids()}
    made_of = {case_id: frozenset(part.id for part in samples[case_id].parts) for case_id in clusters}
    orders = Counter(made_of.values())
    assert max(orders.values()) > 1, "some stand in several orders"
    assert len(set(zip(clusters.values(), made_of.values(), strict=True))) == len(orders) == len(set(clusters.values()))
    by_kinds: dict[tuple[str, ...], set[str]] = {}
    for case_id, name in clusters.items():
        kinds = samples[case_id].kinds
        controls = small.problem(case_id).controls
        assert controls == {"has_bridge": "bridge" in kinds, "has_comparison": "comparison" in kinds}
        by_kinds.setdefault(kinds, set()).add(name)
    assert min(map(len, by_kinds.values())) > 1, "what the regression holds constant is no cluster"


def test_rules_read_for_all_but_engines_that_are_told_the_reference(small_hotpotqa: str) -> None:
    values = {"path": small_hotpotqa, "cases": 5}
    for model, reader in (("lexical", ByRules), ("simulated", ByReference)):
        for robustness, most in (("none", 10), ("tools_strict", 1), ("tools_forgiving", 10)):
            built = build(setting_of(values, dataset="hotpotqa_multi", model=model, robustness=robustness), BUDGET)
            world = world_of(built, built.dataset.case_ids()[0])
            assert isinstance(world.reader, reader)
            assert world.paragraphs == most
    own = setting_of(values | {"paragraphs": 3}, dataset="hotpotqa_multi")
    assert world_of(build(own, BUDGET), "k1-0000").paragraphs == 3


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Values of a data set whose corpus lacks every sixth person."""
    folder = tmp_path_factory.mktemp("lacking")
    found = [book(number) for number in range(len(NAMES))] + [person(n) for n in range(len(NAMES)) if n % 6]
    lines = [{"title": title, "text": " ".join(texts)} for title, texts in found]
    corpus = Path(hotpotqa.write(folder, lines, "corpus.jsonl")) / "corpus.jsonl"
    return {"path": hotpotqa.write(folder), "corpus": str(corpus), "cases": 20, "objectives": "1..2"}


def rows(built: Built, setting: Setting, case_ids: Sequence[str]) -> list[dict[str, Any]]:
    chunk = list(cells(setting, built.dataset.version, case_ids, 1))
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]


@pytest.mark.long
@pytest.mark.parametrize("planner", ["fh", "sh", "react", "lats"])
def test_who_is_always_right_reaches_the_ceiling_of_retrieval_and_no_more(
    lacking: dict[str, Any], planner: str
) -> None:
    sure = {"tool_skill": 1.0, "argument_skill": 1.0, "malformed": 0.0}
    setting = setting_of(lacking, {}, sure, dataset="hotpotqa_multi", planner=planner, model="simulated")
    built = build(setting, BUDGET)
    data, ids = built.dataset, built.dataset.case_ids()
    assert isinstance(data, HotpotQAMulti)
    within = {one: asyncio.run(replayed(world_of(built, one), data.records[one])) for one in ids}
    assert 0.2 < sum(within.values()) / len(ids) < 0.9
    for case_id, reached in within.items():
        people = [int(part.id[1:]) for part in data.records[case_id].parts if part.kind == "bridge"]
        assert reached <= all(number % 6 for number in people)
    for row in rows(built, setting, ids):
        assert (row["status"], row["success"]) == ("ok", within[row["case_id"]])
        if planner != "lats":
            assert row["expected_success"] == pytest.approx(float(row["success"]))


def test_the_policy_succeeds_as_often_as_is_expected(small_hotpotqa: str) -> None:
    values = {"path": small_hotpotqa, "objectives": "1..2", "cases": 100}
    setting = setting_of(values, {"temperature": 1.0}, dataset="hotpotqa_multi", planner="sh", model="simulated")
    built = build(setting, BUDGET)
    found = rows(built, setting, built.dataset.case_ids())
    expected = sum(row["expected_success"] for row in found) / len(found)
    assert abs(sum(row["success"] for row in found) / len(found) - expected) < 0.09


class Grading:
    """Names a place, and keeps what it was shown."""

    def __init__(self, place: int | None) -> None:
        self.place, self.shown = place, list[str]()

    async def score(self, prompt: Prompt, *key: object) -> float | None:
        raise AssertionError("grades are no scores")

    async def verdict(self, prompt: Prompt, *key: object, truth: object = None) -> None:
        raise AssertionError("grades are no verdicts")

    async def vote(
        self, prompt: Prompt, candidates: Sequence[str], *key: object, temperature: float = 0.0
    ) -> int | None:
        assert candidates == tuple(NUMBERED.grades.values())
        self.shown.append(prompt.text())
        return self.place


def test_a_grade_is_one_of_four_and_silence_is_a_refusal(small: HotpotQAMulti) -> None:
    answered, silent = Trajectory((), (), answer="1. SAID\n2. no"), Trajectory((), ())

    async def graded(trajectory: Trajectory, evaluator: Grading) -> Mapping[str, Any]:
        examine = small.problem("k2-0000").examine
        assert examine is not None
        return await examine(trajectory, evaluator)

    for place, grade in enumerate(("correct", "partially_correct", "incorrect", "refusal")):
        evaluator = Grading(place)
        said = asyncio.run(graded(answered, evaluator))
        assert said == {"verdict": grade, "accuracy": grade == "correct"}
        (shown,) = evaluator.shown
        assert shown.count("SAID") == 1
        assert shown.count(small.records["k2-0000"].answer) == 1
    nobody = Grading(0)
    assert asyncio.run(graded(silent, nobody)) == {"verdict": "refusal", "accuracy": False}
    assert nobody.shown == []
    assert asyncio.run(graded(answered, Grading(None))) == {}
    assert {"verdict", "answer_em", "answer_f1", "accuracy"} <= set(JOINED.names)


def test_metrics_are_means_over_the_parts(small: HotpotQAMulti) -> None:
    case_id = next(one for one in small.case_ids() if small.records[one].kinds == ("bridge", "comparison"))
    problem, (year, name) = small.problem(case_id), (part.answer for part in small.records[case_id].parts)
    first = name.split(" ")[0]
    for answer, em, f1 in (
        (numbered([year, name]), 1.0, 1.0),
        (numbered([year, first]), 0.5, 0.5 + 1 / 3),
        (numbered([name, year]), 0.0, 0.0),
        (None, 0.0, 0.0),
    ):
        assert problem.measure(Trajectory((), (), answer=answer)) == {
            "usage": None,
            "answer_em": em,
            "answer_f1": pytest.approx(f1),
        }


def test_demonstrations_that_share_no_question_come_first(small: HotpotQAMulti) -> None:
    """By a greedy pass over all of them: the first that share one share it because no other was left."""
    for case_id in small.case_ids():
        size = len(small.records[case_id].parts)
        shown = [set(solved.question.split("\n")) for solved in small.demonstrations(case_id, 10)]
        texts = [{line.split(" ", 1)[-1] for line in lines} for lines in shown]
        if size == 1 or len(texts) < 2:
            continue
        apart = next((place for place, own in enumerate(texts) if any(own & other for other in texts[:place])), None)
        used = set().union(*texts[:apart])
        left = {part.question for part in small.trainings} - used
        assert apart is None or not any(own <= left for own in texts[apart:])


def test_what_demonstrations_leave_out(tmp_path: Path) -> None:
    """All questions of a type are of one template here: by default nothing of it is shown, as published the nearest."""
    alike = [
        one | {"question": one["question"].removeprefix(f"{hotpotqa.quiz(int(one['_id'][1:]))} ")} for one in records()
    ]
    path = hotpotqa.write(tmp_path, alike)
    plain = HotpotQAMulti(path=path, cases=8, objectives=1)
    published = replace(plain, demonstrations_hold_out="question")
    assert (published.version, published.case_ids()) == (plain.version, plain.case_ids())
    templates = {part.question: part.template for part in plain.trainings}
    assert len(set(templates.values())) == 2
    for case_id in plain.case_ids():
        (own,) = plain.records[case_id].templates
        assert own not in {templates[one.question] for one in plain.demonstrations(case_id, 10)}
        shown = [one.question for one in published.demonstrations(case_id, 10)]
        assert len(shown) == 10
        assert own in {templates[question] for question in shown[:1]}, "the nearest are of its template"
