"""What the gallery runs of each preset of conf/experiment, and what that reproduces: `conf/gallery.yaml`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from analysis import yaml_files
from analysis.yaml_files import Checked
from grid import CONF
from grid.core.errors import ConfigError

FILE, FOLDER = CONF / "gallery.yaml", CONF / "experiment"


class Preset(Checked):
    """One preset: the files of analysis/papers/tables that it reproduces, or why there are none, how it is small.

    `row` are the labels of the first file's row that the index shows; `runs` further overrides of each command into
    the one folder; `left_out` why the gallery does not run it.
    """

    published: list[str] = Field(default_factory=list)
    unpublished: str | None = None
    row: list[str] | None = None
    small: list[str] = Field(default_factory=list)
    runs: list[list[str]] = Field(default=[[]], min_length=1)
    left_out: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Preset:
        if bool(self.published) == bool(self.unpublished):
            raise ValueError("either published (files of analysis/papers/tables) or unpublished (why there are none)")
        if self.row and not self.published:
            raise ValueError("row: of which file? published is not given")
        return self


def load(path: Path = FILE, folder: Path = FOLDER) -> dict[str, Preset]:
    """The presets by their names; every file of `folder` is one.

    Raises:
        AnalysisError: the file cannot be read, or a key or value is wrong.
        ConfigError: a preset is in one of the two alone.
    """
    place, values = yaml_files.place_of(path), yaml_files.read(path)
    try:
        found = TypeAdapter(dict[str, Preset]).validate_python(values)
    except ValidationError as error:
        raise yaml_files.refused(place, error) from None
    there = {file.stem for file in folder.glob("*.yaml")}
    if odd := sorted(there ^ found.keys()):
        allowed = f"each preset of {folder.name}, with its published tables or why there are none"
        raise ConfigError(f"{path.name}", odd[0], allowed)
    return dict(sorted(found.items()))


def chosen(presets: dict[str, Preset], only: Sequence[str]) -> dict[str, Preset]:
    """Those that are named, in the order of `presets`; all where none are.

    Raises:
        ConfigError: there is no preset of a name.
    """
    for name in only:
        if name not in presets:
            close = difflib.get_close_matches(name, presets, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            raise ConfigError("--only", name, f"presets of conf/experiment: {', '.join(presets)}{hint}")
    return {name: preset for name, preset in presets.items() if not only or name in only}


def about(name: str, folder: Path = FOLDER) -> str:
    """What the head of a preset's file says that it is, before its commands."""
    lines: list[str] = []
    for line in (folder / f"{name}.yaml").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#") or line.startswith("#   "):
            break
        lines += [] if line.startswith("# @") else [line.removeprefix("#").strip()]
    return " ".join(lines)
