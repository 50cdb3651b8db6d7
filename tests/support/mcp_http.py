"""A small MCP server over HTTP, of the official package's own server side, that can also do what no server should.

What a session puts into its basket no other sees. The tool `spoil` is answered by HTTP itself, as its argument says.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

PRICES = {"mug": "9.50", "lamp": "20", "Tür": "300"}
TOKEN = "Bearer hunter2-and-more-of-it"  # noqa: S105 - of a server that nobody else reaches
LONG = "x" * 60


class Shop:
    """The server's app, and what it was asked: methods with their headers."""

    def __init__(self, login: str | None = None, moved: str | None = None, as_json: bool = False) -> None:
        """`login`: the Authorization that it wants; `moved`: where it redirects to."""
        self.login, self.moved = login, moved
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.baskets: dict[str, dict[str, int]] = {}
        self.spoiled = self.refuse_after = 0
        self.app = _server(self).streamable_http_app(json_response=as_json)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """The app behind whatever is to go wrong."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        told = json.loads(body) if body else {}
        self.asked.append((told.get("method", scope["method"]), headers))
        if self.moved:
            await reply(send, 307, b"", location=self.moved)
        elif self.login and headers.get("authorization") != self.login:
            await reply(send, 401, b"who are you?")
        elif (told.get("params") or {}).get("name") == "spoil":
            self.spoiled += 1
            await spoilt(send, told["params"]["arguments"]["how"], told["id"])
        else:
            await self.app(scope, _again(body, receive), send)


def _again(body: bytes, receive: Any) -> Any:
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def got() -> Any:
        return parts.pop() if parts else await receive()

    return got


async def reply(send: Any, status: int, body: bytes, kind: str = "text/plain", **headers: str) -> None:
    """A whole answer."""
    pairs = [(b"content-type", kind.encode()), *((name.encode(), value.encode()) for name, value in headers.items())]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


async def spoilt(send: Any, how: str, asked: Any) -> None:
    """What no server should do."""
    if how.isdigit():
        await reply(send, int(how), b"out of cheese, " + TOKEN.encode())
    elif how == "away":
        await reply(send, 307, b"", location="http://localhost:9/elsewhere?token=1")
    elif how == "html":
        await reply(send, 200, b"<html>", "text/html")
    elif how == "garbage":
        await reply(send, 200, b'{"jsonrpc": "2.0", "id": 1, "result": ', "application/json")
    elif how == "list":
        await reply(send, 200, b"[]", "application/json")
    elif how == "packed":
        await reply(send, 200, b"\x1f\x8b", "application/json", **{"content-encoding": "gzip"})
    elif how == "other":
        message = {"jsonrpc": "2.0", "id": asked + 1000, "result": {}}
        await reply(send, 200, json.dumps(message).encode(), "application/json")
    else:
        kind = b"application/json" if how == "flood" else b"text/event-stream"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await _streamed(send, how)


async def _streamed(send: Any, how: str) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "again"}}
    parts = {
        "chatter": f"data: {json.dumps(note)}\n\n".encode() * 500,
        "flood": b" " * 2**20,
        "large": b"data: " * 2**18,
    }
    if how == "ends":
        await send({"type": "http.response.body", "body": b": nothing\n\n"})
        return
    if how == "drops":
        await send({"type": "http.response.body", "body": b"data: {", "more_body": True})
        raise ConnectionError("dropped on purpose")
    while True:  # until the client hangs up, or for ever
        await send({"type": "http.response.body", "body": parts.get(how, b": still here\n\n"), "more_body": True})
        await asyncio.sleep(0.01)


def _server(shop: Shop) -> MCPServer[Any]:
    server = MCPServer[Any]("shop", version="3")

    def basket(ctx: Context[Any, Any]) -> dict[str, int]:
        headers = getattr(ctx.request_context.request, "headers", {})
        return shop.baskets.setdefault(headers.get("mcp-session-id", ""), {})

    @server.tool()
    def add_item(name: str, ctx: Context[Any, Any], count: int = 1) -> str:
        """Adds items to the basket."""
        basket(ctx)[name] = basket(ctx).get(name, 0) + count
        return f"{basket(ctx)[name]} {name} in the basket"

    @server.tool()
    def count_items(name: str, ctx: Context[Any, Any]) -> int:
        """How many items of a name are in the basket."""
        return basket(ctx).get(name, 0)

    @server.tool()
    def price(name: str) -> str:
        """What one item costs."""
        return PRICES[name]

    @server.tool()
    def whole(ctx: Context[Any, Any]) -> dict[str, Any]:
        """The basket, and how many kinds of items it holds."""
        return {"items": dict(basket(ctx)), "kinds": len(basket(ctx))}

    @server.tool()
    def headers(ctx: Context[Any, Any]) -> str:
        """Tells what it was sent."""
        return json.dumps(dict(getattr(ctx.request_context.request, "headers", {})))

    @server.tool()
    def long(size: int) -> str:
        """Returns a long text."""
        return "é" * size

    @server.tool(name=LONG)
    def longest() -> str:
        """Has a name of 60 characters."""
        return "done"

    @server.tool()
    def spoil(how: str) -> str:
        """Goes wrong."""
        return how

    return server


@contextmanager
def serving(shop: Any) -> Iterator[str]:
    """The URL of a server on this machine, until it is left."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(shop, log_level="critical", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = server.force_exit = True
            thread.join()
