"""A plan and its task as a judge is shown them: in one form, whoever wrote the plan (agent_planning_benchmark §C)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grid.core.chains import Chain
from grid.core.engine import Section
from grid.core.types import Step, ToolCall, to_json
from grid.core.untrusted import shown

MOST_CALLS = 128
"""Of a plan that are shown, from the first."""
MOST_VALUE = 500
"""Characters of an argument that are shown."""
MOST_CALL = 4_000
"""Characters of a call that are shown."""
MOST_REASON = 2_000
"""Characters of a refusal or an answer that are shown."""
MOST_OUTCOME = 2_000
"""Characters of what an earlier step returned."""
ANSWERED, NEXT = "Answer given:", "Next step:"
NOTHING = "No call is made."
REFUSED = "The request is refused, with these words:"


def chain_lines(chain: Chain) -> tuple[str, ...]:
    """A line a call, `Step i: {"tool", "arguments"}`, and a refusal behind them.

    Summaries and reasons of calls are left out: only some planners write them. What is long is cut, and says so.
    """
    lines = [
        f"Step {chain.first + place}: {_cut(_call_text(call.name, call.arguments), MOST_CALL)}"
        for place, call in enumerate(chain.calls[:MOST_CALLS])
    ]
    if len(chain.calls) > MOST_CALLS:
        lines.append(f"... and {len(chain.calls) - MOST_CALLS:,} more calls")
    if chain.refusal is not None:
        lines.append(f"{REFUSED} {_cut(shown(chain.refusal), MOST_REASON) or '(none)'}")
    return tuple(lines) or (NOTHING,)


def calls_lines(calls: Sequence[ToolCall], first: int = 0) -> tuple[str, ...]:
    """A reference's calls in the same form."""
    return tuple(f"Step {first + place}: {call.text()}" for place, call in enumerate(calls)) or (NOTHING,)


def done_lines(steps: Sequence[Step]) -> tuple[str, ...]:
    """What was done before the prediction, each step with what came of it."""
    lines = []
    for place, step in enumerate(steps):
        call = step.written or step.call
        number = step.substep.id if step.substep.id.isdecimal() else str(place)
        outcome = step.observation
        told = "" if outcome is None else (" failed: " if outcome.failed else " returned ")
        text = "" if outcome is None else _cut(outcome.text(), MOST_OUTCOME)
        lines.append(f"Step {number}: {call.text() if call else NOTHING}{told}{text}")
    return tuple(lines)


def plan_section(title: str, chain: Chain, answer: str | None = None) -> Section:
    """The plan that is judged; `answer` is what was said at its end, where that matters."""
    lines = (title, *chain_lines(chain))
    return Section("proposal", (*lines, f"{ANSWERED} {_cut(shown(answer), MOST_REASON)}") if answer else lines)


def _call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """On one line; each argument that is too long is cut."""
    values = {}
    for key, value in arguments.items():
        text = value if isinstance(value, str) else to_json(value)
        values[str(key)] = _cut(text, MOST_VALUE) if len(text) > MOST_VALUE or isinstance(value, str) else value
    return shown(to_json({"tool": name, "arguments": values}))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}... (cut here: {len(text):,} characters)"
