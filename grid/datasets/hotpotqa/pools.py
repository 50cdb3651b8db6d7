"""HotpotQA's files as pools of parts and of paragraphs, each file read once a process; how one file makes two pools."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from grid.core.errors import ConfigError
from grid.core.types import Skipped
from grid.datasets.files import read_jsonl
from grid.datasets.hotpotqa.kept import Pool, kept
from grid.datasets.hotpotqa.parts import Part, part_of
from grid.datasets.hotpotqa.records import (
    KINDS,
    MAX_PARAGRAPH_CHARACTERS,
    MAX_QUESTION_CHARACTERS,
    objects,
    one_line,
    question,
)
from grid.worlds.search.corpus import Paragraph

CORPUS = "dataset.corpus"
DEV, SAMPLE = "hotpot_dev_distractor_v1.json", "distractor_sample.jsonl"
"""The files that are looked for in a folder, the first one first."""


def file_of(key: str, path: str | None) -> Path:
    """The file that a key names, or that lies in the folder which it names; raises ConfigError where there is none."""
    paragraphs = "a file of JSON Lines with title and text"
    questions = f"a file of HotpotQA's distractor setting, or a folder with {DEV} or {SAMPLE}"
    allowed = paragraphs if key == CORPUS else questions
    if path is None:
        raise ConfigError(key, None, allowed)
    named = Path(path).expanduser()
    try:
        if named.is_dir():
            named = next((named / name for name in (DEV, SAMPLE) if (named / name).is_file()), named)
        if named.is_file():
            return named
    except OSError as error:  # a name that is too long, say
        raise ConfigError(key, f"{path:.80}", f"{allowed} ({error.strerror})") from None
    raise ConfigError(key, path, allowed)


def read_pool(key: str, path: Path) -> Pool:
    """A file of questions.

    Raises:
        DataError: the file is broken.
        ConfigError: no question lists a paragraph, or none can be a part.
    """
    pool = _read(path, *_state(path))
    if not pool.paragraphs:
        raise ConfigError(
            key,
            str(path),
            "questions that list their paragraphs (`context`), as those of HotpotQA's distractor setting do; "
            f"none of {pool.records:,} records here does{_commonest(pool.skipped)}",
        )
    if not pool.parts:
        allowed = f"questions with two supporting paragraphs; none of {pool.records:,} records here can be used"
        raise ConfigError(key, str(path), f"{allowed}{_commonest(pool.skipped)}")
    return pool


@lru_cache(maxsize=4)
def _read(path: Path, size: int, changed: int) -> Pool:
    """A file's pool; another size or time says that it is not the same any more."""
    return kept(path, _made)


def _made(path: Path) -> Pool:
    parts: dict[str, Part] = {}
    texts: dict[str, str] = {}
    paragraphs: dict[Paragraph, None] = {}
    skipped, records = list[Skipped](), 0
    for place, record in objects(path):
        records += 1
        identity = place
        try:
            found = question(record)
            identity = f"{place}, {found.id}"
            paragraphs.update(dict.fromkeys(Paragraph(context.title, context.text) for context in found.contexts))
            if found.id in parts:
                raise ValueError("its _id is another record's")
            if found.text in texts:
                raise ValueError(f"its question is that of {texts[found.text]}")
            parts[found.id] = part_of(found)
            texts[found.text] = found.id
        except ValueError as error:
            skipped.append(Skipped(identity, str(error)))
    return Pool(tuple(parts.values()), tuple(paragraphs), tuple(skipped), records)


def read_paragraphs(path: Path) -> tuple[tuple[Paragraph, ...], tuple[Skipped, ...]]:
    """A corpus of JSON Lines with `title` and `text`, each paragraph once, and what is none.

    Raises:
        DataError: the file is broken.
        ConfigError: it has no paragraph.
    """
    found, skipped = _paragraphs(path, *_state(path))
    if not found:
        raise ConfigError(CORPUS, str(path), f"JSON Lines with title and text{_commonest(skipped)}")
    return found, skipped


@lru_cache(maxsize=2)
def _paragraphs(path: Path, size: int, changed: int) -> tuple[tuple[Paragraph, ...], tuple[Skipped, ...]]:
    found: dict[Paragraph, None] = {}
    skipped = []
    for number, record in read_jsonl(path):
        title, text = record.get("title"), record.get("text")
        if not isinstance(title, str) or not isinstance(text, str) or not one_line(title) or not one_line(text):
            skipped.append(Skipped(f"corpus, line {number}", "title and text must be texts that are not empty"))
        elif len(title) > MAX_QUESTION_CHARACTERS or len(text) > MAX_PARAGRAPH_CHARACTERS:
            why = f"it has more than {MAX_PARAGRAPH_CHARACTERS:,} characters"
            skipped.append(Skipped(f"corpus, line {number}", why))
        else:
            found[Paragraph(one_line(title), one_line(text))] = None
    return tuple(found), tuple(skipped)


def halved(parts: Sequence[Part]) -> tuple[list[Part], list[Part]]:
    """Parts for cases and parts for demonstrations: of each kind every second one, in the order of their ids' hashes.

    Both stand in the order of the parts. The first is the larger one where a kind's number is odd.
    """
    for_cases: set[str] = set()
    for kind in KINDS:
        own = sorted((part.id for part in parts if part.kind == kind), key=_hashed)
        for_cases.update(own[::2])
    return [part for part in parts if part.id in for_cases], [part for part in parts if part.id not in for_cases]


def others(parts: Iterable[Part], used: Iterable[Part]) -> list[Part]:
    """The parts that are none of those used, by id and by question."""
    used = list(used)
    ids, texts = {part.id for part in used}, {part.question for part in used}
    return [part for part in parts if part.id not in ids and part.question not in texts]


def _hashed(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()


def _state(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _commonest(skipped: Sequence[Skipped]) -> str:
    """The commonest reason, for an error."""
    reasons = Counter(skip.reason for skip in skipped).most_common(1)
    return f" (of most: {reasons[0][0]:.120})" if reasons else ""
