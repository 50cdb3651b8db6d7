"""What an analysis refuses."""

from __future__ import annotations

from grid.core.errors import GridError


class AnalysisError(GridError):
    """A specification or data that cannot be analysed: what is wrong, and what is allowed."""
