"""Modules that have another name today: old names still load, with one warning that tells the new one.

The table `moved.txt` has a line for each: the old name and the new one. `python launch/renamed.py FOLDER` writes the
new names into a plugin's files.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType


def table() -> Mapping[str, str]:
    """Today's names by old ones; what moved twice is found by either."""
    lines = (Path(__file__).with_suffix(".txt")).read_text(encoding="utf-8").splitlines()
    found = dict(line.split() for line in lines if line)
    for old, new in found.items():
        while new in found:
            new = found[new]
        found[old] = new
    return found


MOVED = table()
_ROOT = Path(__file__).parents[2]
_EMPTY = {
    package
    for package in (name.rpartition(".")[0] for name in MOVED)
    if package not in MOVED and not (_ROOT / package.replace(".", "/") / "__init__.py").is_file()
}
"""Packages of which every module moved."""


class _Moved(MetaPathFinder, Loader):
    """Finds modules by their old names, before others would find them again in the folder of a package that moved."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in _EMPTY:
            return ModuleSpec(fullname, self, is_package=True)
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if spec.name in _EMPTY:
            return None  # as any module is made
        warnings.warn(f"{spec.name} is {MOVED[spec.name]} now", FutureWarning, stacklevel=2)
        module = import_module(MOVED[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ and module.__spec__.loader_state:
            module.__spec__ = module.__spec__.loader_state


if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Moved())
