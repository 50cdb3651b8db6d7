"""A replica that also measures: it takes random weights, gives full log-probabilities, and times choices by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grid.cluster.replica import Hosting
from grid.core.engine import Prompt
from launch.benchmarks.gpu_model import weightless
from launch.benchmarks.throughput import RecordingReplica


class MeasuredReplica(RecordingReplica):
    """Its engine is vLLM's with `further` arguments, so that nothing but these differs from a sweep's."""

    def __init__(self, name: str, model: Mapping[str, Any], hosting: Hosting) -> None:
        super().__init__(name, model, hosting)
        engine: Any = self._engine
        own = engine._arguments
        engine._arguments = lambda: own() | self.further(engine.folder())

    @staticmethod
    def further(folder: Path) -> dict[str, Any]:
        """Arguments of vLLM beside the engine's own: random weights where the folder has none."""
        return {"load_format": "dummy"} if weightless(folder) else {}

    async def told(self) -> dict[str, Any]:
        """What vLLM says of its KV cache, and its process."""
        engine: Any = self._engine
        started = engine._ready[0]
        cache = started.engine.vllm_config.cache_config
        blocks = cache.num_gpu_blocks or 0
        return {"kv_cache_tokens": blocks * cache.block_size, "engine_process": started.process}

    async def choice_over_prefill(self, pairs: Sequence[tuple[Prompt, Prompt]]) -> list[dict[str, float]]:
        """Of each pair the seconds of a prefill of the first and of a choice of the second, and of its first round.

        Both are equally long, and none of them was asked before: else the prefix cache would answer.
        """
        engine: Any = self._engine
        found = []
        for text, prompt in pairs:
            began = time.perf_counter()
            plain = await engine.sample(text, n=1, temperature=0.0, max_tokens=1, seed=0)
            middle = time.perf_counter()
            before = len(self.recorded)
            chosen = await engine.choose(prompt, seed=0)
            ended = time.perf_counter()
            first = self.recorded[before]
            found.append(
                {
                    "tokens": plain.usage.input_tokens,
                    "cached": plain.usage.cached_input_tokens,
                    "prefill": middle - began,
                    "choice": ended - middle,
                    "first_round": first.ended - first.began,
                    "passes": chosen.usage.forward_passes,
                    "computed": chosen.usage.input_tokens - chosen.usage.cached_input_tokens,
                }
            )
        return found

    async def choices_over_prefills(self, texts: Sequence[Prompt], prompts: Sequence[Prompt]) -> tuple[float, float]:
        """Seconds of all prefills at once, then of all choices at once, as a busy replica has them. None was asked."""
        engine: Any = self._engine
        began = time.perf_counter()
        await asyncio.gather(*(engine.sample(one, n=1, temperature=0.0, max_tokens=1, seed=0) for one in texts))
        middle = time.perf_counter()
        await asyncio.gather(*(engine.choose(one, seed=0) for one in prompts))
        return middle - began, time.perf_counter() - middle
