"""A command line's plugins: allowed before Hydra composes, their YAML put on its search path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser

from grid import plugins
from grid.core.errors import ConfigError
from grid.plugins import KEY, Plugin
from grid.text.plain_yaml import LOADER

FILE = "plugins.yaml"
"""In the folder that `--config-dir` names."""
_SEARCH_PATH = "hydra.searchpath"
_MOST_BYTES = 100_000
_LIST = "a list of packages: plugins=[mylab]"


def prepared(arguments: Sequence[str]) -> list[str]:
    """Allow the plugins that a command line names, or its `--config-dir`, or that are installed.

    Returns its arguments with their folders of YAML on Hydra's search path, behind those that it names itself.

    Raises:
        ConfigError: a plugin that cannot be used, or `plugins.yaml` that cannot be read.
    """
    given = get_args_parser().parse_args(list(arguments))
    names = [*_of_folder(given.config_dir), *_named(given.overrides)]
    return _with_files(arguments, given.overrides, plugins.allow(names))


def _with_files(arguments: Sequence[str], overrides: Sequence[str], found: Mapping[str, Plugin]) -> list[str]:
    """The arguments with the search path of plugins before the other overrides, which flags must not part."""
    folders = [f"file://{plugin.conf}" for plugin in found.values() if plugin.conf.is_dir()]
    own = _value(_SEARCH_PATH, overrides)
    if not folders or (own is not None and not isinstance(own, list)):  # Hydra says what is wrong
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
            raise ConfigError("--config-dir", str(file), f"a file of at most {_MOST_BYTES:,} bytes")
        found = yaml.load(file.read_text(encoding="utf-8"), LOADER)  # noqa: S506 - it loads plain values only
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConfigError("--config-dir", str(file), f"a YAML file that can be read ({error})") from None
    names = found.get(KEY) if isinstance(found, dict) and found.keys() == {KEY} else None
    return _names(names, "--config-dir", str(file), f"one key with {_LIST.replace('=', ': ')}")


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
    """What the last argument for a key gives; None without one."""
    given = [text for text in arguments if _gives(key, text)]
    return OverridesParser.create().parse_override(given[-1]).value() if given else None
