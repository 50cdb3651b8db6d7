"""The tools of TRAJECT-Bench: those of the domains' files, and those that only the queries' records name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from grid.core.types import Parameter, ToolSpec
from grid.datasets.traject_bench.records import Record, Recorded, parameters, plain

_TYPES = {"number": "number", "string": "string", "enum": "string", "boolean": "boolean", "date": "date"}


@dataclass(frozen=True)
class Tools:
    """A library: `specs` by name, the names that each domain has, and the names that no file defines."""

    specs: Mapping[str, ToolSpec]
    by_domain: Mapping[str, frozenset[str]]
    undefined: frozenset[str]

    def of_domain(self, domain: str) -> dict[str, ToolSpec]:
        """The library as a domain's cases see it: what the domain has is of its category, whoever else has it too."""
        own = self.by_domain.get(domain, frozenset())
        return {
            name: replace(spec, category=domain) if name in own and spec.category != domain else spec
            for name, spec in self.specs.items()
        }


def library(files: Mapping[str, Iterable[Mapping[str, Any]]], records: Iterable[Record]) -> Tools:
    """The tools of the domains' files (of a name that comes again the first), then those of the records alone.

    A tool that no file defines is made of all records that call it: the first description, each parameter that they
    give, required where they all have it among the required ones, and its type by the values.
    """
    specs: dict[str, ToolSpec] = {}
    by_domain: dict[str, set[str]] = {domain: set() for domain in files}
    for domain, rows in files.items():
        for row in rows:
            spec = _spec(row, domain)
            specs.setdefault(spec.name, spec)
            by_domain[domain].add(spec.name)
    unknown: dict[str, list[tuple[str, Recorded]]] = {}
    for record in records:
        for step in record.steps:
            if step.tool not in specs:
                unknown.setdefault(step.tool, []).append((record.domain, step))
    for name, steps in unknown.items():
        specs[name] = _recorded(name, steps[0][0], [step for _, step in steps])
        for domain, _ in steps:
            by_domain[domain].add(name)
    return Tools(specs, {domain: frozenset(names) for domain, names in by_domain.items()}, frozenset(unknown))


def respelled(records: Iterable[Record], names: Iterable[str]) -> list[Record]:
    """The records with tools' names as the files spell them, where nothing but the case of letters differs."""
    known = set(names)
    by_letters = {name.casefold(): name for name in known}
    return [
        replace(
            record,
            steps=tuple(
                step if step.tool in known else replace(step, tool=by_letters.get(step.tool.casefold(), step.tool))
                for step in record.steps
            ),
        )
        for record in records
    ]


def _spec(row: Mapping[str, Any], domain: str) -> ToolSpec:
    """A file's definition. Its outputs are described in prose, which the benchmark does not show either."""
    found = {
        item["name"].strip(): _parameter(item, key == "required")
        for key in ("optional", "required")
        for item in parameters(row, key) or ()
    }
    required_first = sorted(found.values(), key=lambda parameter: not parameter.required)
    description = plain(str(row.get("tool description") or ""))
    return ToolSpec(plain(row["tool name"]), description, tuple(required_first), (), domain)


def _parameter(item: Mapping[str, Any], required: bool) -> Parameter:
    """A parameter with its default, which the benchmark shows to the model with the rest."""
    said, default = plain(str(item.get("description") or "")), item.get("default")
    shown = "" if default is None or default == "" else f"default: {plain(str(default))}"
    kind = str(item.get("type") or "").partition("(")[0].strip().casefold()
    described = f"{said} ({shown})" if said and shown else said or shown
    return Parameter(item["name"].strip(), _TYPES.get(kind, "string"), described, required)


def _recorded(name: str, domain: str, steps: list[Recorded]) -> ToolSpec:
    given = dict.fromkeys(parameter for step in steps for parameter in step.parameters)
    found = []
    for parameter in given:
        values = [step.parameters[parameter] for step in steps if parameter in step.parameters]
        required = len(values) == len(steps) and all(value.required for value in values)
        found.append(Parameter(parameter, _type([value.value for value in values]), "", required))
    described = next((plain(step.description) for step in steps if step.description), "")
    return ToolSpec(name, described, tuple(sorted(found, key=lambda one: not one.required)), (), domain)


def _type(values: list[Any]) -> str:
    if all(isinstance(value, bool) for value in values):
        return "boolean"
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return "number"
    return "object" if all(isinstance(value, dict) for value in values) else "string"
