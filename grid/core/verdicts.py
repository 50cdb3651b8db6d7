"""The answer of a judge of plans (agent_planning_benchmark §C)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grid.core.chains import ERRORS, GRADES

PLAN, STEPS = "Plan:", "Predicted steps:"
"""What stands above a whole plan that is judged, and above the next steps of a work that has begun."""


@dataclass(frozen=True)
class VerdictAnswer:
    """A JSON object `{"reasoning", "E1", ..., "E6", "grade", "is_correct"}` is wanted: a `grid.core.chains.Verdict`.

    Without `errors` it is `{"reasoning", "is_correct"}` alone. The reasoning comes first, so that what is concluded can
    follow from it.
    """

    errors: bool = True


def verdict_properties(answer: VerdictAnswer, reasoning: dict[str, Any]) -> dict[str, Any]:
    """The schema of each key, in their order; `reasoning` is that of a text."""
    truth: dict[str, Any] = {"type": "boolean"}
    named = dict.fromkeys(ERRORS, truth) | {"grade": {"enum": [*GRADES]}} if answer.errors else {}
    return {"reasoning": reasoning, **named, "is_correct": truth}
