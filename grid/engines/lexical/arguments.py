"""How the lexical engine fills a tool's arguments: by name and type, from outputs and from the texts it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, get_args

from grid.core.engine import Prompt
from grid.core.types import RESULT, Json, Parameter, ToolSpec
from grid.engines.lexical.extraction import Found, Kind, fields_in, labelled_in, unlabelled, values_in
from grid.text.references import reference
from grid.text.words import stems

_KINDS_OF_TYPE: dict[str, frozenset[Kind]] = {
    "date": frozenset({"date", "field"}),
    "integer": frozenset({"number", "money", "field"}),
    "number": frozenset({"money", "number", "field"}),
    "string": frozenset(get_args(Kind)),
}
# Kinds that a string argument takes only where its name asks for them.
_TELLING = frozenset({"date", "time", "email", "number", "money"})
_IDENTIFYING = frozenset(
    stems("id sku code number reference identifier key barcode receipt postcode passcode phone digits four")
)
_KINDS_OF_NAME: tuple[tuple[frozenset[str], frozenset[Kind]], ...] = (
    (frozenset(stems("date day time start end until deadline expiry")), frozenset({"date", "time"})),
    (frozenset(stems("email")), frozenset({"email"})),
    (frozenset(stems("path file")), frozenset({"path", "quoted"})),
    (_IDENTIFYING, frozenset({"identifier", "number", "quoted"})),
    (frozenset(stems("city person name carrier brand warehouse station location")), frozenset({"name", "quoted"})),
    (frozenset(stems("content text message note title reason")), frozenset({"quoted"})),
    (frozenset(stems("amount quantity count price days rooms people limit")), frozenset({"number", "money"})),
)
# The least score at which a value seen in a text is taken; a date or a number has the type to speak for it.
_ENOUGH = {"string": 1.05}
_ENOUGH_TYPED = 0.5
_SUBSTEP_BONUS, _FIELD_BONUS, _LABEL_BONUS = 0.5, 1.5, 1.0
_ANY_IDENTIFIER, _ANY_OUTPUT = 1.8, 0.6  # an output of another name, where nothing fits better
_PHRASE = 1.3  # words that follow the parameter's own name in a text
_AFTER = 0.6  # what a word behind a value counts, against one before it
_OLDER = 0.01  # a step back in the history or the outline


class _Source(NamedTuple):
    score: float
    value: Json


def fill(tool: ToolSpec, prompt: Prompt, results: Sequence[str] | None = None) -> dict[str, Json]:
    """The arguments for which something fits, each value used once, best fit first.

    Without any history, an argument that the texts do not give is taken from an earlier substep by reference. Where
    tools take `results`, those that there are, the latest first, all arguments are filled: a result with the latest, a
    listed value with the first that the substep names, and a text that nothing fits with the substep's words.
    """
    seen = _seen(prompt)
    offers = [
        (-source.score, index, source.value)
        for index, parameter in enumerate(tool.parameters)
        if results is None or not (parameter.type == RESULT or parameter.values)
        for source in _sources(parameter, seen)
    ]
    offers.sort(key=lambda offer: offer[:2])
    chosen: dict[int, Json] = {}
    for _, index, value in offers:
        if index not in chosen and value not in chosen.values():
            chosen[index] = value
    if results is not None:
        return _exact(tool, {tool.parameters[index].name: value for index, value in chosen.items()}, prompt, results)
    if not prompt.entries("history"):
        for index, parameter in enumerate(tool.parameters):
            if index not in chosen and (place := _earlier(parameter, prompt)):
                chosen[index] = reference(place, parameter.name)
    return {tool.parameters[index].name: chosen[index] for index in sorted(chosen)}


def _exact(tool: ToolSpec, found: dict[str, Json], prompt: Prompt, results: Sequence[str]) -> dict[str, Json]:
    """The arguments of a tool that takes results, all of them, with what was `found` for its texts."""
    words = unlabelled(next(iter(prompt.entries("request")[-1:]), ""))
    earlier, filled = list(results), dict[str, Json]()
    for parameter in tool.parameters:
        if parameter.type != RESULT:
            listed = (value for value in parameter.values if value in words.split())
            otherwise = parameter.values[0] if parameter.values else words
            filled[parameter.name] = next(listed, found.get(parameter.name, otherwise))
        elif earlier:
            filled[parameter.name] = earlier[0]
            earlier = earlier[1:] or earlier
    return filled


class _Seen(NamedTuple):
    """What a prompt shows: fields and labelled values of the latest entry first; query and substep, each at most one.

    Each text stands with what its values' scores gain.
    """

    fields: list[tuple[Found, ...]]
    labelled: list[tuple[Found, ...]]
    texts: list[tuple[float, str]]


def _seen(prompt: Prompt) -> _Seen:
    task, request = prompt.entries("task")[:1], prompt.entries("request")[-1:]
    return _Seen(
        [fields_in(entry) for entry in reversed(prompt.entries("history"))],
        [labelled_in(entry) for entry in reversed(_outline_before(prompt))],
        [(bonus, unlabelled(text)) for bonus, texts in ((0.0, task), (_SUBSTEP_BONUS, request)) for text in texts],
    )


def _sources(parameter: Parameter, seen: _Seen) -> Iterator[_Source]:
    """Every value that could be the argument, with how well it fits."""
    any_output = _ANY_IDENTIFIER if _IDENTIFYING & set(stems(parameter.name)) else _ANY_OUTPUT
    for age, fields in enumerate(seen.fields):
        for found in fields:
            score = _name_match(parameter, found.before)
            if score > 0:
                yield _Source(score + _FIELD_BONUS - _OLDER * age, found.value)
            elif parameter.type == "string" and _looks_like_id(found.value):
                yield _Source(any_output - _OLDER * age, found.value)
    for age, labelled in enumerate(seen.labelled):
        for found in labelled:
            score = _name_match(parameter, found.before)
            if score > 0:
                yield _Source(score + _LABEL_BONUS - _OLDER * age, _typed(parameter, found))
    for bonus, text in seen.texts:
        if parameter.type == "string":
            yield from (_Source(_PHRASE + bonus, found.value) for found in _phrases(parameter, text))
        for found in values_in(text):
            fit = _fit(parameter, found)
            if fit is not None and fit + bonus >= _ENOUGH.get(parameter.type, _ENOUGH_TYPED):
                yield _Source(fit + bonus, _typed(parameter, found))


@lru_cache(maxsize=262144)
def _name_match(parameter: Parameter, field: tuple[str, ...]) -> float:
    """3 for the same name; else twice the Jaccard overlap, where at least half of the words are shared."""
    wanted = stems(parameter.name)
    if wanted == field:
        return 3.0
    jaccard = len(set(wanted) & set(field)) / max(len(set(wanted) | set(field)), 1)
    return 2 * jaccard if jaccard >= 0.5 else 0.0


@lru_cache(maxsize=262144)
def _fit(parameter: Parameter, found: Found) -> float | None:
    """How well a value seen in a text fits a parameter, by kind and by the words around; None for a wrong kind."""
    name, described = stems(parameter.name), stems(parameter.description)
    if found.kind not in _KINDS_OF_TYPE.get(parameter.type, _KINDS_OF_TYPE["string"]):
        return None
    expected = next((kinds for words, kinds in _KINDS_OF_NAME if words & set(name)), None)
    if parameter.type == "string" and found.kind in _TELLING and found.kind not in (expected or ()):
        return None
    score = 0.5
    if expected:
        score += 0.6 if found.kind in expected else -0.6
    if found.kind == "identifier" and _names_itself(str(found.value), parameter.name):
        score += 0.8
    return score + _nearness(found.before[::-1], name, described) + _AFTER * _nearness(found.after, name, described)


def _names_itself(value: str, name: str) -> bool:
    """Whether an identifier's own letters begin a word of the name: ORD-1 for order_id, SKU-2 for sku."""
    letters = re.match(r"#?([A-Za-z]{2,})", value)
    return letters is not None and any(word.startswith(letters[1].lower()) for word in name.lower().split("_"))


def _phrases(parameter: Parameter, text: str) -> Iterator[Found]:
    """Words that follow the parameter's name in a text: `damage: broken corner;` for damage."""
    name = r"[\s_-]".join(re.escape(word) for word in parameter.name.split("_"))
    for match in re.finditer(rf"\b{name}(?: is| of|:)? ([a-z][\w -]{{2,40}}?)(?=[,;.)]|$| and | as | by )", text, re.I):
        yield Found("field", match[1], (), (), match.start())


def _nearness(words: tuple[str, ...], name: tuple[str, ...], described: tuple[str, ...]) -> float:
    """How much the words beside a value, nearest first, speak of the parameter."""
    weights = (1.0 if stem in name else 0.4 if stem in described else 0.0 for stem in words)
    return sum(weight / (1 + 0.25 * min(distance, 8)) for distance, weight in enumerate(weights))


def _typed(parameter: Parameter, found: Found) -> Json:
    """Numbers as numbers where the parameter wants them; all else as it stands in the text."""
    text = str(found.value)
    if parameter.type in ("integer", "number"):
        digits = re.sub(r"[^\d.]", "", text).rstrip(".")
        if digits.count(".") <= 1 and digits.strip("."):
            return float(digits) if "." in digits else int(digits[:18])
    return text


def _looks_like_id(value: Json) -> bool:
    return isinstance(value, str) and any(c.isdigit() for c in value) and " " not in value and "@" not in value


def _outline_before(prompt: Prompt) -> tuple[str, ...]:
    """The plan's lines that come before the present substep."""
    place = _place(prompt)
    lines = prompt.entries("task")[2:]
    here = next((index for index, line in enumerate(lines) if line.split(" ", 1)[0] == place), 0)
    return lines[:here]


def _place(prompt: Prompt) -> str:
    """The number of the present substep; empty where the request names none."""
    found = re.search(r"\d+(?:\.\d+)*", next(iter(prompt.entries("request")[-1:]), ""))
    return found[0] if found else ""


def _earlier(parameter: Parameter, prompt: Prompt) -> str | None:
    """The earlier substep of the outline that shares most stems with the parameter's name, the latest of equals."""
    wanted = set(stems(parameter.name))
    lines = list(enumerate(_outline_before(prompt)))
    if not lines:
        return None
    _, line = max(lines, key=lambda item: (len(wanted & set(stems(item[1]))), item[0]))
    return line.split(" ", 1)[0]
