"""Facts that pages get from the code, so that they cannot become outdated.

A page asks for a fact with a comment on a separate line, `<!-- facts WHAT ARGUMENT -->`. WHAT is a key of `FACTS`. The
fact's text is below the comment, up to `<!-- end of facts -->`, for people who read the file itself. `python -m
docs.facts` writes the facts of all pages again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from docs.facts import columns, commands, keys, papers, presets, published, sizing

FACTS: Mapping[str, Callable[[str], str]] = {
    "keys": keys.render,
    "roles": keys.render_roles,
    "columns": columns.render,
    "commands": commands.render,
    "help": commands.render_help,
    "paper": papers.render,
    "presets": presets.render,
    "published": published.render,
    "sizing": sizing.render,
}
"""For each kind of fact, the function that makes the Markdown for an argument; the argument may be empty."""
_BEGIN, _END = "<!-- facts ", "<!-- end of facts -->"
_MARK = re.compile(rf"^<!-- facts (?P<what>\w+) ?(?P<argument>[^\n]*?) -->$(?:\n(?:(?!{_BEGIN}).*\n)*?{_END}$)?", re.M)


def expanded(text: str) -> str:
    """A page with its facts filled in and without the comments that ask for them.

    Raises:
        ValueError: a comment asks for a fact that does not exist.
    """
    return _filled(text, _fact)


def written(text: str) -> str:
    """A page with its facts between their comments; raises as `expanded`."""
    return _filled(text, lambda mark: f"{mark[0].partition(chr(10))[0]}\n\n{_fact(mark).strip()}\n\n{_END}")


def _fact(mark: re.Match[str]) -> str:
    if mark["what"] not in FACTS:
        raise ValueError(f"{mark[0]}: one of {', '.join(FACTS)}")
    return FACTS[mark["what"]](mark["argument"])


def _filled(text: str, filled: Callable[[re.Match[str]], str]) -> str:
    if len(_MARK.findall(text)) != text.count(_BEGIN):
        raise ValueError(f"facts stand alone on a line: `{_BEGIN}WHAT ARGUMENT -->`")
    return _MARK.sub(filled, text)


def asked(text: str, what: str) -> list[str]:
    """The arguments with which a page asks for a fact."""
    return [mark["argument"] for mark in _MARK.finditer(text) if mark["what"] == what]
