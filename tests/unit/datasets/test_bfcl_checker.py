"""The check of calls is that of BFCL's authors.

Their functions are read from the package that AGENT_GRID_BFCL_EVAL names (the folder `bfcl_eval` of bfcl-eval
2026.3.23). Without it there is what they said of made-up records, in a file that
`python -m tests.unit.datasets.test_bfcl_checker` writes.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from grid.core.types import ToolCall
from grid.datasets.bfcl import BFCL
from grid.datasets.bfcl_records import all_accepted, files_of, functions_of, gold_of, is_parallel, read_rows, wanted_of
from tests.support import bfcl
from tests.support.bfcl_mutations import Judged, mutations

FROZEN = Path(__file__).parents[1] / "data" / "bfcl_checker.json"
MUTATIONS = 2000
Checker = Callable[[Judged], bool | None]
WITH_GOLD: list[Any] = [name for name in bfcl.CATEGORIES if wanted_of(cast(Any, name)) == "gold"]


def authors_checker() -> Checker:
    """The authors' `ast_checker`; None where it breaks. What it imports for other languages and models is left out."""
    named = os.environ.get("AGENT_GRID_BFCL_EVAL")
    if not named:
        pytest.skip("set AGENT_GRID_BFCL_EVAL to the folder of the package bfcl_eval")
    path = Path(named) / "eval_checker" / "ast_eval" / "ast_checker.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kept = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    language = SimpleNamespace(JAVA="java", JAVASCRIPT="js", PYTHON="python")
    models = {"grid": SimpleNamespace(underscore_to_dot=False)}
    found: dict[str, Any] = {"re": re, "Language": language, "MODEL_CONFIG_MAPPING": models}
    exec(compile(ast.Module([*kept], []), str(path), "exec"), found)  # noqa: S102

    def check(judged: Judged) -> bool | None:
        made = json.loads(json.dumps([{name: arguments} for name, arguments in judged.made]))
        try:
            said = found["ast_checker"](judged.functions, made, judged.gold, language.PYTHON, judged.category, "grid")
        except (AttributeError, IndexError, KeyError, TypeError):
            return None
        return bool(said["valid"])

    return check


def ours(judged: Judged) -> bool:
    functions = functions_of({"function": judged.functions})
    gold = gold_of({"ground_truth": judged.gold}, functions, is_parallel(cast(Any, judged.category)))
    calls = [ToolCall(name, arguments) for name, arguments in judged.made]
    return all_accepted({name: one.signature for name, one in functions.items()}, gold, calls)


def right_of(folder: str, category: Any) -> list[Judged]:
    """A category's records with the reference's calls."""
    data = BFCL(folder, category=category)
    rows, answers = read_rows(files_of(folder, category))
    found = []
    for _, row in rows:
        if row["id"] in data.case_ids():
            calls = data.problem(row["id"]).reference.calls.values()
            made = [(call.tool, dict(call.arguments)) for call in calls if call]
            found.append(Judged(category, row["function"], answers[row["id"]]["ground_truth"], made))
    return found


def made_up(folder: Path, count: int, seed: int) -> list[Judged]:
    """Right calls of the small files, and so many mutations."""
    path = bfcl.write(folder)
    right = [one for category in WITH_GOLD if "live" not in category for one in right_of(path, category)]
    return [*right, *mutations(right, count, seed)]


def differing(check: Checker, given: Sequence[Judged]) -> list[tuple[Judged, bool | None]]:
    """Where the two do not say the same; where the authors' breaks, the calls are not accepted."""
    said = [(one, check(one)) for one in given]
    return [(one, theirs) for one, theirs in said if ours(one) != bool(theirs)]


def test_what_the_authors_check_said_is_said_again() -> None:
    kept = json.loads(FROZEN.read_text(encoding="utf-8"))
    assert len(kept) == 80
    assert 20 < sum(valid for _, valid in kept) < 60
    for judged, valid in kept:
        assert ours(Judged(*judged)) is valid, judged


def test_of_mutations_the_authors_check_says_the_same(tmp_path: Path) -> None:
    check = authors_checker()
    given = made_up(tmp_path, MUTATIONS, seed=1)
    assert differing(check, given) == []
    counts = Counter(map(check, given))
    assert counts[True] > 200
    assert counts[False] > 800


@pytest.mark.parametrize("category", WITH_GOLD)
def test_of_the_released_records_the_authors_check_says_the_same(category: Any) -> None:
    check, path = authors_checker(), os.environ.get("AGENT_GRID_BFCL")
    if not path:
        pytest.skip("set AGENT_GRID_BFCL to the folder of BFCL v4")
    right = right_of(path, category)
    assert right
    assert [one for one in right if not check(one)] == []
    assert differing(check, right) == []
    assert differing(check, mutations(right, MUTATIONS, seed=2)) == []


def _write(folder: Path) -> None:
    check = authors_checker()
    given = made_up(folder, 1000, seed=3)
    short = [one for one in given if len(str(one)) < 1200]
    accepted = [one for one in short if check(one)][:110:3]
    refused = [one for one in short if check(one) is False][: 3 * (80 - len(accepted)) : 3]
    lines = [json.dumps([one, check(one)]) for one in (*accepted, *refused)]
    FROZEN.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as temporary:
        _write(Path(temporary))
