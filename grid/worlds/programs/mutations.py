"""Seeded mutations of reference chains.

The errors of a mutated chain are known, so that scorers and judges can be measured on such chains. The label of a
mutation follows from the change made to the chain; no scorer assigns it. A change may also break a tagged constraint.
Simple rules, which are separate from the scorer's, find the constraints that a change breaks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from grid.core.types import Chain, ChainCall, Json, TaskKind
from grid.core.util import derive_seed
from grid.text.references import PATTERN, reference
from grid.worlds.programs.model import Applied, Constraint, Fact, Task, TypedTool
from grid.worlds.programs.world import inputs_of, wiring_of

# A reference chain, split into steps that can be changed and written as a chain again, with references or in words.


_WORDS = (
    "the {field} returned from step {number}",
    "the {field} that step {number} gives",
    "{field} from the output of step {number}",
    "Result of step {number} ({field})",
)
_BY_TOOL = ("the {field} from {tool}", "the {field} that {tool} returned", "output of {tool}: {field}")


@dataclass(eq=False)
class Step:
    """A call that is being built. Steps are compared by identity, so references survive any reordering."""

    tool: str
    arguments: dict[str, Argument]
    misnamed: str = ""
    """The wrong name that is written in place of the tool's name; empty if the name is right."""


@dataclass(frozen=True)
class Output:
    """An argument that is a field of a step's result."""

    of: Step
    field: str


Argument: TypeAlias = "str | Output"


@dataclass
class Draft:
    """The steps of a chain: `done` has the earlier steps, `steps` those to be predicted, and `rest` the later steps."""

    task: Task
    done: list[Step]
    steps: list[Step]
    rest: list[Step] = field(default_factory=list)
    horizon: int | None = None

    def facts(self, step: Step) -> dict[str, Fact]:
        """The facts that a step finds, keyed by the names of the result's fields."""
        tool = self.task.tools[step.tool]
        found: list[Fact] = []
        for part, wires in zip(tool.parts, wiring_of(tool), strict=True):
            of = [
                self.fact(step.arguments[str(at)], tool, str(at)) if kind == "parameter" else found[int(at)]
                for kind, at in wires
            ]
            found.append(Applied(part.name, tuple(of)))
        return dict(zip(tool.spec.returns, found, strict=False))

    def fact(self, argument: Argument, tool: TypedTool, name: str) -> Fact:
        """The fact that an argument means."""
        if isinstance(argument, Output):
            return self.facts(argument.of)[argument.field]
        type_ = inputs_of(tool)[name]
        return next(one for one in self.task.constants if one.type == type_ and one.value == argument)

    def users(self, step: Step) -> list[Step]:
        """The steps to be predicted that use a step's result."""
        return [one for one in self.steps if any(output.of is step for output in outputs(one))]

    def types(self, step: Step) -> dict[str, str]:
        """The types of a step's arguments."""
        return inputs_of(self.task.tools[step.tool])

    def there(self, place: int) -> list[tuple[str, Argument]]:
        """Every argument that the step at index `place` can use, with its type."""
        told: list[tuple[str, Argument]] = [(one.type, one.value) for one in self.task.constants]
        for step in [*self.done, *self.steps[:place]]:
            tool = self.task.tools.get(step.tool)
            for name, part in zip(tool.spec.returns, tool.parts, strict=False) if tool else ():
                told.append((part.output, Output(step, name)))
        return told


def outputs(step: Step) -> Iterator[Output]:
    """The arguments of a step that are results of other steps."""
    return (one for one in step.arguments.values() if isinstance(one, Output))


def draft(task: Task, horizon: int | None) -> Draft:
    """The reference, split into earlier steps, steps to be predicted (`horizon` steps if step-wise), and the rest."""
    steps: list[Step] = []
    for name, arguments in task.reference:
        steps.append(Step(name, {key: _argument(value, steps) for key, value in arguments.items()}))
    begun = len(task.done)
    ends = len(steps) if horizon is None else begun + horizon
    return Draft(task, steps[:begun], steps[begun:ends], steps[ends:], horizon)


def _argument(value: Json, steps: Sequence[Step]) -> Argument:
    match = PATTERN.fullmatch(value) if isinstance(value, str) else None
    return Output(steps[int(match[1])], match[2]) if match else str(value)


def written(made: Draft, rng: random.Random, refusal: str | None = None) -> Chain:
    """The draft as a chain, in which results are named by references or in words.

    Without earlier calls, the steps are numbered from 0 or from 1. If an argument uses a step that was removed, the
    step is named by its tool or by a number that no step has. The result of an earlier call may be written as its
    value.
    """
    first = len(made.done) if made.done else rng.randrange(2)
    in_words = rng.random() < 0.5
    numbers = {id(step): first - len(made.done) + place for place, step in enumerate([*made.done, *made.steps])}
    values = {id(step): call.content for step, call in zip(made.done, made.task.done, strict=False)}
    counts: dict[str, int] = {}
    for step in [*made.done, *made.steps]:
        counts[_name(step)] = counts.get(_name(step), 0) + 1

    def text(argument: Argument, by: Step) -> Json:
        if not isinstance(argument, Output):
            return argument
        tool, number = _name(argument.of), numbers.get(id(argument.of))
        value = _value(values.get(id(argument.of), {}), argument.field)
        if value is not None and rng.random() < 0.5:
            return value
        if number is None and (tool in counts or rng.random() < 0.5):
            number = first + len(made.steps) + rng.randrange(3)
        if number is None or (in_words and counts.get(tool) == 1 and by.tool != tool and rng.random() < 0.5):
            if rng.random() < 0.3:
                return f"${tool}.{argument.field}"
            return rng.choice(_BY_TOOL).format(field=argument.field, tool=tool)
        if in_words:
            return rng.choice(_WORDS).format(field=argument.field, number=number)
        return reference(str(number), argument.field)

    calls = tuple(
        ChainCall(_name(step), {name: text(argument, step) for name, argument in step.arguments.items()})
        for step in made.steps
    )
    return Chain(calls, refusal, first=first)


def _name(step: Step) -> str:
    return step.misnamed or step.tool


def _value(content: Mapping[str, Json], name: str) -> str | None:
    found = content.get(name)
    return found if isinstance(found, str) else None


# Mutations that do not fit the query: they break constraints (E3), or add calls for goals that the query lacks (E1).


Made: TypeAlias = Iterator[tuple[str, str, Draft]]
"""The error, a description of the change, and the draft of the changed chain."""


def put(made: Draft, step: Step, rng: random.Random) -> None:
    """Insert the step at a random place; in a step-wise answer, replace the last call with it."""
    if made.horizon is None:
        made.steps.insert(rng.randint(0, len(made.steps)), step)
    else:
        made.steps[-1] = step


def call_forbidden_tool(made: Draft, rng: random.Random) -> Made:
    """Replace the tool of a call by a forbidden tool with the same function."""
    forbidden = {one.arguments[0] for one in made.task.constraints if one.kind == "forbid_tool"}
    for step in rng.sample(made.steps, len(made.steps)):
        own = made.task.tools[step.tool]
        for name in sorted(forbidden & made.task.tools.keys()):
            tool = made.task.tools[name]
            if tool.parts == own.parts and len(tool.parts) == 1 and tool.spec.name != step.tool:
                renamed = zip(tool.spec.parameters, own.spec.parameters, strict=False)
                step.arguments = {
                    new.name: step.arguments[old.name] for new, old in renamed if old.name in step.arguments
                }
                _rename_fields(made, step, own.spec.returns, tool.spec.returns)
                step.tool = name
                yield "E3", "the forbidden tool is called", made


def _rename_fields(made: Draft, step: Step, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    fields = dict(zip(old, new, strict=True))
    for user in made.steps:
        for name, one in user.arguments.items():
            if isinstance(one, Output) and one.of is step:
                user.arguments[name] = Output(step, fields[one.field])


def break_order(made: Draft, rng: random.Random) -> Made:
    """Move a call before the call that has to come first according to a constraint.

    The moved call does not use the results of calls that it then precedes.
    """
    for rule in made.task.constraints:
        if rule.kind != "before":
            continue
        firsts = [place for place, step in enumerate(made.steps) if rule.arguments[0] in _functions(made, step)]
        if not firsts or any(rule.arguments[0] in _functions(made, step) for step in made.done):
            continue
        for place in range(firsts[0] + 1, len(made.steps)):
            step, passed = made.steps[place], made.steps[firsts[0] : place]
            if rule.arguments[1] in _functions(made, step) and not any(one.of in passed for one in outputs(step)):
                made.steps.remove(step)
                made.steps.insert(firsts[0], step)
                yield "E3", "the required order is not kept", made
                return


def call_forbidden(made: Draft, rng: random.Random) -> Made:
    """Add a call of a forbidden function."""
    forbidden = {one.arguments[0] for one in made.task.constraints if one.kind == "forbid_function"}
    for step in _further(made, rng):
        if forbidden & set(_functions(made, step)) and _serves(made, step):
            yield "E3", "a forbidden function is called", made


def other_goal(made: Draft, rng: random.Random) -> Made:
    """Add a call for a goal that the query does not have."""
    for step in _further(made, rng):
        if not _serves(made, step):
            yield "E1", "a call for another goal", made


def _serves(made: Draft, step: Step) -> bool:
    serves = made.task.tools[step.tool].serves
    return not serves or not serves.isdisjoint(goal.tag for goal in made.task.goals)


def _further(made: Draft, rng: random.Random) -> Iterator[Step]:
    """For each useful tool in turn, add one call, if the reference does not apply any of the tool's functions."""
    kept = list(made.steps)
    used = {function for step in [*kept, *made.done, *made.rest] for function in _functions(made, step)}
    for tool in rng.sample(list(made.task.tools.values()), len(made.task.tools)):
        if tool.extraneous or used & {part.name for part in tool.parts}:
            continue
        step = Step(tool.spec.name, {})
        made.steps = list(kept)
        put(made, step, rng)
        place = made.steps.index(step)
        for name, type_ in made.types(step).items():
            options = [one for its, one in made.there(place) if its == type_]
            if options:
                step.arguments[name] = rng.choice(options)
        if len(step.arguments) == len(made.types(step)):
            yield step
    made.steps = kept


def _functions(made: Draft, step: Step) -> list[str]:
    return [part.name for part in made.task.tools[step.tool].parts]


def broken(made: Draft, whole: bool) -> set[str]:
    """{"E3"} if the predicted calls break a constraint; empty otherwise."""
    before = [function for step in made.done for function in _functions(made, step)]
    now = [function for step in made.steps for function in _functions(made, step)]
    tools = {step.tool for step in made.steps if not step.misnamed}
    return {"E3"} if any(_breaks(one, before, now, tools, whole) for one in made.task.constraints) else set()


def _breaks(rule: Constraint, before: list[str], now: list[str], tools: set[str], whole: bool) -> bool:
    first = rule.arguments[0]
    every = before + now
    if rule.kind == "forbid_tool":
        return first in tools
    if rule.kind == "forbid_function":
        return first in now
    if rule.kind == "require_function":
        return whole and first not in every
    if rule.kind == "at_most":
        return first in now and every.count(first) > int(rule.arguments[1])
    behind = every.index(first) if first in every else len(every)
    return any(
        function == rule.arguments[1] and place < behind for place, function in enumerate(every) if place >= len(before)
    )


_VAGUE = ("the appropriate input", "whatever fits best here", "the relevant details", "<to be filled in>")
_INVENTED = ("Zorvath Quillon", "QX-{number}", "Bramblewick {number}", "{number}.75", "zq-{number}@nowhere.example")
_UNKNOWN_TOOLS = ("universal_task_solver", "AutoCompleteEverything", "magic_answer_engine")


class Mutation(NamedTuple):
    """A changed chain, its errors, and a description of the change."""

    errors: frozenset[str]
    chain: Chain
    what: str


def mutations(task: Task, kind: TaskKind, seed: int) -> list[Mutation]:
    """One mutation of each sort that is possible for the task, in seeded order.

    Raises:
        ValueError: the case is unsolvable or has a broken tool, so there is no chain without errors to start from.
    """
    if kind.task_family in ("unsolvable", "broken"):
        raise ValueError(f"a case of the family {kind.task_family} has no chain that mutations could start from")
    sorts = _OF_BOTH + (_OF_PLANS if kind.horizon_k is None else _OF_STEPS)
    found = []
    for number, sort in enumerate(sorts):
        rng = random.Random(derive_seed(seed, "mutation", sort.__name__, number))
        made = next(sort(draft(task, kind.horizon_k), rng), None)
        if made is not None:
            error, what, changed = made
            refusal = "it cannot be carried out" if what == "refuses" else None
            errors = {error} | (broken(changed, kind.horizon_k is None) if changed.steps else set())
            found.append(Mutation(frozenset(errors), written(changed, rng, refusal), what))
    random.Random(derive_seed(seed, "mutations")).shuffle(found)
    return found


def right(task: Task, kind: TaskKind, seed: int) -> Chain:
    """The unchanged reference, written with references or in words."""
    return written(draft(task, kind.horizon_k), random.Random(derive_seed(seed, "right")))


def _wanted(made: Draft, step: Step) -> bool:
    return bool(set(made.facts(step).values()) & {goal.fact for goal in made.task.goals})


def _drop_final(made: Draft, rng: random.Random) -> Made:
    """Remove a step that finds a wanted fact, and whose result is not used by another step."""
    ends = [step for step in made.steps if _wanted(made, step) and not made.users(step)]
    if ends:
        made.steps.remove(rng.choice(ends))
        yield "E2", "a wanted fact is left out", made


def _end_early(made: Draft, rng: random.Random) -> Made:
    """Cut off the end of the chain."""
    if len(made.steps) > 1:
        del made.steps[rng.randrange(1, len(made.steps)) :]
        yield "E2", "the chain ends early", made


def _conclude(made: Draft, rng: random.Random) -> Made:
    """Cut a step-wise answer to fewer calls than requested."""
    del made.steps[rng.randrange(len(made.steps)) :]
    yield "E2", "fewer calls than requested", made


def _refuse(made: Draft, rng: random.Random) -> Made:
    made.steps.clear()
    yield "E2", "refuses", made


def _swap(made: Draft, rng: random.Random) -> Made:
    """Move a step before a step whose result it uses."""
    pairs = [(user, output.of) for user in made.steps for output in outputs(user) if output.of in made.steps]
    if pairs:
        user, used = rng.choice(pairs)
        made.steps.remove(user)
        made.steps.insert(made.steps.index(used), user)
        yield "E4", "a step comes before a step whose result it uses", made


def _refer_forward(made: Draft, rng: random.Random) -> Made:
    """Make a step refer to itself or to a later step."""
    places = [(place, name) for place, step in enumerate(made.steps) for name in made.types(step)]
    for place, name in rng.sample(places, len(places)):
        step = made.steps[place]
        later = made.steps[place:]
        target = rng.choice(later)
        fields = made.task.tools[target.tool].spec.returns
        if fields and name in step.arguments:
            step.arguments[name] = Output(target, rng.choice(fields))
            yield "E4", "a step refers to itself or to a later step", made


def _drop_between(made: Draft, rng: random.Random) -> Made:
    """Remove a step that finds no wanted fact, but whose result other steps use."""
    between = [step for step in made.steps if made.users(step) and not _wanted(made, step)]
    if between:
        made.steps.remove(rng.choice(between))
        yield "E4", "a step that others need is left out", made


def _repeat(made: Draft, rng: random.Random) -> Made:
    """Repeat a step at a later place."""
    if made.steps:
        place = rng.randrange(len(made.steps))
        step = made.steps[place]
        made.steps.insert(rng.randint(place + 1, len(made.steps)), Step(step.tool, dict(step.arguments)))
        yield "E4", "a step is repeated", made


def _repeat_done(made: Draft, rng: random.Random) -> Made:
    """Replace the last call by a repetition of an earlier call."""
    before = [step for step, call in zip(made.done, made.task.done, strict=True) if not call.failed]
    if before:
        step = rng.choice(before)
        made.steps[-1] = Step(step.tool, dict(step.arguments))
        yield "E4", "an earlier call is made again", made


def _skip_ahead(made: Draft, rng: random.Random) -> Made:
    """Replace the last call by a later call in the reference, one that needs a result which does not exist yet."""
    there = {id(step) for step in [*made.done, *made.steps[:-1]]}
    ahead = [step for step in made.rest if any(id(output.of) not in there for output in outputs(step))]
    if ahead:
        made.steps[-1] = rng.choice(ahead)
        yield "E4", "a step comes before the steps whose results it needs", made


def _places(made: Draft, rng: random.Random) -> Iterator[tuple[int, Step, str, str]]:
    """Every argument that means a fact, in random order, as step index, step, argument name and type."""
    places = [
        (place, step, name, type_)
        for place, step in enumerate(made.steps)
        for name, type_ in made.types(step).items()
        if name in step.arguments
    ]
    return iter(rng.sample(places, len(places)))


def _same(made: Draft, one: Argument, other: Argument, type_: str) -> bool:
    if isinstance(one, Output) and isinstance(other, Output):
        return made.facts(one.of)[one.field] == made.facts(other.of)[other.field]
    return one == other


def _wrong_fact(made: Draft, rng: random.Random) -> Made:
    """Give an argument a different fact of the right type."""
    for place, step, name, type_ in _places(made, rng):
        others = [
            one for its, one in made.there(place) if its == type_ and not _same(made, one, step.arguments[name], type_)
        ]
        taken = step.arguments[name]
        if others:
            step.arguments[name] = rng.choice(others)
            if made.horizon is None or not _needed_otherwise(made, step):
                yield "E5", "a wrong fact of the right type", made
            step.arguments[name] = taken


def _needed_otherwise(made: Draft, step: Step) -> bool:
    """Whether the changed step finds the same facts as a different step of the reference."""
    others = [one for one in [*made.done, *made.steps, *made.rest] if one is not step]
    return any(made.facts(one) == made.facts(step) for one in others)


def _wrong_type(made: Draft, rng: random.Random) -> Made:
    """Give an argument a fact of a different type."""
    for place, step, name, type_ in _places(made, rng):
        taken = step.arguments[name]
        same_text = {one for its, one in made.there(place) if its == type_ and isinstance(one, str)}
        others = [one for its, one in made.there(place) if its != type_ and one not in same_text and one != taken]
        if others:
            step.arguments[name] = rng.choice(others)
            yield "E5", "a fact of the wrong type", made


def _missing(made: Draft, rng: random.Random) -> Made:
    for _, step, name, _ in _places(made, rng):
        del step.arguments[name]
        yield "E5", "an argument is missing", made


def _vague(made: Draft, rng: random.Random) -> Made:
    for _, step, name, _ in _places(made, rng):
        step.arguments[name] = rng.choice(_VAGUE)
        yield "E5", "an argument is vague", made


def _extraneous(made: Draft, rng: random.Random) -> Made:
    """Add a call of an extraneous tool; in a step-wise answer, replace the last call by it."""
    tools = [tool for tool in made.task.tools.values() if tool.extraneous]
    if tools and (made.steps or not made.task.done):
        tool = rng.choice(tools)
        told = [one.value for one in made.task.constants] or ["now"]
        step = Step(tool.spec.name, {parameter.name: rng.choice(told) for parameter in tool.spec.parameters})
        put(made, step, rng)
        yield "E5", "an extraneous tool is called", made


def _misspell(made: Draft, rng: random.Random) -> Made:
    """Misspell a tool's name."""
    if not made.steps:
        return
    step = rng.choice(made.steps)
    name = step.tool
    place = rng.randrange(len(name) - 1) if len(name) > 1 else 0
    changed = [
        name.swapcase(),
        f"{name}_v2",
        name[:place] + name[place + 1 :],
        name[:place] + name[place + 1 : place + 2] + name[place] + name[place + 2 :],
    ]
    changed = [one for one in changed if one and one not in made.task.tools]
    if changed:
        step.misnamed = rng.choice(changed)
        yield "E6", "a tool's name is misspelt", made


def _no_such_tool(made: Draft, rng: random.Random) -> Made:
    if made.steps:
        rng.choice(made.steps).misnamed = rng.choice(_UNKNOWN_TOOLS)
        yield "E6", "a tool that does not exist is called", made


def _invent(made: Draft, rng: random.Random) -> Made:
    """Give an argument an invented value."""
    for _, step, name, _ in _places(made, rng):
        step.arguments[name] = rng.choice(_INVENTED).format(number=rng.randrange(10_000, 99_999))
        yield "E6", "an argument has an invented value", made


Sort = Callable[[Draft, random.Random], Made]
_OF_BOTH: tuple[Sort, ...] = (
    _refuse, _refer_forward, _wrong_fact, _wrong_type, _missing, _vague, _extraneous, _misspell, _no_such_tool, _invent,
    call_forbidden_tool, call_forbidden, other_goal,
)  # fmt: skip
_OF_PLANS: tuple[Sort, ...] = (_drop_final, _end_early, _swap, _drop_between, _repeat, break_order)
_OF_STEPS: tuple[Sort, ...] = (_conclude, _repeat_done, _skip_ahead, _swap)
