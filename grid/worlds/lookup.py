"""The lookup simulator of egb_slate §3.4: (tool, arguments) to outcome, and a default outcome for all else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from grid.text import references
from grid.types import Json, Observation, Parameter, ToolCall, ToolSpec, to_json
from grid.worlds.base import State, own_state
from grid.worlds.equivalence import equivalent


@dataclass(frozen=True)
class Entry:
    """One reference call with concrete arguments, the substeps that make it, and what it returns.

    `open_arguments` are not compared: nothing that an agent sees tells their value. `parameters` are the tool's, by
    name: what they say of an argument decides what its value means.
    """

    substeps: frozenset[str]
    call: ToolCall
    outcome: Observation
    open_arguments: frozenset[str] = frozenset()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @cached_property
    def optional(self) -> frozenset[str]:
        """The arguments that its tool declares optional."""
        return frozenset(name for name, parameter in self.parameters.items() if not parameter.required)

    def about(self, name: str) -> str:
        """An argument's name and description."""
        parameter = self.parameters.get(name)
        return f"{name} {parameter.description}" if parameter else name


@dataclass(frozen=True)
class SameFunction:
    """That a tool does exactly what `tool` does; `arguments` maps its own argument names to that tool's."""

    tool: str
    arguments: Mapping[str, str]


def default_outcome(tool: str) -> Observation:
    """What any call that matches no entry returns: context-free, and without information."""
    return Observation({"status": "no_result", "message": f"{tool} found nothing for these arguments."}, failed=True)


@dataclass(frozen=True)
class LookupSimulator:
    """A case's tools, played from its table of reference calls.

    The state is the set of substeps whose outcome was obtained, by whatever path. The case is resolved when it
    holds every substep of `resolution`. An argument that a call gives and an entry lacks is no fault where the tool
    declares it optional; of several entries the call then means the one that lacks the fewest.
    """

    entries: tuple[Entry, ...]
    resolution: frozenset[str]
    same_function: Mapping[str, SameFunction] = field(default_factory=dict)
    branches: ClassVar[bool] = True

    def start(self) -> frozenset[str]:
        """Nothing obtained."""
        return frozenset()

    async def apply(self, state: State, call: ToolCall) -> tuple[frozenset[str], Observation]:
        """The outcome of the entry that the call means (the first of several), the tool's default where none is."""
        obtained = own_state(state, frozenset)
        tool, arguments = self._by_reference_names(call)
        meant: dict[int, list[Entry]] = {}
        for entry in self.entries:
            more = _more(entry, arguments)
            if entry.call.tool == tool and more <= entry.optional and _same_arguments(entry, arguments):
                meant.setdefault(len(more), []).append(entry)
        if not meant:
            return obtained, default_outcome(call.tool)
        nearest = meant[min(meant)]
        return obtained.union(*(entry.substeps for entry in nearest)), nearest[0].outcome

    def resolved(self, state: State) -> bool:
        """Whether every outcome of the resolution has been obtained."""
        return self.resolution <= own_state(state, frozenset)

    def answer(self, state: State) -> str | None:
        """None: outcomes are obtained, no question is answered."""
        return None

    def _by_reference_names(self, call: ToolCall) -> tuple[str, Mapping[str, Json]]:
        same = self.same_function.get(call.tool)
        if same is None:
            return call.tool, call.arguments
        return same.tool, {same.arguments.get(name, name): value for name, value in call.arguments.items()}


def _more(entry: Entry, arguments: Mapping[str, Json]) -> set[str]:
    """The arguments that the entry lacks; an empty one is none."""
    known = entry.call.arguments.keys() | entry.open_arguments
    return {name for name, value in arguments.items() if name not in known and value not in (None, "")}


def _same_arguments(entry: Entry, arguments: Mapping[str, Json]) -> bool:
    return all(
        name in entry.open_arguments or (name in arguments and equivalent(value, arguments[name], entry.about(name)))
        for name, value in entry.call.arguments.items()
    )


def build_entries(
    calls: Mapping[str, ToolCall],
    outcomes: Mapping[str, Mapping[str, Json]],
    open_arguments: Mapping[str, frozenset[str]] | None = None,
    tools: Mapping[str, ToolSpec] | None = None,
) -> tuple[Entry, ...]:
    """The table of a case: reference calls (substep id to call) made concrete, equal calls as one entry.

    Args:
        calls: substep id to reference call.
        outcomes: substep id to what its call returns.
        open_arguments: substep id to the arguments that are not compared.
        tools: those called, by name, as far as they are known.

    Raises:
        ValueError: two substeps make the same call but expect different outcomes, or references do not resolve.
    """
    left_open = open_arguments or {}
    entries: dict[str, Entry] = {}
    for step in references.order(calls):
        concrete = references.resolve(calls[step], outcomes)
        key = to_json([concrete.tool, dict(sorted(concrete.arguments.items()))])
        outcome = Observation(outcomes[step])
        known = entries.get(key)
        if known and known.outcome != outcome:
            raise ValueError(f"step {step} makes the same call as {sorted(known.substeps)} but expects another outcome")
        substeps = (known.substeps if known else frozenset()) | {step}
        spec = (tools or {}).get(concrete.tool)
        parameters = {parameter.name: parameter for parameter in spec.parameters} if spec else {}
        entries[key] = Entry(substeps, concrete, outcome, left_open.get(step, frozenset()), parameters)
    return tuple(entries.values())
