"""A session with an MCP server: the official client over pipes of our own.

The client's `stdio_client` keeps a line of any length in memory, logs whatever is no message, and inherits the standard
error. Here all three have bounds. The client's cancel scopes have to be entered and left by one task: a session has a
task that owns it, and requests are handed to that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from grid.core.errors import ConfigError, one_line
from grid.core.untrusted import loads_storable
from grid.worlds.mcp.process import ServerProcess
from grid.worlds.mcp.server import MESSAGES, RefusedError, Server, ServerError

if TYPE_CHECKING:
    import anyio
    from mcp import ClientSession
    from mcp.shared.message import SessionMessage

T = TypeVar("T")
Work = Callable[["ClientSession"], Awaitable[T]]
EXTRA = "pip install 'agent-grid[mcp]'"
_SHOWN = 300  # characters of what a server says of an error
_CLOSING_SECONDS = 5.0
_STARTS = 2  # servers that start at once
_STARTING: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.Semaphore] = WeakKeyDictionary()


class Session:
    """One server's process and the client that talks to it, from `started` to `close`.

    Once the server has ended, sent too much, or not answered in time, it is of no use any more: `why` says it, and each
    further request raises it. `told` is the server's name and version, as it says.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.why: str | None = None
        self.told = ""
        self._process: ServerProcess | None = None
        self._requests: asyncio.Queue[tuple[Work[Any], asyncio.Future[Any]]] = asyncio.Queue()
        self._owner: asyncio.Task[None] | None = None
        self._heard = 0

    async def start(self) -> None:
        """Start the server and shake hands; raises ServerError, and ConfigError for what can never start."""
        installed()
        async with _starting():
            self._owner = asyncio.create_task(self._own())
            self.told = await self.ask(_initialize, self.server.start_seconds)

    async def ask(self, work: Work[T], seconds: float) -> T:
        """What a request to the client comes to.

        Raises:
            RefusedError: the server answers with an error, or with what is no answer.
            ServerError: it is of no use any more, or does not answer in time.
        """
        if self._owner is None or self.why is not None:
            raise ServerError(self.why or "it was not started")
        self._heard = 0
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._requests.put_nowait((work, answer))
        try:
            either: list[asyncio.Future[Any]] = [answer, self._owner]
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
        finally:
            answer.cancel()
        if self._owner.done():
            self._owner.result()  # raises what can never start
            raise ServerError(self._end("it ended"))
        raise ServerError(self._end(f"it did not answer within {seconds:g} s, and was ended"))

    async def close(self) -> None:
        """End the server, whatever it does; the process is killed before anything is waited for."""
        self._end("it was ended")
        if self._owner is None:
            return
        self._owner.cancel()
        await asyncio.wait([self._owner], timeout=_CLOSING_SECONDS)
        if self._owner.done() and not self._owner.cancelled():
            self._owner.exception()  # whoever asked was told

    def _end(self, why: str) -> str:
        """Kill the server; the first reason is the one that counts."""
        self.why = self.why or why
        if self._process:
            self._process.end()
        return self.why

    async def _own(self) -> None:
        """Own the process and the client, and carry out requests one after another."""
        try:
            self._process = process = await ServerProcess.start(self.server)
        except ServerError as error:
            self.why = str(error)
            return
        try:
            async with AsyncExitStack() as stack:
                session = await self._client(stack, process)
                while self.why is None:
                    work, answer = await self._requests.get()
                    await self._answered(work, session, answer)
        finally:
            process.end()
            await process.gone()

    async def _answered(self, work: Work[Any], session: ClientSession, answer: asyncio.Future[Any]) -> None:
        """Carry out one request; what is wrong with the server's answer is the request's error."""
        from mcp import MCPError
        from pydantic import ValidationError

        try:
            found = await work(session)
        except MCPError as error:
            problem: Exception = RefusedError(one_line(error.message, _SHOWN))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            problem = RefusedError(one_line(f"its answer is none: {place}: {first['msg']}", _SHOWN))
        except RuntimeError as error:  # a result that is not as its schema says, an unknown version of the protocol
            problem = RefusedError(one_line(f"its answer is none: {error}", _SHOWN))
        except (RefusedError, ServerError) as error:
            problem = error
        else:
            if not answer.done():
                answer.set_result(found)
            return
        if not answer.done():
            answer.set_exception(ServerError(self.why) if self.why else problem)

    async def _client(self, stack: AsyncExitStack, process: ServerProcess) -> ClientSession:
        import anyio
        from mcp import ClientSession
        from mcp.shared.message import SessionMessage

        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        group = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(group.cancel_scope.cancel)
        group.start_soon(self._hear, process, incoming)
        group.start_soon(self._say, process, outgoing)
        stack.callback(process.end)
        return await stack.enter_async_context(ClientSession(read, write))

    async def _hear(self, process: ServerProcess, incoming: Any) -> None:
        """Hand the server's answers and requests on. Notifications are dropped, and what is no message at all."""
        import anyio

        async with incoming:
            try:
                async for line in process.lines():
                    self._heard += 1
                    if self._heard > MESSAGES:
                        raise ServerError(f"it sent more than {MESSAGES:,} messages and no answer")
                    if (message := _message(line)) is not None:
                        await incoming.send(message)
                why = f"{await process.status()}; it wrote: {process.told() or 'nothing'}"
            except ServerError as error:
                why = f"{error}, and was ended"
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the client is closed: nobody hears any more
            self._end(why)

    async def _say(self, process: ServerProcess, outgoing: Any) -> None:
        async with outgoing:
            async for message in outgoing:
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                with suppress(OSError):  # it ended: what hears it says so
                    await process.write(line.encode() + b"\n")


def installed() -> None:
    """Raise ConfigError where the client is not installed; keep it from printing what servers send."""
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise ConfigError("dataset", "mcp", f"installed: {EXTRA}") from None
    for name in ("mcp", "client"):  # it logs with tracebacks what an untrusted server gets wrong
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _starting() -> anyio.Semaphore:
    """Of this loop: a start is work, and many at once would take one another's time until none is done in its own."""
    import anyio

    return _STARTING.setdefault(asyncio.get_running_loop(), anyio.Semaphore(_STARTS))


async def _initialize(session: ClientSession) -> str:
    found = (await session.initialize()).server_info
    return f"{found.name} {found.version}"


def _message(line: bytes) -> SessionMessage | None:
    """A line as an answer or a request; None for a notification, and for what a server prints besides.

    Raises:
        ServerError: an object that is no message: the answer that somebody waits for, perhaps.
    """
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCNotification, jsonrpc_message_adapter

    text = line.strip()
    if not text.startswith(b"{"):
        return None
    try:
        message = jsonrpc_message_adapter.validate_python(loads_storable(text), by_name=False)
    except (ValueError, RecursionError) as error:
        reason = one_line(error, _SHOWN)
        raise ServerError(f"it sent what is no message of JSON-RPC: {reason}") from None
    return None if isinstance(message, JSONRPCNotification) else SessionMessage(message)
