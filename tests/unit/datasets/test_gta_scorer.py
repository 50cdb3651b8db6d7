"""GTA's metrics are those of the authors' own evaluator.

Its class is read from the file that AGENT_GRID_GTA_SCORER names (the authors' `gta_bench.py`) and runs without the
sentence model: on both sides the likeness of texts is that of their words. What it says of 80 made-up paths is kept in
data/gta_scores.json, which `python -m tests.unit.datasets.test_gta_scorer` writes anew.
"""

from __future__ import annotations

import ast
import json
import math
import os
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.tables.trajectories import f1
from grid.core.types import Observation, Step, Substep, ToolCall, Trajectory
from grid.datasets.gta import Gold, Gta, measure, measure_step
from tests.support import gta
from tests.support.gta_mutations import GOLD, Message, another, mutated, steps_of

FROZEN = Path(__file__).parents[1] / "data" / "gta_scores.json"
MUTATIONS, KEPT = 2000, 80
BATCH = 20
END, STEP = "every", "every_with_gt"  # as the authors call the modes
LETTERS = {"p_f1": "perception", "o_f1": "operation", "l_f1": "logic", "c_f1": "creativity"}
Path_ = tuple[int, list[Message]]
"""The number of a record in GOLD, and what was said and called instead."""


def alike(one: str, other: str) -> float:
    """The cosine of two bags of words; of neither negative nor undefined."""
    bags = [Counter(re.findall(r"\w+", text.lower())) for text in (one, other)]
    norms = [math.sqrt(sum(count**2 for count in bag.values())) for bag in bags]
    return sum(bags[0][word] * bags[1][word] for word in bags[0]) / (norms[0] * norms[1]) if all(norms) else 0.0


def authors(mode: str) -> Any:
    """Their evaluator; skips where it is absent."""
    named = os.environ.get("AGENT_GRID_GTA_SCORER")
    if not named:
        pytest.skip("set AGENT_GRID_GTA_SCORER to the authors' gta_bench.py")
    tree = ast.parse(Path(named).read_text(encoding="utf-8"))
    (own,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "GTABenchEvaluator"]
    own.bases, own.decorator_list = [], []
    own.body = [node for node in own.body if getattr(node, "name", "") not in ("__init__", "bert_score")]
    space: dict[str, Any] = {"json": json, "re": re, "np": np}
    exec(compile(ast.fix_missing_locations(ast.Module([own], [])), named, "exec"), space)  # noqa: S102
    evaluator = space["GTABenchEvaluator"]()
    evaluator.mode, evaluator.bert_score = mode, alike
    return evaluator


def theirs(mode: str, paths: Sequence[Path_]) -> Mapping[str, float]:
    """What they say of some paths."""
    golds = [steps_of(GOLD[number]) for number, _ in paths]
    made = [path for _, path in paths]
    wanted = [json.dumps(GOLD[number]["gt_answer"]) for number, _ in paths]
    if mode == END:
        said = authors(mode).score([[path] for path in made], wanted, [[gold] for gold in golds])
    else:
        said = authors(mode).score(made, wanted, golds)
    return {name: float(value) for name, value in said.items() if not name.startswith(("tool_call", "total"))}


def ours(mode: str, cases: Mapping[int, Gold], paths: Sequence[Path_]) -> Mapping[str, float]:
    """The same figures out of the columns of the rows that the grid would write of these paths."""
    if mode == END:
        rows = [measure(cases[number], alike, "links", trajectory(path)) for number, path in paths]
        asked = [cases[number].record.wanted is not None for number, _ in paths]
        return _end(rows, asked)
    found = [
        (measure_step(cases[number], place, alike, "links", trajectory([message])), place, cases[number])
        for number, path in paths
        for place, message in enumerate(path)
    ]
    tools = [row for row, place, gold in found if place < len(gold.record.calls)]
    last = [row for row, place, gold in found if place == len(gold.record.calls) and gold.record.wanted is not None]
    asked_steps = len(tools) + len(last)  # as published: steps that answer where nothing is asked count in no sum
    return {
        "inst_align": 100 * sum(row["instruction_accuracy"] for row, _, _ in found) / asked_steps,
        "tool_acc": 100 * sum(row["tool_accuracy"] for row in tools) / len(tools),
        "arg_acc": 100 * sum(row["argument_accuracy"] for row in tools) / len(tools),
        "answer_acc": 100 * sum(row["answer_score"] for row in last) / len(last) if last else 0.0,
    }


def _end(rows: Sequence[Mapping[str, Any]], asked: Sequence[bool]) -> Mapping[str, float]:
    scores = [row["answer_score"] for row in rows]
    facts = [score for score, one in zip(scores, asked, strict=True) if one]
    counts = [json.loads(row["tool_counts"]) for row in rows]
    sums = {name: np.sum([one[name] for one in counts], axis=0) for name in LETTERS.values()}
    frame = pd.DataFrame.from_dict(sums, orient="index", columns=["hits", "predicted", "gold"])
    by_kind = f1(frame).fillna(0.0)  # theirs is 0 where there are no gold calls
    return {
        "answer_acc": 100 * sum(facts) / len(facts) if facts else 0.0,
        "answer_acc_w_imggen": 100 * sum(scores) / len(scores),
        **{letter: 100 * by_kind[name] for letter, name in LETTERS.items()},
    }


def trajectory(path: Sequence[Message]) -> Trajectory:
    """A path of messages as the grid's own."""
    steps, answer = [], None
    for place, message in enumerate(path):
        substep = Substep(str(place), "", "")
        if "error" in message:
            steps.append(Step(0, substep, None, None, malformed=True))
        elif "tool_calls" in message:
            function = message["tool_calls"][0]["function"]
            made = ToolCall(function["name"], function["arguments"])
            steps.append(Step(0, substep, made, Observation({"result": "?"}), written=made))
        else:
            steps.append(Step(0, substep, None, None, finished=True))
            answer = message["content"]
    return Trajectory(tuple(steps), tuple(steps), answer=answer)


@pytest.fixture(scope="module")
def golds(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Gold]:
    return read(tmp_path_factory.mktemp("gta"))


def read(folder: Path) -> Mapping[int, Gold]:
    dataset = Gta(gta.write(folder, GOLD))
    assert not dataset.skipped
    return {int(gold.number): gold for gold, _ in dataset.cases.values()}


def paths_of(mode: str, count: int, seed: int) -> list[Path_]:
    """Mutations of all records in turn."""
    rng = random.Random(seed)
    numbers = [place % len(GOLD) for place in range(count)]
    if mode == END:
        return [(number, mutated(GOLD[number], rng)) for number in numbers]
    return [
        (number, [another(step, rng) if rng.random() < 0.5 else step for step in steps_of(GOLD[number])])
        for number in numbers
    ]


def batches(paths: Sequence[Path_]) -> list[Sequence[Path_]]:
    return [paths[place : place + BATCH] for place in range(0, len(paths), BATCH)]


def kept() -> list[dict[str, Any]]:
    """Forty paths of each mode; step by step beside one whose query asks for facts: theirs divides by their number."""
    alone = [(mode, [path]) for mode in (END, STEP) for path in paths_of(mode, KEPT // 2, 15)]
    anchor: Path_ = (0, steps_of(GOLD[0]))
    return [{"mode": mode, "paths": [*paths, *[anchor] * (mode == STEP)]} for mode, paths in alone]


def test_what_the_authors_evaluator_said_is_said_again(golds: Mapping[int, Gold]) -> None:
    frozen = json.loads(FROZEN.read_text(encoding="utf-8"))
    assert len(frozen) == KEPT
    for one in frozen:
        assert ours(one["mode"], golds, one["paths"]) == pytest.approx(one["said"], abs=1e-9), one


@pytest.mark.parametrize("mode", [END, STEP])
def test_of_gold_paths_the_authors_evaluator_says_the_same(golds: Mapping[int, Gold], mode: str) -> None:
    paths = [(number, steps_of(gold)) for number, gold in enumerate(GOLD)]
    said = theirs(mode, paths)
    assert ours(mode, golds, paths) == pytest.approx(said, abs=1e-9)
    if mode == STEP:
        assert said["tool_acc"] == said["arg_acc"] == 100


@pytest.mark.parametrize("mode", [END, STEP])
def test_of_mutations_the_authors_evaluator_says_the_same(golds: Mapping[int, Gold], mode: str) -> None:
    paths = paths_of(mode, MUTATIONS, 1)
    values: dict[str, set[float]] = {}
    for batch in batches(paths):
        said, found = theirs(mode, batch), ours(mode, golds, batch)
        assert found == pytest.approx(said, abs=1e-9), batch
        for name, value in said.items():
            values.setdefault(name, set()).add(round(value, 6))
    assert all(len(found) > 10 for found in values.values()), "the mutations are of all kinds"


def _write(folder: Path) -> None:
    rows = [one | {"said": theirs(one["mode"], one["paths"])} for one in kept()]
    assert all(ours(one["mode"], read(folder), one["paths"]) == pytest.approx(one["said"], abs=1e-9) for one in rows)
    FROZEN.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        _write(Path(made))
