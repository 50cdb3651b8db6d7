"""Atomic KBQA's data sets: which questions are cases, where their answers come from, and that gold plans give them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.load import provenance
from grid.core.types import FINISH
from grid.datasets.dataset import ATOMIC, bin_of, bins
from grid.datasets.freebase.dataset import WITNESS, AgentBenchKG, AtomicKbqa, GrailQA, GraphQuestions, WebQSP, Witnessed
from grid.datasets.freebase.records import Question, draw, split
from grid.datasets.freebase.stats import Report
from grid.text import references
from grid.worlds.sparql.queries import Join, read, walk
from grid.worlds.sparql.tools import TOOLS
from tests.support.configs import setting_of, yaml
from tests.support.freebase import FORMS, agentbench, grailqa, webqsp, write, write_ontology
from tests.support.freebase_runs import told, walked
from tests.support.walks import Walk

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("grailqa"))


@pytest.fixture(scope="module")
def small(own_cache: None, folder: str) -> GrailQA:
    return GrailQA(path=folder, held_out=0.0)


def test_gold_calls_resolve_every_case(small: GrailQA) -> None:
    assert len(small.case_ids()) == len(FORMS)
    assert small.skipped == ()
    for case_id in small.case_ids():
        walk_ = walked(small, case_id)
        assert walk_.resolved, case_id
        given = set((walk_.answer or "").split("; "))
        assert given == {answer.value for answer in small.questions[case_id].answers}


def test_names_of_all_answers_resolve_a_case_and_other_names_do_not(small: GrailQA) -> None:
    for case_id in small.case_ids():
        question = small.questions[case_id]
        if all(answer.name for answer in question.answers):
            for names, right in (
                ([answer.text for answer in question.answers], True),
                (["Nine Lanterns, Part 2"], False),
            ):
                walk_ = Walk(small.problem(case_id).world)
                walk_.call(FINISH, answer=list(names))
                assert walk_.resolved is right


@pytest.mark.parametrize("robustness", ["tools_forgiving", "tools_strict"])
@pytest.mark.parametrize("planner", ["fh", "sh", "react"])
def test_an_oracle_resolves_every_case(planner: str, robustness: str, folder: str) -> None:
    values = {"path": folder, "held_out": 0.25, "demonstrations_by": "bm25"}
    setting = setting_of(values, dataset="grailqa", planner=planner, robustness=robustness)
    rows = told(setting)
    assert len(rows) >= 6
    assert [row["case_id"] for row in rows if row["success"] is not True] == []
    assert all(row["n_steps"] - 1 == row["tool_calls"] == row["plan_nodes"] for row in rows)


def test_a_case_shows_the_question_and_the_seven_tools_only(small: GrailQA) -> None:
    problem = small.problem("1010")
    assert problem.case.query == FORMS[10][0]
    assert problem.case.plan.substeps == ()
    assert problem.library == TOOLS == small.tools
    assert small.cluster("1000") == "(AND film.film (JOIN film.film.directed_by *))"
    assert "m.0ac1" not in repr(problem.case)


def test_a_share_is_held_out_by_seed_and_logical_form_alone(folder: str, tmp_path: Path) -> None:
    path = Path(folder) / "grailqa_v1.0_dev.json"
    parts = {seed: split(path, None, 0.5, seed) for seed in range(6)}
    assert len({tuple(one.id for one in part.trainings) for part in parts.values()}) > 3
    for seed, part in parts.items():
        assert not {one.form for one in part.tests} & {one.form for one in part.trainings}
        assert len(part.tests) + len(part.trainings) == len(FORMS)
        (tmp_path / "fewer.json").write_text(json.dumps([grailqa(number) for number in range(5)]))
        fewer = split(tmp_path / "fewer.json", None, 0.5, seed)
        assert {one.id for one in fewer.trainings} == {one.id for one in part.trainings if int(one.id) < 1005}


def test_one_question_of_each_logical_form_is_drawn(tmp_path: Path) -> None:
    records = [agentbench(number) | {"qid": f"{number}-{copy}"} for number in range(6) for copy in range(4)]
    (tmp_path / "train.json").write_text(json.dumps(records))
    drawn = [{one.id for one in split(tmp_path / "train.json", None, 0.0, seed).tests} for seed in range(5)]
    assert all(len(ids) == len({one.partition("-")[0] for one in ids}) == 6 for ids in drawn)
    assert len(set(map(frozenset, drawn))) > 2
    skipped = split(tmp_path / "train.json", None, 0.0, 0).skipped
    assert Counter("another question with the same S-expression" in skip.reason for skip in skipped) == {True: 18}


def test_training_questions_come_from_their_own_file_and_are_no_tests(tmp_path: Path) -> None:
    write_ontology(tmp_path / "ontology")
    (tmp_path / "agentbench_kg").mkdir()
    for name, numbers in (("std.json", range(4)), ("train.json", range(2, 9))):
        (tmp_path / "agentbench_kg" / name).write_text(json.dumps([agentbench(number) for number in numbers]))
    dataset = AgentBenchKG(path=str(tmp_path / "agentbench_kg"))
    assert sorted(dataset.case_ids()) == [f"{number}_test" for number in range(4)]
    assert [one.id for one in dataset.trainings] == [f"{number}_test" for number in range(4, 9)]
    assert [skip.reason for skip in dataset.skipped] == ["a test question has the same S-expression"] * 2
    assert isinstance(dataset.source, Witnessed)
    table = Report(dataset, dataset.source).questions()
    counts = dict(zip(*(column.cells for column in reversed(table.columns)), strict=True))
    assert (counts["cannot be read"], counts["have the S-expression of another question"]) == ("0", "2")
    above = AgentBenchKG(path=str(tmp_path))
    assert above.case_ids() == dataset.case_ids()
    assert above.version == dataset.version
    shown = dataset.demonstrations(dataset.case_ids()[0], 3)
    assert len(shown) == 3
    assert {one.question for one in shown} <= {FORMS[number][0] for number in range(4, 9)}
    assert all(one.calls and one.answer for one in shown)
    assert dataset.problem("0_test").baselines().keys() == {"constant_success", "constant_by_function_success"}


def test_the_constant_by_function_is_the_commonest_answer_of_such_plans(tmp_path: Path) -> None:
    counts = [("2", "m.0dra"), ("2", "m.0com"), ("5", "m.0nor")]
    train = [
        agentbench(3)
        | {"qid": f"t{place}", "answer": [number], "s_expression": f"(COUNT (JOIN film.film.genre {one}))"}
        for place, (number, one) in enumerate(counts)
    ]
    test = [agentbench(3) | {"answer": ["2"]}, agentbench(0)]
    write_ontology(tmp_path / "ontology")
    for name, records in (("std.json", test), ("train.json", train)):
        (tmp_path / name).write_text(json.dumps(records))
    dataset = AgentBenchKG(path=str(tmp_path))
    assert dataset.problem("3_test").baselines() == {"constant_success": True, "constant_by_function_success": True}
    assert dataset.problem("0_test").baselines() == {"constant_success": False, "constant_by_function_success": False}


def test_every_beginning_is_balanced_by_plan_nodes(small: GrailQA) -> None:
    assert bins(ATOMIC) == ("1-3", "4-5", "6-7", "8+")
    assert [bin_of(nodes, ATOMIC) for nodes in range(2, 10)] == ["1-3"] * 2 + ["4-5"] * 2 + ["6-7"] * 2 + ["8+"] * 2
    found, skipped = draw(small.split.tests, 4, 0, lambda question: None)
    assert skipped == []
    sizes = Counter(bin_of(one.nodes, ATOMIC) for one in small.split.tests)
    assert {bin_of(one.nodes, ATOMIC) for one in found} == set(sizes)
    assert GrailQA(path=small.path, held_out=0.0, limit=3).case_ids() == small.case_ids()[:3]
    by_file = GrailQA(path=small.path, held_out=0.0, order="file").case_ids()
    assert by_file == sorted(small.case_ids())
    assert len(GrailQA(path=small.path, held_out=0.0, cases=5).case_ids()) == 5


def test_what_cannot_be_asked_for_by_name_is_no_case(tmp_path: Path) -> None:
    write(tmp_path)
    nameless = grailqa(0) | {"topic_entity": {}, "graph_query": {}}
    (tmp_path / "grailqa_v1.0_dev.json").write_text(json.dumps([nameless, grailqa(6)]))
    dataset = GrailQA(path=str(tmp_path), held_out=0.0)
    assert dataset.case_ids() == ["1006"]
    assert [(skip.record, skip.reason) for skip in dataset.skipped] == [("1000", "the entity m.0ada has no name")]


def test_a_name_from_another_question_serves(tmp_path: Path) -> None:
    write(tmp_path)
    nameless = grailqa(0) | {"topic_entity": {}, "graph_query": {}}
    (tmp_path / "grailqa_v1.0_dev.json").write_text(json.dumps([nameless, grailqa(1)]))
    dataset = GrailQA(path=str(tmp_path), held_out=0.0)
    assert sorted(dataset.case_ids()) == ["1000", "1001"]
    assert walked(dataset, "1000").resolved


@pytest.mark.parametrize(
    ("cls", "name", "form"),
    [
        (WebQSP, "WebQSP.test.expr.json", webqsp),
        (GraphQuestions, "graphquestions_v1_fb15_test_091420.json", grailqa),
        (GrailQA, "grailqa_dev_1000.json", grailqa),
        (AgentBenchKG, "train.json", agentbench),
    ],
)
def test_every_data_set_reads_its_own_file(cls: type[AtomicKbqa], name: str, form: Any, tmp_path: Path) -> None:
    dataset = cls(path=write(tmp_path, name, form), held_out=0.0)
    assert len(dataset.case_ids()) == len(FORMS)
    assert all(walked(dataset, case_id).resolved for case_id in dataset.case_ids())
    assert WITNESS in dataset.version
    assert dataset.version.startswith(cls.__name__.lower())


def test_a_version_follows_files_seed_and_schema_and_no_path(folder: str, small: GrailQA, tmp_path: Path) -> None:
    assert GrailQA(path=write(tmp_path / "same"), held_out=0.0).version == small.version
    others = {
        GrailQA(path=folder, held_out=0.0, seed=1).version,
        GrailQA(path=folder, held_out=0.3).version,
        GrailQA(path=folder, held_out=0.0, cases=5).version,
    }
    assert len(others | {small.version}) == 4
    with (tmp_path / "same" / "ontology" / "fb_roles").open("a") as file:
        file.write("film.film film.film.tagline type.int\n")
    assert GrailQA(path=str(tmp_path / "same"), held_out=0.0).version != small.version


def test_the_graph_is_made_once(folder: str, small: GrailQA, monkeypatch: pytest.MonkeyPatch) -> None:
    _ = small.version
    monkeypatch.setattr(Witnessed, "_make", None)
    again = GrailQA(path=folder, held_out=0.0)
    assert (again.version, again.case_ids()) == (small.version, small.case_ids())
    assert walked(again, again.case_ids()[0]).resolved


def test_reports_say_that_facts_are_synthetic(small: GrailQA) -> None:
    row = {"model": "m", "engine": "lexical", "dataset": "grailqa", "config": "{}"}
    frames = [pd.DataFrame([row | {"dataset_version": version}]) for version in (small.version, "grailqa-a1-x-graph-1")]
    assert "grailqa (real questions, logical forms and schema; synthetic facts)" in provenance.first_line(frames[0])
    assert provenance.notice(frames[0]) == "grailqa: real questions, logical forms and schema; synthetic facts; "
    assert "synthetic facts" not in provenance.first_line(frames[1]) + provenance.notice(frames[1])


def test_the_statistics_count_what_is_right_and_what_is_guessed(small: GrailQA) -> None:
    assert isinstance(small.source, Witnessed)
    report = Report(small, small.source)
    assert {one.form for one in report.right} == {form for _, form, _ in FORMS}
    tables = [report.questions(), report.nodes(), report.facts(), report.degrees(), report.guesses(), report.shorter()]
    assert all(table.row_count for table in tables)
    shares = dict(zip(*(list(column.cells) for column in report.guesses().columns[:2]), strict=True))
    assert float(str(shares["the first"]).rstrip("%")) < 10


def test_only_the_yaml_sizes_differ() -> None:
    files = {name: yaml("dataset", name) for name in ("grailqa", "webqsp", "graphquestions", "agentbench_kg")}
    assert [files[name].pop("cases") for name in files] == [478, 422, 215, None]
    for values in files.values():
        values.pop("_target_")
    assert len({json.dumps(values) for values in files.values()}) == 1


def test_a_first_relation_is_rarely_the_right_one_by_brute_force(small: GrailQA) -> None:
    """The table's own rule, anew over the world: what a planner is offered, the first of it followed."""
    right = 0
    for case_id in small.case_ids():
        question, world = small.questions[case_id], small.problem(case_id).world
        right += _first_relations(question, world) == {answer.value for answer in question.answers}
    joined = sum(any(isinstance(part, Join) for part in walk(read(form))) for _, form, _ in FORMS)
    assert right <= len(FORMS) - joined + 1


def _first_relations(question: Question, world: Any) -> set[str]:
    walk_, outputs = Walk(world), dict[str, Any]()
    for name, call in question.calls.items():
        written = references.resolve(call, outputs)
        if call.tool == "find_relation":
            expected = asyncio.run(world.identifiers(walk_.state, written))
            offered = expected["relation"].here if "relation" in expected else ()
            if not offered:
                return set()
            written = replace(written, arguments={**written.arguments, "relation": offered[0]})
        observation = walk_.make(written)
        if observation.failed:
            return set()
        outputs[name] = observation.content
    return set(walk_.state.results[-1].texts)  # type: ignore[attr-defined]
