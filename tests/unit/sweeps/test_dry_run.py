"""`dry_run.pilot=N`: alone, beside `dry_run=true`, in any order; and how long cells take that run side by side."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra_plugins.grid_sweeper import register, settings
from omegaconf import OmegaConf

from grid.cells.pilot import Batch, Estimate, Pilot, Took, forecast
from grid.cluster.pilots import Side
from grid.settings.config import DryRun, SweepConfig, sweep_config
from grid.settings.setting import GROUPS, Setting
from grid.sweeps.arguments import with_pilot
from grid.sweeps.dry_run import Tried, _sums, _unknown, clock, told
from tests.support.configs import CONF

SETTING = Setting({group: {"name": group} for group in GROUPS}, {}, 0)


def composed(arguments: list[str]) -> SweepConfig:
    register()
    with initialize_config_dir(str(CONF), version_base=None):
        config = compose("config", arguments)
    shared = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    found = OmegaConf.to_container(shared, resolve=True)
    assert isinstance(found, dict)
    return sweep_config({str(key): value for key, value in found.items()})


@pytest.mark.long
@pytest.mark.parametrize("extra", [(), ("dry_run=true",), ("dry_run=True",), ("dry_run=false",), ("dry_run.pilot=9",)])
def test_a_pilot_is_a_dry_run_whatever_stands_beside_it(extra: tuple[str, ...]) -> None:
    for arguments in permutations(["seed=3", *extra]):
        given = with_pilot([*arguments, "dry_run.pilot=7"])
        assert composed(given).dry_run == DryRun(pilot=7)
        parsed = OverridesParser.create().parse_overrides(given)
        (overrides,) = settings(parsed)  # as with -m
        assert composed(list(overrides)).dry_run == DryRun(pilot=7)


def test_other_arguments_stay_where_they_are() -> None:
    assert with_pilot(["-m", "dry_run=true", "a=1"]) == ["-m", "dry_run=true", "a=1"]
    assert with_pilot(["a=1", "dry_run.pilot=2", "--config-dir", "x"]) == [
        "a=1",
        "dry_run={pilot: 2}",
        "--config-dir",
        "x",
    ]
    assert composed(["dry_run=true"]).dry_run is True
    assert composed([]).dry_run is False


def pilot(*batches: tuple[int, float, float, float]) -> Pilot:
    """Of cells, the seconds of each, of all, and the calls that were in flight."""
    return Pilot([Batch([Took(1, 1, 1, None, each)] * cells, cells, every, calls)
                  for cells, each, every, calls in batches])  # fmt: skip


TASKS = Side([SETTING], 2, pooled=False, capacity=None)
SERVER, MODEL = (Side([SETTING], 20, pooled=True, capacity=capacity) for capacity in (16, None))


@pytest.mark.parametrize(
    ("side", "tried", "cells", "seconds"),
    [
        # A task has the engine: what a cell takes of a CPU, over the tasks at once.
        (TASKS, pilot((1, 3.0, 3.0, 0.0), (10, 9.0, 10.0, 0.0)), 100, 50.0),
        # 4 cells with a call each: the server answers 16 at once, so 4 times as many cells in the time.
        (SERVER, pilot((4, 2.0, 2.0, 4.0)), 160, 20.0),
        # The same cells spend half of their time on their own: 10 calls of 20 cells are in flight, 5 times as many.
        (SERVER, pilot((4, 2.0, 2.0, 2.0)), 160, 16.0),
        # 4 cells with 4 calls each are as many as it answers at once already, and so are more.
        (SERVER, pilot((4, 2.0, 2.0, 16.0)), 160, 80.0),
        (SERVER, pilot((8, 4.0, 4.0, 32.0)), 160, 80.0),
        # A model on this cluster is no faster than it was seen to be.
        (MODEL, pilot((4, 2.0, 2.0, 4.0)), 160, 80.0),
        # The last cell takes its time, however many run beside it.
        (SERVER, pilot((4, 2.0, 2.0, 4.0)), 2, 2.0),
        (SERVER, Pilot(why="x"), 2, 0.0),
    ],
)
def test_how_long_cells_take_by_hand(side: Side, tried: Pilot, cells: int, seconds: float) -> None:
    assert side.seconds([SETTING], {SETTING.id: tried}, {SETTING.id: cells}) == pytest.approx(seconds)
    assert side.seconds([SETTING], {SETTING.id: tried}, {SETTING.id: 0}) == 0.0


def test_programs_that_cells_start_share_the_cpus() -> None:
    """A cell waits for its server for 1 of 2 seconds, and needs 1.5 seconds of a CPU: of 4 CPUs here."""
    tried = Pilot([Batch([Took(1, 1, 1, None, 2.0)] * 4, 4, 2.0, 2.0, cpu=6.0)])
    side = replace(SERVER, cpus=4)
    assert side.seconds([SETTING], {SETTING.id: tried}, {SETTING.id: 160}) == pytest.approx(160 * 1.5 / 4)


def test_a_forecast_that_may_be_wrong_says_so() -> None:
    one = pilot((1, 3.0, 3.0, 1.0))
    (low, single) = _unknown(Tried({SETTING.id: replace(one, broken_off=True)}, (TASKS,)))
    assert low.startswith("forecasts of 1 setting may be too low: the pilot's calls ran out in the middle of cells")
    assert single.startswith("forecasts of 1 setting rest on one cell")
    assert _unknown(Tried({SETTING.id: pilot((10, 9.0, 10.0, 0.0))}, (TASKS,))) == []


def test_a_sweep_takes_its_start_its_models_and_its_cells() -> None:
    tried, cells = pilot((10, 9.0, 10.0, 0.0)), {SETTING.id: 100}
    lines = _sums(
        Tried({SETTING.id: tried}, (TASKS,), start=7.0, loading=5.0, gpus=2), cells, {SETTING.id: forecast(tried, 100)}
    )
    took = "1:02, of which 0:07 to start, 0:05 to load models, 0:50 for the cells; 110 GPU seconds"
    assert f"wall time on this cluster: {took}" in lines


def test_figures_as_they_are_told() -> None:
    assert told(Estimate(1234.4, 56.6)) == "1,234 ± 57"
    assert told(Estimate(1234.4, None)) == "1,234"
    assert told(Estimate(12.345, 1.0), 2) == "12.35 ± 1.00"
    assert told(Estimate(0.000123, 0.00002), 2) == "0.000123 ± 0.000020"
    assert [clock(seconds) for seconds in (6.6, 67, 3723)] == ["0:07", "1:07", "1:02:03"]
