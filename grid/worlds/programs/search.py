"""Exact search: whether a task is solvable, and at what minimum cost (agent_planning_benchmark §3.1, B.5).

States are sets of found facts. If a fact is found only by single tools (tools with one part), every solution needs one
call for it, and finding it early rules out no solution. The cheapest call for this fact is therefore made as soon as
possible, without a choice. The search chooses only which call finds a fact that a composite (a tool with several
parts) can also find, and which witnesses are made. A *witness* is a call that no goal needs; it is made because a
constraint requires it, or because it finds another input for a composite. Of the facts that witnesses find, only the
types matter, since no needed fact is derived from these facts.
"""

from __future__ import annotations

import heapq
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import count
from math import inf

from grid.core.types import UNKNOWN
from grid.text.references import PATTERN
from grid.worlds.equivalence import equivalent
from grid.worlds.programs.model import BEFORE, Applied, Constant, Fact, Kept, Rules, Task, bag, describes, empty, folded
from grid.worlds.programs.world import Action, Steps, Universe, inputs_of, is_stray, replayed, stray

_MOST_STATES = 100_000


@dataclass(frozen=True)
class _State:
    found: int
    kept: Kept
    types: frozenset[str]


@dataclass(frozen=True)
class _Move:
    """A call: the facts that it `needs`, the `types` of which it needs one fact each, and the facts that it `finds`."""

    tool: str
    cost: int
    needs: int
    types: frozenset[str]
    finds: int
    functions: tuple[str, ...]
    gains: frozenset[str]


def derivable(task: Task) -> str | None:
    """The reason why a task cannot be solved; None if it can be solved.

    A solution finds all wanted facts and keeps the constraints. The calls in `task.done` have already been made. The
    broken tool is not used.

    Raises:
        ValueError: the task does not have the form described in `model.Task`, or has too many states to search.
    """
    search = _Search(task, lambda name: 1)
    if search.least() is not None:
        return None
    free = _Search(replace(task, constraints=()), lambda name: 1)
    if free.least() is None:
        return free.first_missing()
    guilty = [one for place, one in enumerate(task.constraints) if _solvable_without(task, place)] or task.constraints
    texts = "; ".join(one.text or f"{one.kind} {' '.join(one.arguments)}" for one in guilty)
    return f"no calls satisfy all constraints: {texts}"


def least_cost(task: Task) -> int | None:
    """The minimum total cost of calls that solve the task, not counting the calls in `task.done`.

    None if the task has no costs or cannot be solved. Raises the same errors as `derivable`, and also ValueError if a
    useful tool has a cost below 0, or has no cost although another useful tool has one.
    """
    costs = {name: tool.cost for name, tool in task.tools.items() if not tool.extraneous}
    if all(cost is None for cost in costs.values()):
        return None
    wrong = [name for name, cost in costs.items() if cost is None or cost < 0]
    if wrong:
        raise ValueError(
            "in a task with costs, the cost of each tool must be a whole number of 0 or more; "
            f"{wrong[0]} has {costs[wrong[0]]}"
        )
    return _Search(task, lambda name: costs[name] or 0).least()


def plan_cost(task: Task, names: Iterable[str]) -> int | None:
    """The total cost of calls. Calls of tools that do not exist cost nothing. None if the task has no costs."""
    if all(tool.cost is None for tool in task.tools.values()):
        return None
    return sum(task.tools[name].cost or 0 for name in names if name in task.tools)


def _solvable_without(task: Task, place: int) -> bool:
    rest = task.constraints[:place] + task.constraints[place + 1 :]
    return _Search(replace(task, constraints=rest), lambda name: 1).least() is not None


class _Search:
    def __init__(self, task: Task, cost_of: Callable[[str], int]) -> None:
        self.task, self.universe, self.rules = task, Universe(task), Rules(task.constraints)
        self.bit = {fact: 1 << place for place, fact in enumerate(self.universe.needed)}
        self.told = frozenset(task.constants)
        self.goal = sum(self.bit[fact] for fact in self.universe.wanted)
        tools = {name: tool for name, tool in task.tools.items() if name != task.broken and not tool.extraneous}
        moves = [self._move(action, cost_of(name)) for name in tools for action in self.universe.actions[name]]
        self.moves = [move for move in moves if move is not None and self._allowed(move)]
        self.everything = sum(self.bit.values())
        self.finding: dict[int, list[_Move]] = {bit: [] for bit in self.bit.values()}
        for move in sorted(self.moves, key=lambda move: move.cost):
            for bit in self.finding:
                if bit & move.finds:
                    self.finding[bit].append(move)
        self.rests: dict[int, float] = {}
        self.forced = self._forced()
        self.chosen = [move for move in self.moves if not any(move.finds == bits for bits in self.forced)]
        self.found_types: dict[int, frozenset[str]] = {}
        witnesses = [self._witness(name, cost_of(name)) for name in tools]
        self.witnesses = self._of_use([move for move in witnesses if self._allowed(move)])
        self.by_type = bool(self.witnesses) or any(move.types for move in self.moves)

    def _of_use(self, witnesses: list[_Move]) -> list[_Move]:
        """The witnesses that a constraint may require, and those that find inputs of other calls."""
        asked = {type_ for move in self.moves for type_ in move.types}
        kept: list[_Move] = []
        more = True
        while more:
            new = [
                move
                for move in witnesses
                if move not in kept and (asked & move.gains or not self.rules.watched.isdisjoint(move.functions))
            ]
            kept += new
            asked |= {type_ for move in new for type_ in move.types}
            more = bool(new)
        return kept

    def _move(self, action: Action, cost: int) -> _Move | None:
        tool = self.task.tools[action.tool]
        types = list(inputs_of(tool).values())
        if any(isinstance(fact, Constant) and fact not in self.told for fact in action.given):
            return None
        return _Move(
            action.tool,
            cost,
            sum({self.bit[fact] for fact in action.given if isinstance(fact, Applied)}),
            frozenset(types[place] for place, fact in enumerate(action.given) if fact is None),
            sum(self.bit[fact] for fact in action.found),
            tuple(part.name for part in tool.parts),
            frozenset(part.output for part in tool.parts),
        )

    def _witness(self, name: str, cost: int) -> _Move:
        tool = self.task.tools[name]
        functions = tuple(part.name for part in tool.parts)
        gains = frozenset(part.output for part in tool.parts)
        return _Move(name, cost, 0, frozenset(inputs_of(tool).values()), 0, functions, gains)

    def _allowed(self, move: _Move) -> bool:
        """Whether the call can keep the constraints if all calls that have to precede it have been made."""
        everything = Kept(self.rules.watched, (0,) * len(self.rules.limits))
        return not self.rules.after(everything, move.tool, move.functions).broken

    def _forced(self) -> dict[int, _Move]:
        """For each fact that only single tools find, the cheapest call that finds it; the keys are the facts' bits."""
        found: dict[int, _Move] = {}
        shared = 0
        for move in self.moves:
            if len(move.functions) > 1:
                shared |= move.finds
            elif move.finds not in found or move.cost < found[move.finds].cost:
                found[move.finds] = move
        return {bit: move for bit, move in found.items() if not bit & shared}

    def least(self) -> int | None:
        """The minimum cost of a solution, or None if there is no solution.

        This is an A* search; `_rest` never overestimates and is consistent.
        """
        number = count()
        heap: list[tuple[float, float, int, int, _State]] = []

        def push(state: _State, cost: int) -> None:
            rest = self._rest(state.found)
            if rest < inf:
                heapq.heappush(heap, (cost + rest, rest, next(number), cost, state))

        for state, spent in self._closed(self._start()):
            push(state, spent)
        done: set[_State] = set()
        while heap:
            *_, cost, state = heapq.heappop(heap)
            if state in done:
                continue
            done.add(state)
            if len(done) > _MOST_STATES:
                raise ValueError(f"the task has more than {_MOST_STATES:,} states, too many to search")
            if state.found & self.goal == self.goal and not self.rules.unmet(state.kept):
                return cost
            for after, more in self._next(state):
                if after not in done:
                    push(after, cost + more)
        return None

    def _rest(self, found: int) -> float:
        """The minimum cost of calls that find all needed facts not in `found`, if calls could be made in any order.

        Every solution finds all needed facts. For each of these facts in turn, one of the calls that find it is chosen.
        """
        pending = [found]
        while pending:
            mask = pending[-1]
            if mask in self.rests:
                pending.pop()
                continue
            first = ~mask & (mask + 1)
            if first > self.everything:
                self.rests[mask] = 0
                continue
            after = {mask | move.finds: move.cost for move in reversed(self.finding[first])}
            unknown = [one for one in after if one not in self.rests]
            if unknown:
                pending += unknown
            else:
                self.rests[mask] = min((cost + self.rests[one] for one, cost in after.items()), default=inf)
        return self.rests[found]

    def _start(self) -> _State:
        """The state after the calls in `task.done`."""
        before = replayed(self.task)
        bits = sum(self.bit.get(fact, 0) for fact in before.found)
        strange = frozenset(self.universe.type_of(fact) for fact in before.found if fact not in self.bit)
        return _State(bits, before.kept, strange)

    def _next(self, state: _State) -> Iterator[tuple[_State, int]]:
        there = self._types(state)
        able = [
            move
            for move in self.chosen
            if move.finds & ~state.found and move.needs & ~state.found == 0 and move.types <= there
        ]
        for move in able:
            new = move.finds & ~state.found
            more = (one.finds & ~state.found for one in able if one.tool == move.tool)
            if not any(new | one == one != new for one in more):  # another call of the tool finds the same and more
                yield from self._after(state, move)
        uncalled = self.rules.watched - state.kept.called
        for move in self.witnesses:
            gains = not move.gains <= there or not uncalled.isdisjoint(move.functions)
            if gains and move.types <= there:
                yield from self._after(state, move)

    def _after(self, state: _State, move: _Move) -> Iterator[tuple[_State, int]]:
        kept = self.rules.after(state.kept, move.tool, move.functions)
        if not kept.broken:
            for after, more in self._closed(self._made(state, move, kept)):
                yield after, move.cost + more

    def _made(self, state: _State, move: _Move, kept: Kept) -> _State:
        made = _State(state.found | move.finds, kept, state.types)
        return replace(made, types=state.types | (move.gains - self._types(made))) if self.by_type else made

    def _closed(self, state: _State) -> Iterator[tuple[_State, int]]:
        """The state after all calls that need no choice, and the cost of these calls.

        Yields nothing if these calls break a constraint.
        """
        if state.kept.broken:
            return
        spent, moved = 0, True
        while moved:
            moved = False
            for bit, move in self.forced.items():
                if not bit & ~state.found or move.needs & ~state.found:
                    continue
                kept = self.rules.after(state.kept, move.tool, move.functions)
                if any(self.rules.constraints[place].kind != BEFORE for place in kept.broken):
                    return
                if not kept.broken:  # otherwise another call has to come first
                    state, moved, spent = self._made(state, move, kept), True, spent + move.cost
        yield state, spent

    def _types(self, state: _State) -> frozenset[str]:
        """The types of the facts that have been found or given."""
        if state.found not in self.found_types:
            found = {self.universe.type_of(fact) for fact, bit in self.bit.items() if bit & state.found}
            self.found_types[state.found] = frozenset(found | {constant.type for constant in self.told})
        return self.found_types[state.found] | state.types

    def first_missing(self) -> str:
        """A sentence that names the first needed fact that no call finds, and gives the reason."""
        makers: Mapping[Applied, list[_Move]] = {
            fact: [move for move in self.moves if move.finds & bit] for fact, bit in self.bit.items()
        }
        for fact in self.universe.needed:
            untold = [part for part in fact.inputs if isinstance(part, Constant) and part not in self.told]
            if untold:
                return f"{untold[0].name or untold[0].type} is not told, and no tool finds it"
            if not makers[fact]:
                return f"no working tool finds the result of {fact.function}"
        return "the calls that find the wanted facts wait for each other"


# Finds the fact that a predicted call's argument (a value, a reference, or words) means (agent_planning_benchmark §3.1,
# C.1.1).
#
# An argument is read in this order, and its meaning is never guessed:
#
# 1. a value: the value of a constant in the query or of a fact found earlier; facts of the parameter's type come first;
# 2. `OUTPUT_FROM_STEP_i.field`, or `$Tool.field` if the tool was called once before;
# 3. words that name steps ("the frames from step 2", "the previous step"), counted according to `Chain.first`;
# 4. words that name a tool ("the total from CalculateBill");
# 5. words that describe a fact: of the facts of the parameter's type, the fact that shares more of the words than every
#    other fact (all words that the other fact shares, and at least one more); or the only fact of this type.
#
# If several steps or calls are named, the parameter's type and the words decide among their results. Anything else is
# VAGUE if it consists of words, and INVENTED if it is a value, since every value must have a source.


_MOST_LEAVES = 64  # maximum number of scalars that are read from a list or an object
_LONGEST = 2_000  # maximum number of characters that are read of an argument
_MOST_ALIKE = 200  # maximum number of facts of one type among which words can decide
_DOTTED = re.compile(r"(\$)?[{<\[(]*\$?([A-Za-z_][\w-]*)\.([A-Za-z_]\w*)[}>\])]*")
_STEP = re.compile(r"\b(?:OUTPUT_FROM_)?(?:step|call)s?[\s_#]*(?:no\.?|number)?[\s_#]*(\d{1,6})\b", re.IGNORECASE)
_MORE = re.compile(r"\s*(?:,|and|&|,\s*and)\s*(?:step\s*)?#?(\d{1,6})\b", re.IGNORECASE)
_PREVIOUS = re.compile(r"\b(?:previous|preceding|last|prior) (?:step|call|tool|output|result)\b", re.IGNORECASE)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL = re.compile(rf"\b({'|'.join(_ORDINALS)}) (?:step|call)\b", re.IGNORECASE)


class Is(Enum):
    """The kinds of meaning that an argument can have."""

    FACT = "a fact that is there"
    LATER = "the result of a step that comes later, or of the step itself"
    ABSENT = "the result of a step that there is not"
    FAILED = "the result of a call that failed"
    NO_FIELD = "a field that the step does not return"
    VAGUE = "words that say nothing definite"
    SEVERAL = "several values in one"
    MISSING = "nothing"
    INVENTED = "a value from nowhere"


@dataclass(frozen=True)
class Meaning:
    """An argument's meaning. Only the kind FACT has a `fact`.

    `step` is the index of the named call among the predicted calls (below 0 for a call made before the prediction), or
    None if the argument names no call.
    """

    kind: Is
    fact: Fact | None = None
    step: int | None = None


def resolve(argument: object, name: str, type_: str, steps: Steps) -> Meaning:
    """The meaning of an argument of the call at `steps.here`, whose parameter takes a fact of the type `type_`.

    A list or object with a single value counts as that value. A list or object with several values counts as SEVERAL,
    or as INVENTED if any value is invented.
    """
    leaves = list(_leaves(argument))
    if not leaves:
        return Meaning(Is.MISSING)
    if len(leaves) > 1:
        kinds = {_resolve(leaf, name, type_, steps).kind for leaf in leaves}
        return Meaning(Is.INVENTED if Is.INVENTED in kinds else Is.SEVERAL)
    return _resolve(leaves[0], name, type_, steps)


def _leaves(argument: object) -> Iterator[str | int | float | bool]:
    """The scalars in an argument, without nulls and empty texts; at most `_MOST_LEAVES`."""
    pending, found = [argument], 0
    for value in pending:  # the list grows during the loop
        if isinstance(value, list | tuple):
            pending += value[:_MOST_LEAVES]
        elif isinstance(value, Mapping):
            pending += list(value.values())[:_MOST_LEAVES]
        elif isinstance(value, str | int | float) and value != "":
            yield value
            found += 1
        if found >= _MOST_LEAVES or len(pending) > _MOST_LEAVES * _MOST_LEAVES:
            return


def _resolve(value: str | int | float | bool, name: str, type_: str, steps: Steps) -> Meaning:
    text = " ".join(value[:_LONGEST].split()) if isinstance(value, str) else str(value)
    if empty(text):
        return Meaning(Is.MISSING)
    meant = _by_value(value, text, name, type_, steps)
    if meant is not None or not isinstance(value, str):
        return Meaning(Is.FACT, meant) if meant is not None else Meaning(Is.INVENTED)
    if text.casefold() == UNKNOWN:
        return Meaning(Is.VAGUE)
    return _by_reference(text, type_, steps) or _by_words(text, name, type_, steps)


def _by_value(value: object, text: str, name: str, type_: str, steps: Steps) -> Fact | None:
    """The fact that has this value. A fact of the parameter's type takes precedence over facts of other types."""
    same = steps.by_value.get(folded(text), {})
    own = steps.by_type.get(type_, {})
    for fact in same:
        if fact in own:
            return fact
    if len(own) <= _MOST_ALIKE and isinstance(value, str | int | float | bool):
        for fact in own:
            if not is_stray(fact) and equivalent(steps.universe.value(fact), value, name):
                return fact
    return next(iter(same), None)


def _by_reference(text: str, type_: str, steps: Steps) -> Meaning | None:
    """The meaning of the references, steps or tools named in a text; None if the text names none of these."""
    exact = {(int(step) if step.isdecimal() and len(step) <= 6 else None, name) for step, name in PATTERN.findall(text)}
    if exact:
        meanings = [
            _field_of(None if step is None else _place(step, steps), name, type_, steps) for step, name in exact
        ]
        return _one_of(meanings, type_, text, steps)
    dotted = _DOTTED.fullmatch(text)
    if dotted and (dotted[1] or dotted[2].casefold() in steps.by_tool or dotted[2] in steps.universe.task.tools):
        return _of_tool(dotted[2], dotted[3], type_, text, steps)
    places: list[int | None] = list(dict.fromkeys(_steps_named(text, steps)))
    tools = _tools_named(text, steps)
    if places and tools:
        of_tools: list[int | None] = [place for tool in tools for place in steps.calls_of(tool)[:_MOST_ALIKE]]
        places = [place for place in places if place in of_tools] or of_tools or places
    if places:
        return _one_of([_field_of(place, "", type_, steps, text) for place in places], type_, text, steps)
    if tools:
        return _one_of([_of_tool(tool, "", type_, text, steps) for tool in tools], type_, text, steps)
    return None


def _place(number: int, steps: Steps) -> int | None:
    """The slot of the step with this number; None if there is no such step."""
    place = number - steps.number + steps.first
    return place if 0 <= place < len(steps.slots) else None


def _steps_named(text: str, steps: Steps) -> Iterator[int | None]:
    for match in _STEP.finditer(text):
        yield _place(int(match[1]), steps)
        more = _MORE.match(text, match.end())
        while more:
            yield _place(int(more[1]), steps)
            more = _MORE.match(text, more.end())
    for match in _ORDINAL.finditer(text):
        yield _place(_ORDINALS.index(match[1].lower()) + steps.number, steps)
    if _PREVIOUS.search(text):
        yield steps.here - 1 if steps.here else None


def _tools_named(text: str, steps: Steps) -> list[str]:
    """The names of called or offered tools that occur in a text, spelt as in the text."""
    if not re.search(r"\w_\w|[a-z][A-Z]", text):
        return []  # no word is a tool's name
    words = dict.fromkeys(re.findall(r"[A-Za-z_][\w-]*", text))
    offered = {name.casefold() for name in steps.universe.task.tools}
    return [word for word in words if word.casefold() in offered or word.casefold() in steps.by_tool]


def _of_tool(tool: str, name: str, type_: str, text: str, steps: Steps) -> Meaning:
    """The meaning of words that name a tool: the result of the tool's call.

    If the tool was called several times, the words decide between the calls.
    """
    places = steps.calls_of(tool)
    if not places:
        known = any(tool.casefold() == one.casefold() for one in steps.universe.task.tools)
        return Meaning(Is.ABSENT if known else Is.INVENTED)
    before = places[: bisect_left(places, steps.here)]
    if not before:
        return Meaning(Is.LATER, step=places[0] - steps.first)
    if len(before) > _MOST_ALIKE:
        return Meaning(Is.VAGUE)
    return _one_of([_field_of(place, name, type_, steps, text) for place in before], type_, text, steps)


def _field_of(place: int | None, name: str, type_: str, steps: Steps, text: str = "") -> Meaning:
    """A step's fact in field `name`, else in a field named in `text`, else of the type `type_`, else its only fact."""
    if place is None:
        return Meaning(Is.ABSENT)
    number, slot = place - steps.first, steps.slots[place]
    if place >= steps.here:
        return Meaning(Is.LATER, step=number)
    if slot.failed:
        return Meaning(Is.FAILED, step=number)
    if not slot.fields:  # the fields of a tool that does not exist are not known
        return Meaning(Is.FACT, slot.facts[0], number) if slot.facts else Meaning(Is.ABSENT, step=number)
    if name and name not in slot.fields:
        return Meaning(Is.NO_FIELD, step=number)
    given = dict(zip(slot.fields, slot.facts, strict=True))
    said = [one for one in given if one == name or (not name and re.search(rf"\b{re.escape(one)}\b", text))]
    of_type = [one for one, fact in given.items() if fact is not None and steps.universe.type_of(fact) == type_]
    for names in (said, of_type, list(given)):
        if len(names) == 1:
            fact = given[names[0]]
            return Meaning(Is.FACT, fact if fact is not None else stray("", place), number)
    return Meaning(Is.VAGUE, step=number)


def _one_of(meanings: Sequence[Meaning], type_: str, text: str, steps: Steps) -> Meaning:
    """The fact, among several steps' results, that has the parameter's type.

    If several facts have this type, it is the fact that `text` describes.
    """
    unlike = list(dict.fromkeys(meanings))
    if len(unlike) == 1:
        return unlike[0]
    facts = dict.fromkeys(one.fact for one in unlike if one.fact is not None)
    fit = [fact for fact in facts if steps.universe.type_of(fact) == type_]
    if len(fit) > 1:
        chosen = _most_alike(bag(text), fit, steps)
        return Meaning(Is.VAGUE) if chosen is None else Meaning(Is.FACT, chosen)
    if fit:
        return Meaning(Is.FACT, fit[0])
    return next((one for one in unlike if one.kind is not Is.FACT), Meaning(Is.SEVERAL))


def _by_words(text: str, name: str, type_: str, steps: Steps) -> Meaning:
    """The meaning of a description: a fact of the parameter's type."""
    facts = list(steps.by_type.get(type_, {}))
    if len(facts) > _MOST_ALIKE:
        return Meaning(Is.VAGUE)
    words = bag(text)
    known = bag(name) | bag(type_) | frozenset().union(*(steps.described(fact) for fact in facts))
    if not describes(text, words, known):
        nested = [fact for fact in facts if not is_stray(fact) and _nested(words, bag(steps.universe.value(fact)))]
        return Meaning(Is.FACT, nested[0]) if len(nested) == 1 else Meaning(Is.INVENTED)
    chosen = _most_alike(words, facts, steps)
    return Meaning(Is.VAGUE) if chosen is None else Meaning(Is.FACT, chosen)


def _most_alike(words: frozenset[str], facts: Sequence[Fact], steps: Steps) -> Fact | None:
    """The fact that shares more of the `words` than every other: all that the other shares, and at least one more.

    A single fact is also meant by words that only refer to a result. None if no fact is meant.
    """
    shared = {fact: words & steps.described(fact) for fact in facts}
    for fact, mine in shared.items():
        if mine and all(mine > other for one, other in shared.items() if one != fact):
            return fact
    return facts[0] if len(facts) == 1 and not (words - _REFERRING) else None


_REFERRING = bag("value result output returned obtained retrieved earlier previous above found computed")


def _nested(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether one set of words contains the other, and both have the same words with digits."""
    numbers = [{word for word in words if any(char.isdigit() for char in word)} for words in (one, other)]
    return bool(one) and bool(other) and (one <= other or other <= one) and numbers[0] == numbers[1]
