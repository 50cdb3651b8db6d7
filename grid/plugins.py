"""The user's own packages whose classes a config may name: which packages are allowed, and where they are.

A plugin is a Python package with classes anywhere in it and YAML in `conf/<group>/<name>.yaml`, as in our package. A
plugin can be a folder in the user's current folder (or on PYTHONPATH); the folder is then sent to a cluster's machines.
Alternatively, a plugin is part of an installed distribution; all machines must have the same version of it. A driver
allows plugins; an environment variable passes the list of allowed plugins to all other processes of the sweep.
"""

from __future__ import annotations

import difflib
import json
import keyword
import os
import shlex
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, PackageNotFoundError, entry_points, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from grid import CONF
from grid.core.errors import ConfigError, UnfinishedError

KEY = "plugins"
VARIABLE = "AGENT_GRID_PLUGINS"
ENTRY_POINTS = "agent_grid.plugins"
"""The entry point group in which a distribution declares its package; the entry point's value is the package."""
_OURS = frozenset({"grid", "analysis", "launch", "hydra_plugins", "conf"})
_MOST_BYTES = 100 * 2**20
_PACKAGE = "the name of a Python package that is in the current folder, on PYTHONPATH or installed"


@dataclass(frozen=True)
class Plugin:
    """A package's name, and its `folder` on the driver; an installed package has a `distribution` and `version`.

    Without a distribution, the plugin consists of its folder.
    """

    name: str
    folder: str
    distribution: str = ""
    version: str = ""

    @property
    def conf(self) -> Path:
        """The folder with the plugin's YAML; the folder need not exist."""
        return Path(self.folder) / "conf"


def allow(names: Sequence[str]) -> Mapping[str, Plugin]:
    """Allow configs to name classes in the packages `names` and in all packages that installed distributions declare.

    No package is imported. Packages that were allowed earlier are no longer allowed. Child processes read the list of
    packages from the environment variable VARIABLE.

    Raises:
        ConfigError: a package is missing, too large or has a forbidden name, a package hides another package, or a YAML
            file hides another YAML file.
    """
    _forget()
    declared = _declared()
    found = {name: _found(name, declared) for name in dict.fromkeys([*declared, *names])}
    _check_files(found)
    if found:
        os.environ[VARIABLE] = json.dumps([asdict(one) for one in found.values()])
        sys.meta_path.append(_Folders({one.name: one for one in found.values() if not one.distribution}))
    return found


@contextmanager
def kept() -> Iterator[None]:
    """At the end of the context, restore the plugins that were allowed at its beginning."""
    told, finders = os.environ.get(VARIABLE), [finder for finder in sys.meta_path if isinstance(finder, _Folders)]
    try:
        yield
    finally:
        _forget()
        sys.meta_path += finders
        if told is not None:
            os.environ[VARIABLE] = told


def allowed() -> Mapping[str, Plugin]:
    """The plugins that this process allows, by name."""
    return _told(os.environ.get(VARIABLE, "[]"))


@lru_cache(maxsize=8)
def _told(text: str) -> Mapping[str, Plugin]:
    return {one["name"]: Plugin(**one) for one in json.loads(text)}


def plugin_of(target: str) -> Plugin | None:
    """The plugin to which a dotted name belongs; None if it belongs to no plugin.

    Raises:
        UnfinishedError: this machine does not have the plugin, or has a different version than the driver.
    """
    plugin = allowed().get(target.partition(".")[0])
    if plugin and plugin.distribution:
        _expect(plugin)
    return plugin


@lru_cache(maxsize=64)
def _expect(plugin: Plugin) -> None:
    """Raise UnfinishedError if the installed version differs from the driver's version."""
    try:
        here = version(plugin.distribution)
    except PackageNotFoundError:
        raise UnfinishedError(
            f"{plugin.distribution} {plugin.version} is not installed on {socket.gethostname()}; install the same "
            "version on all nodes, and run again with the same name"
        ) from None
    if here != plugin.version:
        raise UnfinishedError(
            f"{socket.gethostname()} has {plugin.distribution} {here}, but the sweep's driver has {plugin.version}; "
            "install the same version on all nodes, and run again with the same name"
        )


class _Folders(MetaPathFinder):
    """Finds the plugins that are folders, but no other modules in the same locations."""

    def __init__(self, plugins: Mapping[str, Plugin]) -> None:
        self._plugins = plugins

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a plugin; Python then finds the plugin's submodules in the usual way."""
        plugin = self._plugins.get(fullname)
        return PathFinder.find_spec(fullname, [str(Path(plugin.folder).parent)]) if plugin else None


def _forget() -> None:
    """Stop allowing plugins."""
    os.environ.pop(VARIABLE, None)
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Folders)]


def _declared() -> dict[str, Distribution]:
    """The packages that installed distributions declare."""
    return {point.value: point.dist for point in entry_points(group=ENTRY_POINTS) if point.dist}


def _found(name: str, declared: Mapping[str, Distribution]) -> Plugin:
    """The plugin with this package name; raises ConfigError if it is missing or too large, or has a forbidden name."""
    key = KEY if name not in declared else f"{ENTRY_POINTS} of {declared[name].name}"
    check_name(key, name)
    here, spec = Path.cwd() / name, find_spec(name)
    there = _origin(spec)
    if here.is_dir() and there is None and not (here / "__init__.py").is_file():
        raise ConfigError(key, name, f"must be a package, but {here} has no __init__.py")
    if (here / "__init__.py").is_file():
        if spec is not None and spec.origin and there != here.resolve():
            cure = (
                f"if both are the same package, install yours with `pip install -e {shlex.quote(str(here.parent))}`, "
                "or run from another folder; otherwise, rename yours"
            )
            hidden = f"{here} would hide {there or spec.origin}"
            raise ConfigError(key, name, f"must be a name that no other package has, but {hidden}; {cure}")
        there = here
    if there is None:
        near = difflib.get_close_matches(name, [*_packages(Path.cwd()), *declared], n=1)
        raise ConfigError(key, name, f"{_PACKAGE}" + (f" (did you mean {near[0]}?)" if near else ""))
    distribution = declared.get(name) or (_distribution(name) if spec else None)
    if distribution is None:
        _check_size(name, there)
        return Plugin(name, str(there))
    return Plugin(name, str(there), distribution.name, distribution.version)


def _check_size(name: str, folder: Path) -> None:
    """Raise ConfigError if a folder is too large to be sent to every machine."""
    total = 0
    for path in folder.rglob("*"):
        total += path.stat().st_size if path.is_file() else 0
        if total > _MOST_BYTES:
            most = f"{_MOST_BYTES // 2**20} MiB"
            raise ConfigError(
                KEY,
                name,
                f"a package of at most {most}, because {folder} is sent to all machines; keep data in another folder",
            )


def check_name(key: str, name: str) -> None:
    """Raise ConfigError if a name is not allowed for a plugin."""
    check_module(key, name)
    if name in _OURS:
        raise ConfigError(key, name, f"must not be the name of a package of agent-grid ({', '.join(sorted(_OURS))})")
    if name in sys.stdlib_module_names or name == "__main__":
        raise ConfigError(key, name, "must not be the name of a module of Python itself")


def check_module(key: str, name: str) -> None:
    """Raise ConfigError if a name is not allowed for a module."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ConfigError(key, name, "a name that Python can import, without dots, such as mylab")


def _origin(spec: ModuleSpec | None) -> Path | None:
    """The folder of a package; None for a module, or a folder without `__init__.py`."""
    if spec is None or not spec.origin or Path(spec.origin).name != "__init__.py":
        return None
    return Path(spec.origin).parent.resolve()


def _distribution(name: str) -> Distribution | None:
    """The installed distribution that contains a package; None if there is no such distribution."""
    owners = packages_distributions().get(name)
    return Distribution.from_name(owners[0]) if owners else None


def _packages(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/__init__.py"))


def _check_files(plugins: Mapping[str, Plugin]) -> None:
    """Raise ConfigError if a YAML file would hide another one with the same group and name."""
    holders = dict.fromkeys(_files(CONF), "agent-grid")
    for plugin in plugins.values():
        for file in _files(plugin.conf):
            if file in holders:
                whose = f"this file would hide a file of {holders[file]} with the same name; rename the plugin's file"
                raise ConfigError(KEY, f"{plugin.name}/conf/{file}", whose)
            holders[file] = plugin.name


def _files(conf: Path) -> list[str]:
    return sorted(str(path.relative_to(conf)) for path in conf.rglob("*.yaml"))
