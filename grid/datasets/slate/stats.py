"""SLATE's statistics beside the paper's (egb_slate table 2, §3.2, figure 3, appendix D)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from grid.datasets.slate.cases import SHARES
from grid.datasets.slate.checking import names_tool
from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.stock import QUERY_CATEGORIES, TOOL_CATEGORIES


@dataclass(frozen=True)
class Statistic:
    """One figure: the paper's, ours, and how far ours may be from it."""

    name: str
    paper: float
    ours: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether ours is within the tolerance."""
        return abs(self.ours - self.paper) <= self.tolerance + 1e-9


@dataclass(frozen=True)
class Category:
    """How many tools of the library a category has, their share of it (of 1), and how many of them plans use."""

    name: str
    tools: int
    share: float
    used: int


def categories(dataset: Slate) -> list[Category]:
    """The library by category, the largest first (figure 3)."""
    library = Counter(tool.category for tool in dataset.tools.values())
    names = {sub.call.tool for case in dataset.records.values() for sub in case.substeps() if sub.call}
    used = Counter(dataset.tools[name].category for name in names)
    return [
        Category(name, count, count / library.total(), used[name])
        for name, count in sorted(library.items(), key=lambda one: (-one[1], one[0]))
    ]


def statistics(dataset: Slate) -> list[Statistic]:
    """The published figures, and that no substep holds its tool's name."""
    cases = list(dataset.records.values())
    calls = Counter(substep.call.tool for case in cases for substep in case.substeps() if substep.call)
    arguments = sum(len(tool.parameters) for tool in dataset.tools.values()) / len(dataset.tools)
    complexities = Counter(case.complexity for case in cases)
    named = sum(
        names_tool(substep.text, substep.call.tool) for case in cases for substep in case.substeps() if substep.call
    )
    return [
        Statistic("tools", 1000, len(dataset.tools), 0),
        Statistic("tool categories", 15, _distinct(TOOL_CATEGORIES, (t.category for t in dataset.tools.values())), 0),
        Statistic("tools used in plans", 253, len(calls), 0.05 * 253),
        Statistic("arguments per tool", 3.05, arguments, 0.05),
        Statistic("calls per used tool", 6.30, calls.total() / len(calls), 0.05 * 6.30),
        Statistic("query categories", 12, _distinct(QUERY_CATEGORIES, (case.category for case in cases)), 0),
        *(
            Statistic(f"share of {name} queries", share, complexities[name] / len(cases), 0.5 / len(cases))
            for name, share in SHARES.items()
        ),
        Statistic("substeps that hold their tool's name", 0, named, 0),
    ]


def _distinct(known: tuple[str, ...], found: Iterable[str]) -> int:
    """How many of the known names occur; one that is not known makes the count -1."""
    names = set(found)
    return len(names) if names <= set(known) else -1
