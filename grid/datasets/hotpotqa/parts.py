"""A question as a part of a case: the calls that solve it, with texts made by rules, and their results (B.1.3).

The paper's decompositions were written by a language model and are not released. In this module, a bridge question
becomes two searches. The first search asks for the thing that a span of the question describes; the first paragraph
describes this thing, and the result is the title of the second paragraph. The second search is the question with this
result in place of the span. A comparison becomes two searches and a decision. Each search asks for the deciding facts
about one of the two things, without naming the other thing; then the results are compared.
"""

from __future__ import annotations

import html
import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from grid.core.errors import DataError
from grid.core.types import RESULT, ToolCall
from grid.datasets.files import read_json_list, read_jsonl
from grid.text.answers import exact_match, normalised
from grid.text.references import PATTERN, numbered, reference
from grid.text.words import terms
from grid.worlds.readers import Evidence, bare
from grid.worlds.search import COMMONSENSE, QUESTION, SEARCH

Pieces: TypeAlias = tuple[str | int, ...]
"""A question's text in pieces. A piece that is a number stands for the result of the part's call with this index."""
_EDGES = " ,;:.?!"
_NAMED = 0.5
"""A paragraph names a title if it has at least this share of the title's words; few texts contain a full title."""


@dataclass(frozen=True)
class PartStep:
    """One call: its tool, its question, and its result.

    `title` is the title of the paragraph that contains the result; it is empty if the call does not search.
    """

    tool: str
    pieces: Pieces
    result: str
    title: str = ""

    def asked(self, numbers: Sequence[str]) -> str:
        """The question with references to earlier calls; `numbers` has each call's step number in the plan."""
        return self._joined([reference(number, RESULT) for number in numbers])

    def found(self, results: Sequence[str]) -> str:
        """The question with the results of the part's earlier calls filled in."""
        return self._joined(results)

    def _joined(self, results: Sequence[str]) -> str:
        texts = (piece if isinstance(piece, str) else results[piece] for piece in self.pieces)
        return " ".join("".join(texts).split())


@dataclass(frozen=True)
class Part:
    """A question that can be part of a case. The last call of the question's reference returns the answer."""

    id: str
    question: str
    answer: str
    kind: str
    steps: tuple[PartStep, ...]

    @property
    def is_comparison(self) -> bool:
        """Whether the part's last call compares the results of its other calls."""
        return self.steps[-1].tool == COMMONSENSE

    @cached_property
    def template(self) -> str:
        """The question's words without its paragraphs' titles. Questions with equal templates differ only in titles."""
        names = sorted({bare(step.title) for step in self.steps} - {""}, key=len, reverse=True)
        return normalised(re.sub("|".join(map(_named, names)), " ", self.question, flags=re.IGNORECASE))

    def evidence(self) -> dict[str, Evidence]:
        """The result of each call; the key is the call's question with earlier results filled in."""
        results = [step.result for step in self.steps]
        return {step.found(results): Evidence(step.result, step.title) for step in self.steps}


def part_of(question: Question) -> Part:
    """A question with its reference. Raises ValueError with the reason if no reference can be made."""
    supporting = question.supporting
    if len(supporting) != 2:
        raise ValueError(f"{len(supporting)} of the paragraphs have supporting facts, but two must")
    steps = _bridge(question, *supporting) if question.kind == BRIDGE else _comparison(question, *supporting)
    if any(PATTERN.search(piece) for step in steps for piece in (*step.pieces, step.result) if isinstance(piece, str)):
        raise ValueError("a text looks like a reference to a step")
    return Part(question.id, question.text, question.answer, question.kind, steps)


def _bridge(question: Question, one: Context, other: Context) -> tuple[PartStep, ...]:
    """Two searches: find the pivot, then ask about it. The pivot is the title of the paragraph with the answer."""
    held = [_stands_in(question.answer, f"{context.title} {context.text}") for context in (one, other)]
    if held[0] == held[1]:
        raise ValueError(f"the answer is in {'both' if held[0] else 'neither'} of the supporting paragraphs")
    first, last = (other, one) if held[0] else (one, other)
    pivot = bare(last.title)
    if _stands_in(pivot, question.text):
        raise ValueError("the question names its pivot, so nothing has to be found first")
    words = terms(pivot)
    if sum(word in terms(first.text) for word in words) < _NAMED * len(words):
        raise ValueError("the first paragraph does not name the pivot")
    span = described(question.text, f"{first.title} {first.text}", f"{last.title} {last.text}")
    if span is None:
        raise ValueError("no words of the question describe only the first paragraph")
    before, inside, behind = question.text[: span[0]], question.text[slice(*span)], question.text[span[1] :]
    return (
        PartStep(SEARCH, ("Who or what is meant here: ", inside.strip(_EDGES), "?"), pivot, first.title),
        PartStep(SEARCH, (before, 0, _behind(inside), behind), question.answer, last.title),
    )


def _comparison(question: Question, one: Context, other: Context) -> tuple[PartStep, ...]:
    """Two searches, one about each thing, and a decision. The searches' results are the supporting sentences."""
    text, places = question.text, dict[tuple[int, int], Context]()
    for context in (one, other):
        name = bare(context.title)
        match = re.search(_named(name), text, re.IGNORECASE)
        if match is None:
            raise ValueError(f"the question does not name {name!r:.60}")
        places[match.span()] = context
    (first, first_end), *rest = sorted(places)
    if not rest or first_end > rest[0][0]:
        raise ValueError("the question names both titles by the same words")
    ((second, second_end),) = rest
    alike = f"{text[:first]}the one{text[first_end:second]}the other{text[second_end:]}"
    found = [(bare(places[place].title), places[place]) for place in sorted(places)]
    searches = (
        PartStep(SEARCH, (f"What about {name} decides this: {alike}",), _facts(context), context.title)
        for name, context in found
    )
    told = (f"Of {found[0][0]} this is known: ", 0, f" Of {found[1][0]} this is known: ", 1, f" By that: {text}")
    return (*searches, PartStep(COMMONSENSE, told, question.answer))


def _named(name: str) -> str:
    """A pattern for a name that is not part of a longer word."""
    return rf"(?<!\w){re.escape(name)}(?!\w)"


def _facts(context: Context) -> str:
    return " ".join(context.sentences[number] for number in context.facts)


def _behind(span: str) -> str:
    """The punctuation at the end of a span; it stays in the question when the span is replaced."""
    return span[len(span.rstrip(_EDGES)) :]


def _stands_in(text: str, whole: str) -> bool:
    """Whether `whole` contains the words of `text` in sequence, ignoring case, articles and punctuation."""
    return f" {normalised(text)} " in f" {normalised(whole)} "


# The words of a bridge question that describe its pivot: the words that fit the question's first paragraph.


_WORD = re.compile(r"\S+")
_SPANS_EDGES = "\"“”'‘’()[],;:.?!"
_ASKING = frozenset(["what", "which", "who", "whom", "whose", "when", "where", "how", "why"])
_RELATIVE = frozenset(["who", "whom", "whose", "which", "that", "where", "when"])
_DETERMINERS = frozenset(["the", "a", "an", "this", "that", "these", "those", "his", "her", "its", "their"])
_MODIFYING = frozenset(["what", "which", "whose", "how"])
"""Words that may come directly before the thing asked for, as in `what city`."""
_PREPOSITIONS = frozenset(["by", "in", "at", "on", "for", "with", "from", "to", "as", "into", "than"])
_VERBS = frozenset(
    ["is", "are", "was", "were", "be", "been", "do", "does", "did", "has", "have", "had", "can", "could", "will"]
)
_GRAMMAR = _ASKING | _PREPOSITIONS | _VERBS | frozenset(["and", "or", "but", "would", "also"])
_WEIGHTS = {(True, False): 1.0, (True, True): 0.25, (False, False): -0.25, (False, True): -1.0}
"""The weight of a word. The key says whether the word is in the first paragraph, and whether it is in the second."""
_MOST = 120
"""Only this many words at the start of a question are considered."""
_NEAR = 3
"""Maximum number of words between a noun and its determiner."""


def described(question: str, first: str, second: str) -> tuple[int, int] | None:
    """The position of the span that fits the first paragraph and not the second; None if there is no such span.

    Each span that may be removed from the question has a score, which is raised by words that are only in the first
    paragraph and lowered by words that are only in the second. The span with the best score is chosen; if several spans
    have this score, the span that starts first is chosen and, if several start there, the shortest. The span is then
    extended by words that belong to it: a determiner, `the director of` a film, and the noun before a relative clause.
    """
    words = _Words(question)
    totals = [0.0, *accumulate(words.weights(set(terms(first)), set(terms(second))))]
    best: tuple[float, int, int] | None = None
    for start in range(len(words.bare)):
        if words.bare[start] not in _GRAMMAR | _RELATIVE | {"of"}:
            for end in range(start + 1, len(words.bare) + 1):
                score = totals[end] - totals[start]
                if score > (best[0] if best else 0.0) and words.may_leave(start, end):
                    best = score, start, end
    if best is None:
        return None
    start = words.widened(best[1], best[2])
    end = words.lengthened(start, best[2])
    return words.places[start][0], words.places[end - 1][1]


class _Words:
    """A question's words. Each word has its position, and its form in lower case without quotes and punctuation."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.places = [match.span() for match in _WORD.finditer(text)][:_MOST]
        self.bare = [text[start:end].strip(_SPANS_EDGES).lower() for start, end in self.places]

    def weights(self, first: set[str], second: set[str]) -> list[float]:
        """How much better each word fits the first paragraph than the second; 0 for grammatical words."""
        return [
            sum(_WEIGHTS[term in first, term in second] for term in own) / max(len(own), 1)
            for own in (self._content[place] for place in range(len(self.bare)))
        ]

    def may_leave(self, start: int, end: int) -> bool:
        """Whether a span may be removed. A question word (if there is one) and something to ask about must remain.

        The removal must not separate `what` from the thing that it asks for.
        """
        outside = (*range(start), *range(end, len(self.bare)))
        asks = any(self.bare[place] in _ASKING for place in outside) or not _ASKING.intersection(self.bare)
        parted = start > 0 and self.bare[start - 1] in _MODIFYING
        return asks and not parted and any(self._content[place] or self.bare[place] == "from" for place in outside)

    def widened(self, start: int, end: int) -> int:
        """The span's start once a determiner, the noun before a relative clause, and words before `of` are added."""
        bare, reach, behind = self.bare, start, ""
        while reach and not self._breaks(reach - 1):
            word = bare[reach - 1]
            if word == "of" or self._relates(reach - 1):
                behind = word
            elif word not in _DETERMINERS and (word in _GRAMMAR or not (behind or self._determined(reach))):
                break
            reach -= 1
            noun = word not in _GRAMMAR | _RELATIVE and behind not in ("", "of")
            if (noun or word in _DETERMINERS or not reach) and self.may_leave(reach, end):
                start = reach
            if word in _DETERMINERS and word != behind and (not reach or bare[reach - 1] != "of"):
                break
        return start

    def lengthened(self, start: int, end: int) -> int:
        """The span's end once words such as `by an actress` before a relative clause (`who`) are added."""
        bare = self.bare
        if self._breaks(end - 1) or end == len(bare) or bare[end] not in _PREPOSITIONS | _DETERMINERS:
            return end
        for reach in range(end + 1, min(end + 3 + _NEAR, len(bare))):
            if bare[reach] in _RELATIVE:
                return reach if reach > end + 1 and self.may_leave(start, reach) else end
            if bare[reach] in _GRAMMAR or self._breaks(reach):
                break
        return end

    @cached_property
    def _content(self) -> list[Sequence[str]]:
        """The terms of each word; a grammatical word has no terms."""
        return [() if word in _GRAMMAR else terms(word) for word in self.bare]

    def _breaks(self, place: int) -> bool:
        """Whether a comma or another punctuation mark ends a word."""
        return self._text[self.places[place][1] - 1] in ",;:.?!"

    def _relates(self, place: int) -> bool:
        """Whether a relative clause after a noun starts at this word or, if this is a verb, one word earlier."""
        at = place - 1 if self.bare[place] in _VERBS else place
        return at > 0 and self.bare[at] in _RELATIVE and self.bare[at - 1] not in _GRAMMAR | _DETERMINERS

    def _determined(self, before: int) -> bool:
        """Whether a determiner comes shortly before a word, without punctuation or grammatical words in between."""
        for place in range(before - 1, max(before - 2 - _NEAR, -1), -1):
            if self.bare[place] in _DETERMINERS:
                return True
            if self.bare[place] in _GRAMMAR or self._breaks(place):
                return False
        return False


# HotpotQA's questions with their paragraphs, read from the released files one after another and within limits.
#
# Two formats are supported. The official distractor files are one JSON list of objects with `_id`, `question`,
# `answer`, `type`, `supporting_facts` ([title, sentence]) and `context` ([title, [sentences]]). JSON Lines files
# contain the same objects, or the hub's objects, which have `id` instead of `_id`, and named lists instead of pairs.


BRIDGE, COMPARISON = "bridge", "comparison"
KINDS = (BRIDGE, COMPARISON)
MAX_QUESTION_CHARACTERS = 2_000
MAX_PARAGRAPHS = 100
MAX_PARAGRAPH_CHARACTERS = 20_000


@dataclass(frozen=True)
class Context:
    """One paragraph of a question: its title, its sentences, and the indices of the supporting sentences (`facts`)."""

    title: str
    sentences: tuple[str, ...]
    facts: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The whole paragraph."""
        return " ".join(self.sentences)


@dataclass(frozen=True)
class Question:
    """A question as released. Each text is on one line, with HTML entities decoded."""

    id: str
    text: str
    answer: str
    kind: str
    contexts: tuple[Context, ...]

    @property
    def supporting(self) -> list[Context]:
        """The paragraphs that support the answer."""
        return [context for context in self.contexts if context.facts]


def objects(path: Path) -> Iterator[tuple[str, object]]:
    """Pairs of a record's place (`line 3`, `record 3`) and the record, in a file of either format. Raises DataError."""
    try:
        with path.open("rb") as file:
            first = file.read(1 << 16).lstrip()[:1]
    except OSError as error:
        raise DataError(path, None, f"cannot be read: {error.strerror}") from None
    if first == b"{":
        yield from ((f"line {number}", record) for number, record in read_jsonl(path))
    else:
        yield from ((f"record {number}", record) for number, record in read_json_list(path))


def question(record: object) -> Question:
    """Read a record as a question. Raises ValueError with the reason if the record is not a question."""
    if not isinstance(record, dict):
        raise ValueError(f"an object is expected, not {type(record).__name__}")
    if record.get("context") is None:
        raise ValueError("the record has no context, the list of paragraphs")
    found = {key: _text(record, key) for key in ("question", "answer", "type")}
    if found["type"] not in KINDS:
        raise ValueError(f"the type is {found['type']!r:.40}, which is not one of {', '.join(KINDS)}")
    if not normalised(found["answer"]):
        raise ValueError("the answer has no words except articles")
    identity = record.get("_id", record.get("id"))
    if not isinstance(identity, str) or not identity.strip() or len(identity) > 200:
        raise ValueError("the record has no _id of 1 to 200 characters")
    facts = _records_facts(record.get("supporting_facts"))
    contexts = _contexts(record.get("context"), facts)
    return Question(one_line(identity), found["question"], found["answer"], found["type"], contexts)


def one_line(text: str) -> str:
    """A text on one line, with HTML entities decoded and single spaces."""
    return " ".join(html.unescape(text).split())


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    text = one_line(value) if isinstance(value, str) and len(value) <= MAX_QUESTION_CHARACTERS else ""
    if not text:
        raise ValueError(f"{key} must be a text of 1 to {MAX_QUESTION_CHARACTERS:,} characters")
    return text


def _records_facts(value: object) -> dict[str, set[int]]:
    """For each title, the indices of the sentences that support the answer."""
    found: dict[str, set[int]] = {}
    for title, number in _pairs(value, "supporting_facts", "title", "sent_id"):
        if not isinstance(title, str) or isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError("supporting_facts must be titles with sentence numbers")
        found.setdefault(one_line(title), set()).add(number)
    return found


def _contexts(value: object, facts: Mapping[str, set[int]]) -> tuple[Context, ...]:
    """The paragraphs, one for each title."""
    found: dict[str, Context] = {}
    for title, sentences in _pairs(value, "context", "title", "sentences"):
        if not isinstance(title, str) or not isinstance(sentences, list):
            raise ValueError("context must be titles with lists of sentences")
        if not all(isinstance(sentence, str) for sentence in sentences):
            raise ValueError(f"the paragraph {title!r:.60} has a sentence that is not a text")
        if sum(map(len, sentences)) > MAX_PARAGRAPH_CHARACTERS or len(title) > MAX_QUESTION_CHARACTERS:
            raise ValueError(f"the paragraph {title!r:.60} has more than {MAX_PARAGRAPH_CHARACTERS:,} characters")
        name, lines = one_line(title), tuple(map(one_line, sentences))
        if name and any(lines) and name not in found:
            rests = tuple(sorted(number for number in facts.get(name, ()) if number < len(lines)))
            found[name] = Context(name, lines, rests)
    return tuple(found.values())


def _pairs(value: object, key: str, first: str, second: str) -> Sequence[tuple[object, object]]:
    """Read a list of pairs, which is written as pairs or as an object with two lists."""
    if isinstance(value, dict):
        one, other = value.get(first), value.get(second)
        if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
            raise ValueError(f"{key} must have lists {first} and {second} of the same length")
        pairs = list(zip(one, other, strict=True))
    elif isinstance(value, list):
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
            raise ValueError(f"{key} must be a list of pairs")
        pairs = [(pair[0], pair[1]) for pair in value]
    else:
        raise ValueError(f"the record has no {key}")
    if len(pairs) > MAX_PARAGRAPHS:
        raise ValueError(f"{key} has {len(pairs):,} entries; at most {MAX_PARAGRAPHS} are read")
    return pairs


# Questions with several objectives, composed of independent questions as in the paper's script (B.1.3).


OF_DEMONSTRATIONS = 1000
"""This number is added to the seed for cases to get the seed for demonstrations."""
_TRIES = 20
"""Maximum number of draws for each wanted sample; more than one, because equal samples count only once."""


@dataclass(frozen=True)
class Sample:
    """Several parts as one question. The reference consists of the parts' calls, one part after another."""

    id: str
    parts: tuple[Part, ...]

    @cached_property
    def query(self) -> str:
        """The question, or numbered lines if there are several."""
        return self._joined([part.question for part in self.parts])

    @property
    def answer(self) -> str:
        """The answer, or numbered lines if there are several."""
        return self._joined([part.answer for part in self.parts])

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the parts, in order."""
        return tuple(part.kind for part in self.parts)

    @cached_property
    def templates(self) -> frozenset[str]:
        """The templates of the parts."""
        return frozenset(part.template for part in self.parts)

    def calls(self) -> dict[str, ToolCall]:
        """The reference's calls by number, from 0. A call that two parts share is made only once."""
        return self._plan[0]

    def resolution(self) -> tuple[str, ...]:
        """The last call of each part."""
        return self._plan[1]

    @cached_property
    def _plan(self) -> tuple[dict[str, ToolCall], tuple[str, ...]]:
        numbers: dict[tuple[str, str], str] = {}
        ends = []
        for part in self.parts:
            own: list[str] = []
            for step in part.steps:
                own.append(numbers.setdefault((step.tool, step.asked(own)), str(len(numbers))))
            ends.append(own[-1])
        calls = {number: ToolCall(tool, {QUESTION: asked}) for (tool, asked), number in numbers.items()}
        return calls, tuple(ends)

    @property
    def is_consistent(self) -> bool:
        """Whether parts that ask the same question get the same result."""
        found = self.evidence()
        return all(found[question] == known for part in self.parts for question, known in part.evidence().items())

    def evidence(self) -> dict[str, Evidence]:
        """The result of each call of the reference; the key is the call's question with earlier results filled in."""
        return {question: found for part in self.parts for question, found in part.evidence().items()}

    @staticmethod
    def _joined(texts: Sequence[str]) -> str:
        return texts[0] if len(texts) == 1 else numbered(texts)


def bounds(parts: Sequence[Part], objectives: int) -> tuple[int, int] | None:
    """The minimum and maximum number of bridge questions in a sample; None if no sample is possible."""
    bridges = sum(part.kind == BRIDGE for part in parts)
    low, high = max(0, objectives - (len(parts) - bridges)), min(objectives, bridges)
    return (low, high) if low <= high else None


def draw(parts: Sequence[Part], objectives: int, count: int, seed: int) -> list[tuple[Part, ...]]:
    """Draw at most `count` different samples of `objectives` parts.

    With one objective, half of the samples are bridge questions and half comparisons, each question once; if `count` is
    odd, the last sample is any other question. With several objectives, each sample of k questions has i ~ U{0..k}
    bridge questions (within `bounds`) and k - i comparisons, in random order. The same question may be in many samples,
    but only once in each. With the same seed, the paper's script makes the same draws. Repeated samples, and samples
    whose parts contradict each other, are dropped.
    """
    rng = random.Random(seed)
    bridges, comparisons = ([part for part in parts if part.kind == kind] for kind in (BRIDGE, COMPARISON))
    if objectives == 1:
        half = count // 2
        halves = [rng.sample(pool, min(half, len(pool))) for pool in (bridges, comparisons)]
        singles = [*halves[0], *halves[1]]
        rng.shuffle(singles)
        if count % 2:
            ids = {part.id for part in singles}
            others = [part for part in parts if part.id not in ids]
            singles += rng.sample(others, min(1, len(others)))
        return [(part,) for part in singles]
    limits = bounds(parts, objectives)
    found: dict[tuple[str, ...], tuple[Part, ...]] = {}
    for _ in range(count * _TRIES if limits else 0):
        if len(found) == count:
            break
        low, high = limits or (0, 0)
        number = rng.randint(low, high)
        chosen = rng.sample(bridges, number) if number else []
        chosen += rng.sample(comparisons, objectives - number) if number < objectives else []
        rng.shuffle(chosen)
        if Sample("", tuple(chosen)).is_consistent:
            found.setdefault(tuple(part.id for part in chosen), tuple(chosen))
    return list(found.values())


# How often answers given without reading are right: constants, or guesses if a question shows its possible answers.


_CLOSED = ("yes", "no")


class Constants:
    """The most common answers to the questions for demonstrations; among equally common answers, the first in the file.

    `constant_by_function_success` uses, for each part, the most common answer for the last tool of the part's
    reference: a search (bridge questions) or a comparison. Planners do not know which tool a reference ends with.
    """

    def __init__(self, trainings: Iterable[Part]) -> None:
        overall, by_last = Counter[str](), dict[str, Counter[str]]()
        for part in trainings:
            overall[part.answer] += 1
            by_last.setdefault(part.steps[-1].tool, Counter())[part.answer] += 1
        self.overall = _commonest(overall)
        self._by_last = {last: _commonest(answers) for last, answers in by_last.items()}

    def right(self, sample: Sample) -> Mapping[str, bool]:
        """For each constant, whether it answers all parts of a case; empty if there are no demonstration questions."""
        if self.overall is None:
            return {}
        told = [self._by_last.get(part.steps[-1].tool) or self.overall for part in sample.parts]
        return {
            "constant_success": always(self.overall, sample),
            "constant_by_function_success": all(
                exact_match(answer, part.answer) for answer, part in zip(told, sample.parts, strict=True)
            ),
        }


def always(answer: str, sample: Sample) -> bool:
    """Whether one answer is right for all parts of a case."""
    return all(exact_match(answer, part.answer) for part in sample.parts)


def guessed(sample: Sample) -> float:
    """The probability that guesses are right for all parts.

    If a part's answer is yes or no, or one of the two compared things, a guess is right with probability 0.5. For other
    parts, whose questions do not show possible answers, the probability is 0.
    """
    return math.prod(0.5 if _is_closed(part) else 0.0 for part in sample.parts)


def _is_closed(part: Part) -> bool:
    named = {normalised(bare(step.title)) for step in part.steps if step.title} if part.is_comparison else set()
    return normalised(part.answer) in {*_CLOSED, *named}


def _commonest(answers: Counter[str]) -> str | None:
    return answers.most_common(1)[0][0] if answers else None
