"""The head of a report's page: when, by which command and code, with what versions, seed, machine and engine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analysis.load import frames as load
from analysis.load import left_out, provenance
from grid import store

_FACTS = ["model", "engine", "engine_version", "git_commit", "config"]
_UNKNOWN = "not recorded"
_COMMANDS = 5
"""Commands that are shown; the folder's record has all."""
_COMMIT = 12
"""Characters of a commit."""


def terms(root: Path) -> list[tuple[str, str]]:
    """Terms and what is said of them; none of a folder without episodes.

    Rows say when they were made, by which code and engine, and their seed; the sweep's record of its runs the rest.

    Raises:
        StoreError: the folder cannot be read.
    """
    rows = load.rows(root, [*_FACTS, "created_at"], categories=_FACTS)
    if not rows.num_rows:
        return []
    runs = store.runs(root)["runs"]
    facts = rows.group_by(_FACTS).aggregate([]).to_pylist()
    skipped = left_out.lines(root).values()
    return [
        ("date", _dates(rows["created_at"], len(runs))),
        ("command", _listed(dict.fromkeys(run["command"] for run in reversed(runs)), _COMMANDS)),
        ("commit", _listed(_short(fact["git_commit"]) for fact in facts)),
        ("versions", _listed(_versions(run["versions"]) for run in reversed(runs))),
        ("seed", _listed(_seed(fact["config"]) for fact in facts)),
        ("machine", _listed(_machine(run) for run in reversed(runs))),
        ("engine", _listed(_engine(fact) for fact in facts)),
        *([("answers", told)] if (told := _cut(runs)) else []),
        *([("left out", _listed(skipped))] if skipped else []),
    ]


def _listed(texts: Iterable[str], most: int | None = None) -> str:
    """Different texts in their order, a line each."""
    found = list(dict.fromkeys(text for text in texts if text))
    more = [f"and {len(found) - most:,} more"] if most and len(found) > most else []
    return "\n".join([*found[:most], *more]) or _UNKNOWN


def _cut(runs: Iterable[store.RunRecord]) -> str | None:
    """What bounded models' answers, a line each."""
    lines = [line for run in runs for line in run.get("cut", [])]
    return _listed(lines) if lines else None


def _dates(made: pa.ChunkedArray, runs: int) -> str:
    ends = pc.min_max(made).as_py()
    first, last = (f"{ends[end]:%Y-%m-%d %H:%M}" for end in ("min", "max"))
    span = f"{first} UTC" if first == last else f"{first} to {last} UTC"
    return span + (f", {runs:,} runs" if runs > 1 else "")


def _short(commit: str | None) -> str:
    digits, dash, changed = (commit or "").partition("-")
    return f"{digits[:_COMMIT]}{' with local changes' if dash and changed else ''}"


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _seed(config: str | None) -> str:
    found: Any = json.loads(config or "{}")
    return str(found["seed"]) if "seed" in found else ""


def _machine(run: store.RunRecord) -> str:
    gpus = ", ".join(f"{count} x {kind}" for kind, count in run["gpus"].items())
    return f"{run['cpu']}, {run['cpus']:,} CPUs; {gpus or 'no GPU'}; {run['system']}"


def _engine(fact: dict[str, Any]) -> str:
    told = provenance.model_line(str(fact["model"]), fact["engine"])
    return f"{told} ({fact['engine_version']})" if fact["engine_version"] else told
