"""The rules of failure patterns (traject_bench §4.2) on trajectories made by hand, and their table."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path
from typing import Any

import duckdb
import pytest
from rich.console import Console

from analysis.report import print_report
from grid import store
from grid.core.problem import Reference
from grid.core.types import Parameter, Step, Substep, ToolCall, ToolSpec
from grid.metrics.failure_patterns import (
    INTENT,
    MISSING,
    RELATED,
    SIMILAR,
    UNRELATED,
    WRONG,
    Likeness,
    failure_patterns,
    normalised,
)
from grid.metrics.scores import PATTERNS

DESCRIBED = {
    "Spot: Search": "Finds songs and albums by the words of a music query.",
    "Tube: Search": "Finds songs and videos by the words of a music query.",
    "Spot: Artist": "Tells the biography of an artist.",
    "Rail: Stations": "Lists railway stations of a country.",
    "Rail: Trains": "Lists trains that leave a station.",
    "Air: Codes": "Lists codes of all airports.",
    "Air: Airport": "Tells about one airport.",
    "Chess": "Draws a chess puzzle.",
    "Bank: Rate": "Tells the exchange rate between two currencies.",
    "Bank: Loan": "Computes the interest on a loan.",
    "Farm: Eggs": "Counts eggs laid by hens.",
    "Farm: Milk": "Measures litres given by cows.",
}
QUERY = (Parameter("q", "string", "what is sought"), Parameter("limit", "number", "how many", required=False))
LIKENESS = Likeness({name: ToolSpec(name, text, QUERY) for name, text in DESCRIBED.items()})
SEARCH = ToolCall("Spot: Search", {"q": "blue", "limit": 5})
AIRPORT = ToolCall("Air: Airport", {"q": "ZRH"})


def patterns(*made: ToolCall, wanted: tuple[ToolCall, ...] = (SEARCH, AIRPORT)) -> tuple[str, ...]:
    steps = [Step(0, Substep(str(place), "", ""), call, None, written=call) for place, call in enumerate(made)]
    return failure_patterns(steps, Reference({str(i): call for i, call in enumerate(wanted)}, ()), LIKENESS)


@pytest.fixture(autouse=True)
def few_near(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is small: of twelve tools eight would be near any."""
    monkeypatch.setattr("grid.metrics.failure_patterns.NEAR", 1)


def test_the_reference_s_calls_have_no_pattern_in_any_order() -> None:
    assert patterns(SEARCH, AIRPORT) == patterns(AIRPORT, SEARCH) == ()
    assert patterns(ToolCall("Spot: Search", {"limit": "5", "q": " blue"}), AIRPORT) == ()
    assert patterns(SEARCH) == (), "a call that is left out is no pattern of the paper's: inclusion tells of it"


def test_a_similar_tool_in_the_place_of_the_right_one() -> None:
    tube = ToolCall("Tube: Search", {"q": "blue"})
    assert patterns(tube, AIRPORT) == (SIMILAR,)
    assert patterns(tube, tube, AIRPORT) == (SIMILAR, RELATED), "twice is once too often"
    assert patterns(SEARCH, tube, AIRPORT) == (RELATED,), "the right one was called too"


def test_parameters_are_wrong_or_missing() -> None:
    assert patterns(ToolCall("Spot: Search", {"q": "red", "limit": 5}), AIRPORT) == (WRONG,)
    assert patterns(ToolCall("Spot: Search", {"q": "blue"}), AIRPORT) == (MISSING,)
    assert patterns(ToolCall("Spot: Search", {"q": "blue", "limit": ""}), AIRPORT) == (MISSING,)
    assert patterns(ToolCall("Spot: Search", {"q": "red"}), AIRPORT) == (WRONG, MISSING)
    more = ToolCall("Air: Airport", {"q": "ZRH", "limit": 1})
    assert patterns(SEARCH, more) == (WRONG,)
    assert patterns(ToolCall("Spot: Search", {"q": "red", "limit": 5}), SEARCH, AIRPORT) == (WRONG, RELATED)


def test_calls_beyond_the_reference_s() -> None:
    assert patterns(SEARCH, SEARCH, AIRPORT) == (RELATED,)
    assert patterns(SEARCH, AIRPORT, ToolCall("Air: Codes", {})) == (RELATED,)
    assert patterns(SEARCH, AIRPORT, ToolCall("Farm: Eggs", {})) == (UNRELATED,)
    assert patterns(SEARCH, AIRPORT, ToolCall("Made: Up", {})) == (UNRELATED,)
    assert patterns(SEARCH, SEARCH, wanted=(SEARCH, SEARCH)) == ()


def test_the_intent_is_missed_where_nothing_called_is_related() -> None:
    assert patterns() == (INTENT,)
    assert patterns(ToolCall("Farm: Milk", {}), ToolCall("Chess", {})) == (UNRELATED, INTENT)
    assert INTENT not in patterns(ToolCall("Air: Codes", {}))
    assert patterns(wanted=()) == ()


def test_a_reference_to_an_earlier_result_counts_as_written_or_as_run() -> None:
    written, run = ToolCall("Air: Airport", {"q": "OUTPUT_FROM_STEP_0.code"}), AIRPORT
    step = Step(0, Substep("0", "", ""), run, None, written=written)
    for wanted in (written, run):
        assert failure_patterns([step], Reference({"0": wanted}, ()), LIKENESS) == ()


@pytest.mark.long
def test_the_table_has_the_shares_and_its_query_finds_them_too(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [
        {
            "model": "lexical", "dataset": dataset, "robustness": "none", "pool": "all", "planner": planner, "trial": 0,
            "cell_id": f"{planner}{place}{dataset}", "cell_key": f"{planner}{place}{dataset}", "attempt_id": "a",
            "case_id": f"c{place}", "cluster": f"c{place}", "status": "ok", "success": False,
            "failure_patterns": found, "config": "{}", "created_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        }
        for dataset in ("traject_bench", "slate")
        for planner in ("react", "zero_shot")
        for place, found in enumerate(([WRONG, MISSING], [WRONG], [], [INTENT]) if dataset != "slate" else (None, None))
    ]  # fmt: skip
    store.write(tmp_path, {"episodes": cells})
    tables = print_report(tmp_path, Console(file=io.StringIO()))
    (table,) = [table for table in tables if table.name.startswith("failure patterns")]
    assert table.name == "failure patterns lexical traject_bench"
    assert table.rows == [
        ["none", planner, "4", "0.0", "50.0", "25.0", "0.0", "0.0", "25.0", "25.0"]
        for planner in ("react", "zero_shot")
    ]
    queried = duckdb.connect().execute(table.query).df()
    assert queried[["cells", *PATTERNS, "none"]].to_dict("records") == table.values[
        ["cells", *PATTERNS, "none"]
    ].to_dict("records")


def test_texts_are_read_as_values_up_to_a_length() -> None:
    """Longer ones are compared as they stand: reading them would take its time, and they are no numbers or lists."""
    for length, read in ((10_000, True), (10_001, False)):
        text = "[" + "1,".ljust(length - 2) + "]"
        assert (normalised(text) == [1]) is read
