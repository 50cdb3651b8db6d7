"""Tool usage (traject_bench §4.1), which compares arguments with the reference's, and failure patterns (§4.2).

Arguments are normalised in the same steps and the same order as in the authors' scorer: literals are read first, then
whitespace, countries, dates, truth values and numbers are normalised. Some steps are drastic ("1" becomes a number,
"yes" becomes true, which equals 1, and "nan" becomes a number that does not even equal itself), but we keep these steps
so that figures can be compared.
"""

from __future__ import annotations

import ast
import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from grid.core.problem import Index, Reference
from grid.core.types import Json, Step, ToolCall, ToolSpec
from grid.metrics.scores import PATTERNS
from grid.retrievers.scored import BM25, document

_LONGEST = 10_000
"""Maximum length, in characters, of a text that may be read as a literal; longer texts stay texts."""
_COMMA, _BLANK = re.compile(r" ?, ?"), re.compile(r"\s+")
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
_COUNTRIES = {
    "FR": "France", "US": "United States", "USA": "United States", "UK": "United Kingdom", "GB": "United Kingdom",
    "DE": "Germany", "IT": "Italy", "ES": "Spain", "JP": "Japan", "CN": "China", "AU": "Australia", "CA": "Canada",
    "IN": "India", "BR": "Brazil", "MX": "Mexico", "RU": "Russia", "KR": "South Korea", "NL": "Netherlands",
    "SE": "Sweden", "NO": "Norway", "DK": "Denmark", "FI": "Finland", "CH": "Switzerland", "AT": "Austria",
    "BE": "Belgium", "PT": "Portugal", "GR": "Greece", "TR": "Turkey", "PL": "Poland", "CZ": "Czech Republic",
    "HU": "Hungary", "RO": "Romania", "BG": "Bulgaria", "HR": "Croatia", "SI": "Slovenia", "SK": "Slovakia",
    "LT": "Lithuania", "LV": "Latvia", "EE": "Estonia",
}  # fmt: skip
_SPELLED = {name.lower(): name for name in _COUNTRIES.values()}


def same_arguments(one: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    """Whether two calls to a tool have equal arguments; empty arguments are ignored."""
    return normalised_arguments(one) == normalised_arguments(other)


def normalised_arguments(arguments: Mapping[str, Json]) -> dict[str, object]:
    """A call's arguments, normalised for comparison; empty arguments are left out."""
    return {name.strip(): normalised(value) for name, value in arguments.items() if not _is_empty(value)}


def _is_empty(value: Json) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def normalised(value: Json) -> object:
    """A value, normalised for comparison."""
    written = str(value).strip()
    found = _literal(written) if len(written) <= _LONGEST else written
    if not isinstance(found, str):
        return found
    text = _COMMA.sub(",", _BLANK.sub(" ", found)).strip()
    if "," in text:
        text = ",".join(map(_country, text.split(",")))
    text = _dated(text)
    lowered = text.lower().strip()
    if lowered in _TRUE + _FALSE:
        return lowered in _TRUE
    return _number(text)


@lru_cache(maxsize=1024)  # a reference's values are parsed for every trial, and only compared
def _literal(text: str) -> object:
    """The value of a text that is a Python literal, parsed without running it; any other text stays unchanged."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _country(part: str) -> str:
    part = part.strip()
    return _COUNTRIES.get(part.upper()) or _SPELLED.get(part.lower(), part)


@lru_cache(maxsize=4096)
def _dated(text: str) -> str:
    if _DATE.match(text):
        try:
            return dt.datetime.strptime(text, "%Y-%m-%d").strftime("%Y-%m-%d")
        except ValueError:
            pass
    return text


def _number(text: str) -> object:
    if text.strip().isdigit():
        try:
            return int(text)
        except ValueError:  # a non-decimal digit, such as a superscript, or thousands of digits
            pass
    try:
        return float(text)
    except ValueError:
        return text


# The failure patterns of a trajectory, found by rules (traject_bench §4.2).
#
# The paper names the patterns and gives examples; the rules are ours. Tools are compared by name, and for each tool the
# first call is compared with the reference's first call, as in the metric `usage`. Tool A is near tool B if A is among
# the `NEAR` tools of the library that BM25 ranks highest for B's name, description and parameters. Two tools are
# related if either is near the other, or if both belong to one service, which is the part of a name before the colon.
#
# - similar_tool_confusion: a tool outside the reference was called instead of a reference tool that was not called. Of
#   the called tools outside the reference that are near the missed tool, the nearest counts. Each tool replaces at most
#   one missed tool.
# - wrong_parameters: the first call to a reference tool sets a parameter to a different value than the reference's
#   call, or sets a parameter that the reference's call does not set.
# - missing_parameters: the first call to a reference tool lacks a parameter that the reference's call sets.
# - redundant_related: a tool was called more often than in the reference (more than once, if it replaces a missed
#   tool), and the tool is a reference tool, replaces a missed tool, or is related to a reference tool.
# - redundant_unrelated: any other tool outside the reference was called.
# - intent_missed: neither a reference tool nor a related tool was called, or no tool at all was called.
#
# The rules were checked against a manual reading of 50 lexical-engine trajectories (react and zero_shot, simple and
# hard); `NEAR` was tuned on these 50, and the rules were then checked on 25 others. On the 25, the rules agreed with
# the reading about similar tools in 92% of the trajectories, about parameters in all of them, about related redundant
# calls in 92%, and about unrelated redundant calls in 88%. The rules differ from the reading if tools count as near
# each other only because their descriptions share words, although the tools have different purposes.


SIMILAR, WRONG, MISSING, RELATED, UNRELATED, INTENT = PATTERNS
NEAR = 8


class Likeness:
    """The similarity of tools in a library; the library is indexed when it is first needed."""

    def __init__(self, library: Mapping[str, ToolSpec]) -> None:
        self._library = library
        self.near = lru_cache(maxsize=4096)(self._near)

    def related(self, one: str, other: str) -> bool:
        """Whether two tools belong to one service, or either is among the tools nearest to the other."""
        service = service_of(one)
        same = bool(service) and service == service_of(other)
        return same or one in self.near(other) or other in self.near(one)

    def _near(self, name: str) -> tuple[str, ...]:
        tool = self._library.get(name)
        if tool is None:
            return ()
        found = self._index.nearest(document(tool))
        return tuple(other.name for other in found[: NEAR + 1] if other.name != name)[:NEAR]

    @cached_property
    def _index(self) -> Index:
        return BM25().index(self._library)


def service_of(name: str) -> str:
    """The service before a tool's name, such as `Wayfair` in `Wayfair: reviews/list`; empty if there is none."""
    service, colon, _ = name.partition(":")
    return service if colon else ""


def failure_patterns(steps: Sequence[Step], reference: Reference, likeness: Likeness) -> tuple[str, ...]:
    """The patterns of a path, in the order of PATTERNS; empty if no rule applies to the path."""
    wanted = [call for call in reference.calls.values() if call]
    made = [step for step in steps if step.call]
    right, called = Counter(call.tool for call in wanted), Counter(step.call.tool for step in made if step.call)
    taken = _confused(right, called, likeness)
    found = set(_of_parameters(wanted, made)) | set(_redundant(right, called, taken, likeness))
    if taken:
        found.add(SIMILAR)
    if wanted and not right.keys() & called.keys() and not _any_related(right, called, likeness):
        found.add(INTENT)
    return tuple(name for name in PATTERNS if name in found)


def _confused(right: Counter[str], called: Counter[str], likeness: Likeness) -> set[str]:
    """The tools that were called instead of reference tools.

    Each such tool replaces one reference tool that was not called.
    """
    taken = set[str]()
    for missed in right:
        if missed not in called:
            near = likeness.near(missed)
            other = next((name for name in near if name in called and name not in right and name not in taken), None)
            if other is not None:
                taken.add(other)
    return taken


def _redundant(right: Counter[str], called: Counter[str], taken: set[str], likeness: Likeness) -> Iterator[str]:
    for name, times in called.items():
        if times <= (right[name] or (name in taken)):
            continue
        related = name in right or name in taken or any(likeness.related(name, other) for other in right)
        yield RELATED if related else UNRELATED


def _any_related(right: Counter[str], called: Counter[str], likeness: Likeness) -> bool:
    return any(likeness.related(name, other) for name in called for other in right)


def _of_parameters(wanted: Sequence[ToolCall], made: Sequence[Step]) -> Iterator[str]:
    """The parameter errors in the path's first call to each tool that the reference calls too."""
    for name in {call.tool for call in wanted}:
        own = next((step for step in made if step.call and step.call.tool == name), None)
        if own is None:
            continue
        told = normalised_arguments(next(call for call in wanted if call.tool == name).arguments)
        ways = [normalised_arguments(call.arguments) for call in (own.call, own.written) if call]
        if told in ways:
            continue
        given = ways[0]
        if told.keys() - given.keys():
            yield MISSING
        if any(name not in told or all(way.get(name) != told[name] for way in ways) for name in given):
            yield WRONG
