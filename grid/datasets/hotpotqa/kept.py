"""What was made of a large file, in the user's cache: reading it again takes seconds in the place of a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from grid.code_digest import digest_of
from grid.core.cache import made_once
from grid.core.errors import DataError
from grid.core.types import Json, Skipped, to_json
from grid.core.untrusted import loads
from grid.datasets.files import fingerprint
from grid.datasets.hotpotqa.parts import Part, PartStep
from grid.worlds.search.corpus import Paragraph

_LARGE = 100_000_000
"""Bytes of a file from which on it is worth it."""
_PARTS, _PARAGRAPHS, _SKIPPED, _COUNT = "parts.jsonl", "paragraphs.jsonl", "skipped.jsonl", "records.json"


class Pool(NamedTuple):
    """A file of questions: those that can be parts, in its order, all paragraphs once, and what cannot be a part.

    `records` counts what the file holds.
    """

    parts: tuple[Part, ...]
    paragraphs: tuple[Paragraph, ...]
    skipped: tuple[Skipped, ...]
    records: int


def kept(path: Path, make: Callable[[Path], Pool]) -> Pool:
    """The pool of a file; of a large one out of the cache, for as long as file and code are the same.

    Raises DataError where the cache is damaged, and whatever `make` raises.
    """
    if path.stat().st_size < _LARGE:
        return make(path)
    key = f"{fingerprint(path)}-{digest_of(make)}"
    folder = made_once("hotpotqa", key, (_PARTS, _PARAGRAPHS, _SKIPPED, _COUNT), partial(_write, partial(make, path)))
    try:
        (count,) = _lines(folder / _COUNT)
        return Pool(
            tuple(_part(*line) for line in _lines(folder / _PARTS)),
            tuple(Paragraph(*line) for line in _lines(folder / _PARAGRAPHS)),
            tuple(Skipped(*line) for line in _lines(folder / _SKIPPED)),
            int(*count),
        )
    except (OSError, ValueError, TypeError, RecursionError):
        raise DataError(folder, None, "what was kept of a file cannot be read: remove the folder") from None


def _write(make: Callable[[], Pool], target: Path) -> None:
    pool = make()
    written: dict[str, Iterator[Json]] = {
        _PARTS: map(_told, pool.parts),
        _PARAGRAPHS: ([one.title, one.text] for one in pool.paragraphs),
        _SKIPPED: ([skip.record, skip.reason] for skip in pool.skipped),
        _COUNT: iter([[pool.records]]),
    }
    for name, lines in written.items():
        with (target / name).open("w", encoding="utf-8") as file:
            file.writelines(f"{to_json(line)}\n" for line in lines)


def _lines(file: Path) -> Iterator[list[Any]]:
    """The lists of a file that was written here."""
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield loads(line)


def _told(part: Part) -> Json:
    steps: list[Json] = [[step.tool, [*step.pieces], step.result, step.title] for step in part.steps]
    return [part.id, part.question, part.answer, part.kind, steps]


def _part(identity: str, question: str, answer: str, kind: str, steps: Iterable[Sequence[Any]]) -> Part:
    own = (PartStep(tool, tuple(pieces), result, title) for tool, pieces, result, title in steps)
    return Part(identity, question, answer, kind, tuple(own))
