"""Planning tasks whose truth can be computed: typed tools, facts as terms, goals and constraints.

A *fact* is a term: a constant that the query tells, or a function applied to facts. Two calls that apply one function
to the same facts find the same fact, whatever the tools are called. A task is solved when all wanted facts were found
and no constraint was broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from grid.core.types import Json, ToolSpec, hashed_once


@hashed_once
@dataclass(frozen=True)
class Constant:
    """A fact that the task tells: its type and value as the query writes it; `name` is how the query speaks of it."""

    type: str
    value: str
    name: str = ""


@hashed_once
@dataclass(frozen=True)
class Applied:
    """A fact that a tool finds: a function applied to facts, in the order of the function's parameters."""

    function: str
    inputs: tuple[Fact, ...]


Fact: TypeAlias = Constant | Applied


@dataclass(frozen=True)
class Function:
    """What a tool computes: `inputs` are types, `output` the type of the fact that it finds.

    `kind` says how a value is made up from the inputs (`values.py`); it is pure: the same facts give the same value.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    kind: str


@dataclass(frozen=True)
class TypedTool:
    """A tool of a task: what a planner sees of it, and what it computes.

    `parts` are the functions that a call applies one after another. One part: parameter i of `spec` is input i of the
    function. Several (a composite): `wiring[p][i]` says for input i of part p either which parameter it takes
    (("parameter", name)) or which earlier part's output (("part", number)); the outputs of all parts are found, and
    `spec.returns` names them in that order. No parts: an extraneous tool, which finds nothing that is of use.
    `serves` are the tags of the goals that it can be of use for. `cost` is None where the task has no costs.
    `stands_for`: the tool whose function it has under another name.
    """

    spec: ToolSpec
    parts: tuple[Function, ...]
    wiring: tuple[tuple[tuple[str, str | int], ...], ...] = ()
    serves: frozenset[str] = frozenset()
    cost: int | None = None
    stands_for: str | None = None

    @property
    def extraneous(self) -> bool:
        """Whether nothing that it finds can be of use."""
        return not self.parts


ConstraintKind: TypeAlias = Literal["forbid_function", "require_function", "before", "at_most", "forbid_tool"]


@dataclass(frozen=True)
class Constraint:
    """What a chain must keep to, as tagged; `text` is its sentence in the query.

    forbid_function (f): no call of f. require_function (f): a call of f. before (f, g): every call of g comes behind
    one of f. at_most (f, n): at most n calls of f. forbid_tool (name): no call of the tool.
    """

    kind: ConstraintKind
    arguments: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Goal:
    """A wanted fact; `tag` is the intent that it serves, `text` its sentence in the query."""

    fact: Applied
    tag: str
    text: str


@dataclass(frozen=True)
class Done:
    """A call that was made before the prediction begins, and what came of it. `failed`: the tool is broken."""

    tool: str
    arguments: Mapping[str, Json]
    content: Mapping[str, Json]
    failed: bool = False


@dataclass(frozen=True)
class Task:
    """A planning task: what is wanted, of which tools, behind which calls.

    `reference` is a shortest right chain from the start, calls in order with arguments as a planner of the grid writes
    them: constants' values, or OUTPUT_FROM_STEP_i.field, steps counted from 0. `done` are its first calls where the
    task is step-wise. `broken` is the tool that fails, `replacement` the tool that does its work.
    """

    query: str
    goals: tuple[Goal, ...]
    constants: tuple[Constant, ...]
    tools: Mapping[str, TypedTool]
    reference: tuple[tuple[str, Mapping[str, Json]], ...]
    constraints: tuple[Constraint, ...] = ()
    done: tuple[Done, ...] = ()
    horizon: int | None = None
    broken: str | None = None
    replacement: str | None = None
    unsolvable: str | None = None
    missing: frozenset[str] = field(default_factory=frozenset)
    """Types of constants that the query speaks of and does not tell."""

    @property
    def wanted(self) -> tuple[Applied, ...]:
        """The goals' facts."""
        return tuple(goal.fact for goal in self.goals)

    @property
    def needed(self) -> frozenset[Applied]:
        """The wanted facts and all that they are made from."""
        return frozenset(fact for goal in self.goals for fact in subfacts(goal.fact))


def subfacts(fact: Fact) -> Iterator[Applied]:
    """A fact's own applications, each behind those that it is made from; a shared one more than once."""
    if isinstance(fact, Applied):
        for part in fact.inputs:
            yield from subfacts(part)
        yield fact
