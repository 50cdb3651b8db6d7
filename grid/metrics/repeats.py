"""Repeated tool calls (planning_horizon §4.5), in the two ways in which they are counted.

The paper's text: the same tool with identical arguments more than once in an episode. Its official code: the same call
twice in a row, with the arguments as the model wrote them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from grid.core.types import Step, ToolCall, to_json


def any_two(steps: Sequence[Step]) -> bool:
    """Whether one tool was called twice with identical arguments, as they were run."""
    tools = Counter(step.call.tool for step in steps if step.call)
    calls = [_text(step.call) for step in steps if step.call and tools[step.call.tool] > 1]
    return len(set(calls)) < len(calls)


def in_a_row(steps: Sequence[Step]) -> bool:
    """Whether a call follows itself, with the arguments as they were written."""
    calls = [call for step in steps if (call := step.written or step.call)]
    return any(one.tool == other.tool and _text(one) == _text(other) for one, other in pairwise(calls))


def _text(call: ToolCall) -> str:
    return to_json([call.tool, dict(sorted(call.arguments.items()))])
