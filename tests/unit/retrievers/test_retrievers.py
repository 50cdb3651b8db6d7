"""The oracle, tools in context, fused ranks, and what retrieval before every decision changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grid.cells.run import Stamp, episode_of, run_chunk, solve
from grid.core.problem import Reference
from grid.core.types import Case, Observation, Parameter, Plan, Step, Substep, ToolCall, ToolSpec
from grid.episode.options import SOUGHT, Retrieved
from grid.retrievers.oracle import Oracle
from grid.retrievers.scored import BM25, LONGEST, best, document, fused
from grid.retrievers.unranked import Unranked
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from tests.support.configs import setting_of, solvers

CASE = Case("c", "Plan my trip.", Plan(()))
TOOLS = {
    name: ToolSpec(name, text, (Parameter("x", "string", ""),))
    for name, text in {
        "book_hotel": "Reserves a room for a trip.",
        "cancel_flight": "Calls off a flight.",
        "weather": "Tells the weather of a city.",
        "zip_files": "Packs documents.",
    }.items()
}


@pytest.fixture(autouse=True)
def cache(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(fresh_cache))


def found(index: Any, text: str) -> list[str]:
    return [tool.name for tool in index.retrieve(CASE, Substep("1", text, ""))]


def rows_of(retriever: str, outline: str, **retrieving: Any) -> list[dict[str, Any]]:
    setting = setting_of({"limit": 4, "outline": outline}, dataset="slate", retriever=retriever)
    setting.config["retriever"].update(retrieving)
    built = build(setting, BudgetConfig())
    chunk = list(cells(setting, built.version, built.dataset.case_ids(), 1))
    return list(asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"])


def test_the_oracle_has_the_right_tools_first_and_then_what_bm25_finds() -> None:
    index = Oracle(top_k=3).index(TOOLS)
    told = index.told(Reference({"1": ToolCall("zip_files", {}), "2": None, "3": ToolCall("weather", {})}, ("1",)))  # type: ignore[attr-defined]
    assert found(told, "a room for a trip") == ["zip_files", "weather", "book_hotel"]
    assert found(index, "a room for a trip")[0] == "book_hotel", "without being told it is BM25"
    many = Oracle(top_k=1).index(TOOLS).told(Reference({str(i): ToolCall(t, {}) for i, t in enumerate(TOOLS)}, ("1",)))  # type: ignore[attr-defined]
    assert found(many, "x") == list(TOOLS), "all that are right, whatever top_k is"


@pytest.mark.long
@pytest.mark.parametrize("outline", ["given", "hidden"])
def test_with_the_oracle_no_right_tool_is_missed(outline: str) -> None:
    for row in rows_of("oracle", outline, top_k=5, query_top_k=5):
        assert row["retrieval_rate"] == 1.0


def test_without_a_retriever_every_tool_is_offered_in_the_librarys_order() -> None:
    index = Unranked().index(TOOLS)
    assert found(index, "weather") == list(TOOLS)
    assert index.query_top_k == len(TOOLS)
    assert index.nearest("weather of a city")[0].name == "weather"
    few = index.of(["zip_files", "cancel_flight"])
    assert found(few, "anything") == ["cancel_flight", "zip_files"]
    assert [tool.name for tool in few.nearest("documents")] == ["zip_files", "cancel_flight"]
    retrieved = Retrieved(index.retrieve, (Substep("1", "weather", ""), Substep("2", "documents", "")), 4)
    assert [tool.name for tool in retrieved.tools(CASE, None)] == list(TOOLS)


def test_ranks_are_fused_as_by_hand() -> None:
    one, other = np.array([3.0, 2.0, 1.0, 1.0]), np.array([0.1, 0.4, 0.3, 0.2])
    ranks = [(1, 4), (2, 1), (3, 2), (4, 3)]
    assert fused([one, other]) == pytest.approx([1 / (60 + a) + 1 / (60 + b) for a, b in ranks])


def test_the_best_are_those_of_a_whole_sort() -> None:
    scores = np.random.default_rng(0).integers(0, 20, 500).astype(np.float32)
    order = sorted(range(500), key=lambda place: (-scores[place], place))
    for count in (1, 7, 250, 500, 900):
        assert list(best(scores, count)) == order[:count]


def test_a_tools_text_has_an_end_and_may_have_no_word() -> None:
    long = replace(TOOLS["weather"], name="long", description="storm " * 200_000)
    empty = ToolSpec("1", "2", ())
    assert len(document(long)) == LONGEST
    index = BM25(top_k=9).index({tool.name: tool for tool in (empty, long)})
    assert found(index, "storm") == ["long", "1"]
    assert found(BM25().index({"1": empty}), "storm") == ["1"]


def test_by_its_description_alone_a_tool_has_no_name_and_no_arguments() -> None:
    tools = {
        "weather": ToolSpec("weather", "Packs documents.", (Parameter("city", "string", "of the weather"),)),
        "files": ToolSpec("files", "Tells of rain.", ()),
    }
    for by, nearest in (("all", ["weather", "files"]), ("description", ["files", "weather"])):
        assert found(BM25(found_by=by).index(tools), "weather: will there be rain") == nearest  # type: ignore[arg-type]
    assert document(tools["weather"], "description") == "Packs documents."


def step(thought: str | None, observation: str) -> Step:
    call = ToolCall("weather", {})
    return Step(0, Substep("0", "", ""), call, Observation({"said": observation}), thought=thought)


def test_dynamic_retrieval_looks_for_the_last_thought_and_observation() -> None:
    index = BM25(top_k=1).index(TOOLS)
    static, dynamic = (Retrieved(index.retrieve, (), 1, mode) for mode in ("static", "dynamic"))
    steps = [step("now documents", "pack documents"), step(None, "flight flight flight is called off")]
    for retrieved, first, behind in ((static, "book_hotel", "book_hotel"), (dynamic, "book_hotel", "cancel_flight")):
        assert retrieved.tools(CASE, None, retrieved.sought([]))[0].name == first
        assert retrieved.tools(CASE, None, retrieved.sought(steps))[0].name == behind
    assert static.sought(steps) == ""
    assert dynamic.sought(steps) == 'now documents\n{"said": "flight flight flight is called off"}'
    assert len(dynamic.sought([step("t" * 9_999, "o" * 9_999)])) == 2 * SOUGHT + 1


AHEAD = ("cot", "fh", "zero_shot", "holistic", "stepwise_2", "stepwise_3")
"""Who decides on several calls at once."""


@pytest.mark.long
@pytest.mark.parametrize("planner", solvers())
def test_every_planner_retrieves_by_what_it_saw_on_its_own_path(planner: str) -> None:
    setting = setting_of(
        {"limit": 4 if planner in ("react", "tooltree") else 1, "outline": "hidden"}, dataset="slate", planner=planner
    )
    setting.config["retriever"].update(mode="dynamic", top_k=5)
    built, offers = build(setting, BudgetConfig(llm_calls=60)), []
    for cell in cells(setting, built.version, built.dataset.case_ids(), 1):
        problem = built.problem(cell.case_id, cell.disturbance_seed)
        path = asyncio.run(solve(built, episode_of(built, problem, cell.seed))).steps
        retrieved = Retrieved.of(problem)
        assert all(taken.sought == "" for taken in path[:1])  # a judge may leave no path
        for place, taken in enumerate(path):
            known = [retrieved.sought(path[:before]) for before in range(place + 1)]
            assert taken.sought in (known if planner in AHEAD else known[-1:])
            offered = retrieved.tools(problem.case, None, taken.sought)
            assert set(taken.candidates) <= {tool.name for tool in offered}
        offers.append({taken.candidates for taken in path})
    assert any(offers)
    assert planner != "react" or max(map(len, offers)) > 1


def test_dynamic_retrieval_counts_all_that_was_offered_on_the_way() -> None:
    once, anew = (rows_of("bm25", "hidden", mode=mode, top_k=3, query_top_k=3) for mode in ("static", "dynamic"))
    assert [row["retrieval_rate"] for row in once] != [row["retrieval_rate"] for row in anew]
    assert all(0 <= row["retrieval_rate"] <= 1 for row in (*once, *anew))
