"""Whether calls are the accepted ones: BFCL's check of calls by their syntax trees, its Python part.

It equals the authors' (`ast_checker.py` of bfcl-eval 2026.3.23), peculiarities included; where theirs breaks, on a list
in the place of objects for example, calls are not accepted. A record's gold is a list of calls with several accepted
values for each argument; "" among them means that the argument may be left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from grid.core.errors import ConfigError
from grid.core.types import Json, ToolCall
from grid.worlds.instances import taken

KINDS: Mapping[str, type] = {
    "string": str, "integer": int, "float": float, "boolean": bool, "array": list, "tuple": list, "dict": dict,
    "any": str,
}  # fmt: skip
"""The types of the functions' parameters, and what a value is in Python."""
LISTS = ("array", "tuple")
OPTIONAL = ""
"""Among accepted values: the argument may be left out."""
_LARGEST = 10**300
_IGNORED = str.maketrans("'", '"', " ,./-_*^")


class Kind(NamedTuple):
    """What a parameter takes, and for a list what its items are. Deeper levels are not checked."""

    outer: type
    inner: type | None = None


class Signature(NamedTuple):
    """A function as it is checked: its parameters, and the names of those that must be given."""

    parameters: Mapping[str, Kind]
    required: tuple[str, ...]


Accepted: TypeAlias = Mapping[str, list[Any]]
"""Of one call, the accepted values of each argument. Those of an object are objects with a list for each key."""


class Gold(NamedTuple):
    """One call that is wanted."""

    tool: str
    arguments: Accepted


def all_accepted(signatures: Mapping[str, Signature], gold: Sequence[Gold], calls: Sequence[ToolCall]) -> bool:
    """Whether the calls are the wanted ones, each once and in any order.

    Each wanted call takes the first of those that are left which it accepts, as the authors' check does.
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
    """Whether a call is the wanted one."""
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
    """Whether a value is one of those accepted, of its parameter's type or of that of the first accepted value."""
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
    """Whether a list's items are of the type that is declared, or of that of the first one of an accepted list.

    An accepted value that is no list, such as the "" of an argument that may be left out, fits any.
    """
    if not isinstance(accepted, list):
        return True
    first = _type_of_first(accepted)
    return all(type(item) is inner or type(item) is first for item in items)


def _same_object(value: dict[str, Any], accepted: Any) -> bool:
    """Whether an object has accepted values, and all keys but those that may be left out."""
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
    """A text without blanks and the marks , . / - _ * ^, in small letters, with double quotes; all else as it is."""
    return value.translate(_IGNORED).lower() if isinstance(value, str) else value


# The simulated APIs of BFCL's multi-turn categories: Python classes of the authors' package `bfcl-eval`.
#
# Only the classes themselves are imported, and only when a case needs them. Of the package's requirements they need
# mpmath alone; the others are pinned to versions that conflict with this project's.


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
"""By class the module that has it, which is also the name of the file with its functions' documents."""
LARGEST: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "power": {"exponent": 1_000},
        "logarithm": {"precision": 1_000},
        "square_root": {"precision": 1_000},
        "round_number": {"decimal_places": 1_000},
    }
)
"""By function the arguments whose size decides how long it computes, with the largest that is not refused."""
_MODULES = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_STATELESS = frozenset({"MathAPI"})


def installed() -> str:
    """The version of the package; raises ConfigError where there is none."""
    try:
        return version("bfcl-eval")
    except PackageNotFoundError:
        raise _missing() from None


@cache
def api_class(name: str) -> type[Any]:
    """One of the classes in FILES; raises ConfigError where the package is not installed."""
    try:
        found: type[Any] = getattr(import_module(f"{_MODULES}.{FILES[name]}"), name)
    except ImportError:
        raise _missing() from None
    return found


@cache
def parameters(name: str, method: str) -> tuple[str, ...]:
    """The parameters of a method in their order, which the documents do not always keep."""
    return tuple(inspect.signature(getattr(api_class(name), method)).parameters)[1:]


def loaded(name: str, config: Mapping[str, Json], long_context: bool) -> bytes:
    """A snapshot of a class's object with a scenario; `long_context`: filled with much that is of no use.

    Raises:
        ConfigError: the package is not installed.
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
    """Why a call would compute for too long; None where it would not."""
    for name, most in LARGEST.get(method, {}).items():
        value = arguments.get(name)
        if isinstance(value, int | float) and abs(value) > most:
            return f"{name} must not be above {most:,}"
    return None


def _missing() -> ConfigError:
    return ConfigError("dataset.category", "multi_turn_...", f"these categories run the authors' classes: {INSTALL}")
