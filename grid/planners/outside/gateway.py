"""The server for agents from outside: each event loop has one on the loopback interface, and each turn has a token.

`/v1/chat/completions`, `/v1/responses` and `/v1/models` follow OpenAI's interface; `/mcp` is a Model Context Protocol
server for the case's tools. An agent in this process uses the same application without a socket. A request without the
token of a running turn gets only the status 401. This module stands apart from `agent` because it contains
everything that an agent can reach from outside.
"""

from __future__ import annotations

import asyncio
import contextvars
import hmac
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from grid.core.errors import ConfigError
from grid.planners.outside import chat, responses
from grid.planners.outside.chat import MODEL, Asked, RefusedError
from grid.planners.outside.session import Session

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

HOST = "127.0.0.1"
MOST_BYTES = 4 * 2**20
"""Maximum size of one request's body, in bytes."""
_BODY_SECONDS = 30.0
_CLOSING_SECONDS = 1.0
_SESSION = "agent_grid.session"
_MCP_EXTRA = "pip install 'agent-grid[mcp]'"
_GATEWAYS: WeakKeyDictionary[asyncio.AbstractEventLoop, Gateway] = WeakKeyDictionary()


def gateway() -> Gateway:
    """The gateway of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _GATEWAYS:
        _GATEWAYS[loop] = Gateway()
    return _GATEWAYS[loop]


class Gateway:
    """The active sessions, and the application that answers their requests (it listens once `address` is called)."""

    def __init__(self) -> None:
        self.app = Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/responses", self._respond, methods=["POST"]),
                Route("/v1/models", self._models, methods=["GET"]),
                Route("/mcp", cast(Any, _Mcp(self))),
            ]
        )
        self._sessions: set[Session] = set()
        self._listening: asyncio.Task[None] | None = None
        self._port = 0
        self.manager: StreamableHTTPSessionManager | None = None

    @contextmanager
    def open(self, session: Session) -> Iterator[None]:
        """A context in which the session's token is valid."""
        self._sessions.add(session)
        try:
            yield
        finally:
            self._sessions.discard(session)

    def address(self) -> str:
        """The server's URL, without a path; the server listens there until the event loop ends.

        Raises ConfigError if the extra `mcp` is not installed.
        """
        if self._listening is None or self._listening.done():
            listening = socket.create_server((HOST, 0))
            self._port = listening.getsockname()[1]
            self.manager = _manager()
            # The server runs outside the context of any case, because the time that the server itself uses does not
            # count for any case.
            self._listening = contextvars.Context().run(asyncio.create_task, _listen(self, self.manager, listening))
        return f"http://{HOST}:{self._port}"

    def session_of(self, authorization: str) -> Session:
        """The session of a token; raises RefusedError if there is none.

        All tokens are compared, so that the response time reveals nothing.
        """
        given = authorization.removeprefix("Bearer ").encode("utf-8", "replace")
        found = [one for one in self._sessions if hmac.compare_digest(one.token.encode(), given)]
        if not found:
            raise RefusedError("the token belongs to no running episode", 401, "invalid_api_key")
        found[0].reached = True
        return found[0]

    async def _complete(self, request: Request) -> Response:
        try:
            asked, answer = await self._answered(request, chat.read)
        except RefusedError as error:
            return JSONResponse(error.body(), error.status)
        return _streamed(chat.events(answer, asked.usage_in_stream)) if asked.stream else JSONResponse(answer)

    async def _respond(self, request: Request) -> Response:
        try:
            asked, answer = await self._answered(request, responses.read)
        except RefusedError as error:
            return JSONResponse(error.body(), error.status)
        found = responses.response(answer, asked)
        return _streamed(responses.events(found)) if asked.stream else JSONResponse(found)

    async def _answered(self, request: Request, read: Callable[[Any], Asked]) -> tuple[Asked, dict[str, Any]]:
        """The parsed request, and the chat completion that answers it.

        Raises RefusedError if the request is refused.
        """
        session = self.session_of(request.headers.get("authorization", ""))
        asked = read(chat.loaded(await _body(request)))
        return asked, await session.of_case(session.complete(asked))

    async def _models(self, request: Request) -> Response:
        try:
            self.session_of(request.headers.get("authorization", ""))
        except RefusedError as error:
            return JSONResponse(error.body(), error.status)
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "agent-grid"}
        return JSONResponse({"object": "list", "data": [model]})


def _streamed(events: Iterator[str]) -> Response:
    return StreamingResponse(events, media_type="text/event-stream")


async def _body(request: Request) -> bytes:
    """A request's body; raises RefusedError if the body arrives too late or is too long.

    Bytes beyond the limit are not kept.
    """
    found, size = bytearray(), 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size <= MOST_BYTES:
                    found += part
    except TimeoutError:
        raise RefusedError(f"the body did not arrive within {_BODY_SECONDS:g} s", 408) from None
    if size > MOST_BYTES:
        raise RefusedError(f"the body has more than {MOST_BYTES:,} bytes", 413)
    return bytes(found)


class _Uvicorn(uvicorn.Server):
    """A server that handles no signals, since signals concern the whole process, and not only the server."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture no signals."""
        yield


async def _listen(gateway: Gateway, manager: StreamableHTTPSessionManager, listening: socket.socket) -> None:
    """Serve until cancelled, or until the event loop ends; no socket stays open afterwards."""
    config = uvicorn.Config(
        gateway.app, log_config=None, log_level="critical", access_log=False, lifespan="off", ws="none",
        server_header=False, timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = _Uvicorn(config)
    try:
        async with manager.run():
            await server.serve(sockets=[listening])
    finally:
        for one in getattr(server, "servers", ()):
            one.close()
        for connection in [*server.server_state.connections]:
            with suppress(Exception):
                connection.transport.abort()
        listening.close()


# The Model Context Protocol: the tools that the case currently offers, and the query as a prompt and a resource.


QUERY = "query"
QUERY_URI = "agent-grid://query"


class _Mcp:
    """An ASGI application: the MCP server, which answers only requests with a session's token."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; the status is 401 if its token is wrong."""
        try:
            session = self._gateway.session_of(Request(scope).headers.get("authorization", ""))
        except RefusedError as error:
            await JSONResponse(error.body(), error.status)(scope, receive, send)
            return
        assert self._gateway.manager is not None  # noqa: S101 - it listens
        await self._gateway.manager.handle_request({**scope, _SESSION: session}, receive, send)


def _manager() -> StreamableHTTPSessionManager:
    """The manager of the MCP protocol; raises ConfigError if the package mcp is not installed."""
    try:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    except ImportError:
        raise ConfigError("planner", "outside", f"the package mcp must be installed: {_MCP_EXTRA}") from None
    return StreamableHTTPSessionManager(_server(), json_response=True, stateless=True, max_request_body_size=MOST_BYTES)


def _session(context: Any) -> Session:
    return cast(Session, context.request.scope[_SESSION])


def _server() -> Server[Any]:
    import mcp_types as types
    from mcp import MCPError
    from mcp.server.lowlevel.server import Server

    async def tools(context: Any, params: Any) -> types.ListToolsResult:
        functions = [definition["function"] for definition in _session(context).tools()]
        return types.ListToolsResult(
            tools=[
                types.Tool(name=one["name"], description=one["description"], input_schema=one["parameters"])
                for one in functions
            ]
        )

    async def call(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        session = _session(context)
        try:
            result = await session.of_case(session.call(params.name, params.arguments or {}))
        except RefusedError as error:
            raise MCPError(types.INVALID_REQUEST, error.message) from None
        return types.CallToolResult(content=[types.TextContent(type="text", text=result.text)], is_error=result.failed)

    async def listed(context: Any, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=QUERY, description="what is asked for")])

    async def prompt(context: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != QUERY:
            raise MCPError(types.INVALID_PARAMS, f"the only prompt is {QUERY!r}")
        said = types.TextContent(type="text", text=_session(context).query)
        return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=said)])

    async def resources(context: Any, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(uri=QUERY_URI, name=QUERY, mime_type="text/plain")])

    async def resource(context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if str(params.uri) != QUERY_URI:
            raise MCPError(types.INVALID_PARAMS, f"the only resource is {QUERY_URI}")
        text = _session(context).query
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=QUERY_URI, mime_type="text/plain", text=text)]
        )

    return Server(
        "agent-grid",
        instructions="The prompt `query` says what is asked for. Each call is a step; `finish` ends the work.",
        on_list_tools=tools,
        on_call_tool=call,
        on_list_prompts=listed,
        on_get_prompt=prompt,
        on_list_resources=resources,
        on_read_resource=resource,
    )
