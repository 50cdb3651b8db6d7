"""Small files in the form of TRAJECT-Bench's `public_data`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

Row = dict[str, Any]
_NOTHING: Mapping[str, Any] = MappingProxyType({})
CITIES = ("Rome", "Oslo", "Lima", "Cairo", "Quito", "Hanoi")


def tool(name: str, required: Sequence[str] = (), optional: Sequence[str] = (), domain: str = "Travel") -> Row:
    """A definition; every parameter is a text with a default."""

    def listed(names: Sequence[str]) -> list[Row]:
        return [{"name": one, "type": "STRING", "description": f"the {one}", "default": "x"} for one in names]

    return {
        "parent tool name": name.partition(":")[0],
        "required_parameters": listed(required),
        "optional_parameters": listed(optional),
        "tool name": name,
        "tool description": f"Tells about {name.replace(':', ' and')}.",
        "API name": name.partition(": ")[2],
        "domain name": domain,
        "output_info": {"output_info_summary": "Something.", "output_format": "An object."},
        "connected tools": [],
    }


def step(name: str, required: Mapping[str, Any] = _NOTHING, optional: Mapping[str, Any] = _NOTHING, **more: Any) -> Row:
    """A recorded step."""

    def listed(values: Mapping[str, Any]) -> list[Row]:
        return [{"name": one, "value": value} for one, value in values.items()]

    found = {
        "tool name": name,
        "tool description": f"Tells about {name.replace(':', ' and')}.",
        "required parameters": listed(required),
        "optional parameters": listed(optional),
        "executed_output": f"{{'found': '{name} of {' and '.join(map(str, required.values()))}'}}",
    }
    return found | more


TRAVEL = [
    tool("Stations: Search (by name)", ["name"], ["limit"]),
    tool("Stations: Departures", ["station"], ["when"]),
    tool("Hotels: Search", ["city"], ["stars", "currency"]),
    tool("Hotels: Reviews", ["hotel_id", "language"]),
    tool("Weather: Today", ["city"]),
    tool("Money: Rates"),
    tool("Hotels: Search", ["city"], ["stars", "currency"]),
]
GAMING = [
    tool("Chess Puzzles: Puzzles", [], ["themes", "rating"], "Gaming"),
    tool("Weather: Today", ["city"], [], "Gaming"),
    tool("Dice: Roll", ["sides"], ["count"], "Gaming"),
]


def query(text: str, *steps: Row) -> Row:
    """A parallel query."""
    return {
        "query": text,
        "tool list": [*steps],
        "trajectory_type": "parallel",
        "tool count": str(len(steps)),
        "final_answer": f"# Answer\n{text}",
    }


def chain(name: str, text: str, *steps: Row) -> Row:
    """A sequential query."""
    failed = sum(one.get("execution_status") == "failed" for one in steps)
    return {
        "query": text,
        "final_answer": {"answer": f"Found: {text}", "reason": "The tools say so."},
        "tool list": [{"execution_status": "success"} | one for one in steps],
        "sequence_name": name,
        "executable": True,
        "num_tools_used": len(steps),
        "num_successful_tools": len(steps) - failed,
    }


def _parallel(said: str) -> dict[str, list[Row]]:
    travel = [
        query(
            f"{said} hotels and weather of {city}.",
            step("Hotels: Search", {"city": city}, {"stars": 4, "currency": ""}),
            step("Weather: Today", {"city": city}),
            step("stations: search  (by name)", {"name": f"{city} Central"}),
            step("Hotels: Search", {"city": f"{city} North"}),
        )
        for city in CITIES
    ]
    gaming = [
        query(
            f"{said} dice of {sides} sides.",
            step("Dice: Roll", {"sides": sides}, {"count": 2}),
            step("Chess Puzzles: Puzzles"),
        )
        for sides in range(4, 10)
    ]
    return {"Travel": travel, "Gaming": gaming}


def _sequential() -> dict[str, list[Row]]:
    travel = [
        chain(
            "Station -> Departures -> Hotels",
            f"First find the main station of {city}, then go on with what you found.",
            step("Stations: Search (by name)", {"name": city}),
            step("Stations: Departures", {"station": f"{index:07d}"}, {"when": f"2025-01-{index + 1:02d}"}),
            step("Hotels: Search", {"city": city}),
        )
        for index, city in enumerate(CITIES)
    ]
    gaming = [
        chain(
            "Puzzle -> Dice",
            f"First find a puzzle about {theme}, then roll.",
            step("Chess Puzzles", {}, {"themes": theme}),  # which no file defines
            step("Dice: Roll", {"sides": 6}),
        )
        for theme in ("forks", "pins", "mates", "skewers")
    ]
    return {"Travel": travel, "Gaming": gaming}


def write(path: Path, rows: Any) -> None:
    """A file of JSON, and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows), encoding="utf-8")


def write_files(root: Path) -> None:
    """The `public_data` folder: two domains, 12 parallel queries of both levels, 10 sequential ones."""
    for domain, tools in {"Travel": TRAVEL, "Gaming": GAMING}.items():
        write(root / "tools" / f"{domain}_tool.json", tools)
        write(root / "parallel" / domain / "simple_ver.json", _parallel("Tell me about")[domain])
        write(root / "parallel" / domain / "hard_ver.json", _parallel("I wonder what can be said of")[domain])
        write(root / "sequential" / domain / "traj_query.json", _sequential()[domain])
    write(root / "sequential" / "Travel" / "sequence.json", [{"name": "no query", "tool sequence": []}])
