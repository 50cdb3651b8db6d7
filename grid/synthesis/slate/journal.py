"""A stage's file: every answer of the model on a line, with what it cost and which rules it broke."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from grid.core.errors import DataError, StoreError
from grid.core.untrusted import loads

Key = tuple[str, int, str]
"""Item, attempt, prompt."""


class Broken(BaseModel):
    """A rule that an answer breaks: the gate's name, and a text that says how it is mended."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    gate: str
    text: str


class Line(BaseModel):
    """One answer.

    `prompt` is 16 hexadecimal digits of all that was asked and how, tokens are null where the server told none, `money`
    US dollars (null: the price or the tokens are not known), `answer` the text as it came; `refused` are the rules that
    it breaks, empty where it was kept.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    item: str
    attempt: int
    prompt: str
    seed: int
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    money: float | None
    answer: str
    refused: list[Broken]

    @property
    def key(self) -> Key:
        """What it is found by."""
        return self.item, self.attempt, self.prompt


class Journal:
    """The answers of one stage; each is on the disk before anything follows from it.

    A line that was cut off, where a process died as it wrote, is removed, and said.

    Raises:
        DataError: a line that is none, or two of one question.
        StoreError: the file cannot be written.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path = path
        self.lines: dict[Key, Line] = {}
        if path.exists():
            self._read(say)

    def find(self, key: Key) -> Line | None:
        """The answer to a question, if it was ever given."""
        return self.lines.get(key)

    def add(self, line: Line) -> None:
        """Write one more answer to the end."""
        self.lines[line.key] = line
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(_written(line))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be written ({error.strerror})") from None

    def close(self, refused: Mapping[Key, list[Broken]]) -> None:
        """Write the file anew, in the order of its keys, with what rules now say of the answers that were used."""
        for key, broken in refused.items():
            self.lines[key] = self.lines[key].model_copy(update={"refused": broken})
        write(self.path, b"".join(_written(self.lines[key]) for key in sorted(self.lines)))

    def _read(self, say: Callable[[str], None]) -> None:
        try:
            data = self.path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            if len(whole) < len(data):
                say(f"{self.path}: its last line was cut off; it is removed, and asked for again")
                os.truncate(self.path, len(whole))
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read and mended ({error.strerror})") from None
        for number, text in enumerate(whole.split(b"\n")[:-1], 1):
            try:
                line = Line.model_validate(loads(text))
            except (ValidationError, ValueError, RecursionError) as error:
                why = str(error).split("\n", 1)[0]
                raise DataError(
                    self.path, number, f"no line of this pipeline ({why}); remove it, or the file"
                ) from None
            if line.key in self.lines:
                raise DataError(self.path, number, f"{line.item} attempt {line.attempt} stands in it twice")
            self.lines[line.key] = line


def write(path: Path, data: bytes) -> None:
    """Write a whole file, or leave the one that is there; raises StoreError."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from None


def as_line(value: Any) -> bytes:
    """A value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _written(line: Line) -> bytes:
    return json.dumps(line.model_dump()).encode() + b"\n"  # in ASCII: an answer may hold half a surrogate pair
