"""From a recipe to its task: whole, cut off behind some calls, with useless tools, a broken one, or unsolvable."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from grid.core.chains import TaskKind
from grid.core.seeds import derive_seed
from grid.datasets.apb_synthetic.costs import with_costs
from grid.datasets.apb_synthetic.draft import Draft, shuffled
from grid.datasets.apb_synthetic.records import Recipe
from grid.datasets.apb_synthetic.stock import Category, categories, frames, slots
from grid.datasets.apb_synthetic.tools import instead_of, useless
from grid.worlds.programs.model import Constraint, Done, Function, Task
from grid.worlds.programs.values import value_of

NOTE = "Every tool has a cost, which its description tells. The least total cost is wanted."


@dataclass(frozen=True)
class Built:
    """A case: its task, what it is called in the tables, and the solvable task that it was made from."""

    recipe: Recipe
    task: Task
    kind: TaskKind
    solvable: Task


def build(recipe: Recipe) -> Built:
    """The recipe's case. The same recipe gives the same case."""
    draft = Draft(recipe, categories()[recipe.category], frames())
    rng = random.Random(derive_seed(recipe.seed, "apb_synthetic", recipe.base, "disturbed"))
    solvable = draft.task()
    task = solvable
    match recipe.task_family:
        case "extraneous":
            task = _with_useless(draft, recipe.n_extraneous or 0, rng)
        case "broken":
            task = _broken(draft, recipe.place or 0, rng)
        case "costs":
            task = with_costs(draft, rng)
        case "unsolvable":
            task = _unsolvable(draft, rng)
    if recipe.task_family in ("stepwise", "stages", "extraneous") and recipe.k is not None:
        task = replace(task, done=tuple(_done(draft, task))[: recipe.place], horizon=recipe.k)
    kind = TaskKind(recipe.task_family, recipe.category, recipe.k, recipe.stage, recipe.n_extraneous, recipe.unsolvable)
    return Built(recipe, task, kind, task if recipe.task_family != "unsolvable" else solvable)


def _done(draft: Draft, task: Task) -> Iterator[Done]:
    """The reference's calls as made, with what they found."""
    known = draft.functions
    for step, (name, arguments) in zip(draft.program.steps, task.reference, strict=True):
        field = task.tools[name].spec.returns[0]
        yield Done(name, arguments, {field: value_of(draft.facts[step.variable], known)})


def _with_useless(draft: Draft, count: int, rng: random.Random) -> Task:
    """So many useless tools among the others; more of them hold the fewer."""
    names = rng.sample(list(draft.category.useless), len(draft.category.useless))[:count]
    added = {name: useless(draft.category, name, draft.recipe.items) for name in names}
    task = draft.task()
    return replace(task, tools=shuffled({**task.tools, **added}, rng))


def _broken(draft: Draft, place: int, rng: random.Random) -> Task:
    """The call of a place has failed; another tool has its function."""
    task = draft.task()
    function = draft.program.steps[place].function
    other = instead_of(draft.category, function, draft.recipe.items)
    done = tuple(_done(draft, task))[: place + 1]
    failed = replace(done[-1], content={"error": rng.choice(draft.frames.errors)}, failed=True)
    return replace(
        task,
        tools=shuffled({**task.tools, other.spec.name: other}, rng),
        reference=tuple(draft.reference(place, other)),
        done=(*done[:-1], failed),
        horizon=1,
        broken=function,
        replacement=other.spec.name,
    )


def _unsolvable(draft: Draft, rng: random.Random) -> Task:
    task = replace(draft.task(), unsolvable=draft.recipe.unsolvable, reference=())
    told, types = draft.program.told, draft.category.types
    match draft.recipe.unsolvable:
        case "attachment_missing":
            kept = tuple(one for one in task.constants if not types[one.type].file)
            gone = frozenset(type_ for type_ in told.values() if types[type_].file)
            return replace(task, query=draft.query(files=False), constants=kept, missing=gone)
        case "missing_information":
            used = {name for step in draft.program.steps for name in step.arguments}
            name = rng.choice([name for name, type_ in told.items() if types[type_].private and name in used])
            instead = {name: types[told[name]].private or ""}
            kept = tuple(one for one in task.constants if one != draft.constant(name))
            goals = tuple(
                replace(goal, text=draft.written(want.text, instead))
                for goal, want in zip(task.goals, draft.program.wants, strict=True)
            )
            return replace(
                task, query=draft.query(instead), constants=kept, goals=goals, missing=frozenset({told[name]})
            )
        case "tool_removal":
            function = rng.choice(draft.program.functions)
            text = rng.choice(draft.frames.removed).replace("{doing}", draft.category.functions[function][3])
            tools = {name: tool for name, tool in task.tools.items() if not _does(tool.parts, function)}
            return replace(task, query=draft.query(extra=text), tools=tools)
        case _:
            constraints = rng.choice(contradictions(draft, rng))
            return replace(
                task,
                query=draft.query(extra=constraints[0].text),
                constraints=(*task.constraints, *constraints),
            )


def _does(parts: Sequence[Function], function: str) -> bool:
    return any(part.name == function for part in parts)


# Constraints that no chain can keep to (agent_planning_benchmark B.4.3), each with its sentence.


def contradictions(draft: Draft, rng: random.Random) -> Sequence[tuple[Constraint, ...]]:
    """One of each way that the case allows: an order in a circle, too few calls, a needed function forbidden or down.

    All constraints of a way have its whole sentence.
    """
    frames, functions = draft.frames, draft.program.functions

    def said(texts: Sequence[str], **names: str) -> str:
        text = rng.choice(texts)
        for slot, function in names.items():
            text = text.replace("{" + slot + "}", draft.category.functions[function][3])
        return text

    one = rng.choice(functions)
    text, down = said(frames.forbidden, doing=one), said(frames.offline, doing=one)
    found: list[tuple[Constraint, ...]] = [
        (Constraint("forbid_function", (one,), text),),
        (Constraint("require_function", (one,), down), Constraint("forbid_function", (one,), down)),
    ]
    circles = [(first, then) for first in functions for then in functions if needs(draft.category, then, first)]
    if circles:
        first, then = rng.choice(circles)
        text = said(frames.cycle, first=first, then=then)
        found.append((Constraint("before", (then, first), text),))
    repeated = [name for name in functions if draft.count(name) > 1]
    if repeated:
        name = rng.choice(repeated)
        most = draft.count(name) - 1
        text = said(frames.too_few, doing=name).replace("{n}", frames.number_words[most])
        found.append((Constraint("at_most", (name, str(most)), text),))
    return found


def needs(category: Category, function: str, other: str) -> bool:
    """Whether every call of a function takes what only the other one finds."""
    for slot in slots(category.functions[function][0]):
        makers = [name for name, (_, gives, _, _) in category.functions.items() if slots(gives)[0].type == slot.type]
        if makers == [other] and category.types[slot.type].draw is None:
            return True
    return False
