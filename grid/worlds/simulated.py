"""Tools that cannot really be called (their answers are recorded, invented or from a model), and users to talk to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

from grid.core.types import Json, Observation, ToolCall, ToolSpec, to_json
from grid.core.world import State, World, own_state


class Response(NamedTuple):
    """The answer of a tool's server: an error (an empty text if there was none) and a response."""

    error: str
    response: Json


class Documentation(NamedTuple):
    """Texts shown to a model that plays a tool: the lines of the documentation, and examples of recorded calls."""

    lines: Sequence[str]
    examples: Sequence[str] = ()


class Simulator(Protocol):
    """A model that plays the tools, in the role `simulator`."""

    async def respond(self, call: ToolCall, about: Documentation) -> Response | None:
        """A call's response, which is the same for all callers.

        None if no answer can be read even after all retries, or if the prompt does not fit the model's context.
        """
        ...

    async def read(self, question: str, paragraphs: Sequence[str] | None) -> Response | None:
        """The answer to a question, from the paragraphs or (if these are None) by reasoning.

        None if no answer can be read even after all retries, or if the prompt does not fit the model's context.
        """
        ...


class Played(World, Protocol):
    """The world of a dataset whose `provides` contains SIMULATED."""

    def played_by(self, simulator: Simulator) -> World:
        """The same world, with a model that answers calls for which there is no record."""
        ...


@runtime_checkable
class Referenced(World, Protocol):
    """A world whose tools can answer from the reference, for engines that are given the reference."""

    def by_reference(self) -> World:
        """The same world, but its tools answer only the reference's own calls, as recorded; all other calls fail.

        A search still has to find the paragraph that contains the reference's answer.
        """
        ...


class Server(Protocol):
    """The responses that a dataset has for calls of its tools."""

    def recorded(self, call: ToolCall) -> Response | None:
        """The response recorded for a call; None if no response is recorded."""
        ...

    def made_up(self, call: ToolCall) -> Response:
        """An invented response, for calls that have no better response. Equal calls get equal responses."""
        ...

    def about(self, tool: str) -> Documentation:
        """The documentation that is shown to a model that plays the tool."""
        ...


@dataclass(frozen=True)
class ServedWorld:
    """Tools without state. If no response is recorded for a call, the simulator answers or the server invents one.

    The state is the set of tools that were called successfully. A case is resolved when the state contains all tools in
    `resolution`; the arguments do not matter. A call fails, with a Python-style error message, if its tool is not in
    `tools` or its arguments do not fit the tool. A call also fails if its response has an error. At most `most`
    characters of a response are shown.
    """

    tools: Mapping[str, ToolSpec]
    resolution: frozenset[str]
    server: Server
    most: int
    simulator: Simulator | None = None
    branches: ClassVar[bool] = True

    def played_by(self, simulator: Simulator) -> ServedWorld:
        """The same tools, with a model that plays them."""
        return replace(self, simulator=simulator)

    def start(self) -> frozenset[str]:
        """The empty set, since no tool has been called."""
        return frozenset()

    async def apply(self, state: State, call: ToolCall) -> tuple[frozenset[str], Observation]:
        """The state after the call, and the tool's answer."""
        called = own_state(state, frozenset)
        error = self._misfit(call)
        response = Response(error, None) if error else await self._response(call)
        observation = observed(response, self.most)
        return called if observation.failed else called | {call.tool}, observation

    def resolved(self, state: State) -> bool:
        """Whether all tools in the resolution were called successfully."""
        return self.resolution <= own_state(state, frozenset)

    def answer(self, state: State) -> str | None:
        """None, because the world stores no answer; the planner gives the answer to the user with `finish`."""
        return None

    def _misfit(self, call: ToolCall) -> str:
        """The reason why a call does not fit its tool; empty if the call fits."""
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
    """A response as an observation that shows at most `most` characters of it; a text that is cut ends in `...`.

    An object's fields become the observation's fields; any other value is in the field `response`, and so is an object
    that is empty or too long (as cut JSON text). An error is in the field `error`, and the observation is then failed.
    """
    if response.error:
        return Observation({"error": _cut(response.error, most)}, failed=True)
    value = response.response
    if isinstance(value, dict) and value and len(to_json(value)) <= most:
        return Observation(value)
    text = value if isinstance(value, str) else to_json(value)
    return Observation({"response": value if len(text) <= most else _cut(text, most)})


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


# Worlds with a user to talk to.


class Said(NamedTuple):
    """One message of a conversation, from the user or the agent."""

    by_user: bool
    text: str


class User(Protocol):
    """A model that plays the user, in the role `user`."""

    async def reply(self, scenario: Sequence[str], said: Sequence[Said]) -> str | None:
        """The user's next message after those in `said`.

        None if no answer can be read even after all retries, or if the conversation does not fit the model's context.

        Raises:
            EngineError: the model does not answer.
        """
        ...


class Talking(World, Protocol):
    """The world of a dataset whose `provides` contains TALKS. The user's first message becomes the case's query."""

    @property
    def scenario(self) -> Sequence[str]:
        """The instructions for the model that plays the user, as lines: guidelines, persona, tasks."""
        ...

    def opening(self) -> Sequence[Said]:
        """The messages before the user's first message; empty if the user speaks first."""
        ...

    def talked_to(self, user: User, first: str) -> World:
        """The same world with a user, whose first message is `first`."""
        ...
