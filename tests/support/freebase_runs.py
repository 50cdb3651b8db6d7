"""Gold plans on data sets of Atomic KBQA: call by call, and through a whole setting."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from grid.cells.run import Stamp, run_chunk
from grid.core.types import FINISH, RESULT
from grid.datasets.freebase.dataset import AtomicKbqa
from grid.settings.build import build
from grid.settings.config import BudgetConfig
from grid.settings.setting import cells
from grid.text import references
from tests.support.oracle import oracle_of
from tests.support.walks import Walk


def walked(dataset: AtomicKbqa, case_id: str) -> Walk:
    """The gold plan, call by call, and its last result as the answer."""
    problem = dataset.problem(case_id)
    walk_, outputs = Walk(problem.world), dict[str, Any]()
    for name, call in problem.reference.calls.items():
        assert call
        assert not walk_.resolved
        observation = walk_.make(references.resolve(call, outputs))
        assert not observation.failed, (case_id, call, observation)
        outputs[name] = observation.content
    assert problem.reference.resolution == (name,)
    assert not walk_.call(FINISH, answer=outputs[name][RESULT]).failed
    return walk_


def told(setting: Any) -> list[dict[str, Any]]:
    built = build(setting, BudgetConfig(llm_calls=100, steps=100))
    case_ids = built.dataset.case_ids()
    built = replace(built, engine=oracle_of(built.dataset, case_ids))
    chunk = list(cells(setting, built.dataset.version, case_ids, 1))
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["episodes"]
