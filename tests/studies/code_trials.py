"""The digest of code on this project's own source and on a plugin's: moves that change none, changes that change it.

The packages are read from where they are loaded from and written to a folder, where a reader of its own looks for
them: none is imported. Moves of one round add up. Each change is of one definition, and is taken back.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from itertools import cycle, islice
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any, NamedTuple, cast

import grid
from grid import code_digest
from tests.studies.source_moves import (
    Module,
    Tree,
    changed,
    file_of,
    merged,
    module_renamed,
    read,
    reformatted,
    taken,
    with_head,
)  # fmt: skip

ROOTS = (
    "grid.planners.react.ReAct", "grid.planners.egb.EGBLogits", "grid.planners.astar.AStar",
    "grid.planners.tooltree.ToolTree", "grid.datasets.slate.dataset.Slate", "grid.datasets.ultratool.UltraTool",
    "grid.datasets.tau2.dataset.Tau2", "grid.datasets.workbench.WorkBench",
    "grid.datasets.kqa.dataset.KqaSynthetic", "grid.engines.simulated.engine.Simulated",
    "grid.engines.http.engine.OpenAIHTTP", "grid.robustness.extraneous.Extraneous", "grid.robustness.costs.Costs",
    "grid.metrics.scores.score",
)  # fmt: skip
PLUGIN = ("mylab.planners.two_minds.TwoMinds", "mylab.datasets.library.Library")
EXAMPLES = Path(grid.__file__).parent.parent / "examples" / "mylab"
_ROUND = 20
Moved = tuple[str, Tree] | None
"""What was moved, and the tree after it; None where what was drawn can't be."""
_TRIES = 200


class Tried(NamedTuple):
    """A move or a change, and the definitions whose digest is not as it should be after it."""

    kind: str
    what: str
    wrong: list[str]


@dataclass
class Trial:
    """A copy of a package in a folder, the definitions whose digests are taken, and their digests at first."""

    folder: Path
    tree: Tree
    reader: Reader
    digests: Mapping[str, str]

    @classmethod
    def of(cls, source: Path, package: str, roots: tuple[str, ...], folder: Path) -> Trial:
        """The package, with its data files, copied to `folder`."""
        copytree(source / package, folder / package, ignore=ignore_patterns("__pycache__", "conf"))
        tree = read(folder, (package,), roots)
        reader = Reader(folder)
        reader.write(tree)
        digests = reader.digests(tree.roots)
        gc.freeze()  # the parsed modules, which stay
        return cls(folder, tree, reader, digests)

    def moves(self, count: int, seed: int) -> Iterator[Tried]:
        """Moves drawn by `seed`; every twentieth starts from the package as it was."""
        draw, tree = random.Random(f"moves {seed}"), self.tree
        whole = self.reader.whole(self.tree.roots)
        for number in range(count):
            tree = self.tree if number % _ROUND == 0 else tree
            kind = [*MOVES][number % len(MOVES)]
            told, tree = _drawn(kind, tree, draw, whole) or _drawn(kind, self.tree, draw, whole) or ("none", self.tree)
            self.reader.write(tree)
            now = self.reader.digests(tree.roots)
            yield Tried(kind, told, [root for root, digest in self.digests.items() if now[root] != digest])
        self.reader.write(self.tree)

    def changes(self, count: int, seed: int, reached: bool = True) -> Iterator[Tried]:
        """Changes of single definitions, which some of `roots` reach, or none does."""
        draw = random.Random(f"changes {seed} {reached}")
        reach = {root: self.reader.reached([name]) for root, name in self.tree.roots.items()}
        every = {(module.name, name) for module in self.tree.modules.values() for name in module.bound}
        some = set[tuple[str, str]]().union(*reach.values())
        of = sorted(every & some if reached else every - some)
        draw.shuffle(of)
        for module, name in islice(cycle(of), len(of) * count):
            if count and (text := changed(self.tree.modules[module], name, draw)):
                count -= 1
                self.reader.write(self.tree.with_text(module, text))
                now = self.reader.digests(self.tree.roots)
                self.reader.write(self.tree)
                wrong = [root for root in now if (now[root] != self.digests[root]) != ((module, name) in reach[root])]
                yield Tried("reached code changed" if reached else "other code changed", f"{module}.{name}", wrong)


def _drawn(kind: str, tree: Tree, draw: random.Random, whole: set[str]) -> Moved:
    return next(filter(None, (MOVES[kind](tree, draw, whole) for _ in range(_TRIES))), None)


def _definition(tree: Tree, draw: random.Random, whole: set[str]) -> Moved:
    origin, into = (_module(tree, draw, whole) for _ in range(2))
    if not origin.movable or origin.name == into.name:
        return None
    name = draw.choice(origin.movable)
    return _told(
        f"{origin.name}.{name} to {into.name}", taken(tree, {name}, origin.name, into.name, draw.random() < 0.5)
    )


def _renamed(tree: Tree, draw: random.Random, whole: set[str]) -> Moved:
    old = _module(tree, draw, whole).name
    within = [module for name, module in tree.modules.items() if name.startswith(f"{old}.")]
    if "." not in old or old.endswith("__main__") or any("__file__" in module.text for module in within):
        return None  # data files beside a module, which are digested with it, would stay where the package was
    new = f"{old}_{draw.randint(0, 99)}"
    return None if new in tree.modules else (f"{old} to {new}", module_renamed(tree, old, new))


def _merged(tree: Tree, draw: random.Random, whole: set[str]) -> Moved:
    origin, into = (_module(tree, draw, whole) for _ in range(2))
    if origin.is_package or origin.name == into.name or origin.name.endswith("__main__"):
        return None
    return _told(f"{origin.name} into {into.name}", merged(tree, origin.name, into.name))


def _split(tree: Tree, draw: random.Random, whole: set[str]) -> Moved:
    origin = _module(tree, draw, whole)
    into = f"{origin.package}.part_{draw.randint(0, 999)}"
    names = {name for name in origin.movable if draw.random() < 0.5}
    if not names or into in tree.modules:
        return None
    return _told(f"{len(names)} of {origin.name}", taken(tree, names, origin.name, into, draw.random() < 0.5))


def _faced(tree: Tree, draw: random.Random, whole: set[str]) -> Moved:
    """A package's face has a definition, and half of the modules that import it take it from there."""
    origin = _module(tree, draw, whole)
    package = tree.modules.get(origin.name.rpartition(".")[0])
    if origin.is_package or not package or not origin.bound:
        return None
    name = draw.choice([*origin.bound])
    if name in {**package.imports, **package.bound} or f"{package.name}.{name}" in tree.modules:
        return None
    text = with_head(package, package.text, [f"from {origin.name} import {name}"])
    target, face = (origin.name, name), (package.name, name)
    tree = tree.imports_changed(lambda one: face if one == target and draw.random() < 0.5 else one)
    return f"{package.name} has {origin.name}.{name}", tree.put(Module(package.name, text, True))


def _added(tree: Tree, draw: random.Random, whole: set[str]) -> Moved:
    module, number = _module(tree, draw, whole), draw.randint(1000, 9999)
    used = draw.choice([*module.bound]) if module.bound else "len"
    text = f"{module.text}\n\ndef added_{number}(x):\n    return {used}, x\n\n\nADDED_{number} = {number}\n"
    return f"to {module.name}", tree.with_text(module.name, text)


def _reformatted(tree: Tree, draw: random.Random, whole: set[str]) -> Moved:
    module = draw.choice([*tree.modules.values()])
    return module.name, tree.with_text(module.name, reformatted(module.text))


MOVES: Mapping[str, Callable[[Tree, random.Random, set[str]], Moved]] = {
    "definition moved": _definition,
    "module renamed": _renamed,
    "modules merged": _merged,
    "module split": _split,
    "face added": _faced,
    "code added": _added,
    "written otherwise": _reformatted,
}


def _told(what: str, tree: Tree | None) -> Moved:
    return (what, tree) if tree else None


def _module(tree: Tree, draw: random.Random, whole: set[str]) -> Module:
    """One of those that count by definitions, not as a whole."""
    return tree.modules[draw.choice([name for name in tree.modules if name not in whole])]


class Reader:
    """A copy of grid/code_digest.py that looks for packages in a folder; modules that stay are parsed once."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._written = folder, dict[Path, str]()
        loader = SourceFileLoader(code_digest.__name__, code_digest.__file__)
        self._code: Any = module_from_spec(cast(ModuleSpec, spec_from_loader(loader.name, loader)))
        loader.exec_module(self._code)
        vars(self._code)["find_spec"] = lambda name: PathFinder.find_spec(name, [str(folder), *sys.path])
        self._parse, self._parsed = self._code._module.__wrapped__, dict[str, tuple[str, Any]]()
        vars(self._code)["_module"] = self._module

    def write(self, tree: Tree) -> None:
        """Have the files of a tree, and no other modules."""
        texts = {file_of(self._folder, module): module.text for module in tree.modules.values()}
        for file in self._written.keys() - texts.keys():
            file.unlink()
        for file, text in texts.items():
            if self._written.get(file) != text:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        self._written = texts

    def digests(self, roots: Mapping[str, str]) -> dict[str, str]:
        """Each root's digest as a new process has it."""
        for cached in ("code_digest", "definition", "_file"):
            getattr(self._code, cached).cache_clear()
        return {root: self._code.code_digest((name,)) for root, name in roots.items()}

    def reached(self, names: list[str]) -> set[tuple[str, str]]:
        """The definitions that some names reach, each a module's and its name."""
        own = frozenset(name.partition(".")[0] for name in names) | {code_digest.__package__}
        return {(one.module, one.name) for one in self._code.reached(names, own) if one.name}

    def whole(self, roots: Mapping[str, str]) -> set[str]:
        """The modules that count as a whole, since nobody knows what is taken from them."""
        own = frozenset(name.partition(".")[0] for name in roots.values()) | {code_digest.__package__}
        return {one.module for one in self._code.reached([*roots.values()], own) if not one.name}

    def _module(self, name: str) -> Any:
        text = self._written.get(self._code._file(name), "")  # of other packages nothing is written
        kept = self._parsed.get(name)
        if not kept or kept[0] != text:
            kept = self._parsed[name] = (text, self._parse(name))
        return kept[1]
