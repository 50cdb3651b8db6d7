"""Is an answer to a query of GTA right? As the authors' evaluator says (their `gta_bench.py`)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grid.core.types import Json, ToolCall

IMAGE_TOOLS = ("DrawBox", "AddText", "Plot", "TextToImage", "ImageStylization")
"""Those whose result is an image."""
Alike: TypeAlias = Callable[[str, str], float]
"""The cosine of two texts' sentence embeddings; the authors' model is all-mpnet-base-v2."""


@dataclass(frozen=True)
class Lists:
    """What an answer must and must not say: of every group of the white list one alias, of the black list none."""

    whitelist: tuple[tuple[str, ...], ...]
    blacklist: tuple[tuple[str, ...], ...]

    def allow(self, answer: str) -> bool:
        """Whether an answer is right. Aliases are whole words, in any case."""
        said = all(_says(answer, group) for group in self.whitelist)
        return said and not any(_says(answer, group) for group in self.blacklist)


Wanted: TypeAlias = Lists | tuple[str, ...] | None
"""Lists for facts, answers to be like for free texts; None: the query asks for an image and not for an answer."""


def answer_score(answer: str | None, wanted: Lists | Sequence[str], alike: Alike | None) -> float | None:
    """From 0 to 1: 1 or 0 by lists; for free texts the likeness to the nearest (None where nobody tells it)."""
    if isinstance(wanted, Lists):
        return float(bool(answer) and wanted.allow(answer or ""))
    if alike is None:
        return None
    return max((max(alike(answer, one), 0.0) for one in wanted), default=0.0) if answer else 0.0


def image_score(made: Sequence[ToolCall], gold: Sequence[ToolCall], alike: Alike) -> float:
    """From 0 to 1: over the gold calls that make images, the product of the likenesses of their arguments.

    Each is held against the last call of the same tool; 0 where there is none.
    """
    last: Mapping[str, Mapping[str, Json]] = {call.tool: call.arguments for call in made}
    score = 1.0
    for call in gold:
        if call.tool in IMAGE_TOOLS:
            if call.tool not in last:
                return 0.0
            score *= max(alike(json.dumps(dict(call.arguments)), json.dumps(dict(last[call.tool]))), 0.0)
    return score


def _says(answer: str, aliases: Sequence[str]) -> bool:
    return any(re.search(rf"\b{re.escape(alias)}\b", answer, re.IGNORECASE) for alias in aliases)
