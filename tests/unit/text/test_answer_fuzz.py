"""Whatever a model writes: an answer is read, or it cannot be read; nothing else is raised, and nothing takes long."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.core.types import Json, Parameter, ToolSpec, to_json
from grid.core.untrusted import shown
from grid.text import objects
from grid.text.answers import read_call, read_outline, read_plan, read_score, read_vote
from grid.text.objects import UnreadableError
from tests.unit.text.test_answer_forms import FORMS, TOOLS

PIECES = [
    *'{}[],:"\'“”#/\\_`<>()\n\t ',
    *('//', "/*", "*/", "\\u", "\\ud800", "\\x4", '\\"', "null", "None", "NaN", "True", "-", "1e999", "007", "9" * 400),
    *("\\U00110000", "<think>", "</think>", "[THINK]", '"find"', "<tool_call>", "Observation:", "wait"),
    *("\n\n", "\ufeff", "\ud800", "\u2028"),
    *('"tool"', '"plan"', '"arguments"', '"name"', '"function"', '"tool_calls"', '"outline"', '"score"', '"best"'),
]  # fmt: skip
READERS: list[Callable[[str], object]] = [
    lambda text: read_call(text, TOOLS),
    read_call,
    lambda text: read_plan(text, TOOLS),
    read_outline,
    read_score,
    lambda text: read_vote(text, 3),
    objects.whole,
]
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
ARGUMENTS = st.dictionaries(st.sampled_from(["order", "count", "note"]), VALUES)


def refusals(text: str) -> list[bytes]:
    """Why readers cannot read it, as a terminal shows it; whatever else they raise is raised."""
    found = []
    for read in READERS:
        try:
            read(text)
        except UnreadableError as error:
            found.append(shown(str(error)).encode())
    return found


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(st.characters(), max_size=5), max_size=40).map("".join))
def test_pieces_of_answers_in_any_order_are_read_or_refused(text: str) -> None:
    assert all(refusals(text)), "each says why"


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([text for text, _ in FORMS.values()]), st.data())
def test_an_answer_with_a_piece_cut_out_or_put_in_is_read_or_refused(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 6)))
    assert all(refusals(text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[end:])), "each says why"


@settings(max_examples=100, deadline=None)
@given(ARGUMENTS)
def test_arguments_come_back_as_they_were_written_whatever_they_are(arguments: dict[str, Json]) -> None:
    call = {"tool": "find", "arguments": arguments}
    texts = [json.dumps(call), to_json(call), json.dumps(call, indent=1), repr(call)]
    for text in (
        *texts,
        to_json({"name": "find", "parameters": to_json(arguments)}),
        f"<think>{repr(call)[:-1]}</think>{call}",
    ):
        assert to_json(read_call(text, TOOLS).arguments) == to_json(arguments)


@settings(max_examples=100, deadline=None)
@given(ARGUMENTS, st.integers(1, 400))
def test_an_answer_that_is_cut_off_is_never_another_call(arguments: dict[str, Json], cut: int) -> None:
    for text in (to_json({"tool": "find", "arguments": arguments}), repr({"tool": "find", "arguments": arguments})):
        try:
            call = read_call(text[:-cut], TOOLS)
        except UnreadableError:
            continue
        assert to_json(call.arguments) == to_json(arguments), "all that is missing is the last brace"


OFTEN = [
    *("{", "[", "[{", '{"', "{'", "{“", '{"a', '{"a":', '{"a":"', "{a:", "{a:b} ", "{/*", "{/**/", "{#", "{#\n", "{//"),
    *("[ ", '{"a":1}', '{"tool":"a"} ', '{"a":{"b":', '[{"a":', "<think>", "</think>", "<think></think>", "\\", "'"),
]


@pytest.mark.parametrize("piece", OFTEN)
def test_work_grows_with_the_length_and_ends_at_the_limit(piece: str) -> None:
    """Work is counted as lines of the reader's code that run, which no machine's speed changes."""

    def work(text: str) -> int:
        lines = 0

        def count(_frame: object, event: str, _: object) -> Any:
            nonlocal lines
            lines += event == "line"
            return count

        sys.settrace(count)
        try:
            read_call(text)
        except UnreadableError:
            pass
        finally:
            sys.settrace(None)
        return lines

    half, whole = (work((piece * size)[:size]) for size in (1_000, 2_000))
    assert whole <= 2.5 * half + 1_000
    assert work(piece * (1_000_000 // len(piece))) < 100_000 + 3 * 1_000_000 // len(piece)


def test_a_reader_knows_tools_of_any_number_of_parameters() -> None:
    many = ToolSpec("find", "", tuple(Parameter(f"p{place}", "string", "") for place in range(100)))
    flat = {"tool": "find", **{f"p{place}": 1 for place in range(65)}}
    with pytest.raises(UnreadableError, match="65 arguments, 64 at most"):
        read_call(to_json(flat), {"find": many})
