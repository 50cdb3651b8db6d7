"""Measurements, with their spread: `agent-grid bench overhead|scale|choose|throughput|...`.

Only figures go to stdout, in lines no longer than launch/readme.py accepts; progress goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from multiprocessing import active_children
from typing import TextIO

from rich.console import Console

from launch.readme import WIDTH

BENCHMARKS = {
    "overhead": "the null engine: episodes per second, and each layer's share of the time",
    "scale": "a million one-step cells: cells per second, memory, files, time to resume, time to make a table",
    "choose": "an exact choice among 100 options, compared with a prefill and with passes that share no prefix",
    "throughput": "tokens per second of a sweep on one vLLM replica, compared with an offline replay of its requests",
    "chaos": "SIGKILLs at random times: rows that are lost, duplicated, or different from an undisturbed run's rows",
    "kopl": "KoPL's functions: programs per second compared with the reference engine, time per item returned",
    "sparql": "a graph in pyoxigraph: programs per second compared with rdflib; 10 million triples on disk",
    "search": "tree search without a model: memory, and nodes per second compared with published agents' loops",
    "tau2": "τ²-bench with an instant model: episodes per second and memory, compared with the package's runner",
    "viewer": "the viewer on a million episodes: seconds until the first page, the cases and one case are shown",
    "gpu": "on a GPU machine: exactness, choice-to-prefill ratios, sweeps compared with replays, kills, memory",
}


def main() -> int:
    """Run the named benchmark; its own options follow its name."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="benchmark", required=True)
    for name, text in BENCHMARKS.items():
        told = text.replace("%", "%%")
        command = commands.add_parser(name, help=told, description=told)
        if name in sys.argv[1:]:  # importing all the other benchmarks would take seconds
            import_module(f"launch.benchmarks.{name}").add_arguments(command)
    arguments = parser.parse_args()
    with _figures() as figures:
        console = Console(file=figures, width=WIDTH, highlight=False)
        import_module(f"launch.benchmarks.{arguments.benchmark}").run(arguments, console)
    if active_children():  # Python would wait for vLLM's process, which only ends after this one
        os._exit(0)
    return 0


def _figures() -> TextIO:
    """A stream to the real stdout, for figures; from now on all other output of any process goes to stderr."""
    sys.stdout.flush()
    figures = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding=sys.stdout.encoding)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = sys.stderr  # stderr shows each line immediately
    return figures


if __name__ == "__main__":
    sys.exit(main())
