"""What parts of a setting ask models for is what they declare, whatever their keys are called."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from grid.core.engine import EVALUATOR, JUDGE
from grid.core.errors import ConfigError
from grid.core.problem import PLANS, TEXTS
from grid.settings import parts
from grid.settings.make import make
from grid.settings.parts import parts_of
from grid.settings.roles import with_roles
from tests.support.configs import yaml

MODEL = {"_target_": "grid.engines.null.Null"}


def config(**given: Any) -> dict[str, Any]:
    groups = {group: yaml(group, name) for group, name in (("retriever", "bm25"), ("pool", "all"))}
    data, planner = {"_target_": "of.a.Plugin", "sameness": "model"}, yaml("planner", "react")
    return groups | {"model": MODEL, "planner": planner, "dataset": data, "robustness": {}} | given


@pytest.mark.parametrize("asked", [TEXTS, PLANS])
def test_a_plugins_own_key_has_an_evaluator_asked(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = SimpleNamespace(provides=frozenset[str](), asks={asked: "sameness"}, outline="hidden")
    monkeypatch.setattr(parts, "dataset_of", lambda key: data)
    with pytest.raises(ConfigError, match=r"dataset\.sameness='model'"):
        with_roles(config())
    assert EVALUATOR in with_roles(config(evaluator=MODEL))
    found = parts_of(config())
    assert (found.compares_texts, found.judges_plans) == (("sameness", None) if asked == TEXTS else (None, "sameness"))


def test_one_that_declares_nothing_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    data = SimpleNamespace(provides=frozenset[str](), outline="hidden")
    monkeypatch.setattr(parts, "dataset_of", lambda key: data)
    found = with_roles(config(dataset={"_target_": "of.a.Plugin", "equivalence": "judge", "scorer": "judge"}))
    assert not {EVALUATOR, JUDGE} & found.keys()


@dataclass(frozen=True)
class Doubting:
    """A plugin's robustness setting whose tools ask the judge."""

    needs: frozenset[str] = frozenset()
    asks: Any = None


def test_tools_of_a_plugins_setting_ask_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make
    asking = Doubting(asks={JUDGE: "doubt"})
    monkeypatch.setattr(parts, "make", lambda key, *more: asking if key == "robustness.mine" else made(key, *more))
    with pytest.raises(ConfigError, match=r"robustness\.mine\.doubt"):
        with_roles(config(dataset=yaml("dataset", "null_cases"), robustness={"mine": {}}))


def test_settings_share_a_data_set_and_nothing_that_may_remember() -> None:
    one, other = (parts_of(config(dataset=yaml("dataset", "null_cases"))) for _ in range(2))
    assert one.dataset is other.dataset
    assert one.planner is not other.planner
