"""In what role an engine is asked."""

from __future__ import annotations

from typing import Literal

Role = Literal["actor", "judge", "evaluator", "simulator", "critic", "user"]
ACTOR: Role = "actor"
JUDGE: Role = "judge"
"""Scores what a planner does with it, for the planner."""
EVALUATOR: Role = "evaluator"
"""Says for the environment which texts mean the same and what a finished trajectory is worth; no planner sees it."""
SIMULATOR: Role = "simulator"
"""Plays, for the environment, tools whose servers cannot be reached; no planner sees it."""
CRITIC: Role = "critic"
"""Reviews a plan in words before it counts, for whoever wrote it."""
USER: Role = "user"
"""Plays, for the environment, the user whom planners talk to through a tool."""
OF_WORLD = (EVALUATOR, SIMULATOR, USER)
"""Whom no planner may ask."""
ASKED: tuple[Role, ...] = (JUDGE, EVALUATOR, SIMULATOR, CRITIC, USER)
"""The roles besides the acting one: each has keys, a model and columns of its own where a setting has it."""
