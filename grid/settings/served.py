"""Where a model is, is no part of what it is: settings go on under the ids that rows from before have.

Up to version 0.1 the address of a server was in the ids of its cells, and the folder of weights. Where a results folder
has such rows of a setting, its further cells get such ids too, and keep the labels: whatever the address is now; if the
folder of weights is the same, since what was in another is not known.
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
from grid.core.untrusted import loads
from grid.settings.setting import ADDRESS, PLACES, Setting
from grid.settings.weights import FOLDERS, IDENTITY, was_read

_ROLES = ("model", *ASKED)
_BESIDE = ("seed", "budget")


def places(config: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Where the models of a setting's roles are, by role and key; of those that are nowhere in particular nothing."""
    named = {role: config[role] for role in _ROLES if config.get(role)}
    found = {role: {key: model[key] for key in PLACES if model.get(key)} for role, model in named.items()}
    return {role: keys for role, keys in found.items() if keys}


def as_in(setting: Setting, setting_id: str) -> Setting:
    """The setting of some rows by the id that they have, with places if that has them."""
    then = replace(setting, placed=places(setting.config))
    return then if then.id == setting_id else setting


def as_stored(root: Path, settings: Sequence[Setting]) -> tuple[list[Setting], list[str]]:
    """The settings, under the ids of rows in a folder that have places in theirs; and a line of each model elsewhere.

    Of rows with several addresses those with the setting's own count, else those that there are most of.

    Raises:
        StoreError: the folder cannot be read.
    """
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


def _anywhere(setting: Setting) -> str:
    """The id that a setting has wherever its models are, with what tells them apart only if somebody named it so."""
    config = dict(setting.config)
    for role in places(config):
        kept = {key: value for key, value in config[role].items() if key not in PLACES}
        if was_read(kept.get(IDENTITY)):
            del kept[IDENTITY]
        config[role] = kept
    return replace(setting, config=config, placed={}).id


def _folders(placed: Mapping[str, Mapping[str, str]]) -> list[tuple[str, str, str | None]]:
    return [(role, key, placed.get(role, {}).get(key)) for role in _ROLES for key in FOLDERS]


def _line(setting: Setting, role: str, then: str | None, now: str) -> str:
    name = setting.config[role].get("model", setting.labels[role])
    return f"{name}: its cells here were asked at {then}, further ones at {now}: that is no other model"


def _with_places(root: Path, keys: Iterable[str]) -> Iterator[Setting]:
    """The settings of rows whose ids have places, with what these were; those of most cells first."""
    columns = ["setting_id", "config", *_ROLES]
    named = reduce(pc.or_, (pc.match_substring(pc.field("config"), f'"{key}"') for key in sorted(keys)))
    rows = store.read(root, "episodes", columns, named, columns)
    counted = rows.group_by(columns).aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    for row in counted.to_pylist():
        config: Any = loads(row["config"])
        labels = {role: row[role] for role in _ROLES if row[role] is not None}
        groups = {name: part for name, part in config.items() if name not in _BESIDE}
        setting = as_in(Setting(groups, labels, config["seed"], config["budget"]), row["setting_id"])
        if setting.placed:
            yield setting
