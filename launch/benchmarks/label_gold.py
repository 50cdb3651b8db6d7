"""How often the most probable option is the reference's, by number and by name, behind a history without mistakes."""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterator
from statistics import mean
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from grid.cells.run import episode_of
from grid.core.engine import Choice, Prompt
from grid.core.seeds import derive_seed
from grid.core.types import NO_TOOL, Usage
from grid.episode.acting import Acting, Action, Decision, begin, perform
from grid.episode.asking import OptionLabels, choice_prompt
from grid.episode.options import Options
from grid.episode.view import View
from grid.planners.votes import entropy
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.setting import Setting

FORMS: tuple[OptionLabels, ...] = ("numbers", "names")
COLUMNS = "data|labels|decisions|right|of tool steps|of steps without a tool|entropy|unassigned"


class Asked(NamedTuple):
    """One decision: the question in each form, the options' tools in their order, and the reference's tool."""

    prompts: dict[OptionLabels, Prompt]
    tools: tuple[str, ...]
    right: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many decisions, and of which data."""
    parser.add_argument("--decisions", type=int, default=25, help="of each data set of --table gold, drawn with --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--options", type=int, default=10, help="of each of its decisions, 'no tool' included")
    parser.add_argument("--ultratool", metavar="FOLDER", help="UltraTool's English-dataset, for decisions of it too")


def built_with(model: dict[str, Any], dataset: dict[str, Any]) -> Built:
    """All cases of a data set."""
    config = {
        "model": model,
        "planner": {"_target_": "grid.planners.egb.EGBLogits"},
        "dataset": dataset,
        "robustness": {},
        "retriever": {"_target_": "grid.retrievers.bm25.BM25"},
        "pool": {"_target_": "grid.pools.whole.Whole"},
    }
    return build(Setting(config, dict.fromkeys(config, "labels"), seed=0), BudgetConfig(llm_calls=10))


async def decisions(built: Built, case_id: str, count: int, seed: int) -> list[Asked]:
    """A case's decisions, its earlier steps done as the reference does them; its tool is always offered."""
    problem = built.problem(case_id, 0)
    episode = episode_of(built, problem, seed=0)
    path, found = begin(episode), []
    for substep in problem.case.plan.substeps:
        call = problem.reference.calls[substep.id]
        options = episode.options(substep, most=count)
        tools = list(options.tools)
        if call and call.tool not in {tool.name for tool in tools}:
            tools[derive_seed(seed, case_id, substep.id) % len(tools)] = built.dataset.tools[call.tool]
        view = View(substep, path, Options(tuple(tools), options.place))
        asked = {form: choice_prompt(episode, view, Acting(), form) for form in FORMS}
        found.append(Asked(asked, view.offer.options, call.tool if call else NO_TOOL))
        path = await perform(episode, view, Decision(Action(call), Usage()))
    return found


async def drawn(built: Built, arguments: argparse.Namespace) -> list[Asked]:
    """Decisions of cases in a seeded order, one of each case."""
    rng = random.Random(arguments.seed)
    case_ids = list(built.dataset.case_ids())
    rng.shuffle(case_ids)
    some = case_ids[: arguments.decisions]
    return [rng.choice(await decisions(built, case_id, arguments.options, arguments.seed)) for case_id in some]


def rows(asked: list[Asked], chosen: dict[OptionLabels, list[Choice]]) -> Iterator[list[str]]:
    """A line for each form."""
    for form in FORMS:
        best = [one.tools[max(range(len(one.tools)), key=choice.probabilities.__getitem__)]
                for one, choice in zip(asked, chosen[form], strict=True)]  # fmt: skip
        right = [(name == one.right, one.right == NO_TOOL) for name, one in zip(best, asked, strict=True)]
        calls, none = [hit for hit, no_tool in right if not no_tool], [hit for hit, no_tool in right if no_tool]
        yield [
            form,
            f"{len(right)}",
            f"{sum(calls) + sum(none)}",
            f"{sum(calls)} of {len(calls)}",
            f"{sum(none)} of {len(none)}",
            f"{mean(entropy(choice.probabilities) for choice in chosen[form]):.2f}",
            f"{mean(choice.unassigned or 0.0 for choice in chosen[form]):.2f}",
        ]


def run(arguments: argparse.Namespace, model: dict[str, Any], console: Console) -> None:
    """Print a line for each data set and form."""
    data: dict[str, dict[str, Any]] = {"slate": {"_target_": "grid.datasets.slate.dataset.Slate"}}
    if arguments.ultratool:
        data["ultratool"] = {"_target_": "grid.datasets.ultratool.UltraTool", "path": arguments.ultratool}
    title = f"{arguments.model}: {arguments.options} options in a drawn order, steps before as the reference's"
    table = Table(title=title)
    for column in COLUMNS.split("|"):
        table.add_column(column, justify="left" if column in ("data", "labels") else "right")
    gate = asyncio.Semaphore(arguments.at_once)

    async def measured() -> None:
        sets = {name: built_with(model, dataset) for name, dataset in data.items()}
        engine: Any = next(iter(sets.values())).engine
        await engine.load()

        async def choose(prompt: Prompt) -> Choice:
            async with gate:
                found: Choice = await engine.choose(prompt, seed=0)
            return found

        for name, built in sets.items():
            asked = await drawn(built, arguments)
            chosen = {form: await asyncio.gather(*(choose(one.prompts[form]) for one in asked)) for form in FORMS}
            for row in rows(asked, chosen):
                table.add_row(name, *row)

    asyncio.run(measured())
    console.print(table)
