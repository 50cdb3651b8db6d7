"""Tables about `kqa_synthetic`, or about a folder with files in KQA Pro's format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from rich.table import Table

from grid.core.types import to_json
from grid.datasets.dataset import KQA, bin_of, bins
from grid.datasets.kqa.dataset import Kqa, KqaSynthetic
from grid.datasets.kqa.program import Question, problems
from grid.datasets.kqa.world import load_names, load_words, load_world
from grid.worlds.kopl.functions import FUNCTIONS


def overview(dataset: Kqa) -> Table:
    """The sizes of the knowledge base and of both splits."""
    kb = dataset.kb
    table = Table("count", "of", title=dataset.version)
    for name, count in {
        "entities": len(kb.names) - len(kb.concepts),
        "concepts": len(kb.concepts),
        "attribute keys": len(kb.attributes),
        "relations": len({relation for relation, _ in kb.relations}),
        "qualifier keys": len(kb.qualifiers),
        "test questions": len(dataset.questions),
        "training questions": len(dataset.trainings),
        "records and facts that cannot be used": len(dataset.skipped),
    }.items():
        table.add_row(f"{count:,}", name)
    return table


def shapes(questions: Sequence[Question]) -> Table:
    """The number of questions for each depth (rows) and breadth (columns, rounded down to quarters)."""
    counts = Counter((question.depth, int(4 * question.breadth)) for question in questions)
    quarters = sorted({quarter for _, quarter in counts})
    title = f"depth x breadth, correlation {correlation(questions):.2f}"
    table = Table("depth", *(f"{quarter / 4:g}-" for quarter in quarters), title=title)
    for depth in sorted({depth for depth, _ in counts}):
        table.add_row(str(depth), *(str(counts[depth, quarter] or "") for quarter in quarters))
    return table


def by_nodes(dataset: Kqa) -> Table:
    """The number of questions in each bin of the number of DAG nodes."""
    table = Table("nodes", "test", "training", title="by DAG nodes")
    parts = [Counter(bin_of(len(q.dag)) for q in part) for part in (dataset.questions.values(), dataset.trainings)]
    for name in bins(KQA):
        table.add_row(name, *(str(part[name]) for part in parts))
    return table


def functions(dataset: Kqa) -> Table:
    """For each function, the number of questions that use it and the number of questions that end with it."""
    table = Table("function", "test", "training", "last in test", "last in training", title="functions")
    parts = (list(dataset.questions.values()), list(dataset.trainings))
    used = [Counter(name for question in part for name in {step.function for step in question.dag}) for part in parts]
    last = [Counter(question.last for question in part) for part in parts]
    for name in FUNCTIONS:
        table.add_row(name, *(str(part[name]) for part in used), *(str(part[name] or "") for part in last))
    return table


def correlation(questions: Sequence[Question]) -> float:
    """Pearson's correlation of depth and breadth."""
    return float(np.corrcoef([q.depth for q in questions], [q.breadth for q in questions])[0, 1])


def tables(dataset: Kqa) -> Iterator[Table]:
    """Every table."""
    yield from (overview(dataset), by_nodes(dataset), shapes(list(dataset.questions.values())), functions(dataset))


def broken(dataset: Kqa) -> Iterator[str]:
    """The rules that the stock of `kqa_synthetic` breaks; none for other data."""
    if isinstance(dataset, KqaSynthetic):
        world = load_world()
        yield from problems(world, load_names(), load_words(world))


def written(dataset: Kqa, case_id: str) -> Iterator[str]:
    """A question with its program and answer."""
    question = dataset.questions[case_id]
    yield from (question.text, f"  depth {question.depth}, breadth {question.breadth:.2f}")
    for number, step in enumerate(question.dag):
        taken = f" of {', '.join(str(place) for place in step.dependencies)}" if step.dependencies else ""
        yield f"  {number}. {step.function}{taken} {to_json(list(step.inputs))}"
    yield f"  answer: {question.answer}"
