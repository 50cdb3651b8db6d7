"""SLATE's construction on Ray: a model with weights in a replica, and a driver that is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grid.synthesis import slate
from tests.support.clusters import wait_for
from tests.support.extras import needs
from tests.support.in_process import called

pytestmark = needs("torch")

COMMAND = [sys.executable, "-m", "grid.synthesis.slate"]
SECONDS = 600


def lines(out: Path) -> list[dict[str, object]]:
    path = out / "stages/tools.jsonl"
    whole = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in whole]


def test_a_killed_construction_goes_on_with_new_replicas(
    joined: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.support.models import make_model

    # One request at a time, so that a draw does not hang on what else is in the batch.
    model = make_model(tmp_path / "model", context=16384)
    given = ["model=local", f"model.path={model}", "model.serving.max_batch=1", "max_tokens=24", "at_once=1"]
    given += ["domain=public_library", "sizes.tools=15", "repairs=1", *joined]

    capsys.readouterr()  # of making the model
    # Only the one that is killed needs a process of its own.
    ended = called(slate.main, monkeypatch, capsys)

    undisturbed = ended(*given, f"out={tmp_path / 'undisturbed'}")
    assert undisturbed.status == 1, "a model with random weights writes no tools"
    assert undisturbed.err.startswith(
        "stopped: stage tools: none of 60 was kept after 24 answers; these rules refused them: "
    )
    found = lines(tmp_path / "undisturbed")
    assert [line["output_tokens"] for line in found] == [24] * 24
    killed = subprocess.Popen([*COMMAND, *given, f"out={tmp_path / 'killed'}"], stdout=subprocess.DEVNULL)
    wait_for(lambda: len(lines(tmp_path / "killed")) >= 1, SECONDS)
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    before = lines(tmp_path / "killed")
    again = ended(*given, f"out={tmp_path / 'killed'}")
    assert again.err.replace("/killed/", "/undisturbed/") == undisturbed.err
    assert f"{24 - len(before)} new answers, {len(before)} from earlier runs" in again.out
    assert lines(tmp_path / "killed") == found
    once_more = ended(*given, f"out={tmp_path / 'killed'}")
    assert "replicas" not in once_more.out, "nothing is left to ask, so that no model is loaded"
    assert "0 new answers, 24 from earlier runs" in once_more.out
