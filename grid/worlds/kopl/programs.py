"""Programs in KQA Pro's form: a list of {"function", "inputs", "dependencies"}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from grid.worlds.handles import shown
from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.functions import FUNCTIONS, Function
from grid.worlds.kopl.queries import Result
from grid.worlds.kopl.values import KoplError, ProgramError

Program = Sequence[Mapping[str, Any]]
_ALIASES = {"What": "QueryName"}  # released programs have both


def function_of(step: Mapping[str, Any]) -> Function:
    """The function that a step names; raises KoplError where there is none."""
    name = step.get("function")
    function = FUNCTIONS.get(_ALIASES.get(name, name)) if isinstance(name, str) else None
    if function is None:
        raise KoplError(f"{shown(str(name))} is none of the {len(FUNCTIONS)} functions")
    return function


def check(program: Program) -> tuple[Function, ...]:
    """Each step's function; raises ProgramError for a program that cannot run on any base, naming the step (from 0)."""
    if not isinstance(program, Sequence) or isinstance(program, str) or not program:
        raise ProgramError(None, "a program is a list of at least one step")
    functions: list[Function] = []
    for number, step in enumerate(program):
        if not isinstance(step, Mapping):
            raise ProgramError(number, f"a step is an object, not {type(step).__name__}")
        try:
            function = function_of(step)
            _check_inputs(function, step.get("inputs"))
            _check_dependencies(function, step.get("dependencies"), functions)
        except KoplError as error:
            raise ProgramError(number, str(error)) from None
        functions.append(function)
    return tuple(functions)


def run(kb: KnowledgeBase, program: Program) -> tuple[Result, ...]:
    """Each step's result, empty ones included; equal steps are run as often as they come.

    Raises:
        ProgramError: the program cannot run, or a step of it has no result on this base.
    """
    functions = check(program)
    results: list[Result] = []
    for number, (function, step) in enumerate(zip(functions, program, strict=True)):
        given = [results[place] for place in step["dependencies"]]
        try:
            results.append(function.run(kb, *given, *step["inputs"]))
        except KoplError as error:
            raise ProgramError(number, str(error)) from None
    return tuple(results)


def _check_inputs(function: Function, inputs: object) -> None:
    if not isinstance(inputs, list | tuple) or not all(isinstance(text, str) for text in inputs):
        raise KoplError("`inputs` is a list of texts")
    if len(inputs) != len(function.texts):
        names = ", ".join(function.texts) or "none"
        raise KoplError(f"{function.name} has {len(function.texts)} inputs ({names}), not {len(inputs)}")


def _check_dependencies(function: Function, places: object, before: Sequence[Function]) -> None:
    if not isinstance(places, list | tuple) or not all(type(place) is int for place in places):
        raise KoplError("`dependencies` is a list of step numbers")
    if len(places) != len(function.results):
        names = ", ".join(function.results) or "none"
        raise KoplError(f"{function.name} takes {len(function.results)} results ({names}), not {len(places)}")
    for place, parameter in zip(places, function.results, strict=True):
        if not 0 <= place < len(before):
            what = "itself" if place == len(before) else f"step {place}, which is not before it"
            raise KoplError(f"it depends on {what}")
        given = before[place]
        if given.returns != function.sort(parameter):
            raise KoplError(
                f"{parameter} of {function.name} takes {function.sort(parameter)}, "
                f"but step {place} ({given.name}) returns {given.returns}"
            )
