"""Money and pilots from the command line, against a local server that counts what it is asked."""

from __future__ import annotations

import math
import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from grid import store
from grid.cells.paying import Tab
from tests.support import commands
from tests.support.commands import Ended
from tests.support.http_server import Asked, LocalServer, Reply, completion, models
from tests.support.in_process import launch

pytestmark = pytest.mark.usefixtures("cluster")  # all sweeps run in this process

CALL = '{"action": {"tool": "answer", "arguments": {}}}'
PRICE = "model.price={input: 1000, cached: 100, output: 10000}"
DOLLARS = (800 * 1000 + 200 * 100 + 10 * 10000) / 1_000_000
"""Of one answer."""
CHAT = "/v1/chat/completions"
PLANNERS = ("react", "plan_first", "zero_shot")


def talking(asked: Asked) -> Reply:
    if asked.path == "/v1/models":
        return models("m")
    time.sleep(0.02)
    return completion(CALL, prompt=1000, cached=200, output=10)


def uncounted(asked: Asked) -> Reply:
    reply = talking(asked)
    reply.body.pop("usage", None)
    return reply


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
        spent = f"budget.money={limit:g}: all runs of this name have spent {40 * DOLLARS:g} US dollars"
        left = f"; {DOLLARS / 2:g} are left, but cells like the next one (react) cost {DOLLARS:g} on average"
        assert f"{spent}{left}; to continue, run again with a higher budget.money" in first.out
        assert "cells that have ended: react 40 of 200" in first.out
        assert "160 cells are missing: run again with the same name" in first.out
        rows, attempts = first.rows("x"), first.rows("x", "attempts")
        assert len(rows) == asked(server) == 40, "no cell was begun that there is no money for"
        assert {row["money"] for row in rows} == {DOLLARS}
        assert math.fsum(row["money"] for row in attempts) == pytest.approx(40 * DOLLARS)
        assert not (tmp_path / "results" / "x" / ".money").exists()

        again = sweep(tmp_path, server.url, *values, f"budget.money={limit}")
        assert (again.status, len(again.rows("x"))) == (1, len(rows)), "what earlier runs spent counts"
        assert f"cells like the next one (react) cost {DOLLARS:g} on average, so no cell is started" in again.out
        less = sweep(tmp_path, server.url, *values, f"budget.money={39 * DOLLARS}")
        assert (
            f"is reached: all runs of this name have spent {40 * DOLLARS:g} US dollars, so no cell is started"
            in less.out
        )
        assert (again.err, less.err) == ("", "")
        assert len(server.bodies(CHAT)) == len(rows) + 1, "no model was loaded, and none was asked"

        more = sweep(tmp_path, server.url, *values, f"budget.money={1000 * DOLLARS}")
        assert (more.status, len(more.rows("x"))) == (0, 200)
        assert "to continue" not in more.out
        assert f"budget.money={1000 * DOLLARS:g}: all runs of this name have spent {200 * DOLLARS:g} US" in more.out


def test_all_planners_have_the_same_cases_when_the_money_is_spent(tmp_path: Path) -> None:
    planners = ("planner=react,plan_first,zero_shot", "dataset.limit=12", PRICE)
    with LocalServer(talking) as server:
        ended = sweep(tmp_path, server.url, "-m", *planners, "robustness=none", f"budget.money={60.5 * DOLLARS}")
        assert ended.status == 1, ended.out + ended.err
    cases = {name: {row["case_id"] for row in ended.rows("x") if row["planner"] == name} for name in PLANNERS}
    assert min(map(len, cases.values())) >= max(map(len, cases.values())) - 1 > 1
    (line,) = (line for line in ended.out.splitlines() if line.startswith("cells that have ended: "))
    assert all(f"{name} {len(found)} of 12" in line for name, found in cases.items())
    assert "; to continue, run again with a higher budget.money" in ended.out


def growing(asked: Asked) -> Reply:
    """Each answer costs 1 to 3 of the first's, and none of a cell can be read: five requests a cell."""
    if asked.path == "/v1/models":
        return models("m")
    time.sleep(0.02)
    times = 1 + len(str(asked.body)) % 3
    return completion("hm", prompt=1000 * times, cached=200 * times, output=10 * times)


def bill(server: LocalServer) -> float:
    """By the server's own log, without the request that loading makes."""
    bodies = [body for body in server.bodies(CHAT) if "What time is it in Paris" not in str(body)]
    return DOLLARS * sum(1 + len(str(body)) % 3 for body in bodies)


def test_a_request_beyond_the_limit_is_refused_and_its_cell_is_begun_again(tmp_path: Path) -> None:
    values = (PRICE, "dataset.limit=30", "planner.max_retries=4")
    with LocalServer(growing) as server:
        first = sweep(tmp_path, server.url, *values, f"budget.money={3 * DOLLARS}")
        paid = bill(server)
        assert first.status == 1, first.out + first.err
        assert paid <= 3 * DOLLARS + 3 * DOLLARS, "one request was at the server"
        assert (
            f"budget.money={3 * DOLLARS:g} is reached: no further cells are started, and requests that would exceed it"
            in first.out
        )
        assert (
            "1 cells were started but have no row, because their next request would have exceeded the limit; to"
            in first.out
        )
        assert "30 cells are missing" in first.out
        (attempt,) = first.rows("x", "attempts")
        assert (attempt["cells"], attempt["money"]) == (0, pytest.approx(paid))

        more = sweep(tmp_path, server.url, *values, f"budget.money={1000 * DOLLARS}")
        assert more.status == 0, more.out + more.err
        rows = more.rows("x")
        assert len(rows) == 30
        assert {(row["status"], row["budget_reached"], row["llm_calls"]) for row in rows} == {("ok", None, 5)}
        assert math.fsum(row["money"] for row in more.rows("x", "attempts")) == pytest.approx(bill(server))
        assert math.fsum(row["money"] for row in rows) == pytest.approx(bill(server) - paid)


def test_a_soft_limit_refuses_nothing(tmp_path: Path) -> None:
    values = (PRICE, "dataset.limit=30", "planner.max_retries=4", "budget.hard=false")
    with LocalServer(growing) as server:
        ended = sweep(tmp_path, server.url, *values, f"budget.money={3 * DOLLARS}")
        assert ended.status == 1, ended.out + ended.err
        rows, paid = ended.rows("x"), bill(server)
    assert [row["llm_calls"] for row in rows] == [5]
    assert paid > 3 * DOLLARS
    assert f"have spent {paid:g} US dollars, {paid - 3 * DOLLARS:g} more than the limit" in ended.out


def heard() -> None:
    """A forked process may ignore what a shell had the tests ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.long
@pytest.mark.parametrize(("cells", "number"), [(2, signal.SIGKILL), (12, signal.SIGKILL), (12, signal.SIGINT)])
def test_what_a_killed_sweep_has_spent_counts(
    tmp_path: Path, joined: Sequence[str], cells: int, number: signal.Signals
) -> None:
    """SIGKILL to the driver, or Ctrl-C twice, when half of the money is spent; a request costs up to three dollars."""
    limit = cells * 10 * DOLLARS
    values = (PRICE, "dataset.limit=60", "planner.max_retries=4", f"budget.money={limit}")
    with LocalServer(growing) as server:
        model = ("model=openai_http", "model.model=m", f"model.base_url={server.url}", "model.structured=false")
        grid = ("-m", *model, "dataset=null_cases", "planner=react", "trials=1", "name=x", *values, *joined)
        with commands.started("sweep", tmp_path, *grid, prepare=heard) as (killed, said):
            while bill(server) < limit / 2:
                assert killed.is_alive(), said("out") + said("err")
                time.sleep(0.02)
            os.kill(killed.pid or 0, number)
            while number == signal.SIGINT and killed.is_alive() and "interrupted" not in said("out"):
                time.sleep(0.02)
            if number == signal.SIGINT:
                os.kill(killed.pid or 0, number)
            killed.join()
        settled = 0
        while settled != (settled := len(server.asked)):  # its workers end a little later
            time.sleep(3)
        paid, folder = bill(server), tmp_path / "results" / "x"
        tabs = list((folder / ".money").glob("*"))
        unheard = sum((+Tab.read(path).unheard).total() for path in tabs)
        # on a busy machine workers may end their chunks, with rows, before they learn that the driver is gone
        rows = store.read(folder, "attempts").to_pylist() if (folder / "attempts").exists() else []
        lost = {path.stem.partition("-")[2] for path in tabs} - {row["attempt_id"] for row in rows}
        if number == signal.SIGINT:  # its rows say so as soon as it has ended
            known, unheard = math.fsum(row["money"] for row in rows), 16
            assert not lost
            assert known == pytest.approx(paid, abs=(2 * unheard + 1e-6) * DOLLARS)
        again = sweep(tmp_path, server.url, *values)
        known = math.fsum(row["money"] for row in again.rows("x", "attempts"))
        assert ("a run of this name was killed" in again.out) == bool(lost)
        assert known == pytest.approx(bill(server), abs=(2 * unheard + 1e-6) * DOLLARS)
        assert known <= limit + 3 * DOLLARS * 16
        assert again.status == 1
    assert 0 < paid <= limit


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
    assert "forecast unknown for 1 setting: one cell takes more than 4 calls" in ended.out


def test_without_being_told_so_no_server_is_asked(tmp_path: Path) -> None:
    with LocalServer(talking) as server:
        ended = sweep(tmp_path, server.url, "dry_run=true", "dataset.limit=9")
        assert server.asked == []
    assert ended.status == 0
    assert "so a pilot needs a limit on calls: set dry_run.pilot=N" in ended.out


def test_a_pilot_on_a_server_that_is_not_there(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    ended = sweep(tmp_path, url, "dry_run.pilot=9", "dataset.limit=9", "model.serving.tries=2")
    assert ended.status == 2
    (line,) = ended.err.splitlines()
    assert line.startswith("error: m: no replica is ready")  # the label of a served model is its name
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
    assert "must be null, because the server of openai_http" in line
    assert "does not report tokens (usage)" in line
    assert not (tmp_path / "results" / "x").exists()


def test_a_server_that_tells_no_tokens_is_taken_and_said(tmp_path: Path) -> None:
    with LocalServer(uncounted) as server:
        ended = sweep(tmp_path, server.url, PRICE, "dataset.limit=3")
        told = sweep(tmp_path, server.url, PRICE, "dataset.limit=3", "dry_run.pilot=9", "name=y")
    assert (ended.status, told.status) == (0, 0), ended.err + told.err
    rows = ended.rows("x")
    assert {(row["uncounted_answers"], row["input_tokens"], row["money"]) for row in rows} == {(1, None, None)}
    assert {row["money"] for row in ended.rows("x", "attempts")} == {None}
    assert "for 3 answers the server gave no token counts" in " ".join(ended.out.split())
    assert "tokens unknown for 1 setting, because the server does not report them" in told.out


def test_money_that_is_found_to_be_unknown_later_is_said(tmp_path: Path) -> None:
    def play(asked: Asked) -> Reply:
        return uncounted(asked) if len(server.bodies(CHAT)) == 2 else talking(asked)

    with LocalServer(play) as server:
        ended = sweep(tmp_path, server.url, PRICE, "dataset.limit=4", "budget.money=50")
        again = sweep(tmp_path, server.url, PRICE, "dataset.limit=5", "budget.money=50")
    assert (ended.status, again.status) == (0, 0), ended.err + again.err
    assert sorted((row["money"] or 0.0) for row in ended.rows("x")) == [0.0, *[pytest.approx(DOLLARS)] * 4]
    assert "budget.money is not exact: a server did not report the tokens of some answers" in ended.out
    told = "budget.money does not count 1 cells of earlier runs, because their price or tokens are not known"
    assert told in again.out
