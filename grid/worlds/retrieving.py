"""Worlds whose searches find paragraphs, for the settings of tool robustness (planning_horizon §3.2, §4.4)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from grid.core.world import World


@runtime_checkable
class RetrievingWorld(World, Protocol):
    """A world that answers searches from the paragraphs that are found for them."""

    def reading(self, paragraphs: int) -> World:
        """The same world, in which a search has at most so many paragraphs to go by, the best ones."""
        ...
