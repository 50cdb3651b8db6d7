"""The experiment grid for tool-using LLM agents.

`from grid import sweep, load` is its Python API: `sweep("planner=react,egb_logits")` runs what the command line would,
`load("results/default")` reads what it left.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grid.core.moved  # noqa: F401 - old names of modules load

if TYPE_CHECKING:
    from grid.sweeps.api import Results, load, sweep

__all__ = ["CONF", "Results", "load", "sweep"]
CONF = (Path(__file__).parent / "conf").resolve()
"""The folder of the config's files: `conf/` in a checkout, and of this package where it is installed."""


def __getattr__(name: str) -> Any:
    """The Python API, loaded when it is first asked for: nothing here needs it."""
    if name not in ("Results", "load", "sweep"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("grid.sweeps.api"), name)
