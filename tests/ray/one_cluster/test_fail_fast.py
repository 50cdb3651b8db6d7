"""A sweep whose server fails ends early where `fail_fast` says so, and goes on from there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import Ended
from tests.http_server import Asked, LocalServer, Reply, completion, models, refusal
from tests.in_process import launch

CALL = '{"action": {"tool": "answer", "arguments": {}}}'
GOOD = 61  # answers, the one that loading asks included, before the server refuses all


@pytest.fixture(autouse=True)
def on_the_cluster(cluster: None) -> None:
    """All sweeps run in this process."""


def sweep(folder: Path, url: str, *values: str) -> Ended:
    model = ("model=openai_http", "model.model=m", f"model.base_url={url}", "model.structured=false")
    cells = ("dataset=null_cases", "dataset.limit=400", "planner=react", "trials=1", "cluster.chunk_cells=10")
    return launch("sweep", folder, *model, *cells, "name=x", *values)


@pytest.mark.parametrize("limit", ["12", "0.3"])
def test_it_ends_early_and_the_same_command_goes_on(tmp_path: Path, limit: str) -> None:
    answered = 0
    works = False

    def failing(asked: Asked) -> Reply:
        nonlocal answered
        if asked.path == "/v1/models":
            return models("m")
        answered += 1
        return completion(CALL) if works or answered <= GOOD else refusal(400, "no more for you")

    with LocalServer(failing) as server:
        ended = sweep(tmp_path, server.url, f"fail_fast={limit}")
        rows = ended.rows("x")
        failed = sum(row["status"] == "failed" for row in rows)
        assert ended.status == 1, ended.out + ended.err
        assert f"fail_fast={limit} is reached" in ended.out
        assert failed >= (12 if limit == "12" else 0.3 * len(rows))
        assert len(rows) < 400, "what was in flight has ended, and no more was begun"
        assert "no more for you" in ended.out, "what is wrong is said"
        works = True
        again = sweep(tmp_path, server.url, f"fail_fast={limit}", "retry_failed=true")
        assert (again.status, len(again.rows("x"))) == (0, 400), again.out
        assert "is reached" not in again.out
