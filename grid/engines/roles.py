"""In what role an engine is asked."""

from __future__ import annotations

from typing import Literal

Role = Literal["actor", "judge", "evaluator"]
ACTOR: Role = "actor"
JUDGE: Role = "judge"
"""Scores what a planner does with it, for the planner."""
EVALUATOR: Role = "evaluator"
"""Says for the environment which texts mean the same and what a finished trajectory is worth; no planner sees it."""
ASKED: tuple[Role, ...] = (JUDGE, EVALUATOR)
"""The roles besides the acting one: each has keys, a model and columns of its own where a setting has it."""
