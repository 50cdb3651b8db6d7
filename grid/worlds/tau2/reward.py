"""A task's reward: the product over what it rests on, each part 0 or 1 (τ²-bench; as the package's evaluators)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

from grid.worlds.talking import Said
from grid.worlds.tau2.package import Domain
from grid.worlds.tau2.running import run
from grid.worlds.tau2.state import PROPERLY, Databases, Talk
from grid.worlds.tau2.tasks import BASES, Assertion, Basis, Task

Parts: TypeAlias = Mapping[Basis, float | None]
"""By what a reward rests on 0 or 1; None where a model has to tell."""


def parts(domain: Domain, task: Task, gold: Databases, talk: Talk) -> Parts:
    """The parts that a task's reward rests on, in the order of BASES; `gold` are the databases behind its actions."""
    return {basis: _part(basis, domain, task, gold, talk) for basis in BASES if basis in task.basis}


def reward(found: Parts, talk: Talk) -> float | None:
    """The product, 0 where the run did not end properly; None where a part is not known."""
    if talk.ended not in PROPERLY:
        return 0.0
    known = [part for part in found.values() if part is not None]
    return prod(known) if len(known) == len(found) else None


def same_databases(domain: Domain, gold: Databases, talk: Talk) -> bool | None:
    """Whether a run that ended properly leaves the databases as the gold actions do.

    None for telecom: there even the gold actions' own calls leave others, as bills get numbers at random.
    """
    return None if domain.name == "telecom" else talk.ended in PROPERLY and talk.databases.same(gold)


def told(information: Sequence[str], said: Sequence[Said]) -> bool:
    """Whether the agent said all of it: each a part of one of its messages, in lower case and without commas there."""
    messages = [message.text.lower().replace(",", "") for message in said if not message.by_user]
    return all(any(one.lower() in message for message in messages) for one in information)


def holds(domain: Domain, talk: Talk, assertion: Assertion) -> bool:
    """Whether an assertion holds; not where its function breaks or returns no truth value."""
    found = run(domain, talk.databases, assertion)
    return not found.failed and found.result is assertion.value


def _part(basis: Basis, domain: Domain, task: Task, gold: Databases, talk: Talk) -> float | None:
    match basis:
        case "DB":
            return float(talk.databases.same(gold))
        case "ENV_ASSERTION":
            return float(all(holds(domain, talk, assertion) for assertion in task.assertions))
        case "ACTION":
            called = [(call.tool, call.arguments) for call in talk.calls]
            return float(all(any(action.matches(*call) for call in called) for action in task.actions))
        case "COMMUNICATE":
            return float(told(task.communicate, talk.said))
        case "NL_ASSERTION":
            return None if task.nl_assertions else 1.0
