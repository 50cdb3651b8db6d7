"""The planners that run an agent with its own loop, either in this process or as a command."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.engine import ACTOR, SAMPLE, Prompt, TextAnswer
from grid.core.errors import ConfigError, ModelError, one_line
from grid.core.types import Json, Trajectory, Usage
from grid.core.util import STRICT, kept
from grid.episode.acting import Acting
from grid.episode.episode import Episode
from grid.episode.requests import Message
from grid.planners.outside.chat import MODEL
from grid.planners.outside.gateway import gateway
from grid.planners.outside.keeping import Program, Turn
from grid.planners.outside.process import Process, words_of
from grid.planners.outside.session import Result, Session

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_LOOK_SECONDS = 0.25  # between two checks of the budget
_GRACE_SECONDS = 2.0  # in which an agent may end by itself after its last step
_MOST_IN_VARIABLE = 100_000  # bytes: the kernel accepts no more than 128 KiB
_SHOWN = 300  # characters of a failed agent's output
_OPENAI_EXTRA = "pip install 'agent-grid[agents]'"


@dataclass(frozen=True, config=STRICT)
class _Outside:
    """The keys that all agents from outside have.

    Args:
        temperature: the temperature of an answer if the agent's request sets none.
        max_tokens: the maximum number of tokens in one answer.
        max_calls: the maximum number of steps on a path without an outline.
        demonstrations: the number of solved questions shown in the query, if the dataset has solved questions.
    """

    temperature: Annotated[float, Field(ge=0)] = 1.0
    max_tokens: Annotated[int, Field(ge=1)] = 4096
    max_calls: Annotated[int, Field(ge=1, le=10_000)] = 30
    demonstrations: Annotated[int, Field(ge=0, le=1000)] = 10
    needs: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    talks: ClassVar[Literal[True]] = True
    """Requests are the agent's own messages, so the acting model has to be a language model."""

    @kept
    def acting(self) -> Acting:
        """The settings for requests that ask for decisions."""
        return Acting(
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            max_calls=self.max_calls,
            demonstrations=self.demonstrations,
        )


async def _worked(episode: Episode, session: Session, work: asyncio.Future[Any]) -> bool:
    """Wait until the agent ends or its work is over; returns whether the agent ended by itself.

    If the work was ended by an error and not by a step of the agent, the error is raised: BudgetError, an engine's
    error, or any other exception.
    """
    over = asyncio.create_task(session.over.wait())
    try:
        while not (work.done() or over.done()):
            await asyncio.wait({work, over}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            episode._within()  # an agent uses seconds even if it sends no requests
        if session.error is None and not work.done():
            await asyncio.wait({work}, timeout=_GRACE_SECONDS)
    finally:
        over.cancel()
    if session.error is not None:
        raise session.error
    return work.done()


def _alone(episode: Episode) -> None:
    """Record the usage as unknown if the agent sent no request in this episode, as it must have used its own model."""
    if not episode.spent[ACTOR].llm_calls:
        episode.spent[ACTOR] += Usage(uncounted_answers=1)


# Agents in this process.


class Tools:
    """The tools of a case, for an agent in this process: the functions that may be called now, and how to call them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def definitions(self) -> list[dict[str, Any]]:
        """The functions in the form of `tools` in OpenAI's interface; `finish` and `give_up` may be among them."""
        return self._session.tools()

    async def call(self, name: str, arguments: Mapping[str, Json]) -> Result:
        """Call a function as the next step; returns its result. Raises RefusedError if the work is over."""
        return await self._session.call(name, arguments)


@dataclass(frozen=True, config=STRICT)
class Agent(_Outside, ABC):
    """An agent whose loop is the method `run`; the config's `_target_` names the subclass."""

    @abstractmethod
    async def run(self, query: str, tools: Tools, client: AsyncOpenAI) -> str | None:
        """Work on a query, and return the answer.

        Args:
            query: the user's request.
            tools: the case's tools.
            client: sends requests to the setting's acting model; requests must name the model `agent-grid`.
        """

    async def solve(self, episode: Episode) -> Trajectory:
        """Call `run` once; the answer that it returns ends the episode's work.

        Raises an error of `run`, the error that ended the work (such as BudgetError), or ConfigError if the package
        openai is not installed.
        """
        session = Session(episode, self.acting)
        with gateway().open(session):
            work = asyncio.ensure_future(self._run(session))
            try:
                if await _worked(episode, session, work):
                    answer = work.result() if not session.over.is_set() else None
                    await session.finish(answer)
            finally:
                work.cancel()
                await asyncio.wait({work})
                await session.close()
                _alone(episode)
        if session.error is not None:
            raise session.error
        return session.trajectory()

    async def _run(self, session: Session) -> str | None:
        async with _client(session) as client:
            return await self.run(session.query, Tools(session), client)


def _client(session: Session) -> AsyncOpenAI:
    """An OpenAI client whose requests are answered in this process.

    Raises ConfigError if the package is not installed.
    """
    try:
        from httpx2 import ASGITransport, AsyncClient
        from openai import AsyncOpenAI
    except ImportError:
        raise ConfigError(
            "planner", "an agent in this process", f"the package openai must be installed: {_OPENAI_EXTRA}"
        ) from None
    http = AsyncClient(transport=ASGITransport(gateway().app), trust_env=False)
    return AsyncOpenAI(base_url="http://agent-grid/v1", api_key=session.token, http_client=http, max_retries=0)


# Agents that are commands.


@dataclass(frozen=True, config=STRICT)
class Command(_Outside):
    """An agent that is a program, started anew for each turn of an episode or kept running (`reuse`).

    Args:
        command: the command, written as for a shell, but run without a shell. File names in it are relative to the
            folder in which the sweep starts.
        environment: the names of the environment variables that the program receives in addition to PATH.
        version: the agent's version. Change the version whenever the agent changes, since the agent's code is not part
            of the cells' ids.
        reuse: whether one process works on several turns, one after another, and receives each turn as a line.
    """

    command: Annotated[str, Field(min_length=1)] = ""
    environment: list[str] = Field(default_factory=list, max_length=200)
    version: str | None = None
    reuse: bool = False

    def __post_init__(self) -> None:
        words_of(self.command)

    async def solve(self, episode: Episode) -> Trajectory:
        """One run of the program; the work ends when the program exits or has taken its last step.

        An error that ends the work, such as BudgetError, is raised.

        Raises:
            ConfigError: the extra `mcp` is not installed, or the program cannot be found.
            EngineError: the program cannot be started.
            ModelError: the program fails before its work is over.
        """
        session = Session(episode, self.acting)
        with gateway().open(session):
            process = await self._begun(session)
            work = asyncio.ensure_future(process.ended())
            try:
                await self._ended(episode, session, process, work)
            finally:
                process.kill()
                await session.close()
                await process.gone()
                work.cancel()
                _alone(episode)
                episode.messages += _printed(process.printed())
        if session.error is not None:
            raise session.error
        return session.trajectory()

    async def _begun(self, session: Session) -> Process | Turn:
        """Start the program, or hand the turn to a kept process; raises EngineError or ConfigError as `Process.start`.

        A kept process is started later, so its errors are raised by `Turn.ended`. Raises ConfigError as
        `Gateway.address`.
        """
        address = gateway().address()
        told = {
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_KEY": session.token,
            "OPENAI_MODEL": MODEL,
            "AGENT_GRID_MCP_URL": f"{address}/mcp",
            "AGENT_GRID_TOKEN": session.token,
        }
        if len(session.query.encode()) <= _MOST_IN_VARIABLE:  # the server always has it, as a prompt and a resource
            told["AGENT_GRID_QUERY"] = session.query.replace("\0", "")
        if not self.reuse:
            return await Process.start(self.command, self.environment, told, session.token)
        program = Program(self.command, tuple(self.environment), self.version)
        return Turn(program, told, session.token, lambda: session.reached)

    async def _ended(
        self, episode: Episode, session: Session, process: Process | Turn, work: asyncio.Future[int]
    ) -> None:
        """Wait for the end of the work; raises ModelError if the agent fails before its work is over."""
        ended = await _worked(episode, session, work)
        if session.over.is_set() or not ended:
            return
        if code := work.result():
            how = f"by signal {-code}" if code < 0 else f"with status {code}"
            raise ModelError(f"the agent ended {how}; it printed: {one_line(process.printed()[-_SHOWN:]) or 'nothing'}")
        await session.finish(None)


def _printed(text: str) -> list[Message]:
    """An agent's output as a message in the transcript, although no model wrote it; empty if there is no output."""
    return [Message(ACTOR, "printed", Prompt((), TextAnswer()), 0, answers=(text,))] if text else []
