"""Addresses of the viewer's pages: the same question has the same address, so that it can be sent and written down."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

HOST, PORT = "127.0.0.1", 8321
"""Where the viewer listens unless it is told otherwise."""
SWEEPS, CASES, EPISODE, TREE, ASKED, STATIC = "/", "/cases", "/episode", "/tree", "/asked", "/static/"


def link(model: str = "", dataset: str = "", robustness: str = "", planner: str = "", case: str = "") -> str:
    """The path of the cases of these labels, for the tables of a report: `/cases?model=...`.

    What is left out is chosen by the viewer: the first that there is. `planner` is the one whose cells filters are
    about, `case` a part of a case's id.
    """
    return address(
        CASES, {"model": model, "dataset": dataset, "robustness": robustness, "planner": planner, "case": case}
    )


def whole(model: str, dataset: str) -> str:
    """`link` with the viewer's usual host and port; where both are empty, of the page of all settings."""
    return f"http://{HOST}:{PORT}{link(model, dataset) if model or dataset else SWEEPS}"


def address(path: str, query: Mapping[str, object]) -> str:
    """A path with those parts of a query that are not empty."""
    given = {name: str(value) for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(given)}" if given else path
