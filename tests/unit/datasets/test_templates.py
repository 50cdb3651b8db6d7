"""Demonstrations are held out by template: none is the question itself with other names or values in it."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import Demonstration
from grid.datasets.freebase.dataset import AgentBenchKG
from grid.datasets.freebase.records import read_questions
from grid.datasets.hotpotqa.dataset import HotpotQAMulti
from grid.datasets.hotpotqa.parts import part_of, question
from grid.datasets.kqa.dataset import KqaSynthetic
from grid.datasets.kqa.program import ProgramStep, masked
from grid.datasets.question_answering import Nearest
from grid.worlds.kopl.functions import FUNCTIONS
from grid.worlds.sparql.queries import ENTITY, read, written
from tests.support import hotpotqa
from tests.support.freebase import agentbench, write_ontology
from tests.support.hotpotqa import bridge, comparison, quiz
from tests.support.loops import each
from tests.support.sparql_graphs import random_expression

pytestmark = pytest.mark.usefixtures("own_cache")
_ATOM = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s()]+')
NAMES = st.frozensets(st.sampled_from("abc"), max_size=2)
KNOWN = st.lists(st.tuples(st.sampled_from("pqrst"), NAMES, NAMES, st.integers(0, 3)), max_size=9)


@given(KNOWN, st.booleans(), st.sampled_from("pqz"), st.integers(0, 5), NAMES)
def test_the_nearest_are_those_of_other_templates_by_brute_force(
    known: list[tuple[str, frozenset[str], frozenset[str], int]],
    apart: bool,
    text: str,
    count: int,
    templates: frozenset[str],
) -> None:
    scores = np.array([score for *_, score in known], dtype=np.float32)
    nearest = Nearest(
        [text for text, *_ in known],
        lambda place: Demonstration(str(place), {}, ""),
        lambda text: scores,
        [own for _, own, _, _ in known],
        [parts for _, _, parts, _ in known] if apart else None,
    )
    left = sorted(
        (place for place, one in enumerate(known) if one[0] != text and not one[1] & templates),
        key=lambda place: (-known[place][3], place),
    )
    first: list[int] = []
    for place in left:
        if not apart or not any(known[place][2] & known[other][2] for other in first):
            first.append(place)
    expected = [*first, *(place for place in left if place not in first)][:count]
    for asked in (templates, frozenset[str](), templates):  # what was found for other templates is not given again
        shown = [int(one.question) for one in nearest(text, count, asked)]
        if asked == templates:
            assert shown == expected
        assert len(shown) == len(set(shown)) <= count


def skeleton(form: str) -> str:
    """An S-expression's text without its entities, literals and times, atom by atom."""

    def told(atom: re.Match[str]) -> str:
        word = atom[0]
        hidden = ENTITY.fullmatch(word) or word.startswith('"') or "^^" in word or re.fullmatch(r"[0-9]{4}|NOW", word)
        return "*" if hidden else word

    return _ATOM.sub(told, form)


@given(st.integers(0, 10**9), st.integers(0, 4))
def test_a_template_is_the_form_without_entities_literals_and_times_atom_by_atom(seed: int, depth: int) -> None:
    expression = random_expression(random.Random(seed), depth)
    assert read(written(expression)) == expression
    assert written(expression, masked=True) == skeleton(written(expression))


def train(number: int, text: str, form: object, **more: Any) -> dict[str, Any]:
    return agentbench(3) | {"qid": f"t{number}", "question": text, "s_expression": form} | more


FILMS = "(AND film.film (JOIN film.film.directed_by {}))"
JOBS = "(TC (JOIN (R people.person.jobs) {}) people.employment.from {})"
TRAIN = [
    train(0, "which films did Bo Lind direct?", FILMS.format("m.0bob")),
    train(1, "which films did Oslo direct?", FILMS.format("m.0os1")),
    train(2, "which job did Ada Holm have in 2001?", JOBS.format("m.0ada", "2001")),
    train(3, "which job did Bo Lind have now?", JOBS.format("m.0bob", "NOW")),
    train(4, "which films did Ada Holm edit?", FILMS.format("m.0ada").replace("directed", "edited")),
    train(5, "which people did Ada Holm direct?", FILMS.format("m.0ada").replace("film.film (", "people.person (")),
    train(6, "which genre has it?", "(JOIN (R film.film.genre) m.0f1a)"),
]
MALFORMED = [
    "(AND film.film (JOIN film.film.directed_by m.0bob)",
    "(AND film.film (JOIN film.film.directed_by m.0bob)))",
    "(AND film.film (JOIN film.film.directed_by *))",
    "(AND film.film (JOIN film.film.directed_by))",
    "(AND film.film (JOIN (R film.film.directed_by m.0bob)))",
    '(AND film.film (JOIN film.film.directed_by "m.0bob))',
    "(TC (JOIN (R people.person.jobs) m.0ada) people.employment.from 20035)",
    "(" * 5000,
    ["AND", "film.film", "m.0bob"],
    {"JOIN": "m.0bob"},
    None,
    0,
    "",
]


def released(folder: Path, training: list[dict[str, Any]]) -> AgentBenchKG:
    """Two questions, whose templates the first four of TRAIN have as well."""
    write_ontology(folder / "ontology")
    tests = [agentbench(0), next(agentbench(n) for n in range(20) if "TC" in agentbench(n)["s_expression"])]
    for name, content in (("std.json", tests), ("train.json", training)):
        (folder / name).write_text(json.dumps(content))
    return AgentBenchKG(path=str(folder))


def test_no_demonstration_is_of_the_questions_template(tmp_path: Path) -> None:
    dataset = released(tmp_path, TRAIN)
    films, jobs = ([one["question"] for one in TRAIN[slice(*part)]] for part in ((0, 2), (2, 4)))
    for case_id, own, others in zip(sorted(dataset.case_ids()), (films, jobs), (jobs, films), strict=True):
        shown = [one.question for one in dataset.demonstrations(case_id, 10)]
        assert set(shown) == {one["question"] for one in TRAIN} - set(own)
        assert set(others) < set(shown), "they are shown to all others"
        assert shown[:2] == [one.question for one in dataset.demonstrations(case_id, 2)]


def test_where_all_are_of_its_template_a_question_has_no_demonstration(tmp_path: Path) -> None:
    dataset = released(tmp_path, TRAIN[:2])
    one, other = sorted(dataset.case_ids())
    assert dataset.demonstrations(one, 10) == ()
    assert len(dataset.demonstrations(other, 10)) == 2


def test_what_has_no_template_is_never_shown(tmp_path: Path) -> None:
    broken = [train(100 + place, "which films did Bo direct?", form) for place, form in enumerate(MALFORMED)]
    dataset = released(tmp_path, [*broken, *TRAIN])
    assert [skip.record for skip in dataset.skipped] == [one["qid"] for one in broken]
    assert all(skip.reason for skip in dataset.skipped)
    shown = {one.question for case_id in dataset.case_ids() for one in dataset.demonstrations(case_id, 50)}
    assert shown == {one["question"] for one in TRAIN}


def test_a_text_that_looks_like_brackets_or_entities_is_one_literal(tmp_path: Path) -> None:
    texts = ["m.0ab", ' m.0a" (JOIN a.b m.0ab', ")) NOW 2003 \\", "1^^x"]
    forms = [f"(AND (JOIN film.film.genre m.0ab) (JOIN common.topic.image {json.dumps(text)}))" for text in texts]
    (tmp_path / "train.json").write_text(json.dumps([train(n, f"{n}?", form) for n, form in enumerate(forms)]))
    found, skipped = read_questions(tmp_path / "train.json")
    assert (len(found), skipped) == (len(texts), [])
    assert {one.template for one in found} == {"(AND (JOIN film.film.genre *) (JOIN common.topic.image *))"}


@each("name", FUNCTIONS)
def test_a_program_of_other_entities_and_values_is_of_the_same_template(name: str) -> None:
    function = FUNCTIONS[name]
    step = ProgramStep(name, tuple(f"old {text}" for text in function.texts), tuple(range(len(function.results))))
    kept = {*function.vocabularies, "op", "direction"} - {"name"}
    for place, text in enumerate(function.texts):
        other = replace(step, inputs=(*step.inputs[:place], "new", *step.inputs[place + 1 :]))
        assert (masked([other]) == masked([step])) is (text not in kept), text
    if function.results:
        assert masked([replace(step, dependencies=tuple(n + 1 for n in step.dependencies))]) != masked([step])
    assert masked([replace(step, function="FindAll", inputs=())]) != masked([step]) or name == "FindAll"


@pytest.mark.long
def test_no_synthetic_question_is_shown_one_of_its_template() -> None:
    dataset = KqaSynthetic()
    templates = {one.text: one.template for one in dataset.trainings}
    planted = [case_id for case_id, one in dataset.questions.items() if one.template in templates.values()]
    assert len(planted) > 30
    for case_id in planted[:40]:
        shown = dataset.demonstrations(case_id, 10)
        assert len(shown) == 10
        assert dataset.questions[case_id].template not in {templates[one.question] for one in shown}


def test_a_request_of_several_is_shown_none_of_their_templates(tmp_path: Path) -> None:
    """Two questions of the other file ask what the two first ask, of other names."""
    asked = [made(number) for number in range(6) for made in (bridge, comparison)]
    other = [made(number) for number in range(12, 22) for made in (bridge, comparison)]
    for one in other[:2]:
        one["question"] = one["question"].replace(quiz(12), quiz(0).upper())
    again = {one["question"]: part_of(question(one)).template for one in other[:2]}
    assert list(again.values()) == [part_of(question(one)).template for one in asked[:2]]
    for name, content in (("dev.json", asked), ("train.json", other)):
        hotpotqa.write(tmp_path, content, name)
    dataset = HotpotQAMulti(path=str(tmp_path / "dev.json"), train=str(tmp_path / "train.json"), objectives="1..2")
    seen = set()
    for case_id, sample in dataset.records.items():
        shown = {line for one in dataset.demonstrations(case_id, 400) for line in one.question.split("\n")}
        left_out = {text for text, template in again.items() if template in sample.templates}
        assert {text for text in again if any(line.endswith(text) for line in shown)} == set(again) - left_out
        seen.add(len(left_out))
    assert seen == {0, 1, 2}
