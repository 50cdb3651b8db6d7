"""RestBench: what the loader makes of its files, what the simulated API accepts, and what it says."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.core.engine import Prompt
from grid.core.errors import ConfigError, DataError
from grid.core.types import Observation, Step, Substep, ToolCall, Trajectory
from grid.core.world import State
from grid.datasets.restbench import RestBench, measure, names_in, read_service
from grid.datasets.restbench_world import ITEMS, Examples, RestState, RestWorld, is_identifier
from tests.support import restbench

CREDITS, REQUESTS = restbench.CREDITS, restbench.REQUESTS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(restbench.write(tmp_path_factory.mktemp("small")))


@pytest.fixture(scope="module")
def small(folder: Path) -> RestBench:
    return RestBench(str(folder))


@pytest.fixture(scope="module")
def world(small: RestBench) -> RestWorld:
    return RestWorld(small.service.endpoints, ("GET /search/film", CREDITS), seed=1, query="Who is in tt77?")


def after(world: RestWorld, *calls: tuple[str, dict[str, Any]]) -> tuple[RestState, list[Observation]]:
    state, seen = world.start(), []
    for tool, arguments in calls:
        state, observation = world.respond(state, ToolCall(tool, arguments))
        seen.append(observation)
    return state, seen


def test_every_gold_path_runs_as_its_reference(small: RestBench) -> None:
    assert len(small.case_ids()) == len(restbench.REQUESTS)
    assert small.skipped == ()
    for case_id in small.case_ids():
        check_reference(small, case_id)


def check_reference(data: RestBench, case_id: str) -> None:
    """All calls succeed, in the gold path's order, and resolve the case; all but the last do not."""
    problem = data.problem(case_id)
    assert [call.tool for call in problem.reference.calls.values() if call] == data.cluster(case_id).split("\n")

    async def run() -> list[tuple[State, Observation]]:
        state, seen = problem.world.start(), []
        for call in problem.reference.calls.values():
            assert call
            state, observation = await problem.world.apply(state, call)
            seen.append((state, observation))
        return seen

    seen = asyncio.run(run())
    assert not any(observation.failed for _, observation in seen)
    assert [problem.world.resolved(state) for state, _ in seen] == [False] * (len(seen) - 1) + [True]


def test_an_identifier_must_have_been_returned(world: RestWorld) -> None:
    state, (found,) = after(world, ("GET /search/film", {"query": "Red Lantern"}))
    films: Any = found.content["results"]
    for film in films:
        _, told = world.respond(state, ToolCall("GET /film/{film_id}", {"film_id": film["id"]}))
        assert (told.failed, told.content["id"], told.content["title"]) == (False, film["id"], film["title"])
        _, refused = world.respond(world.start(), ToolCall("GET /film/{film_id}", {"film_id": film["id"]}))
        assert (refused.failed, refused.content["status"]) == (True, 404)
    assert [film["title"] for film in films] == ["Red Lantern", "Red Lantern II", "Red Lantern III"]
    assert len({film["id"] for film in films}) == ITEMS


@given(st.lists(st.tuples(st.sampled_from(sorted(restbench.spec()["paths"])), st.integers(0, 3), st.integers(0, 9))))
def test_the_same_call_returns_the_same(small: RestBench, made: list[tuple[str, int, int]]) -> None:
    """Whatever was called before; and only known identifiers are ever accepted."""
    world = RestWorld(small.service.endpoints, (), seed=3)
    state, seen, ids = world.start(), dict[str, str](), [1]
    for path, number, pick in made:
        name = next(name for name in world.endpoints if name.endswith(f" {path}"))
        arguments: dict[str, Any] = {
            item.name: ids[pick % len(ids)] if item.identifies else (item.values or (number,))[0]
            for item in world.endpoints[name].inputs
        }
        call = ToolCall(name, {key: str(value) for key, value in arguments.items()})
        state, observation = world.respond(state, call)
        if not observation.failed:
            assert seen.setdefault(call.text(), observation.text()) == observation.text()
            assert all(not item.identifies or arguments[item.name] in ids for item in world.endpoints[name].inputs)
        ids = [*map(int, (known for known, _ in state.known if known.isdigit())), 1]
    hash(state)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({}, 400),
        ({"query": ""}, 400),
        ({"query": None}, 400),
        ({"query": ["Red"]}, 400),
        ({"query": "Red", "page": "two"}, 400),
        ({"query": "Red", "page": 2.5}, 400),
        ({"query": "Red", "page": True}, 400),
        ({"query": "Red", "page": "2"}, None),
        ({"query": "Red", "page": 2.0}, None),
        ({"query": "Red", "page": 10**40}, None),
        ({"query": "Red", "nobody": "knows"}, None),
    ],
)
def test_what_is_missing_or_of_a_wrong_type_is_refused(
    world: RestWorld, arguments: dict[str, Any], status: int | None
) -> None:
    state, (found,) = after(world, ("GET /search/film", arguments))
    assert found.content.get("status") == status
    assert found.failed == (status is not None) == (state == world.start())


def test_listed_values_and_unknown_endpoints(world: RestWorld) -> None:
    trending = "GET /trending/{kind}/{window}"
    _, seen = after(
        world,
        (trending, {"kind": "film", "window": "day"}),
        (trending, {"kind": "song", "window": "day"}),
        ("GET /nowhere", {}),
    )
    assert [found.content.get("status") for found in seen] == [None, 400, 404]


def test_an_identifier_that_the_query_names_is_accepted(world: RestWorld) -> None:
    _, (told, other) = after(
        world, ("POST /list/{list_id}", {"list_id": "tt77"}), ("POST /list/{list_id}", {"list_id": "is"})
    )
    assert other.content["status"] == 404
    assert told.content["status"] == 400  # its body lacks film_id


def test_others_may_be_called_between(world: RestWorld) -> None:
    search = ("GET /search/film", {"query": "Red"})
    _, (found,) = after(world, search)
    films: Any = found.content["results"]
    cast = (CREDITS, {"film_id": films[0]["id"]})
    for calls, resolved in [
        ([search, cast], True),
        ([search, ("GET /film/popular", {}), ("GET /nowhere", {}), cast], True),
        ([search], False),
        ([cast, search], False),
        ([cast, search, cast], True),
    ]:
        state, _ = after(world, *calls)
        assert world.resolved(state) == resolved


def test_what_has_an_identifier_has_the_same_one_in_all_responses(world: RestWorld) -> None:
    state, (cast,) = after(world, ("GET /search/person", {"query": "Ada"}))
    people: Any = cast.content["results"]
    found: dict[str, set[int]] = {}
    for call in (("GET /film/popular", {"page": page}) for page in range(5)):
        state, told = world.respond(state, ToolCall(*call))
        films: Any = told.content["results"]
        for film in films:
            found.setdefault(film["title"], set()).add(film["id"])
    _, told = world.respond(state, ToolCall("GET /person/{person_id}/films", {"person_id": people[0]["id"]}))
    films = told.content["cast"]
    assert all(film["id"] in found.get(film["title"], {film["id"]}) for film in films)
    assert len(found) == len(restbench.FILMS)
    assert all(len(ids) == 1 for ids in found.values())


def test_cases_differ_and_a_case_does_not(small: RestBench) -> None:
    call = ToolCall("GET /film/popular", {})
    told = [RestWorld(small.service.endpoints, (), seed).respond(RestState(), call)[1].text() for seed in (1, 1, 2)]
    assert told[0] == told[1] != told[2]


def made_of(*names: str) -> Trajectory:
    steps = [Step(0, Substep(str(n), "", ""), ToolCall(name, {}), None) for n, name in enumerate(names)]
    return Trajectory(tuple(steps), tuple(steps))


@pytest.mark.parametrize(
    ("called", "correct", "extra"),
    [("ab", True, 0), ("xaybz", True, 3), ("ba", False, None), ("a", False, None), ("", False, None), ("aab", True, 1)],
)
def test_correct_path_and_extra_calls(called: str, correct: bool, extra: int | None) -> None:
    found = measure(["a", "b"], made_of(*called))
    assert found == {"correct_path": correct, "extra_calls": extra, "usage": None}


class Says:
    """An evaluator that gives one score."""

    def __init__(self, score: float | None) -> None:
        self.given, self.prompts = score, list[Prompt]()

    async def score(self, prompt: Prompt, *key: object) -> float | None:
        self.prompts.append(prompt)
        return self.given

    async def vote(self, prompt: Prompt, candidates: Any, *key: object) -> int | None:
        raise AssertionError("no vote is asked for")


@pytest.mark.parametrize(("score", "passed"), [(0.9, 1.0), (0.5, 1.0), (0.4, 0.0), (None, None)])
def test_passed_is_what_the_evaluator_says(small: RestBench, score: float | None, passed: float | None) -> None:
    problem, evaluator = small.problem(small.case_ids()[0]), Says(score)
    assert problem.examine
    assert asyncio.run(_examined(problem.examine, evaluator)) == {"passed": passed}
    text = evaluator.prompts[0].text()
    assert problem.case.query in text
    assert "No final answer" in text


async def _examined(examine: Any, evaluator: Says) -> Any:
    return await examine(made_of("GET /film/popular"), evaluator)


def test_names_in_a_query() -> None:
    assert names_in('When is the movie "the abyss" out?', 1) == ["the abyss"]
    assert names_in("Is Ada Morrow older than Jonas Vale's cousin?", 2) == ["Ada Morrow", "Jonas Vale"]
    assert names_in("what is on", 1) == ["what is on"]


@pytest.mark.parametrize("name", ["id", "film_id", "ids", "filmId", "uri", "imdb_id"])
def test_names_of_identifiers(name: str) -> None:
    assert is_identifier(name)
    assert not any(map(is_identifier, ["paid", "video", "valid", "idea", "page", "width", "android"]))


def test_requests_that_cannot_be_cases_are_told(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"query": "What now?", "solution": ["GET /film/popular"]},
        {"query": "What next?", "solution": ["GET /film/popular", "GET /unheard/of"]},
        {"query": " ", "solution": ["GET /film/popular"]},
        {"query": "Why?", "solution": []},
        {"query": "How?", "solution": "GET /film/popular"},
        7,
    ]
    data = RestBench(restbench.write(tmp_path, requests=rows))
    assert data.case_ids() == ["restbench-tmdb-000"]
    assert [skip.reason for skip in data.skipped] == [
        "the solution names an endpoint that the API does not have",
        "the request has no query",
        "the request has no solution",
        "the request has no solution",
        "the request has no query",
    ]
    with pytest.raises(ConfigError, match="at least one usable record"):
        RestBench(restbench.write(tmp_path, requests=rows[1:])).case_ids()
    with pytest.raises(DataError, match="a list of requests"):
        RestBench(restbench.write(tmp_path, requests={})).case_ids()


ODD: list[tuple[list[dict[str, Any]], Any, str | None]] = [
    ([restbench._in_path("id")], None, "id must be an integer, but the earlier response has"),
    ([restbench._in_path("id", "boolean")], None, "must be of type boolean"),
    ([restbench.QUERY | {"name": "q", "schema": {"type": "string", "enum": ["film", "tv"]}}], {"q": "film"}, None),
]


@pytest.mark.parametrize(("parameters", "arguments", "why"), ODD)
def test_an_odd_parameter_takes_its_request_alone(
    tmp_path: Path, parameters: list[dict[str, Any]], arguments: Any, why: str | None
) -> None:
    """What no call can be made of is skipped; listed values are no search text, whatever the parameter's name."""
    odd = "/made/{id}" if parameters[0]["in"] == "path" else "/made/list"
    api = restbench.spec()
    api["paths"] |= {
        "/made": restbench._get("Made", restbench._like({"id": "xyz"})),
        odd: restbench._get("Odd", restbench._like({"name": "x"}), *parameters),
    }
    rows = [{"query": "What is on?", "solution": path} for path in (["GET /film/popular"], ["GET /made", f"GET {odd}"])]
    data = RestBench(restbench.write(tmp_path, api=api, requests=rows), order="file")
    assert len(data.case_ids()) == 1 + (why is None)
    assert [why in skip.reason for skip in data.skipped if why] == [True] * (why is not None)
    if why is None:
        check_reference(data, data.case_ids()[1])
        call = data.problem(data.case_ids()[1]).reference.calls["1"]
        assert call is not None
        assert call.arguments == arguments


def test_spotify_lies_in_the_same_places(tmp_path: Path) -> None:
    path = restbench.write(tmp_path, name="spotify")
    assert RestBench(path, api="spotify").case_ids()[0].startswith("restbench-spotify-")
    with pytest.raises(ConfigError, match=r"lacks datasets/tmdb\.json"):
        RestBench(path).case_ids()


BROKEN: list[tuple[str, Any, str]] = [
    ("swagger", {"swagger": "2.0", "info": {}, "paths": {}}, "Swagger 2.0 is not supported"),
    ("version", restbench.spec() | {"openapi": "4.0.0"}, "the file is not valid OpenAPI 3.0 or 3.1"),
    ("no info", {"openapi": "3.0.0", "paths": {}}, "info: Field required"),
    ("no responses", restbench.spec() | {"paths": {"/a": {"get": {}}}}, r"paths\./a\.get\.responses: Field required"),
    ("no paths", restbench.spec() | {"paths": {}}, "no path has an operation"),
    ("a list", [], "an OpenAPI file must be an object, not list"),
    ("no json", "openapi: 3.0.0", "broken JSON"),
    ("deep", '{"openapi": ' * 100_000, "broken JSON"),
]


@pytest.mark.parametrize(("api", "why"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_what_is_no_openapi_3_is_refused(tmp_path: Path, api: Any, why: str) -> None:
    with pytest.raises(DataError, match=why):
        _ = RestBench(restbench.write(tmp_path, api=api)).tools


def with_schema(schema: Any, **components: Any) -> dict[str, Any]:
    media = {"application/json": {"schema": schema}}
    operation = {"responses": {"200": {"description": "", "content": media}}}
    return restbench.spec() | {"paths": {"/a": {"get": operation}}, "components": {"schemas": components}}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize(
    ("schema", "components", "why"),
    [
        ({"$ref": "http://example.com/a.json#/x"}, {}, "leads out of the file"),
        ({"$ref": "other.json"}, {}, "leads out of the file"),
        (ref("gone"), {}, "leads to nothing"),
        (ref("a"), {"a": ref("b"), "b": ref("a")}, "leads in a circle"),
    ],
)
def test_references_that_lead_nowhere_are_refused(
    tmp_path: Path, schema: Any, components: dict[str, Any], why: str
) -> None:
    with pytest.raises(DataError, match=why):
        _ = RestBench(restbench.write(tmp_path, api=with_schema(schema, **components))).tools


def test_a_reference_is_followed_only_where_it_is_used(tmp_path: Path) -> None:
    """Spotify's file has `$ref: "../policies.yaml"` in an extension; no operation uses what stands in these places."""
    away = {"$ref": "../policies.yaml", "Attribution": {}}
    api = restbench.spec()
    popular = api["paths"]["/film/popular"]
    media = popular["get"]["responses"]["200"]["content"]["application/json"]
    media["examples"]["response"]["value"]["next"] = away
    media["x-note"] = away
    api["paths"]["/film/popular"] = popular | {"x-spotify-policy-list": [away]}
    schemas = api["components"]["schemas"]
    film = {"properties": {"id": {"type": "integer", "x-note": away}}, "default": {"id": 1, "of": away}}
    api["components"] = api["components"] | {"schemas": schemas | {"unused": away, "film": film}, "x-policy": away}
    api["paths"]["/film/next"] = with_schema(ref("film"))["paths"]["/a"]
    data = RestBench(restbench.write(tmp_path, api=api | {"x-spotify-policy": away}, name="spotify"), api="spotify")
    assert (len(data.case_ids()), data.skipped) == (len(restbench.REQUESTS), ())
    assert data.service.endpoints["GET /film/popular"].example["next"] == away
    for case_id in data.case_ids():
        check_reference(data, case_id)


def test_one_of_57_requests_of_spotify_is_skipped_with_its_reason(tmp_path: Path) -> None:
    """The released set in small: an endpoint that the file lacks takes its request alone, not the API."""
    rows = [{"query": f"{query} ({number})", "solution": path} for number in range(5) for query, path in REQUESTS][:56]
    rows.insert(39, {"query": "What is new?", "solution": ["GET /film/new"]})
    api = restbench.spec() | {"x-spotify-policy": {"$ref": "../policies.yaml"}}
    data = RestBench(restbench.write(tmp_path, api=api, requests=rows, name="spotify"), api="spotify")
    assert len(data.case_ids()) == 56
    assert [(skip.record, skip.reason) for skip in data.skipped] == [
        ("restbench-spotify-039", "the solution names an endpoint that the API does not have")
    ]


def test_schemas_may_contain_themselves_and_each_other_many_times(tmp_path: Path) -> None:
    """Twenty levels of two references each are a million parts, were all of them made."""
    twice = {
        f"n{level}": {"properties": {"id": {"type": "integer"}, "a": ref(f"n{level + 1}"), "b": ref(f"n{level + 1}")}}
        for level in range(20)
    }
    own = {"properties": {"id": {"type": "integer"}, "own": ref("self"), "many": {"items": ref("self")}}}
    api = with_schema({"allOf": [ref("n0"), ref("self")]}, **twice, n20={"type": "string"}, self=own)
    endpoint = read_service(Path(restbench.write(tmp_path, api=api)) / "specs/tmdb_oas.json", "x").endpoints["GET /a"]
    assert {"id", "a", "b"} <= endpoint.example.keys()
    assert len(json.dumps(dict(endpoint.example))) < 200_000


def test_operations_that_cannot_be_tools_are_told(tmp_path: Path) -> None:
    api = restbench.spec()
    api["paths"] |= {
        "/a:run": {"get": {"responses": {"200": {"description": ""}}}},
        "/b": {"get": {"responses": {"404": {"description": ""}}}},
        "/c": {"get": {"responses": {}}, "post": {"responses": {"204": {"description": ""}}}},
    }
    data = RestBench(restbench.write(tmp_path, api=api))
    assert [(skip.record, skip.reason) for skip in data.skipped] == [
        ("GET /a:run", "the path has a character that is not allowed in tool names"),
        ("GET /b", "the operation describes no successful response"),
        ("GET /c", "the operation describes no successful response"),
    ]
    assert dict(data.service.endpoints["POST /c"].example) == {"status": "204"}


KEYS = ["type", "properties", "items", "allOf", "oneOf", "enum", "example", "default", "minimum", "format", "own"]
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(["object", "array", "integer", "", "date"])


@pytest.mark.slow
def test_a_file_of_30_mb_is_read(tmp_path: Path) -> None:
    api = restbench.spec()
    paths = api["paths"]
    filler = "x" * 3000
    api["paths"] = {
        f"/part{number}{path}": item | {"description": filler}
        for number in range(30_000_000 // (12 * 3600))
        for path, item in paths.items()
    }
    path = Path(restbench.write(tmp_path, api=api)) / "specs/tmdb_oas.json"
    assert path.stat().st_size > 25_000_000
    assert len(read_service(path, "x").endpoints) == len(api["paths"])


def test_a_larger_file_is_refused(tmp_path: Path) -> None:
    path = Path(restbench.write(tmp_path)) / "specs/tmdb_oas.json"
    os.truncate(path, 60_000_001)
    with pytest.raises(DataError, match=r"more than 60,000,000 bytes"):
        read_service(path, "x")


@settings(max_examples=50)
@given(
    st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner), max_leaves=12)
)
def test_any_schema_has_an_example(schema: Any) -> None:
    """What checks have let through may still be odd behind a reference."""
    found = Examples(lambda given: (None, given)).response({"schema": schema})
    assert json.loads(json.dumps(found)) == found, "it is of JSON's own kinds"


@pytest.mark.skipif("AGENT_GRID_RESTBENCH" not in os.environ, reason="set AGENT_GRID_RESTBENCH to RestBench's folder")
def test_the_released_requests() -> None:
    data = RestBench(os.environ["AGENT_GRID_RESTBENCH"])
    assert (len(data.case_ids()), len(data.tools), data.skipped) == (100, 54, ())
    for case_id in data.case_ids():
        check_reference(data, case_id)


@pytest.mark.skipif("AGENT_GRID_RESTBENCH" not in os.environ, reason="set AGENT_GRID_RESTBENCH to RestBench's folder")
def test_the_released_requests_to_spotify() -> None:
    data = RestBench(os.environ["AGENT_GRID_RESTBENCH"], api="spotify")
    assert (len(data.case_ids()), len(data.tools)) == (56, 40)
    assert [(skip.record, skip.reason) for skip in data.skipped] == [
        ("restbench-spotify-039", "the solution names an endpoint that the API does not have")
    ]
    for case_id in data.case_ids():
        check_reference(data, case_id)
