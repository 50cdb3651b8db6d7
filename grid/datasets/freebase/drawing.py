"""Which questions are cases, and which are shown solved (planning_horizon §B.1.2, 'Preprocessing')."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from grid.core.seeds import derive_seed
from grid.core.types import Skipped
from grid.datasets.balance import ATOMIC, balanced
from grid.datasets.freebase.records import Question, read_questions, released_names

_SAME = "another question with this S-expression was drawn by lot"


@dataclass(frozen=True)
class Split:
    """Test questions and training questions, no two of which have the same S-expression, and what was left out."""

    tests: Sequence[Question]
    trainings: Sequence[Question]
    skipped: Sequence[Skipped]


def split(test: Path, train: Path | None, held_out: float, seed: int) -> Split:
    """The questions of a test and a training file or, without the latter, a share of the test file held out.

    Of questions with the same S-expression one is drawn. Which are held out follows from seed and S-expression, so that
    a file of more questions moves none.
    """
    tests, skipped = read_questions(test)
    trainings, more = read_questions(train) if train else ([], [])
    skipped += more
    names = released_names([*tests, *trainings])
    tests, trainings = ([question.known_as(names) for question in part] for part in (tests, trainings))
    tests = _one_of_each(tests, seed, skipped)
    if train is None:
        held = [_lot(seed, "held out", question.form) < held_out for question in tests]
        trainings = [question for question, is_held in zip(tests, held, strict=True) if is_held]
        tests = [question for question, is_held in zip(tests, held, strict=True) if not is_held]
        return Split(tests, trainings, skipped)
    known = {question.form for question in tests}
    seen = [question for question in trainings if question.form in known]
    skipped += [Skipped(question.id, "a test question has the same S-expression") for question in seen]
    unseen = [question for question in trainings if question.form not in known]
    return Split(tests, _one_of_each(unseen, seed, skipped), skipped)


def draw(
    questions: Iterable[Question], cases: int | None, seed: int, fault: Callable[[Question], str | None]
) -> tuple[list[Question], list[Skipped]]:
    """At most `cases` questions without a fault, balanced by plan nodes, and why others that were drawn are none."""
    skipped: list[Skipped] = []

    def usable(question: Question) -> bool:
        reason = fault(question)
        if reason is not None:
            skipped.append(Skipped(question.id, reason))
        return reason is None

    found = balanced(list(questions), seed, nodes=lambda question: question.nodes, usable=usable, most=ATOMIC)
    return list(islice(found, cases)), skipped


def unnamed(question: Question) -> str | None:
    """Why a planner cannot ask for all that a question names: one of its entities has no name; None: it can."""
    return f"its entity {question.unnamed[0]} has no name" if question.unnamed else None


def _one_of_each(questions: Sequence[Question], seed: int, skipped: list[Skipped]) -> list[Question]:
    """One question, drawn by lot, of each S-expression, in their order."""
    chosen: dict[str, Question] = {}
    for question in sorted(questions, key=lambda one: _lot(seed, "one of", one.form, one.id)):
        chosen.setdefault(question.form, question)
    skipped += [Skipped(one.id, _SAME) for one in questions if chosen[one.form] is not one]
    return [one for one in questions if chosen[one.form] is one]


def _lot(seed: int, *key: object) -> float:
    return derive_seed(seed, *key) / 2**63
