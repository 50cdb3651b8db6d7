"""What a report says of data sets of which a part is made up: tools that are simulated, facts that are invented."""

from __future__ import annotations

import pandas as pd

_CAPTIONS = {
    "-simulated": "simulated tools ({}): what they return is made up, no server was reached; ",
    "-witness": "invented facts ({}): the questions, their logical forms and the schema are real, the facts by which "
    "they are answered are made up; ",
}
"""By what the version of such a data set holds, what captions say of it."""
_KINDS = {"-simulated": "tools simulated", "-witness": "facts invented"}


def told(episodes: pd.DataFrame) -> str:
    """What every caption begins with where a part of any data set is made up; nothing where none is."""
    versions = episodes["dataset_version"].astype(str)
    found = {mark: versions.str.contains(mark, regex=False) for mark in _CAPTIONS}
    names = {mark: sorted(map(str, episodes["dataset"][here].unique())) for mark, here in found.items()}
    return "".join(_CAPTIONS[mark].format(", ".join(own)) for mark, own in names.items() if own)


def kinds(version: str) -> list[str]:
    """What is made up in a data set of this version."""
    return [kind for mark, kind in _KINDS.items() if mark in version]
