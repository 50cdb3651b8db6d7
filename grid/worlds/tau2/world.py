"""The world of a τ²-bench task: the package's tools on databases that are values, and a user to talk to.

Calls have the effects that the package's environment gives them: what a failed call changed before it failed stays,
and whatever is called is known. A state is a version of the databases with what was called and said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import ClassVar, TypeAlias

from grid.core.types import Observation, Parameter, ToolCall, ToolSpec
from grid.core.world import State, own_state
from grid.worlds.instances import MOST_SHOWN
from grid.worlds.talking import Said, User
from grid.worlds.tau2.package import (
    BASES,
    PROPERLY,
    Assertion,
    Basis,
    Called,
    Databases,
    Domain,
    FunctionCall,
    Requestor,
    Talk,
    Task,
    digest,
    failed,
    run,
)

STOP_TOKENS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""With one of these in a message the user ends the conversation; they are the data's own (its guidelines)."""
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
    """One task. `begun` are its databases before `Task.begins`; `solo`: the agent has the user's tools too.

    `max_errors` failed calls end a run, as the package's runner does. With a `user` there is somebody to talk to, who
    goes by `scenario`, and whose first message is `first`.
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
        """What the agent says before the user's first message."""
        return (GREETING,)

    def talked_to(self, user: User, first: str) -> Tau2World:
        """The same task with its user, whose first message is `first`."""
        return replace(self, user=user, first=first)

    def start(self) -> Talk:
        """The task as it begins; over at once, where the user's first message ends the conversation."""
        said = (*self.opening(), Said(True, self.first)) if self.user else ()
        past = digest(f"{self.domain.name} {self.task.id} {self.first}")
        return Talk(past, self._started, said=said, ended="user_stop" if _stops(self.first) else None)

    async def apply(self, state: State, call: ToolCall) -> tuple[Talk, Observation]:
        """What a tool returns; of a message, the reply."""
        talk = own_state(state, Talk)
        if talk.ended:
            return talk, failed("the work is over")
        if self.user and call.tool == SAY.name:
            return await self._told(talk, call, self.user)
        return self.call(talk, call)

    def call(self, talk: Talk, call: ToolCall) -> tuple[Talk, Observation]:
        """As `apply`, for the tools of the package. A call that failed was made all the same."""
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
        """Whether the user has left, or too many calls have failed."""
        return own_state(state, Talk).ended is not None

    def ended(self, state: State, answer: str | None) -> Talk:
        """The agent's own end of the work; its answer is the last thing that it says."""
        talk = own_state(state, Talk)
        if talk.ended:
            return talk
        return talk.behind(f"end {answer or ''}", *([Said(False, answer)] if answer else []), ended="agent_stop")

    def resolved(self, state: State) -> bool:
        """Whether the run ended properly and the reward is 1, as far as it can be told without a judge."""
        talk = own_state(state, Talk)
        return talk.ended in PROPERLY and all(part in (1.0, None) for part in self.parts(talk).values())

    def answer(self, state: State) -> str | None:
        """None: what counts is what was done."""
        return None

    def parts(self, talk: Talk) -> Parts:
        """The parts of the reward."""
        return parts(self.domain, self.task, self.gold, talk)

    @cached_property
    def gold(self) -> Databases:
        """The databases behind the gold actions. As in the package's evaluator nothing is kept in step between them."""
        databases = self._started
        for action in self.task.actions:
            call = FunctionCall(action.requestor, action.name, action.arguments)
            databases = run(self.domain, databases, call, in_step=False).databases
        return databases

    @property
    def broken(self) -> str | None:
        """Which function of the task's beginning fails, and why; None where all run."""
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
        """Whose tool it is, among those that the agent may call."""
        if self.solo and tool in self.domain.names("user"):
            return "user"
        return "assistant" if tool in self.domain.names("assistant") else None

    async def _told(self, talk: Talk, call: ToolCall, user: User) -> tuple[Talk, Observation]:
        """The state behind a message of the agent's, and the reply."""
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


# A task's reward: the product over what it rests on, each part 0 or 1 (τ²-bench; as the package's evaluators).


Parts: TypeAlias = Mapping[Basis, float | None]
"""By what a reward rests on 0 or 1; None where a model has to tell."""


def parts(domain: Domain, task: Task, gold: Databases, talk: Talk) -> Parts:
    """The parts that a task's reward rests on, in the order of BASES; `gold` are the databases behind its actions."""
    return {basis: _part(basis, domain, task, gold, talk) for basis in BASES if basis in task.basis}


def reward(found: Parts, talk: Talk) -> float | None:
    """The product, 0 where the run did not end properly; None where a part is not known."""
    if talk.ended not in PROPERLY:
        return 0.0
    known = [part for part in found.values() if part is not None]
    return prod(known) if len(known) == len(found) else None


def same_databases(domain: Domain, gold: Databases, talk: Talk) -> bool | None:
    """Whether a run that ended properly leaves the databases as the gold actions do.

    None for telecom: there even the gold actions' own calls leave others, as bills get numbers at random.
    """
    return None if domain.name == "telecom" else talk.ended in PROPERLY and talk.databases.same(gold)


def told(information: Sequence[str], said: Sequence[Said]) -> bool:
    """Whether the agent said all of it: each a part of one of its messages, in lower case and without commas there."""
    messages = [message.text.lower().replace(",", "") for message in said if not message.by_user]
    return all(any(one.lower() in message for message in messages) for one in information)


def holds(domain: Domain, talk: Talk, assertion: Assertion) -> bool:
    """Whether an assertion holds; not where its function breaks or returns no truth value."""
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
