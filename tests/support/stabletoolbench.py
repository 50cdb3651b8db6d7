"""Small files in StableToolBench's released format, over services that are made up."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = "solvable_queries/test_instruction"
Row = dict[str, Any]


def parameter(name: str, kind: str = "STRING", default: Any = "", description: str = "") -> Row:
    return {"name": name, "type": kind, "description": description or f"The {name}", "default": default}


def api(
    tool: str,
    name: str,
    required: Sequence[Row] = (),
    optional: Sequence[Row] = (),
    template: Any = None,
    category: str = "Data",
    description: str | None = None,
) -> Row:
    return {
        "category_name": category,
        "tool_name": tool,
        "api_name": name,
        "api_description": f"{name} by {tool}" if description is None else description,
        "required_parameters": list(required),
        "optional_parameters": list(optional),
        "method": "GET",
        **({} if template is None else {"template_response": template}),
    }


def query(number: int | str, text: str, offered: Sequence[Row], *relevant: Sequence[str]) -> Row:
    pairs = relevant or [(offered[0]["tool_name"], offered[0]["api_name"])]
    return {"api_list": [*offered], "query": text, "relevant APIs": [[*pair] for pair in pairs], "query_id": number}


CAST: Any = {"movies": [{"title": "str", "year": "int", "score": "float", "_list_length": 7}], "total": "int"}
CINEMA = (
    api("Cinema Guide", "Search Movies", [parameter("title", default="Alien")], [parameter("year", "NUMBER")], CAST),
    api(
        "Cinema Guide",
        "Get/Cast",
        [parameter("movie_id", "NUMBER", 7)],
        template={"cast": ["list of str with length 5"]},
    ),
    api("Cinema Guide", "Show Times", [parameter("city", default="Oslo"), parameter("day", "DATE (YYYY-MM-DD)")]),
    api("Cinema Guide", "health", description=""),
)
WEATHER = (
    api(
        "Sky_v2",
        "Forecast",
        [parameter("city", default="Oslo")],
        template={"city": "str", "celsius": "float"},
        category="Weather",
    ),
    api("Sky_v2", "Warnings", [], [parameter("severe", "BOOLEAN", "true")], {"warnings": "empty list"}, "Weather"),
)
CHANGE = (
    api(
        "Money Changer",
        "Convert",
        [parameter("amount", "NUMBER", 1), parameter("to", default="NOK")],
        template='{"rate": "float"}',
        category="Finance",
    ),
    api("Money Changer", "Convert", [parameter("from")], category="Financial"),
    api("Coins 💰", "List", template='{"coins": {"name": "str", "symb', category="Finance"),
)
SMALL: Mapping[str, Sequence[Row]] = {
    "G1_instruction": [
        query(1, "Which movies are called Alien?", CINEMA),
        query(2, "Who plays in the movie with number 7?", CINEMA, ("Cinema Guide", "Get/Cast")),
        query(
            3,
            "When is Alien shown in Oslo, and who plays in it?",
            CINEMA,
            ("Cinema Guide", "Search Movies"),
            ("Cinema Guide", "Get/Cast"),
            ("Cinema Guide", "Show Times"),
        ),
        query(4, "Is the cinema guide up?", CINEMA, ("Cinema Guide", "health")),
    ],
    "G1_tool": [
        query(5, "How cold is it in Oslo?", WEATHER),
        query(
            6,
            "Are there severe weather warnings, and how cold will it be?",
            WEATHER,
            ("Sky_v2", "Warnings"),
            ("Sky_v2", "Forecast"),
        ),
        query(7, "What is a dollar in crowns?", CHANGE),
        query(8, "Which coins are there?", CHANGE, ("Coins 💰", "List")),
    ],
    "G2_category": [
        query(
            9,
            "How cold is it, and what are 5 dollars in crowns?",
            (*WEATHER, *CHANGE),
            ("Sky_v2", "Forecast"),
            ("Money Changer", "Convert"),
        ),
        query(10, "Convert 3 dollars and list all coins.", CHANGE, ("Money Changer", "Convert"), ("Coins 💰", "List")),
        query(
            11,
            "Show times in Oslo and the weather there",
            (*CINEMA, *WEATHER),
            ("Cinema Guide", "Show Times"),
            ("Sky_v2", "Forecast"),
        ),
        query(
            12, "All about Alien, please", CINEMA, ("Cinema Guide", "Search Movies"), ("Cinema Guide", "Search Movies")
        ),
    ],
}  # fmt: skip


def write_queries(root: Path, groups: Mapping[str, Any] = SMALL) -> str:
    """The folder with the groups' files."""
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    for name, rows in groups.items():
        (root / FOLDER / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    return str(root)
