"""Exact search over what can be found: whether a task can be solved, and at what least cost (apb §3.1, B.5).

States are sets of found facts. A fact that single tools alone find has to be called for once in any solution, and
finding it early forbids nothing: so its cheapest call is made as soon as it can be, without a choice. Choices are left
where a composite finds a fact too, and where a call that no goal needs (a *witness*) is asked for by a constraint, or
finds what a composite takes besides: of facts found by such calls only the types matter, since no needed fact is made
from them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from math import inf

from grid.worlds.programs.model import Applied, Constant, Task
from grid.worlds.programs.rules import BEFORE, Kept, Rules
from grid.worlds.programs.universe import Action, Universe, inputs_of
from grid.worlds.programs.world import replayed

_MOST_STATES = 100_000


@dataclass(frozen=True)
class _State:
    found: int
    kept: Kept
    types: frozenset[str]


@dataclass(frozen=True)
class _Move:
    """A call: what has to be found (bits), of which types something has to be there, and what it finds."""

    tool: str
    cost: int
    needs: int
    types: frozenset[str]
    finds: int
    functions: tuple[str, ...]
    gains: frozenset[str]


def derivable(task: Task) -> str | None:
    """None where some calls find all wanted facts and keep to the constraints; else why there are none.

    Calls of `task.done` are made already, and the broken tool is of no use.

    Raises:
        ValueError: the task is not built as `model.Task` says, or has more states than can be gone through.
    """
    search = _Search(task, lambda name: 1)
    if search.least() is not None:
        return None
    free = _Search(replace(task, constraints=()), lambda name: 1)
    if free.least() is None:
        return free.first_missing()
    guilty = [one for place, one in enumerate(task.constraints) if _solvable_without(task, place)] or task.constraints
    texts = "; ".join(one.text or f"{one.kind} {' '.join(one.arguments)}" for one in guilty)
    return f"no calls keep to what is asked: {texts}"


def least_cost(task: Task) -> int | None:
    """The least sum of costs of calls that solve the task, those of `task.done` not counted.

    None where the task has no costs or cannot be solved. Raises as `derivable`, and ValueError where a tool that finds
    something has no cost while others have, or one below 0.
    """
    costs = {name: tool.cost for name, tool in task.tools.items() if not tool.extraneous}
    if all(cost is None for cost in costs.values()):
        return None
    wrong = [name for name, cost in costs.items() if cost is None or cost < 0]
    if wrong:
        raise ValueError(f"tools of a task with costs have whole ones from 0 on; {wrong[0]} has {costs[wrong[0]]}")
    return _Search(task, lambda name: costs[name] or 0).least()


def plan_cost(task: Task, names: Iterable[str]) -> int | None:
    """The sum of the costs of calls; tools that do not exist cost nothing. None where the task has no costs."""
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
        """Those that a constraint may ask for, or that find what those or a composite's other inputs take."""
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
        """Whether the call breaks nothing by itself, whatever came before."""
        everything = Kept(self.rules.watched, (0,) * len(self.rules.limits))
        return not self.rules.after(everything, move.tool, move.functions).broken

    def _forced(self) -> dict[int, _Move]:
        """By the bit of each fact that single tools alone find the cheapest call for it."""
        found: dict[int, _Move] = {}
        shared = 0
        for move in self.moves:
            if len(move.functions) > 1:
                shared |= move.finds
            elif move.finds not in found or move.cost < found[move.finds].cost:
                found[move.finds] = move
        return {bit: move for bit, move in found.items() if not bit & shared}

    def least(self) -> int | None:
        """The least cost of a solution, None where there is none (A*: `_rest` is never too high, and consistent)."""
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
                raise ValueError(f"a task of more than {_MOST_STATES:,} states cannot be gone through")
            if state.found & self.goal == self.goal and not self.rules.unmet(state.kept):
                return cost
            for after, more in self._next(state):
                if after not in done:
                    push(after, cost + more)
        return None

    def _rest(self, found: int) -> float:
        """The least cost of calls that find all other needed facts, were they free in their order.

        All needed facts are found in any solution; each is taken in turn, by one of the calls that find it.
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
        """What `task.done` found."""
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
            if not any(new | one == one != new for one in more):  # the same call with more to it
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
        """After all calls that need no choice, and their cost; nothing where they break a constraint."""
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
                if not kept.broken:  # else another call has to come first
                    state, moved, spent = self._made(state, move, kept), True, spent + move.cost
        yield state, spent

    def _types(self, state: _State) -> frozenset[str]:
        """The types of which something is there."""
        if state.found not in self.found_types:
            found = {self.universe.type_of(fact) for fact, bit in self.bit.items() if bit & state.found}
            self.found_types[state.found] = frozenset(found | {constant.type for constant in self.told})
        return self.found_types[state.found] | state.types

    def first_missing(self) -> str:
        """Which needed fact is the first that no call finds, and why."""
        makers: Mapping[Applied, list[_Move]] = {
            fact: [move for move in self.moves if move.finds & bit] for fact, bit in self.bit.items()
        }
        for fact in self.universe.needed:
            untold = [part for part in fact.inputs if isinstance(part, Constant) and part not in self.told]
            if untold:
                return f"{untold[0].name or untold[0].type} is not told, and no tool finds it"
            if not makers[fact]:
                return f"no tool that works finds what {fact.function} does"
        return "the calls that find the wanted facts wait for each other"
