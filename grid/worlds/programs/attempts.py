"""Which needed fact each call of a chain attempts (for the rules of `faults.py`).

A call attempts what its tool's function finds, with the inputs that fit best; each needed fact is attempted by one call
at most. What a call attempts counts as found behind it, so that its own fault is not found again in every call that
uses its result. A tool that does not exist is taken for the one of nearly the same name; else, like any call that
attempts nothing, for what later calls use its result as.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from grid.core.chains import ChainCall
from grid.worlds.programs.model import Applied, Fact, Task, TypedTool
from grid.worlds.programs.resolving import Is, Meaning, resolve
from grid.worlds.programs.steps import Slot, Steps, is_stray, stray
from grid.worlds.programs.universe import Action, Universe, inputs_of

_ALIKE = 0.8  # of two names' letters, for one to be the other misspelt
_PASSES = 4
_EXACT, _LATER, _AWAY_FITS, _UNKNOWN, _THERE = 1.0, 0.9, 0.6, 0.3, 0.05
_AWAY = (Is.LATER, Is.ABSENT)


@dataclass
class Attempt:
    """A call, what its typed arguments mean, and what it attempts.

    `tool` is None where none of its name is on offer; `taken` is the tool that it is taken for. `instead` is what later
    calls use the result as, or what the arguments of a tool that there is not are given for.
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
        """What the call finds, for those calls to be equal that do the same; None where it is not known."""
        return (self.call.name, self.raw) if self.raw and None not in self.raw else None

    @property
    def attempted(self) -> frozenset[Applied]:
        """The needed facts that the call attempts."""
        used = self.action or self.instead
        return used.found if used else frozenset()


def done_slots(task: Task, by_call: Sequence[Sequence[Fact]]) -> list[Slot]:
    """The calls made before, with what each found."""
    slots = []
    for call, found in zip(task.done, by_call, strict=True):
        tool = task.tools.get(call.tool)
        fields = tool.spec.returns if tool else ()
        facts: list[Fact | None] = list(found) or [None] * len(fields)
        slots.append(Slot(call.tool, fields, facts, failed=call.failed))
    return slots


class Reading:
    """The calls of a chain behind those made before, and what each attempts.

    `number` is the number by which the chain calls its first call's step. Of two calls that fit alike the first is
    taken, or the last with `late`.
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
        """Whether two calls find the same, so that either may be the wrong one."""
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
        """Read all calls in order; how well each call fits each action of its tool: (-fit, call, action)."""
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
                if not raw or not self.found.issuperset(raw):  # else it finds again what was found before
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
        """How well arguments fit what an action takes, from 0 to 1; a little more where all of that is there."""
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
            if given is None:  # any will do: what takes more of the arguments goes before
                return 0.0
            return _UNKNOWN if is_stray(meaning.fact) else 0.0
        if meaning.kind in _AWAY:  # of a call, so that it stands for no constant
            if meaning.step is not None and 0 <= meaning.step < len(self.slots):
                return _LATER if given in self.slots[meaning.step].facts else _UNKNOWN
            return _AWAY_FITS if isinstance(given, Applied) and given not in self.found else 0.0
        return _UNKNOWN

    def _assign(self, scores: Sequence[tuple[float, int, int]]) -> None:
        """Best fits first; of equal ones earlier calls, and what is needed earlier."""
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
        """What the call's result counts as: what it attempts, else what it finds, else something unknown."""
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
        """Take calls that attempt nothing for what later calls use them as."""
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
        """The action of any tool that takes all these facts and finds most of what is left."""
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
