"""Rules that several stages keep: names, texts, and whether a value stands in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from grid.core.types import Json
from grid.synthesis.slate.journal import Broken
from grid.text.words import stems
from grid.worlds.equivalence import equivalent

NAME = r"[a-z][a-z0-9]*(_[a-z0-9]+){1,4}"
FIELD = r"[a-z][a-z0-9]*(_[a-z0-9]+){0,4}"
LONGEST = 64  # characters of a name
_FEW_RUNS = 3  # of three words, that two texts have in common by chance
TYPES = ("string", "integer", "number", "boolean", "date")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATES = re.compile(
    r"\d{4}-\d\d?-\d\d?|\d\d?/\d\d?/\d{2,4}"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?"
    r"|\d{1,2}(?:st|nd|rd|th)?(?: of)? (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?(?:,? \d{4})?",
    re.I,
)
_NUMBERS = re.compile(r"(?<![\w.,-])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w-])|(?<![\w.,-])-?\d+(?:\.\d+)?(?![\w-])")
_COUNTS = dict(
    enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), 2)
)
_QUOTES = str.maketrans("“”‘’", "\"\"''")
_VAGUE = {"process", "handle", "manage", "perform", "execute", "run", "do", "general", "generic"} | {
    "request", "query", "task", "data", "operation", "action", "job",
}  # fmt: skip


def broken(gate: str, text: str) -> Broken:
    """A rule that is broken."""
    return Broken(gate=gate, text=text)


def normal(text: str) -> str:
    """A text without what does not tell two apart: case, punctuation, endings and stop words; numbers stay."""
    return " ".join([*stems(text), *re.findall(r"\d+", text)])


def copied(text: str, examples: Iterable[str], label: str) -> Iterator[Broken]:
    """Whether a text is a prompt's example, or has much of its wording: small models repeat it with other values."""
    said = _runs(text)
    for example in examples:
        there = _runs(example)
        shared = len(said & there)
        if normal(text) == normal(example) or (shared >= _FEW_RUNS and 2 * shared >= min(len(said), len(there))):
            yield broken("example", f"{label} repeats the example's: {text:.60}. Write it for this domain.")
            return


def _runs(text: str) -> set[tuple[str, ...]]:
    """All runs of three words."""
    words = re.findall(r"\w+", text.casefold())
    return {*zip(words, words[1:], words[2:], strict=False)}


def name_problems(name: str) -> Iterator[Broken]:
    """What is wrong with a tool's name."""
    if not re.fullmatch(NAME, name) or len(name) > LONGEST:
        yield broken("name", f"Tool names are snake_case of two to five words; {name!r:.60} is not.")
    elif set(name.split("_")) <= _VAGUE:
        yield broken("vague", f"A tool does one specific thing; {name} could do anything.")


def stands_in(value: Json, text: str) -> bool:
    """Whether a text states a value: words and codes as they are, numbers and dates in any form; truths always."""
    if isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        word = _COUNTS.get(int(value)) if value == int(value) else None
        spelled = word is not None and re.search(rf"\b{word}\b", text, re.I) is not None
        return spelled or any(equivalent(value, found) for found in _NUMBERS.findall(text))
    if isinstance(value, list):
        return all(stands_in(item, text) for item in value)
    if not isinstance(value, str) or not value.strip():
        return False
    if DATE.fullmatch(value):
        return any(equivalent(value, found, "date") for found in _DATES.findall(text))
    return re.search(rf"(?<!\w){re.escape(_folded(value))}(?!\w)", _folded(text)) is not None


def fits(value: Json, kind: str) -> bool:
    """Whether a value is of an argument's type."""
    match kind:
        case "integer":
            return type(value) is int
        case "number":
            return type(value) in (int, float)
        case "boolean":
            return type(value) is bool
        case "date":
            return isinstance(value, str) and DATE.fullmatch(value) is not None
        case _:
            return isinstance(value, str) and bool(value.strip())


def _folded(text: str) -> str:
    return " ".join(text.translate(_QUOTES).split()).casefold()
