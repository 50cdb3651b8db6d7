"""Replicas that start badly, hang, are stopped or hold what others want, on a small local Ray."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import ray

from grid.cluster import fleet as fleets
from grid.cluster import pool
from grid.cluster.fleet import LOST_SECONDS, Fleet
from grid.cluster.pool import Pool
from grid.cluster.ready import wait
from grid.core.engine import Prompt, Section, TextAnswer
from grid.core.errors import EngineError
from grid.engines.hosted import HostedEngine
from grid.settings.build import build_engine
from grid.settings.setting import Setting
from tests.support.clusters import UNGUARDED, head, wait_for
from tests.support.starts import Unsteady

ROOT = Path(__file__).parents[3]
PROMPT = Prompt((Section("request", ("x",)),), TextAnswer())
HOW = {"n": 1, "temperature": 1.0, "seed": 0}
SECRET = "hf_" + "q7Zk" * 8


@pytest.fixture(autouse=True)
def stopped(cluster: None) -> Iterator[None]:
    """Pools end with their test, also where it fails."""
    yield
    for stem in pool.running():
        if found := pool.named(stem):
            pool.stop(found)


def model(folder: Path) -> dict[str, Any]:
    return {"_target_": "grid.engines.transformers.engine.HuggingFace", "path": str(folder)}


def started(folder: Path, replicas: int, starts: dict[int, str] | None = None, ready_seconds: float = 600) -> Pool:
    for index, lines in (starts or {}).items():
        (folder / f"starts-{index}").write_text(lines)
    engine = cast(HostedEngine, build_engine(model(folder)))
    return pool.start(
        "model", model(folder), engine, replicas, ready_seconds=ready_seconds, detached=True, actor=Unsteady
    )


def fleet(folder: Path, said: list[str], seconds: float = 600) -> Fleet:
    """It joins the pool that a test has started."""
    labels = {"model": "model"}
    return Fleet([Setting({"model": model(folder)}, labels, 0)], 1, seconds, said.append)


def process_of(handle: Any) -> int:
    stats = ray.get(handle.stats.options(concurrency_group="control").remote(), timeout=600)
    return int(stats.pid)


def asked(handle: Any, max_tokens: int = 1) -> Any:
    return handle.sample.remote("attempt", PROMPT, max_tokens=max_tokens, **HOW)


def answered(ask: Callable[[], Any]) -> Any:
    """The answer of an actor that may be restarting meanwhile: asked again until it is there."""
    while True:
        try:
            return ray.get(ask(), timeout=600)
        except ray.exceptions.RayActorError:
            time.sleep(0.2)


def test_a_sweep_begins_with_the_replicas_that_start_and_takes_in_the_others_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "_LOOK_SECONDS", 0.2)  # at those that are late
    said: list[str] = []
    # Of the second one: fails twice; fails twice again; hangs; works. A try more within a process would work at once.
    started(tmp_path, 2, {1: "fail fail work\nfail fail work\nhang\nwork"}, ready_seconds=3)
    with fleet(tmp_path, said) as running:
        assert sorted(running.handles(model(tmp_path)))[0].endswith("-0")
        assert len(running.handles(model(tmp_path))) == 1
        assert "continues without replica" in "".join(said)
        assert "no memory" in "".join(said)
        wait_for(lambda: len(running.handles(model(tmp_path))) == 2, 600)
    assert "is ready and joins now" in said[-1]
    assert len(list(tmp_path.glob("process-1-*"))) == 4


def test_a_start_that_fails_once_is_no_failure(tmp_path: Path) -> None:
    assert wait([started(tmp_path, 1, {0: "fail work"})], 600, print) == {}
    assert len(list(tmp_path.glob("process-0-*"))) == 1


def test_a_pool_without_a_good_start_is_an_error_with_the_reason(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(
        EngineError, match=r"model: no replica is ready: loading failed after \d+ s; .*: no memory"
    ) as caught:
        wait([started(tmp_path, 1, {0: "fail"})], 600, print)
    assert "ready_seconds" not in str(caught.value), "a limit that was not reached"
    (seconds,) = map(int, re.findall(r"after (\d+) s", str(caught.value)))
    assert seconds <= time.monotonic() - began + 1


def test_a_pool_that_failed_does_not_wait_for_another(tmp_path: Path) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    with pytest.raises(EngineError, match=r"no replica is ready: loading failed after \d+ s; "):
        wait([started(tmp_path / "one", 1, {0: "fail"}), started(tmp_path / "other", 1, {0: "hang"})], 600, print)


def test_requests_carry_the_time_of_computing_and_end_when_they_are_cancelled(tmp_path: Path) -> None:
    found = started(tmp_path, 1)
    (handle,) = found.handles.values()
    wait([found], 600, print)
    answer, _ = ray.get(asked(handle), timeout=600)
    assert answer.computed_seconds == 7.0
    endless = asked(handle, max_tokens=0)
    wait_for(lambda: pool.stats_of([found])[found.names[0]].running == 1)  # type: ignore[union-attr]
    ray.cancel(endless)
    wait_for(lambda: pool.stats_of([found])[found.names[0]].running == 0)  # type: ignore[union-attr]
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(endless, timeout=600)
    assert pool.stats_of([found])[found.names[0]].failed == 0  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "hung"])
def test_a_replica_that_says_nothing_any_more_is_replaced(tmp_path: Path, how: str) -> None:
    assert LOST_SECONDS + 20 <= 150
    said: list[str] = []
    (handle,) = started(tmp_path, 1).handles.values()
    running = fleet(tmp_path, said)
    running.lost_seconds = 2.0
    with running:
        process = process_of(handle)
        if how == "stopped":
            os.kill(process, signal.SIGSTOP)
        else:
            asked(handle, max_tokens=-1)  # its event loop does nothing else
        wait_for(lambda: "does not answer" in "".join(said), 600)
        wait_for(lambda: not Path(f"/proc/{process}").exists(), 600)
        running.lost_seconds = 120.0
        answer, *_ = answered(lambda: asked(handle))
    assert answer.completions != (str(process),)


def test_a_replica_gets_the_drivers_token_and_nothing_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)  # after the cluster was started
    monkeypatch.setenv("UNRELATED", "x")
    (handle,) = started(tmp_path, 1).handles.values()
    assert ray.get(handle.variable.remote("HF_TOKEN"), timeout=600) == SECRET
    assert ray.get(handle.variable.remote("UNRELATED"), timeout=600) is None
    os.kill(process_of(handle), signal.SIGKILL)
    wait_for(lambda: len(list(tmp_path.glob("process-0-*"))) == 2)
    assert answered(lambda: handle.variable.remote("HF_TOKEN")) == SECRET, "after a restart too"
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    logs = [path for path in session.rglob("*") if path.is_file()]
    assert len(logs) > 5
    assert not [path for path in logs if SECRET.encode() in path.read_bytes()]


@pytest.mark.slow
def test_gpus_that_a_pool_left_over_holds_are_named_with_the_line_that_frees_them(tmp_path: Path) -> None:
    script = tmp_path / "hold.py"
    script.write_text(
        textwrap.dedent("""
            import sys, ray
            from grid.settings.build import build_engine
            from grid.core.errors import ConfigError
            from grid.cluster import gpus, pool
            ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
            model = {"_target_": "grid.engines.transformers.engine.HuggingFace", "path": "x", "device": "cuda"}
            if sys.argv[2] == "hold":
                held = pool.start("llama", model, build_engine(model), 2, ready_seconds=600, detached=True)
                assert all(pool.stats_of([held], 60).values())
            if sys.argv[2] == "share":
                serving = {"gpus": 0.5, "gpu_memory_utilization": 0.5}
                half = {"_target_": "grid.engines.vllm.engine.VLLM", "path": "x", "serving": serving}
                held = pool.start("half", half, build_engine(half), 4, ready_seconds=600, detached=False)
                assert [one.gpus for one in pool.stats_of([held], 60).values()] == [0.5] * 4
            try:
                gpus.check("qwen", 1, [float(sys.argv[3])])
                print("free")
            except ConfigError as error:
                print(error)
        """)
    )

    def command(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=os.environ | UNGUARDED | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with head("--num-gpus=2") as address:
        told = command(str(script), address, "hold", "1")
        assert "1 GPUs are needed (1 for qwen), but 0 of 2 GPUs are free" in told
        line = told.split("`")[1]
        assert "a pool of llama holds 2" in told
        assert line.startswith("agent-grid replicas stop pool-")
        words = line.split()[2:]
        assert "2 replicas stopped" in command(str(ROOT / "launch" / "replicas.py"), *words, "cluster.auth=disabled")
        assert "free" in command(str(script), address, "look", "1")
        assert "0.5 for qwen), but 0 of 2 GPUs are free" in command(str(script), address, "share", "0.5")
