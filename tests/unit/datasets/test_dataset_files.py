"""Reading dataset files that nobody vouches for."""

from __future__ import annotations

from pathlib import Path

import pytest

from grid.core.errors import ConfigError, DataError
from grid.datasets import files
from grid.datasets.files import fingerprint, folder, read_json, read_jsonl


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.jsonl"


def refused(path: Path, line: int, said: str) -> None:
    with pytest.raises(DataError) as caught:
        list(read_jsonl(path))
    assert (caught.value.path, caught.value.line) == (path, line)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert said in str(caught.value)


def test_lines_are_numbered_and_blank_ones_skipped(path: Path) -> None:
    path.write_text('{"a": 1}\n\n  \t\n{"b": "é"}\r\n{"c": []}', encoding="utf-8")
    assert list(read_jsonl(path)) == [(1, {"a": 1}), (4, {"b": "é"}), (5, {"c": []})]


def test_an_empty_file_has_no_lines(path: Path) -> None:
    path.write_bytes(b"")
    assert list(read_jsonl(path)) == []


def test_a_byte_order_mark_does_no_harm(path: Path) -> None:
    path.write_text('{"a": 1}\n', encoding="utf-8-sig")
    assert list(read_jsonl(path)) == [(1, {"a": 1})]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"a": 1', "broken JSON"),
        (b'{"a": 1} {"b": 2}', "broken JSON"),
        (b"{'a': 1}", "broken JSON"),
        (b'{"a": "\xff\xfe"}', "broken JSON"),
        (b"\x00\x00", "broken JSON"),
        (b"[" * 100_000, "broken JSON"),
        (b'{"a":' * 100_000, "broken JSON"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "broken JSON"),
        (b"[1, 2]", "not list"),
        (b"null", "not NoneType"),
        (b'"text"', "not str"),
        (b"7", "not int"),
    ],
)
def test_anything_but_an_object_is_refused_with_its_line(path: Path, line: bytes, said: str) -> None:
    path.write_bytes(b'{"fine": 1}\n\n' + line + b"\n")
    refused(path, 3, said)


def test_what_stands_before_a_broken_line_is_read(path: Path) -> None:
    path.write_text('{"a": 1}\nbroken\n')
    lines = read_jsonl(path)
    assert next(lines) == (1, {"a": 1})
    with pytest.raises(DataError):
        next(lines)


def test_a_line_that_is_too_long_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 20)
    path.write_text('{"a": "0123456789"}\n{"a": "01234567890"}\n')
    assert next(read_jsonl(path)) == (1, {"a": "0123456789"})
    refused(path, 2, "more than 20 bytes")
    path.write_text(" " * 1_000)
    refused(path, 1, "more than 20 bytes")


def test_folder_names_the_key_and_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "full").write_text("x")
    (tmp_path / "empty").write_text("")
    assert folder("dataset.path", str(tmp_path), "full") == tmp_path
    for path, needed, said in [
        (None, ("full",), "give the folder that contains full"),
        (str(tmp_path / "nowhere"), ("full",), "no such folder"),
        (str(tmp_path / "full"), ("full",), "no such folder"),
        (str(tmp_path), ("full", "lost"), "lacks lost"),
        (str(tmp_path), ("full", "empty"), "empty is empty"),
    ]:
        with pytest.raises(ConfigError, match=said) as caught:
            folder("dataset.path", path, *needed)
        assert (caught.value.key, caught.value.value) == ("dataset.path", path)


def test_folder_knows_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    assert folder("dataset.path", "~/data") == tmp_path / "data"


def test_the_fingerprint_follows_content_and_order(tmp_path: Path) -> None:
    one, two, same = (tmp_path / name for name in ("one", "two", "same"))
    one.write_text("ab")
    two.write_text("c")
    same.write_text("ab")
    assert fingerprint(one) == fingerprint(same)
    assert len({fingerprint(one), fingerprint(two), fingerprint(one, two), fingerprint(two, one)}) == 4
    assert len(fingerprint(one)) == 12


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_lacks_are_refused(path: Path, number: str) -> None:
    path.write_text(f'{{"a": {number}}}\n')
    refused(path, 1, "broken JSON")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"tools": [{"name": "\\ud800"}]}', "half a surrogate pair"),
        (b'{"\\udfff": 1}', "half a surrogate pair"),
        (b'{"a": "\xed\xa0\x80"}', "broken JSON"),
        (b'{"a": 1e999}', "not a finite number"),
        (b'{"a": [-1e999]}', "not a finite number"),
        (b'{"a": Infinity}', "no JSON"),
        (b'{"a": ' + b"9" * 400 + b"}", "more than 300 digits"),
    ],
)
def test_what_no_table_can_hold_is_refused_with_its_line(path: Path, line: bytes, said: str) -> None:
    path.write_bytes(b'{"fine": 1}\n' + line + b"\n")
    refused(path, 2, said)


@pytest.mark.parametrize(
    ("text", "name"),
    [('{"a": 1, "b": 2, "a": 3}', "a"), ('{"a": 1, "a": 1}', "a"), ('{"c": [{"é": {}, "é": null}]}', "é")],
)
def test_a_key_that_stands_twice_is_refused_in_a_users_own_file(path: Path, text: str, name: str) -> None:
    """Released files are read as their authors' code reads them: the last one counts."""
    path.write_text(f'{{"a": 1}}\n{text}\n', encoding="utf-8")
    assert [line for line, _ in read_jsonl(path)] == [1, 2]
    with pytest.raises(DataError) as caught:
        list(read_jsonl(path, own=True))
    assert str(caught.value) == f"{path}:2: broken JSON: {name!r} stands twice in an object"
    path.write_text(text, encoding="utf-8")
    read_json(path)
    with pytest.raises(DataError, match="stands twice"):
        read_json(path, own=True)
