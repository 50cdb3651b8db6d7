"""Constraints that no chain can keep to (agent_planning_benchmark B.4.3), each with its sentence."""

from __future__ import annotations

import random
from collections.abc import Sequence

from grid.datasets.apb_synthetic.draft import Draft
from grid.datasets.apb_synthetic.stock import Category, slots
from grid.worlds.programs.model import Constraint


def contradictions(draft: Draft, rng: random.Random) -> Sequence[tuple[Constraint, ...]]:
    """One of each way that the case allows: an order in a circle, too few calls, a needed function forbidden or down.

    All constraints of a way have its whole sentence.
    """
    frames, functions = draft.frames, draft.program.functions

    def said(texts: Sequence[str], **names: str) -> str:
        text = rng.choice(texts)
        for slot, function in names.items():
            text = text.replace("{" + slot + "}", draft.category.functions[function][3])
        return text

    one = rng.choice(functions)
    text, down = said(frames.forbidden, doing=one), said(frames.offline, doing=one)
    found: list[tuple[Constraint, ...]] = [
        (Constraint("forbid_function", (one,), text),),
        (Constraint("require_function", (one,), down), Constraint("forbid_function", (one,), down)),
    ]
    circles = [(first, then) for first in functions for then in functions if needs(draft.category, then, first)]
    if circles:
        first, then = rng.choice(circles)
        text = said(frames.cycle, first=first, then=then)
        found.append((Constraint("before", (then, first), text),))
    repeated = [name for name in functions if draft.count(name) > 1]
    if repeated:
        name = rng.choice(repeated)
        most = draft.count(name) - 1
        text = said(frames.too_few, doing=name).replace("{n}", frames.number_words[most])
        found.append((Constraint("at_most", (name, str(most)), text),))
    return found


def needs(category: Category, function: str, other: str) -> bool:
    """Whether every call of a function takes what only the other one finds."""
    for slot in slots(category.functions[function][0]):
        makers = [name for name, (_, gives, _, _) in category.functions.items() if slots(gives)[0].type == slot.type]
        if makers == [other] and category.types[slot.type].draw is None:
            return True
    return False
