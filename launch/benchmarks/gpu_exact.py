"""Exact choices compared with brute force from full log-probabilities, on vLLM and transformers, and between machines.

This file also has the tools that all parts of `gpu` share (figures, random weights, the GPU's memory), and the
measurement of masks.

A variant is an engine, a number format and, for vLLM, whether batches are invariant. Each variant runs in its own
process. If a process does not start or must be ended, this is recorded as a figure, and the other variants still run.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Any, cast

import numpy as np
from rich.console import Console

from grid.core.engine import Prompt, ToolCallAnswer
from grid.core.errors import ConfigError
from grid.datasets.slate.dataset import Slate
from grid.engines.answer_schema import answer_schema
from grid.engines.choice import Prefix
from grid.engines.hosted import HostedEngine
from grid.engines.language_model import LanguageModel, Renderer, ending
from grid.engines.vllm.engine import _grammar
from grid.settings.build import build_engine
from launch.benchmarks import choose
from launch.benchmarks.choose import model_config

OPTIONS = (2, 10, 50, 100)
VARIANTS = ("transformers-float32", "transformers-bfloat16", "vllm-bfloat16", "vllm-bfloat16-invariant", "vllm-float32")
_TOKENS = 1200  # maximum number of tokens in a prompt, so that a CPU can compute the same
_FIRST_SERIAL = 10_000  # the same prompts in every process


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: the variants, the number of prompts, and the results of another machine."""
    parser.add_argument(
        "--variants",
        nargs="+",
        choices=VARIANTS,
        default=list(VARIANTS),
        help="variants to measure in the part `exact`",
    )
    parser.add_argument("--exact-prompts", type=int, default=3, help="number of prompts for each number of options")
    parser.add_argument("--variant-seconds", type=float, default=400, help="seconds after which a variant is stopped")
    parser.add_argument("--against", type=Path, help="the file distributions.json of another machine, for comparison")


def exact(bench: Shared) -> None:
    """Measure each variant's greatest difference in probability from brute force, and from the other variants.

    With `--out`, the variants' distributions are also written, to `distributions.json`. Raises ConfigError if the
    results in `--against` have another number of prompts.
    """
    found: dict[str, Any] = {}
    if bench.arguments.against:
        kept = json.loads(bench.arguments.against.read_text())
        _expect_same_prompts(bench.arguments, kept)
        found |= {f"{name} elsewhere": one for name, one in kept.items()}
    model, mine = _model(bench), {}
    for variant in bench.arguments.variants:
        result = _in_a_process(bench, model, variant)
        if "failed" in result:
            bench.figures.add("exact", variant=variant, **result)
            continue
        mine[variant] = {"chosen": result["chosen"], "brute": result["brute"]}
        found[variant] = mine[variant]
        for options in OPTIONS:
            bench.figures.add(
                "exact",
                variant=variant,
                options=options,
                greatest_difference_from_brute_force=_apart(result["chosen"], result["brute"], options),
                prompts=bench.arguments.exact_prompts,
            )
        bench.figures.add("exact", variant=variant, seconds=result["seconds"])
    for one, other in itertools.combinations(found, 2):
        apart = {str(options): _apart(found[one]["chosen"], found[other]["chosen"], options) for options in OPTIONS}
        bench.figures.add("exact", between=f"{one} and {other}", greatest_differences_by_options=apart)
    if bench.arguments.out:
        (bench.arguments.out / "distributions.json").write_text(json.dumps(mine))


def _expect_same_prompts(arguments: argparse.Namespace, kept: Mapping[str, Any]) -> None:
    """Raise ConfigError if results were measured with another number of prompts, because all prompts then differ."""
    for one in kept.values():
        prompts = len(one["chosen"]) // len(OPTIONS)
        if prompts != arguments.exact_prompts:
            raise ConfigError(
                "--exact-prompts", arguments.exact_prompts, f"must be {prompts}, as in {arguments.against}"
            )


def _apart(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]], options: int) -> float:
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if len(a) == options]
    return max(float(np.abs(np.array(a) - np.array(b)).max()) for a, b in pairs)


def _model(bench: Shared) -> dict[str, Any]:
    """The config keys that give the measured model's weights.

    Random weights are written to files first, because transformers does not generate random weights.
    """
    if "path" in bench.model:
        return {"path": str(with_weights(Path(bench.model["path"]), bench.folder / "weights", bench.arguments.device))}
    return {key: value for key, value in bench.model.items() if key in ("hub", "wheels")}


def _in_a_process(bench: Shared, model: dict[str, Any], variant: str) -> dict[str, Any]:
    engine, dtype, *rest = variant.split("-")
    device = bench.arguments.device
    if engine == "vllm":
        share = {"gpu_memory_utilization": 0.2} if device == "cuda" else {}
        serving = {"device": device, "kv_cache_gib": min(bench.arguments.kv_cache_gib, 4.0), **share}
        model = model | {"_target_": "grid.engines.vllm.engine.VLLM", "serving": serving}
    else:
        model = model | {"_target_": "grid.engines.transformers.engine.HuggingFace", "device": device}
    # No probability mass may be left out, because missing mass would count as a difference.
    model |= {"dtype": dtype, "mass_bound": 0.0, "max_tokens": 16, "context": 4096}
    told = {"model": model, "prompts": bench.arguments.exact_prompts}
    environment = os.environ | ({"VLLM_BATCH_INVARIANT": "1"} if rest else {})
    found = bench.folder / f"{variant}.json"
    # The variant is not run with -m, because the engine's process would then import this module too, which imports
    # modules that break vLLM (see replay.py).
    code = "from launch.benchmarks.gpu_exact import main; main()"
    command = [sys.executable, "-c", code, json.dumps(told), str(found)]
    began, most = time.perf_counter(), bench.arguments.variant_seconds
    # The process has its own session, and writes to a file instead of a pipe: on a GPU, vLLM's processes outlive this
    # process and would keep the pipe open.
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        status = process.wait(most)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {most:.0f} s"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if not found.exists():
        return {"failed": f"exit status {status}; stderr shows the reason"}
    return cast(dict[str, Any], json.loads(found.read_text())) | {"seconds": time.perf_counter() - began}


def brute_force(renderer: Renderer, count: int, logs_after: Callable[[Prefix], np.ndarray]) -> list[float]:
    """The options' probabilities in the options' order, as in algorithm 3, from full next-token distributions.

    `logs_after` gives the log-probabilities of the whole vocabulary after a prefix of a label, in the shape
    (vocabulary,). The score of a label is the product of its tokens' probabilities; for a one-digit number (or, with
    more than 100 options, a number with fewer digits than the last) this product is multiplied by the probability that
    no digit follows.
    """
    labels, known = renderer.labels(count), dict[Prefix, np.ndarray]()

    def logs(node: Prefix) -> np.ndarray:
        if node not in known:
            known[node] = logs_after(node).astype(np.float64)
        return known[node]

    scores = []
    ends = set(ending(labels, "natural"))
    for label in labels:
        score = float(np.exp(sum(logs(label[:place])[token] for place, token in enumerate(label))))
        if label in ends:
            score *= 1.0 - float(np.exp(logs(label)[list(renderer.digits)]).sum())
        scores.append(score)
    total = sum(scores)
    return [score / total for score in scores]


async def _measure(engine: HostedEngine, count: int) -> dict[str, Any]:
    """For each prompt in turn: the engine's choice, and brute force from the engine's own full log-probabilities."""
    await engine.load()
    model = cast(LanguageModel, engine)
    renderer = model.renderer(model.folder())
    choose._SERIAL = itertools.count(_FIRST_SERIAL)
    asked = [_prompt(options, renderer) for options in OPTIONS for _ in range(count)]
    chosen, brute = [], []
    for prompt in asked:
        chosen.append(list((await engine.choose(prompt, seed=0)).probabilities))
        tokens = renderer.encode(prompt)
        rows = await _full(engine, tokens, renderer, len(chosen[-1]))
        brute.append(brute_force(renderer, len(chosen[-1]), lambda node, rows=rows: rows[node]))  # type: ignore[misc]
    return {"chosen": chosen, "brute": brute}


def _prompt(options: int, renderer: Renderer) -> Prompt:
    return choose.choice_prompt(options, _TOKENS, lambda prompt: len(renderer.encode(prompt)))


async def _full(engine: Any, tokens: list[int], renderer: Renderer, count: int) -> dict[Prefix, np.ndarray]:
    """The full log-probabilities after each prefix that brute force needs; each prefix is a separate request."""
    labels = renderer.labels(count)
    nodes = sorted({label[:place] for label in labels for place in range(len(label))}.union(ending(labels, "natural")))
    if hasattr(engine, "device"):
        return _of_transformers(engine, tokens, nodes)
    found = {}
    for node in nodes:
        output = await engine._answer(
            engine._ready[0],
            [*tokens, *node],
            max_tokens=1,
            temperature=0.0,
            logprobs=-1,
            detokenize=False,
        )
        (row,) = output.outputs[0].logprobs
        values = np.full(max(row) + 1, -np.inf)
        values[list(row)] = [entry.logprob for entry in row.values()]
        found[node] = values
    return found


def _of_transformers(engine: Any, tokens: list[int], nodes: Sequence[Prefix]) -> dict[Prefix, np.ndarray]:
    """The log-probabilities of `_full` from transformers' own forward pass: one pass per sequence, nothing reused."""
    import torch

    model = engine._loaded.model._model
    found = {}
    for node in nodes:
        with torch.inference_mode():
            ids = torch.tensor([[*tokens, *node]], device=model.device)
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1]
        found[node] = logits.double().log_softmax(-1).cpu().numpy()
    return found


def main() -> None:
    """Run the variant that the first argument describes; write the results as JSON to the file named by the second.

    Then end the process.
    """
    asked, file = json.loads(sys.argv[1]), Path(sys.argv[2])
    engine = cast(Any, build_engine(asked["model"]))
    if hasattr(engine, "_arguments"):
        own = engine._arguments
        engine._arguments = lambda: own() | {"max_logprobs": -1}
    os.dup2(2, 1)  # vLLM writes to stdout too
    file.write_text(json.dumps(asyncio.run(_measure(engine, asked["prompts"]))))
    os._exit(0)


# Tools for measurements on a GPU machine: figures, random weights of a published shape, and the card with its memory.


@dataclass
class Figures:
    """Writes each figure at once: a line on the console, and JSON in `file`, with the seconds since the start."""

    console: Console
    file: Path | None
    began: float = field(default_factory=time.perf_counter)

    def add(self, part: str, **values: Any) -> None:
        """Write one figure, or the error of a failed part."""
        told = ", ".join(f"{name.replace('_', ' ')} {_told(value)}" for name, value in values.items())
        self.console.print(f"{part}: {told}", soft_wrap=True)
        if self.file:
            row = {"part": part, "after": round(time.perf_counter() - self.began, 1), **values}
            with self.file.open("a") as file:
                file.write(json.dumps(row) + "\n")
                file.flush()
                os.fsync(file.fileno())


def _told(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass
class Shared:
    """The data that all parts share: the arguments, the figures, the measured model, a folder, and the memory meter."""

    arguments: argparse.Namespace
    figures: Figures
    model: dict[str, Any]
    folder: Path
    memory: Memory


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
    """Make a folder with the config of a model's shape and a tokenizer, but no weights.

    Random weights are drawn by vLLM when it loads the folder. The vocabulary is the tokenizer's, so that every sampled
    token can be written as text.
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
    """The folder itself if it has weights; else a copy with random weights, of standard deviation 0.02."""
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
    """Whether a model's folder has no weights (files `*.safetensors`)."""
    return not any(folder.glob("*.safetensors"))


class Memory:
    """The memory in use on the first GPU, read at intervals by a thread. A context manager.

    Nothing is read if the device is not `cuda` or the package `pynvml` is not installed.
    """

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
        """The card's name, its driver, and its memory in GiB; only the name `none` if no memory is read."""
        if not self._on:
            return {"card": "none"}
        import pynvml

        total = pynvml.nvmlDeviceGetMemoryInfo(self._handle).total / 2**30
        named, driver = pynvml.nvmlDeviceGetName(self._handle), pynvml.nvmlSystemGetDriverVersion()
        return {"card": named, "driver": driver, "card_gib": round(total, 1)}

    def peak_gib(self) -> float | None:
        """The peak memory use of all processes on the card together, in GiB, since the last call; None if not read."""
        if not self._on:
            return None
        peak, self._peak = self._peak, 0
        return round(peak / 2**30, 2)

    def _watch(self) -> None:
        import pynvml

        while not self._ended.wait(_LOOK_SECONDS):
            self._peak = max(self._peak, int(pynvml.nvmlDeviceGetMemoryInfo(self._handle).used))


# The CPU time that sampling with a schema needs in addition to GPU time: to compile a grammar, and to compute the mask
# of each token.
#
# Between two steps, vLLM computes the masks of all running requests, one after another for up to 128 requests. On
# any GPU, a step with 120 requests therefore takes as long as its forward pass and 120 masks together.


_THOUGHT = "I look for the order first, and then ask where its parcel is. The customer gave the order's number."
_TOOLS = 10


def masks(bench: Shared) -> None:
    """Time the masks for calls (ms): thoughts of any length, thoughts of at most 400 characters, and no thoughts."""
    import xgrammar
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(cast(LanguageModel, build_engine(bench.model)).folder())
    tools = list(Slate().tools.values())
    for form in ("at most 400 characters", "of any length", "none"):
        compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(tokenizer))
        compiled, filled = [], list[float]()
        for first in (0, _TOOLS, 2 * _TOOLS):
            answer = ToolCallAnswer(tuple(tools[first : first + _TOOLS]), True, 0 if form == "none" else 400)
            schema = answer_schema(answer)
            if form == "of any length":
                schema["properties"]["thought"] = {"type": "string"}
            began = time.perf_counter()
            grammar = compiler.compile_grammar(_grammar(json.dumps(schema)))
            compiled.append(time.perf_counter() - began)
            thought = "" if form == "none" else f'"thought": "{_THOUGHT}", '
            filled += _filled(grammar, tokenizer.encode(f'{{{thought}"action": {{"tool": "', add_special_tokens=False))
        bench.figures.add(
            "masks",
            thought=form,
            first_grammar_ms=1000 * compiled[0],
            further_grammars_ms=1000 * mean(compiled[1:]),
            mask_ms_per_token=1000 * mean(filled),
            vocabulary=len(tokenizer),
        )


def _filled(grammar: Any, tokens: list[int]) -> list[float]:
    """The seconds that each token's mask takes."""
    import xgrammar

    matcher = xgrammar.GrammarMatcher(grammar)
    mask, found = xgrammar.allocate_token_bitmask(1, grammar.tokenizer_info.vocab_size), []
    for token in tokens:
        began = time.perf_counter()
        matcher.fill_next_token_bitmask(mask)
        found.append(time.perf_counter() - began)
        if not matcher.accept_token(token):
            raise RuntimeError("the measured text does not fit its own schema")
    return found
