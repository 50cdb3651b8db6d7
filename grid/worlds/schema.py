"""The protocol for worlds whose calls name items of a schema, for tool robustness (planning_horizon §3.2)."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from grid.core.types import ToolCall, ToolSpec
from grid.core.world import State, World

ERROR = "error"
"""The field that occurs only in observations of failed calls."""
READ_AS = "read_as"
"""The field of an observation that shows which names were used in place of the given names."""


class Vocabulary:
    """All distinct names of one kind, in order.

    Attributes:
        noun: the word for a name of this kind.
        names: all names.
        parts: the same names, divided into parts that can be shared with other vocabularies.
    """

    def __init__(self, noun: str, names: Sequence[str]) -> None:
        self.noun = noun
        self._places: MutableMapping[str, int] = {name: place for place, name in enumerate(dict.fromkeys(names))}
        self.names = tuple(self._places)
        self.parts: tuple[tuple[str, ...], ...] = (self.names,)

    def with_names(self, more: Iterable[str]) -> Vocabulary:
        """The vocabulary with more names at its end; the names that it already has are not copied one by one."""
        new = tuple(name for name in dict.fromkeys(more) if name not in self)
        if not new:
            return self
        found = copy(self)
        found._places = ChainMap({name: len(self) + place for place, name in enumerate(new)}, self._places)
        found.names, found.parts = self.names + new, (*self.parts, new)
        return found

    def place(self, name: str) -> int:
        """The position of a name; raises KeyError if there is no such name."""
        return self._places[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Expected:
    """The names that a call expects as an argument.

    Attributes:
        vocabulary: all names of the expected kind.
        here: those distinct names of the vocabulary that occur in the call's own input; if no set of entities is given
            to the call, all names that its parameter may take.
        sort: whether the names are identifiers of the schema, names of entities, or texts in facts.
    """

    vocabulary: Vocabulary
    here: Sequence[str]
    sort: Literal["identifier", "name", "text"] = "identifier"


@runtime_checkable
class SchemaWorld(World, Protocol):
    """A world that can tell which arguments of a call must be names that exist in the world.

    A failed call's observation has the field `error`.
    """

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that can be called."""
        ...

    async def identifiers(self, state: State, call: ToolCall) -> Mapping[str, Expected]:
        """The names that a call in a state expects, for each parameter whose value must be a known name.

        The parameters are in the order in which they have to be read, because the names expected for a parameter may
        depend on earlier arguments. The result is empty if the names cannot be determined, as for an unknown tool or a
        missing argument.
        """
        ...


def mends(world: World) -> bool:
    """Whether a world may replace arguments of a call; it reports replacements in the field READ_AS.

    A world that may replace arguments has a true property named `mends`; for a world without it, the result is False.
    """
    return bool(getattr(world, "mends", False))
