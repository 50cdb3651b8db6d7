"""Exact choices against brute force from full log-probabilities, on vLLM and transformers, and against another machine.

A variant is an engine, a number format and, for vLLM, whether batches are invariant. Each runs in a process of its own:
one that does not start, or whose process must be ended, is a figure, and costs the others nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from grid.core.engine import Prompt
from grid.engines.choice import Prefix
from grid.engines.hosted import HostedEngine
from grid.engines.language_model import LanguageModel, ending
from grid.engines.rendering import Renderer
from grid.settings.build import build_engine
from launch.benchmarks import prompts as made
from launch.benchmarks.gpu_model import with_weights

if TYPE_CHECKING:
    from launch.benchmarks.gpu import Bench

OPTIONS = (2, 10, 50, 100)
VARIANTS = ("transformers-float32", "transformers-bfloat16", "vllm-bfloat16", "vllm-bfloat16-invariant", "vllm-float32")
_TOKENS = 1200  # of a prompt at most, so that a CPU can compute the same
_FIRST_SERIAL = 10_000  # the same prompts in every process


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which variants, how many prompts, and what other machines found."""
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="of the part exact")
    parser.add_argument("--exact-prompts", type=int, default=3, help="for each number of options")
    parser.add_argument("--variant-seconds", type=float, default=400, help="after which a variant is ended")
    parser.add_argument("--against", type=Path, help="distributions.json of another machine, to compare with")


def exact(bench: Bench) -> None:
    """Each variant's greatest difference of a probability from brute force, and from the other variants'."""
    found: dict[str, Any] = {}
    if bench.arguments.against:
        kept = json.loads(bench.arguments.against.read_text())
        found |= {f"{name} elsewhere": one for name, one in kept.items()}
    model, mine = _model(bench), {}
    for variant in bench.arguments.variants:
        result = _in_a_process(bench, model, variant)
        if "failed" in result:
            bench.figures.add("exact", variant=variant, **result)
            continue
        mine[variant] = {"chosen": result["chosen"], "brute": result["brute"]}
        found[variant] = mine[variant]
        for options in OPTIONS:
            bench.figures.add(
                "exact",
                variant=variant,
                options=options,
                greatest_difference_from_brute_force=_apart(result["chosen"], result["brute"], options),
                prompts=bench.arguments.exact_prompts,
            )
        bench.figures.add("exact", variant=variant, seconds=result["seconds"])
    for one, other in itertools.combinations(found, 2):
        apart = {str(options): _apart(found[one]["chosen"], found[other]["chosen"], options) for options in OPTIONS}
        bench.figures.add("exact", between=f"{one} and {other}", greatest_differences_by_options=apart)
    if bench.arguments.out:
        (bench.arguments.out / "distributions.json").write_text(json.dumps(mine))


def _apart(one: Sequence[Sequence[float]], other: Sequence[Sequence[float]], options: int) -> float:
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if len(a) == options]
    return max(float(np.abs(np.array(a) - np.array(b)).max()) for a, b in pairs)


def _model(bench: Bench) -> dict[str, Any]:
    """Where the measured model's weights are; random ones are written out, as transformers does not draw them."""
    if "path" in bench.model:
        return {"path": str(with_weights(Path(bench.model["path"]), bench.folder / "weights", bench.arguments.device))}
    return {key: value for key, value in bench.model.items() if key in ("hub", "wheels")}


def _in_a_process(bench: Bench, model: dict[str, Any], variant: str) -> dict[str, Any]:
    engine, dtype, *rest = variant.split("-")
    device = bench.arguments.device
    if engine == "vllm":
        share = {"gpu_memory_utilization": 0.2} if device == "cuda" else {}
        serving = {"device": device, "kv_cache_gib": min(bench.arguments.kv_cache_gib, 4.0), **share}
        model = model | {"_target_": "grid.engines.vllm.engine.VLLM", "serving": serving}
    else:
        model = model | {"_target_": "grid.engines.transformers.engine.HuggingFace", "device": device}
    # Every node counts: a share that is left out would be a difference.
    model |= {"dtype": dtype, "mass_bound": 0.0, "max_tokens": 16, "context": 4096}
    told = {"model": model, "prompts": bench.arguments.exact_prompts}
    environment = os.environ | ({"VLLM_BATCH_INVARIANT": "1"} if rest else {})
    found = bench.folder / f"{variant}.json"
    # Not by -m: the engine's own process would import this module too, and with it what stops vLLM (see replay.py).
    code = "from launch.benchmarks.gpu_exact import main; main()"
    command = [sys.executable, "-c", code, json.dumps(told), str(found)]
    began, most = time.perf_counter(), bench.arguments.variant_seconds
    # A session of its own, and a file instead of a pipe: vLLM's processes outlive it on a GPU and would hold the pipe.
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        status = process.wait(most)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {most:.0f} s"}
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if not found.exists():
        return {"failed": f"exit status {status}; stderr says why"}
    return cast(dict[str, Any], json.loads(found.read_text())) | {"seconds": time.perf_counter() - began}


def brute_force(renderer: Renderer, count: int, logs_after: Callable[[Prefix], np.ndarray]) -> list[float]:
    """The options' probabilities by their numbers, as algorithm 3 has them, from full next-token distributions.

    `logs_after` gives the log-probabilities of the whole vocabulary after a prefix of a label, shape (vocabulary,). A
    label scores the product over its tokens; a one-digit number's, times what no digit takes after it.
    """
    labels, known = renderer.labels(count), dict[Prefix, np.ndarray]()

    def logs(node: Prefix) -> np.ndarray:
        if node not in known:
            known[node] = logs_after(node).astype(np.float64)
        return known[node]

    scores = []
    ends = set(ending(labels, "natural"))
    for label in labels:
        score = float(np.exp(sum(logs(label[:place])[token] for place, token in enumerate(label))))
        if label in ends:
            score *= 1.0 - float(np.exp(logs(label)[list(renderer.digits)]).sum())
        scores.append(score)
    total = sum(scores)
    return [score / total for score in scores]


async def _measure(engine: HostedEngine, count: int) -> dict[str, Any]:
    """What the engine chooses, and brute force from its own full log-probabilities, one prompt after another."""
    await engine.load()
    model = cast(LanguageModel, engine)
    renderer = model.renderer(model.folder())
    made._SERIAL = itertools.count(_FIRST_SERIAL)
    asked = [_prompt(options, renderer) for options in OPTIONS for _ in range(count)]
    chosen, brute = [], []
    for prompt in asked:
        chosen.append(list((await engine.choose(prompt, seed=0)).probabilities))
        tokens = renderer.encode(prompt)
        rows = await _full(engine, tokens, renderer, len(chosen[-1]))
        brute.append(brute_force(renderer, len(chosen[-1]), lambda node, rows=rows: rows[node]))  # type: ignore[misc]
    return {"chosen": chosen, "brute": brute}


def _prompt(options: int, renderer: Renderer) -> Prompt:
    return made.choice_prompt(options, _TOKENS, lambda prompt: len(renderer.encode(prompt)))


async def _full(engine: Any, tokens: list[int], renderer: Renderer, count: int) -> dict[Prefix, np.ndarray]:
    """The full log-probabilities after each prefix that brute force reads, each from a request of its own."""
    labels = renderer.labels(count)
    nodes = sorted({label[:place] for label in labels for place in range(len(label))}.union(ending(labels, "natural")))
    if hasattr(engine, "device"):
        return _of_transformers(engine, tokens, nodes)
    found = {}
    for node in nodes:
        output = await engine._answer(
            engine._ready[0],
            [*tokens, *node],
            max_tokens=1,
            temperature=0.0,
            logprobs=-1,
            detokenize=False,
        )
        (row,) = output.outputs[0].logprobs
        values = np.full(max(row) + 1, -np.inf)
        values[list(row)] = [entry.logprob for entry in row.values()]
        found[node] = values
    return found


def _of_transformers(engine: Any, tokens: list[int], nodes: Sequence[Prefix]) -> dict[Prefix, np.ndarray]:
    """Each a sequence of its own through transformers' own forward pass, nothing reused."""
    import torch

    model = engine._loaded.model._model
    found = {}
    for node in nodes:
        with torch.inference_mode():
            ids = torch.tensor([[*tokens, *node]], device=model.device)
            logits = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1]
        found[node] = logits.double().log_softmax(-1).cpu().numpy()
    return found


def main() -> None:
    """One variant, as the first argument has it: what it found, as JSON in the file that the second one names."""
    asked, file = json.loads(sys.argv[1]), Path(sys.argv[2])
    engine = cast(Any, build_engine(asked["model"]))
    if hasattr(engine, "_arguments"):
        own = engine._arguments
        engine._arguments = lambda: own() | {"max_logprobs": -1}
    os.dup2(2, 1)  # vLLM writes there too
    file.write_text(json.dumps(asyncio.run(_measure(engine, asked["prompts"]))))
    os._exit(0)
