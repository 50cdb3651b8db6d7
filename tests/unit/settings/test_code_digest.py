"""A digest changes with code that can change a result, and with nothing else: not with where the code stands."""

from __future__ import annotations

import ast
import importlib
import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

import pytest

from grid import code_digest as digests

MODULE = '''
"""A planner."""
from typing import TYPE_CHECKING

from pack.parts import helper
from .beside import LIMIT

if TYPE_CHECKING:
    from pack.unrelated import Thing


def solve(case: int) -> int:
    """Solve it."""
    from pack import late  # imported when it is needed

    return helper(case) + LIMIT + late.ONE


def other() -> int:
    return 5
'''
FILES = {
    "__init__.py": "",
    "planner.py": MODULE,
    "beside.py": "LIMIT = 3\nNEVER = 4\n",
    "late.py": "ONE = 1\n",
    "unrelated.py": "class Thing: ...\n",
    "parts/__init__.py": "from pack.parts.deep import helper\n",
    "parts/deep.py": "def helper(case: int) -> int:\n    return case * 2\n",
    "stock.py": "from pathlib import Path\nWORDS = Path(__file__).parent / 'words'\n",
    "words/stop.yaml": "- a\n",
}
CACHED = ("code_digest", "definition", "_module", "_file")


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield write(tmp_path / "pack", FILES)
    forget()


@pytest.fixture(autouse=True)
def on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(tmp_path)
    yield
    forget()


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def forget() -> None:
    """As in a new process."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pack"]:
        del sys.modules[name]
    for name in CACHED:
        getattr(digests, name).cache_clear()
    importlib.invalidate_caches()


def digest(*names: str) -> str:
    forget()
    return digests.code_digest(names or ("pack.planner.solve",))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("planner.py", "def solve(case: int)", "# why\n\n\ndef  solve( case :int )"),
        ("planner.py", "Solve it.", "Solve it well."),
        ("planner.py", '"""A planner."""', ""),
        ("planner.py", "case: int) -> int", "case: float) -> float"),
        ("planner.py", "return 5", "return 6"),
        ("planner.py", "from pack.parts import helper", "from pack.parts.deep import helper"),
        ("planner.py", "from .beside import LIMIT\n", "from pack.beside import LIMIT\n\n\ndef late() -> None: ...\n"),
        ("beside.py", "3\n", "3  # three\n"),
        ("beside.py", "NEVER = 4", "NEVER = 5"),
        ("unrelated.py", "...", "x = 1"),
        ("parts/__init__.py", "from", "X = 1\nfrom"),
        ("words/stop.yaml", "a", "b"),
    ],
    ids=[
        "formatting", "docstring", "module's docstring", "annotations", "a function beside it", "past a face",
        "a function of a local name", "comment", "a constant beside it", "for types only", "a package's face",
        "words that nobody reads",
    ],
)  # fmt: skip
def test_what_cannot_change_a_result_does_not_count(pack: Path, file: str, old: str, new: str) -> None:
    before = digest()
    text = (pack / file).read_text()
    assert old in text
    (pack / file).write_text(text.replace(old, new))
    assert digest() == before


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("planner.py", "+ LIMIT", "- LIMIT"),
        ("beside.py", "3", "4"),
        ("late.py", "1", "2"),
        ("parts/deep.py", "* 2", "* 3"),
        ("planner.py", "late.ONE", "late.ONE + 0"),
    ],
    ids=["own", "relative import", "late import", "behind a face", "an attribute"],
)
def test_what_can_change_a_result_counts(pack: Path, file: str, old: str, new: str) -> None:
    before = digest()
    text = (pack / file).read_text()
    (pack / file).write_text(text.replace(old, new))
    assert digest() != before


def test_files_count_where_they_are_read(pack: Path) -> None:
    before = digest("pack.stock.WORDS")
    (pack / "words" / "stop.yaml").write_text("- b\n")
    changed = digest("pack.stock.WORDS")
    assert changed != before
    (pack / "words" / "more.yaml").write_text("- c\n")
    assert digest("pack.stock.WORDS") != changed


FORMS = {
    "decorated": (
        """
        def twice(f):
            return lambda: 2 * f()

        @twice
        def ROOT():
            return 1
        """,
        ("2 *", "3 *"),
    ),
    "nested": (
        """
        def ROOT():
            class Inner:
                def run(self):
                    return PART
            return Inner

        PART = 1
        """,
        ("= 1", "= 2"),
    ),
    "conditional": (
        """
        import sys
        if sys.platform:
            PART = 1
        else:
            PART = 2

        def ROOT():
            return PART
        """,
        ("= 2", "= 3"),
    ),
    "attempted": (
        """
        try:
            from pack.nowhere import PART
        except ImportError:
            PART = 1

        def ROOT():
            return PART
        """,
        ("= 1", "= 2"),
    ),
    "a class made by type": (
        """
        def run(self):
            return 1

        ROOT = type('ROOT', (), {'run': run})
        """,
        ("return 1", "return 2"),
    ),
    "a base": (
        """
        class Base:
            def run(self):
                return 1

        class ROOT(Base):
            pass
        """,
        ("return 1", "return 2"),
    ),
    "filled by a statement": (
        """
        TABLE = {}
        TABLE['a'] = 1

        def ROOT():
            return TABLE
        """,
        ("= 1", "= 2"),
    ),
    "registered": (
        """
        from functools import singledispatch

        @singledispatch
        def ROOT(x):
            return 0

        @ROOT.register
        def _(x: int):
            return 1
        """,
        ("return 1", "return 2"),
    ),
    "registered for a type": (
        """
        from functools import singledispatch

        @singledispatch
        def ROOT(x):
            return 0

        @ROOT.register
        def _(x: int):
            return 1
        """,
        ("x: int", "x: str"),
    ),
    "named in a text": ("ROOT = {'_target_': 'pack.one.Part'}\n\nclass Part:\n    x = 1\n", ("x = 1", "x = 2")),
    "a default": ("PART = 1\n\ndef ROOT(x=PART):\n    return x\n", ("= 1", "= 2")),
    "unpacked": ("A, PART = 1, 2\n\ndef ROOT():\n    return PART\n", (", 2", ", 3")),
    "global": (
        "PART = 1\n\ndef ROOT():\n    global PART\n    PART += 1\n    return PART\n",
        ("PART = 1", "PART = 2"),
    ),
    "in a comprehension": ("PART = 1\n\ndef ROOT():\n    return [PART for x in (1, 2)]\n", ("PART = 1", "PART = 2")),
    "filled by a loop that binds": (
        "TABLE = {}\nfor key in 'ab':\n    value = key * 2\n    TABLE[key] = value\n\ndef ROOT():\n    return TABLE\n",
        ("* 2", "* 3"),
    ),
    "bound by a loop": ("for PART in (1, 2):\n    pass\n\ndef ROOT():\n    return PART\n", ("(1, 2)", "(1, 3)")),
    "where types are not checked": (
        """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            PART = 0
        else:
            PART = 1

        def ROOT():
            return PART
        """,
        ("= 1", "= 2"),
    ),
    "of one name as another method's import": (
        """
        def PART():
            return 1

        class ROOT:
            def first(self):
                from pack.two import anything as PART
                return PART

            def second(self):
                return PART()
        """,
        ("return 1", "return 2"),
    ),
    "imported by an attempt": (
        """
        try:
            from pack.two import anything
        except ImportError:
            anything = 0

        def ROOT():
            return anything
        """,
        None,
    ),
    "imported by one of two": (
        """
        try:
            from pack.two import anything
        except ImportError:
            from pack.nowhere import anything

        def ROOT():
            return anything
        """,
        None,
    ),
    "imported and bound anew": (
        "from pack.two import anything\n\nanything = str(anything)\n\ndef ROOT():\n    return anything\n",
        None,
    ),
    "of a face's star": ("from pack.face import *\n\ndef ROOT():\n    return anything\n", None),
    "of a whole face": ("from pack import face\n\ndef ROOT():\n    return getattr(face, 'any' + 'thing')\n", None),
    "in a folder without a face": ("from pack.plain import three\n\ndef ROOT():\n    return three.PART\n", None),
    "read beside": (
        "from pathlib import Path\n\nROOT = Path(__file__).with_name('words.txt').read_text()\n",
        None,
    ),
    "read beside another": (
        "from pathlib import Path\nfrom pack import face\n\nROOT = Path(face.__file__).with_name('a.txt').open()\n",
        None,
    ),
    "read in another package": (
        "from importlib.resources import files\n\nROOT = files('pack.face').joinpath('a.txt').read_text()\n",
        None,
    ),
    "given as a whole": ("from pack import two\n\ndef ROOT():\n    return getattr(two, 'any' + 'thing')\n", None),
    "of a star": ("from pack.two import *\n\ndef ROOT():\n    return anything\n", None),
}
"""Modules with a definition ROOT, and what is changed in them; None: what is beside it is."""
BESIDE = {
    "two.py": "anything = 1\n",
    "face/__init__.py": "from pack.two import anything\n",
    "face/a.txt": "1",
    "plain/three.py": "PART = 1\n",
    "words.txt": "1",
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_definition_is_followed(tmp_path: Path, form: str) -> None:
    text, change = dedent(FORMS[form][0]), FORMS[form][1]
    folder = write(tmp_path / "pack", {"__init__.py": "", "one.py": text, **BESIDE})
    before = digest("pack.one.ROOT")
    (folder / "one.py").write_text(f"def unrelated():\n    return 1\n\n\n{text}")
    assert digest("pack.one.ROOT") == before
    if change:
        assert change[0] in text
        (folder / "one.py").write_text(text.replace(*change))
    else:
        write(folder, {name: content.replace("1", "2") for name, content in BESIDE.items()})
    assert digest("pack.one.ROOT") != before


MOVED = {
    "named in a text": ("ROOT = {'_target_': 'pack.two.anything'}\n", "ROOT = {'_target_': 'pack.three.anything'}\n"),
    "of another package": (
        "from os import path\n\ndef ROOT():\n    return path.sep\n",
        "import os as system\n\ndef ROOT():\n    return system.path.sep\n",
    ),
    "a function that a face names like its module": (
        "from pack.face import two\n\ndef ROOT():\n    return two()\n",
        "from pack.other import two\n\ndef ROOT():\n    return two()\n",
    ),
    "a loop below the main guard": ("ROOT = {}\n", "ROOT = {}\n\nif __name__ == '__main__':\n    ROOT[1] = 1\n"),
}


@pytest.mark.parametrize("form", MOVED)
def test_what_is_named_elsewhere_is_the_same(tmp_path: Path, form: str) -> None:
    function = "def two():\n    return 1\n"
    files = {"__init__.py": "", "two.py": "anything = 1\n", "three.py": "anything = 1\n", "other.py": function}
    faced = {"face/__init__.py": "from pack.face.two import two\n", "face/two.py": f"{function}\nbeside = 1\n"}
    found = []
    for text in MOVED[form]:
        write(tmp_path / "pack", {**files, **faced, "one.py": text})
        found.append(digest("pack.one.ROOT"))
    assert found[0] == found[1]


def test_a_decorator_counts_whosever_it_is(tmp_path: Path) -> None:
    """Of ours, of a library or with a value: each is another function."""
    found = set()
    for lines in ("", "@twice\n", "@cache\n", "@lru_cache(maxsize=1)\n", "@lru_cache(maxsize=2)\n", "@cache\n@twice\n"):
        text = (
            f"from functools import cache, lru_cache\ndef twice(f):\n    return f\n{lines}def ROOT():\n    return 1\n"
        )
        write(tmp_path / "pack", {"__init__.py": "", "one.py": text})
        found.add(digest("pack.one.ROOT"))
    assert len(found) == 6


def test_two_ways_are_told_apart_however_long(tmp_path: Path) -> None:
    """Two chains of the same five functions that end in different ones, exchanged at their start."""
    chain = "".join(f"def f{n}():\n    return f{n + 1}()\n\n\n" for n in range(5))
    files = {f"{end}.py": f"{chain}def f5():\n    return '{end}'\n" for end in ("one", "two")}
    root = "from pack import one, two\n\n\ndef ROOT():\n    return {}.f0() + {}.f0()\n"
    found = set()
    for ends in (("one", "two"), ("two", "one")):
        write(tmp_path / "pack", {"__init__.py": "", **files, "root.py": root.format(*ends)})
        found.add(digest("pack.root.ROOT"))
    assert len(found) == 2


def test_definitions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Which of two modules' `part` a function calls counts, also where both are reached."""
    files = {
        "__init__.py": "",
        "one.py": "def part():\n    return 1\n",
        "two.py": "def part():\n    return 2\n",
        "root.py": "from pack import one, two\n\n\ndef ROOT():\n    return one.part() - two.part()\n",
    }
    folder = write(tmp_path / "pack", files)
    before = digest("pack.root.ROOT")
    (folder / "root.py").write_text(files["root.py"].replace("one.part() - two.part()", "two.part() - one.part()"))
    assert digest("pack.root.ROOT") != before


def test_nothing_is_imported_by_being_digested(pack: Path) -> None:
    (pack / "beside.py").write_text("import nosuchmodule\nLIMIT = nosuchmodule.LIMIT\n")
    digest()
    assert not {name for name in sys.modules if name.partition(".")[0] == "pack"}


def test_a_name_that_is_nowhere_is_refused(pack: Path) -> None:
    with pytest.raises(ValueError, match="neither a module nor a name in a module"):
        digest("nowhere.at_all")


def modules(*names: str, own: frozenset[str] = frozenset({"grid"})) -> set[str]:
    return {one.module for one in digests.reached(names, own)}


def test_code_of_the_grid_that_a_plugin_reaches_counts(pack: Path) -> None:
    (pack / "beside.py").write_text("from grid.core.util import derive_seed\nLIMIT = derive_seed\n")
    forget()
    assert "grid.core.util" in modules("pack.planner.solve", own=frozenset({"pack", "grid"}))


def test_a_planner_counts_its_prompts_and_not_other_planners() -> None:
    found = modules("grid.planners.react.ReAct")
    assert {"grid.episode.acting", "grid.episode.prompts", "grid.text.answers"} <= found
    assert not {"grid.planners.egb", "grid.cells.run", "grid.cluster.batch", "grid.store"} & found
    assert not [name for name in found if name.startswith("grid.contracts")]


@dataclass(frozen=True)
class Part:
    """A definition of a made-up project: what it says, what it names, in which module it stands."""

    kind: str
    value: int
    names: tuple[int, ...]
    module: str


Project = dict[int, Part]


def project(random: random.Random, size: int = 24) -> Project:
    """Each definition names some of those before it, once in a while one behind it; the last is the root."""
    found: Project = {}
    for number in range(size):
        names = tuple(random.sample(range(number), min(number, random.randint(0, 2))))
        kind = random.choice(("function", "class", "constant"))
        if kind == "function" and random.random() < 0.2 and number + 1 < size:
            names += (number + 1,)
        found[number] = Part(kind, random.randint(0, 999), names, f"m{random.randint(0, 5)}")
    return found


def reaches(of: Project, root: int) -> set[int]:
    found, waiting = set[int](), [root]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += of[one].names
    return found


def rendered(of: Project, random: random.Random, faces: bool = False) -> dict[str, str]:
    """Its modules, each name imported in one of the ways there are."""
    files = {"__init__.py": ""}
    if faces:
        files["face/__init__.py"] = "".join(f"from pack.{part.module} import d{n}\n" for n, part in of.items())
    for module in sorted({part.module for part in of.values()}):
        head: list[str] = []
        body: list[str] = []
        for number, part in of.items():
            if part.module != module:
                continue
            called = [_called(of, name, module, head, random, faces) for name in part.names]
            added = " + ".join([str(part.value), *(f"len(str({name}))" for name in called)])
            if part.kind == "function":
                body.append(f"def d{number}(x=0):\n    y = {added}\n    return y\n")
            elif part.kind == "class":
                body.append(f"class d{number}:\n    def run(self, x=0):\n        return {added}\n")
            else:
                body.append(f"d{number} = {added}\n")
        random.shuffle(body)
        files[f"{module}.py"] = "\n\n".join(["\n".join(dict.fromkeys(head)), *body])
    return files


def _called(of: Project, name: int, module: str, head: list[str], random: random.Random, faces: bool) -> str:
    where = of[name].module
    if where == module:
        return f"d{name}"
    if faces and random.random() < 0.5:
        head.append(f"from pack.face import d{name}")
        return f"d{name}"
    way = random.randint(0, 2)
    if way == 0:
        head.append(f"from pack.{where} import d{name} as other{name}")
        return f"other{name}"
    head.append(f"from pack import {where}" if way == 1 else f"import pack.{where}")
    return f"{where}.d{name}" if way == 1 else f"pack.{where}.d{name}"


def moved(of: Project, random: random.Random) -> Project:
    """The same definitions elsewhere: one moved, a module renamed, two merged, one split; or one that nobody names."""
    parts, names = dict(of), sorted({part.module for part in of.values()})
    one, other = random.choice(names), random.choice(names)
    kind = random.choice(("moved", "renamed", "merged", "split", "added"))
    if kind == "moved":
        number = random.choice(list(parts))
        parts[number] = replace(parts[number], module=other)
    elif kind in ("renamed", "merged"):
        into = f"n{random.randint(0, 99)}" if kind == "renamed" else other
        parts = {n: replace(part, module=into) if part.module == one else part for n, part in parts.items()}
    elif kind == "split":
        apart = {n for n, part in parts.items() if part.module == one and random.random() < 0.5}
        parts = {n: replace(part, module=f"s{one}") if n in apart else part for n, part in parts.items()}
    else:
        parts[len(parts)] = Part("function", random.randint(0, 999), (0,), one)
    return parts


@pytest.mark.parametrize("seed", range(20))
def test_moves_change_nothing_and_changes_of_reached_code_do(tmp_path: Path, seed: int) -> None:
    """Ten moves in a row, and ten changes of single reached definitions and three of others, each against the first."""
    draw = random.Random(seed)
    of = project(draw)
    root = max(of)

    def now(of: Project, faces: bool = False) -> str:
        folder = tmp_path / "pack"
        for file in folder.rglob("*.py"):
            file.unlink()
        write(folder, rendered(of, draw, faces))
        return digest(f"pack.{of[root].module}.d{root}")

    before, there = now(of), of
    for number in range(10):
        there = moved(there, draw)
        assert now(there, faces=number % 3 == 0) == before
    own = reaches(of, root)
    others = [number for number in of if number not in own]
    for number in [*draw.choices(list(own), k=10), *others[:3]]:
        changed = {**of, number: replace(of[number], value=of[number].value + 1000)}
        assert (now(changed) != before) == (number in own), f"d{number}, reached: {number in own}"


def test_a_parser_that_another_thread_disturbs_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, parse, failures = tmp_path / "one.py", ast.parse, iter([SystemError("depth mismatch")] * 2)

    def disturbed(source: bytes, filename: str) -> ast.Module:
        if failure := next(failures, None):
            raise failure
        return parse(source, filename)

    monkeypatch.setattr(ast, "parse", disturbed)
    file.write_text("one = 1")
    assert len(digests._parsed(file).body) == 1
    file.write_text("one =")
    with pytest.raises(SyntaxError):
        digests._parsed(file)
