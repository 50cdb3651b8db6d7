"""Small files in the form in which BFCL v4 is released, for every category of single turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def function(name: str, described: str, required: list[str], **properties: Any) -> dict[str, Any]:
    """A function with its parameters."""
    parameters = {"type": "dict", "properties": properties, "required": required}
    return {"name": name, "description": described, "parameters": parameters}


def typed(kind: str, described: str = "", **more: Any) -> dict[str, Any]:
    """A parameter."""
    return {"type": kind, "description": described, **more}


DEEP: dict[str, Any] = typed("dict")
for _ in range(60):
    DEEP = typed("dict", properties={"inner": DEEP})
TEXTS, NUMBERS = ({"type": "array", "description": "Several.", "items": {"type": kind}} for kind in ("string", "float"))
WEATHER = function(
    "weather.get",
    "The weather in a city on a day.",
    ["city"],
    city=typed("string", "City and country, such as Oslo, Norway."),
    unit=typed("string", "Unit of temperature", enum=["celsius", "fahrenheit"], default="celsius"),
    days=typed("integer", "Days ahead.", default=1),
)
AREA = function(
    "area.triangle",
    "The area of a triangle.",
    ["base", "height"],
    base=typed("float"),
    height=typed("float", "In cm."),
    unit=typed("string", "Unit.", default="cm"),
)
ROUTE = function(
    "plan_route",
    "A route past several places.",
    ["places"],
    places=TEXTS,
    avoid_tolls=typed("boolean", "No tolls."),
    limits=NUMBERS,
)
PROFILE = function(
    "user.update",
    "Changes a user's profile.",
    ["id", "profile"],
    id=typed("any", "Who."),
    profile=typed(
        "dict",
        "What is changed.",
        properties={"mail": typed("string", "Address."), "age": typed("integer"), "tags": TEXTS},
        required=["mail"],
    ),
)
ORDER = function(
    "order.place",
    "Places an order.",
    ["items"],
    at=typed("tuple", "Where.", items={"type": "float"}),
    items=typed(
        "array", "What.", items={"type": "dict", "properties": {"sku": typed("string"), "n": typed("integer")}}
    ),
)
CLOCK = function("clock.now", "The time now.", [])
OTHER_WEATHER = function(
    "weather.get",
    "Wind and rain at a place.",
    ["place"],
    place=typed("string", "Where."),
    hour=typed("integer", "When."),
)

Gold = dict[str, dict[str, list[Any]]]
Row = tuple[str, list[dict[str, Any]], list[Gold]]


def _one(query: str, function: dict[str, Any], **accepted: list[Any]) -> Row:
    return query, [function], [{function["name"]: accepted}]


AT, ITEMS = [59.9, 10.7], [{"sku": ["A1"], "n": [2]}, {"sku": ["B2"], "n": [3, "3"]}]
PISA, ULM = ["Rome", "Siena", "Pisa"], [["Bonn", "Ulm"], ["Bonn, Germany", "Ulm"]]
CHANGED = {"mail": ["a@b.org"], "age": [41], "tags": ["", ["x"]]}
SIMPLE: list[Row] = [
    _one(
        "What is the weather in Oslo, Norway?",
        WEATHER,
        city=["Oslo, Norway", "Oslo"],
        unit=["", "celsius"],
        days=["", 1],
    ),
    _one("How windy is it at Cape Horn at 6?", OTHER_WEATHER, place=["Cape Horn"], hour=[6]),
    _one("Area of a triangle of base 10 cm and height 5 cm?", AREA, base=[10, 10.0], height=[5], unit=["cm", ""]),
    _one("Route past Rome, Siena and Pisa without tolls", ROUTE, places=[PISA], avoid_tolls=[True], limits=["", []]),
    _one(
        "Route past Bonn and Ulm, at most 90.5 and 120",
        ROUTE,
        places=ULM,
        avoid_tolls=["", False],
        limits=[[90.5, 120.0]],
    ),
    _one("Set the mail of user u7 to a@b.org and the age to 41", PROFILE, id=["u7"], profile=[CHANGED]),
    _one("Order 2 of A1 and 3 of B2 to 59.9, 10.7", ORDER, items=[ITEMS], at=[AT, ""]),
    _one("What time is it?", CLOCK),
    _one("Weather in Lima in fahrenheit?", WEATHER, city=["Lima, Peru", "Lima"], unit=["fahrenheit"], days=["", None]),
    _one("Wind at city_of_birth, please", OTHER_WEATHER, place=["city_of_birth"], hour=["dontcare", ""]),
]
MULTIPLE: list[Row] = [
    (f"Of many: {query}", [*functions, CLOCK] if functions != [CLOCK] else [WEATHER, CLOCK], gold)
    for query, functions, gold in SIMPLE
]


def _twice(row: Row, argument: str) -> Row:
    """The same once more, with another value."""
    query, functions, (gold,) = row
    again = {name: accepted | {argument: ["Turin"]} for name, accepted in gold.items()}
    return f"Twice: {query} And for Turin?", functions, [gold, again]


PARALLEL: list[Row] = [_twice(SIMPLE[0], "city"), _twice(SIMPLE[1], "place"), _twice(SIMPLE[8], "city")]
PARALLEL_MULTIPLE: list[Row] = [
    (f"{one} {other}", [*functions, *more, ORDER], [*gold, *wanted])
    for (one, functions, gold), (other, more, wanted) in zip(SIMPLE[:5], [*SIMPLE[5:6], *SIMPLE[7:8] * 4], strict=True)
]
IRRELEVANT: list[Row] = [("Who wrote Faust?", [AREA, WEATHER], []), ("Bake a cake", [CLOCK], [])]
RELEVANT: list[Row] = [("Is it cold in Bergen?", [OTHER_WEATHER, AREA], []), ("Now?", [CLOCK], [])]
CATEGORIES: dict[str, list[Row]] = {
    "simple_python": SIMPLE,
    "multiple": MULTIPLE,
    "parallel": PARALLEL,
    "parallel_multiple": PARALLEL_MULTIPLE,
    "irrelevance": IRRELEVANT,
    "live_simple": SIMPLE[:2],
    "live_multiple": MULTIPLE[:2],
    "live_parallel": PARALLEL[:2],
    "live_parallel_multiple": PARALLEL_MULTIPLE[:2],
    "live_irrelevance": IRRELEVANT,
    "live_relevance": RELEVANT,
}


def rows_of(category: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A category's records and its answers, as the files have them."""
    rows, answers = list[dict[str, Any]](), list[dict[str, Any]]()
    for number, (query, functions, gold) in enumerate(CATEGORIES[category]):
        name = f"{category}_{number}"
        rows.append({"id": name, "question": [[{"role": "user", "content": query}]], "function": functions})
        if gold:
            answers.append({"id": name, "ground_truth": gold})
    return rows, answers


def write_category(root: Path, category: str, rows: list[Any], answers: list[Any]) -> None:
    """The files of a category; the last line has no end, as in the release."""
    (root / "possible_answer").mkdir(parents=True, exist_ok=True)
    for folder, lines in ((root, rows), (root / "possible_answer", answers)):
        if lines:
            text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
            (folder / f"BFCL_v4_{category}.json").write_text(text, encoding="utf-8")


def write(root: Path) -> str:
    """All categories under a folder; its path."""
    for category in CATEGORIES:
        write_category(root, category, *rows_of(category))
    return str(root)
