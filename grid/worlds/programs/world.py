"""A task's tools played on concrete values: a value stands for a fact, and a call finds the fact that it asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from grid.core.types import REJECT, Json, Observation, ToolCall, to_json
from grid.core.world import State, own_state
from grid.text import references
from grid.worlds.equivalence import equivalent
from grid.worlds.programs.model import Applied, Fact, Task
from grid.worlds.programs.rules import Kept, Rules
from grid.worlds.programs.universe import Universe, inputs_of

_LONGEST = 120  # characters of a value that an error repeats


@dataclass(frozen=True)
class Progress:
    """What was found, what the calls mean for the constraints, and whether the work was ended by a reject.

    Calls in another order that come to the same are the same state. `called`: a call was made, done ones apart.
    """

    found: frozenset[Applied]
    kept: Kept
    called: bool = False
    rejected: bool = False


@dataclass(frozen=True, eq=False)
class ProgramWorld:
    """The tools of a task.

    A call that fails finds nothing, and its observation says why: `error`. It counts for the constraints all the same
    where the tool exists: a forbidden call is forbidden also with wrong arguments. Nothing can be done behind a reject.

    Raises:
        ValueError: the task is not built as `model.Task` says.
    """

    task: Task
    branches: ClassVar[bool] = True

    @cached_property
    def _universe(self) -> Universe:
        return Universe(self.task)

    @cached_property
    def _rules(self) -> Rules:
        return Rules(self.task.constraints)

    def start(self) -> Progress:
        """After the calls of `task.done`."""
        before = replayed(self.task)
        return Progress(before.found, before.kept)

    async def apply(self, state: State, call: ToolCall) -> tuple[Progress, Observation]:
        """What the call's tool finds, in the fields that its spec names."""
        return self.applied(own_state(state, Progress), call)

    def applied(self, state: Progress, call: ToolCall) -> tuple[Progress, Observation]:
        """As `apply`."""
        if state.rejected:
            return state, _failed("the work was ended by a reject")
        if call.tool == REJECT:
            return replace(state, rejected=True), Observation({"status": "rejected"})
        tool = self.task.tools.get(call.tool)
        if tool is None:
            return state, _failed(f"there is no tool {_cut(call.tool)}")
        if call.tool == self.task.broken:  # which finds and breaks nothing
            return replace(state, called=True), _failed(f"{call.tool} is broken: it answers no calls")
        kept = self._rules.after(state.kept, call.tool, [part.name for part in tool.parts])
        state = replace(state, kept=kept, called=True)
        if tool.extraneous:
            return state, Observation(dict.fromkeys(tool.spec.returns, f"{call.tool} has nothing for this"))
        found, problem = self.found_by(state, call)
        if problem:
            return state, _failed(problem)
        content = {name: self._universe.value(fact) for name, fact in zip(tool.spec.returns, found, strict=True)}
        return replace(state, found=state.found | set(found)), Observation(content)

    def resolved(self, state: State) -> bool:
        """Whether all wanted facts are found and no constraint is broken; unsolvable: rejected at once."""
        progress = own_state(state, Progress)
        if self.task.unsolvable is not None:
            return progress.rejected and not progress.called
        done = self._universe.wanted <= progress.found and not self._rules.unmet(progress.kept)
        return done and not progress.kept.broken and not progress.rejected

    def answer(self, state: State) -> str | None:
        """None: facts are found, no question is answered."""
        return None

    def found_by(self, state: Progress, call: ToolCall) -> tuple[tuple[Applied, ...], str]:
        """The facts that a call finds, or why it finds none."""
        tool, arguments = self.task.tools.get(call.tool), call.arguments
        if tool is None:
            return (), f"there is no tool {_cut(call.tool)}"
        if tool.extraneous:
            return (), ""
        known = {parameter.name for parameter in tool.spec.parameters}
        for name in arguments:
            if name not in known:
                return (), f"{tool.spec.name} has no argument {_cut(name)}"
        given: dict[str, Fact] = {}
        for name, type_ in inputs_of(tool).items():
            value = arguments.get(name)
            if value is None or value == "":
                return (), f"{name} is missing"
            facts: list[Fact] = [*self.task.constants, *state.found]
            meant = self._meant(facts, value, type_, name)
            if not meant:
                other = self._meant(facts, value, None, name)
                what = (
                    f"is a {self._universe.type_of(other[0])}, not a {type_}"
                    if other
                    else f"is no {type_} that is known"
                )
                return (), f"{name}: {_cut(to_json(value))} {what}"
            given[name] = meant[0]
        found = tuple(fact for fact in self._universe.finds(tool, given) if fact is not None)
        if len(found) < len(tool.parts):
            return (), f"{tool.spec.name} was applied to its own results too often"
        return found, ""

    def _meant(self, facts: Iterable[Fact], value: Json, type_: str | None, about: str) -> list[Fact]:
        """The facts of a type (None: of any) that a value stands for; needed ones first."""
        of_type = (fact for fact in facts if type_ in (None, self._universe.type_of(fact)))
        own = [(fact, self._universe.value(fact)) for fact in of_type]
        text = value.strip() if isinstance(value, str) else to_json(value)
        meant = [fact for fact, one in own if one == text] or [
            fact for fact, one in own if equivalent(one, value, about)
        ]
        needed = set(self._universe.needed)
        return sorted(meant, key=lambda fact: (isinstance(fact, Applied) and fact not in needed, repr(fact)))


@dataclass(frozen=True)
class Replayed:
    """What each call of `task.done` found (nothing where it failed), and what they mean for the constraints."""

    by_call: tuple[tuple[Applied, ...], ...]
    kept: Kept

    @property
    def found(self) -> frozenset[Applied]:
        """All that was found."""
        return frozenset(fact for facts in self.by_call for fact in facts)


def replayed(task: Task) -> Replayed:
    """The calls of `task.done` made once more. Their arguments are values, or references to steps counted from 0.

    Raises:
        ValueError: a call that did not fail names no tool, or its arguments stand for nothing that was there.
    """
    if not task.done:
        return Replayed((), Rules(task.constraints).start)
    world = ProgramWorld(replace(task, done=(), broken=None))
    state = world.start()
    outputs: dict[str, Mapping[str, Json]] = {}
    by_call: list[tuple[Applied, ...]] = []
    for place, call in enumerate(task.done):
        found: tuple[Applied, ...] = ()
        if not call.failed:
            written = references.resolve(ToolCall(call.tool, call.arguments), outputs)
            found, why = world.found_by(state, written)
            if why:
                raise ValueError(f"call {place} of task.done fails: {why}")
            state, _ = world.applied(state, written)
            outputs[str(place)] = call.content
        by_call.append(found)
    return Replayed(tuple(by_call), state.kept)


def _failed(why: str) -> Observation:
    return Observation({"error": why}, failed=True)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
