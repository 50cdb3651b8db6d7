"""The witness graph: facts invented so that real questions have their real answers, because Freebase is not available.

The questions with their logical forms and answers, the names of entities in questions and answers, and the schema are
real. Everything else is invented. Facts, and things that link entities, are invented so that each S-expression denotes
exactly its released answers. If the facts for one question would change the answers to another, the two questions are
put into different graphs (`urn:shard:0`, ...). The graphs also have facts that match only part of a question and, for
all entities, facts that no question asks about.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count as integers
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import pyoxigraph as ox

from grid.core.util import derive_seed
from grid.datasets.freebase.facts import TOPIC, Fact, Literals, Node, Ontology
from grid.datasets.freebase.records import Question
from grid.datasets.freebase.shards import Shard, add_decoys, parts_of, spread
from grid.worlds.sparql import programs
from grid.worlds.sparql.graph import Limits, StoreGraph, text_of
from grid.worlds.sparql.queries import ENTITY, NS, TYPE, Value
from grid.worlds.sparql.tools import NAME

FACTS, STORE, ACCOUNT = "facts.nq.gz", "store", "witness.json"
FILES = (FACTS, ACCOUNT, f"{STORE}/CURRENT")
_KINDS_OF_BEING = "base.type_ontology."
INNER, DECOY, NOISE = "inner", "decoy", "noise"
"""The purposes of invented things; only the statistics show these purposes."""


@dataclass(frozen=True)
class Witness:
    """The graphs before their invented things get ids and names.

    Attributes:
        left_out: for each S-expression that is left out, the reason why no graph has the question.
        classes: for each entity, its classes according to the questions; an invented name suits these classes.
    """

    shards: Sequence[Shard]
    left_out: Mapping[str, str]
    classes: Mapping[str, Sequence[str]]
    ontology: Ontology
    seed: int


def shard_name(number: int) -> str:
    """The IRI of a graph."""
    return f"urn:shard:{number}"


def grow(questions: Sequence[Question], ontology: Ontology, seed: int) -> Witness:
    """Make graphs in which the questions have their answers. No two questions may have the same S-expression."""
    numbers = integers()

    def fresh(kind: str) -> Callable[[], str]:
        return lambda: f"{kind}:{next(numbers)}"

    literals = Literals(ontology.roles, (question.expression for question in questions))
    shards, left_out = spread(
        questions, lambda number: Shard(ontology, literals, fresh(INNER), derive_seed(seed, "shard", number))
    )
    asked = _classes(shards)
    for number, shard in enumerate(shards):
        add_decoys(shard, fresh(DECOY), derive_seed(seed, "shard", number))
        Noise(shard, fresh(NOISE), derive_seed(seed, "shard", number)).add()
    return Witness(shards, left_out, asked, ontology, seed)


def write(target: Path, witness: Witness, released: Mapping[str, str]) -> None:
    """Put graphs into a folder: all facts as N-Quads, a store of the facts, and an account of questions and graphs.

    `released` maps ids to the names in the questions' files. At the end, each question is run on the store. If the
    answers from the store differ from the answers in memory, the question is left out.
    """
    ids = _christened(witness, released)
    with gzip.GzipFile(target / FACTS, "wb", mtime=0) as file:
        for some in _batches(_quads(witness, ids)):
            file.write(ox.serialize(some, format=ox.RdfFormat.N_QUADS) or b"")
    programs.on_disk(target / STORE, target / FACTS)
    shards, left_out = _asked(programs.opened(target / STORE), witness)
    account = {
        "shards": shards,
        "left_out": left_out,
        "graphs": len(witness.shards),
        "invented": {identity: node.partition(":")[0] for node, (identity, _) in ids.items() if ":" in node},
    }
    (target / ACCOUNT).write_text(json.dumps(account), encoding="utf-8")


def _asked(store: ox.Store, witness: Witness) -> tuple[dict[str, int], dict[str, str]]:
    """By S-expression: the graph that gives the answers in the store, and the reasons why questions are left out."""
    shards: dict[str, int] = {}
    left_out = dict(witness.left_out)
    for number, shard in enumerate(witness.shards):
        graph = StoreGraph(store, shard_name(number), Limits(seconds=600.0))
        for question in shard.questions:
            found = {text_of(node) for node in graph.denotes(question.expression)}
            if found == {answer.value for answer in question.answers}:
                shards[question.form] = number
            else:
                left_out[question.form] = "the store gives another answer than the facts in memory"
    return shards, left_out


def _christened(witness: Witness, released: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """An id and a name (which may be empty) for every entity. Released entities keep their ids and names."""
    classes = _classes(witness.shards)
    known = {node: released.get(node, "") for node in classes if ENTITY.fullmatch(node)}
    given = Christening(known, {node: _telling(witness.classes.get(node, ())) for node in known})
    found: dict[str, tuple[str, str]] = {}
    for node in sorted(classes):
        rng = random.Random(derive_seed(witness.seed, "name", node))
        invented = ENTITY.fullmatch(node) is None
        telling = _telling(classes[node])
        identity = given.id(telling, rng) if invented else node
        name = released.get(node, "")
        if not name and any(map(witness.ontology.has_names, classes[node])):
            name = given.name(telling, rng)
        found[node] = identity, name
    return found


def _classes(shards: Sequence[Shard]) -> dict[str, list[str]]:
    """For each entity, its classes in all graphs, in the order in which they were added."""
    found: dict[str, dict[str, None]] = {}
    for shard in shards:
        for subject, name in shard.facts.pairs(TYPE):
            found.setdefault(subject, {})[str(name)] = None
    return {subject: list(names) for subject, names in found.items()}


def _telling(classes: Sequence[str]) -> list[str]:
    """The classes that reveal something about an entity's name; general classes do not."""
    return [name for name in classes if name != TOPIC and not name.startswith(_KINDS_OF_BEING)]


def _quads(witness: Witness, ids: Mapping[str, tuple[str, str]]) -> Iterator[ox.Quad]:
    """The facts of all graphs in a random order, and every entity's name."""
    for number, shard in enumerate(witness.shards):
        graph = ox.NamedNode(shard_name(number))
        facts = list(shard.facts)
        random.Random(derive_seed(witness.seed, "order", number)).shuffle(facts)
        for entity in dict.fromkeys(subject for subject, _ in shard.facts.pairs(TYPE)):
            identity, name = ids[entity]
            if name:
                yield ox.Quad(_iri(identity), _iri(NAME), ox.Literal(name, language="en"), graph)
        for subject, relation, node in facts:
            end = node if isinstance(node, Value) or relation == TYPE else ids[node][0]
            yield ox.Quad(_iri(ids[subject][0]), _iri(relation), _term(end), graph)


def _term(node: Node) -> ox.NamedNode | ox.Literal:
    if isinstance(node, Value):
        return ox.Literal(node.text, datatype=ox.NamedNode(node.datatype))
    return _iri(node)


def _iri(name: str) -> ox.NamedNode:
    return ox.NamedNode(f"{NS}{name}")


def _batches(quads: Iterator[ox.Quad]) -> Iterator[list[ox.Quad]]:
    while some := list(islice(quads, 10_000)):
        yield some


# Ids and names for invented things. They resemble the ids and names of things of the same class in the questions'
# files.


_ALPHABET = "0123456789bcdfghjklmnpqrstvwxyz_"
"""The characters of Freebase's ids."""
_KEPT = 5
"""A new id keeps this many leading characters of a real id; they show when things of a kind were added to Freebase."""
_TRIES = 25
_DIGITS = re.compile(r"[0-9]+")
_WORD = re.compile(r"\b(?!(?:the|and|for|von|van|der|del|les|los|las|des)\b)[^\W\d_]{3,12}\b", re.IGNORECASE)
_FEW = 6
"""If a class has fewer names than this, its names are not recombined into new names."""
_WORDS = 30
"""New words are made from the words of a domain only if the domain has at least this many words."""
_PLACEHOLDER, _NAMELESS = "m.0", "Thing"


class Christening:
    """Makes new ids and names that are modelled on released ids and names.

    Args:
        released: names by id; the name of an entity without a name is empty.
        classes: the classes of each entity by its id, the most specific first.
    """

    def __init__(self, released: Mapping[str, str], classes: Mapping[str, Sequence[str]]) -> None:
        self._ids = set(released)
        self._taken = {name.casefold() for name in released.values() if name}
        self._models: dict[str, list[str]] = {}
        self._named: dict[str, list[str]] = {}
        self._words: dict[str, list[str]] = {}
        for identity in sorted(released):
            for group in ("", *_groups(classes.get(identity, ()))):
                self._models.setdefault(group, []).append(identity)
                if released[identity]:
                    self._named.setdefault(group, []).append(released[identity])
        self._named.setdefault("", [_NAMELESS])

    def id(self, classes: Sequence[str], rng: random.Random) -> str:
        """A new id."""
        model = rng.choice(self._ids_like(classes))
        while True:
            tail = "".join(rng.choice(_ALPHABET) for _ in model[_KEPT:])
            made = f"{model[:_KEPT]}{tail}"
            if made not in self._ids and len(made) > _KEPT:
                self._ids.add(made)
                return made
            model = f"{model}{rng.choice(_ALPHABET)}"

    def name(self, classes: Sequence[str], rng: random.Random) -> str:
        """A new name that joins the start of one name of its class to the end of another, with different digits.

        If no unused combination is found, or if the class has only a few names, whose parts would be recognized, the
        new name consists of invented words. If all of these names are taken, a number is added to a known name.
        """
        names = self._names_like(classes)
        words = self._words_like(classes)
        for attempt in range(2 * _TRIES):
            if attempt < _TRIES and len(names) >= _FEW:
                made = _spliced(rng.choice(names), rng.choice(names), rng)
            else:
                made = _reworded(rng.choice(names), words, rng)
            if made.casefold() not in self._taken:
                self._taken.add(made.casefold())
                return made
        return self._numbered(names, rng)

    def _words_like(self, classes: Sequence[str]) -> list[str]:
        """The words in the names of the same domain; if there are too few of them, the words in all names."""
        for group in (*_groups(classes), ""):
            if group.endswith(".") or not group:
                if group not in self._words:
                    found = {word for name in self._named.get(group, ()) for word in _WORD.findall(name)}
                    self._words[group] = sorted(found)
                if len(self._words[group]) >= _WORDS:
                    return self._words[group]
        return self._words[""] or [_NAMELESS]

    def _numbered(self, names: Sequence[str], rng: random.Random) -> str:
        first = rng.choice(names)
        number = next(n for n in range(2, len(self._taken) + 3) if f"{first} {n}".casefold() not in self._taken)
        self._taken.add(f"{first} {number}".casefold())
        return f"{first} {number}"

    def _names_like(self, classes: Sequence[str]) -> list[str]:
        """The names of the first group that has any; the groups are the classes, then their domains, then all names."""
        return next(self._named[group] for group in (*_groups(classes), "") if self._named.get(group))

    def _ids_like(self, classes: Sequence[str]) -> list[str]:
        groups = (self._models[group] for group in (*_groups(classes), "") if self._models.get(group))
        return next(groups, [_PLACEHOLDER])


def _groups(classes: Iterable[str]) -> list[str]:
    names = list(classes)
    return list(dict.fromkeys([*names, *(f"{name.rpartition('.')[0]}." for name in names)]))


def _spliced(one: str, other: str, rng: random.Random) -> str:
    """A name made from words of two names or, if the first name is a single word, from parts of words."""
    first, last = one.split(), other.split()
    if len(first) > 1 and len(last) > 1:
        made = " ".join([*first[: (len(first) + 1) // 2], *last[len(last) // 2 + (len(last) % 2) :]])
    elif len(first) > 1:
        made = " ".join([*first[:-1], *last])
    else:
        head, tail = first[0], last[-1]
        words = head.isalpha() and tail.isalpha()
        made = head[: (len(head) + 1) // 2] + tail[len(tail) // 2 :] if words else one
    return _DIGITS.sub(lambda found: _digits(found[0], rng), made)


def _reworded(name: str, words: Sequence[str], rng: random.Random) -> str:
    """A name of the same form: each longer word is replaced by a blend of two of `words`, and digits are changed."""

    def made(found: re.Match[str]) -> str:
        first, last = rng.choice(words).lower(), rng.choice(words).lower()
        word = first[: (len(first) + 1) // 2] + last[len(last) // 2 :]
        return word.capitalize() if found[0][0].isupper() else word

    return _DIGITS.sub(lambda found: _digits(found[0], rng), _WORD.sub(made, name))


def _digits(text: str, rng: random.Random) -> str:
    """Replace all digits by random digits; in a year, replace only the last two."""
    kept = 2 if len(text) == 4 and text[:2] in ("18", "19", "20") else 0
    drawn = [str(rng.randrange(10)) for _ in text[kept:]]
    if not kept and len(text) > 1 and drawn[0] == "0":
        drawn[0] = str(rng.randint(1, 9))
    return text[:kept] + "".join(drawn)


# Facts that no question asks about. Each entity gets ten or more relations in each direction, if the schema has enough.


LEAST = 10
"""Minimum number of relations that each entity gets in each direction, if possible."""
_MORE = 5
_MEMBERS = 6
"""Minimum number of members of a class in a question.

A class that is one relation away from a class in a question needs only half as many members.
"""
_KNOWN = 0.7
"""Share of a class's new members that are released entities of the class's domain, if the domain has any."""
_SPREAD = 1.8
_MOST_ENDS = 40
"""The number of facts that an entity has with one relation follows a Pareto distribution, capped at this number."""
_MANY, _AS_MANY = 2, 0.6
"""If an entity has over `_MANY` facts of a question's relation, most of its other relations get about as many facts.

`_AS_MANY` is the share of the entity's other relations that get about as many facts.
"""
_COMMON = 0.15
"""How frequent the relations of the class of all topics are, relative to the relations of an entity's other classes."""
_Had: TypeAlias = dict[bool, dict[str, set[str]]]
"""The relations of each entity in each direction (true: from the entity)."""


_UNTOLD = re.compile(
    r"abus|accus|arrest|brothel|celebrit|convict|crime|infidel|lawsuit|popstra|porn|prostitut|rehab|sexual"
)
"""No facts about these subjects are invented (unless a question uses the relation), because people have real names."""
_CLASSES = 50
"""Maximum number of classes that are tried for an entity with too few relations."""


class Noise:
    """Adds facts to one shard. A relation's frequency does not depend on whether questions ask for it."""

    def __init__(self, shard: Shard, fresh: Callable[[], str], seed: int) -> None:
        self._shard, self._fresh, self._seed = shard, fresh, seed
        self._ontology: Ontology = shard.planter.ontology
        self._rng = random.Random(derive_seed(seed, "noise"))
        self._weights: dict[str, float] = {}
        self._members: dict[str, list[str]] = {}
        self._largest: dict[tuple[str, bool], int] = {}
        self._kin: dict[tuple[str, bool], list[str]] = {}

    def add(self) -> None:
        """Add members to classes, then facts about all entities. Entities in questions are treated like any others."""
        self._measure()
        self._note_kin()
        self._populate()
        for name, subject in sorted((str(name), subject) for subject, name in self._shard.facts.pairs(TYPE)):
            self._members.setdefault(name, []).append(subject)
        everything = sorted({subject for subject, _ in self._shard.facts.pairs(TYPE)})
        had = {forth: self._relations(forth) for forth in (True, False)}
        for forth in (True, False):
            self._rng.shuffle(everything)
            for node in everything:
                self._fill(node, forth, had)
        for node in everything:
            self._widen(node, had)

    def _widen(self, node: str, had: _Had) -> None:
        """Add classes to an entity that has too few relations, first from its own domains, then from any domain."""
        if self._total(node, had) >= LEAST:
            return
        own = {str(name) for name in self._shard.facts.types(node)}
        named = any(map(self._ontology.has_names, own))
        domains = {_domain(name) for name in own if name != TOPIC}
        every = dict.fromkeys([*self._members, *self._ontology.leading_from])
        alike = [name for name in every if name not in own and self._ontology.has_names(name) == named]
        self._rng.shuffle(alike)
        alike.sort(
            key=lambda name: (not self._suits(node, name), _domain(name) not in domains, name not in self._members)
        )
        for name in alike[:_CLASSES]:
            if self._shard.try_out(partial(self._shard.planter.classify, node, name)):
                for forth in (True, False):
                    self._fill(node, forth, had)
            if self._total(node, had) >= LEAST:
                return

    def _total(self, node: str, had: _Had) -> int:
        return sum(len(had[forth].get(node, ())) for forth in (True, False))

    def _measure(self) -> None:
        """For each entity and direction, count the facts of its most frequent relation before noise is added."""
        counts: Counter[tuple[str, bool, str]] = Counter()
        for subject, relation, node in self._shard.facts:
            if relation != TYPE:
                counts[subject, True, relation] += 1
                if isinstance(node, str):
                    counts[node, False, relation] += 1
        for (node, forth, _), count in counts.items():
            self._largest[node, forth] = max(count, self._largest.get((node, forth), 0))

    def _populate(self) -> None:
        """Add members to the classes in questions, and to the classes that are one relation away from these classes."""
        roles = self._ontology.roles
        near: dict[str, None] = {}
        for question in self._shard.questions:
            for name, is_class in sorted(parts_of(question.expression).items()):
                near |= dict.fromkeys([name] if is_class else roles.get(name, ()))
        far: dict[str, None] = {}
        for name in near:
            for relation in self._ontology.leading_from.get(name, ()):
                far[roles[relation][1]] = None
            for relation in self._ontology.leading_to.get(name, ()):
                far[roles[relation][0]] = None
        for names, least in ((near, _MEMBERS), (far, _MEMBERS // 2)):
            for name in names:
                if not name.startswith("type."):
                    self._fill_class(name, least)

    def _fill_class(self, name: str, least: int) -> None:
        """Add new things and the domain's released entities to a class, so not only its answers have real names."""
        missing = least - len(self._shard.facts.subjects(TYPE, name))
        named = self._ontology.has_names(name)
        kin = [node for node in self._kin.get((_domain(name), named), ()) if self._suits(node, name)]
        for _ in range(missing):
            nodes = [self._rng.choice(kin)] if kin and self._rng.random() < _KNOWN else []
            for node in (*nodes, self._fresh()):
                if self._shard.try_out(partial(self._shard.planter.classify, node, name)):
                    break

    def _suits(self, node: str, name: str) -> bool:
        """Whether an entity has all superclasses of a class.

        For example, a book is not a person, so it cannot be an actor.
        """
        above = {other for other in self._ontology.above(name) if other not in (name, TOPIC)}
        return name != TOPIC and above <= set(self._shard.facts.types(node))

    def _note_kin(self) -> None:
        """Record each domain's released entities in two groups: those that can have names, and the others."""
        released = sorted({node for node, _ in self._shard.facts.pairs(TYPE) if ENTITY.fullmatch(node)})
        for node in released:
            classes = [str(name) for name in self._shard.facts.types(node)]
            named = any(map(self._ontology.has_names, classes))
            for domain in dict.fromkeys(map(_domain, classes)):
                self._kin.setdefault((domain, named), []).append(node)

    def _relations(self, forth: bool) -> dict[str, set[str]]:
        """For each entity, the relations that lead from the entity (if `forth`) or to the entity (if not)."""
        had: dict[str, set[str]] = {}
        for fact in self._shard.facts:
            if fact.relation != TYPE:
                self._note(had, fact, forth)
        return had

    @staticmethod
    def _note(had: dict[str, set[str]], fact: Fact, forth: bool) -> None:
        end = fact.subject if forth else fact.object
        if isinstance(end, str):
            had.setdefault(end, set()).add(fact.relation)

    def _fill(self, node: str, forth: bool, had: _Had) -> None:
        """Add relations of an entity's classes until the entity has enough relations in the given direction."""
        wanted = LEAST + self._rng.randrange(_MORE)
        own = had[forth].setdefault(node, set())
        for relation in self._drawn(node, forth):
            if len(own) >= wanted:
                return
            if relation in own:
                continue
            for first, last in self._ends(node, relation, forth):
                mark = len(self._shard.facts)
                if self._shard.add(first, relation, last):
                    for fact in self._shard.facts.since(mark):
                        for way, relations in had.items():
                            self._note(relations, fact, way)

    def _drawn(self, node: str, forth: bool) -> Iterable[str]:
        """The relations of an entity's classes in random order; frequent relations tend to come early."""
        by_class = self._ontology.leading_from if forth else self._ontology.leading_to
        keys: dict[str, float] = {}
        for name in self._shard.facts.types(node):
            rarer = _COMMON if name == TOPIC else 1.0
            for relation in by_class.get(str(name), ()):
                if _UNTOLD.search(relation) and not self._shard.asks(relation):
                    continue
                keys[relation] = self._rng.expovariate(1.0) / (self._weight(relation) * rarer)
        return sorted(keys, key=keys.__getitem__)

    def _weight(self, relation: str) -> float:
        if relation not in self._weights:
            rng = random.Random(derive_seed(self._seed, "weight", relation))
            self._weights[relation] = rng.lognormvariate(0.0, 0.4)
        return self._weights[relation]

    def _ends(self, node: str, relation: str, forth: bool) -> Iterator[tuple[str, Node]]:
        """The facts to add: one fact with a literal, or facts with members of the class at the relation's other end."""
        if forth and relation in self._shard.planter.literals:
            if not self._shard.facts.objects(node, relation):
                yield node, self._shard.planter.literals.draw(relation, self._rng)
            return
        others: Sequence[str] = self._members.get(self._ontology.roles[relation][1 if forth else 0], ())
        if not others:
            return
        for other in self._rng.sample(others, min(self._count(node, forth), len(others))):
            if other != node:
                yield (node, other) if forth else (other, node)

    def _count(self, node: str, forth: bool) -> int:
        """The number of facts to add for a relation of an entity."""
        largest = self._largest.get((node, forth), 0)
        if largest > _MANY and self._rng.random() < _AS_MANY:
            return max(1, int(largest * self._rng.lognormvariate(0.3, 0.5)))
        return min(int(self._rng.paretovariate(_SPREAD)), _MOST_ENDS)


def _domain(name: str) -> str:
    """A class's domain."""
    return name.rpartition(".")[0]
