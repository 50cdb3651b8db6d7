"""A setting's memory: the traces of the same setting in an earlier sweep (egb_slate B.1).

Only rows of the same setting without memory count, so every planner and model remembers only its own work, never
another's work and never a reference. If a case has several trials, the first one that resolved the case is used. If
none did, the case has no trace or, with `memory.kept=all`, the trace of the first trial that ended without an error.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import pyarrow.compute as pc

from grid import store
from grid.core.errors import ConfigError, Status, StoreError, UnfinishedError
from grid.core.places import folder_at
from grid.core.types import to_json
from grid.datasets.question_answering import Nearest, question_words
from grid.planners.remembering import NOT_REMEMBERED, Remembering, Trace, step_lines
from grid.retrievers.scored import bm25_texts
from grid.settings.make import make
from grid.settings.served import as_stored
from grid.settings.setting import MEMORY, Setting
from grid.store.steps import step_of

DIGEST, HELD = "digest", "held"
"""Additional keys in the memory of a checked setting: a digest of the traces, and the numbers of traces and cases."""
_DIGITS = 16
_EPISODES = ["cell_id", "dataset_version", "case_id", "cluster", "case_digest", "trial", "success", "status", "answer"]
_STEPS = [
    "cell_id",
    "step",
    "substep_id",
    "substep",
    "on_path",
    "chosen_tool",
    "thought",
    "written",
    "observation",
    "failed",
]
_LABELS = ["model", "planner", "dataset", "robustness"]
_SHOWN = 3  # number of labels or case ids in a message


@dataclass(frozen=True)
class Memory:
    """The traces of one setting. `cases` are all cases that the earlier sweep ran for the setting, resolved or not."""

    how: Remembering
    traces: tuple[Trace, ...]
    cases: frozenset[str]

    @property
    def contents(self) -> dict[str, Any]:
        """The memory's contents in the form of a setting's config; the digest is part of the cells' ids."""
        text = to_json([asdict(trace) for trace in self.traces]).encode("utf-8", "replace")
        digest = hashlib.sha256(text).hexdigest()[:_DIGITS]
        return {DIGEST: digest, HELD: {"traces": len(self.traces), "cases": len(self.cases)}}

    def nearest(self, case_id: str, cluster: str, question: str) -> tuple[str, ...]:
        """The traces whose requests are nearest to a case's request, nearest first.

        Traces of the case itself are left out, and with `apart` all traces of its cluster.
        """
        own = {_case(case_id)} | ({_cluster(cluster)} if self.how.apart else set())
        return tuple(trace.text for trace in self._nearest(question, self.how.count, own))

    def expect_others(self, case_ids: Sequence[str]) -> None:
        """Raise ConfigError if a case to run was already run in the earlier sweep."""
        known = [case_id for case_id in case_ids if case_id in self.cases]
        if known:
            raise ConfigError(
                "memory.path",
                self.how.path,
                f"must be a sweep of other cases, but {len(known)} cases are in both ({', '.join(known[:_SHOWN])}"
                f"{', ...' * (len(known) > _SHOWN)}); fill a memory with part=validation to use it with part=test",
            )

    @cached_property
    def _nearest(self) -> Nearest[Trace]:
        texts = [trace.question for trace in self.traces]
        templates = [{_case(trace.case_id), _cluster(trace.cluster)} for trace in self.traces]
        return Nearest(texts, self.traces.__getitem__, bm25_texts(lambda: texts, question_words), templates)


def remembering(config: Mapping[str, Any]) -> dict[str, Any]:
    """The group `memory` with all its values; empty if planners do not remember. Raises ConfigError."""
    given = config.get(MEMORY)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(MEMORY, given, "one of the files in conf/memory")
    how = _made(given)
    if how.mode == NOT_REMEMBERED:
        return {}
    if how.path is None:
        raise ConfigError("memory.path", None, "the results folder of an earlier sweep, results/NAME")
    return {MEMORY: {"_target_": given["_target_"], **asdict(how)}}


def memory_of(setting: Setting, version: str) -> Memory | None:
    """The memory of a setting; None for a setting without memory.

    Args:
        setting: a valid setting. If its config has the contents of its memory (`with_contents`), the memory must still
            have them.
        version: the version of the setting's dataset and pool; the traces must have the same version.

    Raises:
        ConfigError: the folder has no episodes of the setting, or only episodes of a different version.
        StoreError: the folder has no results, has an unsupported schema version, or cannot be read.
        UnfinishedError: the folder's traces have changed since the sweep was checked.
    """
    given = setting.config.get(MEMORY)
    if given is None:
        return None
    how, digest = _made(given), given.get(DIGEST)
    if digest is None:
        return _read(how, _own(how, setting), version)
    return _as_checked(how, _own(how, setting), version, digest)


def with_contents(setting: Setting, memory: Memory | None) -> Setting:
    """The setting with the contents of its memory in its config."""
    if memory is None:
        return setting
    return replace(setting, config={**setting.config, MEMORY: {**setting.config[MEMORY], **memory.contents}})


def line_of(setting: Setting) -> str | None:
    """A line about the contents of a setting's memory; None for a setting without memory."""
    held = setting.config.get(MEMORY, {}).get(HELD)
    if held is None:
        return None
    labels = [setting.labels[group] for group in (*_LABELS, MEMORY)]
    return f"memory of {' x '.join(labels)}: traces of {held['traces']} of {held['cases']} cases"


def _made(given: Mapping[str, Any]) -> Remembering:
    return cast(Remembering, make(MEMORY, {key: value for key, value in given.items() if key not in (DIGEST, HELD)}))


def _own(how: Remembering, setting: Setting) -> str:
    """The id, in the memory's folder, of the same setting without memory; the traces are from its cells."""
    config = {key: value for key, value in setting.config.items() if key != MEMORY}
    try:
        (found,), _ = as_stored(folder_at(str(how.path)), [replace(setting, config=config, placed={})])
    except StoreError as error:
        raise StoreError(f"memory.path: {error}") from None
    return found.id


@lru_cache(maxsize=32)
def _as_checked(how: Remembering, own: str, version: str, digest: str) -> Memory:
    memory = _read(how, own, version)
    if digest != memory.contents[DIGEST]:
        raise UnfinishedError(
            f"memory.path={how.path}: on {socket.gethostname()} its traces differ from those that were checked at the "
            "sweep's start; make sure that nothing writes to this folder and that all nodes see the same folder, then "
            "run again with the same name"
        )
    return memory


def _read(how: Remembering, own: str, version: str) -> Memory:
    """The memory of the setting whose id is `own`."""
    try:
        return _of_folder(folder_at(str(how.path)), how, own, version)
    except StoreError as error:
        raise StoreError(f"memory.path: {error}") from None


def _of_folder(root: Path, how: Remembering, own: str, version: str) -> Memory:
    store.check_there(root)
    rows = store.read(root, "episodes", _EPISODES, pc.field("setting_id") == own).to_pylist()
    if not rows:
        raise ConfigError(
            "memory.path", how.path, f"must have results of the same setting without memory; {_there(root)}"
        )
    current = [row for row in rows if row["dataset_version"] == version]
    if not current:
        versions = ", ".join(sorted({row["dataset_version"] for row in rows})[:_SHOWN])
        raise ConfigError(
            "memory.path",
            how.path,
            f"must have episodes of dataset_version={version}, but its episodes are of {versions}",
        )
    kept = dict[str, dict[str, Any]]()
    for row in sorted(current, key=lambda row: (row["case_id"], not row["success"], row["trial"])):
        if row["status"] == Status.OK and (row["success"] or how.kept == "all"):
            kept.setdefault(row["case_id"], row)
    return Memory(how, _traces(root, [*kept.values()]), frozenset(row["case_id"] for row in current))


def _there(root: Path) -> str:
    """A short text about the settings in a folder."""
    found = store.read(root, "episodes", _LABELS, categories=_LABELS).group_by(_LABELS).aggregate([]).to_pylist()
    labels = sorted(" x ".join(str(row[name]) for name in _LABELS) for row in found)
    return (
        f"its settings are {', '.join(labels[:_SHOWN]) or 'none'}{', ...' * (len(labels) > _SHOWN)}; the seed, the "
        "budget and all keys except trials, part and dataset.limit must be the same, too"
    )


def _traces(root: Path, rows: Sequence[Mapping[str, Any]]) -> tuple[Trace, ...]:
    """The traces of some episodes, in the same order."""
    if not rows:
        return ()
    cells, digests = [row["cell_id"] for row in rows], [row["case_digest"] for row in rows]
    steps: dict[str, list[dict[str, Any]]] = {cell: [] for cell in cells}
    on_path = pc.field("on_path") & pc.field("cell_id").isin(cells)
    for step in store.read(root, "steps", _STEPS, on_path).to_pylist():
        steps[step["cell_id"]].append(step)
    asked = store.read(root, "cases", ["digest", "query"], pc.field("digest").isin(digests)).to_pylist()
    questions = {case["digest"]: case["query"] for case in asked}
    return tuple(
        Trace(
            row["case_id"],
            row["cluster"],
            questions.get(row["case_digest"], ""),
            step_lines([*map(step_of, sorted(steps[row["cell_id"]], key=_place))], row["answer"]),
            bool(row["success"]),
        )
        for row in rows
    )


def _place(row: Mapping[str, Any]) -> int:
    place: int = row["step"]
    return place


def _case(name: str) -> str:
    return f"case {name}"


def _cluster(name: str) -> str:
    return f"cluster {name}"
