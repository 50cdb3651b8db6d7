"""The engine `huggingface`: a causal language model of transformers on a CPU or one GPU, with micro-batches."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from grid.core.engine import CHOOSE, SAMPLE, Choice, JsonAnswer, Prompt, Sampled
from grid.core.errors import ConfigError, EngineDiedError, GridError
from grid.core.seeds import derive_seed
from grid.core.strict import STRICT
from grid.core.types import Usage
from grid.engines.choice import ChoiceSearch
from grid.engines.hosted import Occupancy
from grid.engines.language_model import LanguageModel
from grid.engines.progress import Progress
from grid.engines.transformers.batches import Batches, Ongoing
from grid.text.objects import whole

if TYPE_CHECKING:
    from grid.engines.rendering import Renderer
    from grid.engines.transformers.grammar import Grammars
    from grid.engines.transformers.model import TorchModel

INSTALL = "pip install 'agent-grid[huggingface]'"


class Serving(BaseModel):
    """How requests are batched: no result depends on it but by rounding.

    Args:
        max_batch: requests in one batch.
        max_batch_tokens: what a batch may come to hold in its key-value cache, padding and answers included; a
            request that is larger by itself is a batch of its own.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    max_batch: Annotated[int, Field(ge=1, le=512)] = 8
    max_batch_tokens: Annotated[int, Field(ge=1)] = 131_072


@plain_dataclass(frozen=True)
class _Choosing:
    """A choice to make; each try takes a search of its own."""

    tokens: Sequence[int]
    search: Callable[[], ChoiceSearch]


@plain_dataclass(frozen=True)
class _Loaded:
    """What a loaded engine works with."""

    model: TorchModel
    renderer: Renderer
    grammars: Grammars | None
    context: int
    batches: Batches


@dataclass(config=STRICT, kw_only=True)
class HuggingFace(LanguageModel):
    """A model of transformers, served by one thread in batches.

    Args:
        device: where it computes.
        serving: how requests are batched.
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
        """The library's version; raises ConfigError where it is not installed."""
        try:
            return f"transformers-{metadata.version('transformers')}"
        except metadata.PackageNotFoundError:
            raise _missing() from None

    @property
    def gpus(self) -> int:
        """One, or none on a CPU."""
        return int(self.device == "cuda")

    @property
    def capacity(self) -> int:
        """As many as make up a batch."""
        return self.serving.max_batch

    async def load(self) -> None:
        """Load weights and tokenizer and start to serve, once; raises ConfigError for what can never work."""
        await self._ready()

    async def check(self) -> None:
        """Raise EngineDiedError where the GPU has failed for good, or computes no step any more."""
        if self._loaded:
            self._loaded.batches.check()

    def occupancy(self) -> Occupancy:
        """The present batch and what waits for the next."""
        return self._loaded.batches.occupancy() if self._loaded else Occupancy(0, 0)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` completions on one prefill; the prompt's tokens count once for each, all but the first as cached.

        Raises:
            ContextError: the prompt and `max_tokens` do not fit the model's context.
            ModelError: logits that are not numbers.
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
            ConfigError: as `number_search`.
            ContextError: the prompt does not fit the model's context.
            ModelError: logits that are not numbers, or that leave no option any mass.
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

            from grid.engines.transformers.grammar import Grammars
            from grid.engines.transformers.model import TorchModel
        except ImportError:
            raise _missing() from None
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("model.device", self.device, f"cpu: torch {torch.__version__} finds no CUDA device")
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
        """The model on its device; only safetensors are read."""
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
    """A batch of one kind; raises EngineDiedError where the GPU can compute no more."""
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
