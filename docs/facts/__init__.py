"""What pages take from the code when they are built, so that it cannot go stale.

A page asks for it by a comment of its own line, `<!-- facts WHAT ARGUMENT -->`. WHAT is a key of `FACTS`.
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
_MARK = re.compile(r"^<!-- facts (?P<what>\w+) ?(?P<argument>[^\n]*?) -->$", re.M)
_BEGIN = "<!-- facts "


def expanded(text: str) -> str:
    """A page with its facts filled in.

    Raises:
        ValueError: a comment asks for what there is not.
    """

    def filled(mark: re.Match[str]) -> str:
        if mark["what"] not in FACTS:
            raise ValueError(f"{mark[0]}: one of {', '.join(FACTS)}")
        return FACTS[mark["what"]](mark["argument"])

    if len(_MARK.findall(text)) != text.count(_BEGIN):
        raise ValueError(f"facts stand alone on a line: `{_BEGIN}WHAT ARGUMENT -->`")
    return _MARK.sub(filled, text)


def asked(text: str, what: str) -> list[str]:
    """The arguments with which a page asks for a fact."""
    return [mark["argument"] for mark in _MARK.finditer(text) if mark["what"] == what]
