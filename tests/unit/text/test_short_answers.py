"""Short answers by token: equal to HotpotQA's official evaluation, and how an answer to several questions is read."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import BETWEEN
from grid.text.answers import exact_match, f1, normalised, parts_of
from grid.text.references import numbered

EVALUATION = "AGENT_GRID_HOTPOT_EVALUATION"
WORDS = (
    *("the", "a", "an", "The", "A.", "yes", "no", "noanswer", "Yes", "No.", "3.5", "35", "1,840", "1840", "U.S.", "US"),
    *(
        "New York",
        "new-york",
        "New",
        "York",
        "Gómez",
        "gomez",
        "“quoted”",
        '"quoted"',
        "–",
        "-",
        "",
        " ",
        "\t",
        "theatre",
    ),
    *("1988", "in 1988", "22 November", "Ἀθῆναι", "ß", "SS", "İ", "naïve", "a", "O'Brien", "OBrien", "&", "&amp;"),
)


@pytest.fixture(scope="module")
def official() -> ModuleType:
    """The official script, which needs `ujson` for nothing that is asked here."""
    path = os.environ.get(EVALUATION)
    if not path:
        pytest.skip(f"{EVALUATION} names no hotpot_evaluate_v1.py")
    spec = importlib.util.spec_from_file_location("hotpot_evaluate_v1", Path(path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ujson", json)
        spec.loader.exec_module(module)
    return module


def mutated(text: str, rng: random.Random) -> str:
    """A text with words dropped, doubled, put in other places, or put in capitals."""
    words = text.split(" ")
    for _ in range(rng.randint(0, 3)):
        place = rng.randrange(len(words) + 1)
        match rng.randrange(4):
            case 0:
                words.insert(place, rng.choice(WORDS))
            case 1:
                words = words[:place] + words[place + 1 :]
            case 2:
                rng.shuffle(words)
            case _:
                words = [word.upper() for word in words]
    return " ".join(words)


def test_both_scores_are_those_of_the_official_script(official: ModuleType) -> None:
    rng, same, between = random.Random(0), 0, 0
    for _ in range(1000):
        right = " ".join(rng.choices(WORDS, k=rng.randint(1, 5)))
        given_ = mutated(right, rng) if rng.random() < 0.8 else " ".join(rng.choices(WORDS, k=rng.randint(0, 5)))
        assert normalised(given_) == official.normalize_answer(given_)
        assert exact_match(given_, right) == official.exact_match_score(given_, right)
        assert f1(given_, right) == official.f1_score(given_, right)[0]
        same, between = same + exact_match(given_, right), between + (0 < f1(given_, right) < 1)
    assert same > 100
    assert between > 100, "the pairs tell the scores apart"


@given(st.text(max_size=30), st.text(max_size=30))
def test_scores_are_symmetric_and_one_for_what_is_the_same(one: str, other: str) -> None:
    assert exact_match(one, other) == exact_match(other, one)
    assert f1(one, other) == f1(other, one)
    assert 0 <= f1(one, other) <= 1
    assert exact_match(one, one)
    assert not normalised(one) or f1(one, one) == 1


def test_digits_are_not_all_that_counts() -> None:
    assert not exact_match("3.5 million people", "35 million people in the 3rd city"), (
        "as the published comparer has it"
    )
    assert not exact_match("1988", "19 88")
    assert exact_match("1,840", "1840")
    assert exact_match("The Beatles.", "beatles")
    assert f1("yes", "yes indeed") == 0, "yes and no are right or wrong"
    assert f1("New York City", "New York") == pytest.approx(0.8)


PART = st.text(st.characters(exclude_categories=["Cc", "Zl", "Zp", "Cs"]), min_size=1, max_size=12).filter(
    lambda text: text == text.strip() and BETWEEN not in text
)


@given(st.lists(PART, min_size=2, max_size=5))
def test_parts_are_read_as_they_are_numbered(parts: list[str]) -> None:
    assert parts_of(numbered(parts), len(parts)) == tuple(parts)
    assert parts_of(f"These are the answers:\n{numbered(parts)}", len(parts)) == tuple(parts)
    assert parts_of(numbered(parts), len(parts) + 1) == ("",) * (len(parts) + 1)


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        ("1. Oslo\n2. 1905", ("Oslo", "1905")),
        ("1) Oslo\n\n2) 1905", ("Oslo", "1905")),
        ("1: Oslo; 2: 1905", ("Oslo", "1905")),
        ("Oslo; 1905", ("Oslo", "1905")),
        ("Oslo\n1905", ("Oslo", "1905")),
        ("1. 1. FC Nürnberg\n2. 3.5", ("1. FC Nürnberg", "3.5")),
        ("1. Oslo,\nwhich lies in Norway\n2. 1905", ("Oslo, which lies in Norway", "1905")),
        ("2. 1905\n1. Oslo", ("", "")),
        ("1. Oslo", ("", "")),
        ("1. Oslo\n2. 1905\n3. Rome", ("", "")),
        ("Oslo and 1905", ("", "")),
        ("", ("", "")),
        (None, ("", "")),
    ],
)
def test_two_answers_are_told_apart_or_count_as_none(answer: str | None, parts: tuple[str, ...]) -> None:
    assert parts_of(answer, 2) == parts


def test_a_single_answer_is_the_whole_text() -> None:
    assert parts_of(" 1. FC Köln; Köln ", 1) == ("1. FC Köln; Köln",)
    assert parts_of(None, 1) == ("",)
