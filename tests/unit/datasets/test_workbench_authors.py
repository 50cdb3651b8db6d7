"""The 27 tools and the score do as the authors' own code does, on calls of all kinds.

AGENT_GRID_WORKBENCH names the released data, AGENT_GRID_WORKBENCH_CODE a git directory of olly-styles/WorkBench,
AGENT_GRID_WORKBENCH_PYTHON a Python that has the pandas of their requirements.txt, 2.1.4 (later ones treat unknown
cells otherwise). What their code says of sequences on a small workplace is kept in data/workbench_outcomes.json, which
`python -m tests.unit.datasets.test_workbench_authors` writes anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from grid.core.types import ToolCall
from grid.datasets.workbench import WorkBench, WorkBenchWorld, respond
from grid.datasets.workbench_table import Table, Workplace, shown
from tests.support import workbench
from tests.support.workbench_authors import digest

FROZEN = Path(__file__).parents[1] / "data" / "workbench_outcomes.json"
RUNNER = Path(__file__).parents[2] / "support" / "workbench_authors.py"
MUTATIONS, KEPT, SEED = 2000, 150, 15
NOTHING = ("No events found.", "No emails found.")
Sequences = list[tuple[Sequence[ToolCall], Sequence[ToolCall]]]


def sequences(data: WorkBench, mutations: int) -> Sequences:
    """Every gold answer against itself, doing nothing, and mutations."""
    golds = [tuple(call for call in data.problem(name).reference.calls.values() if call) for name in data.case_ids()]
    mutated = workbench.Mutations(data.before, golds, SEED)
    return [
        *((gold, gold) for gold in golds),
        *(((), gold) for gold in golds),
        *(mutated.pair() for _ in range(mutations)),
    ]


def theirs(found: Sequences, data: str) -> list[dict[str, Any]]:
    """What the authors' code says; skips where it is not to be had."""
    code = os.environ.get("AGENT_GRID_WORKBENCH_CODE")
    if not code:
        pytest.skip("set AGENT_GRID_WORKBENCH_CODE to a git directory of olly-styles/WorkBench")
    python = os.environ.get("AGENT_GRID_WORKBENCH_PYTHON", sys.executable)
    asked = [
        {
            "made": [[call.tool, dict(call.arguments)] for call in made],
            "gold": [[c.tool, dict(c.arguments)] for c in gold],
        }
        for made, gold in found
    ]
    command = [python, str(RUNNER), code, data]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True)
    told: list[dict[str, Any]] = json.loads(done.stdout)
    return told


def rows_of(table: Table) -> list[list[Any]]:
    records = map(shown, table.records())
    return [[row.label, *record.values()] for row, record in zip(table.rows, records, strict=True)]


def check(before: Workplace, made: Sequence[ToolCall], gold: Sequence[ToolCall], said: dict[str, Any]) -> None:
    """One sequence: each call's success and what it returned, the tables behind all, and the score."""
    world, state = WorkBenchWorld(before, gold), before
    for call, (how, *value) in zip(made, said["results"], strict=True):
        state, observation = respond(state, call)
        refused = how == "raised" or is_refusal(call.tool, value[0])
        assert observation.failed == refused, (call, observation, how, value)
        if not refused:
            same(call.tool, observation.content, value[0])
    assert [digest([*table.columns], rows_of(table)) for table in state.changing()] == said["tables"], made
    assert world.resolved(state) == said["correct"], (made, gold)
    assert world.side_effect(state) == said["side_effect"], (made, gold)


def is_refusal(tool: str, value: Any) -> bool:
    """Whether what their tool returned says that it did nothing: they return such texts as they do results."""
    if not isinstance(value, str) or value in NOTHING or value.endswith("successfully."):
        return False
    return not (value.isdigit() if "create_plot" not in tool else value.startswith("plots/"))


def same(tool: str, content: Any, value: Any) -> None:
    """Their results have no names, and success is told in their own words."""
    if tool.endswith("_by_id") and "visitor" not in tool:
        assert content == value
        return
    (ours,) = content.values()
    if value in NOTHING:
        assert ours == []
    elif isinstance(value, str) and value.endswith("successfully."):
        assert isinstance(ours, str)
    elif "visitor" in tool:  # after an average over all days their tables hold numbers in the place of texts
        assert [as_numbers(one) for one in ours] == [as_numbers(one) for one in value]
    else:
        assert ours == (pytest.approx(value, rel=1e-12) if "average" in tool else value)


def as_numbers(visit: dict[str, Any]) -> dict[str, Any]:
    return visit | {"session_duration_seconds": float(visit["session_duration_seconds"])}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> WorkBench:
    return WorkBench(workbench.write(tmp_path_factory.mktemp("workbench")))


def test_sequences_end_as_the_authors_code_said(small: WorkBench) -> None:
    kept = json.loads(FROZEN.read_text(encoding="utf-8"))
    found = sequences(small, KEPT)
    assert len(found) == len(kept)
    for (made, gold), said in zip(found, kept, strict=True):
        check(small.before, made, gold, said)
    for name in ("correct", "side_effect"):
        assert {said[name] for said in kept} == {True, False}


def test_the_released_tools_and_scorer() -> None:
    path = os.environ.get("AGENT_GRID_WORKBENCH")
    if not path:
        pytest.skip("set AGENT_GRID_WORKBENCH to WorkBench's folder")
    data = WorkBench(path)
    found = sequences(data, MUTATIONS)
    for (made, gold), said in zip(found, theirs(found, path), strict=True):
        check(data.before, made, gold, said)


def main() -> None:
    """Write the frozen outcomes anew."""
    with tempfile.TemporaryDirectory() as folder:
        path = workbench.write(Path(folder))
        told = theirs(sequences(WorkBench(path), KEPT), path)
    lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in told)
    FROZEN.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
