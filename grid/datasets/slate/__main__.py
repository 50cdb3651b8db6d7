"""`python -m grid.datasets.slate --stats | --check | --quality | --show N`: what SLATE is, and how good a benchmark."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from grid.datasets.slate import stock
from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.stats import statistics
from grid.text.untrusted import shown_lines
from grid.types import to_json


def main() -> int:
    """Exit status 1 where a statistic misses the paper's, or a rule of the stock is broken."""
    parser = argparse.ArgumentParser(prog="python -m grid.datasets.slate", description=__doc__)
    parser.add_argument("--stats", action="store_true", help="print the statistics beside the paper's")
    parser.add_argument("--check", action="store_true", help="print every rule that the text stock breaks")
    parser.add_argument("--quality", action="store_true", help="print what gives answers away, and what settles them")
    parser.add_argument("--show", type=int, metavar="N", default=0, help="print the first N cases")
    parser.add_argument("--seed", type=int, default=0, help="the library's seed (default 0)")
    arguments = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    sound = True
    if arguments.check:
        sound &= check(console)
    if arguments.quality:
        sound &= quality(console, Slate(library_seed=arguments.seed))
    if arguments.stats or not (arguments.check or arguments.quality or arguments.show):
        sound &= stats(console, Slate(library_seed=arguments.seed))
    if arguments.show:
        show(console, Slate(library_seed=arguments.seed), arguments.show)
    return 0 if sound else 1


def check(console: Console, seeds: Sequence[int]) -> bool:
    """Print the broken rules of every stock file, and where the cases of a seed do not follow from its shop."""
    stocks = stock.load_all()
    broken = [f"{part.query_category}: {text}" for part in stocks for text in problems(part, shop(0))]
    broken += repeated(stocks)
    for line in broken:
        console.print(shown_lines(line), markup=False)
    console.print(f"{len(broken)} rules broken")
    if broken:
        return False
    sound = True
    for seed in seeds:
        cases = list(Slate(library_seed=seed).case_records.values())
        outcomes = sum(len(case.outcomes()) for case in cases)
        found = contradictions(cases, stocks, shop(seed))
        for line in found:
            console.print(shown_lines(line), markup=False)
        console.print(f"seed {seed}: {outcomes} outcomes of {len(cases)} cases computed again, {len(found)} contradictions")
        sound &= not found
    return sound


def stats(console: Console, dataset: Slate) -> bool:
    """Print the statistics."""
    found = statistics(dataset)
    table = Table(title=f"SLATE, {len(dataset.case_records)} cases, version {dataset.version}")
    for column in ("statistic", "paper", "here", "allowed", "holds"):
        table.add_column(column, justify="left" if column == "statistic" else "right")
    for item in found:
        allowed = f"± {item.tolerance:.3g}" if item.tolerance else "exact"
        table.add_row(item.name, f"{item.paper:g}", f"{item.ours:.4g}", allowed, "yes" if item.holds else "NO")
    console.print(table)
    return all(item.holds for item in found)


def quality(console: Console, dataset: Slate) -> bool:
    """Print what a reviewer of a benchmark would measure; whether all targets are met."""
    from grid.datasets.slate.quality import figures  # scikit-learn is slow to import

    found = figures(dataset)
    table = Table(title=f"SLATE as a benchmark, version {dataset.version}")
    for column in ("figure", "here", "target", "holds"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for item in found:
        holds = "" if item.holds is None else "yes" if item.holds else "NO"
        table.add_row(item.name, f"{item.value:.3g} {item.unit}".strip(), item.target, holds)
    console.print(table)
    return all(item.holds is not False for item in found)


def show(console: Console, dataset: Slate, count: int) -> None:
    """Print whole cases."""
    for case in list(dataset.case_records.values())[:count]:
        console.print(
            shown_lines(f"\n{case.case_id}  {case.user}, {case.category}, {case.complexity}\n{case.query}"),
            markup=False,
        )
        for number, step in enumerate(case.plan, 1):
            console.print(shown_lines(f"  {number}. {step.text}"), markup=False)
            for sub in step.substeps:
                call = (
                    f"{sub.call.tool}({to_json(sub.call.arguments)}) -> {to_json(sub.call.outcome)}" if sub.call else ""
                )
                console.print(
                    shown_lines(f"     {sub.id} {sub.text}\n         {call or 'no tool required'}"), markup=False
                )


if __name__ == "__main__":
    sys.exit(main())
