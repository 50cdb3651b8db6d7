"""A case whose plan is diagnosed is offered its own tools, whatever pool and retriever are."""

from __future__ import annotations

import pytest

from grid.cells.run import episode_of
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from tests.support.configs import names, setting_of


@pytest.mark.parametrize("pool", [name for name in names("pool") if name != "grown"])
@pytest.mark.parametrize("retriever", ["none", "bm25"])
def test_all_and_only_its_own_tools_are_offered(pool: str, retriever: str) -> None:
    setting = setting_of(dataset="apb_synthetic", pool=pool, retriever=retriever, dataset_values={"limit": 12})
    built = build(setting, BudgetConfig())
    for case_id in built.dataset.case_ids():
        problem = built.problem(case_id, 0)
        offered = {tool.name for tool in episode_of(built, problem, 1).options(None).tools}
        assert offered == set(built.dataset.problem(case_id).own)
