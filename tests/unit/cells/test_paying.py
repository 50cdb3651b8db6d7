"""What is written of requests under budget.money, what becomes of a cell that may not ask, and what a kill leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid import store
from grid.cells.paying import FOLDER, Ledger, Line, Paying, Tab, settle
from grid.cells.rows import ChunkResult
from grid.cells.run import Stamp, run_chunk
from grid.core.engine import ACTOR, JUDGE, Role
from grid.core.errors import BudgetError, EngineError, UnfinishedError
from grid.core.types import Usage
from grid.settings.build import Built, build
from grid.settings.check import Job, check_sweep
from grid.settings.plan import Plan
from grid.settings.roles import Price, at_least
from grid.settings.setting import Setting
from tests.support.configs import LABELS, job

LEXICAL = {"_target_": "grid.engines.lexical.engine.Lexical"}
DEAR, CHEAP = {"input": 100, "output": 1000}, {"input": 1, "output": 2}
PRICES: dict[Role, Price | None] = {ACTOR: Price(input=1_000_000, output=0)}
SETTING, TRY = "00ff", "abcd"


class Asked:
    """A till that lets so many requests pass; it hears what they cost."""

    def __init__(self, most: int) -> None:
        self.most, self.waited, self.dollars = most, set[int](), list[float | None]()

    async def may(self, request: int, role: Role, calls: int) -> bool | None:
        if request not in self.waited:
            self.waited.add(request)
            return None
        self.most -= 1
        return self.most >= 0

    def ended(self, request: int, dollars: float | None) -> None:
        self.dollars.append(dollars)


def judged(root: Path, **changes: Any) -> tuple[Plan, Setting, Built]:
    """Six cells whose planner asks the actor and a judge."""
    small = {"samples": 2, "branching": 2, "depth": 1, "expansions": 2}
    values = {"planner": {"_target_": "grid.planners.best_first.BestFirst", **small}, "dataset__limit": 6}
    values |= {"model": LEXICAL | {"price": DEAR}, "judge": LEXICAL | {"no_tool_bonus": 7.0, "price": CHEAP}}
    plan = check_sweep([Job(job(root, **values | changes).config, LABELS | {JUDGE: "judge"})]).plan
    (setting,) = plan.settings
    return plan, setting, build(setting, plan.budget)


def ran(plan: Plan, setting: Setting, built: Built, paying: Paying, at_once: int = 4) -> ChunkResult:
    cells, stamp = list(plan.cells_of(setting)), Stamp("x", None)
    return asyncio.run(run_chunk(built, setting, cells, stamp, attempt_id=TRY, at_once=at_once, paying=paying))


@pytest.mark.long
def test_all_roles_count_in_the_file_as_in_the_rows(tmp_path: Path) -> None:
    plan, setting, built = judged(tmp_path)
    ledger, till = Ledger(tmp_path, setting.id, TRY), Asked(10**6)
    paying = Paying(ledger, built.prices, 5.0, till)
    result = ran(plan, setting, built, paying)
    tab = Tab.read(ledger.path)
    assert result.cells == 6
    assert {role for role, usage in result.spent.items() if usage != Usage()} == {ACTOR, JUDGE} == set(tab.spent)
    assert paying.spent == tab.spent == {role: result.spent[role] for role in tab.spent}
    money = at_least(built.prices, result.spent)
    assert tab.dollars() == pytest.approx(money)
    assert paying.money == pytest.approx(money)
    assert sum(one or 0.0 for one in till.dollars) == pytest.approx(money)
    assert (tab.unreadable, +tab.unheard) == (0, {})
    without = ran(plan, setting, built, Paying(Ledger(tmp_path, setting.id, "b"), {}, 5.0, None))
    kept = ("cell_id", "status", "success", "costs", "money", "n_steps")
    one, other = (
        sorted(([row[name] for name in kept] for row in each.take()["episodes"]), key=itemgetter(0))
        for each in (result, without)
    )
    assert one == other, "a cell that is counted is the cell that is not"


@pytest.mark.parametrize("most", [0, 1, 7, 20])
def test_a_cell_that_may_not_ask_has_no_row_and_what_it_spent_is_known(tmp_path: Path, most: int) -> None:
    plan, setting, built = judged(tmp_path)
    ledger = Ledger(tmp_path, setting.id, TRY)
    till = Asked(most)
    paying = Paying(ledger, built.prices, 5.0, till)
    result = ran(plan, setting, built, paying, at_once=2)
    rows = result.take()["episodes"]
    whole = ran(plan, setting, built, Paying(Ledger(tmp_path, setting.id, "b"), {}, 5.0, None)).take()["episodes"]
    known = {row["cell_id"]: (row["status"], row["costs"]) for row in whole}
    assert all(known[row["cell_id"]] == (row["status"], row["costs"]) for row in rows), "no cell ended early and counts"
    assert 1 <= paying.unpaid <= 2, "those in flight; no further one was begun"
    tab = Tab.read(ledger.path)
    assert sum(dollars is not None for dollars in till.dollars) == most, "none was sent beyond"
    assert at_least(built.prices, tab.spent) == pytest.approx(paying.money)
    assert paying.money >= sum(row["money"] for row in rows)


@pytest.mark.parametrize(
    ("error", "unheard"), [(EngineError("500"), 0), (UnfinishedError("gone"), 1), (asyncio.CancelledError(), 1)]
)
def test_a_request_without_an_answer(tmp_path: Path, error: BaseException, unheard: int) -> None:
    """One that the server refused costs nothing; of one whose replica is gone, or that was given up, nobody knows."""

    async def request() -> Any:
        raise error

    ledger, till = Ledger(tmp_path, SETTING, TRY), Asked(1)
    paying = Paying(ledger, PRICES, 1.0, till)

    async def asked() -> None:
        with pytest.raises(type(error)):
            await paying.asked(ACTOR, 1, request)

    asyncio.run(asked())
    assert till.dollars == [None], "what waits for it may go on"
    tab = Tab.read(ledger.path)
    assert (tab.unheard[ACTOR], tab.answers.total()) == (unheard, 0)


def test_once_a_request_is_refused_none_of_the_cell_is_sent(tmp_path: Path) -> None:
    till = Asked(0)
    _, paid = Paying(Ledger(tmp_path, SETTING, TRY), PRICES, 2.5, till).cell(judged(tmp_path)[2])

    async def asked() -> None:
        for _ in range(2):
            with pytest.raises(BudgetError, match=r"budget\.money=2\.5"):
                await paid.asked(ACTOR, 1, pytest.fail)
            till.most = 5  # another's has come in cheaper

    asyncio.run(asked())


# What a kill leaves.


def written(root: Path, dollars: Iterator[float] | list[float], unheard: int = 0, attempt: str = TRY) -> Path:
    """The file of a try whose answers cost so much."""
    ledger = Ledger(root, SETTING, attempt)
    for money in dollars:
        ledger.write("asked", ACTOR)
        ledger.write("answered", ACTOR, money=money, usage={"llm_calls": 1, "input_tokens": 10})
    for _ in range(unheard):
        ledger.write("asked", ACTOR)
    return ledger.path


def attempts(root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.read(root, "attempts").to_pylist()
    return found


def test_what_was_spent_becomes_a_row_once(tmp_path: Path) -> None:
    path = written(tmp_path, [1.0, 2.0], unheard=2)
    kept = path.read_bytes()
    lines = settle(tmp_path)
    (row,) = attempts(tmp_path)
    assert (row["attempt_id"], row["setting_id"], row["status"], row["cells"]) == (TRY, SETTING, "died", 0)
    assert (row["money"], row["llm_calls"], row["input_tokens"]) == (3.0 + 2 * 1.5, 2, 20)
    assert "had spent 6 US dollars" in lines[0]
    assert "2 calls were in flight at that time" in lines[0]
    assert not (tmp_path / FOLDER).exists()
    path.parent.mkdir()
    path.write_bytes(kept)  # killed between the two
    assert settle(tmp_path) == []
    assert len(attempts(tmp_path)) == 1
    assert not path.exists()
    assert settle(tmp_path) == []


def test_requests_that_no_other_of_their_try_tells_of_cost_what_those_of_other_tries_did(tmp_path: Path) -> None:
    written(tmp_path, [4.0], attempt="a")
    written(tmp_path, [], unheard=3, attempt="b")
    settle(tmp_path)
    assert {row["attempt_id"]: row["money"] for row in attempts(tmp_path)} == {"a": 4.0, "b": 12.0}


def test_without_any_they_cost_what_calls_of_the_setting_did_by_its_rows(tmp_path: Path) -> None:
    written(tmp_path, [4.0, 2.0], attempt="a")
    settle(tmp_path)
    Ledger(tmp_path, SETTING, "b").write("asked", JUDGE, calls=5)
    settle(tmp_path)
    assert {row["attempt_id"]: row["money"] for row in attempts(tmp_path)} == {"a": 6.0, "b": 15.0}


def test_where_nobody_knows_it_is_said(tmp_path: Path) -> None:
    written(tmp_path, [], unheard=3)
    (line,) = settle(tmp_path)
    assert "except 3 calls whose cost cannot be estimated" in line
    assert [row["money"] for row in attempts(tmp_path)] == [0.0]


@given(share=st.floats(0, 1))
def test_a_file_that_is_cut_anywhere_tells_all_lines_that_are_whole(
    tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    path = written(tmp_path_factory.mktemp("cut"), [float(2**power) for power in range(6)])
    whole = path.read_bytes()
    cut = whole[: round(share * len(whole))]
    path.write_bytes(cut)
    Ledger(path.parents[1], SETTING, TRY).write("answered", ACTOR, money=1000.0)
    ended = len([line for line in cut.splitlines() if b"answered" in line and line in whole.splitlines()])
    tab = Tab.read(path)
    assert sum(tab.money.values()) == 1000.0 + sum(2**power for power in range(ended)), "what came later counts too"
    assert tab.unreadable <= 1


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\xff\xfe", b"{", b"[]", b"7", b"null", b'"asked"', b'{"event": "asked"}',
        b'{"event": "paid", "role": "actor", "seconds": 1}',
        b'{"event": "answered", "role": "actor", "seconds": 1, "money": -1}',
        b'{"event": "answered", "role": "actor", "seconds": 1, "money": NaN}',
        b'{"event": "answered", "role": "actor", "seconds": 1, "money": "1"}',
        b'{"event": "answered", "role": "nobody", "seconds": 1, "money": 1}',
        b'{"event": "answered", "role": "actor", "seconds": 1, "money": 1, "usage": {"tokens": 1}}',
        b'{"event": "answered", "role": "actor", "seconds": 1, "money": 1, "usage": {"llm_calls": 1.5}}',
        b"[" * 100_000,
    ],
)  # fmt: skip
def test_a_damaged_line_is_left_out_and_told(tmp_path: Path, line: bytes) -> None:
    path = written(tmp_path, [1.0, 2.0])
    path.write_bytes(line + b"\n" + path.read_bytes() + b"\n" + line)
    lines = settle(tmp_path)
    assert [row["money"] for row in attempts(tmp_path)] == [3.0]
    assert lines[-1] == f"2 lines of the record of spent money ({FOLDER}) are damaged and not counted"


def test_a_file_of_which_nothing_can_be_read_stops_no_run(tmp_path: Path) -> None:
    path = written(tmp_path, [])
    path.write_bytes(b"\x00" * 4096)
    (line,) = settle(tmp_path)
    assert "1 lines" in line
    assert attempts(tmp_path) == []


def test_a_line_is_as_short_as_it_can_be() -> None:
    assert Line(event="asked", role="actor", seconds=1.5).model_dump_json(exclude_defaults=True) == (
        '{"event":"asked","role":"actor","seconds":1.5}'
    )
