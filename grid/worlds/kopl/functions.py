"""KoPL's 27 functions as tools (planning_horizon table 7), and programs that call them, in KQA Pro's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, TypeAlias

from grid.core.types import RESULT, Json, Parameter, ToolSpec, to_json
from grid.text.references import reference
from grid.worlds.handles import shown
from grid.worlds.kopl import queries
from grid.worlds.kopl.queries import Answer, Result, Texts, Values
from grid.worlds.kopl.values import EntitySet, KnowledgeBase, KoplError, ProgramError

Sort: TypeAlias = Literal["entities", "values", "texts", "answer"]
_SORTS: Mapping[type[Result], Sort] = {EntitySet: "entities", Values: "values", Texts: "texts", Answer: "answer"}
_ENTITIES = "An earlier result that is an entity set."
_RESULTS: Mapping[str, tuple[Sort, str]] = {
    "entities": ("entities", _ENTITIES),
    "l_entities": ("entities", "The first entity set."),
    "r_entities": ("entities", "The second entity set."),
    "s_entities": ("entities", "The entity set from which the relations start."),
    "t_entities": ("entities", "The entity set to which the relations lead."),
    "s_value": ("values", "An earlier result that holds values of an attribute or qualifier."),
}
_TEXTS: Mapping[str, str] = {
    "name": "The exact name.",
    "concept_name": "The concept's name.",
    "key": "The attribute's key.",
    "value": "The attribute's value; a number is followed by its unit, a date is written year-month-day.",
    "qkey": "The qualifier's key.",
    "qvalue": "The qualifier's value; a number is followed by its unit, a date is written year-month-day.",
    "t_value": "The value to check against; a number is followed by its unit, a date is written year-month-day.",
    "relation": "The relation's name.",
    "direction": "forward if the given entities are the relation's subject, backward if they are its object.",
}
_OPERATORS = ("=", "!=", "<", ">")
_DIRECTIONS = ("forward", "backward")
_VOCABULARIES = {"concept_name": "concept", "key": "attribute", "qkey": "qualifier", "relation": "relation"}


# The conditions that values of each type must meet in KoPL's functions, and examples of the functions' arguments.


EXAMPLE: Mapping[str, str] = {
    "name": "Velmora",
    "concept_name": "glimmer fern",
    "key": "frond length",
    "value": "12 cubit",
    "qkey": "sown by",
    "qvalue": "Ardith Quell",
    "relation": "grafted onto",
    "direction": "backward",
    "op": ">",
}
"""The arguments of examples, which are invented so that no example reveals any data."""


class Kind(NamedTuple):
    """A type of values: its name in the world, the condition that a value must meet, and an example key and value."""

    name: str
    fits: str
    key: str
    value: str

    def told(self, given: str) -> str:
        """The condition as a text that names the parameter with which values are compared."""
        return self.fits.format(given=given)


KINDS: Mapping[str, Kind] = {
    "Str": Kind("string", "is exactly `{given}`", "leaf code", "GX-7"),
    "Num": Kind("quantity", "is a number that satisfies `op {given}`, in the same unit", "frond length", "12 cubit"),
    "Year": Kind("year", "is a year that satisfies `op {given}`, or a date in such a year", "first sown", "1874"),
    "Date": Kind(
        "date",
        "is a date that satisfies `op {given}` (if only the year is known, `=` never holds, and `<` and `>` compare "
        "the years)",
        "first sown",
        "1874-03-09",
    ),
}


def sort_of(result: Result) -> Sort:
    """A result's sort: entities, values, texts or an answer."""
    return _SORTS[type(result)]


@dataclass(frozen=True)
class Function:
    """A KoPL function.

    `nothing` is a template for the message about an empty result, into which the text arguments are filled. `example`
    has the example arguments that differ from those in EXAMPLE. `run` is called with the base, then the results in the
    order of `results`, then the texts in the order of `texts`.
    """

    name: str
    results: tuple[str, ...]
    texts: tuple[str, ...]
    returns: Sort
    run: Callable[..., Result]
    description: str
    nothing: str
    operators: tuple[str, ...] = _OPERATORS
    example: Mapping[str, str] = field(default_factory=dict)

    def sort(self, parameter: str) -> Sort:
        """The sort of result that a parameter accepts."""
        return _RESULTS[parameter][0]

    def spec(self) -> ToolSpec:
        """The function as a tool."""
        results = tuple(Parameter(name, RESULT, _RESULTS[name][1]) for name in self.results)
        shown: dict[str, Json] = {name: reference(str(step), RESULT) for step, name in enumerate(self.results)}
        shown |= {name: self.example.get(name, EXAMPLE.get(name, "")) for name in self.texts}
        described = f"{self.description} Example: {to_json(shown)}" if shown else self.description
        parameters = (*results, *map(self._text, self.texts))
        return ToolSpec(self.name, described, parameters, (RESULT, "value"), "knowledge base")

    def _text(self, name: str) -> Parameter:
        """A text parameter; an operator or a direction must be one of a few values."""
        if name == "op":
            return Parameter(name, "string", f"One of {', '.join(self.operators)}.", values=self.operators)
        return Parameter(name, "string", _TEXTS[name], values=_DIRECTIONS if name == "direction" else ())

    @cached_property
    def vocabularies(self) -> Mapping[str, str]:
        """For each parameter that takes an identifier, the name of its vocabulary in `KnowledgeBase.vocabularies`."""
        own = {"name": "entity"} if self.name == "Find" else {}
        return own | {name: _VOCABULARIES[name] for name in self.texts if name in _VOCABULARIES}


def _filters() -> list[Function]:
    found = []
    for ending, kind in KINDS.items():
        op, shown = (("op",), "{op}") if ending != "Str" else ((), "=")
        found += [
            Function(
                f"Filter{ending}",
                ("entities",),
                ("key", "value", *op),
                "entities",
                partial(queries.filter_attribute, kind=kind.name),
                f"Keep the entities that have an attribute `key` whose value {kind.told('value')}.",
                f"none of the given entities has {{key}} {shown} {{value}}",
                example={"key": kind.key, "value": kind.value},
            ),
            Function(
                f"QFilter{ending}",
                ("entities",),
                ("qkey", "qvalue", *op),
                "entities",
                partial(queries.filter_qualifier, kind=kind.name),
                "Of the entities found by an attribute filter or Relate, keep those whose fact has a qualifier `qkey` "
                f"whose value {kind.told('qvalue')}.",
                f"none of the given entities' facts has the qualifier {{qkey}} {shown} {{qvalue}}",
                example={"qkey": kind.key, "qvalue": kind.value},
            ),
            Function(
                f"Verify{ending}",
                ("s_value",),
                ("t_value", *op),
                "answer",
                partial(queries.verify, kind=kind.name),
                f'Return "yes" if every given value {kind.told("t_value")}; "no" if none is; otherwise "not sure".',
                "there is nothing to check",
                example={"t_value": kind.value},
            ),
        ]
    return found


_OTHERS = [
    Function("FindAll", (), (), "entities", queries.find_all, "Return all entities.", "there is no entity"),
    Function(
        "Find",
        (),
        ("name",),
        "entities",
        queries.find,
        "Return the entities, or the concept, with this name.",
        "there is no entity of the name {name}",
    ),
    Function(
        "FilterConcept",
        ("entities",),
        ("concept_name",),
        "entities",
        queries.filter_concept,
        "Keep the entities that belong to a concept or to one below it.",
        "none of the given entities is a {concept_name}",
    ),
    Function(
        "Relate",
        ("entities",),
        ("relation", "direction"),
        "entities",
        queries.relate,
        "Follow a relation from the given entities to those at its other end; the result keeps the facts followed.",
        "none of the given entities has the relation {relation} ({direction})",
    ),
    Function(
        "And",
        ("l_entities", "r_entities"),
        (),
        "entities",
        queries.both,
        "Return the entities that are in both sets.",
        "the two sets have no entity in common",
    ),
    Function(
        "Or",
        ("l_entities", "r_entities"),
        (),
        "entities",
        queries.either,
        "Return the entities that are in either set.",
        "both sets are empty",
    ),
    Function(
        "QueryName",
        ("entities",),
        (),
        "texts",
        queries.query_name,
        "Return the names of the given entities.",
        "there is no entity to name",
    ),
    Function(
        "Count", ("entities",), (), "answer", queries.count, "Return the number of entities given.", "there is none"
    ),
    Function(
        "SelectBetween",
        ("l_entities", "r_entities"),
        ("key", "op"),
        "answer",
        queries.select_between,
        "Return the name of whichever of two entities has the lesser or the greater number under a key.",
        "there is no number to compare",
        operators=("less", "greater"),
        example={"op": "less"},
    ),
    Function(
        "SelectAmong",
        ("entities",),
        ("key", "op"),
        "texts",
        queries.select_among,
        "Return the names of the entities with the smallest or largest number under a key.",
        "there is no number to compare",
        operators=("smallest", "largest"),
        example={"op": "largest"},
    ),
    Function(
        "QueryAttr",
        ("entities",),
        ("key",),
        "values",
        queries.query_attribute,
        "Return the values that the given entities have under an attribute key.",
        "none of the given entities has the attribute {key}",
    ),
    Function(
        "QueryAttrUnderCondition",
        ("entities",),
        ("key", "qkey", "qvalue"),
        "values",
        queries.query_attribute_under_condition,
        "Return the values under an attribute key that have a qualifier with a given value.",
        "no {key} of the given entities has the qualifier {qkey} = {qvalue}",
    ),
    Function(
        "QueryRelation",
        ("s_entities", "t_entities"),
        (),
        "texts",
        queries.query_relation,
        "Return the relations that lead from one entity to another.",
        "no relation leads from the first entities to the second",
    ),
    Function(
        "QueryAttrQualifier",
        ("entities",),
        ("key", "value", "qkey"),
        "values",
        queries.query_attribute_qualifier,
        "Return what a qualifier says about an attribute that has a given value.",
        "no {key} = {value} of the given entities has the qualifier {qkey}",
    ),
    Function(
        "QueryRelationQualifier",
        ("s_entities", "t_entities"),
        ("relation", "qkey"),
        "values",
        queries.query_relation_qualifier,
        "Return what a qualifier says about a relation between two entities.",
        "no relation {relation} between the given entities has the qualifier {qkey}",
    ),
]
FUNCTIONS: Mapping[str, Function] = {function.name: function for function in [*_OTHERS, *_filters()]}
TOOLS: Mapping[str, ToolSpec] = {name: function.spec() for name, function in FUNCTIONS.items()}


# Programs in KQA Pro's form, which are lists of {"function", "inputs", "dependencies"}.


Program = Sequence[Mapping[str, Any]]
_ALIASES = {"What": "QueryName"}  # released programs use both names


def function_of(step: Mapping[str, Any]) -> Function:
    """The function that a step names; raises KoplError if there is no such function."""
    name = step.get("function")
    function = FUNCTIONS.get(_ALIASES.get(name, name)) if isinstance(name, str) else None
    if function is None:
        raise KoplError(f"{shown(str(name))} is not one of the {len(FUNCTIONS)} functions")
    return function


def check(program: Program) -> tuple[Function, ...]:
    """Each step's function.

    Raises ProgramError, with the step's number, if there is no base on which the program can run.
    """
    if not isinstance(program, Sequence) or isinstance(program, str) or not program:
        raise ProgramError(None, "a program must be a list of at least one step")
    functions: list[Function] = []
    for number, step in enumerate(program):
        if not isinstance(step, Mapping):
            raise ProgramError(number, f"a step must be an object, not {type(step).__name__}")
        try:
            function = function_of(step)
            _check_inputs(function, step.get("inputs"))
            _check_dependencies(function, step.get("dependencies"), functions)
        except KoplError as error:
            raise ProgramError(number, str(error)) from None
        functions.append(function)
    return tuple(functions)


def run(kb: KnowledgeBase, program: Program) -> tuple[Result, ...]:
    """The result of each step, which may be empty. Equal steps are run separately.

    Raises:
        ProgramError: the program cannot run, or one of its steps has no result on this base.
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
        raise KoplError("`inputs` must be a list of texts")
    if len(inputs) != len(function.texts):
        names = ", ".join(function.texts) or "none"
        raise KoplError(f"{function.name} takes {len(function.texts)} inputs ({names}), not {len(inputs)}")


def _check_dependencies(function: Function, places: object, before: Sequence[Function]) -> None:
    if not isinstance(places, list | tuple) or not all(type(place) is int for place in places):
        raise KoplError("`dependencies` must be a list of step numbers")
    if len(places) != len(function.results):
        names = ", ".join(function.results) or "none"
        raise KoplError(f"{function.name} takes {len(function.results)} results ({names}), not {len(places)}")
    for place, parameter in zip(places, function.results, strict=True):
        if not 0 <= place < len(before):
            what = "itself" if place == len(before) else f"step {place}, which is not an earlier step"
            raise KoplError(f"the step depends on {what}")
        given = before[place]
        if given.returns != function.sort(parameter):
            raise KoplError(
                f"{parameter} of {function.name} takes {function.sort(parameter)}, "
                f"but step {place} ({given.name}) returns {given.returns}"
            )
