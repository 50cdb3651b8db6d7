"""BFCL's records of several turns as cases: how they are read, what calls do, and that planners can solve them."""

from __future__ import annotations

import asyncio
import pickle
import time
import tracemalloc
from importlib.util import find_spec
from typing import Any

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.types import Json, Observation, ToolCall
from grid.datasets import bfcl_records as checker
from grid.datasets.bfcl import ADDED, Conversation, Talk
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support.bfcl_turns import CATEGORIES, FILES, case_of, write
from tests.support.configs import setting_of, solvers

SKILLED = {"tool_skill": 1.0, "argument_skill": 1.0, "foresight": 0.0, "malformed": 0.0, "judge_auc": 1.0}


pytestmark = pytest.mark.skipif(find_spec("bfcl_eval") is None, reason=checker.INSTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("bfcl_turns"))


def played(world: Conversation, *calls: ToolCall | None, start: Talk | None = None) -> tuple[Talk, list[Observation]]:
    """The state behind calls, None for the end of a turn; and what they returned."""

    async def run() -> tuple[Talk, list[Observation]]:
        state, seen = start or world.start(), []
        for call in calls:
            if call is None:
                state = world.next_turn(state)
            else:
                state, observation = await world.apply(state, call)
                seen.append(observation)
        return state, seen

    return asyncio.run(run())


def call(tool: str, **arguments: Json) -> ToolCall:
    return ToolCall(tool, arguments)


def test_a_record_is_a_case_with_its_messages_tools_and_calls() -> None:
    found = case_of("multi_turn_base", 0)
    assert found.case.query == "Make a folder 'done' and put the notes there."
    assert [message.text for message in found.case.messages] == [
        "Read me the notes in order.",
        "The mean of 4, 8.5 and -1?",
    ]
    assert [one and one.text() for one in found.reference.calls.values()] == [
        '{"tool": "mkdir", "arguments": {"dir_name": "done"}}',
        '{"tool": "mv", "arguments": {"source": "notes.txt", "destination": "done"}}',
        None,
        '{"tool": "cd", "arguments": {"folder": "done"}}',
        '{"tool": "sort", "arguments": {"file_name": "notes.txt"}}',
        None,
        '{"tool": "mean", "arguments": {"numbers": [4, 8.5, -1]}}',
    ]
    assert [*found.reference.calls] == list("0123456")
    assert found.reference.resolution == ("0", "1", "3", "4", "6")
    assert not found.reference.followed
    assert [tool.name for tool in found.tools] == [
        row["name"] for name in ("gorilla_file_system", "math_api") for row in FILES[name]
    ]
    tool = found.tools[0]
    assert (tool.category, tool.returns) == ("GorillaFileSystem", ("current_directory_content",))
    assert [(one.name, one.type, one.required) for one in tool.parameters] == [("a", "boolean", False)]


def test_functions_that_are_held_back_come_with_a_message_and_a_missing_parameter_takes_a_turn() -> None:
    held = case_of("multi_turn_miss_func", 0)
    assert [(message.text, message.tools) for message in held.case.messages][:2] == [
        ("Read me the notes in order.", frozenset()),
        (ADDED, frozenset({"sort", "cat"})),
    ]
    assert [*held.reference.calls.values()][2:4] == [None, None]
    assert {"sort", "cat"} <= {tool.name for tool in held.tools}
    missing = case_of("multi_turn_miss_param", 0)
    assert [message.text for message in missing.case.messages][:2] == [
        "Please do the other thing.",
        "Read me the notes in order.",
    ]
    assert [*missing.reference.calls.values()][2:4] == [None, None]


@pytest.mark.parametrize("empty", [0, 1, 2, 3])
def test_turns_are_parted_even_if_the_first_have_no_calls(empty: int) -> None:
    gold = [*[[]] * empty, *[["ls()", "ls()"]] * (3 - empty)]
    calls = case_of("multi_turn_base", 0, ground_truth=gold).reference.calls.values()
    assert [one and one.tool for one in calls] == ([None] * empty + ["ls", "ls", None] * (3 - empty))[:-1]


def test_arguments_without_a_name_are_in_the_order_of_the_class_not_of_the_document() -> None:
    found = case_of("multi_turn_base", 2)
    assert found.reference.calls["0"] == call(
        "purchase_insurance",
        access_token="t7",  # noqa: S106
        insurance_type="full",
        booking_id="b1",
        insurance_cost=20,
        card_id="c1",
    )


def test_branches_share_nothing_and_the_same_calls_lead_to_equal_states() -> None:
    world = case_of("multi_turn_base", 0).world
    one, _ = played(world, call("mkdir", dir_name="x"))
    other, _ = played(world, call("mkdir", dir_name="y"))
    assert one != other
    listed = played(world, call("ls"), start=one)[1][0]
    assert listed.content == {"current_directory_content": ["notes.txt", "old", "new", "x"]}
    again, _ = played(world, call("mkdir", dir_name="x"))
    assert (again, hash(again)) == (one, hash(one))
    copied = pickle.loads(pickle.dumps(one))  # noqa: S301 - as a worker would get it
    assert copied == one
    assert played(world, call("ls"), start=copied) == played(world, call("ls"), start=one)
    assert played(world, call("touch", file_name="x"), start=other)[1][0].content == {"result": None}


def test_a_call_that_fails_changes_nothing_but_that_one_was_made() -> None:
    world = case_of("multi_turn_base", 0).world
    start = world.start()
    for wrong in (call("cd", folder="z"), call("fly"), call("cd", x=1), call("_load_scenario"), call("__init__")):
        state, (observation,) = played(world, wrong)
        assert (observation.failed, [*observation.content]) == (True, ["error"])
        assert (state, state.snapshots) == (Talk(start.past, called=True), start.snapshots)
    unknown = played(world, call("fly"))[1][0]
    assert unknown.content == {"error": "Error during execution: name 'fly' is not defined"}


def test_each_turn_must_pass_at_its_end_and_nothing_is_resolved_before_the_last() -> None:
    found = case_of("multi_turn_base", 0)
    world, gold = found.world, [*found.reference.calls.values()]
    halfway, _ = played(world, *gold[:2])
    assert world.turn_resolved(halfway)
    assert not world.resolved(halfway)
    whole, _ = played(world, *gold)
    assert world.resolved(whole)
    late, _ = played(world, gold[0], None, gold[1], *gold[3:])
    assert not world.resolved(late)  # what the first turn asks for was done in the second
    assert not world.turn_resolved(late)
    more, _ = played(world, call("ls"), *gold[:6], call("find"), gold[6])
    assert world.resolved(more)  # calls that change nothing do no harm
    with pytest.raises(ValueError, match="no turn after 2"):
        world.next_turn(whole)


def test_a_result_of_an_earlier_turn_counts_but_a_turn_with_gold_calls_needs_a_call() -> None:
    world = case_of("multi_turn_base", 1).world
    listing, post = call("ls", a=True), call("post_tweet", content="Off we go", tags=["#trip"])
    comment = call("comment", tweet_id=3, comment_content="At last")
    assert world.resolved(played(world, listing, None, post, None, comment)[0])  # the second listing adds nothing
    assert not world.resolved(played(world, call("find"), None, post, None, comment)[0])
    silent, _ = played(world, listing, None, post, comment, None)
    assert not world.turn_resolved(silent)
    early = case_of(
        "multi_turn_base", 1, ground_truth=[["ls(a=True)"], ["ls(a=True)"], ["ls(a=True)", "ls(a=True)"]]
    ).world
    for calls, passes in (
        ([None, None], False),
        ([None, call("fly"), None, listing], True),
        ([None, None, listing], False),
    ):
        assert early.resolved(played(early, listing, *calls)[0]) is passes


def test_a_turn_without_gold_calls_passes_and_what_is_done_in_it_counts_later() -> None:
    found = case_of("multi_turn_miss_func", 0)
    world, gold = found.world, [*found.reference.calls.values()]
    assert world.resolved(played(world, *gold)[0])
    assert world.resolved(played(world, *gold[:3], call("fly"), *gold[3:])[0])
    harmful, _ = played(world, *gold[:3], call("touch", file_name="x"))
    assert world.turn_resolved(harmful)
    assert not world.turn_resolved(played(world, *gold[3:6], start=harmful)[0])


def test_a_call_that_would_compute_for_too_long_is_refused_and_a_directory_in_itself_does_no_harm() -> None:
    world = case_of("multi_turn_base", 0).world
    started = time.monotonic()
    calls = [
        call("power", base=10, exponent=10**12),
        call("logarithm", value=2, base=3, precision=10**12),
        call("power", base=10**300, exponent=1000),
        call("cp", source="old", destination="old"),
        call("find"),
    ]
    _, seen = played(world, *calls)
    assert [one.failed for one in seen] == [True, True, True, False, True]
    assert seen[0].content == {"error": "Error during execution: exponent must not be above 1,000"}
    assert time.monotonic() - started < 5


def test_a_state_that_grows_without_bound_is_refused() -> None:
    world = case_of("multi_turn_base", 0).world
    state, names = world.start(), [f"n{number}" for number in range(40)]
    failed = 0
    for name in names:
        calls = (call("touch", file_name=name), call("echo", content="x" * 20_000, file_name=name))
        state, seen = played(world, *calls, start=state)
        failed += seen[1].failed
    assert 0 < failed < 40
    assert max(map(len, state.snapshots)) <= 250_000


def test_long_context_fills_the_objects_and_a_thousand_branches_stay_small() -> None:
    short, long = (case_of(f"multi_turn_{kind}", 0).world for kind in ("base", "long_context"))
    assert len(long.snapshots[0]) > 3 * len(short.snapshots[0])

    async def branches() -> list[Talk]:
        calls = (call("touch", file_name=f"x{number}") for number in range(1000))
        return [(await long.apply(long.start(), one))[0] for one in calls]

    tracemalloc.start()
    try:
        states = asyncio.run(branches())
        assert len(set(states)) == 1000
        assert tracemalloc.get_traced_memory()[0] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("category", CATEGORIES)
@pytest.mark.parametrize("planner", ["react", "tooltree", "lats"])
def test_whoever_knows_the_reference_solves_every_case(folder: str, category: str, planner: str) -> None:
    rows = episodes(folder, category, planner, "simulated", SKILLED)
    assert [(row["status"], row["success"], row["exact_match"]) for row in rows] == [("ok", True, 1.0)] * 3


@pytest.mark.parametrize("planner", solvers())
def test_every_planner_runs(folder: str, planner: str) -> None:
    rows = episodes(folder, "multi_turn_miss_func", planner, "lexical", {})
    assert [(row["status"], row["error_message"]) for row in rows] == [("ok", None)] * 3


def episodes(folder: str, category: str, planner: str, model: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    setting = setting_of(
        dataset="bfcl",
        pool="case",
        retriever="none",
        planner=planner,
        model=model,
        dataset_values={"path": folder, "category": category},
        planner_values={"candidates": "sampled"} if planner == "tooltree" else {},  # within 150 requests
        model_values=values,
    )
    built = build(setting, BudgetConfig(llm_calls=150))
    assert built.dataset.skipped == []
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
