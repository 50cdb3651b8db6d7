"""Why a call of the knowledge base's functions, or a program of them, has no result."""

from __future__ import annotations

from grid.worlds.handles import CallError


class KoplError(CallError):
    """A call that cannot have a result; the message says why in one sentence."""


class ProgramError(KoplError):
    """A program that cannot run: the step (from 0; None for the whole of it) and what is wrong."""

    def __init__(self, step: int | None, message: str) -> None:
        self.step, self.message = step, message
        super().__init__(message if step is None else f"step {step}: {message}")

    def __reduce__(self) -> tuple[type[ProgramError], tuple[int | None, str]]:
        """So that it travels between processes."""
        return type(self), (self.step, self.message)
