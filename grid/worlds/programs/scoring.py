"""A predicted chain diagnosed by symbolic execution, without a judge (agent_planning_benchmark §3.3, C.1, C.4, C.6).

*Solvability over similarity*: a chain is right if no error holds, however it is ordered and whatever tools it uses.
Calls that find what nobody needs, and are right in themselves, are no error in a whole plan; in a step-wise prediction,
where each call has to advance, they are E5.

E1: a call of a tool that serves none of the task's goals. E2: a wanted fact that no call attempts (whole plan), or an
end before all are found (step-wise); a refusal where the task can be solved. E3: a tagged constraint broken. E4: what
is not there yet is used, or never comes, or came of a failed call; a call before it was left out; or what is there is
found again. E5: an extraneous tool, an argument missing, of the wrong type, another fact than needed, or vague. E6: no
tool of this exact name, a value from nowhere, or a field that a step does not return.

An argument that nothing resolves is E5, as the published rubric says of vague ones (C.1.1), and counted apart, so that
a table can tell how much rests on the resolver. Unsolvable cases and those of broken tools have no errors or grade.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grid.core.chains import ALTER, OTHER, REFUSE, REPLACE, RETRY, Chain, ChainCall, TaskKind
from grid.text.refusals import asks_back, declines, passes
from grid.worlds.programs.attempts import Reading, done_slots
from grid.worlds.programs.faults import (
    CONSTRAINT,
    INCOMPLETE,
    Fault,
    Faults,
    errors_of,
    holistic_grade,
    stepwise_grade,
    told,
)
from grid.worlds.programs.model import Task
from grid.worlds.programs.rules import Rules
from grid.worlds.programs.search import plan_cost
from grid.worlds.programs.universe import Universe
from grid.worlds.programs.world import replayed

_MOST_TWICE = 200  # calls of a chain that is read both ways


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on a chain.

    `grade` is of GRADES, `errors` of ERRORS; None and empty for unsolvable cases and broken tools. `behaviour` is of
    BEHAVIOURS where a tool is broken. `cost` is the sum of the calls' costs, None where the task has none. `reasons`
    says of each error where and why, steps counted as the chain does.
    """

    correct: bool
    grade: float | None
    errors: frozenset[str]
    behaviour: str | None
    refused: bool
    extraneous_calls: int
    unresolved_arguments: int
    cost: int | None
    reasons: tuple[str, ...]


def diagnose(task: Task, kind: TaskKind, chain: Chain) -> Diagnosis:
    """Whether a predicted chain is right, and what is wrong with it.

    Of a step-wise prediction the first `kind.horizon_k` calls count.

    Raises:
        ValueError: the task is not built as `model.Task` says.
    """
    calls = chain.calls if kind.horizon_k is None else chain.calls[: kind.horizon_k]
    cost = plan_cost(task, (call.name for call in calls))
    if kind.task_family == "unsolvable":
        return _of_unsolvable(task, kind, chain, cost)
    if kind.task_family == "broken":
        return _of_broken(task, chain, cost)
    faults = _faults(task, calls, chain.first, kind.horizon_k is not None)
    found = list(faults.found)
    if kind.horizon_k is None:
        found += _left_out(faults)
    elif faults.missing and len(calls) < kind.horizon_k:
        found.append(Fault(INCOMPLETE, None, f"ends after {len(calls)} of {kind.horizon_k} calls: {_wanting(faults)}"))
    if not faults.missing or (kind.horizon_k is None and calls):
        unmet = faults.rules.texts(faults.rules.unmet(faults.kept))
        found += (Fault(CONSTRAINT, None, f"not kept: {text}") for text in unmet)
    if declines(chain) and INCOMPLETE not in errors_of(found):
        found.append(Fault(INCOMPLETE, None, "refuses what can be carried out"))
    errors = errors_of(found)
    needed = [fact for fact in faults.universe.needed if fact not in faults.reading.found]
    grade = (
        holistic_grade(found, len(faults.flawless()), len(needed)) if kind.horizon_k is None else stepwise_grade(found)
    )
    reasons = told(found, chain.first)
    if len(calls) < len(chain.calls):
        reasons = (*reasons, f"{len(chain.calls) - len(calls)} calls behind those asked for do not count")
    return Diagnosis(
        not errors, grade, errors, None, declines(chain), faults.extraneous, faults.unresolved, cost, reasons
    )


def _faults(task: Task, calls: Sequence[ChainCall], number: int, stepwise: bool) -> Faults:
    before, universe = replayed(task), Universe(task)
    slots = done_slots(task, before.by_call)

    def read(late: bool) -> Faults:
        reading = Reading(universe, slots, calls, number, late)
        return Faults(universe, reading, Rules(task.constraints), before.kept, stepwise)

    first = read(late=False)
    if not first.found or not first.reading.twice or len(calls) > _MOST_TWICE:
        return first
    return min(first, read(late=True), key=lambda faults: len(faults.found))  # of two equal calls either is the slip


def _left_out(faults: Faults) -> list[Fault]:
    texts = {goal.fact: goal.text for goal in faults.universe.task.goals}
    return [Fault(INCOMPLETE, None, f"no call finds what is wanted: {texts[fact]}") for fact in faults.missing]


def _wanting(faults: Faults) -> str:
    return f"{len(faults.missing)} wanted facts are missing"


def _of_unsolvable(task: Task, kind: TaskKind, chain: Chain, cost: int | None) -> Diagnosis:
    """Passed by an explicit refusal without calls; where information is missing, by a question back too (C.6)."""
    refused, passed = declines(chain), passes(chain, kind.unsolvable_kind)
    extraneous = sum(1 for call in chain.calls if call.name in task.tools and task.tools[call.name].extraneous)
    if passed:
        why = "asks for what is missing" if asks_back(chain) and not refused else "refuses"
    elif chain.calls:
        why = f"makes {len(chain.calls):,} calls though the task cannot be solved: {task.unsolvable}"
    else:
        why = "makes no call and does not say that the task cannot be solved"
    return Diagnosis(passed, None, frozenset(), None, refused, extraneous, 0, cost, (why,))


def _of_broken(task: Task, chain: Chain, cost: int | None) -> Diagnosis:
    """By the first predicted call (C.4)."""
    faults = _faults(task, chain.calls[:1], chain.first, stepwise=True)
    behaviour = _behaviour(task, chain, faults)
    correct = behaviour in (REPLACE, ALTER)
    why = told(faults.found, chain.first) if behaviour == OTHER else ()
    return Diagnosis(
        correct,
        None,
        frozenset(),
        behaviour,
        declines(chain),
        faults.extraneous,
        faults.unresolved,
        cost,
        (behaviour, *why),
    )


def _behaviour(task: Task, chain: Chain, faults: Faults) -> str:
    if not chain.calls:
        return REFUSE if declines(chain) else OTHER
    name = chain.calls[0].name
    if name == task.replacement:
        return REPLACE
    if name == task.broken:
        return RETRY
    return ALTER if not faults.found and faults.reading.attempts[0].attempted else OTHER
