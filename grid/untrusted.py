"""JSON from models and files that nobody vouches for: as the standard has it, without NaN and infinities."""

from __future__ import annotations

import json
from typing import Any


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


DECODER = json.JSONDecoder(parse_constant=_refuse)


def loads(text: str | bytes) -> Any:
    """One JSON value; raises ValueError, or RecursionError where it is nested too deeply."""
    return json.loads(text, parse_constant=_refuse)
