"""Inspect logs, one for each setting of a results folder, written by Inspect's own writer."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from inspect_ai.event import ModelEvent
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalError,
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
    condense_sample,
    write_eval_log,
)
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    GenerateConfig,
    ModelOutput,
    ModelUsage,
)
from inspect_ai.scorer import CORRECT, INCORRECT, Score
from inspect_ai.tool import ToolCall, ToolCallError
from inspect_ai.viewer import ViewerConfig

from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER
from grid import store
from grid.core.engine import ASKED
from grid.core.types import NO_TOOL
from grid.core.untrusted import loads_storable, shown
from grid.store.transcripts import Request, answer_lines, transcripts

CELLS = 1_000
"""Maximum number of cells in a log; a setting with more cells has several logs, each with complete cases."""
_NAME = 80  # maximum number of characters from labels in a file's name
_STEPS = [
    "cell_id", "branch", "step", "substep_id", "substep", "on_path", "reference_tool", "chosen_tool", "thought",
    "written", "arguments", "observation", "failed", "entropy", "options", "tool_matches",
]  # fmt: skip


@dataclass(frozen=True)
class _Part:
    """The cells of one log: rows of episodes, the log's number, and the number of logs of the same setting."""

    rows: Sequence[Mapping[str, Any]]
    number: int
    of: int


def write(root: Path, folder: Path) -> Iterator[Path]:
    """Write the logs of a results folder into `folder`; yield each log's path after the log is written.

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
    given, _ = arguments(first["config"])
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
        viewer=ViewerConfig(trust_content=False),  # show texts of models and datasets as plain text, load nothing
        metadata={**labels, "engine": first["engine"], "engine_version": first["engine_version"], "config": given},
    )


def _digest(part: _Part) -> str:
    return hashlib.sha256("".join(row["cell_id"] for row in part.rows).encode()).hexdigest()[:22]


def _results(rows: Sequence[Mapping[str, Any]]) -> EvalResults:
    """Success and tool match as in the tables: means over cases of each case's mean over trials, with intervals."""
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
    """A log's file name, in the form of Inspect's own names: time, task, id."""
    when = re.sub(r"[:.]", "-", log.eval.created)[:19]
    labels = "-".join(str(first[name]) for name in ("dataset", "planner", "robustness", "model"))
    plain = re.sub(r"[^A-Za-z0-9]+", "-", labels).strip("-")[:_NAME]
    more = f"-part-{part.number}" if part.of > 1 else ""
    return f"{when}_{plain}{more}_{log.eval.eval_id}.eval"


# A cell as a sample of Inspect: its input, target, messages, scores, usage and everything else known about it.


SUCCESS, TOOL_MATCH = "success", "tool_match_rate"
COLUMNS = [
    "cell_id", "setting_id", "sweep", "model", "engine", "engine_version", "planner", "dataset", "dataset_version",
    "robustness", "retriever", "case_id", "case_digest", "cluster", "trial", "seed", "status", "error_kind",
    "error_message", "error_traceback", SUCCESS, TOOL_MATCH, "answer", "n_messages", "n_steps", "branches",
    "budget_reached", "depth", "breadth", "input_tokens", "cached_input_tokens", "output_tokens", "llm_calls",
    "forward_passes", "tool_calls", "money", "wall_seconds", "case_seconds", "code", "git_commit", "created_at",
    *(f"{role}_{way}_tokens" for role in ASKED for way in ("input", "output")),
]  # fmt: skip
"""The columns that are read for every episode."""
_TOLD = [
    "planner", "robustness", "retriever", "cluster", "seed", "status", "error_kind", "budget_reached", "depth",
    "breadth", "n_steps", "branches", "tool_calls", "llm_calls", "forward_passes", "money",
]  # fmt: skip


def sample(
    row: Mapping[str, Any],
    case: Mapping[str, Any] | None,
    steps: Sequence[Mapping[str, Any]],
    requests: Sequence[Request | None],
) -> EvalSample:
    """The sample of one cell.

    Args:
        row: the episode's row, with COLUMNS.
        case: the row of `cases`; None if the case was not kept.
        steps: the episode's rows of `steps`, in order.
        requests: the episode's requests, in order; empty if requests were not kept.
    """
    query = case["query"] if case else f"(the case {row['case_id']} was not kept)"
    said = conversation(row, query, steps)
    last = next((one.text for one in reversed(said) if one.role == "assistant"), "")
    usage = _usage(row, "")
    found = EvalSample(
        id=cut(row["case_id"]),
        epoch=row["trial"] + 1,
        input=cut(query),
        target=target(case),
        messages=said,
        output=ModelOutput.from_content(row["model"], last),
        scores=scores(row),
        metadata=_metadata(row, steps, requests),
        events=events(requests, row),
        model_usage={row["model"]: usage} if usage else {},
        role_usage={role: spent for role in ASKED if (spent := _usage(row, f"{role}_"))},
        completed_at=row["created_at"].isoformat(),
        total_time=row["wall_seconds"],
        working_time=row["case_seconds"],
        uuid=row["cell_id"],
        error=_error(row),
    )
    return condense_sample(found)


def target(case: Mapping[str, Any] | None) -> str:
    """The reference's answer, or the reference's calls, one per line; empty if neither is known."""
    if not case:
        return ""
    calls = [f"{call['tool']}({call['arguments'] or ''})" for call in case["calls"] if call["tool"]]
    return cut(case["answer"] if case["answer"] is not None else "\n".join(calls))


def scores(row: Mapping[str, Any]) -> dict[str, Score]:
    """The scores: success and the tool match rate, if known."""
    found = {}
    if row[SUCCESS] is not None:
        found[SUCCESS] = Score(value=CORRECT if row[SUCCESS] else INCORRECT, answer=cut(row["answer"]) or None)
    if row[TOOL_MATCH] is not None:
        found[TOOL_MATCH] = Score(value=row[TOOL_MATCH])
    return found


def _usage(row: Mapping[str, Any], role: str) -> ModelUsage | None:
    read, written = row[f"{role}input_tokens"], row[f"{role}output_tokens"]
    if read is None and written is None:
        return None
    cached = row["cached_input_tokens"] if not role else None
    total = (read or 0) + (written or 0)
    fresh = (read or 0) - (cached or 0)  # Inspect counts tokens from a cache separately
    return ModelUsage(
        input_tokens=fresh, output_tokens=written or 0, total_tokens=total, input_tokens_cache_read=cached
    )


def _error(row: Mapping[str, Any]) -> EvalError | None:
    if row["status"] == "ok":
        return None
    message = f"{row['error_kind']}: {cut(row['error_message'])}"
    trace = cut(row["error_traceback"]) or message
    return EvalError(message=message, traceback=trace, traceback_ansi=trace)


def _metadata(
    row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], requests: Sequence[Request | None]
) -> dict[str, Any]:
    known = [step["entropy"] for step in steps if step["entropy"] is not None]
    told: dict[str, Any] = {name: row[name] for name in _TOLD if row[name] is not None}
    told |= {"mean_entropy_nats": sum(known) / len(known)} if known else {}
    beside = sum(step["on_path"] is False for step in steps)
    left_out = {
        "decisions not on the path": beside,
        "decisions left out": max(len(steps) - beside - STEPS, 0),
        "requests left out": max(len(requests) - EVENTS, 0),
    }
    return told | {name: count for name, count in left_out.items() if count}


# The requests and decisions of an episode, as messages and events of Inspect.


Message: TypeAlias = ChatMessageSystem | ChatMessageUser | ChatMessageAssistant | ChatMessageTool
EVENTS = 100
"""Maximum number of requests in a sample; further requests of a search are left out, and their number is given."""
STEPS = 500
"""Maximum number of decisions in a sample."""
_STATIC = ("role", "tools", "demonstrations")
"""Sections of a prompt that come before the case; they are shown as system messages."""
_MESSAGES_TOLD = ("substep_id", "substep", "reference_tool", "tool_matches", "entropy", "branch", "step")


def conversation(row: Mapping[str, Any], query: str, steps: Sequence[Mapping[str, Any]]) -> list[Message]:
    """The query, then each decision on the scored path, with its call and observation, then the answer.

    Args:
        row: the episode's row.
        query: the request of the case.
        steps: the episode's rows of `steps`, in order.
    """
    path = [step for step in steps if step["on_path"] is not False][:STEPS]
    found: list[Message] = [ChatMessageUser(content=cut(query), source="input", id=_id(row, "query"))]
    for place, step in enumerate(path):
        found += _decision(step, f"{row['cell_id']}-{place}", row["model"])
    if row["answer"] is not None:
        found.append(_said(cut(row["answer"]), row["model"], _id(row, "answer")))
    return found


def _id(row: Mapping[str, Any], what: str) -> str:
    return f"{row['cell_id']}-{what}"


def _said(content: str, model: str, name: str, **more: Any) -> ChatMessageAssistant:
    return ChatMessageAssistant(content=content, model=model, source="generate", id=name, **more)


def _decision(step: Mapping[str, Any], name: str, model: str) -> Iterator[Message]:
    """A decision as the assistant's message and, if a tool was called, a message with the tool's result."""
    told = {key: step[key] for key in _MESSAGES_TOLD if step[key] is not None}
    if step["options"]:
        told["options"] = {cut(one["tool"]): one["probability"] for one in step["options"]}
    said, tool = step["thought"] or "", step["chosen_tool"]
    if tool is None or tool == NO_TOOL:
        content = said or (NO_TOOL if tool else step["written"] or "(no readable answer)")
        yield _said(cut(content), model, name, metadata=told)
        return
    given, wrong = arguments(step["arguments"])
    call = ToolCall(id=f"call-{name}", function=cut(tool), arguments=given, parse_error=wrong)
    yield _said(cut(said), model, name, metadata=told, tool_calls=[call])
    if step["observation"] is not None:
        seen = cut(step["observation"])
        error = ToolCallError("unknown", seen) if step["failed"] else None
        yield ChatMessageTool(
            content=seen, tool_call_id=call.id, function=call.function, error=error, id=f"{name}-observed"
        )


def events(requests: Sequence[Request | None], row: Mapping[str, Any]) -> list[ModelEvent]:
    """The first EVENTS requests as the engine got them, each with its answers; lost requests are left out.

    Times of requests are not recorded, so all requests get the time at which the episode's row was written.
    """
    return [_event(request, row["model"], row["created_at"]) for request in requests[:EVENTS] if request]


def _event(request: Request, model: str, when: dt.datetime) -> ModelEvent:
    asked: list[Message] = []
    for section in request.sections:
        content = "(lost, because its file is damaged)" if section is None else cut("\n".join(section.lines()))
        kind = ChatMessageSystem if section is not None and section.kind in _STATIC else ChatMessageUser
        asked.append(kind(content=content))
    by = model if request.role == "actor" else request.role
    if request.probabilities is None:
        said = [cut(answer) for answer in request.answers]
    else:
        said = [cut("\n".join(answer_lines(request)))]
    choices = [ChatCompletionChoice(message=ChatMessageAssistant(content=one, model=by)) for one in said]
    how = {"decision": request.decision, "request": request.request, "wanted": request.wanted}
    how |= {"unreadable": "; ".join(map(str, request.unreadable.values()))} if request.unreadable else {}
    how |= {"altered": request.altered} if request.altered else {}
    config = GenerateConfig(temperature=request.temperature, max_tokens=request.max_tokens, num_choices=request.n)
    output = ModelOutput(model=by, choices=choices)
    return ModelEvent(model=by, role=request.role, input=asked, tools=[], tool_choice="none", config=config,
                      output=output, metadata=how, timestamp=when, working_start=0.0, pending=False,
                      completed=when)  # fmt: skip


# Texts and JSON of the tables in a form that a log may contain: of a bounded size, without unpaired surrogates.


MOST = 20_000
"""Maximum length of a text, in characters."""
_DEEPEST = 20


def cut(text: str | None) -> str:
    """The text; if it is too long, its start and the number of characters left out; empty for None."""
    found = text or ""
    more = len(found) - MOST
    return found if more <= 0 else f"{found[:MOST]}\n[... {more:,} characters left out]"


def arguments(text: str | None) -> tuple[dict[str, Any], str | None]:
    """A call's arguments, empty without a text; if they cannot be read, the text as `text`, and the reason."""
    if not text:
        return {}, None
    try:
        found = loads_storable(text)
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
    except (ValueError, RecursionError) as error:
        return {"text": cut(text)}, str(error)[:200] or "nested too deeply"
    return {cut(name): _bounded(value, _DEEPEST) for name, value in found.items()}, None


def _bounded(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return cut(value)
    if not depth and isinstance(value, dict | list):
        return "[nested too deeply]"
    if isinstance(value, list):
        return [_bounded(one, depth - 1) for one in value]
    return {cut(name): _bounded(one, depth - 1) for name, one in value.items()} if isinstance(value, dict) else value
