"""A conversation of BFCL passes where the authors' check of several turns says that it does.

Theirs is run from the package `bfcl-eval`, without which nothing here can run: the classes are in it too. What it said
of the released records and 2,000 mutations is kept in data/bfcl_turns.json, which
`python -m tests.unit.datasets.test_bfcl_turns_checker` writes anew.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from grid.core.types import ToolCall
from grid.datasets.bfcl import Documents, MultiTurn, documents, read_talk
from grid.datasets.bfcl_records import read_docs
from tests.support import bfcl_turns
from tests.support.bfcl_turns import CATEGORIES, Turns, mutated

FROZEN = Path(__file__).parents[1] / "data" / "bfcl_turns.json"
MUTATIONS, SEED = 2000, 7
CHECKER = "bfcl_eval.eval_checker.multi_turn_eval"
Row = tuple[Mapping[str, Any], Mapping[str, Any], MultiTurn]
"""A record, its answer, and the case made of them."""


@pytest.fixture(autouse=True)
def _installed() -> None:
    pytest.importorskip("bfcl_eval", reason="install the package of the classes: grid.datasets.bfcl_records.INSTALL")


def theirs(row: Mapping[str, Any], answer: Mapping[str, Any], made: Turns) -> bool:
    """What the authors say, of objects that nothing else has; each call is a step of its own."""
    utils = importlib.import_module(f"{CHECKER}.multi_turn_utils")
    before = set(vars(utils))
    steps = [[[_written(call)] for call in calls] for calls in made]
    check = importlib.import_module(f"{CHECKER}.multi_turn_checker").multi_turn_checker
    try:
        return bool(check(steps, answer["ground_truth"], row, row["id"].rpartition("_")[0], "grid")["valid"])
    finally:
        for name in set(vars(utils)) - before:
            delattr(utils, name)


def _written(call: ToolCall) -> str:
    return f"{call.tool}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


def ours(case: MultiTurn, made: Turns) -> bool:
    async def run() -> bool:
        world = case.world
        state = world.start()
        for turn, calls in enumerate(made):
            state = world.next_turn(state) if turn else state
            for call in calls:
                state, _ = await world.apply(state, call)
        return world.resolved(state)

    return asyncio.run(run())


def small_rows() -> Iterator[Row]:
    yield from _rows([(category, *bfcl_turns.rows_of(category)) for category in CATEGORIES], bfcl_turns.known())


def released_rows() -> list[Row]:
    named = os.environ.get("AGENT_GRID_BFCL")
    if not named:
        pytest.skip("set AGENT_GRID_BFCL to the folder of BFCL v4")
    root = Path(named) / "data" if (Path(named) / "data").is_dir() else Path(named)
    read = [
        (category, _lines(root / f"BFCL_v4_{category}.json"), _lines(root / f"possible_answer/BFCL_v4_{category}.json"))
        for category in CATEGORIES
    ]
    return list(_rows(read, documents(read_docs(sorted((root / "multi_turn_func_doc").glob("*.json"))))))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _rows(read: Sequence[tuple[str, Any, Any]], known: Documents) -> Iterator[Row]:
    for _, rows, answers in read:
        by_id = {answer["id"]: answer for answer in answers}
        for row in rows:
            yield row, by_id[row["id"]], read_talk(row, by_id[row["id"]], known)


def mutations(rows: Sequence[Row], count: int) -> Iterator[tuple[Row, Turns]]:
    rng = random.Random(SEED)
    for place in range(count):
        row = rows[place * 7919 % len(rows)]
        yield row, mutated(row[2].world.gold, rng)


def test_the_reference_passes_and_of_mutations_both_say_the_same() -> None:
    rows, said = list(small_rows()), []
    for row, answer, case in rows:
        gold = [list(calls) for calls in case.world.gold]
        assert theirs(row, answer, gold)
        assert ours(case, gold)
        assert not ours(case, [[] for _ in gold])
    for (row, answer, case), made in mutations(rows, 600):
        said.append(theirs(row, answer, made))
        assert ours(case, made) == said[-1], (row["id"], made)
    assert 100 < sum(said) < 400


def test_of_the_released_records_and_their_mutations_it_says_what_the_authors_said() -> None:
    kept, rows = json.loads(FROZEN.read_text(encoding="utf-8")), released_rows()
    if len(rows) != kept["records"]:
        pytest.skip(f"{kept['records']} records are kept, and there are {len(rows)}")
    assert all(ours(case, [list(calls) for calls in case.world.gold]) for _, _, case in rows)
    said = "".join(str(int(ours(case, made))) for (_, _, case), made in mutations(rows, MUTATIONS))
    differing = [place for place, (one, other) in enumerate(zip(said, kept["mutations"], strict=True)) if one != other]
    assert differing == []


def _write() -> None:
    rows = released_rows()
    assert all(theirs(row, answer, [list(calls) for calls in case.world.gold]) for row, answer, case in rows)
    said = "".join(str(int(theirs(row, answer, made))) for (row, answer, _), made in mutations(rows, MUTATIONS))
    kept = {"package": "bfcl-eval==2026.3.23", "seed": SEED, "records": len(rows), "mutations": said}
    kept["classes"] = sorted({name for row, _, _ in rows for name in row["involved_classes"]})
    FROZEN.write_text(f"{json.dumps(kept, indent=0)}\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
