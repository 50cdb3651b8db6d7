"""`python -m grid.datasets.freebase --stats PATH | --show N PATH`: questions over Freebase, and their graphs."""

from __future__ import annotations

import argparse
import asyncio
import sys

from rich.console import Console

from grid.core.errors import ConfigError
from grid.core.types import RESULT, Json, to_json
from grid.core.untrusted import shown_lines
from grid.datasets.freebase.dataset import AgentBenchKG, AtomicKbqa, GrailQA, GraphQuestions, WebQSP
from grid.datasets.freebase.graphs import Witnessed
from grid.datasets.freebase.stats import MADE_UP, Report
from grid.text.references import resolve
from grid.worlds.sparql.tools import DIRECTIONS, FIND
from grid.worlds.sparql.world import SparqlWorld

DATASETS: dict[str, type[AtomicKbqa]] = {
    "grailqa": GrailQA,
    "webqsp": WebQSP,
    "graphquestions": GraphQuestions,
    "agentbench_kg": AgentBenchKG,
}
_LISTED = 40


def main() -> int:
    """Exit status 2 where there is nothing to read."""
    parser = argparse.ArgumentParser(prog="python -m grid.datasets.freebase", description=__doc__)
    parser.add_argument("path", help="the folder of the released files, or the one above it")
    parser.add_argument("--stats", action="store_true", help="print what each data set and its graphs hold")
    parser.add_argument("--show", type=int, metavar="N", default=0, help="print the first N cases, call by call")
    parser.add_argument("--dataset", choices=DATASETS, help="one of them (default: all that have files there)")
    parser.add_argument("--ontology", help="the ontology's folder (default: in the folder, or beside it)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw and of the invented facts (default 0)")
    arguments = parser.parse_args()
    console = Console(soft_wrap=True, highlight=False)
    chosen = [arguments.dataset] if arguments.dataset else list(DATASETS)
    read = 0
    for name in chosen:
        dataset = DATASETS[name](path=arguments.path, ontology=arguments.ontology, seed=arguments.seed)
        try:
            _ = dataset.tools
        except ConfigError as error:
            if arguments.dataset:
                console.print(shown_lines(str(error)), markup=False)
            continue
        read += 1
        if arguments.stats or not arguments.show:
            stats(console, dataset)
        asyncio.run(show(console, dataset, arguments.show))
    if not read and not arguments.dataset:
        console.print(shown_lines(f"{arguments.path}: no file of any of {', '.join(DATASETS)}"), markup=False)
    return 0 if read else 2


def stats(console: Console, dataset: AtomicKbqa) -> None:
    """Print every table."""
    source = dataset.source
    assert isinstance(source, Witnessed)  # noqa: S101 - no other source is asked for here
    report = Report(dataset, source)
    tables = (report.questions, report.nodes, report.facts, report.degrees, report.guesses, report.shorter)
    for table in tables:
        console.print(table())


async def show(console: Console, dataset: AtomicKbqa, count: int) -> None:
    """Print cases as a planner could meet them: the plan, what every call returns, which relations there were."""
    for case_id in dataset.case_ids()[:count]:
        question, problem = dataset.questions[case_id], dataset.problem(case_id)
        world = problem.world
        assert isinstance(world, SparqlWorld)  # noqa: S101 - which it makes itself
        lines = [f"\n{case_id} ({MADE_UP})", question.text, f"  {question.form}"]
        state, outputs = world.start(), dict[str, dict[str, Json]]()
        for number, call in question.calls.items():
            written = resolve(call, outputs)
            expected = await world.identifiers(state, written)
            state, observation = await world.apply(state, written)
            outputs[number] = {RESULT: observation.content.get(RESULT, "")}
            lines.append(f"  {number}. {call.tool} {to_json(dict(call.arguments))}")
            if call.tool == FIND and call.arguments["direction"] in DIRECTIONS and "relation" in expected:
                here = expected["relation"].here
                more = f" ... ({len(here)} in all)" if len(here) > _LISTED else ""
                lines.append(f"     of: {', '.join(here[:_LISTED])}{more}")
            lines.append(f"     {observation.text()}")
        lines.append(f"  answers: {question.told}")
        console.print(shown_lines("\n".join(lines)), markup=False)


if __name__ == "__main__":
    sys.exit(main())
