"""Money and pilots from the command line, against a local server that counts what it is asked."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.commands import Ended
from tests.support.http_server import Asked, LocalServer, Reply, completion, models
from tests.support.in_process import launch

CALL = '{"action": {"tool": "answer", "arguments": {}}}'
PRICE = "model.price={input: 1000, cached: 100, output: 10000}"
DOLLARS = (800 * 1000 + 200 * 100 + 10 * 10000) / 1_000_000
"""Of one answer."""
CHAT = "/v1/chat/completions"


def talking(asked: Asked) -> Reply:
    if asked.path == "/v1/models":
        return models("m")
    time.sleep(0.02)
    return completion(CALL, prompt=1000, cached=200, output=10)


def uncounted(asked: Asked) -> Reply:
    reply = talking(asked)
    reply.body.pop("usage", None)
    return reply


@pytest.fixture(autouse=True)
def on_the_cluster(cluster: None) -> None:
    """All sweeps run in this process."""


def sweep(folder: Path, url: str, *values: str) -> Ended:
    model = ("model=openai_http", "model.model=m", f"model.base_url={url}", "model.structured=false")
    return launch("sweep", folder, *model, "dataset=null_cases", "planner=react", "trials=1", "name=x", *values)


def asked(server: LocalServer) -> int:
    """Completions, but for the one that loading asks."""
    return len(server.bodies(CHAT)) - 1


def test_a_limit_on_money_ends_a_sweep_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    values = (PRICE, "dataset.limit=200", "cluster.chunk_cells=10")
    limit = 40.5 * DOLLARS
    with LocalServer(talking) as server:
        first = sweep(tmp_path, server.url, *values, f"budget.money={limit}")
        assert first.status == 1, first.out + first.err
        assert f"budget.money={limit:g} is reached: all runs of this name have spent" in first.out
        assert "cells are missing: run again with the same name" in first.out
        rows, attempts = first.rows("x"), first.rows("x", "attempts")
        assert 40 < len(rows) < 200, "what was in flight has ended, and no more was begun"
        assert {row["money"] for row in rows} == {DOLLARS}
        spent = math.fsum(row["money"] for row in attempts)
        assert spent == pytest.approx(asked(server) * DOLLARS)
        assert spent >= limit

        again = sweep(tmp_path, server.url, *values, f"budget.money={limit}")
        assert (again.status, len(again.rows("x"))) == (1, len(rows)), "what earlier runs spent counts"
        assert "is reached" in again.out
        assert len(server.bodies(CHAT)) == len(rows) + 1, "no model was loaded, and none was asked"

        more = sweep(tmp_path, server.url, *values, f"budget.money={1000 * DOLLARS}")
        assert (more.status, len(more.rows("x"))) == (0, 200)
        assert "is reached" not in more.out
        assert "USD" in more.out


@pytest.mark.parametrize(("limit", "requests"), [(0.5, 1), (1.0, 1), (2.5, 3), (99.0, 5)])
def test_a_cell_whose_money_is_spent_ends_with_its_best_so_far(tmp_path: Path, limit: float, requests: int) -> None:
    """Each request of five costs the same; the limit is looked at before each."""

    def mumbling(asked: Asked) -> Reply:
        return models("m") if asked.path == "/v1/models" else completion("hm", prompt=1000, cached=200, output=10)

    values = (PRICE, "dataset.limit=6", "planner.max_retries=4", f"budget.cell_money={limit * DOLLARS}")
    with LocalServer(mumbling) as server:
        ended = sweep(tmp_path, server.url, *values)
        assert ended.status == 0, ended.out + ended.err
        rows = ended.rows("x")
        reached = None if requests == 5 else "cell_money"
        assert {(row["status"], row["budget_reached"], row["llm_calls"]) for row in rows} == {("ok", reached, requests)}
        assert {round(row["money"] / DOLLARS, 6) for row in rows} == {requests}


@pytest.mark.parametrize("calls", [1, 30])
@pytest.mark.parametrize("dry", [(), ("dry_run=true",)])
def test_a_pilot_asks_no_more_than_it_may_and_keeps_nothing(tmp_path: Path, calls: int, dry: Sequence[str]) -> None:
    with LocalServer(talking) as server:
        ended = sweep(tmp_path, server.url, PRICE, "dataset.limit=200", f"dry_run.pilot={calls}", *dry)
        assert ended.status == 0, ended.err
        assert 0 < asked(server) <= calls
    assert f"the pilot made {asked(server)} calls" in ended.out
    assert re.search(r"in all: 200,000( ± 0)? tokens in, 2,000( ± 0)? out; 184\.00( ± 0\.00)? US dollars", ended.out)
    assert "wall time on this cluster:" in ended.out
    assert list(tmp_path.rglob("*.parquet")) == []
    assert not (tmp_path / "results" / "x").exists()


def test_a_cell_that_takes_more_than_the_cap_is_unknown(tmp_path: Path) -> None:
    with LocalServer(talking) as server:
        values = ("planner=self_consistency", "planner.samples=5", "dataset.limit=9", "dry_run.pilot=4")
        ended = sweep(tmp_path, server.url, *values)
        assert asked(server) <= 4
    assert ended.status == 0, ended.err
    assert "unknown of 1 settings: one cell takes more than 4 calls" in ended.out


def test_without_being_told_so_no_server_is_asked(tmp_path: Path) -> None:
    with LocalServer(talking) as server:
        ended = sweep(tmp_path, server.url, "dry_run=true", "dataset.limit=9")
        assert server.asked == []
    assert ended.status == 0
    assert "unknown of 1 settings: it needs dry_run.pilot=N" in ended.out


def test_a_pilot_on_a_server_that_is_not_there(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    ended = sweep(tmp_path, url, "dry_run.pilot=9", "dataset.limit=9", "model.serving.tries=2")
    assert ended.status == 2
    (line,) = ended.err.splitlines()
    assert line.startswith("error: openai_http")
    assert url in line
    assert list(tmp_path.rglob("*.parquet")) == []


@pytest.mark.parametrize("budget", ["budget.tokens=100000", "budget.money=5", "budget.cell_money=5"])
def test_budgets_that_cannot_hold_are_refused_before_the_first_cell(tmp_path: Path, budget: str) -> None:
    with LocalServer(uncounted) as server:
        ended = sweep(tmp_path, server.url, PRICE, "dataset.limit=3", budget)
        assert asked(server) == 0
    assert ended.status == 2
    (line,) = ended.err.splitlines()
    assert line.startswith(f"error: {budget}")
    assert "null: the server of openai_http" in line
    assert "tells no tokens of its answers (usage)" in line
    assert not (tmp_path / "results" / "x").exists()


def test_a_server_that_tells_no_tokens_is_taken_and_said(tmp_path: Path) -> None:
    with LocalServer(uncounted) as server:
        ended = sweep(tmp_path, server.url, PRICE, "dataset.limit=3")
        told = sweep(tmp_path, server.url, PRICE, "dataset.limit=3", "dry_run.pilot=9", "name=y")
    assert (ended.status, told.status) == (0, 0), ended.err + told.err
    rows = ended.rows("x")
    assert {(row["uncounted_answers"], row["input_tokens"], row["money"]) for row in rows} == {(1, None, None)}
    assert {row["money"] for row in ended.rows("x", "attempts")} == {None}
    assert "of 3 answers the server told no tokens" in " ".join(ended.out.split())
    assert "tokens unknown of 1 settings, as the server tells none" in told.out


def test_money_that_is_found_to_be_unknown_later_is_said(tmp_path: Path) -> None:
    def play(asked: Asked) -> Reply:
        return uncounted(asked) if len(server.bodies(CHAT)) == 2 else talking(asked)

    with LocalServer(play) as server:
        ended = sweep(tmp_path, server.url, PRICE, "dataset.limit=4", "budget.money=50")
        again = sweep(tmp_path, server.url, PRICE, "dataset.limit=5", "budget.money=50")
    assert (ended.status, again.status) == (0, 0), ended.err + again.err
    assert sorted((row["money"] or 0.0) for row in ended.rows("x")) == [0.0, *[pytest.approx(DOLLARS)] * 4]
    assert "budget.money does not hold: a server told no tokens of some answers" in ended.out
    assert "budget.money leaves out 1 cells of earlier runs: their price or tokens are not known" in again.out
