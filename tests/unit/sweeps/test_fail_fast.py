"""When failed cells end a run early: a count of them, or their share of enough that have ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from grid.cluster.batch import Run
from grid.cluster.signs import Sign
from grid.cluster.worker import Report
from grid.core.errors import ConfigError
from grid.settings.check import check_sweep
from grid.sweeps.ending import Failures
from tests.support.configs import job


class Flying:
    """A run whose chunks in flight say so many cells ended, and so many of them well."""

    def __init__(self, ended: int = 0, ok: int = 0) -> None:
        self.signs_in_flight = [("s", Sign(1, 1, "n", ended=ended, ok=ok))]


def reached(limit: float | None, ok: int, failed: int, ended: int = 0, well: int = 0) -> bool:
    failures = Failures(limit)
    for one in (Report("s", ok, ok=ok), Report("s", failed, failed=failed)):
        failures.count(one)
    return failures.reached(cast(Run, Flying(ended, well))) is not None


@pytest.mark.parametrize(
    ("limit", "ok", "failed", "expected"),
    [
        (None, 0, 1000, False), (1, 0, 0, False), (1, 99, 1, True), (3, 0, 2, False), (3, 0, 3, True),
        (0.5, 0, 49, False), (0.5, 25, 25, True), (0.5, 26, 24, False), (0.01, 99, 1, True), (0.01, 100, 1, False),
        (0.01, 50, 0, False),
    ],
)  # fmt: skip
def test_a_count_and_a_share_of_fifty_cells_and_more(limit: float | None, ok: int, failed: int, expected: bool) -> None:
    assert reached(limit, ok, failed) == expected
    assert reached(limit, 0, 0, ended=ok + failed, well=ok) == expected, "of chunks in flight just so"


@pytest.mark.parametrize("value", [0, -1, True, "half", 0.0, 1.0, 1.5, float("nan"), [1], 2**31])
def test_what_is_no_count_and_no_share_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ConfigError, match="fail_fast"):
        check_sweep([job(tmp_path, fail_fast=value)])


def test_it_is_in_no_cells_id(tmp_path: Path) -> None:
    one, other = (check_sweep([job(tmp_path, fail_fast=value)]).plan for value in (None, 0.5))
    assert [setting.id for setting in one.settings] == [setting.id for setting in other.settings]
    assert (one.fail_fast, other.fail_fast) == (None, 0.5)
