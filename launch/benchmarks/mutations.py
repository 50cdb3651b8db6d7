"""What the symbolic scorer of plans finds of errors that were made on purpose: recall and precision of E1 to E6."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from grid.core.chains import ERRORS, Family
from grid.datasets.apb_synthetic.dataset import ApbSynthetic
from grid.worlds.programs.mutations import Mutation, mutations, right
from grid.worlds.programs.scoring import Diagnosis, diagnose

FAMILIES: tuple[Family, ...] = ("holistic", "stepwise", "extraneous", "costs")
"""Those with a chain to start from."""


class Scored(NamedTuple):
    """A changed chain, and what the scorer says of it."""

    made: Mutation
    found: Diagnosis


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many, and drawn by what."""
    parser.add_argument("--count", type=int, default=5_000, help="changed chains (default 5,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the cases and of the changes (default 0)")
    parser.add_argument("--wrong", type=int, default=0, metavar="N", help="show N chains that are told otherwise")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """References first, then changed ones by error."""
    dataset = ApbSynthetic(families=list(FAMILIES), seed=arguments.seed)
    names = list(dataset.case_ids())
    random.Random(arguments.seed).shuffle(names)
    unhurt = [_reference(dataset, name, arguments.seed) for name in names[: arguments.count]]
    console.print(f"{sum(unhurt):,} of {len(unhurt):,} reference chains are correct")
    scored: list[Scored] = []
    for one in _scored(dataset, names, arguments.seed):
        if len(scored) == arguments.count:
            break
        scored.append(one)
    alike = sum(made.errors == found.errors for made, found in scored)
    unresolved = sum(found.unresolved_arguments for _, found in scored)
    console.print(f"{alike:,} of {len(scored):,} changed chains have exactly the errors that were made")
    console.print(f"{unresolved:,} of their arguments are words that nothing resolves")
    console.print(_by_error(scored))
    for made, found in [one for one in scored if one.made.errors != one.found.errors][: arguments.wrong]:
        console.print(f"{made.what}: {sorted(made.errors)}, found {sorted(found.errors)}", markup=False)
        for reason in found.reasons:
            console.print(f"  {reason}", markup=False)


def _reference(dataset: ApbSynthetic, name: str, seed: int) -> bool:
    built = dataset.built(name)
    return diagnose(built.task, built.kind, right(built.task, built.kind, seed)).correct


def _scored(dataset: ApbSynthetic, names: list[str], seed: int) -> Iterator[Scored]:
    for name in names:
        built = dataset.built(name)
        for made in mutations(built.task, built.kind, seed):
            yield Scored(made, diagnose(built.task, built.kind, made.chain))


def _by_error(scored: list[Scored]) -> Table:
    """Per error how many chains have it, and what share of them is found, and of what is found is right."""
    counts: Counter[tuple[str, bool, bool]] = Counter(
        (error, error in made.errors, error in found.errors) for made, found in scored for error in ERRORS
    )
    table = Table("error")
    for column in ("chains", "recall", "precision"):
        table.add_column(column, justify="right")
    for error in ERRORS:
        hit, missed, false = counts[error, True, True], counts[error, True, False], counts[error, False, True]
        shares = (f"{hit / whole:.4f}" if whole else "" for whole in (hit + missed, hit + false))
        table.add_row(error, f"{hit + missed:,}", *shares)
    return table
