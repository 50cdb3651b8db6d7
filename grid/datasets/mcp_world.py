"""The world of an episode with MCP servers: calls and their results, and a check of expectations at the end."""

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


# The tools of MCP servers: each episode has its own sessions, which cannot go back to an earlier state.
#
# The effects of a call stay in the server. A state contains only what the episode has observed: the number of calls
# made, the reference calls among them with their results, and the answer.


ANSWER = "answer"
BETWEEN = "__"
"""The text between a server's name and a tool's name, if there are several servers."""


@dataclass(frozen=True)
class McpState:
    """The state after `made` calls: the JSON results of reference calls by step, the last result, and the answer."""

    made: int = 0
    obtained: tuple[tuple[str, str], ...] = ()
    last: str | None = None
    answer: str | None = None

    def outcomes(self) -> dict[str, Mapping[str, Json]]:
        """The results of the reference's calls, by step."""
        return {step: json.loads(text) for step, text in self.obtained}


@dataclass(frozen=True)
class Seen:
    """The result of the check after an episode: its last state, and a reason for each unmet expectation."""

    state: McpState
    unmet: tuple[str, ...]


@dataclass(eq=False)
class McpWorld:
    """The world of one episode. A session with a server starts at the first call of its tools, and ends with `close`.

    A call completes a step of the reference if the call succeeds and its arguments mean the same as the step's
    arguments. One call completes at most one step. A case with a `wanted` answer is resolved by the right answer
    (`same_answer`), whatever calls were made; any other case is resolved when all reference calls have been made. If
    `answered`, the answer is the text of the finish; if not, it is the last result. In both kinds of case, the
    expectations must hold as well: `settle` checks the expectations in the same sessions, and before that check the
    case is not resolved.

    Attributes:
        servers: the servers by name. With several servers, a tool's name starts with its server's name; the name of a
            single server is empty.
        tools: the servers' tools by name.
        calls: the reference's calls by step.
        wanted: the reference's answer.
        answered: whether a finish gives the answer; if not, the last result is the answer.
        expect: the calls after the episode, with their expected outcomes.
        seen: the result of the calls in `expect`; None before they are made.
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
        """The state before any call."""
        return McpState()

    async def apply(self, state: State, call: ToolCall) -> tuple[McpState, Observation]:
        """The state after a call, and the server's result. A refused call counts as failed.

        Raises:
            ToolError: the server has ended, hangs or sends too much, or was ended earlier; or the state is not the
                latest.
            EngineError: the server cannot be reached, or refuses access.
            ConfigError: the server can never start.
        """
        before = own_state(state, McpState)
        if before.made != self._made:
            raise ToolError(
                f"a server cannot go back: {self._made} calls were made, but the state is that after {before.made}"
            )
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
        """Make the calls of `expect` after the last state. These calls are not steps, and planners do not see them.

        Raises:
            ToolError: a call is refused, a result cannot be read, or the server can no longer be used.
            EngineError, ConfigError: the same as for `apply`.
        """
        if not self.expect:
            return
        unmet = [found for one in self.expect if (found := await self._unmet(one)) is not None]
        self.seen = Seen(own_state(state, McpState), tuple(unmet))

    async def _unmet(self, one: Expectation) -> str | None:
        """The reason why an expectation does not hold, with the tool's result or error.

        None if the expectation holds.
        """
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
        """Whether all expectations hold and the answer is right.

        If no answer is wanted, the reference calls must have been made.
        """
        own = own_state(state, McpState)
        if self.expect and (self.seen is None or self.seen.state != own or self.seen.unmet):
            return False
        if self.wanted is None:
            return len(own.obtained) == len(self.calls)
        given = self.answer(own)
        return given is not None and same_answer(given, self.wanted)

    def resolved_by_answer(self, answer: str | None) -> bool | None:
        """Whether an episode with this answer resolves the case; None if calls or expectations decide."""
        if self.wanted is None or self.expect:
            return None
        return answer is not None and same_answer(answer, self.wanted)

    def answer(self, state: State) -> str | None:
        """The planner's answer, or the last result if the episode ends with its outline.

        None if no answer is wanted, or if there is none yet.
        """
        own = own_state(state, McpState)
        if self.wanted is None:
            return None
        return own.answer if self.answered else own.last and own.last.strip()

    async def close(self) -> None:
        """End all sessions; the next call starts a new one."""
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
        """A tool's server, the server's name, and the tool's name on that server."""
        name, _, own = ("", "", tool) if "" in self.servers else tool.partition(BETWEEN)
        return self.servers[name], name, own

    async def _asked(self, call: ToolCall) -> CallToolResult:
        """The result of a call; raises RefusedError if the server refuses the call, and the same errors as `apply`."""
        server, name, tool = self._of(call.tool)
        session = await self._started(name, server)
        try:
            return await session.ask(lambda client: called(client, ToolCall(tool, call.arguments)), server.seconds)
        except ServerError as error:
            raise _broken(error, f"the MCP server{_named(name)} can no longer be used") from None

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
        """The reference's first step, among those not yet completed, that a call completes; None if there is none."""
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
    """The error to raise: EngineError (which is retried) if the server cannot be reached, otherwise ToolError."""
    kind = EngineError if isinstance(error, AwayError) else ToolError
    return kind(f"{what}: {error}")


def same_answer(given: str, wanted: str) -> bool:
    """Whether two answers mean the same thing.

    Punctuation and articles are ignored only if the wanted answer has no digits.

    A planner that plans ahead can only give a whole result as its answer. Therefore, an object or a list of objects
    that contains a single value counts as that value.
    """
    digits = any(char.isdigit() for char in wanted)
    told = (given, *_only_value(given))
    return any(equivalent(one, wanted) or (not digits and exact_match(one, wanted)) for one in told)


def _only_value(text: str) -> tuple[str, ...]:
    """The only value in an object or a list of objects; empty if there is no value or more than one."""
    found = objects(text) if len(text) <= MAX_CHARACTERS else []
    if len(found) != 1 or found[0].why or (found[0].start, found[0].end) != (0, len(text)):
        return ()
    pending, leaves = [found[0].value], list[Json]()
    for value in pending:  # `pending` grows in the loop
        if isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value
        else:
            leaves.append(value)
    return tuple(leaf if isinstance(leaf, str) else to_json(leaf) for leaf in leaves) if len(leaves) == 1 else ()


def _finished(before: McpState, call: ToolCall) -> tuple[McpState, Observation]:
    """The state after the answer; a finish without an answer, or with an unfilled reference, is refused."""
    answer = call.arguments.get(ANSWER)
    text = answer if isinstance(answer, str) else "" if answer is None else to_json(answer)
    if not text.strip():
        return before, failed(f"{FINISH} needs an {ANSWER}: the result of an earlier step, or words.")
    left = references.PATTERN.search(text)
    if left:
        return before, failed(f"{ANSWER}: {left[0]!r:.80} is not a result of an earlier step.")
    return replace(before, answer=text.strip()), Observation({ANSWER: text.strip()})


def _whole(content: Mapping[str, Json]) -> str:
    """The text that replaces a reference to a whole result: the field `result` or, if there is none, all fields."""
    result = content[RESULT] if RESULT in content else dict(content)
    return result if isinstance(result, str) else to_json(result)


# The result of a call of an MCP server's tool, as an observation.


async def called(client: ClientSession, call: ToolCall) -> CallToolResult:
    """The result of a tool call.

    The client's own `call_tool` is not used, because it checks a result against the server's schema, whose regular
    expressions may run forever. This module does not depend on that check.
    """
    from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

    params = CallToolRequestParams(name=call.tool, arguments=dict(call.arguments))
    return await client.send_request(CallToolRequest(params=params), CallToolResult)


def failed(why: str) -> Observation:
    """The observation of a failed call."""
    return Observation({ERROR: why}, failed=True)


def observation(result: CallToolResult, most: int) -> Observation:
    """The fields of a result's structured content or, if it has none, one field `result` with its texts, one per line.

    Structured content that is not an object becomes the field `result`. Images, sounds, and resources without text are
    replaced by a short description. An error becomes a failed call with the first `most` characters of the error's
    text. A result of more than `most` characters, or with too many levels, also becomes a failed call; it shows no part
    of the result, because a part might mislead.
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
    """A block of a result: its text, or a description of it."""
    if block.type == "text":
        return str(block.text)
    resource = getattr(block, "resource", None)
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    about = [getattr(block, "mime_type", None) or getattr(resource, "mime_type", None), getattr(block, "name", None)]
    about += [str(uri) if (uri := getattr(block, "uri", None) or getattr(resource, "uri", None)) else None]
    return f"[{' '.join([block.type, *filter(None, about)])}]"
