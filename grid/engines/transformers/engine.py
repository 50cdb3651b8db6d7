"""The engine `huggingface`: runs a causal language model from transformers on a CPU or one GPU, in micro-batches."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from grid.core.engine import CHOOSE, SAMPLE, Choice, JsonAnswer, Prompt, Sampled
from grid.core.errors import ConfigError, EngineDiedError, EngineError, GridError
from grid.core.types import Usage
from grid.core.util import STRICT, derive_seed
from grid.engines.choice import ChoiceSearch
from grid.engines.hosted import Occupancy, Progress
from grid.engines.language_model import LanguageModel
from grid.text.objects import whole

if TYPE_CHECKING:
    from grid.engines.language_model import Renderer
    from grid.engines.transformers.model import Grammars, TorchModel


# A thread that answers requests in micro-batches: the requests waiting when a batch is done form the next batch.


class Answered(NamedTuple):
    """A request's answer, and the seconds that the request's batch took to compute."""

    value: Any
    seconds: float


@plain_dataclass
class _Request:
    kind: str
    item: Any
    size: int
    future: Future[Answered] = field(default_factory=Future)
    abandoned: bool = False  # the caller no longer waits for the answer


class AbandonedError(Exception):
    """All requests of a batch were cancelled."""


class Ongoing:
    """A batch that is being computed: the interface for the code that computes the batch."""

    def __init__(self, requests: Sequence[_Request] = (), progress: Progress | None = None) -> None:
        self._requests, self._progress = requests, progress

    def step(self) -> None:
        """Record a step.

        The code that computes the batch has to call this method between any two steps. The method raises AbandonedError
        if all requests of the batch were cancelled.
        """
        if self._progress:
            self._progress.step()
        if self._requests and all(request.abandoned for request in self._requests):
            raise AbandonedError

    def wanted(self, index: int) -> bool:
        """Whether the request with this index in the batch still needs an answer; false if it was cancelled."""
        return not (self._requests and self._requests[index].abandoned)


Answer = Callable[[str, Sequence[Any], Ongoing], Sequence[Any]]


class Batches:
    """A thread that answers requests in batches of up to `max_batch` requests of one kind, in order of arrival.

    Args:
        answer: a function of (kind, items, batch) that returns an answer for each item, or a GridError if the item
            failed. The function calls the batch's `step` between steps; for items that are no longer `wanted`, any
            answer will do.
        max_batch: the maximum number of requests in a batch.
        max_tokens: the maximum number of tokens in a batch, counted as the largest `size` of its requests times their
            number; a request that is alone in its batch may exceed this.
        progress: records requests and steps.
    """

    def __init__(self, answer: Answer, max_batch: int, max_tokens: int, progress: Progress) -> None:
        self._answer, self._max_batch, self._max_tokens = answer, max_batch, max_tokens
        self._progress = progress
        self._arrived: queue.SimpleQueue[_Request] = queue.SimpleQueue()
        self._waiting: list[_Request] = []
        self._running = 0
        self._died: EngineDiedError | None = None
        threading.Thread(target=self._serve, daemon=True, name="batches").start()

    async def ask(self, kind: str, item: Any, size: int) -> Answered:
        """The item's answer; `size` is the number of tokens for which the request may need memory.

        If the request is cancelled during its computation, it is left out from the next step on.

        Raises:
            GridError: `answer` returned this error for the item, such as a ModelError.
            EngineError: the request failed in its batch, and failed again when computed alone.
            EngineDiedError: `answer` raised this error, now or earlier.
        """
        request = _Request(kind, item, size)
        with self._progress.request():
            self._arrived.put(request)
            try:
                return await asyncio.wrap_future(request.future)
            except asyncio.CancelledError:
                request.abandoned = True
                raise

    def check(self) -> None:
        """Raise EngineDiedError if `answer` has raised this error, or if no step has been made for too long."""
        if self._died:
            raise self._died
        self._progress.check()

    def occupancy(self) -> Occupancy:
        """The numbers of requests in the present batch and of requests that wait for a later batch."""
        return Occupancy(self._running, len(self._waiting) + self._arrived.qsize())

    def _serve(self) -> None:
        while True:
            if not self._waiting:
                self._waiting.append(self._arrived.get())
            while not self._arrived.empty():
                self._waiting.append(self._arrived.get())
            batch = [request for request in self._next() if request.future.set_running_or_notify_cancel()]
            self._running = len(batch)
            self._run(batch)
            self._running = 0

    def _next(self) -> list[_Request]:
        """Take a batch from the waiting requests."""
        batch: list[_Request] = []
        size = 0
        for request in self._waiting:
            if request.kind != self._waiting[0].kind:
                continue
            size = max(size, request.size)
            if len(batch) == self._max_batch or (batch and size * (len(batch) + 1) > self._max_tokens):
                break
            batch.append(request)
        taken = set(map(id, batch))
        self._waiting = [request for request in self._waiting if id(request) not in taken]
        return batch

    def _run(self, batch: list[_Request]) -> None:
        """Answer a batch; if the whole batch fails, answer its requests one by one."""
        if not batch:
            return
        failure = self._try(batch)
        if failure is not None and len(batch) > 1 and self._died is None:
            for request in batch:
                self._run([request])
        elif failure is not None:
            for request in batch:
                request.future.set_exception(failure)

    def _try(self, batch: list[_Request]) -> GridError | None:
        """Answer a batch, or return the error with which it failed; on return, the batch's memory has been freed."""
        if self._died:
            return self._died
        began = time.monotonic()
        try:
            answers = self._answer(batch[0].kind, [request.item for request in batch], Ongoing(batch, self._progress))
        except AbandonedError:
            return None
        except EngineDiedError as error:
            self._died = EngineDiedError(str(error))
            return self._died
        except Exception as error:  # noqa: BLE001 - out of memory, or whatever a model's code may raise
            return EngineError(f"{type(error).__name__}: {error}")
        seconds = time.monotonic() - began
        for request, answer in zip(batch, answers, strict=True):
            if isinstance(answer, GridError):
                request.future.set_exception(answer)
            else:
                request.future.set_result(Answered(answer, seconds))
        return None


INSTALL = "pip install 'agent-grid[huggingface]'"


class Serving(BaseModel):
    """How the model is served; these keys change no result, except through rounding.

    Args:
        max_batch: the maximum number of requests in one batch.
        max_batch_tokens: the maximum number of tokens in a batch's key-value cache, including padding and answers; a
            request with more tokens is computed alone.
        gpus: the share of one GPU that a replica uses, below 1, so that several replicas can share a GPU; null: a whole
            GPU.
        replicas: the number of replicas; null: `cluster.replicas`.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    max_batch: Annotated[int, Field(ge=1, le=512)] = 8
    max_batch_tokens: Annotated[int, Field(ge=1)] = 131_072
    gpus: Annotated[float, Field(gt=0, lt=1)] | None = None
    replicas: Annotated[int, Field(ge=1, le=4096)] | None = None


@plain_dataclass(frozen=True)
class _Choosing:
    """A choice to be computed; each attempt needs a new search."""

    tokens: Sequence[int]
    search: Callable[[], ChoiceSearch]


@plain_dataclass(frozen=True)
class _Loaded:
    """The parts of a loaded engine."""

    model: TorchModel
    renderer: Renderer
    grammars: Grammars | None
    context: int
    batches: Batches


@dataclass(config=STRICT, kw_only=True)
class HuggingFace(LanguageModel):
    """A model from transformers, served by one thread in batches. All other keys are those of `LanguageModel`.

    Args:
        device: the device on which the model runs.
        serving: how the model is served.
    """

    device: Literal["cpu", "cuda"] = "cpu"
    serving: Serving = Field(default_factory=Serving)
    name: ClassVar[str] = "huggingface"

    def __post_init__(self) -> None:
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None
        self._progress = Progress(time.process_time if self.device == "cpu" else None)

    @property
    def version(self) -> str:
        """The version of transformers; raises ConfigError if it is not installed."""
        try:
            return f"transformers-{metadata.version('transformers')}"
        except metadata.PackageNotFoundError:
            raise _missing() from None

    @property
    def gpus(self) -> float:
        """The number of GPUs of a replica: 1, a share of one GPU, or 0 on a CPU."""
        return (self.serving.gpus or 1) if self.device == "cuda" else 0

    @property
    def replicas(self) -> int | None:
        """The number of replicas; None if the sweep sets it."""
        return self.serving.replicas

    @property
    def capacity(self) -> int:
        """The maximum number of requests in a batch."""
        return self.serving.max_batch

    async def load(self) -> None:
        """Load the weights and the tokenizer and start serving, once.

        Raises ConfigError if the model can never work.
        """
        await self._ready()

    async def check(self) -> None:
        """Raise EngineDiedError if the GPU has failed permanently, or if no step has been made for too long."""
        if self._loaded:
            self._loaded.batches.check()

    def occupancy(self) -> Occupancy:
        """The numbers of requests in the present batch and of requests that wait for a later batch."""
        return self._loaded.batches.occupancy() if self._loaded else Occupancy(0, 0)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` completions after one prefill.

        The usage counts the prompt's tokens once for each completion; for all completions but the first, they count as
        cached tokens.

        Raises:
            ContextError: the prompt and `max_tokens` do not fit the model's context.
            ModelError: the logits are not numbers.
            EngineError, EngineDiedError: as for `Batches.ask`.
        """
        loaded = await self._ready()
        from grid.engines.transformers.model import Drawing

        max_tokens = min(max_tokens, self.max_tokens)
        tokens = self.fitting(loaded.renderer, prompt, max_tokens, loaded.context)
        matcher, stop = None, None
        if isinstance(prompt.answer, JsonAnswer) and loaded.grammars:
            matcher = await asyncio.to_thread(loaded.grammars.matcher, prompt.answer)
        elif isinstance(prompt.answer, JsonAnswer):
            stop = whole
        seeds = [derive_seed(seed, index) for index in range(n)]
        drawing = Drawing(tokens, seeds, temperature, max_tokens, matcher, stop)
        drawn, seconds = await loaded.batches.ask(SAMPLE, drawing, len(tokens) + n * max_tokens)
        texts = tuple(map(loaded.model.text, drawn))
        cut = frozenset(place for place, one in enumerate(drawn) if loaded.model.cut(one, drawing))
        usage = Usage(n, 0, n * len(tokens), (n - 1) * len(tokens), sum(map(len, drawn)), cut_answers=len(cut))
        return Sampled(texts, usage, seconds, cut)

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The exact distribution over the options, from forward passes alone.

        Raises:
            ConfigError: as for `number_search`.
            ContextError: the prompt does not fit the model's context.
            ModelError: the logits are not numbers, or no option has any mass.
            EngineError, EngineDiedError: as for `Batches.ask`.
        """
        loaded = await self._ready()
        first, stem = self.search(loaded.renderer, prompt)
        tokens = [*self.fitting(loaded.renderer, prompt, len(stem) + first.room, loaded.context), *stem]
        choosing = _Choosing(tokens, lambda: self.search(loaded.renderer, prompt)[0])
        size = len(tokens) + len(first.tokens)
        (search, nodes), seconds = await loaded.batches.ask(CHOOSE, choosing, size)
        sent = sum(len(tokens) + len(node) for node in search.asked)
        return replace(self.choice(search, sent, sent - len(tokens) - len(nodes)), computed_seconds=seconds)

    async def _ready(self) -> _Loaded:
        loaded = self._loaded
        return loaded if loaded else await asyncio.to_thread(self._load)

    def _load(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._fresh()
            return self._loaded

    def _fresh(self) -> _Loaded:
        try:
            import torch

            from grid.engines.transformers.model import Grammars, TorchModel
        except ImportError:
            raise _missing() from None
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ConfigError(
                "model.device", self.device, f"cpu, because torch {torch.__version__} finds no CUDA device"
            )
        folder = self.folder()
        renderer = self.renderer(folder)
        model = TorchModel(self._weights(folder), renderer.tokenizer)
        context = self.context_of(model.config)
        grammars = Grammars(renderer.tokenizer, model.vocabulary, model.ends) if self.structured else None
        serving = self.serving
        batches = Batches(
            lambda kind, items, batch: _answer(model, kind, items, batch),
            serving.max_batch,
            serving.max_batch_tokens,
            self._progress,
        )
        return _Loaded(model, renderer, grammars, context, batches)

    def _weights(self, folder: Path) -> Any:
        """The model on its device; weights are read from safetensors files only."""
        import torch
        from transformers import AutoModelForCausalLM

        try:
            dtype = getattr(torch, self.dtype)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True)
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError(
                "model", str(folder), f"a folder with a model that transformers loads ({error})"
            ) from None
        return model.to(self.device)


def _answer(model: TorchModel, kind: str, items: Sequence[Any], batch: Ongoing) -> Sequence[Any]:
    """Answer a batch of one kind; raises EngineDiedError if the GPU can no longer compute."""
    import torch

    try:
        if kind == SAMPLE:
            return model.sample(items, batch)
        searches = [choosing.search() for choosing in items]
        found = model.choose([choosing.tokens for choosing in items], searches, batch)
    except torch.AcceleratorError as error:
        raise EngineDiedError(f"{type(error).__name__}: {error}") from None
    pairs = zip(searches, found, strict=True)
    return [nodes if isinstance(nodes, GridError) else (search, nodes) for search, nodes in pairs]


def _missing() -> ConfigError:
    return ConfigError("model._target_", "grid.engines.transformers.engine.HuggingFace", INSTALL)
