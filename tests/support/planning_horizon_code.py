"""The official code of planning_horizon, where AGENT_GRID_PLANNING_HORIZON names a checkout of it."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

CODE = "AGENT_GRID_PLANNING_HORIZON"


def official(path: str) -> ModuleType:
    """One file of it as a module; skips the test where there is none."""
    root = os.environ.get(CODE)
    if not root:
        pytest.skip(f"{CODE} names no checkout of the paper's code")
    name = Path(path).stem
    spec = importlib.util.spec_from_file_location(name, Path(root) / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return module
