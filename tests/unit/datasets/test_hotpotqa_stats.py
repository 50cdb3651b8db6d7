"""The statistics of multi-objective HotpotQA, on small files and released ones, and the command that prints them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from grid import data
from grid.datasets.hotpotqa.dataset import HotpotQAMulti
from grid.datasets.hotpotqa.stats import ceilings, easy, overview, replayed, shapes


def test_tables_say_what_there_is(small_hotpotqa: str) -> None:
    small = HotpotQAMulti(path=small_hotpotqa, cases=6)

    async def tables() -> dict[str, list[list[str]]]:
        found = {
            "overview": overview(small),
            "shapes": shapes(small),
            "ceilings": await ceilings(small),
            "easy": easy(small),
        }
        return {name: [list(map(str, column.cells)) for column in table.columns] for name, table in found.items()}

    found = asyncio.run(tables())
    assert found["overview"][0][:3] == ["120", "12", "12"]
    assert found["shapes"][0] == ["1", "2", "3", "4", "5", "all"]
    assert set(found["shapes"][4]) == {"2.00"}, "as deep as one question, whatever the number"
    assert found["ceilings"][2] == ["100.0%"] * 6
    assert found["easy"][2] == ["0.0%"] * 6


def test_the_command_prints_cases_with_what_is_found(small_hotpotqa: str, capsys: pytest.CaptureFixture[str]) -> None:
    values = [f"dataset.path={small_hotpotqa}", "dataset.objectives=2", "dataset.cases=3"]
    assert data.main(["hotpotqa_multi", *values, "--show", "2"]) == 0
    text = capsys.readouterr().out
    assert text.count("\nk2-") == 2
    assert "OUTPUT_FROM_STEP_0.result" in text


def test_the_reference_of_released_questions_resolves_them_where_their_paragraphs_are_found(
    released_hotpotqa: str,
) -> None:
    found = HotpotQAMulti(path=released_hotpotqa, cases=20)
    resolved = []
    for case_id in found.case_ids():
        sample = found.records[case_id]
        world = found.world(sample).by_reference()
        wide, narrow = (asyncio.run(replayed(replace(world, paragraphs=most), sample)) for most in (100, 1))
        assert wide or not narrow, "more paragraphs find no less"
        resolved.append(wide)
    assert sum(resolved) > 0.5 * len(resolved)
