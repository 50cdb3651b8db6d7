"""A results folder as large as wanted, in files as compaction leaves them: what the viewer's benchmark looks at."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from grid.store.joined import map_array
from grid.store.schema import COSTS, EPISODES, SCORES, TABLES
from grid.store.writing import new_file

PLANNERS = ("react", "zero_shot", "egb_logits", "egb_names", "tooltree", "lats", "mcts", "cot", "direct", "plan_first")
TRIALS, STEPS = 5, 4
AGAIN = 100
"""Cells that were run a second time, and then succeeded."""
_GROUP, _GROUPS = 65_536, 4  # rows of a row group and row groups of a file, as compaction makes them
_CHUNK = 200  # cells of a try
_NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
_MIX = 0x9E3779B97F4A7C15  # odd: another number for each, and none in order

Places = npt.NDArray[np.int64]
Made = dict[str, Any]


def write(root: Path, episodes: int, seed: int = 0) -> None:
    """A sweep of ten planners and five trials on as many cases as that takes; four decisions an episode."""
    rng = np.random.default_rng(seed)
    cases = episodes // (len(PLANNERS) * TRIALS)
    count = cases * len(PLANNERS) * TRIALS
    skill = rng.uniform(0.2, 0.8, cases)
    success = rng.random(count) < skill[_case_of(np.arange(count), cases)]
    _files(root, "cases", cases, _cases)
    _files(root, "steps", count * STEPS, lambda places: _steps(places, cases))
    _files(root, "episodes", count, lambda places: _episodes(places, cases, success[places]))
    second = min(AGAIN, count)
    _files(root, "episodes", second, lambda places: _episodes(places, cases, np.ones(len(places), dtype=bool), hours=1))


def name_of(place: int) -> str:
    """The id of a cell by its place."""
    return f"{(place + 1) * _MIX % 2**64:016x}"


def _case_of(places: Places, cases: int) -> Places:
    return places // TRIALS % cases


def _files(root: Path, table: str, count: int, made: Callable[[Places], Made]) -> None:
    for start in range(0, count, _GROUP * _GROUPS):
        with new_file(root, table) as file:
            for first in range(start, min(start + _GROUP * _GROUPS, count), _GROUP):
                places = np.arange(first, min(first + _GROUP, count))
                columns = made(places)
                schema = TABLES[table]
                file.write(
                    pa.table(
                        [
                            columns[field.name]
                            if isinstance(columns.get(field.name), pa.Array)
                            else pa.array(columns[field.name], field.type)
                            if field.name in columns
                            else pa.nulls(len(places), field.type)
                            for field in schema
                        ],
                        schema,
                    )
                )


def _episodes(places: Places, cases: int, success: npt.NDArray[np.bool_], hours: int = 0) -> Made:
    count, case = len(places), _case_of(places, cases)
    failed = (places % 97 == 0) & ~success
    planner = [PLANNERS[place] for place in places // (cases * TRIALS)]
    names = [name_of(int(place)) for place in places]
    labels = {
        "sweep": "large", "model": "made-up", "engine": "simulated", "dataset": "made_up", "robustness": "none",
        "dataset_version": "made-up-1", "retriever": "bm25", "pool": "all", "refine": "none", "config": "{}",
        "memory": "none", "code": "made-up", "created_at": _NOON + dt.timedelta(hours=hours), "n_steps": STEPS,
        "n_messages": 0, "n_nodes": 0, "n_improvements": 0, "tool_calls": STEPS, "resolved_checks": 0, "branches": 1,
    }  # fmt: skip
    scores = {"solvable": 1.0, "tool_match_rate": 0.8, "action_accuracy": 0.9}
    spent = [{"llm_calls": 4, "output_tokens": 100, "input_tokens": 1_000 + place % 500} for place in places.tolist()]
    return {
        **{name: [value] * count for name, value in labels.items()},
        "cell_id": names,
        "cell_key": names,
        "setting_id": planner,
        "planner": planner,
        "case_id": [f"case-{one:06}" for one in case],
        "case_digest": [f"{one:032x}" for one in case],
        "cluster": [f"template-{one % 500}" for one in case],
        "trial": places % TRIALS,
        "attempt_id": _attempts(places, hours),
        "status": np.where(failed, "failed", "ok"),
        "error_kind": [("timeout" if one else None) for one in failed],
        "budget_reached": [(None if place % 31 else "steps") for place in places],
        "success": success,
        "depth": 2 + case % 5,
        SCORES: map_array([scores] * count, EPISODES.field(SCORES).type),
        COSTS: map_array([{"actor": one} for one in spent], EPISODES.field(COSTS).type),
    }


def _steps(places: Places, cases: int) -> Made:
    cells, step = places // STEPS, places % STEPS
    case, right = _case_of(cells, cases), cells % 3 > 0
    calls = [f'{{"list_id": "OUTPUT_FROM_STEP_1.0.list_id", "since": "2023-09-04", "case": {one}}}' for one in case]
    chosen = np.where(right, "rank_by_ratings", "rank_by_price")
    options = [{"tool": "rank_by_ratings", "probability": 0.8}, {"tool": "rank_by_price", "probability": 0.2}]
    return {
        "cell_id": [name_of(int(cell)) for cell in cells],
        "attempt_id": _attempts(cells, 0),
        "branch": np.zeros(len(places), dtype=int),
        "step": step,
        "substep_id": [f"1.{one}" for one in step],
        "substep": [f"Put what is left of case {one} in order" for one in case],
        "on_path": np.ones(len(places), dtype=bool),
        "tool_required": np.ones(len(places), dtype=bool),
        "reference_tool": ["rank_by_ratings"] * len(places),
        "chosen_tool": chosen,
        "thought": [f"Step 1.{one} of case {number} takes a tool." for one, number in zip(step, case, strict=True)],
        "arguments": calls,
        "written": [f'{{"tool": "{tool}", "arguments": {call}}}' for tool, call in zip(chosen, calls, strict=True)],
        "observation": [f'{{"list_id": "{hashlib.blake2b(place.tobytes()).hexdigest()}"}}' for place in places],
        "failed": np.zeros(len(places), dtype=bool),
        "entropy": np.full(len(places), 0.5),
        "n_options": np.full(len(places), 2),
        "options": [options] * len(places),
        "tool_matches": right,
        "input_tokens": np.full(len(places), 250),
        "output_tokens": np.full(len(places), 25),
    }


def _attempts(cells: Places, hours: int) -> list[str]:
    return [f"{hours}{cell // _CHUNK:031x}" for cell in cells]


def _cases(places: Places) -> Made:
    count = len(places)
    steps = [f"1.{step}" for step in range(STEPS)]
    return {
        "digest": [f"{place:032x}" for place in places],
        "case_id": [f"case-{place:06}" for place in places],
        "domain": [f"domain-{place % 12}" for place in places],
        "query": [f"Rank what is written of case {place}, please." for place in places],
        "messages": [[]] * count,
        "outline": [[{"id": one, "goal": "Rank", "text": "Put what is left in order"} for one in steps]] * count,
        "calls": [
            [
                {"substep_id": one, "tool": "rank_by_ratings", "arguments": f'{{"list_id": "L", "case": {place}}}'}
                for one in steps
            ]
            for place in places
        ],
        "followed": [True] * count,
        "ordered": [True] * count,
    }
