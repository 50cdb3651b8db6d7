"""An exact choice among 100 options, compared with a plain prefill, and with passes that share no prefix.

Other benchmarks also use this module's prompts of a given length.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, cast

from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from grid import CONF
from grid.core.engine import ChoiceAnswer, Prompt, Section, TextAnswer
from grid.core.errors import ConfigError, nearest
from grid.datasets.slate.dataset import Slate
from grid.engines.hosted import HostedEngine
from grid.engines.language_model import LanguageModel
from grid.settings.build import build_engine

OPTIONS = 100
PASSES = 11  # of algorithm 3: one for the first digit, and one after each of the ten digits
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
    """The options: the engines, the repeats, and the length of the prompts."""
    parser.add_argument("--engines", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=3000, help="approximate number of tokens in a prompt")


async def seconds(asked: Awaitable[Any]) -> tuple[float, Any]:
    """The seconds that an answer takes, and the answer."""
    started = time.perf_counter()
    answer = await asked
    return time.perf_counter() - started, answer


async def prefill(engine: HostedEngine, prompt: Prompt) -> float:
    """The seconds to compute an uncached prompt and one token."""
    asked = engine.sample(as_text(prompt), n=1, temperature=0.0, max_tokens=1, seed=0)
    return (await seconds(asked))[0]


async def measure(name: str, repeats: int, tokens: int) -> tuple[str, list[str]]:
    """The title of an engine's column, and the figures in this column.

    Each repeat measures a prefill, then a choice, then the separate passes, all with prompts of the same length.
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
    """The median, the lowest and the highest value, as text."""
    middle, low, high = (form.format(value) for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print a column for each engine: median (lowest to highest) over the repeats; ratios are taken within a repeat."""
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


# Prompts of a given length for the benchmarks: choices among SLATE's tools; no two prompts share a prefix.


_SERIAL = count()
_STEP = "Step {step}: order_status(order={step}) returned the order's state, its parcel and the day it was shipped."


def model_config(name: str, values: Sequence[str] = ()) -> dict[str, Any]:
    """The config in `conf/model/<name>.yaml`, overridden by values given as `KEY=VALUE`."""
    return group_config("model", name, values)


def group_config(group: str, name: str, values: Sequence[str] = ()) -> dict[str, Any]:
    """The config in `conf/<group>/<name>.yaml`, overridden by values given as `KEY=VALUE`.

    Raises ConfigError if there is no such file.
    """
    path = CONF / group / f"{name}.yaml"
    if not path.is_file():
        names = sorted(one.stem for one in path.parent.glob("*.yaml"))
        raise ConfigError(group, name, f"one of {', '.join(names)}{nearest(name, names)}")
    return with_values(OmegaConf.load(path), values)


def with_values(config: Any, values: Sequence[str]) -> dict[str, Any]:
    """The config, overridden by values given as `KEY=VALUE`."""
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.merge(config, OmegaConf.from_dotlist(list(values)))))


def choice_prompt(options: int, tokens: int, length: Callable[[Prompt], int]) -> Prompt:
    """A new prompt for a choice among `options` of SLATE's tools, with about `tokens` tokens.

    If the prompt would be too long, the tools' descriptions are cut; if too short, earlier steps are added.
    """
    tools = list(Slate().tools.values())[:options]
    fresh = f"Request {next(_SERIAL)}: choose the tool that the substep takes."
    low, high = 0, 400
    while low < high:  # search for the longest descriptions with which the prompt fits
        middle = (low + high + 1) // 2
        texts = tuple(f"{tool.name}: {tool.description}"[:middle] for tool in tools)
        low, high = (middle, high) if length(_prompt(fresh, texts)) <= tokens else (low, middle - 1)
    texts = tuple(f"{tool.name}: {tool.description}"[:low] for tool in tools)
    short = tokens - length(_prompt(fresh, texts))
    if low < 400 or short < 0:
        return _prompt(fresh, texts)
    one = length(_prompt(fresh, texts, 11)) - length(_prompt(fresh, texts, 10))
    return _prompt(fresh, texts, short // one)


def as_text(prompt: Prompt) -> Prompt:
    """The same prompt, but asking for free text, and with a new beginning, so that no part of it is cached."""
    first, *rest = prompt.sections
    fresh = Section("role", (f"Request {next(_SERIAL)}: " + first.entries[0].partition(": ")[2],))
    return Prompt((fresh, *rest), TextAnswer())


def _prompt(role: str, options: tuple[str, ...], earlier: int = 0) -> Prompt:
    sections = (
        Section("role", (role,)),
        Section("tools", ("Tools:",), options),
        *([Section("history", tuple(_STEP.format(step=step) for step in range(earlier)))] if earlier else []),
        Section("request", ("Present substep: 1.1 Look up when the order was shipped.",)),
        Section("instruction", ("Answer with the number of the option that this substep takes, and nothing else.",)),
    )
    return Prompt(sections, ChoiceAnswer(options))
