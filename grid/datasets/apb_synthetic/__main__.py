"""`python -m grid.datasets.apb_synthetic --stats | --check | --show FAMILY N`: margins, proofs, cases to be read."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from grid.core.types import to_json
from grid.core.untrusted import shown_lines
from grid.datasets.apb_synthetic.build import Built
from grid.datasets.apb_synthetic.checks import broken_rules
from grid.datasets.apb_synthetic.dataset import ApbSynthetic
from grid.datasets.apb_synthetic.rules import problems
from grid.datasets.apb_synthetic.stats import FAMILIES, baselines, margins
from grid.datasets.apb_synthetic.stock import categories
from grid.worlds.programs import search


def main() -> int:
    """Exit status 1 where a margin is missed or a rule is broken."""
    parser = argparse.ArgumentParser(prog="python -m grid.datasets.apb_synthetic", description=__doc__)
    parser.add_argument("--stats", action="store_true", help="print the margins beside the paper's")
    parser.add_argument("--check", action="store_true", help="prove what has to hold of every case")
    parser.add_argument("--show", nargs=2, metavar=("FAMILY", "N"), help=f"print N cases of {', '.join(FAMILIES)}")
    parser.add_argument("--seed", type=int, default=0, help="what the cases are drawn by (default 0)")
    arguments = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    dataset = ApbSynthetic(seed=arguments.seed)
    sound = True
    if arguments.check:
        sound &= check(console, dataset)
    if arguments.stats or not (arguments.check or arguments.show):
        sound &= stats(console, dataset)
    if arguments.show:
        family, count = arguments.show
        if family not in FAMILIES or not count.isdecimal():
            parser.error(f"--show {family} {count}: a family of {', '.join(FAMILIES)} and a number are wanted")
        show(console, ApbSynthetic(families=[family], seed=arguments.seed), int(count))
    return 0 if sound else 1


def check(console: Console, dataset: ApbSynthetic) -> bool:
    """Print every rule that the stock or a case breaks."""
    broken = problems(categories())
    tight = costs = 0
    for name in dataset.records:
        built = dataset.built(name)
        broken += broken_rules(built)
        if built.kind.task_family == "costs":
            costs += 1
            spent = sum(built.task.tools[tool].cost or 0 for tool, _ in built.task.reference)
            tight += spent == search.least_cost(built.task)
    for line in broken:
        console.print(shown_lines(line), markup=False)
    console.print(f"{len(dataset.records)} cases, {len(broken)} rules broken")
    console.print(f"the reference is one of least cost in {tight} of {costs} cases with costs")
    return not broken


def stats(console: Console, dataset: ApbSynthetic) -> bool:
    """Print the margins."""
    cases = [dataset.built(name) for name in dataset.records]
    found = [*margins(cases), *baselines(cases)]
    table = Table(title=f"{len(dataset.records)} cases, {dataset.version}")
    for column in ("margin", "paper", "here", "allowed", "holds"):
        table.add_column(column, justify="left" if column == "margin" else "right")
    for one in found:
        allowed = "" if one.paper is None else f"± {one.tolerance:g}" if one.tolerance else "exact"
        paper = "" if one.paper is None else f"{one.paper:g}"
        table.add_row(one.name, paper, f"{one.ours:.5g}", allowed, "yes" if one.holds else "NO")
    console.print(table)
    return all(one.holds for one in found)


def show(console: Console, dataset: ApbSynthetic, count: int) -> None:
    """Print whole cases."""
    for name in dataset.case_ids()[:count]:
        for line in written(dataset.built(name)):
            console.print(shown_lines(line), markup=False)


def written(built: Built) -> Iterator[str]:
    """A case as a person reads it: query, tools, calls made, reference, wanted facts and constraints."""
    task, kind = built.task, built.kind
    yield f"\n=== {built.recipe.id}  ({kind.task_category}; {built.recipe.family})"
    yield from (line for part in task.query.splitlines() for line in textwrap.wrap(part, 110))
    yield "  tools:"
    for tool in task.tools.values():
        mark = "-" if tool.extraneous else "=" if tool.stands_for else " "
        parameters = ", ".join(parameter.name for parameter in tool.spec.parameters)
        yield f"   {mark} {tool.spec.name}({parameters}): {tool.spec.description}"
    for number, done in enumerate(task.done):
        yield f"  done {number} {done.tool} {to_json(dict(done.arguments))} -> {to_json(dict(done.content))}"
    reference = task.reference or built.solvable.reference
    for number, (name, arguments) in list(enumerate(reference))[len(task.done) :]:
        asked = task.horizon is None or number < len(task.done) + task.horizon
        yield f"  {'call' if asked else 'later'} {number} {name} {to_json(dict(arguments))}"
    for goal in task.goals:
        yield f"  wanted: {goal.text} [{goal.tag}]"
    for constraint in task.constraints:
        yield f"  constraint: {constraint.kind} {' '.join(constraint.arguments)}"
    if task.unsolvable:
        yield f"  unsolvable, {task.unsolvable}: {search.derivable(task)}"


if __name__ == "__main__":
    sys.exit(main())
