"""What an exact choice by number and by name takes: passes, levels, computed tokens, time over one prefill."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from statistics import median
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from grid.core.engine import Choice, ChoiceAnswer, Prompt, Section
from grid.datasets.slate.dataset import Slate
from grid.engines.hosted import HostedEngine
from grid.engines.language_model import LanguageModel
from grid.episode.asking import ASK_CALL, ASK_SUBSTEP
from grid.settings.build import build_engine
from launch.benchmarks.choose import prefill, seconds, spread
from launch.benchmarks.prompts import choice_prompt

COUNTS, BOUNDS = (10, 50, 100), (0.0, 1e-6, 1e-3)
COLUMNS = "options|labels|bound|passes|levels|tokens behind the prompt|one choice|one prefill|choice / prefill"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How often, and how long the prompts are."""
    parser.add_argument("--repeats", type=int, default=5, help="of --table costs")
    parser.add_argument("--tokens", type=int, default=1500, help="of a prompt of --table costs, about")


def by_name(prompt: Prompt) -> Prompt:
    """The same choice by the tools' names."""
    *before, _ = prompt.sections
    options = cast(ChoiceAnswer, prompt.answer).options
    names = tuple(list(Slate().tools)[: len(options)])
    ask = Section("instruction", (ASK_SUBSTEP, ASK_CALL.format(thought="", decline="")))
    return replace(prompt, sections=(*before, ask), answer=ChoiceAnswer(options, names))


async def measure(engine: Any, count: int, labels: str, arguments: argparse.Namespace, table: Table) -> None:
    """A line for each bound; ratios are taken within a repeat."""
    renderer = cast(LanguageModel, engine).renderer(engine.folder())
    levels: list[int] = []
    found_by = engine.choice

    def choice(search: Any, *rest: Any) -> Choice:
        levels.append(search.result().levels)
        return cast(Choice, found_by(search, *rest))

    def fresh() -> Prompt:
        prompt = choice_prompt(count, arguments.tokens, lambda prompt: len(renderer.encode(prompt)))
        return by_name(prompt) if labels == "names" else prompt

    engine.choice = choice
    for bound in BOUNDS:
        engine.mass_bound = bound
        levels.clear()
        plain, spent, usages, behind = [], [], [], []
        for _ in range(arguments.repeats):
            plain.append(await prefill(engine, fresh()))
            prompt = fresh()
            took, chosen = await seconds(engine.choose(prompt, seed=0))
            spent.append(took)
            usages.append(chosen.usage)
            computed = chosen.usage.input_tokens - chosen.usage.cached_input_tokens
            behind.append(computed - len(renderer.encode(prompt)))
        table.add_row(
            f"{count}",
            labels,
            f"{bound:g}",
            spread([usage.forward_passes for usage in usages], "{:.0f}"),
            f"{median(levels):.0f}",
            spread(behind, "{:.0f}"),
            f"{median(spent):.2f} s",
            f"{median(plain):.2f} s",
            spread([one / other for one, other in zip(spent, plain, strict=True)], "{:.2f}"),
        )
    engine.choice = found_by


def run(arguments: argparse.Namespace, model: dict[str, Any], console: Console) -> None:
    """Print a line for each number of options, form and bound: median (lowest to highest) over the repeats."""
    engine = cast(HostedEngine, build_engine(model))
    title = f"{arguments.model}: {arguments.repeats} choices each, prompts of about {arguments.tokens} tokens"
    table = Table(title=title)
    for column in COLUMNS.split("|"):
        table.add_column(column, justify="left" if column == "labels" else "right")

    async def measured() -> None:
        await engine.load()
        for count in COUNTS:
            for labels in ("numbers", "names"):
                await measure(engine, count, labels, arguments, table)

    asyncio.run(measured())
    console.print(table)
