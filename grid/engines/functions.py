"""Tools passed as functions to a chat template or a server, instead of as a list in the prompt (`tools: native`)."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from grid.core.engine import FunctionsAnswer, PlanAnswer, Prompt, Section, ToolCallAnswer
from grid.core.types import NO_TOOL, Parameter, ToolSpec, to_json
from grid.text.references import allowed

LONGEST = 64
"""The maximum length of a function's name that servers accept; they accept letters, digits, `_` and `-`."""
_REFUSED = re.compile(r"[^A-Za-z0-9_-]+")
_DIGEST = 8  # hexadecimal digits
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})

Named = tuple[tuple[str, str], ...]
"""Pairs of a function's name and its tool's name."""


def handed_over(prompt: Prompt) -> Prompt:
    """The prompt for an engine that accepts functions: a section that is not part of the text defines the tools.

    The original prompt's options, including `no_tool`, `finish` and `give_up`, become functions; their order and
    wording stay the same. If the answer has a `native` instruction, it replaces the instruction that asks for a JSON
    object. Everything else stays the same, including the history: only the way in which tools are shown and called
    differs. A prompt that asks for neither a call nor a plan of calls is returned unchanged.
    """
    answer = prompt.answer
    if not isinstance(answer, ToolCallAnswer | PlanAnswer):
        return prompt
    options = next((section.options for section in prompt.sections if section.kind == "tools"), ())
    functions, named = _functions(answer.tools, answer.may_decline, options)
    others = [section for section in prompt.sections if section.kind != "tools"]
    place = next((place for place, section in enumerate(prompt.sections) if section.kind == "tools"), 0)
    others.insert(place, functions)
    if answer.native:
        others = [replace(part, entries=answer.native) if part.kind == "instruction" else part for part in others]
    return Prompt(tuple(others), FunctionsAnswer(named))


@lru_cache(maxsize=1024)  # many prompts offer the same options
def _functions(tools: tuple[ToolSpec, ...], may_decline: bool, options: tuple[str, ...]) -> tuple[Section, Named]:
    offered = list({tool.name: tool for tool in tools}.values())  # a server refuses two functions with the same name
    if may_decline:
        listed = ((place, text) for place, text in enumerate(options) if text.startswith(f"{NO_TOOL}:"))
        place, text = next(listed, (len(offered), ""))
        offered.insert(place, ToolSpec(NO_TOOL, text.removeprefix(f"{NO_TOOL}:").strip(), ()))
    names = [tool.name for tool in offered]
    safe = safe_names(names)
    lines = tuple(map(_definition, safe, offered))
    return Section("functions", lines), tuple(zip(safe, names, strict=True))


def safe_names(names: Sequence[str]) -> list[str]:
    """A distinct function name for each tool's name; a name that servers accept stays as it is.

    In any other name, `_` replaces the characters that servers refuse, but not at either end, and a long name is cut;
    if nothing is left, the new name is `tool`. If the new name would equal another function's name, the new name ends
    with a digest of the tool's name. The tools' names must be distinct.
    """
    cleaned = [_cleaned(name) for name in names]
    counts, taken, found = Counter(cleaned), set(names).intersection(cleaned), list[str]()
    for name, clean in zip(names, cleaned, strict=True):
        safe, salt = clean, 0
        while safe != name and (safe in taken or counts[safe] > 1):
            digest = hashlib.sha256(f"{salt} {name}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
            safe, salt = f"{clean[: LONGEST - _DIGEST - 1]}_{digest}", salt + 1
        taken.add(safe)
        found.append(safe)
    return found


def _cleaned(name: str) -> str:
    if not _REFUSED.search(name) and 0 < len(name) <= LONGEST:
        return name
    return _REFUSED.sub("_", name).strip("_")[:LONGEST] or "tool"


@lru_cache(maxsize=65536)
def _definition(name: str, tool: ToolSpec) -> str:
    """The definition, in JSON, of a tool as a function.

    If the tool's name had to be changed, the description begins with the tool's own name.
    """
    described = tool.description if name == tool.name else f"{tool.name}: {tool.description}"
    if tool.returns:
        described += f" Returns: {', '.join(tool.returns)}"
    properties = {parameter.name: _property(parameter, tool) for parameter in tool.parameters}
    required = [parameter.name for parameter in tool.parameters if parameter.required]
    parameters = {"type": "object", "properties": properties, "required": required}
    function = {"name": name, "description": described, "parameters": parameters}
    return to_json({"type": "function", "function": function})


def _property(parameter: Parameter, tool: ToolSpec) -> dict[str, Any]:
    """A parameter's JSON schema: the parameter's own schema if it has one, else one built from its type and values."""
    if parameter.schema:
        own: dict[str, Any] = json.loads(parameter.schema)
        return own | ({"description": parameter.description} if parameter.description else {})
    found: dict[str, Any] = {"type": parameter.type if parameter.type in _TYPES else "string"}
    if parameter.type == "date":
        found["format"] = "date"
    if allowed(tool, parameter):
        found["enum"] = [*parameter.values]
    if parameter.type == "array":
        found["items"] = {}  # servers refuse an array without `items`
    if parameter.description:
        found["description"] = parameter.description
    return found
