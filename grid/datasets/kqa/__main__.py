"""`python -m grid.datasets.kqa --stats | --check | --show N`: what the synthetic dataset holds, its stock's rules."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from grid.core.types import to_json
from grid.core.untrusted import shown_lines
from grid.datasets.kqa import stock
from grid.datasets.kqa.dataset import Kqa, KqaPro, KqaSynthetic
from grid.datasets.kqa.rules import problems
from grid.datasets.kqa.stats import by_nodes, functions, overview, shapes
from grid.datasets.kqa.words import load_words


def main() -> int:
    """Exit status 1 where a rule of the stock is broken."""
    parser = argparse.ArgumentParser(prog="python -m grid.datasets.kqa", description=__doc__)
    parser.add_argument("--stats", action="store_true", help="print what the dataset holds")
    parser.add_argument("--check", action="store_true", help="print every rule that the text stock breaks")
    parser.add_argument("--show", type=int, metavar="N", default=0, help="print the first N test questions")
    parser.add_argument("--seed", type=int, default=0, help="the generator's, or the sample's, seed (default 0)")
    parser.add_argument("--path", help="a folder of the released KQA Pro instead of the synthetic dataset")
    arguments = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    sound = not arguments.check or check(console)
    if arguments.stats or arguments.show or not arguments.check:
        dataset = (
            KqaPro(path=arguments.path, seed=arguments.seed) if arguments.path else KqaSynthetic(seed=arguments.seed)
        )
        if not arguments.show or arguments.stats:
            stats(console, dataset)
        show(console, dataset, arguments.show)
    return 0 if sound else 1


def check(console: Console) -> bool:
    """Print the stock's broken rules."""
    world = stock.load_world()
    broken = problems(world, stock.load_names(), load_words(world))
    for line in broken:
        console.print(shown_lines(line), markup=False)
    console.print(f"{len(broken)} rules broken")
    return not broken


def stats(console: Console, dataset: Kqa) -> None:
    """Print every table."""
    console.print(overview(dataset))
    console.print(by_nodes(dataset))
    console.print(shapes(list(dataset.questions.values())))
    console.print(functions(dataset))
    for skipped in dataset.skipped[:10]:
        console.print(shown_lines(f"{skipped.record}: {skipped.reason}"), markup=False)


def show(console: Console, dataset: Kqa, count: int) -> None:
    """Print whole questions."""
    for case_id in dataset.case_ids()[:count]:
        question = dataset.questions[case_id]
        shape = f"depth {question.depth}, breadth {question.breadth:.2f}"
        console.print(shown_lines(f"\n{case_id}  {shape}\n{question.text}"), markup=False)
        for number, step in enumerate(question.dag):
            taken = f" of {', '.join(str(place) for place in step.dependencies)}" if step.dependencies else ""
            console.print(shown_lines(f"  {number}. {step.function}{taken} {to_json(list(step.inputs))}"), markup=False)
        console.print(shown_lines(f"  answer: {question.answer}"), markup=False)


if __name__ == "__main__":
    sys.exit(main())
