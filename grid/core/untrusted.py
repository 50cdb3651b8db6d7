"""Reads untrusted text from models, files and servers as JSON, and shows it."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_MAX_DIGITS = 300  # of an integer, so that a double can hold it
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_MAY_BE_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.40} is not a finite number")
    return number


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"{text:.40}... is a number of more than {_MAX_DIGITS} digits")
    return int(text)


def decoder(**options: Any) -> json.JSONDecoder:
    """A decoder that accepts a number only if it is finite and a double can hold it."""
    return json.JSONDecoder(parse_constant=_refuse, parse_float=_real, parse_int=_integer, **options)


DECODER = decoder()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{name!r:.60} stands twice in an object")
    return found


_ONCE = decoder(object_pairs_hook=_once)


def loads(text: str | bytes, by: json.JSONDecoder = DECODER) -> Any:
    """One JSON value with finite numbers; raises ValueError for other texts, or RecursionError for too deep nesting."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text))
    if text.startswith("\ufeff"):
        raise ValueError("a byte order mark stands before it")
    return by.decode(text)


def loads_storable(text: str | bytes, once: bool = False) -> Any:
    """Like `loads`, but raises ValueError for texts with half a surrogate pair, which tables and prompts do not allow.

    `once`: also raises ValueError for an object that contains a key twice; otherwise the key's last value is used, as
    in Python's decoder.
    """
    value = loads(text, _ONCE if once else DECODER)
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text))
    check_storable(value, text)
    return value


def check_storable(value: Any, text: str) -> None:
    """Raise ValueError if a value that was read from a text contains half a surrogate pair."""
    if not _MAY_BE_HALF.search(text):
        return  # the common case: large files are not searched a second time
    pending = [("", value)]
    for place, found in pending:  # the list grows during the loop
        if isinstance(found, str):
            if not found.isascii() and _HALF_PAIR.search(found):
                raise ValueError(f"{place or 'the text'} has half a surrogate pair: {found!r:.60}")
        elif isinstance(found, list):
            pending += [(f"{place}[{index}]", item) for index, item in enumerate(found)]
        elif isinstance(found, dict):
            for name, item in found.items():
                pending += [(f"a name in {place or 'the object'}", name), (f"{place}.{name!r:.40}", item)]


def shown(text: str) -> str:
    r"""The text on one line with escapes (`\x1b`, `\u202e`) for characters that would not show as themselves.

    Control characters, line ends, marks that change the writing direction, half surrogate pairs and similar characters
    are escaped. If shown unescaped, such characters could move a terminal's cursor, hide words or disguise one line as
    another.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in _BLANKS else _escaped(char) for char in text)


def shown_lines(text: str) -> str:
    """Like `shown`, but line by line, so that line ends are kept."""
    return "\n".join(map(shown, text.split("\n")))


_BLANKS = "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000"  # blanks of different widths; they hide nothing


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode()
