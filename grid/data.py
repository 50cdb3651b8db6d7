"""The contents of a data set: `agent-grid data DATASET [dataset.KEY=VALUE ...] --stats | --check | --show N`.

For any data set, the command shows counts of cases, tools and skipped records; whether the calls in each case's
reference resolve the case; and whole cases. If the data set's folder has a module `stats`, the command shows more,
using functions of that module: `tables(dataset)` returns tables, with the paper's figures next to the counts;
`broken(dataset)` returns a line for each rule that does not hold; `written(dataset, case_id)` returns the lines that
show a case.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from grid import plugins
from grid.core.errors import ConfigError, GridError, said
from grid.core.moved import named_today
from grid.core.problem import BRANCHING, GIVEN, OUTLINE, REFERENCES, Dataset, Problem
from grid.core.types import FINISH, GIVE_UP, Json, Observation, ToolCall
from grid.core.untrusted import shown_lines
from grid.core.world import State
from grid.settings.make import make
from grid.show import file_of
from grid.text.references import resolve
from grid.worlds.layers import close

_CHECKED = 300
"""Maximum number of cases that `--check` runs; of a larger data set, only the first cases are run."""
_MISTAKES = ArithmeticError, AttributeError, LookupError, TypeError, ValueError
"""The errors that a data set's own code raises for an unexpected case."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 1 if `check` finds a problem, and 2 if the data set cannot be read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="a file in conf/dataset")
    parser.add_argument("values", nargs="*", metavar="KEY=VALUE", help="such as dataset.path=FOLDER dataset.limit=20")
    parser.add_argument(
        "--stats",
        action="store_true",
        help="print the dataset's counts, with the figures of its paper if they are known",
    )
    parser.add_argument(
        "--check", action="store_true", help="print every broken rule and, for a file of your own, every skipped task"
    )
    parser.add_argument("--show", type=int, metavar="N", default=0, help="print the first N cases, call by call")
    parser.add_argument(
        "--plugin", action="append", default=[], help="a plugin package, to use the files in its conf folder too"
    )
    given = parser.parse_intermixed_args(arguments)
    console = Console(soft_wrap=True, highlight=False)
    try:
        plugins.allow(given.plugin)
        dataset = _made(given.dataset, given.values)
        if given.stats or not (given.check or given.show):
            stats(console, dataset)
        sound = not given.check or check(console, dataset)
        for case_id in dataset.case_ids()[: given.show]:
            _lines(console, [f"\n{case_id}", *shown(dataset, case_id)])
    except _MISTAKES as error:
        return said(GridError(f"a case cannot be created: {type(error).__name__}: {error}; --check names the case"))
    except (GridError, ModuleNotFoundError) as error:
        return said(error)
    return 0 if sound else 1


def _made(name: str, values: Sequence[str]) -> Dataset:
    """The data set from a config file, with the given values; raises ConfigError if it cannot be created from them."""
    changed = OmegaConf.from_dotlist(list(values))
    for group in changed:
        if group != "dataset" or not isinstance(changed[group], DictConfig):
            raise ConfigError(str(group), changed[group], "a key of the data set, such as dataset.KEY=VALUE")
    config = OmegaConf.merge(OmegaConf.create({"dataset": file_of("dataset", name)}), changed)
    found: Any = make("dataset", named_today(cast(Any, OmegaConf.to_container(config)))["dataset"])
    return cast(Dataset, found)


def stats(console: Console, dataset: Dataset) -> None:
    """Print counts, skipped records by reason, and the data set's own tables."""
    console.print(counts(dataset))
    if dataset.skipped:
        table = Table("skipped", "reason", "first record", title="skipped")
        first = {skip.reason: f"{skip.place} {skip.record}".lstrip() for skip in reversed(dataset.skipped)}
        for reason, count in Counter(skip.reason for skip in dataset.skipped).most_common(20):
            table.add_row(f"{count:,}", shown_lines(reason), shown_lines(first[reason]))
        console.print(table)
    for table in _own(dataset, "tables", dataset) or ():
        console.print(table)


def counts(dataset: Dataset) -> Table:
    """The numbers of cases, clusters, tools and skipped records, and of reference calls in the first `_CHECKED` cases.

    Reference calls are counted only if the data set provides REFERENCES.
    """
    ids = dataset.case_ids()
    problems = [dataset.problem(one) for one in ids[:_CHECKED]]
    calls = [len([call for call in problem.reference.calls.values() if call]) for problem in problems]
    idle = sum(problem.world.resolved(problem.world.start()) for problem in problems)
    table = Table("count", "of", title=shown_lines(dataset.version))
    table.columns[0].justify = "right"
    table.add_row(f"{len(ids):,}", "cases")
    table.add_row(
        f"{len({dataset.cluster(one) for one in ids}):,}", "clusters, the independent units for confidence intervals"
    )
    table.add_row(f"{len(dataset.tools):,}", "tools")
    table.add_row(f"{len(dataset.skipped):,}", "skipped records, and remarks")
    if calls and REFERENCES in dataset.provides:
        first = f" (first {len(calls)} cases)" if len(calls) < len(ids) else ""
        table.add_row(f"{min(calls)} to {max(calls)}", f"calls in a case's reference{first}")
        table.add_row(f"{sum(calls) / len(calls):.2f}", f"calls in a case's reference, mean{first}")
        table.add_row(f"{idle:,}", f"cases that are resolved without any call{first}")
    return table


def check(console: Console, dataset: Dataset) -> bool:
    """Print each rule that does not hold, and each skipped task of a user's own file.

    Returns whether all rules hold and no task of a user's own file is skipped. Skipped records of published files are
    not counted as problems.
    """
    broken, ran, not_run = list[str](), 0, Counter[str]()
    if dataset.outline == GIVEN and OUTLINE not in dataset.provides:
        broken.append("dataset.outline=given, but the dataset's cases have no outline (`outline` is not in `provides`)")
    for case_id in dataset.case_ids()[:_CHECKED]:
        try:
            problem = dataset.problem(case_id)
            broken += [f"{case_id}: {line}" for line in wrong_calls(problem)]
            if why := _not_run(dataset, problem):
                not_run[why] += 1
            else:
                ran += 1
                if not problem.world.resolved(asyncio.run(_replayed(problem))[1]):
                    broken.append(f"{case_id}: the calls of its reference do not resolve it")
        except _MISTAKES as error:
            broken.append(f"{case_id}: this case cannot be created or run: {type(error).__name__}: {error}")
    broken += _own(dataset, "broken", dataset) or ()
    own = [skip for skip in dataset.skipped if skip.place]
    _lines(console, (*(f"skipped: {skip.text()}" for skip in own), *broken))
    console.print(f"{ran} cases were run with the calls of their references; {len(broken)} rules broken", end="")
    more = "" if len(own) == len(dataset.skipped) else " (--stats says why)"
    console.print(f"; {len(dataset.skipped):,} skipped{more}" if dataset.skipped else "")
    _lines(console, (f"{count:,} cases were not run: {why}" for why, count in not_run.items()))
    return not broken and not own


def _not_run(dataset: Dataset, problem: Problem) -> str | None:
    """Why the calls in a case's reference are not run; None if they can be run and resolve the case by themselves."""
    case = problem.case
    if not any(problem.reference.calls.values()):
        return "they have no calls"
    if case.answered or case.messages or case.diagnosed or problem.reference.told:
        return "calls alone do not resolve them; they also need an answer, further messages or a judged plan"
    if BRANCHING not in dataset.provides:
        return (
            "their tools are live, and calls may change the tools' data; --show N runs the calls of the first N cases"
        )
    return (
        None
        if REFERENCES in dataset.provides
        else "the data set does not say that their calls are references (`provides`)"
    )


def wrong_calls(problem: Problem) -> Iterator[str]:
    """One line for each error in a case and its reference that does not depend on how the world reacts."""
    if not problem.case.query.strip():
        yield "it has no query"
    if problem.reference.unsolvable:  # a tool that it calls may be missing on purpose
        return
    for step, call in problem.reference.calls.items():
        if call is None or call.tool in (FINISH, GIVE_UP):
            continue
        tool = problem.library.get(call.tool)
        if tool is None:
            yield f"step {step} of its reference calls {call.tool}, which is not a tool of its library"
            continue
        for name in sorted(call.arguments.keys() - {parameter.name for parameter in tool.parameters}):
            yield f"step {step} of its reference gives {call.tool} an argument that this tool does not have: {name}"


def shown(dataset: Dataset, case_id: str) -> Iterable[str]:
    """Lines that show a case to people: from the data set's module `stats`, or else each call with its result."""
    own = _own(dataset, "written", dataset, case_id)
    if own is not None:
        yield from own
        return
    problem = dataset.problem(case_id)
    yield from (problem.case.query, *(f"  {part.id} {part.text}" for part in problem.case.plan.substeps))
    for step, (call, observation) in asyncio.run(_replayed(problem))[0].items():
        yield from (f"  {step}. {call.text()}", f"     {observation.text()}")
    if problem.reference.answer:
        yield f"  answer: {problem.reference.answer}"


async def _replayed(problem: Problem) -> tuple[dict[str, tuple[ToolCall, Observation]], State]:
    """The reference's calls by step, as written, each with its result, and the state after all calls."""
    world = problem.world
    state, outcomes = world.start(), dict[str, Mapping[str, Json]]()
    found: dict[str, tuple[ToolCall, Observation]] = {}
    try:
        for step, call in problem.reference.calls.items():
            if call is not None:
                state, observation = await world.apply(state, resolve(call, outcomes))
                outcomes[step], found[step] = observation.content, (call, observation)
    finally:
        await close(world)
    return found, state


def _own(dataset: Dataset, name: str, *arguments: object) -> Any:
    """The result of a function in the data set's module `stats`; None if there is no such function."""
    package = import_module(type(dataset).__module__).__package__
    if not package or package == "grid.datasets" or find_spec(f"{package}.stats") is None:
        return None
    function = getattr(import_module(f"{package}.stats"), name, None)
    return function and function(*arguments)


def _lines(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(shown_lines(line), markup=False)


if __name__ == "__main__":
    sys.exit(main())
