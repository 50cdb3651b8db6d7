"""The released queries: `solvable_queries/test_instruction/<group>.json`, each with the APIs that it offers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from grid.core.errors import ConfigError, DataError
from grid.core.types import Json, Skipped, ToolCall, to_json
from grid.datasets.files import folder, read_json
from grid.text import references

# ToolBench's spelling of names, used in its functions' names and in the files of its response cache.


LONGEST = 64
"""Maximum length of a function's name that model servers accept, in characters."""
_OTHER = re.compile(r"[^\u4e00-\u9fa5a-zA-Z0-9^_]")
_RESERVED = frozenset({"from", "class", "return", "false", "true", "id", "and"})


def standardized(text: str) -> str:
    """A text in lower case, with `_` for everything except letters and digits, and `get_` before a leading digit.

    Of other letters than a to z, only Chinese characters stay; `^` stays too.
    """
    found = re.sub(r"_{2,}", "_", _OTHER.sub("_", text)).lower().strip("_")
    return f"get_{found}" if found[:1].isdigit() else found


def identifier(text: str) -> str:
    """The standardized name of an API or argument, with a prefix if it is a reserved word."""
    found = standardized(text)
    return f"is_{found}" if found in _RESERVED else found


def category(text: str) -> str:
    """A category's name, spelt as in the names of the response folders."""
    return re.sub(r"[ ,/]", "_", text).replace("__", "_")


def tool_names(apis: Iterable[Api]) -> dict[Api, str]:
    """A unique name for each API: `search_for_simple_youtube_search`, or the last words of a long name.

    If several APIs would have the same name, each API after the first gets a number at the end of its name; APIs are
    numbered in order of category, tool and API name.
    """
    names: dict[Api, str] = {}
    taken: Counter[str] = Counter()
    for api in sorted(apis, key=lambda api: (api.category, api.tool, api.name)):
        full = f"{identifier(api.name) or 'api'}_for_{standardized(api.tool) or 'tool'}"
        name = _ending(re.sub(r"[^a-z0-9_]", "_", full))
        while taken[name]:
            taken[name] += 1
            name = f"{name[: LONGEST - 4]}_{taken[name]}"
        taken[name] += 1
        names[api] = name
    return names


def _ending(name: str) -> str:
    """The end of a name with at most LONGEST characters, in whole words if possible."""
    if len(name) <= LONGEST:
        return name.strip("_")
    cut = name[-LONGEST:]
    return (cut.partition("_")[2] or cut).strip("_")


# The released queries: `solvable_queries/test_instruction/<group>.json`, each with the APIs that it offers.


Group = Literal["G1_instruction", "G1_category", "G1_tool", "G2_instruction", "G2_category", "G3_instruction"]
"""A group of queries.

A query offers the APIs of one tool (G1), or of several tools in a category (G2) or collection (G3).
"""
GROUPS: tuple[Group, ...] = get_args(Group)
FOLDER = "solvable_queries/test_instruction"
RELEVANT = "relevant APIs"
_LISTS = ("required_parameters", "optional_parameters")
_EXAMPLES = {"NUMB": "1", "BOOL": "true", "DATE": "2026-01-01", "TIME": "12:00", "ARRA": "[]", "OBJE": "{}"}
_TEXTS = ("category_name", "tool_name", "api_name")


@dataclass(frozen=True)
class Argument:
    """A parameter as documented. The parameter's `type` is one of the API catalogue's types (STRING, NUMBER, ...)."""

    name: str
    type: str
    description: str
    default: Json
    required: bool


@dataclass(frozen=True)
class Api:
    """One API, identified by its category, tool and name. `Definition` has the rest of its documentation."""

    category: str
    tool: str
    name: str


@dataclass(frozen=True)
class Definition:
    """The content of an API's documentation.

    `template` shows the form of the API's response; it is None if the form is not documented.
    """

    description: str
    method: str
    arguments: tuple[Argument, ...]
    template: Json


@dataclass(frozen=True)
class Query:
    """One usable query: the APIs that it offers (`own`), and the APIs that solve it (`relevant`), each once."""

    id: str
    group: Group
    text: str
    own: tuple[Api, ...]
    relevant: tuple[Api, ...]


@dataclass(frozen=True)
class Records:
    """The content of the files: usable queries by id, the APIs of all queries, and the skipped queries."""

    queries: Mapping[str, Query]
    definitions: Mapping[Api, Definition]
    skipped: Sequence[Skipped]


def files_in(path: str | None, group: Group | None) -> dict[Group, Path]:
    """The groups' existing files. `path` is the released folder, or the folder that contains the files.

    Raises ConfigError if there is no file, or no file for `group`.
    """
    root = folder("dataset.path", path)
    inside = root / FOLDER if (root / FOLDER).is_dir() else root
    found = {name: inside / f"{name}.json" for name in GROUPS if (inside / f"{name}.json").is_file()}
    if not found or (group and group not in found):
        wanted = [f"{FOLDER}/{name}.json" for name in ([group] if group else GROUPS)]
        raise ConfigError("dataset.path", path, f"a folder with {' or '.join(wanted)}")
    return found


def read_records(files: Mapping[Group, Path]) -> Records:
    """Read all files; if an API is defined more than once, its first definition counts.

    Raises:
        DataError: a file cannot be read or does not have the expected format.
    """
    queries: dict[str, Query] = {}
    definitions: dict[Api, Definition] = {}
    skipped: list[Skipped] = []
    for group, path in files.items():
        rows = read_json(path)
        if not isinstance(rows, list):
            raise DataError(path, None, "a list of queries is expected")
        for number, row in enumerate(rows, 1):
            offered = _offered(path, number, row)
            for api, definition in offered.items():
                definitions.setdefault(api, definition)
            query_id = f"{group}-{row['query_id']}"
            query = _query(query_id, group, row, offered)
            if isinstance(query, Query) and query_id in queries:
                query = "an earlier query of the group has this query_id"
            if isinstance(query, Query):
                queries[query_id] = query
            else:
                skipped.append(Skipped(query_id, query))
    return Records(queries, definitions, skipped)


def _offered(path: Path, number: int, row: Any) -> dict[Api, Definition]:
    """The APIs in a query's list; raises DataError if the query does not have the expected format."""
    wanted = (("query", str), ("query_id", int | str), ("api_list", list), (RELEVANT, list))
    for key, kind in wanted:
        if not isinstance(row, dict) or not isinstance(row.get(key), kind):
            raise DataError(path, None, f"query {number}: {key} must be a {getattr(kind, '__name__', kind)}")
    offered: dict[Api, Definition] = {}
    for listed in row["api_list"]:
        if not isinstance(listed, dict) or not all(isinstance(listed.get(key), str) for key in _TEXTS):
            raise DataError(path, None, f"query {number}: every item of api_list must have {', '.join(_TEXTS)}")
        for key in _LISTS:
            if not isinstance(listed.get(key) or [], list):
                raise DataError(path, None, f"query {number}: {key} in an item of api_list must be a list or null")
        api = Api(*(listed[key] for key in _TEXTS))
        offered.setdefault(api, _definition(listed))
    return offered


def _definition(listed: Mapping[str, Any]) -> Definition:
    arguments: dict[str, Argument] = {}
    for key in _LISTS:
        for given in listed.get(key) or ():
            name = given.get("name") if isinstance(given, dict) else None
            if isinstance(name, str) and (name := " ".join(name.split())):  # without a name, no call can use it
                text = " ".join(str(given.get("description") or "").split())
                kind = str(given.get("type") or "STRING")
                arguments.setdefault(name, Argument(name, kind, text, given.get("default"), key == _LISTS[0]))
    text, method = str(listed.get("api_description") or ""), str(listed.get("method") or "GET")
    return Definition(text, method, tuple(arguments.values()), listed.get("template_response"))


def _query(name: str, group: Group, row: Mapping[str, Any], offered: Mapping[Api, Definition]) -> Query | str:
    """The query, or the reason why it cannot be a case."""
    if not offered:
        return "it offers no API"
    if not row["query"].strip():
        return "it asks nothing"
    by_pair: dict[tuple[str, str], Api] = {}
    for api in offered:
        by_pair.setdefault((api.tool, api.name), api)
    pairs = [tuple(pair) for pair in row[RELEVANT] if isinstance(pair, list) and all(isinstance(p, str) for p in pair)]
    if not pairs or len(pairs) < len(row[RELEVANT]):
        return (
            "the relevant APIs are not pairs of a tool and an API"
            if row[RELEVANT]
            else "the query names no relevant API"
        )
    found = [by_pair.get((pair[0], pair[1])) if len(pair) == 2 else None for pair in pairs]
    relevant = tuple(dict.fromkeys(api for api in found if api))
    if None in found:
        return "a relevant API is not one of the APIs that the query offers"
    if any(any(references.found_in(reference_call("", offered[api]))) for api in relevant):
        return "the default of an argument refers to another call's result"
    return Query(name, group, row["query"].strip(), tuple(offered), relevant)


def reference_call(tool: str, definition: Definition) -> ToolCall:
    """A call with the default values of the required arguments, as texts. A query's own values are not recorded.

    If a default is empty, the value is an example of the argument's type, because no tool accepts an empty required
    argument.
    """
    return ToolCall(tool, {one.name: _default(one) for one in definition.arguments if one.required})


def _default(argument: Argument) -> str:
    given = argument.default
    text = given if isinstance(given, str) else "" if given is None else to_json(given)
    return text if text.strip() else _EXAMPLES.get(argument.type.upper()[:4], "example")
