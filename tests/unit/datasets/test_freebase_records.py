"""Questions over Freebase: the released forms, the schema, and what of both cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grid.core.errors import DataError
from grid.datasets.freebase import records
from grid.datasets.freebase.facts import CLASSES, INVERSES, ROLES, read_ontology
from grid.datasets.freebase.records import NO_NAMES, Answer, Question, read_questions, released_names
from grid.worlds.sparql.queries import read
from tests.support.freebase import FORMS, NAMES, agentbench, grailqa, kbqa_o1, ontology, webqsp

Record = dict[str, Any]
FILM = "film.film.directed_by"


def written(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize("form", [grailqa, agentbench, webqsp, kbqa_o1])
def test_every_released_form_gives_the_same_questions(form: Callable[[int], Record], tmp_path: Path) -> None:
    made = [form(number) for number in range(len(FORMS))]
    found, skipped = read_questions(written(tmp_path / "some.json", made))
    assert skipped == []
    assert [(one.text, one.form, [answer.value for answer in one.answers]) for one in found] == FORMS
    ids = [next(record[key] for key in ("qid", "QuestionId", "ID") if key in record) for record in made]
    assert [one.id for one in found] == [str(identity) for identity in ids]
    for one in found:
        if form is kbqa_o1:
            assert one.unnamed == one.entities
        else:
            assert one.unnamed == ()
            assert {answer.name for answer in one.answers if answer.is_entity} <= {
                None if name is None else " ".join(name.split()) for name in (*NAMES.values(), None)
            }


def test_an_entity_is_asked_for_as_the_question_calls_it(tmp_path: Path) -> None:
    found, _ = read_questions(written(tmp_path / "some.json", [grailqa(0), grailqa(1)]))
    assert [one.asked("m.0ada") for one in found] == ["Ada Holm", "Ada Holm"]
    assert found[0].calls["1"].arguments == {"input_value": "Ada Holm"}
    record = grailqa(0) | {"topic_entity": {"m.0ada": "Ada the Great"}}
    (only,), _ = read_questions(written(tmp_path / "some.json", [record]))
    assert only.asked("m.0ada") == "ada holm"
    assert only.asked("m.0zzz") == "m.0zzz"


def test_a_name_of_two_entities_is_none(tmp_path: Path) -> None:
    record = agentbench(1) | {"entities": {}, "topic_entity": {"m.0ada": "Twin", "m.0dra": "Twin"}}
    (only,), _ = read_questions(written(tmp_path / "some.json", [record]))
    assert only.mentions == ()
    assert set(only.unnamed) == {"m.0ada", "m.0dra"}
    again = only.known_as({"m.0ada": "One", "m.0dra": "Other"})
    assert again.unnamed == ()
    assert again.known_as({"m.0ada": "No more"}) is again


def test_plans_are_counted_with_their_finish_and_answers_are_told(tmp_path: Path) -> None:
    (one,), _ = read_questions(written(tmp_path / "some.json", [grailqa(0)]))
    assert (one.nodes, one.last) == (5, "merge")
    assert one.answer == "Quiet Harvest; Loud Harvest; The Winter Road" == one.told
    many = Question("q", "?", read("film.film"), tuple(Answer(f"m.0{number:02}") for number in range(12)))
    assert many.told.endswith("m.009 ... (12 in all)")
    assert many.answer.count("; ") == 11


def test_a_template_is_a_form_without_entities_literals_and_times(tmp_path: Path) -> None:
    found, _ = read_questions(written(tmp_path / "some.json", [grailqa(number) for number in (0, 6, 7, 9)]))
    assert [one.template for one in found] == [
        "(AND film.film (JOIN film.film.directed_by *))",
        "(AND film.film (ge film.film.runtime *))",
        "(AND film.film (JOIN film.film.initial_release_date *))",
        "(JOIN (R people.employment.company) (TC (JOIN (R people.person.jobs) *) people.employment.from *))",
    ]


def test_names_come_from_answers_first(tmp_path: Path) -> None:
    records_ = [agentbench(0) | {"entities": {"ada": "m.0ada", "a film": "m.0f1a"}}, grailqa(1)]
    found, _ = read_questions(written(tmp_path / "some.json", records_))
    names = released_names(found)
    assert (names["m.0f1a"], names["m.0ada"]) == ("Quiet Harvest", "ada")


DEEP = "(JOIN film.film.sequel " * 10_000 + "m.0f1a" + ")" * 10_000
PATH = "(ARGMAX film.film (JOIN (R film.director.film) film.film.runtime))"
BROKEN: list[tuple[str, Record, str]] = [
    ("deep", {"s_expression": DEEP}, "S-expression cannot be read"),
    ("path", {"s_expression": PATH}, "a path of relations is given, but a single relation is expected"),
    ("brackets", {"s_expression": "(JOIN film.film.genre m.0dra"}, "all brackets closed"),
    ("function", {"s_expression": "(DROP film.film)"}, "is not a function"),
    ("number", {"s_expression": 7}, "S-expression cannot be read"),
    ("none", {"s_expression": "null"}, "no S-expression"),
    ("unanswered", {"answer": []}, "no answer"),
    ("answer", {"answer": None}, "no answer"),
    ("odd answer", {"answer": [{"answer_argument": {"a": 1}}]}, "is not an answer"),
    ("empty answer", {"answer": [{"answer_argument": " "}]}, "is not an answer"),
    ("true", {"answer": [True]}, "is not an answer"),
    ("question", {"question": ""}, "has no question"),
    ("long", {"question": "why " * 10_000}, "has no question"),
    ("many", {"answer": [f"m.0{number}" for number in range(10_001)]}, "10,001 answers"),
]


@pytest.mark.parametrize(("name", "change", "reason"), BROKEN, ids=[name for name, _, _ in BROKEN])
def test_broken_records_are_skipped_with_the_reason(name: str, change: Record, reason: str, tmp_path: Path) -> None:
    found, skipped = read_questions(written(tmp_path / "some.json", [grailqa(0), grailqa(1) | change, grailqa(2)]))
    assert [one.id for one in found] == ["1000", "1002"]
    ((record, why),) = [(skip.record, skip.reason) for skip in skipped]
    assert record == "1001"
    assert reason in why
    assert "\n" not in why


@pytest.mark.parametrize("odd", [None, 7, "text", [], [["a"]], {"qid": None}, {"question": "why?"}, {"Parses": "x"}])
def test_what_is_no_record_is_skipped(odd: object, tmp_path: Path) -> None:
    found, skipped = read_questions(written(tmp_path / "some.json", [odd, grailqa(0)]))
    assert [one.id for one in found] == ["1000"]
    assert [skip.record for skip in skipped] == ["some-0"]


@pytest.mark.parametrize(
    "change",
    [
        {"topic_entity": "x", "graph_query": 7},
        {"topic_entity": {"m.0ada": None}, "graph_query": {"nodes": "x"}},
        {"topic_entity": {"x y": "Ada"}, "graph_query": {"nodes": [None, {"node_type": "entity"}]}},
        {"topic_entity": {}, "entities": [["Ada"], "x", ["Ada", "m.0ada; DROP"]]},
    ],
)
def test_odd_mentions_are_no_mentions(change: Record, tmp_path: Path) -> None:
    (only,), skipped = read_questions(written(tmp_path / "some.json", [grailqa(0) | {"graph_query": {}} | change]))
    assert (skipped, only.mentions) == ([], ())


def test_an_id_counts_once_and_names_that_are_none_are_left_out(tmp_path: Path) -> None:
    values = [{"answer_argument": f"m.0{place}", "entity_name": name} for place, name in enumerate(NO_NAMES)]
    found, skipped = read_questions(written(tmp_path / "x.json", [grailqa(0) | {"answer": values}, grailqa(0)]))
    assert [answer.name for answer in found[0].answers] == [None] * len(NO_NAMES)
    assert [skip.reason for skip in skipped] == ["an earlier record has this id"]


def test_a_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_RECORDS", 2)
    with pytest.raises(DataError, match="more than 2 records"):
        read_questions(written(tmp_path / "some.json", [None] * 3))
    with pytest.raises(DataError, match="a JSON list is expected"):
        read_questions(written(tmp_path / "some.json", {"Questions": []}))


def test_the_schema_is_read_and_what_of_it_cannot_be_is_named(tmp_path: Path) -> None:
    whole = ontology(tmp_path)
    assert whole.skipped == ()
    assert whole.roles[FILM] == ("film.film", "film.director")
    assert whole.inverses[FILM] == "film.director.film"
    assert all(whole.inverses[other] == one for one, other in whole.inverses.items())
    assert whole.above("film.director") == ("film.director", "common.topic", "people.person")
    assert whole.has_names("film.film")
    assert not whole.has_names("film.performance")
    assert "film.film.genre" in whole.leading_from["film.film"]
    assert "film.director.film" in whole.leading_to["film.film"]
    with (tmp_path / ROLES).open("a") as file:
        file.write("film.film film.film.genre people.person\nnonsense\na b c d e\n\n<x> y <z>\n")
    with (tmp_path / INVERSES).open("a") as file:
        file.write("film.film.genre\tfilm.film.country\nuser.x.y\tuser.x.z\n")
    with (tmp_path / CLASSES).open("a") as file:
        file.write("film.film meta.subclassOf film.director .\npeople.person meta.subclassOf film.film .\n")
    again = read_ontology(tmp_path)
    assert again.roles == whole.roles
    assert again.inverses == whole.inverses
    assert set(again.above("film.film")) == {"film.film", "film.director", "people.person", "common.topic"}
    lines = len((tmp_path / ROLES).read_text().splitlines())
    assert [skip.record for skip in again.skipped] == [
        *(f"{ROLES}:{number}" for number in (lines - 4, lines - 3, lines - 2, lines)),
        f"{INVERSES}:{len((tmp_path / INVERSES).read_text().splitlines()) - 1}",
    ]


def test_a_schema_that_is_not_there_or_too_long_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_ontology(tmp_path)
    ontology(tmp_path)
    monkeypatch.setattr("grid.datasets.freebase.facts.MAX_LINES", 3)
    with pytest.raises(DataError, match="more than 3 lines"):
        read_ontology(tmp_path)
