"""A pool of a given size (tooltree A.11): a case's own tools, and distractors from other domains."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from itertools import combinations, islice
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.code_digest import digest_of
from grid.core.errors import ConfigError, DataError
from grid.core.problem import Index, Problem
from grid.core.types import Parameter, ToolSpec, to_json
from grid.core.util import STRICT, derive_seed, made_once
from grid.datasets.files import fingerprint as of_files
from grid.datasets.files import read_json, read_jsonl
from grid.datasets.slate.dataset import Slate
from grid.episode.options import Retrieved
from grid.pools.whole import used
from grid.retrievers.scored import BM25

OWN = 14
"""The number of a case's own tools, unless the reference calls more tools."""


@dataclass(frozen=True, config=STRICT)
class Grown:
    """A case's own tools, plus `distractors` tools from other domains.

    The pool's size does not depend on the dataset's library.

    14 of the pool's tools are the case's own (more if its reference calls more): first the tools that the reference
    calls, then the tools in the case's record, then tools that BM25 finds in the dataset's library for the substeps,
    beginning with the best tool for each substep. The distractors are tools of the dataset, of SLATE and of the files
    in `path`. No distractor is in the case's domain or in the domain of one of the reference's tools, or has the same
    function as one of the reference's tools. If there are too few distractors, real tools are varied (`variations`).
    The order of the distractors is drawn from `seed` and is the same for all cases, trials and planners, so that a
    larger pool contains the tools of a smaller pool.
    """

    needs: ClassVar[str | None] = None
    distractors: Annotated[int, Field(ge=0, le=100_000)] = 10_000
    in_context: Annotated[int, Field(ge=0)] = 24
    seed: Annotated[int, Field(ge=0)] = 0
    path: str | None = None

    @property
    def version(self) -> str:
        """A name for the tools used as distractors. It changes whenever these tools change."""
        return f"tools-{fingerprint(self.path)}"

    def stock(self, library: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The library, and twice as many distractors as a case needs, because some are in the case's own domains."""
        if not self.distractors:
            return library
        own = tuple(library.values())
        found = distractors(own, self.path, self.seed, 2 * (OWN + self.distractors) + len(own))
        return MappingProxyType({**{tool.name: tool for tool in found}, **library})

    def fits(self, problem: Problem) -> bool:
        """True: the pool fits every case."""
        return True

    def tools(self, problem: Problem, stock: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
        """The case's own tools and `distractors` distractors, sorted by name.

        Raises:
            ConfigError: there are too few distractors.
        """
        right = used(problem)
        found = right | {name: problem.library[name] for name in problem.own} | self._near(problem)
        found = dict(islice(found.items(), max(OWN, len(right))))
        functions = {problem.same_function.get(name, name) for name in right}
        domains = {name.casefold() for name in (problem.domain, *(tool.category for tool in right.values())) if name}
        size = len(found) + self.distractors
        for tool in stock.values():
            if len(found) >= size:
                break
            same = problem.same_function.get(tool.name, tool.name) in functions
            domain = problem.library.get(tool.name, tool).category.casefold()  # if it has several, perhaps the case's
            if tool.name not in found and not same and domain not in domains:
                found[tool.name] = tool
        if len(found) < size:
            allowed = (
                f"at most {self.distractors + len(found) - size:,}, or pool.path=FOLDER with tools of more domains"
            )
            raise ConfigError("pool.distractors", self.distractors, allowed)
        return dict(sorted(found.items()))  # so that the right tools can be anywhere

    def _near(self, problem: Problem) -> dict[str, ToolSpec]:
        """The tools that BM25 finds; BM25 is used with every retriever, so that all retrievers get the same pool."""
        index = _indexed(tuple(problem.library.values()))
        near = Retrieved(index.retrieve, problem.case.plan.substeps, OWN).tools(problem.case, None)
        return {tool.name: tool for tool in near}


@lru_cache(maxsize=2)
def _indexed(tools: tuple[ToolSpec, ...]) -> Index:
    return BM25().index({tool.name: tool for tool in tools})


# Distractors: real tools from other domains and, if there are too few of these, their variations (tooltree A.11).


@lru_cache(maxsize=4)
def real_tools(path: str | None) -> tuple[ToolSpec, ...]:
    """The tools of SLATE and of the folder, without repeated names or descriptions."""
    return distinct((*Slate().tools.values(), *(read_tools(path) if path else ())))


@lru_cache(maxsize=4)
def fingerprint(path: str | None) -> str:
    """Twelve hexadecimal digits that identify `real_tools`."""
    parts = ([t.name, t.description, t.category, [[p.name, p.type] for p in t.parameters]] for t in real_tools(path))
    return hashlib.sha256("\n".join(map(to_json, parts)).encode()).hexdigest()[:12]


def distractors(own: Sequence[ToolSpec], path: str | None, seed: int, count: int) -> tuple[ToolSpec, ...]:
    """The first `count` distractors, or all if there are fewer.

    Real tools come first, in an order drawn from `seed`, followed by variations of them. The order does not depend on
    `count`. `own` are the dataset's tools, which are distractors for cases in other domains. No other distractor has
    the same name or description as one of these tools.
    """
    real = distinct((*own, *real_tools(path)))
    drawn = sorted(real, key=lambda tool: derive_seed(seed, "distractor", tool.name))
    return (*drawn[:count], *islice(variations(drawn), max(count - len(drawn), 0)))


def variations(tools: Sequence[ToolSpec]) -> Iterator[ToolSpec]:
    """Variations of real tools, as services from other domains would offer these tools.

    In large libraries, many services offer the same function. `track_parcel` "Tells where a parcel is." becomes
    `finance_track_parcel` "Tells where a parcel is, for Finance.", with the same arguments and the domain of
    `track_parcel`. There is a variation of a real tool for every other domain, and for every pair of domains ("for
    Finance and Travel"), unless its name is taken. Each tool is varied once before any tool is varied twice.
    """
    named_by_tools = sorted({tool.category for tool in tools if tool.category})
    domains = [*named_by_tools, *map(" and ".join, combinations(named_by_tools, 2))]
    taken = {tool.name.casefold() for tool in tools}
    for turn in range(len(domains)):
        for place, tool in enumerate(tools):
            domain = domains[(place + turn) % len(domains)]
            name = named(f"{domain} {tool.name}")
            if domain != tool.category and name.casefold() not in taken:
                taken.add(name.casefold())
                text = f"{tool.description.rstrip('. ')}, for {domain}."
                yield replace(tool, name=name, description=text)


# Tools from other benchmarks' files, whatever their form: in a folder of JSON, everything that describes a tool is
# read.
#
# A tool is described by an object with a name, a description and parameters, anywhere in a file, in the spellings of
# ToolBench, TRAJECT-Bench, UltraTool, BFCL, APIBench or the Model Context Protocol, or by an operation of an OpenAPI
# document.


MAX_NAME = 64
MAX_DESCRIPTION = 400
"""The maximum length of a description, in characters; the rest is cut off."""
_SHORTEST = 15  # minimum length of a meaningful description, in characters
_LISTS = ("required_parameters", "required parameters", "optional_parameters", "optional parameters")
_SCHEMAS = ("parameters", "arguments", "inputSchema", "input_schema", "api_arguments")
_DOMAINS = ("category_name", "domain name", "domain")
_TYPES = {
    "int": "integer", "integer": "integer", "number": "number", "float": "number", "double": "number",
    "bool": "boolean", "boolean": "boolean", "list": "array", "array": "array", "tuple": "array", "dict": "object",
    "object": "object",
}  # fmt: skip
_VERBS = ("get", "post", "put", "patch", "delete")
_TOOLS = "tools.jsonl"


@lru_cache(maxsize=4)
def read_tools(path: str) -> tuple[ToolSpec, ...]:
    """All distinct tools (`distinct`) in the folder's `.json` and `.jsonl` files, in the order of the file names.

    Names are turned into letters, digits and underscores. Reading 10 MB takes a second. The tools are kept in the
    user's cache until the content of a file changes.

    Raises:
        ConfigError: the folder does not exist, or contains no tool.
        DataError: a file is not JSON.
    """
    key, root = "pool.path", Path(path).expanduser()
    if not root.is_dir():
        raise ConfigError(key, path, "a folder of JSON files that describe tools")
    files = sorted(file for file in root.rglob("*") if file.suffix in (".json", ".jsonl") and file.is_file())
    made = f"{digest_of(_write)}-{of_files(*files)}"
    found = made_once("tool_files", made, (_TOOLS,), partial(_write, files)) / _TOOLS
    tools = tuple(_of_json(record) for _, record in read_jsonl(found))
    if not tools:
        raise ConfigError(key, path, f"a folder whose JSON files describe tools; its {len(files)} files describe none")
    return tools


def distinct(tools: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The tools, except tools with the name or the description of an earlier tool.

    Upper and lower case are treated as equal.
    """
    known, found = set[str](), list[ToolSpec]()
    for tool in tools:
        marks = {f"name {tool.name.casefold()}", f"text {tool.description.casefold()}"}
        if known.isdisjoint(marks):
            known |= marks
            found.append(tool)
    return tuple(found)


def _write(files: Sequence[Path], target: Path) -> None:
    tools = distinct(tool for file in files for record in _records(file) for tool in _found(record))
    (target / _TOOLS).write_text("".join(json.dumps(asdict(tool)) + "\n" for tool in tools), encoding="utf-8")


def _of_json(record: Mapping[str, Any]) -> ToolSpec:
    parameters = tuple(Parameter(**(one | {"values": tuple(one["values"])})) for one in record["parameters"])
    return ToolSpec(record["name"], record["description"], parameters, (), record["category"])


def _records(file: Path) -> Iterator[Any]:
    """The value in a `.json` file; for other files, and for `.json` files with several values, the lines' values."""
    if file.suffix == ".json":
        try:
            yield read_json(file)
            return
        except DataError:
            pass
    yield from (record for _, record in read_jsonl(file))


def _found(record: object) -> Iterator[ToolSpec]:
    """All tools that a value describes, in order.

    A tool without its own domain gets the domain of the object around it.
    """
    pending = [(record, "")]
    while pending:
        value, around = pending.pop()
        if isinstance(value, list):
            pending += [(part, around) for part in reversed(value)]
        elif isinstance(value, dict):
            domain = next((value[key] for key in _DOMAINS if isinstance(value.get(key), str)), around)
            tool = _tool(value, domain)
            if tool:
                yield tool
            else:
                yield from _operations(value.get("paths"))
                pending += [(part, domain) for key, part in reversed(value.items()) if key != "paths"]


def _tool(record: Mapping[str, Any], category: str) -> ToolSpec | None:
    """The tool that an object describes; None if the object describes no tool."""
    if not any(key in record for key in (*_LISTS, *_SCHEMAS)):
        return None
    api, service = record.get("api_name"), record.get("tool_name")
    name = f"{service} {api}" if api and service else record.get("tool name") or api or record.get("name")
    text = next(
        (record[key] for key in ("tool description", "api_description", "description") if record.get(key)), None
    )
    return _spec(name, text, tuple(_parameters(record)), category)


def named(text: str) -> str:
    """A text turned into a tool's name: letters, digits and underscores, at most `MAX_NAME` characters."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:MAX_NAME].strip("_")


def _spec(name: object, text: object, parameters: tuple[Parameter, ...], category: str) -> ToolSpec | None:
    slug = named(name) if isinstance(name, str) else ""
    told = " ".join(text.split())[:MAX_DESCRIPTION] if isinstance(text, str) else ""
    if not slug or len(told) < _SHORTEST:
        return None
    return ToolSpec(slug, told, parameters, (), category)


def _parameters(record: Mapping[str, Any]) -> Iterator[Parameter]:
    """A tool's parameters. If several parameters have the same name, only the first one counts."""
    known = set[str]()
    for name, spec, required in _written(record):
        if isinstance(name, str) and name and name not in known:
            known.add(name)
            told = spec.get("description") if isinstance(spec, Mapping) else spec
            kind = str(spec.get("type", "")).lower() if isinstance(spec, Mapping) else ""
            text = " ".join(told.split())[:MAX_DESCRIPTION] if isinstance(told, str) else ""
            listed = spec.get("enum") if isinstance(spec, Mapping) else None
            values = tuple(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else ()
            yield Parameter(name, _TYPES.get(kind, "string"), text, required, values)


def _written(record: Mapping[str, Any]) -> Iterator[tuple[object, object, bool]]:
    """The name, the specification and `required` of each parameter, from any of the forms that files use."""
    for key in _LISTS:
        listed = record.get(key)
        for item in listed if isinstance(listed, list) else ():
            if isinstance(item, Mapping):
                yield item.get("name"), item, key.startswith("required")
    for key in _SCHEMAS:
        schema = record.get(key)
        if isinstance(schema, list):
            for item in schema:
                named = isinstance(item, Mapping)
                yield (item.get("name") if named else item), (item if named else ""), True
        elif isinstance(schema, Mapping):
            properties = schema.get("properties", {} if "type" in schema else schema)
            must = schema.get("required")
            for name, spec in properties.items() if isinstance(properties, Mapping) else ():
                yield name, spec, isinstance(must, list) and name in must


def _operations(paths: object) -> Iterator[ToolSpec]:
    """The operations of an OpenAPI document, as tools. Parameters that do not have the form of OpenAPI are left out."""
    for place, item in paths.items() if isinstance(paths, Mapping) else ():
        for verb in _VERBS:
            operation = item.get(verb) if isinstance(item, Mapping) else None
            if not isinstance(operation, Mapping):
                continue
            listed = [part.get("parameters") for part in (item, operation)]
            parameters = tuple(
                Parameter(
                    str(one["name"]),
                    _TYPES.get(str(schema.get("type")), "string") if isinstance(schema, Mapping) else "string",
                    str(one.get("description") or ""),
                    bool(one.get("required")),
                )
                for ones in listed
                for one in (ones if isinstance(ones, list) else ())
                if isinstance(one, Mapping) and one.get("name")
                for schema in [one.get("schema")]
            )
            text = operation.get("description") or operation.get("summary")
            tool = _spec(f"{verb} {place}", text, parameters, "")
            if tool:
                yield tool
