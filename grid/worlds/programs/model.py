"""Planning tasks whose right answers can be computed: typed tools, facts as terms, goals and constraints.

A *fact* is a term: either a constant that the query gives, or a function applied to facts. Two calls that apply the
same function to the same facts find the same fact, even if the tools have different names. A task is solved if all
wanted facts have been found and no constraint has been broken.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

from grid.core.types import Json, ToolSpec, hashed_once
from grid.core.util import derive_seed
from grid.text.words import stems, terms

# The values of a typed program's facts, which are invented and plausible; equal facts have equal values.
#
# A function's `kind` is a template; the slots in braces are filled in:
#
# - {n:3-28}: a whole number in the range
# - {m:80-900}: a number in the range, with two decimals
# - {d4}, {x4}, {l2}: digits, hexadecimal digits, capital letters
# - {w:red|blue}: one of the words
# - {date:2026}: a day of the year, such as 14 March 2026
# - {time}: a time of day, such as 17:05
# - {0}: the first input's value, cut short


LONGEST = 40
"""The maximum length of an input's value in a filled template, in characters."""
_SLOT = re.compile(r"\{(?:(n|m):(\d+)-(\d+)|([dxl])(\d+)|w:([^{}]+)|date:(\d{4})|(time)|(\d))\}")
_ALPHABETS = {"d": "0123456789", "x": "0123456789abcdef", "l": "ABCDEFGHJKLMNPQRSTUVWXYZ"}
_MINUTES = range(7 * 60, 22 * 60, 5)


def value(function: Function, inputs: Sequence[str]) -> str:
    """The value that a function finds for these inputs, which depends only on the inputs and the function."""
    rng = random.Random(derive_seed(0, "value", function.name, *inputs))
    return fill(function.kind, rng, inputs)


def value_of(fact: Fact, functions: Mapping[str, Function]) -> str:
    """A fact's value.

    `functions` has functions by name; raises KeyError if a function that the fact applies is missing.
    """
    return _value_of(fact, functions, {})


def _value_of(fact: Fact, functions: Mapping[str, Function], known: dict[Fact, str]) -> str:
    if isinstance(fact, Constant):
        return fact.value
    if fact not in known:
        known[fact] = value(functions[fact.function], [_value_of(one, functions, known) for one in fact.inputs])
    return known[fact]


def distinct(facts: Sequence[Applied | Constant], functions: Mapping[str, Function]) -> bool:
    """Whether different facts have different values, so that a fact can be recognised by its value."""
    different, known = set(facts), dict[Fact, str]()
    return len({_value_of(fact, functions, known) for fact in different}) == len(different)


def fill(template: str, rng: random.Random, inputs: Sequence[str] = ()) -> str:
    """The filled template; raises ValueError for braces that are no slot, an empty range, or a non-existent input."""
    rest: str = _SLOT.sub("", template)
    if "{" in rest or "}" in rest:
        allowed = "n:LOW-HIGH, m:LOW-HIGH, dN, xN, lN, w:A|B, date:YEAR, time or an input's number"
        raise ValueError(f"template {template!r}: braces can only hold {allowed}")

    def slot(match: re.Match[str]) -> str:
        kind, low, high, letters, count, words, year, time, place = match.groups()
        if kind:
            return _number(kind, int(low), int(high), rng)
        if letters:
            return "".join(rng.choices(_ALPHABETS[letters], k=int(count)))
        if words:
            chosen: str = rng.choice(words.split("|"))
            return chosen
        if year:
            day = dt.date(int(year), 1, 1) + dt.timedelta(rng.randrange(365))
            return f"{day.day} {day:%B %Y}"
        if time:
            return "{:02}:{:02}".format(*divmod(rng.choice(_MINUTES), 60))
        if int(place) >= len(inputs):
            raise ValueError(
                f"template {template!r}: there is no input {place}; there are {len(inputs)}, numbered from 0"
            )
        text = inputs[int(place)]
        return text if len(text) <= LONGEST else f"{text[:LONGEST].rstrip()}…"

    filled: str = _SLOT.sub(slot, template)
    return filled


def possibilities(template: str) -> int:
    """The number of ways in which a template can be filled in, for given values of its inputs."""
    ways = 1
    for kind, low, high, letters, count, words, year, time, _ in _SLOT.findall(template):
        if kind:
            ways *= (int(high) - int(low)) * (100 if kind == "m" else 1) + 1
        elif letters:
            ways *= len(_ALPHABETS[letters]) ** int(count)
        elif words:
            ways *= len(words.split("|"))
        elif year:
            ways *= 365
        elif time:
            ways *= len(_MINUTES)
    return ways


def _number(kind: str, low: int, high: int, rng: random.Random) -> str:
    return str(rng.randint(low, high)) if kind == "n" else f"{rng.randint(low * 100, high * 100) / 100:.2f}"


# Planning tasks whose right answers can be computed: typed tools, facts as terms, goals and constraints.


@hashed_once
@dataclass(frozen=True)
class Constant:
    """A fact that the task gives: its type, its value as written in the query, and `name`, its name in the query."""

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
    """The function that a tool computes: `inputs` are types, and `output` is the type of the fact that it finds.

    `kind` is the template for the function's value (see the templates above). A function is pure: the same facts give
    the same value.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    kind: str


@dataclass(frozen=True)
class TypedTool:
    """A task's tool: the spec that a planner sees, and the functions that it computes.

    `parts` has the functions that a call applies, in order. With one part, parameter i of `spec` is input i of the
    function. A tool with several parts is a composite. Its `wiring[p][i]` names the source of input i of part p, which
    is a parameter (("parameter", name)) or the output of an earlier part (("part", number)). The tool finds the outputs
    of all its parts, and `spec.returns` names these outputs in the order of the parts. A tool without parts is
    extraneous: it finds nothing useful. `serves` has the tags of the goals for which the tool can be useful; if it is
    empty, the tool can be useful for any goal. `cost` is None if the task has no costs. `stands_for` is a different
    tool with the same function.
    """

    spec: ToolSpec
    parts: tuple[Function, ...]
    wiring: tuple[tuple[tuple[str, str | int], ...], ...] = ()
    serves: frozenset[str] = frozenset()
    cost: int | None = None
    stands_for: str | None = None

    @property
    def extraneous(self) -> bool:
        """Whether the tool finds nothing useful."""
        return not self.parts


ConstraintKind: TypeAlias = Literal["forbid_function", "require_function", "before", "at_most", "forbid_tool"]


@dataclass(frozen=True)
class Constraint:
    """A constraint that a chain must keep, given as a tag. `text` is its sentence in the query.

    forbid_function (f): no call of f. require_function (f): at least one call of f. before (f, g): every call of g
    comes after a call of f. at_most (f, n): at most n calls of f. forbid_tool (name): no call of the tool.
    """

    kind: ConstraintKind
    arguments: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Goal:
    """A wanted fact. `tag` is the intent that the fact serves, and `text` is the sentence for it in the query."""

    fact: Applied
    tag: str
    text: str


@dataclass(frozen=True)
class Done:
    """A call that was made before the prediction begins, and its result.

    `failed` is set if the call failed because its tool is broken.
    """

    tool: str
    arguments: Mapping[str, Json]
    content: Mapping[str, Json]
    failed: bool = False


@dataclass(frozen=True)
class Task:
    """A planning task: the wanted facts, the tools, and the calls made before the prediction.

    `reference` has the calls of a shortest right chain, in order and from the start. Arguments are values of constants,
    or references OUTPUT_FROM_STEP_i.field with steps counted from 0, as planners write them. If the task is step-wise,
    `done` has the first calls of `reference`, made before the prediction, and `horizon` is the number of calls to
    predict (None for a whole plan). `broken` is the tool that fails, and `replacement` is the tool that can do its
    work. If the task cannot be solved, `unsolvable` is the kind of the fault, as in `TaskKind.unsolvable_kind`, and
    `reference` is empty.
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
    """The types of those constants that the query mentions without giving their values."""

    @property
    def wanted(self) -> tuple[Applied, ...]:
        """The facts of the goals."""
        return tuple(goal.fact for goal in self.goals)

    @property
    def needed(self) -> frozenset[Applied]:
        """The wanted facts and all facts from which they are derived."""
        return frozenset(fact for goal in self.goals for fact in subfacts(goal.fact))


def subfacts(fact: Fact) -> Iterator[Applied]:
    """The fact and all applied facts from which it is derived, inputs first. A fact that is used twice is repeated."""
    if isinstance(fact, Applied):
        for part in fact.inputs:
            yield from subfacts(part)
        yield fact


# Tests whether a text describes a value or is itself a value.


_EMPTY = frozenset(["", "none", "null", "n/a", "na", "-", "?", "...", "…"])
_PLACEHOLDER = re.compile(
    r"^[^<{\[\n]*[<{\[].*[>}\]]|\b(?:tbd|placeholder|to be determined|to be filled|some value|x{3,})\b", re.I | re.M
)
_DETERMINER = re.compile(
    r"(?:the|a|an|this|that|these|those|all|each|every|any|my|our|their|its|his|her|both|some|same|user'?s?|"
    r"whatever|whichever|something|anything|appropriate|relevant|suitable|corresponding)\b",
    re.I,
)
_BETWEEN_WORDS = re.compile(r"\b(?:of|for|from|in|at|on|by|with|to|about|between|per|using|as|based)\b", re.I)
_REFERS = re.compile(
    r"\b(?:step|output|result|return(?:s|ed)?|obtained|retrieved|previous(?:ly)?|earlier|above|computed|calculated|"
    r"extracted|provided|identified|found|generated|determined|selected|query|request(?:ed)?|specified|given|mentioned|"
    r"fetched|received|produced|created|derived)\b",
    re.I,
)


def folded(text: str) -> str:
    """The form in which values are compared: casefolded, with single spaces, no outer quotes, no final punctuation."""
    return " ".join(text.split()).strip("\"'“”‘’`").rstrip(".,;:").casefold()


def empty(text: str) -> bool:
    """Whether a text means that there is no value."""
    return folded(text) in _EMPTY


@lru_cache(maxsize=65536)
def bag(text: str) -> frozenset[str]:
    """The stems of a text's words, and its words with digits. Names are split into words."""
    return frozenset(stems(text)) | {word for word in terms(text) if any(char.isdigit() for char in word)}


def describes(text: str, words: frozenset[str], known: frozenset[str]) -> bool:
    """Whether a text describes a value and is not itself a value. `known` has words that can name such values.

    A text is a description in any of these cases: it begins with a determiner; it has at least three words, no capitals
    and no digits; it mentions steps, results or the query; it contains a placeholder; it has only known words; or it
    joins a known word to other words by a preposition ("forecast for Lisbon").
    """
    if _PLACEHOLDER.search(text) or _DETERMINER.match(text) or _REFERS.search(text):
        return True
    if text.count(" ") > 1 and text.islower() and not any(char.isdigit() for char in text):
        return True
    letters = {word for word in words if word.isalpha()}
    if not letters or letters != words:
        return bool(letters & known) and bool(_BETWEEN_WORDS.search(text))
    return letters <= known or (bool(letters & known) and bool(_BETWEEN_WORDS.search(text)))


# Checks whether calls keep a task's constraints: the state to remember about calls, and the constraints that a call
# breaks.


BEFORE, AT_MOST, REQUIRE = "before", "at_most", "require_function"
FORBID_FUNCTION, FORBID_TOOL = "forbid_function", "forbid_tool"


@dataclass(frozen=True)
class Kept:
    """The effect of the calls so far on the constraints.

    `called` has the called functions on which a constraint depends. `counts` has the number of calls for each
    constraint of the kind at_most, counted up to one above the limit. `broken` has the indices of the constraints that
    have been broken.
    """

    called: frozenset[str] = frozenset()
    counts: tuple[int, ...] = ()
    broken: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Rules:
    """A task's constraints.

    Raises:
        ValueError: the kind of a constraint is unknown, or its arguments are not those that this kind needs.
    """

    constraints: tuple[Constraint, ...]

    def __post_init__(self) -> None:
        for constraint in self.constraints:
            wanted = 2 if constraint.kind in (BEFORE, AT_MOST) else 1
            if constraint.kind not in (BEFORE, AT_MOST, REQUIRE, FORBID_FUNCTION, FORBID_TOOL):
                raise ValueError(f"unknown kind of constraint: {constraint.kind!r}")
            if len(constraint.arguments) != wanted:
                raise ValueError(f"{constraint.kind} takes {wanted} arguments, not {constraint.arguments}")
            if constraint.kind == AT_MOST and not constraint.arguments[1].isdecimal():
                raise ValueError(f"at_most takes a number of calls, not {constraint.arguments[1]!r}")

    @cached_property
    def limits(self) -> tuple[tuple[int, str, int], ...]:
        """The constraints of the kind at_most, each as its index, its function, and its maximum number of calls."""
        return tuple(
            (place, one.arguments[0], int(one.arguments[1]))
            for place, one in enumerate(self.constraints)
            if one.kind == AT_MOST
        )

    @cached_property
    def watched(self) -> frozenset[str]:
        """The functions for which a constraint depends on whether they have been called."""
        return frozenset(one.arguments[0] for one in self.constraints if one.kind in (BEFORE, REQUIRE))

    @property
    def start(self) -> Kept:
        """The state before any call."""
        return Kept(counts=(0,) * len(self.limits))

    def after(self, kept: Kept, tool: str, functions: Sequence[str]) -> Kept:
        """The state after a call of a tool that applies these functions in this order."""
        called, broken = set(kept.called), set(kept.broken)
        counts = list(kept.counts)
        for function in functions:
            for place, one in enumerate(self.constraints):
                if (one.kind == FORBID_FUNCTION and one.arguments[0] == function) or (
                    one.kind == BEFORE and one.arguments[1] == function and one.arguments[0] not in called
                ):
                    broken.add(place)
            for number, (place, limited, most) in enumerate(self.limits):
                if limited == function:
                    counts[number] = min(counts[number] + 1, most + 1)
                    if counts[number] > most:
                        broken.add(place)
            if function in self.watched:
                called.add(function)
        broken.update(
            place for place, one in enumerate(self.constraints) if one.kind == FORBID_TOOL and one.arguments[0] == tool
        )
        return Kept(frozenset(called), tuple(counts), frozenset(broken))

    def unmet(self, kept: Kept) -> frozenset[int]:
        """The constraints that require a call that has not been made."""
        return frozenset(
            place
            for place, one in enumerate(self.constraints)
            if one.kind == REQUIRE and one.arguments[0] not in kept.called
        )

    def texts(self, places: Collection[int]) -> list[str]:
        """The sentences of the constraints."""
        return [self.constraints[place].text or str(self.constraints[place]) for place in sorted(places)]
