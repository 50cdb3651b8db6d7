"""The calls of a released record: solutions, and what was done before the steps to predict, as messages or plainly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from grid.core.types import RESULT, Json, Observation, Step, Substep, ToolCall
from grid.core.untrusted import loads_storable
from grid.datasets.apb.tools import UnusableError, need

MOST_CALLS = 256
MOST_OUTCOME = 20_000
"""Characters of what a step returned."""
_MESSAGES = ("system", "user")
_OUTCOMES = ("tool", "function", "observation", "environment")
_OUTCOME_KEYS = ("observation", "result", "output", "response")


def chain_calls(rows: Any) -> tuple[ToolCall, ...]:
    """A whole solution: `[{"name", "parameter_description", "reason"}, ...]`. Raises UnusableError."""
    if isinstance(rows, dict) and isinstance(rows.get("tool_chain"), list):
        rows = rows["tool_chain"]
    return calls_of(rows)


def calls_of(rows: Any) -> tuple[ToolCall, ...]:
    """The calls of a list of steps, in their order; what was returned and messages without calls are left out."""
    if rows is None:
        return ()
    rows = rows if isinstance(rows, list) else [rows]
    found = tuple(call for row in rows if not _is_outcome(row) for call, _ in _calls(row))
    need(len(found) <= MOST_CALLS, f"more than {MOST_CALLS} calls")
    return found


def prefix_of(rows: Any, broken: str | None) -> tuple[Step, ...]:
    """What was done before, each call with what it returned; the last call of the broken tool failed."""
    if rows is None:
        return ()
    need(isinstance(rows, list), "its prefix is no list of steps")
    calls: list[tuple[ToolCall, str]] = []
    outcomes: list[Any] = []
    for row in rows:
        if _is_outcome(row):
            need(len(outcomes) < len(calls), "its prefix has an outcome without a call")
            outcomes.append(row.get("content", row.get("result")))
            continue
        own = list(_calls(row))
        calls += own
        need(len(calls) <= MOST_CALLS, f"a prefix of more than {MOST_CALLS} calls")
        inline = next((row[key] for key in _OUTCOME_KEYS if key in row), None) if own else None
        if inline is not None:
            outcomes += [None] * (len(calls) - 1 - len(outcomes)) + [inline]
    outcomes += [None] * (len(calls) - len(outcomes))
    last = max((place for place, (call, _) in enumerate(calls) if call.tool == broken), default=-1)
    return tuple(
        Step(0, Substep(str(place), "", ""), call, _observed(outcome, place == last), written=call, thought=thought)
        for place, ((call, thought), outcome) in enumerate(zip(calls, outcomes, strict=True))
    )


def _is_outcome(row: Any) -> bool:
    return isinstance(row, dict) and row.get("role") in _OUTCOMES


def _calls(row: Any) -> Iterator[tuple[ToolCall, str]]:
    """The calls of one step, with the thought before them."""
    need(isinstance(row, dict), "a step that is no object")
    if row.get("role") in _MESSAGES:
        return
    thought = str(row.get("thought") or row.get("content") or "")[:MOST_OUTCOME]
    listed = row.get("tool_calls")
    if listed is None and not isinstance(row.get("name", row.get("tool")), str):
        return  # words alone
    need(listed is None or isinstance(listed, list), "a step whose tool_calls are no list")
    for one in [row] if listed is None else listed:
        yield _call(one), thought


def _call(row: Any) -> ToolCall:
    inner = row.get("function") if isinstance(row, dict) else None
    row = inner if isinstance(inner, dict) else row
    need(isinstance(row, dict), "a call that is no object")
    name = row.get("name", row.get("tool"))
    need(isinstance(name, str) and name, "a call without a tool's name")
    given: Any = next((row[key] for key in ("arguments", "parameter_description", "parameters") if key in row), {})
    if isinstance(given, str):
        given = _read(given)
    need(given is None or isinstance(given, Mapping), "a call whose arguments are no object")
    return ToolCall(str(name), dict(given or {}))


def _read(text: str) -> Any:
    try:
        return loads_storable(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UnusableError(f"a call's arguments are broken JSON: {error}") from None


def _observed(outcome: Any, failed: bool) -> Observation:
    """A text that is cut where it is long, or the fields as they are."""
    if isinstance(outcome, dict) and not failed:
        return Observation(outcome)
    if isinstance(outcome, str) and len(outcome) > MOST_OUTCOME:
        outcome = f"{outcome[:MOST_OUTCOME]}... (cut here: {len(outcome):,} characters)"
    content: dict[str, Json] = {} if outcome is None else {"error" if failed else RESULT: outcome}
    return Observation(content, failed)
