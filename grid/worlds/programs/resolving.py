"""What an argument of a predicted call means: a fact, by its value, by a reference, or by words (apb §3.1, C.1.1).

Read in this order, and never guessed:

1. a value: that of a constant of the query or of a fact found before, first among those of the parameter's type;
2. `OUTPUT_FROM_STEP_i.field`, and `$Tool.field` where the tool was called once before;
3. words that name steps ("the frames from step 2", "the previous step"), counted as `Chain.first` says;
4. words that name a tool ("the total from CalculateBill");
5. words that describe a fact: of those of the parameter's type the one that shares more of them than every other (more
   as a set: all that another shares, and one besides), or the only one there is.

Of what several steps or calls give, the parameter's type and the words decide. Whatever is left is VAGUE where it is
words, and INVENTED where it is a value: no value comes from nowhere.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from grid.core.types import UNKNOWN
from grid.text.references import PATTERN
from grid.worlds.equivalence import equivalent
from grid.worlds.programs.describing import bag, describes, empty, folded
from grid.worlds.programs.model import Fact
from grid.worlds.programs.steps import Steps, is_stray, stray

_MOST_LEAVES = 64  # of an argument that is a list or an object
_LONGEST = 2_000  # characters of an argument that are read
_MOST_ALIKE = 200  # facts of one type among which words can choose
_DOTTED = re.compile(r"(\$)?[{<\[(]*\$?([A-Za-z_][\w-]*)\.([A-Za-z_]\w*)[}>\])]*")
_STEP = re.compile(r"\b(?:OUTPUT_FROM_)?(?:step|call)s?[\s_#]*(?:no\.?|number)?[\s_#]*(\d{1,6})\b", re.IGNORECASE)
_MORE = re.compile(r"\s*(?:,|and|&|,\s*and)\s*(?:step\s*)?#?(\d{1,6})\b", re.IGNORECASE)
_PREVIOUS = re.compile(r"\b(?:previous|preceding|last|prior) (?:step|call|tool|output|result)\b", re.IGNORECASE)
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_ORDINAL = re.compile(rf"\b({'|'.join(_ORDINALS)}) (?:step|call)\b", re.IGNORECASE)


class Is(Enum):
    """What an argument turned out to be."""

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
    """What an argument means. `fact` only with FACT; `step` is the call (place among the predicted) that it names."""

    kind: Is
    fact: Fact | None = None
    step: int | None = None


def resolve(argument: object, name: str, type_: str, steps: Steps) -> Meaning:
    """What an argument for a parameter of a type means when the call at `steps.here` is made.

    A list or an object of one value is that value; one of several is SEVERAL, INVENTED where one of them is.
    """
    leaves = list(_leaves(argument))
    if not leaves:
        return Meaning(Is.MISSING)
    if len(leaves) > 1:
        kinds = {_resolve(leaf, name, type_, steps).kind for leaf in leaves}
        return Meaning(Is.INVENTED if Is.INVENTED in kinds else Is.SEVERAL)
    return _resolve(leaves[0], name, type_, steps)


def _leaves(argument: object) -> Iterator[str | int | float | bool]:
    """The scalars of an argument, at most `_MOST_LEAVES`; without the empty ones."""
    pending, found = [argument], 0
    for value in pending:  # which grows
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
    """The fact of this value: of the parameter's type, else of any."""
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
    """What references and names of steps and tools mean; None where there are none."""
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
    """The slot of a step's number; None where there is none."""
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
    """The tools, called or on offer, whose names stand in a text as they are written."""
    if not re.search(r"\w_\w|[a-z][A-Z]", text):
        return []  # no word is a name
    words = dict.fromkeys(re.findall(r"[A-Za-z_][\w-]*", text))
    offered = {name.casefold() for name in steps.universe.task.tools}
    return [word for word in words if word.casefold() in offered or word.casefold() in steps.by_tool]


def _of_tool(tool: str, name: str, type_: str, text: str, steps: Steps) -> Meaning:
    """What a call of a tool gives; of several the words decide."""
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
    """What a step gives: the named field; else the one that the words name, of the type, or the only one."""
    if place is None:
        return Meaning(Is.ABSENT)
    number, slot = place - steps.first, steps.slots[place]
    if place >= steps.here:
        return Meaning(Is.LATER, step=number)
    if slot.failed:
        return Meaning(Is.FAILED, step=number)
    if not slot.fields:  # of a tool that there is not: nobody knows its fields
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
    """Of what several steps give, the fact of the parameter's type, or the one of them that the words describe."""
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
    """What a description means among the facts of the parameter's type."""
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
    """The fact that shares all words that any other shares, and one besides; an only one shares any."""
    shared = {fact: words & steps.described(fact) for fact in facts}
    for fact, mine in shared.items():
        if mine and all(mine > other for one, other in shared.items() if one != fact):
            return fact
    return facts[0] if len(facts) == 1 and not (words - _REFERRING) else None


_REFERRING = bag("value result output returned obtained retrieved earlier previous above found computed")


def _nested(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether one text says the other with something besides, and no other number."""
    numbers = [{word for word in words if any(char.isdigit() for char in word)} for words in (one, other)]
    return bool(one) and bool(other) and (one <= other or other <= one) and numbers[0] == numbers[1]
