"""A sweep on one vLLM replica, compared with an offline replay of the same requests; and the time lost per layer."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import IO, Any, cast

import psutil
from rich.console import Console
from rich.table import Table

from grid.cluster import batch, pool
from grid.cluster import connection as ray_cluster
from grid.cluster.fleet import Fleet
from grid.cluster.replica import Replica
from grid.engines.hosted import HostedEngine, Probe
from grid.engines.vllm.engine import VLLM
from grid.settings.build import build, build_engine
from grid.settings.config import BudgetConfig, ClusterConfig
from grid.settings.plan import Plan
from grid.settings.setting import Setting
from launch.benchmarks.choose import model_config

MODEL = "smollm2-135m-vllm"
PLANNERS: dict[str, dict[str, Any]] = {
    "egb_logits": {"_target_": "grid.planners.egb.EGBLogits"},
    "egb_sampling": {"_target_": "grid.planners.egb.EGBSampling"},
}
# One request of each kind, which tests the replay before time is spent on a sweep.
_REHEARSAL: list[dict[str, Any]] = [
    {"tokens": [1] * 40, "how": {"max_tokens": 8, "seed": 1, "structured_outputs": 'root ::= "{" [a-z]* "}"'}},
    {"tokens": [1] * 40, "how": {"max_tokens": 1, "temperature": 0.0, "logprob_token_ids": [32, 33]}},
]


@dataclass(frozen=True)
class Recorded:
    """One request as vLLM got it, and its tokens; `began` and `ended` are wall-clock times in seconds."""

    tokens: list[int]
    how: dict[str, Any]
    began: float
    ended: float
    cached: int
    generated: int


@dataclass(frozen=True)
class Swept:
    """A sweep: its start and end by the wall clock, its requests, and the CPU seconds of each kind of process."""

    began: float
    ended: float
    requests: list[Recorded]
    cpu: dict[str, float]

    @property
    def seconds(self) -> float:
        """The seconds from the first task to the last row."""
        return self.ended - self.began


class RecordingReplica(Replica):
    """A replica that records every request that its engine receives."""

    async def load(self, probes: Sequence[Probe] = ()) -> float | None:
        """Load the engine, then record its requests; returns what `Replica.load` returns."""
        share = await super().load(probes)
        engine: Any = self._engine
        if not hasattr(self, "recorded"):
            self.recorded: list[Recorded] = []
            answer = engine._answer

            async def listening(started: Any, tokens: list[int], **how: Any) -> Any:
                began = time.time()
                output = await answer(started, tokens, **how)
                generated = len(output.outputs[0].token_ids)
                self.recorded.append(
                    Recorded(tokens, how, began, time.time(), output.num_cached_tokens or 0, generated)
                )
                return output

            engine._answer = listening
        return share

    async def take(self) -> list[Recorded]:
        """The requests recorded since the last call, in the order of arrival; the prefix cache is empty afterwards.

        Raises:
            RuntimeError: the prefix cache cannot be emptied.
        """
        taken, self.recorded = self.recorded, []
        engine: Any = self._engine
        if not await engine._ready[0].engine.reset_prefix_cache():
            raise RuntimeError("vLLM's prefix cache cannot be emptied")
        return sorted(taken, key=lambda request: request.began)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: the size of the sweep, and the number of times that the sweep and its replay run."""
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", type=int, default=16)
    parser.add_argument("--candidates", type=int, default=10)
    parser.add_argument("--trajectories", type=int, default=1, help="EGB's budget b")
    parser.add_argument("--samples", type=int, default=4, help="EGB-sampling's m")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--max-substeps", type=int, default=11, help="use only cases with at most this many substeps")


def settings_of(arguments: argparse.Namespace) -> list[Setting]:
    """The settings: EGB-logits and EGB-sampling on the first short cases of SLATE."""
    model = model_config(MODEL) | {"max_tokens": arguments.max_tokens}
    shared = {"trajectories": arguments.trajectories}
    planners = {name: planner | shared for name, planner in PLANNERS.items()}
    planners["egb_sampling"] |= {"samples": arguments.samples}
    return [
        setting(model, name, planner, arguments.cases, arguments.candidates, arguments.max_substeps)
        for name, planner in planners.items()
    ]


def setting(
    model: dict[str, Any], name: str, planner: dict[str, Any], cases: int, candidates: int, substeps: int | None
) -> Setting:
    """The setting of a planner on the first cases of SLATE with at most the given number of substeps."""
    config = {
        "model": model,
        "planner": planner,
        "dataset": {"_target_": "grid.datasets.slate.dataset.Slate", "limit": cases, "max_substeps": substeps},
        "robustness": {},
        "retriever": {"_target_": "grid.retrievers.scored.BM25", "top_k": candidates},
        "pool": {"_target_": "grid.pools.whole.Whole"},
    }
    labels = {"planner": name, "dataset": "slate", "robustness": "none", "retriever": "bm25", "pool": "all"}
    return Setting(config, {"model": MODEL} | labels, seed=0)


def plan_of(
    settings: list[Setting], root: Path, cluster: ClusterConfig | None = None, budget: BudgetConfig | None = None
) -> Plan:
    """The plan for all cells of the settings, on this machine."""
    budget = budget or BudgetConfig()
    dataset = build(settings[0], budget).dataset
    return Plan(
        name="throughput",
        root=root,
        settings=settings,
        case_ids={setting.id: dataset.case_ids() for setting in settings},
        dataset_versions={setting.id: dataset.version for setting in settings},
        trials=1,
        budget=budget,
        cluster=cluster or ClusterConfig(kind="local", dashboard=False),
    )


def sweep(plan: Plan, fleet: Fleet, recorder: Any) -> Swept:
    """Run the plan once, on a replica with a cold cache; raises RuntimeError if cells have no rows.

    Cells in which the model fails count as work too, because with random weights it fails in all cells.
    """
    import ray

    ray.get(recorder.take.remote())
    reports: list[batch.Report] = []
    before, began = cpu_seconds(), time.time()
    batch.Run(plan, plan.finished(), reports.append, fleet).go()
    ended, after = time.time(), cpu_seconds()
    if any(report.error for report in reports):
        raise RuntimeError(f"cells failed: {reports}")
    cpu = {kind: after[kind] - before.get(kind, 0.0) for kind in after}
    return Swept(began, ended, ray.get(recorder.take.remote()), cpu)


class Replay:
    """The process of `replay.py`; it has the model loaded, and answers one file of requests at a time."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process, self._folder = process, folder

    def run(self, rows: Sequence[dict[str, Any]]) -> dict[str, float]:
        """The seconds and tokens of the replayed requests; raises RuntimeError if the process ends without a result."""
        file = self._folder / "requests.json"
        file.write_text(json.dumps(rows))
        asked, answers = cast(IO[str], self._process.stdin), cast(IO[str], self._process.stdout)
        asked.write(f"{file}\n")
        asked.flush()
        for line in answers:
            if line.startswith("{"):
                return cast(dict[str, float], json.loads(line))
        raise RuntimeError(f"the replay ended with exit status {self._process.wait()}")


@contextmanager
def replaying(
    model: dict[str, Any], folder: Path, further: Callable[[Path], dict[str, Any]] = lambda folder: {}
) -> Iterator[Replay]:
    """A replay, tested with two requests first; `further` returns vLLM's further arguments for a model's folder."""
    engine = cast(VLLM, build_engine(model))
    given = engine._arguments() | further(engine.folder())
    arguments = folder / "arguments.json"
    arguments.write_text(json.dumps({"model": str(engine.folder()), "arguments": given}))
    command = [sys.executable, "-m", "launch.benchmarks.replay", str(arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            found = Replay(process, folder)
            found.run(_REHEARSAL)
            yield found
        finally:
            process.kill()


def row_of(request: Recorded) -> dict[str, Any]:
    """The request as JSON, with its grammar as text."""
    kept = request.how.get("structured_outputs")
    return {"tokens": request.tokens, "how": request.how | ({"structured_outputs": kept.grammar} if kept else {})}


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Run a sweep and its replay in each repeat; prints both, the ratio, its spread, and the time lost per layer."""
    with tempfile.TemporaryDirectory() as name:
        folder, settings = Path(name), settings_of(arguments)
        with replaying(settings[0].config["model"], folder) as replay:
            plan = plan_of(settings, folder / "0")
            ray_cluster.connect(plan.cluster)
            try:
                model = settings[0].config["model"]
                engine = cast(HostedEngine, build_engine(model))
                recording = pool.start(
                    MODEL, model, engine, 1, ready_seconds=600, detached=True, actor=RecordingReplica
                )
                (recorder,) = recording.handles.values()
                with Fleet(settings, 1, 600, print) as fleet:  # joins the pool
                    pairs = []
                    for repeat in range(arguments.repeats):
                        swept = sweep(replace(plan, root=folder / str(repeat)), fleet, recorder)
                        pairs.append((swept, replay.run(list(map(row_of, swept.requests)))))
                        print(f"repeat {repeat + 1} of {arguments.repeats} is done")
            finally:
                ray_cluster.disconnect()
    console.print(layers(pairs))
    console.print(summary(pairs, 2 * arguments.cases))
    ratios = [offline["seconds"] / swept.seconds for swept, offline in pairs]
    console.print(
        f"the sweep's speed is {mean(ratios):.2f} times the replay's (mean; {min(ratios):.2f} to {max(ratios):.2f} in "
        f"{len(ratios)} alternating repeats)"
    )


def layers(pairs: Sequence[tuple[Swept, dict[str, float]]]) -> Table:
    """A table of the seconds that each sweep spent in each layer, and of the seconds of its replay."""
    table = Table(title="seconds of each sweep")
    table.add_column("")
    for repeat in range(len(pairs)):
        table.add_column(f"repeat {repeat + 1}", justify="right")
    each = [seconds_by_layer(*pair) for pair in pairs]
    for label in dict.fromkeys(label for one in each for label in one):  # some processes only exist in some sweeps
        table.add_row(label, *(f"{one.get(label, 0.0):.1f}" for one in each))
    return table


def seconds_by_layer(swept: Swept, offline: dict[str, float]) -> dict[str, float]:
    """The seconds of one sweep by layer."""
    first, last = swept.requests[0].began, max(request.ended for request in swept.requests)
    shares = in_hand([(request.began, request.ended) for request in swept.requests])
    mine = sum(len(request.tokens) - request.cached + request.generated for request in swept.requests)
    theirs = offline["input"] - offline["cached"] + offline["output"]
    recomputed = (mine - theirs) * offline["seconds"] / theirs
    idle = shares.pop("0")
    outside = first - swept.began + idle + swept.ended - last
    return {
        "all": swept.seconds,
        "  as the replay": offline["seconds"],
        "  driver and worker, before the first request": first - swept.began,
        "  worker and transport: no request in hand": idle,
        "  worker and driver, after the last answer": swept.ended - last,
        "  engine: tokens that the replay read from its cache": recomputed,
        "  engine: smaller batches, and cores shared": swept.seconds - offline["seconds"] - outside - recomputed,
        **{f"with {count} requests in hand": seconds for count, seconds in shares.items()},
        **{f"CPU of {kind}": seconds for kind, seconds in swept.cpu.items()},
    }


def summary(pairs: Sequence[tuple[Swept, dict[str, float]]], cells: int) -> Table:
    """The seconds and tokens of every sweep and replay."""
    table = Table(title=f"{cells} cells, {len(pairs[0][0].requests):,} requests, {MODEL}, one replica")
    for column in ("", "seconds", "input tokens", "of them cached", "output tokens", "tokens/s", "computed tokens/s"):
        table.add_column(column, justify="right")
    for swept, offline in pairs:
        online = {
            "seconds": swept.seconds,
            "input": sum(len(request.tokens) for request in swept.requests),
            "cached": sum(request.cached for request in swept.requests),
            "output": sum(request.generated for request in swept.requests),
        }
        for label, one in (("sweep", online), ("replay", offline)):
            sent, cached, out = one["input"], one["cached"], one["output"]
            rates = f"{(sent + out) / one['seconds']:,.0f}", f"{(sent - cached + out) / one['seconds']:,.0f}"
            table.add_row(label, f"{one['seconds']:.1f}", f"{sent:,.0f}", f"{cached:,.0f}", f"{out:,.0f}", *rates)
    return table


# The work of a benchmark's processes during a run: requests in progress over time, and CPU seconds by kind of process.


_BOUNDS = (1, 8, 32, 128)


def in_hand(spans: Sequence[tuple[float, float]]) -> dict[str, float]:
    """The seconds from the first span's start to the last span's end, by number of open spans: `0`, `1 to 7`, ..."""
    changes = sorted([(began, 1) for began, _ in spans] + [(ended, -1) for _, ended in spans])
    labels = ["0", *(f"{low} to {high - 1}" for low, high in pairwise(_BOUNDS))]
    labels.append(f"{_BOUNDS[-1]} or more")
    found = dict.fromkeys(labels, 0.0)
    count, since = 0, changes[0][0]
    for moment, change in changes:
        found[labels[sum(count >= bound for bound in _BOUNDS)]] += moment - since
        count, since = count + change, moment
    return found


def cpu_seconds() -> dict[str, float]:
    """The CPU seconds of each layer since its processes started.

    The seconds of other programs are counted from the start of the machine, and include processes that have ended.
    """
    found: Counter[str] = Counter()
    own = psutil.Process()
    for process in [own, *own.children(recursive=True)]:
        try:
            times = process.cpu_times()
            found[_layer(process)] += times.user + times.system
        except psutil.Error:
            continue  # the process has ended
    every = psutil.cpu_times()
    return dict(found) | {"other programs": every.user + every.nice + every.system - sum(found.values())}


def _layer(process: psutil.Process) -> str:
    name = " ".join(process.cmdline())
    if process.pid == os.getpid():
        return "the driver"
    if "EngineCore" in name:
        return "the engine"
    if "Replica" in name:
        return "the replica round the engine"
    if "launch.benchmarks.replay" in name:
        return "the replay, waiting"
    return "workers" if "ray::" in name else "Ray's own processes"
