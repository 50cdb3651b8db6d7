"""KoPL's functions against the reference engine: every step of random programs, on its example and on wilder bases.

What is known to differ, and why:
- Where the reference raises whatever Python raises, ours is a `KoplError`; `Reference.compare` asserts that both fail.
- Of equal numbers SelectBetween takes one, and of equally frequent units both selections take one, as the inputs'
  order has it; where that order comes from hashing in the reference, ours is the base's. Counted as ties.
- Refused here and not there: numbers that are not finite, an operator of a selection that is none of its two, a
  direction that is none of the two (the reference finds nothing), an operator of a filter on an empty set.
- Relations to ids that the base lacks are left out (the reference crashes when it follows them).
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from grid.worlds.kopl.functions import FUNCTIONS, run
from grid.worlds.kopl.queries import texts
from grid.worlds.kopl.values import OPERATORS, EntitySet, KoplError, ProgramError, condition, from_json
from launch.benchmarks.kopl import Programs, random_base
from tests.support.kopl_reference import Reference, example_base

NAMES = list(FUNCTIONS)


def compared(raw: dict[str, Any], seed: int, count: int) -> Counter[str]:
    """Compare so many random programs; each function is the last of as many."""
    reference = Reference(raw)
    programs = Programs(reference.kb, seed)
    found: Counter[str] = Counter()
    for number in range(count):
        found += reference.compare(programs.program(NAMES[number % len(NAMES)], 4 + number % 11))
    return found


def assert_covered(found: Counter[str], each: int) -> None:
    """Every function was compared, crashes and ties are the exception."""
    steps = sum(found[name] for name in NAMES)
    assert min(found[name] for name in NAMES) >= each
    assert found["crash"] <= 0.05 * steps
    assert found["tie"] <= 0.01 * steps


def test_equal_on_the_references_own_example() -> None:
    assert_covered(compared(example_base(), seed=1, count=270), each=9)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_equal_on_random_bases(seed: int) -> None:
    assert_covered(compared(random_base(seed, 120), seed, count=270), each=9)


@pytest.mark.slow
def test_equal_on_five_thousand_programs() -> None:
    found = compared(example_base(), seed=10, count=1000)
    for seed in range(11, 15):
        found += compared(random_base(seed, 400), seed, count=1000)
    assert_covered(found, each=150)


def test_every_comparison_is_the_references() -> None:
    util = pytest.importorskip("kopl.util", reason="the reference engine is a test dependency: .[dev]")
    data = pytest.importorskip("kopl.data")
    raws: list[dict[str, Any]] = [{"type": "string", "value": text} for text in ("a", "b")]
    raws += [{"type": "quantity", "value": n, "unit": unit} for n in (-1, 2, 2.5) for unit in ("1", "m")]
    raws += [{"type": "year", "value": year} for year in (-44, 1998, 1999, 2000)]
    raws += [{"type": "date", "value": day} for day in ("1998-12-31", "1999-01-01", "1999/6/5", "2000-01-01")]
    for left, right in itertools.product(raws, raws):
        a, b = (data.KB._parse_value(None, raw) for raw in (left, right))
        assert from_json(left).text() == str(a)
        for op in OPERATORS if left["type"] != "string" else ("=",):
            wanted = a.can_compare(b) and util.comp(a, b, op)
            assert condition(op, from_json(right))(from_json(left)) == wanted, (left, op, right)


def step(function: str, *inputs: str, of: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"function": function, "inputs": list(inputs), "dependencies": list(of)}


def test_repeats_are_kept_and_left_out_as_in_the_reference() -> None:
    reference = Reference(random_base(5, 80))
    repeated = 0
    for first, second in itertools.product(reference.kb.relations, reference.kb.relations):
        program = [step("FindAll"), step("Relate", *first, of=(0,)), step("Relate", *second, of=(1,))]
        program += [step(name, of=(2,)) for name in ("Count", "QueryName")]
        assert reference.compare([*program, step("QueryAttr", "key 1", of=(2,))])["Relate"] == 2
        ids = run(reference.kb, program)[1]
        assert isinstance(ids, EntitySet)
        repeated += len(ids.ids) > len(set(ids.ids))
    assert repeated > 10


@pytest.mark.parametrize("op", ["less", "greater"])
def test_of_two_equals_the_selection_is_the_references(op: str) -> None:
    raw = example_base()
    for identity in ("Q36159", "Q22302425"):
        height = next(a for a in raw["entities"][identity]["attributes"] if a["key"] == "height")
        height["value"]["value"] = 200
    reference = Reference(raw)
    for names in (("LeBron James", "LeBron James Jr."), ("LeBron James Jr.", "LeBron James")):
        found = reference.compare(
            [*(step("Find", name) for name in names), step("SelectBetween", "height", op, of=(0, 1))]
        )
        assert (found["SelectBetween"], found["tie"]) == (1, 0)


def test_a_cycle_of_concepts_is_as_in_the_reference() -> None:
    raw = random_base(4, 40)
    raw["concepts"]["C0"]["subclassOf"] = ["C3", "C0"]
    raw["concepts"]["C3"]["subclassOf"] = ["C1"]
    raw["concepts"]["C1"]["subclassOf"] = ["C0"]
    reference = Reference(raw, remarks=1)
    assert reference.kb.remarks[0].record == "concepts kind 0, kind 1, kind 3"
    counts: list[str] = []
    for concept in range(20):
        program: list[dict[str, Any]] = [
            {"function": "FindAll", "inputs": [], "dependencies": []},
            {"function": "FilterConcept", "inputs": [f"kind {concept}"], "dependencies": [0]},
            {"function": "Count", "inputs": [], "dependencies": [1]},
        ]
        reference.compare(program)
        counts += texts(run(reference.kb, program)[-1]) or ()
    assert counts[0] == counts[1] == counts[3] != "0", "each is below the others"


@pytest.mark.parametrize(
    ("function", "inputs", "theirs"),
    [
        ("SelectAmong", ["height", "highest"], ["LeBron James"]),  # anything but `smallest` is the largest there
        ("Relate", ["father", "sideways"], ([], [])),
        ("FilterNum", ["height", "nan", "!="], ([], [])),
        ("FilterNum", ["no such key", "1", "about"], ([], [])),
    ],
)
def test_what_is_refused_here_and_not_there(function: str, inputs: list[str], theirs: Any) -> None:
    reference = Reference(example_base())
    assert getattr(reference.engine, function)(reference.engine.FindAll(), *inputs) == theirs
    program: list[dict[str, Any]] = [
        {"function": "FindAll", "inputs": [], "dependencies": []},
        {"function": function, "inputs": inputs, "dependencies": [0]},
    ]
    with pytest.raises(ProgramError, match=r"^step 1: "):
        run(reference.kb, program)


def test_what_crashes_there_fails_here() -> None:
    reference = Reference(example_base())
    everything = reference.kb.everything
    for function, inputs in (
        ("SelectAmong", ["inception", "largest"]),  # a year is no number
        ("FilterNum", ["height", "tall", ">"]),
        ("FilterNum", ["height", " ", ">"]),
        ("FilterDate", ["date of birth", "1984-13-30", "="]),
        ("FilterYear", ["inception", "long ago", "="]),
        ("QFilterYear", ["point in time", "2003", "="]),  # FindAll has no facts
        ("QueryAttrUnderCondition", ["population", "no such key", "2010"]),
        ("QueryAttrQualifier", ["no such key", "1", "point in time"]),
        ("FilterNum", ["height", "1 centimetre", "about"]),
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            getattr(reference.engine, function)(reference.engine.FindAll(), *inputs)
        assert not isinstance(caught.value, KoplError)
        with pytest.raises(KoplError):
            FUNCTIONS[function].run(reference.kb, everything, *inputs)
