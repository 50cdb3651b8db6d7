"""Fills a tool's arguments for the lexical engine, by name and type, from earlier outputs and the prompt's texts."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

import numpy as np

from grid.core.engine import Prompt, Section
from grid.core.types import NO_TOOL, RESULT, USER, Json, Parameter, ToolSpec, hashed_once
from grid.core.untrusted import loads
from grid.engines.places import name_of
from grid.text.references import RESULT_REFERENCE, reference
from grid.text.words import STOPWORDS, stems

# Finding values in text: identifiers, dates, amounts, quantities, quoted strings, names, and output fields.


Kind = Literal["identifier", "email", "path", "date", "time", "money", "number", "quoted", "name", "field"]
MAX_CHARACTERS = 20_000  # characters read from a text; the rest is ignored
MAX_RUN = 200  # maximum characters of a value without a blank
# Runs of characters for which the patterns below set no maximum length. The patterns examine a run from every position
# in it, so long runs are removed.
_LONG_RUN = re.compile(rf"(?<![\w.,/+@&'’%-])[\w.,/+@&'’%-]{{{MAX_RUN + 1},}}")
_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
)
_TIME = r"(?:\d{1,2}:\d{2}(?:\s?[AaPp][Mm])?|\d{1,2}\s?[AaPp]\.?[Mm]\b)"
_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("email", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("quoted", re.compile(r"[\"“]([^\"“”]{1,200})[\"”]|(?<!\w)['‘]([^'‘’\n]{2,200})['’](?!\w)")),
    (
        "date",
        re.compile(
            rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]\d{{2}}:\d{{2}})?|\d{{1,2}}/\d{{1,2}}/\d{{2,4}}"
            rf"|{_MONTH}\.? \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?"
            rf"|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}(?:,? \d{{4}})?"
        ),
    ),
    ("time", re.compile(_TIME)),
    (
        "money",
        re.compile(r"[$€£]\s?\d[\d,]*(?:\.\d+)?|\d[\d,]*(?:\.\d+)?\s?(?:USD|EUR|dollars|yuan|RMB|euros)\b"),
    ),
    (
        "path",
        re.compile(
            r"(?:[A-Za-z]:|(?<=\s)(?=/))?/?(?:[\w.-]+/)*[\w.-]+\.(?:txt|docx?|xlsx?|pptx?|pdf|md|csv|json|jpg|png)\b"
        ),
    ),
    (
        "identifier",
        re.compile(
            r"#?\b(?=[\w./-]*\d)(?=[\w./-]*[A-Z])[A-Za-z0-9]+(?:[-_/.][A-Za-z0-9]+)*\b|#\d+|\b\d{6,}\b|\b\d+(?:-\d+)+\b"
        ),
    ),
    ("number", re.compile(r"\b\d[\d,]*(?:\.\d+)?%?")),
    ("name", re.compile(r"\b[A-Z][\w'&]*(?:[ -][A-Z][\w'&-]*)*")),
)
_LABELLED = re.compile(r"[(,]\s*([A-Za-z][\w' ]{1,40}): ([^():]+?)(?=, [A-Za-z][\w' ]{1,40}: |\)|$)")
_LABEL = 20  # maximum characters of an entry's label
_RETURNED = " returned "
_SENTENCE, _EXTRACTION_CLAUSE = re.compile(r"[.!?]\s"), re.compile(r"[,;.!?](?:\s|$)")
_OPENING = re.compile(r"(?:^|[.!?:]\s)$")
_BEFORE, _EXTRACTION_AFTER = 48, 24  # characters of context on either side of a value


@hashed_once
@dataclass(frozen=True)
class Found:
    """A value found in a text, its position, and the stems before and after it; nearer stems count more."""

    kind: Kind
    value: Json
    before: tuple[str, ...]
    after: tuple[str, ...]
    position: int


@lru_cache(maxsize=16384)
def values_in(text: str) -> tuple[Found, ...]:
    """The values in a text, in order; no two values overlap, and the most specific kinds of value take precedence.

    The words before a value are those of its sentence since the previous value; the words after it are those up to the
    next punctuation mark or value. Both are within a few dozen characters of the value, and a single capitalised word
    does not count as a value between. Only the part of the text that `readable` returns is read; the time is linear in
    the text's length.
    """
    text = readable(text)
    spans: list[tuple[int, int, Kind, str]] = []
    taken = bytearray(len(text))
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            start, end = match.span()
            if taken.find(1, start, end) >= 0:
                continue
            value = next((group for group in match.groups() if group), match[0]) if match.groups() else match[0]
            if kind == "name":
                value = _proper(value, opens=_OPENING.search(text, max(start - 3, 0), start) is not None)
            if value.strip():
                spans.append((start, end, kind, value.strip()))
                taken[start:end] = b"\1" * (end - start)
    spans.sort()
    found = []
    # A single capitalised word may be a label (`SKU`), so it may be part of another value's context.
    borders = [(start, end) for start, end, kind, value in spans if kind != "name" or " " in value]
    begins, stops = [0, *(begin for begin, _ in borders), len(text)], [0, *(stop for _, stop in borders)]
    for start, end, kind, value in spans:
        previous = stops[bisect_right(stops, start) - 1]
        following = begins[bisect_left(begins, end, lo=1)]
        before = _SENTENCE.split(text[max(previous, start - _BEFORE) : start])[-1]
        after = _EXTRACTION_CLAUSE.split(text[end : min(following, end + _EXTRACTION_AFTER)])[0]
        found.append(Found(kind, value, stems(before), stems(after), start))
    return tuple(found)


def readable(text: str) -> str:
    """The first MAX_CHARACTERS of a text; runs longer than any value can be (MAX_RUN) are replaced by blanks."""
    return _LONG_RUN.sub(lambda match: " " * len(match[0]), text[:MAX_CHARACTERS])


def _proper(name: str, opens: bool) -> str:
    """A capitalised phrase without its leading words that are not part of a name; empty if no words remain.

    `opens`: the phrase begins a sentence, so its first word may be capitalised only for that reason, and is left out
    unless the phrase has exactly two words.
    """
    words = name.split(" ")
    first = 1 if opens and len(words) != 2 else 0
    while first < len(words) and (words[first].lower() in STOPWORDS or len(words[first]) == 1 or "'" in words[first]):
        first += 1
    return " ".join(words[first:])


@lru_cache(maxsize=65536)
def unlabelled(entry: str) -> str:
    """A prompt's entry without its label (such as `Query: `) and step number."""
    label, colon, rest = entry.partition(": ")
    return re.sub(r"^\d+(?:\.\d+)*\s+", "", rest if colon and len(label) <= _LABEL else entry)


@lru_cache(maxsize=16384)
def labelled_in(text: str) -> tuple[Found, ...]:
    """Values written as `(Label: value, Label: value)`; `before` has the stems of the label."""
    matches = _LABELLED.finditer(text[:MAX_CHARACTERS])
    return tuple(Found("field", m[2].rstrip() or m[2][:1], stems(m[1]), (), m.start()) for m in matches)


@lru_cache(maxsize=65536)
def fields_in(entry: str) -> tuple[Found, ...]:
    """The result fields that a history entry shows after 'returned'; `before` has the stems of a field's name.

    Fields of nested objects are included, and empty fields are left out. Without a readable result there are none.
    """
    place = entry.find(_RETURNED + "{")
    if place < 0:
        return ()
    try:
        content = loads(entry[place + len(_RETURNED) :])
    except (ValueError, RecursionError):
        return ()
    return tuple(
        Found("field", value, stems(name), (), 0) for name, value in _leaves(content) if value not in (None, "")
    )


def _leaves(content: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(content, dict):
        for name, value in content.items():
            if isinstance(value, dict):
                yield from _leaves(value)
            else:
                yield name, value


_KINDS_OF_TYPE: dict[str, frozenset[Kind]] = {
    "date": frozenset({"date", "field"}),
    "integer": frozenset({"number", "money", "field"}),
    "number": frozenset({"money", "number", "field"}),
    "string": frozenset(get_args(Kind)),
}
# Kinds of values that a string argument accepts only if the argument's name calls for them.
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
# The minimum score at which a value found in a text is used. For a date or a number the type also counts, so a lower
# score is enough.
_ENOUGH = {"string": 1.05}
_ENOUGH_TYPED = 0.5
_SUBSTEP_BONUS, _FIELD_BONUS, _LABEL_BONUS = 0.5, 1.5, 1.0
_ANY_IDENTIFIER, _ANY_OUTPUT = 1.8, 0.6  # an output with a different name, if nothing fits better
_PHRASE = 1.3  # words that follow the parameter's own name in a text
_AFTER = 0.6  # the weight of a word after a value, relative to a word before it
_OLDER = 0.01  # the penalty for each step back in the history or the outline


class _Source(NamedTuple):
    score: float
    value: Json


def fill(tool: ToolSpec, prompt: Prompt, results: Sequence[str] | None = None) -> dict[str, Json]:
    """The arguments for which a fitting value is found; each value is used once, and the best fits are assigned first.

    If the prompt has no history, an argument without a fitting value refers to an earlier substep, if the outline has
    one. If tools take results (`results`: the available results, the latest first), all arguments are filled, except
    those that take a result if there are no results. An argument that takes a result gets the latest unused result or,
    if all are used, the oldest. An argument with listed values gets the first listed value that the substep names, or
    else the first listed value. A text argument without a fitting value gets the substep's words.
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
    """All arguments of a tool that takes results; `found` has the values found for its text arguments."""
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
    """The values and texts of a prompt: fields and labelled values, with those of the latest entry first.

    The texts are the query and the present substep, if the prompt has them.

    Each text is paired with a bonus for the scores of its values.
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
    """Every value that could be the argument, with a score of how well it fits."""
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
    """3 if the names are equal, else twice the Jaccard overlap of their words (0 if the overlap is below a half)."""
    wanted = stems(parameter.name)
    if wanted == field:
        return 3.0
    jaccard = len(set(wanted) & set(field)) / max(len(set(wanted) | set(field)), 1)
    return 2 * jaccard if jaccard >= 0.5 else 0.0


@lru_cache(maxsize=262144)
def _fit(parameter: Parameter, found: Found) -> float | None:
    """How well a value in a text fits a parameter, by the value's kind and the words around it.

    The fit is None if the value is of the wrong kind.
    """
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
    """Whether a word of the argument's name begins with an identifier's letters: ORD-1 for order_id, SKU-2 for sku."""
    letters = re.match(r"#?([A-Za-z]{2,})", value)
    return letters is not None and any(word.startswith(letters[1].lower()) for word in name.lower().split("_"))


def _phrases(parameter: Parameter, text: str) -> Iterator[Found]:
    """Words that follow the parameter's name in a text, as in `damage: broken corner;` for damage."""
    name = r"[\s_-]".join(re.escape(word) for word in parameter.name.split("_"))
    for match in re.finditer(rf"\b{name}(?: is| of|:)? ([a-z][\w -]{{2,40}}?)(?=[,;.)]|$| and | as | by )", text, re.I):
        yield Found("field", match[1], (), (), match.start())


def _nearness(words: tuple[str, ...], name: tuple[str, ...], described: tuple[str, ...]) -> float:
    """A weighted count of the words beside a value that occur in the parameter's name or description.

    `words` are ordered by their distance from the value, the nearest first; nearer words count more.
    """
    weights = (1.0 if stem in name else 0.4 if stem in described else 0.0 for stem in words)
    return sum(weight / (1 + 0.25 * min(distance, 8)) for distance, weight in enumerate(weights))


def _typed(parameter: Parameter, found: Found) -> Json:
    """The value as a number if the parameter requires one and the value can be read as one, else as written."""
    text = str(found.value)
    if parameter.type in ("integer", "number"):
        digits = re.sub(r"[^\d.]", "", text).rstrip(".")
        if digits.count(".") <= 1 and digits.strip("."):
            return float(digits) if "." in digits else int(digits[:18])
    return text


def _looks_like_id(value: Json) -> bool:
    return isinstance(value, str) and any(c.isdigit() for c in value) and " " not in value and "@" not in value


def _outline_before(prompt: Prompt) -> tuple[str, ...]:
    """The outline's lines before the present substep; empty if the outline does not have the present substep."""
    place = _place(prompt)
    lines = prompt.entries("task")[2:]
    here = next((index for index, line in enumerate(lines) if line.split(" ", 1)[0] == place), 0)
    return lines[:here]


def _place(prompt: Prompt) -> str:
    """The number of the present substep; empty if the request does not name a substep."""
    found = re.search(r"\d+(?:\.\d+)*", next(iter(prompt.entries("request")[-1:]), ""))
    return found[0] if found else ""


def _earlier(parameter: Parameter, prompt: Prompt) -> str | None:
    """The number of the earlier substep with the most stems of the parameter's name; if several do, the latest one's.

    None if the outline has no earlier substep.
    """
    wanted = set(stems(parameter.name))
    lines = list(enumerate(_outline_before(prompt)))
    if not lines:
        return None
    _, line = max(lines, key=lambda item: (len(wanted & set(stems(item[1]))), item[0]))
    return line.split(" ", 1)[0]


# Decides whether a substep needs a tool, from lists of stems that indicate a tool and stems that indicate no tool.
#
# The lists were learned from one half of SLATE's workflows (`tests/studies/lexical_needs.py` recreates them). Each list
# has stems that are, in this half, more than twice as frequent in one kind of substep as in the other kind. The other
# half of SLATE, and all of UltraTool, were not used to learn the lists.


_NONE = (
    "add after answer befor both choos come compar date decid end enough figur judg keep last leav long messag mind "
    "money name not note noth number peopl repli result right seller separ should step two want whether word worth"
)
_TOOL = (
    "account against asid avail back between book bought case charg code collect counter discount email file item "
    "let link list measur membership new order other owner page place plan product purchas quantiti receiv record "
    "renew reserv return review second sent set site stock supplier term text those unit until up use voucher where"
)
FOR_NONE, FOR_TOOL = frozenset(_NONE.split()), frozenset(_TOOL.split())


def needs_none(stems: Collection[str]) -> bool:
    """Whether a substep has more stems from the list for 'no tool' than from the list for 'a tool'."""
    found = set(stems)
    return len(found & FOR_NONE) > len(found & FOR_TOOL)


# Where the lexical engine is in a case: it follows the outline's substeps or, without an outline, the query's clauses.


_CLAUSE = re.compile(r"(?<=[.!?;])\s+|\n+|,? (?:and )?then |, and (?=[a-z])")
_MOST = 20
_TRY = re.compile(r"This is try (\d{1,3}) of ")
_RESULT = re.compile(RESULT_REFERENCE)


def outline(prompt: Prompt) -> tuple[str, ...]:
    """The outline's lines, each with its number; empty without an outline."""
    return prompt.entries("task")[2:]


@lru_cache(maxsize=4096)
def clauses(query: str) -> tuple[str, ...]:
    """A query's clauses, each of which may need a call; there is at least one."""
    parts = [part.strip(" .,;") for part in _CLAUSE.split(query)]
    return tuple(part for part in parts if len(stems(part)) > 1)[:_MOST] or (query,)


def query(prompt: Prompt) -> str:
    """The user's last message: the last one in the history or, if the history has none, the query."""
    return _last_said(prompt)[1]


def steps_done(prompt: Prompt) -> int:
    """The number of steps in the history since the user's last message."""
    return max(len(prompt.entries("history")) - 1, 0) - _last_said(prompt)[0]


def _last_said(prompt: Prompt) -> tuple[int, str]:
    """The number of steps before the user's last message, and the message (empty if the prompt has no query)."""
    for place, line in reversed([*enumerate(prompt.entries("history"))]):
        _, said, message = line.partition(f"\n{USER}")
        if said:
            return place, message
    return 0, next(iter(prompt.entries("task")), "").removeprefix("Query: ")


def rejected_before(prompt: Prompt) -> int:
    """The number of unusable answers to this prompt so far, as given in the text of a retry."""
    found = next((_TRY.match(entry) for entry in prompt.entries("retry")), None)
    return int(found[1]) - 1 if found else 0


def results(prompt: Prompt) -> tuple[str, ...]:
    """References to the results that the history shows, the latest first."""
    shown = (entry.partition(" returned {") for entry in reversed(prompt.entries("history")))
    whole = (_RESULT.search(behind) for _, returned, behind in shown if returned)
    return tuple(dict.fromkeys(found[0] for found in whole if found))


def first_number(prompt: Prompt) -> int:
    """The number of a path's first step: 1 under a drafted outline, else 0."""
    return 1 if outline(prompt) else 0


def is_done(prompt: Prompt) -> bool:
    """Whether there is no outline and every clause of the query already has a step."""
    return not outline(prompt) and steps_done(prompt) >= len(clauses(query(prompt)))


def at(prompt: Prompt, place: int) -> Prompt:
    """The prompt with a request for the step at this index (at most the last) in the outline or the query's clauses."""
    lines = outline(prompt) or tuple(f"{number} {text}" for number, text in enumerate(clauses(query(prompt))))
    request = Section("request", (f"Present substep: {lines[min(place, len(lines) - 1)]}",))
    others = tuple(section for section in prompt.sections if section.kind != "request")
    return replace(prompt, sections=(*others, request))


def id_of(prompt: Prompt) -> str:
    """The number of the present substep."""
    return prompt.entries("request")[-1].partition(": ")[2].partition(" ")[0]


def pointed(prompt: Prompt) -> Prompt:
    """The prompt with a present substep, which is added if the prompt does not name one."""
    return prompt if prompt.entries("request") else at(prompt, steps_done(prompt))


# How the lexical engine uses a prompt's memory: it looks for earlier calls at substeps with similar words.


_STEP = re.compile(r"[\d.]+ (?P<text>.+?) -> (?:.*?\{\"tool\": \"(?P<tool>[^\"]+)\"|.*no tool$)")


def shares(prompt: Prompt, options: Sequence[str], words: Set[str]) -> np.ndarray:
    """For each option, the similarity of the present substep to the substeps where a trace used the option's tool.

    The result has the shape (options,). If a tool was used at several substeps, the highest similarity counts. The
    similarity of two substeps is the number of words that both have, divided by the number of words that either has.
    Without an outline, a trace's steps have no words.
    """
    found: dict[str, float] = {}
    for trace in prompt.entries("memory")[1:]:
        for tool, known in _steps(trace):
            share = len(known & words) / len(known | words)
            found[tool] = max(share, found.get(tool, 0.0))
    return np.array([found.get(name_of(option), 0.0) if found else 0.0 for option in options])


@lru_cache(maxsize=4096)
def _steps(trace: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The tool (or `no_tool`) and the substep's words, for each step of a trace that has words."""
    steps = filter(None, map(_STEP.match, trace.splitlines()))
    read = ((step["tool"] or NO_TOOL, frozenset(stems(step["text"]))) for step in steps)
    return tuple((tool, words) for tool, words in read if words)
