"""BFCL's records of several turns that are broken: none is a case, and each says why."""

from __future__ import annotations

from copy import deepcopy
from importlib.util import find_spec
from typing import Any

import pytest

from grid.datasets import bfcl_records as checker
from grid.datasets.bfcl import documents
from grid.datasets.dataset import UnusableError
from tests.support.bfcl_turns import case_of

pytestmark = pytest.mark.skipif(find_spec("bfcl_eval") is None, reason=checker.INSTALL)

BAD: list[tuple[dict[str, Any], str]] = [
    ({"involved_classes": None}, "no classes"),
    ({"involved_classes": ["WebSearchAPI"]}, "no classes"),
    ({"involved_classes": ["VehicleControlAPI"]}, "no classes, or a class without functions"),
    ({"initial_config": [1]}, "no initial state"),
    ({"initial_config": {"GorillaFileSystem": 3}}, "no initial state"),
    ({"initial_config": {"GorillaFileSystem": {"root": {"a": 1}}}}, "cannot be loaded: TypeError"),
    ({"initial_config": {"GorillaFileSystem": {"root": {}}}}, "cannot be loaded: IndexError"),
    ({"question": None}, "no turns"),
    ({"question": [[]]}, "1 turns and 3 lists"),
    ({"ground_truth": [[]] * 4}, "3 turns and 4 lists"),
    ({"question": [[{"role": "user", "content": "Hi"}], [], []]}, "the user says nothing in turn 1"),
    ({"question": [[{"role": "system", "content": "Hi"}]] * 3}, "turn 0 is not a list"),
    ({"question": [["Hi"]] * 3}, "turn 0 is not a list"),
    ({"missed_function": {"1": ["fly"]}}, "turn 1 hands over"),
    ({"missed_function": {"0": ["ls"]}}, "the first turn hands over"),
    ({"ground_truth": [["ls()"] * 101, [], []]}, "turn 0 has no list of gold calls, or more than 100 gold calls"),
    ({"ground_truth": ["ls()", [], []]}, "turn 0 has no list"),
]
GOLD = [
    "ls(", "1 + 1", "ls", "fly()", "self.ls()", "cd(ls())", "cd(**{'folder': 'x'})", "cd(*['x'])", "cd('x', 'y')",
    "cd('x', folder='y')", "cd(__import__('os').name)", "cd((1, 2))", "cd({1: 2})", "cd(b'x')", "cd(2j)", "cd({1})",
    f"cd({'[' * 5000}{']' * 5000})", f"cd('{'x' * 100_000}')", "cd(" * 500 + ")" * 500, "ls(); ls()", "", "cd('\0')",
]  # fmt: skip


@pytest.mark.parametrize(("changes", "why"), BAD)
def test_a_broken_record_is_no_case(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(UnusableError, match=why):
        case_of("multi_turn_base", 0, **deepcopy(changes))


@pytest.mark.parametrize("text", GOLD, ids=lambda text: text[:20])
def test_a_gold_call_is_one_call_of_literals(text: str) -> None:
    with pytest.raises(UnusableError, match="gold call cannot be read"):
        case_of("multi_turn_base", 0, ground_truth=[[text], [], []])


def test_a_document_without_a_name_is_none() -> None:
    with pytest.raises(UnusableError, match="no name"):
        documents({"math_api": [{"description": "?"}]})
