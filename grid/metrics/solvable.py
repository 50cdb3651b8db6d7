"""Whether a case can be solved without guessing: all that its reference's calls need can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial

from grid.core.problem import Problem, Reference
from grid.core.types import Json, ToolCall
from grid.core.util import Once
from grid.text import references
from grid.worlds.equivalence import canonical, equivalent
from grid.worlds.layers import bare
from grid.worlds.lookup import Entry, LookupSimulator

_LONGEST = 8
"""Words of a date or a number as a person writes it."""
_SEPARATORS = re.compile(r"[\W_]+")


def solvable(problem: Problem) -> bool | None:
    """Whether every argument of the calls that the resolution takes is told before its call; None without such calls.

    Told is a value that stands in the query, in a substep of the plan (where the planner is given one) or in the
    outcome of an earlier call of the reference: a text word by word, whatever the case and what stands between words; a
    number or a date in any form that equals it. So is a whole reference to an earlier outcome, a truth value, and an
    argument that is not compared. What takes a paraphrase, a sum or a guess is not, whoever says which texts mean the
    same (`dataset.equivalence`): the rule errs on the side of no. A case whose tools were taken away is not.
    """
    world = bare(problem.world)
    if not isinstance(world, LookupSimulator):
        return None
    if problem.reference.unsolvable:
        return False
    return _told(world.entries)(problem.reference, world.resolution, _shown(problem))


def _all_told(table: tuple[Entry, ...], stated: Reference, resolution: frozenset[str], seen: tuple[str, ...]) -> bool:
    """Of the calls that a resolution takes, where all that is `seen` before the first one is this."""
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
"""The trials and planners that meet a case meet the same table and reference."""


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
