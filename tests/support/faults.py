"""Faults planted in the code, one at a time: which tests notice each.

`python -m tests.support.faults found.jsonl` plants ten a room, drawn with a seed, each in a copy of this checkout, and
runs the tests that name the module it is in. A run that was stopped goes on where it was. `--against before.jsonl`, the
file of an earlier commit, plants the same faults, and lists those that were noticed there and are not here.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
ROOMS = {
    "planners": ("grid/planners", "grid/episode"),
    "worlds": ("grid/worlds", "grid/datasets"),
    "settings": ("grid/settings", "grid/sweeps"),
    "cells": ("grid/cells", "grid/cluster"),
    "store": ("grid/store", "grid/metrics"),
    "analysis": ("analysis",),
}
KINDS = ("sign", "off by one", "dropped condition", "swapped column", "missing retry", "wrong unit")
MOST_SECONDS = 900
_TURNED = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}
_LARGER = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}


class Fault(NamedTuple):
    """A piece of a file, from `start` to `end` in bytes, that another text takes the place of."""

    room: str
    path: str
    line: int
    kind: str
    start: int
    end: int
    text: str


class Source:
    """A file with the places of its pieces."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_bytes()
        self.tree = ast.parse(self.text)
        self._lines = [0]
        for line in self.text.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        """A place in bytes."""
        return self._lines[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends."""
        places = (getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))
        line, column, last, end = places
        return self.at(line, column), self.at(last, end)

    def of(self, node: ast.AST) -> str:
        """A node's text."""
        start, end = self.span(node)
        return self.text[start:end].decode()


def edits(source: Source) -> Iterator[tuple[str, int, int, int, str]]:
    """(kind, line, start, end, text) of every fault that a file can have."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.BinOp):
            yield from _of_operation(source, node)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _LARGER:
            old, new = _LARGER[type(node.ops[0])]
            yield from _between(source, node.left, node.comparators[0], "off by one", old, new)
        elif isinstance(node, ast.BoolOp):
            start, end = source.span(node)
            yield "dropped condition", node.lineno, start, end, f"({source.of(node.values[0])})"
        elif isinstance(node, ast.Dict):
            yield from _of_dict(source, node)
        elif isinstance(node, ast.ExceptHandler) and not any(isinstance(part, ast.Raise) for part in ast.walk(node)):
            start, end = source.span(node.body[0])[0], source.span(node.body[-1])[1]
            yield "missing retry", node.lineno, start, end, "raise"


def _of_operation(source: Source, node: ast.BinOp) -> Iterator[tuple[str, int, int, int, str]]:
    sides = (node.left, node.right)
    if type(node.op) in _TURNED and not any(_is_text(part) for side in sides for part in ast.walk(side)):
        yield from _between(source, node.left, node.right, "sign", *_TURNED[type(node.op)])
    if isinstance(node.op, (ast.Mult, ast.Div)):
        for side in sides:
            if isinstance(side, ast.Constant) and isinstance(side.value, (int, float)) and side.value >= 10:
                start, end = source.span(side)
                yield "wrong unit", node.lineno, start, end, f"{10 * side.value}"


def _of_dict(source: Source, node: ast.Dict) -> Iterator[tuple[str, int, int, int, str]]:
    pairs = [(key, value) for key, value in zip(node.keys, node.values, strict=True) if _is_text(key)]
    for (_, one), (_, other) in pairwise(pairs):
        first, second = source.of(one), source.of(other)
        if first != second and not isinstance(one, ast.Dict):
            start, end = source.span(one)[0], source.span(other)[1]
            between = source.text[source.span(one)[1] : source.span(other)[0]].decode()
            yield "swapped column", one.lineno, start, end, f"{second}{between}{first}"


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _between(
    source: Source, left: ast.AST, right: ast.AST, kind: str, old: str, new: str
) -> Iterator[tuple[str, int, int, int, str]]:
    start, end = source.span(left)[1], source.span(right)[0]
    text = source.text[start:end].decode()
    if text.count(old) == 1:
        yield kind, left.lineno, start, end, text.replace(old, new)  # type: ignore[attr-defined]


def drawn(seed: int, a_room: int) -> list[Fault]:
    """So many faults a room, each kind in turn as far as a room has it, none twice in a file."""
    rng, found = random.Random(seed), list[Fault]()
    for room, folders in ROOMS.items():
        paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
        every = [
            Fault(room, str(path.relative_to(ROOT)), line, kind, start, end, text)
            for path in paths
            for kind, line, start, end, text in edits(Source(path))
        ]
        rng.shuffle(every)
        own = list[Fault]()
        for place in range(a_room * len(KINDS)):
            kind = KINDS[place % len(KINDS)]
            used = {fault.path for fault in own}
            fresh = [one for one in every if one.kind == kind and one.path not in used]
            if fresh and len(own) < a_room:
                own.append(fresh[0])
        found += own
    return found


def naming(path: str) -> list[str]:
    """The test files that name a module, or what its room says it has, and those called after it."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    room, _, stem = module.rpartition(".")
    named = re.compile(rf"\b{re.escape(module)}\b|from {re.escape(room)} import [^\n]*\b{re.escape(stem)}\b")
    tests = [one for one in sorted((ROOT / "tests").rglob("test_*.py")) if "vllm" not in one.parts]
    found = [one for one in tests if named.search(one.read_text("utf-8")) or stem in one.stem]
    found.sort(key=lambda one: (stem not in one.stem, "ray" in one.parts, one.stat().st_size))  # the likely ones first
    return [str(one.relative_to(ROOT)) for one in found or tests if found or "contracts" in one.parts]


def noticed(fault: Fault, scratch: Path, tests: Sequence[str] = ()) -> dict[str, Any]:
    """What the tests (of none: those that name its module) say of a copy with the fault: the first that fails, or none.

    One that takes longer than MOST_SECONDS is noticed.
    """
    copy = scratch / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", "__pycache__", ".venv", "results", "outputs"))
    target = copy / fault.path
    held = target.read_bytes()
    target.write_bytes(held[: fault.start] + fault.text.encode() + held[fault.end :])
    files = list(tests) or naming(fault.path)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-n",
        "2",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *files,
    ]
    own = {"PYTHONPATH": f"{copy}{os.pathsep}{copy / 'launch'}"}  # and not the checkout that is installed
    try:
        ended = subprocess.run(
            command, cwd=copy, env=os.environ | own, capture_output=True, text=True, timeout=MOST_SECONDS, check=False
        )
        by = re.findall(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, re.M)
        how = "noticed" if by else "not noticed" if ended.returncode == 0 else "broken"  # -x ends with 1 or with 2
    except subprocess.TimeoutExpired:
        by, how = [], "noticed"  # it does not end
    shutil.rmtree(copy)
    return {"how": how, "by": by[:3], "of": files}


def again(row: Mapping[str, Any]) -> Fault | None:
    """The fault of an earlier commit in the file as it is now; None where its text is gone."""
    path = ROOT / row["path"]
    if not path.is_file():
        return None
    source = Source(path)
    same = [
        Fault(row["room"], row["path"], line, kind, start, end, text)
        for kind, line, start, end, text in edits(source)
        if (kind, text, source.text[start:end].decode()) == (row["kind"], row["text"], row["old"])
    ]
    return min(same, key=lambda fault: abs(fault.line - row["line"]), default=None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant, run, and say what was not noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("found", type=Path, help="a line a fault is added to this file")
    parser.add_argument("--seed", type=int, default=43)
    parser.add_argument("--a-room", type=int, default=10)
    parser.add_argument("--rooms", nargs="*", default=[*ROOMS])
    parser.add_argument("--tests", nargs="*", default=[], help="these in place of those that name a fault's module")
    parser.add_argument("--against", type=Path, help="the file of an earlier commit: the same faults")
    options = parser.parse_args(arguments)
    before = {named(row): row for row in read(options.against)} if options.against else {}
    faults = map(again, before.values()) if options.against else drawn(options.seed, options.a_room)
    rows = {named(row): row for row in read(options.found)}
    for fault in faults:
        if fault and fault.room in options.rooms:
            with tempfile.TemporaryDirectory() as scratch:
                old = (ROOT / fault.path).read_bytes()[fault.start : fault.end].decode()
                row = fault._asdict() | {"old": old}
                if named(row) in rows:
                    continue
                row |= noticed(fault, Path(scratch), options.tests)
            rows[named(row)] = row
            with options.found.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['how']:12} {fault.kind:18} {fault.path}:{fault.line} {row['by']}", flush=True)
    missed = [name for name, row in rows.items() if row["how"] != "noticed"]
    print(f"{len(rows) - len(missed)} of {len(rows)} faults were noticed")
    lost = [name for name in missed if name in before and before[name]["how"] == "noticed"]
    if before:
        print(f"noticed before and no more: {len(lost)}", *(name[0] for name in lost), sep="\n")
    return int(bool(lost))


def named(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """What tells a fault from others, in whatever line it stands."""
    return row["path"], row["kind"], row["old"], row["text"]


def read(path: Path) -> list[dict[str, Any]]:
    """The faults of a file, none where there is none yet."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.is_file() else []


if __name__ == "__main__":
    sys.exit(main())
