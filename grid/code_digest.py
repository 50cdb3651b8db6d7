"""What a class's results depend on in code: a digest of its module and of all modules of its project that it imports.

Comments, formatting and docstrings do not count. What is imported for type checking only does not either.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

_DIGITS = 16


@lru_cache(maxsize=1024)
def code_digest(modules: tuple[str, ...], also: tuple[str, ...] = ()) -> str:
    """Sixteen hexadecimal digits of the code of some modules and of what they import of their own packages.

    Data files in plain folders beside a module (word lists and the like) belong to it, but for a project's `conf`. Read
    once in a process: a class is not loaded twice either.

    Args:
        modules: dotted names; nothing is imported by being digested but their packages.
        also: further packages whose modules count where they are imported.
    """
    own = frozenset(module.partition(".")[0] for module in modules) | {__package__, *also}
    found = _closure(modules, own)
    parts = [f"{name} {_normalised(found[name])}" for name in sorted(found)]
    data = sorted({file for module in found.values() for file in _data(module.parent)})
    parts += [f"{path.parent.name}/{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in data]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


def _closure(modules: Sequence[str], own: frozenset[str]) -> dict[str, Path]:
    """The modules and all that they import of the top-level packages `own`, with their files."""
    found: dict[str, Path] = {}
    waiting = [*modules]
    while waiting:
        name = waiting.pop()
        if name in found or name.partition(".")[0] not in own:
            continue
        path = _file(name)
        if path is None:
            continue  # an attribute of a module, not a module
        found[name] = path
        if "." in name:
            waiting.append(name.rpartition(".")[0])
        waiting += _imported(name, path)
    return found


def _file(name: str) -> Path | None:
    spec = _spec(name)
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is; None for an attribute of one, which `find_spec` would import to look into it."""
    above = name.rpartition(".")[0]
    package = _spec(above) if above else None
    if above and (package is None or package.submodule_search_locations is None):
        return None
    return find_spec(name)


@lru_cache(maxsize=1024)
def _imported(name: str, path: Path) -> tuple[str, ...]:
    """The dotted names that a module imports, anywhere in it but for type checking; some may be attributes."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    names: list[str] = []
    for node in _run(_tree(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package.split(".")[: package.count(".") + 2 - node.level], *filter(None, [node.module])])
            base = base if node.level else node.module or ""
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return tuple(dict.fromkeys(names))


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for other in node.orelse:
                yield other
                yield from _run(other)
            continue
        yield node
        yield from _run(node)


@lru_cache(maxsize=1024)
def _normalised(path: Path) -> str:
    """A digest of a file's syntax tree without its docstrings."""
    tree = _tree(path)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            # Texts that stand alone are documentation: of a module, class or function, or of the name above them.
            node.body = [part for part in body if not _is_text(part)]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), filename=str(path))


def _data(folder: Path) -> Iterator[Path]:
    """The files in subfolders that are no packages. What a setting takes of its project's `conf` is in its config."""
    project = not (folder.parent / "__init__.py").is_file()
    for inner in folder.iterdir():
        if project and inner.name == "conf":
            continue
        if inner.is_dir() and inner.name != "__pycache__" and not any(inner.glob("*.py")):
            yield from (file for file in inner.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
