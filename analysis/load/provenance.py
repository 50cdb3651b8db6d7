"""The origin of a results folder: its data and engines, the head of its page, and notices about simulated policies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.load import frames, partial, queries
from analysis.load.frames import SETTING
from analysis.page.table import Column, Table, bounds, count, mean
from analysis.stats.intervals import CLUSTER, TOLD, interval
from grid import store
from grid.core.engine import ASKED
from grid.imports import IMPORTED, RECORDED

COLUMNS = ("engine", "config")
"""Columns of `episodes` that `answered`, `first_line`, `unsent` and `made_up` need besides the columns of tables."""
EMPTY = "There is nothing to show: this folder holds no episodes yet"
_ENGINES = {
    "lexical": "{}: a lexical engine (word overlap, no training), which is not a language model; its figures say "
    "nothing about language models",
    "simulated": "{}: a simulated policy, which is not a language model; it is told the answers and is right as often "
    "as its config says",
    "null": "{}: an engine that gives no real answers and is not a language model",
}
"""Engines that are not language models, and the sentence about each."""
_FOLLOWS = {
    "temperature": "the server uses its own temperature, whatever planners and roles ask for",
    "seed": "trials cannot be repeated",
}
"""For each key, the consequence if requests leave it out."""
_READ, _TAKEN = "read from released files or from your own", "imported"
_GENERATED = ("kqa_synthetic", "gta_generated", "apb_synthetic", "slate", "null_cases")
"""Data sets that this project generates from a seed; SLATE may be read from a folder instead."""


def answered(episodes: pd.DataFrame) -> bool:
    """Whether, according to the rows, a language model answered in at least one episode that was not imported."""
    return not episodes["engine"].astype(object).isin([*_ENGINES, *RECORDED]).all()


def headline(root: Path) -> str:
    """The first line of a folder's report.

    Raises:
        StoreError: the folder cannot be read.
    """
    return first_line(frames.episodes(root, COLUMNS))


def lines(root: Path) -> list[str]:
    """The first line, then lines on keys that requests left out and on incomplete settings.

    Raises:
        StoreError: the folder or the record of its runs cannot be read.
    """

    def made() -> list[str]:
        episodes = frames.episodes(root, COLUMNS)
        return [first_line(episodes), *unsent(episodes), *partial.lines(partial.planned(root, episodes))]

    return frames.once(root, "lines", made, few=True)


def unsent(episodes: pd.DataFrame) -> list[str]:
    """A line for each model whose requests leave out keys (`model.omit`), with the consequences."""
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
    """A sentence on each model and its engine, and one on the data sets and their kinds; `EMPTY` without episodes."""
    if episodes.empty:
        return EMPTY
    models = episodes[["model", "engine"]].astype(object).drop_duplicates()
    data = episodes.drop_duplicates(["dataset", "dataset_version", "config"])
    told = [model_line(str(name), engine) for name, engine in models.itertuples(index=False)]
    kinds = [_data(str(row["dataset"]), str(row["dataset_version"]), row["config"]) for row in data.to_dict("records")]
    several = f"{len(told):,} models. " if len(told) > 1 else ""
    return f"This shows {several}{'. '.join(told)}. Data: {'; '.join(sorted(set(kinds)))}. {len(episodes):,} episodes."


def made_up(episodes: pd.DataFrame) -> dict[str, str]:
    """Map each data set that differs, or may differ, from its paper's data to a line on which comparisons are valid."""
    told: dict[str, str] = {}
    valid = "differences between settings can be compared with the paper's, but absolute values cannot"
    for row in episodes.drop_duplicates(["dataset", "dataset_version", "config"]).to_dict("records"):
        name, version = str(row["dataset"]), str(row["dataset_version"])
        data = _data(name, version, row["config"])
        taken = data.endswith(f"({_TAKEN})")
        if any(mark in version for mark in (MADE_UP, INVENTED, TICKET)) or not (_READ in data or taken):
            told[name] = f"{data}: {valid}"
        elif taken:
            told.setdefault(name, f"{data}: it is not known whether these are the paper's data; if not, {valid}")
    return told


def model_line(name: str, engine: object) -> str:
    """A model's name and engine, and whether it is a language model."""
    if engine in _ENGINES:
        return _ENGINES[str(engine)].format(name)
    if engine in RECORDED:
        return f"{name}: imported as recorded by {RECORDED[str(engine)]}, not run here"
    by = f"run by {engine}" if isinstance(engine, str) else "whose engine is not recorded"
    return f"{name}: a language model, {by}" if isinstance(engine, str) else f"{name}: a model {by}"


def _origin(config: str | None) -> str:
    """The file from which a row was imported; an empty text if the row was not imported."""
    found = json.loads(config or "{}").get(IMPORTED)
    if not found:
        return ""
    return f"{found['file']} ({found['tool']} {found['version'] or ''}; sha256 {found['sha256'][:16]})".replace(
        " ;", ";"
    )


def _data(name: str, version: str, config: object) -> str:
    """A data set's kind, derived from its label, its version and the config."""
    if isinstance(config, str) and _origin(config):
        return f"{name} ({_TAKEN})"
    plain = frames.name_of(name)
    made_up = ", tools simulated" if MADE_UP in version else f", {TOLD_ALL}" if TICKET in version else ""
    if INVENTED in version:
        return f"{name} ({SYNTHETIC})"
    read = plain not in _GENERATED or bool(_path(config))
    return f"{name} ({_READ if read else 'synthetic, generated here from a seed'}{made_up})"


def _path(config: object) -> object:
    found = json.loads(config) if isinstance(config, str) else {}
    return found.get("dataset", {}).get("path")


# Notices about benchmarks with simulated tools, with invented facts, or with a ticket in place of a user.


MADE_UP, INVENTED, TICKET = "-simulated", "-witness", "-ticket"
"""Marks in the versions of datasets with simulated tools, with invented facts, or with a ticket in place of a user."""
SYNTHETIC = "real questions, logical forms and schema; synthetic facts"
TOLD_ALL = (
    "the ticket gives the user's instructions, so the task is easier, and its results are comparable only with one "
    "another"
)


def notice(episodes: pd.DataFrame) -> str:
    """A notice for the start of captions if an episode used simulated tools, invented facts or tickets; else empty."""
    simulated, invented, ticket = (_named(episodes, mark) for mark in (MADE_UP, INVENTED, TICKET))
    return (
        (f"simulated tools ({simulated}): their results are made up, and no server was called; " if simulated else "")
        + (f"{invented}: {SYNTHETIC}; " if invented else "")
        + (f"{ticket}: {TOLD_ALL}; " if ticket else "")
    )


def kinds(episodes: pd.DataFrame) -> pd.DataFrame:
    """The distinct combinations of the columns that tell which policy and which data the episodes come from."""
    return episodes[["model", ENGINE, "dataset", "dataset_version"]].astype(object).drop_duplicates()


def captioned(tables: Sequence[Table], kinds: pd.DataFrame, more: str = "") -> list[Table]:
    """The tables, with notices about each table's own models and data sets at the start of its caption.

    If a table names no model (or data set), its notices are about all models (or data sets). If a table's name contains
    a model or data set that its values lack, a column `model` or `dataset` is added to them.

    Args:
        tables: the tables.
        kinds: the `kinds` of all episodes of the report.
        more: further text for the start of every caption.
    """
    models, names = kinds["model"].astype(str), kinds["dataset"].astype(str)

    @cache
    def before(asked: frozenset[str], shown: frozenset[str]) -> str:
        of_models, own = kinds[models.isin(asked)], kinds[names.isin(shown)]
        told = simulated_notice(kinds if of_models.empty else of_models, kinds)
        return told + notice(kinds if own.empty else own) + more

    labels = {"dataset": names.unique(), "model": models.unique()}
    placed = [_placed(table, labels) for table in tables]
    return [replace(table, before=before(_models(table), _shown(table))) for table in placed]


def _placed(table: Table, labels: Mapping[str, Iterable[str]]) -> Table:
    values = table.values
    for column, names in labels.items():
        found = [name for name in names if f" {name} " in f" {table.name} "]
        if found and column not in values:
            values = values.assign(**{column: max(found, key=len)})
            values = values[[column, *values.columns[:-1]]]
    return table if values is table.values else replace(table, values=values)


def _models(table: Table) -> frozenset[str]:
    """The models in a table's rows and the models with which they are compared; empty if the table names no model."""
    if "model" not in table.values:
        return frozenset()
    named = [table.values[name].dropna().astype(str) for name in ("model", "reference") if name in table.values]
    return frozenset().union(*named)


def _shown(table: Table) -> frozenset[str]:
    """The data sets that a table names as its subject; empty if it names no data set."""
    if table.data or "dataset" not in table.values:
        return table.data
    return frozenset(table.values["dataset"].dropna().astype(str))


def _named(episodes: pd.DataFrame, mark: str) -> str:
    """The names of the datasets whose version contains a mark."""
    marked = episodes["dataset_version"].astype(str).str.contains(mark, regex=False)
    return ", ".join(sorted(map(str, episodes["dataset"][marked].unique())))


# The head of a report's page: date, command, commit, versions, seed, machine and engine.


_FACTS = ["model", "engine", "engine_version", "git_commit", "config"]
_UNKNOWN = "not recorded"
_COMMANDS = 5
"""Maximum number of commands that are shown; the folder's record has all commands."""
_COMMIT = 12
"""The number of characters of a commit's hash that are shown."""


def terms(root: Path) -> list[tuple[str, str]]:
    """The head of the page as terms and their values; empty for a folder without episodes.

    Date, commit, seed, engine and imported files come from the rows. The number of runs and the other terms come from
    the sweep's record of its runs, and `run it again` comes from both.

    Raises:
        StoreError: the folder cannot be read.
    """
    rows = frames.rows(root, [*_FACTS, "created_at"], categories=_FACTS)
    if not rows.num_rows:
        return []
    runs = store.runs(root)["runs"]
    facts = rows.group_by(_FACTS).aggregate([]).to_pylist()
    skipped = partial.skipped(root).values()
    return [
        ("date", _dates(rows["created_at"], len(runs))),
        ("command", _listed(dict.fromkeys(run["command"] for run in reversed(runs)), _COMMANDS)),
        ("commit", _listed(_short(fact["git_commit"]) for fact in facts)),
        ("versions", _listed(_versions(run["versions"]) for run in reversed(runs))),
        ("seed", _listed(_seed(fact["config"]) for fact in facts)),
        ("machine", _listed(_machine(run) for run in reversed(runs))),
        ("engine", _listed(_engine(fact) for fact in facts)),
        *([("imported", files)] if (files := _listed(_origin(fact["config"]) for fact in facts)) != _UNKNOWN else []),
        *([("answers", told)] if (told := _cut(runs)) else []),
        *([("left out", _listed(skipped))] if skipped else []),
        ("run it again", _again(facts, runs)),
    ]


def _again(facts: Sequence[dict[str, Any]], runs: Sequence[store.RunRecord]) -> str:
    """Instructions for running these cells again, one step per line."""
    commits = dict.fromkeys(fact["git_commit"] for fact in facts if fact["git_commit"])
    code = [commit.partition("-")[0] for commit in commits]
    changed = any("-" in commit for commit in commits)
    pins = "gpu" if any(run["gpus"] for run in runs) else "cpu"
    return "\n".join(
        [
            f"in a clone of the repository: git checkout {' or '.join(code) or 'the commit (not recorded)'}"
            + "; local changes to this code are not recorded" * changed,
            f"pip install -e '.[dev]' -c launch/constraints/{pins}.txt, which pins the version of every package; a "
            "model may need a further extra (docs/models.md)",
            "the command above with another name=, and with your own folders in place of those that it shows as ...",
            "agent-grid report FOLDER OTHER_FOLDER compares the two runs case by case",
        ]
    )


def _listed(texts: Iterable[str], most: int | None = None) -> str:
    """The distinct texts in their order, one per line."""
    found = list(dict.fromkeys(text for text in texts if text))
    more = [f"and {len(found) - most:,} more"] if most and len(found) > most else []
    return "\n".join([*found[:most], *more]) or _UNKNOWN


def _cut(runs: Iterable[store.RunRecord]) -> str | None:
    """The limits on models' answers that are lower than the limits that planners asked for, one line each."""
    lines = [line for run in runs for line in run.get("cut", [])]
    return _listed(lines) if lines else None


def _dates(made: pa.ChunkedArray, runs: int) -> str:
    ends = pc.min_max(made).as_py()
    first, last = (f"{ends[end]:%Y-%m-%d %H:%M}" for end in ("min", "max"))
    span = f"{first} UTC" if first == last else f"{first} to {last} UTC"
    return span + (f", {runs:,} runs" if runs > 1 else "")


def _short(commit: str | None) -> str:
    digits, dash, changed = (commit or "").partition("-")
    return f"{digits[:_COMMIT]}{' with local changes' if dash and changed else ''}"


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _seed(config: str | None) -> str:
    found: Any = json.loads(config or "{}")
    return str(found["seed"]) if "seed" in found else ""


def _machine(run: store.RunRecord) -> str:
    gpus = ", ".join(f"{count} x {kind}" for kind, count in run["gpus"].items())
    return f"{run['cpu']}, {run['cpus']:,} CPUs; {gpus or 'no GPU'}; {run['system']}"


def _engine(fact: dict[str, Any]) -> str:
    told = model_line(str(fact["model"]), fact["engine"])
    return f"{told} ({fact['engine_version']})" if fact["engine_version"] else told


# The simulated policy: the notice about it in captions, and its estimated success next to the closed form.


ENGINE, EXPECTED = "engine", "expected_success"
SIMULATED_COLUMNS = (ENGINE, EXPECTED)
"""Columns of `episodes` that `simulated_notice` and `closed_form` need in addition to the columns that tables need."""
SIMULATED = "simulated"
_TOLD = {
    SIMULATED: "simulated policy: it is not a language model and is told the answers",
    "lexical": "lexical engine: it is not a language model and matches words",
    "null": "null engine: it is not a language model and gives no real answers",
}
"""Engines that are not language models, each with the notice for captions about its figures."""


def simulated_notice(episodes: pd.DataFrame, every: pd.DataFrame | None = None) -> str:
    """A notice for the start of a caption if any cell was imported or comes from no language model; else empty.

    If `every` (the report's episodes; None: `episodes`) has further models, the notice names the models that it is
    about.
    """
    recorded = sorted({told for engine, told in RECORDED.items() if (episodes[ENGINE] == engine).any()})
    found = [f"imported, not run here ({' and '.join(recorded)}); "] if recorded else []
    there = set((episodes if every is None else every)["model"].unique())
    for engine, told in _TOLD.items():
        models = episodes["model"][episodes[ENGINE] == engine].unique()
        of = f" ({', '.join(map(str, models))})" if there - set(models) else ""
        found += [f"{told}{of}; "] * bool(len(models))
    return "".join(found)


def closed_form(root: Path, episodes: pd.DataFrame) -> list[Table]:
    """A table of single-pass planners' success next to their expected success; no table if no cell has both."""
    where = f"{EXPECTED} IS NOT NULL AND success IS NOT NULL"
    asked = queries.ask(episodes, queries.of_cases(["success", EXPECTED], where))
    if asked.rows.empty:
        return []
    found = pd.DataFrame([
        dict(zip(SETTING, map(str, key), strict=True)) | _beside(group)
        for key, group in asked.rows.groupby(SETTING, sort=False, observed=True)
    ])  # fmt: skip
    return [
        Table(
            name="closed form",
            title="success of a single pass, estimated and in closed form",
            by=SETTING,
            columns=[
                count("cases"),
                count("clusters"),
                mean("success", "success"),
                Column("95% interval", lambda row: bounds(row["low"], row["high"])),
                mean(EXPECTED, "closed form"),
            ],
            values=found,
            query=queries.of_files(root, asked.query),
            about="% of cases; success: estimated from the cells; closed form: expected over all random draws "
            "(including the cases' difficulty), given the cases' plans and the retrieved tools; 95% interval of the "
            f"estimate: {TOLD}",
        )
    ]


def _beside(cases: pd.DataFrame) -> dict[str, float]:
    by_case = cases.set_index([CLUSTER, "case_id"])
    # The expectation differs between cases, so the interval is computed over each case's difference from it.
    _, low, high = interval(by_case["success"] - by_case[EXPECTED], reach=1.0)
    expected = float(by_case[EXPECTED].mean())
    return {
        "cases": len(by_case),
        "clusters": by_case.index.get_level_values(CLUSTER).nunique(),
        "success": float(by_case["success"].mean()),
        "low": max(expected + low, 0.0),
        "high": min(expected + high, 1.0),
        EXPECTED: expected,
    }
