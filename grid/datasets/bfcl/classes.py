"""The simulated APIs of BFCL's multi-turn categories: Python classes of the authors' package `bfcl-eval`.

Only the classes themselves are imported, and only when a case needs them. Of the package's requirements they need
mpmath alone; the others are pinned to versions that conflict with this project's.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Any

from grid.core.errors import ConfigError
from grid.core.types import Json
from grid.worlds.instances import taken

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
