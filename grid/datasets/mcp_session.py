"""A session with an MCP server: the official client over our own links (`mcp_links`).

The client's `stdio_client` keeps lines of any length in memory, logs everything that is not a message, and inherits the
standard error. The client's `streamable_http_client` keeps answers of any length, and does not report HTTP errors.
Here, lines and answers have a maximum length, other output is dropped, only the end of the standard error is kept, and
HTTP errors are reported. The client's cancel scopes must be entered and left by the same task, so each session has its
own task, to which requests are handed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from grid.core.errors import ConfigError, one_line
from grid.core.types import RESULT, Parameter, Skipped, ToolSpec, to_json
from grid.core.untrusted import loads_storable
from grid.datasets.grading import children, required
from grid.datasets.grading import listed as values_of
from grid.datasets.mcp_links import MESSAGES, AwayError, Link, RefusedError, Server, ServerError
from grid.datasets.parameters import choices, details, flat, type_text, whole
from grid.text.objects import MAX_DEPTH, depth

if TYPE_CHECKING:
    import anyio
    from mcp import ClientSession
    from mcp.shared.message import SessionMessage


# The tools that an MCP server lists, page by page, with limits.


_PAGES = 100


class Listing(NamedTuple):
    """The server's name and version, and its tools, as in the server's own messages."""

    server: str
    tools: list[dict[str, Any]]


def listed(server: Server) -> Listing:
    """The listing of a server, which is started only for this purpose.

    Raises:
        ConfigError: the client is not installed, or the server can never start.
        RefusedError: the server answers with an error, or its answer is not valid.
        ServerError: the server cannot be reached, ends, hangs or sends too much, such as more tools than `max_tools`.
    """
    with ThreadPoolExecutor(1) as thread:  # the current thread may already have a running loop
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


# A session with an MCP server: the official client over our own links.


T = TypeVar("T")
Work = Callable[["ClientSession"], Awaitable[T]]
EXTRA = "pip install 'agent-grid[mcp]'"
_SHOWN = 300  # characters shown of a server's error message
_CLOSING_SECONDS = 5.0
_STARTS = 2  # number of servers that may start at the same time
_STARTING: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.Semaphore] = WeakKeyDictionary()


class Session:
    """The link to one server and the client that talks to it, from `start` to `close`.

    If the server has ended, has sent too much or has not answered in time, the session can no longer be used. `why` is
    the error that ended the session, and each further request raises this error. `told` has the server's name and
    version, as reported by the server.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.why: ServerError | None = None
        self.told = ""
        self._link: Link | None = None
        self._requests: asyncio.Queue[tuple[Work[Any], asyncio.Future[Any]]] = asyncio.Queue()
        self._owner: asyncio.Task[None] | None = None
        self._heard = 0

    async def start(self) -> None:
        """Start the server and initialize the session.

        Raises ServerError or RefusedError as `ask` does, or ConfigError if the client is not installed or the server
        can never start.
        """
        installed()
        async with _starting():
            self._owner = asyncio.create_task(self._own())
            self.told = await self.ask(_initialize, self.server.start_seconds)

    async def ask(self, work: Work[T], seconds: float) -> T:
        """The result of a request that the client makes.

        Raises:
            RefusedError: the server answers with an error, or its answer is not valid.
            ServerError: the server can no longer be used, or does not answer in time; such a server is ended.
            ConfigError: the server can never start.
        """
        if self._owner is None or self.why is not None:
            raise self.why or ServerError("it was not started")
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
            self._owner.result()  # raises the error of a server that can never start
            raise self._end(ServerError("it ended"))
        raise self._end(ServerError(f"it did not answer within {seconds:g} s, and was ended"))

    async def close(self) -> None:
        """End the server; may be called at any time.

        A server process is killed first; only then does the method wait for the session's task to end.
        """
        self._end(ServerError("it was ended"))
        if self._owner is None:
            return
        self._owner.cancel()
        await asyncio.wait([self._owner], timeout=_CLOSING_SECONDS)
        if self._owner.done() and not self._owner.cancelled():
            self._owner.exception()  # the requests have already raised this exception

    def _end(self, why: ServerError) -> ServerError:
        """End the link. If the session already has a reason for its end, that reason is kept."""
        self.why = self.why or why
        if self._link:
            self._link.end()
        return self.why

    async def _own(self) -> None:
        """The session's own task: open the link and the client, carry out requests one by one, and close both."""
        try:
            self._link = link = await self.server.link()
        except ServerError as error:
            self.why = error
            return
        try:
            async with AsyncExitStack() as stack:
                session = await self._client(stack, link)
                while self.why is None:
                    work, answer = await self._requests.get()
                    await self._answered(work, session, answer)
        finally:
            link.end()
            await link.gone()

    async def _answered(self, work: Work[Any], session: ClientSession, answer: asyncio.Future[Any]) -> None:
        """Carry out one request. If the server's answer is not valid, the request raises an error."""
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
        except RuntimeError as error:  # an unknown protocol version
            problem = RefusedError(one_line(f"its answer is none: {error}", _SHOWN))
        except (RefusedError, ServerError) as error:
            problem = error
        else:
            if not answer.done():
                answer.set_result(found)
            return
        if not answer.done():
            answer.set_exception(self.why or problem)

    async def _client(self, stack: AsyncExitStack, link: Link) -> ClientSession:
        import anyio
        from mcp import ClientSession
        from mcp.shared.message import SessionMessage

        incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
        group = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(group.cancel_scope.cancel)
        group.start_soon(self._hear, link, incoming)
        group.start_soon(self._say, link, outgoing)
        stack.callback(link.end)
        return await stack.enter_async_context(ClientSession(read, write))

    async def _hear(self, link: Link, incoming: Any) -> None:
        """Pass the server's answers and requests to the client.

        Notifications, and lines that do not begin with a brace, are dropped. When the messages end, or for a line that
        begins with a brace but is not a message, the link is ended.
        """
        import anyio

        async with incoming:
            try:
                async for line in link.lines():
                    self._heard += 1
                    if self._heard > MESSAGES:
                        raise ServerError(f"it sent more than {MESSAGES:,} messages but no answer")
                    if (message := _message(line, link)) is not None:
                        await incoming.send(message)
                why = ServerError(await link.ending())
            except AwayError as error:
                why = error
            except ServerError as error:
                why = ServerError(f"{error}; the server was ended")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return  # the client is closed and no longer reads
            self._end(why)

    async def _say(self, link: Link, outgoing: Any) -> None:
        async with outgoing:
            async for message in outgoing:
                await link.say(message)


def installed() -> None:
    """Raise ConfigError if the client is not installed, and keep the client from printing the servers' messages."""
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise ConfigError("dataset", "mcp", f"a package is not installed: {EXTRA}") from None
    for name in ("mcp", "client", "httpx2", "httpcore2"):  # these log untrusted servers' errors, and headers
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _starting() -> anyio.Semaphore:
    """The event loop's semaphore, which limits the number of servers that start at once.

    If too many servers started at once, none of them would be ready within the time limit.
    """
    import anyio

    return _STARTING.setdefault(asyncio.get_running_loop(), anyio.Semaphore(_STARTS))


async def _initialize(session: ClientSession) -> str:
    found = (await session.initialize()).server_info
    return f"{found.name} {found.version}"


def _message(line: bytes, link: Link) -> SessionMessage | None:
    """A line parsed as an answer or a request; None for a notification, and for any other output of a server.

    Raises:
        ServerError: the line begins with a brace but is not a message; it may have been meant as the answer to a
            waiting request.
    """
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCNotification, jsonrpc_message_adapter

    text = line.strip()
    if not text.startswith(b"{"):
        return None
    try:
        message = jsonrpc_message_adapter.validate_python(link.hidden(loads_storable(text)), by_name=False)
    except (ValueError, RecursionError) as error:
        reason = one_line(error, _SHOWN)
        raise ServerError(f"it sent something that is not a JSON-RPC message: {reason}") from None
    return None if isinstance(message, JSONRPCNotification) else SessionMessage(message)


# The tools of an MCP server as planners see them; each argument keeps its whole schema.


_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_SCHEMA = 50_000  # maximum length of a schema, in characters
_DESCRIPTION = 20_000  # maximum length of a description, in characters
_PARTS = 10_000
_VALUES = ("default", "enum", "const", "examples")  # keys whose values are not schemas
_MAPS = ("properties", "patternProperties", "dependentSchemas", "dependentRequired", "dependencies")
"""Keys whose values map names to schemas; so a name in such a value is not a schema's key."""
_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")


class BrokenError(Exception):
    """A phrase, for use in a sentence, that says why a tool cannot be offered."""


def specs(tools: Sequence[dict[str, Any]]) -> tuple[dict[str, ToolSpec], list[Skipped]]:
    """The tools by name, in the server's order, and the tools that are left out.

    Raises:
        ValueError: two tools have the same name, so a call would be ambiguous.
    """
    found, skipped, seen = dict[str, ToolSpec](), list[Skipped](), set[str]()
    for tool in tools:
        name = str(tool["name"])
        if name in seen:
            raise ValueError(f"it lists two tools with the name {name!r:.80}")
        seen.add(name)
        try:
            found[name] = _spec(name, tool)
        except (AttributeError, BrokenError, LookupError, RecursionError, TypeError, ValueError) as error:
            odd = "" if isinstance(error, BrokenError) else f"its schema cannot be read: {type(error).__name__}: "
            skipped.append(Skipped(f"tool {one_line(name, 80)}", one_line(f"a tool is left out: {odd}{error}", 300)))
    return found, skipped


def _spec(name: str, tool: dict[str, Any]) -> ToolSpec:
    if not _NAME.fullmatch(name):
        raise BrokenError("its name has more than 128 characters, or other characters than letters, digits and _./-")
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
    """A schema of type object with its references filled in; raises BrokenError if the tool cannot be offered."""
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    if depth(schema) > MAX_DEPTH or len(to_json(schema)) > _SCHEMA:
        raise BrokenError(f"its schema has more than {_SCHEMA:,} characters or more than {MAX_DEPTH} levels")
    try:
        validator_for(schema).check_schema(schema)
    except (SchemaError, RecursionError) as error:
        why = error.message if isinstance(error, SchemaError) else "nested too deeply"
        raise BrokenError(f"its schema is invalid: {why:.200}") from None
    plain = _Filling(schema).filled(schema)
    if type_text(plain) != "object" or len(to_json(plain)) > _SCHEMA:
        raise BrokenError("its schema does not have the type object, or is too large")
    return plain


class _Filling:
    """Replaces a schema's references by their definitions.

    The number of parts is limited, because definitions can multiply a schema's parts.
    """

    def __init__(self, root: Any) -> None:
        self._defined = {**_object(root, "definitions"), **_object(root, "$defs")}
        self._left = _PARTS

    def filled(self, schema: Any, within: tuple[str, ...] = ()) -> Any:
        """A schema without references. BrokenError is raised for a reference to nothing, and for too many parts."""
        self._left -= 1
        if self._left < 0:
            raise BrokenError(f"its schema has more than {_PARTS:,} parts")
        if isinstance(schema, list):
            return [self.filled(item, within) for item in schema]
        if not isinstance(schema, dict):
            return schema
        rest = {key: value for key, value in schema.items() if key not in ("$ref", "$defs", "definitions")}
        if "$ref" in schema:
            match = _REFERENCE.fullmatch(str(schema["$ref"]))
            if match is None or match[1] not in self._defined:
                raise BrokenError(f"its schema has a reference to nothing: {schema['$ref']!s:.80}")
            if match[1] in within:
                return {"type": "object", "description": "as above", **rest}
            rest = {**_object({"": self.filled(self._defined[match[1]], (*within, match[1]))}, ""), **rest}
        return {key: self._part(key, value, within) for key, value in rest.items()}

    def _part(self, key: str, value: Any, within: tuple[str, ...]) -> Any:
        if key in _VALUES:
            return value
        if key in _MAPS and isinstance(value, dict):
            return {name: self.filled(one, within) for name, one in value.items()}
        return self.filled(value, within)


def _object(schema: Any, key: str) -> dict[str, Any]:
    found = schema.get(key) if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}
