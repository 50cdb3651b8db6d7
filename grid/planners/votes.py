"""Majority vote over sampled actions, and the entropy of its distribution (egb_slate algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from grid.core.types import OptionProbability, Usage
from grid.episode.acting import Action, Decision


def entropy(probabilities: Iterable[float]) -> float:
    """−Σ p ln p in nats; a term with p = 0 counts as 0."""
    return -math.fsum(p * math.log(p) for p in probabilities if p > 0) + 0.0


def vote(actions: list[Action], usage: Usage) -> Decision:
    """The first action with the majority's tool, and the tools' shares of the votes, highest first.

    Ties go to the tool that was sampled earlier. Unreadable actions count among the m actions and form one outcome in
    the entropy, but they cannot win and are not alternatives to branch on. If all actions are unreadable, the decision
    is unreadable and has no entropy.
    """
    calls: dict[str, list[Action]] = {}
    for action in actions:
        if action.unreadable is None:
            calls.setdefault(action.tool, []).append(action)
    if not calls:
        return Decision(actions[0], usage)
    ranked = sorted(calls, key=lambda tool: -len(calls[tool]))
    options = tuple(OptionProbability(tool, len(calls[tool]) / len(actions)) for tool in ranked)
    unreadable = sum(action.unreadable is not None for action in actions) / len(actions)
    return Decision(
        action=calls[ranked[0]][0],
        usage=usage,
        selected=ranked[0],
        options=options,
        entropy=entropy([*(option.probability for option in options), unreadable]),
        calls=calls,
    )
