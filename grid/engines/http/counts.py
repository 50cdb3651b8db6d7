"""A server's `usage` as counts: read in the one way that explains it, and not at all where none or several do.

Servers leave it out, fill it with zeros, put cached tokens beside the prompt's, or thought beside the completion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from grid.core.types import Usage

_MOST = 2**27  # tokens: more than any model's context


class Counts(NamedTuple):
    """Tokens of a prompt, of them those that a cache had, of what was generated, and of that those of a thought."""

    input: int
    cached: int
    output: int
    reasoning: int

    def usage(self, **more: int) -> Usage:
        """As a Usage with further counts."""
        return Usage(
            input_tokens=self.input,
            cached_input_tokens=self.cached,
            output_tokens=self.output,
            reasoning_tokens=self.reasoning,
            **more,
        )


def counts(usage: Any, said: bool) -> Counts | None:
    """What a server's `usage` tells of an answer; None where that is nothing, or contradicts itself.

    `said`: whether the answer has a text, a call or a thought, which take tokens. A total, where there is one, tells
    what the other counts leave out: cached tokens may stand beside the prompt's, and thought beside the completion.
    More cached tokens than the prompt has can only stand beside it, whether or not the total has them.
    """
    try:
        return _explained(usage, said)
    except ValueError:
        return None


def _explained(usage: Any, said: bool) -> Counts | None:
    prompt, completion = _told(usage, "prompt_tokens"), _told(usage, "completion_tokens")
    if prompt is None or completion is None:
        return None
    total = _told(usage, "total_tokens")
    cached = _told(usage, "prompt_tokens_details", "cached_tokens") or 0
    thought = _told(usage, "completion_tokens_details", "reasoning_tokens") or _told(usage, "reasoning_tokens") or 0
    readings = {
        (read, written)
        for read in _readings(prompt, cached, total is not None)
        for written in _readings(completion, thought, total is not None)
        if total in (None, read + written) or (cached > prompt and total == prompt + written)
    }
    if len(readings) != 1:
        return None
    ((read, written),) = readings
    return Counts(read, cached, written, thought) if read and (written or not said) else None


def _readings(whole: int, part: int, beside: bool) -> set[int]:
    """A count with its part: within it where it can be, else, or where it may be `beside` it, the sum."""
    within = {whole} if part <= whole else set[int]()
    return within | {whole + part} if beside or not within else within


def _told(found: Any, *path: str) -> int | None:
    """The number at a place; None where nothing is there. Raises ValueError for what is no count of tokens."""
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float) or found != found // 1:
        raise ValueError(found)
    if not 0 <= found <= _MOST:
        raise ValueError(found)
    return int(found)
