"""A session with an MCP server: the official client over pipes of our own.

The client's `stdio_client` keeps a line of any length in memory, logs whatever is no message, and inherits the standard
error. Here all three have bounds. The client's cancel scopes have to be entered and left by one task: a session has a
task that owns it, and requests are handed to that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from grid.core.errors import ConfigError, one_line
from grid.core.types import RESULT, Parameter, Skipped, ToolSpec, to_json
from grid.core.untrusted import loads_storable
from grid.datasets.grading import children, required
from grid.datasets.grading import listed as values_of
from grid.datasets.parameters import choices, details, flat, type_text, whole
from grid.text.objects import MAX_DEPTH, depth

if TYPE_CHECKING:
    import anyio
    from mcp import ClientSession
    from mcp.shared.message import SessionMessage


# The tools that an MCP server lists, page by page, with bounds.


_PAGES = 100


class Listing(NamedTuple):
    """A server's name and version as it says, and its tools as it tells them."""

    server: str
    tools: list[dict[str, Any]]


def listed(server: Server) -> Listing:
    """What a server lists that is started for this alone.

    Raises:
        ConfigError: the client is not installed, or the server can never start.
        RefusedError: a listing that is none, or more tools than `max_tools`.
        ServerError: the server ends, hangs or sends too much.
    """
    with ThreadPoolExecutor(1) as thread:  # a loop may run in this one
        return thread.submit(lambda: asyncio.run(_listed(server))).result()


async def _listed(server: Server) -> Listing:
    session = Session(server)
    try:
        await session.start()
        tools = await session.ask(lambda client: _every_tool(client, server.max_tools), server.start_seconds)
        return Listing(session.told, tools)
    finally:
        await session.close()


async def _every_tool(client: ClientSession, most: int) -> list[dict[str, Any]]:
    """All pages of a listing; raises ServerError for too many pages or tools."""
    from mcp_types import PaginatedRequestParams

    tools, cursor = list[dict[str, Any]](), None
    for _ in range(_PAGES):
        page = await client.list_tools(params=PaginatedRequestParams(cursor=cursor))
        tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
        if len(tools) > most:
            raise ServerError(f"it lists more than {most:,} tools (dataset.max_tools)")
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise ServerError(f"its list of tools has more than {_PAGES} pages")


# A session with an MCP server: the official client over pipes of our own.


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


# One process of an MCP server: in a session and a folder of its own, read with bounds, ended with all its children.


_KEPT = 4_000  # bytes of what it writes to its standard error
_PROCESS_SHOWN = 300  # characters of these
_SECRET = 4  # characters from which on a variable's value is hidden in what is shown
_REAP_SECONDS = 5.0
_LOOK_SECONDS = 0.1


class ServerProcess:
    """A process that was started; `end` kills it, `gone` waits until nothing of it is left."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, secrets: tuple[str, ...]) -> None:
        self._process, self._folder, self._secrets = process, folder, secrets
        self._errors = b""
        self._ended = False
        self._listening = asyncio.create_task(self._listen())
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, server: Server) -> ServerProcess:
        """Start a server in a copy of its folder; raises ServerError, or ConfigError for what can never start."""
        program, variables = server.program(), server.environment()
        folder = Path(tempfile.mkdtemp(prefix="agent-grid-mcp-"))
        try:
            if server.folder is not None:
                shutil.copytree(Path(server.folder).expanduser(), folder, symlinks=True, dirs_exist_ok=True)
            process = await asyncio.create_subprocess_exec(
                *_dying_with_parent(),
                program,
                *server.args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=variables,
                cwd=folder,
                limit=MESSAGE_BYTES,
                start_new_session=True,
            )
        except (OSError, ValueError, shutil.Error) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ServerError(f"it cannot be started: {one_line(error, _PROCESS_SHOWN)}") from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        hidden = tuple(variables[name] for name in server.env if len(variables[name]) >= _SECRET)
        return cls(process, folder, hidden)

    async def lines(self) -> AsyncIterator[bytes]:
        """What it writes, line by line, until it has ended; raises ServerError for a line without an end."""
        assert self._process.stdout is not None  # noqa: S101 - it was started with pipes
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                raise ServerError(f"it sent a message of more than {MESSAGE_BYTES:,} bytes") from None
            except OSError:
                return
            if not line:
                return
            yield line

    async def write(self, line: bytes) -> None:
        """Hand it a line; raises OSError where it reads no more."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(line)
        await self._process.stdin.drain()

    def told(self) -> str:
        """The end of what it wrote to its standard error, on one line, without the values of passed variables."""
        text = self._errors.decode(errors="replace")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        flat = one_line(text, _KEPT)
        return flat if len(flat) <= _PROCESS_SHOWN else f"...{flat[-_PROCESS_SHOWN:]}"

    async def status(self) -> str:
        """How it ended of itself, as an unfinished sentence."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):  # its output is closed, so that it is about to end
                await asyncio.shield(self._listening)
                code = await self._process.wait()
                return f"it was ended by signal {-code}" if code < 0 else f"it ended with status {code}"
        return "it closed its output"

    def end(self) -> None:
        """Kill it and all of its process group; at once, so that no cancellation comes between."""
        if not self._ended:
            self._ended = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """End it, and see to it that neither process nor folder is left."""
        self.end()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_REAP_SECONDS):
                    await self._process.wait()
        finally:
            self._listening.cancel()
            self._watching.cancel()
            self._process._transport.close()  # type: ignore[attr-defined]  # a child that left the group may hold pipes
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _listen(self) -> None:
        assert self._process.stderr is not None  # noqa: S101
        while part := await self._process.stderr.read(_KEPT):
            self._errors = (self._errors + part)[-_KEPT:]

    async def _watch(self) -> None:
        """End what it leaves behind, which may hold its pipes: nobody would hear that it ended."""
        while self._process.returncode is None:
            await asyncio.sleep(_LOOK_SECONDS)
        self.end()


def _dying_with_parent() -> tuple[str, ...]:
    """What a command begins with so that the kernel kills it with the thread that starts it, where Linux has it.

    A worker that is killed could end nothing itself, and a server that hangs would not see its input close.
    """
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()


# How an MCP server is started, and what it may take.


MESSAGE_BYTES = 4 * 2**20
"""Of one message of a server's."""
MESSAGES = 10_000
"""That a server may send before it answers one request; of its notifications nothing is kept."""


class ServerError(Exception):
    """Why a server is of no use any more, as an unfinished sentence."""


class RefusedError(Exception):
    """Why a server did not carry out a request, as an unfinished sentence; it goes on."""


@dataclass(frozen=True)
class Server:
    """A program that speaks MCP over its standard input and output.

    Attributes:
        command: the program, by its path or its name on PATH.
        args: what it is started with.
        env: the names of the environment variables that it is given besides PATH.
        folder: a folder of which each process has a copy of its own to work in; None: an empty one.
        start_seconds: until it has been started, and until all its tools are listed.
        seconds: for one call.
        result_characters: of one call's result.
        max_tools: that it may list.
    """

    command: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    folder: str | None = None
    start_seconds: float = 30.0
    seconds: float = 30.0
    result_characters: int = 20_000
    max_tools: int = 200

    def program(self) -> str:
        """The program's path; raises ConfigError where there is none that can be run."""
        found = shutil.which(os.path.expanduser(self.command))
        if found is None:
            raise ConfigError("dataset.command", self.command, "a program that can be run, by its path or on PATH")
        return os.path.abspath(found)

    def environment(self) -> dict[str, str]:
        """PATH and the variables that are passed on; raises ConfigError where one is not set."""
        missing = [name for name in self.env if name not in os.environ]
        if missing:
            raise ConfigError("dataset.env", missing[0], "the names of variables that are set")
        return {name: os.environ[name] for name in ("PATH", *self.env) if name in os.environ}


# The tools of an MCP server as planners see them; each argument keeps its whole schema.


_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_SCHEMA = 50_000  # characters of a schema
_DESCRIPTION = 20_000  # characters of a description
_PARTS = 10_000
_VALUES = ("default", "enum", "const", "examples")  # what stands in them is no schema
_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")


class BrokenError(Exception):
    """Why a tool cannot be offered, as an unfinished sentence."""


def specs(tools: Sequence[dict[str, Any]]) -> tuple[dict[str, ToolSpec], list[Skipped]]:
    """The tools by name, in the server's order, and those that are left out.

    Raises:
        ValueError: two tools have one name, so that nobody could tell which is called.
    """
    found, skipped, seen = dict[str, ToolSpec](), list[Skipped](), set[str]()
    for tool in tools:
        name = str(tool["name"])
        if name in seen:
            raise ValueError(f"it lists two tools of the name {name!r:.80}")
        seen.add(name)
        try:
            found[name] = _spec(name, tool)
        except BrokenError as error:
            skipped.append(Skipped(f"tool {one_line(name, 80)}", one_line(f"a tool is left out: {error}", 300)))
    return found, skipped


def _spec(name: str, tool: dict[str, Any]) -> ToolSpec:
    if not _NAME.fullmatch(name):
        raise BrokenError("its name has other characters than letters, digits and _./-, or more than 128")
    description = " ".join(str(tool.get("description") or tool.get("title") or "").split())
    if len(description) > _DESCRIPTION:
        raise BrokenError(f"its description has more than {_DESCRIPTION:,} characters")
    schema = _checked(tool["inputSchema"])
    if sets := choices(schema):
        described = f"{description.rstrip('.')}. " if description else ""
        description = f"{described}Needs {', or '.join(' and '.join(one) for one in sets)}."
    root = flat(schema)
    must = required({"arguments": root}, "arguments")
    parameters = tuple(
        Parameter(key, type_text(one), details(one), key in must, values_of(flat(one)), whole(one))
        for key, one in children(root).items()
    )
    output = tool.get("outputSchema")
    returns = tuple(children(flat(_checked(output)))) if isinstance(output, dict) else ()
    return ToolSpec(name, description, parameters, returns or (RESULT,))


def _checked(schema: Any) -> Any:
    """A schema of type object with its references filled in; raises BrokenError."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    if depth(schema) > MAX_DEPTH or len(to_json(schema)) > _SCHEMA:
        raise BrokenError(f"a schema of more than {_SCHEMA:,} characters, or of more than {MAX_DEPTH} levels")
    try:
        validator_for(schema).check_schema(schema)
    except (SchemaError, RecursionError) as error:
        why = error.message if isinstance(error, SchemaError) else "nested too deeply"
        raise BrokenError(f"a schema that is none: {why:.200}") from None
    plain = _Filling(schema).filled(schema)
    if type_text(plain) != "object" or len(to_json(plain)) > _SCHEMA:
        raise BrokenError("a schema of another type than object, or too large a one")
    return plain


class _Filling:
    """Puts what a schema refers to in its place; so many parts at most, as definitions may double one another."""

    def __init__(self, root: Any) -> None:
        self._defined = {**_object(root, "definitions"), **_object(root, "$defs")}
        self._left = _PARTS

    def filled(self, schema: Any, within: tuple[str, ...] = ()) -> Any:
        """A schema without references; raises BrokenError."""
        self._left -= 1
        if self._left < 0:
            raise BrokenError(f"a schema of more than {_PARTS:,} parts")
        if isinstance(schema, list):
            return [self.filled(item, within) for item in schema]
        if not isinstance(schema, dict):
            return schema
        rest = {key: value for key, value in schema.items() if key not in ("$ref", "$defs", "definitions")}
        if "$ref" in schema:
            match = _REFERENCE.fullmatch(str(schema["$ref"]))
            if match is None or match[1] not in self._defined:
                raise BrokenError(f"a schema with a reference to nothing: {schema['$ref']!s:.80}")
            if match[1] in within:
                return {"type": "object", "description": "as above", **rest}
            rest = {**_object({"": self.filled(self._defined[match[1]], (*within, match[1]))}, ""), **rest}
        return {key: self._part(key, value, within) for key, value in rest.items()}

    def _part(self, key: str, value: Any, within: tuple[str, ...]) -> Any:
        if key in _VALUES:
            return value
        if key == "properties":
            return {name: self.filled(one, within) for name, one in value.items()}
        return self.filled(value, within)


def _object(schema: Any, key: str) -> dict[str, Any]:
    found = schema.get(key) if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}
