"""Named cases: a sweep with `cases` only runs the named cases of its data sets, whatever `dataset.limit` is.

This module stands apart from `check`, its only user, because how a file or a folder names cases has nothing to do with
how a sweep is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc

from grid import store
from grid.core.errors import ConfigError, StoreError, nearest
from grid.core.places import folder_at
from grid.settings.config import ALL_CASES, CASES, CASES_ALLOWED, FAILED_OF

_MOST_BYTES = 10_000_000
_SHOWN = 3


@dataclass
class Named:
    """The named ids in their order; if a results folder names the cases, `of` has the ids by data set."""

    given: str
    ids: Sequence[str] = ()
    of: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _labels: dict[str, Sequence[str]] = field(default_factory=dict)

    def among(self, label: str, case_ids: Sequence[str]) -> Sequence[str]:
        """The named ids that are cases of a data set; raises ConfigError if there is no such id."""
        wanted = self.of.get(_name(label), ()) if self.of else self.ids
        known = {*case_ids}
        found = [case_id for case_id in wanted if case_id in known]
        self._seen.update(found)
        self._labels[label] = case_ids
        if not found and self.of:
            raise ConfigError(
                CASES, self.given, f"a folder of results in which a cell of {label} failed or did not succeed"
            )
        if not found:
            raise ConfigError(CASES, _listed(wanted), f"ids of cases of {label}{self._meant(wanted[0])}")
        return found

    def expect_all(self) -> None:
        """Raise ConfigError if a named id is not a case of any data set of the sweep.

        Ids that come from a results folder (`of`) are not checked.
        """
        lacking = [case_id for case_id in self.ids if case_id not in self._seen]
        if lacking:
            raise ConfigError(
                CASES, _listed(lacking), f"ids of cases of {', '.join(self._labels)}{self._meant(lacking[0])}"
            )

    def _meant(self, name: str) -> str:
        every = [case_id for case_ids in self._labels.values() for case_id in case_ids]
        return nearest(name, every[:10_000]) or f", such as {every[0]}"


def named(given: str | Sequence[str]) -> Named | None:
    """The cases that the key `cases` names; None if all cases run.

    Raises:
        ConfigError: a file or a folder names no cases or cannot be read.
    """
    if given == ALL_CASES:
        return None
    if not isinstance(given, str):
        return Named(_listed(given), _each_once(given, _listed(given)))
    if given.startswith(FAILED_OF):
        return Named(given, of=_failed(given))
    path = Path(given)
    try:
        if not path.is_file() or path.stat().st_size > _MOST_BYTES:
            raise ConfigError(CASES, given, f"{CASES_ALLOWED}; a file may have at most {_MOST_BYTES:,} bytes")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(CASES, given, f"a file of UTF-8 text with one id per line ({error})") from None
    return Named(given, _each_once([line.strip() for line in lines if line.strip()], given))


def _each_once(ids: Sequence[str], given: str) -> Sequence[str]:
    if not ids:
        raise ConfigError(CASES, given, f"there must be at least one id; allowed: {CASES_ALLOWED}")
    return [*dict.fromkeys(ids)]


def _failed(given: str) -> dict[str, list[str]]:
    """For each data set, the cases with a cell that failed, did not succeed, or has unknown success."""
    root = folder_at(given.removeprefix(FAILED_OF))
    try:
        store.check_there(root)
        failed = pc.field("success").is_null() | ~pc.field("success")
        rows = store.read(root, "episodes", ["dataset", "case_id"], failed)
    except StoreError as error:
        raise ConfigError(CASES, given, f"a folder of results ({error})") from None
    found: dict[str, set[str]] = {}
    for row in rows.group_by(["dataset", "case_id"]).aggregate([]).to_pylist():
        found.setdefault(_name(row["dataset"]), set()).add(row["case_id"])
    if not found:
        raise ConfigError(CASES, given, "a folder of results in which a cell failed or did not succeed")
    return {name: sorted(ids) for name, ids in found.items()}


def _name(label: str) -> str:
    """A data set's name: its label without the keys in brackets."""
    return label.partition("[")[0]


def _listed(ids: Sequence[str]) -> str:
    return ",".join(ids[:_SHOWN]) + (f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else "")
