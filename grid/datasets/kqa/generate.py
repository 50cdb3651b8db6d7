"""`kqa_synthetic`: a seeded knowledge base and its questions, written in KQA Pro's files."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import islice
from pathlib import Path

from grid.core.seeds import derive_seed
from grid.datasets.balance import KQA, balanced, bin_of, bins
from grid.datasets.kqa import stock, world
from grid.datasets.kqa.clauses import Dead
from grid.datasets.kqa.facts import Facts
from grid.datasets.kqa.phrases import Phrases
from grid.datasets.kqa.program import Executor, Program, depth, executor
from grid.datasets.kqa.questions import Draft, Questions
from grid.datasets.kqa.records import KB, TEST, TRAIN, Question
from grid.datasets.kqa.words import load_words
from grid.worlds.kopl.errors import KoplError
from grid.worlds.kopl.reading import parse

TESTS, TRAININGS = 500, 1000
MAX_NODES, MAX_DEPTH = 14, 10
UNSEEN = 1 / 3
"""The share of attributes and relations that stand in no training question, as in GrailQA's zero-shot questions."""
CHOICE = 3
"""Questions of each bin to choose one from."""
_ROUNDS = 20_000


def generate(target: Path, seed: int) -> None:
    """Write `kb.json`, `train.json` and `val.json` into an existing folder."""
    holds = stock.load_world()
    kb = world.build(holds, stock.load_names(), seed)
    run = executor(parse(kb, target / KB))
    known: set[str | Program] = set()
    trainings, tests = (
        _questions(Facts(kb, without), holds, run, derive_seed(seed, part), size, known)
        for part, size, without in ((TRAIN, TRAININGS, unseen(holds, seed)), (TEST, TESTS, set[str]()))
    )
    for name, content in ((KB, kb), (TEST, _records(tests)), (TRAIN, _records(trainings))):
        (target / name).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def unseen(holds: stock.WorldStock, seed: int) -> set[str]:
    """The attributes and relations that no training question needs: a share of each, drawn by lot."""
    rng = random.Random(derive_seed(seed, "unseen"))
    parts = ("attributes", "relations")
    keys = [sorted({key for cls in holds.classes.values() for key in getattr(cls, part)}) for part in parts]
    return {key for part in keys for key in rng.sample(part, round(UNSEEN * len(part)))}


def _questions(
    facts: Facts, holds: stock.WorldStock, run: Executor, seed: int, size: int, known: set[str | Program]
) -> list[Question]:
    """One part's questions: a sample balanced by nodes, then depth, then last function."""
    words, rng = load_words(holds), random.Random(seed)
    maker = Questions(facts, words, Phrases(facts, words, holds, run, rng), rng)
    pool = _pool(maker, run, size, known)
    within = (lambda question: question.depth, lambda question: question.last)
    return list(islice(balanced(pool, seed, lambda question: len(question.dag), within=within), size))


def _pool(maker: Questions, run: Executor, size: int, known: set[str | Program]) -> list[Question]:
    """Questions with answers, no text and no DAG that is `known`, until every bin has several times its share."""
    found: list[Question] = []
    full: Counter[str] = Counter()
    wanted = CHOICE * size // len(bins(KQA))
    for _ in range(_ROUNDS):
        for function in maker.makers:
            try:
                draft = maker.make(function)
            except Dead:
                continue
            dag = draft.tree.dag()
            name = bin_of(len(dag))
            if full[name] >= wanted or draft.text in known or dag in known:
                continue
            answer = _answer(draft, dag, run)
            if answer is None:
                continue
            found.append(Question("", f"{draft.text[0].upper()}{draft.text[1:]}", draft.tree.program(), answer))
            known |= {draft.text, dag}
            full[name] += 1
        if all(full[name] >= wanted for name in bins(KQA)):
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
