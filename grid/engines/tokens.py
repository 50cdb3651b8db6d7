"""What the engines without weights count as tokens: words and punctuation marks."""

from __future__ import annotations

import re
from functools import lru_cache

from grid.core.engine import Prompt

_TOKEN = re.compile(r"\w+|[^\w\s]")


@lru_cache(maxsize=262144)
def count_tokens(text: str) -> int:
    """Words and punctuation marks."""
    return len(_TOKEN.findall(text))


def prompt_tokens(prompt: Prompt) -> int:
    """The tokens of a whole prompt."""
    return sum(sum(map(count_tokens, section.lines())) for section in prompt.sections)
