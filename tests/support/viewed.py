"""A small results folder with everything that the viewer shows, and a hostile one, whose every text is a script."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grid import store
from grid.core.types import to_json

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
PLANNERS = ("react", "egb_logits", "tooltree")
CASES, TRIALS = 4, 2
EVIL = (
    "<script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"
    "<svg onload=\"document.title='ran'\">'\"></title></pre></a></svg></select>"
    "{{4321*1234}}{% raw %}javascript:document.title='ran'\x1b[31m\u202e"
)
"""A text that runs in a page that does not escape it, in any place."""


def solved(planner: str, case: int, trial: int) -> bool:
    """Which cells are resolved: react's first two cases, tooltree's last two, egb_logits' first trials."""
    return {"react": case < 2, "tooltree": case >= 2, "egb_logits": trial == 0}[planner]


def cell(planner: str, case: int, trial: int) -> str:
    return f"{planner}-{case}-{trial}"


def write(root: Path, evil: str = "", model: str = "small", first: int = 0, count: int = CASES) -> None:
    """Cases from `first` on; with `evil` every text that a model, a data set or a user may have written is that."""
    cells = [(planner, case, trial) for planner in PLANNERS for case in range(first, first + count)
             for trial in range(TRIALS)]  # fmt: skip
    rows: dict[str, list[dict[str, Any]]] = {
        "cases": [_case(case, evil) for case in range(first, first + count)],
        "sections": [{"digest": "s0", "kind": evil or "task", "entries": [evil or "Query: rank"], "options": [evil]}],
        "messages": [_message(*one, evil) for one in cells],
        "steps": [row for one in cells for row in _steps(*one, evil)],
        "nodes": [row for one in cells if one[0] == "tooltree" for row in _nodes(*one, evil)],
        "improvements": [_improvement(*one) for one in cells if one[0] == "tooltree"],
        "episodes": [episode(*one, evil=evil, model=model) for one in cells],
    }
    store.write(root, rows)


def episode(
    planner: str, case: int, trial: int, evil: str = "", model: str = "small", **further: Any
) -> dict[str, Any]:
    """A row of `episodes`."""
    name, success = cell(planner, case, trial), solved(planner, case, trial)
    tree = planner == "tooltree"
    return {
        "cell_id": name + evil, "cell_key": name + evil, "setting_id": planner, "sweep": "viewed",
        "model": evil or model, "engine": "simulated", "planner": planner + evil, "dataset": evil or "made_up",
        "dataset_version": "made-up-1", "robustness": evil or "none", "retriever": evil or "bm25", "pool": "all",
        "refine": "none", "memory": "none",
        "case_id": f"case-{case}{evil}", "case_digest": f"d{case}", "cluster": f"c{case // 2}{evil}",
        "trial": trial, "attempt_id": "a0", "status": "ok", "error_kind": evil or None, "error_message": evil or None,
        "success": success, "depth": 2 + case, "n_steps": 2, "n_messages": 1, "n_nodes": 4 if tree else 0,
        "n_improvements": 1 if tree else 0, "tool_calls": 2, "branches": 2, "input_tokens": 100, "output_tokens": 10,
        "llm_calls": 2, "forward_passes": 0, "answer": evil or "42", "config": "{}", "code": "c",
        "budget_reached": evil or None, "created_at": NOON, **further,
    }  # fmt: skip


def _case(case: int, evil: str) -> dict[str, Any]:
    call = {
        "substep_id": "1.1",
        "tool": evil or "rank",
        "arguments": to_json({evil or "list": evil or "L1", "most": 3}),
    }
    return {
        "digest": f"d{case}", "case_id": f"case-{case}{evil}", "domain": evil or f"domain-{case % 2}",
        "query": evil or f"Rank list {case}", "messages": [evil or "And then?"], "followed": True, "ordered": True,
        "outline": [{"id": "1.1", "goal": "g", "text": evil or "Rank it"},
                    {"id": "1.2", "goal": "g", "text": "Say so"}],
        "calls": [call, {"substep_id": "1.2", "tool": None, "arguments": None}], "answer": evil or "42",
    }  # fmt: skip


def _steps(planner: str, case: int, trial: int, evil: str) -> Iterator[dict[str, Any]]:
    right = solved(planner, case, trial)
    tool = evil or ("rank" if right else "sort")
    given = to_json({evil or "list": evil or "L1", "most": 3 if right else 4, "since": evil or "today"})
    first = {
        "cell_id": cell(planner, case, trial) + evil, "attempt_id": "a0", "branch": 0, "step": 0, "substep_id": "1.1",
        "substep": evil or "Rank it", "on_path": True, "tool_required": True, "reference_tool": evil or "rank",
        "chosen_tool": tool, "thought": evil or "It must be ranked.", "arguments": given,
        "written": f'{{"tool": {to_json(tool)}, "arguments": {given}}}', "observation": evil or '{"ranked": true}',
        "failed": not right, "entropy": 0.325, "n_options": 2, "replaced": evil or None,
        "options": [{"tool": tool, "probability": 0.9}, {"tool": evil or "no_tool", "probability": 0.1}],
        "tool_matches": right, "reference_rank": 0, "input_tokens": 50, "output_tokens": 5,
    }  # fmt: skip
    yield first
    yield {**first, "step": 1, "substep_id": "1.2", "chosen_tool": "no_tool", "written": None, "arguments": None,
           "observation": None, "failed": None, "options": []}  # fmt: skip
    yield {**first, "branch": 1, "on_path": False, "chosen_tool": evil or "guess"}


def _nodes(planner: str, case: int, trial: int, evil: str) -> Iterator[dict[str, Any]]:
    for place, (label, on_path, pruned) in enumerate(
        [("0", True, None), ("0.0", True, None), ("0.1", False, evil or "pre"), ("0.0.0", True, None)]
    ):
        yield {
            "cell_id": cell(planner, case, trial) + evil, "attempt_id": "a0", "node": label,
            "parent": label.rpartition(".")[0] or None, "depth": label.count("."), "order": place, "execution": place,
            "chosen_tool": evil or f"tool_{place}", "written": evil or '{"tool": "rank"}', "failed": False,
            "share": 0.5, "r_pre": 0.25, "r_post": 0.75, "visits": 3, "value": 0.5, "pruned": pruned,
            "on_path": on_path, "input_tokens": 1, "output_tokens": 1,
        }  # fmt: skip


def _improvement(planner: str, case: int, trial: int) -> dict[str, Any]:
    return {"cell_id": cell(planner, case, trial), "attempt_id": "a0", "improvement": 0, "node": "0.0", "value": 0.5,
            "success": False, "n_steps": 1, "tool_calls": 1, "llm_calls": 2, "forward_passes": 0, "input_tokens": 3,
            "output_tokens": 4, "seconds": 0.5}  # fmt: skip


def _message(planner: str, case: int, trial: int, evil: str) -> dict[str, Any]:
    return {"cell_id": cell(planner, case, trial) + evil, "attempt_id": "a0", "message": 0, "role": "actor",
            "decision": evil or "pass0/1.1", "request": "sample", "wanted": "tool_call", "seed": 1, "n": 1,
            "temperature": 0.0, "max_tokens": 100, "prompt": ["s0"], "answers": [evil or '{"tool": "rank"}'],
            "probabilities": None, "unreadable": [{"place": 0, "why": evil}] if evil else [],
            "altered": evil or None}  # fmt: skip
