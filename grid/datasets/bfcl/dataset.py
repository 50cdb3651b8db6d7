"""BFCL v4 (Berkeley Function-Calling Leaderboard): requests, each with functions and the calls that are accepted.

What runs without a network and in Python: single turns, and several turns with simulated APIs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass as plain_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import DRAFTED, Measure, Problem, Reference, no_measure
from grid.core.types import Case, Observation, Plan, ToolCall, ToolSpec, Trajectory, to_json
from grid.core.util import STRICT, derive_seed
from grid.core.world import State, World, own_state
from grid.datasets.bfcl import multi_turn
from grid.datasets.bfcl.checker import Gold, Signature, accepts, all_accepted, installed
from grid.datasets.bfcl.records import (
    Category,
    Function,
    Wanted,
    accepted_call,
    example_call,
    files_of,
    functions_of,
    gold_of,
    is_multi_turn,
    is_parallel,
    query_of,
    read_docs,
    read_rows,
    wanted_of,
)
from grid.datasets.dataset import FileDataset, UnusableError
from grid.worlds.schema import ERROR


@plain_dataclass(frozen=True)
class _Record:
    """One usable record; `tools` are the functions that it offers."""

    case: Case
    reference: Reference
    world: World
    tools: Mapping[str, ToolSpec]
    measure: Measure = no_measure


@dataclass(config=STRICT)
class BFCL(FileDataset[_Record]):
    """The records of one `category`. `path` is a folder with `BFCL_v4_<category>.json` and `possible_answer`.

    A record offers functions of its own (`Problem.own`), whatever others have of that name: `tools`, the library, has
    of each name the first definition, a problem's library its own. `limit` draws a sample (`order`).
    """

    category: Category = "simple_python"

    def __post_init__(self) -> None:
        if self.outline == DRAFTED and is_multi_turn(self.category):
            raise ConfigError(
                "dataset.outline", DRAFTED, f"hidden: of {self.category} the first message alone is known"
            )

    @property
    def name(self) -> str:
        """With the category."""
        return f"bfcl-{self.category}"

    @cached_property
    def files(self) -> list[Path]:
        """The records, what is accepted, and the simulated APIs' documents."""
        return files_of(self.path, self.category)

    @property
    def version(self) -> str:
        """Of several turns with the APIs' version."""
        return super().version + (f"-apis{installed()}" if is_multi_turn(self.category) else "")

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The functions of all records, of each name the first definition."""
        found: dict[str, ToolSpec] = {}
        for record in self.records.values():
            for name, tool in record.tools.items():
                found.setdefault(name, tool)
        return found

    def cluster(self, case_id: str) -> str:
        """The names of the functions that it offers; of several turns the scenario."""
        if is_multi_turn(self.category):
            return multi_turn.scenario(case_id)
        return " ".join(sorted(self.records[case_id].tools))

    def problem(self, case_id: str) -> Problem:
        """One record, with what is accepted behind its world."""
        record = self.records[case_id]
        library = {**self.tools, **record.tools}
        tools = tuple(library.values())
        return Problem(
            case=record.case,
            reference=record.reference,
            world=record.world,
            candidates=lambda case, substep: tools,
            library=library,
            same_function={},
            own=tuple(record.tools),
            measure=record.measure,
        )

    def rows(self) -> Iterator[tuple[str, tuple[Mapping[str, Any], Mapping[str, Any]]]]:
        """The records, each with what is accepted."""
        rows, answers = read_rows(self.files)
        for line, row in rows:
            name = row.get("id")
            case_id = name if isinstance(name, str) and name.strip() else f"line {line}"
            yield case_id, (row, answers.get(case_id, {}))

    def record(self, case_id: str, row: tuple[Mapping[str, Any], Mapping[str, Any]]) -> _Record:
        """A record of one or of several turns."""
        said, answer = row
        if said.get("id") != case_id:
            raise UnusableError("its id is no text")
        if is_multi_turn(self.category):
            talk = multi_turn.read_case(said, answer, self._docs)
            return _Record(talk.case, talk.reference, talk.world, {tool.name: tool for tool in talk.tools})
        found = read_case(case_id, said, answer, wanted_of(self.category), is_parallel(self.category))
        tools = {tool.name: tool for tool in found.tools}
        return _Record(found.case, found.reference, found.world, tools, found.measure)

    @cached_property
    def _docs(self) -> multi_turn.Documents:
        """The functions of the simulated APIs."""
        return multi_turn.documents(read_docs(self.files[2:]))


# BFCL's single turns: a record as a case, and a world that takes note of calls and does nothing.


Calls: TypeAlias = tuple[tuple[str, str], ...]
"""The tools that were called, each with its arguments as JSON, in the order of their names."""
_RECEIPTS = 10**6
_WITHOUT_GOLD = (
    "exact_match", "inclusion", "inclusion_set", "usage", "retrieval_rate", "tool_precision", "tool_recall",
)  # fmt: skip


@plain_dataclass(frozen=True)
class Recorder:
    """The functions of one record. The state is all calls made.

    A call is held against its schema, never against what is right: one of an unknown function, without a required
    argument or with one that the function does not have returns an error. It was made all the same, as the authors
    count it, and is part of the state. Resolved: the calls are the `gold` ones (`checker.all_accepted`), there is none,
    or there is any.
    """

    signatures: Mapping[str, Signature]
    wanted: Wanted
    gold: tuple[Gold, ...] = ()
    branches: ClassVar[bool] = True

    def start(self) -> Calls:
        """No calls."""
        return ()

    async def apply(self, state: State, call: ToolCall) -> tuple[Calls, Observation]:
        """The calls with this one, and that it was recorded; the same call has the same receipt."""
        made: Calls = own_state(state, tuple)
        arguments = to_json(dict(sorted(call.arguments.items())))
        after = (*made, (call.tool, arguments))
        wrong = self._fault(call)
        if wrong:
            return after, Observation({ERROR: wrong}, failed=True)
        receipt = derive_seed(0, call.tool, arguments) % _RECEIPTS
        return after, Observation({"status": "taken; nothing is returned here", "receipt": receipt})

    def resolved(self, state: State) -> bool:
        """What the check says of all calls."""
        made: Calls = own_state(state, tuple)
        if self.wanted != "gold":
            return bool(made) == (self.wanted == "some")
        calls = [ToolCall(tool, json.loads(arguments)) for tool, arguments in made]
        return all_accepted(self.signatures, self.gold, calls)

    def answer(self, state: State) -> str | None:
        """None: calls are the answer."""
        return None

    def _fault(self, call: ToolCall) -> str | None:
        signature = self.signatures.get(call.tool)
        if signature is None:
            return f"there is no function {call.tool:.80}"
        missing = [name for name in signature.required if name not in call.arguments]
        if missing:
            return f"{missing[0]} is missing"
        strange = [name for name in call.arguments if name not in signature.parameters]
        return f"{strange[0]:.80} is no argument of {call.tool}" if strange else None


@plain_dataclass(frozen=True)
class Turn:
    """One usable record."""

    case: Case
    reference: Reference
    world: Recorder
    tools: tuple[ToolSpec, ...]

    @property
    def measure(self) -> Measure:
        """Its own metrics."""
        return partial(measured, self.world)


def read_case(case_id: str, row: Mapping[str, Any], answer: Mapping[str, Any], wanted: Wanted, parallel: bool) -> Turn:
    """A record as a case; its reference are the first accepted calls.

    Where any call will do, it is an example call of the first function, which is not needed: no record says what is.

    Raises:
        UnusableError: it cannot be one.
    """
    query, functions = query_of(row), functions_of(row)
    gold = gold_of(answer, functions, parallel) if wanted == "gold" else ()
    calls = [accepted_call(one, functions[one.tool]) for one in gold]
    if wanted == "some":
        calls = [example_call(next(iter(functions.values())))]
    world = Recorder({name: one.signature for name, one in functions.items()}, wanted, gold)
    if not all_accepted(world.signatures, gold, calls) and wanted == "gold":
        raise UnusableError("its answer accepts no calls")
    steps = {str(place): call for place, call in enumerate(calls)}
    resolution = () if wanted == "some" else tuple(steps)
    reference = Reference(steps, resolution, followed=False, ordered=False)
    return Turn(Case(case_id, query, Plan(())), reference, world, _specs(functions))


def _specs(functions: Mapping[str, Function]) -> tuple[ToolSpec, ...]:
    return tuple(one.spec for one in functions.values())


def measured(world: Recorder, trajectory: Trajectory) -> Mapping[str, Any]:
    """The metric `usage` by accepted values: of the wanted functions called, the share whose first call is accepted.

    That call is held against the first wanted one of its function. Without gold there is nothing to hold calls
    against: where any call will do, all metrics of tools and arguments are None.
    """
    if world.wanted == "some":
        return dict.fromkeys(_WITHOUT_GOLD)
    made: dict[str, ToolCall] = {}
    for step in trajectory.steps:
        if step.call:
            made.setdefault(step.call.tool, step.call)
    firsts: dict[str, Gold] = {}
    for one in world.gold:
        firsts.setdefault(one.tool, one)
    hits = [accepts(world.signatures, one, made[name]) for name, one in firsts.items() if name in made]
    return {"usage": sum(hits) / len(hits) if hits else None}
