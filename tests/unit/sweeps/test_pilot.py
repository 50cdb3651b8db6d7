"""A dry run's forecast against what the cells then spend, and the limit on its calls."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grid.cells.pilot import (
    CASES,
    Batch,
    Cap,
    CapError,
    Estimate,
    Forecast,
    Pilot,
    Took,
    forecast,
    piloted,
    pilots_here,
    spread,
    total,
    trial_of,
)
from grid.cells.run import Stamp, run_chunk
from grid.core.engine import Choice
from grid.core.errors import EngineError
from grid.engines.lexical.engine import Lexical
from grid.engines.null import Null
from grid.settings.build import build
from grid.settings.check import check_sweep
from grid.settings.plan import Plan
from grid.store import CellIds
from tests.support.configs import job

SIMULATED = {"_target_": "grid.engines.simulated.engine.Simulated"}
VOTES = {"_target_": "grid.planners.self_consistency.SelfConsistency", "samples": 5}


def plan(root: Path, cases: int, **changes: object) -> Plan:
    return check_sweep([job(root, name="pilot", dry_run=True, dataset__limit=cases, **changes)]).plan


def pilot_of(checked: Plan, calls: int) -> Pilot:
    (setting,) = checked.settings
    return piloted(trial_of(checked, setting, checked.finished(), calls), build(setting, checked.budget))


def spent(checked: Plan) -> tuple[int, int]:
    """Tokens in and out of all cells."""
    (setting,) = checked.settings
    cells, stamp = list(checked.cells_of(setting)), Stamp("x", None)
    usage = asyncio.run(run_chunk(build(setting, checked.budget), setting, cells, stamp)).usage
    return usage.input_tokens, usage.output_tokens


def known(found: Forecast | None) -> Forecast:
    assert found is not None
    return found


def of(estimate: Estimate | None) -> Estimate:
    assert estimate is not None
    return estimate


@pytest.mark.long
@pytest.mark.parametrize("changes", [{}, {"model": SIMULATED}, {"planner": VOTES, "model": SIMULATED}])
def test_the_forecast_is_near_what_is_spent(tmp_path: Path, changes: dict[str, object]) -> None:
    checked = plan(tmp_path, 40, **changes)
    found = known(forecast(pilot_of(checked, 1200), 40))
    tokens_in, tokens_out = spent(checked)
    assert of(found.input_tokens).value == pytest.approx(tokens_in, rel=0.2)
    assert of(found.output_tokens).value == pytest.approx(tokens_out, rel=0.2)
    assert of(found.input_tokens).spread
    assert found.money == Estimate(0.0, 0.0), "what runs in the task costs nothing"
    assert list(tmp_path.iterdir()) == [], "a pilot keeps nothing"


@pytest.mark.long
@pytest.mark.parametrize("planner", [{"_target_": "grid.planners.react.ReAct"}, VOTES])
@pytest.mark.parametrize("calls", [1, 7, 40, 41, 100, 10_000])
def test_no_more_calls_are_made_than_allowed(
    tmp_path: Path, calls: int, planner: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    sample = Null.sample

    async def counted(self: Null, *given: object, n: int, **how: object) -> object:
        made.append(n)
        return await sample(self, *given, n=n, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Null, "sample", counted)
    checked = plan(tmp_path, 12, model={"_target_": "grid.engines.null.Null"}, planner=planner)
    found = pilot_of(checked, calls)
    assert sum(made) == found.calls <= calls
    counts = [one.calls for one in found.took]
    assert bool(counts) == (found.why is None)
    assert not (found.broken_off and calls == 10_000)
    if not counts:
        assert found.why == f"one cell takes more than {calls} calls"
    if calls == 10_000:
        assert len(counts) == 12


def test_calls_that_are_used_up_within_cells_are_told(tmp_path: Path) -> None:
    """The forecast then rests on the shorter cells."""
    checked = plan(tmp_path, 9)  # whose first cells make 11 and 13 calls
    assert [(len(found.took), found.broken_off) for found in (pilot_of(checked, calls) for calls in (22, 24))] == [
        (1, True),
        (2, False),
    ]


@pytest.mark.parametrize("cases", [1, 4])
def test_a_choice_may_cost_more_than_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: int) -> None:
    """Its passes are known only afterwards; no further cell starts, and none was interrupted."""
    choose = Lexical.choose

    async def dear(self: Lexical, *given: Any, **how: Any) -> Choice:
        found = await choose(self, *given, **how)
        return replace(found, usage=replace(found.usage, forward_passes=4))

    monkeypatch.setattr(Lexical, "choose", dear)
    planner = {"_target_": "grid.planners.egb.EGBLogits", "trajectories": 1, "threshold": 1.0}
    checked = plan(tmp_path, cases, planner=planner)
    calls = pilot_of(checked, 10_000).took[0].calls  # the last one is a choice
    found = pilot_of(checked, calls - 3)
    assert (len(found.took), found.calls, found.broken_off, found.why) == (1, calls, False, None)


def test_a_cap_lets_none_through_that_it_has_not() -> None:
    cap = Cap(5)
    cap.take(4)
    with pytest.raises(CapError, match=r"dry_run\.pilot=5"):
        cap.take(2)
    cap.take(1)
    assert cap.left == 0


def test_any_first_few_lie_evenly_apart() -> None:
    for many in (7, 50, 1000):
        assert sorted(spread(range(many), many)) == list(range(many))
        for few in range(2, 20):
            places = sorted(spread(range(many), few))
            gaps = [after - before for before, after in pairwise(places)]
            assert max([*gaps, places[0], many - places[-1]]) <= 4 * many / few + 1


def test_cells_that_are_done_are_not_tried(tmp_path: Path) -> None:
    checked = plan(tmp_path, 6)
    (setting,) = checked.settings
    cells = list(checked.cells_of(setting))
    done = CellIds(np.array([cell.cell_id for cell in cells[:4]], dtype="S16"))
    assert {cell.cell_id for cell in trial_of(checked, setting, done, 100).cells} == {one.cell_id for one in cells[4:]}


def test_an_engine_that_lives_elsewhere_is_asked_only_by_a_pilot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lexical, "home", "replica")
    checked = plan(tmp_path, 2)
    (found,) = pilots_here(checked, checked.settings, checked.finished()).values()
    assert found.took == []
    assert found.why
    assert "dry_run.pilot=N" in found.why
    assert "lexical" in found.why


def test_without_a_limit_two_cells_are_tried(tmp_path: Path) -> None:
    checked = plan(tmp_path, 9)
    (found,) = pilots_here(checked, checked.settings, checked.finished()).values()
    assert len(found.took) == CASES


def test_a_failure_that_is_no_result_says_why_and_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(self: Lexical, *given: object, **how: object) -> object:
        raise EngineError("the server said 401")

    for verb in ("sample", "choose"):
        monkeypatch.setattr(Lexical, verb, refuse)
    found = pilot_of(plan(tmp_path, 9), 100)
    assert found.why == "a cell failed (infrastructure): the server said 401"
    assert found.calls == 1


def took(tokens: int, money: float | None = None) -> Took:
    return Took(1, tokens, 2 * tokens, money, 1.0)


def test_a_forecast_by_hand() -> None:
    pilot = Pilot([Batch([took(10, 0.1)], 1, 1.0, 1.0), Batch([took(20, 0.2), took(30, 0.3)], 2, 1.5, 1.0)])
    found = known(forecast(pilot, 6))
    assert of(found.input_tokens).value == pytest.approx(6 * 20)
    assert of(found.input_tokens).spread == pytest.approx(2 * 6 * 10 / 3**0.5)
    assert of(found.output_tokens).value == pytest.approx(6 * 40)
    assert found.money
    assert found.money.value == pytest.approx(6 * 0.2)
    one = known(forecast(replace(pilot, batches=pilot.batches[:1]), 6))
    assert one.input_tokens == Estimate(60.0, None), "one cell has no spread"
    assert known(forecast(Pilot([Batch([took(10)], 1, 1.0, 1.0)]), 6)).money is None
    assert forecast(Pilot(why="x"), 6) is None
    assert total([Estimate(1.0, 0.5), Estimate(2.0, 0.25)]) == Estimate(3.0, 0.75)
    assert total([Estimate(1.0, 0.5), Estimate(2.0, None)]).spread is None
