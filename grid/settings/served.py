"""Settings continue under the ids of earlier rows, even if these ids include the places of models.

A model's place (the address of its server, or the folder of its weights) is not part of a cell's id, but was part of it
up to version 0.1. If a results folder has rows of a setting with such ids, the setting's later cells get ids with the
same places, and the labels of these rows. The server's address may have changed since then. The folder of weights must
be the same, because a different folder might have different contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from grid import store
from grid.core.engine import ASKED
from grid.core.labels import without_folders
from grid.core.untrusted import loads
from grid.settings.setting import ADDRESS, FURTHER, GROUPS, PLACES, Setting
from grid.settings.weights import FOLDERS, IDENTITY, MODELS, was_read

_BESIDE = ("seed", "budget")


def places(config: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The places of a setting's models, by role and key; models without a place are left out."""
    named = {role: config[role] for role in MODELS if config.get(role)}
    found = {role: {key: model[key] for key in PLACES if model.get(key)} for role, model in named.items()}
    return {role: keys for role, keys in found.items() if keys}


def as_in(setting: Setting, setting_id: str) -> Setting:
    """The setting in the form that has the given id: if this id includes places, `placed` has them."""
    then = replace(setting, placed=places(setting.config))
    return then if then.id == setting_id else setting


def as_stored(root: Path, settings: Sequence[Setting]) -> tuple[list[Setting], list[str]]:
    """The settings, under the ids in a folder's rows if these ids include places; and a line per model that has moved.

    If rows of a setting have several addresses, the setting's current address is used or, if no row has it, the most
    frequent address.

    Raises:
        StoreError: the folder cannot be read.
    """
    settings = list(_labelled(root, settings))
    keys = {key for setting in settings for keys in places(setting.config).values() for key in keys}
    if not keys:
        return list(settings), []
    stored: dict[str, list[Setting]] = {}
    for then in _with_places(root, keys):
        stored.setdefault(_anywhere(then), []).append(then)
    found, lines = [], dict[str, None]()
    for setting in settings:
        now = places(setting.config)
        alike = [then for then in stored.get(_anywhere(setting), []) if _folders(then.placed) == _folders(now)]
        if not alike:
            found.append(setting)
            continue
        then = next((one for one in alike if one.placed == now), alike[0])
        found.append(replace(setting, placed=then.placed, labels={**setting.labels, **then.labels}))
        for role in (role for role in now if then.placed.get(role) != now[role]):
            lines[_line(setting, role, then.placed.get(role, {}).get(ADDRESS), now[role][ADDRESS])] = None
    return found, list(lines)


def _labelled(root: Path, settings: Sequence[Setting]) -> Iterator[Setting]:
    """The settings; if a folder's rows have labels with whole paths, as in earlier versions, these labels are kept."""
    groups = [group for group in (*GROUPS, *FURTHER, *ASKED) if any(group in one.labels for one in settings)]
    columns = ["setting_id", *groups]
    rows = store.read(root, "episodes", columns, pc.field("setting_id").isin([one.id for one in settings]), columns)
    stored = {row["setting_id"]: row for row in rows.group_by(columns).aggregate([]).to_pylist()}
    for setting in settings:
        then = {group: text for group, text in stored.get(setting.id, {}).items() if group in setting.labels and text}
        kept = {group: text for group, text in then.items() if without_folders(text) == setting.labels[group]}
        yield replace(setting, labels={**setting.labels, **kept})


def _anywhere(setting: Setting) -> str:
    """The id of a setting without the places of models, and without model identities that the user did not give."""
    config = dict(setting.config)
    for role in places(config):
        kept = {key: value for key, value in config[role].items() if key not in PLACES}
        if was_read(kept.get(IDENTITY)):
            del kept[IDENTITY]
        config[role] = kept
    return replace(setting, config=config, placed={}).id


def _folders(placed: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str, str | None]]:
    return [(role, key, placed.get(role, {}).get(key)) for role in MODELS for key in FOLDERS]


def _line(setting: Setting, role: str, then: str | None, now: str) -> str:
    name = setting.config[role].get("model", setting.labels[role])
    return (
        f"{name}: earlier cells were served at {then}, further cells are served at {now}; both count as the same model"
    )


def _with_places(root: Path, keys: Iterable[str]) -> Iterator[Setting]:
    """The settings of rows whose ids include places, with these places; settings with the most cells come first."""
    columns = ["setting_id", "config", *MODELS]
    named = reduce(pc.or_, (pc.match_substring(pc.field("config"), f'"{key}"') for key in sorted(keys)))
    rows = store.read(root, "episodes", columns, named, columns)
    counted = rows.group_by(columns).aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    for row in counted.to_pylist():
        config: Any = loads(row["config"])
        labels = {role: row[role] for role in MODELS if row[role] is not None}
        groups = {name: part for name, part in config.items() if name not in _BESIDE}
        setting = as_in(Setting(groups, labels, config["seed"], config["budget"]), row["setting_id"])
        if setting.placed:
            yield setting
