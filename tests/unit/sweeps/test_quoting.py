"""What the command line says of a text that Hydra's grammar does not take: its quoted form, which works."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from grid.core.errors import ConfigError
from grid.sweeps import arguments
from grid.sweeps.api import sweep
from tests.support.command_lines import outcomes

GRAMMAR = "the grammar's own words"


def unquoted(shown: str) -> object:
    """What Hydra reads where a shell is given what was shown."""
    (word,) = shlex.split(shown)
    return OverridesParser.create().parse_override(word).value()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a#b", "\"name='a#b'\""),
        ("a=b", "\"name='a=b'\""),
        ("é", "\"name='é'\""),
        ("日本", "\"name='日本'\""),
        ("a{b", "\"name='a{b'\""),
        ("a$b#", "'name=\"a$b#\"'"),
        ("a!b", "'name=\"a!b\"'"),
        ("it's", '"name=\\"it\'s\\""'),
        ("[a#b,c]", "\"name=['a#b',c]\""),
        ("{b: c#d, e: 1}", "\"name={b: 'c#d', e: 1}\""),
        ("a,b#c", "\"name=a,'b#c'\""),
        ("choice(a=b,c)", "\"name=choice('a=b',c)\""),
    ],
)
def test_what_the_grammar_does_not_take_is_shown_in_quotes(value: str, shown: str) -> None:
    error = arguments.unreadable(f"name={value}", GRAMMAR)
    assert (error.key, error.value) == ("name", value)
    assert error.allowed.endswith(f" must be in quotes: {shown}")
    assert GRAMMAR not in str(error)
    unquoted(shown)


def test_the_characters_are_named() -> None:
    told = arguments.unreadable("+model.model=org/über#1", GRAMMAR).allowed
    assert told == "a text with 'ü' '#' must be in quotes: \"+model.model='org/über#1'\""


@given(st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=["Cc"]), min_size=1))
def test_whatever_the_text_the_quoted_form_is_that_text(text: str) -> None:
    shown = arguments._for_shell(f"name={arguments._in_quotes(text)}")
    assert unquoted(shown) == text


@pytest.mark.parametrize("text", ["é=1", "a b=1", "x{=1", "", "planner.é=1"])
def test_where_the_key_is_wrong_the_grammar_says_so(text: str) -> None:
    assert GRAMMAR in str(arguments.unreadable(text, GRAMMAR))


def test_a_quoted_form_that_is_too_long_is_not_shown() -> None:
    assert GRAMMAR in str(arguments.unreadable(f"name={'#' * 1000}", GRAMMAR))


@pytest.mark.parametrize(
    ("key", "value", "text", "shown"),
    [
        ("name", 1e5, "name=1e5", "\"name='1e5'\""),
        ("model.model", 1.1, "++model.model=1.10", "\"++model.model='1.10'\""),
        ("model.model", 1e5, "model.model=1e5,2e5,x", "\"model.model='1e5','2e5',x\""),
        ("dataset.args.1", 7, "dataset.args=[a,7]", "\"dataset.args=[a,'7']\""),
        ("model.of.a", 1e5, "model.of={a: 1e5, b: 2.5}", "\"model.of={a: '1e5', b: 2.5}\""),
        ("name", True, "name=true", "\"name='true'\""),
    ],
)
def test_a_text_that_is_read_as_a_number_is_shown_in_quotes(key: str, value: object, text: str, shown: str) -> None:
    error = arguments.kept(ConfigError(key, value, "Input should be a valid string"), ["planner=react", text])
    assert (error.key, error.value) == (key, value)
    assert error.allowed.endswith(f"put it in quotes: {shown}")


def test_other_errors_stay_as_they_are() -> None:
    for error in (
        ConfigError("trials", 1.5, "Input should be a valid integer"),
        ConfigError("name", ["a"], "Input should be a valid string"),
        ConfigError("name", 1e5, "Input should be a valid string"),  # a preset's
    ):
        assert arguments.kept(error, ["trials=1.5", "seed=1"]) is error


@pytest.mark.parametrize(
    ("given", "first"),
    [
        (["planner=react", "--cfg", "job", "name=x"], ["--cfg", "job", "planner=react", "name=x"]),
        (["a=1", "-m", "b=2"], ["-m", "a=1", "b=2"]),
        (["a=1", "-p", "planner", "b=2", "--cfg=job"], ["-p", "planner", "--cfg=job", "a=1", "b=2"]),
        (["a=1", "--config-d", "x", "b=2"], ["--config-d", "x", "a=1", "b=2"]),
        (["a=1", "--cfg"], ["--cfg", "a=1"]),
    ],
)
def test_flags_come_before_overrides(given: list[str], first: list[str]) -> None:
    assert arguments.flags_first(given) == first


@pytest.mark.long
def test_the_command_line_says_it(tmp_path: Path) -> None:
    lines = [
        ["model=openai_http", "model.model=org/m#1"],
        ["-m", "name=mine=1"],
        ["dataset.path=/tmp/übung"],
        ["-m", "name=1e5"],
        ["name=a,b"],
        ["planner=react,lats"],
        ["-m", "--cfg", "job"],
    ]
    told = [one["err"].strip() for one in outcomes(lines, tmp_path)]
    assert told == [
        "error: model.model='org/m#1': a text with '#' must be in quotes: \"model.model='org/m#1'\"",
        "error: name='mine=1': a text with '=' must be in quotes: \"name='mine=1'\"",
        "error: dataset.path='/tmp/übung': a text with 'ü' must be in quotes: \"dataset.path='/tmp/übung'\"",
        "error: name=100000.0: must be a text, but 1e5 without quotes is a number; put it in quotes: \"name='1e5'\"",
        "error: name='a,b': only one value is allowed; use -m to make each value a setting, write a list as "
        "name=[a,b], write a text in quotes: \"name='a,b'\"",
        "error: planner='react,lats': only one value is allowed; use -m to make each value a setting",
        "error: --cfg='job': not allowed with -m, because this flag shows only one setting",
    ]


@pytest.mark.long
def test_an_override_behind_a_flag_is_one(tmp_path: Path) -> None:
    lines = [
        ["planner=react", "--cfg", "job", "name=behind", "planner.temperature=0.25"],
        ["planner=react", "--cfg", "job", "-p", "planner", "planner.temperature=0.25"],
        ["--cfg", "job", "planner=react", "name=behind", "planner.temperature=0.25"],
    ]
    behind, part, before = outcomes(lines, tmp_path)
    assert [one["status"] for one in (behind, part, before)] == [0, 0, 0]
    assert "name: behind" in behind["out"]
    assert "temperature: 0.25" in part["out"]
    assert behind["out"] == before["out"]


def test_the_api_says_it_too() -> None:
    with pytest.raises(ConfigError, match="put it in quotes: \"name='1e5'\""):
        sweep("name=1e5")
