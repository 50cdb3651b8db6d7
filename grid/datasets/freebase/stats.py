"""Tables for a data set over Freebase: its contents, and how often guesses succeed in its witness graphs."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import median
from typing import Any, TypeAlias, cast

import pyoxigraph as ox
from rich.table import Table

from grid.core.types import RESULT, Json, to_json
from grid.core.util import derive_seed
from grid.datasets.dataset import ATOMIC, bin_of, bins
from grid.datasets.freebase import witness
from grid.datasets.freebase.dataset import AtomicKbqa, Witnessed
from grid.datasets.freebase.facts import Facts, Node, denoted
from grid.datasets.freebase.records import REPEATED, Question, read_questions
from grid.text.references import resolve
from grid.worlds.sparql import programs
from grid.worlds.sparql.queries import (
    NS,
    TYPE,
    And,
    Arg,
    Class,
    Compare,
    Count,
    Entity,
    Expression,
    Join,
    TimeConstraint,
    Value,
    walk,
)
from grid.worlds.sparql.tools import DIRECTIONS, FIND, NAME
from grid.worlds.sparql.world import SparqlWorld

_LISTED = 40
"""Maximum number of possible relations shown for one call."""
MADE_UP = "real questions, logical forms and schema; synthetic facts"


class Report:
    """The tables for one data set with invented facts."""

    def __init__(self, dataset: AtomicKbqa, source: Witnessed) -> None:
        self.dataset, self.source = dataset, source
        self.every = [*dataset.split.tests, *dataset.split.trainings]

    @cached_property
    def right(self) -> Sequence[Question]:
        """The questions whose plans, run call by call with the seven tools, return exactly the questions' answers."""
        return [question for question in self.every if self._runs(question)]

    @cached_property
    def graphs(self) -> Sequence[Facts]:
        """The facts of each graph, without names."""
        store = programs.opened(self.source.root / witness.STORE)
        return [_facts(store, witness.shard_name(number)) for number in range(self.source.account["graphs"])]

    def questions(self) -> Table:
        """The number of records, and the number of records whose plans give the answers."""
        table = Table("records", "of", title=f"{type(self.dataset).__name__}: {MADE_UP}")
        skipped = self.dataset.split.skipped
        same = sum(skip.reason in REPEATED for skip in skipped)
        table.add_row(f"{len(self.every) + len(skipped):,}", "in the files")
        table.add_row(f"{len(skipped) - same:,}", "cannot be read")
        table.add_row(f"{same:,}", "have the S-expression of another question")
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
        table.add_row(
            f"{alike:,}", "cases to which some are not shown, because they differ only in entities and literals"
        )
        return table

    def nodes(self) -> Table:
        """The number of cases in each bin of the number of plan nodes, including the finishing step."""
        counts = Counter(bin_of(one.nodes, ATOMIC) for one in self.dataset.questions.values())
        table = Table("nodes", "cases", title="cases by number of plan nodes, including the finish")
        for name in bins(ATOMIC):
            table.add_row(name, f"{counts[name]:,}")
        return table

    def facts(self) -> Table:
        """The size of each graph."""
        table = Table("graph", "S-expressions", "facts", "entities", "relations", title="graphs")
        homes = Counter(self.source.account["shards"].values())
        for number, facts in enumerate(self.graphs):
            entities = {subject for subject, _ in facts.pairs(TYPE)}
            relations = {fact.relation for fact in facts}
            sizes = (homes[number], len(facts), len(entities), len(relations))
            table.add_row(witness.shard_name(number), *(f"{size:,}" for size in sizes))
        return table

    def degrees(self) -> Table:
        """The number of relations per entity, by the entity's origin and purpose.

        The table shows whether invented entities look like released ones.
        """
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
        """The share of questions for which a policy, given the rest of the plan, guesses all relations correctly."""
        title = "share of questions answered if a policy chooses the relations and the rest of the plan is given"
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
        """The share of plan steps that could be left out, for example a class that a relation implies."""
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
        """All readable questions in the files from which the graphs are made."""
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
    """Whether the calls of a question's plan, run one by one, give the question's answers."""
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
    """Two maps with the relations of each entity: those that lead from the entity, and those that lead to it."""
    outward: dict[str, set[str]] = {}
    inward: dict[str, set[str]] = {}
    for subject, relation, node in facts:
        if relation != TYPE:
            outward.setdefault(subject, set()).add(relation)
            if isinstance(node, str):
                inward.setdefault(node, set()).add(relation)
    return outward, inward


# How often guesses succeed: simple policies choose the relations while the rest of the plan is given, or a step of the
# plan is left out.


Offered: TypeAlias = Mapping[str, int]
"""The relations of a set in one direction, each with its number of results, in the order that planners see."""
Policy: TypeAlias = Callable[[Question, Offered], str]
_WORD = re.compile(r"[a-z]+")
_SHORT = 3
"""A word with more letters than this counts as equal to any longer word that starts with it."""


class Attacks:
    """The policies that guess relations in one graph."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._counts: Counter[str] = Counter()
        self._from: dict[Node, set[str]] = {}
        self._to: dict[Node, set[str]] = {}
        properties: set[str] = set()
        for subject, relation, node in facts:
            if relation != TYPE:
                self._counts[relation] += 1
                self._from.setdefault(subject, set()).add(relation)
                self._to.setdefault(node, set()).add(relation)
                properties |= {relation} if isinstance(node, Value) else set()
        self._properties = dict.fromkeys(sorted(properties), 1)

    @property
    def policies(self) -> Mapping[str, Policy]:
        """The policies; each is named after the relation that it chooses. Only the last policy reads the question."""
        return {
            "the first": lambda _, offered: min(offered),
            "any": lambda question, offered: random.Random(derive_seed(0, question.id, *offered)).choice(list(offered)),
            "the rarest in the graph": lambda _, offered: min(offered, key=lambda name: (self._counts[name], name)),
            "the most frequent in the graph": lambda _, offered: max(
                offered, key=lambda name: (self._counts[name], name)
            ),
            "the one with the fewest results": lambda _, offered: min(offered, key=lambda name: (offered[name], name)),
            "the one with the most results": lambda _, offered: max(offered, key=lambda name: (offered[name], name)),
            "the most words of the question": overlap,
        }

    def guesses(self, question: Question, policy: Policy) -> bool:
        """Whether the plan gives the answers if the policy chooses the relations of all find_relation steps."""
        expression = self._chosen(question.expression, question, policy)
        return expression is not None and self._right(question, expression)

    def known(self, question: Question, invented: Collection[str]) -> bool:
        """Whether the plan names a class whose members, except invented members, are exactly the answers."""
        classes = [part.id for part in walk(question.expression) if isinstance(part, Class)]
        wanted = {answer.value for answer in question.answers}
        return any(
            {node for node in self._facts.subjects(TYPE, name) if node not in invented} == wanted for name in classes
        )

    def shorter(self, question: Question) -> Mapping[str, tuple[int, int]]:
        """For each kind of step, how many steps the plan has, and how many of them could be left out one at a time."""
        found: dict[str, tuple[int, int]] = {}
        for kind, less in _without(question.expression):
            steps, needless = found.get(kind, (0, 0))
            found[kind] = steps + 1, needless + self._right(question, less)
        return found

    def offered(self, join: Join) -> Offered:
        """The relations that a planner may choose at a find_relation step."""
        if isinstance(join.target, Value):
            return self._properties
        targets = denoted(self._facts, join.target)
        ways = self._from if join.reverse else self._to
        found: Counter[str] = Counter()
        for node in targets:
            for relation in ways.get(node, ()):
                found[relation] += len(self._along(relation, node, join.reverse))
        return dict(sorted(found.items()))

    def _along(self, relation: str, node: Node, reverse: bool) -> Collection[Node]:
        if not reverse:
            return self._facts.subjects(relation, node)
        return self._facts.objects(node, relation) if isinstance(node, str) else ()

    def _right(self, question: Question, expression: Expression) -> bool:
        found = denoted(self._facts, expression)
        values = {node.text if isinstance(node, Value) else node for node in found}
        return values == {answer.value for answer in question.answers}

    def _chosen(self, expression: Expression, question: Question, policy: Policy) -> Expression | None:
        match expression:
            case Join(_, target, reverse):
                inner = self._chosen(target, question, policy)
                if inner is None:
                    return None
                offered = self.offered(Join("", inner, reverse))
                return Join(policy(question, offered), inner, reverse) if offered else None
            case And(left, right):
                one, other = (self._chosen(side, question, policy) for side in (left, right))
                return None if one is None or other is None else And(one, other)
            case Arg(operand=operand) | TimeConstraint(operand=operand) | Count(operand=operand):
                inner = self._chosen(operand, question, policy)
                return None if inner is None else replace(expression, operand=inner)
            case _:
                return expression


def overlap(question: Question, offered: Offered) -> str:
    """The relation that has the largest share of its words in the question; if several tie, the first by name."""
    asked = set(_WORD.findall(question.text.lower()))

    def score(name: str) -> float:
        words = _WORD.findall(name.replace("_", " "))
        return sum(any(_alike(word, other) for other in asked) for word in words) / max(1, len(words))

    return max(sorted(offered), key=score)


def joins(expression: Expression) -> list[Join]:
    """The find_relation steps of a plan."""
    return [part for part in walk(expression) if isinstance(part, Join)]


def _alike(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return one == other or (len(shorter) > _SHORT and longer.startswith(shorter))


def _without(expression: Expression) -> Iterator[tuple[str, Expression]]:
    """For each step that can be left out, its kind (merged class or set, order, time) and the shortened expression."""
    match expression:
        case And(left, right):
            for one, other in ((left, right), (right, left)):
                if not isinstance(other, (Class, Compare)):
                    yield _kind(one), other
                for kind, less in _without(one):
                    yield kind, And(less, other)
        case Arg(_, operand) | TimeConstraint(operand):
            yield "order" if isinstance(expression, Arg) else "time", operand
            for kind, less in _without(operand):
                yield kind, replace(expression, operand=less)
        case Join(relation, target, reverse):
            for kind, less in _without(target):
                yield kind, Join(relation, less, reverse)
        case Count(operand):
            for kind, less in _without(operand):
                yield kind, Count(less)


def _kind(part: Expression) -> str:
    return {Class: "class", Compare: "comparison", Entity: "entity"}.get(type(part), "set")


def tables(dataset: AtomicKbqa) -> Iterator[Table]:
    """All tables if the facts are invented. There are no tables for a user's own graph."""
    source = dataset.source
    if isinstance(source, Witnessed):
        report = Report(dataset, source)
        for table in (report.questions, report.nodes, report.facts, report.degrees, report.guesses, report.shorter):
            yield table()


def written(dataset: AtomicKbqa, case_id: str) -> Iterator[str]:
    """A case as a planner might see it: the plan and, for each call, its result and the relations to choose from."""
    question = dataset.questions[case_id]
    yield from (MADE_UP, question.text, f"  {question.form}")
    yield from asyncio.run(_calls(dataset, case_id))
    yield f"  answers: {question.told}"


async def _calls(dataset: AtomicKbqa, case_id: str) -> list[str]:
    world = cast(SparqlWorld, dataset.problem(case_id).world)
    lines, state, outputs = list[str](), world.start(), dict[str, dict[str, Json]]()
    for number, call in dataset.questions[case_id].calls.items():
        written = resolve(call, outputs)
        expected = await world.identifiers(state, written)
        state, observation = await world.apply(state, written)
        outputs[number] = {RESULT: observation.content.get(RESULT, "")}
        lines.append(f"  {number}. {call.tool} {to_json(dict(call.arguments))}")
        if call.tool == FIND and call.arguments["direction"] in DIRECTIONS and "relation" in expected:
            here = expected["relation"].here
            more = f" ... ({len(here)} in all)" if len(here) > _LISTED else ""
            lines.append(f"     of: {', '.join(here[:_LISTED])}{more}")
        lines.append(f"     {observation.text()}")
    return lines
