"""Milestones: the share of a case's milestones that a path reaches, and the number of forbidden calls and states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from grid.core.problem import Milestone, Reference
from grid.core.types import FINISH, Json, Step, Trajectory
from grid.worlds.equivalence import equivalent


def ordered(milestones: Sequence[Milestone]) -> tuple[Milestone, ...]:
    """The milestones, each once, in an order consistent with `after`.

    Raises:
        ValueError: two milestones have the same name, an `after` has a name that no milestone has, milestones wait for
            one another, or a milestone has neither a tool nor a state, or has both.
    """
    known = {one.name: one for one in milestones}
    if len(known) < len(milestones):
        raise ValueError("two milestones have the same name")
    for one in milestones:
        if bool(one.tool) == (one.state is not None):
            raise ValueError(f"milestone {one.name!r:.80} needs either a tool or a state, not both")
        if other := next((name for name in one.after if name not in known), None):
            raise ValueError(f"milestone {one.name!r:.80} comes after {other!r:.80}, which is not a milestone")
    found: dict[str, Milestone] = {}
    while len(found) < len(known):
        more = {name: one for name, one in known.items() if name not in found and {*one.after} <= found.keys()}
        if not more:
            raise ValueError(f"these milestones wait for one another: {', '.join(sorted(known.keys() - found.keys()))}")
        found |= more
    return tuple(found.values())


def reached(milestones: Sequence[Milestone], trajectory: Trajectory) -> Mapping[str, int]:
    """The milestones that a path reaches, each with the number (from 0) of the first step that reaches it.

    One call may reach several milestones, but never both of two milestones that must come one after the other. A
    milestone that is a state gets the total number of steps as its number. Each milestone is assigned the first step
    that fits, since reaching a milestone earlier never prevents a later milestone. Raises ValueError as `ordered`.
    """
    found: dict[str, int] = {}
    numbered = [*zip(count(), trajectory.steps)]
    for one in ordered(milestones):
        if not found.keys() >= {*one.after}:
            continue
        first = max((found[name] + 1 for name in one.after), default=0)
        place = next((number for number, step in numbered[first:] if _fits(one, step)), None)
        if one.state is not None and one.state(trajectory.end):
            place = len(numbered)
        if place is not None:
            found[one.name] = place
    return found


def measured(reference: Reference, trajectory: Trajectory) -> dict[str, Any]:
    """`milestones`, the share of milestones reached, if the case has milestones.

    The result also contains `forbidden_calls`, the number of forbidden calls and states, if the case forbids any.
    Raises ValueError as `ordered`.
    """
    found: dict[str, Any] = {}
    if reference.milestones:
        found["milestones"] = len(reached(reference.milestones, trajectory)) / len(reference.milestones)
    if reference.forbidden:
        calls = [step for step in trajectory.steps if any(_fits(one, step) for one in reference.forbidden)]
        states = [one for one in reference.forbidden if one.state is not None and one.state(trajectory.end)]
        found["forbidden_calls"] = len(calls) + len(states)
    return found


def _fits(one: Milestone, step: Step) -> bool:
    """Whether a step's call succeeded and is the call that the milestone requires."""
    call, seen = step.call, step.observation
    if not one.tool or not call or not seen or seen.failed or call.tool != one.tool or call.tool == FINISH:
        return False
    return holds(one.arguments, call.arguments) and holds(one.result, seen.content)


def holds(wanted: Json | Mapping[str, Json], found: Json | Mapping[str, Json]) -> bool:
    """Whether `found` contains every field that is `wanted`, at any depth.

    Values that are not objects must be `equivalent`.
    """
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and holds(value, found[name]) for name, value in wanted.items()
        )
    return equivalent(wanted, found)  # type: ignore[arg-type]
