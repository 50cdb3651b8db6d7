"""An exact choice among 100 options, side by side with a plain prefill and with passes that share no prefix."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from grid.core.engine import Prompt
from grid.engines.hosted import HostedEngine
from grid.engines.language_model import LanguageModel
from grid.settings.build import build_engine
from launch.benchmarks.prompts import as_text, choice_prompt, model_config

OPTIONS = 100
PASSES = 11  # the first digit's and one for each of ten digits, as algorithm 3 has them
FIGURES = (
    "prompt tokens",
    "one prefill",
    "one choice",
    "eleven passes apart",
    "choice / prefill",
    "passes apart / choice",
    "forward passes",
    "computed tokens",
)
MODELS = {"transformers": "smollm2-135m", "vllm": "smollm2-135m-vllm"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which engines, how often, how long the prompts are."""
    parser.add_argument("--engines", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=3000, help="of a prompt, about")


async def seconds(asked: Awaitable[Any]) -> tuple[float, Any]:
    """How long an answer takes, and the answer."""
    started = time.perf_counter()
    answer = await asked
    return time.perf_counter() - started, answer


async def prefill(engine: HostedEngine, prompt: Prompt) -> float:
    """Seconds to compute a prompt that nothing is cached of, and one token."""
    asked = engine.sample(as_text(prompt), n=1, temperature=0.0, max_tokens=1, seed=0)
    return (await seconds(asked))[0]


async def measure(name: str, repeats: int, tokens: int) -> tuple[str, list[str]]:
    """The title of one engine and its figures.

    In each repeat a prefill, a choice, and the passes one after another, of equally long prompts.
    """
    config = model_config(MODELS[name])
    engine = cast(HostedEngine, build_engine(config))
    await engine.load()
    renderer = cast(LanguageModel, engine).renderer(cast(LanguageModel, engine).folder())

    def fresh() -> Prompt:
        return choice_prompt(OPTIONS, tokens, lambda prompt: len(renderer.encode(prompt)))

    await engine.choose(fresh(), seed=0)  # warm-up
    await prefill(engine, fresh())
    plain, chosen, apart, usages = [], [], [], []
    for _ in range(repeats):
        prompt = fresh()
        plain.append(await prefill(engine, prompt))
        spent, choice = await seconds(engine.choose(fresh(), seed=0))
        chosen.append(spent)
        usages.append(choice.usage)
        apart.append(sum([await prefill(engine, fresh()) for _ in range(PASSES)]))
    usage = usages[-1]
    figures = [
        f"{len(renderer.encode(prompt)):,}",
        spread(plain, "{:.2f} s"),
        spread(chosen, "{:.2f} s"),
        spread(apart, "{:.2f} s"),
        spread([a / b for a, b in zip(chosen, plain, strict=True)], "{:.2f}"),
        spread([a / b for a, b in zip(apart, chosen, strict=True)], "{:.1f}"),
        f"{usage.forward_passes}",
        f"{usage.input_tokens - usage.cached_input_tokens:,}",
    ]
    return f"{name}, {config['dtype']}", figures


def spread(values: list[float], form: str) -> str:
    """Median, lowest and highest."""
    middle, low, high = (form.format(value) for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print one column an engine: median (lowest to highest) over the repeats; ratios are taken within a repeat."""
    titles, columns = zip(
        *(asyncio.run(measure(name, arguments.repeats, arguments.tokens)) for name in arguments.engines), strict=True
    )
    table = Table(title=f"exact choice among {OPTIONS} options, {arguments.repeats} repeats, one at a time")
    table.add_column("figure")
    for title in titles:
        table.add_column(title, justify="right")
    for figure, *row in zip(FIGURES, *columns, strict=True):
        table.add_row(figure, *row)
    console.print(table)
