"""The witness graph: facts invented so that real questions have their real answers, since Freebase cannot be had.

Real are the questions, their logical forms and answers, the names of the entities that these speak of, and the schema.
All else is made up. Each S-expression is given facts, with invented things in between, so that it denotes exactly the
released answers; questions that would break one another stand in different graphs (`urn:shard:0`, ...). Around these
lie facts that meet a part of a question only, and facts about everything that no question asks for.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import pyoxigraph as ox

from grid.core.seeds import derive_seed
from grid.datasets.freebase.decoys import add_decoys
from grid.datasets.freebase.facts import Node
from grid.datasets.freebase.literals import Literals
from grid.datasets.freebase.names import Christening
from grid.datasets.freebase.noise import Noise
from grid.datasets.freebase.ontology import TOPIC, Ontology
from grid.datasets.freebase.records import Question
from grid.datasets.freebase.shards import Shard, spread
from grid.worlds.sparql import reading
from grid.worlds.sparql.expressions import ENTITY, Value
from grid.worlds.sparql.graph import Limits
from grid.worlds.sparql.lookups import NAME
from grid.worlds.sparql.queries import NS, TYPE
from grid.worlds.sparql.results import text_of
from grid.worlds.sparql.store import StoreGraph

FACTS, STORE, ACCOUNT = "facts.nq.gz", "store", "witness.json"
FILES = (FACTS, ACCOUNT, f"{STORE}/CURRENT")
_KINDS_OF_BEING = "base.type_ontology."
INNER, DECOY, NOISE = "inner", "decoy", "noise"
"""What invented things are for; statistics alone are told."""


@dataclass(frozen=True)
class Witness:
    """Graphs before the invented things in them have ids and names.

    Attributes:
        left_out: by S-expression why no graph has a question.
        classes: by entity those that questions give it, which say what its name is like.
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
    """Graphs in which questions, no two of the same S-expression, have their answers."""
    numbers = count()

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
    """Put graphs into a folder: all facts as N-Quads, a store of them, and an account of what is where.

    `released`: by id the names that the questions' files have. At last each question is asked of the store, and left
    out where it has another answer than in memory.
    """
    ids = _christened(witness, released)
    with gzip.GzipFile(target / FACTS, "wb", mtime=0) as file:
        for some in _batches(_quads(witness, ids)):
            file.write(ox.serialize(some, format=ox.RdfFormat.N_QUADS) or b"")
    reading.on_disk(target / STORE, target / FACTS)
    shards, left_out = _asked(reading.opened(target / STORE), witness)
    account = {
        "shards": shards,
        "left_out": left_out,
        "graphs": len(witness.shards),
        "invented": {identity: node.partition(":")[0] for node, (identity, _) in ids.items() if ":" in node},
    }
    (target / ACCOUNT).write_text(json.dumps(account), encoding="utf-8")


def _asked(store: ox.Store, witness: Witness) -> tuple[dict[str, int], dict[str, str]]:
    """By S-expression the graph of each question that is right in the store, and why others are left out."""
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
    """An id and a name, or an empty one, for every entity: what is released keeps what it has."""
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
    """By entity its classes in all graphs, in the order in which it got them."""
    found: dict[str, dict[str, None]] = {}
    for shard in shards:
        for subject, name in shard.facts.pairs(TYPE):
            found.setdefault(subject, {})[str(name)] = None
    return {subject: list(names) for subject, names in found.items()}


def _telling(classes: Sequence[str]) -> list[str]:
    """The classes that say something of a name."""
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
