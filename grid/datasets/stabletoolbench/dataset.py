"""StableToolBench: the solvable queries of ToolBench over real APIs, which nobody can call any more."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING, EXAMINED, REFERENCES, SIMULATED, SOLVED_FIRST, Answering, Outline, Problem
from grid.core.reference import Reference
from grid.core.strict import STRICT
from grid.core.types import Case, Parameter, Plan, Skipped, ToolCall, ToolSpec, Trajectory
from grid.datasets.files import fingerprint
from grid.datasets.sampling import Order, ordered
from grid.datasets.stabletoolbench import names
from grid.datasets.stabletoolbench.judging import TEMPERATURE, WITHOUT_AN_ANSWER, pass_rate
from grid.datasets.stabletoolbench.recorded import Recorded
from grid.datasets.stabletoolbench.records import (
    GROUPS,
    Api,
    Argument,
    Definition,
    Group,
    Query,
    Records,
    files_in,
    read_records,
    reference_call,
)
from grid.datasets.stabletoolbench.server import ApiServer
from grid.worlds.simulated import ServedWorld

ADAPTER = 1
"""Raise when the same files give other cases, tools or responses."""
_DESCRIPTION, _EXAMPLE = 256, 80
"""Characters that are shown of a description, as by the benchmark's own pipeline, and of an example's value."""
_TYPES = {"NUMBER": "number", "BOOLEAN": "boolean", "ARRAY": "array", "OBJECT": "object"}


@dataclass(config=STRICT)
class StableToolBench:
    """The solvable queries of one `group`, or of all whose files are there.

    The library is every API of any query of any group, so that groups share it; a case's own tools are those that its
    query lists. A case is resolved when each relevant API was called with success, by whatever arguments: nobody
    recorded the right ones, so that `usage` is null. `responses` is a folder of recorded ones; what it lacks is
    simulated, by the role `simulator` or, without one, made up after the documentation.
    """

    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, REFERENCES, EXAMINED, SIMULATED, SOLVED_FIRST})
    evaluator_temperature: ClassVar[float] = TEMPERATURE
    path: str | None = None
    group: Group | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    responses: str | None = None
    observation_characters: Annotated[int, Field(ge=1)] = 1024
    outline: Outline = "hidden"
    answering: Answering = "after"

    @cached_property
    def version(self) -> str:
        """The adapter's version, the files' fingerprint, and where responses come from."""
        files = hashlib.sha256("".join([*self._files, fingerprint(*self._files.values())]).encode()).hexdigest()[:12]
        recorded = f"-recorded-{self._recorded.fingerprint}" if self._recorded else ""
        return f"stabletoolbench-a{ADAPTER}-{files}{recorded}-simulated"

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """Every API of any query."""
        definitions = self._records.definitions
        return MappingProxyType({name: _spec(name, api, definitions[api]) for api, name in self._names.items()})

    @cached_property
    def skipped(self) -> Sequence[Skipped]:
        """Queries that cannot be cases, groups whose file is missing, and recorded responses that cannot be read."""
        missing = [Skipped(name, f"there is no file of {name}") for name in GROUPS if name not in self._files]
        own = [skip for skip in self._records.skipped if skip.record.startswith(self.group or "")]
        return (*own, *(() if self.group else missing), *(self._recorded.unreadable if self._recorded else ()))

    def case_ids(self) -> Sequence[str]:
        """The first `limit` of the usable queries; first parts have each group's share."""
        queries = self._records.queries
        chosen = [name for name, query in queries.items() if self.group in (None, query.group)]
        return ordered(chosen, self.order, (lambda name: queries[name].group, self.cluster))[: self.limit]

    def cluster(self, case_id: str) -> str:
        """The set of relevant APIs: queries of one set ask for the same in other words."""
        return "+".join(sorted(self._names[api] for api in self._records.queries[case_id].relevant))

    def problem(self, case_id: str) -> Problem:
        """One query; its reference calls have the documentation's own values for arguments, of which any will do."""
        query = self._records.queries[case_id]
        calls: dict[str, ToolCall | None] = {
            str(number): reference_call(self._names[api], self._records.definitions[api])
            for number, api in enumerate(query.relevant, 1)
        }
        resolution = frozenset(self._names[api] for api in query.relevant)
        return Problem(
            case=Case(case_id, query.text, Plan(())),
            reference=Reference(calls, tuple(calls), followed=False, ordered=False),
            world=ServedWorld(self.tools, resolution, self._server, self.observation_characters),
            candidates=lambda case, substep: tuple(self.tools.values()),
            library=self.tools,
            same_function={},
            domain=_domain(query),
            own=tuple(self._names[api] for api in query.own),
            measure=_without_usage,
            examine=partial(pass_rate, query.text),
        )

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """Of an episode that broke off: Unsolved, as without an answer."""
        return {**WITHOUT_AN_ANSWER}

    @cached_property
    def _files(self) -> Mapping[Group, Path]:
        return files_in(self.path, self.group)

    @cached_property
    def _records(self) -> Records:
        found = read_records(self._files)
        if not found.definitions:
            raise ConfigError("dataset.path", self.path, "queries that offer APIs")
        return found

    @cached_property
    def _names(self) -> Mapping[Api, str]:
        return names.tool_names(self._records.definitions)

    @cached_property
    def _recorded(self) -> Recorded | None:
        return None if self.responses is None else Recorded(self.responses, self._records.definitions)

    @cached_property
    def _server(self) -> ApiServer:
        return ApiServer({name: api for api, name in self._names.items()}, self._records.definitions, self._recorded)


def _without_usage(trajectory: Trajectory) -> Mapping[str, Any]:
    """There are no arguments to compare with."""
    return {"usage": None}


def _domain(query: Query) -> str:
    """The category of most relevant APIs, the first of several."""
    return Counter(api.category for api in query.relevant).most_common(1)[0][0]


def _spec(name: str, api: Api, definition: Definition) -> ToolSpec:
    """The tool as the benchmark shows it: fields of its response, of which many templates are an error's, are not."""
    text = " ".join(definition.description.split())[:_DESCRIPTION] or f"{api.name} of {api.tool}"
    return ToolSpec(name, text, tuple(map(_parameter, definition.arguments)), category=api.category)


def _parameter(argument: Argument) -> Parameter:
    kind = "date" if argument.type.startswith("DATE") else _TYPES.get(argument.type.upper(), "string")
    default = "" if argument.default is None else str(argument.default)
    example = f"for example {' '.join(default.split())[:_EXAMPLE]}" if default.strip() else ""
    text = ", ".join(part for part in (argument.description[:_DESCRIPTION], example) if part)
    return Parameter(argument.name, kind, text, argument.required)
