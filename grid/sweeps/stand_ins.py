"""Retrievers that stand in for one which is not installed (`stand_ins: {bm25: dense}`): one of the two runs.

So a preset takes the embedding search of its paper (egb_slate, algorithm 1, line 5) where that can be had, and runs
everywhere else too. A line says which it took.
"""

from __future__ import annotations

from collections.abc import Sequence

from grid.settings.make import make
from grid.sweeps.folders import Setting


def one_retriever(settings: Sequence[Setting]) -> tuple[list[Setting], list[str]]:
    """The settings but for retrievers that stand in for one that runs, or cannot run and have a stand-in; lines of it.

    A retriever whose other is not asked for stays as it is.
    """
    asked = {_name(labels): config["retriever"] for config, labels in settings}
    stand_ins = {name: other for config, _ in settings for name, other in (config.get("stand_ins") or {}).items()}
    gone, lines = set[str](), list[str]()
    for name, other in stand_ins.items():
        if name not in asked or other not in asked:
            continue
        if getattr(make("retriever", asked[other]), "installed", True):
            gone.add(name)
            lines.append(f"left out retriever {name}: {other} runs in its place")
        else:
            gone.add(other)
            lines.append(f"left out retriever {other}: it is not installed; {name} runs in its place")
    return [(config, labels) for config, labels in settings if _name(labels) not in gone], lines


def _name(labels: dict[str, str]) -> str:
    return labels["retriever"].partition("[")[0]
