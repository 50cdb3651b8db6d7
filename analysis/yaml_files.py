"""YAML files that describe an analysis; they are read as plain data, with limits on size and depth."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from analysis.errors import AnalysisError
from grid.core.errors import one_line, shown_value
from grid.text.objects import LOADER

MAX_CHARACTERS = 50_000
MAX_DEPTH = 20


class Checked(BaseModel):
    """A model of a file's values: values are not converted, and unknown keys are refused.

    A model is built at its first use, because few reports read any of these files.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


def place_of(path: Path) -> str:
    """The name of a file in error messages."""
    return one_line(path, 200)


def read(path: Path) -> object:
    """The values in a file.

    Raises:
        AnalysisError: the file cannot be read, is not YAML, is too large or deep, or has an alias; the error names it.
    """
    place = place_of(path)
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)
        _check_size(text, place)
        found: object = yaml.load(text, LOADER)  # noqa: S506 - it loads plain values only
    except (OSError, ValueError, yaml.YAMLError) as error:  # ValueError: NUL in a path, invalid UTF-8 or date
        raise AnalysisError(one_line(f"{place}: cannot be read ({error})", 500)) from None
    return found


def refused(place: str, error: ValidationError) -> AnalysisError:
    """The error that lists all wrong values by their keys; for a missing key it shows no value."""
    told = []
    for one in error.errors():
        key = ".".join(map(str, one["loc"])) or "the file"
        value = "" if one["type"] == "missing" else f" ({shown_value(one['input'])})"
        told.append(f"{key}: {one['msg']}{value}")
    return AnalysisError(f"{place}: {'; '.join(told)}")


def _check_size(text: str, place: str) -> None:
    """Raise AnalysisError for a text, even a short one, that would take much time or memory to parse."""
    if len(text) > MAX_CHARACTERS:
        raise AnalysisError(f"{place}: the file has more than {MAX_CHARACTERS:,} characters")
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise AnalysisError(f"{place}: it contains the alias *{event.anchor:.40}; write the value out instead")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise AnalysisError(f"{place}: the file is nested more than {MAX_DEPTH} levels deep")
