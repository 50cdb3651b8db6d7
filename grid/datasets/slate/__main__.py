"""What SLATE is, how good a benchmark, and its files for others: `python -m grid.datasets.slate --help`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from grid.core.errors import GridError, one_line
from grid.core.types import to_json
from grid.core.untrusted import shown_lines
from grid.datasets.slate import stock
from grid.datasets.slate.checking import contradictions, problems, repeated
from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.shop import shop
from grid.datasets.slate.stats import Category, categories, statistics


def main() -> int:
    """Exit status 1 where a statistic misses the paper's, a rule is broken or a figure misses its target."""
    parser = argparse.ArgumentParser(prog="python -m grid.datasets.slate", description=__doc__)
    parser.add_argument(
        "--stats", action="store_true", help="print the statistics beside the paper's, and the library by category"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="print every rule that the stock breaks, every outcome that does not follow, and what gives answers away",
    )
    parser.add_argument("--show", type=int, metavar="N", default=0, help="print the first N cases of the first seed")
    parser.add_argument(
        "--seeds", type=int, nargs="+", metavar="SEED", default=[0, 1, 2], help="the library's seeds (default 0 1 2)"
    )
    parser.add_argument("--card", action="store_true", help="print the dataset card (Markdown), of the first seed")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write files, card and scorer for others")
    parser.add_argument("--path", metavar="FOLDER", help="with --card or --export: the files of a folder instead")
    arguments = parser.parse_args()
    if arguments.path and not (arguments.card or arguments.export):
        parser.error("--path goes with --card or --export")
    try:
        return _run(arguments)
    except ModuleNotFoundError as error:
        print(f"error: {error.name} is not installed; the extra `dev` has it", file=sys.stderr)
    except GridError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
    return 2


def _run(arguments: argparse.Namespace) -> int:
    if arguments.card or arguments.export:
        publish(Slate(path=arguments.path, library_seed=arguments.seeds[0]), arguments.seeds, arguments.export)
    console = Console(soft_wrap=True, highlight=False)
    sound = True
    if arguments.check:
        sound &= check(console, arguments.seeds)
    others = (arguments.check, arguments.show, arguments.card, arguments.export)
    if arguments.stats or not any(others):
        sound &= stats(console, _slates(arguments.seeds))
    if arguments.show:
        show(console, Slate(library_seed=arguments.seeds[0]), arguments.show)
    return 0 if sound else 1


def _slates(seeds: Sequence[int]) -> dict[int, Slate]:
    return {seed: Slate(library_seed=seed) for seed in seeds}


def check(console: Console, seeds: Sequence[int]) -> bool:
    """Print the broken rules of the stock, then whether each seed's cases follow from its shop, then its quality."""
    stocks = stock.load_all()
    broken = [f"{part.query_category}: {text}" for part in stocks for text in problems(part, shop(seeds[0]))]
    broken += repeated(stocks)
    _lines(console, broken)
    console.print(f"{len(broken)} rules broken")
    if broken:
        return False
    slates = _slates(seeds)
    sound = True
    for seed, dataset in slates.items():
        cases = list(dataset.records.values())
        outcomes = sum(len(case.outcomes()) for case in cases)
        found = contradictions(cases, stocks, shop(seed))
        _lines(console, found)
        console.print(f"seed {seed}: {outcomes} outcomes of {len(cases)} cases computed again, {len(found)} contradict")
        sound &= not found
    return quality(console, slates) and sound


def _lines(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(shown_lines(line), markup=False)


def stats(console: Console, slates: dict[int, Slate]) -> bool:
    """Print the statistics of every seed beside the paper's; whether all hold."""
    found = {seed: statistics(dataset) for seed, dataset in slates.items()}
    table = Table(title="SLATE beside the paper: " + _versions(slates))
    for column in ("statistic", "paper", *_titles(slates), "allowed", "holds"):
        table.add_column(column, justify="left" if column == "statistic" else "right")
    for items in zip(*found.values(), strict=True):
        first = items[0]
        allowed = f"± {first.tolerance:.3g}" if first.tolerance else "exact"
        holds = "yes" if all(item.holds for item in items) else "NO"
        table.add_row(first.name, f"{first.paper:g}", *(f"{item.ours:.4g}" for item in items), allowed, holds)
    console.print(table)
    console.print(by_category(slates))
    return all(item.holds for items in found.values() for item in items)


def by_category(slates: dict[int, Slate]) -> Table:
    """The library by category, as the paper's figure 3 has it; in the order of the first seed's counts."""
    found = [{one.name: one for one in categories(dataset)} for dataset in slates.values()]
    table = Table(
        title="The library by category (figure 3)",
        box=None,  # so that three seeds fit into 80 columns
        padding=(0, 1, 0, 0),
        pad_edge=False,
        caption="Tools, their share of the library, and those that plans use. The paper draws its shares, and prints "
        "no number of them.",
    )
    table.add_column("category", no_wrap=True)
    for title in _titles(slates):
        for column in (title, "%", "used"):
            table.add_column(column, justify="right", no_wrap=True)
    for name in dict.fromkeys(name for one in found for name in one):
        row = [one.get(name, Category(name, 0, 0.0, 0)) for one in found]
        cells = [(str(own.tools), f"{100 * own.share:.1f}", str(own.used)) for own in row]
        table.add_row(name, *(cell for own in cells for cell in own))
    return table


def quality(console: Console, slates: dict[int, Slate]) -> bool:
    """Print what a reviewer of a benchmark would measure, for every seed; whether all targets are met."""
    from grid.datasets.slate.quality import figures  # scikit-learn is slow to import

    found = {seed: figures(dataset) for seed, dataset in slates.items()}
    table = Table(title="SLATE as a benchmark: " + _versions(slates))
    for column in ("figure", *_titles(slates), "target", "holds"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for items in zip(*found.values(), strict=True):
        judged = [item.holds for item in items if item.holds is not None]
        holds = "" if not judged else "yes" if all(judged) else "NO"
        table.add_row(
            items[0].name, *(f"{item.value:.3g} {item.unit}".strip() for item in items), items[0].target, holds
        )
    console.print(table)
    return all(item.holds is not False for items in found.values() for item in items)


def _versions(slates: dict[int, Slate]) -> str:
    return ", ".join(dataset.version for dataset in slates.values())


def _titles(slates: dict[int, Slate]) -> list[str]:
    return [f"seed {seed}" for seed in slates]


def publish(dataset: Slate, seeds: Sequence[int], folder: Path | None) -> None:
    """Print the card, or write it with all files into a folder."""
    from grid.datasets.slate.card import card  # scikit-learn is slow to import
    from grid.datasets.slate.export import empty, export

    if folder is None:
        print(card(dataset, seeds), end="")
        return
    empty(folder)
    for path in export(dataset, folder, card(dataset, seeds)):
        print(path)


def show(console: Console, dataset: Slate, count: int) -> None:
    """Print whole cases."""
    for case in list(dataset.records.values())[:count]:
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
