"""A judge's score: how it is read, what it costs, and what becomes of a judge that gives none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from analysis import load
from grid import store
from grid.cells.rows import spent_by_columns
from grid.cells.run import Stamp, run_chunk
from grid.core.engine import ASKED, CHOOSE, JUDGE, SAMPLE, Choice, Home, Prompt, Sampled, ScoreAnswer
from grid.core.errors import BudgetError, ConfigError, ModelError
from grid.core.types import Observation, Usage
from grid.engines.lexical.engine import Lexical
from grid.engines.null import Null
from grid.episode.judging import SCORES
from grid.episode.progress import Budget
from grid.planners.restoring import Restoring
from grid.settings import make
from grid.settings.build import build
from grid.settings.check import Job, check_sweep
from grid.store.schema import EPISODES, SPENT
from grid.text.answers import NO_SCORE
from tests.support import simulated
from tests.support.configs import LABELS, job, yaml
from tests.support.judged import CONFIG, ROOM, a_prompt, asking
from tests.support.world import episode

LEXICAL = {"_target_": "grid.engines.lexical.engine.Lexical"}
NULL = {"_target_": "grid.engines.null.Null"}


@dataclass
class Answering:
    """Gives one answer after another, the last for ever; all options alike where it is to choose."""

    texts: Sequence[str]
    verbs: frozenset[str] = frozenset({SAMPLE, CHOOSE})
    asked: list[Prompt] = field(default_factory=list)
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "answering"

    @property
    def provides(self) -> frozenset[str]:
        return self.verbs

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.asked.append(prompt)
        assert (n, temperature) == (1, 0.0)
        text = self.texts[min(len(self.asked), len(self.texts)) - 1]
        return Sampled((text,), Usage(llm_calls=1, input_tokens=7, cached_input_tokens=2, output_tokens=3))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        self.asked.append(prompt)
        return Choice((1 / 11,) * 11, Usage(forward_passes=2, input_tokens=5))


def test_an_unreadable_answer_is_asked_for_again_and_kept() -> None:
    judge = Answering(['{"score": 0.9}', "good", '{"score": 9}'])
    run = asking(judge)
    assert asyncio.run(run.judge(a_prompt(), "pass0", 3)) == 0.9
    assert [prompt.answer for prompt in judge.asked] == [ScoreAnswer()] * 3
    assert [bool(prompt.entries("retry")) for prompt in judge.asked] == [False, True, True]
    assert [one.decision for one in run.messages] == ["judge/pass0/3", "judge/pass0/3/try1", "judge/pass0/3/try2"]
    assert {one.role for one in run.messages} == {"judge"}
    assert len({one.seed for one in run.messages}) == 3
    assert [one.unreadable for one in run.messages] == [{0: NO_SCORE}, {0: NO_SCORE}, {}]
    assert run.spent["judge"] == Usage(llm_calls=3, input_tokens=21, cached_input_tokens=6, output_tokens=9)
    assert run.usage == Usage(), "nothing of it is the acting model's"


@pytest.mark.parametrize("retries", [0, 2])
def test_after_the_retries_there_is_no_score(retries: int) -> None:
    judge = Answering(["good"])
    with pytest.raises(ModelError, match=rf"no JSON object with a score.*, after {retries + 1} tries"):
        asyncio.run(asking(judge, max_retries=retries).judge(a_prompt()))
    assert len(judge.asked) == retries + 1


def test_digits_is_the_expectation_over_eleven_scores() -> None:
    judge = Answering([])
    run = asking(judge, "digits")
    assert asyncio.run(run.judge(a_prompt())) == pytest.approx(0.5)
    lines = judge.asked[0].text().splitlines()
    assert lines[-11:] == [f"{number}. {text}" for number, text in enumerate(SCORES)]
    assert run.spent["judge"] == Usage(forward_passes=2, input_tokens=5)
    assert run.messages[0].probabilities == (1 / 11,) * 11


def test_the_budget_is_that_of_all_roles_together() -> None:
    run = asking(Answering(['{"score": 5}']), budget=Budget(llm_calls=3))

    async def spend() -> None:
        await run.judge(a_prompt(), "first")
        await run.choose(a_prompt())
        await run.judge(a_prompt(), "second")

    with pytest.raises(BudgetError, match=r"budget\.llm_calls=3"):
        asyncio.run(spend())


def test_a_planner_that_does_not_say_so_gets_no_judge() -> None:
    with pytest.raises(RuntimeError, match="JUDGE"):
        asyncio.run(episode(Answering([])).judge(a_prompt()))


@pytest.mark.parametrize(
    ("words", "observation", "score"),
    [
        ("book again", None, 1.0),
        ("white rabbits", None, 1 / 3),
        ("book again", Observation({"booking": "B-9"}), 1.0),
        ("book again", Observation({"booking": "B-9", "price": None, "notes": [{"text": ""}], "to": ""}), 0.25),
        ("book again", Observation({"booking": None, "items": []}), 0.0),
        ("book again", Observation({}), 0.0),
        ("book again", Observation({"error": "no such quote"}, failed=True), 0.0),
    ],
)
def test_the_lexical_engine_judges_in_both_forms_alike(
    words: str, observation: Observation | None, score: float
) -> None:
    asked = a_prompt(words, observation)
    found = [asyncio.run(run.judge(asked)) for run in (asking(Lexical(), "digits"), asking(Lexical()))]
    assert found == [pytest.approx(score), pytest.approx(score, abs=0.05)]


@pytest.fixture
def own_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(make.ROOMS, "planner", ROOM["planner"])


def judged(root: Path, **changes: Any) -> Job:
    """A job of the planner that asks a judge."""
    return Job(job(root, **{"planner": CONFIG, **changes}).config, LABELS | {JUDGE: "judge"})


def ran(job: Job, judge: Any = None) -> list[dict[str, Any]]:
    """The episodes of a job's cells; `judge` takes the place of its own."""
    plan = check_sweep([job]).plan
    (setting,) = plan.settings
    built = build(setting, plan.budget)
    built = replace(built, roles={JUDGE: judge}) if judge else built
    result = asyncio.run(run_chunk(built, setting, list(plan.cells_of(setting)), Stamp("s", None)))
    rows = result.take()["episodes"]
    assert result.usage == sum((usage for row in rows for usage in spent_by_columns(row).values()), Usage())
    assert all(row.keys() <= set(EPISODES.names) for row in rows)
    return rows


@pytest.mark.parametrize("form", ["text", "digits"])
def test_a_judges_cost_stands_in_columns_of_its_own(own_planner: None, tmp_path: Path, form: str) -> None:
    for row in ran(judged(tmp_path, judge={"form": form})):
        assert (row["status"], row["error_message"], row["judge"]) == ("ok", None, "judge"), row["error_traceback"]
        asked, other = ("judge_calls", "judge_passes") if form == "text" else ("judge_passes", "judge_calls")
        assert row["llm_calls"] > 0 < row[asked]
        assert row["forward_passes"] == 0 == row[other]
        assert row["judge_input_tokens"] > 0
        assert (row["judge_output_tokens"] > 0) == (form == "text")


def test_where_no_judge_is_asked_its_columns_are_null(own_planner: None, tmp_path: Path) -> None:
    make.ROOMS["planner"] = "grid.planners"
    for row in ran(job(tmp_path)):
        assert {row[column] for column in ("judge", *SPENT[JUDGE].values())} == {None}


def test_a_verdict_that_cannot_be_read_is_unknown_and_counted(own_planner: None, tmp_path: Path) -> None:
    """It ends the work of a planner that cannot go on without it, and is nobody's failure."""
    for row in ran(judged(tmp_path, judge={"max_retries": 2}), Answering(['{"score": "high"}'])):
        assert (row["status"], row["error_kind"], row["success"]) == ("ok", None, None)
        assert (row["judge_calls"], row["judge_output_tokens"], row["judge_failures"]) == (3, 9, 1)


def test_verdicts_that_can_be_read_leave_no_failure(own_planner: None, tmp_path: Path) -> None:
    for row in ran(judged(tmp_path)):
        assert row["success"] is not None
        assert (row["judge_failures"], row["evaluator_failures"]) == (0, None)


class Mumbling(Answering):
    """Answers nothing that has a score, as often as it is asked."""

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        return Sampled(("Who knows?",) * n, Usage(llm_calls=n))


@pytest.mark.long
@pytest.mark.parametrize("planner", ["tot", "lats", "mcts", "best_first", "tooltree"])
def test_a_search_whose_judge_says_nothing_has_an_unknown_success(tmp_path: Path, planner: str) -> None:
    """That holds for every search: what it returns is not what its setting asks for."""
    asked = Job(job(tmp_path, planner=yaml("planner", planner)).config, LABELS | {JUDGE: "judge"})
    for row in ran(asked, Mumbling([])):
        assert (row["status"], row["error_message"], row["success"]) == ("ok", None, None)
        assert row["judge_failures"] > 0


def test_the_acting_model_is_the_judge_unless_another_is_named(own_planner: None, tmp_path: Path) -> None:
    plan = check_sweep([judged(tmp_path), judged(tmp_path, judge=LEXICAL), judged(tmp_path, judge=NULL)]).plan
    assert [setting.config[JUDGE] for setting in plan.settings] == [
        {"form": "text", "max_retries": 3, **LEXICAL, **asdict(Restoring())},
        {"form": "text", "max_retries": 3, **NULL, **asdict(Restoring())},
    ]
    assert isinstance(build(plan.settings[1], plan.budget).roles[JUDGE], Null)


@pytest.mark.parametrize("change", [{"form": "digits"}, {"max_retries": 2}, LEXICAL | {"temperature": 0.1}])
def test_the_judge_is_part_of_the_id(own_planner: None, tmp_path: Path, change: dict[str, Any]) -> None:
    settings = check_sweep([judged(tmp_path), judged(tmp_path, judge=change)]).plan.settings
    assert len({setting.id for setting in settings}) == 2


def test_the_code_of_the_judge_is_part_of_the_cells_ids(own_planner: None, tmp_path: Path) -> None:
    own, other = check_sweep([judged(tmp_path), judged(tmp_path, judge=NULL)]).plan.settings
    assert own.code[JUDGE] != other.code[JUDGE]
    assert own.code["model"] == other.code["model"]


def test_planners_that_ask_no_judge_run_once_whatever_it_is(tmp_path: Path) -> None:
    jobs = [Job(job(tmp_path, judge=judge).config, LABELS | {JUDGE: "x"}) for judge in ({}, NULL, {"form": "digits"})]
    (setting,) = check_sweep(jobs).plan.settings
    assert JUDGE not in setting.config
    assert JUDGE not in setting.labels
    without = {group: value for group, value in job(tmp_path).config.items() if group in setting.config}
    assert setting.config == without | {"options": {"order": "shuffled"}}


def test_how_a_judge_is_served_is_not_part_of_the_id(own_planner: None, tmp_path: Path) -> None:
    judge = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
    jobs = [judged(tmp_path, judge={**judge, "serving": {"tries": tries}}) for tries in (1, 2)]
    with pytest.raises(ConfigError, match=r"judge\.serving=.* one value for the whole sweep"):
        check_sweep(jobs)


def test_digits_of_a_judge_that_cannot_choose_names_both_files(own_planner: None, tmp_path: Path) -> None:
    judge = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
    labels = LABELS | {"planner": "better", JUDGE: "openai_http[model=m,form=digits]"}
    digits = Job(judged(tmp_path, judge={**judge, "form": "digits"}).config, labels)
    with pytest.raises(ConfigError) as caught:
        check_sweep([digits])
    for part in ("conf/planner/better.yaml", "judge.form=digits", "choose", "conf/model/openai_http.yaml"):
        assert part in str(caught.value)
    exact = judged(tmp_path, judge={**judge, "form": "digits", "exact_choice": True})
    assert [len(check_sweep([one]).plan.settings) for one in (exact, judged(tmp_path, judge=judge))] == [1, 1]


@pytest.mark.long
@pytest.mark.parametrize("role", ASKED)
def test_tables_tell_judges_apart(tmp_path: Path, role: str) -> None:
    rows = list(map(simulated.row, simulated.episodes(0, 3, 1).to_dict("records")))
    names = ("cell_id", "cell_key", "setting_id")
    for judge in (None, "lexical", "other"):
        asked = [row | {name: f"{row[name]}/{judge}" for name in names} | {role: judge} for row in rows]
        store.write(tmp_path, {"episodes": asked})
        one = judge in (None, "lexical")
        suffixes = [""] if one else ["", f" / {role} lexical", f" / {role} other"]
        found = {label.partition(" #")[0] for label in load.episodes(tmp_path)["planner"].unique()}
        assert found == {f"{planner}{suffix}" for planner in ("fh", "sh") for suffix in suffixes}


@pytest.mark.parametrize(
    ("judge", "key"),
    [
        ({"form": "words"}, "judge.form"),
        ({"max_retries": -1}, "judge.max_retries"),
        ({"max_retries": "3"}, "judge.max_retries"),
        (LEXICAL | {"temprature": 1.0}, "judge.temprature"),
        ({"_target_": "os.system"}, "judge._target_"),
        ("lexical", "judge"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(own_planner: None, tmp_path: Path, judge: object, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_sweep([judged(tmp_path, judge=judge)])
    assert caught.value.key == key
