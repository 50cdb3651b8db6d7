"""A JSON list of any length, value by value: no more of its file than a value and some is in memory."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from grid.core.errors import DataError
from grid.core.untrusted import DECODER, check_storable
from grid.datasets.files import MAX_LINE_BYTES

_BLOCK = 1 << 20  # bytes
_BLANK = re.compile(r"[ \t\n\r]*")
_BEHIND = (" ", "\t", "\n", "\r", ",", "]")
"""What may stand behind a value of a list."""


def read_json_list(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number from 1, value) of a file's list.

    Raises:
        DataError: the file cannot be read, is no JSON list, is broken or ends too early, or a value has more than
            MAX_LINE_BYTES characters.
    """
    number = 0
    try:
        with path.open("rb") as file:
            window = _Window(file)
            if window.token() != "[":
                raise ValueError("a JSON list is expected")
            window.at += 1
            while window.token() != "]":
                if number:
                    window.comma()
                number += 1
                yield number, window.value()
            window.at += 1
            if window.token():
                raise ValueError("something stands behind the list")
    except (ValueError, RecursionError) as error:
        raise DataError(path, None, f"value {number}: {error}" if number else str(error)) from None
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None


class _Window:
    """The part of a file that is looked at, from `at` on."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._decoder = file, codecs.getincrementaldecoder("utf-8")()
        self.text, self.at = "", 0

    def token(self) -> str:
        """The next character that is no blank; empty at the file's end."""
        while True:
            blank = _BLANK.match(self.text, self.at)
            self.at = blank.end() if blank else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._more():
                return ""

    def comma(self) -> None:
        """Go behind the comma that parts values."""
        found = self.token()
        if found != ",":
            raise ValueError("a comma is missing behind it" if found else "the file ends behind it")
        self.at += 1
        self.token()

    def value(self) -> Any:
        """The value that begins here."""
        while True:
            value, end, broken = None, len(self.text), ""
            try:
                value, end = DECODER.raw_decode(self.text, self.at)
            except ValueError as error:  # of what may not be read to its end
                broken = f"broken JSON: {error}"
            if not broken and self.text[end : end + 1] in _BEHIND:  # else a number may go on: the 0 of 0.5
                break
            if len(self.text) - self.at > MAX_LINE_BYTES:
                raise ValueError(f"it has more than {MAX_LINE_BYTES:,} characters, or is broken")
            if not self._more():
                if broken:
                    raise ValueError(broken)
                break
        check_storable(value, self.text[self.at : end])
        self.at = end
        return value

    def _more(self) -> bool:
        """Read on, and forget what lies before; False at the file's end."""
        block = self._file.read(_BLOCK)
        text = self._decoder.decode(block, final=not block)
        if not block:
            return False
        self.text, self.at = self.text[self.at :] + text, 0
        return True
