"""Cases with one substep and one tool, which measure the grid's own cost, independently of any benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.problem import BRANCHING, OUTLINE, REFERENCES, Outline, Problem, Reference
from grid.core.types import Case, Plan, Skipped, Substep, ToolCall, ToolSpec
from grid.core.util import STRICT
from grid.worlds.lookup import LookupSimulator, build_entries

_TOOL = ToolSpec("answer", "Answers the question.", (), ("result",))
_STEP = Substep("1.1", "answer the question", "answer")
_CALLS: dict[str, ToolCall] = {_STEP.id: ToolCall(_TOOL.name, {})}
_REFERENCE = Reference(_CALLS, (_STEP.id,))
_WORLD = LookupSimulator(build_entries(_CALLS, {_STEP.id: {"result": "done"}}), frozenset({_STEP.id}))
_PLAN = Plan((_STEP,))


@dataclass(frozen=True, config=STRICT)
class Null:
    """Equal cases: `cases` is their number, and only the first `limit` of them are run.

    A call of the only tool resolves a case.
    """

    cases: Annotated[int, Field(ge=1, le=10_000_000)] = 1000
    limit: Annotated[int, Field(ge=1)] | None = None
    outline: Outline = "given"
    provides: ClassVar[frozenset[str]] = frozenset({OUTLINE, BRANCHING, REFERENCES})
    version: ClassVar[str] = "null-1"
    tools: ClassVar[Mapping[str, ToolSpec]] = {_TOOL.name: _TOOL}
    skipped: ClassVar[Sequence[Skipped]] = ()

    def case_ids(self) -> Sequence[str]:
        """The cases' numbers."""
        return [f"{number:07d}" for number in range(min(self.cases, self.limit or self.cases))]

    def cluster(self, case_id: str) -> str:
        """One cluster for all cases, because they differ only in their numbers."""
        return "null"

    def problem(self, case_id: str) -> Problem:
        """The problem, which is the same for every number."""
        return Problem(
            case=Case(case_id, "A question.", _PLAN),
            reference=_REFERENCE,
            world=_WORLD,
            candidates=lambda case, substep: (_TOOL,),
            library=self.tools,
            same_function={},
        )
