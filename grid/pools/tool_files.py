"""Tools out of other benchmarks' files, whatever their form: a folder of JSON is read for all that describes a tool.

Read are objects with a name, a description and parameters, in the spellings of ToolBench, TRAJECT-Bench, UltraTool,
BFCL, APIBench and the Model Context Protocol, wherever they lie in a file, and the operations of OpenAPI documents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from grid.code_digest import digest_of
from grid.core.errors import ConfigError, DataError
from grid.core.types import Parameter, ToolSpec
from grid.core.util import made_once
from grid.datasets.files import fingerprint, read_json, read_jsonl

MAX_NAME = 64
MAX_DESCRIPTION = 400
"""Characters; of longer ones the rest is left out."""
_SHORTEST = 15  # characters of a description that says anything
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
    """Every tool in the folder's `.json` and `.jsonl` files, in the order of the files' names (`distinct`).

    Names are made of letters, digits and underscores. Reading takes a second for 10 MB; what was found is kept in the
    user's cache until a file's content changes.

    Raises:
        ConfigError: no folder, or no tool in it.
        DataError: a file that is no JSON.
    """
    key, root = "pool.path", Path(path).expanduser()
    if not root.is_dir():
        raise ConfigError(key, path, "a folder of JSON files that describe tools")
    files = sorted(file for file in root.rglob("*") if file.suffix in (".json", ".jsonl") and file.is_file())
    made = f"{digest_of(_write)}-{fingerprint(*files)}"
    found = made_once("tool_files", made, (_TOOLS,), partial(_write, files)) / _TOOLS
    tools = tuple(_of_json(record) for _, record in read_jsonl(found))
    if not tools:
        raise ConfigError(key, path, f"a folder whose JSON files describe tools; {len(files)} files describe none")
    return tools


def distinct(tools: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The first of those that share a name or a description, whatever the case."""
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
    """A file's value, or its lines' where it has one a line, whatever it is called."""
    if file.suffix == ".json":
        try:
            yield read_json(file)
            return
        except DataError:
            pass
    yield from (record for _, record in read_jsonl(file))


def _found(record: object) -> Iterator[ToolSpec]:
    """All tools that a value describes, in its order; those that name no domain are of the object's around them."""
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
    """The tool that an object describes, if it does."""
    if not any(key in record for key in (*_LISTS, *_SCHEMAS)):
        return None
    api, service = record.get("api_name"), record.get("tool_name")
    name = f"{service} {api}" if api and service else record.get("tool name") or api or record.get("name")
    text = next(
        (record[key] for key in ("tool description", "api_description", "description") if record.get(key)), None
    )
    return _spec(name, text, tuple(_parameters(record)), category)


def named(text: str) -> str:
    """A text as a tool's name: letters, digits and underscores, at most `MAX_NAME`."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:MAX_NAME].strip("_")


def _spec(name: object, text: object, parameters: tuple[Parameter, ...], category: str) -> ToolSpec | None:
    slug = named(name) if isinstance(name, str) else ""
    told = " ".join(text.split())[:MAX_DESCRIPTION] if isinstance(text, str) else ""
    if not slug or len(told) < _SHORTEST:
        return None
    return ToolSpec(slug, told, parameters, (), category)


def _parameters(record: Mapping[str, Any]) -> Iterator[Parameter]:
    """A tool's parameters, each name once."""
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
    """(name, specification, required) in the forms that files have."""
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
    """The operations of an OpenAPI document."""
    for place, item in paths.items() if isinstance(paths, Mapping) else ():
        for verb in _VERBS:
            operation = item.get(verb) if isinstance(item, Mapping) else None
            if not isinstance(operation, Mapping):
                continue
            listed = [*(item.get("parameters") or ()), *(operation.get("parameters") or ())]
            parameters = tuple(
                Parameter(
                    str(one["name"]),
                    _TYPES.get(str((one.get("schema") or {}).get("type")), "string"),
                    str(one.get("description") or ""),
                    bool(one.get("required")),
                )
                for one in listed
                if isinstance(one, Mapping) and one.get("name")
            )
            text = operation.get("description") or operation.get("summary")
            tool = _spec(f"{verb} {place}", text, parameters, "")
            if tool:
                yield tool
