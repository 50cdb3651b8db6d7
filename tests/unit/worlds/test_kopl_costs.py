"""What a call of KoPL's functions costs, in steps of the interpreter: what it returns or is given, never the base."""

from __future__ import annotations

from functools import cache

import pytest

from grid.worlds.kopl import values
from grid.worlds.kopl.functions import FUNCTIONS
from grid.worlds.kopl.values import KnowledgeBase
from grid.worlds.kopl.world import parse
from launch.benchmarks.kopl import calls, fresh_copy, ladder
from tests.support.bytecodes import executed
from tests.support.kopl_world import SOURCE

SIZES = (100, 200, 400)
CALLS = list(calls(parse(ladder(500, SIZES), SOURCE), 100))
HOME = values.__file__.removesuffix("values.py")


@cache
def base(entities: int) -> KnowledgeBase:
    return parse(ladder(entities, SIZES), SOURCE)


def steps(kb: KnowledgeBase, name: str, size: int) -> int:
    """The bytecodes that a call executes in KoPL's own code, comprehensions and conditions included."""
    function, given, inputs = calls(kb, size)[name]
    unseen = [one if one is kb.everything else fresh_copy(one) for one in given]
    counted = executed(lambda: FUNCTIONS[function].run(kb, *unseen, *inputs), HOME)
    assert counted > 0
    return counted


@pytest.mark.parametrize("name", CALLS)
def test_twice_the_items_take_twice_the_steps(name: str) -> None:
    small, middle, large = (steps(base(1000), name, size) for size in SIZES)
    assert large - middle == pytest.approx(2 * (middle - small), rel=0.05, abs=5)


@pytest.mark.parametrize("name", CALLS)
def test_the_bases_size_costs_nothing(name: str) -> None:
    assert steps(base(4000), name, 100) == steps(base(1000), name, 100)
