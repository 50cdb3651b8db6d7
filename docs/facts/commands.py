"""The commands, from the command line itself."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from docs.facts.markdown import code, fenced, prose, table
from launch.main import COMMANDS

_ROOT = Path(__file__).parents[2]
WIDTH = "100"
"""Characters a line."""


def render(_: str) -> str:
    """A table of `agent-grid`'s commands."""
    rows = [(code(f"agent-grid {name}"), prose(command.text)) for name, command in COMMANDS.items()]
    return table(["command", "what it does"], rows)


def render_help(argument: str) -> str:
    """What `agent-grid ARGUMENT --help` prints; of `*` that of each command, under its name."""
    if argument == "*":
        return "\n\n".join(f"## {name}\n\n{render_help(name)}" for name in COMMANDS)
    return fenced(told([*argument.split(), "--help"]).replace("main.py ", "agent-grid "))


def told(arguments: Sequence[str]) -> str:
    """What `agent-grid` prints, in a process of its own."""
    environment = {**os.environ, "COLUMNS": WIDTH, "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "launch")])}
    asked = [sys.executable, "-m", "launch.main", *arguments]
    return subprocess.run(asked, capture_output=True, text=True, check=True, cwd=_ROOT, env=environment).stdout
