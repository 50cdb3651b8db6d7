"""What a data set over Freebase holds, and what its witness graphs give away, as tables."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import Any

import pyoxigraph as ox
from rich.table import Table

from grid.core.types import RESULT, Json
from grid.datasets.balance import ATOMIC, bin_of, bins
from grid.datasets.freebase import witness
from grid.datasets.freebase.attacks import Attacks, joins
from grid.datasets.freebase.dataset import AtomicKbqa
from grid.datasets.freebase.facts import Facts
from grid.datasets.freebase.graphs import Witnessed
from grid.datasets.freebase.records import Question, read_questions
from grid.text.references import resolve
from grid.worlds.sparql import reading
from grid.worlds.sparql.expressions import Value
from grid.worlds.sparql.lookups import NAME
from grid.worlds.sparql.queries import NS, TYPE
from grid.worlds.sparql.world import SparqlWorld

MADE_UP = "real questions, logical forms and schema; synthetic facts"


class Report:
    """Tables of one data set, whose facts are invented."""

    def __init__(self, dataset: AtomicKbqa, source: Witnessed) -> None:
        self.dataset, self.source = dataset, source
        self.every = [*dataset.split.tests, *dataset.split.trainings]

    @cached_property
    def right(self) -> Sequence[Question]:
        """The questions whose plans, made call by call with the seven tools, end with exactly the answers."""
        return [question for question in self.every if self._runs(question)]

    @cached_property
    def graphs(self) -> Sequence[Facts]:
        """The facts of each graph, without names."""
        store = reading.opened(self.source.root / witness.STORE)
        return [_facts(store, witness.shard_name(number)) for number in range(self.source.account["graphs"])]

    def questions(self) -> Table:
        """How many records there are, and of how many the plan gives the answers."""
        table = Table("records", "of", title=f"{type(self.dataset).__name__}: {MADE_UP}")
        skipped = self.dataset.split.skipped
        same = sum("another question" in skip.reason for skip in skipped)
        table.add_row(f"{len(self.every) + len(skipped):,}", "in the files")
        table.add_row(f"{len(skipped) - same:,}", "cannot be read")
        table.add_row(f"{same:,}", "have the S-expression of another")
        forms = {question.form for question in self.right}
        table.add_row(
            f"{sum(one.form in forms for one in self._records):,}", "have a plan that gives the answers, call by call"
        )
        table.add_row(f"{len(self.every):,}", "S-expressions")
        table.add_row(f"{len(self.right):,}", "S-expressions whose plan gives the answers")
        reasons = Counter(
            self.source.fault(question) or "the tools give another answer" for question in {*self.every} - {*self.right}
        )
        for reason, count in reasons.most_common(20):
            table.add_row(f"{count:,}", f"  not: {reason}")
        table.add_row(f"{len(self.dataset.questions):,}", "cases")
        table.add_row(f"{len(self.dataset.trainings):,}", "shown solved")
        known = {question.template for question in self.dataset.trainings}
        alike = sum(question.template in known for question in self.dataset.questions.values())
        table.add_row(f"{alike:,}", "cases to which some are not shown: they differ in entities and literals alone")
        return table

    def nodes(self) -> Table:
        """Cases by plan nodes, the finish among them."""
        counts = Counter(bin_of(one.nodes, ATOMIC) for one in self.dataset.questions.values())
        table = Table("nodes", "cases", title="by plan nodes, the finish counted")
        for name in bins(ATOMIC):
            table.add_row(name, f"{counts[name]:,}")
        return table

    def facts(self) -> Table:
        """How large each graph is."""
        table = Table("graph", "S-expressions", "facts", "entities", "relations", title="graphs")
        homes = Counter(self.source.account["shards"].values())
        for number, facts in enumerate(self.graphs):
            entities = {subject for subject, _ in facts.pairs(TYPE)}
            relations = {fact.relation for fact in facts}
            sizes = (homes[number], len(facts), len(entities), len(relations))
            table.add_row(witness.shard_name(number), *(f"{size:,}" for size in sizes))
        return table

    def degrees(self) -> Table:
        """Relations of entities, by what the entities are for: invented ones must not be told from the others."""
        title = "relations of an entity, least / median / most"
        table = Table("entities", "how many", "from it", "to it", "both", title=title)
        found: dict[str, list[tuple[int, int]]] = {}
        for facts in self.graphs:
            outward, inward = _relations(facts)
            for entity in {subject for subject, _ in facts.pairs(TYPE)}:
                sizes = len(outward.get(entity, ())), len(inward.get(entity, ()))
                found.setdefault(self._role(entity), []).append(sizes)
        for role in sorted(found):
            spreads = [[one for one, _ in found[role]], [two for _, two in found[role]], [sum(p) for p in found[role]]]
            told = [f"{min(sizes)} / {median(sizes):g} / {max(sizes)}" for sizes in spreads]
            table.add_row(role, f"{len(found[role]):,}", *told)
        return table

    def guesses(self) -> Table:
        """In how many questions a policy guesses all relations, everything else of the plan told."""
        title = "find_relation by a policy, the rest of the plan told: share of questions answered"
        table = Table("the relation that is", "share", title=title)
        homes = [(question, self._attacks[self._home(question)]) for question in self.right]
        for name in self._attacks[0].policies if homes else ():
            right = sum(attacks.guesses(question, attacks.policies[name]) for question, attacks in homes)
            table.add_row(name, f"{100 * right / len(homes):.1f}%")
        invented = self.source.account["invented"]
        known = sum(attacks.known(question, invented) for question, attacks in homes)
        if homes:
            table.add_row("(no relation: the class's members with real names)", f"{100 * known / len(homes):.1f}%")
        offered = [len(attacks.offered(join)) for question, attacks in homes for join in joins(question.expression)]
        if offered:
            table.caption = f"relations offered: {min(offered)} / {median(offered):g} / {max(offered):,}"
        return table

    def shorter(self) -> Table:
        """How many steps of plans could be left out; a class that a relation implies tells nothing new."""
        table = Table("step", "in plans", "needless", title="steps without which a plan gives the same answers")
        found: dict[str, Counter[bool]] = {}
        for question in self.right:
            for kind, (steps, needless) in self._attacks[self._home(question)].shorter(question).items():
                found.setdefault(kind, Counter()).update({True: needless, False: steps - needless})
        for kind, counts in sorted(found.items()):
            table.add_row(kind, f"{counts.total():,}", f"{100 * counts[True] / counts.total():.1f}%")
        return table

    @cached_property
    def _attacks(self) -> Sequence[Attacks]:
        return [Attacks(facts) for facts in self.graphs]

    def _home(self, question: Question) -> int:
        number: int = self.source.account["shards"][question.form]
        return number

    def _role(self, entity: str) -> str:
        kind = self.source.account["invented"].get(entity)
        if kind is not None:
            return f"invented: {kind}"
        return "released: named by a question" if entity in self._named else "released: answer"

    @cached_property
    def _records(self) -> Sequence[Question]:
        """All that can be read of the files that the graphs are made of."""
        test, train = self.dataset.files.found(self.dataset.path)
        return [question for path in (test, train) if path for question in read_questions(path)[0]]

    @cached_property
    def _named(self) -> Collection[str]:
        return {entity for question in self.every for entity in question.entities}

    def _runs(self, question: Question) -> bool:
        if self.source.fault(question) is not None:
            return False
        world = SparqlWorld(
            self.source.graph(question),
            tuple(answer.value for answer in question.answers),
            mentions=dict(question.mentions),
        )
        return asyncio.run(_made(world, question))


async def _made(world: SparqlWorld, question: Question) -> bool:
    """Whether the plan's calls, made one by one, end in the answers."""
    state, outputs = world.start(), dict[str, Mapping[str, Json]]()
    for number, call in question.calls.items():
        state, observation = await world.apply(state, resolve(call, outputs))
        if observation.failed:
            return False
        outputs[number] = {RESULT: observation.content[RESULT]}
    return world.resolved(state)


def _facts(store: ox.Store, name: str) -> Facts:
    found = Facts({})
    for quad in store.quads_for_pattern(None, None, None, ox.NamedNode(name)):
        relation = _name(quad.predicate)
        if relation != NAME:
            end: Any = quad.object
            node = Value(end.value, end.datatype.value) if isinstance(end, ox.Literal) else _name(end)
            found.add(_name(quad.subject), relation, node)
    return found


def _name(term: Any) -> str:
    value: str = term.value
    return value.removeprefix(NS)


def _relations(facts: Facts) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """By entity the relations that lead from it and to it."""
    outward: dict[str, set[str]] = {}
    inward: dict[str, set[str]] = {}
    for subject, relation, node in facts:
        if relation != TYPE:
            outward.setdefault(subject, set()).add(relation)
            if isinstance(node, str):
                inward.setdefault(node, set()).add(relation)
    return outward, inward
