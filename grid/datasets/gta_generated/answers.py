"""GTA's score of an answer: all that it must say is said."""

from __future__ import annotations

import re
from collections.abc import Sequence


def answer_score(answer: str | None, groups: Sequence[Sequence[str]]) -> float:
    """1 where of every group one text stands in the answer as words of its own, in any case; else 0.

    As GTA's scorer has it (`iscorrect`, the white list).
    """
    return float(answer is not None and all(_said(answer, group) for group in groups))


def _said(answer: str, group: Sequence[str]) -> bool:
    return re.search(rf"\b(?:{'|'.join(map(re.escape, group))})\b", answer, re.IGNORECASE) is not None
