"""The tool library of SLATE: 1,000 tools out of the stock, 3.05 arguments each (egb_slate, table 2)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

from grid.datasets.slate.records import ArgumentRecord, SameFunctionRecord, ToolRecord
from grid.datasets.slate.stock import ArgumentType, Neighbour, Stock, StockTool

TOOLS = 1000


def build_library(stocks: Iterable[Stock], rng: random.Random) -> list[ToolRecord]:
    """All tools that plans use, and as many of their neighbours as make `TOOLS`; in a seeded order.

    Raises:
        ValueError: the stock holds too few tools, or a name twice.
    """
    hosts = [(name, tool) for stock in stocks for name, tool in stock.tools.items()]
    used = [_host(name, tool) for name, tool in hosts]
    neighbours = [_neighbour(name, near, host, tool) for host, tool in hosts for name, near in tool.neighbours.items()]
    names = [tool.name for tool in [*used, *neighbours]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the stock names these tools twice: {', '.join(twice)}")
    if len(names) < TOOLS:
        raise ValueError(f"the stock holds {len(names)} tools, {TOOLS} are needed")
    equivalents = [tool for tool in neighbours if tool.same_function]
    others = [tool for tool in neighbours if not tool.same_function]
    library = [*used, *equivalents, *rng.sample(others, TOOLS - len(used) - len(equivalents))]
    rng.shuffle(library)
    return library


def _host(name: str, tool: StockTool) -> ToolRecord:
    return ToolRecord(
        name=name,
        category=tool.category,
        description=tool.description,
        arguments=_arguments(tool.arguments),
        results=list(tool.results),
    )


def _neighbour(name: str, near: Neighbour, host: str, tool: StockTool) -> ToolRecord:
    same = None
    if near.equivalent:
        same = SameFunctionRecord(tool=host, arguments=dict(zip(near.arguments, tool.arguments, strict=True)))
    return ToolRecord(
        name=name,
        category=tool.category,
        description=near.description,
        arguments=_arguments(near.arguments),
        results=list(tool.results) if near.equivalent else near.results,
        same_function=same,
    )


def _arguments(declared: Mapping[str, tuple[ArgumentType, str]]) -> list[ArgumentRecord]:
    return [ArgumentRecord(name=name, type=kind, description=text) for name, (kind, text) in declared.items()]
