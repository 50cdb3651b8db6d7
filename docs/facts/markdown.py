"""Pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are already Markdown, except that `|` and line ends are still to be replaced."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    """A text as code; an empty one stays empty."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """A file's comment as a page shows it: escaped, so that no part is read as Markdown or HTML."""
    plain = text.replace("\\", "\\\\")
    for sign in "<*_[":
        plain = plain.replace(sign, f"\\{sign}")
    return plain


def fenced(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
