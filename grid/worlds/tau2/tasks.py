"""A task of τ²-bench as its files have it, and what of it is run against the package's tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from grid.core.types import Json
from grid.worlds.tau2.package import Requestor

Basis = Literal["DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE", "NL_ASSERTION"]
"""What a reward may rest on; it is the product over the task's own."""
BASES: tuple[Basis, ...] = ("DB", "ENV_ASSERTION", "ACTION", "COMMUNICATE", "NL_ASSERTION")


@dataclass(frozen=True)
class Action:
    """A gold action; `compare_args` are the arguments that a call is compared by, None: those that it has."""

    requestor: Requestor
    name: str
    arguments: Mapping[str, Json]
    compare_args: tuple[str, ...] | None = None

    def matches(self, name: str, arguments: Mapping[str, Json]) -> bool:
        """Whether a call is this action, as published: without `compare_args`, by the call's own arguments alone."""
        if self.name != name:
            return False
        compared = arguments.keys() if self.compare_args is None else self.compare_args
        return _only(arguments, compared) == _only(self.arguments, compared)


def _only(arguments: Mapping[str, Json], names: Any) -> dict[str, Json]:
    return {name: value for name, value in arguments.items() if name in names}


@dataclass(frozen=True)
class FunctionCall:
    """A function of somebody's tools, whether it is a tool or not."""

    requestor: Requestor
    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True)
class Assertion(FunctionCall):
    """A function that must return a truth value."""

    value: bool = True


@dataclass(frozen=True)
class Task:
    """One task. `data` and `user_data` are laid over the databases, then `begins` is run, before anything else.

    `persona` and `instructions` are what the user is told, `ticket` what a solo agent is; empty: none.
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
