"""SLATE's cases: a query, a hierarchical plan with calls and outcomes, a resolution (egb_slate §3, appendix D)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from grid.datasets.slate.drafts import Draft, DraftError
from grid.datasets.slate.records import CaseRecord
from grid.datasets.slate.shop import Shop
from grid.datasets.slate.stock import Complexity, Stock

SHARES: dict[Complexity, float] = {"simple": 0.0, "moderate": 0.1, "complex": 0.8, "advanced": 0.1}
"""Appendix D, figure 9."""
User = Literal["buyer", "seller"]


def build_cases(stocks: Sequence[Stock], shop: Shop, count: int, seed: int) -> list[CaseRecord]:
    """Draw `count` cases: users alternate, complexities come in their shares, workflows are dealt evenly.

    Raises:
        ValueError: the stock has no workflow of a kind, or one that cannot be made into a case.
    """
    rng = random.Random(f"slate-{seed}")
    of_user: dict[User, list[Complexity]] = {
        "buyer": _complexities((count + 1) // 2, rng),
        "seller": _complexities(count // 2, rng),
    }
    decks: dict[tuple[User, Complexity], Iterator[tuple[Stock, str]]] = {}
    dealt: Counter[str] = Counter()
    cases = []
    for index in range(count):
        user: User = "buyer" if index % 2 == 0 else "seller"
        complexity = of_user[user].pop()
        if (user, complexity) not in decks:
            decks[user, complexity] = _deal(stocks, user, complexity, rng)
        stock, workflow = next(decks[user, complexity])
        draws = random.Random(f"slate-{seed}-{index}")
        try:
            draft = Draft(stock, workflow, shop, draws)
            cases.append(draft.case(f"slate-{index:04d}", seed + dealt[workflow]))
        except DraftError as error:
            raise DraftError(f"{stock.query_category}, workflow {workflow}: {error}") from None
        dealt[workflow] += 1
    return cases


def _complexities(count: int, rng: random.Random) -> list[Complexity]:
    drawn: list[Complexity] = [name for name, share in SHARES.items() for _ in range(round(share * count))]
    drawn = (drawn + ["complex"] * count)[:count]
    rng.shuffle(drawn)
    return drawn


def _deal(
    stocks: Sequence[Stock], user: User, complexity: Complexity, rng: random.Random
) -> Iterator[tuple[Stock, str]]:
    """The names of the workflows of a kind in seeded order, each once before any comes again."""
    deck = [(s, n) for s in stocks for n, w in s.workflows.items() if (w.user, w.complexity) == (user, complexity)]
    if not deck:
        raise ValueError(f"the stock has no {complexity} workflow for a {user}")
    while True:
        yield from rng.sample(deck, len(deck))
