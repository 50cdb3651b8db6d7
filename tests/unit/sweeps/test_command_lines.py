"""No command line ends in a traceback: it runs, or one line says what is wrong, and nothing is written."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.command_lines import REFUSED, ROOT, Outcome, outcomes, random_lines

SEED = 20261122


def check(lines: Sequence[Sequence[str]], folder: Path, refused: int) -> list[Outcome]:
    """What comes of lines of which the first so many are refused."""
    found = outcomes(lines, folder)
    for number, (line, one) in enumerate(zip(lines, found, strict=True)):
        assert_clean(line, one, refused=number < refused)
    assert list(folder.iterdir()) == [], "nothing is written"
    return found


def assert_clean(line: Sequence[str], one: Outcome, *, refused: bool) -> None:
    shown = [part[:100] for part in line]
    assert one["status"] in ((2,) if refused else (0, 2)), (shown, one)
    assert "Traceback" not in one["out"] + one["err"], (shown, one)
    if one["status"] == 2:
        (told,) = one["err"].splitlines() or [""]
        assert told.startswith("error: "), (shown, one)
        assert told.isprintable(), (shown, one)
        assert len(told) < 2_500, (shown, one)
        assert one["out"] == "", (shown, one)


@pytest.mark.long
def test_a_sample_of_hostile_and_of_random_lines(tmp_path: Path) -> None:
    hostile = random.Random(SEED).sample(REFUSED, 12)
    check([*hostile, *random_lines(6, SEED)], tmp_path, len(hostile))


@pytest.mark.slow
def test_all_hostile_lines(tmp_path: Path) -> None:
    check(REFUSED, tmp_path, len(REFUSED))


@pytest.mark.slow
def test_four_hundred_random_lines(tmp_path: Path) -> None:
    found = check(random_lines(400, SEED + 1), tmp_path, 0)
    assert 20 < sum(one["status"] == 0 for one in found) < 380, "both kinds are met"


@pytest.mark.slow
@pytest.mark.parametrize("line", random.Random(SEED).sample([one for one in REFUSED if "\0" not in "".join(one)], 24))
def test_the_script_itself(line: list[str], tmp_path: Path) -> None:
    arguments = [part.encode("utf-8", "surrogateescape") for part in line]
    command: list[str | bytes] = [sys.executable, str(ROOT / "launch/sweep.py"), *arguments]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=300)
    one = Outcome(status=ended.returncode, out=ended.stdout.decode(), err=ended.stderr.decode())
    assert_clean(line, one, refused=True)
    assert list(tmp_path.iterdir()) == []
