"""What a case is held against, and a planner never sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from grid.core.types import ToolCall


@dataclass(frozen=True)
class Substitute:
    """The tool that does what another one, which is out of service, does not any more.

    `arguments` maps the other's argument names to its own.
    """

    tool: str
    arguments: Mapping[str, str]

    def call(self, call: ToolCall) -> ToolCall:
        """A call of the other as one of this tool."""
        return ToolCall(self.tool, {self.arguments.get(name, name): value for name, value in call.arguments.items()})


@dataclass(frozen=True)
class Reference:
    """What a planner never sees: per substep the reference call (None: no tool), in plan order.

    Arguments may hold `OUTPUT_FROM_STEP_i.j.field`; `resolution` names the substeps whose outcomes together
    are the case's resolution. `followed`: planners are given the substeps, so that their steps can be held against
    the calls; otherwise there are other ways to the resolution. `ordered`: the calls come in this order; otherwise they
    are a set (traject_bench §3.2, parallel queries). `answer` is the final one, where there is one. `failing` are the
    substeps whose calls are right and return a failure all the same, as they did when they were recorded. Where there
    is no outline, None is the end of a turn. `unsolvable`: a refusal is right, and the calls, where there are any, are
    those of whoever does not see it. `told`: the answer is what whoever ends the work has to tell, word for word.
    `substitutes`: by the name of a tool that is out of service what replaces it.
    """

    calls: Mapping[str, ToolCall | None]
    resolution: tuple[str, ...]
    followed: bool = True
    ordered: bool = True
    answer: str | None = None
    failing: frozenset[str] = frozenset()
    unsolvable: bool = False
    substitutes: Mapping[str, Substitute] = field(default_factory=dict)
    told: bool = False

    def unfollowed(self) -> Reference:
        """The same where nobody is given its substeps: those without a call are no steps then."""
        if not self.followed:
            return self
        return replace(self, calls={step: call for step, call in self.calls.items() if call}, followed=False)

    def part(self, first: int, most: int | None) -> Reference:
        """Of the calls those from a place on, so many at most; of the resolution what is among them."""
        kept = dict(islice(self.calls.items(), first, None if most is None else first + most))
        return replace(self, calls=kept, resolution=tuple(step for step in self.resolution if step in kept))
