"""Turns another tool's run into rows of our tables; each sample gets its rows once, however often it is imported."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from grid import store
from grid.cells.rows import storable
from grid.core.engine import ACTOR, ASKED, Role, Section, SectionKind
from grid.core.errors import ErrorKind, Status, StoreError, one_line
from grid.core.metric import Metric
from grid.core.types import NO_TOOL, to_json
from grid.core.untrusted import loads
from grid.imports import IMPORTED
from grid.store.schema import COST

AT_ONCE = 100
"""The number of samples that are in memory at once, and are written together."""
LONGEST = 2_000
"""Transcripts are kept only for samples with at most this many messages, since a prompt lists all earlier messages."""
_DIGITS = 32
_LABEL, _NAME = 120, 64  # maximum characters of a label, and of a metric's name
_OF_CASE = ("cluster", "depth", "breadth", "depth_edges", "breadth_edges", "plan_nodes")
"""Columns that belong to the case, not to a run; they are taken from the folder's own rows if these have the case."""
_KINDS: Mapping[str, SectionKind] = {"system": "role", "user": "request"}


@dataclass(frozen=True)
class Source:
    """A file written by another tool, and the data that all samples in the file have in common.

    Args:
        tool: `inspect` or `tau2`; the names of planners and metrics begin with it.
        package, version: the package that wrote the file (one of RECORDED), and its version.
        file, sha256: the file's name, without folders, and the digest of its bytes.
        identity: a text that distinguishes this run from others, and stays the same if the file grows.
        model, planner, dataset: the setting's labels.
        dataset_version: the version of the data, if the file states it.
        roles: the labels of the run's other models, keyed by role.
        given: further parameters of the run that the file states.
        success: the name of the score that decides success.
        planned: the number of samples in the complete run; None if the file does not say.
    """

    tool: str
    package: str
    version: str | None
    file: str
    sha256: str
    identity: str
    model: str
    planner: str
    dataset: str
    dataset_version: str | None = None
    roles: Mapping[Role, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    success: str = ""
    planned: int | None = None

    @property
    def setting_id(self) -> str:
        """The setting's id: sixteen hexadecimal digits, as in sweeps."""
        return _digest([self.tool, self.identity, self.model, self.planner, self.dataset])[:16]


class Called(NamedTuple):
    """A tool call and its result, which is None if the file has none. `wrong` says why the call could not be read."""

    id: str
    tool: str
    arguments: Mapping[str, Any]
    wrong: str | None = None
    observation: str | None = None
    failed: bool | None = None


class Spent(NamedTuple):
    """A role's usage for one message or for a whole sample; figures that the file does not have are None."""

    llm_calls: int | None = None
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    money: float | None = None


class Said(NamedTuple):
    """A message; `generated`: whether the acting model wrote the message."""

    role: str
    text: str
    calls: Sequence[Called] = ()
    generated: bool = False
    spent: Spent = Spent()


@dataclass(frozen=True)
class Sample:
    """One sample of a run (τ²-bench: one simulation), which becomes one of our cells.

    `case_id`: as in our data set, if there is one; `filed`: the case's id in the file, if it differs. Cells' ids are
    made from the file's, so that a file that was imported before is recognised.
    """

    case_id: str
    trial: int
    query: str
    target: str | None
    messages: Sequence[Said]
    scores: Mapping[str, float | str]
    success: bool | None
    ended: dt.datetime | None
    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    status: Status = Status.OK
    error_kind: ErrorKind | None = None
    error_message: str | None = None
    error_traceback: str | None = None
    answer: str | None = None
    budget_reached: str | None = None
    cluster: str | None = None
    seed: int | None = None
    spent: Mapping[Role, Spent] = field(default_factory=dict)
    temperature: float | None = None
    max_tokens: int | None = None
    wall_seconds: float | None = None
    case_seconds: float | None = None
    filed: str | None = None


@dataclass
class Found:
    """The result of an import: the numbers of samples that are `new` or were already `there`, and notes on samples."""

    new: int = 0
    there: int = 0
    notes: dict[str, int] = field(default_factory=dict)

    def note(self, what: str) -> None:
        """Count one more sample to which this note applies."""
        self.notes[what] = self.notes.get(what, 0) + 1


Read = Callable[[Callable[[str, int], bool], Found], Iterator[Sample]]
"""Reads the samples whose case and trial a function accepts, and records the samples that cannot be used."""


def add(root: Path, source: Source, read: Read, now: dt.datetime) -> Found:
    """Write the samples that the folder does not have yet, a hundred at a time, so that a killed import can continue.

    Raises:
        StoreError: the folder cannot be written to, or already contains this run, but with a different score deciding
            success.
        DataError: the file cannot be read.
    """
    with store.locked(root):
        _check_rule(root, source)
        there, found, met = store.finished(root), Found(), set[str]()

        def wanted(case_id: str, trial: int) -> bool:
            cell = _cell_id(source, case_id, trial)
            if cell in met:
                found.note("have the case and the trial of an earlier sample, and are left out")
                return False
            known = bool(there.holds([cell])[0]) if len(there) else False
            if known:
                met.add(cell)
            found.there += known
            return not known

        def taken() -> Iterator[Sample]:
            for sample in read(wanted, found):
                met.add(_cell_id(source, sample.filed or sample.case_id, sample.trial))
                yield sample

        samples = taken()
        while some := list(islice(samples, AT_ONCE)):
            rows = _rows(source, some, _of_cases(root, source, some), now)
            store.write(root, {**rows, "metrics": _declared(root, source, some)})
            found.new += len(some)
        cells = max(source.planned or 0, found.new + found.there)
        labels = {"model": source.model, "dataset": source.dataset, "robustness": "none", "planner": source.planner}
        store.record_run(root, None, {source.setting_id: {**labels, "cells": cells}})  # type: ignore[typeddict-item]
    return found


def planner_label(tool: str, name: str) -> str:
    """A planner's label, such as `inspect:react`.

    With this label, tables distinguish the planner from our planner of the same name, and comparisons do not treat the
    two as one planner.
    """
    return f"{tool}:{one_line(name, _LABEL)}"


def score_name(tool: str, *parts: str) -> str:
    """The name of a metric, made from the tool's name and `parts`: lower case, with other characters as underscores.

    The name is cut to 64 characters, so long names may coincide; `Names` then gives each score a name of its own.
    """
    return re.sub(r"[^a-z0-9]+", "_", "_".join([tool, *parts]).lower())[:_NAME]


class Names:
    """The names of a run's scores, which are all different: each name belongs to the first score that asks for it."""

    def __init__(self) -> None:
        self._owners: dict[str, tuple[str, ...]] = {}

    def of(self, name: str, kind: str, *score: str, found: Found | None = None) -> str:
        """The name of a score of a kind, such as `text`, which may be known under `name`.

        If this name belongs to another score, the result ends in a digest, and `found` gets a note.
        """
        if self._owners.setdefault(name, (kind, *score)) == (kind, *score):
            return name
        digest = _digest([kind, *score])[:8]
        own = f"{name[: _NAME - len(digest) - 1]}_{digest}"
        if found is not None:
            told = one_line("/".join(score), 80)
            found.note(f"have the score {told} as {own}, because another score has the name {name}")
        return own


def resolved(value: float | str | None) -> bool | None:
    """Whether a score is a success; only 1, the greatest value, is a success.

    None if the score is missing or is not a number from 0 to 1.
    """
    if not isinstance(value, float) or not 0 <= value <= 1:
        return None
    return value >= 1 - 1e-6


def _check_rule(root: Path, source: Source) -> None:
    mine = pc.field("setting_id") == source.setting_id
    for text in store.read(root, "episodes", ["config"], mine)["config"].unique().to_pylist():
        if loads(text)[IMPORTED]["success"] != source.success:
            raise StoreError(
                f"{one_line(root, 200)}: the folder already has an import of this run in which a score other than "
                f"{one_line(source.success, 80)} decides success; import the run into another folder"
            )


def _digest(value: Any) -> str:
    return hashlib.sha256(to_json(value).encode("utf-8", "replace")).hexdigest()[:_DIGITS]


def _cell_id(source: Source, case_id: str, trial: int) -> str:
    return _digest([source.setting_id, case_id, trial])


def _declared(root: Path, source: Source, samples: Iterable[Sample]) -> list[dict[str, Any]]:
    """The rows of `metrics` for scores that the folder does not have yet."""
    known = store.metrics(root)
    found = {name: isinstance(value, str) for sample in samples for name, value in sample.scores.items()}
    meaning = f"A score of an imported run ({source.package})."
    return store.metric_rows(
        Metric(name, better="neither", kind="text" if text else "number", meaning=meaning)
        for name, text in found.items()
        if name not in known
    )


def _of_cases(root: Path, source: Source, samples: Sequence[Sample]) -> dict[str, dict[str, Any]]:
    """The columns of the cases (cluster, depth, breadth), keyed by case id and taken from the folder's own cells.

    Cells with a known depth are preferred; among these, cells without a disturbance.
    """
    ids = pa.array(sorted({sample.case_id for sample in samples}), pa.string())
    where = (pc.field("dataset") == source.dataset) & pc.field("case_id").isin(ids)
    rows = store.read(root, "episodes", ["case_id", "robustness", *_OF_CASE], where).to_pylist()
    rows.sort(key=lambda row: (row["depth"] is not None, row["robustness"] == "none"))
    return {row["case_id"]: {name: row[name] for name in _OF_CASE} for row in rows}


# A sample as rows.


def _rows(
    source: Source, samples: Iterable[Sample], known: Mapping[str, Mapping[str, Any]], now: dt.datetime
) -> dict[str, list[dict[str, Any]]]:
    head = _head(source)
    found: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("episodes", "steps", "messages", "sections", "cases")
    }
    for sample in samples:
        ids = {
            "cell_id": _cell_id(source, sample.filed or sample.case_id, sample.trial),
            "attempt_id": f"{IMPORTED}-{source.sha256[:16]}",
        }
        case, steps = _case(sample), _steps(ids, sample)
        of_case = dict(known.get(sample.case_id, ())) or {"cluster": sample.cluster or sample.case_id}
        kept = len(sample.messages) <= LONGEST
        messages, sections = _messages(ids, sample) if kept else ([], [])
        row = ids | head | _episode(sample, steps, now) | of_case
        row |= {
            "cell_key": ids["cell_id"],
            "case_digest": case["digest"],
            "n_messages": len(messages) if kept else None,
        }
        for table, rows in (("steps", steps), ("messages", messages), ("sections", sections), ("cases", [case])):
            found[table] += map(storable, rows)
        found["episodes"].append(storable(row))
    for table in ("sections", "cases"):  # each once
        found[table] = list({row["digest"]: row for row in found[table]}.values())
    return found


def _head(source: Source) -> dict[str, Any]:
    """The columns that all rows of a source have in common."""
    origin = {"tool": source.package, "version": source.version, "file": source.file, "sha256": source.sha256}
    told = {**origin, "success": source.success, **source.given}
    return {
        "setting_id": source.setting_id,
        "sweep": IMPORTED,
        "model": source.model,
        "engine": source.package,
        "engine_version": f"{source.package} {source.version}" if source.version else None,
        "planner": source.planner,
        "dataset": source.dataset,
        "dataset_version": source.dataset_version,
        "robustness": "none",
        **{role: source.roles.get(role) for role in ASKED},
        "config": to_json({IMPORTED: told}),
    }


def _episode(sample: Sample, steps: Sequence[Mapping[str, Any]], now: dt.datetime) -> dict[str, Any]:
    costs = {role: _cost(spent) for role, spent in sample.spent.items()}
    paid = [spent.money for spent in sample.spent.values()]
    known = [value for value in paid if value is not None]
    return {
        "case_id": sample.case_id,
        "trial": sample.trial,
        "seed": sample.seed,
        "status": sample.status,
        "error_kind": sample.error_kind,
        "error_message": sample.error_message,
        "error_traceback": sample.error_traceback,
        "success": sample.success,
        "answer": sample.answer,
        "n_steps": len(steps),
        "budget_reached": sample.budget_reached,
        "tool_calls": sum(step["observation"] is not None for step in steps),
        "wall_seconds": sample.wall_seconds,
        "case_seconds": sample.case_seconds,
        "money": sum(known) if known and len(known) == len(paid) else None,
        "scores": {name: value for name, value in sample.scores.items() if isinstance(value, float)},
        "texts": {name: value for name, value in sample.scores.items() if isinstance(value, str)},
        "costs": costs,
        "created_at": min(sample.ended, now) if sample.ended else now,
    }


def _cost(spent: Spent) -> dict[str, Any]:
    told = spent._asdict()
    return {name: told.get(name) for name in (one.name for one in COST)}


def _steps(ids: Mapping[str, str], sample: Sample) -> list[dict[str, Any]]:
    """A row for each tool call, in order; the first call of a message gets the message's text and usage."""
    found: list[dict[str, Any]] = []
    for said in sample.messages:
        for place, call in enumerate(said.calls):
            spent = said.spent if not place else Spent()
            found.append({
                **ids,
                "branch": 0,
                "step": len(found),
                "substep_id": str(len(found)),
                "on_path": True,
                "chosen_tool": call.tool or NO_TOOL,
                "thought": (said.text or None) if not place else None,
                "arguments": to_json(dict(call.arguments)),
                "observation": call.observation,
                "failed": call.failed,
                "options": [],
                **{name: getattr(spent, name) for name in ("input_tokens", "cached_input_tokens", "output_tokens")},
            })  # fmt: skip
    return found


def _messages(ids: Mapping[str, str], sample: Sample) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows for the acting model's messages, and rows for the sections of all messages.

    The prompt of a message consists of all earlier messages.
    """
    digests: list[str] = []
    sections: dict[str, dict[str, Any]] = {}
    messages: list[dict[str, Any]] = []
    for said in sample.messages:
        text = _text(said)
        if said.generated:
            messages.append({
                **ids, "message": len(messages), "role": ACTOR, "decision": f"message {len(digests)}",
                "request": "sample", "wanted": "tool_call" if said.calls else "text", "n": 1,
                "temperature": sample.temperature, "max_tokens": sample.max_tokens, "prompt": list(digests),
                "answers": [text],
                "unreadable": [{"place": 0, "why": call.wrong} for call in said.calls if call.wrong][:1],
            })  # fmt: skip
        section = Section(_KINDS.get(said.role, "conversation"), (text,))
        digests.append(section.digest)
        row = {"digest": section.digest, "kind": section.kind, "entries": [text], "options": []}
        sections[section.digest] = row
    return messages, list(sections.values())


def _text(said: Said) -> str:
    calls = [f"{call.tool}({to_json(dict(call.arguments))})" for call in said.calls]
    return "\n".join(filter(None, [said.text, *calls]))


def _case(sample: Sample) -> dict[str, Any]:
    row = {
        "case_id": sample.case_id,
        "query": sample.query,
        "messages": [],
        "outline": [],
        "calls": [
            {"substep_id": str(place), "tool": tool, "arguments": to_json(dict(arguments))}
            for place, (tool, arguments) in enumerate(sample.calls)
        ],
        "followed": False,
        "answer": sample.target,
    }
    return {"digest": _digest(row), **storable(row)}


def observed(messages: Sequence[Said], results: Mapping[str, tuple[str, bool]]) -> list[Said]:
    """The messages, with the results added to their calls; a result is found by its call's id."""

    def whole(call: Called) -> Called:
        text, failed = results[call.id]
        return call._replace(observation=text, failed=failed)

    return [
        said._replace(calls=tuple(whole(call) if call.id in results else call for call in said.calls))
        for said in messages
    ]
