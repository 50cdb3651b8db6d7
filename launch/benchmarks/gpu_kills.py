"""SIGKILL of vLLM's engine process, then of the replica, in a sweep: rows lost, rows twice, rows that differ."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from grid import store
from grid.cluster import pool
from grid.cluster.fleet import Fleet
from grid.settings.config import BudgetConfig
from launch.benchmarks.throughput import plan_of, setting, sweep

if TYPE_CHECKING:
    from launch.benchmarks.gpu import Bench

_COMPARED = ("status", "error_kind", "success", "n_steps", "tool_calls", "llm_calls", "output_tokens")
_WAIT_SECONDS = 300.0  # for a replica to come back


def kills(bench: Bench) -> None:
    """The same sweep three times: twice undisturbed, once with both kills.

    Two undisturbed runs differ too, as batches round differently (none does where VLLM_BATCH_INVARIANT=1 is set): so
    rows that differ after the kills stand beside those that differ without one.
    """
    bench.loaded()
    quiet, quiet_seconds = _sweep(bench, None)
    again, _ = _sweep(bench, None)
    killer = _Killer(bench, quiet_seconds / 4)
    disturbed, seconds = _sweep(bench, killer)
    bench.figures.add(
        "kills",
        invariant=os.environ.get("VLLM_BATCH_INVARIANT", "0"),
        killed=killer.killed,
        cells=len(quiet),
        rows_lost=len(quiet.keys() - disturbed.keys()),
        rows_twice=disturbed.pop("twice", 0),
        cells_without_result=sum(row["error_kind"] == "infrastructure" for row in disturbed.values()),
        rows_that_differ=sum(row != quiet.get(cell) for cell, row in disturbed.items()),
        rows_that_differ_without_kills=sum(row != quiet.get(cell) for cell, row in again.items()),
        seconds_undisturbed=quiet_seconds,
        seconds_with_kills=seconds,
    )


class _Killer(threading.Thread):
    """Kills the engine's process after `wait` seconds and, so long after it works again, the replica's."""

    def __init__(self, bench: Bench, wait: float) -> None:
        super().__init__(daemon=True)
        self._bench, self._wait, self.killed = bench, wait, list[str]()

    def run(self) -> None:
        import ray

        running = self._bench.loaded()
        ((name, handle),) = running.handles.items()
        for what in ("engine", "replica"):
            time.sleep(self._wait)
            told = ray.get(handle.told.remote(), timeout=_WAIT_SECONDS)
            stats = pool.stats_of([running])[name]
            if not stats:
                return
            os.kill(told["engine_process"] if what == "engine" else stats.pid, signal.SIGKILL)
            self.killed.append(what)
            self._back(handle)

    def _back(self, handle: Any) -> None:
        """Wait until it is loaded again."""
        import ray

        until = time.monotonic() + _WAIT_SECONDS
        time.sleep(2)  # until the death has been noticed
        while time.monotonic() < until:
            try:
                ray.get(handle.load.remote())
                return
            except ray.exceptions.RayError:
                time.sleep(1)


def _sweep(bench: Bench, killer: _Killer | None) -> tuple[dict[str, Any], float]:
    """What each cell came to, by its id (`twice`: rows too many); the seconds."""
    planner = {"_target_": "grid.planners.react.ReAct", "max_retries": 3, "max_tokens": bench.arguments.new_tokens}
    one = setting(bench.model, "react", planner, bench.arguments.kill_cells, 10, 11)
    root = Path(tempfile.mkdtemp(dir=bench.folder))
    plan = plan_of([one], root, bench.cluster(bench.arguments.kill_cells), BudgetConfig(llm_calls=40))
    (recorder,) = bench.loaded().handles.values()
    with Fleet([one], 1, 600, print) as fleet:
        if killer:
            killer.start()
        swept = sweep(plan, fleet, recorder)
    if killer:
        killer.join()
    rows = store.read(root, "episodes", ["cell_id", *_COMPARED]).to_pylist()
    found = {row.pop("cell_id"): row for row in rows}
    if len(rows) > len(found):
        found["twice"] = len(rows) - len(found)
    steps = store.read(root, "steps", ["cell_id", "branch", "step", "chosen_tool", "arguments"]).to_pylist()
    for step in sorted(steps, key=lambda step: (step["branch"], step["step"])):
        found[step["cell_id"]].setdefault("steps", []).append((step["chosen_tool"], step["arguments"]))
    return found, swept.seconds
