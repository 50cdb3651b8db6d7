"""The world of a τ²-bench task: the package's tools on databases that never change, and a user to talk to.

Calls have the same effects as in the package's environment: changes that a failed call made before its failure are
kept, and failed calls are recorded too. A call creates a new version of the databases. A state has one version, and the
calls and messages so far. This module also reads a task's files.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast, get_args

from grid.core.errors import ConfigError, DataError
from grid.core.types import Json, Observation, Parameter, ToolCall, ToolSpec
from grid.core.world import State, own_state
from grid.datasets.dataset import UnusableError
from grid.datasets.files import folder, read_json
from grid.datasets.tau2.package import (
    BASES,
    PROPERLY,
    Action,
    Assertion,
    Basis,
    Called,
    Databases,
    Domain,
    DomainName,
    FunctionCall,
    Requestor,
    Talk,
    Task,
    digest,
    failed,
    run,
)
from grid.text.objects import MAX_DEPTH, depth
from grid.worlds.functions import MOST_SHOWN
from grid.worlds.simulated import Said, User

STOP_TOKENS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""The user ends the conversation with a message that contains one of these texts (from the data's guidelines)."""
GREETING = Said(False, "Hi! How can I help you today?")
SAY = ToolSpec(
    "message_user",
    "Sends a message to the user and returns what they reply. Nothing but these messages reaches the user.",
    (Parameter("message", "string", "the message's text"),),
    ("reply",),
)
TRANSFER = "transfer_to_human_agents"


@dataclass(frozen=True)
class Tau2World:
    """One task. `begun` has the databases before `Task.begins` is run. If `solo`, the agent also has the user's tools.

    A run ends after `max_errors` failed calls, as in the package's runner. If there is a `user`, the agent can send
    messages to the user, who follows `scenario`. The user's first message is `first`.
    """

    task: Task
    domain: Domain
    begun: Databases
    solo: bool
    max_errors: int
    scenario: tuple[str, ...] = ()
    user: User | None = None
    first: str = ""
    branches: ClassVar[bool] = True

    def opening(self) -> tuple[Said, ...]:
        """The agent's message before the user's first message."""
        return (GREETING,)

    def talked_to(self, user: User, first: str) -> Tau2World:
        """The same task with its user, whose first message is `first`."""
        return replace(self, user=user, first=first)

    def start(self) -> Talk:
        """The state at the start of the task.

        The task is over at once if the user's first message ends the conversation.
        """
        said = (*self.opening(), Said(True, self.first)) if self.user else ()
        past = digest(f"{self.domain.name} {self.task.id} {self.first}")
        return Talk(past, self._started, said=said, ended="user_stop" if _stops(self.first) else None)

    async def apply(self, state: State, call: ToolCall) -> tuple[Talk, Observation]:
        """The state after a call, and the tool's result or, for a message, the user's reply."""
        talk = own_state(state, Talk)
        if talk.ended:
            return talk, failed("the work is over")
        if self.user and call.tool == SAY.name:
            return await self._told(talk, call, self.user)
        return self.call(talk, call)

    def call(self, talk: Talk, call: ToolCall) -> tuple[Talk, Observation]:
        """The same as `apply`, but only for the package's tools. A failed call is recorded too."""
        requestor = self._whose(call.tool)
        if requestor is None:
            found = Called(talk.databases, f"Tool '{call.tool:.80}' not found.", True)
        else:
            found = run(self.domain, talk.databases, FunctionCall(requestor, call.tool, call.arguments))
        errors = talk.errors + found.failed
        after = talk.behind(call.text(), ended="too_many_errors" if errors >= self.max_errors else None)
        after = replace(after, databases=found.databases, calls=(*talk.calls, call), errors=errors)
        return after, found.observation

    def over(self, state: State) -> bool:
        """Whether the agent or the user has ended the run, too many calls failed, or the user could not be reached."""
        return own_state(state, Talk).ended is not None

    def ended(self, state: State, answer: str | None) -> Talk:
        """The state after the agent has ended the work; the agent's answer is its last message."""
        talk = own_state(state, Talk)
        if talk.ended:
            return talk
        return talk.behind(f"end {answer or ''}", *([Said(False, answer)] if answer else []), ended="agent_stop")

    def resolved(self, state: State) -> bool:
        """Whether the run ended properly and all parts of the reward are 1, except those that need a judge."""
        talk = own_state(state, Talk)
        return talk.ended in PROPERLY and all(part in (1.0, None) for part in self.parts(talk).values())

    def answer(self, state: State) -> str | None:
        """None, because actions are scored, not answers."""
        return None

    def parts(self, talk: Talk) -> Parts:
        """The parts of the reward."""
        return parts(self.domain, self.task, self.gold, talk)

    @cached_property
    def gold(self) -> Databases:
        """The databases after the gold actions.

        As in the package's evaluator, the databases are not synchronized after actions.
        """
        databases = self._started
        for action in self.task.actions:
            call = FunctionCall(action.requestor, action.name, action.arguments)
            databases = run(self.domain, databases, call, in_step=False).databases
        return databases

    @property
    def broken(self) -> str | None:
        """The first function in `Task.begins` that fails, with the reason; None if none fails."""
        return self._beginning[1]

    @property
    def _started(self) -> Databases:
        return self._beginning[0]

    @cached_property
    def _beginning(self) -> tuple[Databases, str | None]:
        databases, why = self.begun, None
        for call in self.task.begins:
            found = run(self.domain, databases, call)
            databases = found.databases
            why = why or (f"{call.name}: {found.result}" if found.failed else None)
        return databases, why

    def _whose(self, tool: str) -> Requestor | None:
        """The owner of a tool, the agent or the user; None for a tool that the agent may not call."""
        if self.solo and tool in self.domain.names("user"):
            return "user"
        return "assistant" if tool in self.domain.names("assistant") else None

    async def _told(self, talk: Talk, call: ToolCall, user: User) -> tuple[Talk, Observation]:
        """The state after a message from the agent, and the reply."""
        text = call.arguments.get("message")
        if call.arguments.keys() != {"message"} or not isinstance(text, str) or not text.strip():
            return talk, failed("message_user takes one argument: message, a text that is not empty")
        said = Said(False, text[:MOST_SHOWN])
        reply = await user.reply(self.scenario, (*talk.said, said))
        if reply is None:
            return talk.behind(call.text(), said, ended="user_error"), failed("the user cannot be reached")
        over = _stops(reply)
        after = talk.behind(f"{call.text()} {reply}", said, Said(True, reply), ended="user_stop" if over else None)
        left = {"status": "the user has left the conversation"} if over else {}
        return after, Observation({"reply": _without_tokens(reply), **left})


def _stops(message: str) -> bool:
    return any(token in message for token in STOP_TOKENS)


def _without_tokens(message: str) -> str:
    for token in STOP_TOKENS:
        message = message.replace(token, "")
    return message.strip()


# A task's reward: the product of the parts in its basis, each 0 or 1 (τ²-bench, as in the package's evaluators).


Parts: TypeAlias = Mapping[Basis, float | None]
"""The parts of a reward by name, each 0 or 1; None if a model must decide."""


def parts(domain: Domain, task: Task, gold: Databases, talk: Talk) -> Parts:
    """The parts of a task's reward, in the order of BASES. `gold` has the databases after the gold actions."""
    return {basis: _part(basis, domain, task, gold, talk) for basis in BASES if basis in task.basis}


def reward(found: Parts, talk: Talk) -> float | None:
    """The product of the parts (None if a part is unknown), but always 0 if the run did not end properly."""
    if talk.ended not in PROPERLY:
        return 0.0
    known = [part for part in found.values() if part is not None]
    return prod(known) if len(known) == len(found) else None


def same_databases(domain: Domain, gold: Databases, talk: Talk) -> bool | None:
    """Whether a run ended properly and left the same databases as the gold actions.

    None for telecom, because the package gives bills random numbers, so that the gold actions produce different
    databases each time.
    """
    return None if domain.name == "telecom" else talk.ended in PROPERLY and talk.databases.same(gold)


def told(information: Sequence[str], said: Sequence[Said]) -> bool:
    """Whether each piece of information is in one of the agent's messages, ignoring case and the messages' commas."""
    messages = [message.text.lower().replace(",", "") for message in said if not message.by_user]
    return all(any(one.lower() in message for message in messages) for one in information)


def holds(domain: Domain, talk: Talk, assertion: Assertion) -> bool:
    """Whether an assertion holds; it does not if its function fails or does not return a boolean."""
    found = run(domain, talk.databases, assertion)
    return not found.failed and found.result is assertion.value


def _part(basis: Basis, domain: Domain, task: Task, gold: Databases, talk: Talk) -> float | None:
    match basis:
        case "DB":
            return float(talk.databases.same(gold))
        case "ENV_ASSERTION":
            return float(all(holds(domain, talk, assertion) for assertion in task.assertions))
        case "ACTION":
            called = [(call.tool, call.arguments) for call in talk.calls]
            return float(all(any(action.matches(*call) for call in called) for action in task.actions))
        case "COMMUNICATE":
            return float(told(task.communicate, talk.said))
        case "NL_ASSERTION":
            return None if task.nl_assertions else 1.0


# τ²-bench's files: a domain's tasks, with checks for errors, and its databases and policies.


DOMAINS: tuple[DomainName, ...] = get_args(DomainName)
BASE: tuple[DomainName, ...] = ("airline", "retail", "telecom")
"""The domains of the published comparison; `mock` is for testing."""
_TELECOM = ("main_policy_solo.md", "tech_support_manual.md")
FILES: Mapping[DomainName, tuple[str, ...]] = {
    "airline": ("tasks.json", "db.json", "policy.md"),
    "retail": ("tasks.json", "db.json", "policy.md"),
    "telecom": ("tasks.json", "db.toml", "user_db.toml", *_TELECOM),
    "mock": ("tasks.json", "db.json", "policy_solo.md"),
}
"""The files that are read from a domain's folder."""
GUIDELINES = "simulation_guidelines.md"
_SPLIT = "split_tasks.json"
_MOST_BYTES = 50_000_000
_MOST_TEXT = 100_000
_MOST_ITEMS = 200
_BEHIND = "data/tau2"
_DEFAULT_BASIS = ("DB", "COMMUNICATE")


class Folders(NamedTuple):
    """A domain's folder and, if there is one, the folder with the guidelines for the user."""

    domain: Path
    user: Path


def folders(path: str | None, name: DomainName, talks: bool) -> Folders:
    """The folders with a domain's files. `path` is the folder `data/tau2`, or the folder that contains `data/tau2`.

    Raises:
        ConfigError: a file is missing (the error names `dataset.path`). The guidelines are needed only if the user
            `talks`.
    """
    inner = Path(path).expanduser() / _BEHIND if path else None
    root = str(inner) if inner and inner.is_dir() else path
    needed = [f"domains/{name}/{file}" for file in FILES[name]] + [f"user_simulator/{GUIDELINES}"] * talks
    found = folder("dataset.path", root, *needed)
    return Folders(found / "domains" / name, found / "user_simulator")


def base_ids(where: Path) -> list[str] | None:
    """The ids of a domain's base split, which published figures use; None if no file defines it.

    Raises DataError if the file cannot be read or does not have the expected form.
    """
    file = where / _SPLIT
    if not file.is_file():
        return None
    found = read_json(file, _MOST_BYTES)
    ids = found.get("base") if isinstance(found, dict) else None
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise DataError(file, None, "the file must be an object with a list `base` of task ids")
    return ids


def database(file: Path, model: Any) -> Any:
    """A database of the package, from JSON or TOML. Raises DataError if the file does not contain one."""
    try:
        if file.suffix == ".toml":
            if file.stat().st_size > _MOST_BYTES:
                raise DataError(file, None, f"the file has more than {_MOST_BYTES:,} bytes")
            given: Any = tomllib.loads(file.read_text(encoding="utf-8"))
        else:
            given = read_json(file, _MOST_BYTES)
        return model.model_validate(given)
    except (ValueError, RecursionError) as error:
        raise DataError(
            file, None, f"the file is not a database of the installed package: {str(error)[:300]}"
        ) from None


def text_of(file: Path) -> str:
    """A policy's or a guideline's text. Raises DataError if the file is too large or is not UTF-8."""
    try:
        if file.stat().st_size > _MOST_TEXT:
            raise DataError(file, None, f"the file has more than {_MOST_TEXT:,} bytes")
        return file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise DataError(file, None, f"the file is not a text in UTF-8: {error}") from None


def policy_of(where: Path, name: DomainName) -> str:
    """The agent's policy; telecom's has two parts, joined as in the package."""
    texts = [text_of(where / file) for file in FILES[name] if file.endswith(".md")]
    if name != "telecom":
        return texts[0]
    main, support = texts
    return f"<main_policy>\n{main}\n</main_policy>\n<tech_support_policy>\n{support}\n</tech_support_policy>"


def rows(file: Path) -> list[Mapping[str, Any]]:
    """The tasks of a file, unchanged. Raises DataError if the file has no list of tasks, ConfigError if it is empty."""
    found = read_json(file, _MOST_BYTES)
    found = found.get("tasks") if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise DataError(file, None, "the file must have a list of tasks")
    if not found:
        raise ConfigError("dataset.path", str(file), "a file with at least one task")
    return found


def task_of(row: Mapping[str, Any], domain: Domain, solo: bool) -> Task:
    """A task, checked against the tools that the installed package has.

    Raises:
        UnusableError: the row does not have the expected form, names functions or tools that do not exist, needs what
            is not supported, or lacks the ticket or the gold actions that a solo agent needs.
    """
    if depth(cast(Json, row)) > MAX_DEPTH:
        raise UnusableError(f"the task is nested more than {MAX_DEPTH} levels deep")
    scenario, criteria = _section(row, "user_scenario"), _section(row, "evaluation_criteria")
    initial = _section(row, "initial_state")
    data = _section(initial, "initialization_data")
    if initial.get("message_history"):
        raise UnusableError("the task has a message_history, which is not supported")
    task = Task(
        id=_text(row, "id"),
        ticket=_text(row, "ticket", must=False),
        persona=_text(scenario, "persona", must=False),
        instructions=_instructions(scenario),
        actions=tuple(_action(one, domain, solo) for one in _list(criteria, "actions")),
        assertions=tuple(_assertion(one, domain) for one in _list(criteria, "env_assertions")),
        communicate=_texts(criteria, "communicate_info"),
        nl_assertions=_texts(criteria, "nl_assertions"),
        basis=_basis(criteria),
        data=_section(data, "agent_data"),
        user_data=_section(data, "user_data"),
        begins=tuple(_function(one, domain) for one in _list(initial, "initialization_actions")),
    )
    if solo and not task.ticket:
        raise UnusableError("the task has no ticket, which is needed if there is no user")
    if solo and not task.actions:
        raise UnusableError("the task has no gold actions, which the package needs if there is no user")
    return task


def _basis(criteria: Mapping[str, Any]) -> frozenset[Basis]:
    named = _texts(criteria, "reward_basis") or _DEFAULT_BASIS
    if unknown := [one for one in named if one not in BASES]:
        raise UnusableError(f"the reward_basis has {unknown[0]!r:.40}, which is not one of {', '.join(BASES)}")
    return frozenset(basis for basis in BASES if basis in named)


def _action(given: Any, domain: Domain, solo: bool) -> Action:
    name, arguments = _call(given, "name")
    requestor = _requestor(given.get("requestor", "assistant"))
    if name not in domain.names(requestor):
        raise UnusableError(f"a gold action calls {name!r:.60}, which the installed package does not have")
    if requestor == "user" and not solo:
        raise UnusableError("a gold action calls a tool of the user, which only a solo agent can do here")
    compared = given.get("compare_args")
    if compared is not None and not (isinstance(compared, list) and all(isinstance(one, str) for one in compared)):
        raise UnusableError("compare_args is not a list of names")
    return Action(requestor, name, arguments, None if compared is None else tuple(compared))


def _function(given: Any, domain: Domain) -> FunctionCall:
    name, arguments = _call(given, "func_name")
    requestor = _requestor(given.get("env_type"))
    if name not in domain.functions(requestor):
        raise UnusableError(f"the task runs {name!r:.60}, which the installed package does not have")
    return FunctionCall(requestor, name, arguments)


def _assertion(given: Any, domain: Domain) -> Assertion:
    called, value = _function(given, domain), given.get("assert_value", True)
    if not isinstance(value, bool):
        raise UnusableError("an assertion's assert_value is neither true nor false")
    return Assertion(called.requestor, called.name, called.arguments, value)


def _call(given: Any, key: str) -> tuple[str, dict[str, Json]]:
    name, arguments = (given.get(key), given.get("arguments")) if isinstance(given, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise UnusableError(f"an action or assertion has no {key}, or no arguments")
    return name, arguments


def _requestor(given: Any) -> Requestor:
    if given not in ("assistant", "user"):
        raise UnusableError(f"an action belongs neither to the assistant nor to the user, but to {given!r:.40}")
    found: Requestor = given
    return found


def _instructions(scenario: Mapping[str, Any]) -> dict[str, str]:
    """The user's instructions, by topic."""
    given = scenario.get("instructions")
    if isinstance(given, str) and given.strip():
        return {"task_instructions": given.strip()[:_MOST_TEXT]}
    if not isinstance(given, dict) or not all(value is None or isinstance(value, str) for value in given.values()):
        raise UnusableError("the user has no instructions")
    return {name: value.strip()[:_MOST_TEXT] for name, value in given.items() if value and name != "domain"}


def _section(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = given.get(key)
    if found is not None and not isinstance(found, dict):
        raise UnusableError(f"{key} is not an object")
    return found or {}


def _list(given: Mapping[str, Any], key: str) -> Sequence[Any]:
    found = given.get(key)
    if found is not None and (not isinstance(found, list) or len(found) > _MOST_ITEMS):
        raise UnusableError(f"{key} is not a list, or has more than {_MOST_ITEMS} items")
    return found or ()


def _texts(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = _list(given, key)
    if not all(isinstance(one, str) for one in found):
        raise UnusableError(f"{key} is not a list of texts")
    return tuple(found)


def _text(given: Mapping[str, Any], key: str, must: bool = True) -> str:
    found = given.get(key)
    if found is not None and not isinstance(found, str):
        raise UnusableError(f"{key} is not a text")
    if must and not (found or "").strip():
        raise UnusableError(f"the task has no {key}")
    return (found or "").strip()[:_MOST_TEXT]


# The texts about the user, for the model that plays the user or, without such a model, as a ticket for the agent.


PARTS = {
    "reason_for_call": "Why they get in touch",
    "known_info": "What they know",
    "unknown_info": "What they do not know",
    "task_instructions": "What else holds for them",
}
"""The topics of a user's instructions, by their names in the data."""
TICKET = (
    "A customer has written in, and nobody can be asked back. What follows was written for somebody who plays the "
    "customer; take it as all that they know, want and would say, and that they agree to whatever does what they want.",
    "When you finish, your answer is what they are told.",
)


def scenario(guidelines: str, task: Task) -> tuple[str, ...]:
    """The texts for the model that plays the user: the data's guidelines, any persona, and the instructions."""
    persona = ("Persona:", task.persona) if task.persona else ()
    return (guidelines, *persona, "Instructions:", *_users_instructions(task))


def ticket(task: Task) -> str:
    """The user's instructions as a ticket, which gives the agent all information that it would have to ask for."""
    return "\n".join((*TICKET, *_users_instructions(task)))


def _users_instructions(task: Task) -> tuple[str, ...]:
    named = {**PARTS, **{name: name for name in task.instructions if name not in PARTS}}
    return tuple(f"{named[part]}: {task.instructions[part]}" for part in named if part in task.instructions)
