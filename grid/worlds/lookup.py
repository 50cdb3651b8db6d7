"""The lookup simulator of egb_slate §3.4: a table from (tool, arguments) to outcomes, with a default outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import ClassVar

from grid.core.types import Json, Observation, Parameter, ToolCall, ToolSpec, to_json
from grid.core.world import Argument, Same, State, World, own_state
from grid.text import references
from grid.worlds.equivalence import equivalent, is_text, words_in


@dataclass(frozen=True)
class Entry:
    """One reference call with concrete arguments, its outcome, and the substeps that make this call.

    `open_arguments` are not compared, because an agent sees nothing that shows their values. `parameters` has the
    tool's parameters by name; their names and descriptions decide what an argument's value means.
    """

    substeps: frozenset[str]
    call: ToolCall
    outcome: Observation
    open_arguments: frozenset[str] = frozenset()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    @cached_property
    def optional(self) -> frozenset[str]:
        """The arguments that the tool declares optional."""
        return frozenset(name for name, parameter in self.parameters.items() if not parameter.required)

    def about(self, name: str) -> str:
        """An argument's name and, if known, its description."""
        parameter = self.parameters.get(name)
        return f"{name} {parameter.description}" if parameter else name

    def may_be_judged(self, name: str, value: Json) -> bool:
        """Whether a model may judge an argument's value, because both this value and the entry's value are free texts.

        Free texts are values of a string parameter without a list of allowed values. The entry's value must also have
        at least two words, so that a single word, a code or an identifier is never judged.
        """
        parameter, own = self.parameters.get(name), self.call.arguments[name]
        free = parameter is not None and parameter.type == "string" and not parameter.values
        if not (free and isinstance(own, str) and words_in(own) > 1):
            return False
        return all(is_text(text, self.about(name)) for text in (own, value))


@dataclass(frozen=True)
class SameFunction:
    """States that a second tool does exactly the same as `tool`.

    `arguments` maps the second tool's argument names to the argument names of `tool`.
    """

    tool: str
    arguments: Mapping[str, str]


@lru_cache(maxsize=4096)
def default_outcome(tool: str) -> Observation:
    """The outcome of every call that matches no entry.

    This outcome depends only on the tool's name and gives no information.
    """
    return Observation({"status": "no_result", "message": f"{tool} found nothing for these arguments."}, failed=True)


@dataclass(frozen=True)
class LookupSimulator:
    """A case's tools, simulated from its table of reference calls.

    The state is the set of substeps whose outcome was obtained, by any calls. The first state has the substeps in
    `begun`. The case is resolved when the state has every substep of `resolution`. A call may give optional arguments
    that an entry lacks. If several entries match, the call means those that lack the fewest of the call's arguments.

    If a call matches no entry by the rules but differs from an entry only in free texts, `same`, if given, is asked
    whether each of these texts means the same as the entry's text. If all of them do, the call means that entry.
    """

    entries: tuple[Entry, ...]
    resolution: frozenset[str]
    same_function: Mapping[str, SameFunction] = field(default_factory=dict)
    same: Same | None = None
    begun: frozenset[str] = frozenset()
    branches: ClassVar[bool] = True

    def asking(self, same: Same) -> LookupSimulator:
        """The same tools, with `same` to judge free texts."""
        return replace(self, same=same)

    def start(self) -> frozenset[str]:
        """The substeps in `begun`; empty if there are none."""
        return self.begun

    async def apply(self, state: State, call: ToolCall) -> tuple[frozenset[str], Observation]:
        """The next state, and the outcome of the first entry that the call means, or else the default outcome."""
        obtained = own_state(state, frozenset)
        stated = by_reference_names(call, self.same_function)
        groups = candidates(self.entries, stated)
        meant = by_rules(groups, stated)
        if self.same and not meant:
            meant = await _judged(groups, stated.arguments, self.same)
        if not meant:
            return obtained, self.missed(call)
        return obtained.union(*(entry.substeps for entry in meant)), meant[0].outcome

    def missed(self, call: ToolCall) -> Observation:
        """The outcome of a call that means no entry."""
        return default_outcome(call.tool)

    def resolved(self, state: State) -> bool:
        """Whether every outcome of the resolution has been obtained."""
        return self.resolution <= own_state(state, frozenset)

    def answer(self, state: State) -> str | None:
        """None, because outcomes are obtained but no question is answered."""
        return None


def by_reference_names(call: ToolCall, same_function: Mapping[str, SameFunction]) -> ToolCall:
    """The call, rewritten for the tool that does the same (see `SameFunction`); unchanged if there is no such tool."""
    same = same_function.get(call.tool)
    if same is None:
        return call
    return ToolCall(same.tool, {same.arguments.get(name, name): value for name, value in call.arguments.items()})


def candidates(entries: Iterable[Entry], call: ToolCall) -> list[list[Entry]]:
    """The entries that a call may mean, judging by its tool and its arguments' names.

    The entries are grouped by the number of the call's arguments that they lack. The group that lacks the fewest comes
    first.
    """
    possible: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.call.tool == call.tool and (more := _more(entry, call.arguments)) <= entry.optional:
            possible.setdefault(len(more), []).append(entry)
    return [possible[lacking] for lacking in sorted(possible)]


def by_rules(groups: Iterable[Sequence[Entry]], call: ToolCall) -> list[Entry]:
    """The entries that a call means by the rules, from the first group that has such entries."""
    found = ([entry for entry in group if not any(_differing(entry, call.arguments))] for group in groups)
    return next(filter(None, found), [])


def concrete_calls(world: World) -> Mapping[str, ToolCall]:
    """Each substep's reference call with concrete arguments; empty if the world is not a `LookupSimulator`."""
    entries = world.entries if isinstance(world, LookupSimulator) else ()
    return {substep: entry.call for entry in entries for substep in entry.substeps}


def means(entry: Entry, arguments: Mapping[str, Json]) -> bool:
    """Whether a call of the entry's tool with these arguments means the entry, by the rules."""
    return _more(entry, arguments) <= entry.optional and not any(_differing(entry, arguments))


def _more(entry: Entry, arguments: Mapping[str, Json]) -> set[str]:
    """The call's arguments that the entry lacks; an empty argument does not count."""
    known = entry.call.arguments.keys() | entry.open_arguments
    return {name for name, value in arguments.items() if name not in known and value not in (None, "")}


def _differing(entry: Entry, arguments: Mapping[str, Json]) -> Iterator[str]:
    """The entry's arguments that are missing from the call, or whose values differ by the rules."""
    for name, value in entry.call.arguments.items():
        if name in entry.open_arguments:
            continue
        if name not in arguments or not equivalent(value, arguments[name], entry.about(name)):
            yield name


async def _judged(groups: Sequence[Sequence[Entry]], arguments: Mapping[str, Json], same: Same) -> list[Entry]:
    """The entries from which a call differs only in the wording of texts, from the first group with such entries."""
    for group in groups:
        if found := [entry for entry in group if await _reworded(entry, arguments, same)]:
            return found
    return []


async def _reworded(entry: Entry, arguments: Mapping[str, Json], same: Same) -> bool:
    """Whether all differences are rewordings.

    `same` is asked only if nothing else differs, and only until it first answers no.
    """
    names = list(_differing(entry, arguments))
    if not all(entry.may_be_judged(name, arguments.get(name)) for name in names):
        return False
    for name in names:
        about = Argument(entry.call.tool, name, entry.parameters[name].description)
        if not await same(about, str(entry.call.arguments[name]), str(arguments[name])):
            return False
    return True


def build_entries(
    calls: Mapping[str, ToolCall],
    outcomes: Mapping[str, Mapping[str, Json]],
    open_arguments: Mapping[str, frozenset[str]] | None = None,
    tools: Mapping[str, ToolSpec] | None = None,
) -> tuple[Entry, ...]:
    """The table of a case: its reference calls with concrete arguments. Equal calls become one entry.

    Args:
        calls: the reference calls, by substep id.
        outcomes: the outcomes of these calls, by substep id.
        open_arguments: the names of the arguments that are not compared, by substep id.
        tools: those called tools that are known, by name.

    Raises:
        ValueError: two substeps make the same call but expect different outcomes, a reference names a step that makes
            no call, or references form a cycle.
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
