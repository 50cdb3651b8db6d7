"""The rules that a stock file keeps, and the proof that the cases of a SLATE follow from its shop."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from grid.core.types import ToolCall
from grid.datasets.slate import values
from grid.datasets.slate.drafts import OUTPUT, SLOT, Draft, DraftError
from grid.datasets.slate.expressions import ExpressionError
from grid.datasets.slate.outcomes import Ledger, typed
from grid.datasets.slate.records import CaseRecord
from grid.datasets.slate.shop import Record, Shop
from grid.datasets.slate.stock import (
    QUERY_CATEGORIES,
    SHAPES,
    TOOL_CATEGORIES,
    Neighbour,
    Stock,
    StockTool,
    Substep,
    Workflow,
)
from grid.text.references import resolve

DRAFTS = 3
"""Cases that are drawn of each workflow to see that it can be made."""
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_LEAST_RANDOM = 5
_MAIL = re.compile(r"[\w.-]+@[\w.-]+\w")
_TOKEN = re.compile(r"[A-Z]{2,4}-?[A-Z0-9]*\d[A-Z0-9-]*|[\w.-]+@[\w.-]+\w")


def problems(stock: Stock, shop: Shop) -> list[str]:
    """Every rule that one category breaks, as one line each; empty when it is sound."""
    found: list[str] = []
    if stock.query_category not in QUERY_CATEGORIES:
        found.append(f"query category {stock.query_category!r} is none of the twelve")
    for name, text in stock.books.items():
        found += [f"book {name}: {problem}" for problem in _unread(text, drawn=True)]
    for name, tool in stock.tools.items():
        found += [f"tool {name}: {text}" for text in _tool_problems(name, tool)]
    for name, workflow in stock.workflows.items():
        found += [f"workflow {name}: {text}" for text in _workflow_problems(stock, name, workflow, shop)]
    used = {substep.call for workflow in stock.workflows.values() for _, substep in workflow.calls()}
    return found + [f"tool {name}: no workflow calls it" for name in sorted(stock.tools.keys() - used)]


def repeated(stocks: Sequence[Stock]) -> list[str]:
    """The names that the categories together have twice, as one line each."""
    tools = [name for stock in stocks for host, tool in stock.tools.items() for name in (host, *tool.neighbours)]
    workflows = [name for stock in stocks for name in stock.workflows]
    return [
        f"{kind} {name} is named {count} times"
        for kind, names in (("tool", tools), ("workflow", workflows))
        for name, count in Counter(names).items()
        if count > 1
    ]


def _unread(text: str, drawn: bool) -> Iterator[str]:
    """What is wrong with a value text; with `drawn` it must not look at other values."""
    try:
        spec = values.parse(text)
    except ValueError as error:
        yield str(error)
        return
    if drawn and spec.kind in ("follows", "offset"):
        yield f"{text!r} looks at other values"


def _tool_problems(name: str, tool: StockTool) -> Iterator[str]:
    if tool.category not in TOOL_CATEGORIES:
        yield f"category {tool.category!r} is none of the fifteen"
    if not 1 <= len(tool.results) <= 3:
        yield f"{len(tool.results)} result fields, 1 to 3 allowed"
    for field, text in tool.results.items():
        yield from _unread(text, drawn=False)
        if text.startswith("id ") and values.random_characters(text) < _LEAST_RANDOM:
            yield f"result {field}: {text!r} has fewer than {_LEAST_RANDOM} characters that are drawn"
        if not text.startswith(("id ", "=")):
            yield f"result {field}: {text!r} is drawn; a result is issued (id) or follows (=)"
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
        yield "an equivalent returns its host's results"
    if not neighbour.equivalent and not 1 <= len(neighbour.results) <= 3:
        yield f"{len(neighbour.results)} result fields, 1 to 3 allowed"


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
            yield f"{number} {label}, {allowed.start} to {allowed.stop - 1} for {workflow.complexity}"


def _overtaken(stock: Stock, workflow: Workflow) -> Iterator[str]:
    """Calls that tell anew what is left of the same thing: no outcome knows of an earlier change, so they clash."""
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
    """Whether the text holds every word of the tool's name: choosing would take no reading."""
    words = set(re.findall(r"[a-z]+", text.lower()))
    return all(any(word.startswith(part[:5]) for word in words) for part in tool.split("_"))


def contradictions(cases: Sequence[CaseRecord], stocks: Sequence[Stock], shop: Shop) -> list[str]:
    """Where cases do not follow from the shop, as one line each.

    Every outcome is computed again from the call's arguments, and all that a query tells of customers and orders must
    be of one customer.
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
            right = values.plain(computed[name]) if name in computed else None
            if right != value:
                yield f"{sub.id} {sub.call.tool}: {name} is {value!r} in the case, but {right!r} follows"


def _strangers(case: CaseRecord, shop: Shop) -> Iterator[str]:
    owners: dict[str, str] = {}
    for token in dict.fromkeys(_TOKEN.findall(case.query)):
        record = shop.index.get(token)
        if record is None:
            if _MAIL.fullmatch(token):
                yield f"{token} in the query is nobody's address"
        elif owner := _owner(record):
            owners[token] = owner
    if len(set(owners.values())) > 1:
        yield f"the query tells of several customers: {', '.join(owners)}"


def _owner(record: Record) -> str | None:
    """The account of the customer whose record it is, if it is a customer's."""
    value = record.get("account") or record.get("customer")
    return str(value) if value else None
