"""What answering without reading the question is worth: the commonest training answer, overall and by last function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from grid.worlds.kopl.results import same_answer


class Solved(Protocol):
    """A question with its answer as a text, and the function in which its program ends."""

    @property
    def answer(self) -> str:
        """The answer."""
        ...

    @property
    def last(self) -> str:
        """The function of the last step."""
        ...


class Constants:
    """The commonest answers of training questions; of equally common ones the first in the file.

    The constant by last function is told in which function a test question's program ends, which no planner is.
    """

    def __init__(self, trainings: Iterable[Solved]) -> None:
        overall: Counter[str] = Counter()
        by_last: dict[str, Counter[str]] = {}
        for question in trainings:
            overall[question.answer] += 1
            by_last.setdefault(question.last, Counter())[question.answer] += 1
        self._overall = _commonest(overall)
        self._by_last = {last: _commonest(answers) for last, answers in by_last.items()}

    def right(self, question: Solved) -> Mapping[str, bool]:
        """Whether each constant is the question's answer, by the baseline's name; none without training questions."""
        if self._overall is None:
            return {}
        told = self._by_last.get(question.last) or self._overall
        answers = {"constant_success": self._overall, "constant_by_function_success": told}
        return {name: same_answer((answer,), (question.answer,)) for name, answer in answers.items()}


def _commonest(answers: Counter[str]) -> str | None:
    return answers.most_common(1)[0][0] if answers else None
