"""Semantic equivalence of argument values (egb_slate §3.4)."""

from __future__ import annotations

import datetime as dt
import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import Json
from grid.worlds.equivalence import equivalent
from tests.support.loops import each

texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["", "yes", "#AB-1", "$1,299.00", "3 pm", "01/15/2023", "January 15", "Jan 15, 2023 4 pm", "12-10"]
    ),
)
scalars: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    texts,
)
values: st.SearchStrategy[Json] = st.one_of(
    scalars,
    st.lists(scalars, max_size=4),
    st.dictionaries(st.text(max_size=4), scalars, max_size=3),
)
days = st.dates(dt.date(1950, 1, 1), dt.date(2069, 12, 31))


def ordinal(day: int) -> str:
    ending = "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{ending}"


def forms(day: dt.date) -> list[str]:
    """A day as people write it."""
    month, short = day.strftime("%B"), day.strftime("%b")
    return [
        day.isoformat(),
        f"{month} {day.day}, {day.year}",
        f"{day.day} {month} {day.year}",
        day.strftime("%m/%d/%Y"),
        f"{short} {day.day}, {day.year}",
        f"{month} {ordinal(day.day)}, {day.year}",
    ]


@given(values)
def test_every_value_equals_itself(value: Json) -> None:
    assert equivalent(value, value)


@given(values, values)
def test_the_order_of_the_two_sides_does_not_matter(left: Json, right: Json) -> None:
    assert equivalent(left, right) == equivalent(right, left)


@given(days)
def test_a_day_equals_itself_in_every_form(day: dt.date) -> None:
    for left, right in itertools.product(forms(day), repeat=2):
        assert equivalent(left, right), (left, right)


@given(days, days)
def test_different_days_are_never_equal(one: dt.date, other: dt.date) -> None:
    for left, right in itertools.product(forms(one), forms(other)):
        assert equivalent(left, right) == (one == other), (left, right)


@given(days, st.integers(1, 28), st.integers(1, 12))
def test_a_date_without_year_equals_every_date_that_agrees(day: dt.date, other_day: int, other_month: int) -> None:
    bare = f"{day:%B} {day.day}"
    assert all(equivalent(bare, form) for form in forms(day))
    assert equivalent(bare, f"{day.day} {day:%B}")
    other = dt.date(day.year, other_month, other_day)
    agrees = (other.month, other.day) == (day.month, day.day)
    assert equivalent(bare, other.isoformat()) == agrees


@each(
    ("left", "right"),
    [
        ("3 pm", "15:00"),
        ("3pm", "3:00 PM"),
        ("3 p.m.", "15:00"),
        ("3:30 pm", "15:30"),
        ("12 am", "00:00"),
        ("2023-01-15 15:00", "January 15, 2023 at 3 pm"),
        ("2023-01-15T15:00:00", "January 15, 2023 3 pm"),
        ("January 15, 2023", "January 15, 2023 3 pm"),
        ("$1,299.00", 1299),
        ("$1,299.00", "1299"),
        (1299, "1299"),
        (1299, 1299.0),
        ("1,299.5 USD", 1299.5),
        ("15%", 15),
        ("-7", -7),
        ("yes", True),
        ("No", False),
        ("TRUE", True),
        ("#AB-1", "AB-1"),
        ("  Red\tShoes ", "red shoes"),
        ("STRASSE", "straße"),
        ('"quoted"', "quoted"),
        ("Berlin.", "Berlin"),
        ("red, green and blue", ["blue", "red", "green"]),
        ("[red, green]", ["green", "red"]),
        ("1, 2", [2, 1]),
        (["January 15, 2023"], ["2023-01-15"]),
        ([5], "5"),
        ([], ""),
        ({"day": "2023-01-15"}, {"day": "January 15, 2023"}),
    ],
)
def test_equal(left: Json, right: Json) -> None:
    assert equivalent(left, right)
    assert equivalent(right, left)


@each(
    ("left", "right"),
    [
        ("3 pm", "3 am"),
        ("15:00", "15:01"),
        ("2023-01-15T15:00:00", "2023-01-15T16:00:00"),
        ("15:00", "January 15, 2023"),
        ("January 15, 2023", "January 15, 2024"),
        (1, True),
        ("1", True),
        (0, False),
        ("yes", 1),
        (None, ""),
        (None, "null"),
        (0, ""),
        (1299, 1299.01),
        ("AB-1", "AB-10"),
        ("market 12", "mar 12"),
        (["a", "b"], ["a", "a"]),
        (["a", "b"], ["a"]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 2}),
    ],
)
def test_different(left: Json, right: Json) -> None:
    assert not equivalent(left, right)
    assert not equivalent(right, left)


@given(st.lists(st.one_of(st.booleans(), st.integers(), st.sampled_from(["a", "b", "Red"])), max_size=6), st.randoms())
def test_the_order_of_a_list_does_not_matter(items: list[Json], rng: random.Random) -> None:
    shuffled = list(items)
    rng.shuffle(shuffled)
    assert equivalent(items, shuffled)


@given(st.lists(st.from_regex(r"[b-z]{2,6}", fullmatch=True), min_size=1))
def test_a_comma_separated_string_equals_the_list(words: list[str]) -> None:
    assert equivalent(", ".join(words), [*reversed(words)])


@given(st.from_regex(r"[A-Z]{2,4}-[0-9]{1,8}", fullmatch=True))
def test_a_number_sign_before_a_code_does_not_matter(code: str) -> None:
    assert equivalent(f"#{code}", code.lower())


@pytest.mark.parametrize(
    "hostile",
    [
        "x" * 1_000_000,
        "9" * 100_000,
        "," * 100_000,
        "\x00\ud800\u202e",
        "١٥/٠١/٢٠٢٣",
        "١٢:٣٠",
        "99/99/9999",
        "99:99 pm",
        "31 February 2023",
        "January 99999999999999999999",
        "1e999999999",
        "$" * 60,
        "3 pm 4 pm 5 pm",
        "2023-01-15T15:00:00+99:99",
        "January 15 " + "½" * 30,
        "\U0001f600" * 5_000,
    ],
)
def test_hostile_strings_do_no_harm(hostile: str) -> None:
    assert equivalent(hostile, hostile)
    assert not equivalent(hostile, "something else")
    assert not equivalent(hostile, 15)
    assert not equivalent(hostile, ["something else"])


@given(
    st.lists(
        st.sampled_from(["jan", "15", "2023", "3 pm", "15:00", "/", "-", ":", "am", "+", "z", "th", "٣", "²", "."])
    )
)
def test_what_merely_looks_like_a_date_does_no_harm(parts: list[str]) -> None:
    for text in ("".join(parts), " ".join(parts)):
        assert equivalent(text, text)


def test_a_number_sign_before_digits_does_not_matter() -> None:
    assert equivalent("#12345", "12345")
    assert equivalent("#12345", 12345)


def test_iso_times_without_seconds_are_compared() -> None:
    assert equivalent("2023-01-15T15:00", "January 15, 2023 3 pm")
    assert not equivalent("2023-01-15T15:00", "2023-01-15T16:00")


def test_a_month_is_not_its_first_day() -> None:
    assert not equivalent("March 2023", "March 1, 2023")


def test_long_numbers_are_compared_in_full() -> None:
    assert not equivalent("1" * 30 + "1", "1" * 30 + "2")
    assert not equivalent(10**30, 10**30 + 1)


def test_the_order_of_partial_dates_in_a_list_does_not_matter() -> None:
    right: list[Json] = ["Jan 15, 2023", "Jan 15, 2024"]
    assert equivalent(["Jan 15, 2023", "Jan 15"], right)
    assert equivalent(["Jan 15", "Jan 15, 2023"], right)


@pytest.mark.parametrize("text", ["1,299.00", "January 15, 2023", "Salt and Pepper"])
def test_a_list_of_one_equals_its_item(text: str) -> None:
    assert equivalent([text], text)


def test_a_deep_list_does_no_harm() -> None:
    deep: Json = 1
    for _ in range(900):  # json.loads reads this depth
        deep = [deep]
    assert not equivalent(deep, "something else")
    assert equivalent(deep, deep)


def test_a_huge_integer_does_no_harm() -> None:
    assert equivalent(10**5000, 10**5000)


@pytest.mark.parametrize(
    ("left", "right"),
    [("$10", "€10"), ("10%", "$10"), ("Monday 10:00", "Sunday 10:00"), ("10:00:01", "10:00:59"), ("3-4", "March 4")],
)
def test_what_both_state_must_agree(left: str, right: str) -> None:
    assert not equivalent(left, right)


@pytest.mark.parametrize(
    ("left", "right"), [("$10", "10 USD"), ("10 EUR", 10), ("10:00", "10:00:30"), ("Monday 10:00", "10 am")]
)
def test_what_only_one_states_does_not_matter(left: str, right: str | int) -> None:
    assert equivalent(left, right)


def test_values_that_overflow_a_date_do_no_harm_and_long_lists_equal_themselves() -> None:
    assert not equivalent("May 5h" + "9" * 40, "May 5")
    assert equivalent(list(range(500)), list(range(500)))
