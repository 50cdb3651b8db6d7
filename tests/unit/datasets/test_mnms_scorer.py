"""m&m's metrics are those of the authors' own scorer.

It is read from the checkout of their repository that AGENT_GRID_MNMS names: the parts of `mnms/evaluation` that score
plans, without what loads models; it takes scikit-learn and Levenshtein. What it says of the small files' plans and of
some mutations is kept in data/mnms_scores.json, which `python -m tests.unit.datasets.test_mnms_scorer` writes anew.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import traceback
import typing
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from grid.core.types import ToolCall
from grid.datasets.mnms import labels_of, nearest, plan_scores
from grid.datasets.mnms_records import Calls
from tests.support.mnms_mutations import Pair, golds, pairs

FROZEN = Path(__file__).parents[1] / "data" / "mnms_scores.json"
MUTATIONS = 2000
KEPT = 68  # of them, beside the small files' own plans
COLUMNS = {
    "argument_name_f1": "argname_f1",
    "argument_value_f1": "argvalue_f1",
    "edge_f1": "edge_f1",
    "plan_accuracy": "plan_tool_accuracy",
    "plan_names_accuracy": "plan_argname_accuracy",
    "plan_values_accuracy": "plan_argvalue_accuracy",
    "edit_distance": "tool_normalized_edit_distance",
}
"""Our columns, by the authors' names of the same."""
SUMMED = {"argname_f1": "names", "argvalue_f1": "values", "edge_f1": "edges"}
Evaluate = Callable[[Sequence[Pair], bool], dict[str, float | None]]


def authors_evaluate() -> Evaluate:
    """Their scorer on pairs, with or without alternatives: percentages by metric, None where there is none."""
    named = os.environ.get("AGENT_GRID_MNMS")
    if not named:
        pytest.skip("set AGENT_GRID_MNMS to a checkout of the authors' repository")
    levenshtein = pytest.importorskip("Levenshtein")
    learned = pytest.importorskip("sklearn.metrics")
    frames = pytest.importorskip("pandas")
    root = Path(named) / "mnms"
    known: dict[str, Any] = {"ast": ast, "traceback": traceback, "partial": partial, "pd": frames} | vars(typing)
    known |= {"re": __import__("re"), "Levenshtein": levenshtein} | vars(learned)
    for file in ("constants.py", "evaluation/metrics.py", "evaluation/evaluator.py"):
        tree = ast.parse((root / file).read_text(encoding="utf-8"))
        kept = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(ast.Module([*kept], []), file, "exec"), known)  # noqa: S102
    return partial(_evaluate, known["MNMEvaluator"])


def _evaluate(evaluator: Any, given: Sequence[Pair], alternatives: bool) -> dict[str, float | None]:
    gold = [
        {"id": number, "plan_str": str(_nodes(pair.golds[0])), "alt_plans_str": str([*map(_nodes, pair.golds[1:])])}
        for number, pair in enumerate(given)
    ]
    made = [{"id": number, "prediction": _nodes(pair.made)} for number, pair in enumerate(given)]
    own = evaluator(gold, made, "gt", "json", use_best_match=alternatives)
    found: dict[str, float | None] = {}
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(ValueError):  # of a metric that has nothing to compare; all are asked again
            own.evaluate()
        assert all(len(metric._gt) == len(given) for name, metric in own.metrics.items() if name.startswith("plan"))
        for name, metric in own.metrics.items():
            try:
                found |= {f"{name}_{key}": value for key, value in metric.compute().items()}
            except ValueError:
                found[f"{name}_f1"] = None
    return found


def _nodes(plan: Calls) -> list[dict[str, Any]]:
    return [{"id": place, "name": call.tool, "args": dict(call.arguments)} for place, call in enumerate(plan)]


def ours(pair: Pair, alternatives: bool) -> dict[str, Any]:
    """What the grid says of a pair."""
    made = labels_of(pair.made)
    return plan_scores(nearest([*map(labels_of, pair.golds[: None if alternatives else 1])], made), made)


def as_theirs(found: Mapping[str, Any]) -> dict[str, float | None]:
    """Our columns as percentages under their names, and their tool F1 of this case alone."""
    told = {theirs: None if found[own] is None else 100 * float(found[own]) for own, theirs in COLUMNS.items()}
    return told | {"tool_macro_f1": macro([found])}


def macro(found: Sequence[Mapping[str, Any]]) -> float:
    """The tool F1 of cases, from their counts."""
    counts: dict[str, list[int]] = {}
    for one in found:
        for tool, own in json.loads(one["tool_counts"]).items():
            counts[tool] = [a + b for a, b in zip(counts.get(tool, [0, 0, 0]), own, strict=True)]
    assert len(counts) == 33
    return 100 * sum(2 * hits / (made + gold) if made + gold else 0.0 for hits, made, gold in counts.values()) / 33


def equal(one: Mapping[str, float | None], other: Mapping[str, float | None]) -> bool:
    """To the two digits that the authors round to."""
    return all(
        (value is None) == (other[name] is None) and (value is None or abs(value - (other[name] or 0)) < 0.0051)
        for name, value in one.items()
    )


def readable(pair: Pair) -> bool:
    """Whether their scorer reads a call of every reference: of another it says nothing that can be used."""
    return all(labels_of(gold).tools for gold in pair.golds)


def given_pairs(count: int, seed: int) -> list[Pair]:
    return [pair for pair in pairs(2 * count, seed) if readable(pair)][:count]


def kept_pairs() -> list[Pair]:
    """Those that are frozen."""
    return [*(Pair(plans, plans[0]) for plans in golds()), *given_pairs(KEPT, seed=15)]


def test_what_the_authors_scorer_said_is_said_again() -> None:
    kept = json.loads(FROZEN.read_text(encoding="utf-8"))
    assert len(kept) == KEPT + len(golds())
    for one in kept:
        pair = Pair([_calls(plan) for plan in one["golds"]], _calls(one["made"]))
        for way in ("reference", "alternatives"):
            assert equal(as_theirs(ours(pair, way == "alternatives")), one[way]), one


def _calls(nodes: Sequence[Mapping[str, Any]]) -> Calls:
    return tuple(ToolCall(node["name"], node["args"]) for node in nodes)


def test_of_mutations_the_authors_scorer_says_the_same() -> None:
    evaluate = authors_evaluate()
    given = [*(Pair(plans, plans[0]) for plans in golds()), *given_pairs(MUTATIONS, seed=1)]
    assert len(given) == MUTATIONS + len(golds())
    for way in (False, True):
        differing = [pair for pair in given if not equal(as_theirs(ours(pair, way)), evaluate([pair], way))]
        assert differing == []
    values = [ours(pair, False)["argument_value_f1"] for pair in given]
    assert {0.0, 1.0} < set(values)  # the mutations are of all kinds


def test_of_all_cases_together_the_authors_scorer_says_the_same() -> None:
    evaluate = authors_evaluate()
    given = given_pairs(MUTATIONS, seed=2)
    theirs, found = evaluate(given, False), [ours(pair, False) for pair in given]
    assert theirs["tool_macro_f1"] == pytest.approx(macro(found), abs=0.0051)
    for name, part in SUMMED.items():
        labels = [[set(getattr(labels_of(plan), part)) for plan in (pair.golds[0], pair.made)] for pair in given]
        hits = sum(len(gold & made) for gold, made in labels)
        assert theirs[name] == pytest.approx(200 * hits / sum(len(one) for pair in labels for one in pair), abs=0.0051)
    for own in ("plan_accuracy", "plan_names_accuracy", "plan_values_accuracy", "edit_distance"):
        assert theirs[COLUMNS[own]] == pytest.approx(100 * sum(one[own] for one in found) / len(found), abs=0.0051)


def test_an_edge_is_a_pair_of_neighbours() -> None:
    for pair in kept_pairs():
        tools = labels_of(pair.made).tools
        assert labels_of(pair.made).edges == {f"{one}--{other}" for one, other in pairwise(tools)}


if __name__ == "__main__":
    ask = authors_evaluate()
    told = [
        {
            "golds": [_nodes(plan) for plan in pair.golds],
            "made": _nodes(pair.made),
            "reference": {name: ask([pair], False)[name] for name in as_theirs(ours(pair, False))},
            "alternatives": {name: ask([pair], True)[name] for name in as_theirs(ours(pair, True))},
        }
        for pair in kept_pairs()
    ]
    lines = ",\n".join(json.dumps(one) for one in told)
    FROZEN.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
