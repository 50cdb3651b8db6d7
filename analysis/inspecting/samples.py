"""A cell as a sample of Inspect: its input, target, messages, scores, usage and what else is known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai.log import EvalError, EvalSample, condense_sample
from inspect_ai.model import ModelOutput, ModelUsage
from inspect_ai.scorer import CORRECT, INCORRECT, Score

from analysis.inspecting import messages, texts
from grid.core.roles import ASKED
from grid.store.transcripts import Request

SUCCESS, TOOL_MATCH = "success", "tool_match_rate"
COLUMNS = [
    "cell_id", "setting_id", "sweep", "model", "engine", "engine_version", "planner", "dataset", "dataset_version",
    "robustness", "retriever", "case_id", "case_digest", "cluster", "trial", "seed", "status", "error_kind",
    "error_message", "error_traceback", SUCCESS, TOOL_MATCH, "answer", "n_messages", "n_steps", "branches",
    "budget_reached", "depth", "breadth", "input_tokens", "cached_input_tokens", "output_tokens", "llm_calls",
    "forward_passes", "tool_calls", "money", "wall_seconds", "case_seconds", "code", "git_commit", "created_at",
    *(f"{role}_{way}_tokens" for role in ASKED for way in ("input", "output")),
]  # fmt: skip
"""What is read of every episode."""
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
    """One cell.

    Args:
        row: the episode's, with COLUMNS.
        case: its row of `cases`; None where it was not kept.
        steps: its rows of `steps`, in order.
        requests: what it asked, in order; none where it was not kept.
    """
    query = case["query"] if case else f"(the case {row['case_id']} was not kept)"
    said = messages.conversation(row, query, steps)
    last = next((one.text for one in reversed(said) if one.role == "assistant"), "")
    usage = _usage(row, "")
    found = EvalSample(
        id=texts.cut(row["case_id"]),
        epoch=row["trial"] + 1,
        input=texts.cut(query),
        target=target(case),
        messages=said,
        output=ModelOutput.from_content(row["model"], last),
        scores=scores(row),
        metadata=_metadata(row, steps, requests),
        events=messages.events(requests, row),
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
    """The reference's answer, or its calls, a line each; nothing where neither is known."""
    if not case:
        return ""
    calls = [f"{call['tool']}({call['arguments'] or ''})" for call in case["calls"] if call["tool"]]
    return texts.cut(case["answer"] if case["answer"] is not None else "\n".join(calls))


def scores(row: Mapping[str, Any]) -> dict[str, Score]:
    """Success and the tool match rate, each where it is known."""
    found = {}
    if row[SUCCESS] is not None:
        found[SUCCESS] = Score(value=CORRECT if row[SUCCESS] else INCORRECT, answer=texts.cut(row["answer"]) or None)
    if row[TOOL_MATCH] is not None:
        found[TOOL_MATCH] = Score(value=row[TOOL_MATCH])
    return found


def _usage(row: Mapping[str, Any], role: str) -> ModelUsage | None:
    read, written = row[f"{role}input_tokens"], row[f"{role}output_tokens"]
    if read is None and written is None:
        return None
    cached = row["cached_input_tokens"] if not role else None
    total = (read or 0) + (written or 0)
    return ModelUsage(
        input_tokens=read or 0, output_tokens=written or 0, total_tokens=total, input_tokens_cache_read=cached
    )


def _error(row: Mapping[str, Any]) -> EvalError | None:
    if row["status"] == "ok":
        return None
    message = f"{row['error_kind']}: {texts.cut(row['error_message'])}"
    trace = texts.cut(row["error_traceback"]) or message
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
        "decisions left out": max(len(steps) - beside - messages.STEPS, 0),
        "requests left out": max(len(requests) - messages.EVENTS, 0),
    }
    return told | {name: count for name, count in left_out.items() if count}
