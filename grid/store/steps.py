"""Turns stored steps back into objects, to show other cases' episodes in prompts, and for comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grid.core.types import FINISH, Observation, Step, Substep, ToolCall
from grid.core.untrusted import loads


def step_of(row: Mapping[str, Any]) -> Step:
    """The step of a row, with the written call and the observation if the row has them."""
    chosen, written, observed = row["chosen_tool"], _loaded(row["written"]), _loaded(row["observation"])
    refused = bool(row["failed"])
    return Step(
        branch=0,
        substep=Substep(row["substep_id"], row["substep"], ""),
        call=None,
        observation=None if observed is None else Observation(observed, refused),
        written=None if written is None else ToolCall(str(written.get("tool")), written.get("arguments") or {}),
        thought=row["thought"],
        malformed=chosen is None,
        finished=chosen == FINISH and not refused,
    )


def _loaded(text: str | None) -> dict[str, Any] | None:
    """The object in a column; if it was cut to fit into a row, it is returned as a text."""
    if text is None:
        return None
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return {"text": text}
    return found if isinstance(found, dict) else {"text": text}
