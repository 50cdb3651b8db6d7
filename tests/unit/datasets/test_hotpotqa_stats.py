"""The statistics of multi-objective HotpotQA, on small files and released ones, and the command that prints them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grid import data
from grid.datasets.hotpotqa.dataset import HotpotQAMulti
from grid.datasets.hotpotqa.stats import ceilings, easy, overview, replayed, shapes, written
from tests.support import hotpotqa


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


def test_a_call_is_shown_with_its_own_paragraph_if_two_parts_end_in_the_same_question(
    small_hotpotqa: str, tmp_path: Path
) -> None:
    book, person = hotpotqa.book(0), hotpotqa.person(0)
    bust = hotpotqa.paragraph("The Walnut Bust", f"The Walnut Bust is a carving by {person[0]}.")
    asked = {"b": (f"the novel {book[0]}", book), "c": ("the carving The Walnut Bust", bust)}
    alike = [
        hotpotqa.record(key, f"In what year was the author of {told} born?", "1901", "bridge", (first, person))
        for key, (told, first) in asked.items()
    ]
    path = hotpotqa.write(tmp_path, [*alike, hotpotqa.comparison(3), hotpotqa.comparison(5)])
    dataset = HotpotQAMulti(path=path, train=small_hotpotqa, objectives=2, cases=12)
    (both,) = [name for name, one in dataset.records.items() if [part.id for part in one.parts] == ["b", "c"]]
    assert (len(dataset.records[both].calls()), len(dataset.records[both].evidence())) == (4, 3)
    lines = list(written(dataset, both))
    assert [line.split() for line in lines if "*" in line] == [
        ["*", *one[0].split()] for one in (book, person, bust, person)
    ]
    assert [line.split('"')[-2] for line in lines if "evidence:" in line] == [person[0], "1901"] * 2


@pytest.mark.parametrize(("objectives", "cases", "told"), [(1, 1, ["1"]), ("1..3", 6, ["1", "2", "all"]), (3, 6, [])])
def test_a_number_of_questions_without_cases_has_no_row(
    objectives: Any, cases: int, told: list[str], small_hotpotqa: str, tmp_path: Path
) -> None:
    """Any two questions of a type contradict each other here, so no case has three."""
    (title, _), (ada, _) = hotpotqa.book(0), hotpotqa.person(0)
    found = []
    for number in (1, 2, 3):
        other = hotpotqa.person(number)
        book = hotpotqa.paragraph(title, f"{title} is a novel by {other[0]}.")
        born = hotpotqa.paragraph(ada, f"{ada} was born in {1900 + number}.")
        bridge, comparison = hotpotqa.bridge(0)["question"], f"Who was born first, {ada} or {other[0]}?"
        year = str(1901 + 3 * number)
        bridge = bridge.replace(hotpotqa.quiz(0), hotpotqa.quiz(number))
        found.append(hotpotqa.record(f"b{number}", bridge, year, "bridge", (book, other)))
        found.append(hotpotqa.record(f"c{number}", comparison, ada, "comparison", (born, other)))
    small = HotpotQAMulti(
        path=hotpotqa.write(tmp_path, found), train=small_hotpotqa, objectives=objectives, cases=cases
    )
    for table in (shapes(small), asyncio.run(ceilings(small)), easy(small)):
        assert list(table.columns[0].cells) == told


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
