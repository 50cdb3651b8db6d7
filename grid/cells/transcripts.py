"""What was asked and answered, for the tables: of which cells it is kept, and each section of a prompt about once."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from grid import store
from grid.core.engine import Section
from grid.episode.requests import Message
from grid.settings.keeping import Keep

Row = dict[str, Any]
TABLES: Sequence[store.Table] = ("messages", "sections")
"""Where transcripts are."""
_MAX_TEXT = 1_000_000  # characters of one answer, and of one entry or option of a section
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_MOST_KNOWN = 200_000  # digests; all are forgotten then, as a section that is written twice does no harm


class Room:
    """How much a sweep may keep: `most` bytes as they are written, then only the rest's share.

    `since` is when and after how many cells of this run that was.
    """

    def __init__(self, root: Path, keep: Keep, most: int) -> None:
        self.keep, self._most, self._used = keep, most, store.size(root, TABLES)
        self.since: tuple[dt.datetime, int] | None = None
        self._cells = 0
        self.took(0, 0)

    def took(self, cells: int, written: int) -> None:
        """So many cells have ended, and of what they asked so many bytes were written."""
        self._cells, self._used = self._cells + cells, self._used + written
        if self.since is None and self._used >= self._most and self.keep.rest() != self.keep:
            self.since, self.keep = (dt.datetime.now(dt.UTC), self._cells), self.keep.rest()


def transcript_columns(
    cell_id: str, attempt_id: str, messages: Sequence[Message], known: set[str]
) -> dict[str, store.Columns]:
    """Columns of `messages`, in the order of asking, and of those `sections` that are not `known`; they are then.

    Columns, since a row's own objects would take as much time again.
    """
    count = len(messages)
    told = [_verbatim("answer", message.answers) for message in messages]
    columns: dict[str, Sequence[Any]] = {
        "cell_id": [cell_id] * count,
        "attempt_id": [attempt_id] * count,
        "message": range(count),
        "role": [message.role for message in messages],
        "decision": [message.decision for message in messages],
        "request": ["choose" if message.n is None else "sample" for message in messages],
        "wanted": [_kind(type(message.prompt.answer).__name__) for message in messages],
        "seed": [message.seed for message in messages],
        "n": [message.n for message in messages],
        "temperature": [message.temperature for message in messages],
        "max_tokens": [message.max_tokens for message in messages],
        "prompt": [[section.digest for section in message.prompt.sections] for message in messages],
        "answers": [answers for answers, _ in told],
        "probabilities": [message.probabilities for message in messages],
        "unreadable": [_reasons(message.unreadable) if message.unreadable else () for message in messages],
        "altered": [altered for _, altered in told],
    }
    return {"messages": columns, "sections": _section_columns(messages, columns["prompt"], known)}


def _section_columns(messages: Sequence[Message], prompts: Sequence[Sequence[str]], known: set[str]) -> store.Columns:
    if len(known) > _MOST_KNOWN:
        known.clear()
    fresh: dict[str, Section] = {}
    for message, digests in zip(messages, prompts, strict=True):
        if not known.issuperset(digests):
            new = zip(digests, message.prompt.sections, strict=True)
            fresh |= {digest: section for digest, section in new if digest not in known}
            known.update(digests)
    sections = fresh.values()
    entries = [_verbatim("entry", section.entries) for section in sections]
    options = [_verbatim("option", section.options) for section in sections]
    altered = zip(entries, options, strict=True)
    return {
        "digest": list(fresh),
        "kind": [section.kind for section in sections],
        "entries": [texts for texts, _ in entries],
        "options": [texts for texts, _ in options],
        "altered": ["; ".join(filter(None, (one, other))) or None for (_, one), (_, other) in altered],
    }


def _verbatim(what: str, texts: Sequence[str]) -> tuple[Sequence[str], str | None]:
    """The texts, and how they differ from those given where a table cannot hold them or they are without end."""
    if all(map(str.isascii, texts)) and max(map(len, texts), default=0) <= _MAX_TEXT:
        return texts, None
    kept, told = [], []
    for place, text in enumerate(texts):
        if len(text) > _MAX_TEXT:
            told.append(f"{what} {place} is cut after {_MAX_TEXT:,} of {len(text):,} characters")
            text = text[:_MAX_TEXT]
        if not text.isascii() and _HALF_PAIR.search(text):
            told.append(f"half surrogate pairs of {what} {place} are written as ?")
            text = _HALF_PAIR.sub("?", text)
        kept.append(text)
    return kept, "; ".join(told) or None


def _reasons(unreadable: Mapping[int, str]) -> list[dict[str, Any]]:
    return [{"place": place, "why": why} for place, why in unreadable.items()]


@cache
def _kind(answer: str) -> str:
    """`tool_call` for ToolCallAnswer."""
    words = re.findall(r"[A-Z][a-z]+", answer.removesuffix("Answer"))
    return "_".join(words).lower()
