"""What there is for a call to refer to: constants, and the facts of the calls before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from grid.worlds.programs.model import Applied, Constant, Fact, bag, folded
from grid.worlds.programs.world import Universe


@dataclass
class Slot:
    """A call that was made or predicted: the fields that it returns and the facts in them (None: none that is known).

    `failed`: made before, without a result.
    """

    tool: str
    fields: tuple[str, ...]
    facts: list[Fact | None]
    failed: bool = False


@dataclass
class Steps:
    """What is there when a call is made: constants, and the facts of all calls before it.

    `slots` are the calls made before the prediction and the predicted ones, `first` the place of the first predicted
    among them, `number` the number by which the chain calls that.
    """

    universe: Universe
    slots: Sequence[Slot]
    first: int
    number: int
    here: int = 0
    by_type: dict[str, dict[Fact, None]] = field(default_factory=dict)
    by_value: dict[str, dict[Fact, None]] = field(default_factory=dict)
    by_tool: dict[str, list[int]] = field(default_factory=dict)
    by_name: dict[str, list[int]] = field(default_factory=dict)
    words: dict[Fact, frozenset[str]] = field(default_factory=dict)
    made_by: dict[Fact, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, slot in enumerate(self.slots):
            self.by_tool.setdefault(slot.tool.casefold(), []).append(place)
            self.by_name.setdefault(slot.tool, []).append(place)
        for constant in self.universe.task.constants:
            self._add(constant, None)
        for place in range(self.first):
            self.advance(place)

    def advance(self, place: int) -> None:
        """Go on behind the call in this slot."""
        for fact in self.slots[place].facts:
            if fact is not None:
                self._add(fact, place)
        self.here = place + 1

    def calls_of(self, tool: str) -> list[int]:
        """The slots of a tool's calls; letters' case counts only where names differ by it."""
        return self.by_name.get(tool) or self.by_tool.get(tool.casefold(), [])

    def _add(self, fact: Fact, place: int | None) -> None:
        self.by_type.setdefault(self.universe.type_of(fact), {}).setdefault(fact)
        value = None if is_stray(fact) else self.universe.value(fact)
        if value:
            self.by_value.setdefault(folded(value), {}).setdefault(fact)
        if place is not None:
            self.made_by.setdefault(fact, place)

    def described(self, fact: Fact) -> frozenset[str]:
        """The words that a fact goes by: its type, its constants, and the tool and field that gave it."""
        if fact not in self.words:
            place = self.made_by.get(fact)
            texts = [self.universe.type_of(fact), *_told(fact)]
            if isinstance(fact, Applied):
                texts.append(fact.function)
            if place is not None:
                slot = self.slots[place]
                texts += [slot.tool, *(name for name, one in zip(slot.fields, slot.facts, strict=False) if one == fact)]
            self.words[fact] = frozenset().union(*(bag(text) for text in texts))
        return self.words[fact]


def stray(type_: str, place: int, number: int = 0) -> Constant:
    """A fact of which only the type is known: what a call finds whose arguments are not all known."""
    return Constant(type_, "", f"\0{place}.{number}")


def is_stray(fact: Fact) -> bool:
    """Whether only the fact's type is known."""
    return isinstance(fact, Constant) and fact.name.startswith("\0")


def _told(fact: Fact) -> Iterator[str]:
    """What the constants under a fact are called and worth."""
    pending, seen = [fact], {fact}
    for part in pending:  # which grows
        if isinstance(part, Constant):
            if not is_stray(part):
                yield part.value
                yield part.name
        else:
            new = [one for one in dict.fromkeys(part.inputs) if one not in seen]
            seen.update(new)
            pending += new
