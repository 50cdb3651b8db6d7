"""A limit of a model on an answer's tokens that is below what a planner asks for: told, or refused, before a sweep."""

from __future__ import annotations

from collections.abc import Mapping

from grid.core.engine import Engine
from grid.core.errors import ConfigError
from grid.episode.episode import Planner


def cut(engine: Engine, planner: Planner, labels: Mapping[str, str]) -> str | None:
    """What follows for a planner's answers from the limits of its model; None where these are no lower than its own.

    Raises:
        ConfigError: the planner plans all calls in one answer. A limit ends its plans and not the single calls of
            another planner, so that the two could not be compared, unless both fit theirs (`planner.fit_tokens`).
    """
    most, wanted = getattr(engine, "max_tokens", None), getattr(planner, "max_tokens", None)
    if wanted is None:
        return None
    if getattr(planner, "fit_tokens", False):
        return _fitted(engine, wanted, labels)
    if most is None or most >= wanted:
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


def _fitted(engine: Engine, wanted: int, labels: Mapping[str, str]) -> str | None:
    """A line on what bounds answers of which as many tokens are wanted; None of an engine that counts none."""
    most, context = getattr(engine, "max_tokens", None), getattr(engine, "context", None)
    if most is None:
        return None
    lower = f"by model.max_tokens={most} of {labels['model']} (model.max_tokens={wanted}: by its context alone), and "
    size = f"of {context} tokens " if context else ""
    return (
        f"planner.max_tokens={wanted} of {labels['planner']} is bounded {lower if most < wanted else ''}by what the "
        f"context {size}of {labels['model']} leaves beside the prompt (planner.fit_tokens); transcripts have each "
        "request's own"
    )
