"""What each form of the options' labels does to entropy and to what EGB takes from it, decision by decision.

`--table costs` has what a choice by number and by name takes instead, `--table gold` how often either is right.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from dataclasses import dataclass
from statistics import mean
from typing import Any, get_args

from rich.console import Console
from rich.table import Table

from grid.cells.run import episode_of
from grid.core.engine import Choice, Prompt
from grid.core.types import NO_TOOL
from grid.engines.hosted import HostedEngine
from grid.engines.language_model import Labels
from grid.episode.acting import Acting, begin
from grid.episode.asking import choice_prompt
from grid.episode.view import View
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.setting import Setting
from launch.benchmarks import label_costs, label_gold
from launch.benchmarks.prompts import model_config

NAMES = "names"
FORMS: tuple[str, ...] = (*get_args(Labels), NAMES)
THRESHOLD = 0.01  # EGB's


@dataclass(frozen=True)
class Decision:
    """A first-pass decision without history: its prompt, and the place of the right option, None where it is none."""

    prompt: Prompt
    right: int | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, and how many decisions among how many options."""
    parser.add_argument("--table", choices=["forms", "costs", "gold"], default="forms")
    parser.add_argument("--model", default="smollm2-135m", help="a file of conf/model")
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="KEY=VALUE", help="in it, such as path=FOLDER or hub=null"
    )
    parser.add_argument("--cases", type=int, default=2)
    parser.add_argument("--candidates", type=int, nargs="+", default=[9, 10])
    parser.add_argument("--at-once", type=int, default=8)
    label_costs.add_arguments(parser)
    label_gold.add_arguments(parser)


def built_with(model: dict[str, Any], cases: int, candidates: int) -> Built:
    """EGB-logits on the first cases of SLATE."""
    config = {
        "model": model,
        "planner": {"_target_": "grid.planners.egb.EGBLogits"},
        "dataset": {"_target_": "grid.datasets.slate.dataset.Slate", "limit": cases},
        "robustness": {},
        "retriever": {"_target_": "grid.retrievers.bm25.BM25", "top_k": candidates},
        "pool": {"_target_": "grid.pools.whole.Whole"},
    }
    return build(Setting(config, dict.fromkeys(config, "labels"), seed=0), BudgetConfig(llm_calls=10, steps=10))


def decisions_of(built: Built, form: str) -> list[Decision]:
    """Every substep of every case."""
    found = []
    for case_id in built.dataset.case_ids():
        problem = built.problem(case_id, 0)
        episode = episode_of(built, problem, seed=0)
        start = begin(episode)
        for substep in problem.case.plan.substeps:
            view = View(substep, start, episode.options(substep))
            options = view.offer.options
            call = problem.reference.calls.get(substep.id)
            right = call.tool if call else NO_TOOL
            place = options.index(right) if right in options else None
            asked = choice_prompt(episode, view, Acting(), "names" if form == NAMES else "numbers")
            found.append(Decision(asked, place))
    return found


async def choices_of(engine: HostedEngine, decisions: list[Decision], at_once: int) -> list[Choice]:
    """What a fresh engine chooses."""
    await engine.load()
    gate = asyncio.Semaphore(at_once)

    async def choose(decision: Decision) -> Choice:
        async with gate:
            return await engine.choose(decision.prompt, seed=0)

    return await asyncio.gather(*map(choose, decisions))


def best(choice: Choice) -> int:
    """The option that EGB takes."""
    return max(range(len(choice.probabilities)), key=lambda place: (choice.probabilities[place], -place))


def entropy(choice: Choice) -> float:
    """In nats."""
    return -math.fsum(p * math.log(p) for p in choice.probabilities if p > 0)


def distance(one: Choice, other: Choice) -> float:
    """Total variation."""
    return math.fsum(abs(p - q) for p, q in zip(one.probabilities, other.probabilities, strict=True)) / 2


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Print the table that is asked for."""
    model = model_config(arguments.model, arguments.set)
    tables = {"forms": forms, "costs": label_costs.run, "gold": label_gold.run}
    tables[arguments.table](arguments, model, console)


def forms(arguments: argparse.Namespace, model: dict[str, Any], console: Console) -> None:
    """Print a line for each number of options and form; the last columns compare with the first form."""
    table = Table(title=f"{arguments.model}: decisions of {arguments.cases} SLATE cases without history")
    names = "options|labels|decisions|entropy|unassigned|right, %|passes|kept by EGB|same choice, %|variation, most"
    for column in names.split("|"):
        table.add_column(column, justify="left" if column == "labels" else "right")
    for candidates in arguments.candidates:
        natural: list[Choice] = []
        for form in FORMS:
            numbers = {} if form == NAMES else {"labels": form}
            built = built_with(model | numbers, arguments.cases, candidates)
            decisions = decisions_of(built, form)
            engine: Any = built.engine
            found = asyncio.run(choices_of(engine, decisions, arguments.at_once))
            natural = natural or found
            pairs = list(zip(natural, found, strict=True))
            apart = [distance(one, other) for one, other in pairs]
            table.add_row(
                f"{candidates + 1}",
                form,
                f"{len(found)}",
                f"{mean(map(entropy, found)):.3f}",
                f"{mean(choice.unassigned or 0.0 for choice in found):.3f}",
                f"{100 * mean(best(choice) == one.right for choice, one in zip(found, decisions, strict=True)):.1f}",
                f"{mean(choice.usage.forward_passes for choice in found):.1f}",
                f"{mean(sum(p >= THRESHOLD for p in choice.probabilities) for choice in found):.1f}",
                f"{100 * mean(best(one) == best(other) for one, other in pairs):.1f}",
                f"{mean(apart):.3f}, {max(apart):.3f}",
            )
    console.print(table)
