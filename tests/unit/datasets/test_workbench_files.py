"""WorkBench's files: columns, broken tables, and gold answers that cannot be read."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from grid.core.errors import ConfigError, DataError
from grid.datasets.workbench import ADDRESSES, FILES, QUERIES, TABLES, WorkBench, played
from tests.support import workbench

EVENTS, EMAILS = "data/processed/calendar_events.csv", "data/processed/emails.csv"


@pytest.mark.parametrize("name", [*TABLES, *QUERIES.values()])
def test_a_file_without_a_column(tmp_path: Path, name: str) -> None:
    root = Path(workbench.write(tmp_path))
    rows = read(root / name)
    place = rows[0].index("sent_datetime" if name == EMAILS else "answer" if "queries" in name else rows[0][1])
    lost = rows[0][place]
    save(root / name, [row[:place] + row[place + 1 :] for row in rows])
    data = WorkBench(str(root))
    with pytest.raises(DataError, match=rf"{Path(name).name}:1: the column {lost} is missing"):
        data.problem(data.case_ids()[0])


def test_columns_come_in_any_order(tmp_path: Path) -> None:
    root = Path(workbench.write(tmp_path))
    before = WorkBench(str(root)).version
    rows = read(root / EVENTS)
    save(root / EVENTS, [row[::-1] for row in rows])
    data = WorkBench(str(root))
    assert data.version != before
    for case_id in data.case_ids():
        problem = data.problem(case_id)
        calls = [call for call in problem.reference.calls.values() if call]
        assert problem.world.resolved(played(data.before, calls))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (lambda rows: [*rows, ["00000009", "short"]], r":9: the row has 2 cells, but the table has 5 columns"),
        (lambda rows: [[*rows[0][:4], rows[0][0]], *rows[1:]], r":1: the column duration is missing"),
        (lambda rows: [[*rows[0], rows[0][0]], *rows[1:]], r":1: two columns have the same name"),
        (lambda rows: [*rows, *[rows[1]] * 4000], r"the table has more than 4,000 rows"),
    ],
)
def test_a_broken_table(tmp_path: Path, broken: Callable[[list[list[str]]], list[list[str]]], why: str) -> None:
    root = Path(workbench.write(tmp_path))
    save(root / EVENTS, broken(read(root / EVENTS)))
    with pytest.raises(DataError, match=rf"calendar_events\.csv{why}|calendar_events\.csv:\d+: {why}"):
        _ = WorkBench(str(root)).before


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    root = Path(workbench.write(tmp_path))
    (root / EVENTS).write_bytes(b"event_id,\xff\xfe\n")
    with pytest.raises(DataError, match="the file is not CSV in UTF-8"):
        _ = WorkBench(str(root)).before
    (root / ADDRESSES).unlink()
    with pytest.raises(ConfigError, match=r"lacks data/raw/email_addresses\.csv"):
        WorkBench(str(root)).case_ids()
    assert ADDRESSES in FILES


@pytest.mark.parametrize(
    ("answer", "domains", "why"),
    [
        ("[", "['email']", "the field answer is not a list of texts"),
        ("'x'", "['email']", "the field answer is not a list"),
        ("[1]", "['email']", "the field answer has a value that is not a text"),
        ("[" * 5000, "['email']", "the field answer is not a list of texts"),
        ("['" + "x" * 100_000 + "']", "['email']", "more than 100,000 characters"),
        (str(["__import__('os').system('touch owned')"]), "['email']", "not a call with named arguments"),
        (str(["email.delete_email.func('00000001')"]), "['email']", "not a call with named arguments"),
        (str(["email.delete_email.func(**{'email_id': '1'})"]), "['email']", "an argument that the tool does not have"),
        (str(["email.delete_email.func(email_id=str(1))"]), "['email']", "a value that is not a text"),
        (str(["email.delete_email(email_id='1')"]), "['email']", "a gold call does not call a tool"),
        (str(["os.system.func(command='x')"]), "['email']", "an unknown tool, os.system"),
        (str(["email.delete_email.func(email_id='1'"]), "['email']", "cannot be read"),
        (str(["email.delete_email.func(email_id='1')"] * 65), "['email']", "at most 64 texts"),
        (str(["email.delete_email.func(email_id='" + "1" * 20_000 + "')"]), "['email']", "more than 20,000 characters"),
        ("[]", "['weather']", "unknown domains: weather"),
        ("[]", "[]", "unknown domains: none"),
        ("[]", "email", "the field domains is not a list"),
    ],
)
def test_an_answer_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, domains: str, why: str
) -> None:
    """The record is skipped, with the reason, and nothing of it is run."""
    root = Path(workbench.write(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = root / QUERIES["email"]
    rows = read(path)
    save(path, [rows[0], ["Do it", answer, "t", "t", domains], *rows[1:]])
    data = WorkBench(str(root))
    (skipped,) = data.skipped
    assert skipped.record == "workbench-email-000"
    assert why in skipped.reason
    assert "workbench-email-001" in data.case_ids()
    assert not (tmp_path / "owned").exists()


def read(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def save(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
