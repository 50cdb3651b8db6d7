"""RestBench (Song et al. 2023, "RestGPT"): requests to a REST API, each with the endpoints of its gold path.

No server is contacted: the API is simulated from its OpenAPI file (`restbench_world`), and its responses are examples.
The figures therefore only compare planners with each other, on calls that an API of this form allows; no response comes
from the real service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, replace
from functools import cached_property, partial
from itertools import cycle
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from openapi_pydantic import parse_obj
from pydantic import ValidationError
from pydantic.dataclasses import dataclass
from referencing import Registry, Specification
from referencing.exceptions import Unresolvable

from grid.core.engine import Prompt, ScoreAnswer, Section
from grid.core.errors import DataError
from grid.core.problem import BRANCHING, EXAMINED, REFERENCES, Evaluator, Problem, Reference
from grid.core.types import Case, Json, Parameter, Plan, Skipped, ToolCall, ToolSpec, Trajectory
from grid.core.util import STRICT, derive_seed
from grid.datasets.dataset import FileDataset, UnusableError
from grid.datasets.files import read_json
from grid.datasets.grading import WHOLE, described, done_section, listed, query_section
from grid.datasets.restbench_world import Endpoint, Examples, Input, RestState, RestWorld, kind_of
from grid.text.words import stems

SEED = 0
FULFILLED = Section(
    "role",
    (
        "An agent got a request and called tools to carry it out. Judge whether it did what was asked.",
        "The tools' answers are invented: treat them as true. Give the best score if the agent made the calls "
        "that the request needs, and its steps or its final answer give everything that was asked for. Give the "
        "worst score if it gave something else or only a part, gave up, or says something that no tool "
        "returned.",
    ),
)
_PASSED = 0.5  # scores of at least this count as yes
_MAX_BYTES = 100_000_000


@plain_dataclass(frozen=True)
class _Record:
    """One usable request."""

    query: str
    reference: Reference
    world: RestWorld


@dataclass(config=STRICT)
class RestBench(FileDataset[_Record]):
    """The requests of one API. `path` is a folder with `datasets/<api>.json` and `specs/<api>_oas.json`.

    A case is resolved when the endpoints of its gold path have been called successfully in the path's order; other
    calls may come between them. With a `limit`, the cases are a sample that keeps the proportions of gold paths, unless
    `order` is `file`.
    """

    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, REFERENCES, EXAMINED})
    api: Literal["tmdb", "spotify"] = "tmdb"

    @property
    def name(self) -> str:
        """The benchmark's name, followed by the API and the word `simulated`."""
        return f"restbench-{self.api}-simulated"

    @cached_property
    def files(self) -> tuple[Path, Path]:
        """The files with the requests and the API."""
        names = f"datasets/{self.api}.json", f"specs/{self.api}_oas.json"
        root = self.folder(*names)
        return root / names[0], root / names[1]

    @cached_property
    def service(self) -> Service:
        """The API."""
        return read_service(self.files[1], self.api)

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """One tool per endpoint."""
        return {name: endpoint.tool for name, endpoint in self.service.endpoints.items()}

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Operations that cannot be tools, and requests that cannot be cases."""
        return (*self.service.remarks, *super().skipped)

    def cluster(self, case_id: str) -> str:
        """The case's gold path."""
        return "\n".join(self.records[case_id].world.path)

    def problem(self, case_id: str) -> Problem:
        """One request. The reference has the gold path's calls, with arguments that the simulated API accepts."""
        record = self.records[case_id]
        tools = tuple(self.tools.values())
        return Problem(
            case=Case(case_id, record.query, Plan(())),
            reference=record.reference,
            world=record.world,
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function={},
            domain=self.api,
            measure=partial(measure, record.world.path),
            examine=partial(examine, record.query),
        )

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """The scores of an aborted episode, which counts as not passed."""
        return {"passed": 0.0}

    def rows(self) -> Iterator[tuple[str, Any]]:
        """The requests, numbered by their places in the file."""
        rows = read_json(self.files[0], _MAX_BYTES)
        if not isinstance(rows, list) or not rows:
            raise DataError(self.files[0], None, "a list of requests is expected, each with a query and a solution")
        return ((f"restbench-{self.api}-{number:03d}", row) for number, row in enumerate(rows))

    def record(self, case_id: str, row: Any) -> _Record:
        """A request whose solution names endpoints of the API."""
        query, solution = (row.get("query"), row.get("solution")) if isinstance(row, dict) else (None, None)
        if not isinstance(query, str) or not query.strip():
            raise UnusableError("the request has no query")
        if not isinstance(solution, list) or not solution or not all(isinstance(item, str) for item in solution):
            raise UnusableError("the request has no solution")
        path = [self.service.named(item) for item in solution]
        known = tuple(name for name in path if name)
        if len(known) < len(path):
            raise UnusableError("the solution names an endpoint that the API does not have")
        world = RestWorld(self.service.endpoints, known, derive_seed(SEED, self.api, case_id), query.strip())
        calls, world = derive(world)
        return _Record(query.strip(), Reference(dict(calls), tuple(calls), followed=False), world)


def measure(gold: Sequence[str], trajectory: Trajectory) -> Mapping[str, Any]:
    """Correct path and extra calls (RestGPT, 'Evaluation Metrics'), regardless of the calls' results.

    correct_path: the gold path is a subsequence of the endpoints called. extra_calls: if the path is correct, the
    number of calls minus the length of the gold path; if not, None. usage: None, because the benchmark does not give
    arguments.
    """
    called = [step.call.tool for step in trajectory.steps if step.call]
    left = iter(called)
    correct = all(name in left for name in gold)
    return {"correct_path": correct, "extra_calls": len(called) - len(gold) if correct else None, "usage": None}


async def examine(query: str, trajectory: Trajectory, evaluator: Evaluator) -> Mapping[str, Any]:
    """passed: 1 if the evaluator says that the request was fulfilled, otherwise 0.

    `passed` is None if the evaluator's answer cannot be read.
    """
    prompt = Prompt((FULFILLED, query_section(query), done_section(trajectory), WHOLE), ScoreAnswer())
    score = await evaluator.score(prompt, "passed")
    return {"passed": None if score is None else float(score >= _PASSED)}


# A gold path, which names only endpoints, is turned into calls with arguments that the simulated service accepts.


_QUOTED = re.compile(r'["“]([^"“”]+)["”]')
_NAME = re.compile(r"(?<=\s)[A-Z][\w'-]*(?:\s(?:(?:of|the|and|from)\s)*[A-Z0-9][\w'-]*)*")
_BY_TYPE: dict[str, Json] = {"integer": 1, "number": 1.0, "boolean": True, "date": "2024-01-01", "object": {}}
_PLANTED = 1_000
"""The first identifier given to a world if no response can contain one; smaller than all simulated identifiers."""


class _Found(NamedTuple):
    """An identifier in an earlier response, with its age in calls, its endpoint, and the keys on the way to it."""

    ago: int
    endpoint: str
    is_entity: bool
    keys: tuple[str, ...]
    value: Json


class Derived(NamedTuple):
    """A case's reference, and the world that accepts it."""

    calls: dict[str, ToolCall]
    world: RestWorld


def derive(world: RestWorld) -> Derived:
    """The calls of the world's path, in order, each with its required arguments only.

    Identifiers are taken from earlier responses: preferably from a field with the parameter's name, otherwise from the
    first item in the latest list, and failing that from an item requested earlier. If no earlier response contains an
    identifier, the world is given one that it accepts. The search text is a name in the query; if the query has several
    names, each search gets a different one as long as there are enough. Every other required argument gets one of its
    listed values, or a value of its type.

    Raises:
        UnusableError: the world refuses a call, or an identifier does not fit its parameter's type.
    """
    calls: dict[str, ToolCall] = {}
    searches = sum(world.endpoints[name].search is not None for name in world.path)
    names = iter(cycle(names_in(world.query, searches)))
    found: list[_Found] = []
    state = world.start()
    for number, name in enumerate(world.path):
        following = world.path[number + 1] if number + 1 < len(world.path) else ""
        arguments: dict[str, Json] = {}
        for item in world.endpoints[name].inputs:
            if not item.required:
                continue
            if not item.identifies:
                searching = item.name == world.endpoints[name].search
                arguments[item.name] = next(names) if searching else _value(item, world.query, following)
                continue
            chosen = min(found, key=lambda one, item=item: _rank(one, item), default=None)  # type: ignore[misc]
            if chosen is None:
                world = replace(world, given=(*world.given, str(_PLANTED + len(world.given))))
            value = chosen.value if chosen else world.given[-1]
            arguments[item.name] = [value] if item.type == "array" else _of_type(item, value)
        calls[str(number)] = ToolCall(name, arguments)
        found, state = _behind(world, state, calls[str(number)], found)
    return Derived(calls, world)


def _behind(world: RestWorld, state: RestState, call: ToolCall, found: list[_Found]) -> tuple[list[_Found], RestState]:
    """The known identifiers (newest first) and the state after a call.

    Raises UnusableError if the call is refused.
    """
    after, observation = world.respond(state, call)
    if observation.failed:
        raise UnusableError(f"no call of {call.tool} that the API accepts could be derived: {observation.text()}")
    endpoint = world.endpoints[call.tool]
    new = [_Found(0, call.tool, endpoint.is_entity, *one) for one in _identifiers(dict(observation.content), ())]
    return [*new, *(one._replace(ago=one.ago + 1) for one in found)], after


def _identifiers(value: Json, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    """The values of fields whose names end in `id`, each with the keys on the way to it; list indices are not keys."""
    if isinstance(value, list):
        for item in value:
            yield from _identifiers(item, keys)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict | list):
                yield from _identifiers(item, (*keys, key))
            elif key.lower().endswith("id") and isinstance(item, int | str) and not isinstance(item, bool):
                yield (*keys, key), item


def _rank(one: _Found, item: Input) -> tuple[int, int]:
    """A rank for the fit of an identifier to a parameter; lower is better."""
    kind = {stem for stem in stems(item.name) if stem not in ("id", "uri")}
    *above, own = one.keys
    if own == item.name or (own == "id" and kind & set(stems(" ".join(above)))):
        return 0, one.ago
    if own != "id":
        return 5, one.ago
    if len(above) == 1 and not one.is_entity and not one.ago:
        return 1, one.ago
    if len(above) <= 1 and kind & set(stems(one.endpoint)):
        return 2, one.ago
    return (3 if len(above) == 1 else 4), one.ago


def _of_type(item: Input, value: Json) -> Json:
    """An identifier converted to its parameter's type: a text becomes a number for an integer parameter.

    Any other identifier is unchanged. Raises UnusableError if the text is not a number.
    """
    try:
        return int(value) if item.type == "integer" and isinstance(value, str) else value
    except ValueError:
        raise UnusableError(f"{item.name} must be an integer, but the earlier response has {value!r:.60}") from None


def _value(item: Input, query: str, following: str) -> Json:
    if item.values:
        words = {*stems(query), *stems(following)}
        return next((value for value in item.values if words & set(stems(value))), item.values[0])
    if item.type in _BY_TYPE:
        return _BY_TYPE[item.type]
    told = names_in(query, 1)[0]
    return [told] if item.type == "array" else told


def names_in(query: str, most: int) -> list[str]:
    """The longest names in a query, at most `most` (or 1), in the query's order; the query itself if it has no names.

    Names are quoted texts or, if there are none, sequences of capitalized words.
    """
    found = [name.strip().removesuffix("'s") for name in _QUOTED.findall(query) or _NAME.findall(query)]
    longest = sorted(found, key=len, reverse=True)[: max(most, 1)]
    return [name for name in dict.fromkeys(found) if name in longest] or [query]


# OpenAPI 3 files as endpoints: one tool per method and path. The files are read with limits; references to other files
# are refused.
#
# A reference is checked only if an operation uses it. References in an extension (`x-...`), an example, or an unused
# component may lead anywhere.


MAX_BYTES = 60_000_000
_METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
_MEDIA = "application/json"
_VARIABLE = re.compile(r"\{[^{}]*\}")
_MOST_LINKS = 32  # maximum number of references in a chain
_LONGEST = 400  # maximum length of a description, in characters
_NO_TOOL = re.compile(r"[(:\n\r\"\\]")
"""Characters that would end a tool's name in a list of options, or would have to be escaped."""


@plain_dataclass(frozen=True)
class Service:
    """An API: its endpoints by name (`GET /movie/{movie_id}`), and the operations that cannot be tools."""

    endpoints: Mapping[str, Endpoint]
    remarks: tuple[Skipped, ...]
    _same: Mapping[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str | None:
        """The endpoint that a text names.

        None if there is no such endpoint. Leading and trailing spaces, the method's letter case, and the names of
        variables in the path are ignored.
        """
        return self._same.get(_form(text))


def read_service(path: Path, category: str) -> Service:
    """The endpoints of an OpenAPI 3.0 or 3.1 file in JSON, all with the same `category`.

    Raises:
        DataError: the file cannot be read, does not have the expected format or version, is too large, has no operation
            that can be a tool, or has an operation with a broken reference, that is, one that leads out of the file, to
            nothing, or back to itself. Schemas may contain themselves.
    """
    raw = read_json(path, MAX_BYTES)
    _check(path, raw)
    return _Reading(path, raw, category).service()


def _form(text: str) -> str:
    method, _, path = text.strip().partition(" ")
    return f"{method.upper()} {_VARIABLE.sub('{}', path.strip())}"


def _check(path: Path, raw: Any) -> None:
    if not isinstance(raw, dict):
        raise DataError(path, None, f"an OpenAPI file must be an object, not {type(raw).__name__}")
    if "swagger" in raw:
        raise DataError(path, None, f"Swagger {raw['swagger']!s:.20} is not supported; convert the file to OpenAPI 3")
    try:
        parse_obj(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(
            path, None, f"the file is not valid OpenAPI 3.0 or 3.1: {place or 'the file'}: {first['msg']}"
        ) from None
    except RecursionError:
        raise DataError(path, None, "schemas are nested too deeply") from None


class _Reading:
    """One file, whose format has been checked."""

    def __init__(self, path: Path, raw: dict[str, Any], category: str) -> None:
        self._path, self._raw, self._category = path, raw, category
        resource = Specification.OPAQUE.create_resource(raw)
        self._resolver = Registry().with_resource("", resource).resolver()
        self._examples = Examples(self._follow)

    def service(self) -> Service:
        endpoints: dict[str, Endpoint] = {}
        remarks: list[Skipped] = []
        for path, item in (self._raw.get("paths") or {}).items():
            shared = self._follow(item)[1]
            for method in _METHODS:
                if isinstance(operation := shared.get(method), dict):
                    name = f"{method.upper()} {path}"
                    made = self._endpoint(name, shared, operation)
                    if isinstance(made, Endpoint):
                        endpoints[name] = made
                    else:
                        remarks.append(Skipped(name, made))
        if not endpoints:
            raise DataError(self._path, None, "no path has an operation that can be called")
        return Service(endpoints, tuple(remarks), {_form(name): name for name in endpoints})

    def _endpoint(self, name: str, shared: Mapping[str, Any], operation: Mapping[str, Any]) -> Endpoint | str:
        """An operation as an endpoint, or the reason why it cannot be a tool."""
        if _NO_TOOL.search(name):
            return "the path has a character that is not allowed in tool names"
        example = self._example(operation)
        if example is None:
            return "the operation describes no successful response"
        inputs: dict[str, tuple[Input, str]] = {}
        for found in (*self._parameters(shared, operation), *self._body(operation)):
            inputs.setdefault(found[0].name, found)
        for variable in _VARIABLE.findall(name):  # a path's variable may be declared nowhere
            bare = variable[1:-1]
            inputs.setdefault(bare, (Input(bare, "path", "string", True), ""))
        parameters = tuple(
            Parameter(own.name, own.type, told, own.required, own.values) for own, told in inputs.values()
        )
        texts = (str(operation.get("summary") or ""), str(operation.get("description") or ""))
        told = " ".join(f"{text.rstrip('.')}." for text in map(_plain, texts) if text)
        tool = ToolSpec(name, told or name, parameters, tuple(map(str, example)), self._category)
        return Endpoint(tool, tuple(own for own, _ in inputs.values()), example)

    def _parameters(self, shared: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[tuple[Input, str]]:
        """The parameters in the path and the query.

        An operation's parameter replaces the path's parameter with the same name.
        """
        found: dict[tuple[str, str], Mapping[str, Any]] = {}
        for item in (*(shared.get("parameters") or ()), *(operation.get("parameters") or ())):
            own = self._follow(item)[1]
            found[str(own.get("name")), str(own.get("in"))] = own
        for where in ("path", "query"):
            for (name, place), own in found.items():
                if place == where:
                    schema = self._follow(own.get("schema") or {})[1]
                    needed = place == "path" or own.get("required") is True
                    yield self._input(name, "path" if place == "path" else "query", schema, needed, described(own))

    def _body(self, operation: Mapping[str, Any]) -> Iterator[tuple[Input, str]]:
        """The properties of a JSON body as parameters. A body that is not an object is a single parameter, `body`."""
        body = self._follow(operation.get("requestBody") or {})[1]
        media = (body.get("content") or {}).get(_MEDIA) or {}
        given = media.get("schema")
        if not isinstance(given, dict):
            return
        schema = self._follow(given)[1]
        properties, needed = self._properties(schema, 0)
        if not properties:
            if kind_of(schema) != "object":
                yield self._input("body", "body", schema, body.get("required") is True, described(schema))
            return
        for name, item in properties.items():
            own = self._follow(item)[1]
            yield self._input(name, "body", own, name in needed, described(item) or described(own))

    def _properties(self, schema: Mapping[str, Any], depth: int) -> tuple[dict[str, Any], set[str]]:
        """An object's properties, including those in `allOf`, and the names of the required properties."""
        found: dict[str, Any] = {}
        needed: set[str] = set()
        for part in (schema.get("allOf") or ()) if depth < _MOST_LINKS else ():
            properties, names = self._properties(self._follow(part)[1], depth + 1)
            found, needed = found | properties, needed | names
        own = schema.get("properties")
        found |= {name: item for name, item in (own if isinstance(own, dict) else {}).items() if isinstance(item, dict)}
        return found, needed | set(map(str, schema.get("required") or ()))

    def _input(
        self,
        name: str,
        where: Literal["path", "query", "body"],
        schema: Mapping[str, Any],
        required: bool,
        told: str,
    ) -> tuple[Input, str]:
        kind = "date" if schema.get("format") == "date" else kind_of(schema)
        return Input(name, where, kind, required, listed(schema)), _plain(told or described(schema))

    def _example(self, operation: Mapping[str, Any]) -> Mapping[str, Json] | None:
        """The example of the first success response with JSON content; `default` counts as the last of these responses.

        If none of them has JSON content, only the first status 2xx; None if there is no such status.
        """
        responses = operation.get("responses") or {}
        codes = sorted(code for code in map(str, responses) if re.fullmatch(r"2(\d\d|XX)", code))
        for code in [*codes, *(["default"] if "default" in responses else [])]:
            response = self._follow(responses.get(code, {}))[1]
            content = response.get("content") or {}
            media = next((content[kind] for kind in content if kind.partition(";")[0].strip() == _MEDIA), None)
            if isinstance(media, dict):
                return self._examples.response(media)
        return {"status": codes[0]} if codes else None

    def _follow(self, given: Any) -> tuple[str | None, Mapping[str, Any]]:
        ref: str | None = None
        for _ in range(_MOST_LINKS):
            if not isinstance(given, dict):
                raise DataError(self._path, None, f"{ref or 'a part'} must be an object, not {type(given).__name__}")
            if not isinstance(given.get("$ref"), str):
                return ref, given
            ref = given["$ref"]
            if not ref.startswith("#"):
                why = f"the reference {ref!r:.120} leads out of the file, which is not supported"
                raise DataError(self._path, None, why)
            try:
                given = self._resolver.lookup(ref).contents
            except Unresolvable:
                raise DataError(self._path, None, f"the reference {ref!r:.120} leads to nothing") from None
        raise DataError(self._path, None, f"the reference {ref!r:.120} leads in a circle")


def _plain(text: str) -> str:
    """A description on one line: its first part, up to a heading or table, without the addresses of links."""
    own = re.split(r"(?m)^\s*#{1,6} |^\s*\|", text, maxsplit=1)[0]
    own = re.sub(r"\[([^\[\]]*)\]\([^()]*\)", r"\1", own)
    flat = " ".join(re.sub(r"[*_`]{2,}|`", "", own).split())
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST - 3]}..."
