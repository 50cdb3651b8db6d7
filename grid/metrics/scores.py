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
"""The version of scoring, part of every cell's id; raise it when the same trajectory would get a different score."""
PATTERNS = (
    "similar_tool_confusion", "wrong_parameters", "missing_parameters", "redundant_related", "redundant_unrelated",
    "intent_missed",
)  # fmt: skip
"""The ways in which trajectories go wrong (traject_bench §4.2; the rules are in `grid.metrics.failure_patterns`)."""
SUCCESS = "success"
"""The only metric that is a column of `episodes`: whether the case was resolved; None if this cannot be determined."""
UNSCORED: Mapping[str, Any] = MappingProxyType(
    {"repeated_call": False, "repeated_call_in_a_row": False, "failed_calls": 0, "finished": False}
)
"""The metrics' values for an episode about which nothing is known."""


# Arguments that forgiving tools replaced, and wrong replacements among these (planning_horizon §3.2).


def replacements(step: Step) -> Mapping[str, str]:
    """The replaced arguments that a step's tool reports, by parameter; only worlds that mend calls report any."""
    found = step.observation.content.get(READ_AS) if step.observation else None
    return {name: taken for name, taken in found.items() if isinstance(taken, str)} if isinstance(found, dict) else {}


def counts(path: Sequence[Step], reference: Reference) -> tuple[int, int]:
    """The number of arguments that tools replaced on a path, and the number of wrong replacements among them.

    A replacement is wrong if no call in the reference, whatever its tool, has the new value in the argument of the same
    name (`key`, `relation`, `concept_name`, `qkey`, `name`, `value`, `qvalue`). If a path is right but uses different
    names than the reference, its replacements count as wrong too, so the number is an upper bound on silent wrong
    replacements.
    """
    calls = [call for call in reference.calls.values() if call]
    wanted = {(name, value) for call in calls for name, value in call.arguments.items() if isinstance(value, str)}
    taken = [item for step in path for item in replacements(step).items()]
    return len(taken), sum(item not in wanted for item in taken)


# The shape of a reference plan.


def _shape(reference: Reference) -> dict[str, Any]:
    """Depth, breadth and size of the reference plan, measured in calls and in edges.

    In calls (planning_horizon §3.1): depth is the longest chain of dependent calls, and breadth is calls / depth. In
    edges (the paper's official code): depth is the number of dependencies in the longest chain, which is one less than
    the number of its calls, and breadth is calls / this depth; breadth is null for a plan without a dependency. The
    official code's longest path is too short in some plans, because that code visits a step before all steps that lead
    to it are known; our longest path is always correct.
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
"""Like `_shape`, but computed once for all cells of a case."""


# Whether a case can be solved without guessing, because everything that the reference's calls need can be read.


_LONGEST = 8
"""Maximum number of words in a date or number that is written out."""
_SEPARATORS = re.compile(r"[\W_]+")


def solvable(problem: Problem) -> bool | None:
    """Whether every argument of the calls needed for the resolution is given before its call; None if unknown.

    The result is unknown in worlds without a table of calls and results.

    A value is given if it is in the query, in a substep of the plan (if the planner receives a plan) or in the outcome
    of an earlier reference call. A text must appear word for word, ignoring letter case and the characters between
    words; a number or a date may have any form with an equal value. Four more kinds of arguments count as given: an
    argument that is only a reference to an earlier outcome, a truth value, null, and an argument that is not compared.
    A value that requires a paraphrase, a sum or a guess is not given, even if a model decides which texts mean the same
    thing (`dataset.equivalence`): in doubt, the rule says no. A case that is marked as unsolvable
    (`Reference.unsolvable`), such as a case whose tools were removed, cannot be solved.
    """
    world = bare(problem.world)
    if not isinstance(world, LookupSimulator):
        return None
    if problem.reference.unsolvable:
        return False
    return _told(world.entries)(problem.reference, world.resolution, _shown(problem))


def _all_told(table: tuple[Entry, ...], stated: Reference, resolution: frozenset[str], seen: tuple[str, ...]) -> bool:
    """Whether all arguments of a resolution's calls are given; `seen` contains the texts seen before the first call."""
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
"""`_all_told`, computed once for each table and reference, which all trials and planners of a case share."""


def _needed(reference: Reference) -> set[str]:
    """The steps in the resolution, and the steps whose outcomes those steps use, directly or indirectly."""
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
