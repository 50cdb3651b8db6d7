"""The viewer's command, and its pages as files."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from analysis.viewer.exporting import export
from analysis.viewer.runs import Run
from grid.core.errors import ConfigError, StoreError
from launch import view
from tests.support import viewed


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("viewer") / "small"
    viewed.write(found)
    return found


def check_links(folder: Path) -> int:
    """Every link of every page leads to a file of the folder; returns how many there are."""
    count = 0
    for page in folder.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for address in re.findall(r'(?:href|src)="([^"#]+)', text):
            target = (page.parent / address).resolve()
            assert target.is_relative_to(folder.resolve()), (page, address)
            assert target.is_file(), (page, address)
            count += 1
        assert "<form" not in text
    return count


@pytest.mark.long
def test_an_export_links_to_itself_alone(root: Path, tmp_path: Path) -> None:
    said = export([Run(root)], tmp_path / "e", most=1000)
    assert said.startswith("24 of 24 episodes")
    assert len(list((tmp_path / "e/episode").iterdir())) == 24
    assert len(list((tmp_path / "e/tree").iterdir())) == 8
    assert check_links(tmp_path / "e") > 500


@pytest.mark.long
@pytest.mark.parametrize("most", [7, 1])
def test_a_cap_is_told_on_every_page(root: Path, tmp_path: Path, most: int) -> None:
    export([Run(root)], tmp_path / "e", most=most)
    episodes = list((tmp_path / "e/episode").iterdir())
    assert len(episodes) == 6, "whole cases, and at least one"
    said = f"6 of 24 episodes are in this export: for each setting, an equal share of {most}, but at least one case"
    for page in (tmp_path / "e").rglob("*.html"):
        assert said in page.read_text()
    check_links(tmp_path / "e")


@pytest.mark.long
def test_chosen_episodes_come_with_their_case(root: Path, tmp_path: Path) -> None:
    export([Run(root)], tmp_path / "e", most=1, only=["react-2-1"])
    names = {path.stem for path in (tmp_path / "e/episode").iterdir()}
    assert names == {f"1-{planner}-2-{trial}" for planner in viewed.PLANNERS for trial in (0, 1)}
    with pytest.raises(StoreError, match="no such episode in these results"):
        export([Run(root)], tmp_path / "f", most=1, only=["nobody"])


@pytest.mark.long
def test_two_folders_are_exported_side_by_side(tmp_path: Path) -> None:
    for name, count in (("one", 2), ("other", 1)):
        viewed.write(tmp_path / name, count=count)
    export([Run(tmp_path / "one"), Run(tmp_path / "other", "2")], tmp_path / "e", most=1000)
    assert len(list((tmp_path / "e/episode").iterdir())) == 12 + 6
    check_links(tmp_path / "e")


@pytest.mark.long
def test_hostile_ids_name_no_files(tmp_path: Path) -> None:
    viewed.write(tmp_path / "evil", viewed.EVIL + "/../../x", count=1)
    export([Run(tmp_path / "evil")], tmp_path / "e", most=1000)
    assert {path.name for path in tmp_path.iterdir()} == {"evil", "e"}
    check_links(tmp_path / "e")
    assert all(re.fullmatch(r"1-x-[0-9a-f]{32}\.html", path.name) for path in (tmp_path / "e/episode").iterdir())


def test_a_folder_with_files_is_left_alone(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(StoreError, match="new or empty"):
        export([Run(root)], tmp_path, most=1)


@pytest.mark.parametrize(("arguments", "said"), [
    (["--port", "70000"], "--port=70000: a number from 1 to 65535"),
    (["--episodes", "0"], "--episodes=0"),
    (["--cell", "x"], "is allowed only together with --export"),
    (["--host", "no such host"], "--host='no such host': an address of this machine"),
    (["--host", "192.0.2.1"], "an address of this machine"),
])  # fmt: skip
def test_options_without_sense_are_refused(
    arguments: list[str], said: str, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["view", str(root), "--no-browser", *arguments])
    assert view.main() == 2
    assert said in capsys.readouterr().err


def test_a_folder_without_results_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in ([str(tmp_path / "none")], [str(tmp_path / "none"), "--export", str(tmp_path / "e")]):
        monkeypatch.setattr(sys, "argv", ["view", *arguments])
        assert view.main() == 2
        assert "no results here" in capsys.readouterr().err


def test_two_viewers_have_a_port_each(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(view, "PORT", port)
    first, own = view._listener("127.0.0.1", None)
    with first:
        second, other = view._listener("127.0.0.1", None)
        second.close()
        assert own == port
        assert other > own
        with pytest.raises(ConfigError, match="another program uses this one"):
            view._listener("127.0.0.1", own)


@pytest.mark.long
def test_it_says_where_it_is_and_answers_there(root: Path) -> None:
    """The usual port may be taken on the machine that tests run on: two viewers, each where it says."""
    command = [sys.executable, "-u", "-m", "launch.view", str(root), "--no-browser"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        addresses = set()
        for process in started:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            addresses.add(next(line for line in lines if line.startswith("viewer: ")).split()[1])
        assert len(addresses) == 2
        for address in addresses:
            assert b"small" in _page(address)
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _page(address: str) -> bytes:
    until = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310
                content: bytes = answer.read()
                return content
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
