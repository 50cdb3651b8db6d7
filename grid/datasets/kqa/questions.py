"""Whole questions, with one maker for each function that can end a program."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from grid.datasets.kqa.phrases import FILTERS, LONG, Dead, Phrase, Phrases
from grid.datasets.kqa.program import (
    Attribute,
    Clause,
    Facts,
    Tree,
    joined,
    listed,
)
from grid.datasets.kqa.world import Compared, Words

Item = TypeVar("Item")
LARGEST_SET = 150
"""Maximum number of entities in a set that a question asks about."""


@dataclass(frozen=True)
class Draft:
    """A question without its answer."""

    text: str
    tree: Tree


class Questions:
    """Makes drafts of questions. A maker raises Dead if its attempt does not lead to a question."""

    def __init__(self, facts: Facts, words: Words, phrases: Phrases, rng: random.Random) -> None:
        self.facts, self.words, self.phrases, self.rng = facts, words, phrases, rng
        self.everyone = list(facts.name)
        self.asked = ""
        self.makers: dict[str, Callable[[], Draft]] = {
            "QueryName": self.query_name,
            "Count": self.count,
            "SelectAmong": self.select_among,
            "SelectBetween": self.select_between,
            "QueryAttr": self.query_attr,
            "QueryAttrUnderCondition": self.query_attr_under_condition,
            "QueryAttrQualifier": self.query_attr_qualifier,
            "QueryRelation": self.query_relation,
            "QueryRelationQualifier": self.query_relation_qualifier,
            "VerifyStr": lambda: self.verify("string"),
            "VerifyNum": lambda: self.verify("quantity"),
            "VerifyYear": lambda: self.verify("year"),
            "VerifyDate": lambda: self.verify("date"),
        }

    def make(self, function: str) -> Draft:
        """Make a draft whose program ends with the given function."""
        self.phrases.fresh()
        self.asked = ""
        return self.makers[function]()

    def query_name(self) -> Draft:
        """A question such as 'Who is the director of ...?'."""
        target = self.rng.choice(self.everyone)
        phrase = self.one(target, plain=False)
        frame = "who" if "person" in self.facts.concepts[target] else "what"
        return Draft(self.frame(frame, e=phrase.text), phrase.tree.then("QueryName"))

    def count(self) -> Draft:
        """A question such as 'How many films ... are there?'."""
        phrase = self.several(self.rng.choice(self.everyone))
        if len(self.phrases.names(phrase.tree)) == 1 and self.rng.random() < 0.7:
            raise Dead
        return Draft(self.frame("count", s=phrase.text), phrase.tree.then("Count"))

    def select_among(self) -> Draft:
        """A question such as 'Which of the films ... is the longest?', or a similar one with a list of entities."""
        target, key = self.sized()
        self.asked = key
        superlative = self.rng.choice(["largest", "smallest"])
        words = self.words.attributes[key]
        predicate = self.rng.choice(words.most if superlative == "largest" else words.least)
        if self.rng.random() < 0.4:
            concept = self.concept(target)
            others = self.rng.sample(self.peers(concept, key), self.rng.randint(2, 5))
            hops = self.rng.choice([0, 0, 1])
            chosen = [self.phrases.entity(other, hops, titled=False) for other in others]
            shown = listed([phrase.text for phrase in chosen])
            tree = joined("Or", [phrase.tree for phrase in chosen])
            if len(others) == 2:
                predicate = predicate.removesuffix(" of all")
            text = self.frame("among_listed", {"names": shown, "p": predicate})
            return Draft(text, tree.then("SelectAmong", key, superlative))
        phrase = self.several(target)
        if not 2 <= len(self.phrases.names(phrase.tree)) <= LARGEST_SET:
            raise Dead
        tree = phrase.tree.then("SelectAmong", key, superlative)
        return Draft(self.frame("among", {"p": predicate}, s=phrase.text), tree)

    def select_between(self) -> Draft:
        """A question such as 'Who is taller, ... or ...?'."""
        if self.rng.random() < 0.35:
            left, right, key = self.pair_of_one()
        else:
            first, key = self.sized()
            self.asked = key
            left = self.one(first)
            right = self.one(self.rng.choice(self.peers(self.concept(first), key)))
        if self.facts.values(left.target, key)[0].value == self.facts.values(right.target, key)[0].value:
            raise Dead
        if len(left.text) > len(right.text):
            left, right = right, left
        more = self.rng.random() < 0.5
        words = self.words.attributes[key]
        if len(left.text) > 2 * LONG:
            raise Dead
        text = self.phrases.worded(words.more if more else words.less, left.target, {"l": left.text}, r=right.text)
        tree = Tree("SelectBetween", (key, "greater" if more else "less"), (left.tree, right.tree))
        return Draft(text, tree)

    def pair_of_one(self) -> tuple[Phrase, Phrase, str]:
        """Two phrases that start from the same entity, and a quantity that the entities of both phrases have.

        The DAG merges the steps that the tree repeats.
        """
        start = self.phrases.entity(self.rng.choice(self.everyone), self.rng.choice([0, 0, 1, 2]))
        near = self.reached(start)
        found = [*near, *(further for phrase in near for further in self.reached(phrase))]
        pairs = [
            (left, right, fact.name)
            for left in found
            for right in found
            if left.target != right.target and self.facts.alike(left.target, right.target)
            for fact in self.facts.single(left.target)
            if self.words.attributes[fact.name].more and self.facts.has(right.target, fact.name)
        ]
        return self.pick(pairs)

    def reached(self, start: Phrase) -> list[Phrase]:
        """Phrases for entities that are each the only object of a relation of the start's entity."""
        found = []
        for fact in self.facts.relations[start.target]:
            words = self.words.relations[fact.name].object
            if fact.direction == "forward" and len(self.facts.related(start.target, fact.name, "forward")) == 1:
                tree = start.tree.then("Relate", fact.name, "forward")
                with suppress(Dead):
                    found.append(Phrase(self.phrases.worded(words, fact.other, x=start.text), tree, fact.other))
        return found

    def query_attr(self) -> Draft:
        """A question such as 'When was ... born?'."""
        target = self.rng.choice(self.everyone)
        fact = self.pick([f for f in self.facts.single(target) if self.words.attributes[f.name].ask])
        self.asked = fact.name
        phrase = self.one(target)
        text = self.phrases.worded(self.words.attributes[fact.name].ask, target, e=phrase.text)
        return Draft(text, phrase.tree.then("QueryAttr", fact.name))

    def query_attr_under_condition(self) -> Draft:
        """A question such as 'What was the population of ... in 2010?'."""
        target = self.rng.choice(self.everyone)
        fact, key, tree, phrase = self.under_condition(target, lambda f, k: k in self.words.attributes[f.name].at)
        asked = {"q": dict(fact.qualifiers)[key].text}
        return Draft(self.phrases.worded(self.words.attributes[fact.name].at[key], target, asked, e=phrase.text), tree)

    def under_condition(
        self, target: str, wanted: Callable[[Attribute, str], bool]
    ) -> tuple[Attribute, str, Tree, Phrase]:
        """A fact of the target, a qualifier's key, the tree that asks for the value, and the target's phrase.

        The qualifier belongs to the fact, and the tree asks for the fact's value.
        """
        found = [(f, key) for f in self.facts.attributes[target] for key, _ in f.qualifiers if wanted(f, key)]
        if not found:
            raise Dead
        fact, key = self.pick(found)
        self.asked = fact.name
        phrase = self.one(target)
        value = dict(fact.qualifiers)[key].text
        return fact, key, phrase.tree.then("QueryAttrUnderCondition", fact.name, key, value), phrase

    def query_attr_qualifier(self) -> Draft:
        """A question such as 'When did ... have a population of ...?'."""
        target = self.rng.choice(self.everyone)
        facts = self.facts.attributes[target]
        found = [(f, key) for f in facts for key, _ in f.qualifiers if key in self.words.attributes[f.name].when]
        if not found:
            raise Dead
        fact, key = self.pick(found)
        self.asked = fact.name
        phrase = self.one(target)
        shown = self.phrases.spoken(fact.value.kind, fact.value.text)
        text = self.phrases.worded(self.words.attributes[fact.name].when[key], target, {"v": shown}, e=phrase.text)
        return Draft(text, phrase.tree.then("QueryAttrQualifier", fact.name, fact.value.text, key))

    def query_relation(self) -> Draft:
        """A question such as 'How is ... related to ...?'."""
        subject = self.rng.choice(self.everyone)
        fact = self.phrases.any_of([f for f in self.facts.relations[subject] if f.direction == "forward"])
        left, right = self.one(subject), self.one(fact.other)
        return Draft(
            self.frame("relation", l=left.text, r=right.text), Tree("QueryRelation", (), (left.tree, right.tree))
        )

    def query_relation_qualifier(self) -> Draft:
        """A question such as 'When did ... join ...?'."""
        subject = self.rng.choice(self.everyone)
        facts = [f for f in self.facts.relations[subject] if f.direction == "forward"]
        fact = self.phrases.any_of([f for f in facts if self.words.relations[f.name].when])
        key = self.rng.choice(list(self.words.relations[fact.name].when))
        left, right = self.one(subject), self.one(fact.other)
        wordings = self.words.relations[fact.name].when[key]
        text = self.phrases.worded(wordings, subject, s=left.text, t=right.text)
        return Draft(text, Tree("QueryRelationQualifier", (fact.name, key), (left.tree, right.tree)))

    def verify(self, kind: str) -> Draft:
        """A question such as 'Was ... born before 1950?'; half of the statements are true."""
        target = self.rng.choice(self.everyone)
        if kind == "quantity" and self.rng.random() < 0.4:
            return self.verify_under_condition(target)
        kinds = ("year", "date") if kind == "year" else (kind,)
        facts = [f for f in self.facts.single(target) if f.value.kind in kinds]
        fact = self.phrases.any_of([f for f in facts if self.words.attributes[f.name].check])
        self.asked = fact.name
        phrase = self.one(target)
        wordings, bound, step = self.checked(fact, self.words.attributes[fact.name].check, kind)
        text = self.phrases.worded(wordings, target, {"v": bound}, e=phrase.text)
        return Draft(text, phrase.tree.then("QueryAttr", fact.name).then(*step))

    def verify_under_condition(self, target: str) -> Draft:
        """A question such as 'Did more than ... people live in ... in 2010?'."""
        fact, key, tree, phrase = self.under_condition(target, lambda f, k: k in self.words.attributes[f.name].check_at)
        wordings, bound, step = self.checked(fact, self.words.attributes[fact.name].check_at[key], "quantity")
        filled = {"v": bound, "q": dict(fact.qualifiers)[key].text}
        return Draft(self.phrases.worded(wordings, target, filled, e=phrase.text), tree.then(*step))

    def checked(self, fact: Attribute, wordings: Compared, kind: str) -> tuple[list[str], str, tuple[str, ...]]:
        """Yes-or-no wordings about a fact's value, the value to compare it with, and the step that compares them."""
        holds = self.rng.random() < 0.5
        if kind == "string":
            text = fact.value.text if holds else self.rng.choice(self.facts.texts[fact.name])
            return wordings["="], text, ("VerifyStr", text)
        operator = self.rng.choice(list(wordings))
        found, bound = self.phrases.bound(fact.value, operator, holds)
        if found != kind:
            raise Dead
        dated = [self.phrases.dated(wording, found) for wording in wordings[operator]]
        return dated, self.phrases.spoken(found, bound), (f"Verify{FILTERS[kind]}", bound, operator)

    def one(self, target: str, plain: bool = True) -> Phrase:
        """A phrase of random complexity for one entity. If `plain`, the phrase may be just the entity's name."""
        if self.rng.random() < 0.3:
            return self.phrases.described(target, self.clauses(target), self.concept(target))
        return self.phrases.entity(
            target, self.rng.choice([0, 0, 0, 1, 1, 2, 2, 3, 4, 5]) if plain else self.rng.randint(1, 6)
        )

    def several(self, target: str) -> Phrase:
        """A phrase for a set that contains the target; its clauses are joined by 'and' or 'or'."""
        concept, join = self.concept(target), self.rng.choice(["And", "Or"])
        clauses = self.clauses(target)
        if join == "Or" and sum(1 for c in clauses if c.source) > 1:
            peer = self.rng.choice(self.facts.members[concept])
            clauses = [clauses[0], self.phrases.relation_clause(peer, self.rng.randint(0, 2)), *clauses[2:]]
        phrase = self.phrases.set_of(target, clauses, concept, join)
        if not 1 <= len(self.phrases.names(phrase.tree)) <= LARGEST_SET:
            raise Dead
        return phrase

    def clauses(self, target: str) -> list[Clause]:
        """One or more clauses: up to two relation clauses, followed by up to three attribute clauses."""
        self.phrases.used.add(target)
        relations = self.rng.choice([0, 0, 1, 1, 1, 2, 2, 2])
        attributes = self.rng.choice([1, 2, 3]) if relations == 0 else self.rng.choice([0, 0, 1, 1, 2])
        found = []
        for _ in range(relations):
            hops = self.rng.choice([0, 0, 0, 1, 1, 2, 3])
            found.append(self.phrases.relation_clause(target, hops, self.rng.random() < 0.5))
        qualified = relations < 2 and self.rng.random() < 0.5
        found += [self.phrases.attribute_clause(target, qualified and not place) for place in range(attributes)]
        keys = [step[1] for clause in found for step in clause.filters if step[0].startswith("Filter")]
        if len(keys) > len(set(keys)) or self.asked in keys:
            raise Dead
        return found

    def concept(self, target: str) -> str:
        """One of the two concepts that are nearest to the target."""
        return self.rng.choice(self.facts.concepts[target][:2])

    def sized(self) -> tuple[str, str]:
        """An entity, and one of its attributes that has words for comparisons ('taller')."""
        target = self.rng.choice(self.everyone)
        fact = self.pick([f for f in self.facts.single(target) if self.words.attributes[f.name].more])
        return target, fact.name

    def peers(self, concept: str, key: str) -> list[str]:
        """Those entities of a concept that have exactly one value of an attribute.

        Raises Dead if there are fewer than five such entities.
        """
        found = [identity for identity in self.facts.members[concept] if self.facts.has(identity, key)]
        if len(found) < 5:
            raise Dead
        return found

    def pick(self, facts: Sequence[Item]) -> Item:
        """One of the facts, drawn at random. Raises Dead if there are no facts."""
        if not facts:
            raise Dead
        return self.rng.choice(facts)

    def frame(self, name: str, fixed: Mapping[str, str] | None = None, **texts: str) -> str:
        """A whole question, made from the frame with this name."""
        return self.phrases.worded(self.words.frames[name], self.everyone[0], fixed, **texts)
