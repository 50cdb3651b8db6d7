"""Source code moved about without a change in what it does, and changed in single places: what digests are tried on.

A tree is read from packages and written to another folder. Moves set imports right in every module; nothing is run.
Changes write a module anew with one constant, operator or condition exchanged.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

_FUTURE = "from __future__ import annotations\n"
_PLACED = {"__file__", "__name__", "__package__", "__doc__"}
"""Names whose value is a module's own: what uses them is not moved to another."""
_OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_COMPARED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
Target = tuple[str, str | None]
Changed = Callable[[Target], Target | None]
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass
class Module:
    """A module as its statements: what it imports, what it binds once at its top, and the names that are tied to it."""

    name: str
    text: str
    is_package: bool
    imports: dict[str, Target] = field(default_factory=dict)
    for_types: set[str] = field(default_factory=set)
    bound: dict[str, ast.stmt] = field(default_factory=dict)
    tied: set[str] = field(default_factory=set)
    others: list[ast.stmt] = field(default_factory=list)
    importing: list[ast.ImportFrom] = field(default_factory=list)

    def __post_init__(self) -> None:
        tree = ast.parse(self.text)
        self.importing = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        for statement in tree.body:
            self._sort(statement)

    def _sort(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self.imports |= {} if _is_future(statement) else dict(targets(statement, self.package))
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING" and not statement.orelse:
            for inner in statement.body:
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    self.imports |= (found := dict(targets(inner, self.package)))
                    self.for_types |= found.keys()
        elif (name := _single(statement)) and name not in self.bound:
            self.bound[name] = statement
            self.tied |= {name} if _words(statement) & _PLACED or "register" in _decorated(statement) else set()
        elif not _is_text(statement):
            self.others.append(statement)
            self.tied |= _words(statement)

    @property
    def package(self) -> str:
        """What relative imports start from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def movable(self) -> list[str]:
        """The definitions that another module may have: bound once, used by no statement that is none."""
        return [name for name in self.bound if name not in self.tied | self.imports.keys() and name[:2] != "__"]

    def segment(self, statement: ast.stmt) -> str:
        """The source of one statement, decorators and all."""
        first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", []))])
        return "\n".join(self.text.splitlines()[first - 1 : statement.end_lineno])

    def needed(self, statement: ast.stmt) -> dict[str, Target]:
        """The names of this module that a statement uses, and where another module has them from."""
        words = _words(statement)
        own: dict[str, Target] = {name: (self.name, name) for name in words & self.bound.keys()}
        return own | {name: self.imports[name] for name in words & self.imports.keys()}

    def without(self, names: set[str]) -> str:
        """The source, short of some definitions."""
        lines = self.text.splitlines()
        for statement in sorted((self.bound[name] for name in names), key=lambda one: -one.lineno):
            first = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", []))])
            del lines[first - 1 : statement.end_lineno]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Tree:
    """Modules by name; `roots` are the definitions that digests are taken of, by what they are called at first."""

    modules: Mapping[str, Module]
    roots: Mapping[str, str]

    def put(self, *modules: Module, without: str = "") -> Tree:
        """This tree with some modules anew."""
        kept = {name: one for name, one in self.modules.items() if name != without}
        return replace(self, modules=kept | {one.name: one for one in modules})

    def with_text(self, name: str, text: str) -> Tree:
        """This tree with a module's source."""
        return self.put(Module(name, text, name in self.modules and self.modules[name].is_package))

    def imports_changed(self, change: Changed) -> Tree:
        """This tree with each imported name taken from where it is said to be; None for what needs no import."""
        texts = {name: with_imports(one, change) for name, one in self.modules.items()}
        return self.put(
            *(Module(name, text, self.modules[name].is_package) for name, text in texts.items()
              if text != self.modules[name].text)
        )  # fmt: skip

    def renamed(self, old: str, new: str) -> Tree:
        """This tree with a dotted name exchanged wherever it stands, in texts too."""
        dotted = re.compile(rf"(?<![\w.]){re.escape(old)}(?!\w)")
        found = {}
        for name, one in self.modules.items():
            text = dotted.sub(new, one.text) if old in one.text else one.text
            now = dotted.sub(new, name)
            found[now] = one if (now, text) == (name, one.text) else Module(now, text, one.is_package)
        return Tree(found, {name: dotted.sub(new, root) for name, root in self.roots.items()})


def read(folder: Path, packages: tuple[str, ...], roots: tuple[str, ...]) -> Tree:
    """The modules of some packages in a folder."""
    found = {}
    for file in sorted(file for package in packages for file in (folder / package).rglob("*.py")):
        parts = file.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, file.read_text(), parts[-1] == "__init__")
    return Tree(found, {root: root for root in roots})


def file_of(folder: Path, module: Module) -> Path:
    """Where a module is written."""
    return folder.joinpath(*module.name.split(".")) / "__init__.py" if module.is_package else (
        folder.joinpath(*module.name.split(".")).with_suffix(".py")
    )  # fmt: skip


def with_imports(module: Module, change: Changed) -> str:
    """A module's source with each imported name from where `change` has it; None drops it."""
    lines = module.text.splitlines()
    for node in sorted(module.importing, key=lambda one: (-one.lineno, -one.col_offset)):
        found = [] if _is_future(node) else list(targets(node, module.package))
        changed = [(name, change(target)) for name, target in found]
        if any(now != was for (_, now), (_, was) in zip(changed, found, strict=True)):
            written = [imported(name, now) for name, now in changed if now]
            end = node.end_lineno or node.lineno
            before, behind = lines[node.lineno - 1][: node.col_offset], lines[end - 1][node.end_col_offset :]
            lines[node.lineno - 1 : end] = [before + ("; ".join(written) or "pass") + behind]
    return "\n".join(lines) + "\n"


def targets(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, Target]]:
    """The names that an import binds, and what each is: a module and, where it is of one, the attribute."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            first = alias.name.partition(".")[0]
            yield alias.asname or first, (alias.name, None)
        else:
            above = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            yield alias.asname or alias.name, (".".join([*above, *filter(None, [node.module])]), alias.name)


def imported(name: str, target: Target) -> str:
    """The import that binds a name to what it is."""
    module, attribute = target
    if attribute is None:
        return f"import {module}" if name == module.partition(".")[0] else f"import {module} as {name}"
    return f"from {module} import {attribute}" + ("" if name == attribute else f" as {name}")


def taken(tree: Tree, names: set[str], origin: str, into: str, faces: bool) -> Tree | None:
    """Some definitions moved to another module, new or not; None where that has other things under a name.

    With `faces` the old module imports them for those who ask it; else it does where it uses them or is a root's.
    """
    old = tree.modules[origin]
    new = tree.modules.get(into) or Module(into, _FUTURE, False)
    text = with_imports(new, lambda target: None if target[0] == origin and target[1] in names else target)
    new = Module(into, text, new.is_package)
    needed = {name: target for one in names for name, target in old.needed(old.bound[one]).items() if name not in names}
    there = {**{name: (into, name) for name in new.bound}, **new.imports}
    if names & there.keys() or any(there.get(name, target) != target for name, target in needed.items()):
        return None
    types = {name for name in needed if name in old.for_types and name not in there}
    wanted = [imported(name, target) for name, target in needed.items() if name not in there and name not in types]
    typed = [f"    {imported(name, needed[name])}" for name in sorted(types)]
    head = [*wanted, *(["from typing import TYPE_CHECKING", "if TYPE_CHECKING:", *typed] if typed else [])]
    cut = with_head(old, old.without(names), [f"from {into} import {name}" for name in sorted(names)])
    moved = "\n\n\n".join(old.segment(old.bound[name]) for name in old.bound if name in names)
    grown = f"{with_head(new, new.text, head)}\n\n{moved}\n"
    tree = tree.put(Module(origin, cut, old.is_package), Module(into, grown, new.is_package))
    gone = {(origin, name): (into, name) for name in names}
    if faces:
        return tree
    return _own_imports_left_out(tree.imports_changed(lambda target: gone.get((target[0], target[1] or ""), target)))


def _own_imports_left_out(tree: Tree) -> Tree:
    return tree.put(*(without_own_imports(one) for one in tree.modules.values()))


def without_own_imports(module: Module) -> Module:
    """A module that takes nothing from itself."""
    own = [name for name, target in module.imports.items() if target == (module.name, name) and name in module.bound]
    if not own:
        return module
    text = with_imports(module, lambda target: None if target[0] == module.name and target[1] in own else target)
    return Module(module.name, text, module.is_package)


def with_head(module: Module, text: str, lines: list[str]) -> str:
    """A source with lines behind its docstring and its import of the future."""
    place = 0
    for statement in ast.parse(text).body:
        if not (_is_text(statement) or (isinstance(statement, ast.ImportFrom) and _is_future(statement))):
            break
        place = statement.end_lineno or 0
    every = text.splitlines()
    return "\n".join([*every[:place], *lines, *every[place:]]) + "\n"


def module_renamed(tree: Tree, old: str, new: str) -> Tree:
    """A module, or a package with all that it has, under another name in the same folder."""
    (above, _, leaf), now = old.rpartition("."), new.rpartition(".")[2]
    tree = tree.imports_changed(lambda target: (above, now) if target == (above, leaf) else target)
    return tree.renamed(old, new)


def merged(tree: Tree, origin: str, into: str) -> Tree | None:
    """All of a module in another one, and the first gone; None where they have different things under a name."""
    old, new = tree.modules[origin], tree.modules[into]
    there = {**new.imports, **{name: (into, name) for name in new.bound}}
    here = {**old.imports, **{name: (origin, name) for name in old.bound}}
    for name in here.keys() & there.keys():
        first, second = here[name], there[name]
        if first != second and {first, second} != {(origin, name), (into, name)}:
            return None
        if name in old.bound and name in new.bound:
            return None
    if old.tied & _PLACED or any(_words(one) & _PLACED for one in (*old.bound.values(), *old.others)):
        return None
    wanted = {name: target for name, target in old.imports.items() if name not in there and target != (into, name)}
    typed = [f"    {imported(name, target)}" for name, target in wanted.items() if name in old.for_types]
    head = [imported(name, target) for name, target in wanted.items() if name not in old.for_types]
    head += ["from typing import TYPE_CHECKING", "if TYPE_CHECKING:", *typed] if typed else []
    body = sorted([*old.bound.values(), *old.others], key=lambda one: one.lineno)
    text = with_head(new, new.text, head) + "\n\n" + "\n\n\n".join(old.segment(one) for one in body) + "\n"
    tree = tree.put(Module(into, text, new.is_package), without=origin)
    (above, _, leaf), (above_new, _, leaf_new) = origin.rpartition("."), into.rpartition(".")
    tree = tree.imports_changed(lambda target: (above_new, leaf_new) if target == (above, leaf) else target)
    return _own_imports_left_out(tree.renamed(origin, into))


class _Bare(ast.NodeTransformer):
    """Without annotations and with other docstrings; what is registered by its annotations keeps them."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = ast.Name("object")
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        return ast.Expr(ast.Constant("Said otherwise.")) if _is_text(node) else node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if "register" in _decorated(node):
                return node
            node.returns = None
        return super().generic_visit(node)


def reformatted(text: str) -> str:
    """A source as Python writes it, short of comments and annotations, with other docstrings."""
    return ast.unparse(ast.fix_missing_locations(_Bare().visit(ast.parse(text)))) + "\n"


def changed(module: Module, name: str, draw: random.Random) -> str | None:
    """A module's source with one constant, operator or condition of a definition exchanged; None where it has none."""
    tree = ast.parse(module.text)
    statement = next(one for one in tree.body if _single(one) == name)
    places = [node for node in _running(statement) if _can_change(node)]
    if not places:
        return None
    _change(draw.choice(places), draw)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """What of a definition runs: no annotations, no docstrings."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, ast.AST) and not _is_text(inner):
                yield from _running(inner)


def _can_change(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | int | float)
    if isinstance(node, ast.BinOp):
        return type(node.op) in _OPERATORS
    return isinstance(node, ast.BoolOp | ast.If | ast.IfExp | ast.While | ast.Compare)


def _change(node: ast.AST, draw: random.Random) -> None:
    match node:
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=str(value)):
            node.value = f"{value}~"
        case ast.Constant(value=int(value) | float(value)):
            node.value = value + draw.randint(1, 9)
        case ast.BinOp(op=operator):
            node.op = _OPERATORS[type(operator)]()
        case ast.BoolOp(op=operator):
            node.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
        case ast.Compare():
            node.ops[0] = _COMPARED[type(node.ops[0])]()
        case ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)


def _single(statement: ast.stmt) -> str:
    """The one name that a statement binds, as a definition."""
    if isinstance(statement, _Definition):
        return statement.name
    target: ast.expr | None = None
    if isinstance(statement, ast.AnnAssign):
        target = statement.target
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _decorated(statement: ast.stmt) -> set[str]:
    every = getattr(statement, "decorator_list", [])
    return {node.attr for one in every for node in ast.walk(one) if isinstance(node, ast.Attribute)}


def _words(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_future(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
