"""A sweep's Ray metrics, read from the page that Prometheus reads, against the tables."""

from __future__ import annotations

import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.support.clusters import UNGUARDED, free_port, head, wait_for
from tests.support.commands import launch

# Above the length of the test: what is read is what a driver sends when it leaves.
UNHURRIED = UNGUARDED | {"RAY_metrics_report_interval_ms": "3600000"}
GRID = (
    *("-m", "model=lexical", "planner=react,reflexion", "robustness=none,extraneous"),
    *("trials=2", "budget.prompt_characters=22500", "name=m"),
)
TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens")

BySetting = defaultdict[str, float]


def figures_of(page: str) -> dict[str, BySetting]:
    """The sweep's metrics by setting id, added up over drivers."""
    found: dict[str, BySetting] = defaultdict(lambda: defaultdict(float))
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name.startswith("ray_grid_sweep_"):
                assert sample.labels["sweep"] == "m"
                found[sample.name.removeprefix("ray_grid_sweep_")][sample.labels["setting_id"]] += sample.value
    return found


def counted(rows: list[dict[str, Any]], column: str | None = None) -> BySetting:
    """Rows, or the sum of a column, by setting id."""
    found: BySetting = defaultdict(float)
    for row in rows:
        found[row["setting_id"]] += row[column] if column else 1
    return found


def test_the_metrics_say_what_the_tables_say_when_the_drivers_have_left(tmp_path: Path) -> None:
    page = f"http://127.0.0.1:{(port := free_port())}/metrics"
    with head(f"--metrics-export-port={port}", environment=UNHURRIED) as address:
        for limit in (3, 4):  # the second goes on where the first ended
            values = ["cluster=address", f"cluster.address={address}", f"dataset.limit={limit}"]
            ended = launch("sweep", tmp_path, *GRID, *values, environment=UNHURRIED)
            assert ended.status == 0, ended.out + ended.err
            assert f"joined the Ray cluster at {address}" in ended.out
        rows, attempts = ended.rows("m"), ended.rows("m", "attempts")

        def told() -> dict[str, BySetting]:
            return figures_of(urllib.request.urlopen(page, timeout=600).read().decode())

        wait_for(lambda: sum(told()["cells_done_total"].values()) >= len(rows))
        figures = told()
    assert len(rows) == 32
    failed = [row for row in rows if row["status"] == "failed"]
    assert 0 < len(failed) < 32
    assert figures["cells_done_total"] == counted(rows)
    assert figures["cells_failed_total"] == counted(failed)
    for column in TOKENS:
        spent = {setting_id: tokens for setting_id, tokens in counted(attempts, column).items() if tokens}
        assert figures[f"{column}_total"] == spent, column
    assert all(figures["input_tokens_total"][setting_id] > 0 for setting_id in counted(rows))
    for setting_id, seconds in counted(attempts, "seconds").items():
        assert figures["worker_seconds_total"][setting_id] > seconds, "building and writing included"
    assert figures["cells_in_flight"] == dict.fromkeys(counted(rows), 0)
    assert all(figures["cells_per_second"][setting_id] > 0 for setting_id in counted(rows))
    assert all(figures["tokens_per_second"][setting_id] > 0 for setting_id in counted(rows))
