"""What the benchmarks rest on: a replay that can start, and layers that add up."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("psutil")

from grid import store
from grid.settings.build import build
from grid.settings.setting import cells
from launch.benchmarks import overhead, search
from launch.benchmarks.throughput import cpu_seconds, in_hand


def test_the_replay_imports_nothing_that_stops_vllm() -> None:
    """vLLM 0.32 ends where llvmlite is imported before it, which bm25s does by way of numba."""
    look = "import sys, launch.benchmarks.replay; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    assert "grid" in found
    assert not {"bm25s", "numba", "llvmlite", "pandas", "ray"} & set(found)


def test_time_by_requests_in_hand() -> None:
    spans = [(0.0, 4.0), *((1.0, 2.0),) * 8, (6.0, 7.0)]
    found = in_hand(spans)
    assert found == {"0": 2.0, "1 to 7": 4.0, "8 to 31": 1.0, "32 to 127": 0.0, "128 or more": 0.0}


def test_cpu_seconds_name_this_program() -> None:
    before = cpu_seconds()
    sum(range(2_000_000))
    after = cpu_seconds()
    assert after["the driver"] > before["the driver"]
    assert after["other programs"] > 0


def test_peak_memory_leaves_out_the_process_that_starts_a_benchmark() -> None:
    """The kernel's `ru_maxrss` of a new process includes the memory of the process from which it was started."""
    held = bytearray(b"x") * (256 << 20)
    look = "from launch.benchmarks import peak_bytes; x = bytearray(b'x') * (64 << 20); print(peak_bytes())"
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout
    assert len(held) // 4 < int(found) < len(held)


def test_an_episode_is_timed_by_layer(tmp_path: Path) -> None:
    setting = overhead.null_setting()
    dataset = build(setting, overhead.BUDGET).dataset
    chunk = list(islice(cells(setting, dataset.version, dataset.case_ids(), trials=1), 2))
    spent = overhead.layers(setting, chunk, tmp_path)
    named = "engine|planner and prompts|case and world set-up|world|retriever|scoring and rows|Parquet"
    assert spent.keys() == set(named.split("|"))
    assert min(spent.values()) > 0
    assert store.read(tmp_path, "episodes", ["status"])["status"].to_pylist() == ["ok", "ok"]


@pytest.mark.long
def test_a_search_without_a_model_counts_its_nodes() -> None:
    values = {"branching": 3, "max_calls": 2, "iterations": 100, "success": 2.0}
    found, episode = search.search(search.searcher("lats", values))
    whole = 3 + 9  # a tree of depth 2, and each of its 9 ends is visited
    assert (found.nodes, found.rollouts, len(episode.nodes)) == (whole, 9, 1 + whole)
    assert len({node.action.call.text() for node in episode.nodes if node.action and node.action.call}) == whole
    assert found.seconds > 0
    assert search.search(search.searcher("lats", values), steps=7)[0].nodes == 7


@pytest.mark.long
@pytest.mark.parametrize("name", search.searches(1))
def test_every_search_that_is_timed_runs(name: str) -> None:
    found, _ = search.search(search.searcher(name, search.searches(3)[name]))
    assert found.nodes >= found.rollouts > 1
