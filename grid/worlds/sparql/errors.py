"""Why a query over a graph, or a call of its tools, has no result."""

from __future__ import annotations

from grid.worlds.handles import CallError


class SparqlError(CallError):
    """A query or a call that cannot have a result; the message says why in one sentence."""
