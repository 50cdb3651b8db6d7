"""`run.json` in a results folder: how the sweep was run, and how many cells each setting has in the end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NotRequired

from typing_extensions import TypedDict

from grid.core.errors import StoreError, one_line
from grid.core.places import folder_at, write_whole

FILE = "run.json"


class RunRecord(TypedDict):
    """One run: its start (ISO 8601, UTC), code, versions, machine, and command line (without secrets and folders).

    `versions` are the versions of the driver's packages. `cpu` is the driver's CPU model; `cpus` and `gpus` (by kind)
    are the numbers of CPUs and GPUs in the cluster (1 and none for a sweep in the driver's process). `cut` has the
    lines about limits that models set to planners' answers, and about list prices that are used; it is missing if there
    are none.
    """

    started_at: str
    command: str
    git_commit: str | None
    versions: dict[str, str]
    seed: int
    system: str
    cpu: str
    cpus: int
    gpus: dict[str, int]
    cut: NotRequired[list[str]]


class PlannedSetting(TypedDict):
    """A setting's labels, and the number of its cells at the end of the sweep."""

    model: str
    dataset: str
    robustness: str
    planner: str
    cells: int


class RunsRecord(TypedDict):
    """The file: every run, in order of time, and all settings that were requested, by id.

    `skipped` has the number of records that are not used as cases, by the data set's label and the reason; older files
    do not have it.
    """

    runs: list[RunRecord]
    settings: dict[str, PlannedSetting]
    skipped: NotRequired[dict[str, dict[str, int]]]


def runs(root: str | Path) -> RunsRecord:
    """The runs of a results folder; empty (no runs, no settings) if there is no such file.

    Raises:
        StoreError: the file cannot be read, or no sweep has written it.
    """
    from pydantic import TypeAdapter, ValidationError  # programs that only read tables need not wait for this import

    path = folder_at(root) / FILE
    try:
        return TypeAdapter(RunsRecord).validate_json(path.read_bytes())
    except FileNotFoundError:
        return {"runs": [], "settings": {}}
    except OSError as error:
        raise StoreError(f"{one_line(path, 200)}: cannot be read ({error.strerror or error})") from None
    except ValidationError as error:
        reason = one_line(error.errors()[0]["msg"], 200)
        raise StoreError(
            f"{one_line(path, 200)}: not in the form that a sweep writes ({reason}); remove this file"
        ) from None


def merged(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """Each data set's skipped records, from the last of `parts` that names it; data sets that skip none are omitted."""
    latest = {dataset: dict(reasons) for part in parts for dataset, reasons in part.items()}
    return {dataset: reasons for dataset, reasons in latest.items() if reasons}


def record_run(
    root: Path,
    run: RunRecord | None,
    settings: Mapping[str, PlannedSetting],
    skipped: Mapping[str, Mapping[str, int]] | None = None,
) -> None:
    """Add a run, its settings and the records that their data sets skipped; the whole file is replaced at once.

    If the run is None, only settings are added, because they ran elsewhere. The caller must hold the folder's lock.

    Raises:
        StoreError: the file cannot be read or written.
    """
    known = runs(root)
    found: RunsRecord = {
        "runs": [*known["runs"], *([run] if run else [])],
        "settings": {**known["settings"], **settings},
        "skipped": merged([known.get("skipped", {}), skipped or {}]),
    }
    try:
        write_whole(root / FILE, json.dumps(found, indent=1), root / ".tmp" / FILE)
    except OSError as error:
        raise StoreError(f"{one_line(root / FILE, 200)}: cannot be written ({error.strerror or error})") from None
