"""m&m's: what the loader makes of its files, which calls its tools take, and what the metrics say of paths."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.cells.run import Stamp, run_chunk
from grid.core.types import Observation, Step, Substep, ToolCall, Trajectory
from grid.core.world import World
from grid.datasets.mnms import MadeState, Mnms, MnmsWorld, labels_of
from grid.datasets.mnms_records import TOOLS
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from grid.text.references import outputs_of, resolve
from tests.support import mnms_files
from tests.support.configs import setting_of
from tests.support.loops import each
from tests.support.mnms_files import CAPTION, DETECT, DRAW, GENERATE, REQUESTS, SELECT, plan, row
from tests.support.oracle import oracle_of

STEPS = sum(len(nodes) for _, nodes, _ in REQUESTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return mnms_files.write(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def small(folder: str) -> Mnms:
    return Mnms(folder)


def play(world: World, calls: list[ToolCall], done: tuple[Step, ...] = ()) -> Trajectory:
    """The calls one after the other, references filled in, behind steps that were taken before."""
    state, steps = world.start(), list[Step]()
    for number, written in enumerate(calls, len(done)):
        call = resolve(written, outputs_of([*done, *steps]))
        state, seen = asyncio.run(world.apply(state, call))
        steps.append(Step(0, Substep(str(number), "", ""), call, seen, written=written))
    return Trajectory(tuple(steps), tuple(steps), state)


def gold(data: Mnms, case_id: str) -> list[ToolCall]:
    return [call for call in data.problem(case_id).reference.calls.values() if call]


def test_the_set_is_that_of_the_release() -> None:
    named = os.environ.get("AGENT_GRID_MNMS")
    if not named:
        pytest.skip("set AGENT_GRID_MNMS to a checkout of the authors' repository")
    known: dict[str, Any] = {}
    exec((Path(named) / "mnms" / "constants.py").read_text(encoding="utf-8"), known)  # noqa: S102
    kinds = {"list[dict]": "objects"}
    for name, told in known["TOOL_METADATA"].items():
        tool = TOOLS[name]
        for own, theirs in ((tool.takes, told["input"]), (tool.gives, told["output"])):
            modalities = [kinds.get(kind, kind) for kind in theirs["modality"]]
            assert list(own.items()) == list(zip(theirs["arg_name"], modalities, strict=True))
        assert tool.spec.category == told["category"]
        assert tool.spec.description != told["description"]
    assert len(TOOLS) == len(known["TOOL_METADATA"]) == 33


def test_every_plan_of_the_small_files_is_a_case(small: Mnms) -> None:
    assert len(small.case_ids()) == len(REQUESTS)
    assert small.skipped == []
    assert len(small.tools) == 33
    problem = small.problem("mnms-16")
    assert problem.case.query == REQUESTS[2][0]
    assert problem.reference.calls["2"] == ToolCall(DRAW, {"text": 'a vivid drawing of "OUTPUT_FROM_STEP_1.text"'})
    assert len(problem.candidates(problem.case, Substep("0", "", ""))) == 33


def test_the_reference_resolves_and_nothing_less(small: Mnms) -> None:
    for case_id in small.case_ids():
        problem, calls = small.problem(case_id), gold(small, case_id)
        path = play(problem.world, calls)
        assert problem.world.resolved(path.end)
        found = problem.measure(path)
        ones = ("argument_name_f1", "argument_value_f1", "tool_f1", "argument_f1", "plan_f1", "execution_f1")
        assert [found[name] for name in ones] == [1.0] * 6
        assert found["edge_f1"] == (1.0 if len(calls) > 1 else None)
        assert [found[name] for name in ("plan_accuracy", "plan_names_accuracy", "plan_values_accuracy")] == [True] * 3
        assert found["edit_distance"] == 0.0
        for left_out in range(len(calls)):
            rest = [call for place, call in enumerate(calls) if place != left_out]
            assert not problem.world.resolved(play(problem.world, rest).end)


def test_doing_nothing_scores_nothing(small: Mnms) -> None:
    for case_id in small.case_ids():
        problem = small.problem(case_id)
        assert not problem.world.resolved(problem.world.start())
        found = dict(problem.measure(Trajectory((), ())))
        counts = json.loads(found.pop("tool_counts"))
        assert [sum(counted[place] for counted in counts.values()) for place in (0, 1)] == [0, 0]
        assert sum(counted[2] for counted in counts.values()) == len({call.tool for call in gold(small, case_id)})
        assert found.pop("edit_distance") == 1.0
        assert not any(found.values())


def test_a_step_is_a_case_behind_those_before_it(folder: str) -> None:
    data = Mnms(folder, mode="step_by_step")
    assert len(data.case_ids()) == STEPS
    for case_id in data.case_ids():
        problem, place = data.problem(case_id), int(case_id.rsplit("-", 1)[1])
        assert (len(problem.case.done), problem.case.decisions) == (place, 1)
        calls = gold(data, case_id)
        assert not problem.world.resolved(problem.world.start())
        right = play(problem.world, calls[place : place + 1], problem.case.done)
        assert problem.world.resolved(right.end)
        found = problem.measure(right)
        for name in ("instruction_accuracy", "tool_accuracy", "argument_accuracy", "tool_f1", "argument_f1", "plan_f1"):
            assert found[name] == 1.0
        other = ToolCall(GENERATE, {"text": "something else"})
        wrong = play(problem.world, [other], problem.case.done)
        assert not problem.world.resolved(wrong.end)
        found = problem.measure(wrong)
        assert (found["instruction_accuracy"], found["argument_accuracy"]) == (1.0, 0.0)
        assert found["tool_accuracy"] == found["tool_f1"] == float(calls[place].tool == GENERATE)
        found = problem.measure(Trajectory((), ()))
        assert not any(found[name] for name in found if name != "tool_counts")


def test_a_uniform_choice_of_tools_is_right_by_chance(folder: str) -> None:
    data = Mnms(folder, mode="step_by_step")
    for case_id in data.case_ids():
        problem = data.problem(case_id)
        tried = [play(problem.world, [ToolCall(name, {})], problem.case.done) for name in TOOLS]
        found = [problem.measure(path) for path in tried]
        assert sum(one["tool_accuracy"] for one in found) == sum(one["tool_f1"] for one in found) == 1.0


@pytest.mark.parametrize("planner", ["react", "lats", "tooltree"])
def test_an_oracle_takes_every_step(folder: str, planner: str) -> None:
    sampled = {"candidates": "sampled", "dead_end": "reopen"} if planner == "tooltree" else {}  # whatever is judged
    setting = setting_of({"path": folder, "mode": "step_by_step"}, sampled, dataset="mnms", planner=planner)
    built = build(setting, BudgetConfig())
    for case_id in built.dataset.case_ids():
        one = replace(built, engine=oracle_of(built.dataset, [case_id]))
        chunk = list(cells(setting, built.dataset.version, [case_id], 1))
        (found,) = asyncio.run(run_chunk(one, setting, chunk, Stamp("test", None))).take()["episodes"]
        assert (found["error_message"], found["success"], found["tool_calls"]) == (None, True, 1)
        assert found["tool_accuracy"] == found["argument_accuracy"] == found["execution_f1"] == 1.0


def test_handles_stand_for_references(small: Mnms) -> None:
    """A planner that copies what it saw wrote the same call."""
    problem, calls = small.problem("mnms-12"), gold(small, "mnms-12")
    written = play(problem.world, calls)
    copied = play(problem.world, [step.call for step in written.steps if step.call])
    assert copied.end == written.end
    assert problem.measure(copied) == problem.measure(written)


def test_wrong_links_and_other_orders(small: Mnms) -> None:
    problem, calls = small.problem("mnms-24"), gold(small, "mnms-24")  # detect, select, blur
    other = ToolCall("image crop left", {"image": "5522-input.png"})
    moved = [
        other,
        calls[0],
        ToolCall(SELECT, {"objects": "OUTPUT_FROM_STEP_1.objects", "object_name": "DOG"}),
        ToolCall(calls[2].tool, {"object": "OUTPUT_FROM_STEP_2.object", "image": "OUTPUT_FROM_STEP_1.image"}),
    ]
    path = play(problem.world, moved)
    assert problem.world.resolved(path.end)
    assert not problem.measure(path)["plan_accuracy"]
    unlike = [*calls[:2], other, ToolCall(calls[2].tool, {**calls[2].arguments, "image": "OUTPUT_FROM_STEP_2.image"})]
    path = play(problem.world, unlike)
    assert not any(step.observation.failed for step in path.steps if step.observation)
    assert not problem.world.resolved(path.end)


def test_a_call_that_is_wanted_twice_is_made_twice(tmp_path: Path) -> None:
    once = (DRAW, {"text": "a red kite"})
    nodes = plan(once, once, (CAPTION, {"image": "<node-1>.image"}))
    problem = Mnms(mnms_files.write(tmp_path, [row(1, "Draw a red kite twice.", nodes)])).problem("mnms-1")
    calls = [call for call in problem.reference.calls.values() if call]
    assert problem.world.resolved(play(problem.world, calls).end)
    fewer = [calls[0], ToolCall(CAPTION, {"image": "OUTPUT_FROM_STEP_0.image"})]
    assert not problem.world.resolved(play(problem.world, fewer).end)


@pytest.mark.parametrize("alternatives", [False, True])
def test_an_alternative_counts_where_it_is_asked_for(folder: str, alternatives: bool) -> None:
    problem = Mnms(folder, alternatives=alternatives).problem("mnms-12")
    other = [
        ToolCall("image classification", {"image": "00417.jpg"}),
        ToolCall(DRAW, {"text": "A watercolour of OUTPUT_FROM_STEP_0.text"}),
    ]
    path = play(problem.world, other)
    assert problem.world.resolved(path.end) is alternatives
    assert problem.measure(path)["plan_values_accuracy"] is alternatives


@each(
    ("call", "told"),
    [
        (ToolCall("image describing", {}), "no tool image describing"),
        (ToolCall(CAPTION, {}), "lacks image"),
        (ToolCall(CAPTION, {"image": ""}), "lacks image"),
        (ToolCall(CAPTION, {"image": "a.jpg", "style": "short"}), "takes no style"),
        (ToolCall(CAPTION, {"image": "b.jpg"}), "image file of the request"),
        (ToolCall(CAPTION, {"image": "c.flac"}), "image file of the request"),
        (ToolCall(CAPTION, {"image": "OUTPUT_FROM_STEP_4.image"}), "image file of the request"),
        (ToolCall(CAPTION, {"image": ["a.jpg"]}), "image file of the request"),
        (ToolCall("automatic speech recognition", {"audio": "a.jpg"}), "audio file of the request"),
        (ToolCall("count", {"objects": "objects"}), "earlier list of objects"),
        (ToolCall("count", {"objects": "{0.image}"}), "earlier list of objects"),
        (ToolCall("get year fact", {"year": "long ago"}), "a number"),
        (ToolCall("get year fact", {"year": "{1.text}"}), "a number"),
        (ToolCall(GENERATE, {"text": {"a": 1}}), "a text"),
        (ToolCall(GENERATE, {"text": "on OUTPUT_FROM_STEP_7.text"}), "a text"),
        (ToolCall(GENERATE, {"text": "on {0.image}"}), "a text"),
        (ToolCall(GENERATE, {"text": "on text-01234567"}), "a text"),
        (ToolCall(GENERATE, {"text": "on {1.text}, OK"}), None),
        (ToolCall(CAPTION, {"image": "{0.image}"}), None),
        (ToolCall("count", {"objects": "{0.objects}"}), None),
        (ToolCall("get year fact", {"year": 1066}), None),
        (ToolCall("get math fact", {"number": "1,066"}), None),
        (ToolCall("get math fact", {"number": "{2.number}"}), None),
        (ToolCall("automatic speech recognition", {"audio": "c.flac"}), None),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(call: ToolCall, told: str | None) -> None:
    world = MnmsWorld(frozenset({"a.jpg", "c.flac"}))
    before = play(world, [
        ToolCall(DETECT, {"image": "a.jpg"}),
        ToolCall(CAPTION, {"image": "a.jpg"}),
        ToolCall("count", {"objects": "OUTPUT_FROM_STEP_0.objects"}),
    ])  # fmt: skip
    seen = [step.observation.content for step in before.steps if step.observation]

    def filled(value: Any) -> Any:
        for number, content in enumerate(seen):
            for field, handle in content.items():
                value = value.replace(f"{{{number}.{field}}}", str(handle)) if isinstance(value, str) else value
        return value

    filled_in = ToolCall(call.tool, {name: filled(value) for name, value in call.arguments.items()})
    state, found = asyncio.run(world.apply(before.end, filled_in))
    assert found.failed is (told is not None)
    assert told is None or told in str(found.content["error"])
    assert (state == before.end) is found.failed


@given(st.lists(st.sampled_from([(name, value) for name in TOOLS for value in ("a.jpg", "a thing", "7")]), max_size=6))
def test_a_call_has_the_same_handles_whenever_it_is_made(made: list[tuple[str, str]]) -> None:
    world = MnmsWorld(frozenset({"a.jpg"}))
    state, seen = world.start(), dict[str, Observation]()
    for name, value in made:
        call = ToolCall(name, dict.fromkeys(TOOLS[name].takes, value))
        before = state
        state, found = asyncio.run(world.apply(state, call))
        assert seen.setdefault(call.text(), found) == found
        assert found.failed is (state == before)
        assert found.failed or set(found.content) == set(TOOLS[name].gives)
    assert hash(state) == hash(MadeState(tuple(sorted(state.calls))))


@given(st.text(max_size=60), st.sampled_from(["{}", "<node-0>.text", "on <node-0>.text {}", "{} <node-"]))
def test_any_text_has_labels(text: str, form: str) -> None:
    """Whatever a model writes, also where it looks like code or a format."""
    value = form.replace("{}", text)
    found = labels_of([ToolCall(GENERATE, {"text": value}), ToolCall(text, {text: 1})])
    assert len(found.tools) == len(found.names) == len(found.values) <= 2 + value.count("\n")


@pytest.mark.parametrize("text", ["a <node-0>.text {0:>999999999999}", "a <node-0>.text {0.__class__.__mro__}"])
def test_a_text_is_never_a_format(text: str) -> None:
    assert labels_of([ToolCall(GENERATE, {"text": text})]).tools == ()


def test_a_long_text_is_no_call() -> None:
    assert labels_of([ToolCall(GENERATE, {"text": "(" * 100_000})]).tools == ()
    assert labels_of([ToolCall(GENERATE, {"text": "<node-0>.text {{" + "-" * 15_000 + "1}}"})]).tools in (
        (), ("text_generation",),
    )  # fmt: skip
