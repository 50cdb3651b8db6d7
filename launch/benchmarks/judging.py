"""A judge of plans against labels made by mutation: chains whose errors are known because they were put there.

Half of the chains are right, half are mutated (`grid.worlds.programs.mutations`). Verdicts and errors are held against
what was done to the chain, grades against the symbolic scorer's. `python launch/bench.py judging model@evaluator=NAME`.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

import pandas as pd
from rich.console import Console
from rich.progress import Progress

from analysis.page.render import show
from analysis.page.table import Table, texts
from analysis.papers.agreement import Comparison, errors, overall
from analysis.stats.intervals import CLUSTER, share
from grid.cluster.answering import answering
from grid.core.chains import ERRORS, Chain, Verdict
from grid.core.engine import Engine
from grid.core.seeds import derive_seed
from grid.datasets.apb_synthetic.dataset import ApbSynthetic, done_steps
from grid.datasets.apb_synthetic.records import judged_task, truth
from grid.engines.hosted import HostedEngine
from grid.episode.plan_judging import JudgedTask, plan_prompt
from grid.roles.evaluation import Evaluation
from grid.worlds.programs.mutations import mutations, right
from launch.agreement import write
from launch.comparing import Evaluating

_AT_ONCE = 32
_RIGHT = "none: the reference"
MUTATION = "mutation"


@dataclass(frozen=True)
class Labelled:
    """A chain with what is true of it; `what` was done to it, `cluster` its goal family."""

    case_id: str
    cluster: str
    family: str
    task: JudgedTask
    chain: Chain
    truth: Verdict
    what: str


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Who is asked, and about how many chains."""
    command.add_argument("--chains", type=int, default=400, help="half of them right, half mutated")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--out", type=Path, help="a folder for the tables as CSV and JSON")
    command.add_argument("keys", nargs="*", help="model@evaluator=NAME, evaluator.KEY=VALUE, cluster=...")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Ask with and without the reference, and print both against the labels."""
    from launch.win_rate import evaluator  # Hydra's plugins are found from the command line alone

    evaluating = evaluator(arguments.keys, informed=True)
    chains = list(labelled(arguments.chains, arguments.seed))
    progress = Console(stderr=True)
    found = list[Comparison]()
    rows = list[list[str]]()
    say = partial(progress.print, markup=False, soft_wrap=True)
    with answering(evaluating.asked, say) as engine, Progress(console=progress, transient=True) as bar:
        bars = [bar.add_task(name, total=len(chains)) for name in ("with the reference", "blind")]
        told = asyncio.run(_both(engine, evaluating, chains, [partial(bar.advance, one) for one in bars]))
    for shown, verdicts in zip((True, False), told, strict=True):
        name = evaluating.label + ("" if shown else " (blind)")
        found.append(compared(name, chains, verdicts))
        rows += by_mutation(name, chains, verdicts)
    place = Path("apb_synthetic")
    tables = [table for table in (overall(place, found), errors(place, found)) if table]
    tables.append(_caught(rows))
    for table in tables:
        show(console, table, wide=True)
    if arguments.out:
        console.print(f"written to {write(arguments.out, tables)}", markup=False, soft_wrap=True)


def labelled(count: int, seed: int) -> Iterator[Labelled]:
    """So many chains, a case's right one and one mutation of it; families and categories have their shares."""
    data = ApbSynthetic(families=["holistic", "stepwise", "extraneous", "costs"])
    made = 0
    for case_id in data.case_ids():
        if made >= count:
            return
        built = data.built(case_id)
        own = derive_seed(seed, "judging", case_id)
        changed = mutations(built.task, built.kind, own)
        if not changed:
            continue
        shown = judged_task(built.task, built.kind, done_steps(built))
        place = partial(Labelled, case_id, data.cluster(case_id), built.kind.task_family, shown)
        reference = right(built.task, built.kind, own)
        yield place(reference, Verdict(True, frozenset(), 1.0), _RIGHT)
        one = changed[0]
        grade = truth(built.task, built.kind, one.chain).grade
        yield place(one.chain, Verdict(False, one.errors, grade), one.what)
        made += 2


async def _both(
    engine: Engine, evaluating: Evaluating, chains: Sequence[Labelled], done: Sequence[partial[None]]
) -> list[list[Verdict | None]]:
    if engine.home == "gateway":
        await cast(HostedEngine, engine).load()
    limit = asyncio.Semaphore(_AT_ONCE)

    async def ask(one: Labelled, shown: bool, tell: partial[None]) -> Verdict | None:
        async with limit:
            asking = Evaluation(engine, evaluating.how, derive_seed(0, "judging", one.case_id))
            found = await asking.verdict(plan_prompt(one.task, one.chain, shown), "plan", truth=one.truth)
            tell(1)
            return found

    return [
        list(await asyncio.gather(*(ask(one, shown, tell) for one in chains)))
        for shown, tell in zip((True, False), done, strict=True)
    ]


def compared(name: str, chains: Sequence[Labelled], verdicts: Sequence[Verdict | None]) -> Comparison:
    """The verdicts beside the labels."""
    rows = [
        {**_parts("said", said), **_parts("true", one.truth), "same": float(one.what == _RIGHT), "model": one.family}
        for one, said in zip(chains, verdicts, strict=True)
    ]
    plans = pd.DataFrame(rows, index=pd.Index([one.cluster for one in chains], name=CLUSTER)).astype(
        {"said_correct": "float64", "said_grade": "float64", "true_grade": "float64"}
    )
    flags = [said.contradicted for said in verdicts if said is not None]
    return Comparison(name, MUTATION, plans, len(chains), len(chains) - len(flags), sum(map(bool, flags)), len(flags))


def _parts(who: str, of: Verdict | None) -> dict[str, float | None]:
    errors_told = of.errors if of else None
    flags = {f"{who}_{name}": None if errors_told is None else float(name in errors_told) for name in ERRORS}
    correct = float(of.correct) if of else None
    return {f"{who}_correct": correct, f"{who}_grade": of.grade if of else None, **flags}


def by_mutation(name: str, chains: Sequence[Labelled], verdicts: Sequence[Verdict | None]) -> list[list[str]]:
    """By what was done to a chain: how many, and the share of them that is called wrong."""
    rows = []
    for what in sorted({one.what for one in chains}):
        pairs = [(one, said) for one, said in zip(chains, verdicts, strict=True) if one.what == what and said]
        found = pd.Series([float(not said.correct) for _, said in pairs],
                          index=pd.Index([one.cluster for one, _ in pairs], name=CLUSTER), dtype=float)  # fmt: skip
        kinds = "+".join(sorted({error for one in chains if one.what == what for error in one.truth.errors or ()}))
        mean, low, high = share(found)
        bounds = "" if pd.isna(low) else f" [{100 * low:.1f}, {100 * high:.1f}]"
        rows.append([name, what, kinds, f"{len(pairs):,}", "–" if pd.isna(mean) else f"{100 * mean:.1f}{bounds}"])
    return rows


def _caught(rows: Sequence[Sequence[str]]) -> Table:
    labels, figures = ["scorer", "what was done", "errors"], ["chains", "called wrong"]
    return Table(
        name="agreement by mutation",
        title="What was done to a chain, and how often it is called wrong",
        about="in %, with Wilson's 95% interval over goal families; errors: all that some such chain has",
        by=texts(labels),
        columns=texts(figures, len(labels)),
        lines=rows,
        values=pd.DataFrame(rows, columns=[*labels, *figures]),
        query="python launch/bench.py judging model@evaluator=NAME",
    )
