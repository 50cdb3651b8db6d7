"""What `dry_run.pilot=N` foretells against what the same sweep then took: tokens, and time until the last cell ended.

Engines: the lexical one, the simulated policy, a local HTTP server that takes its time for every answer, and a small
model on transformers, whose sweep is small and whose pilot has a tenth of the calls.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from grid import store
from grid.core.errors import GridError
from launch.benchmarks.branches import server

_ENGINES = ("lexical", "simulated", "http", "transformers")
_ROOT = Path(__file__).resolve().parents[2]
_NUMBER, _CLOCK = r"([\d,]+)(?: ± [\d,]+)?", r"([\d:]+)"
_TOKENS = re.compile(f"^in all: {_NUMBER} tokens in, {_NUMBER} out", re.M)
_TIME = re.compile(f"^wall time on this cluster: {_CLOCK}: ", re.M)


@dataclass(frozen=True)
class Took:
    """Tokens in and out, and the seconds from the announcement of a sweep to the end of its last cell."""

    tokens_in: int
    tokens_out: int
    seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The cap, the sizes and the models."""
    parser.add_argument("--calls", type=int, default=1000, help="of a pilot, for each setting")
    parser.add_argument("--trials", type=int, default=4, help="of 50 cases, with engines of the task")
    parser.add_argument("--only", nargs="*", choices=_ENGINES, default=_ENGINES)
    parser.add_argument("--latency-ms", type=float, default=500.0, help="of every answer over HTTP")


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Each engine's dry run, and then its sweep."""
    table = Table(title=f"dry_run.pilot={arguments.calls} against the sweep; ratios: foretold over what it took")
    for column in ("engine", "cells", "tokens in", "out", "ratio", "seconds", "ratio"):
        table.add_column(column, justify="left" if column == "engine" else "right")
    grid = ["-m", "planner=react,egb_sampling", "robustness=none"]
    with server(arguments.latency_ms / 1000) as url:
        here = f"trials={arguments.trials}"
        small = ["planner=react", "model.max_tokens=48", "retriever.top_k=4", "dataset.max_substeps=11"]
        sweeps = {
            "lexical": ["model=lexical", here],
            "simulated": ["model=simulated", here],
            "http": ["model=openai_http", f"model.base_url={url}", "model.model=random", "planner=react", "trials=3"],
            "transformers": ["model=smollm2-135m", *small, "dataset.limit=10", "trials=2"],
        }
        for name in arguments.only:
            values, calls = [*grid, *sweeps[name]], arguments.calls // (10 if name == "transformers" else 1)
            with tempfile.TemporaryDirectory() as folder:
                values = [*values, f"store.root={folder}", "cluster.dashboard=false"]
                foretold = _foretold(_said([*values, f"dry_run.pilot={calls}"])[0])
                _, seconds = _said(values)
                took, cells = _took(Path(folder, "default"), seconds)
            table.add_row(name, f"{cells:,}", *_beside(foretold, took))
    console.print(table)


def _beside(foretold: Took, took: Took) -> list[str]:
    ratio = (foretold.tokens_in + foretold.tokens_out) / (took.tokens_in + took.tokens_out)
    return [
        f"{foretold.tokens_in:,} / {took.tokens_in:,}",
        f"{foretold.tokens_out:,} / {took.tokens_out:,}",
        f"{ratio:.2f}",
        f"{foretold.seconds:.0f} / {took.seconds:.0f}",
        f"{foretold.seconds / took.seconds:.2f}",
    ]


def _said(values: list[str]) -> tuple[str, float]:
    """What a sweep says, and the seconds from its first line to the one that tells how long its cells took."""
    command = [sys.executable, str(_ROOT / "launch" / "sweep.py"), *values]
    lines, began, seconds = list[str](), 0.0, 0.0
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as sweep:
        assert sweep.stdout is not None  # noqa: S101 - for the types
        for line in sweep.stdout:
            lines.append(line)
            began = began or time.monotonic()
            if line.startswith("ran "):
                seconds = time.monotonic() - began
    if sweep.returncode:
        raise GridError(f"exit status {sweep.returncode}: {''.join(lines)[-2000:]}")
    print("".join(lines), file=sys.stderr)
    return "".join(lines), seconds


def _foretold(said: str) -> Took:
    tokens, told = _TOKENS.search(said), _TIME.search(said)
    if not tokens or not told:
        raise GridError(f"a dry run that foretells nothing: {said[-2000:]}")
    counts = [int(one.replace(",", "")) for one in tokens.groups()]
    seconds = 0
    for part in told[1].split(":"):
        seconds = 60 * seconds + int(part)
    return Took(counts[0], counts[1], seconds)


def _took(root: Path, seconds: float) -> tuple[Took, int]:
    rows = store.read(root, "attempts", ["input_tokens", "output_tokens", "cells"]).to_pydict()
    return Took(sum(rows["input_tokens"]), sum(rows["output_tokens"]), seconds), sum(rows["cells"])
