"""Read untrusted dataset files, with limits, and with file and line in every error."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from grid.core.errors import ConfigError, DataError, nearest, one_line
from grid.core.untrusted import DECODER, check_storable, loads_storable
from grid.text.objects import LOADER

# A JSON list of any length is read value by value, with little more than one value in memory at a time.


_BLOCK = 1 << 20  # bytes
_BLANK = re.compile(r"[ \t\n\r]*")
_BEHIND = (" ", "\t", "\n", "\r", ",", "]")
"""The characters that may follow a value in a list."""


def read_json_list(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield each value of a file's list as a pair (number, value), with numbers from 1.

    Raises:
        DataError: the file cannot be read, is not a JSON list, is broken or ends too early, or a value has more than
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
                raise ValueError("there is more text after the list")
    except (ValueError, RecursionError) as error:
        raise DataError(path, None, f"value {number}: {error}" if number else str(error)) from None
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None


class _Window:
    """The part of a file that is in memory; parsing continues at `at`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._decoder = file, codecs.getincrementaldecoder("utf-8")()
        self.text, self.at = "", 0

    def token(self) -> str:
        """The next character that is not blank; empty at the file's end."""
        while True:
            blank = _BLANK.match(self.text, self.at)
            self.at = blank.end() if blank else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._more():
                return ""

    def comma(self) -> None:
        """Move past the comma between two values."""
        found = self.token()
        if found != ",":
            raise ValueError("a comma is missing after the value" if found else "the file ends after the value")
        self.at += 1
        self.token()

    def value(self) -> Any:
        """The value that begins at `at`."""
        while True:
            value, end, broken = None, len(self.text), ""
            try:
                value, end = DECODER.raw_decode(self.text, self.at)
            except ValueError as error:  # the rest of the value may not have been read yet
                broken = f"broken JSON: {error}"
            whole = not broken and self.text[end : end + 1] in _BEHIND  # else a number may continue (0 of 0.5)
            if (end if whole else len(self.text)) - self.at > MAX_LINE_BYTES:
                raise ValueError(f"the value has more than {MAX_LINE_BYTES:,} characters, or is broken JSON")
            if whole or not self._more():
                if broken:
                    raise ValueError(broken)
                break
        check_storable(value, self.text[self.at : end])
        self.at = end
        return value

    def _more(self) -> bool:
        """Read the next block and drop the text before `at`; return False if the file has ended."""
        block = self._file.read(_BLOCK)
        text = self._decoder.decode(block, final=not block)
        if not block:
            return False
        self.text, self.at = self.text[self.at :] + text, 0
        return True


# Read untrusted dataset files, with limits, and with file and line in every error.


MAX_LINE_BYTES = 4_000_000
MAX_FILE_BYTES = 1_000_000_000


def folder(key: str, path: str | None, *needed: str) -> Path:
    """The dataset's folder.

    Raises ConfigError, which names the key, if no folder is given, if the folder cannot be found or read, or if one of
    the `needed` files is missing or empty.
    """
    names = ", ".join(needed)
    holding = f"; it must contain {names}" if needed else ""
    if path is None:
        raise ConfigError(key, None, f"give the folder that contains {names}" if needed else "give a folder")
    root = Path(path).expanduser()
    try:
        found = root.is_dir()
    except OSError as error:  # for example, because a name is too long
        raise ConfigError(key, f"{path:.80}", f"a folder that can be read ({error.strerror})") from None
    if not found:
        raise ConfigError(key, path, f"no such folder{holding}")
    for name in needed:
        if not (root / name).is_file():
            raise ConfigError(key, path, f"the folder lacks {name}{holding}")
        if (root / name).stat().st_size == 0:
            raise ConfigError(key, path, f"{name} is empty")
    return root


def read_jsonl(path: Path, own: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line that is not blank as a pair (line number from 1, object).

    Raises DataError if a line is too long, or is neither blank nor a JSON object, and OSError if the file cannot be
    opened. If `own` is true, the user wrote the file, and a duplicate key is an error. In a released file, as in its
    authors' code, the last of several equal keys counts.
    """
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
            if len(line) > MAX_LINE_BYTES:
                raise DataError(path, number, f"the line has more than {MAX_LINE_BYTES:,} bytes")
            if not line.strip():
                continue
            try:
                record = loads_storable(line, once=own)
            except (ValueError, RecursionError) as error:
                raise DataError(path, number, f"broken JSON: {error}") from None
            if not isinstance(record, dict):
                raise DataError(path, number, f"a JSON object is expected, not {type(record).__name__}")
            yield number, record


def wrong_line(error: ValidationError, form: type[BaseModel]) -> str:
    """The error in a line of a user's file: an unknown key (the text lists the known keys) or else the first error.

    No value is shown.
    """
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    place = ".".join(map(str, first["loc"]))
    if first["type"] != "extra_forbidden":
        return one_line(f"{place}: {first['msg']}", 300)
    keys = _keys(form, first["loc"][:-1])
    key = str(first["loc"][-1])
    return one_line(
        f"{place:.80}: there is no key {key!r:.80}{nearest(key, keys)}; the keys are {', '.join(keys)}", 400
    )


def _keys(form: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """The keys that the form allows in the object at the given place, the required keys first."""
    for key in place:
        if isinstance(key, str) and key in form.model_fields:
            form = next(iter(_forms(form.model_fields[key].annotation)), form)
    return sorted(form.model_fields, key=lambda key: not form.model_fields[key].is_required())


def _forms(annotation: Any) -> Iterator[type[BaseModel]]:
    """The pydantic models named in an annotation such as `list[Call]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in get_args(annotation):
        yield from _forms(one)


def read_json(path: Path, most: int = MAX_FILE_BYTES, own: bool = False) -> Any:
    """A whole file, read as one JSON value; raises DataError if the file is larger than `most` bytes or cannot be read.

    `own` has the same meaning as in `read_jsonl`.
    """
    try:
        if path.stat().st_size > most:
            raise DataError(path, None, f"the file has more than {most:,} bytes")
        return loads_storable(path.read_bytes(), once=own)
    except (ValueError, RecursionError) as error:
        raise DataError(path, None, f"broken JSON: {error}") from None
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None


def read_stock(path: Path) -> Any:
    """A YAML file of this project, read as plain values."""
    return yaml.load(path.read_text(encoding="utf-8"), LOADER)  # noqa: S506 - it loads plain values only


def fingerprint(*paths: Path) -> str:
    """Twelve hexadecimal digits of a hash of the files' contents; the order of the files matters."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]
