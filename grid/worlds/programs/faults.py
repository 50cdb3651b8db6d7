"""E1 to E6 by rule: what is wrong with a chain's calls (agent_planning_benchmark §3.3, C.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from grid.core.errors import one_line, shown_value
from grid.worlds.programs.attempts import Attempt, Reading
from grid.worlds.programs.model import Applied, Fact, TypedTool
from grid.worlds.programs.resolving import Is, Meaning
from grid.worlds.programs.rules import Kept, Rules
from grid.worlds.programs.steps import is_stray
from grid.worlds.programs.universe import Universe, inputs_of

GOAL, INCOMPLETE, CONSTRAINT, LOGIC, TOOL_USE, HALLUCINATION = ("E1", "E2", "E3", "E4", "E5", "E6")


class Fault(NamedTuple):
    """One thing that is wrong: the error, the call (None: the chain as a whole), and why. `slight`: of no weight."""

    error: str
    call: int | None
    why: str
    slight: bool = False


@dataclass
class Faults:
    """What is wrong with a chain's calls, found by going through them once.

    `there` is what was found before and what the calls attempted up to now, `said` what was left out, which is said
    once. `stepwise`: a call that finds nothing that
    is needed is an error too.
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
        """The wanted facts that no call attempts, in order."""
        tried = self.reading.found.union(*(attempt.attempted for attempt in self.reading.attempts))
        return [fact for fact in dict.fromkeys(self.universe.task.wanted) if fact not in tried]

    def flawless(self) -> frozenset[Applied]:
        """The needed facts that a call without any fault attempts."""
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
        """What is wrong with a call that attempts nothing that is needed and not attempted otherwise.

        `wrong`: something else is, so that it is no wonder.
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
        """What is wrong with an argument of a type where a fact is needed (None: any of the type will do)."""
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
    """The errors that hold."""
    return frozenset(fault.error for fault in faults)


def stepwise_grade(faults: list[Fault]) -> float:
    """The published rubric (agent_planning_benchmark C.1.1), by how many of the errors hold.

    The one very minor issue of 0.8 is an argument too many that the tool does not have, all others being right.
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
    """The scale of agent_planning_benchmark C.1.2 made a rule; `right` of the `needed` facts are found without fault.

    0.8: nine tenths are right and no goal, constraint or source of data is wrong. 0.6: three quarters are, or all but
    one and at least half. 0.4: at least two fifths. 0.2: any. 0.0: none.
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
    """The faults as lines, calls numbered from `first`; the last line says how many are left out."""
    where = ("" if fault.call is None else f"step {fault.call + first}: " for fault in faults)
    lines = list(dict.fromkeys(f"{one.error}: {place}{one.why}" for place, one in zip(where, faults, strict=True)))
    return (*lines[:most], f"and {len(lines) - most:,} more") if len(lines) > most else tuple(lines)
