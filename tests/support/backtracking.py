"""The work of a regular expression counted in steps, as Python's matcher goes: the same on a machine of any speed.

It leaves out the matcher's shortcuts (a literal that a match must begin with, say), which change no order of growth.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

__all__ = ["Steps", "codes", "parser"]
Rest = Callable[[int], int | None]
"""What comes after a part: from where it begins to where the whole match ends; None where there is none."""


class Steps:
    """A pattern whose work is counted in `taken`."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.taken = 0
        self._tree = parser.parse(pattern.pattern, pattern.flags)
        self._flags = pattern.flags
        self._text, self._groups = "", dict[int, tuple[int, int]]()

    def search(self, text: str) -> tuple[int, int] | None:
        """The first match's span, as `re` finds it."""
        return next((found for start in range(len(text) + 1) if (found := self._match(text, start))), None)

    def match(self, text: str) -> tuple[int, int] | None:
        """The span of the match at the text's beginning."""
        return self._match(text, 0)

    def fullmatch(self, text: str) -> tuple[int, int] | None:
        """The span if all of the text matches."""
        return self._match(text, 0, lambda at: at if at == len(text) else None)

    def _match(self, text: str, start: int, rest: Rest = lambda at: at) -> tuple[int, int] | None:
        self._text, self._groups = text, {}
        with _deep():
            end = self._all(list(self._tree), 0, start, self._flags, rest)
        return None if end is None else (start, end)

    def _all(self, parts: Any, place: int, at: int, flags: int, rest: Rest) -> int | None:
        """Where the match ends if the parts from `place` on begin at `at`, and `rest` comes after them."""
        if place == len(parts):
            return rest(at)
        self.taken += 1
        op, value = parts[place]
        then: Rest = lambda end: self._all(parts, place + 1, end, flags, rest)  # noqa: E731
        name = str(op).lower()
        return getattr(self, f"_{name}", self._one)(value, at, flags, then, op)

    def _one(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        """A single character."""
        if at < len(self._text) and _takes(op, _hashable(value), self._text[at], flags):
            return then(at + 1)
        return None

    def _at(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        anchors = {"AT_BEGINNING": "^", "AT_END": "$", "AT_BEGINNING_STRING": r"\A", "AT_END_STRING": r"\Z"}
        anchors |= {"AT_BOUNDARY": r"\b", "AT_NON_BOUNDARY": r"\B"}
        found = re.compile(anchors[str(value)], flags & ~re.VERBOSE).match(self._text, at)
        return then(at) if found else None

    def _branch(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        ends = (self._all(branch, 0, at, flags, then) for branch in value[1])
        return next((end for end in ends if end is not None), None)

    def _subpattern(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        group, added, removed, parts = value

        def closed(end: int) -> int | None:
            before = self._groups.get(group)
            if group is not None:
                self._groups[group] = at, end
            whole = then(end)
            if whole is None and group is not None:
                self._groups.pop(group) if before is None else self._groups.update({group: before})
            return whole

        return self._all(parts, 0, at, (flags | added) & ~removed, closed)

    def _groupref(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        if value not in self._groups:
            return None
        said = self._text[slice(*self._groups[value])]
        return then(at + len(said)) if self._text.startswith(said, at) else None

    def _max_repeat(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        return self._again(value, 0, at, flags, then, greedy=True)

    def _min_repeat(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        return self._again(value, 0, at, flags, then, greedy=False)

    def _again(self, value: Any, done: int, at: int, flags: int, then: Rest, *, greedy: bool) -> int | None:
        least, most, parts = value

        def once_more(end: int) -> int | None:
            if end == at and done >= least:
                return None  # of nothing, any number is as good as one
            return self._again(value, done + 1, end, flags, then, greedy=greedy)

        self.taken += 1

        def more() -> int | None:
            return self._all(parts, 0, at, flags, once_more) if done < most else None

        def enough() -> int | None:
            return then(at)

        if done < least:
            return more()
        found = more() if greedy else enough()
        return found if found is not None else enough() if greedy else more()

    def _possessive_repeat(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        end = self._again(value, 0, at, flags, lambda end: end, greedy=True)
        return None if end is None else then(end)

    def _atomic_group(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        end = self._all(value, 0, at, flags, lambda end: end)
        return None if end is None else then(end)

    def _assert(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        return then(at) if self._looked(value, at, flags) else None

    def _assert_not(self, value: Any, at: int, flags: int, then: Rest, op: Any) -> int | None:
        return None if self._looked(value, at, flags) else then(at)

    def _looked(self, value: Any, at: int, flags: int) -> bool:
        direction, parts = value
        if direction > 0:
            return self._all(parts, 0, at, flags, lambda end: end) is not None
        start = at - parts.getwidth()[0]  # of lookbehind all matches are as long
        return start >= 0 and self._all(parts, 0, start, flags, lambda end: end if end == at else None) is not None


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


@lru_cache(100_000)
def _takes(op: Any, value: Any, char: str, flags: int) -> bool:
    """Whether a part of one character takes it."""
    if flags & re.IGNORECASE:
        others = {char, char.lower(), char.upper()}
        if str(op) == "NOT_LITERAL" or (str(op) == "IN" and str(value[0][0]) == "NEGATE"):
            return all(_takes(op, value, one, flags & ~re.IGNORECASE) for one in others)
        return any(_takes(op, value, one, flags & ~re.IGNORECASE) for one in others)
    name = str(op)
    if name == "LITERAL":
        return bool(ord(char) == value)
    if name == "NOT_LITERAL":
        return bool(ord(char) != value)
    if name == "ANY":
        return bool(flags & re.DOTALL) or char != "\n"
    if name == "RANGE":
        return bool(value[0] <= ord(char) <= value[1])
    if name == "CATEGORY":
        classes = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}
        kind = str(value).removeprefix("CATEGORY_")
        found = re.match(classes[kind.removeprefix("NOT_")], char, flags & re.ASCII)
        return bool(found) != kind.startswith("NOT_")
    if name == "IN":
        negated = str(value[0][0]) == "NEGATE"
        return bool(negated != any(_takes(*one, char, flags) for one in value[negated:]))
    raise NotImplementedError(name)


@contextmanager
def _deep() -> Iterator[None]:
    """A few frames a character are kept, and Python's own limit is a thousand."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
