"""The world of an episode with MCP servers: calls, what they return, and what has to hold when the work is over."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from grid.core.errors import EngineError, GridError, ToolError, one_line
from grid.core.types import FINISH, RESULT, Json, Observation, ToolCall, ToolSpec, to_json
from grid.core.world import State, own_state
from grid.datasets.mcp_links import AwayError, RefusedError, Server, ServerError
from grid.datasets.mcp_session import Session
from grid.datasets.mcp_tasks import Expectation
from grid.text import references
from grid.text.answers import exact_match
from grid.text.objects import MAX_CHARACTERS, MAX_DEPTH, depth, objects
from grid.worlds.equivalence import equivalent
from grid.worlds.lookup import Entry, means
from grid.worlds.schema import ERROR

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp_types import CallToolResult


# The tools of MCP servers: each episode has sessions of its own, which cannot be gone back in.
#
# What a call leaves behind is in the server. A state holds what was seen of it: how many calls were made, which calls
# of the reference were, with what they returned, and the answer.


ANSWER = "answer"
BETWEEN = "__"
"""What stands between a server's name and its tool's, where there are several servers."""


@dataclass(frozen=True)
class McpState:
    """After `made` calls: by step of the reference what its call returned, as JSON; the last result; the answer."""

    made: int = 0
    obtained: tuple[tuple[str, str], ...] = ()
    last: str | None = None
    answer: str | None = None

    def outcomes(self) -> dict[str, Mapping[str, Json]]:
        """What the reference's calls returned, by step."""
        return {step: json.loads(text) for step, text in self.obtained}


@dataclass(frozen=True)
class Seen:
    """What was found behind a state, when its episode was over: why each expectation that does not hold does not."""

    state: McpState
    unmet: tuple[str, ...]


@dataclass(eq=False)
class McpWorld:
    """The world of one episode. A session with a server begins with the first call of its tools, and ends by `close`.

    A call makes a step of the reference when it gives the same arguments in an equal form, and succeeds; one call makes
    one step. With a `wanted` answer the case is resolved by it alone (`same_answer`), without one when all calls were
    made. `answered`: the answer is what a finish tells; otherwise the last result. What is expected has to hold as
    well: `settle` asks for it in the same sessions, and a state that was not settled is not resolved.

    Attributes:
        servers: by the name that stands before their tools' names; one alone has none.
        tools: the servers', by name.
        calls: the reference's by step.
        wanted: the reference's answer.
        answered: which of the two rules holds.
        expect: what calls have to return when the episode is over.
        seen: what they did; None before.
    """

    servers: Mapping[str, Server]
    tools: Mapping[str, ToolSpec]
    calls: Mapping[str, ToolCall]
    wanted: str | None = None
    answered: bool = False
    expect: tuple[Expectation, ...] = ()
    branches: ClassVar[bool] = False
    seen: Seen | None = field(default=None, init=False)
    _sessions: dict[str, Session] = field(default_factory=dict, init=False)
    _made: int = field(default=0, init=False)

    def start(self) -> McpState:
        """No call made."""
        return McpState()

    async def apply(self, state: State, call: ToolCall) -> tuple[McpState, Observation]:
        """What the server returns. A call that is refused has failed.

        Raises:
            ToolError: the server has ended, hangs or floods, or was ended before; or a state is not the newest.
            EngineError: it cannot be reached, or does not let us in.
        """
        before = own_state(state, McpState)
        if before.made != self._made:
            raise ToolError(f"a server cannot go back: {self._made} calls were made, the state is behind {before.made}")
        if self.answered and call.tool == FINISH:
            return _finished(before, call)
        if call.tool not in self.tools:
            return before, failed(f"There is no tool {call.tool!r:.80}.")
        self._made += 1
        made = replace(before, made=self._made)
        found = await self._called(call)
        if found.failed:
            return made, found
        text = to_json(dict(found.content))
        step = self._step(made, call)
        more = ((step, text),) if step is not None else ()
        return replace(made, obtained=(*made.obtained, *more), last=_whole(found.content)), found

    async def settle(self, state: State) -> None:
        """Make the calls of `expect` behind the last state. They are no steps, and nobody is shown them.

        Raises:
            ToolError: what one returned cannot be read, or the server is of no use.
            EngineError: as `apply`.
        """
        if not self.expect:
            return
        unmet = [found for one in self.expect if (found := await self._unmet(one)) is not None]
        self.seen = Seen(own_state(state, McpState), tuple(unmet))

    async def _unmet(self, one: Expectation) -> str | None:
        """Why an expectation does not hold: what its tool returned, or the error that it tells."""
        told = f"{one.tool} with {to_json(dict(one.arguments))}"
        try:
            result = await self._asked(one.call)
        except RefusedError as error:
            raise ToolError(f"expect: {told:.300} was not carried out: {error}") from None
        found = observation(result, self._of(one.call.tool)[0].result_characters)
        if found.failed and not result.is_error:
            raise ToolError(f"expect: {told:.300} cannot be read: {found.content[ERROR]}")
        if not found.failed and one.holds(found.content):
            return None
        return one_line(f"{told} returned {found.text()}", 1000)

    def resolved(self, state: State) -> bool:
        """Whether the answer is right, or without one all of the reference's calls were made, and what is expected."""
        own = own_state(state, McpState)
        if self.expect and (self.seen is None or self.seen.state != own or self.seen.unmet):
            return False
        if self.wanted is None:
            return len(own.obtained) == len(self.calls)
        given = self.answer(own)
        if given is None:
            return False
        return same_answer(given, self.wanted)

    def answer(self, state: State) -> str | None:
        """What was told; where an outline ends the work, the last result. None where no question is answered."""
        own = own_state(state, McpState)
        if self.wanted is None:
            return None
        return own.answer if self.answered else own.last and own.last.strip()

    async def close(self) -> None:
        """End all sessions; the next call begins with another."""
        sessions, self._sessions, self._made = [*self._sessions.values()], {}, 0
        await asyncio.gather(*(session.close() for session in sessions))

    async def _called(self, call: ToolCall) -> Observation:
        try:
            call.text().encode()
        except UnicodeEncodeError:
            return failed("An argument has half a surrogate pair.")
        try:
            result = await self._asked(call)
        except RefusedError as error:
            return failed(f"{error}.")
        return observation(result, self._of(call.tool)[0].result_characters)

    def _of(self, tool: str) -> tuple[Server, str, str]:
        """A tool's server, that one's name, and what it calls the tool."""
        name, _, own = ("", "", tool) if "" in self.servers else tool.partition(BETWEEN)
        return self.servers[name], name, own

    async def _asked(self, call: ToolCall) -> CallToolResult:
        """What a call returns; raises RefusedError, and what `apply` raises."""
        server, name, tool = self._of(call.tool)
        session = await self._started(name, server)
        try:
            return await session.ask(lambda client: called(client, ToolCall(tool, call.arguments)), server.seconds)
        except ServerError as error:
            raise _broken(error, f"the MCP server{_named(name)} is of no use any more") from None

    async def _started(self, name: str, server: Server) -> Session:
        if name in self._sessions:
            return self._sessions[name]
        session = self._sessions[name] = Session(server)
        try:
            await session.start()
        except (RefusedError, ServerError) as error:
            kind = type(error) if isinstance(error, ServerError) else ServerError
            session.why = kind(f"it did not start: {error}")
            raise _broken(error, f"the MCP server{_named(name)} did not start") from None
        return session

    def _step(self, state: McpState, call: ToolCall) -> str | None:
        """The first step of the reference that a call makes, of those that were not made; None for another call."""
        outcomes, spec = state.outcomes(), self.tools[call.tool]
        parameters = {parameter.name: parameter for parameter in spec.parameters}
        for step, reference in self.calls.items():
            if step in outcomes or reference.tool != call.tool:
                continue
            concrete = references.resolve(reference, outcomes)
            entry = Entry(frozenset({step}), concrete, Observation({}), parameters=parameters)
            if not any(references.found_in(concrete)) and means(entry, call.arguments):
                return step
        return None


def _named(server: str) -> str:
    return f" {server}" if server else ""


def _broken(error: Exception, what: str) -> GridError:
    """A server that cannot be reached is the infrastructure's failure, which is tried again; another the tools'."""
    kind = EngineError if isinstance(error, AwayError) else ToolError
    return kind(f"{what}: {error}")


def same_answer(given: str, wanted: str) -> bool:
    """Whether two answers mean the same; where digits count, no sign within them may be dropped.

    Whoever plans ahead can tell no more than a whole result: one that is an object, or a list of objects, with a single
    value stands for that value.
    """
    digits = any(char.isdigit() for char in wanted)
    told = (given, *_only_value(given))
    return any(equivalent(one, wanted) or (not digits and exact_match(one, wanted)) for one in told)


def _only_value(text: str) -> tuple[str, ...]:
    """The value of a structure that has no other."""
    found = objects(text) if len(text) <= MAX_CHARACTERS else []
    if len(found) != 1 or found[0].why or (found[0].start, found[0].end) != (0, len(text)):
        return ()
    pending, leaves = [found[0].value], list[Json]()
    for value in pending:  # which grows
        if isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value
        else:
            leaves.append(value)
    return tuple(leaf if isinstance(leaf, str) else to_json(leaf) for leaf in leaves) if len(leaves) == 1 else ()


def _finished(before: McpState, call: ToolCall) -> tuple[McpState, Observation]:
    """The state behind the answer; a finish without one, or with a reference that nothing fills, is refused."""
    answer = call.arguments.get(ANSWER)
    text = answer if isinstance(answer, str) else "" if answer is None else to_json(answer)
    if not text.strip():
        return before, failed(f"{FINISH} needs an {ANSWER}: the result of an earlier step, or words.")
    left = references.PATTERN.search(text)
    if left:
        return before, failed(f"{ANSWER}: {left[0]!r:.80} is no result of an earlier step.")
    return replace(before, answer=text.strip()), Observation({ANSWER: text.strip()})


def _whole(content: Mapping[str, Json]) -> str:
    """What a reference to a result stands for, as text: `result`, or all fields."""
    result = content[RESULT] if RESULT in content else dict(content)
    return result if isinstance(result, str) else to_json(result)


# What a call of an MCP server's tool returned, as an observation.


async def called(client: ClientSession, call: ToolCall) -> CallToolResult:
    """What a tool returns.

    The client's own `call_tool` holds it against the schema that the server tells, whose regular expressions may take
    for ever; nothing here rests on that.
    """
    from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

    params = CallToolRequestParams(name=call.tool, arguments=dict(call.arguments))
    return await client.send_request(CallToolRequest(params=params), CallToolResult)


def failed(why: str) -> Observation:
    """A call that came to nothing."""
    return Observation({ERROR: why}, failed=True)


def observation(result: CallToolResult, most: int) -> Observation:
    """The structured content, its fields where it has any; else the texts, a line each, as the field `result`.

    Images, sounds and resources are named. An error is a failed call with the text; so is a result of more than `most`
    characters, of which nothing is shown, since a part of it might mislead.
    """
    structured = result.structured_content
    told = "\n".join(_text(block) for block in result.content)
    if result.is_error:
        return failed(told[:most] or "The call failed.")
    content: dict[str, Json] = structured if isinstance(structured, dict) and structured else {RESULT: told}
    if structured is not None and not isinstance(structured, dict):
        content = {RESULT: structured}
    if depth(dict(content)) > MAX_DEPTH:
        return failed(f"The result is nested more than {MAX_DEPTH} levels deep.")
    size = len(to_json(content))
    if size > most:
        return failed(f"The result has {size:,} characters, {most:,} at most are shown (dataset.result_characters).")
    return Observation(content)


def _text(block: Any) -> str:
    """A block of a result: its text, or what it is."""
    if block.type == "text":
        return str(block.text)
    resource = getattr(block, "resource", None)
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    about = [getattr(block, "mime_type", None) or getattr(resource, "mime_type", None), getattr(block, "name", None)]
    about += [str(uri) if (uri := getattr(block, "uri", None) or getattr(resource, "uri", None)) else None]
    return f"[{' '.join([block.type, *filter(None, about)])}]"
