"""How the tests share a machine: a process a core; files that start Ray or an engine come first."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.support import apb, apibench, bfcl, gta, hotpotqa, mcp, mnms_files, restbench, workbench
from tests.support.stabletoolbench import write_queries
from tests.support.traject_files import write_files

# Where the shell started the tests in the background it had them ignore Ctrl-C, and so would every process of theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No example is too slow on a busy machine, and neither is drawing it.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

gc.disable()  # until all is collected: a sixth of that would go into looking for garbage where there is next to none

FIRST = {"ray", "vllm", "with_torch"}  # the longest, and much of the first ones' time is waiting
TOGETHER = ("one_cluster/", "with_torch/")
"""Folders, by how their names end, each of which has one process: what its tests share takes seconds to start."""
UNPACK = Path(__file__).parents[2] / "shared" / "data" / "unpack"
WITHOUT_LONG = "not slow and not long"  # as pyproject.toml has it
PROCESSES = 4  # at most: each imports and collects everything

# Where the shell forbids it all the same: tests start some hundred processes, and each would compile the project anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# The models are tiny, so that more threads only wait for one another, which takes whole cores; half the time on two.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Ray's workers give way to all else by default: on a busy machine they would get next to nothing.
os.environ.setdefault("RAY_worker_niceness", "0")


def pytest_configure(config: pytest.Config) -> None:
    """Where files are named, their long tests run too."""
    if config.args_source == pytest.Config.ArgsSource.ARGS and config.option.markexpr == WITHOUT_LONG:
        config.option.markexpr = "not slow"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """None where files are named: they begin at once and in this process, and a debugger works."""
    if config.args_source == pytest.Config.ArgsSource.ARGS:
        return 0
    return min(len(os.sched_getaffinity(0)), PROCESSES)


class _Files(LoadFileScheduling):  # type: ignore[misc]
    """Each file runs in one process, and so does the folder whose tests share something."""

    def _split_scope(self, nodeid: str) -> str:
        folder = nodeid.partition("::")[0].rpartition("/")[0] + "/"
        return folder if folder.endswith(TOGETHER) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """In the place of `--dist loadfile`'s."""
    return _Files(config, log)


def pytest_collection_finish() -> None:
    """What was imported and collected stays to the end: the garbage collector need not look at it again and again."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)


def pytest_sessionfinish() -> None:
    """Libraries that look for what was left behind find what the collector takes."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What comes last should be short, so that no process waits for the others."""
    items.sort(key=lambda item: item.nodeid.split("/")[1] not in FIRST)


@pytest.fixture(scope="session")
def fresh_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For XDG_CACHE_HOME: empty when the tests begin, then shared by all.

    What follows from the code alone need not be made anew: its key in the user's cache is a digest of that code.
    """
    own = tmp_path_factory.getbasetemp()
    return (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "fresh_cache"


@pytest.fixture(scope="module")
def own_cache(fresh_cache: Path) -> Iterator[None]:
    """A module that keeps what it made of small files of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(fresh_cache))
        yield


@pytest.fixture(scope="session")
def released_ultratool(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the released data; skips where they are not to be had."""
    named = os.environ.get("AGENT_GRID_ULTRATOOL")
    if named:
        return named
    if not UNPACK.is_file():
        pytest.skip("set AGENT_GRID_ULTRATOOL to UltraTool's English-dataset folder")
    target = tmp_path_factory.mktemp("ultratool")
    subprocess.run([str(UNPACK), str(target), "ultratool"], check=True, capture_output=True)
    return str(target / "ultratool")


@pytest.fixture(scope="session")
def small_traject_bench(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in the form of TRAJECT-Bench's `public_data`, with a few queries in two domains."""
    root = tmp_path_factory.mktemp("traject_bench")
    write_files(root / "public_data")
    return str(root)


@pytest.fixture(scope="session")
def small_stabletoolbench(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of small files in the released format."""
    return write_queries(tmp_path_factory.mktemp("stabletoolbench"))


@pytest.fixture(scope="session")
def released_stabletoolbench() -> str:
    """The folder of the released data; skips where they are not to be had."""
    named = os.environ.get("AGENT_GRID_STABLETOOLBENCH")
    if not named:
        pytest.skip("set AGENT_GRID_STABLETOOLBENCH to the folder that holds solvable_queries")
    return named


@pytest.fixture(scope="session")
def small_restbench(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in the form in which RestBench is released, with a small API."""
    return restbench.write(tmp_path_factory.mktemp("restbench"))


@pytest.fixture(scope="session")
def small_mnms(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in the form in which m&m's is released."""
    return mnms_files.write(tmp_path_factory.mktemp("mnms"))


@pytest.fixture(scope="session")
def small_apb(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in the form in which Agent Planning Benchmark is released, with a record or two of each task."""
    return apb.write(tmp_path_factory.mktemp("apb"))


@pytest.fixture(scope="session")
def small_apibench(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in the form in which APIBench is released, with a few APIs of each hub."""
    return apibench.write(tmp_path_factory.mktemp("apibench"))


@pytest.fixture(scope="session")
def small_bfcl(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of small files in the released format."""
    return bfcl.write(tmp_path_factory.mktemp("bfcl"))


@pytest.fixture(scope="session")
def small_mcp(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of tasks for a small MCP server; skips where the client is not installed."""
    pytest.importorskip("mcp")
    return mcp.write(tmp_path_factory.mktemp("mcp"))


@pytest.fixture(scope="session")
def small_gta(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a small file in the form in which GTA is released."""
    return gta.write(tmp_path_factory.mktemp("gta"))


@pytest.fixture(scope="session")
def small_workbench(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder in the form in which WorkBench is released, with a small workplace."""
    return workbench.write(tmp_path_factory.mktemp("workbench"))


@pytest.fixture(scope="session")
def small_hotpotqa(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a small file in the form of HotpotQA's distractor setting."""
    return hotpotqa.write(tmp_path_factory.mktemp("hotpotqa"))


@pytest.fixture(scope="session")
def released_hotpotqa() -> str:
    """A distractor file of HotpotQA, or its folder; skips where it is not to be had."""
    named = os.environ.get("AGENT_GRID_HOTPOTQA")
    if not named:
        pytest.skip("set AGENT_GRID_HOTPOTQA to HotpotQA's distractor file, or to the folder that holds it")
    return named
