"""The presets of published tables: each runs the settings that stand beside its tables' rows, and no others."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pandas as pd
import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import HydraContext, RunMode
from hydra.utils import instantiate

from analysis.load import name_of
from analysis.papers import files
from analysis.papers.beside import NAMED, blocks
from grid.core.types import to_json
from grid.sweeps.composing import Composer
from launch import gallery
from tests.support.configs import CONF, yaml

Cells = Callable[..., pd.DataFrame]


@pytest.fixture(scope="module")
def cells() -> Iterator[Cells]:
    """Of a preset and further arguments the settings that the command line runs, as a report finds them.

    `of_each`: one setting of each value of a key is enough; Hydra takes a twentieth of a second for one.
    """
    sys.path.insert(0, str(CONF.parent / "launch"))
    try:
        from hydra_plugins import grid_sweeper
    finally:
        sys.path.remove(str(CONF.parent / "launch"))
    grid_sweeper.register()
    settings = grid_sweeper.settings
    with initialize_config_dir(str(CONF), version_base=None), pytest.MonkeyPatch.context() as patch:
        loader = GlobalHydra.instance().config_loader()
        # One for all: what it keeps of a preset's choices, which Hydra takes long for, holds at any size.
        composer = Composer(loader, loader.load_configuration("config", [], RunMode.MULTIRUN))
        patch.setattr(grid_sweeper, "Composer", lambda *_: composer)

        @cache  # most presets are looked at several times
        def found(*arguments: str, of_each: str = "") -> pd.DataFrame:
            from grid.sweeps.jobs import one_retriever, resolved

            def one_of_each(*asked: Any) -> list[tuple[str, ...]]:
                """A setting of each value of a key, or all of them."""
                every = settings(*asked)
                key = f"{of_each}="
                told = {next((one for one in setting if one.startswith(key)), ""): setting for setting in every}
                return list(told.values()) if of_each else every

            patch.setattr(grid_sweeper, "settings", one_of_each)

            arguments = (*arguments, "++dataset.path=/data")
            master = loader.load_configuration("config", list(arguments), RunMode.MULTIRUN)
            sweeper = instantiate(master.hydra.sweeper)
            sweeper.setup(hydra_context=HydraContext(loader, None), task_function=None, config=master)
            rows = []
            for config, labels in one_retriever([resolved(composed) for composed in sweeper.composed(arguments)])[0]:
                groups = {name: labels.get(name, "none") for name in ("model", *NAMED)}
                rows.append(groups | {"config": to_json(config), "label": " ".join(groups.values())})
            return pd.DataFrame(rows)

        yield found


HORIZON = {
    ("planning_horizon", "2"): 2, ("planning_horizon", "2 ratios"): 1, ("planning_horizon", "4"): 2,
    ("planning_horizon", "5"): 2, ("planning_horizon", "5 low robustness"): 2,
}  # fmt: skip
"""Of one data set, fh and sh; coefficients stand beside families, not settings."""
PRESETS: dict[tuple[str, ...], dict[tuple[str, str], int]] = {
    ("traject_table2",): {("traject_bench", "2"): 2, ("traject_bench", "3"): 1, ("traject_bench", "5"): 2},
    ("traject_table2", "planner=zero_shot,cot"): {
        ("traject_bench", "2"): 2, ("traject_bench", "3"): 1, ("traject_bench", "5"): 2, ("traject_bench", "10"): 2,
        ("traject_bench", "11"): 1,
    },
    ("traject_table2", "dataset.kind=sequential"): {("traject_bench", "3"): 1},
    ("traject_table4",): {("traject_bench", "4"): 8},
    ("traject_table4", "retriever=dense", "retriever.hub.id=BAAI/bge-large-en-v1.5"): {("traject_bench", "4"): 4},
    ("traject_table5",): {("traject_bench", "2"): 2, ("traject_bench", "5"): 2},
    ("traject_table5", "model=openai_http", "model.model=m", "model.tools=prompt,native"): {
        ("traject_bench", "2"): 2, ("traject_bench", "5"): 4,
    },
    ("traject_table6_7",): {("traject_bench", "6"): 6, ("traject_bench", "7"): 3},
    ("tooltree_table1",): {("tooltree", "1"): 18},
    ("tooltree_table2",): {("tooltree", "2"): 6, ("tooltree", "11"): 1},
    ("tooltree_table2", "dataset.api=tmdb,spotify"): {("tooltree", "2"): 12, ("tooltree", "11"): 1},
    ("tooltree_table2", "dataset=stabletoolbench"): {("tooltree", "2"): 6, ("tooltree", "11"): 1},
    ("tooltree_table3",): {("tooltree", "3"): 18},
    ("tooltree_library_size", "planner=sampled/tooltree", "dataset=gta"): {("tooltree", "12"): 5},
    ("tooltree_table5",): {("tooltree", "5"): 12},
    ("apb_execution",): {("agent_planning_benchmark", "3"): 3},
    ("egb_memory",): {("egb_slate", "3"): 3, ("egb_slate", "4"): 3, ("egb_slate", "5"): 3, ("egb_slate", "7"): 9},
    ("horizon_kqapro",): HORIZON,
    ("horizon_hotpotqa",): HORIZON,
    ("horizon_kbqa", "dataset=grailqa,webqsp,graphquestions"): {table: 3 * rows for table, rows in HORIZON.items()},
    ("planning_horizon", "dataset=kqapro,grailqa,webqsp,graphquestions,hotpotqa_multi"): {
        table: 5 * rows for table, rows in HORIZON.items()
    },
}  # fmt: skip
"""Of each preset, with further arguments, how many rows of which table ours stand beside."""


@pytest.mark.long
@pytest.mark.parametrize("preset", PRESETS, ids=" ".join)
def test_a_preset_runs_what_its_tables_have(cells: Cells, preset: tuple[str, ...]) -> None:
    name, *arguments = preset
    ran = cells(f"+experiment={name}", *arguments)
    assert ran["label"].is_unique, "no setting runs twice"
    found: dict[tuple[str, str], int] = {}
    beside: set[str] = set()
    for table in files.every():
        if table.of == "agreement":  # of judges: `launch/agreement.py`
            continue
        ours = [block for block in blocks(table, ran) if block.setting]
        rows = {tuple(block.row.labels) for block in ours}
        found |= {(table.paper, table.table): len(rows)} if rows else {}
        beside |= {label for block in ours for label in block.cases["label"]}
    assert found == PRESETS[preset]
    assert beside == set(ran["label"]), "no setting runs in vain"


PLANS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "apb_table1": (
        {"1", "1 extraneous", "1 broken", "1 unsolvable", "12", "14", "15"}, {"holistic", "stepwise"}, {"none"},
    ),
    "apb_extraneous": ({"2", "16", "17", "18"}, {"holistic", "stepwise"}, {"none"}),
    "apb_refinement": (
        {"4"}, {"holistic", "stepwise"},
        {f"{mode}[taxonomy={told}]" for mode in ("self", "critic") for told in ("true", "false")},
    ),
    "apb_efficiency": ({"5"}, {"holistic"}, {"none"}),
}  # fmt: skip
"""Of each preset of plans whose tables it has, by which planners, and how these refine plans; all run others beside."""


@pytest.mark.long
@pytest.mark.parametrize("name", PLANS)
def test_a_preset_of_plans_has_a_setting_beside_every_row_of_its_tables(cells: Cells, name: str) -> None:
    tables, planners, refined = PLANS[name]
    ran = cells(f"+experiment={name}")
    assert ran["label"].is_unique
    assert set(ran["refine"]) == refined
    assert set(ran["planner"]) >= planners
    for table in files.every():
        if table.paper == "agent_planning_benchmark" and table.table in tables:
            found = blocks(table, ran)
            assert all(block.setting for block in found), table.table
            assert {str(planner) for block in found for planner in block.cases["planner"]} <= planners


EGB: dict[str, tuple[dict[str, int], int]] = {
    "egb_table2": ({"2": 1}, 1),
    "egb_table3": ({"3": 5, "4": 5}, 6),
    "egb_table5": ({"5": 6}, 6),
    "egb_table6": ({"6": 5}, 1),
    "egb_figure6": ({"figure 6": 5}, 36),
    "egb_robustness": ({"9": 12, "10": 6}, 15),
}
"""Of each preset the tables whose every row has a setting beside it, with their rows, and how many settings run.

Table 9 has a row more than the paper prints: self-consistency by step.
"""


@pytest.mark.long
@pytest.mark.parametrize("name", EGB)
def test_a_preset_of_egb_has_a_setting_beside_every_row_of_its_tables(cells: Cells, name: str) -> None:
    """And runs nothing else, but for the figure's points that the text does not tell."""
    wanted, settings = EGB[name]
    ran = cells(f"+experiment={name}")
    assert ran["label"].is_unique, "no setting runs twice"
    assert len(ran) == settings
    beside: set[str] = set()
    for table in files.every():
        if table.paper == "egb_slate" and table.table in wanted:
            found = blocks(table, ran)
            assert len(found) == wanted[table.table]
            assert all(block.setting for block in found), table.table
            beside |= {label for block in found for label in block.cases["label"]}
    assert beside == set(ran["label"]) or name == "egb_figure6"


def test_lats_visits_as_many_nodes_as_its_row_says_and_may_ask_whether_it_is_done(cells: Cells) -> None:
    ran = cells("+experiment=egb_robustness", "planner=lats", "robustness=none")
    table = files.find("egb_slate_table9")
    for block in blocks(table, ran):
        if block.setting and block.row.labels[0].startswith("LATS"):
            (config,) = [json.loads(text) for text in block.cases["config"]]
            assert block.row.labels == [f"LATS-{config['planner']['max_visited']}"]
            assert config["planner"]["oracle_stop"]
    unlike = cells("+experiment=search_planners", "planner=lats", "dataset.outline=given")
    lats = [block for block in blocks(files.find("egb_slate_table3"), unlike) if block.row.labels == ["LATS"]]
    assert not lats, "without a limit of nodes and without asking it is another method"


@pytest.mark.parametrize("name", sorted({preset[0] for preset in PRESETS} | set(PLANS) | set(EGB)))
def test_a_preset_says_how_it_is_run_and_what_came_out(name: str) -> None:
    head = [line for line in (CONF / "experiment" / f"{name}.yaml").read_text().splitlines() if line.startswith("#")]
    told = " ".join(line.removeprefix("#").strip() for line in head)
    assert all(text in told for text in (f"+experiment={name}", "two CPU cores", "simulated policy"))


@pytest.mark.long
def test_the_study_has_all_of_its_families(cells: Cells) -> None:
    ran = cells("+experiment=planning_horizon")
    assert set(ran["dataset"]) == {
        "kqa_synthetic", "kqapro", "grailqa", "webqsp", "graphquestions", "agentbench_kg", "hotpotqa_multi"
    }  # fmt: skip
    assert set(ran["planner"]) == {"fh", "sh"}
    more = cells("+experiment=planning_horizon", "planner=fh,sh,react,lats", "dataset=grailqa")
    assert set(more["planner"]) == {"fh", "sh", "react", "lats"}


@pytest.mark.long
def test_sh_and_fh_run_everywhere_and_searches_on_questions(cells: Cells) -> None:
    files = ("bfcl", "kqapro", "ultratool")
    ran = pd.concat([cells("+experiment=horizon_everywhere", *more) for more in ([], [f"dataset={','.join(files)}"])])
    assert ran["label"].is_unique
    planners = ran.groupby("dataset")["planner"].agg(set)
    assert {name.partition("[")[0] for name in planners.index} == {"kqa_synthetic", "slate", "gta_generated", *files}
    assert all(found >= {"fh", "sh", "react"} for found in planners)
    assert planners["kqa_synthetic"] > {"sampled/tooltree", "mcts", "egb_logits"}
    assert planners["ultratool"] == {"fh", "sh", "react"}


GALLERY = gallery.load()
"""Fails where a preset of conf/experiment is not in conf/gallery.yaml, or has neither tables nor a reason there."""


@pytest.mark.long
@pytest.mark.parametrize("name", GALLERY)
def test_a_preset_runs_settings_that_stand_beside_the_tables_that_it_names(cells: Cells, name: str) -> None:
    preset = GALLERY[name]
    if not preset.published:
        assert preset.unpublished
        return
    ran = pd.concat([cells(f"+experiment={name}", *more) for more in preset.runs])
    tables = [files.find(table) for table in preset.published]
    for table in tables:
        if table.of == "coefficients":  # of a regression over families of data sets
            found = table.rows if set(ran["planner"]) >= {"fh", "sh"} else []
        else:
            found = [block.row for block in blocks(table, ran) if block.setting]
        assert found, f"{table.file}: no row that a setting of {name} stands beside"
    if preset.row:
        assert tables[0].row(preset.row) in [block.row for block in blocks(tables[0], ran) if block.setting]


def test_every_published_table_is_named_by_a_preset_or_says_how_it_is_run() -> None:
    named = {table for preset in GALLERY.values() for table in preset.published}
    for table in files.every():
        head = (files.FOLDER / f"{table.file}.yaml").read_text(encoding="utf-8").split("paper:")[0]
        assert table.of == "agreement" or table.file in named or "runs ours" in head or "has ours" in head, table.file


@pytest.mark.long
@pytest.mark.parametrize("name", GALLERY)
def test_the_gallery_runs_every_preset_at_its_small_size(cells: Cells, name: str) -> None:
    preset = GALLERY[name]
    assert gallery.about(name)[-1] in ".?", "the head says what it is"
    if not preset.left_out:
        for more in preset.runs:
            ran = cells(f"+experiment={name}", *preset.small, *more, of_each="model")
            assert not set(ran["model"].map(name_of)) & {"smollm2-135m", "qwen2.5-coder-1.5b"}, "no real model"


@pytest.mark.long
@pytest.mark.parametrize("name", ["planning_horizon", "horizon_kqapro", "horizon_kbqa", "horizon_hotpotqa"])
def test_horizons_ask_models_as_published(cells: Cells, name: str) -> None:
    ran = cells(f"+experiment={name}", "model=openai_http", "model.model=m", "model.base_url=http://127.0.0.1:1/v1")
    asked = [json.loads(config)["planner"] for config in ran["config"]]
    assert {(own["temperature"], own["max_tokens"], own["fit_tokens"]) for own in asked} == {(0.0, 10_000, True)}
    assert {json.loads(config)["dataset"]["demonstrations_hold_out"] for config in ran["config"]} == {"question"}
    default = json.loads(cells(f"+experiment={name}")["config"][0])
    assert default["planner"]["temperature"] == 0
    assert default["model"]["least_temperature"] > 0, "or its three trials would be one"


def test_horizons_everywhere_ask_at_each_planners_own_temperature(cells: Cells) -> None:
    ran = cells("+experiment=horizon_everywhere")
    pairs = zip(map(str, ran["planner"]), map(str, ran["config"]), strict=True)
    asked = {label.partition("[")[0]: json.loads(config)["planner"] for label, config in pairs}
    assert {name: own["temperature"] for name, own in asked.items()} == {
        name: yaml("planner", name.rpartition("/")[2])["temperature"] for name in asked
    }
    assert {own["max_tokens"] for own in asked.values()} == {10_000}
