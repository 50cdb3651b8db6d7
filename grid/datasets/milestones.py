"""Milestones, as given by a line of a task file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from grid.core.errors import nearest
from grid.core.problem import Milestone
from grid.metrics.milestones import ordered

Name = Annotated[str, Field(min_length=1, max_length=200)]
Values = Annotated[dict[str, JsonValue], Field(max_length=100)]


class Named(BaseModel):
    """A milestone or a forbidden call: its tool, some of the call's arguments, and some of the returned fields.

    In `after`, other milestones refer to a milestone by its `name`. The name of a milestone without a `name` is its
    place in the list, counted from 0.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)
    tool: Name
    arguments: Values = Field(default_factory=dict)
    result: Values = Field(default_factory=dict)
    name: Name | None = None
    after: list[Name] = Field(default_factory=list, max_length=100)


Lines = Annotated[list[Named], Field(max_length=100)]


class Milestones(BaseModel):
    """Optional fields of a line in a task file.

    If `in_order`, each of the `milestones` must be reached after the preceding one. `forbidden` lists calls that must
    not be made.
    """

    milestones: Lines = Field(default_factory=list)
    in_order: bool = False
    forbidden: Lines = Field(default_factory=list)

    def named(self, tools: Sequence[str]) -> tuple[tuple[Milestone, ...], tuple[Milestone, ...]]:
        """The milestones and the forbidden calls. A milestone comes after the milestones that its `after` names.

        Raises:
            ValueError: a tool is not among `tools`, the milestones cannot be reached (`ordered`), or a forbidden call
                has an `after`.
        """
        found, forbidden = [*_read(self.milestones, tools)], [*_read(self.forbidden, tools)]
        if self.in_order:
            chained = (replace(one, after=(*one.after, before.name)) for before, one in pairwise(found))
            found = [*found[:1], *chained]
        if any(one.after for one in forbidden):
            raise ValueError("a forbidden call cannot have `after`, because it is forbidden at any time")
        return ordered(found), ordered(forbidden)


def _read(lines: Sequence[Named], tools: Sequence[str]) -> Iterator[Milestone]:
    for place, one in enumerate(lines):
        if one.tool not in tools:
            raise ValueError(f"a milestone calls {one.tool!r:.80}, which is not a tool{nearest(one.tool, tools)}")
        yield Milestone(one.name or str(place), one.tool, one.arguments, one.result, tuple(one.after))
