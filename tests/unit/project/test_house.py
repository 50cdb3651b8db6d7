"""The house: imports point down between rooms, those inside functions included, and core imports nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import grid
from grid import CONF
from launch.bench import BENCHMARKS
from tests.support.loops import each

ROOT = Path(__file__).parents[3]
ROOMS = [
    "grid.core", "grid.code_digest", "grid.plugins", "grid.text", "grid.store", "grid.engines", "grid.retrievers",
    "grid.worlds", "grid.episode", "grid.metrics", "grid.datasets", "grid.pools", "grid.robustness", "grid.planners",
    "grid.roles", "grid.settings", "grid.cells", "grid.imports", "grid.cluster", "grid.synthesis", "grid.show",
    "grid.data", "grid.contracts", "analysis", "analysis.errors", "analysis.yaml_files", "analysis.page",
    "analysis.stats", "analysis.load", "analysis.tables", "analysis.papers", "analysis.figures", "analysis.compare",
    "analysis.viewer", "analysis.gallery", "analysis.summary", "analysis.report", "analysis.screen",
    "grid.sweeps", "launch",
]  # fmt: skip
"""From the ground up; `grid` itself is a face, which any room may ask where `conf` lies."""
LONGEST = 600
"""Lines of a file that is one idea."""
TARGET = re.compile(r"_target_:\s*([\w.]+)")
API = ("grid", "grid.sweeps.api")
"""An arrow up: `from grid import sweep` loads it when it is asked for, as it does all of the face."""


def modules() -> dict[str, Path]:
    """Every module of the project by its dotted name."""
    found = {}
    for top in ("grid", "analysis", "launch"):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def arrows(known: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """Which module names which in an import, wherever it stands."""
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                dotted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                dotted = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for one in dotted:
                while one and one not in known:
                    one = one.rpartition(".")[0]
                if one and one != name:
                    yield name, one


def room(name: str) -> str:
    """The room of a module; `grid` is its own, and so is `analysis`."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] in ("grid", "analysis") else parts[0]


@pytest.fixture(scope="module")
def found() -> set[tuple[str, str]]:
    return set(arrows(modules()))


def test_every_room_is_in_the_plan() -> None:
    assert {room(name) for name in modules()} == {*ROOMS, "grid"}


def test_imports_point_down(found: set[tuple[str, str]]) -> None:
    up = [
        f"{source} -> {target}"
        for source, target in sorted(found - {API})
        if room(source) != room(target) and "grid" not in (room(source), room(target))
        and ROOMS.index(room(source)) < ROOMS.index(room(target))
    ]  # fmt: skip
    assert up == []
    assert API in found


def test_no_file_is_too_long_to_be_one_idea() -> None:
    long = {name: len(path.read_bytes().splitlines()) for name, path in modules().items()}
    assert {name: lines for name, lines in long.items() if lines > LONGEST} == {}


def test_a_file_that_one_file_reads_says_why_it_stands_apart(found: set[tuple[str, str]]) -> None:
    """Two files of a room of which only the one imports the other are one idea, if they are one file's length.

    A file that somebody else names has a second reader: a YAML by `_target_`, a command, a package by its `__init__`.
    """
    known = modules()
    named = {target.rpartition(".")[0] for file in CONF.rglob("*.yaml") for target in TARGET.findall(file.read_text())}
    named |= {f"launch.benchmarks.{name}" for name in BENCHMARKS}
    alone = []
    for name, path in known.items():
        text, readers = path.read_text(encoding="utf-8"), {source for source, target in found if target == name}
        if len(readers) != 1 or name in named or 'if __name__ == "__main__"' in text:
            continue
        (reader,) = (known[source] for source in readers)
        lines = len(text.splitlines()) + len(reader.read_bytes().splitlines())
        told = "stands apart" in " ".join((ast.get_docstring(ast.parse(text)) or "").split())
        if room(*readers) == room(name) and reader.name != "__init__.py" and lines <= LONGEST and not told:
            alone.append(f"{name} <- {reader}")
    assert alone == []


def test_the_face_names_what_it_gives(found: set[tuple[str, str]]) -> None:
    assert {target for source, target in found if source == "grid"} == {
        *grid.FACE,
        "grid.core.beside",
        "grid.core.moved",
    }


def test_no_room_has_the_name_of_something_public() -> None:
    """`import grid.sweep` would put the room in the place of `grid.sweep()`."""
    rooms = {room.removeprefix("grid.") for room in ROOMS}
    assert not rooms & {name for names in grid.FACE.values() for name in names}


def test_a_room_says_what_it_is() -> None:
    silent = [
        room.replace(".", "/")
        for room in ROOMS
        if (face := ROOT / room.replace(".", "/") / "__init__.py").exists()
        and len((ast.get_docstring(ast.parse(face.read_bytes())) or "").split()) < 20
    ]
    assert silent == []


@each("name", [name for name in ROOMS if (ROOT / name.replace(".", "/")).is_dir()])
def test_a_room_names_what_it_holds_and_nothing_else(name: str) -> None:
    """But for the tests in `contracts`; launch is told in docs/developing.md."""
    if name in ("grid.contracts", "launch"):
        return
    folder = ROOT / name.replace(".", "/")
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_bytes())) or ""
    named = set(re.findall(r"`(\w+)`", said))
    files = {path.stem for path in folder.glob("*.py")}
    folders = {path.name for path in folder.iterdir() if (path / "__init__.py").is_file()}
    held = {one for one in files | folders if not one.startswith("_")}
    others = {one.rpartition(".")[2] for one in ROOMS} | {"sample", "choose"}
    told = held - folders if name == "grid.datasets" else held  # a folder a benchmark
    assert (told - named, named - held - others) == (set(), set())
