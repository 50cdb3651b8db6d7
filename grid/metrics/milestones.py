"""Milestones: what of the way to a resolution was reached, and what was done that must not be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from grid.core.problem import Milestone, Reference
from grid.core.types import FINISH, Json, Step, Trajectory
from grid.worlds.equivalence import equivalent


def ordered(milestones: Sequence[Milestone]) -> tuple[Milestone, ...]:
    """Milestones that can be reached, each once in the order of `after`.

    Raises:
        ValueError: two have one name, `after` names none of them, they wait for one another, or one names neither a
            tool nor a state, or both.
    """
    known = {one.name: one for one in milestones}
    if len(known) < len(milestones):
        raise ValueError("two milestones have one name")
    for one in milestones:
        if bool(one.tool) == (one.state is not None):
            raise ValueError(f"milestone {one.name!r:.80} needs a tool, or a state, and not both")
        if other := next((name for name in one.after if name not in known), None):
            raise ValueError(f"milestone {one.name!r:.80} comes after {other!r:.80}, which is none")
    found: dict[str, Milestone] = {}
    while len(found) < len(known):
        more = {name: one for name, one in known.items() if name not in found and {*one.after} <= found.keys()}
        if not more:
            raise ValueError(f"these milestones wait for one another: {', '.join(sorted(known.keys() - found.keys()))}")
        found |= more
    return tuple(found.values())


def reached(milestones: Sequence[Milestone], trajectory: Trajectory) -> Mapping[str, int]:
    """The milestones that a path reaches, each with the number of its first step that does; from 0.

    One call may reach several, but none that comes after another of them. A state's has the number of steps. To take
    the first step that fits is best: to reach a milestone earlier never keeps a later one from being reached.
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
    """`milestones`, the share that was reached, and `forbidden_calls`; neither where the case names none."""
    found: dict[str, Any] = {}
    if reference.milestones:
        found["milestones"] = len(reached(reference.milestones, trajectory)) / len(reference.milestones)
    if reference.forbidden:
        calls = [step for step in trajectory.steps if any(_fits(one, step) for one in reference.forbidden)]
        states = [one for one in reference.forbidden if one.state is not None and one.state(trajectory.end)]
        found["forbidden_calls"] = len(calls) + len(states)
    return found


def _fits(one: Milestone, step: Step) -> bool:
    """Whether a step's call succeeded and is the milestone's."""
    call, seen = step.call, step.observation
    if not one.tool or not call or not seen or seen.failed or call.tool != one.tool or call.tool == FINISH:
        return False
    return holds(one.arguments, call.arguments) and holds(one.result, seen.content)


def holds(wanted: Json | Mapping[str, Json], found: Json | Mapping[str, Json]) -> bool:
    """Whether all that is wanted is in what was found: of an object its fields, at any depth; else an equal value."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and holds(value, found[name]) for name, value in wanted.items()
        )
    return equivalent(wanted, found)  # type: ignore[arg-type]
