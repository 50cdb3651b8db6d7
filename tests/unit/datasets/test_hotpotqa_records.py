"""HotpotQA's records in both forms, whatever stands in them, and what becomes of a question: its calls, or a reason."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.errors import ConfigError, DataError
from grid.datasets.hotpotqa import dataset
from grid.datasets.hotpotqa.dataset import file_of, halved, others, read_paragraphs, read_pool
from grid.datasets.hotpotqa.parts import Part, described, objects, part_of, question
from grid.text.answers import normalised
from grid.text.references import PATTERN
from grid.worlds.readers import Paragraph
from tests.support import hotpotqa
from tests.support.hotpotqa import bridge, comparison, of_hub, paragraph, record, records

ODD: list[Any] = [None, 7, True, "", " \n", "x" * 3000, [], {}, ["a"], [["a"]], [["a", 1, 2]], {"title": ["a"]}]


def parts(*found: dict[str, Any]) -> list[Part]:
    return [part_of(question(one)) for one in found]


def test_both_forms_are_the_same_questions() -> None:
    for one in records():
        assert question(one) == question(of_hub(one))


def test_a_list_and_lines_are_read_alike(tmp_path: Path) -> None:
    for name, found in (("a.json", records()), ("b.jsonl", list(map(of_hub, records())))):
        hotpotqa.write(tmp_path, found, name)
    first, second = (read_pool("dataset.path", tmp_path / name) for name in ("a.json", "b.jsonl"))
    assert first == second
    assert len(first.parts) == first.records == len(records())
    titles = [one.title for one in first.paragraphs]
    assert len(first.paragraphs) == len(set(first.paragraphs)) == 24 + 24 + 3 * 24
    assert "Ada Brandt" in titles


@given(st.sampled_from(["question", "answer", "type", "_id", "supporting_facts", "context"]), st.sampled_from(ODD))
def test_whatever_stands_in_a_record_it_is_a_question_or_a_reason(key: str, value: Any) -> None:
    one, why = copy.deepcopy(bridge(3)) | {key: value}, ""
    try:
        found = question(one)
    except ValueError as error:
        why = str(error)
    if not why:
        assert key in ("context", "supporting_facts"), "an empty list is no error: the question has no reference"
        assert found.supporting == []


@pytest.mark.parametrize("value", ODD)
def test_a_record_that_is_no_object_has_a_reason(value: Any) -> None:
    with pytest.raises(ValueError, match=r"object|context"):
        question(value)


def test_titles_and_texts_stand_on_one_line_without_entities() -> None:
    one = bridge(2)
    one["context"][0][0] = "The Ledger\nof 2   Winters"
    one["supporting_facts"][0][0] = "The Ledger of 2 Winters"
    one["context"][-1][1][0] = "Cleo Dunmore (born 1907) &amp; <b>Dora</b>\twrote it — in Gdańsk."
    found = question(one)
    assert found.contexts[0].title == "The Ledger of 2 Winters"
    assert found.contexts[-1].sentences[0] == "Cleo Dunmore (born 1907) & <b>Dora</b> wrote it — in Gdańsk."
    assert [context.title for context in found.supporting] == ["The Ledger of 2 Winters", "Cleo Dunmore"]


def test_so_many_paragraphs_are_no_question(tmp_path: Path) -> None:
    many = bridge(0)
    many["context"] += [paragraph(f"Nothing {number}", "Nothing.") for number in range(10_000)]
    long = bridge(1)
    long["context"][0][1][0] = "x" * 30_000
    found = read_pool("dataset.path", written(tmp_path, many, long, bridge(2)))
    assert [part.id for part in found.parts] == ["b02"]
    reasons = [skip.reason for skip in found.skipped]
    assert "context has 10,005 entries; at most 100 are read" in reasons
    assert any("more than 20,000 characters" in reason for reason in reasons)


def test_a_second_record_of_an_id_or_a_question_is_left_out(tmp_path: Path) -> None:
    found = read_pool("dataset.path", written(tmp_path, bridge(0), bridge(0) | {"question": "Who?"}, bridge(1)))
    assert [part.id for part in found.parts] == ["b00", "b01"]
    assert [skip.reason for skip in found.skipped] == ["an earlier record has this _id"]
    again = read_pool("dataset.path", written(tmp_path, bridge(0), bridge(0) | {"_id": "other"}))
    assert [(skip.record, skip.reason) for skip in again.skipped] == [
        ("record 2, other", "the question is the same as in b00")
    ]


def written(folder: Path, *found: Any) -> Path:
    """A new file of records."""
    name = f"{len(list(folder.iterdir()))}.json"
    return Path(hotpotqa.write(folder, found, name)) / name


def test_a_corpus_without_paragraphs_says_what_is_wanted(tmp_path: Path) -> None:
    bare = [{key: one[key] for key in ("question", "answer", "type")} for one in records()]
    without = [{**one, "context": []} for one in records()]
    for found, why in ((bare, "none of 48 records"), (without, "context"), ([], "none of 0 records")):
        with pytest.raises(ConfigError, match=why) as caught:
            read_pool("dataset.path", written(tmp_path, *found))
        assert caught.value.key == "dataset.path"
        assert "distractor" in caught.value.allowed
    unanswered = [{**one, "supporting_facts": []} for one in records()]
    with pytest.raises(ConfigError, match="0 of the paragraphs have supporting facts"):
        read_pool("dataset.path", written(tmp_path, *unanswered))


def test_an_own_corpus_is_lines_with_title_and_text(tmp_path: Path) -> None:
    lines = [{"title": "A\nb", "text": " t "}, {"title": "A b", "text": "t"}, {"title": "", "text": "t"}, {"title": 1}]
    path = Path(hotpotqa.write(tmp_path, lines, "corpus.jsonl")) / "corpus.jsonl"
    found, skipped = read_paragraphs(path)
    assert found == (Paragraph("A b", "t"),)
    assert [skip.record for skip in skipped] == ["corpus, line 3", "corpus, line 4"]
    hotpotqa.write(tmp_path, [{"text": "t"}], "empty.jsonl")
    with pytest.raises(ConfigError, match="title and text"):
        read_paragraphs(tmp_path / "empty.jsonl")
    (tmp_path / "page.jsonl").write_text("<html>")
    with pytest.raises(DataError, match="page"):
        read_paragraphs(tmp_path / "page.jsonl")


def test_a_file_that_is_no_json_or_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "page.json").write_text("<!doctype html>")
    with pytest.raises(DataError, match="a JSON list is expected"):
        list(objects(tmp_path / "page.json"))
    for path in (None, str(tmp_path), str(tmp_path / "nowhere"), "x" * 5000, "\0"):
        with pytest.raises(ConfigError) as caught:
            file_of("dataset.path", path)
        assert "hotpot_dev_distractor_v1.json" in caught.value.allowed


def test_halves_share_nothing_and_have_as_many_of_each_type() -> None:
    found = parts(*records())
    one, other = halved(found)
    assert [part for part in found if part in one] == one
    assert {part.id for part in one}.isdisjoint(part.id for part in other)
    assert len(one) + len(other) == len(found)
    for kind in ("bridge", "comparison"):
        assert sum(part.kind == kind for part in one) == sum(part.kind == kind for part in other) == 12
    again, _ = halved(list(reversed(found)))
    assert {part.id for part in again} == {part.id for part in one}, "the order in the file makes no difference"
    assert others(found, one) == other
    renamed = [part_of(question(bridge(0) | {"_id": "other"}))]
    assert others(renamed, found) == [], "by the question too"


def test_what_was_kept_of_a_large_file_is_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = written(tmp_path, *records(), {"_id": "x"})
    small = read_pool("dataset.path", path)
    monkeypatch.setattr("grid.datasets.hotpotqa.dataset._LARGE", 1)
    for _ in range(2):
        dataset._read.cache_clear()
        assert read_pool("dataset.path", path) == small
    (kept,) = (tmp_path / "cache").rglob("parts.jsonl")
    kept.write_text("[1]\n")
    dataset._read.cache_clear()
    with pytest.raises(DataError, match="remove the folder"):
        read_pool("dataset.path", path)


def test_a_bridge_is_two_searches_in_a_chain() -> None:
    (part,) = parts(bridge(4))
    first, second = part.steps
    assert first.asked([]) == "Who or what is meant here: the author of the novel The Ledger of 4 Winters?"
    assert second.asked(["7"]) == "In round e of a quiz: in what year was OUTPUT_FROM_STEP_7.result born?"
    assert (first.result, first.title, second.result, second.title) == (
        *("Emil Farrow", "The Ledger of 4 Winters"),
        *("1913", "Emil Farrow"),
    )
    assert list(part.evidence()) == [first.asked([]), "In round e of a quiz: in what year was Emil Farrow born?"]


def test_a_comparison_is_two_searches_and_a_comparison() -> None:
    (part,) = parts(comparison(4))
    one, other, last = (step.asked(["2", "3"]) for step in part.steps)
    alike = "In round e of a quiz: who was born first, the one or the other?"
    assert one == f"What about Emil Farrow decides this: {alike}"
    assert other == f"What about Fay Gantry decides this: {alike}"
    assert last == (
        "Of Emil Farrow this is known: OUTPUT_FROM_STEP_2.result "
        "Of Fay Gantry this is known: OUTPUT_FROM_STEP_3.result "
        "By that: In round e of a quiz: who was born first, Emil Farrow or Fay Gantry?"
    )
    assert part.steps[0].result == "Emil Farrow (born 1913) is a violinist from Tarnfield."
    assert [step.tool for step in part.steps] == ["search", "search", "commonsense"]


ONE_FACT = [["Ada Brandt", 0], ["The Ledger of 0 Winters", 9]]
UNNAMED = (paragraph("It", "A book by somebody."), hotpotqa.person(0))
ALIKE = (paragraph("Una", "a."), paragraph("Una (b)", "b."))
LEFT_OUT: list[tuple[dict[str, Any], str]] = [
    (bridge(0) | {"answer": "1899"}, "neither"),
    (bridge(0) | {"answer": "Ada Brandt"}, "both"),
    (bridge(0) | {"answer": "The"}, "no words except articles"),
    (bridge(0) | {"question": "In what year was Ada Brandt born, the writer?"}, "the question names its pivot"),
    (bridge(0) | {"question": "In what year?"}, "no words of the question"),
    (bridge(0) | {"supporting_facts": [["Ada Brandt", 0]]}, "1 of the paragraphs"),
    (bridge(0) | {"supporting_facts": ONE_FACT}, "1 of the paragraphs"),
    (bridge(0) | {"type": "count"}, "type is 'count'"),
    (record("x", "Who wrote it?", "1901", "bridge", UNNAMED), "does not name the pivot"),
    (comparison(0) | {"question": "Who was born first, Ada Brandt or he?"}, "does not name 'Bela Corvin'"),
    (comparison(0) | {"question": "Ada Brandt, Bela Corvin or OUTPUT_FROM_STEP_1.result?"}, "a reference to a step"),
    (record("x", "Is Una or Una older?", "Una", "comparison", ALIKE), "by the same words"),
]


@pytest.mark.parametrize(("found", "why"), LEFT_OUT, ids=[why for _, why in LEFT_OUT])
def test_what_has_no_reference_has_a_reason(found: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        part_of(question(found))


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_a_span_leaves_something_to_ask(asked: str, first: str, second: str) -> None:
    text = " ".join(asked.split())
    span = described(text, first, second)
    if span is not None:
        start, end = span
        assert 0 <= start < end <= len(text)
        assert (text[:start] + text[end:]).strip()


WORD = st.sampled_from(
    ["the", "who", "what", "of", "is", "Ada", "book", "red", "town", "by", "in", "which", "was", "born"]
)


@given(st.lists(WORD, min_size=1, max_size=12))
def test_the_two_questions_hold_the_question_and_no_answer(words: list[str]) -> None:
    one = bridge(0) | {"question": " ".join(words) + "?"}
    try:
        first, second = part_of(question(one)).steps
    except ValueError:
        return
    told = f"{first.asked([])} {second.asked(['0'])}"
    assert normalised("1901") not in normalised(told)
    assert set(words) <= set(PATTERN.sub(" ", told).replace("?", " ").split())


def test_released_questions_are_parts_or_have_a_reason(released_hotpotqa: str) -> None:
    found = read_pool("dataset.path", file_of("dataset.path", released_hotpotqa))
    assert len(found.parts) + len(found.skipped) == found.records
    assert len(found.parts) > 0.4 * found.records
    for part in found.parts:
        for step in part.steps:
            asked, own = f" {normalised(step.asked(['0', '1']))} ", f" {normalised(part.answer)} "
            assert own not in asked or own in f" {normalised(part.question)} ", "no sub-question tells the answer"
        assert len(part.evidence()) == len(part.steps)
    json.dumps([skip.reason for skip in found.skipped])
