"""Who says which names of a schema were meant: the judge that forgiving tools ask, its failures and its costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from grid.cells.rows import summed
from grid.cells.run import Stamp, run_chunk
from grid.core.engine import JUDGE, Prompt, Sampled
from grid.core.errors import ConfigError
from grid.core.types import ToolCall, Usage
from grid.episode.judging import Judging
from grid.roles.grounding import NONE, GroundingByModel
from grid.settings.build import build
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from grid.settings.parts import parts_of
from grid.settings.roles import with_roles
from grid.settings.setting import cells
from tests.support.configs import setting_of, yaml
from tests.support.oracle import oracle_of

CALL = ToolCall("QueryAttr", {"entities": "$0", "key": "inhabitants"})
NAMES = ["population", "area"]


@dataclass
class Scripted:
    """Answers the same text to everything; one completion of ten tokens each."""

    text: str
    prompts: list[Prompt] = field(default_factory=list)
    provides = frozenset({"sample"})
    name = "scripted"
    home = "task"
    sampler = None

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        self.prompts.append(prompt)
        return Sampled((self.text,) * n, Usage(llm_calls=n, output_tokens=10 * n))


def asked(text: str, times: int = 1) -> tuple[GroundingByModel, Scripted, list[str | None]]:
    engine: Any = Scripted(text)
    judge = GroundingByModel(engine, Judging(max_retries=1), seed=0)

    async def choices() -> list[str | None]:
        return list(await asyncio.gather(*(judge.choose("How many?", CALL, "key", NAMES) for _ in range(times))))

    return judge, engine, asyncio.run(choices())


@pytest.mark.parametrize(
    ("answer", "chosen"), [('{"best": 0}', "population"), ('{"best": 1}', "area"), ('{"best": 2}', None)]
)
def test_it_names_one_of_the_candidates_or_none(answer: str, chosen: str | None) -> None:
    judge, engine, found = asked(answer)
    assert found == [chosen]
    assert judge.failures == 0
    shown = "\n".join(line for section in engine.prompts[0].sections for line in section.lines())
    for text in ("How many?", "inhabitants", "population", NONE, "in doubt"):
        assert text in shown


@pytest.mark.parametrize("answer", ["", "population, I think", '{"best": 7}', '{"best": "area"}', "[" * 10_000])
def test_nonsense_replaces_nothing_and_is_counted(answer: str) -> None:
    judge, engine, found = asked(answer)
    assert found == [None]
    assert judge.failures == 1
    assert len(engine.prompts) == 2  # asked again once


def test_the_same_question_is_asked_once_and_costs_are_the_judges() -> None:
    judge, engine, found = asked('{"best": 0}', times=5)
    assert found == ["population"] * 5
    assert len(engine.prompts) == 1
    planners = {JUDGE: Usage(llm_calls=2, output_tokens=3)}
    assert summed([planners, judge.requests.spent]) == {JUDGE: Usage(llm_calls=3, output_tokens=13)}


def config(asks: bool, **named: object) -> dict[str, Any]:
    part = {"_target_": "grid.robustness.schema_matching.ToolsForgiving", "judge": asks}
    return {
        "model": {"_target_": "grid.engines.null.Null"},
        "planner": {"_target_": "grid.planners.horizon.SingleStepHorizon"},
        "dataset": {"_target_": "grid.datasets.kqa.dataset.KqaSynthetic"},
        "robustness": {"tools_forgiving": part},
        "retriever": {"_target_": "grid.retrievers.scored.BM25"},
        "pool": {"_target_": "grid.pools.whole.Whole"},
        **named,
    }


def test_a_judge_that_nobody_names_is_an_error_before_the_sweep() -> None:
    with pytest.raises(ConfigError, match=r"robustness\.tools_forgiving\.judge"):
        with_roles(config(True))
    named = {
        "judge": {"_target_": "grid.engines.simulated.engine.Simulated"}
    }  # it is told references: it examines nothing
    found: Sequence[str] = list(with_roles(config(True, **named)))
    assert "judge" in found
    assert "judge" not in with_roles(config(False, **named))
    assert parts_of(config(True)).tools_ask == "tools_forgiving.judge"
    assert parts_of(config(False)).tools_ask is None


class Shouting:
    """Makes another engine's calls with keys and relations in capitals, which no schema has."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def sample(self, *given: Any, **how: Any) -> Sampled:
        answers = await self._inner.sample(*given, **how)
        texts = [json.dumps(_shouted(json.loads(text))) for text in answers.completions]
        return Sampled(tuple(texts), answers.usage)


def _shouted(value: Any) -> Any:
    if isinstance(value, dict):
        loud = ("key", "relation")
        return {name: item.upper() if name in loud else _shouted(item) for name, item in value.items()}
    return [_shouted(item) for item in value] if isinstance(value, list) else value


@pytest.mark.long
@pytest.mark.parametrize(
    ("judge", "answer"),
    [(False, ""), (True, '{"best": 0}'), (True, '{"best": 99}')],
    ids=["alone", "judge", "nonsense"],
)
def test_what_was_replaced_and_what_the_judge_cost_is_in_the_rows(judge: bool, answer: str) -> None:
    setting = setting_of(
        dataset="kqa_synthetic", planner="sh", robustness="tools_forgiving", dataset_values={"limit": 12}
    )
    if judge:
        setting.config["robustness"]["tools_forgiving"]["judge"] = True
        setting = replace(setting, config=with_roles({**setting.config, "judge": yaml("model", "lexical")}))
    built = build(setting, BudgetConfig(llm_calls=200, steps=60))
    case_ids = built.dataset.case_ids()
    actor: Any = Shouting(oracle_of(built.dataset, case_ids))
    roles: Any = {"judge": Scripted(answer)} if judge else {}
    built = replace(built, engine=actor, roles=roles)
    chunk = list(cells(setting, built.dataset.version, case_ids, 1))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()
    episodes, nonsense = rows["episodes"], "99" in answer
    assert {row["error_kind"] for row in episodes} <= {None, "model"}
    replaced = sum(row["replaced_arguments"] for row in episodes)
    told = [json.loads(row["replaced"]) for row in rows["steps"] if row["replaced"]]
    assert replaced == sum(map(len, told))
    assert (replaced == 0) == nonsense
    assert all(given == taken.upper() != taken for found in told for given, taken in found.values())
    assert sum(row["wrongly_replaced_arguments"] for row in episodes) == 0
    if not judge:
        assert all(row["success"] for row in episodes)
    assert {row["judge_calls"] is None for row in episodes} == {not judge}
    assert {row["judge_failures"] is None for row in episodes} == {not judge}
    if judge:
        assert (
            sum(row["judge_output_tokens"] for row in episodes) == 10 * sum(row["judge_calls"] for row in episodes) > 0
        )
        assert (sum(row["judge_failures"] for row in episodes) > 0) == nonsense


def test_a_judge_that_is_told_references_cannot_say_what_was_meant() -> None:
    setting = setting_of(dataset="kqa_synthetic", planner="sh", robustness="tools_forgiving")
    part = {**setting.config["robustness"]["tools_forgiving"], "judge": True}
    changed = {**setting.config, "robustness": {"tools_forgiving": part}, "judge": yaml("model", "simulated")}
    setting = replace(setting, config=with_roles(changed), labels={**setting.labels, "judge": "simulated"})
    assert "which names are meant" in str(invalid_reason(setting))
