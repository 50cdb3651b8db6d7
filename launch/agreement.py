"""How far scorers of plans agree: `python launch/agreement.py results/<name> [--labels FILE]`.

Without labels, the judge of `dataset.scorer=both` is compared with the computed scores; with a file of human labels
(JSON Lines or CSV, `analysis/stats/agreement.py`), every scorer is compared with these labels. The tables are printed,
and are written as CSV to the subfolder `agreement` of the results, with all figures as JSON.

`python launch/agreement.py model@evaluator=NAME` compares a judge with labels that are known by construction: half of
the chains are right, and half have errors that were inserted by mutation (`grid.worlds.programs.mutations`). Verdicts
and errors are compared with the chain's mutation, and grades with the symbolic scorer's grades.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pandas as pd
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.progress import Progress

from analysis.errors import AnalysisError
from analysis.page.render import csv, show
from analysis.page.table import Table, texts
from analysis.papers import agreement as plans
from analysis.papers.agreement import Comparison, errors, overall, tables
from analysis.stats.agreement import read_labels
from analysis.stats.intervals import CLUSTER, share
from grid import store
from grid.cluster.answering import answering
from grid.core.engine import Engine
from grid.core.errors import ConfigError, GridError
from grid.core.places import folder_at
from grid.core.types import ERRORS, Chain, Verdict
from grid.core.util import derive_seed
from grid.datasets.apb_synthetic.dataset import ApbSynthetic, done_steps
from grid.datasets.apb_synthetic.stock import judged_task, truth
from grid.engines.hosted import HostedEngine
from grid.episode.plan_judging import JudgedTask, plan_prompt
from grid.roles.evaluation import Evaluation
from grid.sweeps.arguments import refusal
from grid.worlds.programs.mutations import mutations, right
from launch.win_rate import Evaluating, evaluator

FOLDER = "agreement"
DONE, CANNOT_RUN = 0, 2


def main() -> int:
    """Exit status 0, or 2 if the comparison cannot be made or written."""
    parser = argparse.ArgumentParser(
        prog="launch/agreement.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "given", nargs="+", metavar="RESULTS|KEY=VALUE", help="a sweep's results folder, or keys of the judge"
    )
    parser.add_argument("--labels", type=Path, help="a .jsonl or .csv file with human labels for the results")
    parser.add_argument(
        "--chains", type=int, default=400, help="the number of chains: half are mutated, half are right"
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the mutations")
    parser.add_argument("--out", type=Path, help="a folder for a judge's results on mutated chains, as CSV and JSON")
    given = parser.parse_args()
    console = Console(highlight=False, emoji=False)
    try:
        if all("=" in one for one in given.given):
            found, notes = mutated(given.given, given.chains, given.seed), list[str]()
            folder: Path | None = given.out
        else:
            root = _only(given.given)
            found, notes = held_against(root, given.labels)
            folder = root / FOLDER
        written = write(folder, found) if folder else None
    except (GridError, HydraException, OmegaConfBaseException) as error:
        print(f"error: {refusal(error, given.given)}", file=sys.stderr)
        return CANNOT_RUN
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)
    for table in found:
        show(console, table, wide=True)
    if written:
        console.print(f"written to {written}", markup=False, soft_wrap=True)
    return DONE


def _only(given: Sequence[str]) -> Path:
    """The results folder; raises ConfigError for further arguments, and StoreError if the folder has no results."""
    if len(given) != 1:
        raise ConfigError("arguments", list(given), "must be one sweep's results folder, or only keys of the judge")
    store.check_there(root := folder_at(given[0]))
    return root


def held_against(root: Path, file: Path | None) -> tuple[list[Table], list[str]]:
    """The tables that compare the scorers of a results folder, and notes on the labels.

    Raises:
        AnalysisError: there is nothing to compare, or labels and episodes do not match.
        DataError: the file of labels cannot be read, or a label is invalid.
        StoreError: the folder cannot be read.
    """
    frame = plans.episodes(root)
    labels, notes = None, list[str]()
    if file is not None:
        labels = plans.matched(frame, read_labels(file), file)
        notes.append(f"{len(labels.cells):,} labels match an episode in these results; {labels.unmatched:,} match none")
    found = tables(root, plans.comparisons(frame, labels))
    if not found:
        raise AnalysisError(
            f"{root}: nothing to compare; the comparison needs episodes with dataset.scorer=both, or labels for plans "
            "that were scored"
        )
    return found, notes


def write(folder: Path, found: Sequence[Table]) -> Path:
    """Write a CSV for each table, and all figures as JSON; returns the folder, whose parent must exist.

    Raises:
        AnalysisError: these files cannot be written.
    """
    every: dict[str, Any] = {}
    try:
        folder.mkdir(exist_ok=True)
        for table in found:
            name = table.name.replace(" ", "_")
            (folder / f"{name}.csv").write_text(csv(table), encoding="utf-8")
            every[name] = _plain(table.values)
        text = json.dumps(every, indent=1, ensure_ascii=False, allow_nan=False)
        (folder / "agreement.json").write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise AnalysisError(f"{folder}: cannot be written: {error.strerror}") from None
    return folder


def _plain(values: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows, with null for each unknown figure."""
    return [
        {str(key): None if pd.isna(value) else value for key, value in row.items()}
        for row in values.astype(object).to_dict("records")
    ]


# Comparing a judge of plans with labels that are known from mutations.


_AT_ONCE = 32
_RIGHT = "none: the reference"
MUTATION = "mutation"


@dataclass(frozen=True)
class Labelled:
    """A chain with its true verdict, its mutation (`what`) and its family of goals (`cluster`).

    For a right chain, `what` is `_RIGHT`. `family` is the task family of the chain's case.
    """

    case_id: str
    cluster: str
    family: str
    task: JudgedTask
    chain: Chain
    truth: Verdict
    what: str


def mutated(keys: Sequence[str], count: int, seed: int) -> list[Table]:
    """Ask a judge both with and without the reference; returns tables that compare all verdicts with the labels.

    Args:
        keys: the command line's keys of the judge.
        count: the number of chains.
        seed: the seed of the mutations.

    Raises:
        ConfigError, or an error of Hydra: the keys name no judge that can be asked.
        GridError: the judge does not answer.
    """
    evaluating = evaluator(keys, informed=True)
    chains = list(labelled(count, seed))
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
    return [*(table for table in (overall(place, found), errors(place, found)) if table), _caught(rows)]


def labelled(count: int, seed: int) -> Iterator[Labelled]:
    """Yield `count` chains, one more if `count` is odd: for each case, the right chain and a mutated one.

    Cases without a possible mutation are left out. There are fewer chains if the data has too few cases. The shares of
    families and categories are about the same as in the data.
    """
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
    """The comparison of the verdicts with the labels."""
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
    """For each mutation, a row with the number of chains that have a verdict, and the share of them called wrong."""
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
        title="Share of chains called wrong, by mutation",
        about="in %, with Wilson's 95% interval over goal families; errors: the kinds that occur in at least one of "
        "the row's chains",
        by=texts(labels),
        columns=texts(figures, len(labels)),
        lines=rows,
        values=pd.DataFrame(rows, columns=[*labels, *figures]),
        query="python launch/agreement.py model@evaluator=NAME",
    )


if __name__ == "__main__":
    sys.exit(main())
