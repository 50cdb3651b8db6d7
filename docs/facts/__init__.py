"""What pages take from the code, so that it cannot go stale.

A page asks for it by a comment of its own line, `<!-- facts WHAT ARGUMENT -->`. WHAT is a key of `FACTS`. It stands
below, up to `<!-- end of facts -->`, for those who read the file itself: `python -m docs.facts` writes all pages anew.
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
"""By name, what makes the Markdown of an argument; the argument is empty where there is none to give."""
_BEGIN, _END = "<!-- facts ", "<!-- end of facts -->"
_MARK = re.compile(rf"^<!-- facts (?P<what>\w+) ?(?P<argument>[^\n]*?) -->$(?:\n(?:(?!{_BEGIN}).*\n)*?{_END}$)?", re.M)


def expanded(text: str) -> str:
    """A page with its facts filled in, and no word of where they come from.

    Raises:
        ValueError: a comment asks for what there is not.
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
