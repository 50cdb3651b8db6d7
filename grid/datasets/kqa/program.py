"""KoPL programs as the datasets hold them: their DAG, its shape, their steps as tool calls (planning_horizon B.1.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from grid.core.types import RESULT, Json, ToolCall, to_json
from grid.datasets.kqa.words import Words
from grid.datasets.kqa.world import AttributeSpec, EntityClass, RelationSpec, ValueSpec, WorldStock
from grid.text import references
from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.functions import FUNCTIONS
from grid.worlds.kopl.programs import check, function_of, run
from grid.worlds.kopl.queries import is_empty, texts
from grid.worlds.kopl.values import ProgramError

# Programs as trees while questions are made: a tree compares by what it computes, and flattens to a program.


@dataclass(frozen=True)
class Tree:
    """A step over the trees whose outputs it takes."""

    function: str
    inputs: tuple[str, ...]
    sources: tuple[Tree, ...]

    def then(self, function: str, *inputs: str) -> Tree:
        """A step that takes this tree's output."""
        return Tree(function, inputs, (self,))

    def program(self) -> Program:
        """The steps in KQA Pro's order: every step after what it takes, the tree's own step last."""
        steps: list[ProgramStep] = []
        self._append(steps)
        return tuple(steps)

    def dag(self) -> Program:
        """The steps with identical ones merged."""
        return merged(self.program())

    def _append(self, steps: list[ProgramStep]) -> int:
        places = tuple(source._append(steps) for source in self.sources)
        steps.append(ProgramStep(self.function, self.inputs, places))
        return len(steps) - 1


def find(name: str) -> Tree:
    """The entity of a name."""
    return Tree("Find", (name,), ())


def find_all() -> Tree:
    """All entities."""
    return Tree("FindAll", (), ())


def joined(function: str, trees: list[Tree], *inputs: str) -> Tree:
    """One tree of several by a function of two, halves first: the flattest there is."""
    if len(trees) == 1:
        return trees[0]
    half = (len(trees) + 1) // 2
    return Tree(function, inputs, (joined(function, trees[:half], *inputs), joined(function, trees[half:], *inputs)))


# KoPL programs as the datasets hold them: their DAG, its shape, their steps as tool calls (planning_horizon B.1.1).


MAX_STEPS = 100
MAX_INPUT_CHARACTERS = 10_000
MASK = "*"
"""What stands for an entity or a value in a template."""
_MASKED = frozenset({"name", "value", "qvalue", "t_value"})
"""Functions' arguments that are an entity or a value."""


@dataclass(frozen=True)
class ProgramStep:
    """One step: its function, its texts, and the indices of the steps whose outputs it takes."""

    function: str
    inputs: tuple[str, ...]
    dependencies: tuple[int, ...]

    def record(self) -> dict[str, Any]:
        """The step as KQA Pro writes it."""
        return {"function": self.function, "inputs": list(self.inputs), "dependencies": list(self.dependencies)}


Program: TypeAlias = tuple[ProgramStep, ...]
Executor: TypeAlias = Callable[[Sequence[ProgramStep]], tuple[str, ...]]
"""Runs a program and gives the texts of the values found; raises ProgramError where a step fails."""


def executor(kb: KnowledgeBase) -> Executor:
    """Runs programs on a knowledge base. A step with an empty result has failed (§4.1)."""

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
    """A program from JSON that nobody vouches for; raises ProgramError that names the step and what is wrong."""
    if not isinstance(record, list) or not 1 <= len(record) <= MAX_STEPS:
        raise ProgramError(None, f"a program is a list of 1 to {MAX_STEPS} steps")
    check(record)
    used = {dependency for step in record for dependency in step["dependencies"]}
    for number, step in enumerate(record):
        if any(len(text) > MAX_INPUT_CHARACTERS for text in step["inputs"]):
            raise ProgramError(number, f"an input of more than {MAX_INPUT_CHARACTERS:,} characters")
        if number not in used and number < len(record) - 1:
            raise ProgramError(number, "no later step takes its result")
    return tuple(
        ProgramStep(function_of(step).name, tuple(step["inputs"]), tuple(step["dependencies"])) for step in record
    )


def merged(program: Sequence[ProgramStep]) -> Program:
    """The program's DAG: identical steps on identical inputs are one step (B.1.1, 'Plan DAG Annotation')."""
    nodes: dict[ProgramStep, int] = {}
    places: list[int] = []
    for step in program:
        node = ProgramStep(step.function, step.inputs, tuple(places[d] for d in step.dependencies))
        places.append(nodes.setdefault(node, len(nodes)))
    return tuple(nodes)


def depth(program: Sequence[ProgramStep]) -> int:
    """The longest chain of dependent steps, counted in steps (§3.1)."""
    longest: list[int] = []
    for step in program:
        longest.append(1 + max((longest[d] for d in step.dependencies), default=0))
    return max(longest, default=0)


def breadth(program: Sequence[ProgramStep]) -> float:
    """Average parallelism: steps / depth (§3.1). Give the DAG: a tree counts repeated steps as often as they stand."""
    return len(program) / depth(program)


def masked(program: Sequence[ProgramStep]) -> str:
    """The program without its entities and values: every step's function, other texts and dependencies."""
    steps = []
    for step in program:
        names = FUNCTIONS[step.function].texts
        texts = [MASK if name in _MASKED else text for name, text in zip(names, step.inputs, strict=True)]
        steps.append([step.function, texts, list(step.dependencies)])
    return to_json(steps)


def calls(program: Sequence[ProgramStep]) -> dict[str, ToolCall]:
    """Step i as the tool call with id str(i); what it takes from step j reads `OUTPUT_FROM_STEP_j.result`."""
    found: dict[str, ToolCall] = {}
    for index, step in enumerate(program):
        function = FUNCTIONS[step.function]
        values: list[Json] = [references.reference(str(d), RESULT) for d in step.dependencies]
        names = (*function.results, *function.texts)
        found[str(index)] = ToolCall(step.function, dict(zip(names, [*values, *step.inputs], strict=True)))
    return found


# What the authored stock must hold to: every name known, every wording whole, no word for two keys.


def problems(world: WorldStock, pools: dict[str, list[str]], words: Words) -> list[str]:
    """Every rule that the stock breaks, as one line each; empty when it is sound."""
    found = [
        f"concept {name}: no parent {c.parent}"
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
    found = [f"no concept {name}" for name in cls.concepts if name not in world.concepts]
    found += [f"no wording for attribute {key}" for key in attributes if key not in words.attributes]
    found += [f"no wording for relation {name}" for name in cls.relations if name not in words.relations]
    found += [f"no concept {spec.among}" for spec in cls.relations.values() if spec.among not in world.concepts]
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
    """What stands for two keys, or is the name of another: nobody could tell which is meant."""
    found = []
    for name, cls in world.classes.items():
        for keys in ({**cls.origin, **cls.attributes}, cls.relations):
            meant: dict[str, str] = {}
            for key in keys:
                for word in words.called.get(key, []):
                    other = meant.setdefault(word, key)
                    found += [f"class {name}: {word!r} stands for {other} and for {key}"] * (other != key)
                    found += [f"class {name}: {word!r} stands for {key}, and is a key"] * (word in keys and word != key)
                    found += [f"class {name}: {word!r} is no other word for {key}"] * (word == key)
    return found
