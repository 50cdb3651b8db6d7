"""Where models are served is no part of what they are: settings go on under the ids that rows from before have.

Up to version 0.1 the address of a server was in the ids of its cells. Where a folder has such rows of a setting, its
further cells get such ids too, whatever its address is now, and keep the labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from grid import store
from grid.core.engine import ASKED
from grid.core.untrusted import loads
from grid.settings.setting import ADDRESS, Setting

_ROLES = ("model", *ASKED)
_BESIDE = ("seed", "budget")


def addresses(config: Mapping[str, Any]) -> dict[str, str]:
    """Where the models of a setting's roles are asked, by role; of those that are no server's nothing."""
    return {role: config[role][ADDRESS] for role in _ROLES if config.get(role) and config[role].get(ADDRESS)}


def as_in(setting: Setting, setting_id: str) -> Setting:
    """The setting of some rows by the id that they have, with addresses if that has them."""
    then = replace(setting, placed=addresses(setting.config))
    return then if then.id == setting_id else setting


def as_stored(root: Path, settings: Sequence[Setting]) -> tuple[list[Setting], list[str]]:
    """The settings, under the ids of rows in a folder that have an address in theirs; and a line of each such model.

    Of rows with several addresses those with the setting's own count, else those that there are most of.

    Raises:
        StoreError: the folder cannot be read.
    """
    if not any(addresses(setting.config) for setting in settings):
        return list(settings), []
    stored: dict[str, list[Setting]] = {}
    for then in _with_addresses(root):
        stored.setdefault(replace(then, placed={}).id, []).append(then)
    found, lines = [], dict[str, None]()
    for setting in settings:
        alike = stored.get(setting.id, [])
        if not alike:
            found.append(setting)
            continue
        now = addresses(setting.config)
        then = next((one for one in alike if one.placed == now), alike[0])
        found.append(replace(setting, placed=then.placed, labels={**setting.labels, **then.labels}))
        for role in (role for role in now if then.placed.get(role) != now[role]):
            lines[_line(setting, role, then.placed.get(role), now[role])] = None
    return found, list(lines)


def _line(setting: Setting, role: str, then: str | None, now: str) -> str:
    name = setting.config[role].get("model", setting.labels[role])
    return f"{name}: its cells here were asked at {then}, further ones at {now}: that is no other model"


def _with_addresses(root: Path) -> Iterator[Setting]:
    """The settings of rows whose ids have addresses, with what these were; those of most cells first."""
    columns = ["setting_id", "config", *_ROLES]
    rows = store.read(root, "episodes", columns, pc.match_substring(pc.field("config"), f'"{ADDRESS}"'), columns)
    counted = rows.group_by(columns).aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    for row in counted.to_pylist():
        config: Any = loads(row["config"])
        labels = {role: row[role] for role in _ROLES if row[role] is not None}
        groups = {name: part for name, part in config.items() if name not in _BESIDE}
        setting = as_in(Setting(groups, labels, config["seed"], config["budget"]), row["setting_id"])
        if setting.placed:
            yield setting
