"""What there is to find in a task, and by which calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from grid.core.types import FINISH, GIVE_UP, REJECT
from grid.worlds.programs.model import Applied, Constant, Fact, Function, Task, TypedTool
from grid.worlds.programs.values import value

DEEPEST = 64
"""Functions that are applied to one another's output; tasks have a dozen."""


@dataclass(frozen=True)
class Action:
    """A call of a tool that finds something needed.

    `given` are the facts that its typed parameters take, in the order of `inputs_of` (None: any of the type); `finds`
    what its parts find (None: nothing that is needed).
    """

    tool: str
    given: tuple[Fact | None, ...]
    finds: tuple[Applied | None, ...]

    @cached_property
    def found(self) -> frozenset[Applied]:
        """The needed facts that it finds."""
        return frozenset(fact for fact in self.finds if fact is not None)


def tools_by_name(tools: Iterable[TypedTool]) -> dict[str, TypedTool]:
    """A task's tools. Raises ValueError where two have one name."""
    found: dict[str, TypedTool] = {}
    for tool in tools:
        if tool.spec.name in found:
            raise ValueError(f"two tools of a task are called {tool.spec.name!r}")
        found[tool.spec.name] = tool
    return found


def wiring_of(tool: TypedTool) -> tuple[tuple[tuple[str, str | int], ...], ...]:
    """For each part where its inputs come from: ("parameter", name) or ("part", number of an earlier part)."""
    if tool.wiring or tool.extraneous:
        return tool.wiring
    names = [parameter.name for parameter in tool.spec.parameters]
    return (tuple(("parameter", name) for name in names[: len(tool.parts[0].inputs)]),)


def inputs_of(tool: TypedTool) -> dict[str, str]:
    """The parameters that take facts with their types, in the order of the tool's parameters."""
    types = {
        str(source): part.inputs[place]
        for part, wires in zip(tool.parts, wiring_of(tool), strict=True)
        for place, (kind, source) in enumerate(wires)
        if kind == "parameter"
    }
    return {one.name: types[one.name] for one in tool.spec.parameters if one.name in types}


class Universe:
    """A task's functions, the facts that its goals need, and the calls that find them.

    Raises:
        ValueError: the task is not built as `model.Task` says; the text names what is wrong.
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
        """A fact's type; "" where no tool has its function."""
        if isinstance(fact, Constant):
            return fact.type
        function = self.functions.get(fact.function)
        return function.output if function else ""

    def value(self, fact: Fact) -> str:
        """The value that stands for a fact. Raises KeyError where no tool has its function."""
        if isinstance(fact, Constant):
            return fact.value
        if fact not in self._values:
            self._values[fact] = value(self.functions[fact.function], [self.value(part) for part in fact.inputs])
        return self._values[fact]

    @cached_property
    def actions(self) -> Mapping[str, tuple[Action, ...]]:
        """By tool the calls that find something needed; what is made of other facts comes behind those."""
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
        """The facts that the tool's parts find of its parameters' facts.

        None where a parameter is not known, or functions are applied more than `DEEPEST` deep.
        """
        found: list[Applied | None] = []
        for part, wires in zip(tool.parts, wiring_of(tool), strict=True):
            of = [parameters.get(str(source)) if kind == "parameter" else found[int(source)] for kind, source in wires]
            known = tuple(fact for fact in of if fact is not None)
            found.append(self._applied(part.name, known) if len(known) == len(of) else None)
        return found

    def _applied(self, function: str, inputs: tuple[Fact, ...]) -> Applied | None:
        """A fact, equal ones as one object: to compare two would take as long as they are deep."""
        fact = Applied(function, inputs)
        if fact not in self._known:
            depth = 1 + max((self._known.get(part, (part, 0))[1] for part in inputs), default=0)
            self._known[fact] = fact, depth
        known, depth = self._known[fact]
        return known if depth <= DEEPEST else None


class _Binding:
    """What a composite's parameters and parts must be for its parts to find given facts."""

    def __init__(self, tool: TypedTool) -> None:
        self.tool, self.wiring = tool, wiring_of(tool)
        self.parameters: dict[str, Fact] = {}
        self.parts: dict[int, Fact] = {}

    def bind(self, place: int, fact: Fact) -> bool:
        """Whether the part can find the fact beside what is bound."""
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
    """The wanted facts and all that they are made from, each once and behind those that it is made from."""
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
    """Raise ValueError where a task is not built as `model.Task` says."""
    if not task.goals:
        raise ValueError("a task wants nothing: it has no goals")
    functions: dict[str, Function] = {}
    for name, tool in task.tools.items():
        if name != tool.spec.name:
            raise ValueError(f"the tool {tool.spec.name!r} stands under the name {name!r}")
        if name in (REJECT, FINISH, GIVE_UP):
            raise ValueError(f"a tool of a task is called {name!r}, which planners use otherwise")
        _check_tool(tool)
        for part in tool.parts:
            if functions.setdefault(part.name, part) != part:
                raise ValueError(f"the function {part.name!r} is two: {functions[part.name]} and {part}")
    for fact in _closure(task.wanted):
        function = functions.get(fact.function)
        if function and len(function.inputs) != len(fact.inputs):
            raise ValueError(f"{fact.function} takes {len(function.inputs)} facts, a goal gives it {len(fact.inputs)}")


def _check_tool(tool: TypedTool) -> None:
    name, names = tool.spec.name, [parameter.name for parameter in tool.spec.parameters]
    if len(set(names)) < len(names):
        raise ValueError(f"{name} has two parameters of one name")
    if tool.extraneous:
        return
    if len(tool.spec.returns) != len(tool.parts):
        raise ValueError(f"{name} has {len(tool.parts)} parts, and {len(tool.spec.returns)} names of what it returns")
    if len(tool.parts) > 1 and len(tool.wiring) != len(tool.parts):
        raise ValueError(f"{name} has {len(tool.parts)} parts, and wiring for {len(tool.wiring)}")
    for place, (part, wires) in enumerate(zip(tool.parts, wiring_of(tool), strict=True)):
        if len(wires) != len(part.inputs):
            raise ValueError(f"{name}: {part.name} takes {len(part.inputs)} facts, and {len(wires)} are wired")
        for kind, source in wires:
            if kind == "parameter" and source not in names:
                raise ValueError(f"{name}: {part.name} takes its parameter {source!r}, and it has none of that name")
            if kind == "part" and not (isinstance(source, int) and 0 <= source < place):
                raise ValueError(f"{name}: {part.name} takes the output of part {source!r}, which is no earlier one")
            if kind not in ("parameter", "part"):
                raise ValueError(f"{name}: wires come from a parameter or a part, not from {kind!r}")
