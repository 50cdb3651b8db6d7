"""τ²-bench's tools as a planner sees them, from the schemas that the package makes of its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grid.core.types import RESULT, Parameter, ToolSpec
from grid.datasets.alternatives import json_type
from grid.datasets.grounding import children, described, listed, required, type_of
from grid.datasets.parameters import details
from grid.worlds.tau2.package import Domain, specs
from grid.worlds.tau2.world import SAY

_MOST_DEPTH = 12
_RETURNS = "returns"


def library(domain: Domain, solo: bool, talks: bool) -> dict[str, ToolSpec]:
    """The tools of a domain by name: the agent's, alone the user's too, and with a user the one to talk by."""
    kits = [domain.tools, *([domain.user_tools] if solo and domain.user_tools else [])]
    found = {name: _spec(name, given, domain.name) for kit in kits for name, given in specs(kit).items()}
    return found | ({SAY.name: SAY} if talks else {})


def _spec(name: str, given: Mapping[str, Any], category: str) -> ToolSpec:
    schema = plain(given["parameters"], given["parameters"].get("$defs", {}))
    must = required({"parameters": schema}, "parameters")
    parameters = tuple(
        Parameter(key, json_type(type_of(one)), details(one), key in must, listed(one))
        for key, one in children(schema).items()
    )
    returned = given[_RETURNS]
    result = children(plain(returned, returned.get("$defs", {}))).get(_RETURNS, {})
    return ToolSpec(
        name, " ".join(described(given).split()), parameters, tuple(children(result)) or (RESULT,), category
    )


def plain(schema: Any, definitions: Mapping[str, Any], level: int = 0) -> Any:
    """A schema without references and alternatives: of several the first that is not null counts."""
    if not isinstance(schema, dict) or level > _MOST_DEPTH:
        return schema
    if isinstance(where := schema.get("$ref"), str):
        inner = definitions.get(where.rpartition("/")[2], {})
        return plain({**inner, **{key: one for key, one in schema.items() if key != "$ref"}}, definitions, level + 1)
    if alternatives := _alternatives(schema):
        rest = {key: one for key, one in schema.items() if key not in ("anyOf", "allOf", "default")}
        return plain({**alternatives[0], **rest}, definitions, level + 1)
    found = dict(schema)
    if parts := children(schema):
        found["properties"] = {key: plain(one, definitions, level + 1) for key, one in parts.items()}
    if "items" in schema:
        found["items"] = plain(schema["items"], definitions, level + 1)
    return found


def _alternatives(schema: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    given = schema.get("anyOf") or schema.get("allOf") or ()
    return [one for one in given if isinstance(one, dict) and one.get("type") != "null"]
