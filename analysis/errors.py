"""The error for specifications and data that an analysis refuses."""

from __future__ import annotations

from grid.core.errors import GridError


class AnalysisError(GridError):
    """A specification is wrong, or data cannot be analysed; the message says what is wrong and what is allowed."""
