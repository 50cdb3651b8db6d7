"""τ²-bench: episodes per second and memory, next to the package's own runner, with a model that answers at once."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from launch.benchmarks.choose import spread
from launch.readme import ROOT

DOMAINS = ("telecom", "airline")
STATES = 1000
_TIMEOUT = 600


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options: the data's folder, the number of episodes, and the repeats."""
    parser.add_argument("--tau2", type=Path, required=True, metavar="FOLDER", help="the released data/tau2")
    parser.add_argument("--episodes", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Run both sides alternately, each in its own process; ratios are computed within a repeat."""
    path = arguments.tau2
    table = Table(
        title=f"{arguments.episodes} episodes of gold actions, {arguments.repeats} alternating repeats, one core"
    )
    for column in ("domain", "package episodes/s", "here episodes/s", "times", "package MiB", "here MiB", "rewards"):
        table.add_column(column, justify="left" if column == "domain" else "right")
    for domain in DOMAINS:
        pairs = [
            [_side(side, domain, path, arguments.episodes) for side in ("there", "here")]
            for _ in range(arguments.repeats)
        ]
        theirs, ours = ([one["episodes"] / one["cpu"] for one in side] for side in zip(*pairs, strict=True))
        ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
        memory = [[one["process_mib"] for one in side] for side in zip(*pairs, strict=True)]
        rewards = "{:g} = {:g}".format(*(one["rewards"] for one in pairs[0]))
        table.add_row(
            domain,
            *(spread(values, "{:,.1f}") for values in (theirs, ours)),
            spread(ratios, "{:.1f}"),
            *(spread(values, "{:,.0f}") for values in memory),
            rewards,
        )
    console.print(table)
    kept = _side("branched", "airline", path, STATES)
    console.print(
        f"{STATES:,} branched states of one airline case take {kept['more_mib']:,.0f} MiB; the process's peak memory "
        f"is {kept['process_mib']:,.0f} MiB"
    )


def _side(side: str, domain: str, path: Path, count: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "launch.benchmarks.tau2_runs", side, domain, str(path.resolve()), str(count)]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=_TIMEOUT).stdout
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found
