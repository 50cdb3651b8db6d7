"""SLATE's statistics next to the paper's, the rules for stock files, and a check that cases agree with the shop."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.table import Table

from grid.core.types import ToolCall, to_json
from grid.datasets.slate.dataset import SHARES, Slate
from grid.datasets.slate.drafts import OUTPUT, SLOT, CaseRecord, Draft, DraftError, ExpressionError, Ledger
from grid.datasets.slate.shop import (
    QUERY_CATEGORIES,
    SHAPES,
    TOOL_CATEGORIES,
    Neighbour,
    Record,
    Shop,
    Stock,
    StockTool,
    Substep,
    Workflow,
    load_all,
    parse,
    plain,
    random_characters,
    shop,
    typed,
)
from grid.text.references import resolve

# SLATE's statistics next to the paper's (egb_slate table 2, §3.2, figure 3, appendix D).


@dataclass(frozen=True)
class Statistic:
    """One figure: the paper's value, our value, and the allowed difference."""

    name: str
    paper: float
    ours: float
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether our value is within the tolerance."""
        return abs(self.ours - self.paper) <= self.tolerance + 1e-9


@dataclass(frozen=True)
class Category:
    """A category: its number of tools in the library, its share (of 1), and its number of tools that plans use."""

    name: str
    tools: int
    share: float
    used: int


def categories(dataset: Slate) -> list[Category]:
    """The library's categories, the largest first (figure 3)."""
    library = Counter(tool.category for tool in dataset.tools.values())
    names = {sub.call.tool for case in dataset.records.values() for sub in case.substeps() if sub.call}
    used = Counter(dataset.tools[name].category for name in names)
    return [
        Category(name, count, count / library.total(), used[name])
        for name, count in sorted(library.items(), key=lambda one: (-one[1], one[0]))
    ]


def statistics(dataset: Slate) -> list[Statistic]:
    """The published figures next to ours, and the number of substeps whose text contains the tool's name."""
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
    """The number of known names among those found; -1 if an unknown name is among them."""
    names = set(found)
    return len(names) if names <= set(known) else -1


def tables(dataset: Slate) -> Iterator[Table]:
    """The statistics next to the paper's, the library by category, and the figures of `quality`."""
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
    """A table of the library's categories, as in the paper's figure 3, the largest first."""
    table = Table(
        title="The library by category (figure 3)",
        caption="Tools, their share of the library, and the tools that plans use. The paper shows its shares only in "
        "a figure, without numbers.",
    )
    for column in ("category", "tools", "%", "used"):
        table.add_column(column, justify="left" if column == "category" else "right", no_wrap=True)
    for own in categories(dataset):
        table.add_row(own.name, str(own.tools), f"{100 * own.share:.1f}", str(own.used))
    return table


def broken(dataset: Slate) -> Iterator[str]:
    """A line for each broken rule of the stock, contradiction with the shop, missed statistic and missed target."""
    from grid.datasets.slate.quality import figures  # scikit-learn is slow to import

    stocks, store = load_all(), shop(dataset.library_seed)
    yield from (f"{part.query_category}: {text}" for part in stocks for text in problems(part, store))
    yield from repeated(stocks)
    if dataset.path is None:
        yield from contradictions(list(dataset.records.values()), stocks, store)
    yield from (
        f"{one.name}: {one.ours:.4g} here, but {one.paper:g} in the paper"
        for one in statistics(dataset)
        if not one.holds
    )
    for figure in figures(dataset):
        if figure.holds is False:
            yield f"{figure.name}: {figure.value:.3g} {figure.unit}, but the target is {figure.target}"


def written(dataset: Slate, case_id: str) -> Iterator[str]:
    """A case with its plan, and for each substep the call and its outcome."""
    case = dataset.records[case_id]
    yield from (f"{case.user}, {case.category}, {case.complexity}", case.query)
    for number, step in enumerate(case.plan, 1):
        yield f"  {number}. {step.text}"
        for sub in step.substeps:
            call = sub.call and f"{sub.call.tool}({to_json(sub.call.arguments)}) -> {to_json(sub.call.outcome)}"
            yield from (f"     {sub.id} {sub.text}", f"         {call or 'no tool required'}")


# The rules for a stock file, and the check that the cases of a SLATE agree with its shop.


DRAFTS = 3
"""Minimum number of cases that are drawn to check a workflow."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_LEAST_RANDOM = 5
_ADDRESS = r"[\w.-]{1,64}@[\w.-]{1,255}\w"
_MAIL = re.compile(_ADDRESS)
_TOKEN = re.compile(rf"[A-Z]{{2,4}}-?(?=[A-Z]{{0,12}}\d)[A-Z0-9-]*|{_ADDRESS}")  # bounded to avoid quadratic time


def problems(stock: Stock, shop: Shop) -> list[str]:
    """One line for every rule that a category breaks; empty if the category is sound."""
    found: list[str] = []
    if stock.query_category not in QUERY_CATEGORIES:
        found.append(f"query category {stock.query_category!r} is not one of the twelve")
    for name, text in stock.books.items():
        found += [f"book {name}: {problem}" for problem in _unread(text, drawn=True)]
    for name, tool in stock.tools.items():
        found += [f"tool {name}: {text}" for text in _tool_problems(name, tool)]
    for name, workflow in stock.workflows.items():
        found += [f"workflow {name}: {text}" for text in _workflow_problems(stock, name, workflow, shop)]
    used = {substep.call for workflow in stock.workflows.values() for _, substep in workflow.calls()}
    return found + [f"tool {name}: no workflow calls it" for name in sorted(stock.tools.keys() - used)]


def repeated(stocks: Sequence[Stock]) -> list[str]:
    """One line for each name of a tool or workflow that occurs more than once across all categories."""
    tools = [name for stock in stocks for host, tool in stock.tools.items() for name in (host, *tool.neighbours)]
    workflows = [name for stock in stocks for name in stock.workflows]
    return [
        f"{kind} {name} is named {count} times"
        for kind, names in (("tool", tools), ("workflow", workflows))
        for name, count in Counter(names).items()
        if count > 1
    ]


def _unread(text: str, drawn: bool) -> Iterator[str]:
    """The errors in a value text. If `drawn`, the text must not refer to other values."""
    try:
        spec = parse(text)
    except ValueError as error:
        yield str(error)
        return
    if drawn and spec.kind in ("follows", "offset"):
        yield f"{text!r} depends on other values"


def _tool_problems(name: str, tool: StockTool) -> Iterator[str]:
    if tool.category not in TOOL_CATEGORIES:
        yield f"category {tool.category!r} is not one of the fifteen"
    if not 1 <= len(tool.results) <= 3:
        yield f"{len(tool.results)} result fields, but 1 to 3 are allowed"
    for field, text in tool.results.items():
        yield from _unread(text, drawn=False)
        if text.startswith("id ") and random_characters(text) < _LEAST_RANDOM:
            yield f"result {field}: {text!r} has fewer than {_LEAST_RANDOM} random characters"
        if not text.startswith(("id ", "=")):
            yield f"result {field}: {text!r} is drawn, but a result must be issued (id) or follow from other values (=)"
    types = [kind for kind, _ in tool.arguments.values()]
    for other, neighbour in tool.neighbours.items():
        yield from (f"neighbour {other}: {text}" for text in _neighbour_problems(neighbour, types))
    for each in (name, *tool.neighbours):
        if not _NAME.fullmatch(each):
            yield f"name {each!r} is not snake_case of two words or more"


def _neighbour_problems(neighbour: Neighbour, types: Sequence[str]) -> Iterator[str]:
    own = [kind for kind, _ in neighbour.arguments.values()]
    if neighbour.equivalent and own != types:
        yield f"argument types differ from {types}"
    if neighbour.equivalent and neighbour.results:
        yield "an equivalent tool has results of its own, but must return those of its host"
    if not neighbour.equivalent and not 1 <= len(neighbour.results) <= 3:
        yield f"{len(neighbour.results)} result fields, but 1 to 3 are allowed"


def _workflow_problems(stock: Stock, name: str, workflow: Workflow, shop: Shop) -> Iterator[str]:
    yield from _shape_problems(workflow)
    yield from _overtaken(stock, workflow)
    needed: set[str] = set()
    before = ""
    for substep in (substep for step in workflow.plan for substep in step.substeps):
        if substep.call and substep.call == before:
            yield f"{substep.call} is called in neighbouring substeps"
        before = substep.call or ""
        tool = stock.tools.get(before)
        if tool:
            yield from _call_problems(substep, tool)
            needed |= {source for source in substep.arguments.values() if not OUTPUT.fullmatch(source)}
    for index, query in enumerate(workflow.queries, 1):
        missing = sorted(needed - set(SLOT.findall(query)))
        if missing:
            yield f"query {index} lacks {', '.join(missing)}"
    options = max(len(workflow.queries), *(len(sub.say) for step in workflow.plan for sub in step.substeps))
    for turn in range(max(DRAFTS, options)):
        try:
            Draft(stock, name, shop, random.Random(f"check-{turn}")).case("check", turn)
        except (DraftError, ValueError) as error:
            yield str(error)
            return


def _shape_problems(workflow: Workflow) -> Iterator[str]:
    steps, per_step, substeps, calls = SHAPES[workflow.complexity]
    counts = [len(step.substeps) for step in workflow.plan]
    for label, number, allowed in [
        ("high-level steps", len(counts), steps),
        ("substeps", sum(counts), substeps),
        ("calls", len(workflow.calls()), calls),
        *(("substeps in one step", count, per_step) for count in counts),
    ]:
        if number not in allowed:
            yield f"{number} {label}, but {allowed.start} to {allowed.stop - 1} are allowed for {workflow.complexity}"


def _overtaken(stock: Stock, workflow: Workflow) -> Iterator[str]:
    """A line for each call that reports an amount that an earlier call has changed; outcomes ignore such changes."""
    told: dict[tuple[str, str], str] = {}
    for place, substep in workflow.calls():
        tool = stock.tools.get(substep.call or "")
        for field, rule in tool.results.items() if tool else ():
            owner = next((name for name in re.findall(r"[a-z_]+", rule) if name in substep.arguments), None)
            if owner is None or not (field.startswith("new_") or field.endswith("_left")):
                continue
            first = told.setdefault((field, substep.arguments[owner]), place)
            if first != place:
                yield f"{place} tells {field} of {substep.arguments[owner]} as if {first} had not changed it"


def _call_problems(substep: Substep, tool: StockTool) -> Iterator[str]:
    if substep.arguments.keys() != tool.arguments.keys():
        yield f"{substep.call} takes {list(tool.arguments)}, but `with` has {list(substep.arguments)}"
    for say in substep.say:
        if names_tool(say, substep.call or ""):
            yield f"{say!r} names its tool {substep.call}"


def names_tool(text: str, tool: str) -> bool:
    """Whether the text contains every word of the tool's name, so that no understanding is needed to find the tool.

    A word of the name is contained if a word of the text begins with its first five letters.
    """
    words = set(re.findall(r"[a-z]+", text.lower()))
    return all(any(word.startswith(part[:5]) for word in words) for part in tool.split("_"))


def contradictions(cases: Sequence[CaseRecord], stocks: Sequence[Stock], shop: Shop) -> list[str]:
    """One line for each contradiction between a case and the shop.

    Every outcome is compared with the outcome computed again from the call's arguments. All customers and orders that a
    query mentions must belong to one customer, and every email address must be somebody's.
    """
    by_category = {stock.query_category: stock for stock in stocks}
    return [
        f"{case.case_id} ({case.workflow}): {text}"
        for case in cases
        for text in (*_recomputed(case, Ledger(by_category[case.category], shop)), *_strangers(case, shop))
    ]


def _recomputed(case: CaseRecord, ledger: Ledger) -> Iterator[str]:
    outcomes = case.outcomes()
    for sub in case.substeps():
        if sub.call is None:
            continue
        concrete = resolve(ToolCall(sub.call.tool, sub.call.arguments), outcomes)
        kinds = ledger.stock.tools[sub.call.tool].arguments
        arguments = {name: typed(value, kinds[name][0]) for name, value in concrete.arguments.items()}
        try:
            computed = ledger.outcome(sub.call.tool, arguments)
        except ExpressionError as error:
            yield f"{sub.id} {sub.call.tool}: {error}"
            continue
        for name, value in sub.call.outcome.items():
            right = plain(computed[name]) if name in computed else None
            if right != value:
                yield f"{sub.id} {sub.call.tool}: {name} is {value!r} in the case, but {right!r} is computed"


def _strangers(case: CaseRecord, shop: Shop) -> Iterator[str]:
    owners: dict[str, str] = {}
    for token in dict.fromkeys(_TOKEN.findall(case.query)):
        record = shop.index.get(token)
        if record is None:
            if _MAIL.fullmatch(token):
                yield f"{token} in the query is not the address of anybody"
        elif owner := _owner(record):
            owners[token] = owner
    if len(set(owners.values())) > 1:
        yield f"the query mentions several customers: {', '.join(owners)}"


def _owner(record: Record) -> str | None:
    """The account of the customer to whom a record belongs; None if there is no such customer."""
    value = record.get("account") or record.get("customer")
    return str(value) if value else None
