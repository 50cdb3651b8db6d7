"""Agent Planning Benchmark, as released: planning tasks that a model judges (agent_planning_benchmark §3).

The released runner puts `unsolvable_type`, `extraneous_tool_names`, `broken_tool_name` and `replacement_tool` into the
prompts of planners. Here, as in the paper, planners do not see these fields: extraneous tools and the replacement are
listed, unmarked, among the other tools.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING, EXAMINED, JUDGED, PLANS, REFERENCES, Problem, Reference, Scorer
from grid.core.types import REJECT, Case, Family, Plan, Skipped, ToolCall, ToolSpec, Trajectory
from grid.core.util import STRICT
from grid.datasets.apb_records import Record, read
from grid.datasets.dataset import RecordDataset, Stratum
from grid.datasets.files import fingerprint
from grid.episode.plan_judging import UNSOLVED, JudgedTask, by_rule, plan_examine
from grid.worlds.layers import REJECT_TOOL, RecordingWorld

ADAPTER = 2
"""Increase this when the same files yield different cases, tools or outcomes."""
RULES = "rules"
MOST_FILES = 200
CHEAPEST = "Every tool has a cost. The request is to be solved at the least total cost."
"""The note that a case with costs gives to every planner (§C.8.1)."""
_REFUSED = {"reason": "it cannot be carried out with these tools and what is told"}


@dataclass(config=STRICT)
class Apb(RecordDataset[Record]):
    """The released records. `path` is a JSON Lines file, or a folder that contains such files.

    No tool can be run, so no computation can find out which plans are right. `scorer` is `judge` (the model given by
    `model@judge=NAME`) or `rules` (no model). Rules decide success only in cases with a broken tool, unless the plan
    first calls another offered tool that is not the replacement.

    Args:
        family: the only task whose cases are used; null: all tasks are used.
        split: the name of the only released split that is used; null: all splits are used.
        judge_reference: whether the judge sees the known solution; if false, it judges blind (§D.1).
    """

    path: str | None = None
    family: Family | None = None
    split: str | None = None
    scorer: Scorer | Literal["rules"] = "judge"
    judge_reference: bool = True

    @property
    def provides(self) -> frozenset[str]:
        """The usual features, plus EXAMINED if a model judges the plans."""
        return frozenset({BRANCHING, REFERENCES, *([EXAMINED] if self.asks else [])})

    @property
    def asks(self) -> Mapping[str, str]:
        """The question for an evaluator: which plans are right; none with the scorer `rules`."""
        return {PLANS: "scorer"} if self.scorer == JUDGED else {}

    def __post_init__(self) -> None:
        """Refuse, with a ConfigError, scorers that need to compute which plans are right."""
        if self.scorer not in (JUDGED, RULES):
            allowed = "judge or rules; right plans can be computed only with dataset=apb_synthetic"
            raise ConfigError("dataset.scorer", self.scorer, allowed)

    @cached_property
    def version(self) -> str:
        """The adapter's version and a fingerprint of the files and their names."""
        names = hashlib.sha256("\0".join(self._files).encode()).hexdigest()[:6]
        return f"apb-a{ADAPTER}-{names}{fingerprint(*self._files.values())}"

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """All tools that the cases offer, in alphabetical order, as the first case with the tool defines it.

        Each case has its own definitions of its tools.
        """
        found: dict[str, ToolSpec] = {REJECT: REJECT_TOOL}
        for record in self.records.values():
            for name, tool in record.tools.items():
                found.setdefault(name, tool)
        return MappingProxyType(dict(sorted(found.items())))

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Records that cannot be cases."""
        return self._read[1]

    @property
    def records(self) -> Mapping[str, Record]:
        """The usable records of all files."""
        return self._read[0]

    def chosen(self) -> Sequence[str]:
        """The ids of the records that have the chosen task and split; raises ConfigError if there are none."""
        found = [
            name
            for name, record in self.records.items()
            if self.family in (None, record.kind.task_family) and self.split in (None, record.split)
        ]
        if not found:
            self._refuse_choice()
        return found

    def strata(self) -> Sequence[Stratum]:
        """Two levels of strata: tasks, and the categories of each task."""
        kinds = {name: record.kind for name, record in self.records.items()}
        return lambda name: kinds[name].task_family, lambda name: kinds[name].task_category

    def cluster(self, case_id: str) -> str:
        """A hash of the query.

        The steps of one trajectory therefore form one cluster, as do tasks that were made from the same query.
        """
        query = " ".join(self.records[case_id].query.casefold().split())
        return hashlib.sha256(query.encode()).hexdigest()[:12]

    def problem(self, case_id: str) -> Problem:
        """One case. The case's own tools include a tool with which a planner rejects the request."""
        record = self.records[case_id]
        tools = dict(sorted({**record.tools, REJECT: REJECT_TOOL}.items()))
        task = judged_task(record)
        return Problem(
            case=Case(
                case_id,
                record.query,
                Plan(()),
                done=record.done,
                decisions=record.kind.horizon_k,
                notes=(CHEAPEST,) if record.costs else (),
                diagnosed=True,
            ),
            reference=_reference(record),
            world=RecordingWorld(record.broken),
            candidates=lambda case, substep: tuple(tools.values()),
            library={**self.tools, **tools},
            same_function={},
            domain=record.kind.task_category,
            own=tuple(tools),
            measure=partial(_measure, task),
            examine=plan_examine(task, "judge", self.judge_reference) if self.scorer == JUDGED else None,
            kind=record.kind,
        )

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """The scores of an aborted episode, which has no plan and so no right plan; empty with the scorer `rules`."""
        return UNSOLVED.get(self.scorer, {})

    @cached_property
    def _files(self) -> Mapping[str, Path]:
        return files_of(self.path)

    @cached_property
    def _read(self) -> tuple[dict[str, Record], list[Skipped]]:
        records, skipped = read(self._files)
        if not records:
            why = f"; reason for the first of {len(skipped):,} skipped records: {skipped[0].reason}" if skipped else ""
            raise ConfigError("dataset.path", self.path, f"JSON Lines with at least one usable record{why}")
        return records, skipped

    def _refuse_choice(self) -> None:
        records = self.records.values()
        families = sorted({record.kind.task_family for record in records})
        if self.family not in (None, *families):
            raise ConfigError("dataset.family", self.family, f"null or one of {', '.join(families)}")
        splits = sorted({record.split for record in records if self.family in (None, record.kind.task_family)})
        raise ConfigError("dataset.split", self.split, f"null or one of {', '.join(splits)}")


def judged_task(record: Record) -> JudgedTask:
    """A case as a judge may see it."""
    return JudgedTask(
        record.query,
        record.kind,
        tuple(record.tools.values()),
        record.reference,
        record.done,
        record.extraneous,
        record.broken,
        record.replacement,
        record.costs,
    )


def files_of(path: str | None) -> Mapping[str, Path]:
    """The JSON Lines files by name; raises ConfigError if there are none or too many."""
    wanted = "a JSON Lines file, or a folder with .jsonl files"
    if path is None:
        raise ConfigError("dataset.path", None, wanted)
    root = Path(path).expanduser()
    try:
        if root.is_file():
            return {root.name: root}
        found = sorted(root.rglob("*.jsonl")) if root.is_dir() else []
    except OSError as error:
        raise ConfigError("dataset.path", f"{path:.80}", f"{wanted} ({error.strerror})") from None
    if not 0 < len(found) <= MOST_FILES:
        raise ConfigError("dataset.path", path, f"{wanted}, at most {MOST_FILES}; files found: {len(found)}")
    return {str(file.relative_to(root)): file for file in found}


def _reference(record: Record) -> Reference:
    """All calls, including those already made; a call of a tool that is no longer offered is None.

    For an unsolvable case, the only call is the one that rejects the case.
    """
    if record.kind.unsolvable_kind is not None:
        calls: dict[str, ToolCall | None] = {"0": ToolCall(REJECT, {**_REFUSED})}
    else:
        done = [step.call for step in record.done]
        every = [*(call if call and call.tool in record.tools else None for call in done), *record.reference]
        calls = {str(place): call for place, call in enumerate(every)}
    resolution = tuple(name for name, call in calls.items() if call)
    return Reference(calls, resolution, followed=False, unsolvable=record.kind.unsolvable_kind is not None)


def _measure(task: JudgedTask, trajectory: Trajectory) -> Mapping[str, Any]:
    """The scores that rules can determine; `success` is None if rules cannot decide it."""
    return {"success": None, **by_rule(task, trajectory)}
