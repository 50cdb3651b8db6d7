"""The authored stock that SLATE's generator draws from: tools, their neighbours, and workflows (egb_slate §3.2-3.3).

One YAML file for each of the twelve query categories under `stock/`; `python -m grid.datasets.slate --check`
reads them all and prints every rule that is broken.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from grid.datasets.files import read_stock
from grid.datasets.slate import values

STOCK = Path(__file__).parent / "stock"
Complexity = Literal["simple", "moderate", "complex", "advanced"]
ArgumentType = Literal["string", "integer", "number", "date"]
QUERY_CATEGORIES = (
    "Product Management",
    "Inventory Management",
    "Order Processing",
    "Shipping & Fulfillment",
    "Pricing & Promotions",
    "Subscription Management",
    "Customer Service",
    "Returns & Refunds",
    "Analytics & Reporting",
    "Catalog Management",
    "Review Management",
    "Miscellaneous",
)
TOOL_CATEGORIES = (
    "Order Management",
    "Product Management",
    "Inventory Management",
    "Shipping & Logistics",
    "Payment Processing",
    "Customer Management",
    "Returns & Refunds",
    "Pricing & Promotions",
    "Analytics & Reporting",
    "Search & Discovery",
    "Reviews & Ratings",
    "Notifications & Communication",
    "Authentication & Security",
    "Marketplace Integration",
    "Content Management",
)
# (steps, substeps per step, substeps in all, calls), egb_slate appendix D, figures 10 and 12.
SHAPES: dict[Complexity, tuple[range, range, range, range]] = {
    "simple": (range(2, 4), range(1, 3), range(3, 6), range(1, 3)),
    "moderate": (range(3, 5), range(1, 4), range(6, 9), range(2, 5)),
    "complex": (range(4, 6), range(2, 4), range(8, 13), range(4, 8)),
    "advanced": (range(5, 8), range(2, 5), range(12, 17), range(7, 17)),
}
_OUTPUT = re.compile(r"(\d+)\.(\d+)\.(\w+)")
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Neighbour(_Strict):
    """A tool that no plan uses: near in meaning to its host, or (`equivalent`) the same function by another name."""

    description: str
    arguments: dict[str, ArgumentType]
    equivalent: bool = False


class StockTool(_Strict):
    """A tool that plans use. `arguments` maps a name to (type, description), `results` a field to a value text."""

    category: str
    description: str
    arguments: dict[str, tuple[ArgumentType, str]]
    results: dict[str, str]
    neighbours: dict[str, Neighbour]


class Substep(_Strict):
    """One substep: ways to say it, and its call if any. `with` maps an argument to a value name or `i.j.field`."""

    say: Annotated[list[str], Field(min_length=1)]
    call: str | None = None
    arguments: dict[str, str] = Field(default_factory=dict, alias="with")


class HighLevelStep(_Strict):
    """A high-level step and its substeps."""

    step: str
    substeps: list[Substep]


class Workflow(_Strict):
    """One way that a query of the category is resolved, with the queries that ask for it."""

    user: Literal["buyer", "seller"]
    complexity: Complexity
    values: dict[str, str]
    queries: Annotated[list[str], Field(min_length=2)]
    plan: list[HighLevelStep]

    def calls(self) -> list[tuple[str, Substep]]:
        """(id `i.j`, substep) of every substep that calls a tool, in order."""
        return [
            (f"{i}.{j}", substep)
            for i, step in enumerate(self.plan, 1)
            for j, substep in enumerate(step.substeps, 1)
            if substep.call
        ]


class Stock(_Strict):
    """One query category."""

    query_category: str
    tools: dict[str, StockTool]
    workflows: dict[str, Workflow]


def load(path: Path) -> Stock:
    """Read one stock file; raises pydantic's ValidationError or yaml's error, both with the place."""
    return Stock.model_validate(read_stock(path))


def load_pools(path: Path = STOCK / "pools.yaml") -> dict[str, tuple[str, ...]]:
    """The named pools of strings that `pool NAME` draws from."""
    pools: dict[str, list[str]] = read_stock(path)
    return {name: tuple(strings) for name, strings in pools.items()}


def load_all(folder: Path = STOCK) -> list[Stock]:
    """Every category's stock, in the order of the file names."""
    return [load(path) for path in sorted(folder.glob("*.yaml")) if path.name != "pools.yaml"]


def problems(stock: Stock, pools: dict[str, tuple[str, ...]]) -> list[str]:
    """Every rule that one category breaks, as one line each; empty when it is sound."""
    found: list[str] = []
    if stock.query_category not in QUERY_CATEGORIES:
        found.append(f"query category {stock.query_category!r} is none of the twelve")
    for name, tool in stock.tools.items():
        found += [f"tool {name}: {text}" for text in _tool_problems(name, tool)]
    for name, workflow in stock.workflows.items():
        found += [f"workflow {name}: {text}" for text in _workflow_problems(stock, workflow, pools)]
    used = {substep.call for workflow in stock.workflows.values() for _, substep in workflow.calls()}
    found += [f"tool {name}: no workflow calls it" for name in stock.tools.keys() - used]
    return found


def _tool_problems(name: str, tool: StockTool) -> list[str]:
    found = []
    if tool.category not in TOOL_CATEGORIES:
        found.append(f"category {tool.category!r} is none of the fifteen")
    if not 1 <= len(tool.results) <= 3:
        found.append(f"{len(tool.results)} result fields, 1 to 3 allowed")
    for text in tool.results.values():
        spec = values.parse(text)
        if spec.refers and spec.refers not in tool.arguments:
            found.append(f"result {text!r} refers to no argument")
    types = [kind for kind, _ in tool.arguments.values()]
    found += [
        f"equivalent {other}: argument types differ from {types}"
        for other, neighbour in tool.neighbours.items()
        if neighbour.equivalent and list(neighbour.arguments.values()) != types
    ]
    for each in (name, *tool.neighbours):
        if not _NAME.fullmatch(each):
            found.append(f"name {each!r} is not snake_case of two words or more")
    return found


def _workflow_problems(stock: Stock, workflow: Workflow, pools: dict[str, tuple[str, ...]]) -> list[str]:
    found = _shape_problems(workflow)
    kinds: dict[str, str | None] = {}
    for name, text in workflow.values.items():
        spec = values.parse(text)
        if spec.refers and spec.refers not in kinds:
            found.append(f"value {name} refers to {spec.refers!r}, which is not defined above it")
        if spec.kind == "pool" and spec.words[0] not in pools:
            found.append(f"value {name}: no pool {spec.words[0]!r}, only {', '.join(pools)}")
        kinds[name] = kinds.get(spec.refers or "") if spec.kind == "copy" else spec.type
    needed: set[str] = set()
    outputs: dict[str, StockTool] = {}
    for place, substep in workflow.calls():
        tool = stock.tools.get(substep.call or "")
        if tool is None:
            found.append(f"{place}: no tool {substep.call!r}")
            continue
        found += [f"{place}: {text}" for text in _call_problems(substep, tool, kinds, outputs)]
        needed |= {source for source in substep.arguments.values() if source in kinds}
        outputs[place] = tool
    for index, query in enumerate(workflow.queries, 1):
        missing = sorted(name for name in needed if "{" + name + "}" not in query)
        if missing:
            found.append(f"query {index} lacks {', '.join(missing)}")
    texts = [*workflow.queries, *(say for step in workflow.plan for sub in step.substeps for say in sub.say)]
    unknown = {slot for text in texts for slot in re.findall(r"\{(\w+)\}", text)} - kinds.keys()
    return found + [f"text uses {{{slot}}}, which values does not define" for slot in sorted(unknown)]


def _shape_problems(workflow: Workflow) -> list[str]:
    steps, per_step, substeps, calls = SHAPES[workflow.complexity]
    counts = [len(step.substeps) for step in workflow.plan]
    found = []
    for label, number, allowed in [
        ("high-level steps", len(counts), steps),
        ("substeps", sum(counts), substeps),
        ("calls", len(workflow.calls()), calls),
        *(("substeps in one step", count, per_step) for count in counts),
    ]:
        if number not in allowed:
            found.append(f"{number} {label}, {allowed.start} to {allowed.stop - 1} for {workflow.complexity}")
    return found


def _call_problems(
    substep: Substep, tool: StockTool, kinds: dict[str, str | None], outputs: dict[str, StockTool]
) -> list[str]:
    found = []
    if substep.arguments.keys() != tool.arguments.keys():
        found.append(f"{substep.call} takes {list(tool.arguments)}, but `with` has {list(substep.arguments)}")
    for name, source in substep.arguments.items():
        declared = tool.arguments.get(name, ("?", ""))[0]
        output = _OUTPUT.fullmatch(source)
        if output:
            producer = outputs.get(f"{output[1]}.{output[2]}")
            text = producer.results.get(output[3]) if producer else None
            if text is None or producer is None:
                found.append(f"argument {name}: no earlier output {source}")
                continue
            spec = values.parse(text)
            kind = producer.arguments[spec.refers or ""][0] if spec.kind == "copy" else spec.type
        elif source in kinds:
            kind = kinds[source]
        else:
            found.append(f"argument {name}: {source!r} is neither a value nor an earlier output")
            continue
        if kind != declared:
            found.append(f"argument {name} is {declared}, but {source} gives {kind}")
    named = [say for say in substep.say if names_tool(say, substep.call or "")]
    return found + [f"{say!r} names its tool {substep.call}" for say in named]


def names_tool(text: str, tool: str) -> bool:
    """Whether the text holds every word of the tool's name: choosing would take no reading."""
    words = set(re.findall(r"[a-z]+", text.lower()))
    return all(any(word.startswith(part[:5]) for word in words) for part in tool.split("_"))
