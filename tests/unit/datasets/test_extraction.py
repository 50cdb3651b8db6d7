"""What finding values costs: work that grows with the text, and only so much text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.datasets.slate.dataset import Slate
from grid.engines.lexical import arguments
from grid.engines.lexical.arguments import MAX_CHARACTERS, MAX_RUN, fields_in, labelled_in, readable, values_in
from tests.support.bytecodes import executed

HOSTILE = {
    "digits": "1",
    "capitals": "A",
    "numbers": "1 ",
    "names": "Ab, ",
    "one name": "Ab ",
    "words": "a.",
    "folders": "a/",
    "quotes": '"a" ',
    "apostrophes": "'a ",
    "commas": "1,",
    "labels": "(Ab: ",
    "labelled": ", Ab: c",
    "blanks": "(Ab: b" + " " * 50,
    "returned": " returned {",
    "addresses": "a@b.",
    "months": "May 1 ",
    "ids": "A1-",
}


def steps(read: Callable[[str], object], text: str) -> int:
    """The bytecodes that reading an unseen text takes in the module's own code."""
    read.cache_clear()  # type: ignore[attr-defined]
    return executed(lambda: read(text), arguments.__file__)


@pytest.mark.parametrize("name", HOSTILE)
def test_twice_the_text_takes_at_most_twice_the_steps(name: str) -> None:
    for read in (values_in, labelled_in, fields_in):
        small, middle, large = (steps(read, HOSTILE[name] * count) for count in (50, 100, 200))
        assert large - middle <= 2.2 * max(middle - small, 0) + 300


@pytest.mark.parametrize("name", HOSTILE)
def test_no_pattern_meets_a_long_run(name: str) -> None:
    text = readable(HOSTILE[name] * MAX_CHARACTERS)
    assert len(text) == MAX_CHARACTERS
    assert max(map(len, text.split()), default=0) <= MAX_RUN


@given(st.text(st.sampled_from("aA1.,/+@&'%-_é中")), st.integers(1, 3 * MAX_RUN))
def test_a_run_is_blanked_or_stands_where_it_stood(run: str, times: int) -> None:
    long = (run * times)[: 3 * MAX_RUN]
    text = f"from {long} to"
    assert readable(text) == (text if len(long) <= MAX_RUN else f"from {' ' * len(long)} to")


def test_ordinary_texts_are_read_whole() -> None:
    dataset = Slate(limit=100)
    for case_id in dataset.case_ids():
        case = dataset.problem(case_id).case
        for text in (case.query, *(substep.text for substep in case.plan.substeps)):
            assert readable(text) == text


def test_what_stands_behind_the_limit_is_not_read() -> None:
    text = "a " * (MAX_CHARACTERS // 2)
    assert values_in(f"7 {text} 8")[0].value == "7"
    assert len(values_in(f"7 {text} 8")) == 1


@pytest.mark.parametrize("name", HOSTILE)
def test_a_million_hostile_characters_come_to_an_end(name: str) -> None:
    text = (HOSTILE[name] * 1_000_000)[:1_000_000]
    for read in (values_in, labelled_in, fields_in):
        assert len(read(text)) <= MAX_CHARACTERS
