"""A sweep whose server fails tries again what failed, and ends early where `fail_fast` or `most_unknown` says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from grid.sweeps import session
from tests.support.commands import Ended
from tests.support.http_server import Asked, LocalServer, Reply, completion, models, refusal
from tests.support.in_process import launch

CALL = '{"action": {"tool": "answer", "arguments": {}}}'
GOOD = 61  # answers, the one that loading asks included, before the server refuses all


@pytest.fixture(autouse=True)
def on_the_cluster(cluster: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All sweeps run in this process, and wait for nobody."""
    monkeypatch.setattr(session, "_RETRY_SECONDS", 0.1)


def sweep(folder: Path, url: str, *values: str) -> Ended:
    model = ("model=openai_http", "model.model=m", f"model.base_url={url}", "model.structured=false")
    cells = ("dataset=null_cases", "dataset.limit=400", "trials=1", "planner=react", "cluster.chunk_cells=10")
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


@pytest.mark.parametrize(("retries", "bad", "failed"), [(0, 20, 20), (1, 20, 0), (2, 1000, 30)])
def test_what_failed_is_tried_again_before_the_sweep_ends(tmp_path: Path, retries: int, bad: int, failed: int) -> None:
    """A server that refuses so many requests, after the first ones, and is well again."""
    answered = 0

    def refusing(asked: Asked) -> Reply:
        nonlocal answered
        if asked.path == "/v1/models":
            return models("m")
        answered += 1
        return refusal(400, "not now") if 11 < answered <= 11 + bad else completion(CALL)

    with LocalServer(refusing) as server:
        ended = sweep(tmp_path, server.url, "dataset.limit=40", f"cluster.retries={retries}")
    rows = ended.rows("x")
    assert len(rows) == 40
    assert sum(row["status"] == "failed" for row in rows) == failed
    assert ended.status == (1 if failed else 0), ended.out
    tried = ended.out.count("failed because of the infrastructure: they run again in")
    assert tried == min(retries, 2 if failed else 1)
    assert f"(cluster.retries, {retries} of {retries})" in ended.out or not retries


def test_a_server_that_fails_from_the_first_cell_ends_the_sweep_with_the_reasons(tmp_path: Path) -> None:
    """Five of six answers are refused, for two reasons; whoever wants it all the same has it."""
    answered = 0

    def failing(asked: Asked) -> Reply:
        nonlocal answered
        if asked.path == "/v1/models":
            return models("m")
        answered += 1
        if answered == 1 or answered % 6 == 0:
            return completion(CALL)
        return refusal(400, "no such adapter" if answered % 6 == 1 else "out of cheese")

    with LocalServer(failing) as server:
        ended = sweep(tmp_path, server.url)
        rows = ended.rows("x")
        unknown = sum(row["success"] is None for row in rows)
        assert ended.status == 1, ended.out + ended.err
        assert "most_unknown=0.5 is reached: for " in ended.out
        assert 50 <= len(rows) < 400, "what was in flight has ended, and no more was begun"
        assert unknown >= 0.5 * len(rows)
        common, rare = (sum(word in (row["error_message"] or "") for row in rows) for word in ("cheese", "adapter"))
        assert f"{common:,} cells: infrastructure: " in ended.out
        assert ended.out.index("out of cheese") < ended.out.index("no such adapter"), (
            "the most frequent reason is first"
        )
        assert common + rare == unknown
        answered = 0
        every = sweep(tmp_path, server.url, "most_unknown=null", "cluster.retries=0", "name=y")
    assert (every.status, len(every.rows("y"))) == (1, 400)
    assert "most_unknown" not in every.out


def test_a_sweep_with_a_sound_setting_goes_on_beside_one_whose_requests_all_fail(tmp_path: Path) -> None:
    def failing(asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return models("m")
        of_a_cell = asked.body["temperature"] == 0.25 and "A question." in str(asked.body)  # and not of loading
        return refusal(400, "out of cheese") if of_a_cell else completion(CALL)

    values = ("-m", "planner.temperature=0.25,0.5", "robustness=none", "dataset.limit=60", "cluster.retries=0")
    with LocalServer(failing) as server:
        ended = sweep(tmp_path, server.url, *values)
    rows = ended.rows("x")
    assert (ended.status, len(rows)) == (1, 120), ended.out + ended.err
    assert sum(row["success"] is None for row in rows) == 60
    assert "most_unknown" not in ended.out


def test_a_judge_whose_answers_nobody_can_read_ends_the_sweep_too(tmp_path: Path) -> None:
    def mumbling(asked: Asked) -> Reply:
        if asked.path == "/v1/models":
            return models("m", "j")
        of_the_judge = asked.body["model"] == "j" and "A question." in str(asked.body)
        return completion("hm" if of_the_judge else CALL)

    with LocalServer(mumbling) as server:
        judge = ("model@judge=openai_http", "judge.model=j", f"judge.base_url={server.url}", "judge.structured=false")
        ended = sweep(tmp_path, server.url, "planner=best_first", *judge, "judge.max_retries=0")
    rows = ended.rows("x")
    assert (ended.status, {(row["status"], row["success"]) for row in rows}) == (1, {("ok", None)}), (
        ended.out + ended.err
    )
    assert 50 <= len(rows) < 400
    assert f"{len(rows):,} cells: no answer of the judge or the evaluator could be read" in ended.out
