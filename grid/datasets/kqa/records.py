"""Questions in the released form of KQA Pro: `kb.json`, `train.json`, `val.json`, read with limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from grid.core.errors import DataError
from grid.core.types import Skipped, ToolCall
from grid.datasets.files import read_json
from grid.datasets.kqa.program import Executor, Program, breadth, calls, depth, masked, merged, read_program
from grid.datasets.sampling import balanced
from grid.worlds.kopl.queries import same_answer
from grid.worlds.kopl.values import KoplError

KB, TRAIN, TEST = "kb.json", "train.json", "val.json"
MAX_QUESTION_CHARACTERS = 10_000


@dataclass(frozen=True)
class Question:
    """One question with its program as released (a tree) and its answer."""

    id: str
    text: str
    program: Program
    answer: str

    @cached_property
    def dag(self) -> Program:
        """The program with identical steps merged."""
        return merged(self.program)

    @cached_property
    def calls(self) -> dict[str, ToolCall]:
        """The DAG as tool calls by step number."""
        return calls(self.dag)

    @cached_property
    def template(self) -> str:
        """The DAG without its entities and values: questions of one template differ in these alone."""
        return masked(self.dag)

    @property
    def told(self) -> str:
        """The answer."""
        return self.answer

    @property
    def right(self) -> str:
        """The answer."""
        return self.answer

    @property
    def depth(self) -> int:
        """The longest chain of the DAG, in calls."""
        return depth(self.dag)

    @property
    def breadth(self) -> float:
        """Calls of the DAG / depth."""
        return breadth(self.dag)

    @property
    def last(self) -> str:
        """The function of the last step."""
        return self.dag[-1].function

    def record(self) -> dict[str, Any]:
        """The question as KQA Pro writes it, less the choices and the SPARQL."""
        return {"question": self.text, "program": [step.record() for step in self.program], "answer": self.answer}


def read_questions(path: Path) -> tuple[list[Question], list[Skipped]]:
    """A split's questions (ids `val-0`, `val-1`, ...) and what cannot be one; raises DataError for a broken file."""
    records = read_json(path)
    if not isinstance(records, list):
        raise DataError(path, None, f"a JSON list is expected, not {type(records).__name__}")
    found: list[Question] = []
    skipped: list[Skipped] = []
    for number, record in enumerate(records):
        identity = f"{path.stem}-{number}"
        try:
            found.append(_question(identity, record))
        except (KoplError, ValueError) as error:
            skipped.append(Skipped(identity, str(error)))
    return found, skipped


def _question(identity: str, record: object) -> Question:
    if not isinstance(record, dict):
        raise ValueError(f"an object is expected, not {type(record).__name__}")
    for key in ("question", "answer"):
        text = record.get(key)
        if not isinstance(text, str) or not 1 <= len(text.strip()) <= MAX_QUESTION_CHARACTERS:
            raise ValueError(f"{key} must be a text of 1 to {MAX_QUESTION_CHARACTERS:,} characters")
    return Question(identity, record["question"], read_program(record.get("program")), record["answer"])


def fault(question: Question, run: Executor) -> str | None:
    """Why the program does not give the answer; None where it does (B.1.1, 'Validation')."""
    try:
        found = run(question.dag)
    except KoplError as error:
        return f"its program fails: {error}"
    if not same_answer(found, (question.answer,)):
        shown = "; ".join(dict.fromkeys(found))
        return f"its program gives {shown[:80]!r}, not {question.answer[:80]!r}"
    return None


def sample(
    questions: Sequence[Question], size: int | None, seed: int, run: Executor
) -> tuple[list[Question], list[Skipped]]:
    """At most `size` questions whose programs give their answers, balanced by DAG nodes; all, in order, for None.

    Programs run only when their question is drawn, so that of a large split few do; what is drawn and fails is skipped.
    """
    skipped: list[Skipped] = []

    def usable(question: Question) -> bool:
        reason = fault(question, run)
        if reason is not None:
            skipped.append(Skipped(question.id, reason))
        return reason is None

    if size is None:
        return [question for question in questions if usable(question)], skipped
    drawn = balanced(questions, seed, nodes=lambda question: len(question.dag), usable=usable)
    return list(islice(drawn, size)), skipped
