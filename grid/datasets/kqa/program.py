"""KoPL programs as the datasets hold them: their DAG, its shape, their steps as tool calls (planning_horizon B.1.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from grid.core.types import RESULT, Json, ToolCall, to_json
from grid.text import references
from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.errors import ProgramError
from grid.worlds.kopl.functions import FUNCTIONS
from grid.worlds.kopl.programs import check, function_of, run
from grid.worlds.kopl.results import is_empty, texts

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
