"""A knowledge base small enough to know by heart, and worlds over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grid.worlds.kopl.world import KoplWorld, parse

SOURCE = Path("kb.json")


def number(value: float, unit: str = "1") -> dict[str, Any]:
    return {"type": "quantity", "value": value, "unit": unit}


def attribute(key: str, value: dict[str, Any], **qualifiers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"key": key, "value": value, "qualifiers": dict(qualifiers)}


def relation(name: str, other: str, **qualifiers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"relation": name, "direction": "forward", "object": other, "qualifiers": dict(qualifiers)}


def entity(name: str, concept: str, attributes: list[Any], relations: list[Any]) -> dict[str, Any]:
    return {"name": name, "instanceOf": [concept], "attributes": attributes, "relations": relations}


def raw_base() -> dict[str, Any]:
    """Two rivers, a lake and a country, three concepts."""
    return {
        "concepts": {
            "water": {"name": "body of water", "subclassOf": []},
            "river": {"name": "river", "subclassOf": ["water"]},
            "lake": {"name": "lake", "subclassOf": ["water"]},
            "state": {"name": "country", "subclassOf": []},
        },
        "entities": {
            "e1": entity(
                "Elbe",
                "river",
                [
                    attribute("river length", number(1094, "kilometre")),
                    attribute("first described", {"type": "year", "value": -44}),
                ],
                [relation("flows through", "e4", start=[{"type": "date", "value": "1993-01-01"}])],
            ),
            "e2": entity("Rhine", "river", [attribute("river length", number(1233, "kilometre"))], []),
            "e3": entity("Como", "lake", [attribute("surface area", number(146, "square kilometre"))], []),
            "e4": entity(
                "Czechia",
                "state",
                [
                    attribute("founded on", {"type": "date", "value": "1993-01-01"}),
                    attribute("population count", number(10_900_000), measured=[{"type": "year", "value": 2023}]),
                ],
                [],
            ),
        },
    }


def kopl_world(*reference: str, answered: bool = False) -> KoplWorld:
    """A world over that base whose answer is the texts given; `answered`: by finishing."""
    return KoplWorld(parse(raw_base(), SOURCE), reference, answered)
