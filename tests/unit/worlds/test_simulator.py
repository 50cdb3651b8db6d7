"""A model that plays tools: what it is asked, what becomes of its answers, and who knows of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from grid import store
from grid.cells.environment import Environment
from grid.cells.rows import ChunkResult
from grid.cells.run import Stamp, episode_of, run_chunk, solve
from grid.core.engine import ACTOR, CHOOSE, SAMPLE, SIMULATOR, Choice, Home, Prompt, Sampled
from grid.core.errors import ConfigError
from grid.core.types import Json, ToolCall, Usage, to_json
from grid.core.util import derive_seed
from grid.episode.progress import Budget
from grid.episode.requests import Message, Requests
from grid.roles.simulation import Simulating, Simulation
from grid.settings.build import Built, build
from grid.settings.check import Checked, Job, check_sweep, invalid_reason
from grid.settings.config import BudgetConfig
from grid.settings.setting import Keep, Setting, cells
from grid.store.schema import EPISODES, SPENT
from grid.text.answers import read_response
from grid.text.objects import UnreadableError
from grid.worlds.simulated import Documentation
from tests.support.configs import LABELS, job, setting_of
from tests.support.oracle import oracle_of
from tests.unit.episode.test_episode import reachable

ABOUT = Documentation(["Service: Money Changer (Finance)"], ["{'amount': 1} -> {}"])
CALL = ToolCall("convert", {"amount": 5, "to": "NOK"})
DATASET = {"_target_": "grid.datasets.stabletoolbench.StableToolBench", "limit": 3}
LEXICAL = {"_target_": "grid.engines.lexical.engine.Lexical"}
HTTP = {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": "http://127.0.0.1:1/v1", "model": "m"}
BUDGET = BudgetConfig(llm_calls=5000, steps=1000)


@dataclass
class Playing:
    """Plays tools by a rule: (prompt, how often it was asked before) to the answer's text."""

    says: Callable[[Prompt, int], str] = lambda prompt, asked: to_json({"error": "", "response": {"said": asked}})
    prompts: list[Prompt] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE, CHOOSE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "test"
    sampler: ClassVar[None] = None
    version: str = "playing"

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        asked = len(self.prompts)
        self.prompts.append(prompt)
        self.seeds.append(seed)
        await asyncio.sleep(0)
        return Sampled((self.says(prompt, asked),), Usage(llm_calls=1, input_tokens=7, output_tokens=3))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        raise AssertionError("a response is no choice")


def answers(simulation: Simulation, *calls: ToolCall) -> list[Any]:
    """The responses to calls that are made side by side."""

    async def ask() -> list[Any]:
        return list(await asyncio.gather(*(simulation.respond(call, ABOUT) for call in calls)))

    return asyncio.run(ask())


def test_equal_calls_are_played_once_whatever_the_order_of_their_arguments() -> None:
    engine = Playing()
    turned = ToolCall("convert", {"to": "NOK", "amount": 5})
    found = answers(Simulation(engine, Simulating(), 3), CALL, turned, CALL, ToolCall("convert", {"amount": 6}))
    assert found[0] == found[1] == found[2] == ("", {"said": 0})
    assert found[3] == ("", {"said": 1})
    assert len(engine.prompts) == 2


def test_what_it_is_asked_depends_on_the_call_and_the_seed_alone() -> None:
    others = [ToolCall("convert", {"amount": number}) for number in range(3)]
    engines = [Playing(), Playing(), Playing()]
    answers(Simulation(engines[0], Simulating(), 3), CALL, *others)
    answers(Simulation(engines[1], Simulating(), 3), *others[::-1], CALL)
    answers(Simulation(engines[2], Simulating(), 4), CALL)
    by_prompt = [dict(zip(map(str, engine.prompts), engine.seeds, strict=True)) for engine in engines]
    assert by_prompt[0] == by_prompt[1]
    assert len({*by_prompt[0].values()}) == 4
    assert not {*by_prompt[0].values()} & {*by_prompt[2].values()}


def test_the_question_shows_documentation_examples_and_the_call() -> None:
    engine = Playing()
    answers(Simulation(engine, Simulating(), 3), CALL)
    shown = engine.prompts[0].text()
    for part in (*ABOUT.lines, *ABOUT.examples, '{"amount": 5, "to": "NOK"}'):
        assert shown.count(part) == 1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"error": "", "response": {"rate": 1.5}}', ("", {"rate": 1.5})),
        ('```json\n{"error": "", "response": "52 crowns"}\n```', ("", "52 crowns")),
        ('{"error": "no such currency", "response": ""}', ("no such currency", "")),
        ('{"error": {"code": 404}}', ('{"code": 404}', None)),
        ('{"response": [1, 2]}', ("", [1, 2])),
        ('{"error": null, "response": null}', ("", None)),
        ('{"error": "", "response": false}', ("", False)),
    ],
)
def test_a_response_is_read(text: str, found: tuple[str, Json]) -> None:
    assert read_response(text) == found


NONSENSE = [
    "", "no idea", "{", '{"error": ""}', "[1, 2]", '{"rate": 1}', "{" * 30_000, "x" * 1_000_000,
    to_json({"error": "", "response": "x" * 1_000_000}),
    '{"response": 1} {"response": 2}', '{"error": "", "response": ' + "[" * 500 + "]" * 500 + "}",
]  # fmt: skip


@pytest.mark.parametrize("text", NONSENSE, ids=lambda text: text[:20])
def test_nonsense_is_asked_about_again_then_an_error_that_is_counted(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_response(text)
    engine = Playing(lambda prompt, asked: text)
    simulation = Simulation(engine, Simulating(max_retries=2), 3)
    assert answers(simulation, CALL, CALL) == [None, None]
    assert (simulation.failures, len(engine.prompts), len({*engine.seeds})) == (1, 3, 3)
    assert all(message.unreadable for message in simulation.requests.messages)
    second = Playing(lambda prompt, asked: text if asked == 0 else '{"response": "at last"}')
    simulation = Simulation(second, Simulating(max_retries=1), 3)
    assert answers(simulation, CALL) == [("", "at last")]
    assert simulation.failures == 0


def told(path: str, simulator: Any, planner: str = "react", budget: Budget | None = None) -> tuple[Setting, Built]:
    """The oracle on the small files, its tools played by an engine."""
    setting = setting_of({"path": path, "limit": 4}, dataset="stabletoolbench", planner=planner, retriever="oracle")
    built = build(setting, BUDGET)
    engine = oracle_of(built.dataset, built.dataset.case_ids())
    roles = {SIMULATOR: simulator} if simulator else {}
    built = replace(built, engine=engine, roles=roles, simulating=dict.fromkeys(roles, Simulating()))
    return replace(setting, labels={**setting.labels, **dict.fromkeys(roles, "playing")}), replace(
        built, budget=budget or built.budget
    )


def run(setting: Setting, built: Built) -> ChunkResult:
    chunk = list(cells(setting, built.version, built.dataset.case_ids(), 1))
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None), keep=Keep()))


def episodes(setting: Setting, built: Built) -> list[dict[str, Any]]:
    return run(setting, built).take()["episodes"]


def test_who_plays_has_columns_and_no_budget(small_stabletoolbench: str) -> None:
    engine = Playing(lambda prompt, asked: '{"response": 1}' if prompt.entries("retry") else "well,")
    rows = episodes(*told(small_stabletoolbench, engine, budget=Budget(llm_calls=6)))
    assert [(row["error_message"], row["success"], row["simulator"]) for row in rows] == [(None, True, "playing")] * 4
    assert all(row.keys() <= set(EPISODES.names) for row in rows)
    assert all(row["simulator_calls"] == 2 * row["tool_calls"] > 0 for row in rows)
    assert all(row["llm_calls"] == row["tool_calls"] + 2 for row in rows), "the finish, and an answer behind the calls"
    assert {row["simulator_failures"] for row in rows} == {0}
    plain = episodes(*told(small_stabletoolbench, None))
    of_it = ("simulator", "simulator_failures", *SPENT[SIMULATOR].values())
    assert {row[column] for row in plain for column in of_it} == {None}


@pytest.mark.parametrize("says", ["nothing to say", '{"error": "it is closed", "response": ""}', "x" * 30_000])
def test_a_tool_that_is_played_badly_fails_and_the_episode_goes_on(small_stabletoolbench: str, says: str) -> None:
    rows = episodes(*told(small_stabletoolbench, Playing(lambda prompt, asked: says)))
    assert [(row["status"], row["success"], row["tool_recall"]) for row in rows] == [("ok", False, 1.0)] * 4
    unread = not says.startswith("{")
    assert all(row["simulator_failures"] == (row["tool_calls"] if unread else 0) for row in rows)


@pytest.mark.parametrize("planner", ["zero_shot", "dfsdt", "lats"])
def test_a_call_has_one_response_for_all_planners_and_cases(small_stabletoolbench: str, planner: str) -> None:
    engines = [Playing(), Playing()]
    for engine, who in zip(engines, ("react", planner), strict=True):
        run(*told(small_stabletoolbench, engine, who))
    found = [dict(zip(map(str, engine.prompts), engine.seeds, strict=True)) for engine in engines]
    both = found[0].keys() & found[1].keys()
    assert both
    assert all(found[0][prompt] == found[1][prompt] for prompt in both)


def test_transcripts_have_it_and_no_planner_reaches_it(small_stabletoolbench: str, tmp_path: Path) -> None:
    setting, built = told(small_stabletoolbench, Playing())
    result = run(setting, built)
    store.write(tmp_path, result.take_all())
    cell, *_ = store.read(tmp_path, "episodes", ["cell_id"])["cell_id"].to_pylist()
    requests = [request for request in store.transcript(tmp_path, cell) if request]
    assert {request.role for request in requests} == {ACTOR, SIMULATOR}
    simulation = built.simulation(0)
    assert simulation
    case = built.dataset.case_ids()[0]
    problem = asyncio.run(Environment(simulation=simulation).around(built, built.dataset.problem(case)))
    episode = episode_of(built, problem, seed=3)
    trajectory = asyncio.run(solve(built, episode))
    assert simulation.requests.messages
    for way, thing in (*reachable(episode), *reachable(trajectory)):
        assert not isinstance(thing, Simulation | Requests | Playing), way
        assert not (isinstance(thing, Message) and thing.role == SIMULATOR), way


def checked(root: Path, path: str, *simulators: Any, **changes: Any) -> Checked:
    """A sweep with one job for each simulator."""
    dataset = DATASET | {"path": path} | changes
    jobs = [job(root, dataset=dataset, **({"simulator": who} if who else {})) for who in simulators]
    return check_sweep([Job(one.config, LABELS | {SIMULATOR: "who"}) for one in jobs])


def test_it_is_part_of_the_id_where_it_is_named(tmp_path: Path, small_stabletoolbench: str) -> None:
    who: Sequence[Any] = (
        None,
        {"temperature": 0.0, "max_retries": 3},
        HTTP,
        HTTP | {"temperature": 0.5},
        HTTP | {"model": "n"},
    )
    settings = checked(tmp_path, small_stabletoolbench, *who).plan.settings
    assert len(settings) == 4, "keys without a model name nobody"
    assert [SIMULATOR in setting.config for setting in settings] == [False, True, True, True]
    assert settings[1].config[SIMULATOR] == {"temperature": 0.0, "max_retries": 3, **HTTP}
    assert SIMULATOR in settings[1].code
    slate = check_sweep([Job(job(tmp_path, simulator=HTTP).config, LABELS | {SIMULATOR: "who"})])
    assert slate.unasked == ["simulator who: never asked, because no dataset of this sweep needs it"]


@pytest.mark.parametrize(
    ("simulator", "key"),
    [
        (HTTP | {"form": "digits"}, "simulator.form"),
        (HTTP | {"max_retries": -1}, "simulator.max_retries"),
        (HTTP | {"temperature": "hot"}, "simulator.temperature"),
        ({"_target_": "os.system"}, "simulator._target_"),
        ("lexical", "simulator"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(
    tmp_path: Path, small_stabletoolbench: str, simulator: Any, key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        checked(tmp_path, small_stabletoolbench, simulator)
    assert caught.value.key == key


@pytest.mark.parametrize("target", ["lexical.engine.Lexical", "simulated.engine.Simulated", "null.Null"])
def test_only_a_language_model_can_play(tmp_path: Path, small_stabletoolbench: str, target: str) -> None:
    with pytest.raises(ConfigError, match=r"conf/model/who\.yaml is not"):
        checked(tmp_path, small_stabletoolbench, {"_target_": f"grid.engines.{target}"})


def test_the_seed_of_a_call_is_the_sweeps_and_the_datasets(small_stabletoolbench: str) -> None:
    _, built = told(small_stabletoolbench, engine := Playing())
    simulation = built.simulation(11)
    assert simulation
    asyncio.run(simulation.respond(CALL, ABOUT))
    seed = derive_seed(11, "simulation", built.dataset.version)
    (message,) = simulation.requests.messages
    assert engine.seeds == [derive_seed(seed, *message.decision.split("/"))]
    assert json.loads(message.answers[0])["response"]
    assert invalid_reason(setting_of(dataset="stabletoolbench", dataset_values={"path": small_stabletoolbench})) is None
