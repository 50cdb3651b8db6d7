"""Calls that a server left in an answer's text because its parser does not support the form in which the model writes.

This module reads calls in three forms: a block with a tag for each argument (Qwen3-Coder, MiniMax, Anthropic, GLM), an
object after a tool's name (DeepSeek, Kimi, harmony, Mistral, Llama, `Action:`), and a Python expression (Llama 4,
Gemini). A text that looks like a call to an offered tool but has none of these forms counts neither as a call nor as a
plain-text answer (`looks_like_a_call`). Nothing is evaluated.

It stands apart from `native`, which reads calls that are JSON objects, because the two read different grammars.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from grid.core.types import Json, ToolSpec
from grid.core.untrusted import loads
from grid.text.calls import MAX_ARGUMENTS, Call, tool_meant
from grid.text.objects import UnreadableError

_MOST_CODE = 20_000  # characters of an expression
_OWNER = r"(?:\w{1,20}:|\uff5c\w{1,20}\uff5c)?"  # a vendor's tag prefix: `minimax:`, DeepSeek's `DSML` in wide bars
_BLOCK = re.compile(
    rf"<(?P<tag>{_OWNER}(?:function|invoke))(?:=|\s+name=)(?P<quote>[\"']?)(?P<name>[^<>\"'\n]{{1,200}})(?P=quote)\s*>"
    r"(?P<body>.*?)(?:</(?P=tag)>|(?P<open>\Z))"
    r"|<tool_call>\s*(?P<glm>[\w.:-]{1,200})\s*(?P<pairs><arg_key>.*?)(?:</tool_call>|(?P<unended>\Z))",
    re.S,
)
_ARGUMENT = re.compile(
    rf"<{_OWNER}parameter(?:=|\s+name=)([\"']?)(?P<name>[^<>\"'\n]{{1,200}})\1[^<>]*>(?P<value>.*?)"
    rf"(?:</{_OWNER}parameter>|(?=<{_OWNER}parameter[=\s])|(?P<last>\Z))"  # Qwen3-Coder omits the end tag
    r"|<arg_key>(?P<key>[^<>]{1,200})</arg_key>\s*<arg_value>(?P<item>.*?)</arg_value>",
    re.S,
)
_FINAL = re.compile(r".*<\|channel\|>final\b[^<]*<\|message\|>", re.S)
_MARK = re.compile(
    rf"</?{_OWNER}tool_calls?\b|<{_OWNER}(?:function(?:=|_call|\s+name=)|invoke\b)|<\|?/?tool|<｜tool|\[/?TOOL_CALLS?\]"
    r"|<\|python_tag\|>"
    r"|<\|channel\|>\s*commentary|\bto=functions\.|```tool_(?:code|call)|^[^\S\n]*Action Input:",
    re.M,
)
_CLOSING = re.compile(r"(?:\s*<[^<>\n]{1,60}>)+\s*\Z")
_FENCE = re.compile(r"```(\w*)[ \t]*\n?(.*?)(?:```|\Z)", re.S)
_CODE = frozenset({"", "python", "py", "tool_code", "tool_call"})
_CONSTANTS: Mapping[str, Json] = {"true": True, "false": False, "null": None}
_TEXTS = frozenset({"string", "date", ""})


def spoken(text: str) -> str:
    """An answer without the text that the harmony format puts before its last channel."""
    return text[final.end() :] if (final := _FINAL.match(text)) else text


def blocks(text: str, tools: Mapping[str, ToolSpec]) -> Iterator[tuple[int, Call | UnreadableError]]:
    """The calls written with a tag for each argument, or the errors in reading them, each with its start position."""
    for block in _BLOCK.finditer(text):
        tool = tool_meant(block["name"] or block["glm"], tools)
        inside = block["body"] if block["tag"] else block["pairs"]
        if block["tag"] and inside.lstrip().startswith("{"):
            continue  # an object after a name
        ended = block["open"] is None and block["unended"] is None
        yield block.start(), _filled(tool, inside, tools, ended)


def _filled(tool: str, inside: str, tools: Mapping[str, ToolSpec], ended: bool) -> Call | UnreadableError:
    if tool not in tools:
        return UnreadableError(f"the tool {tool!r:.80} was not offered")
    kinds = {parameter.name: parameter.type for parameter in tools[tool].parameters}
    arguments: dict[str, Json] = {}
    for found in _ARGUMENT.finditer(inside):
        name, value = (found["name"], found["value"]) if found["name"] else (found["key"], found["item"])
        if name.strip() in arguments:
            return UnreadableError(f"{name.strip()!r:.60} stands in it twice")
        if found["last"] is not None and not ended:
            return UnreadableError(f"a call of {tool:.80} that is not finished")
        arguments[name.strip()] = _typed(value, kinds.get(name.strip(), ""))
    left = _ARGUMENT.sub("", inside).strip()
    if (left and not ended) or "parameter" in left or "<arg_key" in left or len(arguments) > MAX_ARGUMENTS:
        return UnreadableError(f"a call of {tool:.80} that is not finished")
    return Call(tool, arguments)


def _typed(text: str, kind: str) -> Json:
    """A value without one line break at its start and its end; read as JSON, if possible, unless a text is expected."""
    text = text.removeprefix("\n").removesuffix("\n")
    if kind in _TEXTS:
        return text
    try:
        found: Json = loads(text)
    except (ValueError, RecursionError):
        return text
    return found


def named_before(front: str, tools: Mapping[str, ToolSpec]) -> tuple[str, int] | None:
    """The tool whose name precedes an object, if nothing but marks is between them, and the name's position.

    Args:
        front: the text before the object; only its end is read.
        tools: the offered tools, by name.
    """
    begin = max(0, len(front) - _FRONT)
    found = _names(tools, _BEFORE, _BETWEEN).search(front, begin)
    return (tool_meant(found[1], tools), found.start()) if found else None


_FRONT = 400  # characters
_BEFORE = r"(?:^|(?<=[>\]])|to=|\bAction:|\bfunction\b|<function=)[ \t]*"
_BETWEEN = r"(?:\s|:\d+|<[^<>]{1,60}>|>|\[[A-Z_]{3,12}\]\w*|Action Input:|```\w*|json\b)*\Z"


def _names(tools: Mapping[str, ToolSpec], front: str, behind: str) -> re.Pattern[str]:
    return _compiled(tuple(sorted(tools, key=len, reverse=True)), front, behind)


@lru_cache(maxsize=1024)  # many answers are parsed with the same tools
def _compiled(names: tuple[str, ...], front: str, behind: str) -> re.Pattern[str]:
    known = "|".join(map(re.escape, names)) or "(?!)"
    return re.compile(rf"{front}((?:functions\.|default_api\.)?(?:{known})){behind}", re.M)


def expressions(text: str, tools: Mapping[str, ToolSpec]) -> tuple[int, list[Call | UnreadableError]] | None:
    """The calls written as Python (a code block, or lines that contain only calls), and the position where they start.

    The result is None if there are no such calls.
    """
    begins = _names(
        tools,
        r"^(?:Action:|<[^<>\n]{1,60}>)?[ \t]*(?P<code>[\[(]?[ \t]*(?:\w+[ \t]*=[ \t]*)?(?:print\()?",
        r"[ \t]*\()",
    )
    for fence in _FENCE.finditer(text):
        if fence[1].lower() in _CODE and begins.search(fence[2]):
            return fence.start(), _calls(fence[2], tools)
    if (first := begins.search(text)) is None:
        return None
    lines = _open_ended(text[first.start("code") :]).split("\n")
    for last in range(len(lines), 0, -1)[:100]:
        if _parsed(code := "\n".join(lines[:last])) is not None:
            return first.start(), _calls(code, tools)
    return first.start(), [UnreadableError(f"what looks like a call: {lines[0].strip():.60}")]


def _open_ended(text: str) -> str:
    """A text without the tags (`<...>`) at its end."""
    return text[:-_FRONT] + _CLOSING.sub("", text[-_FRONT:])


def _parsed(code: str) -> list[ast.stmt] | None:
    try:
        return ast.parse(code.strip()).body if len(code) <= _MOST_CODE else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _calls(code: str, tools: Mapping[str, ToolSpec]) -> list[Call | UnreadableError]:
    found: list[Call | UnreadableError] = []
    for statement in _parsed(code) or ():
        value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
        for node in _listed(value):
            call = _call(node, tools)
            found.append(call or UnreadableError("code that is more than a list of calls"))
    return found or [UnreadableError("code that is not a list of calls")]


def _listed(node: ast.expr | None) -> Iterable[ast.expr | None]:
    """The entries of a list, the arguments of a `print`, or else the expression itself."""
    if isinstance(node, ast.List | ast.Tuple):
        return node.elts
    printed = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    return node.args if printed and isinstance(node, ast.Call) and not node.keywords else [node]


def _call(node: ast.expr | None, tools: Mapping[str, ToolSpec]) -> Call | None:
    """A call to an offered tool in which all arguments are literals; None for any other expression."""
    if not isinstance(node, ast.Call):
        return None
    tool = tool_meant(ast.unparse(node.func), tools)
    parameters = tools[tool].parameters if tool in tools else ()
    placed = [
        (parameter.name, value)
        for parameter, value in zip(parameters, node.args, strict=False)
        if parameter.type == "object" or not isinstance(value, ast.Dict)
    ]  # a dict may contain all arguments
    given = [*placed, *((one.arg, one.value) for one in node.keywords)]
    if tool not in tools or len(placed) < len(node.args) or len(given) > MAX_ARGUMENTS:
        return None
    try:
        arguments = {name: _value(value) for name, value in given if name is not None}
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None
    return Call(tool, arguments) if len(arguments) == len(given) else None


def _value(node: ast.expr) -> Json:
    """A literal, including JSON's constants. Raises ValueError for everything else."""
    if isinstance(node, ast.Name) and node.id in _CONSTANTS:
        return _CONSTANTS[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
        if len(keys) < len(node.keys):
            raise ValueError("a key that is not a text")
        return dict(zip(keys, map(_value, node.values), strict=True))
    found = ast.literal_eval(node)
    if found is not None and not isinstance(found, str | int | float | bool):
        raise ValueError("no value of JSON")
    return found


def looks_like_a_call(text: str, tools: Mapping[str, ToolSpec]) -> str | None:
    """The part of a text that looks like a call in an unsupported form; None if no part looks like a call.

    A name with empty brackets does not look like a call, since people refer to tools in this way; a name with a value
    in the brackets does. An answer that consists only of lists of calls and of calls with named arguments also looks
    like a call, even if the called tools were not offered.
    """
    inline = _names(tools, r"(?<![\w.])", r"[ \t]*\(\s*(?:\w+\s*[=:]|[\"'{\[\d])")
    chosen = _names(tools, rf"(?:^\W*(?i:{_ROLES})\W*[:=]\W*|<\|?|\bname=[\"']?)", r"(?![\w.-])")
    found = _MARK.search(text) or inline.search(text) or chosen.search(text)
    if found is None and (code := _parsed(text)) and all(map(_foreign, code)):
        return text.strip()[:60]
    return text[found.start() : found.start() + 60].strip() if found else None


_ROLES = r"action|tool|tool[_ ]name|function|call|use[_ ]tool"


def _foreign(statement: ast.stmt) -> bool:
    """Whether a statement is a list of calls, or a call with named arguments."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(value, ast.List):
        return bool(value.elts) and all(isinstance(entry, ast.Call) for entry in value.elts)
    return isinstance(value, ast.Call) and bool(value.keywords)
