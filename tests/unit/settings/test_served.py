"""An endpoint's address is not the model: ids do not have it, and rows whose ids do are gone on with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grid import store
from grid.cells.run import Stamp, killed_cell
from grid.core.errors import ConfigError, ErrorKind
from grid.core.labels import without_folders
from grid.settings.build import build
from grid.settings.check import Checked, Job, check_sweep
from grid.settings.plan import Plan
from grid.settings.served import as_in, as_stored
from grid.settings.setting import Cell, Setting
from grid.settings.weights import identified
from tests.support.configs import job, yaml

HERE, THERE, ELSEWHERE = "http://127.0.0.1:8795/v1", "http://localhost:8795/v1", "http://host:1/v1"


def sweep(root: Path, *addresses: str, further: Mapping[str, Any] | None = None, **model: Any) -> Checked:
    fake = yaml("model", "openai_http") | {"model": "fake-1"} | model
    values = {"planner": yaml("planner", "react"), "dataset__limit": 1} | dict(further or {})
    jobs = [job(root, model={**fake, "base_url": one}, **values) for one in addresses]
    return check_sweep([Job(one.config, {**one.labels, "memory": "traces"}) for one in jobs])


def before(setting: Setting) -> Setting:
    """As ids were made once: with the address."""
    return replace(setting, placed={"model": {"base_url": setting.config["model"]["base_url"]}})


def write(plan: Plan, setting: Setting, cells: int = 1) -> None:
    """Rows of a setting, of cells that ended without a result."""
    built, stamp = build(setting, plan.budget), Stamp("test", None)
    told = replace(
        setting, labels={**setting.labels, "model": f"fake[base_url={setting.config['model'].get('base_url')}]"}
    )
    (case_ids,) = plan.case_ids.values()
    every = (
        Cell(case_ids[0], trial, f"{trial:x}{setting.id[1:]}", f"{trial:x}{setting.id[1:]}", "")
        for trial in range(cells)
    )
    rows = [killed_cell(built, told, cell, stamp, "a", ErrorKind.TIMEOUT, "late") for cell in every]
    store.write(plan.root, {"episodes": rows})


def test_the_address_is_in_no_id_and_a_name_of_ones_own_is(tmp_path: Path) -> None:
    one, other = (sweep(tmp_path, address).plan.settings[0] for address in (HERE, THERE))
    assert one.id == other.id
    assert sweep(tmp_path, HERE, identity=None).plan.settings[0].id == one.id
    assert sweep(tmp_path, HERE, identity="quantized").plan.settings[0].id != one.id
    assert before(one).id != before(other).id


@pytest.mark.parametrize("old", [True, False])
def test_a_memory_is_found_by_either_id(tmp_path: Path, old: bool) -> None:
    plan = sweep(tmp_path / "first", HERE, further={"part": "validation", "dataset__limit": 4}).plan
    write(plan, before(plan.settings[0]) if old else plan.settings[0])
    memory = yaml("memory", "traces") | {"path": str(plan.root)}
    checked = sweep(tmp_path, THERE, further={"part": "test", "dataset__limit": 4, "memory": memory})
    assert checked.plan.settings[0].config["memory"]["held"] == {"traces": 0, "cases": 1}


def test_rows_whose_labels_have_folders_keep_them_and_so_do_further_cells(tmp_path: Path) -> None:
    checked = sweep(tmp_path, HERE)
    setting = checked.plan.settings[0]
    long, short = "mcp[args=[/home/me/desk.py,~/x/y.json,-v],url=http\\://h/a/b]", without_folders
    assert short(long) == "mcp[args=[desk.py,y.json,-v],url=http\\://h/a/b]"
    assert short("local[path=/data]") == "local[path=/data]"
    built, stamp = build(setting, checked.plan.budget), Stamp("test", None)
    (case,) = checked.plan.case_ids[setting.id]
    told = replace(setting, labels={**setting.labels, "dataset": long})
    row = killed_cell(built, told, Cell(case, 0, "a", "a", ""), stamp, "a", ErrorKind.TIMEOUT, "late")
    store.write(checked.plan.root, {"episodes": [row]})
    for label, kept in ((short(long), long), ("other", "other")):
        now = replace(setting, labels={**setting.labels, "dataset": label})
        ((found,), lines) = as_stored(checked.plan.root, [now])
        assert (found.labels, found.id, lines) == ({**now.labels, "dataset": kept}, setting.id, [])


def test_rows_are_told_by_the_id_that_they_have(tmp_path: Path) -> None:
    setting = sweep(tmp_path, HERE).plan.settings[0]
    assert as_in(setting, before(setting).id) == before(setting)
    assert as_in(setting, setting.id) == setting


def test_two_addresses_in_one_sweep_are_no_two_models(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"one value for the whole sweep, .* a file for each .*its own identity"):
        sweep(tmp_path, HERE, THERE)


def test_rows_whose_ids_have_the_address_are_gone_on_with_from_another(tmp_path: Path) -> None:
    plan = sweep(tmp_path, HERE).plan
    then = before(plan.settings[0])
    write(plan, then)
    checked = sweep(tmp_path, THERE)
    assert checked.plan.settings[0].id == then.id
    assert checked.plan.settings[0].seed_id == then.seed_id
    assert checked.plan.settings[0].labels["model"] == f"fake[base_url={HERE}]"
    assert checked.moved == [
        f"fake-1: earlier cells were served at {HERE}, further cells are served at {THERE}; "
        "both count as the same model"
    ]
    assert sweep(tmp_path, HERE).moved == []


def test_of_several_addresses_ones_own_counts_else_the_one_of_most_cells(tmp_path: Path) -> None:
    plan = sweep(tmp_path, HERE).plan
    here, there = (before(sweep(tmp_path, address).plan.settings[0]) for address in (HERE, THERE))
    write(plan, here, 1)
    write(plan, there, 3)
    assert sweep(tmp_path, HERE).plan.settings[0].id == here.id
    assert sweep(tmp_path, ELSEWHERE).plan.settings[0].id == there.id


def test_rows_without_an_address_in_their_ids_and_other_models_change_nothing(tmp_path: Path) -> None:
    checked = sweep(tmp_path, HERE)
    setting = checked.plan.settings[0]
    write(checked.plan, setting)
    write(checked.plan, before(sweep(tmp_path, HERE, model="fake-2").plan.settings[0]))
    assert as_stored(checked.plan.root, [setting]) == ([setting], [])


def local(root: Path, folder: Path, **model: Any) -> Checked:
    """A sweep of a model in a folder of one's own."""
    given = yaml("model", "local") | {"path": str(folder)} | model
    return check_sweep([job(root, model=given, planner=yaml("planner", "react"), dataset__limit=1)])


def weights(folder: Path, text: str = "some") -> Path:
    """A folder as of a model: nobody loads it before a cell runs."""
    folder.mkdir(parents=True)
    for name in ("config.json", "tokenizer_config.json", "model.safetensors"):
        (folder / name).write_text(text)
    return folder


def by_folder(setting: Setting) -> Setting:
    """As ids were made once: with the folder's name."""
    model = {key: value for key, value in setting.config["model"].items() if key != "identity"}
    return replace(setting, config={**setting.config, "model": model})


def test_a_folder_of_weights_is_what_its_files_hold(tmp_path: Path) -> None:
    one, copy, other = (weights(tmp_path / name, name[0]) for name in ("here", "home/there", "other"))
    first, same, changed = (local(tmp_path, folder).plan.settings[0] for folder in (one, copy, other))
    assert first.id == same.id != changed.id
    assert by_folder(first).id != by_folder(same).id
    (copy / "README.md").write_text("for people")
    (copy / "results").mkdir()
    (copy / "results" / "progress.json").write_text("{}")
    assert local(tmp_path, copy).plan.settings[0].id == first.id
    (copy / "model.safetensors").write_text("longer")
    assert local(tmp_path, copy).plan.settings[0].id != first.id
    assert local(tmp_path, copy, identity="mine").plan.settings[0].config["model"]["identity"] == "mine"


def test_a_folder_that_is_not_here_tells_by_its_name(tmp_path: Path) -> None:
    one, other = (local(tmp_path, tmp_path / name).plan.settings[0] for name in ("a", "b"))
    assert one.config["model"]["identity"] is None
    assert one.id != other.id
    named = [local(tmp_path, tmp_path / name, identity="mine").plan.settings[0].id for name in ("a", "b")]
    assert named[0] == named[1]


@pytest.mark.parametrize("path", [5, ["a"]])
def test_a_path_that_is_no_text_is_refused_as_any_value_is(tmp_path: Path, path: object) -> None:
    with pytest.raises(ConfigError, match=r"model\.path"):
        check_sweep([job(tmp_path, model=yaml("model", "local") | {"path": path})])


@pytest.mark.parametrize("path", ["a\0b", "~nobody-of-this-name/x", __file__])
def test_what_no_folder_can_be_called_has_no_identity(path: str) -> None:
    given = yaml("model", "local") | {"path": path}
    assert identified(given) == given


def test_a_model_whose_class_takes_no_identity_gets_none(tmp_path: Path) -> None:
    given = yaml("model", "lexical") | {"path": str(weights(tmp_path / "folder"))}
    assert identified(given) == given


def test_rows_by_a_folders_name_are_gone_on_with_there_alone(tmp_path: Path) -> None:
    folder, moved = weights(tmp_path / "folder"), weights(tmp_path / "moved")
    plan = local(tmp_path, folder).plan
    then = by_folder(plan.settings[0])
    write(plan, then)
    assert local(tmp_path, folder).plan.settings[0].id == then.id
    assert as_in(plan.settings[0], then.id).id == then.id
    assert local(tmp_path, moved).plan.settings[0].id == plan.settings[0].id
    assert local(tmp_path, folder, identity="mine").plan.settings[0].id not in (then.id, plan.settings[0].id)
