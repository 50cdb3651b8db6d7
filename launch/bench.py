"""Measurements, with their spread: `agent-grid bench overhead|scale|choose|throughput|...`.

Only figures go to stdout, no wider than launch/readme.py accepts; progress goes to stderr.
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
    "overhead": "the null engine: episodes per second, and the share of each layer",
    "scale": "a million cells of one step: cells per second, memory, files, starting again, a table",
    "choose": "an exact choice among 100 options against a prefill and against passes that share nothing",
    "throughput": "tokens per second of a sweep on one vLLM replica against an offline replay of its requests",
    "chaos": "SIGKILLs at random moments: rows lost, rows twice, rows that differ from an undisturbed run's",
    "kopl": "KoPL's functions: programs per second beside the reference engine, time per item returned",
    "sparql": "a graph in pyoxigraph: programs per second beside rdflib; 10 million triples on disk",
    "search": "tree search without a model: nodes per second beside published agents' loops, and memory",
    "tau2": "τ²-bench with an instant model: episodes per second and memory beside the package's own runner",
    "viewer": "the viewer on a million episodes: seconds to the first page, and of cases and one case",
    "gpu": "a GPU machine: exactness, choice over prefill, sweeps beside their replay, kills, memory",
}


def main() -> int:
    """Run the named benchmark; its own options follow its name."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="benchmark", required=True)
    for name, text in BENCHMARKS.items():
        told = text.replace("%", "%%")
        command = commands.add_parser(name, help=told, description=told)
        if name in sys.argv[1:]:  # the imports of all others would take seconds
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
    sys.stdout = sys.stderr  # stderr shows lines at once
    return figures


if __name__ == "__main__":
    sys.exit(main())
