"""Addresses of what is no folder are refused by every command, in one line, before anything is made or begun."""

from __future__ import annotations

import os
import pickle
import socket
from operator import methodcaller
from pathlib import Path

import pytest

from grid import store
from grid.core import places
from grid.core.errors import ConfigError
from grid.core.places import Address, folder_at, unwritable
from grid.store.__main__ import main
from tests.support import in_process
from tests.support.commands import files
from tests.support.extras import needs

ELSEWHERE = "ftp://there/results"
COMMANDS = [
    ["sweep", f"store.root={ELSEWHERE}"],
    ["sweep", f"store.root={ELSEWHERE}", "dry_run=true"],
    ["sweep", f"cases=failed_of:{ELSEWHERE}/default"],
    ["report", f"{ELSEWHERE}/default"],
    ["report", f"{ELSEWHERE}/default", f"{ELSEWHERE}/other"],
    ["view", f"{ELSEWHERE}/default"],
    ["view", f"{ELSEWHERE}/default", "--export", "pages"],
    ["rescore", f"{ELSEWHERE}/default"],
    ["export", "otel", f"{ELSEWHERE}/default"],
    ["export", "inspect", f"{ELSEWHERE}/default"],
    ["threshold", f"{ELSEWHERE}/default"],
    ["power", f"{ELSEWHERE}/default", "--planners", "react,direct", "--difference", "5"],
    ["agreement", f"{ELSEWHERE}/default"],
    ["win_rate", f"{ELSEWHERE}/default", "model@evaluator=simulated"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_address_that_is_not_supported_is_refused_in_one_line(tmp_path: Path, command: list[str]) -> None:
    ended = in_process.launch(command[0], tmp_path, *command[1:])
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert ELSEWHERE in ended.err
    assert "a folder of a file system" in ended.err
    assert files(tmp_path) == {}


@pytest.mark.parametrize("command", [["compact"], ["transcript", "cell"]], ids=" ".join)
def test_the_store_s_own_command_refuses_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    ended = in_process.called(main, monkeypatch, capsys)(command[0], ELSEWHERE, *command[1:])
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert ELSEWHERE in ended.err


def test_what_is_gathered_or_imported_goes_to_no_such_address(tmp_path: Path) -> None:
    store.write(tmp_path / "one", {"episodes": [{"cell_id": "a", "cell_key": "a", "cluster": "a", "status": "ok"}]})
    before = files(tmp_path)
    assert in_process.launch("report", tmp_path, "one", "--into", ELSEWHERE).status == 2
    with pytest.raises(ConfigError, match=ELSEWHERE), store.locked(folder_at(ELSEWHERE)):
        pass
    assert files(tmp_path) == before


def test_an_address_keeps_its_slashes_in_names_parents_and_other_processes() -> None:
    root = folder_at(ELSEWHERE)
    table = root / "default" / "episodes"
    assert str(table) == f"{ELSEWHERE}/default/episodes"
    assert [str(one) for one in (table.parent, table.with_name("steps"), pickle.loads(pickle.dumps(table)))] == [  # noqa: S301
        f"{ELSEWHERE}/default", f"{ELSEWHERE}/default/steps", str(table)
    ]  # fmt: skip
    assert isinstance(table, Address)
    assert folder_at(table) is table


@pytest.mark.parametrize("given", ["results", "/results/s3", "a:b", "b3:/bucket", "./s3://bucket"])
def test_a_folder_stays_what_it_is(given: str) -> None:
    assert folder_at(given) == Path(given)
    assert type(folder_at(given)) is type(Path(given))


def test_an_address_with_one_slash_is_refused(tmp_path: Path) -> None:
    ended = in_process.launch("sweep", tmp_path, "store.root=s3:/bucket/results")
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert "two slashes after the scheme: s3://bucket/results" in ended.err
    assert files(tmp_path) == {}


def test_without_the_library_an_address_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "find_spec", lambda name: None)
    ended = in_process.launch("sweep", tmp_path, "store.root=s3://bucket/results")
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert "store.root='s3://bucket/results': a folder" in ended.err
    assert "pip install 'agent-grid[objects]'" in ended.err
    assert files(tmp_path) == {}


@pytest.mark.parametrize("given", ["az://container/results", "s3://"])
def test_what_names_no_store_is_refused_by_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    for name in os.environ:
        if name.startswith("AZURE_"):
            monkeypatch.delenv(name)
    ended = in_process.launch("sweep", tmp_path, f"store.root={given}")
    assert (ended.status, ended.err.count("\n")) == (2, 1)
    assert f"store.root='{given}': a folder" in ended.err
    assert files(tmp_path) == {}


def test_nothing_is_asked_of_a_refused_address() -> None:
    for ask in map(methodcaller, ("exists", "mkdir", "read_bytes", "stat")):
        with pytest.raises(ConfigError, match="ftp://there"):
            ask(folder_at(ELSEWHERE))


@needs("obstore")
def test_an_object_that_is_gone_is_removed_as_a_file_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In S3, removing it is no error; in other stores it is one, as here."""
    from obstore.store import LocalStore

    monkeypatch.setattr(places, "_store_of", lambda *about: LocalStore(tmp_path))
    address = folder_at("gs://bucket/results/one")
    address.write_text("text")
    address.unlink()
    assert files(tmp_path) == {}
    address.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        address.unlink()


def test_what_cannot_be_written_says_from_where_and_what_helps(tmp_path: Path) -> None:
    error = OSError(5, "403 Forbidden")
    assert "make room, or choose" in unwritable(tmp_path, error)
    told = unwritable(folder_at(ELSEWHERE), error)
    assert f"cannot be written to from {socket.gethostname()} (" in told
    assert "give this machine the store's credentials, or choose" in told
