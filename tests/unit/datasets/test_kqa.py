"""KQA: programs as DAGs (planning_horizon §3.1, B.1.1), balanced samples, released files, the synthetic dataset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from grid.core.errors import ConfigError, DataError
from grid.core.types import FINISH, RESULT, ToolCall
from grid.datasets.dataset import KQA, balanced, bin_of, bins
from grid.datasets.kqa import dataset
from grid.datasets.kqa.dataset import KqaPro, KqaSynthetic, generated
from grid.datasets.kqa.program import (
    KB,
    TEST,
    TRAIN,
    Program,
    ProgramStep,
    Question,
    breadth,
    calls,
    depth,
    executor,
    merged,
    problems,
    read_program,
)
from grid.datasets.kqa.stats import correlation
from grid.datasets.kqa.world import load_names, load_words, load_world
from grid.text import references
from grid.worlds.kopl.functions import FUNCTIONS, TOOLS
from grid.worlds.kopl.values import ProgramError
from grid.worlds.kopl.world import read
from tests.support.kopl_reference import Reference
from tests.support.walks import Walk

BINS = bins(KQA)
REPOSITORY = Path(__file__).parents[3]
SEEDS = (0, pytest.param(1, marks=pytest.mark.slow))
Record = dict[str, Any]
WORLD = load_world()


@pytest.fixture(scope="module")
def worlds() -> dict[int, KqaSynthetic]:
    return {seed: KqaSynthetic(seed=seed) for seed in (0, 1)}


@pytest.fixture(scope="module")
def synthetic(worlds: dict[int, KqaSynthetic]) -> KqaSynthetic:
    return worlds[0]


@pytest.fixture
def small(synthetic: KqaSynthetic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the released form with the whole base, which is read once for all, and a few questions."""
    whole, known = (synthetic.root / KB).read_bytes(), synthetic.kb
    (tmp_path / KB).write_bytes(whole)
    monkeypatch.setattr(dataset, "read", lambda path: known if path.read_bytes() == whole else read(path))
    for name, count in ((TEST, 20), (TRAIN, 10)):
        write(tmp_path / name, json.loads((synthetic.root / name).read_text(encoding="utf-8"))[:count])
    return tmp_path


def write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def step(function: str, *inputs: str, of: tuple[int, ...] = ()) -> Record:
    return {"function": function, "inputs": list(inputs), "dependencies": list(of)}


FIGURE_2 = [
    step("Find", "Google"),
    step("Find", "Instagram"),
    step("Relate", "parent organization", "forward", of=(1,)),
    step("SelectBetween", "employees", "greater", of=(0, 2)),
]
"""'Which company has more employees: Google or the parent company of Instagram?' as section 3.1 describes it."""
TWICE = [
    step("Find", "A Film"),
    step("Relate", "director", "forward", of=(0,)),
    step("Find", "A Film"),
    step("Relate", "screenwriter", "forward", of=(2,)),
    step("SelectBetween", "height", "less", of=(1, 3)),
]


def test_figure_2_has_the_papers_depth_and_breadth() -> None:
    program = read_program(FIGURE_2)
    assert merged(program) == program
    assert (len(program), depth(program)) == (4, 3)
    assert breadth(program) == pytest.approx(4 / 3)
    assert references.depth(calls(program)) == 3


def test_identical_steps_are_merged_and_only_they() -> None:
    dag = merged(read_program(TWICE))
    assert [(s.function, s.dependencies) for s in dag] == [
        ("Find", ()),
        ("Relate", (0,)),
        ("Relate", (0,)),
        ("SelectBetween", (1, 2)),
    ]
    assert depth(dag) == 3
    assert breadth(dag) == pytest.approx(4 / 3)
    assert merged(dag) == dag


def test_steps_become_calls_by_koplss_parameter_names() -> None:
    assert calls(read_program(FIGURE_2)) == {
        "0": ToolCall("Find", {"name": "Google"}),
        "1": ToolCall("Find", {"name": "Instagram"}),
        "2": ToolCall(
            "Relate",
            {"entities": "OUTPUT_FROM_STEP_1.result", "relation": "parent organization", "direction": "forward"},
        ),
        "3": ToolCall(
            "SelectBetween",
            {
                "l_entities": "OUTPUT_FROM_STEP_0.result",
                "r_entities": "OUTPUT_FROM_STEP_2.result",
                "key": "employees",
                "op": "greater",
            },
        ),
    }


def test_released_names_of_functions_are_read() -> None:
    assert read_program([step("Find", "x"), step("What", of=(0,))])[1].function == "QueryName"


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (None, "a list of 1 to 100 steps"),
        ([], "a list of 1 to 100 steps"),
        ([step("FindAll")] * 101, "a list of 1 to 100 steps"),
        (["Find"], "a step must be an object"),
        ([step("Fly", "x")], "'Fly' is not one of the 27 functions"),
        ([step("Find")], "takes 1 inputs"),
        ([step("Find", "x"), step("Count")], "takes 1 results"),
        ([step("Find", "x"), step("Count", of=(1,))], "the step depends on itself"),
        ([step("Find", "x"), step("Count", of=(99,))], "step 99, which is not an earlier step"),
        ([step("Find", "x"), step("Count", of=(-1,))], "step -1"),
        (
            [step("Find", "x"), step("Find", "y"), step("Count", of=(1,))],
            "step 0: no later step uses this step's result",
        ),
        ([step("Find", "x" * 10_001), step("Count", of=(0,))], "more than 10,000 characters"),
        ([{"function": "Find", "inputs": [7], "dependencies": []}], "list of texts"),
        ([{"function": "Find", "inputs": ["x"], "dependencies": "0"}], "list of step numbers"),
        ([{"function": ["Find"], "inputs": [], "dependencies": []}], "not one of the 27 functions"),
    ],
)
def test_programs_that_cannot_be_are_refused(record: object, said: str) -> None:
    with pytest.raises(ProgramError, match=said):
        read_program(record)


def test_bins_are_the_papers() -> None:
    found = [bin_of(nodes) for nodes in range(1, 13)]
    assert found == ["1-3"] * 3 + ["4-5"] * 2 + ["6-7"] * 2 + ["8-9"] * 2 + ["10+"] * 3


def test_every_beginning_of_a_balanced_sample_is_balanced() -> None:
    items = [(nodes, number) for nodes in range(1, 15) for number in range(nodes * 3)]
    drawn = list(balanced(items, 0, nodes=lambda item: item[0]))
    assert sorted(drawn) == items
    for size in range(5, 85, 5):  # the smallest bin has 18
        counts = Counter(bin_of(item[0]) for item in drawn[:size])
        assert max(counts.values()) - min(counts[name] for name in BINS) == 0
    assert drawn != list(balanced(items, 1, nodes=lambda item: item[0]))
    odd = list(balanced(items, 0, nodes=lambda item: item[0], usable=lambda item: item[1] % 2 == 1))
    assert [item for item in odd if item[1] % 2 == 0] == []
    assert Counter(bin_of(item[0]) for item in odd[:25]) == dict.fromkeys(BINS, 5)


def test_the_stock_breaks_no_rule() -> None:
    assert problems(WORLD, load_names(), load_words(WORLD)) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_world_is_large_and_of_every_kind(worlds: dict[int, KqaSynthetic], seed: int) -> None:
    raw = json.loads((worlds[seed].root / KB).read_text(encoding="utf-8"))
    assert len(raw["entities"]) >= 2000
    assert worlds[seed].kb.remarks == ()
    names = [record["name"] for record in (*raw["entities"].values(), *raw["concepts"].values())]
    assert len(names) == len(set(names))
    attributes = [fact for record in raw["entities"].values() for fact in record["attributes"]]
    relations = [(identity, fact) for identity, record in raw["entities"].items() for fact in record["relations"]]
    assert {fact["value"]["type"] for fact in attributes} == {"string", "quantity", "date", "year"}
    assert any(fact["qualifiers"] for fact in attributes)
    assert any(fact["qualifiers"] for _, fact in relations)
    facts = Counter((i, f["relation"], f["direction"], f["object"], json.dumps(f["qualifiers"])) for i, f in relations)
    back = {"forward": "backward", "backward": "forward"}
    assert all(facts[o, relation, back[direction], i, q] == n for (i, relation, direction, o, q), n in facts.items())
    assert max(int(str(f["value"]["value"])[:4]) for f in attributes if f["value"]["type"] in ("date", "year")) <= 2023


@pytest.mark.parametrize("seed", SEEDS)
def test_questions_have_every_function_and_cross_depth_with_breadth(worlds: dict[int, KqaSynthetic], seed: int) -> None:
    tests, trainings = list(worlds[seed].questions.values()), list(worlds[seed].trainings)
    assert (len(tests), len(trainings), worlds[seed].skipped) == (500, 1000, ())
    for part, share in ((tests, 100), (trainings, 200)):
        assert Counter(bin_of(len(question.dag)) for question in part) == dict.fromkeys(BINS, share)
        missing = set(FUNCTIONS) - {step.function for question in part for step in question.dag}
        assert len(missing) <= (part is trainings and seed > 0), "the rarest function may be drawn for none"
        assert abs(correlation(part)) < 0.5
    crossed = Counter((question.depth, question.breadth >= 1.25) for question in tests)
    assert all(crossed[deep, wide] >= 5 for deep in range(2, 10) for wide in (False, True))
    assert sum(len(question.dag) < len(question.program) for question in (*tests, *trainings)) >= 20


@pytest.mark.parametrize("seed", SEEDS)
def test_training_and_test_questions_are_apart(worlds: dict[int, KqaSynthetic], seed: int) -> None:
    tests, trainings = list(worlds[seed].questions.values()), list(worlds[seed].trainings)
    together = [*tests, *trainings]
    assert len({question.text for question in together}) == 1500
    assert len({question.dag for question in together}) == 1500


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_programs_give_one_answer_in_ours_and_in_the_reference(worlds: dict[int, KqaSynthetic], seed: int) -> None:
    raw = json.loads((worlds[seed].root / KB).read_text(encoding="utf-8"))
    reference = Reference(raw)
    run = executor(worlds[seed].kb)
    for question in (*worlds[seed].questions.values(), *worlds[seed].trainings):
        assert set(run(question.dag)) == {question.answer} == set(run(question.program))
        assert reference.compare([part.record() for part in question.dag])["tie"] == 0
        names = [part.function for part in question.program]
        given = reference.engine.forward(names, [list(part.inputs) for part in question.program])
        assert {given} if isinstance(given, str) else set(given) == {question.answer}


def test_a_yes_or_no_question_does_not_give_its_answer_away(synthetic: KqaSynthetic) -> None:
    answers = Counter(question.answer for question in synthetic.trainings if question.last.startswith("Verify"))
    assert set(answers) == {"yes", "no"}
    assert min(answers.values()) > 0.35 * answers.total()


def test_wording_varies(synthetic: KqaSynthetic) -> None:
    openings: dict[str, set[str]] = {}
    for question in synthetic.trainings:
        openings.setdefault(question.last, set()).add(" ".join(question.text.split()[:2]))
    assert min(len(found) for found in openings.values()) >= 3
    assert len(openings) == 13
    assert not [q.text for q in synthetic.trainings if "{" in q.text or "  " in q.text or q.text[-1] not in "?."]


def test_what_a_step_names_is_in_the_question(synthetic: KqaSynthetic) -> None:
    for question in synthetic.questions.values():
        for part in question.dag:
            if part.function == "Find":
                assert part.inputs[0] in question.text


@pytest.mark.long
@pytest.mark.parametrize(
    ("tests", "trainings"), [(24, 48), pytest.param(dataset.TESTS, dataset.TRAININGS, marks=pytest.mark.slow)]
)
def test_the_same_seed_gives_the_same_bytes_in_every_process(
    synthetic: KqaSynthetic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tests: int, trainings: int
) -> None:
    """Of few questions, which are drawn as all of them are; the base is the whole one."""
    whole = (tests, trainings) == (dataset.TESTS, dataset.TRAININGS)
    code = "import pathlib, sys; from grid.datasets.kqa import dataset; "
    code += f"dataset.TESTS, dataset.TRAININGS = {tests}, {trainings}; "
    code += "dataset.generate(pathlib.Path(sys.argv[1]), 0)"
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(REPOSITORY)}
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    subprocess.run([sys.executable, "-c", code, str(there)], check=True, env=environment, cwd=REPOSITORY)
    if not whole:
        here.mkdir()
        monkeypatch.setattr(dataset, "TESTS", tests)
        monkeypatch.setattr(dataset, "TRAININGS", trainings)
        dataset.generate(here, 0)
    for name, count in ((TEST, tests), (TRAIN, trainings)):
        assert (there / name).read_bytes() == ((synthetic.root if whole else here) / name).read_bytes()
        assert len(json.loads((there / name).read_bytes())) == count
    assert (there / KB).read_bytes() == (synthetic.root / KB).read_bytes()


@pytest.mark.slow
def test_another_seed_gives_another_world(worlds: dict[int, KqaSynthetic]) -> None:
    texts = [{question.text for question in world.questions.values()} for world in worlds.values()]
    assert len(texts[0] & texts[1]) < 5
    assert worlds[0].version != worlds[1].version


@pytest.mark.parametrize("lost", [KB, TEST, TRAIN])
def test_an_incomplete_cache_is_made_again(lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def quickly(target: Path, seed: int) -> None:
        made.append(seed)
        for name in (KB, TEST, TRAIN):
            (target / name).write_text(f"{name} of {seed}")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(dataset, "generate", quickly)
    root = generated(7)
    assert generated(7) == root
    assert made == [7]
    (root / lost).unlink()
    assert generated(7) == root
    assert made == [7, 7]
    assert {path.name: path.read_text() for path in root.iterdir()} == {n: f"{n} of 7" for n in (KB, TEST, TRAIN)}
    assert not list(tmp_path.rglob(".draft-*"))


def test_gold_calls_resolve_every_case(synthetic: KqaSynthetic) -> None:
    for case_id in synthetic.case_ids():
        problem = synthetic.problem(case_id)
        walk, outputs = Walk(problem.world), dict[str, Any]()
        for name, call in problem.reference.calls.items():
            assert call
            assert not walk.resolved
            observation = walk.make(references.resolve(call, outputs))
            assert not observation.failed
            outputs[name] = observation.content
        assert problem.reference.resolution == (name,)
        assert not walk.call(FINISH, answer=outputs[name][RESULT]).failed
        assert walk.resolved


def test_a_case_shows_its_question_and_all_tools_only(synthetic: KqaSynthetic) -> None:
    problem = synthetic.problem("val-0")
    assert problem.case.query == synthetic.questions["val-0"].text
    assert problem.case.plan.substeps == ()
    assert len(problem.candidates(problem.case, None)) == 27  # type: ignore[arg-type]  # no substep in a question
    assert problem.library == TOOLS


def test_a_cluster_is_the_shape_of_a_program(synthetic: KqaSynthetic) -> None:
    clusters: dict[str, list[Question]] = {}
    for case_id, question in synthetic.questions.items():
        clusters.setdefault(synthetic.cluster(case_id), []).append(question)
    assert 250 < len(clusters) < 320
    assert max(map(len, clusters.values())) < 20
    for alike in clusters.values():
        assert len({(question.last, len(question.dag)) for question in alike}) == 1


def test_demonstrations_are_the_nearest_training_questions(synthetic: KqaSynthetic) -> None:
    tests = {question.text for question in synthetic.questions.values()}
    same_last = []
    for case_id in synthetic.case_ids():
        shown = synthetic.demonstrations(case_id, 10)
        assert len({demonstration.question for demonstration in shown}) == 10
        assert not tests & {demonstration.question for demonstration in shown}
        assert all(demonstration.calls and demonstration.answer for demonstration in shown)
        last = synthetic.questions[case_id].last
        same_last.append(list(shown[0].calls.values())[-1].tool == last)
        assert shown[:3] == synthetic.problem(case_id).demonstrations(3)
    assert sum(same_last) > 0.5 * len(same_last)  # by chance about 8%


@pytest.mark.long
def test_what_demonstrations_leave_out(synthetic: KqaSynthetic) -> None:
    """By default questions of the case's own template; as published whatever is nearest is shown."""
    published = KqaSynthetic(demonstrations_hold_out="question")
    assert (published.case_ids(), published.version) == (synthetic.case_ids(), synthetic.version)
    template_of = {question.text: question.template for question in synthetic.trainings}
    alike = {False: 0, True: 0}
    for case_id in synthetic.case_ids():
        own = synthetic.questions[case_id].template
        for held_out in (synthetic, published):
            shown = [template_of[one.question] for one in held_out.demonstrations(case_id, 10)]
            assert len(shown) == 10
            alike[held_out is published] += own in shown
        others = [one for one in published.demonstrations(case_id, 10) if template_of[one.question] != own]
        assert list(synthetic.demonstrations(case_id, 10))[: len(others)] == others, "the order is the same"
    assert alike[False] == 0
    assert alike[True] > 30


@pytest.mark.long
def test_limit_takes_the_first_cases_and_wrong_values_are_refused(synthetic: KqaSynthetic) -> None:
    assert KqaSynthetic(limit=3).case_ids() == synthetic.case_ids()[:3]
    for wrong in ({"limit": 0}, {"seed": -1}, {"limit": "3"}, {"unknown": 1}):
        with pytest.raises(ValidationError):
            KqaSynthetic(**wrong)
        with pytest.raises(ValidationError):
            KqaPro(path="x", **wrong)


@pytest.mark.parametrize("cases", [10, None])
def test_any_first_part_of_the_released_questions_is_balanced(small: Path, cases: int | None) -> None:
    released = KqaPro(path=str(small), cases=cases)
    assert [KqaPro(path=str(small), cases=cases, limit=5).case_ids()] == [released.case_ids()[:5]]
    nodes = [len(released.questions[name].dag) for name in released.case_ids()[:5]]
    assert {bin_of(count) for count in nodes} == {*BINS}
    numbers = [int(name.rpartition("-")[2]) for name in KqaPro(path=str(small), cases=cases, order="file").case_ids()]
    assert numbers == sorted(numbers)
    assert {f"val-{number}" for number in numbers} == {*released.case_ids()}


def test_the_released_files_are_read(small: Path, synthetic: KqaSynthetic) -> None:
    released = KqaPro(path=str(small), cases=10)
    assert released.skipped == ()
    assert len(released.case_ids()) == 10
    assert Counter(bin_of(len(q.dag)) for q in released.questions.values()) == dict.fromkeys(BINS, 2)
    assert {q.text for q in released.questions.values()} <= {q.text for q in synthetic.questions.values()}
    assert len(released.trainings) == 10
    assert list(KqaPro(path=str(small), cases=None).questions) == [f"val-{number}" for number in range(20)]
    assert released.version != KqaPro(path=str(small), cases=10, seed=1).version


def answer_otherwise(record: Record) -> str:
    record["answer"] = "something else"
    return "not 'something else'"


def find_nothing(record: Record) -> str:
    record["program"] = [step("Find", "Nobody At All"), step("Count", of=(0,))]
    return "the program fails"


def end_in_a_set(record: Record) -> str:
    record["program"] = [step("FindAll")]
    return "entity set"


def name_an_unknown_function(record: Record) -> str:
    record["program"][0]["function"] = "Guess"
    return "'Guess' is not one of the 27 functions"


def drop_the_question(record: Record) -> str:
    del record["question"]
    return "question must be a text"


def answer_by_a_number(record: Record) -> str:
    record["answer"] = 7
    return "answer must be a text"


def ask_at_length(record: Record) -> str:
    record["question"] = "why " * 10_000
    return "question must be a text of 1 to 10,000 characters"


def drop_the_program(record: Record) -> str:
    del record["program"]
    return "a program must be a list"


@pytest.mark.parametrize(
    "damage",
    [
        answer_otherwise,
        find_nothing,
        end_in_a_set,
        name_an_unknown_function,
        drop_the_question,
        answer_by_a_number,
        ask_at_length,
        drop_the_program,
    ],
)
@pytest.mark.parametrize(("name", "size"), [(TEST, None), (TRAIN, 1000)])
def test_a_record_that_cannot_be_used_is_counted(
    small: Path, damage: Callable[[Record], str], name: str, size: int | None
) -> None:
    records = json.loads((small / name).read_text(encoding="utf-8"))
    said = damage(records[3])
    write(small / name, records)
    released = KqaPro(path=str(small), cases=size, demonstrations_from=size)
    assert [item.record for item in released.skipped] == [f"{Path(name).stem}-3"]
    assert said in released.skipped[0].reason
    assert len(released.case_ids()) + len(released.trainings) == 29


@pytest.mark.parametrize("content", ["{", "[1, NaN]", "[" * 100_000, '{"question": "x"}', "7"])
@pytest.mark.parametrize("name", [TEST, TRAIN])
def test_a_broken_file_is_refused(small: Path, name: str, content: str) -> None:
    (small / name).write_text(content)
    with pytest.raises(DataError) as caught:
        KqaPro(path=str(small)).skipped  # noqa: B018 - reading is what raises
    assert caught.value.path == small / name


def test_a_record_that_is_no_object_is_counted(small: Path) -> None:
    records = json.loads((small / TEST).read_text(encoding="utf-8"))
    write(small / TEST, [*records, "a question", None])
    assert [item.record for item in KqaPro(path=str(small)).skipped] == ["val-20", "val-21"]


def test_a_split_without_a_usable_question_is_refused(small: Path) -> None:
    write(small / TEST, [])
    with pytest.raises(ConfigError, match="no usable question"):
        KqaPro(path=str(small)).case_ids()


@pytest.mark.parametrize("lost", [KB, TEST, TRAIN])
def test_a_folder_that_lacks_a_file_is_a_config_error(small: Path, lost: str) -> None:
    (small / lost).unlink()
    with pytest.raises(ConfigError, match=f"lacks {lost}"):
        KqaPro(path=str(small)).case_ids()


def test_only_drawn_questions_are_run(small: Path) -> None:
    records = json.loads((small / TEST).read_text(encoding="utf-8"))
    for record in records[5:]:
        answer_otherwise(record)
    write(small / TEST, records)
    released = KqaPro(path=str(small), cases=5)
    assert sorted(released.case_ids()) == [f"val-{number}" for number in range(5)]
    assert len(KqaPro(path=str(small), cases=1).skipped) < 15


def test_shapes_of_programs_as_a_reader_would_draw_them() -> None:
    chain = read_program([step("FindAll"), step("FilterConcept", "film", of=(0,)), step("Count", of=(1,))])
    assert (depth(chain), breadth(chain)) == (3, 1.0)
    pair: Program = (ProgramStep("Find", ("a",), ()), ProgramStep("Find", ("b",), ()))
    question = Question("x", "?", (*pair, ProgramStep("QueryRelation", (), (0, 1))), "spouse")
    assert (question.depth, question.breadth, question.last) == (2, 1.5, "QueryRelation")


@pytest.mark.parametrize("name", [KB, TEST, TRAIN])
@pytest.mark.parametrize(("text", "said"), [('"\\ud800"', "half a surrogate pair"), ("1e999", "not a finite number")])
def test_what_no_table_can_hold_is_refused_at_load(small: Path, name: str, text: str, said: str) -> None:
    whole = (small / name).read_text(encoding="utf-8").rstrip()
    (small / name).write_text(f'{whole[:-1]}, "x": {text}}}' if name == KB else f"{whole[:-1]}, {text}]")
    dataset = KqaPro(str(small))
    with pytest.raises(DataError, match=rf"{name}: .*{said}"):
        dataset.problem(dataset.case_ids()[0]).demonstrations(1)
