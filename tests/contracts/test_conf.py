"""What every YAML in conf/ promises. A new file there is picked up by itself."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from omegaconf import OmegaConf

from grid.datasets.base import DEMONSTRATIONS, OUTLINE, Dataset
from grid.engines.base import CHOOSE, SAMPLE, Engine
from grid.errors import ConfigError
from grid.planners.base import Planner
from grid.store.schema import TABLES, TIMES
from grid.sweep.build import ROOMS, BudgetConfig, Built, ClusterConfig, build, invalid_reason, load_class, make
from grid.sweep.cell import Cell, Setting, cells
from grid.sweep.run import Stamp, run_chunk
from grid.types import NO_TOOL

CONF = Path(__file__).parents[2] / "conf"
BUDGET = BudgetConfig(llm_calls=5000, tool_calls=1000)
COUNTERS = [
    "n_steps",
    "tool_calls",
    "resolved_checks",
    "replans",
    "branches",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "llm_calls",
    "forward_passes",
    "wall_seconds",
    "depth",
    "plan_nodes",
]


def names(group: str) -> list[str]:
    """The YAML files of a group."""
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def yaml(group: str, name: str) -> dict[str, Any]:
    """A file's own values, missing ones as '???'."""
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"), resolve=True))


def parts(group: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Key and config of each object that a file names: several in robustness, else one."""
    config = yaml(group, name)
    return [(f"robustness.{key}", part) for key, part in config.items()] if group == "robustness" else [(group, config)]


def given(config: dict[str, Any]) -> dict[str, Any]:
    """The config with something in the place of what has no default."""
    return {key: "something" if value == "???" else value for key, value in config.items()}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Generated data go to a folder of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


FILES = [(group, name) for group in (*ROOMS, "cluster") for name in names(group)]


@pytest.mark.parametrize(("group", "name"), FILES)
def test_the_first_line_says_what_it_is(group: str, name: str) -> None:
    first = (CONF / group / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("# ")
    assert len(first.split()) > 4
    assert first.endswith(".")


@pytest.mark.parametrize(("group", "name"), [file for file in FILES if file[0] != "cluster"])
def test_it_builds_with_its_own_values(group: str, name: str, tmp_path: Path) -> None:
    for key, part in parts(group, name):
        cls = load_class(key, part, group)
        missing = [field for field, value in part.items() if value == "???"]
        made = make(key, part | dict.fromkeys(missing, str(tmp_path / "absent")), group)
        assert type(made) is cls
        if missing:
            assert (group, missing) in (("dataset", ["path"]), ("model", ["path"]), ("model", ["model"]))
        if missing and group == "dataset":
            data = cast(Dataset, made)
            for read in (data.case_ids, partial(getattr, data, "tools"), partial(getattr, data, "version")):
                with pytest.raises(ConfigError) as caught:
                    cast(Callable[[], object], read)()
                assert caught.value.key == "dataset.path"
                assert caught.value.value == str(tmp_path / "absent")


@pytest.mark.parametrize("name", names("cluster"))
def test_clusters_are_valid(name: str) -> None:
    values = yaml("cluster", name)
    if values.get("address") == "???":
        values["address"] = "127.0.0.1:6379"
    assert ClusterConfig.model_validate(values).kind == name


@pytest.mark.parametrize("name", names("model"))
def test_engines_keep_their_protocol(name: str) -> None:
    engine = cast(Engine, make("model", given(yaml("model", name))))
    assert isinstance(engine.provides, frozenset)
    assert engine.provides
    assert engine.provides <= {SAMPLE, CHOOSE}
    assert engine.name == type(engine).__module__.rpartition(".")[2], "the tables name its file"
    assert engine.home in ("task", "replica", "gateway")
    if engine.home != "task":
        for member in ("gpus", "load", "check", "occupancy"):
            assert hasattr(type(engine), member)
    assert isinstance(engine.version, str)
    assert engine.version
    for verb in (SAMPLE, CHOOSE):
        assert inspect.iscoroutinefunction(getattr(engine, verb))


@pytest.mark.parametrize("name", names("planner"))
def test_planners_keep_their_protocol(name: str) -> None:
    planner = cast(Planner, make("planner", yaml("planner", name)))
    assert isinstance(planner.needs, frozenset)
    assert planner.needs
    assert planner.needs <= {SAMPLE, CHOOSE, OUTLINE, DEMONSTRATIONS}
    assert inspect.iscoroutinefunction(planner.solve)


def slate_setting(model: str, planner: str, robustness: str) -> Setting:
    """A setting on the first two cases of SLATE."""
    labels = {"model": model, "planner": planner, "dataset": "slate", "robustness": robustness, "retriever": "bm25"}
    config = {group: yaml(group, name) for group, name in labels.items()}
    config["dataset"]["limit"] = 2
    return Setting(config, labels, seed=0)


def pairs() -> list[tuple[str, str]]:
    """Every engine that costs next to nothing, with every planner that it goes with."""
    cheap = [name for name in names("model") if cast(Engine, make("model", given(yaml("model", name)))).home == "task"]
    both = [(model, planner) for model in cheap for planner in names("planner")]
    return [pair for pair in both if invalid_reason(slate_setting(*pair, "none")) is None]


def run(built: Built, setting: Setting, chunk: list[Cell]) -> dict[str, list[dict[str, Any]]]:
    """The rows of a chunk that ran in this process."""
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("contract", None))).take()


def lasting(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The rows without the columns in which two runs may differ."""
    return {
        table: [{name: value for name, value in row.items() if name not in TIMES} for row in part]
        for table, part in rows.items()
    }


@pytest.mark.parametrize("robustness", names("robustness"))
@pytest.mark.parametrize(("model", "planner"), pairs())
def test_every_pair_runs_and_repeats_itself(model: str, planner: str, robustness: str) -> None:
    setting = slate_setting(model, planner, robustness)
    built = build(setting, BUDGET)
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    assert len(chunk) == 2
    rows = run(built, setting, chunk)
    for table, part in rows.items():
        assert all(row.keys() == set(TABLES[table].names) for row in part)

    assert [row["cell_id"] for row in rows["episodes"]] == [cell.cell_id for cell in chunk]
    for row in rows["episodes"]:
        assert (row["status"], row["error_kind"], row["error_message"]) == ("ok", None, None)
        assert isinstance(row["success"], bool)
        assert all(row[counter] >= 0 for counter in COUNTERS)
        assert row["llm_calls"] + row["forward_passes"] > 0
        for rate in ("tool_match_rate", "action_accuracy", "retrieval_rate"):
            assert 0 <= row[rate] <= 1

    whole = planner in ("self_consistency", "egb_sampling")  # entropy over all options, not those above a threshold
    for cell in chunk:
        problem = built.problem(cell.case_id, cell.disturbance_seed)
        offered = {
            s.id: {tool.name for tool in problem.candidates(problem.case, s)} for s in problem.case.plan.substeps
        }
        steps = [row for row in rows["steps"] if row["cell_id"] == cell.cell_id]
        assert [row["substep_id"] for row in steps if row["on_path"]] == list(offered)
        for row in steps:
            assert row["chosen_tool"] in offered[row["substep_id"]] | {NO_TOOL}
            assert {option["tool"] for option in row["options"]} <= offered[row["substep_id"]] | {NO_TOOL}
            if row["entropy"] is None:
                continue
            total = math.fsum(option["probability"] for option in row["options"])
            assert total == pytest.approx(1) if whole else total <= 1 + 1e-9
            assert 0 <= row["entropy"] <= math.log(len(offered[row["substep_id"]]) + 1) + 1e-9
        if whole:
            assert all(row["entropy"] is not None for row in steps if row["branch"] == 0)

    assert lasting(run(built, setting, chunk)) == lasting(rows)
