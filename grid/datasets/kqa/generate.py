"""`kqa_synthetic`: a seeded knowledge base and its questions, written in KQA Pro's files."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import islice
from pathlib import Path

from grid.datasets.kqa import stock, world
from grid.datasets.kqa.balance import BINS, balanced, bin_of
from grid.datasets.kqa.facts import Facts
from grid.datasets.kqa.phrases import Dead, Phrases
from grid.datasets.kqa.program import Executor, Program, depth, executor
from grid.datasets.kqa.questions import Draft, Questions
from grid.datasets.kqa.records import KB, TEST, TRAIN, Question
from grid.datasets.kqa.words import load_words
from grid.seeds import derive_seed
from grid.worlds.kopl.errors import KoplError
from grid.worlds.kopl.reading import parse

TESTS, TRAININGS = 500, 1000
MAX_NODES, MAX_DEPTH = 14, 10
_POOL = 900
"""Questions of each bin to choose from."""
_ROUNDS = 20_000


def generate(target: Path, seed: int) -> None:
    """Write `kb.json`, `train.json` and `val.json` into an existing folder."""
    kb = world.build(stock.load_world(), stock.load_names(), seed)
    run = executor(parse(kb, target / KB))
    tests, trainings = split(_pool(kb, run, seed), seed)
    for name, content in ((KB, kb), (TEST, _records(tests)), (TRAIN, _records(trainings))):
        (target / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def split(pool: list[Question], seed: int) -> tuple[list[Question], list[Question]]:
    """Test and training questions, drawn by lot from one sample balanced by nodes, then depth, then last function."""

    def nodes(question: Question) -> int:
        return len(question.dag)

    drawn = balanced(pool, seed, nodes, within=(lambda question: question.depth, lambda question: question.last))
    chosen = list(islice(drawn, TESTS + TRAININGS))
    lots = list(balanced(chosen, derive_seed(seed, "lots"), nodes))
    return lots[::3], [question for place, question in enumerate(lots) if place % 3]


def _pool(kb: world.KnowledgeBase, run: Executor, seed: int) -> list[Question]:
    """Questions with answers, no text and no DAG twice, until every bin is full."""
    rng = random.Random(derive_seed(seed, "questions"))
    facts, holds = Facts(kb), stock.load_world()
    words = load_words(holds)
    maker = Questions(facts, words, Phrases(facts, words, holds, run, rng), rng)
    found: list[Question] = []
    texts: set[str] = set()
    dags: set[Program] = set()
    full: Counter[str] = Counter()
    for _ in range(_ROUNDS):
        for function in maker.makers:
            try:
                draft = maker.make(function)
            except Dead:
                continue
            dag = draft.tree.dag()
            name = bin_of(len(dag))
            if full[name] >= _POOL or draft.text in texts or dag in dags:
                continue
            answer = _answer(draft, dag, run)
            if answer is None:
                continue
            found.append(Question("", f"{draft.text[0].upper()}{draft.text[1:]}", draft.tree.program(), answer))
            texts.add(draft.text)
            dags.add(dag)
            full[name] += 1
        if all(full[name] >= _POOL for name in BINS):
            return found
    raise ValueError(f"the stock gives too few questions: {dict(full)}")


def _answer(draft: Draft, dag: Program, run: Executor) -> str | None:
    """The one answer; None where there is none, or several, or where the program is too large."""
    if len(dag) > MAX_NODES or depth(dag) > MAX_DEPTH:
        return None
    try:
        values = set(run(dag))
    except KoplError:
        return None
    if len(values) != 1 or "not sure" in values:
        return None
    return values.pop()


def _records(questions: list[Question]) -> list[dict[str, object]]:
    return [question.record() for question in questions]
