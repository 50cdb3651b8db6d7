"""Win rates: what a biased, an honest and a mute evaluator lead to, rules, resuming, and what the report says."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from analysis.report import print_report
from analysis.tables import win_rates
from grid import store
from grid.cells.run import Stamp, run_chunk
from grid.cluster import answering
from grid.core.engine import CHOOSE, SAMPLE, Choice, Home, Prompt, Sampled, VoteAnswer
from grid.core.errors import ConfigError, EngineError
from grid.core.types import Usage, to_json
from grid.episode.judging import Judging
from grid.roles.comparing import JUDGED_RULE, SOLVED_FIRST_RULE, Rule, Shown, Verdict, compare, comparison_id
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from launch.win_rate import pairs, shown
from tests.support.configs import setting_of
from tests.support.http_server import Asked, LocalServer, Reply, completion, models

ROOT = Path(__file__).parents[3]
Pick = Callable[[tuple[str, ...], int], int | None]
"""(candidates, sample) to the place of the best."""


@dataclass(frozen=True)
class Voter:
    """An evaluator of a rule of its own; None is an answer that nobody can read."""

    pick: Pick
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "voter"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        assert isinstance(prompt.answer, VoteAnswer)
        options = next(section.options for section in prompt.sections if section.kind == "candidates")
        best = [self.pick(options, index) for index in range(n)]
        texts = ["both are fine" if place is None else to_json({"best": place}) for place in best]
        return Sampled(tuple(texts), Usage(llm_calls=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        raise AssertionError("votes are sampled")


FIRST = Voter(lambda options, index: 0)
LONGER = Voter(lambda options, index: int(len(options[1]) > len(options[0])))
MUTE = Voter(lambda options, index: None)
lines = st.lists(st.text("ab", max_size=3), max_size=3).map(tuple)


def verdict(own: Shown, other: Shown, engine: Voter = FIRST, rule: Rule = JUDGED_RULE) -> Verdict:
    return asyncio.run(compare("What?", own, other, rule, engine, Judging(max_retries=1), 0))


@given(lines, lines)
def test_who_always_takes_the_first_gives_every_pair_a_tie(own: tuple[str, ...], other: tuple[str, ...]) -> None:
    for rule in (JUDGED_RULE, SOLVED_FIRST_RULE):
        assert verdict(Shown(own), Shown(other), rule=rule).win == 0.5


@given(lines, lines)
def test_what_one_wins_the_other_loses(own: tuple[str, ...], other: tuple[str, ...]) -> None:
    there, back = verdict(Shown(own), Shown(other), LONGER).win, verdict(Shown(other), Shown(own), LONGER).win
    assert there is not None
    assert back is not None
    assert there + back == 1
    if own == other:
        assert there == 0.5


def test_who_says_neither_leaves_the_pair_open() -> None:
    found = verdict(Shown(("a",)), Shown(("b",)), MUTE)
    assert (found.win, found.by, found.first, found.second) == (None, "judge", None, None)
    assert found.usage.llm_calls == 4, "two orders, each tried again once"


@pytest.mark.parametrize(
    ("own", "other", "win", "by"),
    [
        (1.0, 0.5, 1.0, "solved"),
        (0.0, 1.0, 0.0, "solved"),
        (1.0, 1.0, 0.5, "judge"),
        (0.5, 0.0, 0.5, "judge"),
        (None, 1.0, 0.5, "judge"),
    ],
)
def test_a_sole_solved_wins_without_asking(own: float | None, other: float | None, win: float, by: str) -> None:
    one, two = Shown(("a",), own), Shown(("b",), other)
    found = verdict(one, two, rule=SOLVED_FIRST_RULE)
    assert (found.win, found.by, found.usage.llm_calls) == (win, by, 6 if by == "judge" else 0)
    assert verdict(one, two).by == "judge", "not by the other rule"


def test_the_most_frequent_of_three_counts() -> None:
    two_of_three = Voter(lambda options, index: (0 if "b" in options[0] else 1) if index else 0)
    assert verdict(Shown(("a",)), Shown(("b",)), two_of_three, SOLVED_FIRST_RULE).win == 0.0


def test_an_id_is_of_all_that_can_change_a_verdict() -> None:
    model = {"_target_": "x", "form": "text", "serving": {"tries": 3}}
    known = comparison_id(("a", "b"), model, JUDGED_RULE)
    assert known == comparison_id(("a", "b"), model | {"serving": {"tries": 9}}, JUDGED_RULE)
    others = [
        comparison_id(("b", "a"), model, JUDGED_RULE),
        comparison_id(("a", "b"), model | {"form": "digits"}, JUDGED_RULE),
        comparison_id(("a", "b"), model, SOLVED_FIRST_RULE),
    ]
    assert len({known, *others}) == 4


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, small_restbench: str) -> Path:
    """Three planners on a few cases with the lexical engine."""
    root = tmp_path_factory.mktemp("swept")
    for planner in ("zero_shot", "react", "cot"):
        values = {"path": small_restbench, "limit": 8}
        setting = setting_of(model="lexical", planner=planner, dataset="restbench", dataset_values=values)
        built = build(setting, BudgetConfig(llm_calls=100))
        chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
        store.write(root, asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take())
    return root


@pytest.fixture
def results(swept: Path, tmp_path: Path) -> Path:
    for table in ("episodes", "steps"):
        (tmp_path / table).mkdir()
        for path in (swept / table).glob("*.parquet"):
            (tmp_path / table / path.name).symlink_to(path)
    return tmp_path


@pytest.fixture(scope="module")
def program() -> Any:
    """The command; Hydra's plugin lies beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "launch"))
        return import_module("launch.win_rate")


def run(
    program: Any, monkeypatch: pytest.MonkeyPatch, results: Path, *arguments: str, engine: Voter | None = None
) -> int:
    monkeypatch.setattr(sys, "argv", ["win_rate.py", str(results), "model@evaluator=lexical", *arguments])
    if engine:
        monkeypatch.setattr(answering, "build_engine", lambda model: engine)
    return int(program.main())


def rows(results: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.read(results, "comparisons").to_pylist()
    return found


def test_pairs_are_of_the_same_case_and_never_of_the_reference_itself(results: Path) -> None:
    found = pairs(results, "zero_shot")
    assert len(found) == 16
    assert {pair.against["planner"] for pair in found} == {"zero_shot"}
    assert all(pair.own["case_id"] == pair.against["case_id"] for pair in found)
    assert {pair.own["planner"] for pair in found} == {"react", "cot"}
    for pair, own, other in shown(results, found):
        assert len(own.lines) >= 1, pair
        assert own.lines[-1].startswith(("Final answer", "No final answer"))
        assert all('{"tool"' in line or "no tool" in line or "be read" in line for line in other.lines[:-1])
    with pytest.raises(ConfigError, match="against='nobody'"):
        pairs(results, "nobody")


@pytest.mark.long
def test_who_takes_the_first_gives_a_half_and_nothing_is_asked_again(
    program: Any, monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(program, monkeypatch, results, engine=FIRST) == 0
    made = rows(results)
    assert len(made) == 16
    assert {row["win"] for row in made} == {0.5}
    assert run(program, monkeypatch, results, engine=FIRST) == 0
    assert rows(results) == made
    (table,) = win_rates.tables(results)
    assert [row[1] for row in table.rows] == ["zero_shot", "cot", "react"]
    assert [row[6] for row in table.rows] == ["50.0", "50.0", "50.0"]
    assert "; 16 were compared before" in capsys.readouterr().out
    reported = print_report(results, Console(file=io.StringIO()))
    assert any(one.title == table.title for one in reported)
    assert all("simulated tools (restbench): " in one.caption for one in reported)


def test_a_mute_evaluator_is_counted(program: Any, monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    assert run(program, monkeypatch, results, engine=MUTE) == 0
    (table,) = win_rates.tables(results)
    values = table.values.set_index("planner")
    asked = values["asked"].to_dict()
    assert values["unreadable"].to_dict() == asked
    assert asked["react"] > 0


def test_a_server_is_asked_from_this_process(program: Any, monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    def play(asked: Asked) -> Reply:
        return models("m") if asked.path == "/v1/models" else completion('{"best": 0, "explanation": "It is."}')

    with LocalServer(play) as server:
        given = ["model@evaluator=openai_http", f"evaluator.base_url={server.url}", "evaluator.model=m"]
        monkeypatch.setattr(sys, "argv", ["win_rate.py", str(results), *given, "against=react"])
        assert program.main() == 0
    made = rows(results)
    assert {row["against"] for row in made} == {"react"}
    assert {row["win"] for row in made} == {0.5}
    assert sum(row["llm_calls"] for row in made) == 2 * sum(row["decided_by"] == "judge" for row in made) > 0


class Fails(Voter):
    """Stops answering."""

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        raise EngineError("the server is gone")


@pytest.mark.long
def test_an_evaluator_that_is_gone_stops_and_what_was_compared_stays(
    program: Any, monkeypatch: pytest.MonkeyPatch, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(program, monkeypatch, results, engine=Fails(FIRST.pick)) == 1
    before = rows(results)
    assert "stopped: the server is gone" in capsys.readouterr().err
    assert all(row["decided_by"] == "equal" for row in before)
    assert run(program, monkeypatch, results, engine=FIRST) == 0
    assert len(rows(results)) == 16


def test_the_page_s_query_gives_the_same(program: Any, monkeypatch: pytest.MonkeyPatch, results: Path) -> None:
    monkeypatch.chdir(results)
    assert run(program, monkeypatch, results, engine=LONGER) == 0
    (table,) = win_rates.tables(results)
    told: pd.DataFrame = duckdb.connect().execute(table.query).df()
    means = told.groupby("planner")["win"].mean().to_dict()
    assert means == pytest.approx(table.values.set_index("planner")["win_rate"].to_dict())
    config = json.loads(rows(results)[0]["evaluator_config"])
    assert config["form"] == "text"


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.5, 1.0, None])), min_size=1, max_size=30))
def test_a_win_rate_is_the_mean_over_cases(drawn: list[tuple[int, float | None]]) -> None:
    named: dict[str, Any] = dict.fromkeys(("model", "dataset", "robustness", "planner"), "x")
    told: dict[str, Any] = dict.fromkeys(("evaluator", "against", "rule"), "x")
    cells, pairs = [], []
    for place, (case, win) in enumerate(drawn):
        cells.append(named | {"cell_id": str(place), "case_id": str(case), "cluster": str(case % 2)})
        pair = {"cell_id": str(place), "against_cell_id": "0", "decided_by": "judge", "created_at": 1, "win": win}
        pairs += [told | pair, told | pair | {"created_at": 0, "win": 1.0}]  # the earlier one does not count
    made = pa.Table.from_pandas(pd.DataFrame(pairs).astype({"win": "float64"}))
    (row,) = win_rates.win_rates(win_rates.by_case(pd.DataFrame(cells), made).rows).to_dict("records")
    by_case = [[win for other, win in drawn if other == case and win is not None] for case in {c for c, _ in drawn}]
    means = [sum(wins) / len(wins) for wins in by_case if wins]
    assert row["cases"] == len(means)
    assert row["unreadable"] == sum(win is None for _, win in drawn)
    assert pd.isna(row["win_rate"]) if not means else row["win_rate"] == pytest.approx(sum(means) / len(means))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "must be one sweep's folder"),
        (["{}", "{}", "model@evaluator=lexical"], "must be one sweep's folder"),
        (["{}/gone", "model@evaluator=lexical"], "no results here"),
        (["{}"], "model@evaluator=None"),
        (["{}", "model@evaluator=simulated"], "does not see the reference"),
        (["{}", "model@evaluator=lexical", "against=nobody"], "against='nobody'"),
        (["{}", "model@evaluator=lexical", "planner=react"], "only the keys"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(
    program: Any,
    monkeypatch: pytest.MonkeyPatch,
    results: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    why: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["win_rate.py", *(one.replace("{}", str(results)) for one in arguments)])
    assert program.main() == 2
    told = capsys.readouterr().err
    assert why in told
    assert told.count("\n") == 1


def test_the_rule_of_a_dataset_is_among_what_it_provides(small_restbench: str) -> None:
    from grid.core.problem import SOLVED_FIRST
    from grid.datasets.restbench import RestBench
    from grid.roles.comparing import rule_of

    class Solved(RestBench):
        provides = RestBench.provides | {SOLVED_FIRST}

    assert rule_of(RestBench(small_restbench)) == JUDGED_RULE
    assert rule_of(Solved(small_restbench)) == SOLVED_FIRST_RULE
    assert replace(JUDGED_RULE, judgements=2).temperature > 0 == JUDGED_RULE.temperature
