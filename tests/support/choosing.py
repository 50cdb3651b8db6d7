"""What the transformers engine chooses, and how far two distributions are apart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grid.core.engine import Choice, Prompt
from grid.engines.transformers.engine import HuggingFace


def choices(folder: Path, prompts: Sequence[Prompt], **config: Any) -> list[Choice]:
    """What an engine answers to all prompts asked at once."""
    engine = HuggingFace(path=str(folder), dtype="float32", structured=False, **config)

    async def ask() -> list[Choice]:
        return await asyncio.gather(*(engine.choose(prompt, seed=0) for prompt in prompts))

    return asyncio.run(ask())


def distance(left: Sequence[float] | np.ndarray, right: Sequence[float] | np.ndarray) -> float:
    """Total variation."""
    return float(np.abs(np.asarray(left) - np.asarray(right)).sum() / 2)
