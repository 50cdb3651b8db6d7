"""The requests and answers of a cell, reassembled from the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from grid.core.engine import Section
from grid.core.errors import StoreError
from grid.store.tables import read

_BEST = 5  # number of a choice's options that are printed


@dataclass(frozen=True)
class Request:
    """One request as the engine got it, and the engine's answers.

    `sections` are the parts of its prompt; a part is None if its file was damaged and put aside. `request` is `sample`
    (for `n` completions) or `choose`, and `wanted` is the kind of answer. If neither `answers` nor `probabilities` has
    values, the engine did not answer. `unreadable` maps an answer's position to the reason why the answer could not be
    used. `altered` names texts that are not verbatim.
    """

    role: str
    decision: str
    request: str
    wanted: str
    seed: int
    n: int | None
    temperature: float | None
    max_tokens: int | None
    sections: tuple[Section | None, ...]
    answers: tuple[str, ...]
    probabilities: tuple[float, ...] | None
    unreadable: Mapping[int, str]
    altered: str | None

    def text(self) -> str:
        """The prompt as plain text, in the form of `Prompt.text`."""
        return "\n\n".join("(lost)" if part is None else "\n".join(part.lines()) for part in self.sections)


def transcript(root: Path, cell_id: str) -> tuple[Request | None, ...]:
    """The requests of a cell's latest attempt, in order; a request is None if its file was damaged and put aside.

    Raises:
        StoreError: there is no such cell, its transcript was not kept, or files cannot be read.
    """
    mine = pc.field("cell_id") == cell_id
    episodes = read(root, "episodes", ["n_messages"], mine)["n_messages"].to_pylist()
    if not episodes:
        raise StoreError(f"{root}: no cell {cell_id}")
    if episodes[0] is None:
        raise StoreError(f"{root}: the requests of cell {cell_id} were not kept (store.transcripts)")
    return _requests(root, mine, {cell_id: episodes[0]})[cell_id]


def transcripts(root: Path, cell_ids: Sequence[str]) -> dict[str, tuple[Request | None, ...]]:
    """The transcripts of several cells at once, as returned by `transcript`; cells without a transcript are left out.

    Raises:
        StoreError: files cannot be read.
    """
    mine = pc.field("cell_id").isin(pa.array(cell_ids, pa.string()))
    kept = read(root, "episodes", ["cell_id", "n_messages"], mine & pc.field("n_messages").is_valid())
    counts = dict(zip(*(kept[name].to_pylist() for name in kept.column_names), strict=True))
    return _requests(root, mine, counts)


def _requests(root: Path, mine: pc.Expression, counts: Mapping[str, int]) -> dict[str, tuple[Request | None, ...]]:
    rows = read(root, "messages", where=mine).to_pylist()
    sections = _sections(root, {digest for row in rows for digest in row["prompt"]})
    found = {(row["cell_id"], row["message"]): request_of(row, sections) for row in rows}
    return {cell: tuple(found.get((cell, place)) for place in range(count)) for cell, count in counts.items()}


def _sections(root: Path, digests: set[str]) -> dict[str, Section]:
    rows = read(root, "sections", where=pc.field("digest").isin(pa.array(sorted(digests), pa.string()))).to_pylist()
    return {row["digest"]: section_of(row) for row in rows}


def section_of(row: Mapping[str, Any]) -> Section:
    """The part of a prompt that is in a row of `sections`."""
    return Section(row["kind"], tuple(row["entries"]), tuple(row["options"]))


def request_of(row: Mapping[str, Any], sections: Mapping[str, Section]) -> Request:
    """The request in a row of `messages`; `sections` maps each digest to its part of a prompt."""
    own = {name: row[name] for name in ("role", "decision", "request", "wanted", "seed", "n", "temperature")}
    return Request(
        **own,
        max_tokens=row["max_tokens"],
        sections=tuple(map(sections.get, row["prompt"])),
        answers=tuple(row["answers"]),
        probabilities=None if row["probabilities"] is None else tuple(row["probabilities"]),
        unreadable={answer["place"]: answer["why"] for answer in row["unreadable"]},
        altered=row["altered"],
    )


def lines(requests: Sequence[Request | None]) -> Iterator[str]:
    """The requests as lines for a reader, with their texts unchanged."""
    for place, request in enumerate(requests):
        if request is None:
            yield f"--- request {place}: lost, because its file is damaged"
            continue
        how = "" if request.n is None else f", n={request.n}, temperature={request.temperature}"
        yield f"--- request {place}: {request.role}, {request.decision} ({request.request}, {request.wanted}{how})"
        yield request.text()
        yield from answer_lines(request)
        if request.altered:
            yield f"(not verbatim: {request.altered})"


class Answered(Protocol):
    """An engine's answers, either in a `Request` or in an episode's message that is not stored yet."""

    @property
    def answers(self) -> tuple[str, ...]:
        """The completions."""
        ...

    @property
    def probabilities(self) -> tuple[float, ...] | None:
        """The probabilities of a choice's options."""
        ...

    @property
    def unreadable(self) -> Mapping[int, str]:
        """The reasons why answers could not be used, by the answer's position."""
        ...


def answer_lines(message: Answered) -> Iterator[str]:
    """The answers as lines for a reader: the best options of a choice, or the completions, unchanged."""
    if message.probabilities is not None:
        ranked = sorted(enumerate(message.probabilities), key=lambda option: -option[1])[:_BEST]
        yield "→ " + ", ".join(f"{number}: {share:.3f}" for number, share in ranked)
    for place, answer in enumerate(message.answers):
        why = message.unreadable.get(place)
        yield f"→ {answer}" + (f"   (unreadable: {why})" if why else "")
