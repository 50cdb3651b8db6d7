"""The commands, as the command line itself describes them."""

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
"""The number of characters per line."""


def render(_: str) -> str:
    """A table of `agent-grid`'s commands."""
    rows = [(code(f"agent-grid {name}"), prose(command.text)) for name, command in COMMANDS.items()]
    return table(["command", "what it does"], rows)


def render_help(argument: str) -> str:
    """The output of `agent-grid ARGUMENT --help`; for `*`, the output for each command, under the command's name."""
    if argument == "*":
        return "\n\n".join(f"## {name}\n\n{render_help(name)}" for name in COMMANDS)
    return fenced(told([*argument.split(), "--help"]).replace("main.py ", "agent-grid "))


def told(arguments: Sequence[str]) -> str:
    """The output of `agent-grid`, run in a separate process."""
    environment = {**os.environ, "COLUMNS": WIDTH, "PYTHONPATH": os.pathsep.join([str(_ROOT), str(_ROOT / "launch")])}
    asked = [sys.executable, "-m", "launch.main", *arguments]
    return subprocess.run(asked, capture_output=True, text=True, check=True, cwd=_ROOT, env=environment).stdout
