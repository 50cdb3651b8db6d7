"""Score a sweep's episodes again: `agent-grid rescore results/NAME [model@evaluator=NAME] [plugins=[mylab]]`.

The command computes the metrics of stored episodes with today's scorers, or with another evaluator; the acting model is
not asked. The results are kept next to the first scores, which do not change (docs/results.md, 'Scoring again'). The
command accepts a sweep's keys for how an evaluator is asked (`evaluator.form=digits`), where its replicas run
(`cluster=address ...`), and how much it may cost (`budget.money=5`).
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import Progress

from analysis.page.render import csv, show
from analysis.page.table import MISSING, Column, Table, count, label
from grid import store
from grid.cluster.answering import loaded
from grid.core.engine import EVALUATOR, SAMPLE
from grid.core.errors import ConfigError, StoreError, one_line
from grid.core.places import folder_at
from grid.engines.hosted import Probe
from grid.sweeps.composing import prepared
from grid.sweeps.rescore import CHANGED, GONE, NEW, STATES, UNKNOWN, Compared, Judge, Rescored, rescore
from launch.win_rate import ended, evaluator

SAME, DIFFERS = 0, 1
_TAKEN = (f"model@{EVALUATOR}=", f"{EVALUATOR}.", "cluster=", "cluster.", "budget.money=")
_SHOWN = 20  # number of changes shown, the largest first
_QUERY = "SELECT * FROM '{root}/rescores/*.parquet' JOIN '{root}/scorings/*.parquet' USING (scoring)"


def main() -> int:
    """Exit status 2 if the command cannot run, 1 if the evaluator stops or a value is wrong, else 0.

    A value is wrong if it differs although nothing that it depends on has changed.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=folder_at, help="the folder of a sweep, results/NAME")
    parser.add_argument(
        "keys", nargs="*", metavar="KEY=VALUE", help="model@evaluator=NAME, plugins=[...] and similar keys"
    )
    parser.add_argument(
        "--list", action="store_true", help="show every value that differs, not only the largest changes"
    )
    parser.add_argument(
        "--csv", type=Path, metavar="FILE", help="write the earlier and the new value of every metric in every cell"
    )
    given = parser.parse_args()
    return ended(lambda: _run(given), given.keys, "all results so far are kept")


def _run(given: argparse.Namespace) -> int:
    console = Console(highlight=False, emoji=False)
    found = again(given.results, given.keys, console)
    for table in tables(given.results, found, None if given.list else _SHOWN):
        show(console, table, wide=True)
    if given.csv:
        _write(given.csv, _frame(found.compared), given.results)
    for line in said(found):
        console.print(line, markup=False, soft_wrap=True)
    if wrong := found.wrong:
        cells = ", ".join(list(dict.fromkeys(one.cell_id for one in wrong))[:3])
        print(f"ERROR: {len(wrong):,} values differ, and {wrong[0].why} (cells {cells})", file=sys.stderr)
    return DIFFERS if found.wrong else SAME


def again(root: Path, keys: Sequence[str], console: Console) -> Rescored:
    """Score a folder again with a command line's keys; without keys of an evaluator, no evaluator is asked.

    Raises the errors of `rescore` and `evaluator`, StoreError if the folder has no results, and ConfigError for keys
    that are not accepted.
    """
    prepared([one for one in keys if one.startswith("plugins=")])
    overrides = [one for one in keys if not one.startswith("plugins=")]
    for one in overrides:
        if not one.startswith(_TAKEN):
            key, _, value = one.partition("=")
            raise ConfigError(key, value, f"only the keys {', '.join(_TAKEN)} and plugins= are allowed")
    store.check_there(root)
    asked = evaluator(overrides, informed=True) if overrides else None
    say = partial(console.print, markup=False, soft_wrap=True)

    async def run(stack: ExitStack) -> Rescored:
        judge = None
        if asked:
            probes = (Probe(EVALUATOR, asked.how.at(0.0)),) if asked.how.verb == SAMPLE else ()
            engine = await loaded(replace(asked.asked, probes=probes), say, stack)
            judge = Judge(asked.label, asked.config, engine, asked.how, asked.price, asked.most)
        bar = stack.enter_context(Progress(console=console, transient=True))
        return await rescore(root, judge, partial(bar.advance, bar.add_task("scored again", total=None)))

    with ExitStack() as stack:
        return asyncio.run(run(stack))


def said(found: Rescored) -> list[str]:
    """Lines about the results.

    They give, for each data set, the unknown values with their reasons; then the imported cells and those without
    scores, the evaluator's cost (if one was asked), and the number of values in each state.
    """
    reasons, cells = Counter[tuple[str, str]](), defaultdict[tuple[str, str], set[str]](set)
    for one in found.compared:
        if one.state == UNKNOWN:
            reasons[one.dataset, one.why] += 1
            cells[one.dataset, one.why].add(one.cell_id)
    lines = [
        f"{one_line(dataset, 80)}: {values:,} values of {len(cells[dataset, why]):,} cells are not known: {why}"
        for (dataset, why), values in reasons.most_common()
    ]
    if found.imported:
        lines.append(f"{found.imported:,} cells were imported, and keep the scores of their files")
    if found.never:
        lines.append(f"{found.never:,} cells ended in an error and never had scores")
    if found.spent.llm_calls or found.spent.forward_passes:
        cost = "its price is not known" if found.money is None else f"${found.money:.4f}"
        lines.append(
            f"the evaluator gave {found.spent.llm_calls:,} completions and made {found.spent.forward_passes:,} passes; "
            f"{cost}"
        )
    states = Counter(one.state for one in found.compared)
    told = ", ".join(f"{states[state]:,} {state}" for state in STATES)
    return [*lines, f"values of {len({one.cell_id for one in found.compared}):,} cells: {told}"]


def tables(root: Path, found: Rescored, most: int | None) -> list[Table]:
    """A table of the number of values in each state, by data set and metric; and a table of the largest changes.

    `most` is the maximum number of changes to show (None: all changes). Without changes there is no second table, and
    without values there is no table.
    """
    query = _QUERY.format(root=str(root).replace("'", "''"))
    counts = Counter((one.dataset, one.metric, one.state) for one in found.compared)
    keys = sorted({key[:2] for key in counts})
    rows = [
        dict(zip(("dataset", "metric"), key, strict=True), **{s: counts[(*key, s)] for s in STATES}) for key in keys
    ]
    columns = [count(state) for state in STATES]
    made = [Table("scored again", "Scored again", ["dataset", "metric"], columns, pd.DataFrame(rows), query)]
    changed = sorted((one for one in found.compared if one.state in (CHANGED, NEW, GONE)), key=_size, reverse=True)
    if not changed:
        return made if rows else []
    values = _frame(changed[:most])
    title = f"Values that differ: {len(values):,} of {len(changed):,}" + ", the largest first" * (most is not None)
    by = ["dataset", "planner", "case_id", "trial", "metric"]
    return [
        *made,
        Table(
            "what differs", title, by, [_value("then"), _value("now"), label("why"), label("cell_id")], values, query
        ),
    ]


def _size(one: Compared) -> float:
    """The size of a change: infinite if a changed value is a text, 0 if only one scoring has a value."""
    if isinstance(one.then, float) and isinstance(one.now, float):
        return abs(one.now - one.then)
    return float("inf") if one.state == CHANGED else 0.0


def _value(name: str) -> Column:
    return Column(
        name,
        lambda row: (
            MISSING if row[name] is None else f"{row[name]:.6g}" if isinstance(row[name], float) else str(row[name])
        ),
    )


def _frame(found: Sequence[Compared]) -> pd.DataFrame:
    return pd.DataFrame([one._asdict() for one in found], columns=list(Compared._fields)).astype(
        {"then": object, "now": object}
    )


def _write(path: Path, values: pd.DataFrame, root: Path) -> None:
    table = Table("scored again", "", [], [], values, _QUERY.format(root=root))
    try:
        path.write_text(csv(table), encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{one_line(path, 200)}: cannot be written to ({error.strerror or error})") from None


if __name__ == "__main__":
    sys.exit(main())
