"""SLATE's files for others: tools, cases, the simulator's tables, a card, a scorer of one file, and their hashes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from grid.code_digest import digest_of
from grid.core.errors import ConfigError
from grid.core.types import Parameter, to_json
from grid.datasets.slate import scoring
from grid.datasets.slate.dataset import Slate, generate
from grid.datasets.slate.scoring import DATA_FILES, MANIFEST, ScoredCase, scored_case, verified
from grid.datasets.slate.standalone import standalone
from grid.worlds.lookup import LookupSimulator, default_outcome

CARD, SCORER = "README.md", "score.py"
_NOTICE = """
This file is taken from agent-grid's source code as it stands (licence: Apache-2.0) by `python -m grid.datasets.slate
--export`; it needs Python 3.11 and nothing else. The data beside it has the licence CC BY 4.0.
"""


def simulator_tables(dataset: Slate) -> list[dict[str, Any]]:
    """A record for each case: which calls return what, which tools have the same function, and the default outcome.

    Arguments are concrete: an earlier outcome stands where the plan refers to it. Of the tools with the same function
    those are listed that repeat a tool of the case; `arguments` maps their arguments' names to that tool's.
    """
    found = []
    for case_id in dataset.records:
        world = dataset.problem(case_id).world
        assert isinstance(world, LookupSimulator)  # noqa: S101 - it is the only one of this dataset
        called = {entry.call.tool for entry in world.entries}
        found.append(
            {
                "case_id": case_id,
                "entries": [
                    {
                        "tool": entry.call.tool,
                        "arguments": dict(entry.call.arguments),
                        "outcome": dict(entry.outcome.content),
                        "substeps": sorted(entry.substeps, key=_place),
                    }
                    for entry in world.entries
                ],
                "same_function": {
                    name: {"tool": same.tool, "arguments": dict(same.arguments)}
                    for name, same in sorted(world.same_function.items())
                    if same.tool in called
                },
                "default": dict(default_outcome("{tool}").content),
            }
        )
    return found


def scored_cases(dataset: Slate) -> dict[str, ScoredCase]:
    """The cases as the scorer sees them."""
    parameters: dict[str, dict[str, Parameter]] = {
        name: {one.name: one for one in tool.parameters} for name, tool in dataset.tools.items()
    }
    return {
        table["case_id"]: scored_case(dataset.records[table["case_id"]].model_dump(), table, parameters)
        for table in simulator_tables(dataset)
    }


def scorer() -> str:
    """The source of the scorer that stands alone."""
    return standalone(scoring.__name__, ["main"], f"{(scoring.__doc__ or '').strip()}\n{_NOTICE}")


def data(dataset: Slate) -> dict[str, bytes]:
    """The data files by name: the dataset's own two as they are, and the simulator's tables."""
    tables = "".join(f"{to_json(table)}\n" for table in simulator_tables(dataset)).encode()
    own = {name: (dataset.root / name).read_bytes() for name in DATA_FILES[:2]}
    return {**own, DATA_FILES[2]: tables}


def export(dataset: Slate, folder: Path, card: str) -> list[Path]:
    """Write all files into a folder that is new or empty; the same dataset gives the same bytes.

    Raises:
        ConfigError: the folder holds something already, or cannot be written.
    """
    files = {**data(dataset), SCORER: scorer().encode(), CARD: card.encode()}
    files[MANIFEST] = f"{json.dumps(manifest(dataset, files), indent=2, ensure_ascii=False)}\n".encode()
    empty(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise ConfigError("--export", str(folder), f"a folder that can be written ({error.strerror})") from None
    return [folder / name for name in files]


def empty(folder: Path) -> None:
    """Raise ConfigError where a folder holds something already, or is none."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError("--export", str(folder), "a folder that is new or empty: nothing is overwritten")


def manifest(dataset: Slate, files: dict[str, bytes]) -> dict[str, Any]:
    """The version, what made the data where that is known, and each file's size and SHA-256."""
    return {
        "name": "SLATE",
        "version": dataset.version,
        "generator": generator_of(dataset),
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in files.items()
        },
    }


def generator_of(dataset: Slate) -> Any:
    """The keys and the code that generated the data, of an exported folder as its manifest says; None where none does.

    Raises:
        DataError: a file is not the one that was exported.
    """
    if dataset.path is None:
        code = digest_of(generate)
        return {"library_seed": dataset.library_seed, "cases": dataset.cases, "code": code}
    return verified(dataset.root).get("generator") if (dataset.root / MANIFEST).exists() else None


def _place(substep: str) -> list[int]:
    return [int(part) for part in substep.split(".")]
