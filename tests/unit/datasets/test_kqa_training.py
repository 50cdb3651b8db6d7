"""KQA's training questions: those whose programs hold, the nearest by meaning, constant answers, and broken records."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from grid.core.errors import ConfigError, DataError
from grid.core.types import Demonstration
from grid.datasets import question_answering as nearest_module
from grid.datasets.kqa import dataset
from grid.datasets.kqa.dataset import KqaPro, KqaSynthetic, unseen
from grid.datasets.kqa.program import KB, TEST, TRAIN, Executor, ProgramStep, Question, executor, fault, read_questions
from grid.datasets.kqa.world import load_world
from grid.datasets.question_answering import Constants, Nearest, question_words
from grid.retrievers import scored as texts
from grid.retrievers.scored import Embedder, bm25_texts, dense_texts

ODD: list[Any] = [
    None,
    7,
    -1,
    1e308,
    True,
    "",
    "9" * 5000,
    "x" * 100_000,
    [],
    {},
    ["a"],
    [[0]],
    {"function": 1},
    "\x00",
]


@pytest.fixture(scope="module")
def synthetic() -> KqaSynthetic:
    return KqaSynthetic()


@pytest.fixture
def small(synthetic: KqaSynthetic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The released form: the whole base, which is read once for all, and a few questions."""
    known = synthetic.kb
    (tmp_path / KB).write_bytes((synthetic.root / KB).read_bytes())
    monkeypatch.setattr(dataset, "read", lambda path: known)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in (TEST, TRAIN):
        records = json.loads((synthetic.root / name).read_text(encoding="utf-8"))
        (tmp_path / name).write_text(json.dumps(records[:30]))
    return tmp_path


def solved(text: str) -> Demonstration:
    return Demonstration(text, {}, "1")


def question(text: str, answer: str, last: str = "Count") -> Question:
    return Question(text, text, (ProgramStep("FindAll", (), ()), ProgramStep(last, (), (0,))), answer)


def test_programs_of_all_training_questions_run_once_and_again_when_a_file_is_another(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = json.loads((small / TRAIN).read_text())
    records[3]["answer"] = "something else"
    (small / TRAIN).write_text(json.dumps(records))
    ran: list[str] = []

    def counted(question: Question, run: Executor) -> str | None:
        ran.append(question.id)
        return fault(question, run)

    monkeypatch.setattr(dataset, "fault", counted)
    for _ in range(2):
        released = KqaPro(path=str(small))
        assert [item.record for item in released.skipped] == ["train-3"]
        assert len(released.trainings) == 29
    assert len(ran) == 30
    records[3]["answer"] = "another"
    (small / TRAIN).write_text(json.dumps(records))
    assert len(KqaPro(path=str(small)).trainings) == 29
    assert len(ran) == 60
    (kept,) = (path for path in (small / "cache").rglob("faults.json") if "another" in path.read_text())
    kept.write_text("[]")
    with pytest.raises(DataError, match="remove the file"):
        KqaPro(path=str(small)).trainings  # noqa: B018 - reading is what raises


class Model:
    """Embeds a text by its letters, as a model of this name would, and counts the texts."""

    def __init__(self) -> None:
        self.embedded = 0

    def texts(self, texts: list[str]) -> np.ndarray:
        counts = np.array([[text.lower().count(letter) for letter in "abcdefghij"] for text in texts], dtype=np.float32)
        found: np.ndarray = counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
        return found

    def library(self, texts: list[str]) -> np.ndarray:
        self.embedded += len(texts)
        return self.texts(texts)


def test_the_nearest_by_meaning_are_those_of_the_highest_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    monkeypatch.setattr(texts, "_AT_ONCE", 2)
    known = ("abba", "jig", "cab", "a bad cad", "fig")
    scorer = dense_texts(lambda: known, lambda: cast(Embedder, model))
    nearest = Nearest(known, lambda place: solved(known[place]), scorer, [{text} for text in known])
    assert [shown.question for shown in nearest("big jig", 2, set())] == ["jig", "fig"]
    assert [shown.question for shown in nearest("abba", 1, set())] == ["cab"], "never the question itself"
    assert len(nearest("x", 9, set())) == 5
    assert model.embedded == 5


def test_a_model_that_is_not_there_is_a_config_error(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest_module, "find_spec", lambda name: None)
    released = KqaPro(path=str(small), demonstrations_by="embeddings")
    with pytest.raises(ConfigError, match="dense"):
        released.demonstrations(released.case_ids()[0], 1)
    monkeypatch.setattr(nearest_module, "find_spec", lambda name: name)
    with pytest.raises(ConfigError, match=r"dataset\.hub"):
        released.demonstrations(released.case_ids()[0], 1)
    with pytest.raises(ConfigError, match=r"dataset\.sentence_model"):
        KqaPro(path=str(small), demonstrations_by="embeddings", sentence_model="nowhere").version  # noqa: B018


def test_a_question_is_never_its_own_demonstration_by_words_either() -> None:
    known = ("how many are there", "how many")
    scorer = bm25_texts(lambda: known, question_words)
    nearest = Nearest(known, lambda place: solved(known[place]), scorer, [set[str]()] * 2)
    assert [shown.question for shown in nearest("how many", 2, set())] == ["how many are there"]


def test_constant_answers_are_those_of_the_training_questions() -> None:
    constants = Constants(
        [question("a", "yes", "VerifyNum"), question("b", "yes", "VerifyNum"), question("c", "3"), question("d", "3.0")]
    )
    assert constants.right(question("e", "yes")) == {"constant_success": True, "constant_by_function_success": False}
    assert constants.right(question("e", "3.0")) == {"constant_success": False, "constant_by_function_success": True}
    unknown = constants.right(question("e", "yes", "QueryName"))
    assert unknown == {"constant_success": True, "constant_by_function_success": True}
    assert Constants([]).right(question("e", "yes")) == {}


def test_a_third_of_the_keys_stand_in_test_questions_only(synthetic: KqaSynthetic) -> None:
    held = unseen(load_world(), 0)
    used = {text for training in synthetic.trainings for step in training.dag for text in step.inputs}
    tested = {text for test in synthetic.questions.values() for step in test.dag for text in step.inputs}
    assert not used & held
    assert len(tested & held) > 40


def test_no_record_is_a_crash(synthetic: KqaSynthetic, tmp_path: Path) -> None:
    """What is broken anywhere in a record is skipped with a reason, when it is read or when its program runs."""
    rng = random.Random(0)
    records = json.loads((synthetic.root / TEST).read_text(encoding="utf-8"))
    for record in records:
        place = rng.choice(["question", "answer", "program", "step", "step", "step", "input", "input"])
        step = rng.choice(record["program"])
        if place == "step":
            step[rng.choice([*step])] = rng.choice(ODD)
        elif place == "input" and step["inputs"]:
            step["inputs"][rng.randrange(len(step["inputs"]))] = rng.choice(ODD)
        elif place != "input":
            record[place] = rng.choice(ODD)
    (tmp_path / TEST).write_text(json.dumps([*records, *ODD]))
    (tmp_path / KB).write_bytes((synthetic.root / KB).read_bytes())
    questions, skipped = read_questions(tmp_path / TEST)
    assert len(questions) + len(skipped) == 500 + len(ODD)
    assert all(item.reason for item in skipped)
    run = executor(synthetic.kb)
    reasons = [fault(question, run) for question in questions]
    assert len([reason for reason in reasons if reason]) > 20
