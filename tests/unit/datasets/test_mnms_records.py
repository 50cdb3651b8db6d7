"""m&m's: files, records and plans that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from grid.core.errors import ConfigError, DataError
from grid.datasets.mnms import Mnms, labels_of
from grid.datasets.mnms_records import read_plan
from tests.support import mnms_files
from tests.support.mnms_files import CAPTION, GENERATE, plan, row


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ("[{'id': 0", "not a Python literal"),
        ("__import__('os').getcwd()", "not a Python literal"),
        ("[" * 5_000 + "]" * 5_000, "not a Python literal"),
        ("[" + "1, " * 100_000 + "]", "at most 200,000 characters"),
        (None, "not a text"),
        ([], "1 to 100 calls"),
        (plan(*[(GENERATE, {"text": "a"})] * 101), "1 to 100 calls"),
        ({"nodes": []}, "1 to 100 calls"),
        (["text generation"], "no name or no args"),
        ([{"id": 0, "name": GENERATE}], "no name or no args"),
        ([{"id": 0, "name": GENERATE, "args": None}], "no name or no args"),
        ([{"id": "a", "name": GENERATE, "args": {"text": "a"}}], "no number"),
        ([{"id": True, "name": GENERATE, "args": {"text": "a"}}], "no number"),
        (plan((GENERATE, {"text": "a"}))[:1] * 2, "two nodes 0"),
        (plan(("get today news", {})), "not one of the 33 tools"),
        ("[{'id': 0, 'name': 'text generation', 'args': {'text': b'a'}}]", "is not JSON"),
        ("[{'id': 0, 'name': 'text generation', 'args': {'text': 1e999}}]", "is not JSON"),
        (plan((GENERATE, {"text": "<node-0>.text"})), "does not come earlier"),
        (plan((GENERATE, {"text": "<node-1>.text"}), (GENERATE, {"text": "<node-0>.text"})), "does not come earlier"),
        (plan((GENERATE, {"text": "<node-7>.text"})), "names no call"),
        (plan((GENERATE, {"text": "a"}), (GENERATE, {"text": "<node-0>.image"})), "names no output of text generation"),
        (plan((GENERATE, {"text": "of <node-x>.text"})), "cannot be read"),
        (plan((GENERATE, {"text": "a"}), (GENERATE, {"text": ["<node-0>.text"]})), "cannot be read"),
        (plan((GENERATE, {"text": "OUTPUT_FROM_STEP_0.text"})), "cannot be read"),
        (plan((GENERATE, {"text": "a"}), (CAPTION, {"image": "<node-0>.text"})), "does not run"),
        (plan((GENERATE, {})), "does not run"),
        (plan((GENERATE, {"text": "two\nlines"})), "finds no call"),
    ],
)
def test_bad_plans_are_skipped_with_the_reason(tmp_path: Path, nodes: Any, told: str) -> None:
    bad = row(2, "Write something.", nodes) | {"plan_str": nodes if isinstance(nodes, str | None) else str(nodes)}
    data = Mnms(mnms_files.write(tmp_path, [*mnms_files.rows()[:1], bad]))
    assert data.case_ids() == ["mnms-8"]
    ((skipped),) = data.skipped
    assert skipped.record == "mnms-2"
    assert told in skipped.reason


def test_links_are_numbered_by_place() -> None:
    nodes = [
        {"id": 7, "name": "image_captioning", "args": {"image": "a.jpg"}},
        {"id": "03", "name": GENERATE, "args": {"text": "on <node-7>.text's end"}},
        {"id": 5, "name": GENERATE, "args": {"text": "<node-3>.text"}},
    ]
    found = read_plan(nodes)
    assert [call.arguments for call in found] == [
        {"image": "a.jpg"}, {"text": "on <node-0>.text's end"}, {"text": "<node-1>.text"},
    ]  # fmt: skip
    assert labels_of(found).values[2] == "text_generation--text=output1['text']"


@pytest.mark.parametrize("text", ["[]\n", '{"id": 1, "user_request": "a", "plan": []}\n', '{"id": 1}\n', "{\n"])
def test_files_of_another_version_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "test_human_verified_filtered.json").write_text(text, encoding="utf-8")
    with pytest.raises(DataError):
        Mnms(str(tmp_path)).case_ids()


def test_an_id_that_comes_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="earlier line"):
        Mnms(mnms_files.write(tmp_path, [*mnms_files.rows(), *mnms_files.rows()[:1]])).case_ids()


def test_splits_are_files_of_their_own(tmp_path: Path) -> None:
    mnms_files.write(tmp_path, mnms_files.rows()[:2], split="test_raw")
    assert len(Mnms(str(tmp_path), split="test_raw").case_ids()) == 2
    with pytest.raises(ConfigError, match="test_human_verified_filtered"):
        Mnms(str(tmp_path)).case_ids()
    with pytest.raises(ConfigError, match="alternatives"):
        Mnms(str(tmp_path), mode="step_by_step", alternatives=True)


def test_broken_alternatives_matter_only_where_they_are_asked_for(tmp_path: Path) -> None:
    cyclic = plan((GENERATE, {"text": "<node-0>.text"}))
    lines = [*mnms_files.rows()[:1], row(2, "Write.", plan((GENERATE, {"text": "a"})), [cyclic])]
    folder = mnms_files.write(tmp_path, lines)
    assert len(Mnms(folder).case_ids()) == 2
    assert [one.record for one in Mnms(folder, alternatives=True).skipped] == ["mnms-2"]
