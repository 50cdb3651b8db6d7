"""BFCL's files: the files of a category, their functions as tools, and the calls that a record accepts."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from grid.core.errors import ConfigError
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, Json, Parameter, ToolCall, ToolSpec
from grid.datasets.dataset import UnusableError
from grid.datasets.files import folder, read_jsonl
from grid.datasets.grading import children, described, listed, type_of
from grid.datasets.parameters import details, json_type
from grid.text.objects import MAX_DEPTH, depth
from grid.worlds.functions import taken

# Whether calls are the accepted ones: the part of BFCL's syntax-tree check that concerns Python.
#
# This check gives the same results as the authors' check (`ast_checker.py` of bfcl-eval 2026.3.23), with all of its
# peculiarities. If the authors' check crashes, for example because it meets a list where it expects objects, the calls
# are not accepted. A record's gold is a list of calls with several accepted values for each argument; "" among them
# means that the argument may be left out.


KINDS: Mapping[str, type] = {
    "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
    "any": str,
}  # fmt: skip
"""The types of the functions' parameters, each with the Python type of its values."""
LISTS = ("array", "tuple")
OPTIONAL = ""
"""The accepted value that means that the argument may be left out."""
_LARGEST = 10**300
_IGNORED = str.maketrans("'", '"', " ,./-_*^")


class Kind(NamedTuple):
    """The type of a parameter's values and, if the values are lists, the type of the lists' items.

    Types at deeper levels are not checked.
    """

    outer: type
    inner: type | None = None


class Signature(NamedTuple):
    """A function's signature for the check: its parameters, and the names of the required parameters."""

    parameters: Mapping[str, Kind]
    required: tuple[str, ...]


Accepted: TypeAlias = Mapping[str, list[Any]]
"""The accepted values of each argument of one call. An accepted object has a list of accepted values for each key."""


class Gold(NamedTuple):
    """One wanted call."""

    tool: str
    arguments: Accepted


def all_accepted(signatures: Mapping[str, Signature], gold: Sequence[Gold], calls: Sequence[ToolCall]) -> bool:
    """Whether the calls are the wanted calls, each made once and in any order.

    Each wanted call is matched with the first remaining call that satisfies it, as in the authors' check.
    """
    if len(calls) != len(gold):
        return False
    left = list(calls)
    for wanted in gold:
        found = next((place for place, call in enumerate(left) if accepts(signatures, wanted, call)), None)
        if found is None:
            return False
        del left[found]
    return True


def accepts(signatures: Mapping[str, Signature], wanted: Gold, call: ToolCall) -> bool:
    """Whether a call satisfies the wanted call."""
    if call.tool != wanted.tool:
        return False
    signature, given = signatures[wanted.tool], call.arguments
    if any(name not in given for name in signature.required):
        return False
    for name, value in given.items():
        kind, values = signature.parameters.get(name), wanted.arguments.get(name)
        if kind is None or values is None or not value_accepted(value, kind, values):
            return False
    return all(name in given or OPTIONAL in values for name, values in wanted.arguments.items())


def value_accepted(value: Json, kind: Kind, values: list[Any]) -> bool:
    """Whether a value is accepted; it must have its parameter's type or the type of the first accepted value.

    The first accepted value is the first one that is not OPTIONAL. Where a float is wanted, a whole number will do.
    """
    found: Any = value
    if kind.outer is float and type(value) is int and abs(value) < _LARGEST:
        found = float(value)
    given, expected = type(found), _type_of_first(values)
    if given is kind.outer:
        if kind.inner and not any(_items_fit(found, one, kind.inner) for one in values):
            return False
        other = expected not in (None, kind.outer)
    elif given is expected:
        other = True
    else:
        return False
    if other or kind.outer in (int, float, bool):
        return found in values
    if kind.outer is dict:
        return any(one != OPTIONAL and _same_object(found, one) for one in values)
    if kind.inner is dict:
        return any(_same_objects(found, one) for one in values)
    if kind.outer is list:
        items = [_plain(item) for item in found]
        return any(isinstance(one, list | str) and items == [_plain(item) for item in one] for one in values)
    return _plain(found) in [_plain(one) for one in values if isinstance(one, str)]


def _type_of_first(values: Sequence[Any]) -> type | None:
    return next((type(value) for value in values if value != OPTIONAL), None)


def _items_fit(items: list[Any], accepted: Any, inner: type) -> bool:
    """Whether each item of a list has the declared type, or the type of the accepted list's first item.

    If the accepted value is something other than a list, such as "" for an argument that may be left out, any items
    fit.
    """
    if not isinstance(accepted, list):
        return True
    first = _type_of_first(accepted)
    return all(type(item) is inner or type(item) is first for item in items)


def _same_object(value: dict[str, Any], accepted: Any) -> bool:
    """Whether all values of an object are accepted, and all required keys are present."""
    if not isinstance(accepted, dict) or not all(isinstance(one, list) for one in accepted.values()):
        return False
    for key, item in value.items():
        if key not in accepted or _plain(item) not in [_plain(one) for one in accepted[key]]:
            return False
    return all(key in value or OPTIONAL in values for key, values in accepted.items())


def _same_objects(value: list[Any], accepted: Any) -> bool:
    if not isinstance(accepted, list | str) or len(value) != len(accepted):
        return False
    return all(isinstance(item, dict) and _same_object(item, one) for item, one in zip(value, accepted, strict=True))


def _plain(value: Any) -> Any:
    """A text in lower case, with double quotes, and without spaces and the characters , . / - _ * ^.

    Values that are not texts stay unchanged.
    """
    return value.translate(_IGNORED).lower() if isinstance(value, str) else value


# The simulated APIs of BFCL's multi-turn categories: Python classes of the authors' package `bfcl-eval`.
#
# Only the classes themselves are imported, and only when a case needs them. Of the package's requirements, the classes
# need only mpmath; the other requirements are pinned to versions that conflict with this project's.


PACKAGE = "bfcl-eval==2026.3.23"
INSTALL = f"pip install --no-deps {PACKAGE} && pip install mpmath"
FILES: Mapping[str, str] = MappingProxyType(
    {
        "GorillaFileSystem": "gorilla_file_system",
        "MathAPI": "math_api",
        "MessageAPI": "message_api",
        "TicketAPI": "ticket_api",
        "TradingBot": "trading_bot",
        "TravelAPI": "travel_booking",
        "TwitterAPI": "posting_api",
        "VehicleControlAPI": "vehicle_control",
    }
)
"""The name of each class's module; the file with the documents of the class's functions has the same name."""
LARGEST: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "power": {"exponent": 1_000},
        "logarithm": {"precision": 1_000},
        "square_root": {"precision": 1_000},
        "round_number": {"decimal_places": 1_000},
    }
)
"""For each function, the arguments whose size determines how long it runs, with the largest accepted size."""
_MODULES = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_STATELESS = frozenset({"MathAPI"})


def installed() -> str:
    """The version of `bfcl-eval`; raises ConfigError if this package is not installed."""
    try:
        return version("bfcl-eval")
    except PackageNotFoundError:
        raise _missing() from None


@cache
def api_class(name: str) -> type[Any]:
    """One of the classes in FILES; raises ConfigError if `bfcl-eval`, or a package that it needs, is not installed."""
    try:
        found: type[Any] = getattr(import_module(f"{_MODULES}.{FILES[name]}"), name)
    except ImportError:
        raise _missing() from None
    return found


@cache
def parameters(name: str, method: str) -> tuple[str, ...]:
    """A method's parameters, in the order in its code; the order in the documents is sometimes different.

    Raises ConfigError as `api_class` does, or AttributeError if the class has no such method.
    """
    return tuple(inspect.signature(getattr(api_class(name), method)).parameters)[1:]


def loaded(name: str, config: Mapping[str, Json], long_context: bool) -> bytes:
    """A snapshot of an object of the class after a scenario was loaded into the object.

    With `long_context`, the object gets a lot of irrelevant data.

    Raises:
        ConfigError: `bfcl-eval`, or a package that it needs, is not installed.
        UncontrolledError: the scenario cannot be loaded.
    """
    kind = api_class(name)

    def make() -> object:
        instance = kind()
        if name not in _STATELESS:
            instance._load_scenario(deepcopy(dict(config)), long_context=long_context)
        return instance

    return taken(make)


def too_large(method: str, arguments: Mapping[str, Json]) -> str | None:
    """The error for a call that would run too long because an argument is too large; None for any other call."""
    for name, most in LARGEST.get(method, {}).items():
        value = arguments.get(name)
        if isinstance(value, int | float) and abs(value) > most:
            return f"{name} must not be above {most:,}"
    return None


def _missing() -> ConfigError:
    return ConfigError(
        "dataset.category",
        "multi_turn_...",
        f"these categories run the authors' classes, which must be installed: {INSTALL}",
    )


# BFCL's files: the files of a category, their functions as tools, and the calls that a record accepts.


Category = Literal[
    "simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance",
    "live_simple", "live_multiple", "live_parallel", "live_parallel_multiple", "live_irrelevance", "live_relevance",
    "multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context",
]  # fmt: skip
Wanted: TypeAlias = Literal["gold", "none", "some"]
"""The calls that resolve a record: the calls that the record accepts, no call at all, or any call."""
ANSWERS = "possible_answer"
_DOCS = "multi_turn_func_doc"
_PREFIX = "BFCL_v4_"
_UNLISTED: Mapping[Category, Wanted] = {"irrelevance": "none", "live_irrelevance": "none", "live_relevance": "some"}
_NO_TOOL = frozenset('(:"\\')
"""Characters that would end a tool's name in a list of options, or would have to be escaped."""
_EXAMPLES: Mapping[type, Json] = {str: "example", int: 1, float: 1.0, bool: True, list: [], dict: {}}

Answers: TypeAlias = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Function:
    """A function: its definition for planners, and its signature for the check."""

    spec: ToolSpec
    signature: Signature


def wanted_of(category: Category) -> Wanted:
    """The calls that resolve the records of a single-turn category."""
    return _UNLISTED.get(category, "gold")


def is_parallel(category: Category) -> bool:
    """Whether the category's records may need several calls."""
    return "parallel" in category


def is_multi_turn(category: Category) -> bool:
    """Whether the category's records have several turns, with simulated APIs."""
    return category.startswith("multi_turn")


def files_of(path: str | None, category: Category) -> list[Path]:
    """A category's files: the records, the answers (if there are any) and, for several turns, the APIs' functions.

    `path` may also be the folder that contains `data`. Raises ConfigError, which names `dataset.path`, if the folder or
    a file is missing, or if the records or answers are empty.
    """
    name = f"{_PREFIX}{category}.json"
    needed = [name] if category in _UNLISTED else [name, f"{ANSWERS}/{name}"]
    inner = Path(path).expanduser() / "data" if path else None
    root = folder("dataset.path", str(inner) if inner and (inner / name).is_file() else path, *needed)
    found = [root / one for one in needed]
    if is_multi_turn(category):
        docs = sorted((root / _DOCS).glob("*.json"))
        if not docs:
            raise ConfigError("dataset.path", path, f"a folder with {_DOCS}/<api>.json")
        found += docs
    return found


def read_docs(files: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    """Maps each API file's name without extension to the API's functions; raises DataError for a broken file."""
    return {path.stem: [row for _, row in read_jsonl(path)] for path in files}


def read_rows(files: Sequence[Path]) -> tuple[list[tuple[int, dict[str, Any]]], Answers]:
    """The records with their line numbers, and the answers by id; raises DataError for a line that is not JSON."""
    answers = {str(row.get("id")): row for _, row in read_jsonl(files[1])} if len(files) > 1 else {}
    return list(read_jsonl(files[0])), answers


def query_of(row: Mapping[str, Any]) -> str:
    """The request: the only message, or all messages with their roles; raises UnusableError for other forms."""
    turns = row.get("question")
    if not isinstance(turns, list) or len(turns) != 1 or not isinstance(turns[0], list):
        raise UnusableError("the question is not a list of exactly one turn")
    said = [(one.get("role"), one.get("content")) if isinstance(one, dict) else (None, None) for one in turns[0]]
    texts = [(role, text.strip()) for role, text in said if isinstance(role, str) and isinstance(text, str)]
    if len(texts) < len(said) or not any(text for _, text in texts):
        raise UnusableError("the question is not a list of messages that each have a role and a content")
    return texts[0][1] if len(texts) == 1 else "\n".join(f"{role}: {text}" for role, text in texts)


def functions_of(row: Mapping[str, Any]) -> dict[str, Function]:
    """A record's functions by name; of several functions with one name, only the first.

    Raises UnusableError if the record offers no function, or a function that cannot be a tool.
    """
    given = row.get("function")
    if not isinstance(given, list) or not given:
        raise UnusableError("the record offers no function" if given == [] else "the functions are not a list")
    found: dict[str, Function] = {}
    for one in given:
        made = _function(one)
        found.setdefault(made.spec.name, made)
    return found


def _function(given: Any) -> Function:
    name, schema = (given.get("name"), given.get("parameters")) if isinstance(given, dict) else (None, None)
    if not isinstance(name, str) or not name.strip() or _NO_TOOL & set(name) or not name.isprintable():
        raise UnusableError("a function has no name, or a name that is not allowed for tools")
    if name in (NO_TOOL, FINISH, GIVE_UP):
        raise UnusableError(f"a function has the name {name}, which is reserved")
    if not isinstance(schema, dict) or not isinstance(schema.get("properties", {}), dict):
        raise UnusableError(f"{name}: the parameters are not an object with properties")
    if depth(schema) > MAX_DEPTH:
        raise UnusableError(f"{name}: the parameters are nested more than {MAX_DEPTH} levels deep")
    properties, must = children(schema), schema.get("required") or []
    if not isinstance(must, list) or not all(isinstance(one, str) and one in properties for one in must):
        raise UnusableError(f"{name}: a required parameter is not among the properties")
    kinds = {key: _kind(f"{name}: {key}", one) for key, one in properties.items()}
    parameters = tuple(
        Parameter(key, json_type(type_of(one)), details(one), key in must, listed(one))
        for key, one in properties.items()
    )
    spec = ToolSpec(name, " ".join(described(given).split()), parameters)
    return Function(spec, Signature(kinds, tuple(must)))


def _kind(where: str, schema: Any) -> Kind:
    kind = type_of(schema)
    if kind not in KINDS:
        raise UnusableError(f"{where} has the type {kind:.40}, which is not one of {', '.join(KINDS)}")
    if kind not in LISTS:
        return Kind(KINDS[kind])
    items = schema.get("items")
    inner = items.get("type") if isinstance(items, dict) else None
    if not isinstance(inner, str) or inner not in KINDS:
        raise UnusableError(f"{where} is a list whose items have no known type")
    return Kind(KINDS[kind], KINDS[inner])


def gold_of(row: Mapping[str, Any], functions: Mapping[str, Function], parallel: bool) -> tuple[Gold, ...]:
    """The wanted calls of an answer; raises UnusableError if the answer cannot be used."""
    given = row.get("ground_truth")
    if not isinstance(given, list) or not given or depth(given) > MAX_DEPTH:
        raise UnusableError("the answer names no call")
    if len(given) > 1 and not parallel:
        raise UnusableError("the answer names several calls, but only one is asked for")
    found: list[Gold] = []
    for one in given:
        name, arguments = next(iter(one.items())) if isinstance(one, dict) and len(one) == 1 else (None, None)
        if name not in functions:
            raise UnusableError("the answer names a function that the record does not offer")
        if not isinstance(arguments, dict) or not all(isinstance(values, list) for values in arguments.values()):
            raise UnusableError("the answer has no list of accepted values for each argument")
        found.append(Gold(str(name), arguments))
    return tuple(found)


def accepted_call(wanted: Gold, function: Function) -> ToolCall:
    """The first accepted call, which has the first accepted value of each argument.

    An optional argument is left out if its first value is OPTIONAL.

    Raises:
        UnusableError: no call is accepted.
    """
    found: dict[str, Json] = {}
    for name, values in wanted.arguments.items():
        kind = function.signature.parameters.get(name)
        optional = OPTIONAL in values and name not in function.signature.required
        if kind is None or (optional and values[0] == OPTIONAL):
            continue
        concrete = (_concrete(value, kind) for value in values)
        chosen = [value for value in concrete if value_accepted(value, kind, values)]
        if chosen:
            found[name] = chosen[0]
    call = ToolCall(wanted.tool, found)
    if not accepts({wanted.tool: function.signature}, wanted, call):
        raise UnusableError(f"the answer accepts no call of {wanted.tool}")
    return call


def _concrete(value: Any, kind: Kind) -> Any:
    """A single value for a call, made from an accepted value.

    An accepted object has a list of values for each key; the call's object has the first value of each list
    (`_first_of`).
    """
    if kind.outer is dict and isinstance(value, dict):
        return _first_of(value)
    if kind.inner is dict and isinstance(value, list):
        return [_first_of(one) if isinstance(one, dict) else one for one in value]
    return value


def _first_of(accepted: Accepted) -> dict[str, Json]:
    """An object with the first of each key's values; a key is left out if its first value is OPTIONAL."""
    firsts = {key: values[0] for key, values in accepted.items() if isinstance(values, list) and values}
    return {key: value for key, value in firsts.items() if value != OPTIONAL}


def example_call(function: Function) -> ToolCall:
    """A call with the required arguments.

    A text is the first listed value, if values are listed; any other value is an example of its type.
    """
    kinds = function.signature.parameters
    values = {one.name: one.values for one in function.spec.parameters}
    arguments = {
        name: values[name][0] if values[name] and kinds[name].outer is str else _EXAMPLES[kinds[name].outer]
        for name in function.signature.required
    }
    return ToolCall(function.spec.name, arguments)
