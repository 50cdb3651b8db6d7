"""A world that simulates a task's tools on concrete values. Each value represents a fact. Calls find more facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import ClassVar

from grid.core.types import FINISH, GIVE_UP, REJECT, Json, Observation, ToolCall, to_json
from grid.core.world import State, own_state
from grid.text import references
from grid.worlds.equivalence import equivalent
from grid.worlds.programs.model import (
    Applied,
    Constant,
    Fact,
    Function,
    Kept,
    Rules,
    Task,
    TypedTool,
    bag,
    folded,
    value,
)

_LONGEST = 120  # maximum characters of a value in an error message


@dataclass(frozen=True)
class Progress:
    """The facts found, the calls' effect on the constraints, and whether a reject ended the work.

    If the same calls have the same effect in a different order, they lead to the same state. `called` is set if any
    call was made, not counting the calls in `task.done`.
    """

    found: frozenset[Applied]
    kept: Kept
    called: bool = False
    rejected: bool = False


@dataclass(frozen=True, eq=False)
class ProgramWorld:
    """The tools of a task.

    A call that fails finds nothing, and the field `error` of its observation gives the reason. If the tool exists and
    is not broken, a failed call still counts for the constraints, since a forbidden call is also forbidden with wrong
    arguments. After a reject every call fails.

    Raises:
        ValueError: the task does not have the form described in `model.Task`; raised by the methods only.
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
        """The state after the calls in `task.done`."""
        before = replayed(self.task)
        return Progress(before.found, before.kept)

    async def apply(self, state: State, call: ToolCall) -> tuple[Progress, Observation]:
        """The state after a call, and an observation with the found values in the fields of the tool's spec."""
        return self.applied(own_state(state, Progress), call)

    def applied(self, state: Progress, call: ToolCall) -> tuple[Progress, Observation]:
        """A synchronous version of `apply`."""
        if state.rejected:
            return state, _failed("the work was ended by a reject")
        if call.tool == REJECT:
            return replace(state, rejected=True), Observation({"status": "rejected"})
        tool = self.task.tools.get(call.tool)
        if tool is None:
            return state, _failed(f"there is no tool {_cut(call.tool)}")
        if call.tool == self.task.broken:  # such a call finds nothing and breaks no constraint
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
        """Whether all wanted facts are found and no constraint is broken.

        An unsolvable task must be rejected at once.
        """
        progress = own_state(state, Progress)
        if self.task.unsolvable is not None:
            return progress.rejected and not progress.called
        done = self._universe.wanted <= progress.found and not self._rules.unmet(progress.kept)
        return done and not progress.kept.broken and not progress.rejected

    def answer(self, state: State) -> str | None:
        """None, because facts are found but no question is answered."""
        return None

    def found_by(self, state: Progress, call: ToolCall) -> tuple[tuple[Applied, ...], str]:
        """The facts that a call finds, and the reason why the call fails (empty if it does not fail)."""
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
        """The facts of a type (None: any type) that a value may mean, with needed facts first."""
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
    """The facts that each call in `task.done` found (none if it failed), and the calls' effect on the constraints."""

    by_call: tuple[tuple[Applied, ...], ...]
    kept: Kept

    @property
    def found(self) -> frozenset[Applied]:
        """All facts that were found."""
        return frozenset(fact for facts in self.by_call for fact in facts)


def replayed(task: Task) -> Replayed:
    """Repeat the calls in `task.done`. An argument is a value, or refers to a step by its number, counted from 0.

    Raises:
        ValueError: a call that is not marked as failed would fail; for example, its tool is unknown, or an argument
            matches no fact known at that point.
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


# The facts that can be found in a task, and the calls that find them.


DEEPEST = 64
"""The maximum depth of functions applied to one another's output. Real tasks have a depth of about twelve."""


@dataclass(frozen=True)
class Action:
    """A tool call that finds at least one needed fact.

    `given` has the facts for the tool's typed parameters, in the order of `inputs_of` (None: any fact of the type will
    do). `finds` has the facts that the tool's parts find (None: a fact that is not needed).
    """

    tool: str
    given: tuple[Fact | None, ...]
    finds: tuple[Applied | None, ...]

    @cached_property
    def found(self) -> frozenset[Applied]:
        """The needed facts that the call finds."""
        return frozenset(fact for fact in self.finds if fact is not None)


def tools_by_name(tools: Iterable[TypedTool]) -> dict[str, TypedTool]:
    """A task's tools by name. Raises ValueError if two tools have the same name."""
    found: dict[str, TypedTool] = {}
    for tool in tools:
        if tool.spec.name in found:
            raise ValueError(f"two tools of the task have the name {tool.spec.name!r}")
        found[tool.spec.name] = tool
    return found


def wiring_of(tool: TypedTool) -> tuple[tuple[tuple[str, str | int], ...], ...]:
    """The sources of each part's inputs: ("parameter", name) or ("part", number of an earlier part)."""
    if tool.wiring or tool.extraneous:
        return tool.wiring
    names = [parameter.name for parameter in tool.spec.parameters]
    return (tuple(("parameter", name) for name in names[: len(tool.parts[0].inputs)]),)


def inputs_of(tool: TypedTool) -> dict[str, str]:
    """The types of the parameters that take facts, by name, in the order of the tool's parameters."""
    types = {
        str(source): part.inputs[place]
        for part, wires in zip(tool.parts, wiring_of(tool), strict=True)
        for place, (kind, source) in enumerate(wires)
        if kind == "parameter"
    }
    return {one.name: types[one.name] for one in tool.spec.parameters if one.name in types}


class Universe:
    """A task's functions, the facts that its goals need, and the calls that find these facts.

    Raises:
        ValueError: the task does not have the form described in `model.Task`; the message names the fault.
    """

    def __init__(self, task: Task) -> None:
        check(task)
        self.task = task
        self.functions = {part.name: part for tool in task.tools.values() for part in tool.parts}
        self.needed = _closure(task.wanted)
        self.wanted = frozenset(task.wanted)
        self._needed = frozenset(self.needed)
        self._known: dict[Fact, tuple[Applied, int]] = {}
        for fact in self.needed:
            self._applied(fact.function, fact.inputs)
        self._values: dict[Fact, str] = {}
        self._by_function: dict[str, list[Applied]] = {}
        for fact in self.needed:
            self._by_function.setdefault(fact.function, []).append(fact)

    def type_of(self, fact: Fact) -> str:
        """A fact's type; "" if no tool has the fact's function."""
        if isinstance(fact, Constant):
            return fact.type
        function = self.functions.get(fact.function)
        return function.output if function else ""

    def value(self, fact: Fact) -> str:
        """A fact's value. Raises KeyError if no tool has the fact's function."""
        if isinstance(fact, Constant):
            return fact.value
        if fact not in self._values:
            self._values[fact] = value(self.functions[fact.function], [self.value(part) for part in fact.inputs])
        return self._values[fact]

    @cached_property
    def actions(self) -> Mapping[str, tuple[Action, ...]]:
        """For each tool, the calls that find needed facts; a fact is found before the facts derived from it."""
        return {name: tuple(self._actions(tool)) for name, tool in self.task.tools.items()}

    def _actions(self, tool: TypedTool) -> Iterator[Action]:
        if tool.extraneous:
            return
        names, seen = tuple(inputs_of(tool)), set()
        for targets in product(*([*self._by_function.get(part.name, []), None] for part in tool.parts)):
            bound = _Binding(tool)
            if not all(bound.bind(place, target) for place, target in enumerate(targets) if target is not None):
                continue
            given = tuple(bound.parameters.get(name) for name in names)
            action = Action(tool.spec.name, given, tuple(self._finds(tool, bound.parameters)))
            if action.found and given not in seen:
                seen.add(given)
                yield action

    def _finds(self, tool: TypedTool, parameters: Mapping[str, Fact]) -> Iterator[Applied | None]:
        return (fact if fact in self._needed else None for fact in self.finds(tool, parameters))

    def finds(self, tool: TypedTool, parameters: Mapping[str, Fact]) -> list[Applied | None]:
        """The facts that the tool's parts find from the facts given as parameters.

        `parameters` has the fact for each parameter. A part's fact is None if one of the part's inputs is not known, or
        if the fact is deeper than `DEEPEST`.
        """
        found: list[Applied | None] = []
        for part, wires in zip(tool.parts, wiring_of(tool), strict=True):
            of = [parameters.get(str(source)) if kind == "parameter" else found[int(source)] for kind, source in wires]
            known = tuple(fact for fact in of if fact is not None)
            found.append(self._applied(part.name, known) if len(known) == len(of) else None)
        return found

    def _applied(self, function: str, inputs: tuple[Fact, ...]) -> Applied | None:
        """The fact that a function finds; None if it is deeper than `DEEPEST`.

        Equal facts are the same object, which makes comparisons fast.
        """
        fact = Applied(function, inputs)
        if fact not in self._known:
            depth = 1 + max((self._known.get(part, (part, 0))[1] for part in inputs), default=0)
            self._known[fact] = fact, depth
        known, depth = self._known[fact]
        return known if depth <= DEEPEST else None


class _Binding:
    """The facts that a tool must be given, and its parts must find, so that the bound parts find their facts."""

    def __init__(self, tool: TypedTool) -> None:
        self.tool, self.wiring = tool, wiring_of(tool)
        self.parameters: dict[str, Fact] = {}
        self.parts: dict[int, Fact] = {}

    def bind(self, place: int, fact: Fact) -> bool:
        """Bind a part to a fact. Returns whether the part can find the fact, given all earlier bindings."""
        if self.parts.setdefault(place, fact) != fact:
            return False
        if not isinstance(fact, Applied) or fact.function != self.tool.parts[place].name:
            return False
        for (kind, source), given in zip(self.wiring[place], fact.inputs, strict=True):
            if kind == "parameter":
                if self.parameters.setdefault(str(source), given) != given:
                    return False
            elif not self.bind(int(source), given):
                return False
        return True


def _closure(wanted: Iterable[Applied]) -> tuple[Applied, ...]:
    """The wanted facts and all facts from which they are derived, each once.

    A fact comes after the facts from which it is derived.
    """
    found: dict[Applied, None] = {}
    for goal in wanted:
        pending: list[tuple[Applied, bool]] = [(goal, False)]
        while pending:
            fact, opened = pending.pop()
            if fact in found:
                continue
            if opened:
                found[fact] = None
                continue
            pending.append((fact, True))
            pending += [(part, False) for part in reversed(fact.inputs) if isinstance(part, Applied)]
    return tuple(found)


def check(task: Task) -> None:
    """Raise ValueError if a task does not have the form described in `model.Task`."""
    if not task.goals:
        raise ValueError("the task has no goals")
    functions: dict[str, Function] = {}
    for name, tool in task.tools.items():
        if name != tool.spec.name:
            raise ValueError(f"the tool {tool.spec.name!r} is listed under the name {name!r}")
        if name in (REJECT, FINISH, GIVE_UP):
            raise ValueError(f"a tool of the task has the name {name!r}, which is reserved")
        _check_tool(tool)
        for part in tool.parts:
            if functions.setdefault(part.name, part) != part:
                raise ValueError(f"the function {part.name!r} has two definitions: {functions[part.name]} and {part}")
    for fact in _closure(task.wanted):
        function = functions.get(fact.function)
        if function and len(function.inputs) != len(fact.inputs):
            raise ValueError(
                f"{fact.function} takes {len(function.inputs)} facts, but a goal gives it {len(fact.inputs)}"
            )


def _check_tool(tool: TypedTool) -> None:
    name, names = tool.spec.name, [parameter.name for parameter in tool.spec.parameters]
    if len(set(names)) < len(names):
        raise ValueError(f"{name} has two parameters of the same name")
    if tool.extraneous:
        return
    if len(tool.spec.returns) != len(tool.parts):
        raise ValueError(f"{name} has {len(tool.parts)} parts, but {len(tool.spec.returns)} names of results")
    if len(tool.parts) > 1 and len(tool.wiring) != len(tool.parts):
        raise ValueError(f"{name} has {len(tool.parts)} parts, but wiring for {len(tool.wiring)}")
    for place, (part, wires) in enumerate(zip(tool.parts, wiring_of(tool), strict=True)):
        if len(wires) != len(part.inputs):
            raise ValueError(f"{name}: {part.name} takes {len(part.inputs)} facts, but {len(wires)} are wired")
        for kind, source in wires:
            if kind == "parameter" and source not in names:
                raise ValueError(f"{name}: {part.name} takes the parameter {source!r}, which the tool does not have")
            if kind == "part" and not (isinstance(source, int) and 0 <= source < place):
                raise ValueError(
                    f"{name}: {part.name} takes the output of part {source!r}, which is not an earlier part"
                )
            if kind not in ("parameter", "part"):
                raise ValueError(f"{name}: a wire must come from a parameter or a part, not from {kind!r}")


# The facts to which a call can refer: constants, and the facts found by earlier calls.


@dataclass
class Slot:
    """A call that was made or predicted, with the fields that it returns and the facts in them (None: not known).

    `failed` is set if the call was made before the prediction and failed.
    """

    tool: str
    fields: tuple[str, ...]
    facts: list[Fact | None]
    failed: bool = False


@dataclass
class Steps:
    """The facts that are known when a call is made: constants, and the facts found by all earlier calls.

    `slots` has the calls made before the prediction, followed by the predicted calls. `first` is the index of the first
    predicted call in `slots`, and `number` is the chain's own number for this call. `here` is the index of the current
    call.
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
        """Add the facts of the call in this slot, and move to the next call."""
        for fact in self.slots[place].facts:
            if fact is not None:
                self._add(fact, place)
        self.here = place + 1

    def calls_of(self, tool: str) -> list[int]:
        """The indices of a tool's calls in `slots`; letter case is ignored if no slot has exactly this name."""
        return self.by_name.get(tool) or self.by_tool.get(tool.casefold(), [])

    def _add(self, fact: Fact, place: int | None) -> None:
        self.by_type.setdefault(self.universe.type_of(fact), {}).setdefault(fact)
        value = None if is_stray(fact) else self.universe.value(fact)
        if value:
            self.by_value.setdefault(folded(value), {}).setdefault(fact)
        if place is not None:
            self.made_by.setdefault(fact, place)

    def described(self, fact: Fact) -> frozenset[str]:
        """The words that can name a fact, taken from its type, constants and function, and from its tool and field."""
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
    """A placeholder for a fact of which only the type is known, such as the result of a call with unknown arguments."""
    return Constant(type_, "", f"\0{place}.{number}")


def is_stray(fact: Fact) -> bool:
    """Whether a fact is a placeholder made by `stray`."""
    return isinstance(fact, Constant) and fact.name.startswith("\0")


def _told(fact: Fact) -> Iterator[str]:
    """The names and values of the constants from which a fact is derived."""
    pending, seen = [fact], {fact}
    for part in pending:  # the list grows during the loop
        if isinstance(part, Constant):
            if not is_stray(part):
                yield part.value
                yield part.name
        else:
            new = [one for one in dict.fromkeys(part.inputs) if one not in seen]
            seen.update(new)
            pending += new
