"""What the benchmarks rest on: a replay that can start, layers that add up, and sizes that a user may give."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from argparse import Namespace
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

pytest.importorskip("psutil")

from grid import store
from grid.cluster import connection, pool
from grid.core.errors import ConfigError
from grid.settings.build import build
from grid.settings.setting import cells
from launch.benchmarks import chaos, gpu, gpu_exact, overhead, scale, search, sparql
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


def test_without_kills_only_the_undisturbed_sweep_has_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    log = chaos.Log(tokens={chaos.UNDISTURBED: chaos.Tokens(1_000, 1_000)})
    monkeypatch.setattr(chaos, "chaos", lambda *_: log)
    chaos.run(Namespace(kills=0, seed=0, overrides=[], nodes=1), Console(file=(said := io.StringIO()), width=200))
    assert "undisturbed: 1,000 tokens in attempts" in said.getvalue()
    assert "with kills: 0 tokens in attempts, 0 in episodes" in said.getvalue()


@pytest.mark.parametrize(("rows", "ends"), [(400, 200), (20_000, 10_000), (20_400, 10_000)])
def test_the_ends_of_a_sweep_are_at_most_its_halves(rows: int, ends: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = np.arange(rows)
    seconds[rows // 2 :] = seconds[rows // 2] + 2 * np.arange(rows - rows // 2)  # half as fast in the second half
    made = np.datetime64("2026-01-01", "us") + seconds * np.timedelta64(1, "s")
    monkeypatch.setattr(store, "read", lambda *_: pa.table({"created_at": made}))
    found, first, last = scale._rates(Path())
    assert found == ends
    assert (first, last) == pytest.approx((1.0, 0.5), rel=0.01)


def test_programs_count_for_their_own_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdflib")
    monkeypatch.setattr(sparql, "_TRIES", 50)
    known = sparql.FORMS["one relation"]
    monkeypatch.setattr(sparql, "FORMS", {"first": known, "never": lambda way: None, "last": known})
    arguments = Namespace(share=300, programs=5, repeats=1, seed=0)
    sparql.against_rdflib(arguments, Console(file=(said := io.StringIO()), width=200), tmp_path)
    rows = dict(line.split()[:2] for line in said.getvalue().splitlines() if " " in line.strip())
    assert [rows[form] for form in ("all", "first", "never", "last")] == ["5", "3", "0", "2"]
    assert "5 equal results" in said.getvalue()


def test_two_replicas_alone_connect_to_ray_as_every_part_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ray, told = pytest.importorskip("ray"), list[str]()

    def start(*_: object) -> SimpleNamespace:
        told.append("start")
        return SimpleNamespace(handles={})

    monkeypatch.setattr(connection, "connect", lambda cluster: told.append("connect"))
    monkeypatch.setattr(connection, "disconnect", lambda: told.append("disconnect"))
    monkeypatch.setattr(ray, "get", lambda handles: told.append("load"))
    monkeypatch.setattr(pool, "stop", lambda both: told.append("stop"))
    monkeypatch.setattr(gpu.Bench, "start", start)
    monkeypatch.setattr(gpu, "_swept", lambda *_: told.append("sweep"))
    arguments = Namespace(device="cpu", kv_cache_gib=1.0, in_flight=[2])
    figures, memory = gpu_exact.Figures(Console(file=io.StringIO()), None), cast(Any, None)
    with ExitStack() as stack:
        gpu.share(gpu.Bench(arguments, figures, {"serving": {}}, tmp_path, memory, stack))
    assert told == ["connect", "start", "load", "sweep", "sweep", "stop", "disconnect"]


def test_choices_of_another_number_of_prompts_are_not_compared(tmp_path: Path) -> None:
    file, said = tmp_path / "distributions.json", io.StringIO()
    chosen = [[1 / options] * options for options in gpu_exact.OPTIONS for _ in range(2)]
    file.write_text(json.dumps({name: {"chosen": chosen, "brute": chosen} for name in ("one", "other")}))
    for prompts in (2, 3):
        arguments = Namespace(against=file, exact_prompts=prompts, variants=[], out=None)
        figures = gpu_exact.Figures(Console(file=said, width=200), None)
        bench = gpu_exact.Shared(arguments, figures, {}, tmp_path, cast(Any, None))
        if prompts == 2:
            gpu_exact.exact(bench)
            assert "between one elsewhere and other elsewhere" in said.getvalue()
        else:
            with pytest.raises(ConfigError, match="--exact-prompts=3: must be 2, as in"):
                gpu_exact.exact(bench)


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
