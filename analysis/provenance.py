"""What a results folder shows: which data, and which engine answered. It is the first line of a report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis import load, partial, planted
from analysis.table import Table
from grid.core.engine import ASKED

COLUMNS = ("engine", "config")
"""What is read of every episode besides the columns of other tables."""
EMPTY = "There is nothing to show: this folder holds no episodes yet"
_ENGINES = {
    "lexical": "{}: a lexical engine (word overlap, no training), no language model: its figures say nothing about any",
    "simulated": "{}: a simulated policy, no language model: it is told the answers, and is right as often as planted",
    "null": "{}: an engine that makes no real answer, no language model",
}
"""Engines that are no language models, and what is to be said of them."""
_FOLLOWS = {
    "temperature": "the server's own temperature holds, whatever planners and roles ask for",
    "seed": "trials cannot be repeated",
}
"""What is to be known where requests leave out a key."""
_READ = "read from released or own files"
_GENERATED = ("kqa_synthetic", "gta_generated", "apb_synthetic", "slate", "null_cases")
"""Data sets that this project generates from a seed; SLATE may be read from a folder instead."""


def answered(episodes: pd.DataFrame) -> bool:
    """Whether a language model answered in any episode, as far as is recorded."""
    return not episodes["engine"].astype(object).isin(list(_ENGINES)).all()


def headline(root: Path) -> str:
    """The first line of a folder's report.

    Raises:
        StoreError: the folder cannot be read.
    """
    return first_line(load.episodes(root, COLUMNS))


def lines(root: Path) -> list[str]:
    """The first line, then what requests left out and which settings are not complete; raises StoreError."""
    episodes = load.episodes(root, COLUMNS)
    return [first_line(episodes), *unsent(episodes), *partial.lines(partial.planned(root, episodes))]


def unsent(episodes: pd.DataFrame) -> list[str]:
    """A line for each model whose requests leave out the temperature or the seed (`model.omit`): what follows."""
    found: dict[tuple[str, str], set[str]] = {}
    for text in episodes["config"].dropna().unique():
        config = json.loads(text)
        for role in ("model", *ASKED):
            part = config.get(role)
            omitted = part.get("omit") if isinstance(part, dict) else None
            if omitted:
                found.setdefault((role, str(part.get("model"))), set()).update(omitted)
    lines = []
    for (role, name), omitted in sorted(found.items()):
        follows = [_FOLLOWS[key] for key in sorted(omitted) if key in _FOLLOWS]
        of = name if role == "model" else f"{name}, the {role}"
        lines.append(
            f"requests to {of} leave out {', '.join(sorted(omitted))}" + "".join(f"; {told}" for told in follows)
        )
    return lines


def first_line(episodes: pd.DataFrame) -> str:
    """One line that names every model with its engine and every data set with its kind; of no episodes, `EMPTY`."""
    if episodes.empty:
        return EMPTY
    models = episodes[["model", "engine"]].astype(object).drop_duplicates()
    data = episodes.drop_duplicates(["dataset", "dataset_version", "config"])
    told = [model_line(str(name), engine) for name, engine in models.itertuples(index=False)]
    kinds = [_data(str(row["dataset"]), str(row["dataset_version"]), row["config"]) for row in data.to_dict("records")]
    return f"This shows {' and '.join(told)}. Data: {'; '.join(sorted(set(kinds)))}. {len(episodes):,} episodes."


def made_up(episodes: pd.DataFrame) -> dict[str, str]:
    """By label, of data sets that are not a paper's own: what can be held beside its figures all the same."""
    told = {}
    for row in episodes.drop_duplicates(["dataset", "dataset_version", "config"]).to_dict("records"):
        data = _data(str(row["dataset"]), str(row["dataset_version"]), row["config"])
        if _READ not in data or any(mark in str(row["dataset_version"]) for mark in (MADE_UP, TICKET)):
            told[str(row["dataset"])] = (
                f"{data}: what differs between settings can be held beside the paper's, levels not"
            )
    return told


def model_line(name: str, engine: object) -> str:
    """What a model is: the name of its engine, and whether that is a language model."""
    if engine in _ENGINES:
        return _ENGINES[str(engine)].format(name)
    by = f"run by {engine}" if isinstance(engine, str) else "whose engine is not recorded"
    return f"{name}: a language model, {by}" if isinstance(engine, str) else f"{name}: a model {by}"


def _data(name: str, version: str, config: object) -> str:
    """A data set's kind, from its file in conf/dataset and its version."""
    plain = name.partition("[")[0].partition(" ")[0]
    made_up = ", tools simulated" if MADE_UP in version else f", {TOLD_ALL}" if TICKET in version else ""
    if INVENTED in version:
        return f"{name} ({SYNTHETIC})"
    read = plain not in _GENERATED or bool(_path(config))
    return f"{name} ({_READ if read else 'synthetic, generated here from a seed'}{made_up})"


def _path(config: object) -> object:
    found = json.loads(config) if isinstance(config, str) else {}
    return found.get("dataset", {}).get("path")


# What a report says of benchmarks whose tools are simulated, whose facts are invented, or whose user is a ticket.


MADE_UP, INVENTED, TICKET = "-simulated", "-witness", "-ticket"
"""What the versions of such datasets hold."""
SYNTHETIC = "real questions, logical forms and schema; synthetic facts"
TOLD_ALL = "the user's instructions are the ticket: an easier task, comparable with itself alone"


def notice(episodes: pd.DataFrame) -> str:
    """What a caption of those episodes begins with where any dataset is one of those; else nothing."""
    simulated, invented, ticket = (_named(episodes, mark) for mark in (MADE_UP, INVENTED, TICKET))
    return (
        (f"simulated tools ({simulated}): what they return is made up, no server was reached; " if simulated else "")
        + (f"{invented}: {SYNTHETIC}; " if invented else "")
        + (f"{ticket}: {TOLD_ALL}; " if ticket else "")
    )


def kinds(episodes: pd.DataFrame) -> pd.DataFrame:
    """What of episodes tells which policy and which data they are of, once each."""
    return episodes[["model", planted.ENGINE, "dataset", "dataset_version"]].astype(object).drop_duplicates()


def captioned(sheets: Sequence[Table], kinds: pd.DataFrame, more: str = "") -> list[Table]:
    """The tables, their captions behind what the policy and the tools of their own data sets are, and `more`.

    Args:
        sheets: the tables.
        kinds: those `kinds` of all episodes of the report.
        more: what every caption begins with besides.
    """
    found = []
    for sheet in sheets:
        own = kinds[kinds["dataset"].astype(str).isin(_shown(sheet))]
        about = planted.notice(kinds) + notice(kinds if own.empty else own) + more
        found.append(replace(sheet, before=about))
    return found


def _shown(sheet: Table) -> frozenset[str]:
    """The data sets that a table says it is of; none where it says nothing."""
    if sheet.data or "dataset" not in sheet.values:
        return sheet.data
    return frozenset(sheet.values["dataset"].dropna().astype(str))


def _named(episodes: pd.DataFrame, mark: str) -> str:
    """The datasets whose version has a mark."""
    marked = episodes["dataset_version"].astype(str).str.contains(mark, regex=False)
    return ", ".join(sorted(map(str, episodes["dataset"][marked].unique())))
