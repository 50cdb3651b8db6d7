"""A misspelt name is near the right one, and nothing else is changed."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import Parameter, ToolCall, ToolSpec
from grid.text.calls import listed, misspelt


def test_one_name_has_two_letters_in_each_others_place() -> None:
    call = ToolCall("Relate", {"entities": "$0", "op": "greater", "predicate": "place of birth", "by": "someone"})
    tool = ToolSpec("Relate", "", (Parameter("op", "string", "", values=("greater", "less")),))
    near = misspelt(call, listed(tool))
    assert near is not None
    assert near.arguments == {**call.arguments, "predicate": "palce of birth"}


def test_what_holds_no_word_is_no_name() -> None:
    assert (
        misspelt(ToolCall("Find", {"date": "2001-05-03", "n": 7, "list": ["words"], "short": "a bc", "same": "oooo"}))
        is None
    )


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=30), max_size=4))
def test_at_most_one_argument_changes_and_keeps_its_letters(arguments: dict[str, str]) -> None:
    near = misspelt(ToolCall("t", dict(arguments)))
    if near is not None:
        (name,) = (key for key in arguments if near.arguments[key] != arguments[key])
        assert Counter(str(near.arguments[name])) == Counter(arguments[name])
