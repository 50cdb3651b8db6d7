"""Nouns that caches look up by keep their hash, each in its own process."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest

from grid.core.types import Parameter, ToolCall, ToolSpec
from grid.engines.lexical.arguments import Found, values_in


def tool(name: str = "find_order") -> ToolSpec:
    return ToolSpec(name, "Finds an order.", (Parameter("order_id", "string", "Its id."),), ("status",), "orders")


def found(text: str = "order ORD-12345 is late") -> Found:
    return values_in(text)[0]


@pytest.mark.parametrize("make", [tool, found, lambda: tool().parameters[0]])
def test_equal_ones_are_equal_keys_and_others_are_not(make: Callable[[], object]) -> None:
    one, other = make(), copy.deepcopy(make())
    assert hash(one) == hash(one) == hash(other)
    assert one == other
    assert {one: 1}[other] == 1
    assert tool() != tool("find_orders")
    assert hash(tool()) != hash(tool("find_orders"))


def test_a_kept_hash_does_not_travel() -> None:
    """Texts hash differently in a process of another PYTHONHASHSEED: a hash from here would find nothing there."""
    known = tool()
    hash(known), hash(known.parameters[0])
    code = (
        "import pickle, sys\n"
        "from grid.core.types import Parameter, ToolSpec\n"
        "sent = pickle.load(sys.stdin.buffer)\n"
        "made = ToolSpec(sent.name, sent.description, tuple(Parameter(p.name, p.type, p.description)"
        " for p in sent.parameters), sent.returns, sent.category)\n"
        "assert {made: 1}[sent] == 1 and {made.parameters[0]: 1}[sent.parameters[0]] == 1\n"
    )
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", code], input=pickle.dumps(known), env=environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()


def test_a_calls_text_is_its_own() -> None:
    one, other = ToolCall("a", {"b": 1}), ToolCall("a", {"b": 1})
    assert one.text() == one.text() == '{"tool": "a", "arguments": {"b": 1}}'
    assert one == other  # one has written its text, the other has not
