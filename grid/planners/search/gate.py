"""The gate on calls: what does not fit a tool's schema is not executed, nor shown to a judge (tooltree §4.1)."""

from __future__ import annotations

from grid.types import Json, ToolCall, ToolSpec

_KINDS: dict[str, type | tuple[type, ...]] = {
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


def misfit(call: ToolCall, tool: ToolSpec) -> str | None:
    """Why a call does not fit its tool; None where it does.

    All required arguments must be there and no others than the tool has. A value is of the argument's type or a text:
    what an earlier step returned is referred to in a text, and models write numbers as texts.
    """
    known = {parameter.name: parameter for parameter in tool.parameters}
    for name, value in call.arguments.items():
        if name not in known:
            return f"{tool.name} has no argument {name!r:.80}"
        if not _fits(value, known[name].type):
            return f"{name} is no {known[name].type}"
    missing = [name for name, one in known.items() if one.required and call.arguments.get(name) in (None, "")]
    return f"without {', '.join(missing)}" if missing else None


def _fits(value: Json, kind: str) -> bool:
    wanted = _KINDS.get(kind)
    if wanted is None or isinstance(value, str) or value is None:
        return True
    return isinstance(value, wanted) and (kind == "boolean" or not isinstance(value, bool))
