"""A limit of a model on an answer's tokens that is below what a planner asks for: told, or refused, before a sweep."""

from __future__ import annotations

from collections.abc import Mapping

from grid.engines.base import Engine
from grid.errors import ConfigError
from grid.planners.base import Planner


def cut(engine: Engine, planner: Planner, labels: Mapping[str, str]) -> str | None:
    """What follows for a planner's answers from the limit of its model; None where it is no lower than the planner's.

    Raises:
        ConfigError: the planner plans all calls in one answer. A limit ends its plans and not the single calls of
            another planner, so that the two could not be compared.
    """
    most, wanted = getattr(engine, "max_tokens", None), getattr(planner, "max_tokens", None)
    if most is None or wanted is None or most >= wanted:
        return None
    if getattr(planner, "plans_ahead", False):
        allowed = (
            f"at least planner.max_tokens={wanted}, since {labels['planner']} plans all calls in one answer; or set "
            f"planner.max_tokens={most} for all planners of the sweep"
        )
        raise ConfigError("model.max_tokens", most, allowed)
    return (
        f"warning: model.max_tokens={most} of {labels['model']} is below planner.max_tokens={wanted} of "
        f"{labels['planner']}: answers are cut off at {most} tokens"
    )
