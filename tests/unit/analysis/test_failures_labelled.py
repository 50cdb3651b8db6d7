"""Failure classes against a person's: real episodes of a 1.5B model on UltraTool, read word for word.

`labels.jsonl` has for each cell what a reader of the whole episode wrote down before looking at what the rules say. The
rules were changed after the rounds 1 to 3, by what was seen in them; round 4 was read after the last change.
`rows.jsonl.gz` has the rows that the rules read. UltraTool states no licence, so tools, keys and texts are numbers,
equal where they were equal: classes do not change, but some kinds of a wrong argument do.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from analysis.tables import failed
from analysis.tables.failure_cells import CLASSES, WRONG_ARGUMENT
from grid import store
from tests.unit.store.test_store import NOON

DATA = Path(__file__).parents[2] / "data" / "failures"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(label, row of the rules) of each episode."""
    root, rows = tmp_path_factory.mktemp("labelled"), dict[str, list[dict[str, Any]]]()
    for line in gzip.decompress((DATA / "rows.jsonl.gz").read_bytes()).decode().splitlines():
        row = json.loads(line)
        table = row.pop("table")
        rows.setdefault(table, []).append(row | ({"created_at": NOON} if table == "episodes" else {}))
    store.write(root, rows)
    found = {row["cell_id"]: row for row in failed.classes(root).to_pylist()}
    labels = [json.loads(line) for line in (DATA / "labels.jsonl").read_text().splitlines()]
    return [(label, found[label["cell_id"]]) for label in labels]


def kappa(both: list[tuple[str, str]]) -> float:
    """Cohen's."""
    agreed = sum(one == other for one, other in both) / len(both)
    mine, its = Counter(one for one, _ in both), Counter(other for _, other in both)
    chance = sum(mine[name] * its[name] for name in mine) / len(both) ** 2
    return (agreed - chance) / (1 - chance)


def test_every_episode_has_a_class_and_a_reason(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    assert len({label["cell_id"] for label, _ in pairs}) == len(pairs) >= 60
    assert all(label["class"] in CLASSES and label["reason"] for label, _ in pairs)


@pytest.mark.parametrize("rounds", [(1, 2, 3), (4,)])
def test_the_rules_agree_with_the_reader(
    pairs: list[tuple[dict[str, Any], dict[str, Any]]], rounds: tuple[int, ...]
) -> None:
    both = [(label["class"], row["failure"]) for label, row in pairs if label["round"] in rounds]
    assert kappa(both) >= 0.9


def test_kinds_of_wrong_arguments_agree_mostly(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    both = [
        (label["kind"], row["failure_detail"].partition(":")[0])
        for label, row in pairs
        if label["class"] == row["failure"] == WRONG_ARGUMENT
    ]
    assert sum(one == other for one, other in both) / len(both) >= 0.6
