"""Seeded mutations of reference chains, each of known errors: what a scorer or a judge is measured against.

A mutation is labelled by what was done to the chain, not by scoring it. Where a change may break a tagged constraint
besides, the constraints are counted by plain rules of their own here.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

from grid.core.chains import Chain, TaskKind
from grid.core.seeds import derive_seed
from grid.worlds.programs.breaking import (
    Made,
    break_order,
    broken,
    call_forbidden,
    call_forbidden_tool,
    other_goal,
    put,
)
from grid.worlds.programs.drafts import Argument, Draft, Output, Step, draft, outputs, written
from grid.worlds.programs.model import Task

_VAGUE = ("the appropriate input", "whatever fits best here", "the relevant details", "<to be filled in>")
_INVENTED = ("Zorvath Quillon", "QX-{number}", "Bramblewick {number}", "{number}.75", "zq-{number}@nowhere.example")
_UNKNOWN_TOOLS = ("universal_task_solver", "AutoCompleteEverything", "magic_answer_engine")


class Mutation(NamedTuple):
    """A changed chain, the errors that hold of it, and what was done."""

    errors: frozenset[str]
    chain: Chain
    what: str


def mutations(task: Task, kind: TaskKind, seed: int) -> list[Mutation]:
    """One mutation of each sort that the task allows, in seeded order.

    Raises:
        ValueError: the case is unsolvable or of a broken tool, and has no chain without errors to start from.
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
    """The reference, unchanged, with references or in words."""
    return written(draft(task, kind.horizon_k), random.Random(derive_seed(seed, "right")))


def _wanted(made: Draft, step: Step) -> bool:
    return bool(set(made.facts(step).values()) & {goal.fact for goal in made.task.goals})


def _drop_final(made: Draft, rng: random.Random) -> Made:
    """A last step goes, whose result the query asks for."""
    ends = [step for step in made.steps if _wanted(made, step) and not made.users(step)]
    if ends:
        made.steps.remove(rng.choice(ends))
        yield "E2", "a wanted fact is left out", made


def _end_early(made: Draft, rng: random.Random) -> Made:
    """The chain ends before its end."""
    if len(made.steps) > 1:
        del made.steps[rng.randrange(1, len(made.steps)) :]
        yield "E2", "the chain ends early", made


def _conclude(made: Draft, rng: random.Random) -> Made:
    """A step-wise answer with fewer calls than asked for."""
    del made.steps[rng.randrange(len(made.steps)) :]
    yield "E2", "fewer calls than asked for", made


def _refuse(made: Draft, rng: random.Random) -> Made:
    made.steps.clear()
    yield "E2", "refuses", made


def _swap(made: Draft, rng: random.Random) -> Made:
    """A step comes before one whose result it uses."""
    pairs = [(user, output.of) for user in made.steps for output in outputs(user) if output.of in made.steps]
    if pairs:
        user, used = rng.choice(pairs)
        made.steps.remove(user)
        made.steps.insert(made.steps.index(used), user)
        yield "E4", "a step comes before one that it uses", made


def _refer_forward(made: Draft, rng: random.Random) -> Made:
    """A step refers to itself or to a later one."""
    places = [(place, name) for place, step in enumerate(made.steps) for name in made.types(step)]
    for place, name in rng.sample(places, len(places)):
        step = made.steps[place]
        later = made.steps[place:]
        target = rng.choice(later)
        fields = made.task.tools[target.tool].spec.returns
        if fields and name in step.arguments:
            step.arguments[name] = Output(target, rng.choice(fields))
            yield "E4", "a step refers to itself or a later one", made


def _drop_between(made: Draft, rng: random.Random) -> Made:
    """A step goes whose result others use, and which nobody asks for."""
    between = [step for step in made.steps if made.users(step) and not _wanted(made, step)]
    if between:
        made.steps.remove(rng.choice(between))
        yield "E4", "a step that others need is left out", made


def _repeat(made: Draft, rng: random.Random) -> Made:
    """A step is made once more."""
    if made.steps:
        place = rng.randrange(len(made.steps))
        step = made.steps[place]
        made.steps.insert(rng.randint(place + 1, len(made.steps)), Step(step.tool, dict(step.arguments)))
        yield "E4", "a step is made twice", made


def _repeat_done(made: Draft, rng: random.Random) -> Made:
    """A call that was made before is made once more, in the place of the last one."""
    before = [step for step, call in zip(made.done, made.task.done, strict=True) if not call.failed]
    if before:
        step = rng.choice(before)
        made.steps[-1] = Step(step.tool, dict(step.arguments))
        yield "E4", "a call that was made before is made again", made


def _skip_ahead(made: Draft, rng: random.Random) -> Made:
    """In the place of the last call comes one that needs what no call found."""
    there = {id(step) for step in [*made.done, *made.steps[:-1]]}
    ahead = [step for step in made.rest if any(id(output.of) not in there for output in outputs(step))]
    if ahead:
        made.steps[-1] = rng.choice(ahead)
        yield "E4", "a step comes before those that it needs", made


def _places(made: Draft, rng: random.Random) -> Iterator[tuple[int, Step, str, str]]:
    """Every argument that stands for a fact, in any order: place, step, name, type."""
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
    """Another fact of the right type."""
    for place, step, name, type_ in _places(made, rng):
        others = [
            one for its, one in made.there(place) if its == type_ and not _same(made, one, step.arguments[name], type_)
        ]
        taken = step.arguments[name]
        if others:
            step.arguments[name] = rng.choice(others)
            if made.horizon is None or not _needed_otherwise(made, step):
                yield "E5", "another fact of the right type", made
            step.arguments[name] = taken


def _needed_otherwise(made: Draft, step: Step) -> bool:
    """Whether the changed step is another one of the reference."""
    others = [one for one in [*made.done, *made.steps, *made.rest] if one is not step]
    return any(made.facts(one) == made.facts(step) for one in others)


def _wrong_type(made: Draft, rng: random.Random) -> Made:
    """A fact of another type."""
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
        yield "E5", "an argument says nothing definite", made


def _extraneous(made: Draft, rng: random.Random) -> Made:
    """A call of a tool that is of no use: one more, or the last of a step-wise answer."""
    tools = [tool for tool in made.task.tools.values() if tool.extraneous]
    if tools and (made.steps or not made.task.done):
        tool = rng.choice(tools)
        told = [one.value for one in made.task.constants] or ["now"]
        step = Step(tool.spec.name, {parameter.name: rng.choice(told) for parameter in tool.spec.parameters})
        put(made, step, rng)
        yield "E5", "a tool of no use is called", made


def _misspell(made: Draft, rng: random.Random) -> Made:
    """A tool's name is not quite right."""
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
        yield "E6", "a tool that there is not", made


def _invent(made: Draft, rng: random.Random) -> Made:
    """A value from nowhere."""
    for _, step, name, _ in _places(made, rng):
        step.arguments[name] = rng.choice(_INVENTED).format(number=rng.randrange(10_000, 99_999))
        yield "E6", "a value from nowhere", made


Sort = Callable[[Draft, random.Random], Made]
_OF_BOTH: tuple[Sort, ...] = (
    _refuse, _refer_forward, _wrong_fact, _wrong_type, _missing, _vague, _extraneous, _misspell, _no_such_tool, _invent,
    call_forbidden_tool, call_forbidden, other_goal,
)  # fmt: skip
_OF_PLANS: tuple[Sort, ...] = (_drop_final, _end_early, _swap, _drop_between, _repeat, break_order)
_OF_STEPS: tuple[Sort, ...] = (_conclude, _repeat_done, _skip_ahead, _swap)
