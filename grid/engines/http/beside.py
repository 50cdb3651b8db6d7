"""What a server tells beside an answer: its tokens, and who gave it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from grid.core.engine import Source

_MAX_NAME = 200  # characters that are kept of a name


class Beside(BaseModel):
    """A body's keys of that kind, none of which a server must have, in whatever form."""

    usage: Any = None
    model: Any = None
    system_fingerprint: Any = None
    provider: Any = None  # as OpenRouter has it

    @property
    def source(self) -> Source:
        """Who answered, as far as the server tells."""
        return Source(*map(_name, (self.model, self.system_fingerprint, self.provider)))


def _name(told: Any) -> str | None:
    """On one line and not too long; None where it is no name."""
    return (" ".join(told[:_MAX_NAME].split()) or None) if isinstance(told, str) else None
