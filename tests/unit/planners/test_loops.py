"""A loop in the place of many tests: no case is left out, and each that fails is named."""

from __future__ import annotations

import inspect

import pytest

from tests.support.loops import each


def test_all_cases_run_whichever_fail_and_those_that_fail_are_named() -> None:
    seen = []

    @each(("text", "number"), [("a", 1), ("b", 2), ("c", 3), ("d", 4)])
    def looped(text: str, number: int, fixture: str) -> None:
        seen.append((text, fixture))
        assert number % 2, "an even number"

    assert [*inspect.signature(looped).parameters] == ["fixture"]
    with pytest.raises(AssertionError, match="an even number") as caught:
        looped(fixture="here")
    assert seen == [(text, "here") for text in "abcd"]
    count, *named = caught.value.__notes__
    assert count == "2 of 4 cases fail:"
    assert [note.split(": ")[0].strip() for note in named] == ["text='b', number=2", "text='d', number=4"]


def test_what_should_have_raised_and_what_is_skipped_fail_too() -> None:
    @each("text", ["5", "x"])
    def refused(text: str) -> None:
        with pytest.raises(ValueError, match="invalid"):
            int(text)

    with pytest.raises(pytest.fail.Exception) as caught:
        refused()
    assert caught.value.__notes__[0] == "1 of 2 cases fail:"

    @each("text", ["x"])
    def skipping(text: str) -> None:
        pytest.skip(text)

    with pytest.raises(AssertionError, match="skipped: text='x'"):
        skipping()


def test_loops_nest_and_none_is_empty() -> None:
    seen = []

    @each("one", [1, 2])
    @each("other", "ab")
    def looped(one: int, other: str) -> None:
        seen.append((one, other))

    looped()
    assert seen == [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    with pytest.raises(AssertionError, match="over nothing"):
        each("one", [])
