"""A closed set over the signatures of GTA's fourteen tools (tooltree §4.1), generated; GTA itself is `dataset=gta`.

Its 200 queries, five of each of 40 templates, have GTA's shape (steps, tools, categories, kinds of answers; see
`agent-grid data gta_generated`), but are ours, and so are the images, which are described by facts, and
the web. Figures on it compare planners with each other; none is a figure on GTA.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.problem import Answering, Problem, Reference
from grid.core.types import Case, Plan, Step, Substep, ToolSpec, Trajectory, to_json
from grid.core.util import STRICT
from grid.datasets.dataset import RecordDataset
from grid.datasets.gta.dataset import answer_score, step_scores, tool_counts
from grid.datasets.gta_generated import counting, lookups, pictures, prices, shelves
from grid.datasets.gta_generated import draft as stock
from grid.datasets.gta_generated.draft import Draft, Record
from grid.metrics.closed_set import PlanF1, closed_set_scores
from grid.worlds.scenes.tools import TOOLS
from grid.worlds.scenes.world import SceneWorld

ADAPTER = 1
"""Raise when the same words and seed give other cases or outcomes."""
TEMPLATES = (
    *counting.TEMPLATES, *prices.TEMPLATES, *shelves.TEMPLATES, *lookups.TEMPLATES, *pictures.TEMPLATES
)  # fmt: skip
OF_EACH = 5
"""Cases of a template."""
Mode = Literal["end_to_end", "step_by_step"]


@dataclass(config=STRICT)
class GtaGenerated(RecordDataset[Record]):
    """The queries of one seed.

    `mode` end_to_end: a case is a query, resolved when what its last call obtains (or several calls, where the answer
    takes several) was obtained, on whatever path. step_by_step: a case is a call of a query's reference, behind the
    calls before it; it has one decision, and is resolved by what that call obtains. `limit` draws a sample of the
    cases, in which templates have their shares (`order`).
    """

    mode: Mode = "end_to_end"
    seed: Annotated[int, Field(ge=0)] = 0
    answering: Answering = "after"
    plan_f1: PlanF1 = "links"

    @property
    def version(self) -> str:
        """The adapter's version, the words' fingerprint, the mode and the seed."""
        return f"gta-generated-{self.mode}-a{ADAPTER}-{stock.version()}-{self.seed}"

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The fourteen."""
        return TOOLS

    @property
    def records(self) -> Mapping[str, Record]:
        """The queries by id."""
        return records(self.seed)

    def chosen(self) -> Sequence[str]:
        """All queries or, step by step, all of their calls."""
        return list(self._places)

    def cluster(self, case_id: str) -> str:
        """The template."""
        return self._places[case_id][0].template

    def problem(self, case_id: str) -> Problem:
        """One case. Its candidates are the fourteen tools."""
        record, step = self._places[case_id]
        world, resolution, done = record.world, record.resolution, _gold_steps(record, step or 0)
        if step is not None:
            world, resolution = _behind(record, step), (str(step),)
        tools = tuple(TOOLS.values())
        reference = Reference(
            {call.place: call.written for call in record.calls}, resolution, followed=False, answer=record.answer
        )
        return Problem(
            case=Case(case_id, record.query, Plan(()), done=done, decisions=None if step is None else 1),
            reference=reference,
            world=world,
            candidates=lambda case, substep: tools,
            library=TOOLS,
            same_function={},
            own=tuple(TOOLS),
            measure=partial(measure, record, reference, self.plan_f1)
            if step is None
            else partial(measure_step, record, reference, self.plan_f1, done),
        )

    @cached_property
    def _places(self) -> dict[str, tuple[Record, int | None]]:
        """By case the query, and which of its calls is to be decided, where it is one."""
        if self.mode == "end_to_end":
            return {name: (record, None) for name, record in self.records.items()}
        return {
            f"{name}-{step}": (record, step)
            for name, record in self.records.items()
            for step in range(len(record.calls))
        }


def measure(record: Record, reference: Reference, plan_f1: PlanF1, trajectory: Trajectory) -> Mapping[str, Any]:
    """End to end: ToolTree's four F1 (`grid.metrics.closed_set`), GTA's tool_counts and answer_score (0 without one).

    Queries for an image have no answer_score.
    """
    made = [step.call.tool for step in trajectory.steps if step.call]
    counts = tool_counts(made, [call.written.tool for call in record.calls])
    score = answer_score(trajectory.answer, record.wanted, None) if record.wanted else None
    own = closed_set_scores(trajectory, reference, record.concrete, record.outcomes, plan_f1=plan_f1)
    return {"tool_counts": to_json(counts), "answer_score": score, **own}


def measure_step(
    record: Record, reference: Reference, plan_f1: PlanF1, done: Sequence[Step], trajectory: Trajectory
) -> Mapping[str, Any]:
    """Step by step: ToolTree's F1 of the one call that is to be decided, and GTA's accuracies of it."""
    step = trajectory.steps[0] if trajectory.steps else None
    own = closed_set_scores(trajectory, reference, record.concrete, record.outcomes, done, decisions=1, plan_f1=plan_f1)
    return {**step_scores(step, record.calls[len(done)].concrete), **own}


@cache
def records(seed: int) -> Mapping[str, Record]:
    """All queries of a seed. Images are numbered through, so that no two queries are the same."""
    found: dict[str, Record] = {}
    facts, first = stock.facts(seed), 1
    for template in TEMPLATES:
        for number in range(OF_EACH):
            name = f"gta-generated-{template.__name__}-{number}"
            draft = Draft(random.Random(f"{name}-{seed}"), facts, number, first)
            found[name] = draft.finished(name, template.__name__, template(draft))
            first += len(draft.images)
    return found


def _behind(record: Record, step: int) -> SceneWorld:
    """The world behind the calls before one, resolved by what that one obtains."""
    before = record.calls[step - 1].state if step else record.world.start()
    # What was obtained before does not count: a call may be asked for again.
    return SceneWorld(
        record.world.images,
        record.world.web,
        record.calls[step].obtained,
        type(before)(before.made, scenes=before.scenes),
    )


def _gold_steps(record: Record, step: int) -> tuple[Step, ...]:
    return tuple(
        Step(0, Substep(call.place, "", ""), call.concrete, call.outcome, written=call.written)
        for call in record.calls[:step]
    )
