"""Agent Planning Benchmark's released form: what becomes a case, what does not, and what nobody is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.errors import ConfigError
from grid.core.problem import Problem
from grid.core.types import REJECT, Step, Substep, ToolCall, Trajectory
from grid.datasets.apb import Apb
from grid.engines.lexical.engine import Lexical
from grid.episode.planning import chain_of
from grid.settings.build import build
from grid.settings.check import Job, check_sweep
from grid.settings.config import BudgetConfig
from grid.settings.roles import with_roles
from grid.settings.setting import Setting, cells
from tests.support.apb import BROKEN, CHAIN, ROWS, TOOLS, TRAP, row, stepwise, tool, write
from tests.support.configs import LABELS, job, yaml

Make = Callable[..., Apb]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """The data set of some records."""

    def made(*rows: Any, **keys: Any) -> Apb:
        return Apb(path=write(tmp_path, *rows), order="file", **keys)

    return made


def problems(data: Apb) -> dict[str, Problem]:
    return {name.removeprefix("apb-"): data.problem(name) for name in data.case_ids()}


def called(*calls: ToolCall) -> Trajectory:
    steps = tuple(Step(0, Substep(str(n), "", ""), call, None, written=call) for n, call in enumerate(calls))
    return Trajectory(steps, steps)


def test_every_task_is_told_from_what_its_record_holds(make: Make) -> None:
    data = make()
    found = {name: problem.kind for name, problem in problems(data).items()}
    assert not data.skipped
    families = {name: kind.task_family for name, kind in found.items() if kind}
    assert families == {
        "1": "holistic", "2": "holistic", "3": "stepwise", "4": "stepwise", "5": "extraneous", "6": "extraneous",
        "7": "broken", "8": "unsolvable", "9": "unsolvable", "10": "costs",
    }  # fmt: skip
    horizons = {name: kind.horizon_k for name, kind in found.items() if kind and kind.horizon_k}
    assert horizons == {"3": 1, "4": 2, "6": 1, "7": 1}
    assert {kind.unsolvable_kind for kind in found.values() if kind} == {None, "tool_removal", "missing_information"}
    assert found["4"] is not None
    assert found["4"].stage == "middle"
    assert found["5"] is not None
    assert found["5"].n_extraneous == 1


@pytest.mark.parametrize("whole", [None, "", 0, -1, -1.0, "0", "-1", " -1 "])
def test_a_whole_plan_is_told_by_no_horizon_or_by_zero_or_minus_one(make: Make, whole: Any) -> None:
    data = make(row("1", prediction_horizon=whole))
    assert not data.skipped
    assert [problem.kind and problem.kind.task_family for problem in problems(data).values()] == ["holistic"]


def test_a_case_is_what_a_planner_may_know(make: Make) -> None:
    found = problems(make())
    assert found["1"].case.query == "What is the postage for order AB-1?"
    assert found["2"].case.query.endswith("\nFiles: notes/terms.pdf, rates.txt")
    done = found["4"].case.done
    assert [step.call for step in done] == [ToolCall("find_parcel", {"order": "AB-17"})]
    assert done[0].observation is not None
    assert done[0].observation.content == {"result": '{"parcel": "P9"}'}
    assert found["4"].case.decisions == 2
    last = found["7"].case.done[-1].observation
    assert last is not None
    assert last.failed
    assert last.content == {"error": "Error: tool is broken"}
    assert found["10"].case.notes
    assert not found["1"].case.notes
    for problem in found.values():
        assert REJECT in problem.own
        assert list(problem.own) == sorted(problem.own), "no place tells a tool apart"


def test_nothing_that_only_a_judge_may_know_is_in_a_planners_view(make: Make) -> None:
    """The released runner tells these four; here tools carry no mark, and cases say no more than undisturbed ones."""
    found = problems(make())
    for name, problem in found.items():
        shown = repr(problem.case) + repr([problem.library[own] for own in problem.own])
        for word in ("tool_removal", "missing_information", "unsolvable", "extraneous", "distractor", "replacement",
                     "CHAIN", "parcel found in step 1", "find, weigh, price", "solvable"):  # fmt: skip
            assert word not in shown, (name, word)
    plain = tool(TRAP["name"], "parcel")["description"]
    assert found["5"].library[TRAP["name"]].description == plain
    assert found["7"].library["weigh_item"].description == tool("weigh_item", "item")["description"]


@pytest.mark.parametrize("planner", ["react", "fh", "sh"])
def test_no_prompt_of_a_planner_has_a_leak(tmp_path: Path, planner: str) -> None:
    """Word by word: what engines are asked for the same record with and without the fields that only judges know."""
    asked: list[str] = []

    class Watched(Lexical):
        async def sample(self, prompt: Any, **how: Any) -> Any:
            asked.append(prompt.text())
            return await super().sample(prompt, **how)

    def prompts(record: dict[str, Any], folder: str) -> list[str]:
        (tmp_path / folder).mkdir(exist_ok=True)
        asked.clear()
        config = {
            "model": yaml("model", "lexical"), "planner": yaml("planner", planner), "robustness": {},
            "dataset": yaml("dataset", "apb") | {"path": write(tmp_path / folder, record), "scorer": "rules"},
            "retriever": yaml("retriever", "none"), "pool": yaml("pool", "case"),
        }  # fmt: skip
        setting = Setting(with_roles(config), LABELS, seed=0)
        built = build(setting, BudgetConfig(llm_calls=40))
        object.__setattr__(built, "engine", Watched())
        asyncio.run(run_chunk(built, setting, list(cells(setting, "v", ["apb-5"], 1)), Stamp("t", None)))
        return list(asked)

    leaked = row("5", tools_json=[*TOOLS, TRAP], extraneous_tool_names_json=[TRAP["name"]])
    plain = row("5", tools_json=[*TOOLS, TRAP])
    assert prompts(leaked, "a") == prompts(plain, "b") != []
    refused = row("5", unsolvable_type="tool_removal", tool_chain_json=[])
    assert prompts(refused, "c") == prompts(row("5"), "d")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ('{"id": "x", ', "broken JSON"),
        ("[1]", "a JSON object is expected, not list"),
        (row("2", query=" "), "the query is missing or empty"),
        (row("2", query=7), "the query is missing or empty"),
        (row(""), "the record has no id of"),
        (row("1"), "another record has the id"),
        (row("2", tools_json=[]), "no list of 1 to 256 tools"),
        (row("2", tools_json="[{"), "tools_json is broken JSON"),
        (row("2", tools_json="[" * 50 + "]" * 50), "nested more than 20 levels deep"),
        (row("2", tools_json=[{"name": ""}]), "a tool has no name"),
        (row("2", tools_json=[*TOOLS, tool("find_parcel", "other")]), "of the record have the name 'find_parcel'"),
        (row("2", tools_json=[tool("finish")]), "the name finish, which is reserved"),
        (row("2", tools_json=[tool("find_parcel", cost="much")]), "a cost that is not a whole number"),
        (row("2", query="x" * 1_000_001), "the query has more than 1,000,000 characters"),
        (row("2", tools_json=" " * 1_000_001), "more than 1,000,000 characters"),
        (row("2", tool_chain_json=CHAIN * 100), "more than 256 calls"),
        (row("2", tool_chain_json=[{"name": "no_such_tool"}]), "calls a tool that is not in the record's list"),
        (row("2", tool_chain_json=[{"name": "find_parcel", "arguments": [1]}]), "of a call are not an object"),
        (row("2", tool_chain_json="3"), "a step is not an object"),
        (row("2", files=["photo.JPG"]), "the record has an image (photo.JPG), which no engine here accepts"),
        (row("2", files=[{"path": "https://x/clip.mp4?t=1"}]), "the record has a video"),
        (row("2", files=[{"name": "scan", "type": "image/png"}]), "the record has an image"),
        (row("2", files=[{"size": 3}]), "a file has no name"),
        (row("2", unsolvable_type="mood"), "the unsolvable_type is not known: 'mood'"),
        (row("2", extraneous_tool_names_json=["ghost"]), "an extraneous tool is not in the record's list of tools"),
        (row("2", extraneous_tool_names_json="{}"), "not a list of names"),
        (stepwise("2", prediction_horizon=99), "not a whole number from 1 to 8"),
        (stepwise("2", prediction_horizon="-2"), "not a whole number from 1 to 8"),
        (stepwise("2", prediction_horizon=None), "a prefix but no prediction_horizon"),
        (stepwise("2", trajectory_prefix_json=[{"role": "tool", "content": "x"}]), "an outcome without a call"),
        (stepwise("2", broken_tool_name="find_parcel", replacement_tool_json=None), "a tool is not an object"),
        (stepwise("2", broken_tool_name="postage_for", replacement_tool_json=tool("spare")), "not end with a call"),
    ],
)  # fmt: skip
def test_wrong_records_are_skipped_with_their_line_and_reason(make: Make, wrong: Any, reason: str) -> None:
    data = make(row("1"), wrong, row("3"))
    assert [name.removeprefix("apb-") for name in data.case_ids()] == ["1", "3"]
    (skipped,) = data.skipped
    assert skipped.record == "released.jsonl:2"
    assert reason in skipped.reason
    assert len(skipped.reason) < 300


def test_a_record_at_its_limits_is_a_case_and_one_beyond_is_not(make: Make) -> None:
    def of(tools: int, parameters: int) -> Any:
        own = [tool(f"tool_{place}") for place in range(tools - len(TOOLS) - 1)]
        wide = tool("wide", *(f"p{place}" for place in range(parameters)))
        return row(f"{tools}/{parameters}", tools_json=[*TOOLS, *own, wide])

    data = make(of(256, 128), of(257, 128), of(256, 129))
    assert data.case_ids() == ["apb-256/128"]
    assert [one.reason for one in data.skipped] == [
        "the record has no list of 1 to 256 tools", "a tool has more than 128 parameters",
    ]  # fmt: skip


def test_a_line_that_is_too_long_costs_itself_only(make: Make) -> None:
    data = make(row("1"), '{"id": "' + "x" * 9_000_000 + '"}', row("3"))
    assert len(data.case_ids()) == 2
    (skipped,) = data.skipped
    assert (skipped.record, skipped.reason) == ("released.jsonl:2", "the line has more than 4,000,000 bytes")


def test_other_forms_of_tools_and_steps_mean_the_same(make: Make) -> None:
    openai = [{"type": "function", "function": one} for one in TOOLS]
    listed = [{"name": one["name"], "description": one["description"], "inputs": [
        {"name": name, "type": "str", "description": f"the {name}"} for name in one["parameters"]["required"]
    ]} for one in TOOLS]  # fmt: skip
    texts = [json.loads(json.dumps(one)) for one in BROKEN[:1]]
    texts[0]["tool_calls"][0]["function"]["arguments"] = '{"order": "AB-17"}'
    plain = [{"tool": "find_parcel", "arguments": {"order": "AB-17"}, "observation": '{"parcel": "P9"}'}]
    wanted = problems(make(stepwise("1")))["1"]
    for changed in ({"tools_json": openai}, {"tools_json": listed}, {"trajectory_prefix_json": plain},
                    {"trajectory_prefix_json": [*texts, BROKEN[1]]}):  # fmt: skip
        found = problems(make(stepwise("1", **changed)))["1"]
        assert {name: found.library[name] for name in found.own} == {name: wanted.library[name] for name in wanted.own}
        assert [(step.call, step.observation) for step in found.case.done] == [
            (step.call, step.observation) for step in wanted.case.done
        ]
        assert found.reference == wanted.reference


def test_cases_of_one_name_keep_their_own_definitions(make: Make) -> None:
    other = tool("find_parcel", "number")
    found = problems(make(row("1"), row("2", tools_json=[other, *TOOLS[1:]], tool_chain_json=[])))
    assert [one.name for one in found["1"].library["find_parcel"].parameters] == ["order"]
    assert [one.name for one in found["2"].library["find_parcel"].parameters] == ["number"]


def test_tools_record_and_answer_nothing(make: Make) -> None:
    world = problems(make())["7"].world

    async def run() -> None:
        state = world.start()
        state, seen = await world.apply(state, ToolCall("weigh_item", {"item": "P9"}))
        assert (dict(seen.content), seen.failed) == ({}, False)
        state, seen = await world.apply(state, ToolCall("parcel_weight", {}))
        assert seen.failed
        assert not world.resolved(state)

    asyncio.run(run())


def test_rules_alone_tell_what_follows_a_broken_tool_and_leave_the_rest_open(make: Make) -> None:
    found = problems(make(scorer="rules"))

    def measured(name: str, *tools: str) -> Any:
        return found[name].measure(called(*(ToolCall(one, {}) for one in tools)))

    assert [measured("7", one)["success"] for one in ("weigh_item", "parcel_weight", "find_parcel")] == [
        True, False, None,
    ]  # fmt: skip
    assert measured("7", REJECT)["behaviour"] == "refuse"
    assert measured("1", "find_parcel")["success"] is None
    assert measured("5", TRAP["name"])["extraneous_calls"] == 1
    assert measured("10", "postage_of_order", "find_parcel")["plan_cost"] == 8
    assert chain_of(called(ToolCall(REJECT, {"reason": "no"}))).refusal == "no"
    assert all(problem.examine is None for problem in found.values())


@pytest.mark.parametrize("scorer", ["symbolic", "both"])
def test_what_would_take_a_truth_is_refused(tmp_path: Path, scorer: str) -> None:
    with pytest.raises(ConfigError, match=f"dataset.scorer='{scorer}'.*can be computed only with"):
        check_sweep([job(tmp_path, dataset=yaml("dataset", "apb") | {"path": write(tmp_path), "scorer": scorer})])


def test_choices_that_no_case_meets_say_which_there_are(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"dataset.split='x'.*extraneous, holistic, stepwise"):
        make(split="x").case_ids()
    with pytest.raises(ConfigError, match=r"dataset.family='costs'"):
        make(ROWS[0], family="costs").case_ids()
    assert make(family="broken").case_ids() == ["apb-7"]
    with pytest.raises(
        ConfigError, match="usable record; reason for the first of 1 skipped records: the query is missing"
    ):
        make(row("1", query="")).case_ids()
    with pytest.raises(ConfigError, match=r"dataset.path=.*JSON Lines"):
        Apb(path="/no/such/folder").case_ids()


def test_one_query_is_one_cluster(make: Make) -> None:
    data = make(row("1", query="Same?"), row("2", query=" same?  "), row("3"))
    assert data.cluster("apb-1") == data.cluster("apb-2") != data.cluster("apb-3")


def judged(root: Path, role: str, model: str | None) -> Job:
    """A job on all records with somebody in a role."""
    found = job(
        root,
        dataset=yaml("dataset", "apb") | {"path": write(root), "order": "file"},
        retriever=yaml("retriever", "none"),
        pool=yaml("pool", "case"),
        **({role: yaml("model", model)} if model else {}),
    )
    return Job(found.config, {**found.labels, "judge": str(model), "evaluator": str(model)})


def test_a_judge_must_be_named_and_scores_the_cells(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dataset.scorer='judge'.*model@judge=NAME"):
        check_sweep([judged(tmp_path, "judge", None)])
    for role in ("judge", "evaluator"):
        plan = check_sweep([judged(tmp_path, role, "lexical")]).plan
        (setting,) = plan.settings
        assert "evaluator" in setting.config
        rows = asyncio.run(
            run_chunk(build(setting, plan.budget), setting, list(plan.cells_of(setting)), Stamp("s", None))
        ).take()["episodes"]
        assert {one["status"] for one in rows} == {"ok"}
        assert all(one["success"] is not None for one in rows)
        assert {one["task_family"] for one in rows} == {
            "holistic", "stepwise", "extraneous", "broken", "unsolvable", "costs",
        }  # fmt: skip
        assert any(one["evaluator_calls"] for one in rows)
    with pytest.raises(
        ConfigError, match="judges with a planted accuracy and needs plans whose correctness can be computed"
    ):
        check_sweep([judged(tmp_path, "judge", "simulated")])
