"""What is measured on a GPU machine: random weights of a published shape, and the card with its memory."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from grid.engines.language_model import LanguageModel
from grid.settings.build import build_engine
from launch.benchmarks.prompts import model_config

_QWEN = {"max_position_embeddings": 32768, "num_key_value_heads": 4, "num_hidden_layers": 28}
SHAPES: dict[str, dict[str, int]] = {
    # From the published configs.
    "qwen2.5-7b": _QWEN | {"hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28},
    "qwen2.5-1.5b": _QWEN
    | {"hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads": 2},
    "small": {
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 4096,
    },
}
_LOOK_SECONDS = 0.2


def make_shape(folder: Path, shape: str, tokenizer: Path | None) -> Path:
    """A folder with a shape's config and a tokenizer and no weights: vLLM draws them when it loads.

    The vocabulary is the tokenizer's, so that every token that is drawn can be written out.
    """
    from transformers import AutoTokenizer, Qwen2Config

    if tokenizer is None:
        tokenizer = cast(LanguageModel, build_engine(model_config("smollm2-135m"))).folder()
    found = AutoTokenizer.from_pretrained(tokenizer)
    config = Qwen2Config(
        **SHAPES[shape],
        vocab_size=len(found),
        tie_word_embeddings=False,
        architectures=["Qwen2ForCausalLM"],
        dtype="bfloat16",
        eos_token_id=found.eos_token_id,
    )
    config.save_pretrained(folder)
    found.save_pretrained(folder)
    return folder


def with_weights(folder: Path, into: Path, device: str) -> Path:
    """The folder itself, or one with random weights beside its config and tokenizer, standard deviation 0.02."""
    if not weightless(folder):
        return folder
    import torch
    from transformers import AutoConfig, AutoTokenizer, Qwen2ForCausalLM

    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = Qwen2ForCausalLM(AutoConfig.from_pretrained(folder))
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(into)
    AutoTokenizer.from_pretrained(folder).save_pretrained(into)
    return into


def weightless(folder: Path) -> bool:
    """Whether a model's folder has no weights."""
    return not any(folder.glob("*.safetensors"))


class Memory:
    """The GPU's memory in use, looked at now and then by a thread. A context manager; without a GPU all is null."""

    def __init__(self, device: str) -> None:
        self._on, self._peak = device == "cuda" and find_spec("pynvml") is not None, 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="memory")

    def __enter__(self) -> Memory:
        if self._on:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByIndex(0)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()

    def card(self) -> dict[str, Any]:
        """Its name, driver and GiB."""
        if not self._on:
            return {"card": "none"}
        import pynvml

        total = pynvml.nvmlDeviceGetMemoryInfo(self._handle).total / 2**30
        named, driver = pynvml.nvmlDeviceGetName(self._handle), pynvml.nvmlSystemGetDriverVersion()
        return {"card": named, "driver": driver, "card_gib": round(total, 1)}

    def peak_gib(self) -> float | None:
        """The most since the last time, of all processes on the card."""
        if not self._on:
            return None
        peak, self._peak = self._peak, 0
        return round(peak / 2**30, 2)

    def _watch(self) -> None:
        import pynvml

        while not self._ended.wait(_LOOK_SECONDS):
            self._peak = max(self._peak, int(pynvml.nvmlDeviceGetMemoryInfo(self._handle).used))
