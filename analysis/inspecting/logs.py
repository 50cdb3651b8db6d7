"""Logs of Inspect: one for each setting of a results folder, written by Inspect's own writer."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalPlanStep,
    EvalResults,
    EvalRevision,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import ModelUsage
from inspect_ai.viewer import ViewerConfig

from analysis import intervals
from analysis.inspecting import texts
from analysis.inspecting.samples import COLUMNS, SUCCESS, TOOL_MATCH, sample
from analysis.intervals import CLUSTER
from grid import store
from grid.core.untrusted import shown
from grid.store.transcripts import transcripts

CELLS = 1_000
"""Cells of one log: a setting with more has several, each with whole cases."""
_NAME = 80  # characters of a file's name that labels make
_STEPS = [
    "cell_id", "branch", "step", "substep_id", "substep", "on_path", "reference_tool", "chosen_tool", "thought",
    "written", "arguments", "observation", "failed", "entropy", "options", "tool_matches",
]  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """The cells of one log: rows of episodes, and which of how many of its setting's logs it is."""

    rows: Sequence[Mapping[str, Any]]
    number: int
    of: int


def write(root: Path, folder: Path) -> Iterator[Path]:
    """Write the logs of a results folder into `folder`; gives the path of each as it is written.

    Raises:
        StoreError: the results cannot be read.
        OSError: a log cannot be written.
    """
    labels = store.read(root, "episodes", ["setting_id"], categories=["setting_id"])["setting_id"].unique()
    for setting in sorted(filter(None, labels.to_pylist())):
        ids = store.read(root, "episodes", ["cell_id", "case_id", "trial"], pc.field("setting_id") == setting)
        for part in _parts(ids.to_pylist()):
            rows = store.read(root, "episodes", [*COLUMNS, "config"], _of(part.rows)).to_pylist()
            rows.sort(key=lambda row: (row["case_id"], row["trial"]))
            log = _log(root, _Part(rows, part.number, part.of))
            path = folder / _file_name(log, rows[0], part)
            write_eval_log(log, path, format="eval")
            yield path


def _parts(cells: Sequence[Mapping[str, Any]]) -> Iterator[_Part]:
    ordered = sorted(cells, key=lambda row: (row["case_id"], row["trial"]))
    found: list[list[Mapping[str, Any]]] = [[]]
    for _, own in groupby(ordered, key=lambda row: row["case_id"]):
        trials = list(own)
        if found[-1] and len(found[-1]) + len(trials) > CELLS:
            found.append([])
        found[-1] += trials
    for number, rows in enumerate(found, start=1):
        yield _Part(rows, number, len(found))


def _of(rows: Sequence[Mapping[str, Any]]) -> pc.Expression:
    return pc.field("cell_id").isin(pa.array([row["cell_id"] for row in rows], pa.string()))


def _log(root: Path, part: _Part) -> EvalLog:
    mine = _of(part.rows)
    steps: dict[str, list[dict[str, Any]]] = {}
    for step in store.read(root, "steps", _STEPS, mine).to_pylist():
        steps.setdefault(step["cell_id"], []).append(step)
    asked = transcripts(root, [row["cell_id"] for row in part.rows])
    digests = sorted({row["case_digest"] for row in part.rows if row["case_digest"]})
    cases = store.read(root, "cases", where=pc.field("digest").isin(pa.array(digests, pa.string()))).to_pylist()
    by_digest = {case["digest"]: case for case in cases}
    found = [
        sample(row, by_digest.get(row["case_digest"]), steps.get(row["cell_id"], []), asked.get(row["cell_id"], ()))
        for row in part.rows
    ]
    return EvalLog(
        status="success",
        eval=_spec(part),
        plan=EvalPlan(name="agent-grid", steps=[EvalPlanStep(solver=part.rows[0]["planner"])]),
        results=_results(part.rows),
        stats=_stats(part.rows, found),
        samples=found,
    )


def _spec(part: _Part) -> EvalSpec:
    first = part.rows[0]
    ids = list(dict.fromkeys(row["case_id"] for row in part.rows))
    more = f" ({part.number} of {part.of})" if part.of > 1 else ""
    labels = {name: first[name] for name in ("planner", "dataset", "robustness", "retriever")}
    given, _ = texts.arguments(first["config"])
    commit = first["git_commit"]
    return EvalSpec(
        eval_id=_digest(part),
        run_id=first["sweep"] or "",
        created=min(row["created_at"] for row in part.rows).isoformat(),
        task=shown(f"{first['dataset']} / {first['planner']} / {first['robustness']}{more}"),
        task_id=first["setting_id"],
        task_version=first["dataset_version"] or 0,
        task_args=labels,
        solver=first["planner"],
        dataset=EvalDataset(name=first["dataset"], samples=len(ids), sample_ids=ids),
        model=first["model"],
        config=EvalConfig(epochs=1 + max(row["trial"] for row in part.rows), epochs_reducer=["mean"]),
        revision=EvalRevision(type="git", origin="", commit=commit) if commit else None,
        viewer=ViewerConfig(trust_content=False),  # texts of models and datasets: shown as such, nothing is loaded
        metadata={**labels, "engine": first["engine"], "engine_version": first["engine_version"], "config": given},
    )


def _digest(part: _Part) -> str:
    return hashlib.sha256("".join(row["cell_id"] for row in part.rows).encode()).hexdigest()[:22]


def _results(rows: Sequence[Mapping[str, Any]]) -> EvalResults:
    """Means over cases, each its mean over trials, with their intervals: as the tables have them."""
    frame = pd.DataFrame(rows, columns=["case_id", CLUSTER, SUCCESS, TOOL_MATCH])
    scores = []
    for name in (SUCCESS, TOOL_MATCH):
        values = frame[name].astype("float64")
        by_case = values.groupby([frame[CLUSTER], frame["case_id"]]).mean().dropna()
        if by_case.empty:
            continue
        share = intervals.share(by_case)
        measured = {"mean": share.mean, "low": share.low, "high": share.high}
        metrics = {key: EvalMetric(name=key, value=value) for key, value in measured.items() if pd.notna(value)}
        unknown = int(values.isna().sum())
        told = {"low, high": f"95% interval, {intervals.SHARES}"}
        scores.append(EvalScore(name=name, scorer=name, reducer="mean", scored_samples=len(rows) - unknown,
                                unscored_samples=unknown, metrics=metrics, metadata=told))  # fmt: skip
    ended = sum(row["status"] == "ok" for row in rows)
    return EvalResults(total_samples=len(rows), completed_samples=ended, scores=scores)


def _stats(rows: Sequence[Mapping[str, Any]], found: Sequence[EvalSample]) -> EvalStats:
    usage: dict[str, ModelUsage] = {}
    for one in found:
        for model, spent in one.model_usage.items():
            usage[model] = usage[model] + spent if model in usage else spent
    times = [row["created_at"] for row in rows]
    return EvalStats(started_at=min(times).isoformat(), completed_at=max(times).isoformat(), model_usage=usage)


def _file_name(log: EvalLog, first: Mapping[str, Any], part: _Part) -> str:
    """As Inspect names its own: time, task, id."""
    when = re.sub(r"[:.]", "-", log.eval.created)[:19]
    labels = "-".join(str(first[name]) for name in ("dataset", "planner", "robustness", "model"))
    plain = re.sub(r"[^A-Za-z0-9]+", "-", labels).strip("-")[:_NAME]
    more = f"-part-{part.number}" if part.of > 1 else ""
    return f"{when}_{plain}{more}_{log.eval.eval_id}.eval"
