"""What an episode asked and was answered: a few requests at a time, since some ask hundreds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.viewer.index import Index
from grid.store.transcripts import Request, request_of, section_of

PAGE = 10
"""Requests of one page."""
_BEST = 8  # options of a choice that are shown


@dataclass(frozen=True)
class Asked:
    """A request by its number; `best` are a choice's likeliest options, by number."""

    number: int
    request: Request
    best: Sequence[tuple[int, float]]


def read(index: Index, row: Mapping[str, Any], page: int) -> list[Asked]:
    """The requests of an episode on a page, counted from 1; those whose file was damaged are lacking.

    Raises:
        StoreError: a file cannot be read.
    """
    first = (page - 1) * PAGE
    mine = {"cell": row["cell_id"], "attempt": row["attempt_id"], "first": first, "end": first + PAGE}
    query = (
        "SELECT * FROM $files WHERE cell_id = $cell AND attempt_id = $attempt\n"
        "  AND message >= $first AND message < $end ORDER BY message"
    )
    rows = index.rows("messages", query, mine)
    digests = sorted({digest for request in rows for digest in request["prompt"]})
    parts = index.rows("sections", "SELECT * FROM $files WHERE digest IN $digests", {"digests": digests or [""]})
    sections = {part["digest"]: section_of(part) for part in parts}
    return [_asked(request["message"], request_of(request, sections)) for request in rows]


def _asked(number: int, request: Request) -> Asked:
    ranked = sorted(enumerate(request.probabilities or ()), key=lambda option: -option[1])
    return Asked(number, request, ranked[:_BEST])
