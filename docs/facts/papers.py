"""A paper, item by item, from `papers.yaml` and its tables: how to run the item, where it is, what differs and why."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, model_validator

from analysis import yaml_files
from analysis.papers import files
from analysis.yaml_files import Checked
from docs.facts.markdown import prose, table
from docs.facts.presets import head

FILE = Path(__file__).with_suffix(".yaml")
_PRESET = re.compile(r"\+experiment=(\w+)")
_HEADER = ["item", "what it shows", "preset", "where it stands", "what differs, and why"]


class Item(Checked):
    """A table, figure or algorithm of a paper; the comment at the top of `papers.yaml` explains the keys."""

    item: str
    about: str = ""
    table: str | None = None
    preset: Annotated[list[str], Field(min_length=1)] | None = None
    where: str = ""
    differs: str = ""
    absent: str = ""

    @model_validator(mode="after")
    def _check(self) -> Item:
        here = self.table or self.preset or self.where
        if bool(here) == bool(self.absent):
            raise ValueError(f"{self.item}: either it is here (table, preset, where) or `absent` says why not")
        if not (self.about or self.table):
            raise ValueError(f"{self.item}: `about` says what it shows")
        return self

    @property
    def presets(self) -> list[str]:
        """The presets (files in conf/experiment) that run the item."""
        if self.preset or not self.table:
            return self.preset or []
        return list(dict.fromkeys(_PRESET.findall(" ".join(head(files.FOLDER / f"{self.table}.yaml")))))


@cache
def every() -> dict[str, list[Item]]:
    """All items, by paper.

    Raises:
        AnalysisError: the file cannot be read.
        ValueError: an item's key or value is wrong.
    """
    return TypeAdapter(dict[str, list[Item]]).validate_python(yaml_files.read(FILE))


def render(paper: str) -> str:
    """A table with one row per item.

    Raises:
        ValueError: no paper has this name.
    """
    if paper not in every():
        raise ValueError(f"papers {paper}: one of {', '.join(every())}")
    return table(_HEADER, [_row(item) for item in every()[paper]])


def _row(item: Item) -> tuple[str, ...]:
    of = files.find(item.table) if item.table else None
    about = item.about or (of.title if of else "")
    where = item.where or ("the report, with published values beside ours" if of else "")
    differs = [item.differs] if item.differs else []
    differs += map(prose, of.notes) if of and not item.about else []
    if item.absent:
        where, differs = "not here", [item.absent]
    presets = ", ".join(f"[{name}](presets.md#{name.replace('_', '-')})" for name in item.presets)
    return (prose(item.item), prose(about), presets, where, "; ".join(differs))
