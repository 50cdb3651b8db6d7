"""HotpotQA's questions with their paragraphs, read as they are released, one after another and with limits.

Two forms are read. The official distractor files are one JSON list of objects with `_id`, `question`, `answer`, `type`,
`supporting_facts` ([title, sentence]) and `context` ([title, [sentences]]). JSON Lines have the same objects, or the
hub's, with `id` and lists by name in the place of pairs.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grid.core.errors import DataError
from grid.datasets.files import read_jsonl
from grid.datasets.json_lists import read_json_list
from grid.text.short_answers import normalised

BRIDGE, COMPARISON = "bridge", "comparison"
KINDS = (BRIDGE, COMPARISON)
MAX_QUESTION_CHARACTERS = 2_000
MAX_PARAGRAPHS = 100
MAX_PARAGRAPH_CHARACTERS = 20_000


@dataclass(frozen=True)
class Context:
    """One paragraph of a question, its sentences, and which of them the answer rests on."""

    title: str
    sentences: tuple[str, ...]
    facts: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The whole paragraph."""
        return " ".join(self.sentences)


@dataclass(frozen=True)
class Question:
    """A question as it is released. All texts stand on one line, HTML's entities are read."""

    id: str
    text: str
    answer: str
    kind: str
    contexts: tuple[Context, ...]

    @property
    def supporting(self) -> list[Context]:
        """The paragraphs that the answer rests on."""
        return [context for context in self.contexts if context.facts]


def objects(path: Path) -> Iterator[tuple[str, object]]:
    """Every record of a file with its place in it (`line 3`, `record 3`), of whichever form; raises DataError."""
    try:
        with path.open("rb") as file:
            first = file.read(1 << 16).lstrip()[:1]
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None
    if first == b"{":
        yield from ((f"line {number}", record) for number, record in read_jsonl(path))
    else:
        yield from ((f"record {number}", record) for number, record in read_json_list(path))


def question(record: object) -> Question:
    """A record as a question; raises ValueError, with the reason, where it is none."""
    if not isinstance(record, dict):
        raise ValueError(f"an object is expected, not {type(record).__name__}")
    if record.get("context") is None:
        raise ValueError("it has no context, the paragraphs")
    found = {key: _text(record, key) for key in ("question", "answer", "type")}
    if found["type"] not in KINDS:
        raise ValueError(f"its type is {found['type']!r:.40}, which is none of {', '.join(KINDS)}")
    if not normalised(found["answer"]):
        raise ValueError("its answer has no word but articles")
    identity = record.get("_id", record.get("id"))
    if not isinstance(identity, str) or not identity.strip() or len(identity) > 200:
        raise ValueError("it has no _id of 1 to 200 characters")
    facts = _facts(record.get("supporting_facts"))
    contexts = _contexts(record.get("context"), facts)
    return Question(one_line(identity), found["question"], found["answer"], found["type"], contexts)


def one_line(text: str) -> str:
    """A text with HTML's entities read, and with single blanks."""
    return " ".join(html.unescape(text).split())


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    text = one_line(value) if isinstance(value, str) and len(value) <= MAX_QUESTION_CHARACTERS else ""
    if not text:
        raise ValueError(f"{key} must be a text of 1 to {MAX_QUESTION_CHARACTERS:,} characters")
    return text


def _facts(value: object) -> dict[str, set[int]]:
    """By title the numbers of the sentences that the answer rests on."""
    found: dict[str, set[int]] = {}
    for title, number in _pairs(value, "supporting_facts", "title", "sent_id"):
        if not isinstance(title, str) or isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError("supporting_facts must have titles with numbers of sentences")
        found.setdefault(one_line(title), set()).add(number)
    return found


def _contexts(value: object, facts: Mapping[str, set[int]]) -> tuple[Context, ...]:
    """The paragraphs, each title once."""
    found: dict[str, Context] = {}
    for title, sentences in _pairs(value, "context", "title", "sentences"):
        if not isinstance(title, str) or not isinstance(sentences, list):
            raise ValueError("context must have titles with lists of sentences")
        if not all(isinstance(sentence, str) for sentence in sentences):
            raise ValueError(f"the paragraph {title!r:.60} has a sentence that is no text")
        if sum(map(len, sentences)) > MAX_PARAGRAPH_CHARACTERS or len(title) > MAX_QUESTION_CHARACTERS:
            raise ValueError(f"the paragraph {title!r:.60} has more than {MAX_PARAGRAPH_CHARACTERS:,} characters")
        name, lines = one_line(title), tuple(map(one_line, sentences))
        if name and any(lines) and name not in found:
            rests = tuple(sorted(number for number in facts.get(name, ()) if number < len(lines)))
            found[name] = Context(name, lines, rests)
    return tuple(found.values())


def _pairs(value: object, key: str, first: str, second: str) -> Sequence[tuple[object, object]]:
    """A list of pairs, written as such or as two lists by name."""
    if isinstance(value, dict):
        one, other = value.get(first), value.get(second)
        if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
            raise ValueError(f"{key} must have lists {first} and {second} of one length")
        pairs = list(zip(one, other, strict=True))
    elif isinstance(value, list):
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise ValueError(f"{key} must be a list of pairs")
        pairs = [(pair[0], pair[1]) for pair in value]
    else:
        raise ValueError(f"it has no {key}")
    if len(pairs) > MAX_PARAGRAPHS:
        raise ValueError(f"{key} has {len(pairs):,} entries, {MAX_PARAGRAPHS} at most are read")
    return pairs
