"""The tool library of SLATE: 1,000 tools out of the stock, 3.05 arguments each (egb_slate, table 2)."""

from __future__ import annotations

import random
from collections.abc import Iterable

from grid.datasets.slate.records import ArgumentRecord, SameFunctionRecord, ToolRecord
from grid.datasets.slate.stock import Neighbour, Stock, StockTool

TOOLS = 1000
ARGUMENTS = 3050
"""Arguments over all tools: 3.05 a tool."""
# What a real suite's tools take besides; given to neighbours until the library has its arguments.
_COMMON = (
    ("requested_by", "string", "Person on whose behalf the call is made"),
    ("store_id", "string", "Identifier of the shop"),
    ("as_of_date", "date", "Day for which the answer holds"),
    ("locale", "string", "Language and region of texts"),
    ("max_results", "integer", "Largest number of entries to return"),
)


def build_library(stocks: Iterable[Stock], rng: random.Random) -> list[ToolRecord]:
    """All tools that plans use, and as many of their neighbours as make `TOOLS`; in a seeded order.

    Raises:
        ValueError: the stock holds too few tools, or a name twice.
    """
    hosts = [(name, tool) for stock in stocks for name, tool in stock.tools.items()]
    described = {name: text for _, tool in hosts for name, (_, text) in tool.arguments.items()}
    used = [_host(name, tool) for name, tool in hosts]
    neighbours = [
        _neighbour(name, near, (host, tool), described)
        for host, tool in hosts
        for name, near in tool.neighbours.items()
    ]
    names = [tool.name for tool in [*used, *neighbours]]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the stock names these tools twice: {', '.join(twice)}")
    if len(names) < TOOLS:
        raise ValueError(f"the stock holds {len(names)} tools, {TOOLS} are needed")
    equivalents = [tool for tool in neighbours if tool.same_function]
    others = [tool for tool in neighbours if not tool.same_function]
    others = rng.sample(others, TOOLS - len(used) - len(equivalents))
    others = _with_arguments(others, ARGUMENTS - sum(len(tool.arguments) for tool in [*used, *equivalents]), rng)
    library = [*used, *equivalents, *others]
    rng.shuffle(library)
    return library


def _host(name: str, tool: StockTool) -> ToolRecord:
    arguments = [ArgumentRecord(name=n, type=kind, description=text) for n, (kind, text) in tool.arguments.items()]
    return ToolRecord(
        name=name,
        category=tool.category,
        description=tool.description,
        arguments=arguments,
        results=list(tool.results),
    )


def _neighbour(name: str, near: Neighbour, host: tuple[str, StockTool], described: dict[str, str]) -> ToolRecord:
    host_name, tool = host
    texts = [described.get(argument) or _describe(argument) for argument in near.arguments]
    same = None
    if near.equivalent:
        texts = [text for _, text in tool.arguments.values()]
        mapping = dict(zip(near.arguments, tool.arguments, strict=True))
        same = SameFunctionRecord(tool=host_name, arguments=mapping)
    return ToolRecord(
        name=name,
        category=tool.category,
        description=near.description,
        arguments=[
            ArgumentRecord(name=argument, type=kind, description=text)
            for (argument, kind), text in zip(near.arguments.items(), texts, strict=True)
        ],
        results=list(tool.results) if near.equivalent else [f"{name.split('_', 1)[1]}_status"],
        same_function=same,
    )


def _describe(argument: str) -> str:
    """A description from the name, for arguments that the stock gives none."""
    words = argument.split("_")
    if words[-1] in ("id", "number", "code") and len(words) > 1:
        kind = {"id": "Identifier", "number": "Number", "code": "Code"}[words[-1]]
        return f"{kind} of the {' '.join(words[:-1])}"
    return " ".join(words).capitalize()


def _with_arguments(tools: list[ToolRecord], wanted: int, rng: random.Random) -> list[ToolRecord]:
    """The tools with common arguments added, or last arguments dropped, until they have `wanted` in all."""
    missing = wanted - sum(len(tool.arguments) for tool in tools)
    adding = missing > 0
    order = list(range(len(tools)))
    rng.shuffle(order)
    result = list(tools)
    for index in order * 2:
        if missing == 0:
            return result
        arguments = result[index].arguments
        if adding and len(arguments) <= 3:
            taken = {argument.name for argument in arguments}
            name, kind, text = rng.choice([common for common in _COMMON if common[0] not in taken])
            arguments = [
                *arguments,
                ArgumentRecord.model_validate({"name": name, "type": kind, "description": text}),
            ]
        elif not adding and len(arguments) >= 3:
            arguments = arguments[:-1]
        else:
            continue
        result[index] = result[index].model_copy(update={"arguments": arguments})
        missing += -1 if adding else 1
    if missing:
        raise ValueError(f"the stock's tools cannot be given {wanted} arguments; {missing} are left over")
    return result
