"""A small REST API and requests to it, as files in the form in which RestBench is released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CREDITS, PERSON = "GET /film/{film_id}/credits", "GET /person/{person_id}"
REQUESTS: list[tuple[str, list[str]]] = [
    ("Who played in the film Silent Harbour?", ["GET /search/film", CREDITS]),
    ("How long is the film Red Lantern?", ["GET /search/film", "GET /film/{film_id}"]),
    ("When was the lead actor of Silent Harbour born?", ["GET /search/film", CREDITS, PERSON]),
    ("Which films did Ada Morrow make?", ["GET /search/person", "GET /person/{person_id}/films"]),
    ("Which film do most people watch now?", [" GET /film/popular"]),
    ("Who plays in the film that most people watch?", ["GET /film/popular ", "GET /film/{id}/credits"]),
    ("Where is Red Lantern's studio?", ["GET /search/film", "GET /film/{film_id}", "GET /studio/{studio_id}"]),
    ("What is the logo of Northlight?", ["GET /studio/{studio_id}", "GET /studio/{studio_id}/images"]),
    ("Who wrote part 2 of Long Roads?", ["GET /search/film", "GET /film/{film_id}/part/{part_number}"]),
    ('Put "Red Lantern" on my list', ["GET /search/film", "POST /list/{list_id}"]),
    ("Is Ada Morrow older than Jonas Vale?", ["GET /search/person", "GET /search/person"]),
    ("What is on this week?", ["GET /trending/{kind}/{window}"]),
]
"""Queries and gold paths; with blanks around them, another name of a variable, and identifiers that nobody returns."""


def _ok(**fields: Any) -> dict[str, Any]:
    """A response of success by its schema."""
    return {"200": {"description": "", "content": {"application/json": {"schema": {"properties": fields}}}}}


def _like(value: Any) -> dict[str, Any]:
    """A response of success by an example."""
    media = {"schema": {"type": "object"}, "examples": {"response": {"value": value}}}
    return {"200": {"description": "", "content": {"application/json": media}}}


def _in_path(name: str, kind: str = "integer", **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": kind, **more}}


def _get(summary: str, responses: dict[str, Any], *parameters: dict[str, Any]) -> dict[str, Any]:
    return {"get": {"summary": summary, "parameters": [*parameters], "responses": responses}}


TEXT, NUMBER, DATE = {"type": "string"}, {"type": "integer"}, {"type": "string", "format": "date"}
FRIENDS = {"type": "array", "items": {"$ref": "#/components/schemas/person"}}
QUERY = {"name": "query", "in": "query", "required": True, "schema": TEXT, "description": "What to search for."}
PAGE = {"$ref": "#/components/parameters/page"}
TALE = "A long tale of what became of the people in the hills when the last train had left them behind."
FILMS = [{"id": 500 + place, "title": f"Film {place}", "overview": TALE} for place in range(6)]
CAST = [{"id": 800 + place, "name": f"Actor {place}", "credit_id": f"5f{place}a"} for place in range(5)]
FILM = FILMS[0] | {"runtime": 97, "studios": [{"id": 7, "name": "Northlight"}]}
COMPONENTS = {
    "parameters": {"page": {"name": "page", "in": "query", "schema": {"type": "integer", "default": 1}}},
    "schemas": {
        "person": {"type": "object", "properties": {"id": NUMBER, "name": TEXT, "friends": FRIENDS}},
        "entry": {"type": "object", "required": ["film_id"], "properties": {"film_id": NUMBER, "remark": TEXT}},
    },
}


def spec() -> dict[str, Any]:
    """The API file: OpenAPI 3.0 with references, a schema that contains itself, and a body."""
    film, person, studio = ({"parameters": [_in_path(f"{name}_id")]} for name in ("film", "person", "studio"))
    part, films = _in_path("part_number"), {"page": 1, "results": FILMS}
    kind, window = (
        _in_path("kind", "string", enum=["film", "person"]),
        _in_path("window", "string", enum=["day", "week"]),
    )
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/entry"}}}}
    added = {"requestBody": body, "responses": {"201": {"description": "Added."}}}
    paths: dict[str, Any] = {
        "/search/film": _get("Search films", _like(films), QUERY, PAGE),
        "/search/person": _get("Search people", _like({"results": CAST}), QUERY),
        "/film/popular": _get("Popular films", _like(films), PAGE),
        "/film/{film_id}": film | _get("Details of a film", _like(FILM)),
        "/film/{film_id}/credits": film | _get("Cast of a film", _like({"id": 500, "cast": CAST})),
        "/film/{film_id}/part/{part_number}": film
        | _get("A part of a film", _ok(id=NUMBER, part_number=NUMBER, writer=TEXT), part),
        "/person/{person_id}": person
        | _get("Details of a person", _ok(id=NUMBER, name=TEXT, birthday=DATE, friends=FRIENDS)),
        "/person/{person_id}/films": person | _get("Films of a person", _like({"id": 800, "cast": FILMS})),
        "/studio/{studio_id}": studio | _get("A studio", _ok(id=NUMBER, name=TEXT, place=TEXT)),
        "/studio/{studio_id}/images": studio | _get("Logos of a studio", _like({"id": 7, "logos": [{"file": "/a"}]})),
        "/list/{list_id}": {
            "parameters": [_in_path("list_id", "string")],
            "post": {"summary": "Add to a list", **added},
        },
        "/trending/{kind}/{window}": _get("What trends", _like({"results": FILMS}), kind, window),
    }
    return {"openapi": "3.0.0", "info": {"title": "Films", "version": "1"}, "paths": paths, "components": COMPONENTS}


def write(root: Path, api: Any = None, requests: Any = None, name: str = "tmdb") -> str:
    """The two files under a folder; its path."""
    for folder in ("datasets", "specs"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    told = [{"query": query, "solution": solution} for query, solution in REQUESTS] if requests is None else requests
    (root / "datasets" / f"{name}.json").write_text(json.dumps(told), encoding="utf-8")
    text = api if isinstance(api, str) else json.dumps(spec() if api is None else api)
    (root / "specs" / f"{name}_oas.json").write_text(text, encoding="utf-8")
    return str(root)
