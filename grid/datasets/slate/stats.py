"""SLATE's statistics beside the paper's (egb_slate table 2, §3.2, figure 3, appendix D)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.table import Table

from grid.core.types import to_json
from grid.datasets.slate import stock
from grid.datasets.slate.cases import SHARES
from grid.datasets.slate.checking import contradictions, names_tool, problems, repeated
from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.shop import shop
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


def tables(dataset: Slate) -> Iterator[Table]:
    """The statistics beside the paper's, the library by category, and what a reviewer of a benchmark would measure."""
    from grid.datasets.slate.quality import figures  # scikit-learn is slow to import

    table = Table(title=f"SLATE beside the paper: {dataset.version}")
    for column in ("statistic", "paper", "here", "allowed", "holds"):
        table.add_column(column, justify="left" if column == "statistic" else "right")
    for item in statistics(dataset):
        allowed = f"± {item.tolerance:.3g}" if item.tolerance else "exact"
        table.add_row(item.name, f"{item.paper:g}", f"{item.ours:.4g}", allowed, "yes" if item.holds else "NO")
    yield table
    yield by_category(dataset)
    table = Table(title=f"SLATE as a benchmark: {dataset.version}")
    for column in ("figure", "here", "target", "holds"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for figure in figures(dataset):
        holds = "" if figure.holds is None else "yes" if figure.holds else "NO"
        table.add_row(figure.name, f"{figure.value:.3g} {figure.unit}".strip(), figure.target, holds)
    yield table


def by_category(dataset: Slate) -> Table:
    """The library by category, as the paper's figure 3 has it, the largest first."""
    table = Table(
        title="The library by category (figure 3)",
        caption="Tools, their share of the library, and those that plans use. The paper draws its shares, and prints "
        "no number of them.",
    )
    for column in ("category", "tools", "%", "used"):
        table.add_column(column, justify="left" if column == "category" else "right", no_wrap=True)
    for own in categories(dataset):
        table.add_row(own.name, str(own.tools), f"{100 * own.share:.1f}", str(own.used))
    return table


def broken(dataset: Slate) -> Iterator[str]:
    """Rules of the stock, outcomes that do not follow from the shop, statistics that miss, what gives answers away."""
    from grid.datasets.slate.quality import figures  # scikit-learn is slow to import

    stocks, store = stock.load_all(), shop(dataset.library_seed)
    yield from (f"{part.query_category}: {text}" for part in stocks for text in problems(part, store))
    yield from repeated(stocks)
    if dataset.path is None:
        yield from contradictions(list(dataset.records.values()), stocks, store)
    yield from (
        f"{one.name}: {one.ours:.4g}, the paper has {one.paper:g}" for one in statistics(dataset) if not one.holds
    )
    for figure in figures(dataset):
        if figure.holds is False:
            yield f"{figure.name}: {figure.value:.3g} {figure.unit}, the target is {figure.target}"


def written(dataset: Slate, case_id: str) -> Iterator[str]:
    """A case with its plan, and of each substep the call and its outcome."""
    case = dataset.records[case_id]
    yield from (f"{case.user}, {case.category}, {case.complexity}", case.query)
    for number, step in enumerate(case.plan, 1):
        yield f"  {number}. {step.text}"
        for sub in step.substeps:
            call = sub.call and f"{sub.call.tool}({to_json(sub.call.arguments)}) -> {to_json(sub.call.outcome)}"
            yield from (f"     {sub.id} {sub.text}", f"         {call or 'no tool required'}")
