"""Settings of which cells are missing, as a sweep was interrupted or still runs: they are marked in every report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pandas as pd

from analysis import horizon, load, provenance, study
from analysis.load import SETTING
from grid import store
from grid.cells.costs import SOURCE
from grid.core.errors import StoreError
from grid.core.roles import ACTOR, ASKED
from grid.core.types import BETWEEN
from grid.store.schema import SPENT

_NAMED = 3
"""Settings that a line names."""


def planned(root: Path, episodes: pd.DataFrame) -> pd.DataFrame:
    """One row per setting: `SETTING`, and how many of its cells are `done`, of how many that are `planned`.

    The sweep's own record says how many are planned, and which settings have no cell yet; they stand last. A folder
    without one, made before sweeps kept it or gathered from others, shows it by its rows: planned are then as many
    cells as the largest setting has of the same model, dataset and robustness setting.

    Raises:
        StoreError: the record cannot be read.
    """
    known = store.runs(root)["settings"]
    grouped = episodes.groupby([*SETTING, "setting_id"], sort=False, observed=True, dropna=False)
    done = grouped.size().reset_index(name="done")
    asked = done["setting_id"].astype(str).map({name: setting["cells"] for name, setting in known.items()})
    largest = done.groupby(SETTING[:3], sort=False, observed=True)["done"].transform("max")
    found = done.assign(planned=asked.fillna(largest).clip(lower=done["done"]).astype(int))
    begun = set(done["setting_id"].astype(str))
    rest = [
        {**{name: cast(dict[str, str], setting)[name] for name in SETTING}, "done": 0, "planned": setting["cells"]}
        for name, setting in known.items()
        if name not in begun
    ]
    columns = [*SETTING, "done", "planned"]
    texts = found.astype(dict.fromkeys(SETTING, str))[columns]
    return pd.concat([texts, pd.DataFrame(rest, columns=columns)], ignore_index=True) if rest else texts


def with_planned(results: pd.DataFrame, plan: pd.DataFrame) -> pd.DataFrame:
    """The settings of `tables.results` with their cells that are `planned`."""
    cells = plan.set_index(SETTING)["planned"]
    keys = pd.MultiIndex.from_frame(results[SETTING].astype(str))
    return results.assign(planned=cells.reindex(keys).to_numpy())


def lines(plan: pd.DataFrame) -> list[str]:
    """A line that says which settings are not complete; none where all are."""
    missing = plan[plan["done"] < plan["planned"]]
    if missing.empty:
        return []
    told = [
        f"{row['planner']} on {row['dataset']} ({row['robustness']}): {row['done']:,} of {row['planned']:,} cells"
        for row in missing.head(_NAMED).to_dict("records")
    ]
    more = f"; and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
    return [
        f"Partial results: {len(missing):,} of {len(plan):,} settings are not complete ({'; '.join(told)}{more}). Run "
        "the sweep again with the same name to complete them. Differences compare the cases that both planners have."
    ]


# What a results folder lacks of the planning-horizon study that it has begun.


_HOW = "`agent-grid sweep -m +experiment=planning_horizon` runs what they need"


def missing(root: Path) -> list[str]:
    """A sentence for each part that is missing; none where nothing is, nor where neither `fh` nor `sh` was run.

    Raises:
        StoreError: the folder cannot be read.
    """
    episodes = study.rows(root)
    return [] if episodes.empty else sentences(episodes)


def opened(root: Path) -> tuple[pd.DataFrame, list[str]]:
    """What a notebook begins with: what `study.rows` gives, and what it shows and lacks, in sentences.

    A folder that cannot be read has no rows, and the reason is its sentence.
    """
    try:
        episodes = study.rows(root, provenance.COLUMNS)
        return episodes, [provenance.headline(root), *sentences(episodes)]
    except StoreError as error:
        return pd.DataFrame({"planner": [], "robustness": []}), [f"There is nothing to show: {error}"]


def sentences(episodes: pd.DataFrame) -> list[str]:
    """As `missing`, of what `study.rows` gives."""
    if not study.both(episodes):
        there = ", ".join(sorted(set(episodes["planner"].astype(str)))) or "neither"
        compared = f"they compare the planners fh and sh where calls are run, and of these there is {there} here"
        return [f"planning_horizon's tables 2 to 6 and figures are not here: {compared}; {_HOW}."]
    found = []
    if horizon.robustness_change(episodes).empty:
        needed = f"{horizon.HIGH} and {horizon.LOW} of one model on one data set"
        found.append(f"planning_horizon's table 4 is not here: it needs {needed}; {_HOW}.")
    if episodes["depth"].isna().all():
        found.append(
            "planning_horizon's table 3 and the figures by depth and breadth are not here: of no case the reference's "
            "plan is known."
        )
    return found


# What servers told beside their answers: who gave them, and answers whose tokens nobody told.


_LABELS = {ACTOR: "model", **{role: role for role in ASKED}}
_COUNTS = {role: SPENT[role]["uncounted_answers"] for role in _LABELS}
_TEXTS = [*_LABELS.values(), "engine_version", *SOURCE]
_DATED = re.compile(r"[-@:](\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|0\d\d)$")
"""How a name ends that also says which version it is: -2024-08-06, @20241022, -2411, -0613, -002."""
_SHOWN = 5  # names in a line


def warnings(root: Path) -> list[str]:
    """A line for each model whose server told no tokens of answers, and each that another may have answered for.

    Raises:
        StoreError: the folder cannot be read.
    """
    rows = load.rows(root, [*_TEXTS, *_COUNTS.values()], categories=_TEXTS)
    cells: pd.DataFrame = rows.to_pandas()
    return [*_uncounted(cells), *_others(cells)]


def same_model(asked: str, answered: str) -> bool:
    """Whether one name is the other's, which may tell a version behind it, leave out its owner, or be written large."""
    return _plain(asked) == _plain(answered)


def _plain(name: str) -> str:
    """`openai/gpt-4o-2024-08-06` is gpt-4o, and so is `gpt-4o-latest`."""
    return _DATED.sub("", name.casefold().rpartition("/")[2]).removesuffix("-latest")


def _uncounted(cells: pd.DataFrame) -> Iterator[str]:
    for role, label in _LABELS.items():
        own = cells[cells[_COUNTS[role]].fillna(0) > 0]
        for model, part in own.groupby(label, observed=True, sort=True):
            whose = str(model) if role == ACTOR else f"{model} as {role}"
            of = int((cells[label] == model).sum())
            yield (
                f"warning: {whose}: of {int(part[_COUNTS[role]].sum()):,} answers the server told no tokens, or counts "
                f"that contradict each other; {len(part):,} of {of:,} cells have no tokens and no money for it, means "
                "leave these out, and budgets of tokens and money do not hold for them"
            )


def _others(cells: pd.DataFrame) -> Iterator[str]:
    told = cells[cells[list(SOURCE)].notna().any(axis=1)].astype(dict.fromkeys(_TEXTS, object))
    for model, own in told.groupby("model", sort=True):
        asked = sorted({version.rpartition("@")[0] for version in own["engine_version"].dropna()})
        names = _counted(own["answered_by"])
        other = [name for name in names if not any(same_model(one, name) for one in asked)]
        if other or len(names) > len(asked):
            which = "another model answered than was asked for" if other else "several versions of the model answered"
            yield f"warning: {model}: {which}: {', '.join(asked)} was asked for, and answers came from {_shown(names)}"
        elif set(names) - set(asked):
            yield f"{model}: {', '.join(asked)} was asked for, and answered as {_shown(names)}, taken for the same"
        for column, called in (
            ("system_fingerprint", "configurations (system_fingerprint)"),
            ("provider", "providers"),
        ):
            found = _counted(own[column])
            if len(found) > 1:
                yield f"warning: {model}: {len(found):,} {called} answered: {_shown(found)}"


def _counted(names: pd.Series[str]) -> dict[str, int]:
    """In how many cells each name is, the most frequent first; a cell may have several."""
    parts = names.dropna().str.split(BETWEEN, regex=False).explode()
    return {str(name): int(count) for name, count in parts.value_counts().items()}


def _shown(names: dict[str, int]) -> str:
    told = [f"{name} ({count:,} {'cell' if count == 1 else 'cells'})" for name, count in names.items()]
    more = [f"{len(told) - _SHOWN:,} more"] * (len(told) > _SHOWN)
    return ", ".join([*told[:_SHOWN], *more])
