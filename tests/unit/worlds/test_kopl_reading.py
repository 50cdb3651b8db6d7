"""Knowledge bases that are wrong: what ends reading, and what is left out, named and counted."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.errors import DataError
from grid.worlds.kopl.functions import run
from grid.worlds.kopl.queries import texts
from grid.worlds.kopl.values import OPERATORS, Attribute, EntitySet, KeyIndex, KoplError, Value, condition
from grid.worlds.kopl.values import parse as parse_value
from grid.worlds.kopl.world import parse, read
from tests.support.kopl_world import SOURCE, entity, raw_base, relation

Base = dict[str, Any]


def changed(change: Callable[[Base], object]) -> Base:
    raw = raw_base()
    change(raw)
    return raw


def with_attribute(value: object) -> Callable[[Base], object]:
    return lambda raw: raw["entities"]["e1"]["attributes"].append({"key": "odd", "value": value, "qualifiers": {}})


def with_relation(**fields: object) -> Callable[[Base], object]:
    fact = relation("near", "e2") | fields
    return lambda raw: raw["entities"]["e1"]["relations"].append(fact)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (with_attribute({"type": "quantity", "value": 3}), "a quantity must have a unit"),
        (with_attribute({"type": "quantity", "value": "many", "unit": "1"}), "could not convert"),
        (with_attribute({"type": "quantity", "value": True, "unit": "1"}), "must be a number or a text, not bool"),
        (with_attribute({"type": "quantity", "value": "inf", "unit": "1"}), "not a finite number"),
        (with_attribute({"type": "quantity", "value": 10**400, "unit": "1"}), "not a finite number"),
        (with_attribute({"type": "date", "value": "-44-03-15"}), "invalid literal"),  # a date has no year below 1
        (with_attribute({"type": "date", "value": "0000-01-01"}), "year 0 is out of range"),
        (with_attribute({"type": "date", "value": "2001-02-30"}), "day"),
        (with_attribute({"type": "date", "value": "99999999999-01-01"}), "a number that is too large for a date"),
        (with_attribute({"type": "year", "value": 2003.5}), "invalid literal"),
        (with_attribute({"type": "year", "value": None}), "not NoneType"),
        (with_attribute({"type": "string", "value": 5}), "a string's value must be a text, not int"),
        (with_attribute({"type": "colour", "value": "red"}), "is not one of string, quantity, year, date"),
        (with_attribute("red"), "a value must be an object, not str"),
        (lambda raw: raw["entities"]["e1"]["attributes"].append(7), "an object is expected, not int"),
        (lambda raw: raw["entities"]["e1"]["attributes"].append({"key": 7}), "`key` must be a text, not int"),
        (with_relation(object="e99"), "the object 'e99' is not an id of this knowledge base"),
        (with_relation(object=["e2"]), "`object` must be a text, not list"),
        (with_relation(direction="sideways"), "the direction 'sideways' is not one of forward, backward"),
        (with_relation(qualifiers={"start": "1999"}), "`qualifiers` must be an object of lists"),
        (with_relation(qualifiers={"size": [{"type": "quantity", "value": 1}]}), "a quantity must have a unit"),
        (
            lambda raw: raw["entities"]["e1"]["instanceOf"].append("e99"),
            "the class 'e99' is not an id of this knowledge base",
        ),
        (
            lambda raw: raw["concepts"]["river"]["subclassOf"].append(None),
            "the class None is not an id of this knowledge base",
        ),
    ],
)
def test_what_cannot_be_used_is_left_out_and_named(change: Callable[[Base], object], reason: str) -> None:
    sound, kb = parse(raw_base(), SOURCE), parse(changed(change), SOURCE)
    assert sound.remarks == ()
    assert len(kb.remarks) == 1
    assert kb.remarks[0].record in ("e1", "river")
    assert reason in kb.remarks[0].reason
    assert kb.remarks[0].reason.endswith("left out")
    assert (kb.attributes.keys(), kb.relations.keys()) == (sound.attributes.keys(), sound.relations.keys())
    assert {name: tuple(found.ids) for name, found in kb.members.items()} == {
        name: tuple(found.ids) for name, found in sound.members.items()
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda raw: raw.pop("concepts"), "concepts: an object is expected, not NoneType"),
        (lambda raw: raw.update(entities=[]), "entities: an object is expected, not list"),
        (lambda raw: raw.update(entities={}), "the knowledge base has no entity"),
        (lambda raw: raw["entities"].update(e1=5), "'e1': an object is expected, not int"),
        (lambda raw: raw["entities"]["e1"].update(name=5), "'e1' must have a name that is a text"),
        (lambda raw: raw["entities"]["e1"].pop("attributes"), "'e1' must have the list attributes"),
        (lambda raw: raw["concepts"]["lake"].pop("subclassOf"), "'lake' must have the list subclassOf or instanceOf"),
        (lambda raw: raw["entities"].update(lake=raw["entities"]["e1"]), "'lake' is both a concept and an entity"),
    ],
)
def test_what_ends_reading(change: Callable[[Base], object], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "kb.json"
    path.write_text(json.dumps(changed(change)), encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: {reason}"


@pytest.mark.parametrize("content", [b"", b"{", b"[NaN]", b"\xff\xfe", b"[" * 100_000])
def test_files_that_are_no_json(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "kb.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="broken JSON"):
        read(path)
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "absent.json")


def test_a_cycle_is_kept_and_named() -> None:
    kb = parse(changed(lambda raw: raw["concepts"]["water"]["subclassOf"].append("river")), SOURCE)
    assert [(remark.record, remark.reason) for remark in kb.remarks] == [
        ("concepts body of water, river", "these concepts are below one another; kept, as in KoPL")
    ]
    assert len(kb.members["river"]) == len(kb.members["body of water"])


def test_released_files_other_names_for_two_fields() -> None:
    raw = raw_base()
    for concept in raw["concepts"].values():
        concept["instanceOf"] = concept.pop("subclassOf")
    fact = raw["entities"]["e1"]["relations"][0]
    fact["predicate"] = fact.pop("relation")
    kb = parse(raw, SOURCE)
    assert kb.remarks == ()
    assert [kb.names[i] for i in kb.members["body of water"].ids] == ["river", "lake", "Elbe", "Rhine", "Como"]
    assert list(kb.relations) == [("flows through", "forward")]


def test_what_is_read_is_not_changed() -> None:
    raw = raw_base()
    before = copy.deepcopy(raw)
    parse(raw, SOURCE)
    assert raw == before


def test_years_below_zero_are_years() -> None:
    program: list[dict[str, Any]] = [
        {"function": "FindAll", "inputs": [], "dependencies": []},
        {"function": "FilterYear", "inputs": ["first described", "-43", "<"], "dependencies": [0]},
        {"function": "QueryAttr", "inputs": ["first described"], "dependencies": [1]},
    ]
    assert texts(run(parse(raw_base(), SOURCE), program)[-1]) == ("-44",)


def test_a_base_without_facts_can_be_asked() -> None:
    raw = {"concepts": {}, "entities": {"e": entity("lonely", "none", [], []) | {"instanceOf": []}}}
    kb = parse(raw, SOURCE)
    assert len(kb.everything) == 1
    assert len(kb.vocabularies["attribute"]) == 0


DATES = st.tuples(st.integers(1, 3), st.integers(1, 2), st.integers(1, 2))
VALUES: st.SearchStrategy[Value] = st.one_of(
    st.sampled_from("ab").map(lambda text: Value("string", string=text)),
    st.tuples(st.integers(-2, 2), st.sampled_from(["1", "m"])).map(
        lambda pair: Value("quantity", number=float(pair[0]), unit=pair[1])
    ),
    (st.tuples(st.integers(-1, 3)) | DATES).map(lambda moment: Value("time", moment=moment)),
)


@given(st.lists(st.tuples(st.integers(0, 5), VALUES)), st.sampled_from(OPERATORS), VALUES, st.sets(st.integers(0, 6)))
def test_the_index_finds_what_comparing_one_by_one_finds(
    facts: list[tuple[int, Value]], operator: str, target: Value, some: set[int]
) -> None:
    index = KeyIndex()
    facts = sorted(facts, key=lambda pair: pair[0])
    for number, value in facts:
        index.add(number, Attribute(value, {}))
    index.finish()
    for among in (EntitySet(range(7), sorted_once=True), EntitySet(sorted(some)), EntitySet(sorted(some) * 9)):
        expected = [(i, v) for i, v in facts if i in set(among.ids) and condition(operator, target)(v)]
        found = index.matching(among, operator, target)
        values = [fact.value for fact in found.facts or () if isinstance(fact, Attribute)]
        assert list(zip(found.ids, values, strict=True)) == expected


@given(VALUES, VALUES)
def test_of_two_values_that_compare_exactly_one_order_holds(left: Value, right: Value) -> None:
    found = [operator for operator in OPERATORS if condition(operator, right)(left)]
    if left.kind != right.kind or left.unit != right.unit:
        assert found == []
    elif left.kind == "string":
        assert found == (["="] if left == right else [])
    elif left.kind == "quantity" or len(left.moment) == len(right.moment):
        assert found in (["="], ["!=", "<"], ["!=", ">"])
    else:  # a year and a date: only the date can equal the year
        assert ("=" in found) == (len(right.moment) == 1 and left.moment[0] == right.moment[0])
        assert ("=" in found) != ("!=" in found)


@given(VALUES)
def test_a_value_is_read_from_its_own_text(value: Value) -> None:
    kind = "date" if value.kind == "time" else value.kind
    assert parse_value(kind, value.text()) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Value("quantity", number=206.0, unit="centimetre"), "206 centimetre"),
        (Value("quantity", number=1.5, unit="1"), "1.5"),
        (Value("quantity", number=-1.5, unit="1"), "-1"),  # the reference engine's way
        (Value("time", moment=(44, 3, 5)), "0044-03-05"),
    ],
)
def test_texts_are_the_references(value: Value, text: str) -> None:
    assert value.text() == text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("quantity", ""),
        ("quantity", " "),
        ("quantity", "nan"),
        ("quantity", "ten metres"),
        ("year", ""),
        ("date", "1-2"),
        ("date", "99999999999-01-01"),
        ("date", "2003/06/99999999999"),
    ],
)
def test_texts_that_are_no_value(kind: str, text: str) -> None:
    with pytest.raises(KoplError, match=r"is not a (number|year)"):
        parse_value(kind, text)
