"""The trajectory metrics are those of TRAJECT-Bench's own scorer (traject_bench §4.1).

The scorer's functions are read from the file that AGENT_GRID_TRAJECT_SCORER names (the authors' `utils/metrics.py`)
and run without the rest of it. What it says of 60 made-up pairs is kept in data/traject_scores.json, which
`python -m tests.unit.datasets.test_traject_scorer` writes anew.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from grid.core.problem import Reference
from grid.core.types import Json, Step, Substep, ToolCall
from grid.datasets.traject_bench.dataset import TrajectBench
from grid.metrics.failure_patterns import normalised, same_arguments
from grid.metrics.stepwise import trajectory_scores
from tests.support.traject_mutations import SAME, Pair, gold_of, pairs

FROZEN = Path(__file__).parents[1] / "data" / "traject_scores.json"
MUTATIONS = 2000
LONGEST = 1500  # characters of a pair that is kept
Scorer = Mapping[str, Callable[..., Any]]


def authors_scorer() -> Scorer:
    """The pure functions of the authors' file; it imports what asks models, which is left out."""
    named = os.environ.get("AGENT_GRID_TRAJECT_SCORER")
    if not named:
        pytest.skip("set AGENT_GRID_TRAJECT_SCORER to the authors' utils/metrics.py")
    tree = ast.parse(Path(named).read_text(encoding="utf-8"))
    kept = [node for node in tree.body if isinstance(node, ast.FunctionDef) and "model" not in _arguments(node)]
    found: dict[str, Any] = {"ast": ast, "re": re, "datetime": datetime}
    exec(compile(ast.Module([*kept], []), named, "exec"), found)  # noqa: S102
    return found


def _arguments(node: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in node.args.args]


def theirs(scorer: Scorer, pair: Pair, ordered: bool) -> dict[str, Any]:
    """What the authors' functions say of a pair."""
    gold, made = ([_as_record(call) for call in calls] for calls in pair)
    usage = scorer["tool_traj_usage"](gold, made)
    return {
        "exact_match": scorer["exact_match_tools"](gold, made, order=ordered),
        "inclusion": scorer["inclusion_tools"](gold, made),
        "usage": sum(usage) / len(usage) if usage else None,
        "retrieval_rate": scorer["retrieval_rate"](gold, made),
    }


def _as_record(call: ToolCall) -> dict[str, Any]:
    """A call in the benchmark's form. Planners know no classes of parameters: the name decides, the same for both."""
    required: list[dict[str, Any]] = []
    optional: list[dict[str, Any]] = []
    for name, value in call.arguments.items():
        (required if len(name.strip()) % 2 else optional).append({"name": name, "value": value})
    return {"tool name": call.tool, "required_parameters": required, "optional parameters": optional}


def ours(pair: Pair, ordered: bool) -> dict[str, Any]:
    """What the grid says of the same pair; the tools that were called are also those that were offered."""
    reference = Reference({str(place): call for place, call in enumerate(pair.gold)}, (), ordered=ordered)
    names = tuple(call.tool for call in pair.made)
    steps = [
        Step(0, Substep(str(place), "", ""), call, None, written=call, candidates=names)
        for place, call in enumerate(pair.made)
    ]
    empty = [Step(0, Substep("0", "", ""), None, None, finished=True)]
    found = trajectory_scores(steps or empty, reference)
    return {name: found[name] for name in ("exact_match", "inclusion", "usage", "retrieval_rate")}


def differing(scorer: Scorer, given: Sequence[Pair]) -> list[tuple[Pair, bool, dict[str, Any], dict[str, Any]]]:
    """The pairs of which the two do not say the same."""
    said = [(pair, way, ours(pair, way), theirs(scorer, pair, way)) for pair in given for way in (False, True)]
    return [one for one in said if one[2] != one[3]]


def made_up() -> list[Pair]:
    """The pairs that are kept: 5 right ones and 55 mutations, without long values."""
    rng = random.Random(14)
    golds = [gold_of(rng) for _ in range(40)]
    found = [*(Pair(gold, gold) for gold in golds), *pairs(golds, 200, 14)]
    short = [pair for pair in found if len(str(pair)) < LONGEST]
    return [*short[:5], *[pair for pair in short if pair.gold != pair.made][:55]]


def test_what_the_authors_scorer_said_is_said_again() -> None:
    kept = json.loads(FROZEN.read_text(encoding="utf-8"))
    assert len(kept) == 60
    for one in kept:
        pair = Pair(*([ToolCall(call["tool"], call["arguments"]) for call in one[key]] for key in ("gold", "made")))
        for way in ("set", "list"):
            assert ours(pair, way == "list") == one[way], one


def test_of_mutations_the_authors_scorer_says_the_same() -> None:
    scorer, rng = authors_scorer(), random.Random(0)
    given = pairs([gold_of(rng) for _ in range(500)], MUTATIONS, seed=1)
    assert differing(scorer, given) == []
    usages = [ours(pair, False)["usage"] for pair in given]
    assert {None, 0.0, 1.0} < set(usages)  # the mutations are of all kinds
    assert {ours(pair, True)["exact_match"] for pair in given} == {True, False}


def test_of_values_the_authors_scorer_says_the_same() -> None:
    scorer = authors_scorer()
    values = [value for row in SAME for value in row]
    for one in values:
        assert str(normalised(one)) == str(scorer["normalize_value"](one)) or one is None
        for other in values:
            pair = Pair([ToolCall("t", {"p": one})], [ToolCall("t", {"p": other})])
            assert ours(pair, False)["usage"] == theirs(scorer, pair, False)["usage"], (one, other)


@pytest.mark.parametrize(("kind", "level"), [("parallel", "simple"), ("parallel", "hard"), ("sequential", None)])
def test_of_the_released_records_the_authors_scorer_says_the_same(kind: Any, level: Any) -> None:
    scorer, path = authors_scorer(), os.environ.get("AGENT_GRID_TRAJECT")
    if not path:
        pytest.skip("set AGENT_GRID_TRAJECT to TRAJECT-Bench's public_data folder")
    dataset = TrajectBench(path, kind=kind, level=level)
    golds = [
        [call for call in dataset.problem(case_id).reference.calls.values() if call] for case_id in dataset.case_ids()
    ]
    assert differing(scorer, [Pair(gold, gold) for gold in golds]) == []
    assert all(ours(Pair(gold, gold), True)["exact_match"] for gold in golds)
    assert {ours(Pair(gold, gold), True)["usage"] for gold in golds} == {1.0}
    assert differing(scorer, pairs(golds, MUTATIONS, seed=2)) == []


@pytest.mark.parametrize(
    "value", ["²", "9" * 5000, "[" * 9000, "\x00", "'\\", "{[]: 1}", "1e99999", "'a' 'b'", "\ud800"]
)
def test_no_value_breaks_the_metric(value: Json) -> None:
    assert same_arguments({"p": value}, {"p": value})
    assert not same_arguments({"p": value}, {"p": "something else"})


def _write() -> None:
    scorer = authors_scorer()
    kept = [
        {
            "gold": [{"tool": call.tool, "arguments": dict(call.arguments)} for call in pair.gold],
            "made": [{"tool": call.tool, "arguments": dict(call.arguments)} for call in pair.made],
            "set": theirs(scorer, pair, False),
            "list": theirs(scorer, pair, True),
        }
        for pair in made_up()
    ]
    FROZEN.write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
