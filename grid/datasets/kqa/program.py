"""KoPL programs in data sets: the DAG of a program, its shape, and its steps as tool calls (planning_horizon B.1.1).

This module also reads released question files, and provides the knowledge base in the form that question makers use.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from grid.core.errors import DataError
from grid.core.types import RESULT, Json, Skipped, ToolCall, to_json
from grid.datasets.dataset import balanced
from grid.datasets.files import read_json
from grid.datasets.kqa.world import AttributeSpec, EntityClass, RelationSpec, ValueSpec, Words, WorldStock
from grid.datasets.kqa.world import KnowledgeBase as PlainKnowledge
from grid.text import references
from grid.worlds.kopl.functions import FUNCTIONS, check, function_of, run
from grid.worlds.kopl.queries import is_empty, same_answer, texts
from grid.worlds.kopl.values import KnowledgeBase, KoplError, ProgramError

# While questions are made, programs are trees. Equal trees compute the same result; a tree can be flattened to a
# program.


@dataclass(frozen=True)
class Tree:
    """A step, and the trees whose outputs are the step's inputs."""

    function: str
    inputs: tuple[str, ...]
    sources: tuple[Tree, ...]

    def then(self, function: str, *inputs: str) -> Tree:
        """A new tree whose step takes this tree's output."""
        return Tree(function, inputs, (self,))

    def program(self) -> Program:
        """Steps in KQA Pro's order: a step follows the steps whose outputs it uses; the tree's own step is last."""
        steps: list[ProgramStep] = []
        self._append(steps)
        return tuple(steps)

    def dag(self) -> Program:
        """The program with identical steps merged."""
        return merged(self.program())

    def _append(self, steps: list[ProgramStep]) -> int:
        places = tuple(source._append(steps) for source in self.sources)
        steps.append(ProgramStep(self.function, self.inputs, places))
        return len(steps) - 1


def find(name: str) -> Tree:
    """A tree that finds the entity with the given name."""
    return Tree("Find", (name,), ())


def find_all() -> Tree:
    """A tree that finds all entities."""
    return Tree("FindAll", (), ())


def joined(function: str, trees: list[Tree], *inputs: str) -> Tree:
    """Join several trees with a function of two inputs.

    Each half of the trees is joined first, to minimize the depth.
    """
    if len(trees) == 1:
        return trees[0]
    half = (len(trees) + 1) // 2
    return Tree(function, inputs, (joined(function, trees[:half], *inputs), joined(function, trees[half:], *inputs)))


# KoPL programs in the data sets: the DAG of a program, its shape, and its steps as tool calls (planning_horizon B.1.1).


MAX_STEPS = 100
MAX_INPUT_CHARACTERS = 10_000
MASK = "*"
"""The text that replaces an entity or a value in a template."""
_MASKED = frozenset({"name", "value", "qvalue", "t_value"})
"""The names of the function arguments that are entities or values."""


@dataclass(frozen=True)
class ProgramStep:
    """One step: its function, its text arguments, and the indices of the steps whose outputs it uses."""

    function: str
    inputs: tuple[str, ...]
    dependencies: tuple[int, ...]

    def record(self) -> dict[str, Any]:
        """The step in KQA Pro's form."""
        return {"function": self.function, "inputs": list(self.inputs), "dependencies": list(self.dependencies)}


Program: TypeAlias = tuple[ProgramStep, ...]
Executor: TypeAlias = Callable[[Sequence[ProgramStep]], tuple[str, ...]]
"""A function that runs a program and returns the texts of its values, or raises ProgramError if a step fails."""


def executor(kb: KnowledgeBase) -> Executor:
    """A function that runs programs on a knowledge base. A step with an empty result counts as failed (§4.1)."""

    def execute(program: Sequence[ProgramStep]) -> tuple[str, ...]:
        results = run(kb, [step.record() for step in program])
        for number, result in enumerate(results):
            if is_empty(result):
                raise ProgramError(number, f"{program[number].function} returns nothing")
        found = texts(results[-1])
        if found is None:
            raise ProgramError(len(results) - 1, "the program ends in an entity set")
        return found

    return execute


def read_program(record: object) -> Program:
    """Read a program from untrusted JSON. Raises ProgramError, which names the step and the error."""
    if not isinstance(record, list) or not 1 <= len(record) <= MAX_STEPS:
        raise ProgramError(None, f"a program must be a list of 1 to {MAX_STEPS} steps")
    check(record)
    used = {dependency for step in record for dependency in step["dependencies"]}
    for number, step in enumerate(record):
        if any(len(text) > MAX_INPUT_CHARACTERS for text in step["inputs"]):
            raise ProgramError(number, f"an input has more than {MAX_INPUT_CHARACTERS:,} characters")
        if number not in used and number < len(record) - 1:
            raise ProgramError(number, "no later step uses this step's result")
    return tuple(
        ProgramStep(function_of(step).name, tuple(step["inputs"]), tuple(step["dependencies"])) for step in record
    )


def merged(program: Sequence[ProgramStep]) -> Program:
    """The program's DAG: identical steps with identical inputs become one step (B.1.1, 'Plan DAG Annotation')."""
    nodes: dict[ProgramStep, int] = {}
    places: list[int] = []
    for step in program:
        node = ProgramStep(step.function, step.inputs, tuple(places[d] for d in step.dependencies))
        places.append(nodes.setdefault(node, len(nodes)))
    return tuple(nodes)


def depth(program: Sequence[ProgramStep]) -> int:
    """The number of steps in the longest chain of dependent steps (§3.1)."""
    longest: list[int] = []
    for step in program:
        longest.append(1 + max((longest[d] for d in step.dependencies), default=0))
    return max(longest, default=0)


def breadth(program: Sequence[ProgramStep]) -> float:
    """Average parallelism: steps / depth (§3.1). Pass the DAG, because a tree contains shared steps several times."""
    return len(program) / depth(program)


def masked(program: Sequence[ProgramStep]) -> str:
    """The program without entities and values: each step's function, its other arguments and its dependencies."""
    steps = []
    for step in program:
        names = FUNCTIONS[step.function].texts
        texts = [MASK if name in _MASKED else text for name, text in zip(names, step.inputs, strict=True)]
        steps.append([step.function, texts, list(step.dependencies)])
    return to_json(steps)


def calls(program: Sequence[ProgramStep]) -> dict[str, ToolCall]:
    """The tool calls by id. Step i has the id str(i); an input from step j is written `OUTPUT_FROM_STEP_j.result`."""
    found: dict[str, ToolCall] = {}
    for index, step in enumerate(program):
        function = FUNCTIONS[step.function]
        values: list[Json] = [references.reference(str(d), RESULT) for d in step.dependencies]
        names = (*function.results, *function.texts)
        found[str(index)] = ToolCall(step.function, dict(zip(names, [*values, *step.inputs], strict=True)))
    return found


# The rules for the authored stock: each name is known, each wording is complete, and no word replaces two keys.


def problems(world: WorldStock, pools: dict[str, list[str]], words: Words) -> list[str]:
    """A line for each place where the stock breaks a rule; empty if the stock is sound."""
    found = [
        f"concept {name}: unknown parent {c.parent}"
        for name, c in world.concepts.items()
        if c.parent and c.parent not in world.concepts
    ]
    for name, cls in world.classes.items():
        found += [f"class {name}: {text}" for text in _class_problems(cls, world, pools, words)]
    for name, concept in world.concepts.items():
        found += [
            f"concept {name}: {other} is a concept of its own" for other in concept.also if other in world.concepts
        ]
    return found + _word_problems(world, words)


def _class_problems(cls: EntityClass, world: WorldStock, pools: dict[str, list[str]], words: Words) -> list[str]:
    attributes = cls.origin | cls.attributes
    found = [f"unknown concept {name}" for name in cls.concepts if name not in world.concepts]
    found += [f"no wording for attribute {key}" for key in attributes if key not in words.attributes]
    found += [f"no wording for relation {name}" for name in cls.relations if name not in words.relations]
    found += [f"unknown concept {spec.among}" for spec in cls.relations.values() if spec.among not in world.concepts]
    owners: list[AttributeSpec | RelationSpec] = [*attributes.values(), *cls.relations.values()]
    qualifiers = [(key, spec) for owner in owners for key, spec in owner.qualifiers.items()]
    found += [f"no wording for qualifier {key}" for key, _ in qualifiers if key not in words.qualifiers]
    specs: list[ValueSpec] = [*attributes.values(), *(spec for _, spec in qualifiers)]
    strings = [spec.string for spec in specs if spec.string]
    found += [f"no pool {pool}" for pool in strings if "{" not in pool and pool not in pools]
    patterns = [cls.name] if isinstance(cls.name, str) else cls.name
    slots = {slot for pattern in patterns for slot in re.findall(r"\{(\w+)\}", pattern)}
    return found + [f"no pool {slot}" for slot in sorted(slots) if slot not in pools]


def _word_problems(world: WorldStock, words: Words) -> list[str]:
    found: list[str] = []
    for key, attribute in words.attributes.items():
        texts = [
            text for compared in (attribute.where, attribute.check) for found in compared.values() for text in found
        ]
        found += [f"attribute {key}: {text!r} lacks {{v}}" for text in texts if "{v}" not in text]
        found += [f"attribute {key}: {text!r} lacks {{e}}" for text in attribute.ask if "{e}" not in text]
    for name, relation in words.relations.items():
        texts = [*relation.object, *relation.subject, *relation.objects, *relation.subjects, *relation.states]
        found += [f"relation {name}: {text!r} lacks {{x}}" for text in texts if "{x}" not in text]
        asked = [text for wordings in relation.when.values() for text in wordings]
        found += [f"relation {name}: {t!r} lacks {{s}} or {{t}}" for t in asked if not ("{s}" in t and "{t}" in t)]
        found += [f"relation {name}: no wording for subjects"] * (not relation.subjects)
        found += [f"relation {name}: no wording for objects"] * (not relation.objects)
    return found + _ambiguous(world, words)


def _ambiguous(world: WorldStock, words: Words) -> list[str]:
    """A line for each ambiguous word: a word that replaces two keys, or a key that also replaces a different key.

    There is also a line for each word that is the same as the key that it replaces.
    """
    found = []
    for name, cls in world.classes.items():
        for keys in ({**cls.origin, **cls.attributes}, cls.relations):
            meant: dict[str, str] = {}
            for key in keys:
                for word in words.called.get(key, []):
                    other = meant.setdefault(word, key)
                    found += [f"class {name}: {word!r} stands for {other} and for {key}"] * (other != key)
                    found += [f"class {name}: {word!r} stands for {key}, but is itself a key"] * (
                        word in keys and word != key
                    )
                    found += [f"class {name}: {word!r} is not another word for {key}"] * (word == key)
    return found


# Questions in the released form of KQA Pro: `kb.json`, `train.json`, `val.json`, read within limits.


KB, TRAIN, TEST = "kb.json", "train.json", "val.json"
MAX_QUESTION_CHARACTERS = 10_000


@dataclass(frozen=True)
class Question:
    """One question with its answer and its program as released (a tree)."""

    id: str
    text: str
    program: Program
    answer: str

    @cached_property
    def dag(self) -> Program:
        """The program with identical steps merged."""
        return merged(self.program)

    @cached_property
    def calls(self) -> dict[str, ToolCall]:
        """The DAG as tool calls by step number."""
        return calls(self.dag)

    @cached_property
    def template(self) -> str:
        """The DAG without entities and values. Questions with the same template differ only in entities and values."""
        return masked(self.dag)

    @property
    def told(self) -> str:
        """The answer."""
        return self.answer

    @property
    def right(self) -> str:
        """The answer."""
        return self.answer

    @property
    def depth(self) -> int:
        """The number of calls in the longest chain of the DAG."""
        return depth(self.dag)

    @property
    def breadth(self) -> float:
        """The number of calls in the DAG, divided by the depth."""
        return breadth(self.dag)

    @property
    def last(self) -> str:
        """The function of the last step."""
        return self.dag[-1].function

    def record(self) -> dict[str, Any]:
        """The question in KQA Pro's form, without the choices and the SPARQL query."""
        return {"question": self.text, "program": [step.record() for step in self.program], "answer": self.answer}


def read_questions(path: Path) -> tuple[list[Question], list[Skipped]]:
    """A split's questions (ids `val-0`, `val-1`, ...) and the unusable records. Raises DataError for a broken file."""
    records = read_json(path)
    if not isinstance(records, list):
        raise DataError(path, None, f"a JSON list is expected, not {type(records).__name__}")
    found: list[Question] = []
    skipped: list[Skipped] = []
    for number, record in enumerate(records):
        identity = f"{path.stem}-{number}"
        try:
            found.append(_question(identity, record))
        except (KoplError, ValueError) as error:
            skipped.append(Skipped(identity, str(error)))
    return found, skipped


def _question(identity: str, record: object) -> Question:
    if not isinstance(record, dict):
        raise ValueError(f"an object is expected, not {type(record).__name__}")
    for key in ("question", "answer"):
        text = record.get(key)
        if not isinstance(text, str) or not 1 <= len(text.strip()) <= MAX_QUESTION_CHARACTERS:
            raise ValueError(f"{key} must be a text of 1 to {MAX_QUESTION_CHARACTERS:,} characters")
    return Question(identity, record["question"], read_program(record.get("program")), record["answer"])


def fault(question: Question, run: Executor) -> str | None:
    """Why the program does not give the answer; None if it does (B.1.1, 'Validation')."""
    try:
        found = run(question.dag)
    except KoplError as error:
        return f"the program fails: {error}"
    if not same_answer(found, (question.answer,)):
        shown = "; ".join(dict.fromkeys(found))
        return f"the program gives {shown[:80]!r}, not {question.answer[:80]!r}"
    return None


def sample(
    questions: Sequence[Question], size: int | None, seed: int, run: Executor
) -> tuple[list[Question], list[Skipped]]:
    """At most `size` questions (None: all, in order) whose programs give their answers.

    If `size` is given, the questions are balanced by the number of DAG nodes. The second list has the questions whose
    programs were run and do not give the answer.

    A program runs only when its question is drawn, so only a few programs of a large split run. If the program of a
    drawn question fails or gives another answer, the question is skipped.
    """
    skipped: list[Skipped] = []

    def usable(question: Question) -> bool:
        reason = fault(question, run)
        if reason is not None:
            skipped.append(Skipped(question.id, reason))
        return reason is None

    if size is None:
        return [question for question in questions if usable(question)], skipped
    drawn = balanced(questions, seed, nodes=lambda question: len(question.dag), usable=usable)
    return list(islice(drawn, size)), skipped


# The knowledge base in the form that the question maker uses.


BACK = {"forward": "backward", "backward": "forward"}


@dataclass(frozen=True)
class Value:
    """A value. `text` is its form in programs; `number` is for comparisons (the year of a date, 0 for a string)."""

    kind: str
    text: str
    number: float

    @property
    def year(self) -> str:
        """The year of a value that is a date or a year."""
        return self.text[:4]


Qualifiers: TypeAlias = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Attribute:
    """A fact about an attribute; only the first value of each qualifier is kept."""

    name: str
    qualifiers: Qualifiers
    value: Value


@dataclass(frozen=True)
class Relation:
    """A fact about a relation, seen from one of its two entities; only the first value of each qualifier is kept."""

    name: str
    qualifiers: Qualifiers
    direction: str
    other: str


def read_value(record: dict[str, Any]) -> Value:
    """A value from `kb.json`."""
    kind, raw = record["type"], record["value"]
    if kind == "quantity":
        return Value(kind, f"{raw}" if record["unit"] == "1" else f"{raw} {record['unit']}", float(raw))
    if kind == "string":
        return Value(kind, raw, 0.0)
    return Value(kind, str(raw), float(str(raw)[:4]))


class Facts:
    """The names, concepts and facts of all entities, except facts whose attribute or relation is in `without`."""

    def __init__(self, kb: PlainKnowledge, without: Collection[str] = ()) -> None:
        self.name = {identity: record["name"] for identity, record in kb["entities"].items()}
        self._parents = {i: (c["name"], c["subclassOf"]) for i, c in kb["concepts"].items()}
        self.concepts = {i: self._ancestors(record["instanceOf"]) for i, record in kb["entities"].items()}
        self.attributes = {
            i: [
                Attribute(a["key"], _first(a["qualifiers"]), read_value(a["value"]))
                for a in record["attributes"]
                if a["key"] not in without
            ]
            for i, record in kb["entities"].items()
        }
        self.relations = {
            i: [
                Relation(r["relation"], _first(r["qualifiers"]), r["direction"], r["object"])
                for r in record["relations"]
                if r["relation"] not in without
            ]
            for i, record in kb["entities"].items()
        }

    def _ancestors(self, ids: Iterable[str]) -> tuple[str, ...]:
        """The names of the concepts and of all their superconcepts, the nearest first."""
        found: list[str] = []
        pending = list(ids)
        while pending:
            name, parents = self._parents[pending.pop(0)]
            found.append(name)
            pending += parents
        return tuple(found)

    def kind(self, identity: str) -> str:
        """A short word for an entity: the concept `person`, or the concept just below a root, such as film or city."""
        concepts = self.concepts[identity]
        return concepts[-1] if concepts[-1] == "person" or len(concepts) == 1 else concepts[-2]

    @cached_property
    def members(self) -> dict[str, list[str]]:
        """The entities of each concept, by the concept's name."""
        found: dict[str, list[str]] = defaultdict(list)
        for identity, names in self.concepts.items():
            for name in names:
                found[name].append(identity)
        return found

    @cached_property
    def texts(self) -> dict[str, list[str]]:
        """The texts of all values of each attribute."""
        found: dict[str, list[str]] = defaultdict(list)
        for facts in self.attributes.values():
            for fact in facts:
                found[fact.name].append(fact.value.text)
        return found

    @cached_property
    def leading(self) -> dict[str, list[Relation]]:
        """Each entity's identifying facts: facts whose other entity has the fact's relation to this entity only."""
        return {
            identity: [
                fact
                for fact in facts
                if {f.other for f in self.related(fact.other, fact.name, BACK[fact.direction])} == {identity}
            ]
            for identity, facts in self.relations.items()
        }

    @cached_property
    def _related(self) -> dict[tuple[str, str, str], list[Relation]]:
        found: dict[tuple[str, str, str], list[Relation]] = defaultdict(list)
        for identity, facts in self.relations.items():
            for fact in facts:
                found[identity, fact.name, fact.direction].append(fact)
        return found

    @cached_property
    def _values(self) -> dict[tuple[str, str], list[Attribute]]:
        found: dict[tuple[str, str], list[Attribute]] = defaultdict(list)
        for identity, facts in self.attributes.items():
            for fact in facts:
                found[identity, fact.name].append(fact)
        return found

    def related(self, identity: str, relation: str, direction: str) -> list[Relation]:
        """An entity's facts with one relation in one direction."""
        return self._related.get((identity, relation, direction), [])

    def values(self, identity: str, key: str) -> list[Attribute]:
        """An entity's facts with one attribute."""
        return self._values.get((identity, key), [])

    def has(self, identity: str, key: str) -> bool:
        """Whether the entity has exactly one value of the attribute."""
        return len(self.values(identity, key)) == 1

    def alike(self, one: str, other: str) -> bool:
        """Whether two entities have the same concept just below the root; a city and a country, for example, do not."""
        return self.concepts[one][-2:-1] == self.concepts[other][-2:-1]

    def single(self, identity: str) -> list[Attribute]:
        """The entity's facts with attributes for which it has exactly one value."""
        return [fact for fact in self.attributes[identity] if len(self.values(identity, fact.name)) == 1]


def _first(qualifiers: dict[str, list[dict[str, Any]]]) -> Qualifiers:
    return tuple((key, read_value(values[0])) for key, values in qualifiers.items())


@dataclass(frozen=True)
class Clause:
    """A text after a noun.

    `source` finds all entities for which the text is true; if `source` is None, `filters` filter a set.
    """

    text: str
    source: Tree | None = None
    filters: tuple[tuple[str, ...], ...] = ()

    def over(self, tree: Tree) -> Tree:
        """The set that a tree finds, filtered by the clause's filters."""
        for function, *inputs in self.filters:
            tree = tree.then(function, *inputs)
        return tree


def listed(texts: Sequence[str]) -> str:
    """The texts as a list in words: 'a, b and c'."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
