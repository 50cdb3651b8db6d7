"""Where the files of data sets lie, in a sweep over several: `paths.NAME=FOLDER`, where `dataset.path` is of all.

A data set that has no folder is left out where others remain, and a line says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from omegaconf import OmegaConf

from grid.core.errors import ConfigError
from grid.sweeps.composing import Composed

Setting = tuple[dict[str, Any], dict[str, str]]
"""The config of one setting and the labels of its groups."""


class Folders:
    """The folders that a sweep's settings take, and `lines` of what was left out."""

    def __init__(self) -> None:
        self._lacking: dict[str, None] = {}
        self.lines: list[str] = []

    def with_files(self, composed: Iterable[Composed]) -> Iterator[Composed]:
        """The settings, one by one, with their data set's folder; not those that have none.

        Raises:
            ConfigError: none is left, or a folder is no text.
        """
        left = False
        for one in composed:
            name, dataset = str(one.choices.get("dataset")), one.config.get("dataset")
            if OmegaConf.is_dict(dataset) and OmegaConf.is_missing(dataset, "path"):
                folder = self._folder(name, one.config.get("paths") or {})
                if folder is None:
                    continue
                dataset.path = folder
            left = True
            yield one
        self.lines += [f"left out dataset {name}: no folder is given (paths.{name}=FOLDER)" for name in self._lacking]
        if not left:
            also = ", or " + " ".join(f"paths.{name}=FOLDER" for name in self._lacking)
            raise ConfigError("dataset.path", "???", f"this key has no default and must be given{also}")

    def _folder(self, name: str, paths: Mapping[str, object]) -> str | None:
        found = paths.get(name)
        if found is None:
            self._lacking[name] = None
        elif not isinstance(found, str):
            raise ConfigError(f"paths.{name}", found, "a folder")
        return found

    def without_stand_ins(self, settings: Iterable[Setting]) -> list[Setting]:
        """The settings but for data sets that stand in for one which runs (`stand_ins`)."""
        found = list(settings)
        run = {_name(labels) for _, labels in found}
        stand_ins = {name: other for config, _ in found for name, other in (config.get("stand_ins") or {}).items()}
        gone = {name: other for name, other in stand_ins.items() if name in run and other in run}
        self.lines += [f"left out dataset {name}: {other} runs in its place" for name, other in gone.items()]
        return [(config, labels) for config, labels in found if _name(labels) not in gone]


def _name(labels: Mapping[str, str]) -> str:
    return labels["dataset"].partition("[")[0]
