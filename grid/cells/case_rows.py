"""The row of a case: what was asked for, and what it is held against."""

from __future__ import annotations

import hashlib
from typing import Any

from grid.core.problem import Problem
from grid.core.types import to_json

_DIGITS = 32


def case_row(problem: Problem) -> dict[str, Any]:
    """A case as its setting has it: query, outline (a disturbed one, where it is), and the reference's calls in order.

    A call that the reference does not make (a substep without a tool) has no tool. `digest` names the contents: equal
    cases of several settings are one row.
    """
    case, reference = problem.case, problem.reference
    row: dict[str, Any] = {
        "case_id": case.id,
        "domain": problem.domain or None,
        "query": case.query,
        "messages": [message.text for message in case.messages],
        "outline": [{"id": part.id, "goal": part.goal, "text": part.text} for part in case.plan.substeps],
        "calls": [
            {
                "substep_id": substep,
                "tool": call.tool if call else None,
                "arguments": to_json(dict(call.arguments)) if call else None,
            }
            for substep, call in reference.calls.items()
        ],
        "followed": reference.followed,
        "ordered": reference.ordered,
        "answer": reference.answer,
    }
    text = to_json(row).encode("utf-8", "replace")
    return {"digest": hashlib.sha256(text).hexdigest()[:_DIGITS], **row}
