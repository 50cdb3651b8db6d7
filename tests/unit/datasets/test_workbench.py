"""WorkBench: its cases, what calls do to the tables, and how it is scored."""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.cells.run import Stamp, run_chunk
from grid.core.types import Observation, ToolCall, Trajectory
from grid.datasets import workbench as world
from grid.datasets import workbench_table as table
from grid.datasets.workbench import TOLD, TOOLS, WorkBench, WorkBenchWorld, played, respond
from grid.datasets.workbench_table import NOW, Workplace
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from launch.benchmarks import peak_bytes
from tests.support import workbench
from tests.support.configs import setting_of

IDLE = "workbench-analytics-001", "workbench-project_management-001"
MOST_MB, MOST_MS = 200, 2


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> WorkBench:
    return WorkBench(workbench.write(tmp_path_factory.mktemp("workbench")))


@pytest.fixture(scope="module")
def released() -> WorkBench:
    path = os.environ.get("AGENT_GRID_WORKBENCH")
    if not path:
        pytest.skip("set AGENT_GRID_WORKBENCH to WorkBench's folder")
    return WorkBench(path)


def run(place: Workplace, *calls: tuple[str, dict[str, Any]]) -> tuple[Workplace, list[Observation]]:
    seen = []
    for tool, arguments in calls:
        place, observation = respond(place, ToolCall(tool, arguments))
        seen.append(observation)
    return place, seen


def gold(data: WorkBench, case_id: str) -> list[ToolCall]:
    return [call for call in data.problem(case_id).reference.calls.values() if call]


def solved_by(data: WorkBench, calls: Callable[[str], Sequence[ToolCall]]) -> float:
    """The share of cases that whoever makes these calls resolves, call by call through the world."""

    async def resolved(case_id: str) -> bool:
        found = data.problem(case_id).world
        state = found.start()
        for call in calls(case_id):
            state, _ = await found.apply(state, call)
        return found.resolved(state)

    return statistics.mean(asyncio.run(resolved(case_id)) for case_id in data.case_ids())


def random_calls(data: WorkBench) -> float:
    """The share that random calls of random tools resolve of those cases where something has to change."""
    lots = workbench.Mutations(data.before, [()], seed=3)
    busy = [case_id for case_id in data.case_ids() if not data.problem(case_id).world.resolved(data.before)]
    return statistics.mean(
        data.problem(case_id).world.resolved(played(data.before, lots.pair()[0])) for case_id in busy
    )


def check_scores(data: WorkBench) -> None:
    """Gold calls resolve every case, doing nothing those that want nothing, and random calls none."""
    idle = [case_id for case_id in data.case_ids() if played(data.before, gold(data, case_id)) == data.before]
    assert solved_by(data, lambda case_id: gold(data, case_id)) == 1
    assert solved_by(data, lambda case_id: ()) == len(idle) / len(data.case_ids())
    assert random_calls(data) < 0.01


def test_scores_of_small_cases(small: WorkBench) -> None:
    check_scores(small)
    assert len(small.case_ids()) == sum(map(len, workbench.CASES.values()))
    assert small.skipped == []


def test_the_released_cases(released: WorkBench) -> None:
    check_scores(released)
    assert (len(released.tools), released.skipped) == (27, [])
    assert not any(released.problem(name).reference.failing for name in released.case_ids())


@pytest.mark.parametrize("outline", ["hidden", "drafted"])
def test_where_nothing_may_change_the_simulated_policy_does_nothing(small: WorkBench, outline: str) -> None:
    values = {"path": small.path, "outline": outline}
    setting = setting_of(values, model="simulated", dataset="workbench", model_values={"malformed": 0.0})
    built = build(setting, BudgetConfig())
    chunk = list(cells(setting, built.dataset.version, IDLE, 20))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert {(row["status"], row["success"], row["side_effect"], row["exact_match"]) for row in rows} == {
        ("ok", True, False, None)
    }
    calls = [row["tool_calls"] for row in rows]
    assert max(calls) == 0 if outline == "hidden" else 0 in calls


def test_what_a_case_says(small: WorkBench) -> None:
    problem = small.problem("workbench-multi_domain-000")
    assert problem.case.query.startswith("It is Thursday, 2023-11-30, 00:00. Meetings may not start before 09:00")
    assert problem.case.query == f"{TOLD} {workbench.CASES['multi_domain'][0][0]}"
    assert {small.tools[name].category for name in problem.own} == {
        "customer_relationship_manager", "project_management", "email", "company_directory",
    }  # fmt: skip
    assert small.cluster("workbench-calendar-000") == small.cluster("workbench-calendar-001")
    assert small.cluster("workbench-calendar-001") != small.cluster("workbench-calendar-002")
    assert problem.reference.ordered is False, "calls on other tables"
    assert small.problem("workbench-email-000").reference.ordered is True, "what is added stands in its order"
    assert small.problem("workbench-customer_relationship_manager-001").reference.ordered is False
    body = gold(small, "workbench-email-001")[0].arguments["body"]
    assert body == "Hi Ada,\n\nit's mended."


def test_the_score_looks_at_the_tables_alone(small: WorkBench) -> None:
    problem = small.problem("workbench-calendar-002")
    (made,) = gold(small, "workbench-calendar-002")
    found: Any = problem.world

    def outcome(*calls: tuple[str, dict[str, Any]]) -> tuple[bool, bool]:
        state = run(small.before, *calls)[0]
        measured = problem.measure(Trajectory((), (), state))
        assert measured == {"side_effect": found.side_effect(state)}
        return found.resolved(state), found.side_effect(state)

    arguments = dict(made.arguments)
    search = "calendar.search_events", {"query": "roof"}
    assert outcome() == (False, False)
    assert outcome(search) == (False, False)
    assert outcome(search, (made.tool, arguments), search) == (True, False)
    assert outcome((made.tool, arguments | {"event_name": "TEA"})) == (True, False)
    assert outcome((made.tool, arguments | {"duration": 30})) == (True, False), "a number is its text"
    assert outcome((made.tool, arguments | {"duration": "60"})) == (False, True)
    assert outcome((made.tool, arguments), (made.tool, arguments)) == (False, True)
    undone = "calendar.delete_event", {"event_id": "00000007"}
    assert outcome((made.tool, arguments), undone) == (False, False), "as it was"


def test_the_case_of_letters_counts_where_lists_do(small: WorkBench) -> None:
    shouted = {"task_id": "00000002", "field": "task_name", "new_value": "FIX THE LOGIN"}
    state = run(small.before, ("project_management.update_task", shouted))[0]
    nothing = WorkBenchWorld(small.before, ())
    assert (nothing.resolved(state), nothing.side_effect(state)) == (True, False)
    lead = {"customer_name": "x", "assigned_to_email": "a@b", "status": "Lead"}
    tool = "customer_relationship_manager.add_customer"
    found = WorkBenchWorld(small.before, [ToolCall(tool, lead)])
    tried = [lead, lead | {"customer_name": "X"}, lead | {"status": "lead"}]
    assert [found.resolved(run(small.before, (tool, one))[0]) for one in tried] == [True, True, False]


def test_line_breaks_may_be_written_either_way(small: WorkBench) -> None:
    (made,) = gold(small, "workbench-email-001")
    found = WorkBenchWorld(small.before, [made])
    escaped = str(made.arguments["body"]).replace("\n", "\\n")
    assert found.resolved(played(small.before, [ToolCall(made.tool, {**made.arguments, "body": escaped})]))


def test_dates_are_the_benchmarks(small: WorkBench) -> None:
    """Whatever the machine's clock says."""
    for now in ("now", "today", "00:00"):
        (found,) = run(small.before, ("calendar.search_events", {"time_min": now}))[1]
        events: Any = found.content["events"]
        assert [event["event_id"] for event in events] == ["00000000", "00000004", "00000002", "00000005", "00000006"]
    sent = run(small.before, ("email.send_email", {"recipient": "a@b.c", "subject": "s", "body": "b"}))[0]
    assert sent.emails.records()[-1]["sent_datetime"] == NOW


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("calendar.remove_all", {}),
        ("calendar.delete_event", {}),
        ("calendar.delete_event", {"event_id": None}),
        ("calendar.delete_event", {"event_id": "00000099"}),
        ("calendar.delete_event", {"event_id": ["00000001"]}),
        ("calendar.delete_event", {"event_id": "00000001", "path": "/etc/passwd"}),
        ("calendar.search_events", {"query": "("}),
        ("calendar.search_events", {"query": "(?=a)"}),
        ("calendar.search_events", {"time_min": "soon"}),
        ("calendar.search_events", {"time_min": "2023-12-01T00:00:00Z"}),
        ("email.search_emails", {"date_min": "NaT"}),
        ("email.send_email", {"recipient": "nobody", "subject": "s", "body": "b"}),
        ("email.send_email", {"recipient": "a@b.c", "subject": "s", "body": "b" * (world.LONGEST + 1)}),
        ("project_management.update_task", {"task_id": "00000001", "field": "../emails", "new_value": "x"}),
        ("project_management.update_task", {"task_id": "00000001", "field": "board", "new_value": "design"}),
        ("customer_relationship_manager.search_customers", {"customer_phone": "5"}),
        ("customer_relationship_manager.search_customers", {}),
        ("company_directory.find_email_address", {"name": ""}),
    ],
)
def test_what_is_refused_changes_nothing(small: WorkBench, tool: str, arguments: dict[str, Any]) -> None:
    after, (found,) = run(small.before, (tool, arguments))
    assert after is small.before
    assert found.failed
    assert set(found.content) == {"error"}


def test_a_plots_path_is_a_cell_and_no_file(small: WorkBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outside = {"time_min": "../../outside", "time_max": "/etc/x", "value_to_plot": "total_visits", "plot_type": "bar"}
    after, (found,) = run(small.before, ("analytics.create_plot", outside))
    assert found.content == {"file_path": "plots/../../outside_/etc/x_total_visits_bar.png"}
    assert after.plots.records() == [found.content]
    changed = [one is not other for one, other in zip(after.changing(), small.before.changing(), strict=True)]
    assert changed == [False, False, True, False, False]
    assert [*tmp_path.iterdir()] == []


def test_a_state_cannot_grow_without_bound(small: WorkBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MOST_ROWS", 12)
    monkeypatch.setattr(table, "MOST_COLUMNS", 7)
    event = {"event_name": "x", "participant_email": "a@b", "event_start": "2024-01-01", "duration": "1"}
    after, seen = run(small.before, *[("calendar.create_event", event)] * 20)
    assert ([one.failed for one in seen].count(True), len(after.events.rows)) == (15, 12)
    fields = [{"event_id": "00000001", "field": f"more{n}", "new_value": "x"} for n in range(4)]
    after, seen = run(small.before, *(("calendar.update_event", one) for one in fields))
    assert ([one.failed for one in seen], len(after.events.columns)) == ([False, False, True, True], 7)


def test_a_search_takes_linear_time(small: WorkBench) -> None:
    """Python's own engine would take longer than the world is old."""
    began = time.perf_counter()
    for query in ("(.*)*x{3}(.+)+$", "(a|a)*" * 30 + "z", "((o+)+)+!"):
        run(small.before, ("calendar.search_events", {"query": query}))
    assert time.perf_counter() - began < 5


@given(st.integers(0, 10**6))
def test_states_are_values(small: WorkBench, seed: int) -> None:
    """Going on from a state leaves it as it is, equal paths lead to equal states, and reading changes nothing."""
    golds = [gold(small, case_id) for case_id in small.case_ids()]
    calls = workbench.Mutations(small.before, golds, seed).pair()[0]
    state = small.before
    for call in calls:
        kept = pickle.dumps(state)
        after, observation = respond(state, call)
        assert pickle.dumps(state) == kept
        if observation.failed or not TOOLS[call.tool].writes:
            assert after is state
        assert all(one is other or one != other for one, other in shares(after, state))
        state = after
    again = played(pickle.loads(pickle.dumps(small.before)), calls)  # noqa: S301 - our own
    assert (again, hash(again)) == (state, hash(state))


def shares(after: Workplace, before: Workplace) -> list[tuple[table.Table, table.Table]]:
    """Pairs of tables of which one at most may be another object."""
    pairs = list(zip(after.changing(), before.changing(), strict=True))
    assert sum(one is not other for one, other in pairs) <= 1
    return [pair for pair in pairs if pair[0] is pair[1]]


def check_branches(data: WorkBench) -> tuple[float, float, float]:
    """1,000 branches of one case: MB by tracemalloc and by the process, and the median milliseconds of gold calls."""
    drawn, lots = random.Random(4), workbench.Mutations(data.before, [()], seed=4)
    golds = [call for case_id in data.case_ids() for call in gold(data, case_id)]
    times = []
    for call in golds:
        began = time.perf_counter()
        hash(respond(data.before, call)[0])
        times.append(1000 * (time.perf_counter() - began))
    before = peak_bytes()
    tracemalloc.start()
    states = [data.before]
    while len(states) <= 1000:
        call = drawn.choice([drawn.choice(golds), *lots.pair()[0]])
        after = respond(drawn.choice(states), call)[0]
        if after is not data.before:
            states.append(after)
            hash(after)
    held = tracemalloc.get_traced_memory()[0] / 1e6
    tracemalloc.stop()
    return held, (peak_bytes() - before) / 1e6, statistics.median(times)


def test_branches_share_what_no_call_changed(released: WorkBench) -> None:
    held, grown, median = check_branches(released)
    assert held < MOST_MB
    assert grown < MOST_MB
    assert median < MOST_MS
