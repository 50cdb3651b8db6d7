"""The transformers engine on random weights of a given shape: a choice over a prefill, sampling, memory."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from grid.engines.hosted import HostedEngine
from grid.engines.language_model import LanguageModel
from grid.runner.build import build_engine
from launch.benchmarks.choose import OPTIONS, prefill, seconds, spread
from launch.benchmarks.prompts import as_text, choice_prompt, model_config

# Qwen2.5-7B, from its published config.
SHAPE = {
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}
SMALL = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where, how large, whose tokenizer."""
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="two narrow layers: does the script work?")
    parser.add_argument("--tokenizer", type=Path, help="a folder with one; else SmolLM2's")
    parser.add_argument("--tokens", type=int, default=3000, help="of a prompt, about")
    parser.add_argument("--new-tokens", type=int, default=128, help="of a completion")
    parser.add_argument("--concurrent", type=int, nargs="+", default=[1, 8, 64], help="cases that sample at once")
    parser.add_argument("--repeats", type=int, default=5)


def make_model(folder: Path, shape: dict[str, int], tokenizer: Path, device: str) -> None:
    """Save random bf16 weights of a Qwen2 with another model's tokenizer."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = Qwen2ForCausalLM(Qwen2Config(**shape, tie_word_embeddings=False))
    torch.set_default_dtype(torch.float32)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)


async def measure(engine: HostedEngine, arguments: argparse.Namespace, console: Console) -> None:
    """Choices and prefills in turn, then sampling by so many cases at once."""
    started = time.perf_counter()
    await engine.load()
    console.print(f"loaded in {time.perf_counter() - started:.1f} s")
    renderer = cast(LanguageModel, engine).renderer(cast(LanguageModel, engine).folder())

    def fresh() -> Any:
        return choice_prompt(OPTIONS, arguments.tokens, lambda prompt: len(renderer.encode(prompt)))

    await engine.choose(fresh(), seed=0)
    await prefill(engine, fresh())
    plain, chosen = [], []
    for _ in range(arguments.repeats):
        plain.append(await prefill(engine, fresh()))
        chosen.append((await seconds(engine.choose(fresh(), seed=0)))[0])
    ratio = [a / b for a, b in zip(chosen, plain, strict=True)]
    console.print(f"one prefill of {len(renderer.encode(fresh())):,} tokens: {spread(plain, '{:.3f} s')}")
    console.print(f"one choice among {OPTIONS}: {spread(chosen, '{:.3f} s')}; over a prefill {spread(ratio, '{:.2f}')}")
    table = Table(title=f"sampling {arguments.new_tokens} tokens for each case")
    for column in ("cases at once", "generated tokens/s", "peak memory, GiB"):
        table.add_column(column, justify="right")
    for cases in arguments.concurrent:
        prompts = [as_text(fresh()) for _ in range(cases)]
        asked = [
            engine.sample(prompt, n=1, temperature=1.0, max_tokens=arguments.new_tokens, seed=index)
            for index, prompt in enumerate(prompts)
        ]
        spent, answers = await seconds(asyncio.gather(*asked))
        tokens = sum(answer.usage.output_tokens for answer in answers)
        table.add_row(f"{cases}", f"{tokens / spent:,.0f}", _memory(arguments.device))
    console.print(table)


def _memory(device: str) -> str:
    if device == "cpu":
        return "not measured on a CPU"
    import torch

    return f"{torch.cuda.max_memory_allocated() / 2**30:.1f}"


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Make the model in a temporary folder, then measure."""
    wheel = model_config("smollm2-135m")
    tokenizer = arguments.tokenizer or cast(LanguageModel, build_engine(wheel)).folder()
    shape = SHAPE | (SMALL if arguments.small else {})
    console.print(f"random weights, bfloat16, on {arguments.device}: {json.dumps(shape)}")
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), shape, tokenizer, arguments.device)
        engine = build_engine(
            {
                "_target_": "grid.engines.transformers.engine.HuggingFace",
                "path": folder,
                "device": arguments.device,
                "max_tokens": arguments.new_tokens,
                "serving": {"max_batch": max(arguments.concurrent)},
            }
        )
        asyncio.run(measure(cast(HostedEngine, engine), arguments, console))
