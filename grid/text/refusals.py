"""Whether a plan declines a request: one rule for whoever scores plans (agent_planning_benchmark §4.2.3, C.4, C.6).

A plan declines by the status REJECT or, where it calls nothing, by words that say openly that the request cannot be
carried out; where information is missing a question back does as well. A judge reads the words; who has none reads
them by rule: a negated ability, a lack, or a refusal by name.
"""

from __future__ import annotations

import re

from grid.core.chains import Chain

MISSING_INFORMATION = "missing_information"
"""The kind of request of which a question back is right (figure 41)."""
MOST_CALLS = 1
"""Of a plan that may pass with a judge: "only a termination/reporting step" (figure 41)."""
_CANNOT = (
    r"\bcan\s?not\b", r"\b(?:ca|could)n'?t\b", r"\bcould not\b", r"\b(?:unable|not able) to\b",
    r"\b(?:im|not |in|un|not be )(?:possible|feasible|solvable)\b", r"\b(?:refus|reject|declin)(?:e[ds]?|s|ed|ing)\b",
)  # fmt: skip
_LACKS = (
    r"\bmissing\b", r"\b(?:unavailable|inaccessible|unspecified)\b", r"\black(?:s|ing)?\b", r"\boffline\b",
    r"\bnot (?:yet |been )*(?:available|accessible|provided|given|told|attached|supplied|specified|included|stated)\b",
    r"\b(?:do|does|did)(?: not|n't) (?:have|know|see)\b", r"\bnone of the(?:se)?(?: \w+)? tools\b",
    r"\bno (?:\w+ ){0,2}tools? (?:that|which|can|for|to|is|are|here|among|offered|available|does|supports?)\b",
)  # fmt: skip
_DECLINES = re.compile("|".join((*_CANNOT, *_LACKS)))
_ASKS = re.compile(
    r"\?|\bclarification\b"
    r"|\bplease (?:\w+ ){0,2}(?:tell|provide|specify|clarify|confirm|share|give|name|send|attach|upload|let me know)\b"
)


def declines(chain: Chain) -> bool:
    """Whether a plan is an explicit refusal, by its status or, where it calls nothing, by its words."""
    return chain.refusal is not None or (not chain.calls and _DECLINES.search(_plain(chain.plan)) is not None)


def passes(chain: Chain, unsolvable_kind: str | None) -> bool:
    """Whether a plan is right of a request that cannot be carried out: it calls nothing and declines, or asks back.

    A question back is right where information is missing, and nowhere else.
    """
    if chain.calls:
        return False
    return declines(chain) or (unsolvable_kind == MISSING_INFORMATION and asks_back(chain))


def asks_back(chain: Chain) -> bool:
    """Whether a plan calls nothing and asks for what it has to be told."""
    return not chain.calls and _ASKS.search(_plain(chain.refusal or chain.plan)) is not None


def may_pass(chain: Chain) -> bool:
    """Whether a judge has to say if a plan `passes`: it says something, and calls at most what may report the end.

    Which tool of others' only reports nobody but a judge can tell.
    """
    return len(chain.calls) <= MOST_CALLS and (chain.refusal is not None or bool(chain.plan.strip()))


def _plain(words: str) -> str:
    return " ".join(words.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").casefold().split())
