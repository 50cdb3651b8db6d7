"""Every planner on questions over a graph: it runs with the simulated policy, and gold plans answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import cycle
from typing import Any, ClassVar

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.problem import BRANCHING, REFERENCES, Outline, Problem, Reference
from grid.core.types import Case, Plan, Skipped, ToolSpec
from grid.pools.whole import Whole
from grid.retrievers.scored import BM25
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.parts import Pooled
from grid.settings.setting import Setting, cells
from grid.worlds.sparql.graph import StoreGraph
from grid.worlds.sparql.programs import calls
from grid.worlds.sparql.queries import read
from grid.worlds.sparql.tools import TOOLS
from tests.support.configs import setting_of, solvers, yaml
from tests.support.oracle import oracle_of
from tests.support.sparql_world import GOLD, film_graph, sparql_world

QUESTIONS = {
    "Which of Ada's films is the shortest?": (GOLD, "m.01"),
    "How many films did Ada make?": ("(COUNT (JOIN film.film.directed_by m.0d))", "2"),
    "Which films are dramas by Bo?": (
        "(AND (JOIN film.film.directed_by m.0e) (JOIN film.film.genre m.0g))",
        "m.03",
    ),
    "Which job did Ada have in 2003?": ("(TC (JOIN (R film.director.job) m.0d) business.job.from 2003)", "m.0h"),
    "What is longer than 100 minutes?": (
        "(gt film.film.runtime 100^^http://www.w3.org/2001/XMLSchema#integer)",
        "m.02; m.04",
    ),
}


class Films:
    """Questions over the graph of films, each with its gold calls."""

    outline: Outline = "hidden"
    version: str = "films"
    tools: Mapping[str, ToolSpec] = TOOLS
    skipped: Sequence[Skipped] = ()
    provides: ClassVar[frozenset[str]] = frozenset({BRANCHING, REFERENCES})

    @cached_property
    def graph(self) -> StoreGraph:
        return film_graph()

    def case_ids(self) -> Sequence[str]:
        return [*QUESTIONS]

    def cluster(self, case_id: str) -> str:
        return case_id

    def problem(self, case_id: str) -> Problem:
        text, answer = QUESTIONS[case_id]
        steps = calls(read(text), lambda identity: identity)
        return Problem(
            case=Case(case_id, case_id, Plan(()), answered=True),
            reference=Reference(steps, (list(steps)[-1],), followed=False),
            world=sparql_world(*answer.split("; "), answered=True, graph=self.graph),
            candidates=lambda case, substep: tuple(TOOLS.values()),
            library=TOOLS,
            same_function={},
            own=tuple(TOOLS),
        )


def films(setting: Setting, budget: BudgetConfig) -> Built:
    """The setting's live objects, the dataset replaced."""
    data = Films()
    return replace(build(setting, budget), dataset=data, pooled=Pooled(data, Whole(), TOOLS, BM25().index(TOOLS)))


def episodes(built: Built, setting: Setting) -> list[dict[str, Any]]:
    chunk = list(cells(setting, "films", built.dataset.case_ids(), 1))
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]


@pytest.mark.long
@pytest.mark.parametrize(  # what tools do is none of a planner's affairs: the contracts run every pair on other data
    ("planner", "robustness"), zip(solvers(), cycle(["none", "tools_forgiving", "tools_strict"]))
)
def test_every_planner_runs_and_repeats_itself(planner: str, robustness: str) -> None:
    most = {"max_calls": 8} if "max_calls" in yaml("planner", planner) else {}
    setting = setting_of({}, most, model="simulated", dataset="slate", planner=planner, robustness=robustness)
    rows = [episodes(films(setting, BudgetConfig(llm_calls=150)), setting) for _ in range(2)]
    assert len(rows[0]) == len(QUESTIONS)
    for row, again in zip(*rows, strict=True):
        assert (row["status"], row["error_kind"], row["error_message"]) == ("ok", None, None)
        assert isinstance(row["success"], bool)
        assert (row["success"], row["answer"], row["tool_calls"]) == (
            again["success"],
            again["answer"],
            again["tool_calls"],
        )
    assert any(row["tool_calls"] for row in rows[0])


@pytest.mark.parametrize("robustness", ["tools_forgiving", "tools_strict"])
@pytest.mark.parametrize("planner", ["fh", "sh", "react"])
def test_gold_plans_answer_every_question(planner: str, robustness: str) -> None:
    setting = setting_of(model="lexical", dataset="slate", planner=planner, robustness=robustness)
    built = films(setting, BudgetConfig(llm_calls=100, steps=100))
    built = replace(built, engine=oracle_of(built.dataset, built.dataset.case_ids()))
    rows = episodes(built, setting)
    assert [row["case_id"] for row in rows if row["success"] is not True] == []
    assert all(row["n_steps"] - 1 == row["tool_calls"] == row["plan_nodes"] for row in rows)
