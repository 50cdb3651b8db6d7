"""Runs the authors' own tools and scorer on sequences of calls. A program of its own: it needs pandas and nothing else.

    python tests/support/workbench_authors.py REPOSITORY DATA < sequences.json > outcomes.json

REPOSITORY is a git directory of olly-styles/WorkBench, DATA a folder with `data/processed` and `data/raw`. A sequence
is {"made": [[tool, arguments], ...], "gold": [...]}; its outcome {"results": [["raised"] | ["returned", value], ...],
"tables": five digests, "correct", "side_effect"}. Their pandas is 2.1.4 (their requirements.txt).
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
import types
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

TABLES = (
    ("calendar", "CALENDAR_EVENTS"),
    ("email", "EMAILS"),
    ("analytics", "PLOTS_DATA"),
    ("project_management", "PROJECT_TASKS"),
    ("customer_relationship_manager", "CRM_DATA"),
)
EVENT = ("event_id", "event_name", "participant_email", "event_start", "duration")


def digest(columns: list[str], rows: list[list[Any]]) -> str:
    """Of a table: its columns, and rows that begin with their labels."""
    return hashlib.sha256(json.dumps([columns, rows], ensure_ascii=False).encode()).hexdigest()[:16]


def plain(value: Any) -> Any:
    """A value as JSON has it: None where nothing is known, dates as texts."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist") and not isinstance(value, str):
        return plain(value.tolist())
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return value if isinstance(value, str | bool | int | float) else str(value)


class Stand(types.ModuleType):
    """A module of a package that is not installed: any name in it is there, and does nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name == "tool":
            return lambda name, **_: lambda run: types.SimpleNamespace(func=run, name=name, __module__=run.__module__)
        return object


def load(repository: str, data: str) -> dict[str, Any]:
    """Their modules by name, with their tables read from `data`."""
    warnings.filterwarnings("ignore")
    for name in (
        "langchain", "langchain.tools", "langchain.agents", "langchain_openai", "langchain_community",
        "langchain_community.chat_models", "langchain_community.chat_models.anthropic",
        "langchain_community.chat_models.anyscale",
    ):  # fmt: skip
        sys.modules[name] = Stand(name)
    root = Path(tempfile.mkdtemp())
    packed = subprocess.run(["git", "-C", repository, "archive", "HEAD", "src"], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(root, filter="data")
    (root / "data").symlink_to((Path(data) / "data").resolve())
    os.chdir(root)
    original, read = pd.read_csv, lru_cache(maxsize=None)(lambda path: original(path, dtype=str))
    # They read each file again for every call that they score.
    table: Any = lambda path, **more: read(path).copy() if more == {"dtype": str} else original(path, **more)  # noqa: E731
    pd.read_csv = table
    sys.path.insert(0, str(root))
    names = ["company_directory", *(name for name, _ in TABLES)]
    found = {name: importlib.import_module(f"src.tools.{name}") for name in names}
    return found | {"utils": importlib.import_module("src.evals.utils")}


def results(modules: dict[str, Any], calls: list[tuple[str, dict[str, str]]]) -> list[list[Any]]:
    """What each call returned, or that it raised."""
    found: list[list[Any]] = []
    for name, arguments in calls:
        toolkit, _, function = name.partition(".")
        try:
            returned = getattr(modules[toolkit], function).func(**arguments)
            found.append(["returned", unfilled(plain(returned)) if toolkit == "calendar" else plain(returned)])
        except Exception:  # noqa: BLE001 - as their scorer does
            found.append(["raised"])
    return found


def tables(modules: dict[str, Any]) -> list[str]:
    """Digests of the five tables as they stand."""
    found = []
    for toolkit, name in TABLES:
        frame = getattr(modules[toolkit], name)
        records = plain(frame.to_dict(orient="records"))
        records = unfilled(records) if toolkit == "calendar" else records
        rows = [[int(label), *record.values()] for label, record in zip(frame.index, records, strict=True)]
        found.append(digest([*frame.columns], rows))
    return found


def unfilled(value: Any) -> Any:
    """Events whose new fields are unknown: their pandas fills these with the text "nan", as long as the new value."""
    if isinstance(value, list):
        return [unfilled(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: None if name not in EVENT and cell in ("nan", "na", "n") else cell for name, cell in value.items()}


def reset(modules: dict[str, Any]) -> None:
    """The tables as released."""
    for toolkit, _ in TABLES:
        modules[toolkit].reset_state()


def written(calls: list[tuple[str, dict[str, str]]]) -> list[str]:
    """Calls as the authors keep them and score them."""
    found = []
    for name, arguments in calls:
        given = ", ".join([f'{key}="{value}"' for key, value in arguments.items()])
        found.append(f"{name}.func({given})".replace("\n", "\\n"))
    return found


def main() -> None:
    """See above."""
    modules = load(sys.argv[1], sys.argv[2])
    told = []
    for one in json.load(sys.stdin):
        reset(modules)
        outcome: dict[str, Any] = {"results": results(modules, one["made"]), "tables": tables(modules)}
        made, gold = written(one["made"]), written(one["gold"])
        outcome["correct"] = bool(modules["utils"].is_correct(made, gold, ""))
        outcome["side_effect"] = bool(modules["utils"].has_side_effects(made, gold))
        told.append(outcome)
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
