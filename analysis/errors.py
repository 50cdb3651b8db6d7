"""The error for what an analysis refuses."""

from __future__ import annotations

from grid.core.errors import GridError


class AnalysisError(GridError):
    """A specification or data that cannot be analysed: the message says what is wrong, and what is allowed."""
