"""What answering without reading is worth: constant answers, and guesses where a question says what can be guessed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

from grid.datasets.hotpotqa.parts import Part
from grid.datasets.hotpotqa.synthesis import Sample
from grid.text.answers import exact_match, normalised
from grid.worlds.search.readers import bare

_CLOSED = ("yes", "no")


class Constants:
    """The commonest answers of the questions for demonstrations; of equally common ones the first in the file.

    The constant by last function is told in which tool each part's reference ends, which no planner is: in a search, as
    bridge questions do, or in a comparison.
    """

    def __init__(self, trainings: Iterable[Part]) -> None:
        overall, by_last = Counter[str](), dict[str, Counter[str]]()
        for part in trainings:
            overall[part.answer] += 1
            by_last.setdefault(part.steps[-1].tool, Counter())[part.answer] += 1
        self.overall = _commonest(overall)
        self._by_last = {last: _commonest(answers) for last, answers in by_last.items()}

    def right(self, sample: Sample) -> Mapping[str, bool]:
        """Whether each constant answers all parts of a case, by the baseline's name; none without such questions."""
        if self.overall is None:
            return {}
        told = [self._by_last.get(part.steps[-1].tool) or self.overall for part in sample.parts]
        return {
            "constant_success": always(self.overall, sample),
            "constant_by_function_success": all(
                exact_match(answer, part.answer) for answer, part in zip(told, sample.parts, strict=True)
            ),
        }


def always(answer: str, sample: Sample) -> bool:
    """Whether one answer is right for all parts of a case."""
    return all(exact_match(answer, part.answer) for part in sample.parts)


def guessed(sample: Sample) -> float:
    """The probability that guesses answer all parts.

    A part whose answer is yes or no, or one of the two that are compared, is guessed in one of two cases. Elsewhere
    nothing says what there is to guess, and the probability is 0.
    """
    return math.prod(0.5 if _is_closed(part) else 0.0 for part in sample.parts)


def _is_closed(part: Part) -> bool:
    named = {normalised(bare(step.title)) for step in part.steps if step.title} if part.is_comparison else set()
    return normalised(part.answer) in {*_CLOSED, *named}


def _commonest(answers: Counter[str]) -> str | None:
    return answers.most_common(1)[0][0] if answers else None
