"""Scoring again: stored values come out again, a changed scorer changes its own alone, what is not known says why."""

from __future__ import annotations

import asyncio
import csv
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import duckdb
import pytest

from analysis.tables import scored_again
from grid import plugins, store
from grid.cells.rescoring import SAID, SILENCE, NotStoredError, Unknown
from grid.cells.run import Stamp, run_chunk
from grid.core.engine import Prompt, Sampled
from grid.core.errors import ConfigError, EngineError, StoreError, UnfinishedError
from grid.core.types import Usage
from grid.engines.lexical.engine import Lexical
from grid.episode.judging import Judging
from grid.metrics import stepwise
from grid.settings.build import build, code_of
from grid.settings.config import BudgetConfig
from grid.settings.roles import Price
from grid.settings.setting import Keep, Setting, cells
from grid.sweeps.rescore import CHANGED, EQUAL, NEW, NOTHING_CHANGED, UNKNOWN, Compared, Judge, Rescored, rescore
from tests.support import mcp
from tests.support.commands import launch
from tests.support.configs import setting_of
from tests.support.plugins import forget, standing_in

MYLAB = Path(__file__).parents[3] / "examples" / "mylab" / "mylab"
HOW = Judging()


def whole(**labels: Any) -> Setting:
    """A setting as a sweep has it: with a budget, and digests of its code."""
    setting = replace(setting_of(**labels), budget=BudgetConfig(llm_calls=60).identity)
    return replace(setting, code=code_of(setting.config))


def run(root: Path, setting: Setting, limit: int = 3, trials: int = 1, keep: str = "all") -> None:
    built = build(setting, BudgetConfig(llm_calls=60))
    chunk = list(cells(setting, built.version, built.dataset.case_ids()[:limit], trials))
    result = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None), keep=Keep.of(keep)))
    store.write(root, result.take_all())


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, small_traject_bench: str, small_apb: str, small_bfcl: str) -> Path:
    """Plans and loops, trees, disturbances, a judge of plans and of trajectories, conversations."""
    root = tmp_path_factory.mktemp("swept")
    traject, plans = {"path": small_traject_bench}, {"path": small_apb}
    for planner, disturbed in (
        ("react", "none"),
        ("zero_shot", "extraneous"),
        ("egb_logits", "none"),
        ("fh", "broken_tool"),
    ):
        run(root, whole(model="simulated", planner=planner, dataset="slate", robustness=disturbed), trials=2)
    for planner in ("react", "holistic", "plan_first"):
        run(
            root,
            whole(
                model="lexical", planner=planner, dataset="traject_bench", dataset_values=traject, evaluator="lexical"
            ),
        )
        run(root, whole(model="simulated", planner=planner, dataset="traject_bench", dataset_values=traject))
        run(root, whole(model="simulated", planner=planner, dataset="apb_synthetic"), limit=8)
        run(root, whole(model="lexical", planner=planner, dataset="apb", dataset_values=plans), limit=8)
    run(root, whole(model="simulated", planner="react", dataset="bfcl", dataset_values={"path": small_bfcl}), limit=20)
    return root


@pytest.fixture
def results(swept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "results"))


def again(root: Path, judge: Judge | None = None) -> Rescored:
    return asyncio.run(rescore(root, judge))


def differing(found: Rescored) -> list[Compared]:
    return [one for one in found.compared if one.state != EQUAL]


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.parquet")}


def test_every_stored_value_comes_out_again(results: Path) -> None:
    found = again(results)
    assert found.wrong == []
    assert {(one.state, one.why) for one in differing(found)} == {(UNKNOWN, SAID)}
    assert {one.dataset for one in differing(found)} == {"traject_bench", "apb"}, "where an evaluator was asked"
    equal = {(one.dataset, one.metric) for one in found.compared if one.state == EQUAL}
    assert equal >= {
        ("slate", "success"),
        ("slate", "tool_match_rate"),
        ("slate", "retrieval_rate"),
        ("slate", "behaviour"),
        ("traject_bench", "usage"),
        ("apb_synthetic", "plan_errors"),
        ("apb", "exact_match"),
        ("bfcl", "success"),
    }
    counted = {"unassigned", "expected_success", "evaluator_failures"}
    stored = {(row["cell_id"], row["name"]) for row in store.read(results, "scores").to_pylist()}
    left = stored - {(one.cell_id, one.metric) for one in found.compared}
    assert {name for _, name in left if not name.startswith("cancelled_")} <= counted, (
        "only what was counted while a cell ran"
    )


@pytest.mark.long
def test_the_first_scores_stay_and_the_second_ones_stand_beside_them(results: Path) -> None:
    before = files(results)
    found = again(results)
    after = files(results)
    assert after.items() >= before.items()
    assert {name.partition("/")[0] for name in after.keys() - before.keys()} == {"rescores", "scorings"}
    rows = {(row["cell_id"], row["name"]): row for row in store.read(results, "rescores").to_pylist()}
    for one in found.compared:
        row = rows[one.cell_id, one.metric]
        assert (row["text"] if isinstance(one.now, str) else row["value"]) == one.now
        assert row["why"] == (one.why if one.now is None else None)
    scorings = store.read(results, "scorings").to_pylist()
    assert {row["scoring"] for row in rows.values()} == {row["scoring"] for row in scorings}
    again(results)
    assert files(results) == after, "the same scoring is not written twice"


def lexical(**more: Any) -> Judge:
    return Judge("lexical", {"_target_": "lexical"}, Lexical(), HOW, **more)


def judged_then(root: Path, found: Rescored) -> list[Compared]:
    """What differs in cells of which an evaluator was asked at first, too; of others all that it says is new."""
    asked = {row["cell_id"] for row in store.read(root, "episodes").to_pylist() if row["evaluator"]}
    assert {one.state for one in differing(found) if one.cell_id not in asked} <= {NEW}
    return [one for one in differing(found) if one.cell_id in asked]


@pytest.mark.long
def test_the_same_judge_says_the_same_once(results: Path) -> None:
    found = again(results, lexical())
    assert judged_then(results, found) == []
    asked = found.spent.llm_calls + found.spent.forward_passes
    rows = store.read(results, "scorings").to_pylist()
    assert asked == sum(row["llm_calls"] + row["forward_passes"] for row in rows) > 0
    assert {row["evaluator"] for row in rows} == {"lexical", None}, "of data sets that ask nobody there is none"
    once_more = again(results, lexical())
    assert once_more.spent == Usage()
    assert Counter(once_more.compared) == Counter(found.compared)


@dataclass(frozen=True)
class Odd(Lexical):
    """Answers nothing that can be read; raises at the call number `breaks`."""

    breaks: int | None = None
    calls: ClassVar[int] = 0

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        type(self).calls += 1
        if self.breaks is not None and type(self).calls > self.breaks:
            raise EngineError("gone")
        if self.breaks is None:
            return Sampled(("who knows",) * n, Usage(llm_calls=n, input_tokens=1_000_000))
        return await super().sample(prompt, n=n, temperature=temperature, max_tokens=max_tokens, seed=seed)


def odd(breaks: int | None = None, **more: Any) -> Judge:
    Odd.calls = 0
    return Judge("odd", {}, Odd(breaks=breaks), Judging(max_retries=0), **more)


@pytest.mark.long
def test_a_judge_whom_nobody_can_read_leaves_open_what_it_was_to_say_and_nothing_else(results: Path) -> None:
    found = again(results, odd(price=Price(input=1.0, output=1.0)))
    unknown = differing(found)
    assert {one.state for one in unknown} == {UNKNOWN}
    assert {one.why for one in unknown} == {SILENCE}
    said_before = differing(again(results))
    assert {(one.cell_id, one.metric) for one in unknown} <= {(one.cell_id, one.metric) for one in said_before}
    assert {"traj_satisfy", "plan_correct", "success"} <= {one.metric for one in unknown}
    assert found.money == pytest.approx(found.spent.input_tokens / 1_000_000)
    assert found.money == pytest.approx(sum(row["money"] or 0 for row in store.read(results, "scorings").to_pylist()))


@pytest.mark.long
def test_what_was_said_before_a_judge_broke_stays_and_is_not_asked_again(results: Path) -> None:
    with pytest.raises(EngineError, match="gone"):
        again(results, odd(breaks=10))
    done = {row["cell_id"] for row in store.read(results, "rescores").to_pylist()}
    assert done
    found = again(results, odd(breaks=10_000))
    after = Odd.calls
    assert judged_then(results, found) == []
    whole_folder = results.with_name("other")
    shutil.copytree(results, whole_folder, ignore=shutil.ignore_patterns("rescores", "scorings"))
    again(whole_folder, odd(breaks=10_000))
    assert 0 < after < Odd.calls


def test_a_judge_takes_no_more_money_than_it_may(results: Path) -> None:
    with pytest.raises(UnfinishedError, match=r"budget\.money=2"):
        again(results, odd(price=Price(input=1.0, output=1.0), most=2.0))
    with pytest.raises(ConfigError, match="the judge needs a price"):
        again(results, odd(most=2.0))


def test_a_judge_whom_no_data_set_asks_is_refused(tmp_path: Path) -> None:
    run(tmp_path, whole(model="simulated", planner="react", dataset="slate"), limit=1)
    with pytest.raises(ConfigError, match="asks an evaluator"):
        again(tmp_path, lexical())


@pytest.mark.long
def test_another_value_under_the_same_code_is_an_error(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepwise, "any_two", lambda steps: len(steps) == 3)
    found = again(results)
    before = {
        row["cell_id"]: row["value"]
        for row in store.read(results, "scores").to_pylist()
        if row["name"] == "repeated_call"
    }
    steps = store.read(results, "episodes", ["cell_id", "n_steps"]).to_pylist()
    expected = {row["cell_id"] for row in steps if (row["n_steps"] == 3) != before[row["cell_id"]]}
    assert expected
    assert {(one.cell_id, one.metric, one.state, one.why) for one in found.wrong} == {
        (cell, "repeated_call", CHANGED, NOTHING_CHANGED) for cell in expected
    }


# What is not known.


def altered(
    root: Path, results: Path, table: store.Table, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> Path:
    """A folder whose rows of a table were changed; those without any left out."""
    for name in ("episodes", "steps", "cases", "messages", "sections"):
        rows = store.read(results, name).to_pylist()
        store.write(root, {name: [one for row in rows if (one := change(row) if name == table else row)]})
    return root


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"dataset_version": "other"}, "the data set had version other when the cell ran, but now has version "),
        ({"case_id": "gone"}, "the case cannot be built: 'gone'"),
        ({"case_digest": "other"}, "the case has changed"),
        ({"n_steps": 99}, " of the 99 steps are stored"),
        ({"config": ("grid.datasets.slate.dataset.Slate", "elsewhere.data.Slate")}, "elsewhere.data.Slate"),
    ],
)
def test_what_changed_under_a_folder_is_told_and_scores_nothing(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    run(tmp_path / "first", whole(model="simulated", planner="react", dataset="slate"), limit=2)

    def changed(row: dict[str, Any]) -> dict[str, Any]:
        return row | {
            name: row[name].replace(*value) if isinstance(value, tuple) else value for name, value in change.items()
        }

    found = again(altered(tmp_path / "second", tmp_path / "first", "episodes", changed))
    assert found.compared
    assert {one.state for one in found.compared} == {UNKNOWN}
    assert all(why in one.why for one in found.compared)
    assert found.wrong == []


def test_tools_that_answer_otherwise_leave_open_what_goes_by_the_state_alone(tmp_path: Path) -> None:
    run(tmp_path / "first", whole(model="simulated", planner="react", dataset="slate"), limit=2)

    def changed(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"observation": row["observation"] and '{"other": 1}'}

    found = again(altered(tmp_path / "second", tmp_path / "first", "steps", changed))
    assert {(one.metric, one.state) for one in differing(found)} == {("success", UNKNOWN)}
    assert all("give different answers" in one.why for one in differing(found))


def test_steps_of_which_a_call_was_cut_score_nothing(tmp_path: Path) -> None:
    run(tmp_path / "first", whole(model="simulated", planner="react", dataset="slate"), limit=1)
    cut = altered(
        tmp_path / "second", tmp_path / "first", "steps", lambda row: row | {"arguments": '{"a": "b... (9 ch'}
    )
    assert {(one.state, one.why) for one in again(cut).compared} == {
        (UNKNOWN, "a call or its result is not stored in full")
    }


def test_states_of_live_tools_are_not_known(tmp_path: Path, small_mcp: str) -> None:
    run(tmp_path, whole(model="simulated", planner="react", dataset="mcp", dataset_values={"path": small_mcp}), limit=4)
    found = again(tmp_path)
    assert {(one.metric, one.state) for one in differing(found)} == {("success", UNKNOWN), ("nothing_success", UNKNOWN)}
    assert {one.why for one in differing(found)} == {"the tools are live, and their state is not stored"}


def test_tasks_of_live_tools_are_scored_again_where_the_answer_alone_counts(tmp_path: Path) -> None:
    rows = [row for row in mcp.tasks() if "answer" in row]
    first, values = tmp_path / "first", {"path": mcp.write(tmp_path, rows)}
    run(first, whole(model="simulated", planner="react", dataset="mcp", dataset_values=values), limit=3)
    found = again(first)
    assert {(one.metric, one.state) for one in differing(found)} == {("nothing_success", UNKNOWN)}
    assert {one.state for one in found.compared if one.metric == "success"} == {EQUAL}
    other = altered(tmp_path / "other", first, "episodes", lambda row: row | {"answer": "too much"})
    compared = [(one.then, one.now) for one in again(other).compared if one.metric == "success"]
    assert (1.0, 0.0) in compared
    assert {now for _, now in compared} == {0.0}


def test_what_was_expected_of_live_tools_is_not_asked_again(tmp_path: Path, small_mcp: str) -> None:
    expect = {"tool": "count_items", "arguments": {"name": "mug"}, "result": 1000}
    path = mcp.write(tmp_path, [{**row, "expect": expect} for row in mcp.tasks()])
    run(tmp_path, whole(model="simulated", planner="react", dataset="mcp", dataset_values={"path": path}), limit=4)
    unknown = {(one.metric, one.state) for one in differing(again(tmp_path))}
    metrics = ("success", "nothing_success", "expectations_held", "unmet_expectation")
    assert unknown == {(name, UNKNOWN) for name in metrics}


def test_without_transcripts_a_refusal_in_words_alone_is_not_known(tmp_path: Path) -> None:
    """Calls and refusals by their status are steps; words without a call are not."""
    for keep, name in (("all", "kept"), ("none", "not")):
        run(tmp_path / name, whole(model="simulated", planner="holistic", dataset="apb_synthetic"), limit=40, keep=keep)
        found = again(tmp_path / name)
        assert found.wrong == []
        rows = store.read(tmp_path / name, "episodes").to_pylist()
        cells = {row["cell_id"] for row in rows if not row["n_steps"] and keep == "none"}
        assert {one.cell_id for one in differing(found)} == cells


def test_whoever_looks_at_what_is_not_known_is_stopped() -> None:
    looks: list[Any] = [bool, len, list, str, hash, lambda it: it.field, lambda it: it == 1]
    looks += [lambda it: isinstance(it, str), lambda it: "x" in it, lambda it: it < 1]
    for look in looks:
        with pytest.raises(NotStoredError, match=r"^because$"):
            look(Unknown("because"))
    assert Unknown("because") is not None


def test_a_folder_that_is_written_to_is_left_alone(results: Path) -> None:
    before = files(results)
    with store.locked(results), pytest.raises(StoreError, match="another sweep is writing"):
        again(results)
    assert files(results) == before


def test_a_folder_of_an_earlier_version_is_scored_or_says_why_not(tmp_path: Path) -> None:
    root = Path(shutil.copytree(Path(__file__).parents[2] / "data" / "version_16", tmp_path / "old"))
    found = again(root)
    assert len({one.cell_id for one in found.compared}) + found.never == store.read(root, "episodes").num_rows
    assert found.wrong == []
    assert all(one.why for one in differing(found))


def test_what_is_no_results_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        again(tmp_path / "nothing")


# A plugin's scorers, and the command.


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """The example of a plugin under a name of its own, since processes keep what they loaded of one."""
    for path in MYLAB.rglob("*"):
        if path.suffix in (".py", ".yaml", ".jsonl"):
            copy = tmp_path / "lab" / "oldlab" / path.relative_to(MYLAB)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(path.read_text("utf-8").replace("mylab", "oldlab"), "utf-8")
    with standing_in(tmp_path / "lab"):
        plugins.allow(["oldlab"])
        run(
            tmp_path / "lab" / "results" / "first",
            whole(model="simulated", planner="react", dataset="library"),
            limit=6,
        )
        forget("oldlab")
    return tmp_path / "lab"


def edited(lab: Path, old: str, new: str) -> None:
    path = lab / "oldlab" / "datasets" / "library.py"
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


def test_one_changed_scorer_changes_its_values_and_no_others(lab: Path) -> None:
    edited(lab, "_MINUTES = 2.0", "_MINUTES = 2.5")
    edited(
        lab,
        "    found: dict[str, float | bool] = {\n",
        '    found: dict[str, float | bool] = {\n        "steps_at_the_desk": len(calls),\n',
    )
    edited(
        lab,
        '        Metric("desk_minutes"',
        '        Metric("steps_at_the_desk", "steps", kind="count"),\n        Metric("desk_minutes"',
    )
    ended = launch("rescore", lab, "results/first", "plugins=[oldlab]", "--csv", "both.csv", "--list")
    assert ended.status == 0, ended.err
    with (lab / "both.csv").open(encoding="utf-8", newline="") as file:
        both = list(csv.DictReader(file))
    calls = {row["cell_id"]: float(row["then"]) / 2.0 for row in both if row["metric"] == "desk_minutes"}
    assert len(calls) == 6
    for row in both:
        own = calls[row["cell_id"]]
        if row["metric"] == "desk_minutes" and own:
            assert (row["state"], float(row["now"]), row["why"]) == (CHANGED, 2.5 * own, "code of dataset")
        elif row["metric"] == "steps_at_the_desk":
            assert (row["state"], row["then"], float(row["now"])) == (NEW, "", own)
        else:
            assert row["state"] == EQUAL, row
    assert all(cell in ended.out for cell in calls), "the changes with their cells"
    assert store.metrics(lab / "results" / "first")["steps_at_the_desk"].unit == "steps"
    (table,) = scored_again.tables(lab / "results" / "first")
    (row,) = table.values.to_dict("records")
    assert (row["metric"], row["values"], row["differ"]) == ("desk_minutes", 6, sum(map(bool, calls.values())))
    assert (row["then"], row["now"]) == (pytest.approx(2.0 * fmean(calls.values())), pytest.approx(row["then"] * 1.25))
    assert row["change"] == pytest.approx(row["now"] - row["then"])
    assert row["change_low"] < row["change"] < row["change_high"]
    cases = duckdb.connect().execute(table.query).df()
    assert scored_again.means(cases).equals(table.values), "the query that is shown made the numbers"


def test_a_plugin_that_is_not_there_is_told(lab: Path) -> None:
    ended = launch("rescore", lab, "results/first")
    assert ended.status == 0
    assert "the setting cannot be built" in ended.out
    assert "oldlab" in ended.out
    refused = launch("rescore", lab, "results/first", "plugins=[newlab]")
    assert (refused.status, "plugins='newlab'" in refused.err) == (2, True)


def test_keys_that_are_none_of_these_are_refused(lab: Path) -> None:
    ended = launch("rescore", lab, "results/first", "planner=react")
    assert (ended.status, "planner='react'" in ended.err) == (2, True)
