"""A results folder as data frames."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.load import unknowns
from analysis.stats.intervals import CLUSTER
from grid import store
from grid.core import labels as shown_labels
from grid.core.engine import ASKED
from grid.core.places import folder_at
from grid.core.problem import BASELINES
from grid.store.schema import APART, JOINED

T = TypeVar("T")
SETTING = ["model", "dataset", "robustness", "planner"]
"""The labels that tell settings apart; `episodes` makes sure that no two settings have the same labels."""
ALL = "all"
"""The pool of all tools of the benchmark; labels do not mention it."""
UNCHANGED = "none"
"""The default value for both refinement and memory; labels do not mention this value.

With this default, the plan is used as it was first written, and no other case is remembered.
"""
_TEXTS = [*APART, "case_id", "cluster", "status", "error_kind"]
_EPISODES = [
    *_TEXTS, "cell_id", "trial", "success", "tool_match_rate", "action_accuracy", "retrieval_rate", "input_tokens",
    "cached_input_tokens", "output_tokens", "llm_calls", "forward_passes", "money", "wall_seconds", "unassigned",
    "cancelled_llm_calls", "solvable", "resolved_checks", "branched_steps", *BASELINES,
    "judge_input_tokens", "judge_output_tokens", "judge_calls", "judge_passes", *unknowns.UNREAD,
]  # fmt: skip
_FACTORS = ["last_step", "controls", "engine", "config", "budget_reached"]  # further texts that are categories
_FLAGS = [
    "success", "solvable", "exact_match", "repeated_call", "repeated_call_in_a_row", "finished", "correct_path",
    *BASELINES, "success_db",
    "accuracy", "plan_accuracy", "plan_names_accuracy", "plan_values_accuracy", "hallucinated", "side_effect",
]  # fmt: skip
_HELD_BYTES = 128 << 20  # limit for the columns of a folder kept in memory, at eight bytes per cell and column
_WHOLE_BYTES = 2 << 30  # limit for a folder that is read for all its tables, if several times as much memory is free
_SPARE = 4
_MEMORY = Path("/proc/meminfo")
FEW = (*_TEXTS, "cell_id", "trial", "success", *unknowns.UNREAD)
"""The columns that every frame needs."""
_CATEGORIES = [*_TEXTS, *_FACTORS]
_DERIVED, _PLACE = ["disturbed", unknowns.COLUMN], "_place"
_LABELS = ["answered_by", "engine_version", "git_commit", "provider", "system_fingerprint"]  # categories in some tables
_FURTHER = [
    *_LABELS, "cell_id", "attempt_id", "behaviour", "case_digest", "draft", "error_message", "failure_patterns",
    "plan_errors", "reward_parts", "task_family", "termination", "tool_counts", "unsolvable_kind", "verdict",
]  # fmt: skip
_LIKELY = [*(field.name for field in JOINED if pa.types.is_primitive(field.type)), *_CATEGORIES]


def episodes(
    root: Path,
    further: Sequence[str] = (),
    where: pc.Expression | None = None,
    unknown: unknowns.Unknown | None = None,
    names: Sequence[str] = _EPISODES,
) -> pd.DataFrame:
    """One row per cell, sorted by setting, undisturbed settings first; flags are floats, NaN if not known.

    Unknown success is set as `unknown` says (None: as `unknowns.counted` says), and the column `unknown` is true in
    such rows. The column `disturbed` is true unless the robustness setting is `none`. Planners have the labels of
    `told_apart` among all settings of the folder, whatever rows are selected. Texts are categories in alphabetical
    order, because even a million rows have few different texts. `further` are additional columns to read, and `where`
    selects the rows (see `grid.store.read`). `names` are the columns to read, by default those that most tables need;
    `FEW` are the columns that every frame needs.

    Raises:
        ConfigError: `unknown` is not one of the allowed values.
        StoreError: the folder cannot be read, or there is no such column.
    """
    names = list(dict.fromkeys([*names, *further]))
    with unknowns.counted(unknown):
        held = _fit(store.files_of(root, "episodes"), len(_LIKELY), _limit(root))
        if held and (where is None or _of_every_row(root, where)):
            return _of_all(root, names)
        return once(root, f"episodes {names} {where}", lambda: _sorted(_read(root, names, where), root))


def _of_every_row(root: Path, where: pc.Expression) -> bool:
    found = rows(root, _named(root, where))
    return bool(found.filter(where).num_rows == found.num_rows)


def _named(root: Path, where: pc.Expression | None) -> list[str]:
    """The columns that an expression uses."""
    return [] if where is None else sorted(store.named_in(where) & {*JOINED.names, *store.metrics(root)})


def _of_all(root: Path, names: Sequence[str]) -> pd.DataFrame:
    """These columns of every row; labels and order are computed once, and each column is read and sorted once."""
    files = store.files_of(root, "episodes")
    held, key = _made(folder_at(root), files), ("episodes", unknowns.how_counted())
    if key not in held:
        found = _read(root, _EPISODES, None)
        held[key] = _sorted(found.assign(**{_PLACE: np.arange(len(found))}), root)
    frame: pd.DataFrame = held[key]
    missing = [name for name in names if name not in frame]
    if missing:
        further = _read(root, missing, None)
        if store.files_of(root, "episodes") != files:  # a sweep has written meanwhile
            return _sorted(_read(root, names, None), root)
        further = further.take(frame[_PLACE].to_numpy()).set_axis(frame.index)
        held[key] = frame = frame.assign(**{name: further[name] for name in missing})
    return frame[[*names, *_DERIVED]]


def _read(root: Path, names: Sequence[str], where: pc.Expression | None) -> pd.DataFrame:
    """The rows in the order of their ids."""
    texts = [name for name in names if name in [*_TEXTS, *_FACTORS]]
    frame: pd.DataFrame = rows(root, names, where, texts).to_pandas()
    if "model" in frame:
        frame["model"] = frame["model"].cat.rename_categories(models(root))
    found = frame.assign(
        **{name: _ordered(frame[name]) for name in [*SETTING, "case_id", CLUSTER] if name in frame},
        **{name: frame[name].astype("float64") for name in _FLAGS if name in frame},
    )
    pa.default_memory_pool().release_unused()  # the memory that the table used
    return found


def _sorted(frame: pd.DataFrame, root: Path) -> pd.DataFrame:
    """The rows sorted by setting, with the derived columns."""
    frame = unknowns.applied(frame.assign(disturbed=frame["robustness"] != "none"))
    if not frame.empty:
        frame = frame.assign(planner=told_apart(frame, lambda: _configs(root), _settings(root)))
    return frame.sort_values(["model", "dataset", "disturbed", "robustness", "planner", "trial", "case_id"])


def rows(
    root: Path, names: Sequence[str], where: pc.Expression | None = None, categories: Sequence[str] = ()
) -> pa.Table:
    """Like `store.read(root, "episodes", …)`, but columns stay in memory, because a report's tables share them."""
    files = store.files_of(root, "episodes")
    held = _held(folder_at(root), files)
    named = _named(root, where)
    wanted = list(dict.fromkeys([*names, *named]))
    missing = [name for name in wanted if name not in held]
    if missing:
        columns = (
            len(held) + len(missing) if where is None else len(_LIKELY)
        )  # from a large folder, read only the requested rows
        if not _fit(files, columns, _limit(root)):
            return store.read(root, "episodes", names, where, categories)
        found = store.read(
            root, "episodes", missing, None, [name for name in missing if name in [*categories, *_CATEGORIES]]
        )
        if store.files_of(root, "episodes") != files:  # a sweep has written meanwhile
            return store.read(root, "episodes", names, where, categories)
        held.update(zip(missing, found.columns, strict=True))
    table = pa.table({name: held[name] for name in wanted})
    if where is not None:
        asked = {name: _formed(held[name], encoded=False) for name in named}
        places = pa.table({**asked, "": pa.array(np.arange(len(table)))}).filter(where)[""]
        if len(places) < len(table):
            table = pa.table({name: _taken(table[name], places) for name in names})
    return pa.table({name: _formed(table[name], encoded=name in categories) for name in names})


def once(root: Path, what: str, make: Callable[[], T], few: bool = False) -> T:
    """The result of `make`, which is called once for these rows, so that tables and figures show the same numbers.

    If the folder is too large to be held in memory, `make` is called each time. Set `few` for a result that is small
    however many cells there are: it is always kept.
    """
    files = store.files_of(root, "episodes")
    if not few and not _fit(files, len(_LIKELY)):
        return make()
    held, key = _made(folder_at(root), files), (what, unknowns.how_counted())
    if key not in held:
        held[key] = make()
    found: T = held[key]
    return found


def hold(root: Path) -> None:
    """Read, in one go, the columns that a report's tables are likely to need, if the folder is not too large.

    If enough memory is free, more memory may be used for this folder from now on.

    Raises:
        StoreError: the folder cannot be read.
    """
    if _free() > _SPARE * _WHOLE_BYTES:
        _whole.add(folder_at(root))
    if _fit(store.files_of(root, "episodes"), len(_LIKELY), _limit(root)):
        rows(root, [*_LIKELY, *_FURTHER], categories=[*_CATEGORIES, *_LABELS])


def _free() -> int:
    """Bytes of available memory, including memory that caches files; 0 if the system does not report it."""
    with contextlib.suppress(OSError, StopIteration):
        told = next(line for line in _MEMORY.read_text().splitlines() if line.startswith("MemAvailable:"))
        return 1024 * int(told.split()[1])
    return 0


_whole = set[Path]()
"""The folders that are read for all their tables, and for which more memory may therefore be used."""


def _limit(root: Path) -> int:
    return _WHOLE_BYTES if folder_at(root) in _whole else _HELD_BYTES


def _fit(files: Sequence[store.File], columns: int, limit: int = _HELD_BYTES) -> bool:
    """Whether this number of columns of these files may stay in memory."""
    return 8 * sum(file.rows for file in files) * columns <= limit


@lru_cache(maxsize=2)
def _made(root: Path, files: tuple[store.File, ...]) -> dict[tuple[str, str], Any]:
    """The results computed from these files, keyed by name and by the way in which unknown cells are counted."""
    return {}


@lru_cache(maxsize=4)
def _held(root: Path, files: tuple[store.File, ...]) -> dict[str, pa.ChunkedArray]:
    """The columns that were read from these files; the files' names are hashes of their contents."""
    return {}


def _taken(column: pa.ChunkedArray, places: pa.ChunkedArray) -> pa.ChunkedArray:
    """Some rows of a column; a dictionary-encoded column keeps only the texts of these rows, in order of occurrence."""
    found = column.take(places)
    if not pa.types.is_dictionary(found.type):
        return found
    own = found.combine_chunks()
    used = pc.drop_null(pc.unique(own.indices))
    indices = pc.index_in(own.indices, used, skip_nulls=True)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(indices, own.dictionary.take(used))])


def _formed(column: pa.ChunkedArray, encoded: bool) -> pa.ChunkedArray:
    """A column, dictionary-encoded or as plain values."""
    if pa.types.is_dictionary(column.type) == encoded:
        return column
    return column.dictionary_encode() if encoded else column.cast(column.type.value_type)


def answer_prefixes(root: Path) -> dict[str, str]:
    """Map each model's label to the text with which the engine starts the model's answers, if there is one."""
    found = rows(root, ["model", "config"], categories=["model", "config"])
    pairs = found.group_by(["model", "config"]).aggregate([]).to_pylist()
    prefixes = {
        pair["model"]: json.loads(pair["config"] or "{}").get("model", {}).get("answer_prefix") for pair in pairs
    }
    shown = models(root)
    return {shown.get(str(model), str(model)): prefix for model, prefix in prefixes.items() if prefix}


def _ordered(texts: pd.Series[Any]) -> pd.Series[Any]:
    return texts.cat.reorder_categories(sorted(texts.cat.categories))


def models(root: Path) -> dict[str, str]:
    """Map each stored model label to the model's name in tables, if the two differ.

    Raises:
        StoreError: the folder cannot be read.
    """

    def made() -> dict[str, str]:
        found = shown_labels.short(map(str, rows(root, ["model"], categories=["model"])["model"].unique().to_pylist()))
        return {label: name for label, name in found.items() if name != label}

    return once(root, "models", made, few=True)


def _configs(root: Path) -> dict[str, str]:
    """Map each setting's id to its config, as stored in rows."""
    names = ["setting_id", "config"]
    found = rows(root, names, categories=names).group_by(names).aggregate([]).to_pylist()
    return {row["setting_id"]: row["config"] for row in found}


def _settings(root: Path) -> pd.DataFrame:
    """Each setting of the folder once, with the columns `APART` and with models' names as in tables."""

    def made() -> pd.DataFrame:
        found: pd.DataFrame = rows(root, APART, categories=APART).group_by(list(APART)).aggregate([]).to_pandas()
        return found.assign(model=found["model"].cat.rename_categories(models(root))) if len(found) else found

    return once(root, "settings", made, few=True)


def told_apart(
    frame: pd.DataFrame, configs: Callable[[], Mapping[str, str | None]], every: pd.DataFrame | None = None
) -> pd.Series[Any]:
    """The planners' labels, extended by the retriever and the roles that vary, so that they tell settings apart.

    A role is added only if it varies within a model. The pool is added if it is not `all`, and so are refinement and
    memory if they are used. If labels are still equal, differences between the settings are added, as in
    `react (seed=1)`. These are differences in keys of their `configs`, in the data or in the code. The `configs` are
    read only if labels are still equal. If no difference is known, the setting's id is added.

    If the frame is a selection, `every` has all settings, so that the labels are the same in each selection.
    """
    varying = [name for name in APART if frame[name].nunique(dropna=False) > 1] or ["planner"]
    place = frame.groupby(varying, sort=False, dropna=False).ngroup()
    first = ~place.duplicated()
    settings = frame.loc[first, [*APART]].astype(object).set_index(place[first])
    if every is not None:
        others = every[[*APART]].astype(object).set_axis(-1 - np.arange(len(every)))
        settings = pd.concat([settings, others]).drop_duplicates()
    planner = settings["planner"].map(shown_labels.plain, na_action="ignore")
    if settings["retriever"].nunique() > 1:
        planner = planner + (" / " + settings["retriever"]).fillna("")  # imported rows have no retriever
    pool = settings["pool"].fillna(ALL)
    planner = planner.where(pool == ALL, planner + " / pool " + pool)
    for group in ("refine", "memory"):
        further = settings[group].fillna(UNCHANGED)
        planner = planner.where(further == UNCHANGED, planner + f" / {group} " + further.astype(str))
    for role in ASKED:
        asked = settings[role]
        if asked.groupby(settings["model"]).nunique().max() > 1:  # only if the role varies within a model
            called = asked.dropna().map(shown_labels.short(asked.dropna())).reindex(asked.index)
            planner = planner.where(asked.isna(), planner + f" / {role} " + called.astype(str))
    labels = [settings["model"], settings["dataset"], settings["robustness"], planner]
    for _, same in settings.groupby(labels, sort=False):
        if len(same) > 1:
            planner = planner.where(~planner.index.isin(same.index), planner + _differing(same, configs()))
    return place.map(planner).astype("category")


def _differing(settings: pd.DataFrame, configs: Mapping[str, str | None]) -> pd.Series[Any]:
    """The texts to append to the labels of settings that have the same labels."""
    every = [
        {**shown_labels.of_config(configs.get(row["setting_id"])), "data": str(row["dataset_version"])[-4:],
         "code": str(row["code"])[:4]}
        for row in settings.to_dict("records")
    ]  # fmt: skip
    told = shown_labels.differences(every)
    if told is None:
        known = settings[["setting_id", "dataset_version", "code"]].fillna("")
        ids = known["setting_id"].str[:6] + "-" + known["dataset_version"].str[-4:]
        return " #" + ids + ("-" + known["code"].str[:4] if known["code"].nunique() > 1 else "")
    return pd.Series([f"{shown_labels.MARK}{text.replace('planner.', '')})" for text in told], settings.index)


def lengthened(root: Path) -> pd.DataFrame:
    """The settings whose planner has another label in tables: `unknowns.SETTING`, `planner` as stored, and `label`."""

    def made() -> pd.DataFrame:
        found = _settings(root)
        if found.empty:
            return found
        found = found.assign(label=told_apart(found, lambda: _configs(root)).astype(str))
        return found.loc[found["label"] != found["planner"].astype(str), [*unknowns.SETTING, "planner", "label"]]

    return once(root, "lengthened", made, few=True)


def name_of(label: str) -> str:
    """The planner's name in a label, without the changes in brackets and without the text after them."""
    return label.partition("[")[0].partition(" ")[0]


def places(frame: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Each model and dataset of a frame with its rows, in the frame's order; nothing for an empty frame."""
    if len(frame):
        for (model, dataset), own in frame.groupby(SETTING[:2], sort=False, observed=True):
            yield str(model), str(dataset), own
