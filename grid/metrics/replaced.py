"""Arguments that forgiving tools put in the place of others, and which of them were wrong (planning_horizon §3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grid.core.reference import Reference
from grid.core.types import Step
from grid.worlds.schema import READ_AS


def replacements(step: Step) -> Mapping[str, str]:
    """What the tools say was put in the place of which parameters of a step's call; only of a world that mends."""
    found = step.observation.content.get(READ_AS) if step.observation else None
    return {name: taken for name, taken in found.items() if isinstance(taken, str)} if isinstance(found, dict) else {}


def counts(path: Sequence[Step], reference: Reference) -> tuple[int, int]:
    """How many arguments were replaced on a path, and how many of those wrongly.

    Wrongly: no call of the reference, of whatever tool, has what was taken as its argument of the same name (`key`,
    `relation`, `concept_name`, `qkey`, `name`, `value`, `qvalue`). A path that is right by other names than the
    reference's counts as wrong too, so that it is an upper bound of silent wrong replacements.
    """
    calls = [call for call in reference.calls.values() if call]
    wanted = {(name, value) for call in calls for name, value in call.arguments.items() if isinstance(value, str)}
    taken = [item for step in path for item in replacements(step).items()]
    return len(taken), sum(item not in wanted for item in taken)
