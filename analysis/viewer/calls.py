"""A call beside the reference's, argument by argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grid.core.types import NO_TOOL, to_json
from grid.core.untrusted import loads

SAME, OTHER, LACKING, FURTHER = "same", "different", "missing", "not in the reference"


@dataclass(frozen=True)
class Argument:
    """An argument's value in both calls, None where one has none; `mark`: how they compare, "" without a reference."""

    name: str
    chosen: str | None
    reference: str | None
    mark: str


@dataclass(frozen=True)
class Compared:
    """What was chosen and the reference's, with their arguments; tools are None where nobody called one."""

    tool: str | None
    reference: str | None
    known: bool
    arguments: Sequence[Argument]

    @property
    def tool_differs(self) -> bool:
        """Whether another tool was called than the reference's, or one where it has none."""
        return self.known and (self.tool or NO_TOOL) != (self.reference or NO_TOOL)

    @property
    def differs(self) -> bool:
        """Whether anything does."""
        return self.tool_differs or any(one.mark not in ("", SAME) for one in self.arguments)


def compared(step: Mapping[str, Any], call: Mapping[str, Any] | None) -> Compared:
    """A row of `steps` beside a call of its case's reference; None: of this decision there is no reference.

    Both as they were written, with references to earlier outputs unfilled.
    """
    own = written(step)
    if call is None:
        return Compared(
            step["chosen_tool"], None, False, [Argument(name, value, None, "") for name, value in own.items()]
        )
    theirs = _arguments(call["arguments"])
    arguments = [_argument(name, own, theirs) for name in dict.fromkeys([*theirs, *own])]
    return Compared(step["chosen_tool"], call["tool"], True, arguments)


def written(step: Mapping[str, Any]) -> dict[str, str]:
    """The arguments of a step's call, each as JSON or, a text, as it stands."""
    whole = _loaded(step["written"])
    if isinstance(whole, dict) and isinstance(whole.get("arguments"), dict):
        return _values(whole["arguments"])
    return _arguments(step["arguments"])


def aligned(steps: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]], followed: bool) -> list[int | None]:
    """Of each step the place of the reference's call it is held against.

    Where an outline is followed, that of its substep; else the first call of the same tool that is not yet taken.
    """
    if followed:
        places = {call["substep_id"]: place for place, call in enumerate(calls)}
        return [places.get(step["substep_id"]) for step in steps]
    found: list[int | None] = [None] * len(steps)
    left = [place for place, call in enumerate(calls) if call["tool"]]
    for at, step in enumerate(steps):
        same = next((place for place in left if calls[place]["tool"] == step["chosen_tool"]), None)
        if same is not None:
            found[at] = same
            left.remove(same)
    return found


def _argument(name: str, own: Mapping[str, str], theirs: Mapping[str, str]) -> Argument:
    mark = (
        LACKING if name not in own else FURTHER if name not in theirs else SAME if own[name] == theirs[name] else OTHER
    )
    return Argument(name, own.get(name), theirs.get(name), mark)


def _arguments(text: str | None) -> dict[str, str]:
    found = _loaded(text)
    return _values(found) if isinstance(found, dict) else {} if found is None else {"": str(text)}


def _values(found: Mapping[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else to_json(value) for name, value in found.items()}


def _loaded(text: str | None) -> Any:
    """What a column holds; a text that was cut to fit a row is no JSON."""
    if text is None:
        return None
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return text
