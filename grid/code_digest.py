"""What a class's results depend on in code: a digest of the definitions that it reaches, whatever files they stand in.

A definition is what a module binds at its top: a function, a class, a constant. It reaches what it names, followed
through imports and the faces of packages; where a name cannot be followed, the whole module that it comes from. Names
of modules and files, imports, docstrings, comments, formatting and annotations do not count, so that moving code
changes nothing, nor does code beside it that is not reached.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_DIGITS = 16
_ROUNDS = 2  # in which a definition's digest takes in those that it names
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
_READERS = ("importlib.resources", "pkgutil")
_OUTSIDE = ("decorator_list", "args", "bases", "keywords")
"""Fields of functions and classes that are read outside them; their names are no local ones."""
_TYPING_ONLY = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_SCOPES = _Function | ast.ClassDef | ast.Lambda | _Comprehension


class Name(NamedTuple):
    """A definition: the module that binds it, and its name there; without a name, the whole module."""

    module: str
    name: str | None


@lru_cache(maxsize=1024)
def code_digest(names: tuple[str, ...], also: tuple[str, ...] = ()) -> str:
    """Sixteen hexadecimal digits of the code that some definitions reach in their own packages.

    Data files in plain folders of a package (word lists and the like) belong to the definitions that name `__file__`
    or `importlib.resources`, but for a project's `conf`. Read once in a process: a class is not loaded twice either.

    Args:
        names: dotted names of definitions, or of modules, of which all counts; nothing is imported by being digested.
        also: further packages whose definitions count where they are reached.
    """
    own = frozenset(name.partition(".")[0] for name in names) | {__package__, *also}
    found = reached(names, own)
    digests = {one: part.digest for one, part in found.items()}
    for _ in range(_ROUNDS):
        digests = {
            one: _hash(part.digest, *(digests.get(other, "") for other in part.names)) for one, part in found.items()
        }
    return _hash(*sorted(set(digests.values())))[:_DIGITS]


def digest_of(*definitions: Callable[..., object]) -> str:
    """The digest of some functions or classes and of what they reach, in their own packages and this one."""
    return code_digest(tuple(f"{one.__module__}.{one.__qualname__}" for one in definitions))


def reached(names: Sequence[str], own: frozenset[str]) -> dict[Name, Definition]:
    """The definitions that some dotted names reach in the packages `own`."""
    found: dict[Name, Definition] = {}
    waiting = [_found(name, own) for name in names]
    while waiting:
        one = waiting.pop()
        if one in found:
            continue
        found[one] = definition(one, own)
        waiting += found[one].names
    return found


@dataclass(frozen=True)
class Definition:
    """A digest of a definition's own text, and what it names, in the order of naming."""

    digest: str
    names: tuple[Name, ...]


@lru_cache(maxsize=65_536)
def definition(one: Name, own: frozenset[str]) -> Definition:
    """One definition of the packages `own`, or all of a module."""
    module = _module(one.module)
    if one.name is None:
        return Definition("", tuple(Name(one.module, name) for name in [*module.bound, *module.loose]))
    statements = module.bound.get(one.name) or [module.loose[one.name]]
    writer = _Writer(module, own)
    for statement in statements:
        writer.write(statement)
    if one.name in module.bound:
        writer.names += [Name(one.module, name) for name, loose in module.loose.items() if one.name in _words(loose)]
    data = _data(module) if writer.reads_files else []
    return Definition(_hash("".join(writer.text), *data), tuple(dict.fromkeys(writer.names)))


@dataclass
class _Module:
    """What a module binds at its top, by name; `loose` are its statements that bind nothing, by their place."""

    name: str
    path: Path
    bound: dict[str, list[ast.stmt]] = field(default_factory=dict)
    loose: dict[str, ast.stmt] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    def add(self, body: Sequence[ast.stmt]) -> None:
        """Sort the statements of a body that runs when the module is loaded."""
        for place, statement in enumerate(body):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self._import(statement)
                continue
            names = [name for name in _bound(statement) if name != "__all__"]
            for name in names:
                self.bound.setdefault(name, []).append(statement)
            if isinstance(statement, ast.If | ast.Try):
                for inner in _nested_imports(statement):
                    self._import(inner)
            if _registers(statement) or not (names or _is_idle(statement)):
                self.loose[f"{place} {len(self.loose)}"] = statement

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        for name, target in _imported(statement, self.package):
            if name == "*":
                self.stars.append(target[0])
            else:
                self.imports[name] = target

    @property
    def package(self) -> str:
        """The package that its relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@lru_cache(maxsize=4096)
def _module(name: str) -> _Module:
    path = _file(name)
    if path is None:
        raise ValueError(f"{name}: no module")
    found = _Module(name, path)
    found.add(ast.parse(path.read_bytes(), filename=str(path)).body)
    return found


def _found(dotted: str, own: frozenset[str]) -> Name:
    """What a dotted name stands for: the longest part that is a module, and what that binds."""
    parts = dotted.split(".")
    for place in range(len(parts), 0, -1):
        module = ".".join(parts[:place])
        if _file(module):
            return _member(module, parts[place:], own)[0] if place < len(parts) else Name(module, None)
    raise ValueError(f"{dotted}: no module of that name, nor a part of one")


def _member(module: str, names: Sequence[str], own: frozenset[str]) -> tuple[Name, Sequence[str]]:
    """What `module.name.name…` is, and the names that are left; the whole module where nobody knows."""
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while names and (module, tuple(names)) not in seen:
        seen.add((module, tuple(names)))
        within, (first, *rest) = _module(module), names
        if first in within.bound:
            return Name(module, first), rest
        if first in within.imports:
            source, attribute = within.imports[first]
            if source.partition(".")[0] not in own or not _file(source):
                return Name("", first), rest
            module, names = source, [*filter(None, [attribute]), *rest]
            if attribute and _file(f"{source}.{attribute}") and attribute not in _module(source).bound:
                module, names = f"{source}.{attribute}", rest
        elif _file(f"{module}.{first}"):
            module, names = f"{module}.{first}", rest
        else:
            star = next((one for one in within.stars if _file(one) and first in _module(one).bound), None)
            if star is None:
                break
            module = star
    return Name(module, None), names


class _Writer:
    """Writes statements so that only what can change a result shows: names of their own packages as what they are."""

    def __init__(self, module: _Module, own: frozenset[str]) -> None:
        self._module, self._own = module, own
        self._inner: dict[str, tuple[str, str | None]] = {}
        self._scopes: list[tuple[bool, set[str]]] = []  # whether it is a class's, and what it binds
        self._annotated = False
        self.text: list[str] = []
        self.names: list[Name] = []
        self.reads_files = False

    def write(self, statement: ast.stmt) -> None:
        """Write one statement, with the imports that stand inside it known."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._inner |= dict(_imported(node, self._module.package))
        self._node(statement)

    def _node(self, node: ast.AST) -> None:
        chain = _chain(node)
        if chain and self._reference(chain):
            return
        if isinstance(node, ast.Constant):
            self._constant(node.value)
        elif isinstance(node, ast.If) and ast.unparse(node.test) in _TYPING_ONLY:
            self._body(node.orelse)
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            before, self._annotated = self._annotated, self._annotated or _registers(node)
            self.text.append(f"({type(node).__name__}")
            fields = dict(_fields(node, self._annotated))
            if isinstance(node, _SCOPES):
                self._all({name: fields.pop(name) for name in _OUTSIDE if name in fields})
                self._scopes.append((isinstance(node, ast.ClassDef), _own_names(node)))
                self._all(fields)
                self._scopes.pop()
            else:
                self._all(fields)
            self._annotated = before
            self.text.append(")")

    def _all(self, fields: Mapping[str, object]) -> None:
        for name, value in fields.items():
            self.text.append(f" {name}=")
            self._value(value)

    def _is_local(self, name: str) -> bool:
        """Whether a function around binds it, or the class whose body this is."""
        last = len(self._scopes) - 1
        return any(
            name in own and (not of_class or place == last) for place, (of_class, own) in enumerate(self._scopes)
        )

    def _value(self, value: object) -> None:
        if isinstance(value, ast.AST):
            self._node(value)
        elif isinstance(value, list):
            self._body(value)
        else:
            self.text.append(repr(value))

    def _body(self, nodes: Sequence[ast.AST]) -> None:
        self.text.append("[")
        for node in nodes:
            if not _is_text(node):
                self._value(node)
        self.text.append("]")

    def _constant(self, value: object) -> None:
        self.text.append(f"{type(value).__name__} {value!r}")
        if isinstance(value, str) and _DOTTED.fullmatch(value) and value.partition(".")[0] in self._own:
            first = value.rpartition(".")[0]
            if _file(first) and (value.rpartition(".")[2] in _module(first).bound or _file(value)):
                self.names.append(_found(value, self._own))

    def _reference(self, chain: Sequence[str]) -> bool:
        """Write what a name of the own packages stands for; False for any other name."""
        first, *rest = chain
        self.reads_files |= first == "__file__"
        if first not in self._inner and self._is_local(first):
            return False
        source = self._inner.get(first) or (None if first in self._module.bound else self._module.imports.get(first))
        if source:
            module, attribute = source
            self.reads_files |= ".".join([module, *filter(None, [attribute]), *rest]).startswith(_READERS)
            if module.partition(".")[0] not in self._own or not _file(module):
                self.text.append(f"<{'.'.join(filter(None, source))} {' '.join(rest)}>")
                return True
            if attribute and _file(f"{module}.{attribute}") and attribute not in _module(module).bound:
                module, attribute = f"{module}.{attribute}", None
            target, left = _member(module, [*filter(None, [attribute]), *rest], self._own)
        elif first in self._module.bound or self._starred(first):
            target, left = _member(self._module.name, chain, self._own)
        else:
            return False
        if target.module:
            self.names.append(target)
        self.text.append(f"<@{target.name or ''} {' '.join(left)}>")
        return True

    def _starred(self, name: str) -> bool:
        own = (one for one in self._module.stars if one.partition(".")[0] in self._own)
        return any(name in _module(one).bound for one in own)


def _fields(node: ast.AST, annotated: bool) -> Iterator[tuple[str, object]]:
    """What counts of a node, the same in all versions of Python: no empty fields, annotations only where asked for."""
    dropped = {"ctx", "kind", "type_comment", "type_params", "simple"}
    if not annotated:
        dropped |= {"annotation", "returns"}
    for name, value in ast.iter_fields(node):
        if name not in dropped and value is not None and value != []:
            yield name, value


def _chain(node: ast.AST) -> list[str]:
    """`a.b.c` as its names; empty for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement at a module's top binds, inside conditions and attempts too."""
    if isinstance(statement, _Function | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
        if isinstance(statement, ast.If) and ast.unparse(statement.test) in _TYPING_ONLY:
            return
        for part in ("body", "orelse", "finalbody"):
            for inner in getattr(statement, part, []):
                yield from _bound(inner)
        for handler in getattr(statement, "handlers", []):
            for inner in handler.body:
                yield from _bound(inner)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            if not isinstance(target, ast.Attribute | ast.Subscript):
                yield from sorted(_words(target))


def _own_names(node: ast.AST) -> set[str]:
    """The names that a function, a lambda, a class or a comprehension binds for itself."""
    found, outer = set[str](), set[str]()
    if isinstance(node, _Comprehension):
        return {word for one in node.generators for word in _words(one.target)}
    if isinstance(node, _Function | ast.Lambda):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        found |= {one.arg for one in every if one}
    if isinstance(node, ast.Lambda):
        return found
    waiting: list[ast.AST] = [*node.body] if isinstance(node, _Function | ast.ClassDef) else []
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, _Function | ast.ClassDef):
            found.add(inner.name)
            continue
        if isinstance(inner, ast.Global | ast.Nonlocal):
            outer |= set(inner.names)
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id)
        elif isinstance(inner, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and inner.name:
            found.add(inner.name)
        waiting += [] if isinstance(inner, _Comprehension | ast.Lambda) else ast.iter_child_nodes(inner)
    return found - outer


def _registers(node: ast.AST) -> bool:
    """Whether a function is registered with another one, as singledispatch has it, which looks at annotations."""
    return isinstance(node, _Function) and any(
        "register" in _chain(one.func if isinstance(one, ast.Call) else one)[1:] for one in node.decorator_list
    )


def _is_idle(statement: ast.stmt) -> bool:
    """Whether a statement does nothing for who imports its module."""
    main = isinstance(statement, ast.If) and "__name__" in _words(statement.test)
    typing = isinstance(statement, ast.If) and ast.unparse(statement.test) in _TYPING_ONLY
    faces = isinstance(statement, ast.Assign) and [*_bound(statement)] == ["__all__"]
    return main or typing or faces or _is_text(statement) or isinstance(statement, ast.Pass)


def _is_text(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _words(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _nested_imports(statement: ast.stmt) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a condition or an attempt at a module's top, but for those that are for type checking."""
    if isinstance(statement, ast.If) and ast.unparse(statement.test) in _TYPING_ONLY:
        return
    for inner in ast.walk(statement):
        if isinstance(inner, ast.Import | ast.ImportFrom):
            yield inner


def _imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """The names that an import binds, each with its module and, where it is of one, the attribute."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            first = alias.name.partition(".")[0]
            yield alias.asname or first, (alias.name if alias.asname else first, None)
        return
    above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
    module = ".".join([*above, *filter(None, [node.module])])
    for alias in node.names:
        yield alias.asname or alias.name, (module, alias.name)


@lru_cache(maxsize=16_384)
def _file(name: str) -> Path | None:
    spec = _spec(name)
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is; None for an attribute of one. No package is imported."""
    above = name.rpartition(".")[0]
    if not above:
        return find_spec(name)
    package = _spec(above)
    inside = package.submodule_search_locations if package else None
    return PathFinder.find_spec(name, list(inside)) if inside else None


def _data(module: _Module) -> list[str]:
    """Digests of the files in folders that are no packages, beside a module or above it in its package.

    Each with its name from that folder on. What a setting takes of its project's `conf` is in its config.
    """
    found, depth = [], module.name.count(".") + (module.path.name == "__init__.py")
    for folder in module.path.parents[:depth]:
        project = folder == module.path.parents[depth - 1]
        for inner in folder.iterdir():
            plain = inner.is_dir() and inner.name != "__pycache__" and not any(inner.glob("*.py"))
            if plain and not (project and inner.name == "conf"):
                files = (file for file in inner.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
                found += [f"{file.relative_to(folder).as_posix()} {_hash(file.read_bytes())}" for file in files]
    return sorted(found)


def _hash(*parts: str | bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else part.encode())
        found.update(b"\0")
    return found.hexdigest()
