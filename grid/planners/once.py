"""What is made of a thing, remembered by the thing's identity."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

H = TypeVar("H")
R = TypeVar("R")


class Once(Generic[H, R]):
    """Most decisions repeat another planner's or trial's.

    Retrievers and datasets hand out the same tuple for the same question, and comparing fifty tools would cost more.
    Further arguments are compared.
    """

    _MOST = 4096

    def __init__(self, make: Callable[..., R]) -> None:
        self._make = make
        self._known: dict[Any, tuple[H, R]] = {}

    def __call__(self, thing: H, *key: Hashable) -> R:
        """What is made of the thing and the key."""
        place = (id(thing), *key)
        known = self._known.get(place)
        if known and known[0] is thing:
            return known[1]
        if len(self._known) >= self._MOST:
            self._known.clear()
        found = self._make(thing, *key)
        self._known[place] = thing, found
        return found
