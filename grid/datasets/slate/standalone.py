"""One file that needs nothing but Python, out of functions of the project and all that they use: its own source text.

So what others score with is what the grid scores with, not a copy that drifts from it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

_OWN = "grid."


class _Module:
    """A module's source: its top-level definitions, and what it imports at its top level, by name."""

    def __init__(self, name: str) -> None:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise ValueError(f"no module {name}")
        self.name, self.source = name, Path(spec.origin).read_text(encoding="utf-8")
        self.tree = ast.parse(self.source)

    @cached_property
    def definitions(self) -> dict[str, ast.stmt]:
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    found |= {one.id: node for one in ast.walk(target) if isinstance(one, ast.Name)}
        return found

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """By name the module and what is taken of it; nothing ("") where it is the module itself."""
        found: dict[str, tuple[str, str]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                found |= {one.asname or one.name: (one.name, "") for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {one.asname or one.name: (node.module or "", one.name) for one in node.names}
        return found

    def text(self, node: ast.stmt) -> str:
        """A definition as it stands in the file, with its decorators and the text below that says what it is."""
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(one.lineno for one in decorators)])
        place = self.tree.body.index(node)
        below = self.tree.body[place + 1 : place + 2]
        documented = isinstance(node, ast.Assign | ast.AnnAssign) and below and _is_text(below[0])
        last = below[0].end_lineno if documented else node.end_lineno
        return "\n".join(self.source.splitlines()[first - 1 : last])


def standalone(module: str, roots: Sequence[str], heading: str) -> str:
    """The file: a docstring, the imports, and the definitions of `roots` with all that they use, module by module.

    Raises:
        ValueError: something that is used is not of the standard library, or two modules define one name.
    """
    modules: dict[str, _Module] = {}
    wanted: dict[str, set[str]] = {}  # in an order in which each module comes behind those that it uses
    outside: set[tuple[str, str, str]] = set()

    def take(name: str, names: Sequence[str]) -> None:
        if name not in modules:
            modules[name] = _Module(name)
        own = modules[name]
        taken = wanted.get(name, set())
        new = [one for one in names if one not in taken]
        wanted[name] = taken | set(new)
        for one in new:
            for used in _used(own.definitions[one]):
                if used in own.definitions:
                    take(name, [used])
                elif used in own.imports:
                    source, part = own.imports[used]
                    if source.startswith(_OWN) and used == part:
                        take(source, [part])
                    elif source.partition(".")[0] in sys.stdlib_module_names:
                        outside.add((source, part, used))
                    else:
                        raise ValueError(f"{name}: {used} of {source} can be no part of a file that stands alone")

    take(module, roots)
    order = _ordered(modules, wanted)
    _check_names(wanted)
    blocks = [f'"""{heading.strip()}\n"""', "from __future__ import annotations", _imports(outside)]
    for name in order:
        nodes = sorted({id(n): n for n in (modules[name].definitions[one] for one in wanted[name])}.values(), key=_line)
        blocks.append(f"# {name.replace('.', '/')}.py")
        blocks += [modules[name].text(node) for node in nodes]
    return "\n\n\n".join([*blocks, 'if __name__ == "__main__":\n    sys.exit(main())']) + "\n"


def _used(node: ast.stmt) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name))


def _ordered(modules: dict[str, _Module], wanted: dict[str, set[str]]) -> list[str]:
    """The modules, each behind those whose definitions its own use."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        used = {one for wants in wanted[name] for one in _used(modules[name].definitions[wants])}
        for source, _ in (modules[name].imports[one] for one in sorted(used & modules[name].imports.keys())):
            if source in modules and source != name:
                visit(source)
        order.append(name)

    for name in wanted:
        visit(name)
    return order


def _check_names(wanted: dict[str, set[str]]) -> None:
    owner: dict[str, str] = {}
    for module, names in wanted.items():
        for name in names:
            if owner.setdefault(name, module) != module:
                raise ValueError(f"{name} is defined in {owner[name]} and in {module}")


def _imports(outside: set[tuple[str, str, str]]) -> str:
    """Lines of imports; `outside` has module, what is taken of it (nothing: the module), and the name here."""
    whole, parts = [], dict[str, list[str]]()
    for module, part, name in sorted(outside):
        if part:
            parts.setdefault(module, []).append(part if part == name else f"{part} as {name}")
        else:
            whole.append(f"import {module}" if module == name else f"import {module} as {name}")
    return "\n".join([*whole, *(f"from {module} import {', '.join(names)}" for module, names in parts.items())])


def _line(node: ast.stmt) -> int:
    return node.lineno


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
