"""Packages of the user's own: which a config may name, and what is refused in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grid import plugins
from grid.code_digest import _file, _module, code_digest, definition
from grid.core.errors import ConfigError, UnfinishedError
from grid.settings.config import sweep_config
from grid.settings.make import load_class, make
from grid.sweeps.composing import prepared
from tests.support.configs import SHARED
from tests.support.plugins import YAML, follow_pythonpath, forget, standing_in, write, write_distribution

ROOT = Path(__file__).parents[3]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Path]:
    """Stands in a folder with the plugin; nothing is allowed yet."""
    with standing_in(write(tmp_path / "lab")):
        yield tmp_path / "lab"


def refused(*names: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        plugins.allow(names)
    assert "\n" not in str(caught.value)
    return caught.value


def test_nothing_is_imported_that_was_not_allowed(lab: Path) -> None:
    target = {"_target_": "mylab.planners.telling.Telling", "greeting": "hello"}
    with pytest.raises(ConfigError, match=r"plugins=\[\.\.\.\] names"):
        make("planner", target)
    write(lab, {"other/__init__.py": "raise SystemExit('imported')"})
    plugins.allow(["mylab"])
    assert "mylab" not in sys.modules, "to allow is not to import"
    assert type(make("planner", target)).__module__ == "mylab.planners.telling"
    with pytest.raises(ConfigError):
        load_class("planner", {"_target_": "other.Planner"})
    assert "other" not in sys.modules


def test_only_the_package_is_found_where_one_stands(lab: Path) -> None:
    write(lab, {"beside.py": "", "mylab/planners/extra.py": "import beside\nclass Extra: ...\n"})
    plugins.allow(["mylab"])
    with pytest.raises(ConfigError, match="No module named 'beside'"):
        load_class("planner", {"_target_": "mylab.planners.extra.Extra"})


def test_child_processes_are_told(lab: Path) -> None:
    plugins.allow(["mylab"])
    code = "from grid import plugins; print(*plugins.allowed())"
    told = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["mylab"]
    plugins.allow([])
    assert plugins.VARIABLE not in os.environ
    assert plugins.allowed() == {}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("grid", "must not be the name of a package of agent-grid"),
        ("launch", "must not be the name of a package of agent-grid"),
        ("json", "must not be the name of a module of Python itself"),
        ("mylab.planners", "without dots"),
        ("class", "that Python can import"),
        ("mylib", r"did you mean mylab\?"),
        ("bare", "has no __init__.py"),
        ("yaml", "would hide"),
        ("typing_extensions", "would hide"),
        ("__main__", "of Python itself"),
    ],
)
def test_names_that_are_refused(lab: Path, name: str, why: str) -> None:
    write(
        lab, {"bare/text.txt": "", "yaml/__init__.py": "", "typing_extensions/__init__.py": ""}
    )  # of which both are installed
    error = refused(name)
    assert error.key == "plugins"
    assert error.value == name
    with pytest.raises(ConfigError, match=why):
        raise error


def test_a_folder_with_data_is_too_large_to_be_sent(lab: Path) -> None:
    with (lab / "mylab" / "model.bin").open("wb") as file:
        file.truncate(101 * 2**20)
    assert "a package of at most 100 MiB" in refused("mylab").allowed


def test_a_file_that_hides_one_of_ours_or_of_another_plugin(lab: Path) -> None:
    write(lab, {"yours/__init__.py": "", "yours/conf/planner/telling.yaml": YAML})
    error = refused("mylab", "yours")
    assert (error.value, "mylab" in error.allowed) == ("yours/conf/planner/telling.yaml", True)
    assert plugins.allowed() == {}
    write(lab, {"mylab/conf/planner/react.yaml": YAML})
    error = refused("mylab")
    assert (error.value, "agent-grid" in error.allowed) == ("mylab/conf/planner/react.yaml", True)


CLASSES = {
    "reexported": "from grid.planners.react import ReAct as Planner\n",
    "broken": "import nosuch_module\n",
    "syntax": "def solve(:\n",
    "ending": "raise SystemExit(0)\n",
    "absent": "x = 1\n",
    "function": "def Planner(): ...\n",
    "needless": "class Planner:\n    async def solve(self, episode): ...\n",
    "solveless": "class Planner:\n    needs = frozenset()\n",
    "waiting": "class Planner:\n    needs = frozenset()\n    def solve(self, episode): ...\n",
    "listed": "class Planner:\n    needs = ['sample']\n    async def solve(self, episode): ...\n",
    "raising": "class Planner:\n    needs = frozenset()\n    def __init__(self): raise ValueError('two\\nlines')\n"
    "    async def solve(self, episode): ...\n",
}


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("reexported", r"use the class's own name \(grid.planners.react.ReAct\)"),
        ("broken", "ModuleNotFoundError: No module named 'nosuch_module'"),
        ("syntax", r"SyntaxError: .*syntax.py, line 1"),
        ("ending", "SystemExit"),
        ("absent", "has no attribute 'Planner'"),
        ("function", "the dotted name of a class"),
        ("needless", r"must have needs, solve \(it lacks needs\)"),
        ("solveless", r"it lacks solve\)"),
        ("waiting", r"solve is async \(async def solve"),
        ("listed", "needs is a frozenset"),
        ("raising", "ValueError: two lines"),
    ],
)
def test_classes_that_are_refused(lab: Path, module: str, why: str) -> None:
    write(lab, {f"mylab/{name}.py": text for name, text in CLASSES.items()})
    plugins.allow(["mylab"])
    with pytest.raises(ConfigError, match=why) as caught:
        make("planner", {"_target_": f"mylab.{module}.Planner"})
    assert caught.value.key.startswith("planner")
    assert "\n" not in str(caught.value)


def test_the_keys_of_a_plain_dataclass_are_checked(lab: Path) -> None:
    plugins.allow(["mylab"])
    target = {"_target_": "mylab.planners.telling.Telling"}
    with pytest.raises(
        ConfigError, match=r"greetings='hi': no such key \(did you mean greeting\?\); the keys here are gr"
    ):
        make("planner", {**target, "greetings": "hi"})
    with pytest.raises(ConfigError, match=r"planner.greeting=None: this key has no default"):
        make("planner", target)


def test_a_config_can_only_name_what_the_command_line_allowed(lab: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"must be named on the command line or in plugins\.yaml in the folder of --config-dir"
    ):
        sweep_config({**SHARED, "plugins": ["mylab"]})
    plugins.allow(["mylab"])
    assert sweep_config({**SHARED, "plugins": ["mylab"]}).plugins == ["mylab"]


@pytest.mark.long
def test_a_digest_knows_no_folder_and_no_yaml_but_the_code(lab: Path, tmp_path: Path) -> None:
    def digest(folder: Path) -> str:
        for cached in (code_digest, definition, _module, _file):
            cached.cache_clear()
        with standing_in(folder):
            plugins.allow(["mylab"])
            return code_digest(("mylab.planners.telling",), ("mylab",))

    first = digest(lab)
    other = Path(shutil.copytree(lab / "mylab", tmp_path / "other" / "mylab")).parent
    write(other, {"mylab/conf/planner/telling.yaml": YAML.replace("hello", "good day")})
    assert digest(other) == first, "what a setting takes of its YAML is in its config"
    write(other, {"mylab/words/text.txt": "other data"})
    second = digest(other)
    assert second != first
    third = Path(shutil.copytree(other / "mylab", tmp_path / "third" / "mylab")).parent
    told = third / "mylab" / "told.py"
    told.write_text(told.read_text().replace('"|"', '"/"'))
    assert digest(third) not in (first, second)


def test_an_installed_package_declares_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = write_distribution(tmp_path / "site", "0.2")
    monkeypatch.syspath_prepend(site)
    with standing_in(tmp_path):
        (found,) = plugins.allow([]).values()
        assert (found.name, found.distribution, found.version) == ("mylab", "mylab-tools", "0.2")
        assert found.conf == site / "mylab" / "conf"
        make("planner", {"_target_": "mylab.planners.telling.Telling", "greeting": "hello"})
        forget("mylab")
        plugins._expect.cache_clear()
        (site / "mylab_tools-0.2.dist-info").rename(site / "mylab_tools-0.3.dist-info")
        write(site, {"mylab_tools-0.3.dist-info/METADATA": "Metadata-Version: 2.1\nName: mylab-tools\nVersion: 0.3\n"})
        with pytest.raises(UnfinishedError, match=r"has mylab-tools 0\.3, but the sweep's driver has 0\.2; install"):
            make("planner", {"_target_": "mylab.planners.telling.Telling", "greeting": "hello"})
        assert "mylab" not in sys.modules, "another version is not even imported"


def test_a_folder_may_not_hide_an_installed_package(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = write_distribution(tmp_path / "site", "0.2")
    monkeypatch.syspath_prepend(site)
    error = refused("mylab")
    assert f"{lab / 'mylab'} would hide {site / 'mylab'}; if both are the same package" in error.allowed
    assert f"install yours with `pip install -e {lab}`" in error.allowed


def test_a_distribution_that_declares_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = write_distribution(tmp_path / "site", "0.2")
    shutil.rmtree(site / "mylab")
    monkeypatch.syspath_prepend(site)
    with standing_in(tmp_path):
        assert refused().key == "agent_grid.plugins of mylab-tools"


def test_the_command_lines_search_path(lab: Path) -> None:
    own = f"file://{lab / 'mylab' / 'conf'}"
    assert prepared(["-m", "planner=telling"]) == ["-m", "planner=telling"]
    assert prepared(["plugins=[mylab]"]) == [f"hydra.searchpath=['{own}']", "plugins=[mylab]"]
    given = ["hydra.searchpath=['file:///mine']", "plugins=[mylab]"]
    assert prepared(given) == [f"hydra.searchpath=['file:///mine','{own}']", "plugins=[mylab]"]
    parted = prepared(["--config-dir=/nosuch", "seed=1", "plugins=[mylab]", "-m"])
    assert parted == ["--config-dir=/nosuch", f"hydra.searchpath=['{own}']", "seed=1", "plugins=[mylab]", "-m"]


@pytest.mark.parametrize("value", ["mylab", "1", "[1]", "null", "{a:1}", "mylab,other", "[[mylab]]", ""])
def test_plugins_are_a_list_of_names(lab: Path, value: str) -> None:
    with pytest.raises(ConfigError, match=r"must be a list of packages, for example plugins=\[mylab\]"):
        prepared([f"plugins={value}"])


def test_a_config_folder_names_plugins(lab: Path, tmp_path: Path) -> None:
    folder = write(tmp_path / "own", {"plugins.yaml": "plugins: [mylab]\n"})
    for flag in ([f"--config-dir={folder}"], ["--config-dir", str(folder)], ["-cd", str(folder)]):
        assert "mylab/conf" in prepared([*flag, "-m"])[-1]
    for text in ("plugins: mylab\n", "- mylab\n", "other: [mylab]\n", "", "plugins: [1]\n", "{", "\x00", "a: &a [*a]"):
        write(folder, {"plugins.yaml": text})
        with pytest.raises(ConfigError) as caught:
            prepared(["--config-dir", str(folder)])
        assert caught.value.key == "--config-dir"
        assert "\n" not in str(caught.value)
    assert prepared(["--config-dir", str(tmp_path)]) == ["--config-dir", str(tmp_path)]


def test_what_is_on_the_path_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = write(tmp_path / "lab")
    monkeypatch.setenv("PYTHONPATH", str(lab))
    monkeypatch.setattr(sys, "path", list(sys.path))
    follow_pythonpath()
    with standing_in(tmp_path):
        (found,) = plugins.allow(["mylab"]).values()
        assert (found.folder, found.distribution) == (str(lab / "mylab"), "")
