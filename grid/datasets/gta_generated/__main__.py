"""`python -m grid.datasets.gta_generated --stats | --check | --show N`: statistics beside GTA's, rules, N cases."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.table import Table

from grid.core.untrusted import shown_lines
from grid.datasets.gta_generated.dataset import GtaGenerated
from grid.datasets.gta_generated.stats import named_tools, statistics


def main() -> int:
    """Exit status 1 where a rule is broken."""
    parser = argparse.ArgumentParser(prog="python -m grid.datasets.gta_generated", description=__doc__)
    parser.add_argument("--stats", action="store_true", help="print the statistics beside GTA's")
    parser.add_argument("--check", action="store_true", help="print every rule that a case breaks")
    parser.add_argument("--show", type=int, metavar="N", default=0, help="print N sampled cases")
    parser.add_argument("--seed", type=int, default=0, help="what the cases are drawn by (default 0)")
    arguments = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    dataset = GtaGenerated(seed=arguments.seed)
    sound = not arguments.check or check(console, dataset)
    if arguments.stats or not (arguments.check or arguments.show):
        stats(console, dataset)
    show(console, dataset, arguments.show)
    return 0 if sound else 1


def check(console: Console, dataset: GtaGenerated) -> bool:
    """Print the broken rules: the reference resolves its case, doing nothing does not, no query names a tool of it."""
    broken = []
    for name, record in dataset.records.items():
        if not record.world.resolved(record.calls[-1].state) or any(call.outcome.failed for call in record.calls):
            broken.append(f"{name}: its reference does not resolve it")
        if record.world.resolved(record.world.start()):
            broken.append(f"{name}: it is resolved before the first call")
        broken += [f"{name}: the query names {tool}" for tool in named_tools(record)]
    queries = [record.query for record in dataset.records.values()]
    broken += ["two cases have one query"] * (len(queries) - len(set(queries)))
    for line in broken:
        console.print(shown_lines(line), markup=False)
    console.print(f"{len(broken)} rules broken")
    return not broken


def stats(console: Console, dataset: GtaGenerated) -> None:
    """Print the statistics."""
    table = Table(title=f"a generated set over GTA's signatures, {dataset.version}")
    for column in ("statistic", "GTA", "here", "GTA, a query", "here, a query"):
        table.add_column(column, justify="left" if column == "statistic" else "right")
    for one in statistics(dataset):
        shares = (f"{share:.3f}" for share in one.shares) if one.shares else ("", "")
        table.add_row(one.name, f"{one.gta:g}", f"{one.ours:g}", *shares)
    console.print(table)


def show(console: Console, dataset: GtaGenerated, count: int) -> None:
    """Print whole cases."""
    for case_id in dataset.case_ids()[:count]:
        record = dataset.records[case_id]
        console.print(shown_lines(f"\n{case_id}\n{record.query}"), markup=False)
        for call in record.calls:
            console.print(
                shown_lines(f"  {call.place} {call.written.text()}\n      {call.outcome.text()}"), markup=False
            )
        console.print(
            shown_lines(f"  resolved by {', '.join(record.resolution)}; answer: {record.answer}"), markup=False
        )


if __name__ == "__main__":
    sys.exit(main())
