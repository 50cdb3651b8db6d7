"""Take modules into their only readers: `python launch/merged.py ROOM... [--dry]`, where a room is `grid.worlds`, say.

A module goes into the one file that imports it, if that file lies beside it, both have 600 lines at most together, and
no name stands in the way; no `_target_` of `conf` names it. What it says of itself stands above its part as a comment.
Its old name is written into `grid/core/moved.txt`; `python launch/renamed.py .` and `ruff check --fix` come after.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST = 600
_TOPS = ("grid", "analysis", "launch")
_BUILTINS = frozenset(dir(builtins))
_FACES = ("__init__", "__main__")
_UNCOUNTED = ("analysis.", "launch.", "grid.cells.", "grid.cluster.", "grid.settings.", "grid.store.", "grid.sweeps.")
"""Where names of definitions are in no digest of what a cell's class reaches."""
_Import = ast.Import | ast.ImportFrom
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class InTheWayError(Exception):
    """Why a module stays where it is."""


@dataclass(frozen=True)
class Module:
    """A file as it was read."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its statements."""
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> list[str]:
        """With their ends."""
        return self.text.splitlines(keepends=True)

    @cached_property
    def typing_only(self) -> list[ast.If]:
        """Its blocks of imports for annotations."""
        return [node for node in self.tree.body if _is_typing_only(node) and isinstance(node, ast.If)]

    @cached_property
    def imports(self) -> list[_Import]:
        """Those at its top, for annotations too."""
        inner = [node for block in self.typing_only for node in block.body]
        return [node for node in [*self.tree.body, *inner] if isinstance(node, _Import)]

    @cached_property
    def definitions(self) -> set[str]:
        """The names that it binds at its top, but by imports."""
        found = set[str]()
        for node in self.tree.body:
            if isinstance(node, _Function | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
            elif not (isinstance(node, _Import | ast.Expr) or _is_typing_only(node)):
                raise InTheWayError(f"{self.name} has a {type(node).__name__} at its top")
        return found

    @cached_property
    def names(self) -> set[str]:
        """Every name that it reads or binds anywhere."""
        return {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}

    @cached_property
    def locals(self) -> set[str]:
        """Names that some scope of it binds."""
        found = {node.arg for node in ast.walk(self.tree) if isinstance(node, ast.arg)}
        stored = (
            node for node in ast.walk(self.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        return found | {node.id for node in stored}

    def bound(self, without: Iterable[ast.alias] = ()) -> dict[str, tuple[str, ...]]:
        """What each name of its imports stands for."""
        found: dict[str, tuple[str, ...]] = {}
        for node in self.imports:
            for alias in (alias for alias in node.names if alias not in without):
                if isinstance(node, ast.Import):
                    found[alias.asname or alias.name.partition(".")[0]] = (alias.name, alias.asname or "")
                else:
                    found[alias.asname or alias.name] = (node.module or "", alias.name)
        return found


def _is_typing_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


class House:
    """All modules, and who imports whom."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[str, Module, set[str]]] = {}
        self.targets = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "conf").rglob("*.yaml"))

    def modules(self) -> dict[str, Module]:
        """By dotted name."""
        found = {}
        for path in (path for top in _TOPS for path in (ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8")
            if path not in self._read or self._read[path][0] != text:
                module = Module(name, path, text)
                self._read[path] = text, module, set(_dotted(module.tree))
            found[name] = self._read[path][1]
        return found

    def readers(self, modules: dict[str, Module]) -> dict[str, set[str]]:
        """By module, those that import it or something in it."""
        found: dict[str, set[str]] = {name: set() for name in modules}
        for module in modules.values():
            for one in self._read[module.path][2]:
                name = one
                while name and name not in modules:
                    name = name.rpartition(".")[0]
                if name and name != module.name:
                    found[name].add(module.name)
        return found

    def lone(self, rooms: list[str]) -> Iterator[tuple[Module, Module]]:
        """Modules with one reader beside them, the shortest first, and the reader; none that a config names."""
        modules = self.modules()
        readers = self.readers(modules)
        for module in sorted(modules.values(), key=lambda one: len(one.lines)):
            if module.path.stem in _FACES or not f"{module.name}.".startswith(tuple(f"{room}." for room in rooms)):
                continue
            if len(readers[module.name]) != 1 or re.search(rf"{re.escape(module.name)}\.\w", self.targets):
                continue
            reader = modules[next(iter(readers[module.name]))]
            if reader.path.parent == module.path.parent and reader.path.stem not in _FACES:
                yield reader, module


def _dotted(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@dataclass(frozen=True)
class Merging:
    """A module on its way into its reader; checked as it is made.

    Raises:
        InTheWayError: it has to stay.
    """

    reader: Module
    module: Module

    def __post_init__(self) -> None:
        """Refuse what would mean something else."""
        reader, module = self.reader, self.module
        if len(reader.lines) + len(module.lines) > MOST:
            raise InTheWayError("together they are too long")
        if "__name__ ==" in module.text:
            raise InTheWayError("it is a command")
        if any(one == reader.name or one.startswith(f"{reader.name}.") for one in _dotted(module.tree)):
            raise InTheWayError("it reads its reader")
        late = [node for node in ast.walk(reader.tree) if isinstance(node, _Import) and node not in reader.imports]
        if any(self._names(node) for node in late) or any(self._names(node) == "whole" for node in reader.imports):
            raise InTheWayError("it is imported late, or by its whole name")
        mine, theirs = module.bound(), reader.bound(without=self._ours)
        clash = module.definitions & (reader.definitions | theirs.keys()) | reader.definitions & mine.keys()
        clash |= {name for name in mine.keys() & theirs.keys() if mine[name] != theirs[name]}
        clash |= module.names & _BUILTINS & (reader.definitions | theirs.keys())
        clash |= reader.names & _BUILTINS & (module.definitions | mine.keys())
        if clash:
            raise InTheWayError(f"both have {', '.join(sorted(clash))}")
        self._check_taken()

    def _check_taken(self) -> None:
        renamed = [name for name in self._ours if name.asname not in (None, name.name)]
        taken = {name.name for node in self.gone for name in node.names if self._names(node) == "names"}
        if renamed and not self.alias:
            raise InTheWayError(f"its reader has another name for {renamed[0].name}")
        attributes = {node.attr for node in self._attributes}
        if attributes & self.reader.locals:
            raise InTheWayError(f"locals hide {', '.join(sorted(attributes & self.reader.locals))}")
        named = sum(isinstance(node, ast.Name) and node.id == self.alias for node in ast.walk(self.reader.tree))
        if self.alias and named != len(self._attributes):
            raise InTheWayError("its reader takes it for a value")
        if (taken | attributes) - self.module.definitions:
            raise InTheWayError("its reader takes what it imports")

    def _names(self, node: _Import) -> str:
        """How an import names the module; nothing where it does not."""
        package, _, last = self.module.name.rpartition(".")
        if isinstance(node, ast.Import):
            return "whole" * any(alias.name == self.module.name for alias in node.names)
        if node.module == self.module.name:
            return "names"
        return "module" * (node.module == package and any(alias.name == last for alias in node.names))

    @cached_property
    def gone(self) -> list[ast.ImportFrom]:
        """The reader's imports of it."""
        return [node for node in self.reader.imports if isinstance(node, ast.ImportFrom) and self._names(node)]

    @property
    def _ours(self) -> list[ast.alias]:
        """What these take of it, or it itself."""
        names = ((node, name) for node in self.gone for name in node.names)
        return [name for node, name in names if self._names(node) == "names" or name.name == self._last]

    @cached_property
    def alias(self) -> str | None:
        """The name by which the reader knows it."""
        last = self.module.name.rpartition(".")[2]
        names = (name for node in self.gone if self._names(node) == "module" for name in node.names)
        return next((name.asname or name.name for name in names if name.name == last), None)

    @cached_property
    def _attributes(self) -> list[ast.Attribute]:
        return [
            node
            for node in ast.walk(self.reader.tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self.alias
        ]

    def write(self) -> None:
        """Write the reader, remove the module, and note where it went."""
        lines = self._reader_lines()
        imports = "".join(
            "".join(self.module.lines[node.lineno - 1 : node.end_lineno])
            for node in self.module.tree.body
            if isinstance(node, _Import) and not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
        )
        inner = [node for block in self.module.typing_only for node in block.body]
        for_types = "".join("".join(self.module.lines[node.lineno - 1 : node.end_lineno or 0]) for node in inner)
        at_top = [node for node in self.reader.tree.body if isinstance(node, _Import)]
        last = max((node.end_lineno or 0 for node in at_top), default=0)
        end = max([last, *(block.end_lineno or 0 for block in self.reader.typing_only)])
        if for_types and self.reader.typing_only:
            place = self.reader.typing_only[0].lineno
            lines[place] = for_types + lines[place]
        elif for_types:
            imports += "from typing import TYPE_CHECKING\n"
        lines[last - 1] += imports
        if for_types and not self.reader.typing_only:
            lines[end - 1] += f"\n\nif TYPE_CHECKING:\n{for_types}\n"
        if executed(self.reader.tree) & (self.module.definitions | {self.alias or ""}):
            lines[end - 1] += self._part()
            text = "".join(lines)
        else:
            text = "".join(lines).rstrip("\n") + "\n" + self._part()
        self.reader.path.write_text(text, encoding="utf-8")
        self.module.path.unlink()
        with (ROOT / "grid/core/moved.txt").open("a", encoding="utf-8") as table:
            table.write(f"{self.module.name} {self.reader.name}\n")

    def _reader_lines(self) -> list[str]:
        lines = list(self.reader.lines)
        for named in sorted(self._attributes, key=lambda one: (-one.lineno, -one.col_offset)):
            line = lines[named.lineno - 1].encode()
            begin, behind = named.col_offset, named.col_offset + len(f"{self.alias}.".encode())
            lines[named.lineno - 1] = (line[:begin] + line[behind:]).decode()
        for node in self.gone:
            kept = [name for name in node.names if self._names(node) == "module" and name.name != self._last]
            written = ", ".join(f"{name.name} as {name.asname}" if name.asname else name.name for name in kept)
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - node.lineno + 1)
            lines[node.lineno - 1] = f"{' ' * node.col_offset}from {node.module} import {written}\n" if kept else ""
        for block in self.reader.typing_only:
            if not any(line.strip() for line in lines[block.lineno : block.end_lineno]):
                lines[block.lineno] = "    pass\n"
        return lines

    @property
    def _last(self) -> str:
        return self.module.name.rpartition(".")[2]

    def _part(self) -> str:
        """The module's own text, under what it says of itself."""
        lines, tree = list(self.module.lines), self.module.tree
        said = ast.get_docstring(tree) or ""
        dropped = [node for node in tree.body if isinstance(node, _Import) or _is_typing_only(node)]
        for node in [*tree.body[: bool(said)], *dropped]:
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - node.lineno + 1)
        paragraphs = ("\n".join(textwrap.wrap(" ".join(one.split()), 118)) for one in said.split("\n\n"))
        comment = "\n#\n".join(textwrap.indent(one, "# ") for one in paragraphs)
        return f"\n\n{comment}\n\n\n{''.join(lines).strip(chr(10))}\n"


def executed(tree: ast.Module) -> set[str]:
    """The names that are read as a module is imported: outside functions, annotations of classes included."""
    found = set[str]()

    def take(nodes: Iterable[ast.AST | None]) -> None:
        found.update(one.id for node in nodes if node for one in ast.walk(node) if isinstance(one, ast.Name))

    def statements(body: list[ast.stmt], in_class: bool) -> None:
        for node in body:
            if isinstance(node, _Function):
                take([*node.decorator_list, *node.args.defaults, *node.args.kw_defaults])
            elif isinstance(node, ast.ClassDef):
                take([*node.decorator_list, *node.bases, *(word.value for word in node.keywords)])
                statements(node.body, in_class=True)
            elif isinstance(node, ast.AnnAssign):
                take([node.value, *[node.annotation] * in_class])
            elif not _is_typing_only(node):
                take([node])

    statements(tree.body, in_class=False)
    bodies = {node.name: node.body for node in tree.body if isinstance(node, _Function)}
    while called := found & bodies.keys():  # what a function reads that may run then
        take([node for name in called for node in bodies.pop(name)])
    return found


def told_apart(reader: Module, module: Module) -> tuple[Module, Module]:
    """Both, where the standard `dataclass` has another name than pydantic's, and no private name means two things."""
    if {"dataclasses", "pydantic.dataclasses"} == {one.bound().get("dataclass", ("",))[0] for one in (reader, module)}:
        reader, module = _plain(reader), _plain(module)
    bound = reader.definitions | reader.bound().keys()
    for name in sorted(module.definitions & bound) if module.name.startswith(_UNCOUNTED) else ():
        if name.startswith("_") and not name.startswith("__"):
            last = module.name.rpartition(".")[2]
            other = f"_{last.upper() if name.isupper() else last}{name}"
            module = replace(module, text=re.sub(rf"(?<![\w.\"']){name}\b", other, module.text))
    return reader, module


def _plain(module: Module) -> Module:
    """Where its `dataclass` is the standard one, that is called `plain_dataclass`."""
    if module.bound().get("dataclass") != ("dataclasses", "dataclass"):
        return module
    text = re.sub(
        r"^(from dataclasses import .*?)\bdataclass\b", r"\1dataclass as plain_dataclass", module.text, flags=re.M
    )
    return replace(module, text=re.sub(r"^(\s*)@dataclass\b", r"\1@plain_dataclass", text, flags=re.M))


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="+", metavar="ROOM")
    parser.add_argument("--dry", action="store_true", help="say what would go where, and what stays")
    given = parser.parse_args(arguments)
    house, tried = House(), set[str]()
    while True:
        pair = next((pair for pair in house.lone(given.rooms) if pair[1].name not in tried), None)
        if pair is None:
            return 0
        tried.add(pair[1].name)
        try:
            merging = Merging(*told_apart(*pair))
        except InTheWayError as error:
            print(f"{pair[1].name} stays beside {pair[0].name}: {error}")
            continue
        if not given.dry:
            merging.write()
        print(f"{pair[1].name} -> {pair[0].name}")


if __name__ == "__main__":
    raise SystemExit(main())
