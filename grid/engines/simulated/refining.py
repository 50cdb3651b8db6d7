"""What is planted in the simulated policy's plans: refusals, critiques of a draft, and what a rewriting makes of it.

A critique names each step that is not the reference's with the probability `repair`, and each that is with
`overcorrection`. A rewriting believes it: a wrong step that is named is set right, a right one is spoilt, all others
stay. So of the wrong steps a share of `repair` is set right, whoever criticises; a critique of another engine, which
names no step in this way, changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from grid.core.chains import ChainCall
from grid.core.engine import Prompt
from grid.core.types import FINISH, NO_TOOL, REJECT, Json
from grid.core.untrusted import loads
from grid.engines.places import Place, Places
from grid.engines.simulated.difficulty import uniforms
from grid.text.chains import Predicted, read_draft

CANNOT = "The request cannot be carried out with these tools."
UNFOUNDED = "The refusal is unfounded."
CONFIRMED = "The draft is right as it stands."
FAULT = "Step {number} is at fault."
_NAMED = re.compile(r"\bStep (\S+) is at fault\b")
REASON = "What is asked for cannot be had with what there is."


@dataclass(frozen=True)
class Planted:
    """The keys of the policy that plans and refusals depend on."""

    refusal: float = 0.4
    overrefusal: float = 0.01
    repair: float = 0.3
    overcorrection: float = 0.03
    taxonomy: float = 0.3

    def refuses(self, unsolvable: bool, uniform: float) -> bool:
        """Whether a case is refused, by a uniform number."""
        return uniform < (self.refusal if unsolvable else self.overrefusal)

    def seen(self, prompt: Prompt) -> float:
        """The probability that a critique sees a fault: more where it is told the kinds of error."""
        return min(self.repair + (self.taxonomy if prompt.entries("errors") else 0.0), 1.0)


@dataclass(frozen=True)
class Draft:
    """A draft as a prompt shows it: its calls by place, None where a step takes none, and whether it refuses.

    `whole`: it is the plan of all that is left, so that a step may be missing.
    """

    calls: tuple[ChainCall | None, ...]
    refused: bool
    whole: bool

    @classmethod
    def of(cls, prompt: Prompt) -> Draft | None:
        """The prompt's draft; None without one."""
        shown = prompt.entries("draft")
        if not shown:
            return None
        found: Predicted = read_draft(shown[-1])
        kept = [call for call in found.calls if call is None or call.name != REJECT]
        value = loads(shown[-1])
        messages = isinstance(value, list) or "tool_calls" in value
        return cls(tuple(kept), found.refusal is not None or len(kept) < len(found.calls), not messages)

    def at(self, index: int) -> dict[str, Json]:
        """The call at an index as text has it; of no tool where there is none."""
        call = self.calls[index] if index < len(self.calls) else None
        return {"tool": call.name, "arguments": dict(call.arguments)} if call else {"tool": NO_TOOL, "arguments": {}}

    def right(self, index: int, place: Place | None) -> bool:
        """Whether the step at an index is the reference's."""
        call = self.calls[index] if index < len(self.calls) else None
        if place is not None and place.call is not None:
            wanted = place.call.tool, dict(place.call.arguments)
            return call is not None and (call.name, dict(call.arguments)) == wanted
        if call is None or place is None:
            return call is None
        return call.name == FINISH and dict(call.arguments) in ({}, {"answer": place.answer})


def numbers(draft: Draft, places: Sequence[Place]) -> list[str]:
    """The numbers of a draft's steps, and of those that it lacks."""
    first = int(places[0].number) if places and places[0].number.isdecimal() else 0
    known = [place.number for place in places]
    return [*known, *(str(first + index) for index in range(len(known), len(draft.calls)))]


def critique(planted: Planted, draft: Draft, prompt: Prompt, places: Places, base: int, index: int) -> str:
    """What is said of a draft, by the probabilities that are planted."""
    seen, drawn, unsolvable = planted.seen(prompt), uniforms(base, index, 0)[0], places.reference.unsolvable
    if draft.refused:
        return UNFOUNDED if drawn < (planted.overcorrection if unsolvable else seen) else CONFIRMED
    if unsolvable:
        return CANNOT if drawn < seen else CONFIRMED
    left = places.of_turn(prompt, len(draft.calls))
    kept = [place for at, place in enumerate(left) if at < len(draft.calls) or (draft.whole and place.right != FINISH)]
    wrong = {
        number: not draft.right(at, kept[at] if at < len(kept) else None)
        for at, number in enumerate(numbers(draft, kept))
    }
    named = [
        FAULT.format(number=number)
        for place, (number, fault) in enumerate(wrong.items(), start=1)
        if uniforms(base, index, place)[0] < (seen if fault else planted.overcorrection)
    ]
    return "\n".join(named) or CONFIRMED


def faults(prompt: Prompt) -> frozenset[str]:
    """The numbers of the steps that a prompt's critique names."""
    return frozenset(number for line in prompt.entries("critique") for number in _NAMED.findall(line))


def says(prompt: Prompt, what: str) -> bool:
    """Whether a prompt's critique says CANNOT or UNFOUNDED."""
    return any(what in line for line in prompt.entries("critique"))
