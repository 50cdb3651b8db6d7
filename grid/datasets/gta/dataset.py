"""GTA (Wang et al. 2024, "GTA: A Benchmark for General Tool Agents"): queries on images, and fourteen typed tools.

No tool runs: a call that is one of the gold path's returns what it returned there, any other finds nothing. So figures
compare planners with each other on the gold path's calls, and images are known by what tools said of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING, REFERENCES, Answering, Equivalence, Outline, Problem
from grid.core.reference import Reference
from grid.core.strict import STRICT
from grid.core.types import Case, Observation, Plan, Skipped, Step, Substep, ToolCall, ToolSpec, Trajectory, to_json
from grid.datasets.files import fingerprint, folder
from grid.datasets.gta.answers import Alike, Lists, answer_score, image_score
from grid.datasets.gta.metrics import step_scores, tool_counts
from grid.datasets.gta.records import FILE, Record, read
from grid.datasets.sampling import Order, ordered
from grid.metrics.closed_set import PlanF1, closed_set_scores
from grid.retrievers.embedding import embedder_of
from grid.retrievers.sources import fingerprint as model_fingerprint
from grid.worlds.lookup import Entry, LookupSimulator, build_entries

ADAPTER = 1
"""Raise when the same files give other cases, tools or outcomes."""


@plain_dataclass(frozen=True)
class Gold:
    """A record and what its gold path is as a reference and as a world."""

    number: str
    record: Record
    reference: Reference
    entries: tuple[Entry, ...]

    @property
    def outcomes(self) -> Mapping[str, Mapping[str, Any]]:
        """By substep what the gold calls returned."""
        return dict(zip(self.reference.calls, self.record.outcomes, strict=True))

    def steps(self, count: int) -> tuple[Step, ...]:
        """The gold path's first steps."""
        return tuple(
            Step(0, Substep(str(place), "", ""), call, Observation(outcome), written=call)
            for place, (call, outcome) in enumerate(zip(self.record.calls, self.record.outcomes, strict=True))
        )[:count]

    def world(self, place: int | None) -> LookupSimulator:
        """The gold calls, all to be made; or the call of a place, behind those before it."""
        if place is None:
            return LookupSimulator(self.entries, frozenset(self.reference.calls))
        before = {str(number) for number in range(place)}
        obtained = frozenset().union(*(entry.substeps for entry in self.entries if entry.substeps & before))
        wanted = frozenset({str(place)} & self.reference.calls.keys())
        return LookupSimulator(self.entries, wanted, begun=obtained - wanted)


@dataclass(config=STRICT)
class Gta:
    """The released queries. `path` is the folder that holds `dataset.json` of release 0.1.0.

    With `mode: end_to_end` a case is a query: it is resolved when all calls of its gold path were obtained, whatever
    else was called and whatever was answered; `answer_score` tells of the answer. With `step_by_step` a case is one
    step of a gold path behind those before it: one decision, a call or, behind the last, the answer.

    Args:
        sentence_model: a folder of all-mpnet-base-v2 (sentence-transformers), which scores free texts and images as
            the authors do; without it these have no `answer_score`.
        equivalence: which arguments mean the same.
    """

    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, REFERENCES})
    path: str | None = None
    mode: Literal["end_to_end", "step_by_step"] = "end_to_end"
    limit: Annotated[int, Field(ge=1)] | None = None
    order: Order = "sampled"
    equivalence: Equivalence = "rules"
    sentence_model: str | None = None
    outline: Outline = "hidden"
    answering: Answering = "after"
    plan_f1: PlanF1 = "links"

    @cached_property
    def _file(self) -> Path:
        return folder("dataset.path", self.path, FILE) / FILE

    @cached_property
    def version(self) -> str:
        """The mode, the adapter's version, and the fingerprints of the file and of what compares texts."""
        model = f"-{model_fingerprint(self._model)}" if self._model else ""
        return f"gta-{self.mode}-a{ADAPTER}-{fingerprint(self._file)}{model}"

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """Every tool that any query offers."""
        return self._read[1]

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Queries that cannot be cases."""
        return self._read[2]

    def case_ids(self) -> Sequence[str]:
        """The cases, at most `limit` of them; a sample has its share of facts, free texts and images."""
        return ordered(list(self.cases), self.order, (self._kind, self.cluster))[: self.limit]

    def cluster(self, case_id: str) -> str:
        """The query: steps of one are a cluster."""
        return self.cases[case_id][0].number

    def problem(self, case_id: str) -> Problem:
        """A query, or a step of its gold path."""
        gold, place = self.cases[case_id]
        tools = tuple(self.tools.values())
        return Problem(
            case=Case(
                case_id,
                _query(gold.record),
                Plan(()),
                done=gold.steps(place or 0),
                decisions=None if place is None else 1,
            ),
            reference=gold.reference if place is None else _of_step(gold.reference, place),
            world=gold.world(place),
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function={},
            domain="gta",
            own=gold.record.tools,
            measure=partial(measure, gold, self._alike, self.plan_f1)
            if place is None
            else partial(measure_step, gold, place, self._alike, self.plan_f1),
        )

    def _kind(self, case_id: str) -> str:
        wanted = self.cases[case_id][0].record.wanted
        return "image" if wanted is None else "facts" if isinstance(wanted, Lists) else "text"

    @cached_property
    def cases(self) -> dict[str, tuple[Gold, int | None]]:
        """Case id to record and, step by step, the step's place."""
        if self.mode == "end_to_end":
            return {f"gta-{number}": (gold, None) for number, gold in self._read[0].items()}
        return {
            f"gta-{number}-{place}": (gold, place)
            for number, gold in self._read[0].items()
            for place in range(len(gold.record.calls) + (gold.record.conclusion is not None))
        }

    @cached_property
    def _read(self) -> tuple[dict[str, Gold], Mapping[str, ToolSpec], list[Skipped]]:
        records, tools, skipped = read(self._file)
        found = {}
        for number, record in records.items():
            calls: dict[str, ToolCall] = {str(place): call for place, call in enumerate(record.calls)}
            outcomes = {str(place): outcome for place, outcome in enumerate(record.outcomes)}
            try:
                entries = build_entries(calls, outcomes, tools=tools)
            except ValueError as error:
                skipped.append(Skipped(number, str(error)))
                continue
            reference = Reference(dict(calls), tuple(calls), followed=False, answer=record.conclusion)
            found[number] = Gold(number, record, reference, entries)
        if not found:
            raise ConfigError("dataset.path", self.path, f"{FILE} holds no query that can be a case")
        return found, tools, skipped

    @cached_property
    def _model(self) -> Path | None:
        if self.sentence_model is None:
            return None
        if find_spec("sentence_transformers") is None:
            raise ConfigError(
                "dataset.sentence_model", self.sentence_model, "installed: pip install 'agent-grid[dense]'"
            )
        return folder("dataset.sentence_model", self.sentence_model, "modules.json")

    @property
    def _alike(self) -> Alike | None:
        return None if self._model is None else partial(_cosine, self._model)


def measure(gold: Gold, alike: Alike | None, plan_f1: PlanF1, trajectory: Trajectory) -> Mapping[str, Any]:
    """End to end: tool_counts, answer_score (of an image's query, its image score), and ToolTree's four F1.

    answer_score is 0 where nothing was answered.
    """
    made, wanted = [step.call for step in trajectory.steps if step.call], gold.record.wanted
    if wanted is not None:
        score = answer_score(trajectory.answer, wanted, alike)
    else:
        score = image_score(made, gold.record.calls, alike) if alike else None
    counts = tool_counts([call.tool for call in made], [call.tool for call in gold.record.calls])
    own = closed_set_scores(trajectory, gold.reference, outcomes=gold.outcomes, plan_f1=plan_f1)
    return {"tool_counts": to_json(counts), "answer_score": score, **own}


def measure_step(
    gold: Gold, place: int, alike: Alike | None, plan_f1: PlanF1, trajectory: Trajectory
) -> Mapping[str, Any]:
    """Step by step: `step_scores`, answer_score of the last step, and ToolTree's F1 of the one call.

    Where it is right to answer, success is that an answer was given: there is no outcome to obtain.
    """
    step = trajectory.steps[0] if trajectory.steps else None
    calls, wanted = gold.record.calls, gold.record.wanted
    if place < len(calls):
        done, known = gold.steps(place), gold.outcomes
        own = closed_set_scores(trajectory, gold.reference, outcomes=known, done=done, decisions=1, plan_f1=plan_f1)
        return {**step_scores(step, calls[place]), **own}
    scores = step_scores(step, None)
    answered = scores["instruction_accuracy"] == 1
    score = None if wanted is None else answer_score(trajectory.answer if answered else None, wanted, alike)
    return {**scores, "success": answered, "answer_score": score}


def _query(record: Record) -> str:
    files = ", ".join(f"{path} ({kind})" for kind, path in record.files)
    return f"{record.query}\nFiles: {files}" if files else record.query


def _of_step(reference: Reference, place: int) -> Reference:
    """All calls, as an engine is told them; the resolution is the step's own."""
    return Reference(
        reference.calls, tuple({str(place)} & reference.calls.keys()), followed=False, answer=reference.answer
    )


def _cosine(model: Path, one: str, other: str) -> float:
    first, second = embedder_of(model).texts([one, other])
    return float(first @ second)
