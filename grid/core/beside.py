"""Make Python find `analysis` and `launch` beside `grid`, even if the user's folder has folders with these names.

The user's modules in a folder with one of these names are found too, after the project's modules, so that one process
can import both. If the user's folder and the project's folder have a module with the same name, one module hides the
other, and a warning names the user's folder.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

OURS = ("analysis", "launch")
_ROOT = Path(__file__).parents[2]


class _Beside(MetaPathFinder):
    """Finds the project's packages before other finders do; the user's modules come after the project's modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of one of the project's packages; None for all other names."""
        spec = PathFinder.find_spec(fullname, [str(_ROOT)]) if fullname in OURS else None
        if spec is None or spec.submodule_search_locations is None:
            return None
        for theirs in _theirs(fullname):
            spec.submodule_search_locations.append(str(theirs))
            hidden = sorted(_modules(theirs) & {*_modules(_ROOT / fullname), "__init__"})
            _warn(hidden, theirs, f"agent-grid's own package {fullname!r} hides")
        return spec


def find() -> None:
    """Make the project's packages importable.

    A user's package with the same name as a project's package comes first if it has already been imported.
    """
    if any(isinstance(finder, _Beside) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Beside())
    for name in OURS:
        ours, before = _ROOT / name, sys.modules.get(name)
        places = [Path(one).resolve() for one in getattr(before, "__path__", ())]
        if places and ours not in places:
            sys.modules[name].__path__.append(str(ours))
            for theirs in places:
                _warn(sorted(_modules(theirs) & _modules(ours)), theirs, "agent-grid's own modules are hidden by")


def _theirs(name: str) -> list[Path]:
    """Folders with this name on `sys.path` that do not belong to this or any other copy of agent-grid."""
    folders = dict.fromkeys((Path(entry) / name).resolve() for entry in sys.path)
    return [one for one in folders if one != _ROOT / name and one.is_dir() and not (one.parent / "grid/core").is_dir()]


def _modules(folder: Path) -> set[str]:
    """The modules and packages in a folder; `__init__` only if its file is not empty."""
    files = {path.stem for path in folder.glob("*.py") if path.stem != "__init__" or path.stat().st_size}
    return files | {path.parent.name for path in folder.glob("*/__init__.py")}


def _warn(names: Sequence[str], folder: Path, what: str) -> None:
    if names:
        shown = ", ".join(f"{name}.py" for name in names)
        warnings.warn(f"{what} {shown} in {folder}; rename this folder to avoid the conflict", stacklevel=2)
