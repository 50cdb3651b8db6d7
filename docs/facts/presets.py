"""The presets, from the comments at the top of their files: the question, the commands, the time and the results."""

from __future__ import annotations

import re
from pathlib import Path

from docs.facts.markdown import fenced, prose
from grid import CONF

_FOLDER = CONF / "experiment"
_GAP = re.compile(r" {2,}")


def render(_: str) -> str:
    """A section for each file in `conf/experiment`."""
    return "\n\n".join(_section(path) for path in sorted(_FOLDER.glob("*.yaml")))


def _section(path: Path) -> str:
    lines = [line.removeprefix("#") for line in head(path)]
    parts: list[str] = [f"## {path.stem}"]
    words: list[str] = []
    commands: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("   "):
            parts += [prose(" ".join(words))] if words else []
            words = []
            going_on = bool(commands) and commands[-1].endswith("\\")
            commands.append(_command(line.strip(), going_on))
        else:
            parts += [fenced("\n".join(commands), "bash")] if commands else []
            commands = []
            words += [line.strip()] if line.strip() else []
    return "\n\n".join([*parts, *([prose(" ".join(words))] if words else [])])


def head(path: Path) -> list[str]:
    """The comments before a file's first key, without Hydra's own comment."""
    lines = path.read_text(encoding="utf-8").split("\n")
    end = next(place for place, line in enumerate(lines) if not line.startswith("#"))
    return [line for line in lines[:end] if "@package" not in line]


def _command(line: str, going_on: bool) -> str:
    """A command, with its remark as a comment; a line that neither is nor continues a command becomes a comment."""
    if not going_on and not line.startswith("python "):
        return f"# {line}"
    command, *about = _GAP.split(line, maxsplit=1)
    return "   # ".join([command, *about])
