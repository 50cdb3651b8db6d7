"""A sweep on one vLLM replica against an offline replay of its very requests, tokens per second."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from grid import batch
from grid import cluster as ray_cluster
from grid.build import BudgetConfig, ClusterConfig, build, build_engine
from grid.cell import Setting
from grid.engines.base import CHOOSE, SAMPLE, HostedEngine
from grid.engines.vllm_start import CPU_ENVIRONMENT
from grid.plan import Plan
from grid.replicas import pool
from grid.replicas.fleet import Fleet, Totals
from grid.replicas.replica import Replica
from launch.benchmarks.prompts import model_config

MODEL = "smollm2-135m-vllm"
PLANNERS: dict[str, dict[str, Any]] = {
    "egb_logits": {"_target_": "grid.planners.egb.EGBLogits"},
    "egb_sampling": {"_target_": "grid.planners.egb.EGBSampling"},
}


@dataclass(frozen=True)
class Recorded:
    """One request as vLLM got it."""

    tokens: list[int]
    how: dict[str, Any]

    @property
    def verb(self) -> str:
        """Scores are asked for by token ids."""
        return CHOOSE if "logprob_token_ids" in self.how else SAMPLE


class RecordingReplica(Replica):
    """A replica that writes down every request that its engine is given."""

    async def load(self) -> str:
        """Load, then listen."""
        version = await super().load()
        engine: Any = self._engine
        if not hasattr(self, "recorded"):
            self.recorded: list[Recorded] = []
            answer = engine._answer

            async def listening(started: Any, tokens: list[int], **how: Any) -> Any:
                self.recorded.append(Recorded(tokens, how))
                return await answer(started, tokens, **how)

            engine._answer = listening
        return version

    async def take(self) -> list[Recorded]:
        """What was recorded."""
        return self.recorded


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The size of the sweep."""
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--trajectories", type=int, default=2, help="EGB's budget b")
    parser.add_argument("--samples", type=int, default=10, help="EGB-sampling's m")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--max-substeps", type=int, default=9, help="shorter cases only")
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)  # the second process's part


def settings_of(arguments: argparse.Namespace) -> list[Setting]:
    """EGB-logits and EGB-sampling on the first short cases of SLATE."""
    found = []
    for name, planner in PLANNERS.items():
        own = {"samples": arguments.samples} if name == "egb_sampling" else {}
        config = {
            "model": model_config(MODEL) | {"max_tokens": arguments.max_tokens},
            "planner": planner | {"trajectories": arguments.trajectories} | own,
            "dataset": {
                "_target_": "grid.datasets.slate.dataset.Slate",
                "limit": arguments.cases,
                "max_substeps": arguments.max_substeps,
            },
            "robustness": {},
            "retriever": {"_target_": "grid.retrievers.bm25.BM25", "top_k": arguments.candidates},
        }
        labels = {"model": MODEL, "planner": name, "dataset": "slate", "robustness": "none", "retriever": "bm25"}
        found.append(Setting(config, labels, seed=0))
    return found


def sweep(settings: list[Setting], root: Path) -> tuple[float, Totals, list[Recorded]]:
    """Seconds of the sweep itself, what the replica did, and its requests."""
    import ray

    budget, cluster = BudgetConfig(llm_calls=5000, tool_calls=1000), ClusterConfig(kind="local", dashboard=False)
    dataset = build(settings[0], budget).dataset
    plan = Plan(
        name="throughput",
        root=root,
        settings=settings,
        case_ids={setting.id: dataset.case_ids() for setting in settings},
        dataset_versions={setting.id: dataset.version for setting in settings},
        trials=1,
        budget=budget,
        cluster=cluster,
    )
    ray_cluster.connect(cluster)
    try:
        model = settings[0].config["model"]
        engine = cast(HostedEngine, build_engine(model))
        recording = pool.start(MODEL, model, engine, 1, ready_seconds=600, detached=True, actor=RecordingReplica)
        with Fleet(settings, 1, 600, print) as fleet:  # joins it
            reports: list[batch.Report] = []
            started = time.perf_counter()
            batch.Run(plan, plan.finished(), reports.append, fleet).go()
            spent = time.perf_counter() - started
            (total,) = fleet.totals()
            (handle,) = recording.handles.values()
            recorded = ray.get(handle.take.remote())
    finally:
        ray_cluster.disconnect()
    if any(report.error or report.failed for report in reports):
        raise RuntimeError(f"cells failed: {reports}")
    return spent, total, recorded


def save(recorded: list[Recorded], folder: Path) -> None:
    """The requests as JSON, schemas as text."""
    rows = []
    for request in recorded:
        schema = request.how.get("structured_outputs")
        how = request.how | ({"structured_outputs": schema.json} if schema else {})
        rows.append({"tokens": request.tokens, "how": how})
    (folder / "requests.json").write_text(json.dumps(rows))


def replay(folder: Path, arguments: argparse.Namespace) -> None:
    """Answer the recorded requests with vLLM's offline interface and write down seconds and tokens.

    Samples and choices apart, as the runner demands; each as one call, of which vLLM makes batches as large as fit.
    """
    # As a single replica has them; vLLM would take one thread for a process that serves.
    os.environ.update(CPU_ENVIRONMENT, OMP_NUM_THREADS=str(os.cpu_count()))
    from vllm import LLM, SamplingParams
    from vllm.inputs import tokens_input
    from vllm.sampling_params import StructuredOutputsParams

    engine: Any = build_engine(settings_of(arguments)[0].config["model"])
    llm = LLM(model=str(engine.folder()), disable_log_stats=True, **engine._arguments())
    rows = json.loads((folder / "requests.json").read_text())
    groups: dict[str, list[tuple[Any, Any]]] = {SAMPLE: [], CHOOSE: []}
    for row in rows:
        how = dict(row["how"])
        if how.get("structured_outputs"):
            how["structured_outputs"] = StructuredOutputsParams(json=how["structured_outputs"])
        request = Recorded(row["tokens"], how)
        groups[request.verb].append((tokens_input(request.tokens), SamplingParams(**how)))
    llm.generate([tokens_input([1] * 64)], SamplingParams(max_tokens=8), use_tqdm=False)
    result: dict[str, float] = {}
    for verb, pairs in groups.items():
        started = time.perf_counter()
        outputs = llm.generate([prompt for prompt, _ in pairs], [params for _, params in pairs], use_tqdm=False)
        result[f"{verb} seconds"] = time.perf_counter() - started
        result[f"{verb} input"] = sum(len(output.prompt_token_ids) for output in outputs)
        result[f"{verb} output"] = sum(len(output.outputs[0].token_ids) for output in outputs)
        result[f"{verb} cached"] = sum(output.num_cached_tokens or 0 for output in outputs)
    (folder / "replay.json").write_text(json.dumps(result))


def run(arguments: argparse.Namespace, console: Console) -> None:
    """The sweep, then the replay in a process of its own; prints both and their ratio."""
    if arguments.replay:
        replay(arguments.replay, arguments)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spent, total, recorded = sweep(settings_of(arguments), folder / "results")
        save(recorded, folder)
        subprocess.run([sys.executable, *sys.argv, "--replay", str(folder)], check=True)
        found = json.loads((folder / "replay.json").read_text())
    usage = total.stats.usage
    offline = found["sample seconds"] + found["choose seconds"]
    title = f"{len(recorded):,} requests of {2 * arguments.cases} cells, {MODEL}, one replica"
    table = Table(title=title)
    for column in ("", "seconds", "input tokens", "of them cached", "output tokens", "tokens/s", "computed tokens/s"):
        table.add_column(column, justify="right")
    sums = {key: found[f"sample {key}"] + found[f"choose {key}"] for key in ("input", "output", "cached")}
    for label, seconds, sent, cached, out in (
        ("sweep", spent, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens),
        ("replay", offline, sums["input"], sums["cached"], sums["output"]),
    ):
        rates = f"{(sent + out) / seconds:,.0f}", f"{(sent - cached + out) / seconds:,.0f}"
        table.add_row(label, f"{seconds:.1f}", f"{sent:,}", f"{cached:,}", f"{out:,}", *rates)
    console.print(table)
    busy = total.stats.busy_seconds
    console.print(
        f"the sweep reaches {offline / spent:.2f} of the replay (samples {found['sample seconds']:.1f} s, choices "
        f"{found['choose seconds']:.1f} s); its engine was computing in {100 * busy / spent:.0f}% of the time, "
        f"{total.stats.batch:.1f} requests at once"
    )
