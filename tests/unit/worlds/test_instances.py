"""Objects as states: copies that share nothing, and classes that raise, exit, grow or change what all share."""

from __future__ import annotations

import decimal
from typing import Any

import pytest

from grid.core.types import Json
from grid.worlds import functions
from grid.worlds.functions import MOST_BYTES, MOST_SHOWN, UncontrolledError, invoke, same_public_state, taken


class Untold:
    def __repr__(self) -> str:
        return "untold"

    def __str__(self) -> str:
        raise KeyError("nothing to tell")


class Shelf:
    """Things in boxes; `_touched` is its own business."""

    def __init__(self) -> None:
        self.boxes: dict[str, list[Any]] = {"a": []}
        self._touched = 0

    def put(self, thing: Any, box: str = "a") -> dict[str, Any]:
        self.boxes[box].append(thing)
        return {"boxes": self.boxes}

    def look(self) -> list[str]:
        self._touched += 1
        return sorted(self.boxes)

    def missing(self) -> dict[str, str]:
        return {"error": "nothing there"}

    def several(self) -> list[dict[str, str]]:
        return [{"error": "not logged in"}]

    def half(self) -> None:
        self.boxes["half"] = []
        raise ValueError("stopped half way")

    def leave(self) -> None:
        raise SystemExit("that was all")

    def grow(self) -> None:
        self.boxes["a"] = ["x" * 1000 + str(number) for number in range(1000)]

    def nest(self) -> None:
        inner: list[Any] = []
        for _ in range(100_000):
            inner = [inner]
        self.boxes["a"] = inner

    def stream(self) -> None:
        self.boxes["a"] = (word for word in ["a"])  # type: ignore[assignment]

    def untold(self) -> list[Any]:
        return [Untold()]

    def ring(self) -> None:
        self.boxes["a"].append(self.boxes)

    def exact(self) -> dict[str, Any]:
        decimal.getcontext().prec = 3
        return {"third": decimal.Decimal(1) / 3, "not": float("nan")}

    def text(self, size: int) -> str:
        return "y" * size


SHELF = taken(Shelf)


def called(method: str, snapshot: bytes = SHELF, **arguments: Json) -> functions.Invoked:
    return invoke(snapshot, method, arguments)


def test_a_call_is_made_on_a_copy_and_what_it_was_given_stays_the_caller_s() -> None:
    given: list[Json] = [1]
    one, other = called("put", thing=given), called("put", thing=[2])
    assert (one.observation.content, other.observation.content) == ({"boxes": {"a": [[1]]}}, {"boxes": {"a": [[2]]}})
    assert called("look").text == "['a']"
    assert invoke(one.snapshot, "put", {"thing": 3}).observation.content == {"boxes": {"a": [[1], 3]}}
    assert given == [1]
    assert same_public_state(SHELF, called("look").snapshot)
    assert not same_public_state(SHELF, one.snapshot)
    assert same_public_state(one.snapshot, called("put", thing=[1]).snapshot)


@pytest.mark.parametrize(
    ("method", "arguments", "error"),
    [
        ("missing", {}, "nothing there"),
        ("leave", {}, "Error during execution: that was all"),
        ("nothing", {}, "Error during execution: 'Shelf' object has no attribute 'nothing'"),
        ("put", {}, "Error during execution: Shelf.put() missing 1 required positional argument: 'thing'"),
        ("put", {"thing": 1, "box": "b"}, "Error during execution: 'b'"),
        ("put", {"thing": "x" * 100_001}, "Error during execution: the arguments have more than 100,000 characters"),
        ("grow", {}, f"Error during execution: a state of more than {MOST_BYTES:,} bytes"),
        ("stream", {}, "Error during execution: cannot pickle 'generator' object"),
    ],
)
def test_a_call_that_fails_leaves_the_object_as_it_was(method: str, arguments: dict[str, Json], error: str) -> None:
    outcome = invoke(SHELF, method, arguments)
    assert (outcome.observation.failed, outcome.observation.content) == (True, {"error": error})
    assert outcome.snapshot == SHELF


def test_what_was_done_before_an_exception_stays_and_a_list_of_one_error_is_one() -> None:
    half = called("half")
    assert half.observation.content == {"error": "Error during execution: stopped half way"}
    assert called("look", half.snapshot).observation.content == {"result": ["a", "half"]}
    several = called("several")
    assert (several.observation.failed, several.observation.content) == (True, {"result": [{"error": "not logged in"}]})


def test_what_is_nested_too_deeply_is_refused_and_a_ring_equals_nothing() -> None:
    nested = called("nest")
    assert nested.observation.failed
    assert nested.snapshot == SHELF
    ring = called("ring").snapshot
    assert not same_public_state(ring, ring)


def test_what_is_no_json_is_text_and_what_is_long_is_cut() -> None:
    before = decimal.getcontext().prec
    exact = called("exact")
    assert exact.text == "{'third': Decimal('0.333'), 'not': nan}"
    assert exact.observation.content == {"result": exact.text}
    assert decimal.getcontext().prec == before
    assert called("text", size=10).observation.content == {"result": "y" * 10}
    assert called("text", size=10).text == "y" * 10
    assert called("untold").observation.content == {"result": "[untold]"}
    assert called("text", size=MOST_SHOWN).observation.content == {"result": "y" * MOST_SHOWN + "..."}


@pytest.mark.parametrize("make", [lambda: [0] * MOST_BYTES, lambda: 1 // 0, lambda: (_ for _ in ()), lambda: exit(1)])
def test_what_cannot_be_made_or_kept_is_no_object(make: Any) -> None:
    with pytest.raises(UncontrolledError):
        taken(make)
