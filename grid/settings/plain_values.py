"""What any value of a config must be, whatever its key: something that rows, digests and files can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from grid.core.errors import ConfigError

MAX_DEPTH = 20
MAX_CHARACTERS = 100_000
_INTEGERS = 2**63


def check_plain(config: Mapping[str, object]) -> None:
    """Check every value of a resolved config.

    Raises:
        ConfigError: with the dotted key, for a number that is not finite or has more than 64 bits, a text that is too
            long or no valid Unicode, a key that is no text, or too deep nesting.
    """
    _check("", config, 0)


def _check(key: str, value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ConfigError(key, value, f"at most {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        for name, part in value.items():
            if not isinstance(name, str):
                raise ConfigError(f"{key}.{name}" if key else str(name), part, "a key that is a text")
            _check_text(f"{key}.{name}" if key else name, name, "a key")
            _check(f"{key}.{name}" if key else name, part, depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for place, part in enumerate(value):
            _check(f"{key}.{place}", part, depth + 1)
    elif isinstance(value, str):
        _check_text(key, value, "a text")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(key, value, "a finite number")
    elif isinstance(value, int) and not -_INTEGERS <= value < _INTEGERS:
        raise ConfigError(key, value, "an integer of at most 64 bits")
    elif not isinstance(value, bool | int | float | None):
        raise ConfigError(key, value, "a text, number, true, false, null, list or mapping")


def _check_text(key: str, text: str, what: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(key, text, f"{what} of at most {MAX_CHARACTERS:,} characters")
    if any(char == "\0" or "\ud800" <= char <= "\udfff" for char in text):
        raise ConfigError(key, text, f"{what} in valid Unicode without the character NUL")
