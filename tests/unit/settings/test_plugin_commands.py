"""A plugin on the command line: its YAML is found by every command, and what is wrong is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import in_process
from tests.support.commands import Ended
from tests.support.plugins import FILES, YAML, standing_in, write

PLUGIN = "plugins=[mylab]"
SMALL = ("model=null_engine", "dataset=null_cases", "dataset.limit=2", "trials=1")
EXPERIMENT = """# @package _global_
# A study of another laboratory.
defaults:
  - override /planner: telling
planner: {greeting: study}
hydra:
  sweeper: {params: {planner: telling, robustness: none}}
"""
MODEL = "# An engine that another laboratory serves.\n_target_: grid.engines.null.Null\n"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    more = {"mylab/conf/experiment/study.yaml": EXPERIMENT, "mylab/conf/model/served.yaml": MODEL}
    return write(tmp_path / "it's a lab", {**FILES, **more})


def launch(script: str, lab: Path, *arguments: str) -> Ended:
    """A command in the lab's folder, which has allowed and imported nothing before."""
    with standing_in(lab):
        return in_process.launch(script, lab, *arguments)


@pytest.mark.long
def test_one_setting_and_a_grid_and_a_study(lab: Path) -> None:
    for values, told in (
        ((PLUGIN, "planner=telling"), "1 setting, 2 cells"),
        ((PLUGIN, "planner=telling,react", "robustness=none", "-m"), "2 settings, 4 cells"),
        ((PLUGIN, "+experiment=study", "-m"), "1 setting, 2 cells"),
    ):
        ended = launch("sweep", lab, *SMALL, "dry_run=true", *values)
        assert ended.status == 0, ended.err
        assert told in ended.out


def test_a_config_folder_and_ones_own_search_path(lab: Path, tmp_path: Path) -> None:
    own = write(tmp_path / "own", {"plugins.yaml": "plugins: [mylab]\n"})
    other = write(tmp_path / "other", {"planner/mine.yaml": YAML.replace("hello", "hi")})
    path = f"hydra.searchpath=['file://{other}']"
    ended = launch("sweep", lab, "-m", "--config-dir", str(own), *SMALL, path, "planner=telling,mine", "dry_run=true",
                   "robustness=none")  # fmt: skip
    assert ended.status == 0, ended.err
    assert "2 settings, 4 cells" in ended.out


def test_a_plugin_without_its_yaml_is_told(lab: Path) -> None:
    write(lab, {"bare/__init__.py": ""})
    wrong = ("-m", *SMALL, "planner=telling", "dry_run=true")
    ended = launch("sweep", lab, *wrong, "plugins=[bare]")
    assert ended.err.rstrip().endswith(f"; the plugin bare has no YAML files in {lab / 'bare' / 'conf'}")
    assert "has no YAML" not in launch("sweep", lab, *wrong[:-2], "planner=tellin", PLUGIN).err


def test_pools_that_stay_know_a_plugins_models(lab: Path) -> None:
    at = ("cluster=address", "cluster.address=127.0.0.1:1", "cluster.auth=disabled")
    ended = launch("replicas", lab, "status", PLUGIN, "model=served", *at)
    assert (ended.status, "no Ray cluster answers at this address" in ended.out) == (2, True)
    assert "did you mean mylab?" in launch("replicas", lab, "status", "plugins=[mylib]", "model=served", *at).out


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "why"),
    [
        (("plugins=[mylib]", "planner=react"), "error: plugins='mylib': "),
        ((PLUGIN, "planner=telling", "planner.greting=x"), "error: planner.greting='x': no such key"),
        ((PLUGIN, "planner=telling", "+planner.more=x"), "error: planner.more='x': no such key"),
        (
            (PLUGIN, "planner=telling", "planner._target_=mylab.told.told"),
            "error: planner._target_='mylab.told.told': ",
        ),
        (("planner._target_=mylab.planners.telling.Telling",), "error: planner._target_='mylab.planners.telling.Tell"),
        (("plugins=[mylab],[]", "-m"), "error: plugins='[mylab],[]': must be a list of packages"),
    ],
)
def test_what_is_wrong_is_one_line(lab: Path, values: tuple[str, ...], why: str) -> None:
    ended = launch("sweep", lab, *SMALL, *values)
    assert ended.status == 2
    (line,) = ended.err.splitlines()
    assert line.startswith(why)
    assert not (lab / "results").exists()


def test_a_plugin_that_hides_one_of_ours(lab: Path) -> None:
    write(lab, {"mylab/conf/planner/react.yaml": YAML})
    ended = launch("sweep", lab, *SMALL, PLUGIN, "planner=react")
    assert ended.status == 2
    (line,) = ended.err.splitlines()
    assert line.startswith("error: plugins='mylab/conf/planner/react.yaml': this file would hide a file of agent-grid")
