"""Hostile command lines of `launch/sweep.py`, and a process that runs many of them: its imports take seconds.

`python -m tests.command_lines FOLDER` reads a JSON list of command lines, runs each as the script would, in FOLDER, and
prints a JSON list of what came of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).parents[1]
_LONGEST_SECONDS = 1200  # only ends a hang

REFUSED: list[list[str]] = [
    *([f"{key}={value}"] for key in ("planner.temperature", "retriever.top_k") for value in ("nan", "inf", "-inf")),
    *([f"cluster.{key}={value}"] for key in ("case_seconds", "worker_memory_gib") for value in ("nan", "inf", "1e400")),
    *(["-m", f"{key}={value}"] for key in ("trials", "seed") for value in ("range(0,0)", "glob(*)", "range(1,9,0)")),
    *(["-m", f"{group}=glob(zzz*)"] for group in ("model", "planner", "dataset", "robustness", "retriever", "cluster")),
    *([f"dataset.path={value}"] for value in ("123", "[1]", "true", "{a:1}", "'~nosuchuser/x'", "x" * 5000, "'a\0b'")),
    *([f"store.root={value}"] for value in ("x" * 300, "/dev/null", "/dev/null/x", "'a\0b'", "1", "null", "''")),
    *(
        ["cluster=address", f"cluster.address={value}"]
        for value in ("'127.0.0.1:²'", "null", "''", "1", "127.0.0.1", "':1'", "'a b:1'", "'127.0.0.1:1234567'")
    ),
    *([f"{group}={value}"] for group in ("model", "planner", "dataset", "robustness", "retriever") for value in ("null", "1")),
    *([f"{group}=true"] for group in ("cluster", "+experiment")),
    *(["-m", f"planner={value}"] for value in ("react,null", "choice(react,1)", "interval(0,1)", "react,nosuch")),
    *([f"{group}=nosuch"] for group in ("model", "planner", "dataset", "robustness", "retriever", "cluster")),
    *([f"robustness={value}"] for value in ("[none,none]", "[extraneous,extraneous]", "[nosuch]", "[1]", "[[none]]")),
    ["-m", "robustness=[extraneous,extraneous],none"],
    *(["-m", f"hydra.sweeper.max_batch_size={value}"] for value in ("1", "null")),
    *(
        [override]
        for override in (
            "hydra.launcher=null", "hydra/launcher=basic", "hydra/sweeper=basic", "hydra.run.dir=x", "hydra.sweep.dir=x",
            "hydra.mode=MULTIRUN", "hydra.job.chdir=true", "hydra.output_subdir=x", "+hydra.callbacks={a:1}", "~hydra",
            "+hydra={run:{dir:x}}", "planner@hydra.run=react", "+planner@hydra=react", "hydra.verbose=true",
        )
    ),  # fmt: skip
    *([f"retry_failed={value}"] for value in ("1", "0", "maybe", "null", "1.0")),
    *([f"budget.{key}={10**30}"] for key in ("llm_calls", "tool_calls", "prompt_characters", "observation_characters")),
    *([f"trials={value}"] for value in ("0", "-1", "1.5", "true", "null", "'3'", "[3]", "9" * 5000, str(2**63), "")),
    *([f"name={value}"] for value in ("../x", "a/b", "''", "7", "null", "x" * 101, "'\udcff'", "'\u202e'", "'a\nb'")),
    *([value] for value in ("trails=3", "+trails=3", "planner.samples=3", "+planner.nosuch=1", "~planner", "++planner=react")),
    *([f"+planner.deep={'[' * depth}1{']' * depth}"] for depth in (25, 31, 5000)),
    *([f"+planner.deep={'{a:' * depth}1{'}' * depth}"] for depth in (25, 31, 3000)),
    *([value] for value in ("", "=", "==", "a", "=1", "planner", "planner=[", "planner='x", "planner=]", "@x=1", "a b=1")),
    *([f"name={value}"] for value in ("${nosuch}", "${name}", "${oc.env:NOSUCH_VARIABLE}", "${now:", "${oc.nosuch:1}", "${planner}")),
    ["-m", "seed=range(0,10000000000)"],
    ["-m", "seed=shuffle(range(0,10000000000))"],
    ["-m", "seed=range(0,1,1e-300)"],
    ["-m", "seed=range(0,5000)", "trials=range(1,5000)"],
    ["-m", "seed=0,1"],
    *([flag] for flag in ("--nosuch", "--config-name=planner/react", "--config-path=/", "--experimental-rerun=x", "--cfg=x")),
    *(["--run", "--multirun"], ["--resolve"], ["--config-dir=/nosuch"], ["hydra.searchpath=1"], ["+experiment=nosuch"]),
    *([f"planner._target_={value}"] for value in ("os.system", "1", "null", "grid.planners.react.NoSuch", "'grid.planners.\0'")),
]  # fmt: skip
"""Each must end with exit status 2 and one line."""

_KEYS = (
    "trials", "seed", "name", "store.root", "dataset.limit", "dataset.path", "planner.temperature", "planner._target_",
    "planner", "dataset", "robustness", "retriever", "retriever.top_k", "cluster", "cluster.case_seconds", "cluster.cpus",
    "cluster.address", "budget.llm_calls", "budget", "store", "retry_failed", "model", "model.temperature", "experiment",
    "hydra.run.dir", "hydra/launcher", "hydra.sweeper.params.seed", "nosuch", "planner.nosuch", "a.b.c", "a@b", "planner@x",
    "planner.temperature.x", "robustness.extraneous.k", "é", "x y", "", ".", "..", "trials.", "1", "$x", "planner/react",
)  # fmt: skip
_VALUES = (
    "1", "0", "-1", "2.5", "nan", "inf", "1e400", "true", "null", "", "x", "''", "'a b'", '"\u202e"', "'\\'", "[1,2]", "[]",
    "{a:1}", "{}", "{1:2,a:3}", "{null:1}", "[[[]]]", "a,b", "1,2", "react,egb_sampling", "choice(1,2)", "choice()",
    "range(1,3)", "range(3)", "range(3,1)", "range(1,2,0.5)", "glob(*)", "glob(e*)", "glob([a*,b*],exclude=c)", "interval(0,1)",
    "sort(3,1)", "shuffle(1,2)", "tag(a,1,2)", "int(2.9)", "str(1)", "float(nan)", "bool(2)", "json_str({a:1})",
    "extend_list(1)", "${seed}", "${name}", "${nosuch}", "${oc.env:HOME}", "${", "\\${x}", "react", "none", "slate",
    "extraneous", "[extraneous,none]", "null_engine", "lexical", "bm25", "address", "local", "???", "\t", "\x1b[31m",
    "\udcff", "9" * 4301, "x" * 9000, "0x10", "1_000", "1:2", "a=b", "a=b=c", "((", "))", "[,]", "{,}", "'", '"', "#", "~", "*",
)  # fmt: skip


class Outcome(TypedDict):
    """What came of a command line."""

    status: int
    out: str
    err: str


def random_lines(count: int, seed: int) -> list[list[str]]:
    """Overrides of known and unknown keys with values of all kinds, each line as a dry run of a small dataset."""
    draw = random.Random(seed)
    lines = []
    for _ in range(count):
        overrides = [
            f"{draw.choice(('', '', '', '', '+', '++', '~'))}{draw.choice(_KEYS)}{draw.choice(('=', '=', '=', '=', ''))}"
            f"{draw.choice(_VALUES)}"
            for _ in range(draw.choice((1, 1, 2, 3)))
        ]
        flags = draw.choice(([], ["-m"], ["-m"], ["--cfg", "job"]))
        lines.append([*flags, "model=null_engine", "dataset=null_cases", "dataset.limit=2", *overrides, "dry_run=true"])
    return lines


def outcomes(lines: Sequence[Sequence[str]], folder: Path, cache: Path) -> list[Outcome]:
    """What comes of the lines, one after the other in a process of their own."""
    command = [sys.executable, "-m", "tests.command_lines", str(folder)]
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": f"{ROOT}:{ROOT / 'launch'}"}
    given = json.dumps(lines).encode()
    ended = subprocess.run(
        command, input=given, env=environment, cwd=ROOT, stdout=subprocess.PIPE, timeout=_LONGEST_SECONDS, check=True
    )
    found: list[Outcome] = json.loads(ended.stdout)
    return found


def _run(line: Sequence[str]) -> Outcome:
    from launch import sweep

    sys.argv = ["launch/sweep.py", *line]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = sweep.main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    return {"status": status, "out": out.getvalue(), "err": err.getvalue()}


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    print(json.dumps([_run(line) for line in json.load(sys.stdin)]))
