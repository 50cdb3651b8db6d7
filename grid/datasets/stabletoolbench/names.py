"""How ToolBench writes names, in its functions' names and in the files of its response cache."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from grid.datasets.stabletoolbench.records import Api

LONGEST = 64
"""Characters of a function's name that servers of models take."""
_OTHER = re.compile(r"[^\u4e00-\u9fa5a-zA-Z0-9^_]")
_RESERVED = frozenset({"from", "class", "return", "false", "true", "id", "and"})


def standardized(text: str) -> str:
    """Lower case, with `_` for all but letters and digits; `get_` in front of a digit."""
    found = re.sub(r"_{2,}", "_", _OTHER.sub("_", text)).lower().strip("_")
    return f"get_{found}" if found[:1].isdigit() else found


def identifier(text: str) -> str:
    """A standardized name that is no word of Python's: of an API, or of an argument."""
    found = standardized(text)
    return f"is_{found}" if found in _RESERVED else found


def category(text: str) -> str:
    """A category, as folders are called."""
    return re.sub(r"[ ,/]", "_", text).replace("__", "_")


def tool_names(apis: Iterable[Api]) -> dict[Api, str]:
    """A name of its own for each API: `search_for_simple_youtube_search`, of a long one the last words.

    Where several have the same, all but the first, in order of their category and full names, get a number behind it.
    """
    names: dict[Api, str] = {}
    taken: Counter[str] = Counter()
    for api in sorted(apis, key=lambda api: (api.category, api.tool, api.name)):
        full = f"{identifier(api.name) or 'api'}_for_{standardized(api.tool) or 'tool'}"
        name = _ending(re.sub(r"[^a-z0-9_]", "_", full))
        while taken[name]:
            taken[name] += 1
            name = f"{name[: LONGEST - 4]}_{taken[name]}"
        taken[name] += 1
        names[api] = name
    return names


def _ending(name: str) -> str:
    """Whole words of at most so many characters, where there are any."""
    if len(name) <= LONGEST:
        return name.strip("_")
    cut = name[-LONGEST:]
    return (cut.partition("_")[2] or cut).strip("_")
