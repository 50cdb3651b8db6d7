"""Calls written as text."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import Json
from grid.datasets.ultratool import MAX_CHARACTERS, parse_call

NAMES = ("path", "text", "text_size", "tags", "n")
PIECES = [*"spn1 )('\"[]{}:<>0.5-\n\\=,é", "text=", ", n=", "path", "True", "null"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("save()", {}),
        ("  save (  ) \n", {}),
        ("save(path='a.txt', text='b')", {"path": "a.txt", "text": "b"}),
        ("save(text='Preparation for Tomorrow's Meeting')", {"text": "Preparation for Tomorrow's Meeting"}),
        ("save(text='He said \"it's, well, n\"', n=2)", {"text": 'He said "it\'s, well, n"', "n": 2}),
        ("save(text='a, b = c, other=d', n=2)", {"text": "a, b = c, other=d", "n": 2}),
        ("save(text='f(x) = (x), done)', n=2)", {"text": "f(x) = (x), done)", "n": 2}),
        ("save(text='one\ntwo')", {"text": "one\ntwo"}),
        ("save(text_size=3, text='x')", {"text_size": 3, "text": "x"}),
        ('save( n = 1.5 ,tags = ["a", "b"] )', {"n": 1.5, "tags": ["a", "b"]}),
        ("save(n=True, text=False, path=null)", {"n": True, "text": False, "path": None}),
        ("save(n=007)", {"n": "007"}),
        ("save(n=<number of copies>)", {"n": "<number of copies>"}),
        ("save(n=, text='')", {"n": "", "text": ""}),
        ("save(n=1, text='x',)", {"n": 1, "text": "x"}),
        ("save(text='你好，世界')", {"text": "你好，世界"}),
        ("save(text=')", {"text": "'"}),
    ],
)
def test_tricky_calls(text: str, expected: dict[str, Json]) -> None:
    assert parse_call(text, NAMES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "save",
        "save(",
        "save(path='a'",
        "(path='a')",
        "1save(path='a')",
        "save('a.txt')",
        "save(colour='red')",
        "save('a', path='b')",
        "save(path='a') and more",
        "save(path='" + "a" * MAX_CHARACTERS + "')",
    ],
)
def test_what_is_no_call(text: str) -> None:
    assert parse_call(text, NAMES) is None


def test_a_tool_without_arguments_takes_none() -> None:
    assert parse_call("ping()", ()) == {}
    assert parse_call("ping(n=1)", ()) is None


def test_names_are_not_patterns() -> None:
    assert parse_call("f(a.b='1')", ["a.b", "c+"]) == {"a.b": "1"}
    assert parse_call("f(axb='1')", ["a.b", "c+"]) is None


@pytest.mark.parametrize("value", ["[" * 5_000, "9" * 10_000, '{"a":' * 3_000, "\\u0000", "\ud800"])
def test_hostile_values_stay_text(value: str) -> None:
    assert parse_call(f"save(text={value})", NAMES) == {"text": value}


@given(st.lists(st.sampled_from(PIECES), max_size=40))
def test_never_raises(pieces: list[str]) -> None:
    body = "".join(pieces)
    for text in (body, f"save({body})", f"save(path={body})"):
        found = parse_call(text, NAMES)
        assert found is None or found.keys() <= set(NAMES)


words = st.text(st.characters(categories=["L", "N", "P", "Zs"], exclude_characters="="), max_size=30)
simple = st.one_of(st.integers(-(10**9), 10**9), st.booleans(), words)


@given(st.dictionaries(st.sampled_from(NAMES), simple, min_size=1))
def test_round_trip(arguments: dict[str, str | int | bool]) -> None:
    written = ", ".join(
        f"{name}='{value}'" if isinstance(value, str) else f"{name}={value}" for name, value in arguments.items()
    )
    assert parse_call(f"save({written})", NAMES) == arguments


lower = st.text(st.characters(codec="ascii", exclude_characters="=TF"), max_size=8)


@given(st.lists(st.integers() | lower, max_size=4))
def test_lists_round_trip(values: list[Json]) -> None:
    assert parse_call(f"save(tags={json.dumps(values)})", NAMES) == {"tags": values}


def test_words_inside_a_list_are_left_alone() -> None:
    assert parse_call('save(tags=["True Story", "False"])', NAMES) == {"tags": ["True Story", "False"]}


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "[NaN]"])
def test_no_value_is_a_number_that_json_lacks(text: str) -> None:
    found = parse_call(f"save(n={text})", NAMES)
    assert found is not None
    value = found["n"]
    assert not isinstance(value, list)
    assert not isinstance(value, float) or math.isfinite(value)
