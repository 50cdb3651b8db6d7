"""Hostile command lines of `launch/sweep.py`, and a process that runs many of them: its imports take seconds.

`python -m tests.support.command_lines FOLDER` reads a JSON list of command lines, runs each as the script would, in
FOLDER, and prints a JSON list of what came of them.
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

ROOT = Path(__file__).parents[2]
_LONGEST_SECONDS = 1200  # only ends a hang

GROUPS = ("model", "planner", "refine", "memory", "dataset", "robustness", "retriever", "pool")


def _each(keys: str, *values: str, first: tuple[str, ...] = ()) -> list[list[str]]:
    """A line for each of the keys, which blanks part, and each value."""
    return [[*first, f"{key}={value}"] for key in keys.split() for value in values]


_SWEEP = ("-m",)
_ON_ADDRESS = ("cluster=address",)
_BUDGET = (
    "budget.llm_calls budget.steps budget.tokens budget.seconds budget.prompt_characters budget.observation_characters"
)
REFUSED: list[list[str]] = [
    *_each("planner.temperature retriever.top_k", "nan", "inf", "-inf"),
    *_each("cluster.case_seconds cluster.worker_memory_gib", "nan", "inf", "1e400"),
    *_each("trials seed", "range(0,0)", "glob(*)", "range(1,9,0)", first=_SWEEP),
    *_each(" ".join([*GROUPS, "cluster"]), "glob(zzz*)", first=_SWEEP),
    *_each("dataset.path", "123", "[1]", "true", "{a:1}", "'~nosuchuser/x'", "x" * 5000, "'a\0b'"),
    *_each("store.root", "x" * 300, "/dev/null", "/dev/null/x", "'a\0b'", "1", "null", "''"),
    *_each("cluster.address", "'127.0.0.1:²'", "null", "''", "1", "127.0.0.1", "':1'", "'a b:1'", first=_ON_ADDRESS),
    *_each("cluster.address", "'127.0.0.1:1234567'", "'ray://127.0.0.1:10001'", first=_ON_ADDRESS),
    *_each(" ".join([*GROUPS, "cluster", "+experiment"]), "null", "1", "true"),
    *_each(" ".join([*GROUPS, "cluster", "+experiment"]), "nosuch"),
    *_each("planner", "react,null", "choice(react,1)", "interval(0,1)", "react,nosuch", first=_SWEEP),
    *_each("robustness", "[none,none]", "[extraneous,extraneous]", "[nosuch]", "[1]", "[[none]]", "{a:nan}"),
    *_each("robustness", "[extraneous,extraneous],none", first=_SWEEP),
    *_each("hydra.sweeper.max_batch_size", "1", "null", first=_SWEEP),
    *_each("hydra.run.dir hydra.sweep.dir hydra.output_subdir hydra.mode hydra.job.chdir hydra.verbose", "x"),
    *_each("hydra.launcher hydra/launcher hydra/sweeper planner@hydra.run +planner@hydra", "basic"),
    *_each("+hydra.callbacks +hydra", "{a:1}"),
    *_each("dataset.equivalence", "maybe", "judge", "null", "true"),
    *_each("judge evaluator", "1", "lexical", "[1]"),
    *_each("judge.form evaluator.form", "words", "1"),
    *_each("model@evaluator", "nosuch", "simulated", first=("dataset.equivalence=judge",)),
    *_each("retry_failed", "1", "0", "maybe", "null", "1.0"),
    *_each(_BUDGET, str(10**30), str(2**31), "0"),
    *_each("budget.money", "0", "-1", "nan", "inf", "much", "1,2", "true"),
    *_each("budget.cell_money", "0", "-1", "nan", "much"),
    *_each("budget.hard", "1", "0", "maybe", "null", "soft"),
    *_each("budget.money", "1", first=("model=openai_http", "model.model=m")),
    *_each("+model.price", "1", "{input: 1}", "{input: -1, output: 1}", "{input: 1, output: 1, more: 1}", "[1]"),
    *_each("dry_run.pilot", "0", "-1", "1.5", "many", "null", "true", "''", "", "1,2", str(2**31), "[1]", "1} name=x"),
    *_each("dry_run", "maybe", "1", "null", "{}", "{pilot: 0}", "{pilot: 1, more: 1}"),
    *_each("trials", "0", "-1", "1.5", "true", "null", "'3'", "[3]", "9" * 5000, str(2**63), ""),
    *_each("name", "../x", "a/b", "''", "7", "null", "x" * 101, "'\udcff'", "'\u202e'", "'a\nb'"),
    *_each("name", "${nosuch}", "${name}", "${oc.env:NOSUCH_VARIABLE}", "${now:", "${oc.nosuch:1}", "${planner}"),
    *_each("trails +trails planner.samples +planner.nosuch", "3"),
    *_each("+planner.deep", *(f"{'[' * depth}1{']' * depth}" for depth in (25, 31, 5000))),
    *_each("+planner.deep", *(f"{'{a:' * depth}1{'}' * depth}" for depth in (25, 31, 3000))),
    *_each("planner._target_", "os.system", "1", "null", "grid.planners.react.NoSuch", "'grid.planners.\0'"),
    *_each("seed", "range(0,10000000000)", "shuffle(range(0,10000000000))", "range(0,1,1e-300)", "0,1", first=_SWEEP),
    ["-m", "seed=range(0,5000)", "trials=range(1,5000)"],
    *(
        [text]
        for text in [
            "~planner",
            "++planner=react",
            "~hydra",
            "=",
            "==",
            "a",
            "=1",
            "planner",
            "planner=[",
            "planner='x",
            "planner=]",
            "@x=1",
        ]
    ),
    *(
        [flag]
        for flag in ["--nosuch", "--config-name=planner/react", "--config-path=/", "--experimental-rerun=x", "--cfg=x"]
    ),
    *([text] for text in ("", "a b=1", "--resolve", "--config-dir=/nosuch", "hydra.searchpath=1")),
    ["--run", "--multirun"],
]
"""Each must end with exit status 2 and one line."""

_PREFIXES = ("", "", "", "", "+", "++", "~")
_KEYS = ["", *(ROOT / "tests/data/override_keys.txt").read_text(encoding="utf-8").splitlines()]
_GOOD = (
    "planner=react",
    "robustness=none",
    "seed=7",
    "name=x",
    "trials=2",
    "planner.temperature=0.5",
    "retriever.top_k=3",
)
_VALUES = [
    *(ROOT / "tests/data/override_values.txt").read_text(encoding="utf-8").splitlines(),
    *("", '"\u202e"', "\t", "\x1b[31m", "\udcff", "9" * 4301, "x" * 9000),
]


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
            f"{draw.choice(_PREFIXES)}{draw.choice(_KEYS)}{draw.choice('=====:')}{draw.choice(_VALUES)}"
            for _ in range(draw.choice((0, 1, 1, 1, 2, 3)))
        ]
        overrides += draw.sample(_GOOD, draw.choice((0, 1, 2)))
        draw.shuffle(overrides)
        flags = draw.choice(([], ["-m"], ["-m"], ["--cfg", "job"]))
        lines.append([*flags, "model=null_engine", "dataset=null_cases", "dataset.limit=2", *overrides, "dry_run=true"])
    return lines


def outcomes(lines: Sequence[Sequence[str]], folder: Path) -> list[Outcome]:
    """What comes of the lines, one after the other in a process of their own."""
    command = [sys.executable, "-m", "tests.support.command_lines", str(folder)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'launch'}"}
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
