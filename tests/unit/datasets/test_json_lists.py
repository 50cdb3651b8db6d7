"""A JSON list read value by value is the list, and whatever is broken in it is an error with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grid.core.errors import DataError
from grid.datasets import files
from grid.datasets.files import read_json_list

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lists") / "list.json"


def read(file: Path, text: str | bytes, block: int = 5) -> list[Any]:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "_BLOCK", block)
        found = list(read_json_list(file))
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    return [value for _, value in found]


@example([0.0, -1e300, 1.5e-07], 1, True, None)  # a number is cut at each of its characters
@given(st.lists(VALUES, max_size=6), st.integers(1, 40), st.booleans(), st.sampled_from([None, 1]))
def test_it_is_the_list_whatever_the_blocks(
    file: Path, values: list[Any], block: int, ascii_only: bool, indent: int | None
) -> None:
    text = json.dumps(values, ensure_ascii=ascii_only, indent=indent)
    assert read(file, f" {text}\n", block) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a JSON list is expected"),
        ('{"a": 1}', "a JSON list is expected"),
        ("[1, 2", "value 2: the file ends"),
        ("[1 2]", "value 1: a comma is missing"),
        ("[1,]", "value 2: broken JSON"),
        ("[1, {]", "value 2: broken JSON"),
        ('["a', "value 1: broken JSON"),
        ("[1] 2", "more text after the list"),
        ("[NaN]", "value 1: broken JSON"),
        ("[1e999]", "value 1: broken JSON"),
        ('["\\ud800"]', "half a surrogate pair"),
        (b'["\xff"]', "can't decode"),
        (b"[1, 2, \xe2\x82", "can't decode"),
        ("[" * 100_000, "value 1"),
    ],
)
def test_what_is_broken_is_told_with_its_place(file: Path, text: str | bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        read(file, text, 1 << 20)


@pytest.mark.parametrize("block", [1, 5, 101, 1 << 20])
def test_a_value_without_end_is_not_read_on_for_ever(file: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 100)
    assert read(file, json.dumps(["x" * 98, "y"] * 3), block) == ["x" * 98, "y"] * 3
    for length in (99, 300):
        with pytest.raises(DataError, match="value 2: the value has more than 100 characters"):
            read(file, json.dumps(["x", "y" * length, "z"]), block)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        list(read_json_list(tmp_path / "nowhere.json"))
