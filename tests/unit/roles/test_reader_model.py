"""A model in the role `simulator` that answers questions from paragraphs: what it is shown, once, and never more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import SIMULATOR
from grid.core.types import to_json
from grid.roles.simulation import Simulating, Simulation
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from grid.worlds.readers import ByReference
from grid.worlds.search import QuestionWorld
from tests.support.configs import setting_of
from tests.unit.worlds.test_simulator import Playing

PARAGRAPHS = ("Larkmoor: a town in Tarn County.", "Hexley: a village.")


def read(simulation: Simulation, *asked: tuple[str, Any]) -> list[Any]:
    async def ask() -> list[Any]:
        return list(await asyncio.gather(*(simulation.read(*one) for one in asked)))

    return asyncio.run(ask())


def test_a_question_is_asked_once_with_its_paragraphs() -> None:
    engine = Playing(lambda prompt, asked: to_json({"error": "", "response": str(asked)}))
    simulation = Simulation(engine, Simulating(), 3)
    found = read(simulation, ("Where?", PARAGRAPHS), ("Where?", list(PARAGRAPHS)), ("Where?", PARAGRAPHS[:1]))
    assert found[0] == found[1]
    assert len(engine.prompts) == 2
    assert len({*engine.seeds}) == 2
    for part in (*PARAGRAPHS, "Where?"):
        assert engine.prompts[0].text().count(part) == 1
    assert PARAGRAPHS[1] not in engine.prompts[1].text()


def test_reasoning_has_no_paragraphs_and_another_request() -> None:
    engine = Playing(lambda prompt, asked: '{"error": "no value is given"}')
    simulation = Simulation(engine, Simulating(), 3)
    assert read(simulation, ("Which is larger?", None), ("Which is larger?", ())) == [("no value is given", None)] * 2
    reasoned, searched = (prompt.text() for prompt in engine.prompts)
    assert "paragraph" not in reasoned.lower()
    assert "No paragraph was found." in searched


def test_an_answer_that_cannot_be_read_is_counted() -> None:
    simulation = Simulation(Playing(lambda prompt, asked: "well"), Simulating(max_retries=1), 3)
    assert read(simulation, ("Where?", PARAGRAPHS)) == [None]
    assert simulation.failures == 1


@pytest.mark.parametrize("says", ['{"error": "", "response": "1901"}', "well,"])
def test_a_model_reads_for_every_planner_and_is_never_told_the_reference(small_hotpotqa: str, says: str) -> None:
    values = {"path": small_hotpotqa, "cases": 4, "objectives": 2}
    setting = setting_of(values, dataset="hotpotqa_multi", planner="sh", model="simulated")
    built, engine = build(setting, BudgetConfig()), Playing(lambda prompt, asked: says)
    built = replace(built, roles={SIMULATOR: engine}, simulating={SIMULATOR: Simulating()})
    setting = replace(setting, labels={**setting.labels, SIMULATOR: "playing"})
    world = built.problem("k2-0000", 0).world
    assert isinstance(world, QuestionWorld)
    assert not isinstance(world.reader, ByReference), "who is told the reference has what the model reads"
    chunk = list(cells(setting, built.version, built.dataset.case_ids(), 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert sum(row["simulator_calls"] for row in rows) >= len(engine.prompts) / 4 > 0
    assert all((row["simulator_failures"] > 0) == (says == "well,") for row in rows if row["simulator_calls"])
    for prompt in engine.prompts:
        asked = prompt.entries("proposal")[-1]
        shown = prompt.entries("texts")[1:]
        assert all(text in {one.shown for one in world.corpus.paragraphs} for text in shown)
        assert asked
    assert {row["expected_success"] for row in rows} == {None}, "what a model reads nobody can tell"
