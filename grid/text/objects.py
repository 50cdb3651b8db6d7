r"""The JSON objects in a model's answer, even if they are not quite valid JSON; nothing is evaluated or guessed.

Python's decoder reads the objects. If it cannot, tokens that can mean only one thing are first rewritten as JSON:
single and curved quotes, Python literals, unquoted names before a colon, unquoted references to earlier outputs,
comments, trailing commas, a line end instead of a comma, raw line ends, Python's numbers and escapes, `\'` and `\_`,
and a missing last brace. An unquoted thought before an object counts as text outside the object. All other deviations
are refused, with the reason.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import yaml

from grid.core.types import Json, to_json
from grid.core.untrusted import decoder

MAX_CHARACTERS = 200_000
"""Maximum length, in characters, of an answer that is read at all; `budget.answer_characters` is a further limit."""
_REREAD, _SHORTEST = 4, 20_000  # limit on rereading, in lengths of the answer; the minimum length assumed for it
_LEAST = 40  # minimum number of characters counted for each failed attempt at a brace
MAX_DEPTH = 20

_THINK = "think|thinking|thought|reasoning|reflection|scratch_?pad"
_THOUGHT = re.compile(rf"\s*(?:<({_THINK})>.*?</\1>|\[THINK\].*?\[/THINK\])", re.S)
_MARK = re.compile(
    rf"<(?P<thought>{_THINK})>|(?P<behind></(?:{_THINK})>)|(?P<imagined>^Observation:|<tool_response>)"
    r"|(?P<object>\{|\[(?=\s*+\{))",
    re.M,
)
_TOKEN = re.compile(
    r"(?P<gap>(?:\s++|//[^\n]*+|\#[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)++)"
    r"|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,)|(?P<colon>:)"
    r"""|(?P<string>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'|“[^“”"\\]*+”)"""
    r"|(?P<number>[+-]?(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?![\w.]))"
    r"|(?P<reference>OUTPUT_FROM_STEP_\d++(?:\.\d++)*+\.[A-Za-z_]\w*+(?=\s*+[,}\]]))"
    r"|(?P<word>[A-Za-z_$][\w$-]*+)",
    re.S,
)
_BEGINNING = re.compile(r"\s*(?:```\w*\s*|<tool_call>\s*|\[TOOL_CALLS\]\s*)?[{\[]")
_BRACKET = re.compile(r"[{}\[\]]")
_END = re.compile(r"\s*+(?:\Z|```|<)")
_THINKING = re.compile(r'\{\s*+(?:"thought"|\'thought\'|thought)\s*+:\s*+')
_WORDS = frozenset({"thought", "content", "explanation"})
_LITERALS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
_ESCAPE = re.compile(r'\\(x[0-9a-fA-F]{2}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|.)|"', re.S)
_ESCAPES = {"'": "'", "_": "_", "\n": ""}
_CLOSER = {"{": "}", "[": "]"}
_FOLLOWS = {  # state: {kind of next token: next state}; `value` is the state after a colon, `item` the state in a list
    "key": {"string": "colon", "word": "colon", "close": "next"},
    "colon": {"colon": "value"},
    "value": {"string": "next", "number": "next", "reference": "next", "word": "next", "open": "inside"},
    "item": {
        "string": "next",
        "number": "next",
        "reference": "next",
        "word": "next",
        "open": "inside",
        "close": "next",
    },
    "next": {"comma": "inside", "close": "next"},
}


class UnreadableError(ValueError):
    """An answer is not of the requested kind, or its meaning cannot be determined."""


class Found(NamedTuple):
    """An object or a list of objects, and its position in a text; `why` is the reason if it cannot be read.

    `closed`: the object's last bracket is in the text.
    """

    value: Json
    start: int
    end: int
    closed: bool
    why: str | None = None


class _BrokenError(Exception):
    """A text that begins like an object but is not one; `begun`: it contains at least a name and a colon."""

    def __init__(self, why: str, at: int, begun: bool) -> None:
        super().__init__(why)
        self.why, self.at, self.begun = why, at, begun


def objects(text: str) -> list[Found]:
    """The outermost objects of an answer, in order, leaving out objects in a thought or after an observation.

    Text and braces around the objects are ignored. An observation ends the answer only if an object precedes it. The
    time is linear in the text's length: if something begins like an object but is not one, reading starts again at the
    next brace. In total, about four times the text's length is reread at most; a short text counts as one of 20,000.

    Raises:
        UnreadableError: the text has more than MAX_CHARACTERS characters after its first thought.
    """
    at = _behind_thought(text)
    if len(text) - at > MAX_CHARACTERS:
        raise UnreadableError(f"an answer of {len(text) - at:,} characters, {MAX_CHARACTERS:,} at most")
    found: list[Found] = []
    most_reread = _REREAD * max(len(text), _SHORTEST)
    thought: Found | None = None  # a broken thought, until an object follows it
    reread = 0
    while mark := _MARK.search(text, at):
        start, kind = mark.span()[0], mark.lastgroup
        at = mark.end()
        if kind == "thought":
            at = text.find(f"</{mark['thought']}>", at)
            if at < 0:
                break
        elif kind == "behind":
            found.clear()
        elif kind == "imagined":
            if found:
                break
        else:
            try:
                found.append(_read(text, start))
                at, thought = found[-1].end, None
            except _BrokenError as broken:
                reread += max(broken.at - start, _LEAST)
                thinking = _THINKING.match(text, start)
                if thinking and thinking.end() == broken.at and reread <= most_reread:
                    thought = Found(None, start, _balanced(text, start), True, broken.why)
                    at = broken.at
                elif broken.begun:
                    at = _balanced(text, start)
                    found.append(Found(None, start, at, True, broken.why))
                elif reread > most_reread:
                    found.append(Found(None, start, at, True, "too many braces that begin no object"))
                    break
    return [*found, thought] if thought else found


def _behind_thought(text: str) -> int:
    """The position where an answer begins: after a marked and finished thought, else 0."""
    return len(opening.group()) if (opening := _THOUGHT.match(text)) else 0


def characters(text: str) -> int:
    """The number of characters in an answer, without a preceding thought."""
    return len(text) - _behind_thought(text)


def whole(text: str) -> bool:
    """Whether an unfinished text is already a complete answer, so that sampling can stop.

    The answer is complete if it begins with an object and if every object in it has its last bracket. Before the object
    there may be a finished thought and call marks, but no unfinished thought.
    """
    answer = text[_behind_thought(text) :].rpartition("</think>")[2]
    try:
        found = objects(answer) if _BEGINNING.match(answer) else []
    except UnreadableError:
        return False
    return bool(found) and all(one.closed and not one.why for one in found)


def whole_object(text: str) -> dict[str, Json]:
    """The single object in a text; raises UnreadableError if the text contains anything else."""
    try:
        found = _read(text, len(text) - len(text.lstrip()))
    except _BrokenError as broken:
        raise UnreadableError(broken.why) from None
    if not isinstance(found.value, dict) or not found.closed or text[found.end :].strip():
        raise UnreadableError("no JSON object")
    return found.value


def _read(text: str, start: int) -> Found:
    """The value that begins at a position."""
    closed = True
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        written, end, closed = _rewritten(text, start)
        try:
            value = _DECODER.decode(written)
        except ValueError as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise _BrokenError(f"a broken JSON object: {why}", end, begun=True) from None
    if text.count("{", start, end) + text.count("[", start, end) > MAX_DEPTH and depth(value) > MAX_DEPTH:
        raise _BrokenError(f"a JSON object of more than {MAX_DEPTH} levels", end, begun=True)
    if not text.isascii() or "\\" in text:
        value = _storable(value)
        try:
            to_json(value).encode()
        except UnicodeEncodeError:
            raise _BrokenError("half a surrogate pair, which no table can hold", end, begun=True) from None
    return Found(value, start, end, closed)


def _rewritten(text: str, start: int) -> tuple[str, int, bool]:
    """The value at a position, rewritten as JSON; its end position; and whether its last bracket is present."""
    written: list[str] = []
    inside: list[str] = []
    wanted, at, lines, begun = "value", start, False, False
    while True:
        token = _TOKEN.match(text, at)
        kind = (token.lastgroup or "") if token else ""
        if token and kind == "gap":
            at, lines = token.end(), "\n" in token.group()
            continue
        if kind == "string" and wanted == "next" and lines and inside[-1] == "{":
            wanted = "key"  # the line end replaces the comma
        follows = _FOLLOWS[wanted].get(kind)
        if not token or follows is None or (kind == "close" and token.group() != _CLOSER[inside[-1]]):
            if wanted == "next" and len(inside) == 1 and written[-1] in "}]" and _END.match(text, at):
                return "".join([*written, _CLOSER[inside[0]]]), at, False
            unended = text[at : at + 1] in "\"'“/"  # its end was searched for in the whole rest
            why = f"breaks off at {text[at : at + 30]!r}" if at < len(text) else "is not finished"
            raise _BrokenError(f"a JSON object that {why}", len(text) if unended else at, begun)
        if kind not in ("close", "comma", "colon") and written and written[-1] not in ("{", "[", ":"):
            written.append(",")
        if kind != "comma":
            written.append(_written(token.group(), kind, wanted, at, begun))
        if kind == "open":
            inside.append(token.group())
        elif kind == "close":
            inside.pop()
        at, lines, begun = token.end(), False, begun or kind == "colon"
        if not inside:
            return "".join(written), at, True
        if len(inside) > MAX_DEPTH:
            raise _BrokenError(f"a JSON object of more than {MAX_DEPTH} levels", at, begun=True)
        wanted = follows if follows != "inside" else "key" if inside[-1] == "{" else "item"


def _written(token: str, kind: str, wanted: str, at: int, begun: bool) -> str:
    """A token, written as JSON."""
    if kind == "word" and wanted != "key":
        if token not in _LITERALS:
            raise _BrokenError(f"a JSON object with {token:.30} as a value, without quotes", at, begun)
        return _LITERALS[token]
    if kind in ("word", "reference"):
        return f'"{token}"'
    if kind == "number":
        plain = token.lstrip("+")
        return plain if plain.lstrip("-").isdecimal() else repr(float(plain))
    if kind != "string":
        return token

    def escaped(match: re.Match[str]) -> str:
        char = match[1]
        if char is None:
            return '\\"'
        if char in '"\\/bfnrtu':
            return match[0]
        if len(char) > 1:  # Python's own escapes
            return to_json(chr(int(char[1:], 16)))[1:-1]
        if char not in _ESCAPES:
            raise _BrokenError(f"a JSON object with the escape {match[0]}, which JSON does not know", at, begun)
        return _ESCAPES[char]

    return f'"{_ESCAPE.sub(escaped, token[1:-1])}"'


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) < len(pairs):
        for name, value in pairs:
            if to_json(value) != to_json(members[name]):
                raise ValueError(f"{name!r:.60} stands in it twice, with different values")
    return members


_DECODER = decoder(object_pairs_hook=_members, strict=False)


def _storable(value: Json) -> Json:
    """The object, with each unpaired surrogate in its thought, content or explanation replaced by a question mark.

    These strings are only stored.
    """
    if not isinstance(value, dict):
        return value
    return {
        name: item.encode(errors="replace").decode() if name in _WORDS and isinstance(item, str) else item
        for name, item in value.items()
    }


def _balanced(text: str, start: int) -> int:
    """The position after the bracket that closes the first bracket; the text's end if there is none."""
    depth = 0
    for match in _BRACKET.finditer(text, start):
        depth += 1 if match.group() in "{[" else -1
        if not depth:
            return match.end()
    return len(text)


def depth(value: Json) -> int:
    """The number of levels of nesting, counted up to one more than the limit."""
    deepest, level = 0, [value]
    while level and deepest <= MAX_DEPTH:
        inner = [item for item in level if isinstance(item, dict | list)]
        level = [child for item in inner for child in (item.values() if isinstance(item, dict) else item)]
        deepest += bool(inner)
    return deepest


# The YAML loader for plain values, which is ten times as fast if libyaml is installed.


LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""A YAML loader that creates only plain values, such as strings, numbers, booleans, null, dates, lists and mappings."""
