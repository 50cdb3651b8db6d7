"""The rows of an episode's steps, and what any row can hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from grid.core.metric import split
from grid.core.problem import Problem
from grid.core.reference import Reference
from grid.core.types import NO_TOOL, Step, Substep, ToolSpec, Trajectory, to_json
from grid.episode.options import Retrieved
from grid.metrics.replaced import replacements
from grid.metrics.scores import SUCCESS
from grid.metrics.stepwise import tool_matches
from grid.store.schema import SCORES, TEXT

Ranked = Callable[[Step], Sequence[ToolSpec]]
"""What was retrieved for a decision, best first."""

_MAX_TEXT = 200_000  # characters of a text of a row


def step_rows(
    cell_id: str,
    attempt_id: str,
    trajectory: Trajectory,
    reference: Reference,
    ranked: Ranked,
    forgiving: bool = False,
) -> list[dict[str, Any]]:
    """One row a decision, held against the reference where planners follow it.

    `step` is the place in the outline that is followed or, where none is, that of the decision on its path. `n_options`
    counts `no_tool`, or `finish`, too; `reference_rank` is the place of the reference's tool among what was retrieved,
    from 0: with both, what the retriever's first and chance would match is known without a model. `replaced` has what
    `forgiving` tools put in the place of what they did not know, `{parameter: [given, taken]}`.
    """
    on_path = {id(step) for step in trajectory.steps}
    outline = reference.calls if reference.followed else dict.fromkeys(s.substep.id for s in trajectory.decisions)
    places = {substep: index for index, substep in enumerate(outline)}
    return [
        {
            "cell_id": cell_id,
            "attempt_id": attempt_id,
            "branch": step.branch,
            "step": places[step.substep.id],
            "substep_id": step.substep.id,
            "substep": step.substep.text,
            "on_path": id(step) in on_path,
            **_against(step, reference, ranked),
            "chosen_tool": step.chosen,
            "thought": step.thought,
            "written": step.written.text() if step.written else None,
            "arguments": to_json(dict(step.call.arguments)) if step.call else None,
            "observation": step.observation.text() if step.observation else None,
            "failed": step.observation.failed if step.observation else None,
            "replaced": _replaced(step) if forgiving else None,
            "entropy": step.entropy,
            "n_options": len(step.candidates) + 1 if step.candidates else None,
            "options": [{"tool": o.tool, "probability": o.probability} for o in step.options],
            "unassigned": step.unassigned,
            "error_bound": step.error_bound,
            "input_tokens": step.input_tokens,
            "cached_input_tokens": step.cached_input_tokens,
            "output_tokens": step.output_tokens,
        }
        for step in trajectory.decisions
    ]


def ranked_of(problem: Problem | None) -> Ranked:
    """What was retrieved for a decision of a problem, best first: planners are not told."""

    @cache
    def tools(substep: Substep | None, sought: str) -> tuple[ToolSpec, ...]:
        return Retrieved.of(problem).tools(problem.case, substep, sought) if problem else ()

    return lambda step: tools(None if step.whole_query else step.substep, step.sought)


def _against(step: Step, reference: Reference, ranked: Ranked) -> dict[str, Any]:
    call = reference.calls.get(step.substep.id)
    known = reference.followed and step.substep.id in reference.calls
    return {
        "tool_required": call is not None if known else None,
        "reference_tool": (call.tool if call else NO_TOOL) if known else None,
        "tool_matches": tool_matches(step, reference) if known else None,
        "reference_rank": _rank(call.tool, step, ranked) if known and call else None,
    }


def _replaced(step: Step) -> str | None:
    """None where nothing was."""
    found = replacements(step)
    given = step.call.arguments if step.call else {}
    return to_json({name: [given.get(name), taken] for name, taken in found.items()}) if found else None


def _rank(tool: str, step: Step, ranked: Ranked) -> int | None:
    """Of what was retrieved the best is offered, so many as there are candidates."""
    offered = [spec.name for spec in ranked(step)[: len(step.candidates)]]
    return offered.index(tool) if tool in offered else None


def score_columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """Success, and the maps of all else that was measured, without what nobody could tell."""
    numbers, texts = split({name: value for name, value in values.items() if value is not None and name != SUCCESS})
    return {SUCCESS: values.get(SUCCESS), SCORES: numbers, TEXT: storable(texts)}


def storable(row: dict[str, Any]) -> dict[str, Any]:
    """The row with texts that a table can hold: no half surrogate pairs, and none without end."""
    for key, value in row.items():
        kind = type(value)
        if kind is str:
            if len(value) > _MAX_TEXT or not value.isascii():
                row[key] = _text(value)
        elif kind is list and value:
            row[key] = [_plain(part) for part in value]
    return row


def _plain(part: Any) -> Any:
    """An entry of a list: a text, a struct of plain values, or what is neither."""
    return storable(part) if isinstance(part, dict) else _text(part) if isinstance(part, str) else part


def _text(text: str) -> str:
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}... ({len(text):,} characters)"
    return text.encode("utf-8", "replace").decode()
