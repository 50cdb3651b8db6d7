"""What docs/planner.md shows runs as it stands there: a planner, paid for what it asks, and a robustness setting."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from grid import plugins
from grid.contracts.trying import problem, row
from tests.support.plugins import standing_in, write

PAGE = Path(__file__).parents[3] / "docs" / "planner.md"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    planner, setting = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    return write(
        tmp_path,
        {
            "mylab/__init__.py": "",
            "mylab/planners/__init__.py": "",
            "mylab/planners/twice.py": planner,
            "mylab/robustness/__init__.py": "",
            "mylab/robustness/closed.py": setting,
            "mylab/conf/robustness/closed.yaml": "closed:\n  _target_: mylab.robustness.closed.Closed\n",
            "mylab/conf/planner/twice.yaml": "# The second of two answers.\n_target_: mylab.planners.twice.Twice\n",
        },
    )


def ran(planner: str) -> dict[str, Any]:
    return row("mylab", planner=planner, dataset="slate", model="simulated")


def test_it_asks_twice_for_each_step(lab: Path) -> None:
    with standing_in(lab):
        plugins.allow(["mylab"])
        twice, once = ran("twice"), ran("react")
        assert twice["status"] == once["status"] == "ok", twice["error_message"]
        per_step = [found["llm_calls"] / found["n_steps"] for found in (twice, once)]
    assert per_step[0] >= 2 * per_step[1] - 1e-9


def test_each_result_says_what_the_setting_adds(lab: Path) -> None:
    with standing_in(lab):
        plugins.allow(["mylab"])
        plain, noted = (problem("mylab", dataset="slate", robustness=name) for name in ("none", "closed"))
        call = next(call for call in plain.reference.calls.values() if call)
        before, after = (asyncio.run(found.world.apply(found.world.start(), call))[1] for found in (plain, noted))
    assert after.content == {**before.content, "notice": "Closed on Sunday."}
