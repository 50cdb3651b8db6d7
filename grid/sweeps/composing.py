"""Composing settings with Hydra, so that common parts of settings are composed only once.

Hydra takes 50 to 150 ms per setting, nearly all of it for the files that a setting's choices name. Settings that differ
only in values (`planner.trajectories=3`) share these files. So Hydra composes the choices once; its second step, which
sets values, then runs on a copy for each setting. There is another saving: if several choices each change top-level
keys that no other choice changes, Hydra composes one setting per choice, not one per combination.
"""

from __future__ import annotations

import json
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import yaml
from hydra import initialize_config_dir
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository, IConfigRepository
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.utils import get_args_parser
from hydra.core.config_loader import ConfigLoader
from hydra.core.default_element import ConfigDefault
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.plugins.config_source import ConfigResult
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf

from grid import CONF, plugins
from grid.core.errors import ConfigError
from grid.plugins import KEY, Plugin
from grid.text.objects import LOADER


@dataclass(frozen=True)
class Composed:
    """A setting composed by Hydra: its config without the node `hydra`, its choices of files, and its overrides."""

    config: DictConfig
    choices: Mapping[str, str | None]
    overrides: Sequence[str]


def of_hydra(config: DictConfig, overrides: Sequence[str]) -> Composed:
    """Split a config composed by Hydra; returns its parts."""
    choices = {str(group): name for group, name in config.hydra.runtime.choices.items()}
    plain = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    OmegaConf.set_struct(plain, True)
    return Composed(plain, choices, list(overrides))


@dataclass(frozen=True)
class _Shared:
    """The part that settings with equal choices have in common."""

    pickled: bytes
    choices: Mapping[str, str | None]
    plain: Mapping[str, Any]  # the config's top-level keys with their values

    @classmethod
    def of(cls, found: Composed) -> _Shared:
        plain = cast(dict[str, Any], OmegaConf.to_container(found.config))
        return cls(pickle.dumps(found.config), found.choices, plain)

    def config(self) -> DictConfig:
        return cast(DictConfig, pickle.loads(self.pickled))  # noqa: S301 - our own, and six times as fast as deepcopy


@contextmanager
def multirun(overrides: Sequence[str]) -> Iterator[Iterator[Composed]]:
    """All settings to which these overrides expand with `-m`, composed one by one on demand; raises Hydra's errors."""
    from hydra_plugins.grid_sweeper import GridSweeper, register

    register()
    with initialize_config_dir(str(CONF), version_base=None):
        hydra = GlobalHydra.instance().hydra
        _parse_once(hydra.config_loader)
        config = hydra.compose_config("config", list(overrides), RunMode.MULTIRUN, with_log_configuration=False)
        node = cast(dict[str, Any], OmegaConf.to_container(config.hydra.sweeper))
        sweeper = GridSweeper(node["params"], node["together"])
        sweeper.setup(hydra_context=HydraContext(hydra.config_loader, Callbacks()), task_function=None, config=config)
        yield sweeper.composed(cast(list[str], OmegaConf.to_container(config.hydra.overrides.task)))


_PLAIN_KEY = re.compile(r"[\w/]+(@\w+)?")
_PARSED: dict[tuple[str, int, int], bytes] = {}
"""The pickled content of files, by path, modification time (ns) and size (bytes)."""


class _Files(CachingConfigRepository):  # type: ignore[misc]  # Hydra has no types
    """Hydra's files, each parsed once. Hydra itself parses them anew for each setting, and modifies the results."""

    def __init__(self, delegate: IConfigRepository) -> None:
        super().__init__(delegate)
        self._pickled: dict[str, bytes] = {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        if config_path not in self._pickled:
            self._pickled[config_path] = self._read(config_path)
        return cast(ConfigResult | None, pickle.loads(self._pickled[config_path]))  # noqa: S301 - our own

    def kept_within(self, config_path: str) -> bool:
        """Whether a file and the files in its defaults list set only keys of the file's own group."""
        found = self.load_config(config_path)
        if found is None or found.header.get("package"):
            return False
        others = [one for one in found.defaults_list or [] if not one.is_self()]
        return all(  # `- /planner/tooltree@_here_`
            isinstance(one, ConfigDefault)
            and one.package == ""
            and "${" not in one.path
            and self.kept_within(one.path[1:])
            for one in others
        )

    def _read(self, config_path: str) -> bytes:
        source = next((one for one in self.delegate.get_sources() if one.is_config(config_path)), None)
        key = None
        if isinstance(source, FileConfigSource):
            path = os.path.realpath(os.path.join(source.path, source._normalize_file_name(config_path)))
            now = os.stat(path)
            key = path, now.st_mtime_ns, now.st_size
        if key in _PARSED:
            return _PARSED[key]
        found = pickle.dumps(self.delegate.load_config(config_path=config_path))
        if key:
            _PARSED[key] = found
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> _Files:
        """Return this object itself, because Hydra would copy its files for each setting."""
        return self


def _parse_once(loader: ConfigLoader) -> None:
    if isinstance(loader, ConfigLoaderImpl) and not isinstance(loader.repository, _Files):
        loader.repository = _Files(loader.repository)


class Composer:
    """Composes the settings of one sweep; each result equals the result of Hydra's own `load_sweep_config`."""

    def __init__(self, loader: ConfigLoader, master: DictConfig) -> None:
        self._loader, self._master = loader, master
        _parse_once(loader)
        self._shared: dict[str, _Shared] = {}
        self._first: dict[tuple[str, ...], list[str]] = {}  # by their keys
        parser = OverridesParser.create(loader)
        self._parsed = lru_cache(maxsize=None)(parser.parse_override)
        self._is_group = lru_cache(maxsize=None)(self._has_files)

    def compose(self, overrides: Sequence[str]) -> Composed:
        """Compose one setting; raises Hydra's errors."""
        parsed = [self._parsed(text) for text in overrides]
        values = [one for one in parsed if "." in one.key_or_group]
        rest = [one for one in parsed if "." not in one.key_or_group]
        if not self._may_go_apart(values, rest):
            return of_hydra(self._loader.load_sweep_config(self._master, list(overrides)), overrides)
        shared = self._of_choices([str(one.input_line) for one in rest])
        config = shared.config()
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        return Composed(config, shared.choices, list(overrides))

    def _may_go_apart(self, values: Sequence[Override], rest: Sequence[Override]) -> bool:
        """Whether these values can be set last: no other override sets or removes the top-level keys above them."""
        roots = {one.key_or_group.partition(".")[0] for one in values}
        others = [one for one in rest if not (isinstance(one.value(), str | list) and self._is_group(one.key_or_group))]
        return all(one.package is None for one in values) and roots.isdisjoint(one.key_or_group for one in others)

    def _of_choices(self, overrides: list[str]) -> _Shared:
        key = json.dumps(overrides)
        if key not in self._shared:
            keys = [text.partition("=")[0] for text in overrides]
            # Settings are only put together from parts if they have the same preset, so all their overrides must be
            # equal, except choices with plain keys.
            alike = tuple(key if _PLAIN_KEY.fullmatch(key) else text for key, text in zip(keys, overrides, strict=True))
            first = self._first.get(alike)
            found = self._put_together(overrides, first) if first and len({*keys}) == len(keys) else None
            self._shared[key] = found or self._of_hydra(overrides)
            self._first.setdefault(alike, overrides)
        return self._shared[key]

    def _of_hydra(self, overrides: list[str]) -> _Shared:
        return _Shared.of(of_hydra(self._loader.load_sweep_config(self._master, overrides), overrides))

    def _put_together(self, overrides: list[str], first: list[str]) -> _Shared | None:
        """A setting made from an earlier one with the same keys: each choice that differs replaces one top-level key.

        None if only one choice differs, or if two choices might change the same key.
        """
        places = [place for place, (ours, its) in enumerate(zip(overrides, first, strict=True)) if ours != its]
        roots = [self._root(overrides[place]) for place in places]
        if len(places) < 2 or None in roots or len({*roots}) < len(roots):
            return None
        base = self._of_choices(first)
        config, choices = base.config(), dict(base.choices)
        for place, root in zip(places, roots, strict=True):
            one = self._of_choices([*first[:place], overrides[place], *first[place + 1 :]])
            if any(base.plain.get(key, ...) != one.plain.get(key, ...) for key in {*base.plain, *one.plain} - {root}):
                return None
            _replace(config, one.config(), str(root))
            for group in base.choices.keys() - one.choices.keys():
                choices.pop(group, None)
            choices |= {group: name for group, name in one.choices.items() if base.choices.get(group, ...) != name}
        return _Shared.of(Composed(config, choices, overrides))

    def _root(self, override: str) -> str | None:
        """The top-level key that an override changes; None if the override might change several."""
        parsed = self._parsed(override)
        if self._is_group(parsed.key_or_group) and not self._kept_within(parsed.key_or_group, parsed.value()):
            return None
        return str(parsed.package or parsed.key_or_group).partition("/")[0]

    def _kept_within(self, group: str, value: object) -> bool:
        names = value if isinstance(value, list) else [] if value is None else [value]
        return all(self._loader.repository.kept_within(f"{group}/{name}") for name in names)

    def _has_files(self, key: str) -> bool:
        return bool(self._loader.get_group_options(key, results_filter=ObjectType.CONFIG))


def _replace(config: DictConfig, other: DictConfig, key: str) -> None:
    """Replace a config's top-level key with the other config's; remove it if the other config does not have it."""
    ours, its = config.__dict__["_content"], other.__dict__["_content"]
    ours.pop(key, None)
    if key in its:
        its[key]._set_parent(config)
        ours[key] = its[key]


# A command line's plugins: they are allowed before Hydra composes, and their YAML files are put on its search path.


FILE = "plugins.yaml"
"""The name of a file in the folder that `--config-dir` names."""
_SEARCH_PATH = "hydra.searchpath"
_MAPPING = re.compile(r"(?!hydra\.)\w+(\.\w+)+=\s*\{")
_MOST_BYTES = 100_000
_LIST = "must be a list of packages, for example plugins=[mylab]"


def prepared(arguments: Sequence[str]) -> list[str]:
    """Allow the plugins that a command line or its `--config-dir` names, and installed plugins.

    Returns the arguments with the plugins' YAML folders on Hydra's search path, after any folders that the command line
    puts there. A mapping may have keys that its file does not have (`model.extra={top_p: 0.9}`).

    Raises:
        ConfigError: a plugin cannot be used, or `plugins.yaml` cannot be read.
    """
    given = get_args_parser().parse_args(list(arguments))
    names = [*_of_folder(given.config_dir), *_named(given.overrides)]
    return [opened(one) for one in _with_files(arguments, given.overrides, plugins.allow(names))]


def opened(override: str) -> str:
    """The override, with the prefix `++` if it sets a mapping, because Hydra refuses keys that the mapping lacks.

    Keys that a mapping must not have are refused later, when the object that it describes is created.
    """
    return f"++{override}" if _MAPPING.match(override) else override


def _with_files(arguments: Sequence[str], overrides: Sequence[str], found: Mapping[str, Plugin]) -> list[str]:
    """The arguments, with the plugins' search path inserted after the flags and before all other overrides."""
    folders = [f"file://{plugin.conf}" for plugin in found.values() if plugin.conf.is_dir()]
    own = _value(_SEARCH_PATH, overrides)
    if not folders or (own is not None and not isinstance(own, list)):  # Hydra reports the error
        return list(arguments)
    path = ",".join(_quoted(str(one)) for one in [*(own or []), *folders])
    place = list(arguments).index(overrides[0]) if overrides else len(arguments)
    rest = [text for text in arguments[place:] if not _gives(_SEARCH_PATH, text)]
    return [*arguments[:place], f"{_SEARCH_PATH}=[{path}]", *rest]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _of_folder(folder: str | None) -> list[str]:
    """The packages that a config folder names."""
    file = Path(folder) / FILE if folder else None
    if file is None or not file.exists():
        return []
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise ConfigError("--config-dir", str(file), f"must be a file of at most {_MOST_BYTES:,} bytes")
        found = yaml.load(file.read_text(encoding="utf-8"), LOADER)  # noqa: S506 - it loads plain values only
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError("--config-dir", str(file), f"must be a readable YAML file ({error})") from None
    names = found.get(KEY) if isinstance(found, dict) and found.keys() == {KEY} else None
    allowed = f"must have only the key {KEY}, with a list of packages, for example {KEY}: [mylab]"
    return _names(names, "--config-dir", str(file), allowed)


def _named(arguments: Sequence[str]) -> list[str]:
    given = [text for text in arguments if _gives(KEY, text)]
    return _names(_value(KEY, arguments), KEY, given[-1].partition("=")[2], _LIST) if given else []


def _names(found: object, key: str, shown: str, allowed: str) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ConfigError(key, shown, allowed)
    return [str(name) for name in found]


def _gives(key: str, argument: str) -> bool:
    return argument.partition("=")[0].lstrip("+") == key


def _value(key: str, arguments: Sequence[str]) -> object:
    """The value in the last argument that sets a key; None if no argument sets it."""
    given = [text for text in arguments if _gives(key, text)]
    return OverridesParser.create().parse_override(given[-1]).value() if given else None
