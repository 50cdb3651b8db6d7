"""BFCL's cases of several turns: base, missing functions, missing parameters, long context (BFCL v3 and v4)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from grid.datasets.bfcl.classes import FILES, loaded, parameters
from grid.datasets.bfcl.conversation import Conversation
from grid.datasets.files import read_jsonl
from grid.types import Case, Json, Parameter, Plan, Reference, ToolCall, ToolSpec, UserMessage
from grid.worlds.instances import UncontrolledError

CATEGORIES = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
DOCUMENTS = "multi_turn_func_doc"
"""The folder of the functions' documents, a file for each class."""
ADDED = "There are more functions now that you can call. Please try it again with them."
"""What the user says when functions that were held back are handed over; the records have no text for it."""
_TYPES = {"string": "string", "integer": "integer", "float": "number", "boolean": "boolean", "array": "array"}
_MOST_CHARACTERS = 20_000  # of a gold call
_MOST_TURNS = 50
_MOST_CALLS = 100  # of a turn

Documents = Mapping[str, Mapping[str, ToolSpec]]
"""By class its functions by name, in the order of its file."""


class UnusableError(Exception):
    """A record that cannot be a case."""


@dataclass(frozen=True)
class MultiTurn:
    """One record. `tools` are all functions that its case offers, those that come later included.

    Records of one `scenario` share it, across the four categories.
    """

    case: Case
    reference: Reference
    world: Conversation
    tools: Mapping[str, ToolSpec]
    scenario: str


class _Turn(NamedTuple):
    message: UserMessage
    calls: tuple[ToolCall, ...]


def read_documents(root: Path) -> Documents:
    """The functions of all classes; raises DataError for a file that cannot be read."""
    found = {}
    for name, file in FILES.items():
        rows = (row for _, row in read_jsonl(root / DOCUMENTS / f"{file}.json"))
        found[name] = {spec.name: spec for spec in (_spec(row, name) for row in rows)}
    return found


def read_case(row: Mapping[str, Any], answer: Mapping[str, Any], documents: Documents) -> MultiTurn | str:
    """A record with its answer as a case; why it cannot be one where it cannot.

    Held back until their turn are the functions that `missed_function` names. `excluded_function` is not looked at, as
    the authors' code does not.

    Raises:
        ConfigError: the package of the classes is not installed.
    """
    try:
        return _read_case(row, answer, documents)
    except (UnusableError, UncontrolledError) as error:
        return str(error)


def _read_case(row: Mapping[str, Any], answer: Mapping[str, Any], documents: Documents) -> MultiTurn:
    case_id, classes = row.get("id"), row.get("involved_classes")
    if not isinstance(case_id, str):
        raise UnusableError("it has no id")
    if not isinstance(classes, list) or not classes or not all(name in documents for name in map(str, classes)):
        raise UnusableError("it names no classes, or one that has no documents")
    if answer.get("id") != case_id:
        raise UnusableError("its answer has another id")
    # Of two classes with a function of one name the later one has it.
    places = {tool: place for place, name in enumerate(classes) for tool in documents[name]}
    turns = _turns(row, answer, classes, places)
    config = row.get("initial_config")
    if not isinstance(config, dict) or not all(isinstance(config.get(name, {}), dict) for name in classes):
        raise UnusableError("it has no initial state")
    long_context = "long_context" in case_id
    world = Conversation(
        case_id,
        tuple(loaded(name, config.get(name, {}), long_context) for name in classes),
        places,
        tuple(turn.calls for turn in turns),
    )
    if turns[0].message.tools:
        raise UnusableError("functions are held back from its first turn, and handed over in it")
    return MultiTurn(
        Case(case_id, turns[0].message.text, Plan(()), tuple(turn.message for turn in turns[1:])),
        _reference(world),
        world,
        {tool: documents[classes[place]][tool] for tool, place in places.items()},
        case_id.rpartition("_")[2],
    )


def _reference(world: Conversation) -> Reference:
    """The gold calls in their order, None where a turn ends and another begins."""
    calls: dict[str, ToolCall | None] = {}
    failing = set()
    for turn, expected in zip(world.gold, world.expected, strict=True):
        if turn is not world.gold[0] or calls:
            calls[str(len(calls))] = None
        for call, outcome in zip(turn, expected.outcomes, strict=True):
            if outcome.observation.failed:
                failing.add(str(len(calls)))
            calls[str(len(calls))] = call
    resolution = tuple(step for step, call in calls.items() if call)
    return Reference(calls, resolution, followed=False, failing=frozenset(failing))


def _turns(
    row: Mapping[str, Any], answer: Mapping[str, Any], classes: Sequence[str], places: Mapping[str, int]
) -> list[_Turn]:
    questions, truths, missed = row.get("question"), answer.get("ground_truth"), row.get("missed_function", {})
    if not isinstance(questions, list) or not isinstance(truths, list) or not isinstance(missed, dict):
        raise UnusableError("it has no turns, or no gold calls")
    if not 0 < len(questions) == len(truths) <= _MOST_TURNS:
        raise UnusableError(f"{len(questions)} turns and {len(truths)} lists of gold calls, at most {_MOST_TURNS}")
    turns = []
    for number, (said, truth) in enumerate(zip(questions, truths, strict=True)):
        if not isinstance(truth, list) or len(truth) > _MOST_CALLS or not all(isinstance(one, str) for one in truth):
            raise UnusableError(f"turn {number} has no list of gold calls, or more than {_MOST_CALLS}")
        message = _message(number, said, missed.get(str(number), ()), places)
        turns.append(_Turn(message, tuple(_call(text, classes, places) for text in truth)))
    return turns


def _message(number: int, said: Any, added: Any, places: Mapping[str, int]) -> UserMessage:
    if not isinstance(said, list) or not all(
        isinstance(one, dict) and one.get("role") == "user" and isinstance(one.get("content"), str) for one in said
    ):
        raise UnusableError(f"turn {number} is no list of the user's messages")
    if not isinstance(added, list | tuple) or not all(isinstance(name, str) and name in places for name in added):
        raise UnusableError(f"turn {number} hands over functions that its classes do not have")
    text = "\n".join(one["content"] for one in said).strip() or (ADDED if added else "")
    if not text:
        raise UnusableError(f"the user says nothing in turn {number}")
    return UserMessage(text, frozenset(added))


def _call(text: str, classes: Sequence[str], places: Mapping[str, int]) -> ToolCall:
    """A gold call `tool(1, name='x')` of literals; arguments without a name are those of the method, in its order."""
    try:
        node = ast.parse(text[: _MOST_CHARACTERS + 1].strip(), mode="eval").body
        if len(text) > _MOST_CHARACTERS or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise ValueError("a call of literals is expected")
        tool = node.func.id
        if tool not in places:
            raise ValueError("its classes have no such function")
        order = parameters(classes[places[tool]], tool)
        named = [*zip(order, node.args, strict=False), *((word.arg, word.value) for word in node.keywords)]
        arguments = {name: _json(ast.literal_eval(value)) for name, value in named if name}
        if len(arguments) < len(node.args) + len(node.keywords):
            raise ValueError("an argument comes twice, or has no name")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise UnusableError(f"a gold call cannot be read: {error}; {text[:80]!r}") from None
    return ToolCall(tool, arguments)


def _json(value: Any) -> Json:
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return {name: _json(item) for name, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"a {type(value).__name__} among its arguments")


def _spec(row: Mapping[str, Any], category: str) -> ToolSpec:
    """A function's document; its fields are those that the files have, and missing ones are empty."""
    declared, response = _object(row.get("parameters")), _object(row.get("response"))
    required = frozenset(map(str, declared.get("required") or ()))
    own = tuple(
        Parameter(name, _TYPES.get(item.get("type"), "object"), _described(item), name in required)
        for name, item in _properties(declared)
    )
    returns = tuple(name for name, _ in _properties(response))
    return ToolSpec(str(row.get("name")), str(row.get("description") or ""), own, returns, category)


def _described(item: Mapping[str, Any]) -> str:
    """A parameter's description, with its default value and the fields of an object."""
    fields = [f"{name}: {_described(field)}".strip() for name, field in _properties(item)]
    default = item.get("default")
    told = (str(item.get("description") or ""), "; ".join(fields), "" if default is None else f"(default: {default})")
    return " ".join(text for text in told if text)


def _properties(schema: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    return ((name, _object(item)) for name, item in _object(schema.get("properties")).items())


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
