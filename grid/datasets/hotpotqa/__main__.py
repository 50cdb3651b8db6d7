"""`python -m grid.datasets.hotpotqa --stats PATH | --show N PATH`: what a distractor file makes, and its cases."""

from __future__ import annotations

import argparse
import asyncio
import sys

from rich.console import Console

from grid.core.errors import ConfigError, DataError
from grid.core.types import to_json
from grid.core.untrusted import shown_lines
from grid.datasets.hotpotqa.dataset import HotpotQAMulti
from grid.datasets.hotpotqa.stats import ceilings, easy, observed, overview, reasons, shapes
from grid.worlds.search.world import SEARCH


def main() -> int:
    """Exit status 2 where the files cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m grid.datasets.hotpotqa", description=__doc__)
    parser.add_argument("path", metavar="PATH", help="HotpotQA's distractor file, or the folder that holds it")
    parser.add_argument("--stats", action="store_true", help="print what the cases are, and what resolves them")
    parser.add_argument("--show", type=int, metavar="N", default=0, help="print N cases with all that is found")
    parser.add_argument("--train", help="the file that demonstrations come from")
    parser.add_argument("--corpus", help="JSON Lines with title and text that are searched")
    parser.add_argument("--objectives", default="1..5", help="questions of a case: a number, or 1..5 (the default)")
    parser.add_argument("--cases", type=int, default=200, help="of each number (default 200)")
    parser.add_argument("--seed", type=int, default=42, help="of the draws (default 42)")
    arguments = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    numbers: str = arguments.objectives
    try:
        dataset = HotpotQAMulti(
            path=arguments.path,
            train=arguments.train,
            corpus=arguments.corpus,
            objectives=numbers,
            cases=arguments.cases,
            seed=arguments.seed,
        )
        if arguments.stats or not arguments.show:
            asyncio.run(stats(console, dataset))
        asyncio.run(show(console, dataset, arguments.show))
    except (ConfigError, DataError, ValueError) as error:
        console.print(shown_lines(str(error)), markup=False)
        return 2
    return 0


async def stats(console: Console, dataset: HotpotQAMulti) -> None:
    """Print every table."""
    for table in (overview(dataset), reasons(dataset), shapes(dataset), await ceilings(dataset), easy(dataset)):
        console.print(table)


async def show(console: Console, dataset: HotpotQAMulti, count: int) -> None:
    """Print whole cases: the question, the reference's calls, what each finds and what is read in it."""
    for case_id in dataset.case_ids()[:count]:
        sample = dataset.records[case_id]
        world = dataset.world(sample)
        lines = [f"\n{case_id}", sample.query, f"answer: {sample.answer}"]
        by_reference, _ = await observed(world.by_reference(), sample)
        by_rules, _ = await observed(world, sample)
        evidence = sample.evidence().items()
        for (step, call), (question, found) in zip(sample.calls().items(), evidence, strict=True):
            lines += [f"  {step}. {call.tool} {to_json(dict(call.arguments))}"]
            if call.tool == SEARCH:
                titles = [one.title for one in world.corpus.nearest(question, world.paragraphs)]
                lines += [f"     {'*' if title == found.title else ' '} {title}" for title in titles]
            lines += [f"     evidence: {by_reference[step].text()}", f"     rules: {by_rules[step].text()}"]
        for place, demonstration in enumerate(dataset.demonstrations(case_id, 2), 1):
            lines += [f"  demonstration {place}: {demonstration.question}"]
            lines += [f"     {call.text()}" for call in demonstration.calls.values()]
        console.print(shown_lines("\n".join(lines)), markup=False)


if __name__ == "__main__":
    sys.exit(main())
