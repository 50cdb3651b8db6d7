"""Sweeps over several data sets: each finds its folder, and what has none is left out and said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from omegaconf import OmegaConf

from grid.core.errors import ConfigError
from grid.sweeps.composing import Composed
from grid.sweeps.jobs import Folders, Setting
from tests.support.configs import CONF, names, yaml

GIVEN: dict[str, Any] = {"kqapro": None, "ultratool": None}


def composed(name: str, paths: Mapping[str, object], dataset: Mapping[str, object] | None = None) -> Composed:
    own = {"_target_": "x", "path": "???"} if dataset is None else dict(dataset)
    config = OmegaConf.create({"dataset": own, "paths": GIVEN | dict(paths)})
    OmegaConf.set_struct(config, True)
    return Composed(config, {"dataset": name}, [])


def taken(*settings: Composed) -> tuple[list[Any], list[str]]:
    folders = Folders()
    return [one.config.dataset.get("path") for one in folders.with_files(settings)], folders.lines


def test_each_data_set_has_its_own_folder() -> None:
    paths = {"kqapro": "/a", "ultratool": "/b"}
    assert taken(composed("ultratool", paths), composed("kqapro", paths)) == (["/b", "/a"], [])


def test_a_folder_that_is_given_for_all_counts_before() -> None:
    assert taken(composed("kqapro", {"kqapro": "/a"}, {"path": "/all"})) == (["/all"], [])


def test_what_needs_no_folder_gets_none() -> None:
    assert taken(composed("slate", {}, {"path": None}), composed("kqa_synthetic", {}, {"seed": 0})) == (
        [None, None],
        [],
    )


def test_what_has_no_folder_is_left_out_once_and_said() -> None:
    one = [composed("ultratool", {"kqapro": "/a"}), composed("kqapro", {"kqapro": "/a"})]
    found, lines = taken(*one, composed("ultratool", {"kqapro": "/a"}))
    assert found == ["/a"]
    assert lines == ["left out dataset ultratool: no folder is given (paths.ultratool=FOLDER)"]


def test_without_any_data_set_there_is_nothing_to_run() -> None:
    with pytest.raises(ConfigError, match=r"must be given, or paths\.kqapro=FOLDER paths\.ultratool=FOLDER"):
        taken(composed("kqapro", {}), composed("ultratool", {}))


@pytest.mark.parametrize("value", [3, True, ["/a"], {"a": "/b"}])
def test_a_folder_is_a_text(value: object) -> None:
    with pytest.raises(ConfigError, match=r"paths\.kqapro="):
        taken(composed("kqapro", {"kqapro": value}))


def settings(*datasets: str, stand_ins: Mapping[str, str]) -> list[Setting]:
    return [({"stand_ins": dict(stand_ins)}, {"dataset": name}) for name in datasets]


@pytest.mark.parametrize(
    ("there", "left"),
    [
        (["kqa_synthetic", "kqapro[cases=10]", "slate"], ["kqapro[cases=10]", "slate"]),
        (["kqa_synthetic[seed=1]", "slate"], ["kqa_synthetic[seed=1]", "slate"]),
        (["kqapro"], ["kqapro"]),
    ],
)
def test_a_stand_in_gives_way_to_what_it_stands_for(there: Sequence[str], left: Sequence[str]) -> None:
    folders = Folders()
    found = folders.without_stand_ins(settings(*there, stand_ins={"kqa_synthetic": "kqapro"}))
    assert [labels["dataset"] for _, labels in found] == left
    lines = ["left out dataset kqa_synthetic: kqapro runs in its place"]
    assert folders.lines == lines * (len(there) - len(left))


def test_every_data_set_that_needs_a_folder_can_be_given_one() -> None:
    keys: Any = OmegaConf.to_container(OmegaConf.load(CONF / "config.yaml"), resolve=False)
    keys = keys["paths"]
    needing = {name for name in names("dataset") if yaml("dataset", name).get("path") == "???"}
    assert needing == set(keys)
    assert set(keys.values()) == {None}
