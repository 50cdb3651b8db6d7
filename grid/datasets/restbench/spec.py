"""OpenAPI 3 files as endpoints: one tool a method and path. Read with limits; nothing outside the file is followed.

A reference counts where an operation uses it: what stands in an extension (`x-...`), an example, or a component that
nobody uses may lead anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from openapi_pydantic import parse_obj
from pydantic import ValidationError
from referencing import Registry, Specification
from referencing.exceptions import Unresolvable

from grid.core.errors import DataError
from grid.core.types import Json, Parameter, Skipped, ToolSpec
from grid.datasets.files import read_json
from grid.datasets.grounding import described, listed
from grid.datasets.restbench.examples import Examples, kind_of
from grid.worlds.rest.endpoint import Endpoint, Input

MAX_BYTES = 60_000_000
_METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")
_MEDIA = "application/json"
_VARIABLE = re.compile(r"\{[^{}]*\}")
_MOST_LINKS = 32  # references that lead to references
_LONGEST = 400  # characters of a description
_NO_TOOL = re.compile(r"[(:\n\r\"\\]")
"""What ends a tool's name where options are listed, or needs an escape."""


@dataclass(frozen=True)
class Service:
    """An API: its endpoints by name (`GET /movie/{movie_id}`), and operations that cannot be tools."""

    endpoints: Mapping[str, Endpoint]
    remarks: tuple[Skipped, ...]
    _same: Mapping[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str | None:
        """The endpoint that a text names: blanks around it and the names of the path's variables do not count."""
        return self._same.get(_form(text))


def read_service(path: Path, category: str) -> Service:
    """The endpoints of an OpenAPI 3.0 or 3.1 file in JSON; all are of one `category`.

    Raises:
        DataError: another format or version, a file that is too large, a reference of an operation that leads out of
            the file, to nothing, or in a circle of references alone. Schemas may contain themselves.
    """
    raw = read_json(path, MAX_BYTES)
    _check(path, raw)
    return _Reading(path, raw, category).service()


def _form(text: str) -> str:
    method, _, path = text.strip().partition(" ")
    return f"{method.upper()} {_VARIABLE.sub('{}', path.strip())}"


def _check(path: Path, raw: Any) -> None:
    if not isinstance(raw, dict):
        raise DataError(path, None, f"an OpenAPI file is an object, not {type(raw).__name__}")
    if "swagger" in raw:
        raise DataError(path, None, f"Swagger {raw['swagger']!s:.20} is not read; convert the file to OpenAPI 3")
    try:
        parse_obj(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(path, None, f"no OpenAPI 3.0 or 3.1 file: {place or 'the file'}: {first['msg']}") from None
    except RecursionError:
        raise DataError(path, None, "schemas are nested too deeply") from None


class _Reading:
    """One file, whose form has been checked."""

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
        """An operation; why it cannot be a tool where it cannot."""
        if _NO_TOOL.search(name):
            return "its path has a character that no tool's name can have"
        example = self._example(operation)
        if example is None:
            return "it describes no response of success"
        inputs: dict[str, tuple[Input, str]] = {}
        for found in (*self._parameters(shared, operation), *self._body(operation)):
            inputs.setdefault(found[0].name, found)
        for variable in _VARIABLE.findall(name):  # a path's variable may be described nowhere
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
        """Of the path and the query; an operation's own stand for those of its path of the same name."""
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
        """The properties of a JSON body; a body that is no object is one parameter, `body`."""
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
        """An object's properties, those of `allOf` included, and the names of the required ones."""
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
        """Of the first response of success; without content it is the status alone. None where there is no such."""
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
                why = f"the reference {ref!r:.120} leads out of the file, which is not followed"
                raise DataError(self._path, None, why)
            try:
                given = self._resolver.lookup(ref).contents
            except Unresolvable:
                raise DataError(self._path, None, f"the reference {ref!r:.120} leads to nothing") from None
        raise DataError(self._path, None, f"the reference {ref!r:.120} leads in a circle")


def _plain(text: str) -> str:
    """A description on one line: its first part, up to a heading, without links' addresses."""
    own = re.split(r"(?m)^\s*#{1,6} |^\s*\|", text, maxsplit=1)[0]
    own = re.sub(r"\[([^\[\]]*)\]\([^()]*\)", r"\1", own)
    flat = " ".join(re.sub(r"[*_`]{2,}|`", "", own).split())
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST - 3]}..."
