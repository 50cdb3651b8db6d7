"""m&m's (Ma et al. 2024): requests that take one to several of 33 multi-modal tools, each with its plan.

No tool is run: what a call returns are names (`grid.datasets.mnms.world`). So figures tell whether the right calls were
made with the right links, which is what the benchmark's own metrics of plans tell, and nothing of what they would show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING, REFERENCES, Outline, Problem
from grid.core.reference import Reference
from grid.core.strict import STRICT
from grid.core.types import Case, Plan, Skipped, Step, Substep, ToolCall, ToolSpec, Trajectory
from grid.datasets.files import fingerprint, folder
from grid.datasets.mnms.metrics import Labels, labels_of, made_plan, nearest, plan_scores, step_scores
from grid.datasets.mnms.records import Record, Split, as_references, read_records
from grid.datasets.mnms.tools import SPECS
from grid.datasets.mnms.world import MadeState, MnmsWorld
from grid.datasets.sampling import Order, ordered
from grid.metrics.closed_set import PlanF1, closed_set_scores

ADAPTER = 1
"""Raise when the same files give other cases, tools or outcomes."""


@plain_dataclass(frozen=True)
class _Usable:
    """A record whose plan runs in its world: the reference's steps and, behind them, the state of every plan's end."""

    record: Record
    world: MnmsWorld
    steps: tuple[Step, ...]

    def behind(self, place: int) -> MnmsWorld:
        """The world of the call at a place: it begins behind those before it and is resolved with this one."""
        own = self.record.plans[0]
        begin, end = (self.world.run(own[:count])[1] for count in (place, place + 1))
        return MnmsWorld(self.world.files, (end,), begin)

    def closed_set(
        self, trajectory: Trajectory, reference: Reference, place: int | None, plan_f1: PlanF1
    ) -> Mapping[str, Any]:
        """ToolTree's four, of a path or of the step at a place; whatever alternatives there are, of the reference.

        An earlier output that a call holds as it is counts as the reference to it, also within a text.
        """
        done = self.steps[: place or 0]
        plan, made = made_plan((*done, *trajectory.steps)), [step for step in trajectory.steps if step.call]
        steps = tuple(
            replace(step, substep=Substep(str(number), "", ""), written=as_references(plan[number]))
            for number, step in enumerate(made, len(done))
        )
        concrete = {step.substep.id: step.call for step in self.steps if step.call}
        outcomes = {step.substep.id: step.observation.content for step in self.steps if step.observation}
        decisions = None if place is None else 1
        path = replace(trajectory, steps=steps)
        return closed_set_scores(path, reference, concrete, outcomes, done, decisions, plan_f1)


@dataclass(config=STRICT)
class Mnms:
    """The requests of one file. `path` is a folder with `<split>.json`, as released.

    `mode=end_to_end`: a case is a request, resolved when all calls of its plan were made, with the plan's arguments and
    links, in whatever order and whatever else was called. `step_by_step`: a case is one call of a plan, to be made
    behind the plan's own calls before it, in one decision. With `alternatives` a path may also be one of the further
    plans that the release gives a request: it is held against the one whose tools are most like its own (the scorer's
    `use_best_match`, which the authors' own command leaves off).
    """

    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, REFERENCES})
    path: str | None = None
    split: Split = "test_human_verified_filtered"
    mode: Literal["end_to_end", "step_by_step"] = "end_to_end"
    alternatives: bool = False
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    outline: Outline = "hidden"
    plan_f1: PlanF1 = "links"

    def __post_init__(self) -> None:
        if self.alternatives and self.mode == "step_by_step":
            raise ConfigError("dataset.alternatives", True, "steps are those of the reference: give false")

    @cached_property
    def _file(self) -> Path:
        name = f"{self.split}.json"
        return folder("dataset.path", self.path, name) / name

    @cached_property
    def version(self) -> str:
        """The split, the adapter's version, and the file's fingerprint."""
        return f"mnms-{self.split}-a{ADAPTER}-{fingerprint(self._file)}"

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The closed set. No file defines it, but a folder that lacks the requests is told here too."""
        folder("dataset.path", self.path, f"{self.split}.json")
        return SPECS

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Records that cannot be cases."""
        return self._read[1]

    def case_ids(self) -> Sequence[str]:
        """The cases, at most `limit` of them; plans of each length have their share."""
        found = list(self._cases)
        return ordered(found, self.order, (lambda case_id: str(len(self._steps(case_id))), self.cluster))[: self.limit]

    def cluster(self, case_id: str) -> str:
        """The tools of its plan in their order: requests were made for given chains of tools."""
        return "\n".join(step.call.tool for step in self._steps(case_id) if step.call)

    def problem(self, case_id: str) -> Problem:
        """One request, or one step of it. It is offered the closed set."""
        name, place = self._cases[case_id]
        used = self._read[0][name]
        calls = {str(number): as_references(call) for number, call in enumerate(used.record.plans[0])}
        last, done, world = tuple(calls), used.steps[: place or 0], used.world
        measured = partial(measure, tuple(map(labels_of, used.record.plans)))
        if place is not None:
            last, world = (str(place),), used.behind(place)
            measured = partial(measure_step, used.record.plans[0][place], done)
        tools, reference = tuple(SPECS.values()), Reference(calls, last, followed=False)
        return Problem(
            case=Case(case_id, used.record.query, Plan(()), done=done, decisions=None if place is None else 1),
            reference=reference,
            world=world,
            candidates=lambda case, substep: tools,
            library=SPECS,
            same_function={},
            measure=lambda trajectory: {
                **measured(trajectory),
                **used.closed_set(trajectory, reference, place, self.plan_f1),
            },
        )

    def _steps(self, case_id: str) -> tuple[Step, ...]:
        return self._read[0][self._cases[case_id][0]].steps

    @cached_property
    def _cases(self) -> dict[str, tuple[str, int | None]]:
        """By id the record, and the place of the call where a case is a step."""
        if self.mode == "end_to_end":
            return {f"mnms-{name}": (name, None) for name in self._read[0]}
        return {
            f"mnms-{name}-{place}": (name, place)
            for name, used in self._read[0].items()
            for place in range(len(used.steps))
        }

    @cached_property
    def _read(self) -> tuple[dict[str, _Usable], list[Skipped]]:
        found: dict[str, _Usable] = {}
        skipped: list[Skipped] = []
        for name, record in read_records(self._file, self.alternatives).items():
            made = record if isinstance(record, str) else self._usable(record)
            if isinstance(made, _Usable):
                found[name] = made
            else:
                skipped.append(Skipped(f"mnms-{name}", made))
        if not found:
            raise ConfigError("dataset.path", self.path, f"{self._file.name} holds no request that can be a case")
        return found, skipped

    def _usable(self, record: Record) -> _Usable | str:
        """A record with its world; why it cannot be a case where it cannot."""
        world = MnmsWorld(record.files)
        ends: list[MadeState] = []
        for plan in record.plans:
            _, end, error = world.run(plan)
            if error:
                return f"its plan does not run: {error}"
            if not labels_of(plan).tools:
                return "the scorer reads no call of its plan"
            ends.append(end)
        return _Usable(record, MnmsWorld(record.files, tuple(ends)), tuple(world.run(record.plans[0])[0]))


def measure(golds: Sequence[Labels], trajectory: Trajectory) -> Mapping[str, Any]:
    """m&m's metrics of a path (`plan_scores`)."""
    made = labels_of(made_plan(trajectory.steps))
    return plan_scores(nearest(golds, made), made)


def measure_step(gold: ToolCall, done: Sequence[Step], trajectory: Trajectory) -> Mapping[str, Any]:
    """How the one decision behind `done` agrees with the plan's call (`step_scores`)."""
    made = made_plan((*done, *trajectory.steps))[len(done) :]
    return step_scores(gold, made[0] if made else None)
