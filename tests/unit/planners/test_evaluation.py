"""A model as the judge of free text: what it is asked, what that changes, and what stays as it was."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import pytest

from grid import store
from grid.cells.environment import Environment
from grid.cells.rows import Outcome, spent_by_columns, transcript_rows
from grid.cells.run import Stamp, episode_of, run_cell, run_chunk, solve
from grid.core.engine import ACTOR, CHOOSE, EVALUATOR, SAMPLE, Choice, Home, Prompt, Sampled, ScoreAnswer
from grid.core.errors import ConfigError
from grid.core.problem import Outline, Problem, Reference
from grid.core.types import Case, Json, Observation, Parameter, Plan, Substep, ToolCall, ToolSpec, Usage
from grid.core.world import Argument
from grid.datasets.slate.dataset import Slate
from grid.engines.lexical.engine import Lexical
from grid.episode.judging import Judging
from grid.episode.progress import Budget
from grid.episode.requests import Message, Requests
from grid.planners.egb import EGBLogits
from grid.planners.react import ReAct
from grid.pools.whole import Whole
from grid.roles.evaluation import Evaluation, prompt_of
from grid.settings.build import Built, build
from grid.settings.check import Checked, Job, check_sweep
from grid.settings.config import BudgetConfig
from grid.settings.parts import Pooled
from grid.settings.roles import by_pool
from grid.settings.setting import Cell, Keep, Setting, cells
from grid.store.scanning import EpisodeRow
from grid.store.schema import EPISODES, SPENT, TIMES
from grid.worlds.lookup import LookupSimulator, SameFunction, build_entries
from tests.support.configs import LABELS, job, setting_of, solvers
from tests.support.engines import Scripted
from tests.support.walks import Walk
from tests.unit.episode.test_episode import reachable

TEXT = "The parcel will come on Monday"
PARAPHRASE = "Your parcel arrives on Monday"
ORDER = Parameter("order", "string", "Number of the order")
TOLD = Parameter("text", "string", "What the buyer is told")
NOTE = ToolSpec(
    "note",
    "Writes to the buyer.",
    (
        ORDER,
        TOLD,
        Parameter("day", "date", "Day of the letter", required=False),
        Parameter("tone", "string", "How it sounds", required=False, values=("very kind", "rather stern")),
        Parameter("lines", "array", "The letter's lines", required=False),
        Parameter("copies", "integer", "How many", required=False),
    ),
    ("sent",),
)
OTHER = ToolSpec("other", "Does something else.", (ORDER,))
RIGHT: dict[str, Json] = {"order": "AB-17", "text": TEXT}
SENT = Observation({"sent": True})
ABOUT = Argument("note", "text", "What the buyer is told")
Pair = tuple[str, str]


@dataclass
class Saying:
    """Says that the pairs of texts given mean the same, and keeps what it was asked."""

    pairs: Sequence[Pair] = ((TEXT, PARAPHRASE),)
    asked: list[tuple[Argument, str, str]] = field(default_factory=list)

    async def same(self, about: Argument, one: str, other: str) -> bool:
        self.asked.append((about, one, other))
        return (one, other) in self.pairs


def walk(said: Saying | None, *calls: Mapping[str, Json], tool: ToolSpec = NOTE) -> Walk:
    """A world of calls of one tool, the n-th with the outcome n."""
    made = {f"{place}": ToolCall(tool.name, dict(call)) for place, call in enumerate(calls, 1)}
    outcomes: dict[str, dict[str, Json]] = {step: {"sent": True, "number": int(step)} for step in made}
    entries = build_entries(made, outcomes, tools={tool.name: tool})
    same = {"jot": SameFunction(tool.name, {"words": "text"})}
    world = LookupSimulator(entries, frozenset(made), same)
    return Walk(world.asking(said.same) if said else world)


@pytest.mark.parametrize("arguments", [{"text": PARAPHRASE}, {"text": PARAPHRASE, "tone": "very kind"}])
def test_a_paraphrase_is_asked_about_and_obtains_the_outcome(arguments: dict[str, Json]) -> None:
    said = Saying()
    for asked, failed in ((None, True), (said, False), (Saying(()), True)):
        assert walk(asked, RIGHT).make(ToolCall("note", RIGHT | arguments)).failed == failed
    assert said.asked == [(ABOUT, TEXT, PARAPHRASE)]


def test_another_tool_of_the_same_function_is_asked_about_under_the_references_names() -> None:
    said = Saying()
    assert not walk(said, RIGHT).make(ToolCall("jot", {"order": "AB-17", "words": PARAPHRASE})).failed
    assert said.asked == [(ABOUT, TEXT, PARAPHRASE)]


@pytest.mark.parametrize(
    ("reference", "given"),
    [
        ({"order": "AB-17"}, {"order": "the first order"}),
        ({"order": "Jing A12345"}, {"order": "Jing A12346"}),
        ({"order": "AB-17 XR-9"}, {"order": "AB-17 XR-8"}),
        ({"order": "a.b@shop.example c.d@shop.example"}, {"order": "b.a@shop.example"}),
        ({"text": "Desktop/Meeting Minutes.txt"}, {"text": "Minutes of the meeting"}),
        ({"text": "user_name, other_name"}, {"text": "names of users"}),
        ({"text": "Monday"}, {"text": "on the first day of the week"}),
        ({"text": "12 May 2025"}, {"text": "the twelfth of May"}),
        ({"text": TEXT}, {"text": "12 May 2025"}),
        ({"text": TEXT}, {"text": "12"}),
        ({"text": TEXT}, {"text": "yes"}),
        ({"text": TEXT}, {"text": ""}),
        ({"text": TEXT}, {"text": None}),
        ({"text": TEXT}, {"text": [PARAPHRASE]}),
        ({"text": TEXT}, {"text": {"text": PARAPHRASE}}),
        ({"text": TEXT}, {"text": 7}),
        ({"text": TEXT}, {}),
        ({"text": TEXT}, {"text": PARAPHRASE, "undeclared": "x"}),
        ({"text": TEXT, "order": "AB-17"}, {"text": PARAPHRASE, "order": "AB-18"}),
        ({"text": TEXT, "order": "AB-17"}, {"text": PARAPHRASE}),
        ({"tone": "very kind"}, {"tone": "kind and warm"}),
        ({"day": "the first Monday"}, {"day": "next Monday morning"}),
        ({"lines": "one line, another line"}, {"lines": "some line, other lines"}),
        ({"lines": ["one line", "another line"]}, {"lines": ["some line", "other lines"]}),
        ({"copies": "two or three"}, {"copies": "three or two"}),
        ({"unknown": "of no parameter"}, {"unknown": "is not declared"}),
    ],
    ids=repr,
)
def test_of_nothing_else_is_anybody_asked(reference: dict[str, Json], given: dict[str, Json]) -> None:
    said = Saying()
    found = walk(said, reference)
    assert found.make(ToolCall("note", given)).failed
    assert found.make(ToolCall("other", reference)).failed
    assert not found.make(ToolCall("note", reference)).failed
    assert said.asked == []


def test_texts_are_asked_about_one_by_one_until_a_no() -> None:
    said = Saying([("red with a bow", "with a red bow"), ("blue with a bow", "with a blue bow")])
    tool = ToolSpec("wrap", "", tuple(Parameter(name, "string", "") for name in ("first", "second", "third")))
    texts = ["red with a bow", "blue with a bow", "no bow at all"]
    reference = dict(zip(("first", "second", "third"), texts, strict=True))
    found = walk(said, reference, tool=tool)
    alike = {"first": "with a red bow", "second": "with a blue bow", "third": "no bow at all"}
    assert not found.make(ToolCall("wrap", dict(alike))).failed
    assert [one for _, one, _ in said.asked] == texts[:2], "what the rules find equal is not asked about"
    said.asked.clear()
    assert found.make(ToolCall("wrap", alike | {"first": "with a green bow"})).failed
    assert len(said.asked) == 1


def test_who_matches_by_the_rules_goes_before_who_is_judged() -> None:
    said = Saying([("send it today", "send it now"), ("send it", "send it now"), ("send it soon", "send it now")])
    calls = [{"text": "send it today"}, {"text": "send it"}, {"text": "send it soon", "order": "A-1"}]
    found = walk(said, *calls)
    assert found.make(ToolCall("note", {"text": "Send it."})).content["number"] == 2
    assert said.asked == []
    found.make(ToolCall("note", {"text": "send it now"}))
    assert found.state == frozenset("12"), "all that lack as few, and none that is not given whole"
    assert found.make(ToolCall("note", {"text": "send it now", "order": "A-1"})).content["number"] == 3


@dataclass
class Scoring:
    """An evaluator that finds texts the same which are listed together; its answers take some turns of the loop."""

    groups: Sequence[frozenset[str]] = (frozenset({TEXT, PARAPHRASE}),)
    turns: random.Random = field(default_factory=random.Random)
    asked: list[Prompt] = field(default_factory=list)
    seeds: dict[str, int] = field(default_factory=dict)
    unreadable: int = 0
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "scoring"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        assert (n, temperature, prompt.answer) == (1, 0.0, ScoreAnswer())
        usage = Usage(llm_calls=1, input_tokens=7, cached_input_tokens=2, output_tokens=3)
        if len(self.asked) < self.unreadable:
            self.asked.append(prompt)
            return Sampled(("well,",), usage)
        return Sampled((f'{{"score": {10 * await self._alike(prompt, seed)}, "explanation": ""}}',), usage)

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        alike = await self._alike(prompt, seed)
        return Choice((1.0 - alike, *[0.0] * 9, float(alike)), Usage(forward_passes=2, input_tokens=5))

    async def _alike(self, prompt: Prompt, seed: int) -> bool:
        self.asked.append(prompt)
        self.seeds["\n".join(prompt.entries("texts"))] = seed
        for _ in range(self.turns.randrange(20)):
            await asyncio.sleep(0)
        return any({*prompt.entries("texts")[1::2]} <= group for group in self.groups)


def evaluation(engine: Any, seed: int = 3, **how: Any) -> Evaluation:
    return Evaluation(engine, Judging(**how), seed)


@pytest.mark.parametrize("form", ["text", "digits"])
def test_one_question_is_asked_once_also_by_paths_side_by_side(form: str) -> None:
    engine = Scoring()
    found = evaluation(engine, form=form)
    pairs = [(TEXT, PARAPHRASE), (PARAPHRASE, TEXT), (TEXT, "something else")] * 5

    async def ask() -> list[bool]:
        return list(await asyncio.gather(*(found.same(ABOUT, *pair) for pair in pairs)))

    assert asyncio.run(ask()) == [True, True, False] * 5
    assert asyncio.run(found.same(ABOUT, TEXT, PARAPHRASE))
    assert len(engine.asked) == len(found.requests.messages) == 2
    asyncio.run(found.same(ABOUT._replace(name="headline"), TEXT, PARAPHRASE))
    assert len(engine.asked) == 3, "of another argument it is another question"


def test_an_answer_depends_on_the_question_and_the_seed_and_on_nothing_else() -> None:
    engines = [Scoring(), Scoring(), Scoring()]
    pairs = [(TEXT, PARAPHRASE), (TEXT, "one thing"), ("one thing", "another")]

    async def ask(engine: Scoring, seed: int, order: Sequence[Pair]) -> None:
        found = evaluation(engine, seed)
        for pair in order:
            await found.same(ABOUT, *pair)

    orders = [pairs, [(other, one) for one, other in reversed(pairs)], pairs]
    for engine, seed, order in zip(engines, (3, 3, 4), orders, strict=True):
        asyncio.run(ask(engine, seed, order))
    assert engines[0].seeds == engines[1].seeds
    assert len({*engines[0].seeds.values(), *engines[2].seeds.values()}) == 6
    assert engines[0].asked == engines[1].asked[::-1], "nobody is told which text is the reference's"


def test_the_question_names_the_argument_and_shows_both_texts() -> None:
    shown = prompt_of(ABOUT, TEXT, PARAPHRASE).text()
    for part in ("note", "text (What the buyer is told)", TEXT, PARAPHRASE):
        assert shown.count(part) == 1, part
    assert "Argument: text\n" in prompt_of(ABOUT._replace(description=""), "a", "b").text()


def test_without_a_score_there_is_no_answer() -> None:
    found = evaluation(engine := Scoring(unreadable=3), max_retries=2)
    assert not asyncio.run(found.same(ABOUT, TEXT, PARAPHRASE))
    assert (found.failures, found.undecided) == (1, True)
    assert asyncio.run(found.same(ABOUT, TEXT, PARAPHRASE)), "who asks again has another chance"
    assert (found.failures, found.undecided) == (1, False)
    assert len(engine.asked) == 4


@pytest.mark.parametrize(
    ("one", "other", "score"),
    [
        (TEXT, "on Monday the parcels will come", 1.0),
        ("snowflake print", "print with a snowflake", 1.0),
        ("Diego Morales", "Diego Moreno", 1 / 3),
        ("gate 3 of the hall", "gate 4 of the hall", 0.5),
        ("tight budget", "unknown", 0.0),
        ("of the", "to the", 0.0),
    ],
)
def test_the_lexical_engine_compares_words(one: str, other: str, score: float) -> None:
    for judging, near in ((Judging(), 0.05), (Judging(form="digits"), 1e-9)):
        asked = Requests({EVALUATOR: Lexical()}, 1)
        found = asyncio.run(judging.score(asked, EVALUATOR, prompt_of(ABOUT, one, other), "same"))
        assert found == pytest.approx(score, abs=near)


class Letters:
    """One case: letters are to be written, each of one text."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    version = "letters-1"
    outline: ClassVar[Outline] = "given"
    tools: ClassVar[Mapping[str, ToolSpec]] = {"note": NOTE, "other": OTHER}

    def cluster(self, case_id: str) -> str:
        return "letters"

    def problem(self, case_id: str) -> Problem:
        calls = {str(place): ToolCall("note", RIGHT | {"text": text}) for place, text in enumerate(self.texts, 1)}
        entries = build_entries(calls, {step: {"sent": True} for step in calls}, tools=self.tools)
        query = f"Write for order AB-17: {'; '.join(self.texts)}"
        return Problem(
            Case(case_id, query, Plan(tuple(Substep(place, "write it", "write") for place in calls))),
            Reference(dict(calls), tuple(calls)),
            LookupSimulator(entries, frozenset(calls)),
            lambda case, substep: (NOTE, OTHER),
            self.tools,
            {},
        )


class LettersIndex:
    query_top_k = 50
    mode = "static"

    def retrieve(self, case: Any, substep: Any) -> Any:
        return (NOTE, OTHER)


def letters(
    evaluator: Any, text: str = PARAPHRASE, budget: Budget | None = None, right: Sequence[str] = (TEXT,)
) -> Built:
    """The setting of an actor that writes the letters as `text`; without an evaluator the rules decide."""
    dataset: Any = Letters([*right])
    index: Any = LettersIndex()
    actor = Scripted({"1": {"note": 1.0}}, lambda substep, tool: RIGHT | {"text": text})
    judging = {EVALUATOR: Judging(max_retries=2)} if evaluator else {}
    roles = {EVALUATOR: evaluator} if evaluator else {}
    budget = budget or Budget()
    asks = bool(evaluator)
    return Built(
        actor,
        ReAct(),
        dataset,
        Pooled(dataset, Whole(), Letters.tools, index),
        (),
        budget,
        roles=roles,
        judging=judging,
        compares_texts=asks,
    )


def outcome(built: Built) -> Outcome:
    setting = Setting({group: {} for group in LABELS}, LABELS | dict.fromkeys(built.roles, "scoring"), 0)
    return asyncio.run(run_cell(built, setting, Cell("a", 0, "c", "c" * 8, "d"), Stamp("s", None), "a", keep=Keep()))


def test_a_case_is_solved_by_a_paraphrase_where_a_model_says_that_it_means_the_same() -> None:
    rows = [outcome(letters(who)).episode for who in (None, Scoring(()), Scoring())]
    assert [row["error_message"] for row in rows] == [None] * 3
    assert [row["success"] for row in rows] == [False, False, True]
    assert [row["solvable"] for row in rows] == [True] * 3, "by the rules, whoever judges"
    other = outcome(letters(Scoring(), text="The parcel is lost")).episode
    assert (other["success"], other["evaluator_calls"]) == (False, 1)
    assert outcome(letters(Scoring(), text=TEXT)).episode["evaluator_calls"] == 0


def test_what_the_evaluator_spends_has_columns_and_no_budget() -> None:
    row = outcome(letters(Scoring(unreadable=2), budget=Budget(llm_calls=1, prompt_characters=1200))).episode
    assert (row["error_message"], row["success"], row["evaluator"]) == (None, True, "scoring")
    assert (row["llm_calls"], row["evaluator_calls"], row["evaluator_passes"]) == (1, 3, 0)
    spent = Usage(llm_calls=3, input_tokens=21, cached_input_tokens=6, output_tokens=9)
    assert spent_by_columns(row)[EVALUATOR] == spent
    row = outcome(letters(None)).episode
    assert {row[column] for column in ("evaluator", *SPENT[EVALUATOR].values())} == {None}


def test_an_evaluator_that_gives_no_score_leaves_success_unknown_and_is_counted(tmp_path: Path) -> None:
    found = outcome(letters(Scoring(unreadable=99)))
    row = found.episode
    assert (row["status"], row["error_message"], row["success"]) == ("ok", None, None)
    assert (row["evaluator_calls"], row["n_messages"], row["evaluator_failures"]) == (3, 4, 1)
    assert outcome(letters(Scoring())).episode["evaluator_failures"] == 0
    assert outcome(letters(None)).episode["evaluator_failures"] is None
    store.write(tmp_path, {"episodes": [row]})
    (kept,) = store.rows_of_try(tmp_path, "episodes", "a")
    assert kept["evaluator_calls"] == 3, "counted also where a worker dies behind it"


def test_what_it_was_asked_is_kept_and_no_planner_reaches_it(tmp_path: Path) -> None:
    built = letters(Scoring())
    found = outcome(built)
    rows = transcript_rows("c", "a", found.messages, set())
    store.write(tmp_path, {**rows, "episodes": [found.episode]})
    requests = [request for request in store.transcript(tmp_path, "c") if request]
    assert [request.role for request in requests] == [ACTOR, EVALUATOR]
    assert requests[1].decision.startswith("same/note/text/")
    assert TEXT in requests[1].text()
    assert PARAPHRASE in requests[1].text()
    evaluation = built.evaluation("a", 0)
    assert evaluation
    problem = asyncio.run(Environment(evaluation).around(built, built.dataset.problem("a")))
    run = episode_of(built, problem, seed=3)
    trajectory = asyncio.run(solve(built, run))
    assert len(evaluation.requests.messages) == 1
    for way, thing in (*reachable(run), *reachable(trajectory)):
        assert not isinstance(thing, Evaluation | Requests | Scoring), way
        assert not (isinstance(thing, Message) and thing.role == EVALUATOR), way
    with pytest.raises(KeyError):
        asyncio.run(run.choose(run.messages[0].prompt, "mine", role=EVALUATOR))


LEXICAL = {"_target_": "grid.engines.lexical.engine.Lexical"}
NULL = {"_target_": "grid.engines.null.Null"}
HTTP = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
BUDGET = BudgetConfig(llm_calls=5000, steps=1000)


def checked(root: Path, *evaluators: Any, equivalence: str = "judge", **changes: Any) -> Checked:
    """A sweep of one setting for each evaluator."""
    jobs = [job(root, dataset__equivalence=equivalence, **changes) for _ in evaluators]
    configs = [{**one.config, **({"evaluator": who} if who else {})} for one, who in zip(jobs, evaluators, strict=True)]
    return check_sweep([Job(config, LABELS | {EVALUATOR: "who[form=digits]"}) for config in configs])


def refusal(root: Path, evaluator: Any, **changes: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        checked(root, evaluator, **changes)
    return caught.value


@pytest.mark.parametrize("given", [None, {"form": "text", "max_retries": 3}])
def test_nobody_is_the_evaluator_by_default(tmp_path: Path, given: Any) -> None:
    error = refusal(tmp_path, given)
    assert (error.key, error.value) == ("dataset.equivalence", "judge")
    assert "model@evaluator=NAME" in error.allowed


@pytest.mark.parametrize(
    ("evaluator", "key"),
    [
        (LEXICAL | {"form": "words"}, "evaluator.form"),
        (LEXICAL | {"max_retries": -1}, "evaluator.max_retries"),
        (LEXICAL | {"temprature": 1.0}, "evaluator.temprature"),
        ({"_target_": "os.system"}, "evaluator._target_"),
        ("lexical", "evaluator"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(tmp_path: Path, evaluator: Any, key: str) -> None:
    assert refusal(tmp_path, evaluator).key == key


def test_equivalence_is_by_rules_or_by_a_judge(tmp_path: Path) -> None:
    error = refusal(tmp_path, LEXICAL, equivalence="maybe")
    assert (error.key, error.value) == ("dataset.equivalence", "maybe")
    null = job(tmp_path, dataset={"_target_": "grid.datasets.null.Null", "equivalence": "judge"}, evaluator=LEXICAL)
    with pytest.raises(ConfigError, match=r"dataset\.equivalence='judge': no such key"):
        check_sweep([null])


def test_who_cannot_choose_or_knows_no_texts_is_refused_with_both_files(tmp_path: Path) -> None:
    for evaluator, parts in (
        (HTTP | {"form": "digits"}, ("evaluator.form=digits", "choose")),
        ({"_target_": "grid.engines.simulated.engine.Simulated"}, ("dataset.equivalence=judge", "cannot answer this")),
    ):
        told = str(refusal(tmp_path, evaluator))
        for part in ("conf/dataset/dataset.yaml", "conf/model/who.yaml", *parts):
            assert part in told
    assert checked(tmp_path, HTTP).plan.settings


@pytest.mark.parametrize("change", [{"form": "digits"}, {"max_retries": 2}, {"temperature": 0.1}, NULL])
def test_the_evaluator_is_part_of_the_id(tmp_path: Path, change: dict[str, Any]) -> None:
    settings = checked(tmp_path, LEXICAL, LEXICAL | change if change is not NULL else NULL).plan.settings
    assert len({setting.id for setting in settings}) == 2
    codes = [setting.code[EVALUATOR] for setting in settings]
    assert (codes[0] == codes[1]) == (change is not NULL)
    with pytest.raises(ConfigError, match=r"evaluator\.serving=.* one value for the whole sweep"):
        checked(tmp_path, *(HTTP | {"serving": {"tries": tries}} for tries in (1, 2)))


def test_rules_and_judge_meet_the_same_disturbances(tmp_path: Path) -> None:
    plans = [checked(tmp_path, LEXICAL, equivalence=how).plan for how in ("rules", "judge")]
    met = [[cell.disturbance_id for cell in plan.cells_of(plan.settings[0])] for plan in plans]
    assert met[0] == met[1]
    assert plans[0].dataset_versions[plans[0].settings[0].id] == plans[1].dataset_versions[plans[1].settings[0].id]


def test_who_is_never_asked_is_no_part_of_a_setting_and_is_told(tmp_path: Path) -> None:
    found = checked(tmp_path, None, LEXICAL, NULL, equivalence="rules")
    (setting,) = found.plan.settings
    assert EVALUATOR not in setting.config
    assert EVALUATOR not in setting.labels
    (line,) = found.unasked
    assert line == "evaluator who[form=digits]: never asked, because no dataset of this sweep needs it"
    judged = Job(job(tmp_path, judge={"form": "digits"}).config, LABELS | {"judge": "lexical[form=digits]"})
    assert check_sweep([judged]).unasked == [
        "judge lexical[form=digits]: never asked, because no planner and no tool of this sweep needs it"
    ]
    by_default = {"judge": {"form": "text", "max_retries": 3}, EVALUATOR: {"form": "text", "max_retries": 3}}
    assert check_sweep([job(tmp_path, **by_default)]).unasked == []
    mixed = [job(tmp_path, dataset__equivalence=how, evaluator=LEXICAL) for how in ("rules", "judge")]
    both = check_sweep([Job(one.config, LABELS | {EVALUATOR: "lexical"}) for one in mixed])
    assert both.unasked == [], "some dataset of the sweep asks it"
    assert [EVALUATOR in setting.config for setting in both.plan.settings] == [False, True]


def test_an_evaluator_that_is_the_actor_shares_its_pool(tmp_path: Path) -> None:
    own, other = (checked(tmp_path, who).plan.settings[0].config for who in (LEXICAL | {"form": "digits"}, NULL))
    assert list(by_pool(own).values()) == [[ACTOR, EVALUATOR]]
    assert list(by_pool(other).values()) == [[ACTOR], [EVALUATOR]]


def judged(planner: str, **values: Any) -> tuple[Setting, Built]:
    """A planner on SLATE whose texts the lexical engine compares."""
    setting = setting_of(values, planner=planner, dataset="slate")
    config = {
        **setting.config,
        "dataset": {**setting.config["dataset"], "equivalence": "judge"},
        EVALUATOR: {"form": "text", "max_retries": 3, **LEXICAL},
    }
    setting = replace(setting, config=config, labels={**setting.labels, EVALUATOR: "lexical"})
    return setting, build(setting, BUDGET)


def rows(setting: Setting, built: Built, case_ids: Sequence[str], trials: int = 1) -> list[dict[str, Any]]:
    chunk = list(cells(setting, built.dataset.version, case_ids, trials))
    found = asyncio.run(run_chunk(built, setting, chunk, Stamp("s", None))).take()["episodes"]
    assert all(row.keys() <= set(EPISODES.names) for row in found)
    return [EpisodeRow({name: value for name, value in row.items() if name not in TIMES}) for row in found]


@lru_cache
def with_texts(count: int) -> list[str]:
    """The shortest cases of SLATE whose reference has an argument that may be judged."""
    data = Slate()
    found = [
        (len(problem.reference.calls), name)
        for name in data.case_ids()
        for problem in [data.problem(name)]
        if isinstance(problem.world, LookupSimulator)
        and any(
            entry.may_be_judged(argument, "in other words")
            for entry in problem.world.entries
            for argument in entry.call.arguments
        )
    ]
    return [name for _, name in sorted(found)[:count]]


@pytest.mark.long
@pytest.mark.parametrize("planner", solvers())
def test_every_planner_runs_and_repeats_itself(planner: str) -> None:
    setting, built = judged(planner, limit=None)
    chosen = with_texts(1)
    first = rows(setting, built, chosen)
    assert [row["error_message"] for row in first] == [None]
    assert first == rows(setting, built, chosen)
    assert [row["evaluator"] for row in first] == ["lexical"]


@pytest.mark.parametrize("agrees", [True, False])
def test_branches_side_by_side_ask_as_those_one_after_another_do(agrees: bool) -> None:
    texts = [TEXT, "It was sent today", "We are sorry for that"]
    found, questions = list[list[Any]](), list[list[str]]()
    for parallel in (False, True, True):
        evaluator = Scoring([frozenset({text, PARAPHRASE}) for text in texts if agrees], random.Random(len(found)))
        built = letters(evaluator, right=texts)
        actor = Scripted(
            {step: {"other": 0.55, "note": 0.45} for step in "123"}, lambda substep, tool: {**RIGHT, "text": PARAPHRASE}
        )
        planner = EGBLogits(parallel=parallel, trajectories=12)
        row = outcome(replace(built, engine=actor, planner=planner)).episode
        found.append([row[name] for name in ("error_message", "success", "branches", "branched_steps", "answer")])
        questions.append(sorted("\n".join(prompt.entries("texts")) for prompt in evaluator.asked))
    assert found[0] == found[1] == found[2]
    assert found[0][:2] == [None, agrees]
    assert questions[0] == questions[1] == questions[2]
    assert len(questions[0]) == len(set(questions[0])) == len(texts)


def test_what_is_expected_in_closed_form_is_so_by_the_rules_alone() -> None:
    for equivalence in ("rules", "judge"):
        setting, built = judged("react", limit=1)
        changed = build(setting_of(model="simulated", dataset="slate", dataset_values={"limit": 1}), BUDGET)
        compares = equivalence == "judge"
        own = replace(built, engine=changed.engine, roles=built.roles if compares else {}, compares_texts=compares)
        (row,) = rows(setting, own, built.dataset.case_ids())
        assert (row["expected_success"] is None) == (equivalence == "judge")
