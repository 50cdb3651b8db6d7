"""The common part of a cell's scorers: the version of scoring, and the values of an episode that was never scored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any

from grid.core.problem import Problem, Reference
from grid.core.types import Json, Step, ToolCall
from grid.core.util import Once
from grid.text import references
from grid.worlds.equivalence import canonical, equivalent
from grid.worlds.layers import bare
from grid.worlds.lookup import Entry, LookupSimulator
from grid.worlds.schema import READ_AS

SCORING = "3"
"""Raise this when the same trajectory gets another score; it is part of every cell's id."""
PATTERNS = (
    "similar_tool_confusion", "wrong_parameters", "missing_parameters", "redundant_related", "redundant_unrelated",
    "intent_missed",
)  # fmt: skip
"""The ways in which trajectories go wrong (traject_bench §4.2; `grid.metrics.failure_patterns` has the rules)."""
SUCCESS = "success"
"""The one metric that is a column of `episodes`: whether the case was resolved, None if nobody can say."""
UNSCORED: Mapping[str, Any] = MappingProxyType(
    {"repeated_call": False, "repeated_call_in_a_row": False, "failed_calls": 0, "finished": False}
)
"""The values for an episode about which nothing is known."""


# Arguments by which forgiving tools replaced others, and which of them were wrong (planning_horizon §3.2).


def replacements(step: Step) -> Mapping[str, str]:
    """The replacements that tools report, by the parameters of a step's call; only in a world that mends."""
    found = step.observation.content.get(READ_AS) if step.observation else None
    return {name: taken for name, taken in found.items() if isinstance(taken, str)} if isinstance(found, dict) else {}


def counts(path: Sequence[Step], reference: Reference) -> tuple[int, int]:
    """How many arguments were replaced on a path, and how many of those wrongly.

    A replacement is wrong if no call of the reference, whatever its tool, has the new value as its argument of the same
    name (`key`, `relation`, `concept_name`, `qkey`, `name`, `value`, `qvalue`). If a path is right with other names
    than the reference's, this counts as wrong too, so that the number is an upper bound of silent wrong replacements.
    """
    calls = [call for call in reference.calls.values() if call]
    wanted = {(name, value) for call in calls for name, value in call.arguments.items() if isinstance(value, str)}
    taken = [item for step in path for item in replacements(step).items()]
    return len(taken), sum(item not in wanted for item in taken)


# The shape of a reference plan.


def _shape(reference: Reference) -> dict[str, Any]:
    """Depth, breadth and size of the reference plan, in calls and in edges.

    In calls (planning_horizon §3.1): depth is the longest chain of dependent calls, breadth is calls / depth. In edges
    (the paper's official code): depth is the number of dependencies in that chain, which is one less, and breadth is
    calls / dependencies; null for a plan without a dependency. The official code's longest path is too short in some
    plans, since it visits a step before all steps that lead to it are known; ours is not.
    """
    calls = {step: call for step, call in reference.calls.items() if call}
    depth = references.depth(calls)
    return {
        "depth": depth,
        "breadth": len(calls) / depth if depth else None,
        "depth_edges": depth - 1 if depth else None,
        "breadth_edges": len(calls) / (depth - 1) if depth > 1 else None,
        "plan_nodes": len(calls),
        "last_step": list(calls.values())[-1].tool if calls else None,
    }


plan_shape: Once[Reference, dict[str, Any]] = Once(_shape)
"""As `_shape`, computed once for all cells of a case."""


# Whether a case can be solved without guessing: everything that its reference's calls need can be read.


_LONGEST = 8
"""The most words of a date or a number as a person writes it."""
_SEPARATORS = re.compile(r"[\W_]+")


def solvable(problem: Problem) -> bool | None:
    """Whether every argument of the calls that the resolution takes is told before its call; None without such calls.

    A value is told if it is in the query, in a substep of the plan (if the planner gets one) or in the outcome of an
    earlier call of the reference: a text word by word, whatever the letters' case and the characters between words; a
    number or a date in any form that equals it. A whole reference to an earlier outcome, a truth value, and an argument
    that is not compared are told too. A value that takes a paraphrase, a sum or a guess is not told, whoever says which
    texts mean the same (`dataset.equivalence`): the rule errs on the side of no. A case whose tools were taken away
    cannot be solved.
    """
    world = bare(problem.world)
    if not isinstance(world, LookupSimulator):
        return None
    if problem.reference.unsolvable:
        return False
    return _told(world.entries)(problem.reference, world.resolution, _shown(problem))


def _all_told(table: tuple[Entry, ...], stated: Reference, resolution: frozenset[str], seen: tuple[str, ...]) -> bool:
    """Whether a resolution's calls have only told arguments, if `seen` has all that is seen before the first call."""
    reference = Reference(stated.calls, tuple(resolution))
    entries = {step: entry for entry in table for step in entry.substeps}
    needed = _needed(reference)
    for step, call in reference.calls.items():
        if not call:
            continue
        entry = entries[step]
        if step in needed and not all(
            name in entry.open_arguments or all(_is_told(leaf, seen, entry.about(name)) for leaf in _leaves(value))
            for name, value in call.arguments.items()
        ):
            return False
        seen += tuple(str(leaf) for value in entry.outcome.content.values() for leaf in _leaves(value))
    return True


_told: Once[tuple[Entry, ...], Once[Reference, bool]] = Once(lambda table: Once(partial(_all_told, table)), most=512)
"""All trials and planners of a case have the same table and reference."""


def _needed(reference: Reference) -> set[str]:
    """The steps of the resolution, and those whose outcomes they take."""
    pending = list(reference.resolution)
    for step in pending:  # which grows
        call = reference.calls[step]
        pending += [
            producer for producer, _ in references.found_in(call or ToolCall("", {})) if producer not in pending
        ]
    return set(pending)


def _shown(problem: Problem) -> tuple[str, ...]:
    lines = [text for substep in problem.case.plan.substeps for text in (substep.goal, substep.text)]
    return tuple(dict.fromkeys([problem.case.query, *lines]))


def _leaves(value: Json) -> Iterator[str | int | float | bool | None]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def _is_told(value: str | int | float | bool | None, seen: tuple[str, ...], about: str) -> bool:
    if value is None or isinstance(canonical(value), bool):
        return True
    if isinstance(value, str) and references.PATTERN.fullmatch(value):
        return True
    return any(_stands_in(str(value), text, about) for text in seen)


@lru_cache(maxsize=65536)
def _stands_in(value: str, text: str, about: str) -> bool:
    wanted = _words(value)
    if f" {wanted} " in f" {_words(text)} ":
        return True
    if not any(character.isdigit() for character in value) or len(value) > 10 * _LONGEST:
        return False
    words = text.split()
    windows = (words[i : i + size] for size in range(1, _LONGEST + 1) for i in range(len(words) - size + 1))
    return any(equivalent(value, " ".join(window).strip("()[]'\",.;:!?"), about) for window in windows)


@lru_cache(maxsize=4096)
def _words(text: str) -> str:
    return _SEPARATORS.sub(" ", text).strip().casefold()
