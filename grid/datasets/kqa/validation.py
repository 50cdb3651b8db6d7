"""Which questions of a whole split give their answers (planning_horizon B.1.1): found once, kept on disk."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from grid.code_digest import digest_of
from grid.core.cache import made_once
from grid.core.errors import DataError
from grid.datasets.files import fingerprint, read_json
from grid.datasets.kqa.program import Executor, executor
from grid.datasets.kqa.records import KB, Question, fault

_FAULTS = "faults.json"
_TOLD = 10_000
"""Programs between two lines of the log."""
_log = logging.getLogger(__name__)


def faults(root: Path, name: str, questions: Sequence[Question], run: Callable[[], Executor]) -> dict[str, str]:
    """Of the questions of a file whose program does not give their answer, why not, by id.

    All programs are run the first time, some thousands a second; later the user's cache tells, as long as both files
    and the code are the same. Raises DataError where the cache is damaged.
    """
    key = f"{fingerprint(root / KB, root / name)}-{digest_of(_write, executor)}"
    kept = made_once("kqa_faults", key, (_FAULTS,), partial(_write, questions=questions, run=run)) / _FAULTS
    found = read_json(kept)
    if not isinstance(found, dict) or not all(isinstance(reason, str) for reason in found.values()):
        raise DataError(kept, None, "an object of reasons is expected: remove the file")
    return found


def _write(target: Path, questions: Sequence[Question], run: Callable[[], Executor]) -> None:
    execute, found = run(), dict[str, str]()
    for number, question in enumerate(questions, 1):
        reason = fault(question, execute)
        if reason is not None:
            found[question.id] = reason
        if number % _TOLD == 0:
            _log.info("%s of %s training questions run", f"{number:,}", f"{len(questions):,}")
    (target / _FAULTS).write_text(json.dumps(found), encoding="utf-8")
