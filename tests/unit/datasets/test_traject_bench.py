"""TRAJECT-Bench as cases (traject_bench §3), on small files in the released format and on the release itself."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.cells.run import Stamp, run_chunk
from grid.core.engine import Prompt
from grid.core.errors import ConfigError, DataError
from grid.core.types import Chain, Json, Observation, Step, Substep, ToolCall, ToolSpec, Trajectory
from grid.datasets.traject_bench.dataset import DESCRIBED, MATCHES, OUTPUT, TrajectBench, examined, outcome, read
from grid.datasets.traject_bench.records import Kind
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.roles import with_roles
from grid.settings.setting import cells
from tests.support.configs import setting_of, yaml
from tests.support.traject_files import GAMING, TRAVEL, chain, query, step, tool, write, write_files
from tests.support.walks import Walk, at_once

FAILED: dict[str, Any] = {"execution_status": "failed", "executed_output": "ERROR: Failed after 5 attempts"}
Make = Callable[..., TrajectBench]
REVIEWS = tool("Hotels: Reviews", ["hotel_id", "language"])


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A folder of one domain, Travel, with these queries of a kind."""

    def build(*rows: Any, kind: Kind = "parallel", tools: Any = (*TRAVEL, REVIEWS), **keys: Any) -> TrajectBench:
        write(tmp_path / "tools" / "Travel_tool.json", list(tools) if isinstance(tools, tuple) else tools)
        name = "simple_ver.json" if kind == "parallel" else "traj_query.json"
        write(tmp_path / kind / "Travel" / name, list(rows))
        return TrajectBench(str(tmp_path), kind=kind, **keys)

    return build


def only(dataset: TrajectBench) -> Walk:
    """The world of the only case."""
    (case_id,) = dataset.case_ids()
    return Walk(dataset.problem(case_id).world)


def said(found: Observation) -> Json:
    return found.content.get("error")


def test_ids_clusters_domains_and_what_a_case_holds(small_traject_bench: str) -> None:
    simple, hard = (TrajectBench(small_traject_bench, level=level) for level in ("simple", "hard"))
    assert sorted(simple.case_ids())[-1] == "traject-parallel-simple-travel-005"
    assert len(simple.case_ids()) == len(hard.case_ids()) == 12
    assert {simple.cluster(one) for one in simple.case_ids()} == {hard.cluster(one) for one in hard.case_ids()}
    problem = hard.problem("traject-parallel-hard-travel-002")
    assert problem.case.query == "I wonder what can be said of hotels and weather of Lima."
    assert (problem.domain, problem.reference.ordered, problem.reference.followed) == ("Travel", False, False)
    assert problem.own == ("Hotels: Search", "Weather: Today", "Stations: Search (by name)")
    assert problem.reference.answer == "# Answer\nI wonder what can be said of hotels and weather of Lima."
    assert [dict(call.arguments) for call in problem.reference.calls.values() if call][:2] == [
        {"city": "Lima", "stars": 4},  # an empty parameter is none
        {"city": "Lima"},
    ]
    assert not simple.skipped
    chained = TrajectBench(small_traject_bench, kind="sequential")
    assert len({chained.cluster(one) for one in chained.case_ids()}) == 2, "queries of one chain of tools"
    assert chained.problem("traject-sequential-gaming-000").reference.ordered


def test_a_tool_of_several_domains_is_of_the_case_s_own(small_traject_bench: str) -> None:
    dataset = TrajectBench(small_traject_bench)
    for domain in ("Travel", "Gaming"):
        library = dataset.problem(f"traject-parallel-simple-{domain.lower()}-000").library
        assert library["Weather: Today"].category == domain
        assert library["Dice: Roll"].category == "Gaming"
        assert library.keys() == dataset.tools.keys()
    alone = TrajectBench(small_traject_bench, domain="Travel")
    assert alone.tools["Weather: Today"].category == "Travel"
    assert {alone.problem(case_id).domain for case_id in alone.case_ids()} == {"Travel"}


def test_a_domain_that_is_left_out_keeps_its_tools(small_traject_bench: str) -> None:
    whole, without = TrajectBench(small_traject_bench), TrajectBench(small_traject_bench, without=["Gaming"])
    assert {without.problem(case_id).domain for case_id in without.case_ids()} == {"Travel"}
    assert {*without.case_ids()} == {one for one in whole.case_ids() if whole.problem(one).domain == "Travel"}
    assert without.tools == whole.tools
    assert without.version != whole.version


def test_what_leaves_nothing_or_is_no_domain_is_refused(small_traject_bench: str) -> None:
    for keys in (
        {"without": ["Finance"]},
        {"without": ["Gaming", "Travel"]},
        {"without": ["Gaming"], "domain": "Gaming"},
    ):
        with pytest.raises(ConfigError):
            TrajectBench(small_traject_bench, **keys).case_ids()


def test_a_tool_shows_its_defaults_and_types(make: Make) -> None:
    kinds = {"n": "NUMBER", "d": "DATE (YYYY-MM-DD)", "b": "BOOLEAN", "e": "ENUM", "s": "string", "x": "WHATEVER"}
    odd = tool("A: B", list(kinds))
    for one in odd["required_parameters"]:
        one["type"] = kinds[one["name"]]
    odd["required_parameters"][0] |= {"default": 3, "description": ""}
    odd["required_parameters"][1]["default"] = ""
    odd["optional_parameters"] = [{"name": " o ", "type": "NUMBER", "description": "more", "default": False}]
    found = make(query("Q", step("A: B", {"n": 1})), tools=(odd,)).tools["A: B"]
    assert [one.type for one in found.parameters] == [
        "number",
        "date",
        "boolean",
        "string",
        "string",
        "string",
        "number",
    ]
    assert [one.description for one in found.parameters][:3] == ["default: 3", "the d", "the b (default: x)"]
    assert (found.parameters[-1].name, found.parameters[-1].description) == ("o", "more (default: False)")
    assert [one.required for one in found.parameters] == [True] * 6 + [False]


def test_a_tool_that_no_file_defines_is_made_of_the_records(small_traject_bench: str) -> None:
    dataset = TrajectBench(small_traject_bench, kind="sequential")
    found = dataset.problem("traject-sequential-gaming-000").library["Chess Puzzles"]
    assert (found.description, found.category) == ("Tells about Chess Puzzles.", "Gaming")
    assert [(one.name, one.type, one.required) for one in found.parameters] == [("themes", "string", False)]
    (note,) = dataset.skipped
    assert note.record == "tool Chess Puzzles (4 queries)"


@pytest.mark.parametrize(("value", "kind"), [(True, "boolean"), (2.5, "number"), ({"a": 1}, "object"), ("x", "string")])
def test_such_a_tool_s_parameters_are_typed_by_their_values(make: Make, value: Json, kind: str) -> None:
    dataset = make(query("Q", step("New: One", {"p": value})), query("R", step("New: One", {"p": value}, {"q": 1})))
    assert [(one.name, one.type, one.required) for one in dataset.tools["New: One"].parameters] == [
        ("p", kind, True),
        ("q", "number", False),
    ]


def test_names_are_matched_whatever_their_blanks_and_letters(make: Make) -> None:
    walk = only(make(query("Q", step("weather:   today", {"city": "Rome"}))))
    assert not walk.call("Weather: Today", city="Rome").failed
    assert walk.resolved


def test_a_recorded_call_returns_what_was_recorded_and_any_other_an_error(make: Make) -> None:
    dataset = make(
        query(
            "Q",
            step("Hotels: Search", {"city": "Rome"}, {"stars": "4"}, executed_output="{'n': 2, 'ok': True}"),
            step("Weather: Today", {"city": "Rome"}, executed_output="sunny"),
        )
    )
    walk = only(dataset)
    assert said(walk.call("Nothing: Such", city="Rome")) == "unknown_tool"
    missing = walk.call("Hotels: Search", stars=4)
    assert (said(missing), missing.failed) == ("missing_parameter", True)
    assert missing.content["message"] == "Hotels: Search requires city"
    assert said(walk.call("Hotels: Search", city="Rome", cat="x")) == "unknown_parameter"
    wrong = walk.call("Hotels: Search", city="Oslo", stars=4)
    assert said(wrong) == "no_result"
    assert "Rome" not in wrong.text()
    assert walk.call("Hotels: Search", city=" rome", stars=4).content == {"n": 2, "ok": True}
    assert not walk.resolved
    assert walk.call("Weather: Today", city="Rome").content == {OUTPUT: "sunny"}
    assert walk.resolved


def test_what_nobody_could_know_is_not_compared(make: Make) -> None:
    undeclared = step("Money: Rates", {}, {"base": "EUR"})
    lacking = step("Hotels: Reviews", {"hotel_id": "12", "language": ""})
    walk = only(make(query("Q", undeclared, lacking)))
    assert not walk.call("Money: Rates").failed
    assert not walk.call("Hotels: Reviews", hotel_id=12, language="en").failed
    assert walk.resolved
    steps = (
        step("Hotels: Reviews", {"hotel_id": "12"}, **FAILED),
        step("Hotels: Reviews", {"hotel_id": 12, "language": "en"}),
    )
    walk = only(make(chain("n", "Q", *steps), kind="sequential"))
    assert not walk.call("Hotels: Reviews", hotel_id=12, language="en").failed, "of two steps the nearer one"


def test_a_step_that_failed_returns_its_failure_and_there_is_no_answer(make: Make) -> None:
    rows = [
        chain("n", "Q", step("Weather: Today", {"city": "Rome"}), step("Money: Rates", **FAILED), step("Money: Rates")),
        chain("n", "R", step("Money: Rates")),
    ]
    dataset = make(*rows, kind="sequential")
    one, other = (dataset.problem(f"traject-sequential-travel-00{place}") for place in (0, 1))
    assert (one.reference.answer, other.reference.answer) == (None, "Found: R")
    assert (sorted(one.reference.failing), sorted(other.reference.failing)) == (["2", "3"], [])  # equal calls are one
    walk = Walk(one.world)
    walk.state, found = at_once(walk.world.apply(walk.state, ToolCall("Money: Rates", {})))
    assert (found.failed, found.content) == (True, {OUTPUT: FAILED["executed_output"]})
    assert not walk.resolved
    walk.call("Weather: Today", city="Rome")
    assert walk.resolved


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{'a': (1, None), 2: {'b': True}}", {"a": [1, None], "2": {"b": True}}),
        ('{"a": [true, null]}', {"a": [True, None]}),
        ("[1.5, 'x']", [1.5, "x"]),
        ("{'a': [1, 2", "{'a': [1, 2"),
        ("__import__('os').system('true')", "__import__('os').system('true')"),
        ("{'a': {1, 2}}", "{'a': {1, 2}}"),
        ("[1e999]", "[1e999]"),
        (f"[{'9' * 400}]", f"[{'9' * 400}]"),
        ("'\\ud800'", "'\\ud800'"),
        ("<!DOCTYPE html>", "<!DOCTYPE html>"),
        ("[" * 5000, "[" * 5000),
        ("[" * 60 + "]" * 60, json.loads("[" * 60 + "]" * 60)),
        ("", ""),
    ],
)
def test_outputs_are_read_as_literals_and_never_run(text: str, value: Json) -> None:
    assert read(text) == value
    found = outcome(text)
    assert found.content == (value if isinstance(value, dict) else {OUTPUT: value})
    assert not found.failed


@given(st.text(max_size=60))
def test_any_text_is_an_output(text: str) -> None:
    json.dumps(dict(outcome(text).content), allow_nan=False)


def test_an_output_that_says_error_is_a_failure() -> None:
    assert outcome(" ERROR: HTTP 500 - Internal Server Error").failed
    assert not outcome("{'error': 'no such city'}").failed


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"required parameters": "city"}, "a step's parameters are not a list"),
        ({"optional parameters": [{"value": 1}]}, "a step's parameter has no name"),
        (
            {"optional_parameters": [{"name": "p", "value": 1}, {"name": "p ", "value": 2}]},
            "a step gives a parameter twice",
        ),
    ],
)
def test_records_that_cannot_be_cases_are_skipped(make: Make, broken: dict[str, Any], why: str) -> None:
    good = query("Q", step("Money: Rates"))
    dataset = make(query("R", step("Money: Rates") | broken), good, query(" ", step("Money: Rates")), query("S"))
    assert list(dataset.case_ids()) == ["traject-parallel-simple-travel-001"]
    assert [skip.reason for skip in dataset.skipped] == [why, "the query is empty", "the query calls no tool"]
    with pytest.raises(ConfigError, match="no usable query"):
        make(query("S")).case_ids()


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"query": "Q", "tools": []}, r"record 1 \(from 0\): the record must have a query \(text\) and a tool list"),
        ({"query": 3, "tool list": []}, "a query"),
        ({"query": "Q", "tool list": [{"name": "x"}]}, "every tool must have a tool name"),
        ({"query": "Q", "tool list": ["x"]}, "must be an object, not str"),
        ("text", "an object is expected, not str"),
    ],
)
def test_files_of_another_form_are_named(make: Make, row: Any, why: str) -> None:
    with pytest.raises(DataError, match=why) as caught:
        make(query("Q", step("Money: Rates")), row).case_ids()
    assert "simple_ver.json" in str(caught.value)


@pytest.mark.parametrize(
    ("tools", "why"),
    [
        ([], "no tool"),
        ({"tools": []}, "a list of records is expected, not dict"),
        ([{"name": "x"}], "tool name"),
        ([{"tool name": "x", "required_parameters": {"city": "string"}}], "must be a list of objects with a name"),
        ([{"tool name": "x", "optional parameters": [{"type": "NUMBER"}]}], "must be a list of objects with a name"),
    ],
)
def test_tool_files_of_another_form_are_named(make: Make, tools: Any, why: str) -> None:
    with pytest.raises(DataError, match=why) as caught:
        make(query("Q", step("Money: Rates")), tools=tools).case_ids()
    assert "Travel_tool.json" in str(caught.value)


def test_keys_that_do_not_go_together_or_name_nothing(tmp_path: Path) -> None:
    write_files(tmp_path)
    with pytest.raises(ConfigError, match=r"dataset\.level.*sequential"):
        TrajectBench(str(tmp_path), kind="sequential", level="hard")
    for domain in ("Music", "../parallel/Travel", "travel", ""):
        with pytest.raises(ConfigError, match="Gaming, Travel") as caught:
            TrajectBench(str(tmp_path), domain=domain).case_ids()
        assert caught.value.key == "dataset.domain"
    (tmp_path / "tools" / "Travel_tool.json").unlink()
    with pytest.raises(ConfigError, match=r"Travel_tool\.json"):
        TrajectBench(str(tmp_path)).case_ids()
    with pytest.raises(ConfigError, match=r"simple_ver\.json"):
        TrajectBench(str(tmp_path / "parallel")).case_ids()


def test_the_version_follows_the_files(make: Make) -> None:
    one = make(query("Q", step("Money: Rates"))).version
    assert one == make(query("Q", step("Money: Rates"))).version
    assert one != make(query("Q", step("Weather: Today"))).version
    assert one != make(query("Q", step("Money: Rates")), tools=(*TRAVEL, *GAMING)).version


ROME, OSLO = step("Hotels: Search", {"city": "Rome"}), step("Hotels: Search", {"city": "Oslo"})
ODD = (
    chain("a", "Q1", step("Weather: Today", {"city": "Rome"}), step("Money: Rates", **FAILED), ROME),
    chain("b", "Q2", OSLO, OSLO),
    chain("c", "Q3", step("Money: Rates", **FAILED)),
)


@pytest.mark.parametrize("planner", ["react", "zero_shot", "fh", "self_consistency_plan", "tooltree", "mcts"])
def test_a_perfect_policy_and_judge_get_past_recorded_failures(make: Make, planner: str) -> None:
    path = make(*ODD, kind="sequential").path
    perfect = {"tool_skill": 1.0, "argument_skill": 1.0, "malformed": 0.0, "judge_auc": 1.0, "foresight": 0.0}
    setting = setting_of(
        dataset="traject_bench",
        planner=planner,
        model="simulated",
        dataset_values={"path": path, "kind": "sequential"},
        model_values=perfect,
    )
    built = build(setting, BudgetConfig())
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    assert [row["success"] for row in rows] == [True] * 3, [row["error_message"] for row in rows]
    assert {row["usage"] for row in rows} == {1.0}


@dataclass
class Evaluating:
    """Answers what it is told, and keeps what it was asked."""

    scores: float | None = 0.5
    place: int | None = 0
    asked: list[str] = field(default_factory=list)

    async def verdict(self, prompt: Prompt, *key: object, truth: object = None) -> None:
        raise AssertionError("no plan is judged here")

    async def score(self, prompt: Prompt, *key: object) -> float | None:
        self.asked.append(prompt.text())
        return self.scores

    async def vote(
        self, prompt: Prompt, candidates: Sequence[str], *key: object, temperature: float = 0.0
    ) -> int | None:
        assert candidates == MATCHES
        self.asked.append(prompt.text())
        return self.place


def trajectory(answer: str | None, *names: str, finished: bool = True) -> Trajectory:
    made = [Step(0, Substep(str(i), "", ""), ToolCall(n, {"secret": "value"}), None) for i, n in enumerate(names)]
    end = [Step(0, Substep("9", "", ""), None, None, finished=True)] if finished else []
    return Trajectory((*made, *end), (), answer=answer)


def examine(asking: Evaluating, found: Trajectory, right: str | None = "42") -> Mapping[str, Any]:
    long = ToolSpec("Hotels: Search", "d" * (DESCRIBED + 1), ())
    return asyncio.run(examined("How many?", right, {long.name: long}, found, asking))


def test_the_evaluator_is_shown_names_and_descriptions_and_no_arguments() -> None:
    asking = Evaluating(0.7)
    found = examine(asking, trajectory("42", "Hotels: Search", "Nobody: Knows"))
    assert found == {"traj_satisfy": 7.0, "accuracy": True}
    plan, match = asking.asked
    assert "1. Hotels: Search: " + "d" * DESCRIBED + "..." in plan
    assert "2. Nobody: Knows" in plan
    assert "value" not in plan
    assert "42" in match
    assert "How many?" in match


def test_what_cannot_be_examined_is_null() -> None:
    assert examine(Evaluating(None, None), trajectory("42", "a")) == {"traj_satisfy": None, "accuracy": None}
    assert examine(Evaluating(), trajectory("42"), right=None)["accuracy"] is None
    without_end = trajectory(None, "a", finished=False)
    assert examine(Evaluating(), without_end)["accuracy"] is False, "it never came to its end"
    for planned in (replace(without_end, chain=Chain(())), replace(without_end, planned=Chain(()))):
        assert examine(Evaluating(), planned)["accuracy"] is None, "such a planner gives no answer"
    silent = Evaluating()
    assert examine(silent, trajectory(" ", "a"))["accuracy"] is False
    assert len(silent.asked) == 1, "an empty answer is not asked about"
    assert examine(Evaluating(place=1), trajectory("43", "a"))["accuracy"] is False
    nothing = Evaluating()
    examine(nothing, trajectory(None))
    assert "Tools:\nnone" in nothing.asked[0]


@pytest.mark.parametrize(("kind", "level", "cases", "tools"), [
    ("parallel", "simple", 1398, 588), ("parallel", "hard", 1398, 588), ("sequential", None, 1270, 611),
])  # fmt: skip
def test_the_release_is_read_whole(kind: Any, level: Any, cases: int, tools: int) -> None:
    path = os.environ.get("AGENT_GRID_TRAJECT")
    if not path:
        pytest.skip("set AGENT_GRID_TRAJECT to TRAJECT-Bench's public_data folder")
    dataset = TrajectBench(path, kind=kind, level=level)
    assert (len(dataset.case_ids()), len(dataset.tools)) == (cases, tools)
    queries = [skip for skip in dataset.skipped if not skip.record.startswith("tool ")]
    assert len(queries) < 0.03 * cases
    for case_id in dataset.case_ids():
        problem, walk = dataset.problem(case_id), Walk(dataset.problem(case_id).world)
        assert not walk.resolved
        for place, call in problem.reference.calls.items():
            assert call is not None
            walk.state, found = at_once(walk.world.apply(walk.state, call))
            assert found.failed == (place in problem.reference.failing)
        assert walk.resolved
        assert set(problem.own) <= problem.library.keys()
        assert {problem.library[name].category for name in problem.own} == {problem.domain}


@pytest.mark.parametrize("planner", ["react", "zero_shot"])
@pytest.mark.parametrize("named", [{}, {"evaluator": yaml("model", "lexical")}, {"judge": yaml("model", "lexical")}])
def test_a_model_examines_where_one_is_named(small_traject_bench: str, planner: str, named: dict[str, Any]) -> None:
    setting = setting_of(
        dataset="traject_bench", planner=planner, dataset_values={"path": small_traject_bench, "answering": "none"}
    )
    setting = replace(setting, config=with_roles(dict(setting.config) | named))
    built = build(setting, BudgetConfig())
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids()[:3], 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
    scores = [row["traj_satisfy"] for row in rows]
    assert all(score is not None and 0 <= score <= 10 for score in scores) if named else scores == [None] * 3
    assert all(row["failure_patterns"] is not None for row in rows)
    for row in rows:  # the lexical policy finishes without a word, or never
        assert row["accuracy"] in ((None, False) if named else (None,))
