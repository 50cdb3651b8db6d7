"""Two servers in one sweep, as the page on endpoints shows it: each model is asked at its own address."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from grid import store
from tests.support import in_process
from tests.support.documented import ENDPOINTS, Shown, with_endpoints
from tests.support.http_server import Asked, LocalServer, Reply, completion, models

CALL = '{"action": {"tool": "answer", "arguments": {}}}'


def serving(name: str) -> Callable[[Asked], Reply]:
    """A server that knows one model."""

    def play(asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return models(name)
        return completion(CALL) if asked.body["model"] == name else Reply(404, {"error": {"message": "not here"}})

    return play


def test_the_files_and_the_command_of_the_page(tmp_path: Path) -> None:
    small = ("cluster=inline", "dataset=null_cases", "planner=react", "dataset.limit=2", "trials=1")
    with LocalServer(serving("lab-7b")) as small_one, LocalServer(serving("lab-70b")) as large:
        with_endpoints(tmp_path, [small_one.url, large.url])
        words = [one for one in Shown("", ENDPOINTS).words if not one.startswith(("planner=", "dataset.limit="))]
        ended = in_process.launch("main", tmp_path, *words[1:], *small)
    assert ended.status == 0, ended.out + ended.err
    rows = store.read(tmp_path / "results/two", "episodes").to_pylist()
    assert sorted((row["model"], row["status"]) for row in rows) == [("lab-70b", "ok")] * 2 + [("lab-7b", "ok")] * 2
    asked = {json.loads(row["config"])["model"]["model"] for row in rows}
    assert asked == {"lab-7b", "lab-70b"}
