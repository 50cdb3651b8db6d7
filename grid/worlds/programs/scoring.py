"""Diagnoses a predicted chain by symbolic execution, without a judge (agent_planning_benchmark §3.3, C.1, C.4, C.6).

*Solvability over similarity*: a chain is right if it has no error, whatever its order and whatever tools it uses. In a
whole plan, a correct call is not an error if it finds a fact that is not needed. In a step-wise prediction each call
has to make progress, so a call that finds a fact that is not needed is E5.

E1: a call of a tool that serves none of the task's goals. E2: in a whole plan, a wanted fact that no call attempts; in
a step-wise prediction, an end before all wanted facts are found; a refusal although the task can be solved. E3: a
broken tagged constraint. E4: a call that uses a result which does not exist yet, will never exist, or comes from a
failed call; a call for which an earlier call was left out; a call that finds a known fact again. E5: an extraneous
tool; an argument that is missing, vague, of the wrong type, not the needed fact, or not one of the tool's; a call that
does not find what its result is used as. E6: a tool name that does not exist in exactly this form; an invented value; a
field that a step does not return.

An argument whose meaning cannot be resolved is E5, because the published rubric treats vague arguments in this way
(C.1.1). Unresolved arguments are also counted separately, so that a table can show how much depends on the resolver.
Unsolvable cases and cases with a broken tool have no errors and no grade.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

from grid.core.errors import one_line, shown_value
from grid.core.types import ALTER, OTHER, REFUSE, REPLACE, RETRY, Chain, ChainCall, TaskKind
from grid.text.answers import asks_back, declines, passes
from grid.worlds.programs.model import Applied, Fact, Kept, Rules, Task, TypedTool
from grid.worlds.programs.search import Is, Meaning, plan_cost, resolve
from grid.worlds.programs.world import Action, Slot, Steps, Universe, inputs_of, is_stray, replayed, stray

# Determines the needed fact that each call of a chain attempts.
#
# Of the facts that the function of a call's tool finds, the call attempts the one whose inputs fit its arguments best;
# each needed fact is attempted by at most one call. The attempted fact counts as found after the call, so that the
# call's fault is not reported again for every call that uses its result. A tool that does not exist counts as a tool
# with nearly the same name. If there is no such tool, or if a call attempts nothing, the call counts as finding the
# fact for which later calls use its result.


_ALIKE = 0.8  # minimum similarity at which one name counts as the other misspelt
_PASSES = 4
_EXACT, _LATER, _AWAY_FITS, _UNKNOWN, _THERE = 1.0, 0.9, 0.6, 0.3, 0.05
_AWAY = (Is.LATER, Is.ABSENT)


@dataclass
class Attempt:
    """A call, the meanings of its typed arguments, and the action that it attempts.

    `tool` is None if no tool has the call's name; `taken` is the tool to which the call is attributed. If the call
    attempts no `action`, `instead` may be the action whose result later calls expect from this call. For a tool that
    does not exist, `instead` may be the action that fits the arguments.
    """

    call: ChainCall
    tool: TypedTool | None
    taken: TypedTool | None
    meanings: Mapping[str, Meaning]
    action: Action | None = None
    instead: Action | None = None
    raw: tuple[Applied | None, ...] = ()

    @property
    def alike(self) -> tuple[str, tuple[Applied | None, ...]] | None:
        """The call's name and the facts that it finds, for comparing calls; None if these facts are not known."""
        return (self.call.name, self.raw) if self.raw and None not in self.raw else None

    @property
    def attempted(self) -> frozenset[Applied]:
        """The needed facts that the call attempts."""
        used = self.action or self.instead
        return used.found if used else frozenset()


def done_slots(task: Task, by_call: Sequence[Sequence[Fact]]) -> list[Slot]:
    """A slot for each earlier call, with the facts that the call found."""
    slots = []
    for call, found in zip(task.done, by_call, strict=True):
        tool = task.tools.get(call.tool)
        fields = tool.spec.returns if tool else ()
        facts: list[Fact | None] = list(found) or [None] * len(fields)
        slots.append(Slot(call.tool, fields, facts, failed=call.failed))
    return slots


class Reading:
    """The predicted calls of a chain, and the action that each call attempts.

    `number` is the chain's own number for its first step. If two calls fit an action equally well, the action goes to
    the earlier call or, with `late`, to the later call.
    """

    def __init__(
        self, universe: Universe, before: Sequence[Slot], calls: Sequence[ChainCall], number: int, late: bool = False
    ) -> None:
        self.late = late
        self.universe, self.before, self.calls, self.number = universe, list(before), calls, number
        self.found = frozenset(fact for slot in before for fact in slot.facts if isinstance(fact, Applied))
        names = {name.casefold(): name for name in universe.task.tools}
        close: dict[str, str] = {}
        self.tools, self.taken = [], []
        for call in calls:
            tool = universe.task.tools.get(call.name)
            if tool is None and call.name not in close:
                near = get_close_matches(call.name[:100].casefold(), names, 1, _ALIKE)
                close[call.name] = names[near[0]] if near else ""
            self.tools.append(tool)
            self.taken.append(tool or universe.task.tools.get(close.get(call.name, "")))
        self.slots = [self._slot(place) for place in range(len(calls))]
        self.attempts: list[Attempt] = []
        self._read()

    @property
    def twice(self) -> bool:
        """Whether two calls find the same facts, so that either call may be the superfluous one."""
        known = [attempt.alike for attempt in self.attempts if attempt.alike]
        return len(set(known)) < len(known)

    def _slot(self, place: int) -> Slot:
        tool = self.taken[place]
        if tool is None:
            return Slot(self.calls[place].name, (), [stray("", place)])
        types = [part.output for part in tool.parts] or [""] * len(tool.spec.returns)
        facts: list[Fact | None] = [stray(type_, place, number) for number, type_ in enumerate(types)]
        return Slot(self.calls[place].name, tool.spec.returns, facts)

    def _read(self) -> None:
        last: list[frozenset[Applied]] = []
        for _ in range(_PASSES):
            scores = self._pass()
            self._assign(scores)
            self._fill_slots()
            self._use_otherwise()
            now = [attempt.attempted for attempt in self.attempts]
            if now == last:
                return
            last = now

    def _pass(self) -> list[tuple[float, int, int]]:
        """Read all calls in order; return the fit of each call to each action of its tool, as (-fit, call, action)."""
        steps = Steps(self.universe, [*self.before, *self.slots], len(self.before), self.number)
        attempts, scores = [], []
        for place, call in enumerate(self.calls):
            taken = self.taken[place]
            if taken is None:
                meanings = {name: resolve(value, name, "", steps) for name, value in list(call.arguments.items())[:64]}
                attempts.append(Attempt(call, None, None, meanings))
            else:
                meanings = {
                    name: resolve(call.arguments.get(name), name, type_, steps)
                    for name, type_ in inputs_of(taken).items()
                }
                attempts.append(Attempt(call, self.tools[place], taken, meanings, raw=self._raw(taken, meanings)))
                actions = self.universe.actions[taken.spec.name]
                raw = attempts[-1].raw
                if not raw or not self.found.issuperset(raw):  # else it finds only known facts
                    fits = [self._fit(action, list(meanings.values()), steps) for action in actions]
                    scores += [(-fit, place, number) for number, fit in enumerate(fits)]
            if self.attempts:
                attempts[-1].action, attempts[-1].instead = self.attempts[place].action, self.attempts[place].instead
            self._fill(place, attempts[-1])
            steps.advance(len(self.before) + place)
        self.attempts = attempts
        return sorted(scores, key=lambda one: (one[0], -one[1] if self.late else one[1], one[2]))

    def _raw(self, tool: TypedTool, meanings: Mapping[str, Meaning]) -> tuple[Applied | None, ...]:
        given = {name: one.fact for name, one in meanings.items() if one.fact is not None and not is_stray(one.fact)}
        types = inputs_of(tool)
        fitting = {name: fact for name, fact in given.items() if self.universe.type_of(fact) == types[name]}
        return tuple(self.universe.finds(tool, fitting))

    def _fit(self, action: Action, meanings: Sequence[Meaning], steps: Steps) -> float:
        """The fit of arguments to the facts that an action takes, from 0 to 1.

        The result is slightly higher if all these facts have been found.
        """
        if not meanings:
            return _EXACT
        there = all(
            meaning.kind in _AWAY or not isinstance(fact, Applied) or fact in steps.made_by
            for fact, meaning in zip(action.given, meanings, strict=True)
        )
        return sum(map(self._fits, action.given, meanings)) / len(meanings) + _THERE * there

    def _fits(self, given: Fact | None, meaning: Meaning) -> float:
        if meaning.kind is Is.FACT and meaning.fact is not None:
            if meaning.fact == given:
                return _EXACT
            if given is None:  # any fact would do; actions that use more of the arguments take precedence
                return 0.0
            return _UNKNOWN if is_stray(meaning.fact) else 0.0
        if meaning.kind in _AWAY:  # the result of a call, so it does not mean a constant
            if meaning.step is not None and 0 <= meaning.step < len(self.slots):
                return _LATER if given in self.slots[meaning.step].facts else _UNKNOWN
            return _AWAY_FITS if isinstance(given, Applied) and given not in self.found else 0.0
        return _UNKNOWN

    def _assign(self, scores: Sequence[tuple[float, int, int]]) -> None:
        """Assign actions to calls, starting with the best fits.

        Among equal fits, earlier calls (with `late`, later calls) and earlier needed facts take precedence.
        """
        claimed = set(self.found)
        for attempt in self.attempts:
            attempt.action = attempt.instead = None
        for _, place, number in scores:
            attempt = self.attempts[place]
            if attempt.action is None and attempt.taken is not None:
                action = self.universe.actions[attempt.taken.spec.name][number]
                if not action.found <= claimed:
                    attempt.action = action
                    claimed |= action.found

    def _fill_slots(self) -> None:
        for place, attempt in enumerate(self.attempts):
            self._fill(place, attempt)

    def _fill(self, place: int, attempt: Attempt) -> None:
        """Set a call's resulting facts: those that the call attempts, else those that it finds, else unknown facts."""
        facts = self._slot(place).facts
        attempted = attempt.action.finds if attempt.action else (None,) * len(attempt.raw)
        for number, (fact, raw) in enumerate(zip(attempted, attempt.raw, strict=True)):
            found = fact if fact is not None else raw
            if found is not None:
                facts[number] = found
        if attempt.instead is not None:
            facts[: len(attempt.instead.finds)] = attempt.instead.finds
        self.slots[place].facts[:] = facts
        if attempt.instead is not None and attempt.instead.tool:
            self.slots[place].fields = self.universe.task.tools[attempt.instead.tool].spec.returns

    def _use_otherwise(self) -> None:
        """Count each call that attempts nothing as an attempt at the fact for which later calls use its result."""
        open_ = [fact for fact in self.universe.needed if fact not in self.found]
        claimed = {fact for attempt in self.attempts for fact in attempt.attempted}
        left = dict.fromkeys(fact for fact in open_ if fact not in claimed)
        if not left:
            return
        for attempt in self.attempts:
            if attempt.taken is None and not attempt.attempted:
                told = {meaning.fact for meaning in attempt.meanings.values()}
                self._take(attempt, self._asked(told, left), left)
        for attempt in self.attempts:
            given = attempt.action.given if attempt.action else ()
            for fact, meaning in zip(given, attempt.meanings.values(), strict=False):
                if isinstance(fact, Applied) and fact in left and meaning.step is not None:
                    used = self.attempts[meaning.step] if 0 <= meaning.step < len(self.attempts) else None
                    self._take(used, Action("", (), (fact,)), left)

    def _asked(self, told: set[Fact | None], left: Mapping[Applied, None]) -> Action | None:
        """The action that uses the most of the facts in `told` and no other facts, and finds only facts in `left`.

        The action may belong to any tool.
        """
        able = [
            action
            for actions in self.universe.actions.values()
            for action in actions
            if told.issuperset(action.given)
            and None not in action.given
            and action.given
            and action.found <= left.keys()
        ]
        return max(able, key=lambda action: (len(set(action.given)), len(action.found)), default=None)

    def _take(self, attempt: Attempt | None, action: Action | None, left: dict[Applied, None]) -> None:
        if attempt is not None and action is not None and not attempt.attempted:
            attempt.instead = action
            for fact in action.found:
                del left[fact]


_MOST_TWICE = 200  # maximum number of calls in a chain that is read in both ways


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on a chain.

    `grade` is one of GRADES, and `errors` is a subset of ERRORS; for unsolvable cases and broken tools, `grade` is None
    and `errors` is empty. `behaviour` is one of BEHAVIOURS if a tool is broken. `cost` is the sum of the calls' costs,
    or None if the task has no costs. `reasons` has a line for each fault, with the step (numbered as in the chain) and
    the cause; for unsolvable cases and broken tools, its first line says what the chain does.
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
    """The diagnosis of a predicted chain: whether it is right, and its faults.

    In a step-wise prediction only the first `kind.horizon_k` calls count.

    Raises:
        ValueError: the task does not have the form described in `model.Task`.
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
    return min(first, read(late=True), key=lambda faults: len(faults.found))  # either of two equal calls may be wrong


def _left_out(faults: Faults) -> list[Fault]:
    texts = {goal.fact: goal.text for goal in faults.universe.task.goals}
    return [Fault(INCOMPLETE, None, f"no call finds what is wanted: {texts[fact]}") for fact in faults.missing]


def _wanting(faults: Faults) -> str:
    return f"{len(faults.missing)} wanted facts are missing"


def _of_unsolvable(task: Task, kind: TaskKind, chain: Chain, cost: int | None) -> Diagnosis:
    """The diagnosis of an unsolvable case.

    A refusal without calls passes; if information is missing, a question also passes (C.6).
    """
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
    """The diagnosis of a case with a broken tool, based on the first predicted call (C.4)."""
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


# E1 to E6 by rules: the faults of a chain's calls (agent_planning_benchmark §3.3, C.1).


GOAL, INCOMPLETE, CONSTRAINT, LOGIC, TOOL_USE, HALLUCINATION = ("E1", "E2", "E3", "E4", "E5", "E6")


class Fault(NamedTuple):
    """A fault: its error, its call (None for the whole chain), and its reason. `slight` marks a very minor issue."""

    error: str
    call: int | None
    why: str
    slight: bool = False


@dataclass
class Faults:
    """The faults of a chain's calls, found in one pass.

    `there` has the facts that were given, found earlier, or attempted by the calls so far. A needed fact that no
    earlier call finds is reported once; `said` has the facts reported so far. If `stepwise` is set, a call that finds
    nothing needed is also an error.
    """

    universe: Universe
    reading: Reading
    rules: Rules
    kept: Kept
    stepwise: bool
    found: list[Fault] = field(default_factory=list)
    there: set[Fact] = field(default_factory=set)
    said: set[Fact] = field(default_factory=set)
    extraneous: int = 0
    unresolved: int = 0

    def __post_init__(self) -> None:
        self.tags = {goal.tag for goal in self.universe.task.goals}
        self.there |= {*self.universe.task.constants, *self.reading.found}
        for place, attempt in enumerate(self.reading.attempts):
            before = self.kept.broken
            self._keep(attempt)
            broken = self.rules.texts(self.kept.broken - before)
            self.found += (Fault(CONSTRAINT, place, f"breaks: {text}") for text in broken)
            self.found += (
                Fault(error, place, why, slight) for error, why, slight in self._of_call(attempt, bool(broken))
            )
            self.there |= {fact for fact in self.reading.slots[place].facts if fact is not None and not is_stray(fact)}

    @property
    def missing(self) -> list[Applied]:
        """The wanted facts that no call attempts, in the order of the goals."""
        tried = self.reading.found.union(*(attempt.attempted for attempt in self.reading.attempts))
        return [fact for fact in dict.fromkeys(self.universe.task.wanted) if fact not in tried]

    def flawless(self) -> frozenset[Applied]:
        """The needed facts that calls without any fault try to find."""
        flawed = {fault.call for fault in self.found}
        right = [one for place, one in enumerate(self.reading.attempts) if place not in flawed]
        return frozenset(fact for attempt in right for fact in attempt.attempted)

    def _keep(self, attempt: Attempt) -> None:
        functions = [part.name for part in attempt.taken.parts] if attempt.taken else []
        if attempt.instead is not None:
            tool = self.universe.task.tools.get(attempt.instead.tool)
            of = [part.name for part in tool.parts] if tool else [fact.function for fact in attempt.attempted]
            functions = of if attempt.tool is None else functions
        self.kept = self.rules.after(self.kept, attempt.call.name, functions)

    def _of_call(self, attempt: Attempt, breaks: bool) -> Iterator[tuple[str, str, bool]]:
        name = one_line(attempt.call.name, 80)
        tool, taken = attempt.tool, attempt.taken
        if tool is None:
            yield HALLUCINATION, f"there is no tool {name}", False
            if taken is None or taken.extraneous:
                self.unresolved += sum(one.kind is Is.VAGUE for one in attempt.meanings.values())
                return
        if tool and tool.extraneous:
            self.extraneous += 1
            yield TOOL_USE, f"{name} is of no use for anything that is asked", False
            return
        wrong = list(self._of_arguments(attempt, taken)) if taken else []
        yield from wrong
        if attempt.action is not None and attempt.action.found <= self.there:
            yield LOGIC, f"{name} finds again what is already there", False
        elif attempt.action is None and tool is not None:
            yield from self._of_no_attempt(attempt, tool, breaks or bool(wrong))

    def _of_no_attempt(self, attempt: Attempt, tool: TypedTool, wrong: bool) -> Iterator[tuple[str, str, bool]]:
        """The faults of a call that attempts no needed fact, or only facts that other calls attempt.

        `wrong` is set if the call already has a different fault, which explains why it attempts nothing.
        """
        serves, name = tool.serves, tool.spec.name
        if serves and not serves & self.tags:
            yield GOAL, f"{name} serves {', '.join(sorted(serves)[:5])}, which nobody asks for", False
        elif attempt.raw and all(fact is not None and fact in self.there for fact in attempt.raw):
            yield LOGIC, f"{name} finds again what is already there", False
        elif attempt.instead is not None:
            yield TOOL_USE, f"{name} does not find what its result is used as", False
        elif self.stepwise and not wrong:
            yield TOOL_USE, f"{name} finds nothing that is needed", False

    def _of_arguments(self, attempt: Attempt, tool: TypedTool) -> Iterator[tuple[str, str, bool]]:
        known = {parameter.name for parameter in tool.spec.parameters}
        for name in list(attempt.call.arguments)[:64]:
            if name not in known and attempt.call.arguments[name] not in (None, ""):
                yield TOOL_USE, f"{tool.spec.name} has no argument {one_line(name, 80)}", True
        types = inputs_of(tool)
        given = attempt.action.given if attempt.action else (None,) * len(types)
        for (name, type_), fact in zip(types.items(), given, strict=True):
            meaning = attempt.meanings[name]
            self.unresolved += meaning.kind is Is.VAGUE
            value = attempt.call.arguments.get(name)
            written = one_line(value, 80) if isinstance(value, str) else shown_value(value)
            for error, why in self._of_argument(meaning, type_, fact):
                yield error, f"{name}={written}: {why}", False

    def _of_argument(self, meaning: Meaning, type_: str, needed: Fact | None) -> Iterator[tuple[str, str]]:
        """The faults of an argument.

        `needed` is the fact that the call needs as this argument; if None, any fact of the type will do.
        """
        left_out = isinstance(needed, Applied) and needed not in self.there and needed not in self.said
        if meaning.kind is Is.FACT:
            if needed is not None and meaning.fact == needed:
                return
            own = self.universe.type_of(meaning.fact) if meaning.fact is not None else ""
            if left_out:
                yield LOGIC, f"no call before finds the {type_} that is needed here"
            if own != type_ and not (own == "" and needed is None):
                yield TOOL_USE, f"a {own or 'result of no use'}, where a {type_} is needed"
            elif needed is not None and not left_out:
                yield TOOL_USE, f"another {type_} than the one needed"
        elif meaning.kind in (Is.LATER, Is.ABSENT, Is.FAILED):
            yield LOGIC, meaning.kind.value
        elif meaning.kind in (Is.NO_FIELD, Is.INVENTED):
            yield HALLUCINATION, meaning.kind.value
            if left_out:
                yield LOGIC, f"no call before finds the {type_} that is needed here"
        elif left_out:
            yield LOGIC, f"no call before finds the {type_} that is needed here"
        else:
            yield TOOL_USE, meaning.kind.value
        if left_out and needed is not None:
            self.said.add(needed)


def errors_of(faults: list[Fault]) -> frozenset[str]:
    """The set of errors among the faults."""
    return frozenset(fault.error for fault in faults)


def stepwise_grade(faults: list[Fault]) -> float:
    """The grade in the published rubric (agent_planning_benchmark C.1.1), from the number of different errors.

    A chain gets 0.8 if its only fault is an argument that the tool does not have, which is a very minor issue in the
    rubric.
    """
    errors = errors_of(faults)
    major, minor = len(errors & {GOAL, CONSTRAINT, HALLUCINATION}), len(errors & {LOGIC, TOOL_USE})
    if not errors:
        return 1.0
    if major > 1:
        return 0.0
    if major or (INCOMPLETE in errors and minor):
        return 0.2
    if INCOMPLETE in errors or minor > 1:
        return 0.4
    return 0.8 if len(faults) == 1 and faults[0].slight else 0.6


def holistic_grade(faults: list[Fault], right: int, needed: int) -> float:
    """The grade on the scale of agent_planning_benchmark C.1.2, computed by rules.

    `right` is the number of the `needed` facts that are found without fault. 1.0: there is no error. 0.8: at least nine
    tenths are right, and there is no E1, E3 or E6. 0.6: at least three quarters are right, or at least half are right
    and only one is not right. 0.4: at least two fifths are right. 0.2: at least one is right. 0.0: none is right.
    """
    errors = errors_of(faults)
    if not errors:
        return 1.0
    share = right / needed if needed else 1.0
    if share >= 0.9 and not errors & {GOAL, CONSTRAINT, HALLUCINATION}:
        return 0.8
    if share >= 0.75 or (needed - right == 1 and share >= 0.5):
        return 0.6
    return 0.4 if share >= 0.4 else 0.2 if right else 0.0


def told(faults: list[Fault], first: int, most: int = 40) -> tuple[str, ...]:
    """The faults as lines, with calls numbered from `first`. If lines are left out, the last line says how many."""
    where = ("" if fault.call is None else f"step {fault.call + first}: " for fault in faults)
    lines = list(dict.fromkeys(f"{one.error}: {place}{one.why}" for place, one in zip(where, faults, strict=True)))
    return (*lines[:most], f"and {len(lines) - most:,} more") if len(lines) > most else tuple(lines)
