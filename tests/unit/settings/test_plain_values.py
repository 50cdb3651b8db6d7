"""What no config may hold, whatever its key."""

from __future__ import annotations

import pytest

from grid.core.errors import ConfigError, one_line
from grid.settings.make import MAX_CHARACTERS, MAX_DEPTH, check_plain


def nested(depth: int) -> object:
    return [] if not depth else [nested(depth - 1)]


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        (float("nan"), "finite"),
        (float("-inf"), "finite"),
        (2**63, "64 bits"),
        (10**5000, "64 bits"),
        ("x\0", "NUL"),
        ("\udcff", "Unicode"),
        ("x" * (MAX_CHARACTERS + 1), "characters"),
        (nested(MAX_DEPTH + 1), "levels"),
        (b"x", "text, number"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_no_row_can_hold(value: object, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_plain({"planner": {"a": [0, {"b": value}]}})
    assert caught.value.key.startswith("planner.a.1.b")
    assert allowed in caught.value.allowed
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("key", [1, None, "\udcff"])
def test_keys_are_texts(key: object) -> None:
    with pytest.raises(ConfigError):
        check_plain({"robustness": {key: 1}})


def test_what_configs_hold() -> None:
    check_plain({"a": {"b": [1, 2.5, "text", None, True, -(2**63), {}]}})


def test_one_line_shows_what_a_terminal_would_obey() -> None:
    assert one_line("a\n\tb\x1b[31m\u202ec\u2028d") == "a b\\x1b[31m\\u202ec d"
    assert one_line("x" * 50, 10) == "xxxxxxx..."
    assert one_line("\x1b" * 10, 40) == "\\x1b" * 10
    for text in ("\x1b" * 11, "\x1b" * 500, "x" * 36 + "\u202ex", "\u202e" * 39):
        assert len(one_line(text, 40)) == 40
        assert one_line(text, 40).endswith("...")
