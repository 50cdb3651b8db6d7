"""Memory: what it is made of, who is shown it, that nothing of a tested case is in it, and what ids depend on."""

from __future__ import annotations

import asyncio
import random
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from grid import store
from grid.cells.run import Stamp, episode_of, run_chunk, solve
from grid.core.engine import (
    ChainAnswer,
    ChoiceAnswer,
    FunctionsAnswer,
    MessagesAnswer,
    PlanAnswer,
    Section,
    ToolCallAnswer,
)
from grid.core.errors import ConfigError, GridError, StoreError, UnfinishedError
from grid.core.types import Step, ToolCall
from grid.datasets.dataset import part_of
from grid.engines.hosted import Informed
from grid.engines.simulated.policy import Policy
from grid.episode import prompts
from grid.planners.remembering import Remembering, Trace, step_lines
from grid.settings.build import build
from grid.settings.check import Checked, Job, check_sweep
from grid.settings.config import BudgetConfig
from grid.settings.remembered import Memory
from grid.settings.setting import Setting
from grid.store.files import name_of
from grid.store.schema import TIMES
from tests.support import plan_rows
from tests.support.configs import ENDS, job, solvers, yaml

LIMIT = 16
BUDGET = BudgetConfig()
SURE = {"tool_skill": 1.0, "argument_skill": 1.0, "malformed": 0.0, "insight": 1.0}
"""A policy that resolves every case, whoever plans."""
ACTING = (ToolCallAnswer, ChoiceAnswer, PlanAnswer, FunctionsAnswer, ChainAnswer, MessagesAnswer)


def asked(root: Path, *planners: str, model: dict[str, Any] | None = None, **changes: Any) -> list[Job]:
    """Sweeps of `planners` on SLATE with the simulated policy; `memory` has the keys of traces."""
    memory = changes.pop("memory", None)
    further = {} if memory is None else {"memory": yaml("memory", "traces") | memory}
    jobs = []
    for planner in planners:
        one = job(
            root,
            **{"dataset__limit": LIMIT, "part": "test", "name": "test"} | further | changes,
            planner=yaml("planner", planner),
            retriever=yaml("retriever", "oracle"),  # which leaves out no tool that is needed
            model=yaml("model", "simulated") | (SURE if model is None else model),
        )
        jobs.append(Job(one.config, {**one.labels, "planner": planner, "memory": "traces"}))
    return jobs


def ran(checked: Checked) -> dict[str, list[dict[str, Any]]]:
    """The rows of a sweep, run in this process."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for setting in checked.plan.settings:
        chunk = list(checked.plan.cells_of(setting))
        built = build(setting, checked.plan.budget)
        for table, part in asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take().items():
            rows.setdefault(table, []).extend(part)
    return rows


def filled(root: Path, *planners: str, **changes: Any) -> Path:
    """A results folder of the cases of the first half."""
    checked = check_sweep(asked(root, *planners, **{"part": "validation"} | changes))
    store.write(root / "filled", ran(checked))
    return root / "filled"


@pytest.fixture(scope="module")
def validation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every planner did on the first cases of the first half: one more than a prompt is shown."""
    return filled(tmp_path_factory.mktemp("memory"), *solvers(), dataset__limit=8)


def remembering(root: Path, folder: Path, *planners: str, **changes: Any) -> Checked:
    memory = {"path": str(folder)} | changes.pop("memory", {})
    return check_sweep(asked(root, *planners, memory=memory, **changes))


def only(checked: Checked) -> Setting:
    (setting,) = checked.plan.settings
    return setting


def memory_in(setting: Setting) -> Memory:
    found = build(setting, BUDGET).memory
    assert found is not None
    return found


def test_halves_share_no_case_whatever_the_limit() -> None:
    rng = random.Random(0)
    cases = [f"case-{rng.random()}" for _ in range(301)]
    shorter: dict[str, list[str]] = {"validation": [], "test": []}
    for limit in range(len(cases) + 1):
        halves = {part: list(part_of(cases[:limit], part)) for part in ("validation", "test")}
        assert set(halves["validation"]).isdisjoint(halves["test"])
        assert sorted(halves["validation"] + halves["test"]) == sorted(cases[:limit])
        assert abs(len(halves["validation"]) - len(halves["test"])) <= 1
        for part, known in halves.items():
            assert known == [case for case in cases if case in set(known)], "in the dataset's order"
            assert known[: len(shorter[part])] == shorter[part], "a longer list goes on from a shorter one"
        shorter = halves
    first = sum(case in set(shorter["test"]) for case in cases[::2])
    assert 50 < first < 100, "which of two cases is tested is drawn"
    assert part_of(cases, "all") == cases


@pytest.mark.long
@pytest.mark.parametrize("planner", sorted({*solvers()} - ENDS))
def test_every_planner_is_shown_its_own_traces_word_for_word(tmp_path: Path, validation: Path, planner: str) -> None:
    setting = only(remembering(tmp_path, validation, planner))
    built, known = build(setting, BUDGET), memory_in(setting)
    problem = built.problem(part_of(built.dataset.case_ids(), "test")[0], 0)
    episode = episode_of(built, problem, 0)
    asyncio.run(solve(built, episode))
    acting = [message.prompt for message in episode.messages if isinstance(message.prompt.answer, ACTING)]
    acting = [prompt for prompt in acting if not prompt.entries("proposal") and not prompt.entries("candidates")]
    assert acting
    for prompt in acting:
        head, *shown = prompt.entries("memory")
        assert (head, len(shown)) == (prompts.MEMORY, 3)
        assert set(shown) <= {trace.text for trace in known.traces}
        assert all(text in prompt.text() for text in shown)


@pytest.mark.long
def test_a_trace_is_what_the_planner_did_and_what_that_returned(tmp_path: Path) -> None:
    unsure = SURE | {"tool_skill": 0.8, "argument_skill": 0.8, "case_spread": 3.0}
    folder = filled(tmp_path, "react", "reflexion", model=unsure, trials=2)
    for planner, kept in product(("react", "reflexion"), ("resolved", "all")):
        setting = only(remembering(tmp_path, folder, planner, model=unsure, memory={"kept": kept}))
        plain = only(check_sweep(asked(tmp_path, planner, model=unsure, trials=2)))
        own = pc.field("setting_id") == plain.id
        episodes = store.read(folder, "episodes", where=own).to_pylist()
        won = {row["case_id"] for row in episodes if row["success"]}
        assert 0 < len(won) < LIMIT // 2, "some are resolved, and some are not"
        known = memory_in(setting)
        assert known.cases == {row["case_id"] for row in episodes}
        assert {trace.case_id for trace in known.traces} == (known.cases if kept == "all" else won)
        for trace in known.traces:
            tries = sorted((r for r in episodes if r["case_id"] == trace.case_id), key=lambda r: r["trial"])
            cell = next((row for row in tries if row["success"]), tries[0])
            assert trace.resolved == (trace.case_id in won)
            assert trace.text.endswith(f"\nCarried out: {'yes' if trace.resolved else 'no'}")
            is_as_stored(trace, folder, cell)


def is_as_stored(trace: Trace, folder: Path, cell: dict[str, Any]) -> None:
    """A line for each step on the cell's path: what was written, and what it returned."""
    path = (pc.field("cell_id") == cell["cell_id"]) & pc.field("on_path")
    steps = sorted(store.read(folder, "steps", where=path).to_pylist(), key=lambda row: row["step"])
    assert len(steps) == len(trace.lines) == cell["n_steps"]
    for step, line in zip(steps, trace.lines, strict=True):
        assert line.startswith(f"{step['substep_id']} {step['substep']} -> ")
        if step["written"] is None:
            assert line.endswith(" no tool")
        else:
            assert f"{step['written']} {'failed:' if step['failed'] else 'returned'} " in line
            assert line.endswith(step["observation"])


def test_no_tested_case_is_in_memory_nor_shown_to_itself(tmp_path: Path, validation: Path) -> None:
    checked = remembering(tmp_path, validation, "react", dataset__limit=LIMIT)
    setting = only(checked)
    tested, known = checked.plan.case_ids[setting.id], memory_in(setting)
    assert tested
    assert known.cases.isdisjoint(tested)
    with pytest.raises(ConfigError, match=r"memory\.path=.*4 cases are in both .*fill a memory with part=validation"):
        remembering(tmp_path, validation, "react", part="validation")
    with pytest.raises(ConfigError, match="are in both"):
        remembering(tmp_path, validation, "react", part="all")
    for trace in known.traces:
        assert trace.text not in known.nearest(trace.case_id, "another", trace.question)
        assert trace.text not in known.nearest("another", "another", trace.question), "one with the same words"


def test_apart_no_trace_is_of_the_cases_cluster() -> None:
    lines = ("0  -> no tool",)
    traces = tuple(
        Trace(f"case-{place}", f"cluster-{place % 4}", f"please cancel order number {place} of my shop", lines, True)
        for place in range(12)
    )
    by_text = {trace.text: trace for trace in traces}
    for apart in (False, True):
        known = Memory(Remembering("traces", "x", count=5, apart=apart), traces, frozenset())
        for cluster in ("cluster-0", "cluster-3", "none"):
            shown = [by_text[text] for text in known.nearest("new", cluster, "cancel my order")]
            assert len(shown) == 5
            shared = sum(trace.cluster == cluster for trace in shown)
            assert not shared if apart or cluster == "none" else shared > 0


def lasting(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    kept = ("episodes", "steps")
    return {
        table: [{name: value for name, value in row.items() if name not in (*TIMES, "config")} for row in rows[table]]
        for table in kept
    }


def test_two_sweeps_that_remember_the_same_have_equal_rows_wherever_it_lies(tmp_path: Path) -> None:
    found = []
    for place in ("one", "other"):
        folder = filled(tmp_path / place, "react")
        shutil.move(folder, tmp_path / place / "moved")
        checked = remembering(tmp_path, tmp_path / place / "moved", "react")
        found.append((only(checked).id, lasting(ran(checked))))
    assert found[0] == found[1]


def test_ids_follow_from_what_is_remembered_and_seeds_do_not(tmp_path: Path) -> None:
    folder = filled(tmp_path, "react", dataset__limit=LIMIT // 2)
    plain = only(check_sweep(asked(tmp_path, "react")))
    checked = remembering(tmp_path, folder, "react")
    before = only(checked)
    assert before.config["memory"]["held"] == {"traces": 4, "cases": 4}
    assert before.id != plain.id
    pairs = zip(checked.plan.cells_of(before), check_sweep(asked(tmp_path, "react")).plan.cells_of(plain), strict=True)
    for with_memory, without in pairs:
        assert (with_memory.seed, with_memory.disturbance_seed) == (without.seed, without.disturbance_seed)
        assert with_memory.cell_id != without.cell_id
    others = [{"count": 2}, {"apart": True}, {"kept": "all"}]
    ids = {only(remembering(tmp_path, folder, "react", memory=changed)).id for changed in others}
    assert len(ids | {before.id}) == 4
    filled(tmp_path, "reflexion")
    assert only(remembering(tmp_path, folder, "react")).id == before.id, "another planner's work is none of its own"
    filled(tmp_path, "react")
    after = only(remembering(tmp_path, folder, "react"))
    assert after.config["memory"]["held"] == {"traces": 8, "cases": 8}
    assert after.id != before.id
    with pytest.raises(UnfinishedError, match="its traces differ from those that were checked at the sweep's start"):
        build(before, BUDGET)


def test_a_planner_that_resolved_nothing_remembers_nothing(tmp_path: Path) -> None:
    never = SURE | {"argument_skill": 0.0}
    folder = filled(tmp_path, "react", model=never)
    checked = remembering(tmp_path, folder, "react", model=never)
    assert checked.remembered == ["memory of model x react x dataset x robustness x traces: traces of 0 of 8 cases"]
    built = build(only(checked), BUDGET)
    case = built.problem(checked.plan.case_ids[only(checked).id][0], 0).case
    assert built.remembered(case) == ()


def write_version(folder: Path, version: str) -> None:
    for path in (folder / "episodes").glob("*.parquet"):
        table = pq.read_table(path)
        place = table.schema.get_field_index("dataset_version")
        rows = table.set_column(place, "dataset_version", [[version] * len(table)]).to_pylist()
        path.unlink()
        store.write(folder, {"episodes": rows})


def write_schema(folder: Path) -> None:
    for path in (folder / "episodes").glob("*.parquet"):
        table = pq.read_table(path)
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"schema_version": b"0"}), path)
        with path.open("rb") as file:
            path.rename(path.with_name(f"{name_of(file)}.parquet"))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("unsaid", r"memory\.path=None: the results folder of an earlier sweep"),
        ("absent", r"^memory\.path: /absent: no results here"),
        ("empty", r"must have results of the same setting without memory; its settings are none"),
        ("planner", r"without memory; its settings are model x react x dataset x robustness; the seed, the budget"),
        ("seed", r"the seed, the budget and all keys except"),
        ("version", r"episodes of dataset_version=slate-.*, but its episodes are of slate-old"),
        ("schema", r"^memory\.path: .*schema_version='0'"),
        ("mode", r"memory\.mode='wrong'"),
        ("count", r"memory\.count=0"),
        ("key", r"memory\.cuont.*did you mean count"),
        ("group", r"memory='traces': one of the files in conf/memory"),
        ("part", r"part='tset'"),
    ],
)
def test_what_cannot_be_remembered_is_told_in_a_line(tmp_path: Path, validation: Path, what: str, says: str) -> None:
    folder, planner, changes = tmp_path / "copy", "react", dict[str, Any]()
    shutil.copytree(filled(tmp_path, "react") if what == "planner" else validation, folder)
    if what == "version":
        write_version(folder, "slate-old")
    elif what == "schema":
        write_schema(folder)
    elif what == "empty":
        shutil.rmtree(folder)
        (folder / "episodes").mkdir(parents=True)
    planner = "egb_logits" if what == "planner" else planner
    changes |= {"seed": 1} if what == "seed" else {"part": "tset"} if what == "part" else {}
    wrong: dict[str, dict[str, Any]] = {
        "unsaid": {"path": None}, "absent": {"path": "/absent"}, "mode": {"mode": "wrong"}, "count": {"count": 0},
        "key": {"cuont": 2},
    }  # fmt: skip
    (one,) = asked(tmp_path, planner, memory={"path": str(folder)} | wrong.get(what, {}), **changes)
    with pytest.raises(GridError, match=says) as told:
        check_sweep([Job({**one.config, "memory": "traces"}, one.labels) if what == "group" else one])
    assert isinstance(told.value, ConfigError | StoreError)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(("planners", "rest"), [("abc", ""), ("abcd", ", ...")])
def test_of_many_settings_that_a_folder_has_three_are_named(tmp_path: Path, planners: str, rest: str) -> None:
    plan_rows.write(tmp_path, [plan_rows.episode(one, None, 0, success=True, dataset="data") for one in planners])
    with pytest.raises(ConfigError) as refused:
        check_sweep(asked(tmp_path, "react", memory={"path": str(tmp_path)}))
    named = ", ".join(f"tiny x {one} x data x none" for one in "abc")
    assert f"its settings are {named}{rest}; the seed" in str(refused.value)


def test_what_is_planted_is_gained_where_a_trace_shows_the_right_tool(tmp_path: Path) -> None:
    built = build(only(check_sweep(asked(tmp_path, "react", model=SURE | {"memory": 2.0}))), BUDGET)
    problem = built.problem(built.dataset.case_ids()[0], 0)
    episode = episode_of(built, problem, 0)
    asyncio.run(solve(built, episode))
    policy = cast(Informed, built.engine).told(problem.reference, problem.library, 0)
    assert isinstance(policy, Policy)
    asked_of = {prompt.entries("request")[-1]: prompt for prompt in (message.prompt for message in episode.messages)}
    for substep in problem.case.plan.substeps:
        call, prompt = problem.reference.calls[substep.id], asked_of[f"Present substep: {substep.id} {substep.text}"]
        other = ToolCall("another", {}) if call is None else replace(call, tool=f"{call.tool}_of_another")
        place = policy.places.at(prompt)
        for shown, gained in ((call, 2.0), (other, 0.0)):
            text = Trace("x", "x", "what is asked", step_lines([Step(0, substep, shown, None, shown)], None), True).text
            told = replace(prompt, sections=(*prompt.sections, Section("memory", (prompts.MEMORY, text))))
            assert policy.bonus(told, place) - policy.bonus(prompt, place) == gained
