"""The witness graph: that every question is right in it, what it gives away, what is left out."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from grid.datasets.freebase import witness
from grid.datasets.freebase.facts import Literals, Node, Ontology, denoted
from grid.datasets.freebase.records import Answer, Question, released_names
from grid.datasets.freebase.shards import Shard, add_decoys, spread
from grid.datasets.freebase.stats import Attacks
from grid.datasets.freebase.witness import LEAST, Noise
from grid.worlds.sparql import programs
from grid.worlds.sparql.graph import StoreGraph, text_of
from grid.worlds.sparql.queries import (
    ENTITY,
    NS,
    SIGNS,
    TYPE,
    XSD,
    Join,
    Value,
    read,
    walk,
)
from grid.worlds.sparql.tools import NAME
from tests.support.freebase import ontology, questions

REPOSITORY = Path(__file__).parents[3]


def texts(nodes: set[Node]) -> set[str]:
    return {node.text if isinstance(node, Value) else node for node in nodes}


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Ontology:
    return ontology(tmp_path_factory.mktemp("schema"))


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[Question]:
    return questions(tmp_path_factory.mktemp("questions"))


def question(form: str, *answers: str) -> Question:
    return Question(form, form, read(form), tuple(Answer(answer) for answer in answers))


def shard_of(schema: Ontology, *some: Question, seed: int = 0) -> Shard:
    numbers = iter(range(10_000))
    shard = Shard(
        schema, Literals(schema.roles, [one.expression for one in some]), lambda: f"inner:{next(numbers)}", seed
    )
    for one in some:
        assert shard.accept(one)
    return shard


def test_each_question_alone_is_given_its_answers(schema: Ontology, asked: list[Question]) -> None:
    for one in asked:
        shard = shard_of(schema, one)
        assert texts(denoted(shard.facts, one.expression)) == {answer.value for answer in one.answers}
        for subject, relation, node in shard.facts:
            if relation != TYPE:
                domain, target = schema.roles[relation]
                assert domain in shard.facts.types(subject)
                assert isinstance(node, Value) or target in shard.facts.types(node)


def test_what_cannot_be_planted_says_why(schema: Ontology) -> None:
    literals = Literals(schema.roles, [])
    wrong = {
        question("(JOIN film.film.sequel m.0f1a)", "m.0f1a"): "an answer is an entity that the question names",
        question("(JOIN film.film.unknown m.0f1a)", "m.0f2b"): "film.film.unknown is not in the ontology",
        question("(ARGMAX film.film film.film.genre)", "m.0f2b"): "leads to no number or date",
        question("(ARGMAX film.film film.film.unknown)", "m.0f2b"): "is not in the ontology",
        question("(COUNT film.film)", "m.0f1a"): "must be one number",
        question("(COUNT film.film)", "2", "3"): "must be one number",
        question("(AND film.film (COUNT film.film))", "m.0f1a"): "a Count is given, but a set is expected",
        question("(AND film.film (JOIN (R film.film.runtime) m.0f1a))", "90"): "literal",
        question("m.0f1a", "m.0f2b"): "a Entity is given",
    }
    shards, left_out = spread(list(wrong), lambda number: Shard(schema, literals, lambda: "inner:0", 0))
    assert shards == []
    for one, reason in wrong.items():
        assert reason in left_out[one.form], one.form


def test_questions_that_break_one_another_stand_apart(schema: Ontology) -> None:
    some = [
        question("(JOIN film.film.directed_by m.0ada)", "m.0f1a"),
        question("(COUNT (JOIN film.film.directed_by m.0ada))", "3"),
        question("(AND film.film (JOIN film.film.directed_by m.0ada))", "m.0f1a", "m.0f2b"),
        question("(ARGMAX (JOIN film.film.directed_by m.0ada) film.film.runtime)", "m.0f1a"),
    ]
    literals, numbers = Literals(schema.roles, [one.expression for one in some]), iter(range(1000))
    shards, left_out = spread(some, lambda number: Shard(schema, literals, lambda: f"inner:{next(numbers)}", number))
    assert left_out == {}
    assert [len(shard.questions) for shard in shards] == [2, 1, 1]
    for shard in shards:
        for one in shard.questions:
            found = denoted(shard.facts, one.expression)
            assert texts(found) == {answer.value for answer in one.answers}


def test_a_question_that_one_graph_cannot_hold_goes_into_a_later_or_new_graph(schema: Ontology) -> None:
    forms = [f"({sign} film.film.runtime {limit}^^{XSD}integer)" for sign, limit in (("lt", 5), ("gt", 10), ("ge", 10))]
    some = [question(form, "m.0f1a") for form in forms]
    literals, numbers = Literals(schema.roles, [one.expression for one in some]), iter(range(1000))
    shards, left_out = spread(some, lambda number: Shard(schema, literals, lambda: f"inner:{next(numbers)}", number))
    assert left_out == {}
    assert [[one.form for one in shard.questions] for shard in shards] == [forms[:1], forms[1:]]


@pytest.mark.parametrize("mode", ["ARGMAX", "ARGMIN"])
def test_numbers_and_dates_of_one_relation_do_no_harm(schema: Ontology, mode: str) -> None:
    values = {"m.0f1a": f"5^^{XSD}integer", "m.0f2b": f"2003-01-01^^{XSD}date"}
    some = [question(f"(AND film.film (JOIN film.film.runtime {value}))", one) for one, value in values.items()]
    some.append(question(f"({mode} (JOIN film.film.directed_by m.0ada) film.film.runtime)", *values))
    some.append(question(f"({mode} film.film film.film.runtime)", "m.0f1a"))
    literals, numbers = Literals(schema.roles, [one.expression for one in some]), iter(range(1000))
    shards, left_out = spread(some, lambda number: Shard(schema, literals, lambda: f"inner:{next(numbers)}", number))
    assert left_out == {}
    assert sum(len(shard.questions) for shard in shards) == len(some)


def test_a_question_that_would_break_others_leaves_nothing_behind(schema: Ontology) -> None:
    shard = shard_of(schema, question("(JOIN film.film.directed_by m.0ada)", "m.0f1a"))
    before, sets = list(shard.facts), dict(shard.planter.sets)
    assert not shard.accept(question("(AND film.film (JOIN film.film.directed_by m.0ada))", "m.0f2b"))
    assert not shard.add("m.0f2b", "film.film.directed_by", "m.0ada")
    assert not shard.add("m.0ada", "film.director.film", "m.0f2b")
    assert (list(shard.facts), shard.planter.sets) == (before, sets)


def test_decoys_and_noise_change_no_answer_and_leave_no_step_out(schema: Ontology, asked: list[Question]) -> None:
    numbers = iter(range(100_000))
    literals = Literals(schema.roles, [one.expression for one in asked])
    shards, left_out = spread(asked, lambda number: Shard(schema, literals, lambda: f"inner:{next(numbers)}", number))
    assert left_out == {}
    steps = needless = 0
    for shard in shards:
        add_decoys(shard, lambda: f"decoy:{next(numbers)}", 0)
        Noise(shard, lambda: f"noise:{next(numbers)}", 0).add()
        attacks = Attacks(shard.facts)
        for one in shard.questions:
            assert texts(denoted(shard.facts, one.expression)) == {answer.value for answer in one.answers}
            for kind, (count, useless) in attacks.shorter(one).items():
                if kind != "class":
                    steps, needless = steps + count, needless + useless
        for subject, relation, node in shard.facts:
            if relation != TYPE:
                domain, target = schema.roles[relation]
                assert domain in shard.facts.types(subject)
                assert isinstance(node, Value) or (target in shard.facts.types(node) and node != subject)
                assert not isinstance(node, Value) or target.startswith("type.")
    assert steps >= 8
    assert needless <= 1


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, schema: Ontology, asked: list[Question]) -> Path:
    folder = tmp_path_factory.mktemp("witness")
    witness.write(folder, witness.grow(asked, schema, 0), released_names(asked))
    return folder


def test_the_store_gives_every_question_its_answers(made: Path, asked: list[Question]) -> None:
    account = json.loads((made / witness.ACCOUNT).read_text())
    assert account["left_out"] == {}
    assert set(account["shards"]) == {one.form for one in asked}
    store = programs.opened(made / witness.STORE)
    for one in asked:
        graph = StoreGraph(store, witness.shard_name(account["shards"][one.form]))
        assert {text_of(node) for node in graph.denotes(one.expression)} == {answer.value for answer in one.answers}
        told = graph.names([answer.value for answer in one.answers if answer.is_entity])
        assert told == {answer.value: answer.name for answer in one.answers if answer.name}


def _text(term: Any) -> str:
    return str(term.value).removeprefix(NS)


def test_everything_has_ten_relations_and_invented_things_look_like_others(made: Path, asked: list[Question]) -> None:
    account = json.loads((made / witness.ACCOUNT).read_text())
    names, relations, ties = dict[str, str](), dict[str, set[str]](), set[str]()
    store = programs.opened(made / witness.STORE)
    for number in range(account["graphs"]):
        for quad in store.quads_for_pattern(None, None, None, ox.NamedNode(witness.shard_name(number))):
            subject, relation, end = (_text(term) for term in (quad.subject, quad.predicate, quad.object))
            if relation == NAME:
                names[subject] = end
            elif relation == TYPE:
                ties |= {subject} if end in ("film.performance", "people.employment") else set()
            else:
                relations.setdefault(subject, set()).add(f"from {relation}")
                if ENTITY.fullmatch(end):
                    relations.setdefault(end, set()).add(f"to {relation}")
    assert not ties & set(names)
    assert set(names) | ties == set(relations)
    assert min(len(relations[one]) for one in names) >= LEAST
    assert min(len(relations[one]) for one in ties) >= 6  # the small schema has no more for them
    assert set(account["invented"].values()) == {"inner", "decoy", "noise"}
    released = set(released_names(asked)) | {answer.value for one in asked for answer in one.answers}
    assert not released & set(account["invented"])
    assert all(ENTITY.fullmatch(identity) and identity.startswith("m.0") for identity in account["invented"])
    counts = [len(relations[identity]) for identity in account["invented"]]
    real = [len(relations[identity]) for identity in released if identity in relations]
    assert abs(sum(counts) / len(counts) - sum(real) / len(real)) < 6


def test_no_policy_that_only_looks_at_relations_guesses_much(made: Path, asked: list[Question]) -> None:
    from grid.datasets.freebase.stats import _facts

    account = json.loads((made / witness.ACCOUNT).read_text())
    store = programs.opened(made / witness.STORE)
    graphs = [Attacks(_facts(store, witness.shard_name(number))) for number in range(account["graphs"])]
    first = sum(
        attacks.guesses(one, attacks.policies["the first"])
        for one in asked
        for attacks in [graphs[account["shards"][one.form]]]
        if any(isinstance(part, Join) for part in walk(one.expression))
    )
    assert first <= 1


def test_the_same_seed_gives_the_same_graph_in_every_process(made: Path, tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "from grid.datasets.freebase import witness\n"
        "from grid.datasets.freebase.records import released_names\n"
        "from tests.support.freebase import ontology, questions\n"
        "target = pathlib.Path(sys.argv[1])\n"
        "asked = questions(target / 'q')\n"
        "for seed in (0, 1):\n"
        "    (target / str(seed)).mkdir()\n"
        "    grown = witness.grow(asked, ontology(target / 'schema'), seed)\n"
        "    witness.write(target / str(seed), grown, released_names(asked))\n"
    )
    (tmp_path / "q").mkdir()
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": str(REPOSITORY)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment, cwd=REPOSITORY)
    for name in (witness.FACTS, witness.ACCOUNT):
        assert (tmp_path / "0" / name).read_bytes() == (made / name).read_bytes()
        assert (tmp_path / "1" / name).read_bytes() != (made / name).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "answers", "right"),
    [
        (f"(JOIN film.film.initial_release_date -0044-03-15^^{XSD}date)", ["m.0f1a"], True),
        (f"(JOIN film.film.initial_release_date 1582-10-10^^{XSD}date)", ["m.0f1a"], True),
        (f"(JOIN film.film.initial_release_date 2003-02-30^^{XSD}date)", ["m.0f1a"], False),
        (f"(JOIN film.film.initial_release_date 1435-09-01H^^{XSD}date)", ["m.0f1a"], False),
        (f"(AND film.film (lt film.film.initial_release_date 0001-01-02^^{XSD}date))", ["m.0f1a"], False),
        (f"(AND film.film (gt film.film.runtime 1e9^^{XSD}float))", ["m.0f1a"], True),
        (f"(AND film.film (ge film.film.runtime ninety^^{XSD}float))", ["m.0f1a"], False),
        ('(JOIN film.film.title "a \\"b\\" \\\\ c")', ["m.0f1a"], False),
        ("(TC (JOIN (R people.person.jobs) m.0ada) people.employment.from 0000)", ["m.0jb1"], False),
        ("(TC (JOIN (R people.person.jobs) m.0ada) people.employment.from 9999)", ["m.0jb1"], True),
        ("(COUNT (JOIN film.film.genre m.0dra))", ["0"], True),
        ("(COUNT (JOIN film.film.genre m.0dra))", ["700"], True),
        ("(ARGMAX film.film film.film.runtime)", ["m.0f1a", "m.0f2b", "m.0f3c"], True),
        ("(JOIN (R film.film.genre) film.film)", ["m.0dra"], True),
        ("(JOIN film.film.sequel (JOIN film.film.sequel m.0f1a))", ["m.0f2b"], True),
        ("(JOIN (R people.person.children) (JOIN people.person.children m.0ada))", ["m.0bob"], True),
    ],
)
def test_odd_questions_are_right_or_left_out(
    form: str, answers: list[str], right: bool, schema: Ontology, tmp_path: Path
) -> None:
    one = question(form, *answers)
    witness.write(tmp_path, witness.grow([one], schema, 0), {})
    account = json.loads((tmp_path / witness.ACCOUNT).read_text())
    assert (form in account["shards"], form in account["left_out"]) == (right, not right), account["left_out"]


def test_names_with_quotes_and_lines_survive_the_store(schema: Ontology, tmp_path: Path) -> None:
    odd = {"m.0f1a": 'A "quoted" \\ name\n} ; DROP GRAPH <urn:shard:0>', "m.0ada": "\U0001f600 \t é"}
    one = question("(JOIN film.film.directed_by m.0ada)", "m.0f1a")
    witness.write(tmp_path, witness.grow([one], schema, 0), odd)
    graph = StoreGraph(programs.opened(tmp_path / witness.STORE), witness.shard_name(0))
    assert graph.names(list(odd)) == odd
    assert graph.named(odd["m.0f1a"]) == ("m.0f1a",)


def test_literals_are_of_their_relations_kind(schema: Ontology) -> None:
    asks = read(f"(AND film.film (ge film.film.runtime 150^^{XSD}integer))")
    literals, rng = Literals(schema.roles, [asks]), random.Random(0)
    assert "film.film.runtime" in literals
    assert "film.film.genre" not in literals
    for relation in ("film.film.runtime", "people.person.date_of_birth", "media.prize.year", "location.location.area"):
        one = literals.draw(relation, rng)
        for sign in SIGNS:
            other = literals.such(relation, sign, one, rng)
            assert other is not None
            assert other.datatype == one.datatype
    assert literals.draw("film.film.runtime", rng).datatype == f"{XSD}integer"
    assert 1850 <= int(literals.draw("media.prize.year", rng).text) <= 2014
    assert literals.such("film.film.runtime", "lt", Value("ninety", f"{XSD}float"), rng) is None
