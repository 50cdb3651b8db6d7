"""BFCL v4 (Berkeley Function-Calling Leaderboard): requests, each with functions and the accepted calls.

This module has the categories that need only Python and no network: single turns, and several turns with simulated
APIs.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, replace
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError
from grid.core.problem import DRAFTED, Measure, Problem, Reference, no_measure
from grid.core.types import Case, Json, Observation, Plan, ToolCall, ToolSpec, Trajectory, UserMessage, to_json
from grid.core.util import STRICT, derive_seed
from grid.core.world import State, World, own_state
from grid.datasets.bfcl_records import (
    FILES,
    Category,
    Function,
    Gold,
    Signature,
    Wanted,
    accepted_call,
    accepts,
    all_accepted,
    example_call,
    files_of,
    functions_of,
    gold_of,
    installed,
    is_multi_turn,
    is_parallel,
    loaded,
    parameters,
    query_of,
    read_docs,
    read_rows,
    too_large,
    wanted_of,
)
from grid.datasets.dataset import FileDataset, UnusableError
from grid.datasets.grading import children
from grid.worlds.functions import Invoked, UncontrolledError, invoke, refused, same_public_state
from grid.worlds.schema import ERROR


@plain_dataclass(frozen=True)
class _Record:
    """One usable record; `tools` are the functions that the record offers."""

    case: Case
    reference: Reference
    world: World
    tools: Mapping[str, ToolSpec]
    measure: Measure = no_measure


@dataclass(config=STRICT)
class BFCL(FileDataset[_Record]):
    """The records of one `category`. `path` is a folder with `BFCL_v4_<category>.json` and `possible_answer`.

    A record offers its own functions (`Problem.own`). Because another record may define a function of the same name
    differently, the library `tools` has the first definition of each name, but a problem's library has the definitions
    of its own record. With a `limit`, the cases are a sample unless `order` is `file`. If the cases have several turns,
    the `outline` cannot be `drafted`.
    """

    category: Category = "simple_python"

    def __post_init__(self) -> None:
        if self.outline == DRAFTED and is_multi_turn(self.category):
            raise ConfigError(
                "dataset.outline", DRAFTED, f"hidden, because in {self.category} only the first message is known"
            )

    @property
    def name(self) -> str:
        """The benchmark's name, followed by the category."""
        return f"bfcl-{self.category}"

    @cached_property
    def files(self) -> list[Path]:
        """The records, the accepted calls, and the simulated APIs' documents."""
        return files_of(self.path, self.category)

    @property
    def version(self) -> str:
        """The base class's version; if the cases have several turns, also the version of the simulated APIs.

        Raises ConfigError if the simulated APIs are needed but not installed.
        """
        return super().version + (f"-apis{installed()}" if is_multi_turn(self.category) else "")

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The functions of all records, with the first definition of each name."""
        found: dict[str, ToolSpec] = {}
        for record in self.records.values():
            for name, tool in record.tools.items():
                found.setdefault(name, tool)
        return found

    def cluster(self, case_id: str) -> str:
        """The names of the functions that the record offers or, if the case has several turns, the scenario."""
        if is_multi_turn(self.category):
            return scenario(case_id)
        return " ".join(sorted(self.records[case_id].tools))

    def problem(self, case_id: str) -> Problem:
        """One record; its world contains the accepted calls."""
        record = self.records[case_id]
        library = {**self.tools, **record.tools}
        tools = tuple(library.values())
        return Problem(
            case=record.case,
            reference=record.reference,
            world=record.world,
            candidates=lambda case, substep: tools,
            library=library,
            same_function={},
            own=tuple(record.tools),
            measure=record.measure,
        )

    def rows(self) -> Iterator[tuple[str, tuple[Mapping[str, Any], Mapping[str, Any]]]]:
        """The records, each with its accepted calls."""
        rows, answers = read_rows(self.files)
        for line, row in rows:
            name = row.get("id")
            case_id = name if isinstance(name, str) and name.strip() else f"line {line}"
            yield case_id, (row, answers.get(case_id, {}))

    def record(self, case_id: str, row: tuple[Mapping[str, Any], Mapping[str, Any]]) -> _Record:
        """A record with one turn or several."""
        said, answer = row
        if said.get("id") != case_id:
            raise UnusableError("the id is not a text")
        if is_multi_turn(self.category):
            talk = read_talk(said, answer, self._docs)
            return _Record(talk.case, talk.reference, talk.world, {tool.name: tool for tool in talk.tools})
        found = read_case(case_id, said, answer, wanted_of(self.category), is_parallel(self.category))
        tools = {tool.name: tool for tool in found.tools}
        return _Record(found.case, found.reference, found.world, tools, found.measure)

    @cached_property
    def _docs(self) -> Documents:
        """The functions of the simulated APIs."""
        return documents(read_docs(self.files[2:]))


# BFCL's single turns: a record as a case, and a world that only records calls.


Calls: TypeAlias = tuple[tuple[str, str], ...]
"""For each call, the tool and the arguments as JSON; in the JSON, the arguments are sorted by name."""
_RECEIPTS = 10**6
_WITHOUT_GOLD = (
    "exact_match", "inclusion", "inclusion_set", "usage", "retrieval_rate", "tool_precision", "tool_recall",
)  # fmt: skip


@plain_dataclass(frozen=True)
class Recorder:
    """The functions of one record. The state consists of all calls made.

    A call is checked against its function's schema, never against the accepted calls. A call returns an error if its
    function is unknown, if a required argument is missing, or if the function has no argument of a given name. A call
    that returns an error still counts as made, as in the authors' code, and is part of the state. `wanted` says which
    calls resolve the case: the `gold` calls (`bfcl_records.all_accepted`), no call at all, or at least one call.
    """

    signatures: Mapping[str, Signature]
    wanted: Wanted
    gold: tuple[Gold, ...] = ()
    branches: ClassVar[bool] = True

    def start(self) -> Calls:
        """No calls."""
        return ()

    async def apply(self, state: State, call: ToolCall) -> tuple[Calls, Observation]:
        """The state with this call added, and a receipt for the call; equal calls get equal receipts."""
        made: Calls = own_state(state, tuple)
        arguments = to_json(dict(sorted(call.arguments.items())))
        after = (*made, (call.tool, arguments))
        wrong = self._fault(call)
        if wrong:
            return after, Observation({ERROR: wrong}, failed=True)
        receipt = derive_seed(0, call.tool, arguments) % _RECEIPTS
        return after, Observation({"status": "taken; nothing is returned here", "receipt": receipt})

    def resolved(self, state: State) -> bool:
        """Whether all calls together pass the check."""
        made: Calls = own_state(state, tuple)
        if self.wanted != "gold":
            return bool(made) == (self.wanted == "some")
        calls = [ToolCall(tool, json.loads(arguments)) for tool, arguments in made]
        return all_accepted(self.signatures, self.gold, calls)

    def answer(self, state: State) -> str | None:
        """None, because the calls are the answer."""
        return None

    def _fault(self, call: ToolCall) -> str | None:
        signature = self.signatures.get(call.tool)
        if signature is None:
            return f"there is no function {call.tool:.80}"
        missing = [name for name in signature.required if name not in call.arguments]
        if missing:
            return f"{missing[0]} is missing"
        strange = [name for name in call.arguments if name not in signature.parameters]
        return f"{strange[0]:.80} is not an argument of {call.tool}" if strange else None


@plain_dataclass(frozen=True)
class Turn:
    """One usable record."""

    case: Case
    reference: Reference
    world: Recorder
    tools: tuple[ToolSpec, ...]

    @property
    def measure(self) -> Measure:
        """The record's own metrics."""
        return partial(measured, self.world)


def read_case(case_id: str, row: Mapping[str, Any], answer: Mapping[str, Any], wanted: Wanted, parallel: bool) -> Turn:
    """A record as a case. For each wanted call, the reference has the first call that the record accepts.

    If the record accepts every call, the reference is an example call of the first function, but a planner can resolve
    the case without this example call, because the record does not say which call is right.

    Raises:
        UnusableError: the record cannot be a case.
    """
    query, functions = query_of(row), functions_of(row)
    gold = gold_of(answer, functions, parallel) if wanted == "gold" else ()
    calls = [accepted_call(one, functions[one.tool]) for one in gold]
    if wanted == "some":
        calls = [example_call(next(iter(functions.values())))]
    world = Recorder({name: one.signature for name, one in functions.items()}, wanted, gold)
    if not all_accepted(world.signatures, gold, calls) and wanted == "gold":
        raise UnusableError("the answer accepts no calls")
    steps = {str(place): call for place, call in enumerate(calls)}
    resolution = () if wanted == "some" else tuple(steps)
    reference = Reference(steps, resolution, followed=False, ordered=False)
    return Turn(Case(case_id, query, Plan(())), reference, world, _specs(functions))


def _specs(functions: Mapping[str, Function]) -> tuple[ToolSpec, ...]:
    return tuple(one.spec for one in functions.values())


def measured(world: Recorder, trajectory: Trajectory) -> Mapping[str, Any]:
    """The metric `usage`: among the wanted functions that were called, the share whose first call has accepted values.

    A function's first call is compared with the first wanted call of that function. If no wanted function was called,
    `usage` is None. If a record accepts every call, there are no gold calls to compare with, and all metrics of tools
    and arguments are None.
    """
    if world.wanted == "some":
        return dict.fromkeys(_WITHOUT_GOLD)
    made: dict[str, ToolCall] = {}
    for step in trajectory.steps:
        if step.call:
            made.setdefault(step.call.tool, step.call)
    firsts: dict[str, Gold] = {}
    for one in world.gold:
        firsts.setdefault(one.tool, one)
    hits = [accepts(world.signatures, one, made[name]) for name, one in firsts.items() if name in made]
    return {"usage": sum(hits) / len(hits) if hits else None}


# BFCL's multi-turn cases: base, missing functions, missing parameters, long context (BFCL v3 and v4).


# The world of a BFCL case with several turns: the authors' classes, with the authors' check at the end of each turn.
#
# A turn without gold calls passes (bfcl_eval `multi_turn_checker`). Any other turn passes if a call was made in it, all
# public attributes of all objects have the same values as after the gold calls, and the results of the turn's gold
# calls occur, at least as often and in any order, among the results of all calls so far.


@plain_dataclass(frozen=True)
class Talk:
    """The state of a conversation. Two states are equal when the same calls were made in the same turns.

    `past` is a hash of the calls, except for failed calls that do not affect the check of a turn. `called` says whether
    a call was made in the current turn. `results` has the returned texts that are equal to a gold call's result; the
    check of a turn needs these texts. `passed` says whether all earlier turns passed.
    """

    past: str
    called: bool = False
    turn: int = field(default=0, compare=False)
    snapshots: tuple[bytes, ...] = field(default=(), compare=False)
    results: tuple[str, ...] = field(default=(), compare=False)
    passed: bool = field(default=True, compare=False)


class GoldTurn(NamedTuple):
    """The snapshots after a turn's gold calls, and each call's outcome."""

    snapshots: tuple[bytes, ...]
    outcomes: tuple[Invoked, ...]


@plain_dataclass(frozen=True)
class Conversation:
    """One case. `tools` maps each function to the index of its object in `snapshots`; `gold` has each turn's calls.

    A failed call leaves the state unchanged, except for three things that affect the check of a turn: the fact that a
    call was made in this turn, any changes made by the call before it failed, and an error that the gold calls return
    too.
    """

    case_id: str
    snapshots: tuple[bytes, ...]
    tools: Mapping[str, int]
    gold: tuple[tuple[ToolCall, ...], ...]
    branches: ClassVar[bool] = True

    def start(self) -> Talk:
        """The state just after the scenario was loaded."""
        return Talk(sha256(self.case_id.encode()).hexdigest(), snapshots=self.snapshots)

    async def apply(self, state: State, call: ToolCall) -> tuple[Talk, Observation]:
        """The state after a call, and the function's result: a mapping's fields, or any other value as `result`."""
        talk = own_state(state, Talk)
        snapshots, outcome = self._performed(talk.snapshots, call)
        sought = outcome.text in self._sought
        if outcome.observation.failed and not sought and snapshots == talk.snapshots:
            return replace(talk, called=True), outcome.observation
        results = (*talk.results, outcome.text) if sought else talk.results
        past = _behind(talk, call.text())
        return replace(talk, past=past, called=True, snapshots=snapshots, results=results), outcome.observation

    def next_turn(self, state: State) -> Talk:
        """The state after the user's next message. Raises ValueError if the current turn is the last."""
        talk = own_state(state, Talk)
        if talk.turn + 1 >= len(self.gold):
            raise ValueError(f"{self.case_id} has no turn after {talk.turn}")
        passed = self.turn_resolved(talk)
        return replace(talk, past=_behind(talk, ""), called=False, turn=talk.turn + 1, passed=passed)

    def turn_resolved(self, state: State) -> bool:
        """Whether all turns so far would pass if the current turn ended now."""
        talk = own_state(state, Talk)
        if not talk.passed or not self.gold[talk.turn]:
            return talk.passed
        expected = self.expected[talk.turn]
        if not talk.called or Counter(outcome.text for outcome in expected.outcomes) - Counter(talk.results):
            return False
        return all(map(same_public_state, talk.snapshots, expected.snapshots))

    def resolved(self, state: State) -> bool:
        """Whether all turns pass and the current turn is the last."""
        return own_state(state, Talk).turn == len(self.gold) - 1 and self.turn_resolved(state)

    def answer(self, state: State) -> str | None:
        """None, because the case does not ask for an answer in text."""
        return None

    @cached_property
    def expected(self) -> tuple[GoldTurn, ...]:
        """The effects of the gold calls, turn by turn, on objects that only the gold calls change."""
        snapshots, found = self.snapshots, list[GoldTurn]()
        for calls in self.gold:
            outcomes = []
            for call in calls:
                snapshots, outcome = self._performed(snapshots, call)
                outcomes.append(outcome)
            found.append(GoldTurn(snapshots, tuple(outcomes)))
        return tuple(found)

    @cached_property
    def _sought(self) -> frozenset[str]:
        return frozenset(outcome.text for turn in self.expected for outcome in turn.outcomes)

    def _performed(self, snapshots: tuple[bytes, ...], call: ToolCall) -> tuple[tuple[bytes, ...], Invoked]:
        place = self.tools.get(call.tool)
        if place is None:
            return snapshots, refused(b"", f"name {call.tool[:80]!r} is not defined")
        if why := too_large(call.tool, call.arguments):
            return snapshots, refused(b"", why)
        outcome = invoke(snapshots[place], call.tool, call.arguments)
        return (*snapshots[:place], outcome.snapshot, *snapshots[place + 1 :]), outcome


def _behind(talk: Talk, what: str) -> str:
    return sha256(f"{talk.past} {what}".encode(errors="replace")).hexdigest()


ADDED = "There are more functions now that you can call. Please try it again with them."
"""The user's message when held-back functions are handed over; the records have no text for it."""
_MOST_CHARACTERS = 20_000  # maximum length of a gold call
_MOST_TURNS = 50
_MOST_CALLS = 100  # maximum number of calls in a turn

Documents: TypeAlias = Mapping[str, Mapping[str, ToolSpec]]
"""For each class, its functions by name, in the order in which the class's file lists them."""


class MultiTurn(NamedTuple):
    """One record. `tools` are all functions that its case offers, including those that are held back at first."""

    case: Case
    reference: Reference
    world: Conversation
    tools: tuple[ToolSpec, ...]


class _Turn(NamedTuple):
    message: UserMessage
    calls: tuple[ToolCall, ...]


def documents(files: Mapping[str, Sequence[Mapping[str, Any]]]) -> Documents:
    """The functions of each class. `files` maps a file's name to its rows; raises UnusableError if a row is broken.

    A class whose file is missing has no functions.
    """
    found = {}
    for name, file in FILES.items():
        rows = [*files.get(file, ())]
        functions = functions_of({"function": rows}) if rows else {}
        returns = {row["name"]: tuple(children(row.get("response"))) for row in rows}
        found[name] = {tool: replace(one.spec, returns=returns[tool], category=name) for tool, one in functions.items()}
    return found


def read_talk(row: Mapping[str, Any], answer: Mapping[str, Any], known: Documents) -> MultiTurn:
    """A record with its answer as a case.

    Each function that `missed_function` names for a turn is held back until that turn. `excluded_function` is ignored,
    as in the authors' code.

    Raises:
        UnusableError: the record cannot be a case, for example because a gold call cannot be read or a scenario cannot
            be loaded.
        ConfigError: the package that contains the classes is not installed.
    """
    case_id, classes = str(row.get("id")), row.get("involved_classes")
    if not isinstance(classes, list) or not classes or not all(known.get(str(name)) for name in classes):
        raise UnusableError("the record names no classes, or a class without functions")
    # If two of the record's classes have a function of the same name, the function of the class listed later is used.
    places = {tool: place for place, name in enumerate(classes) for tool in known[name]}
    turns = _turns(row, answer, classes, places)
    if turns[0].message.tools:
        raise UnusableError("the first turn hands over functions that are held back")
    world = Conversation(case_id, _initial(row, classes), places, tuple(turn.calls for turn in turns))
    return MultiTurn(
        Case(case_id, turns[0].message.text, Plan(()), tuple(turn.message for turn in turns[1:])),
        _reference(world),
        world,
        tuple(known[classes[place]][tool] for tool, place in places.items()),
    )


def scenario(case_id: str) -> str:
    """The name of the scenario. Each of the four multi-turn categories has a record made from this scenario."""
    return f"multi_turn_{case_id.rpartition('_')[2]}"


def _initial(row: Mapping[str, Any], classes: Sequence[str]) -> tuple[bytes, ...]:
    config = row.get("initial_config")
    if not isinstance(config, dict) or not all(isinstance(config.get(name, {}), dict) for name in classes):
        raise UnusableError("the record has no initial state")
    try:
        return tuple(loaded(name, config.get(name, {}), "long_context" in str(row.get("id"))) for name in classes)
    except UncontrolledError as error:
        raise UnusableError(f"the initial state cannot be loaded: {error}") from None


def _reference(world: Conversation) -> Reference:
    """The gold calls in order, with None between two turns."""
    calls: dict[str, ToolCall | None] = {}
    failing = set()
    for number, (turn, expected) in enumerate(zip(world.gold, world.expected, strict=True)):
        if number:
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
        raise UnusableError("the record has no turns or no gold calls")
    if not 0 < len(questions) == len(truths) <= _MOST_TURNS:
        raise UnusableError(
            f"{len(questions)} turns and {len(truths)} lists of gold calls; the numbers must be equal, "
            f"from 1 to {_MOST_TURNS}"
        )
    turns = []
    for number, (said, truth) in enumerate(zip(questions, truths, strict=True)):
        if not isinstance(truth, list) or len(truth) > _MOST_CALLS or not all(isinstance(one, str) for one in truth):
            raise UnusableError(f"turn {number} has no list of gold calls, or more than {_MOST_CALLS} gold calls")
        message = _message(number, said, missed.get(str(number), ()), places)
        turns.append(_Turn(message, tuple(_call(text, classes, places) for text in truth)))
    return turns


def _message(number: int, said: Any, added: Any, places: Mapping[str, int]) -> UserMessage:
    if not isinstance(said, list) or not all(
        isinstance(one, dict) and one.get("role") == "user" and isinstance(one.get("content"), str) for one in said
    ):
        raise UnusableError(f"turn {number} is not a list of the user's messages")
    if not isinstance(added, list | tuple) or not all(isinstance(name, str) and name in places for name in added):
        raise UnusableError(f"turn {number} hands over functions that the record's classes do not have")
    text = "\n".join(one["content"] for one in said).strip() or (ADDED if added else "")
    if not text:
        raise UnusableError(f"the user says nothing in turn {number}")
    return UserMessage(text, frozenset(added))


def _call(text: str, classes: Sequence[str], places: Mapping[str, int]) -> ToolCall:
    """A gold call with literal values, such as `tool(1, name='x')`.

    Positional arguments are assigned to the method's parameters in order.
    """
    try:
        node = ast.parse(text[: _MOST_CHARACTERS + 1].strip(), mode="eval").body
        if len(text) > _MOST_CHARACTERS or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise ValueError("it must be a call whose arguments are literals")
        tool = node.func.id
        if tool not in places:
            raise ValueError("the record's classes have no such function")
        order = parameters(classes[places[tool]], tool)
        named = [*zip(order, node.args, strict=False), *((word.arg, word.value) for word in node.keywords)]
        arguments = {name: _json(ast.literal_eval(value)) for name, value in named if name}
        if len(arguments) < len(node.args) + len(node.keywords):
            raise ValueError("an argument is given twice or has no name")
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
    raise ValueError(f"the type {type(value).__name__} is not allowed in arguments")
