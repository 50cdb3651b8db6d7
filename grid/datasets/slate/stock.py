"""The authored stock that SLATE's generator draws from: tools, their neighbours, and workflows (egb_slate §3.2-3.3).

One YAML file for each of the twelve query categories under `stock/`; `agent-grid data slate --check`
reads them all and prints every rule that is broken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from grid.datasets.files import read_stock

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
# (steps, substeps per step, substeps in all, calls), egb_slate appendix D, figures 10 and 12. The substeps in all are
# more than the prompts there ask for (8 to 12 for complex): table 5 counts 13.6 a case, which those cannot give.
SHAPES: dict[Complexity, tuple[range, range, range, range]] = {
    "simple": (range(2, 4), range(1, 3), range(3, 6), range(1, 3)),
    "moderate": (range(3, 5), range(1, 4), range(9, 13), range(2, 5)),
    "complex": (range(4, 6), range(2, 4), range(12, 16), range(4, 8)),
    "advanced": (range(5, 8), range(2, 5), range(15, 21), range(7, 17)),
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Neighbour(_Strict):
    """A tool that no plan uses: near in meaning to its host, or (`equivalent`) the same function by another name.

    `arguments` maps a name to (type, description). An equivalent returns its host's `results`.
    """

    description: str
    arguments: dict[str, tuple[ArgumentType, str]]
    results: list[str] = Field(default_factory=list)
    equivalent: bool = False


class StockTool(_Strict):
    """A tool that plans use. `arguments` maps a name to (type, description), `results` a field to a value text."""

    category: str
    description: str
    arguments: dict[str, tuple[ArgumentType, str]]
    results: dict[str, str]
    neighbours: dict[str, Neighbour]


class Substep(_Strict):
    """One substep: ways to say it, and its call if any.

    `with` maps an argument to a value's name, to a field of the scene (`order.id`) or to an output (`i.j.field`).
    """

    say: Annotated[list[str], Field(min_length=1)]
    call: str | None = None
    arguments: dict[str, str] = Field(default_factory=dict, alias="with")


class HighLevelStep(_Strict):
    """A high-level step and its substeps."""

    step: str
    substeps: list[Substep]


class Workflow(_Strict):
    """One way that a query of the category is resolved, with the queries that ask for it.

    `values` are its own beside the scene's; they are drawn anew until every condition of `must` holds.
    """

    user: Literal["buyer", "seller"]
    complexity: Complexity
    values: dict[str, str] = Field(default_factory=dict)
    must: list[str] = Field(default_factory=list)
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
    """One query category. `books` maps what only the shop's books know to a value text, drawn for each key."""

    query_category: str
    books: dict[str, str] = Field(default_factory=dict)
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
    return [load(path) for path in sorted(folder.glob("*.yaml")) if path.name not in ("pools.yaml", "shop.yaml")]
