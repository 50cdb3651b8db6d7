"""Texts and JSON of the tables as a log may hold them: of a bounded size, without half a surrogate pair."""

from __future__ import annotations

from typing import Any

from grid.core.untrusted import loads_storable

MOST = 20_000
"""Characters of one text."""
_DEEPEST = 20


def cut(text: str | None) -> str:
    """The text, or its beginning and how much is left out; nothing for None."""
    found = text or ""
    more = len(found) - MOST
    return found if more <= 0 else f"{found[:MOST]}\n[... {more:,} characters left out]"


def arguments(text: str | None) -> tuple[dict[str, Any], str | None]:
    """A call's arguments, and why they could not be read; such are given as one text."""
    if not text:
        return {}, None
    try:
        found = loads_storable(text)
        if not isinstance(found, dict):
            raise ValueError("no JSON object")
    except (ValueError, RecursionError) as error:
        return {"text": cut(text)}, str(error)[:200] or "nested too deeply"
    return {cut(name): _bounded(value, _DEEPEST) for name, value in found.items()}, None


def _bounded(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return cut(value)
    if not depth and isinstance(value, dict | list):
        return "[nested too deeply]"
    if isinstance(value, list):
        return [_bounded(one, depth - 1) for one in value]
    return {cut(name): _bounded(one, depth - 1) for name, one in value.items()} if isinstance(value, dict) else value
