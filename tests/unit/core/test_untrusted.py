"""Text that nobody vouches for: what is read of it, and how it is shown."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.core.untrusted import DECODER, loads, loads_storable, shown, shown_lines
from grid.text.answers import read_call
from grid.text.objects import UnreadableError
from tests.support.loops import each

ENDLESS = ["1e999", "-1e999", "1" * 400 + ".5", "NaN", "Infinity", "-Infinity", "9" * 301, "-" + "9" * 5_000]
HALF = r'"\ud800"'
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@each("number", ENDLESS)
@each("around", ["{}", '{{"a": {}}}', "[1, [{}]]"])
def test_a_number_that_no_double_holds_is_refused(number: str, around: str) -> None:
    for read in (loads, loads_storable, DECODER.decode):
        with pytest.raises(ValueError, match=r"number|no JSON"):
            read(around.format(number))


@pytest.mark.parametrize("number", ENDLESS)
def test_an_answer_with_such_a_number_is_no_call(number: str) -> None:
    with pytest.raises(UnreadableError):
        read_call(f'{{"tool": "pay", "arguments": {{"amount": {number}}}}}')


@settings(max_examples=30)
@given(st.lists(SCALARS) | st.dictionaries(st.text(), st.lists(SCALARS)))
def test_all_other_json_is_read_as_it_is(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value).encode()):
        assert loads(text) == loads_storable(text) == value


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (HALF, "the text"),
        (f'[0, {{"tools": [{{"name": {HALF}}}]}}]', "[1].'tools'[0].'name'"),
        (f'{{"arguments": {{{HALF}: 1}}}}', "a name in .'arguments'"),
        (b'"\xed\xa0\x80"', "decode"),
    ],
)
def test_half_a_surrogate_pair_is_refused_with_its_place(text: str | bytes, place: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the place is what is looked at
        loads_storable(text)
    assert place in str(caught.value)
    str(caught.value).encode()


def test_a_whole_pair_is_a_character() -> None:
    assert loads_storable(r'"\ud83d\ude00"') == "\U0001f600"


@given(st.text(st.characters()))
def test_what_is_shown_is_one_line_that_moves_nothing(text: str) -> None:
    for char in shown(text):
        assert unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp")
    shown(text).encode()


@given(st.text(st.characters(categories=("L", "N", "P", "S"))))
def test_what_shows_as_itself_is_left_alone(text: str) -> None:
    assert shown(f"{text} {text}") == f"{text} {text}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("safe\u202egnp.exe", r"safe\u202egnp.exe"),
        ("one\u2028two\x85three\nfour\r\tfive", r"one\u2028two\x85three\nfour\r\tfive"),
        ("half \ud800, zero\u200bwidth", r"half \ud800, zero\u200bwidth"),
        ("12\u00a0000 and 中\u3000文", "12\u00a0000 and 中\u3000文"),
    ],
)
def test_control_and_bidirectional_characters_become_escapes(text: str, told: str) -> None:
    assert shown(text) == told


def test_line_ends_stay_where_they_are_wanted() -> None:
    assert shown_lines("one\ntwo\x07\u2029") == "one\ntwo\\x07\\u2029"
