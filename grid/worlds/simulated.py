"""Tools that cannot be called directly (records, a model or inventions answer for them), and users to talk to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from grid.core.types import Json, Observation, ToolCall, ToolSpec, to_json
from grid.core.world import State, World, own_state


class Response(NamedTuple):
    """The answer of a tool's server: an error (empty if there is none), or a response."""

    error: str
    response: Json


class Documentation(NamedTuple):
    """The lines that a player of a tool is shown: lines of its documentation, and of recorded calls."""

    lines: Sequence[str]
    examples: Sequence[str] = ()


class Simulator(Protocol):
    """A player of tools: the role `simulator`."""

    async def respond(self, call: ToolCall, about: Documentation) -> Response | None:
        """A call's response, the same whoever asks; None if no answer can be read, after all retries."""
        ...

    async def read(self, question: str, paragraphs: Sequence[str] | None) -> Response | None:
        """The answer to a question, from paragraphs found for it or (None) by reasoning; None as for `respond`."""
        ...


class Played(World, Protocol):
    """The world of a dataset that provides SIMULATED."""

    def played_by(self, simulator: Simulator) -> World:
        """The same world, with a model that answers calls for which there is no record."""
        ...


@runtime_checkable
class Referenced(World, Protocol):
    """A world whose tools can answer from the reference, for engines that are told the reference."""

    def by_reference(self) -> World:
        """The same world. Its tools answer the reference's own calls as recorded there, and fail for all others.

        A search still has to find the paragraph on which the reference's answer rests.
        """
        ...


class Server(Protocol):
    """A dataset's knowledge of its tools' responses."""

    def recorded(self, call: ToolCall) -> Response | None:
        """The response recorded for a call; None if there is none."""
        ...

    def made_up(self, call: ToolCall) -> Response:
        """An invented response for when there is no better one, the same for equal calls."""
        ...

    def about(self, tool: str) -> Documentation:
        """What is shown to a model that plays the tool."""
        ...


@dataclass(frozen=True)
class ServedWorld:
    """Tools without state, answered by a server: from recorded calls first, then by the simulator, else invented.

    The state is the set of tools that were called with success. A case is resolved when all tools of `resolution` were,
    with any arguments. A call of a tool that is not in `tools`, or with arguments that the tool does not have, fails as
    it would for a Python function. At most `most` characters of a response are shown.
    """

    tools: Mapping[str, ToolSpec]
    resolution: frozenset[str]
    server: Server
    most: int
    simulator: Simulator | None = None
    branches: ClassVar[bool] = True

    def played_by(self, simulator: Simulator) -> ServedWorld:
        """The same tools, played by a model."""
        return replace(self, simulator=simulator)

    def start(self) -> frozenset[str]:
        """No tool called."""
        return frozenset()

    async def apply(self, state: State, call: ToolCall) -> tuple[frozenset[str], Observation]:
        """The state after the call, and the tool's answer."""
        called = own_state(state, frozenset)
        error = self._misfit(call)
        response = Response(error, None) if error else await self._response(call)
        observation = observed(response, self.most)
        return called if observation.failed else called | {call.tool}, observation

    def resolved(self, state: State) -> bool:
        """Whether all tools of the resolution were called with success."""
        return self.resolution <= own_state(state, frozenset)

    def answer(self, state: State) -> str | None:
        """None: the planner's `finish` tells the user the answer."""
        return None

    def _misfit(self, call: ToolCall) -> str:
        """Why a call does not fit its tool; empty if it does."""
        spec = self.tools.get(call.tool)
        if spec is None:
            return f"No such function name: {call.tool:.80}"
        declared = {parameter.name: parameter.required for parameter in spec.parameters}
        other = [name for name in call.arguments if name not in declared]
        if other:
            return f"{call.tool}() got an unexpected keyword argument {other[0]!r:.80}"
        missing = [name for name, required in declared.items() if required and name not in call.arguments]
        if missing:
            many = f"{len(missing)} required positional argument{'s' if len(missing) > 1 else ''}"
            return f"{call.tool}() missing {many}: {' and '.join(map(repr, missing))}"
        return ""

    async def _response(self, call: ToolCall) -> Response:
        found = self.server.recorded(call)
        if found is not None:
            return found
        if self.simulator is None:
            return self.server.made_up(call)
        played = await self.simulator.respond(call, self.server.about(call.tool))
        return played or Response("The server's answer could not be read.", None)


def observed(response: Response, most: int) -> Observation:
    """A response as an observation of at most `most` characters: an object's own fields, other values as `response`."""
    if response.error:
        return Observation({"error": _cut(response.error, most)}, failed=True)
    value = response.response
    if isinstance(value, dict) and value and len(to_json(value)) <= most:
        return Observation(value)
    text = value if isinstance(value, str) else to_json(value)
    return Observation({"response": value if len(text) <= most else _cut(text, most)})


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


# Worlds with somebody to talk to.


class Said(NamedTuple):
    """One message of a conversation, the user's or the agent's."""

    by_user: bool
    text: str


class User(Protocol):
    """A player of the user: the role `user`."""

    async def reply(self, scenario: Sequence[str], said: Sequence[Said]) -> str | None:
        """The user's next message after what was said; None if no answer can be read, after all retries."""
        ...


class Talking(World, Protocol):
    """The world of a dataset that provides TALKS. The user's first message becomes the case's query."""

    @property
    def scenario(self) -> Sequence[str]:
        """What the player of the user is told, in lines: guidelines, persona, instructions."""
        ...

    def opening(self) -> Sequence[Said]:
        """What is said before the user's first message; empty if the user speaks first."""
        ...

    def talked_to(self, user: User, first: str) -> World:
        """The same world with its user, whose first message is `first`."""
        ...
