"""What the lexical engine makes of a prompt's memory: what was done elsewhere at a substep of much the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import lru_cache

import numpy as np

from grid.core.engine import Prompt
from grid.core.types import NO_TOOL
from grid.engines.places import name_of
from grid.text.words import stems

_STEP = re.compile(r"[\d.]+ (?P<text>.+?) -> (?:.*?\{\"tool\": \"(?P<tool>[^\"]+)\"|.*no tool$)")


def shares(prompt: Prompt, options: Sequence[str], words: Set[str]) -> np.ndarray:
    """Of each option how like the present substep's words are to those of a substep at which its tool was taken.

    Of all such substeps the likest: the share of words that both have among those that either has, 0 to 1; shape
    (options,). Without an outline a trace's steps have no words.
    """
    found: dict[str, float] = {}
    for trace in prompt.entries("memory")[1:]:
        for tool, known in _steps(trace):
            share = len(known & words) / len(known | words)
            found[tool] = max(share, found.get(tool, 0.0))
    return np.array([found.get(name_of(option), 0.0) if found else 0.0 for option in options])


@lru_cache(maxsize=4096)
def _steps(trace: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The steps of a trace that have words: the tool, or `no_tool`, and the substep's words."""
    steps = filter(None, map(_STEP.match, trace.splitlines()))
    read = ((step["tool"] or NO_TOOL, frozenset(stems(step["text"]))) for step in steps)
    return tuple((tool, words) for tool, words in read if words)
