"""A digest of the code on which a class's results depend: all definitions that the class reaches, in any file.

A definition is a name that a module binds at its top level: a function, a class or a constant. A definition reaches the
definitions that it names, including names that lead to a definition through imports and through the public names of
packages. If a name cannot be traced to its definition, the whole module from which the name comes is reached. Changes
that a module makes to its own definitions at the top level (`TABLE[key] = value`) count too; changes made by other
modules do not. Names of modules and files, imports, docstrings, comments, formatting and annotations do not count. So
the digest stays the same if code moves, or if code that is not reached changes.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, TypeGuard

_DIGITS = 16
_TRIES = 5
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.\w+)+")
_CODE = (".py", ".pyc", ".pyi")
_READERS = ("importlib.resources", "pkgutil")
_OUTSIDE = ("decorator_list", "args", "bases", "keywords")
"""Fields of a function or class that are evaluated outside its scope; names in these fields are not local."""
_DROPPED = frozenset({"ctx", "kind", "type_comment", "type_params", "simple"})
_ANNOTATIONS = frozenset({"annotation", "returns"})
_TYPING_ONLY = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Compound = ast.If | ast.Try | ast.With | ast.For | ast.While | ast.Match
_SCOPES = _Function | ast.ClassDef | ast.Lambda | _Comprehension


class Name(NamedTuple):
    """A definition, identified by the module that binds it and by its name; the name None means the whole module."""

    module: str
    name: str | None


@lru_cache(maxsize=1024)
def code_digest(names: tuple[str, ...], also: tuple[str, ...] = ()) -> str:
    """Sixteen hexadecimal digits for the code that the given definitions reach in their own packages and this package.

    Data files of a package, such as word lists, belong to the definitions that name `__file__`, `importlib.resources`
    or `pkgutil`. Only data files next to modules or in folders without modules count; files in a project's
    `conf` do not. Code is read only once per process, because a class, too, is loaded only once.

    Args:
        names: dotted names of definitions, or of modules that count as a whole; no module is imported.
        also: further packages whose definitions count if they are reached.

    Raises:
        ValueError: a name is neither a module nor a name in a module.
    """
    own = frozenset(name.partition(".")[0] for name in names) | {__package__, *also}
    found = reached(names, own)
    digests, kinds = {one: part.digest for one, part in found.items()}, 0
    while len(set(digests.values())) > kinds:  # each round follows references one step further
        kinds = len(set(digests.values()))
        digests = {one: _hash(part.digest, *part.named(digests)) for one, part in found.items()}
    roots = {digests[_found(name, own)] for name in names}
    return _hash(*sorted(roots), "", *sorted(set(digests.values())))[:_DIGITS]


def digest_of(*definitions: Callable[..., object]) -> str:
    """The digest of functions or classes and of the definitions they reach, in their own packages and this package."""
    return code_digest(tuple(f"{one.__module__}.{one.__qualname__}" for one in definitions))


def reached(names: Sequence[str], own: frozenset[str]) -> dict[Name, Definition]:
    """The definitions that the given dotted names reach in the packages `own`."""
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
    """The digest of a definition's own text (empty for a module), and the definitions that it names, in order."""

    digest: str
    names: tuple[Name, ...]

    def named(self, digests: Mapping[Name, str]) -> list[str]:
        """The digests of the named definitions; a module's are sorted, because their order does not count."""
        found = [digests[one] for one in self.names]
        return found if self.digest else sorted(set(found))


@lru_cache(maxsize=65_536)
def definition(one: Name, own: frozenset[str]) -> Definition:
    """One definition in the packages `own`, or a whole module."""
    module = _module(one.module)
    if one.name is None:
        return Definition("", tuple(dict.fromkeys(_whole(module, own))))
    statements = module.bound.get(one.name) or [module.loose[one.name]]
    writer = _Writer(module, own)
    for statement in statements:
        writer.write(statement)
    if one.name in module.bound:
        writer.names += [Name(one.module, name) for name, loose in module.loose.items() if one.name in _words(loose)]
        writer.names += _imported_too(module, one.name, own)
    return Definition(_hash("".join(writer.text), *writer.data()), tuple(dict.fromkeys(writer.names)))


def _whole(module: _Module, own: frozenset[str]) -> Iterator[Name]:
    """Everything that a module binds, executes at its top level, or imports from modules in the packages `own`."""
    yield from (Name(module.name, name) for name in [*module.bound, *module.loose])
    for name in module.imports:
        yield from _imported_too(module, name, own)
    yield from (Name(star, None) for star in module.stars if star.partition(".")[0] in own and _file(star))


def _imported_too(module: _Module, name: str, own: frozenset[str]) -> Iterator[Name]:
    """The definition that a module imports under a name, if any; the module may bind it too: `f = wrapped(f)`."""
    if name in module.imports:
        source, attribute = module.imports[name]
        target = _member(source, [attribute] if attribute else [], own)[0]
        if target.module:
            yield target


@dataclass
class _Module:
    """The top-level bindings of a module, by name; `loose` contains the statements that bind nothing, by position.

    `face` contains the imports for type checkers in a package's `__init__`; the package may load such names on first
    use.
    """

    name: str
    path: Path
    bound: dict[str, list[ast.stmt]] = field(default_factory=dict)
    loose: dict[str, ast.stmt] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    face: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    def add(self, body: Sequence[ast.stmt]) -> None:
        """Add the statements in a body that runs when the module is loaded, sorted by kind."""
        for place, statement in enumerate(body):
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self._import(statement)
                continue
            if self.path.name == "__init__.py" and _is_for_types(statement):
                imports = (one for one in ast.walk(statement) if isinstance(one, ast.Import | ast.ImportFrom))
                self.face |= dict(found for one in imports for found in _imported(one, self.package))
            names = [name for name in _bound(statement, self.package) if name != "__all__"]
            for name in names:
                self.bound.setdefault(name, []).append(statement)
            self.stars += _nested_stars(statement, self.package)
            if _registers(statement) or ((_acts(statement) or not names) and not _is_idle(statement)):
                self.loose[f"{place} {len(self.loose)}"] = statement

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        for name, target in _imported(statement, self.package):
            if name == "*":
                self.stars.append(target[0])
            else:
                self.imports[name] = target

    @property
    def package(self) -> str:
        """The package from which the module's relative imports start."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@lru_cache(maxsize=4096)
def _module(name: str) -> _Module:
    path = _file(name)
    if path is None:
        raise ValueError(f"{name}: no module")
    found = _Module(name, path)
    found.add(_parsed(path).body)
    return found


def _parsed(path: Path) -> ast.Module:
    """A file's syntax tree. Parsing is retried because of a bug in Python 3.11 with several threads.

    Python 3.11 uses a single counter of the tree's depth for all threads. If two threads parse at the same time
    (printing a traceback also parses), either thread may get a SystemError.
    """
    for _ in range(_TRIES - 1):
        with suppress(SystemError):
            return ast.parse(path.read_bytes(), filename=str(path))
    return ast.parse(path.read_bytes(), filename=str(path))


def _found(dotted: str, own: frozenset[str]) -> Name:
    """The definition of a dotted name, looked up in the module that is the longest possible prefix of the name."""
    parts = dotted.split(".")
    for place in range(len(parts), 0, -1):
        module = ".".join(parts[:place])
        if _file(module):
            return _member(module, parts[place:], own)[0] if place < len(parts) else Name(module, None)
    raise ValueError(f"{dotted}: neither a module nor a name in a module")


def _member(module: str, names: Sequence[str], own: frozenset[str]) -> tuple[Name, Sequence[str]]:
    """Two values: the definition of `module.name.name…`, and the names that could not be traced.

    If a name cannot be traced, the first value is the whole module.

    For a name outside the packages `own`, the module is empty, and the whole dotted name remains.
    """
    seen: set[tuple[str, ...]] = set()
    while module.partition(".")[0] in own and names and (module, *names) not in seen:
        seen.add((module, *names))
        first, *rest = names
        within = _module(module) if _file(module) else None  # a folder with modules may have no file
        if within and first in within.bound:
            return Name(module, first), rest
        source, attribute = {**within.face, **within.imports}.get(first, ("", None)) if within else ("", None)
        if source and (source, attribute) != (module, first):
            module, names = source, [*filter(None, [attribute]), *rest]
        elif _file(f"{module}.{first}") or _folders(f"{module}.{first}"):
            module, names = f"{module}.{first}", rest
        elif star := within and _star(within, first, own):
            module = star
        else:
            break
    if module.partition(".")[0] in own and _file(module):
        return Name(module, None), names
    return Name("", None), [".".join([module, *names])]


def _star(module: _Module, name: str, own: frozenset[str]) -> str | None:
    """The module from which a name comes by `import *`, directly or through several modules."""
    waiting, seen = [*module.stars], set[str]()
    while waiting:
        one = waiting.pop()
        if one in seen or one.partition(".")[0] not in own or not _file(one):
            continue
        seen.add(one)
        if name in _module(one).bound or name in _module(one).imports:
            return one
        waiting += _module(one).stars
    return None


class _Scope(NamedTuple):
    """The scope of a function, lambda, comprehension or class: names that it binds, and names that it imports."""

    of_class: bool
    names: set[str]
    imports: dict[str, tuple[str, str | None]]


class _Writer:
    """Writes only the parts of statements that can change a result; names from `own` packages become definitions."""

    def __init__(self, module: _Module, own: frozenset[str]) -> None:
        self._module, self._own = module, own
        self._scopes: list[_Scope] = []
        self._annotated = False
        self.text: list[str] = []
        self.names: list[Name] = []
        self._reads_files = False

    def write(self, statement: ast.stmt) -> None:
        """Write one statement."""
        self._node(statement)

    def data(self) -> list[str]:
        """Digests of data files of the code's package and of modules named whole; empty if the code reads no files."""
        if not self._reads_files:
            return []
        modules = {self._module.name, *(one.module for one in self.names if one.name is None)}
        return sorted({file for name in modules for file in _data(_module(name))})

    def _node(self, node: ast.AST) -> None:
        chain = _chain(node)
        if chain and self._reference(chain):
            return
        if isinstance(node, ast.Constant):
            self._constant(node.value)
        elif _is_for_types(node):
            self._body(node.orelse)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for _, target in () if self._scopes else _imported(node, self._module.package):
                self._target(target, [])  # imports in a condition; a function's imports are followed where used
        else:
            before, self._annotated = self._annotated, self._annotated or _registers(node)
            self.text.append(f"({type(node).__name__}")
            fields = dict(_fields(node, self._annotated))
            if isinstance(node, _SCOPES):
                self._all({name: fields.pop(name) for name in _OUTSIDE if name in fields})
                self._scopes.append(_scope(node, self._module.package))
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

    def _around(self, name: str) -> _Scope | None:
        """The innermost scope that binds or imports a name; a class counts only if it directly encloses the name."""
        last = len(self._scopes) - 1
        for place in range(last, -1, -1):
            scope = self._scopes[place]
            if (name in scope.names or name in scope.imports) and (not scope.of_class or place == last):
                return scope
        return None

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
        if isinstance(value, str) and _DOTTED.fullmatch(value) and value.partition(".")[0] in self._own:
            first, _, last = value.rpartition(".")
            if _file(value) or (_file(first) and last in {**_module(first).bound, **_module(first).imports}):
                self._target((value.partition(".")[0], None), value.split(".")[1:])
                return
        self.text.append(f"{type(value).__name__} {value!r}")

    def _reference(self, chain: Sequence[str]) -> bool:
        """Write the definition of a name that is imported or bound at the module's top level; False for other names."""
        first, *rest = chain
        self._reads_files |= first == "__file__"
        scope = self._around(first)
        if scope and first not in scope.imports:
            return False
        source = scope.imports[first] if scope else self._module.imports.get(first)
        if first in self._module.bound and not scope:
            self._write(*_member(self._module.name, chain, self._own))
        elif source:
            self._target(source, rest)
        elif _star(self._module, first, self._own):
            self._write(*_member(self._module.name, chain, self._own))
        else:
            return False
        return True

    def _target(self, source: tuple[str, str | None], rest: Sequence[str]) -> None:
        module, attribute = source
        self._write(*_member(module, [*filter(None, [attribute]), *rest], self._own))

    def _write(self, target: Name, left: Sequence[str]) -> None:
        if target.module:
            self.names.append(target)
        self._reads_files |= "__file__" in left or (not target.module and left[0].startswith(_READERS))
        self.text.append(f"<{'@' if target.module else ''}{target.name or ''} {' '.join(left)}>")


def _fields(node: ast.AST, annotated: bool) -> Iterator[tuple[str, object]]:
    """The node's non-empty fields that count (the same in all Python versions); with annotations if `annotated`."""
    for name in node._fields:
        if name in _DROPPED or (name in _ANNOTATIONS and not annotated):
            continue
        value = getattr(node, name, None)
        if value is not None and value != []:
            yield name, value


def _chain(node: ast.AST) -> list[str]:
    """The names in `a.b.c`; empty for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else []


def _bound(statement: ast.stmt, package: str = "") -> Iterator[str]:
    """The names that a statement at a module's top level binds; imports count only inside compound statements."""
    if isinstance(statement, _Function | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, _Compound):
        targets = [getattr(statement, "target", None), *(one.optional_vars for one in getattr(statement, "items", []))]
        for target in filter(None, targets):
            yield from _targets(target)
        for inner in _parts(statement):
            if isinstance(inner, ast.Import | ast.ImportFrom):
                yield from (name for name, _ in _imported(inner, package) if name != "*")
            else:
                yield from _bound(inner, package)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            yield from _targets(target)


def _targets(target: ast.expr) -> Iterator[str]:
    if not isinstance(target, ast.Attribute | ast.Subscript):
        yield from sorted(_words(target))


def _is_for_types(node: ast.AST) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If) and ast.unparse(node.test) in _TYPING_ONLY


def _parts(statement: ast.stmt) -> list[ast.stmt]:
    """The statements inside a compound statement (condition, `try`, loop), except those only for type checkers."""
    inner = [] if _is_for_types(statement) else [*getattr(statement, "body", [])]
    for arm in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
        inner += arm.body
    return [*inner, *getattr(statement, "orelse", []), *getattr(statement, "finalbody", [])]


def _acts(statement: ast.stmt) -> bool:
    """Whether a statement, or one nested in it, mutates an object that is defined elsewhere (`TABLE[key] = value`)."""
    if isinstance(statement, _Compound):
        return any(_acts(inner) for inner in _parts(statement))
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)
    return isinstance(statement, ast.AugAssign | ast.Delete | ast.Expr) and not _is_text(statement)


def _scope(node: ast.AST, package: str) -> _Scope:
    """The names that a function, lambda, class or comprehension binds locally, and the names that it imports."""
    found, outer, imports = set[str](), set[str](), dict[str, tuple[str, str | None]]()
    if isinstance(node, _Comprehension):
        return _Scope(False, {word for one in node.generators for word in _words(one.target)}, imports)
    if isinstance(node, _Function | ast.Lambda):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        found |= {one.arg for one in every if one}
    waiting: list[ast.AST] = [*node.body] if isinstance(node, _Function | ast.ClassDef) else []
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, _Function | ast.ClassDef):
            found.add(inner.name)
        elif isinstance(inner, ast.Name):
            found |= {inner.id} if isinstance(inner.ctx, ast.Store) else set()
        elif isinstance(inner, ast.Import | ast.ImportFrom):
            imports |= dict(_imported(inner, package))
        elif isinstance(inner, ast.Global | ast.Nonlocal):
            outer |= set(inner.names)
        elif not isinstance(inner, _Comprehension | ast.Lambda):
            if isinstance(inner, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and inner.name:
                found.add(inner.name)
            waiting += ast.iter_child_nodes(inner)
    return _Scope(isinstance(node, ast.ClassDef), found - outer, imports)


def _registers(node: ast.AST) -> bool:
    """Whether a function is registered with another function, as with singledispatch, which reads annotations."""
    return isinstance(node, _Function) and any(
        "register" in _chain(one.func if isinstance(one, ast.Call) else one)[1:] for one in node.decorator_list
    )


def _is_idle(statement: ast.stmt) -> bool:
    """Whether a statement has no effect when its module is imported."""
    main = isinstance(statement, ast.If) and "__name__" in _words(statement.test)
    typing = isinstance(statement, ast.If) and not _parts(statement)
    faces = isinstance(statement, ast.Assign) and [*_bound(statement)] == ["__all__"]
    return main or typing or faces or _is_text(statement) or isinstance(statement, ast.Pass)


def _is_text(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _words(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _nested_stars(statement: ast.stmt, package: str) -> Iterator[str]:
    """The modules imported by `import *` inside conditions and `try` at a module's top level."""
    for inner in _parts(statement) if isinstance(statement, _Compound) else []:
        if isinstance(inner, ast.ImportFrom):
            yield from (target[0] for name, target in _imported(inner, package) if name == "*")
        yield from _nested_stars(inner, package)


def _imported(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """The names that an import binds, each with its module and, for `from` imports, the attribute."""
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
    """The file of a module; None if the name is an attribute, or a folder without `__init__.py`."""
    above, _, last = name.rpartition(".")
    if not above:
        spec = find_spec(name)
        return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
    files = (folder / file for folder in _folders(above) for file in (f"{last}/__init__.py", f"{last}.py"))
    return next((file for file in files if file.is_file()), None)


def _folders(package: str) -> list[Path]:
    """The folders with a package's modules. No package is imported."""
    above, _, last = package.rpartition(".")
    if not above:
        spec = find_spec(package)
        return [Path(folder) for folder in spec.submodule_search_locations or []] if spec else []
    return [folder / last for folder in _folders(above) if (folder / last).is_dir()]


def _data(module: _Module) -> list[str]:
    """Digests of the data files in a module's folder and the folders above it in the package.

    Files in subfolders without modules count too. Each digest comes with the file's path relative to the folder. The
    folder `conf` is left out, because the values that a setting uses are in the setting's config.
    """
    found, depth = [], module.name.count(".") + (module.path.name == "__init__.py")
    for folder in module.path.parents[:depth]:
        project = folder == module.path.parents[depth - 1]
        for inner in folder.iterdir():
            plain = inner.is_dir() and inner.name != "__pycache__" and not any(inner.glob("*.py"))
            if plain and not (project and inner.name == "conf"):
                files = [file for file in inner.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
            else:
                files = [inner] if inner.is_file() and inner.suffix not in _CODE else []
            found += [f"{file.relative_to(folder).as_posix()} {_hash(file.read_bytes())}" for file in files]
    return found


def _hash(*parts: str | bytes) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else part.encode())
        found.update(b"\0")
    return found.hexdigest()
