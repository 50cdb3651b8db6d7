"""The tools that an MCP server lists, page by page, with bounds."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from grid.worlds.mcp.server import Server, ServerError
from grid.worlds.mcp.session import Session

if TYPE_CHECKING:
    from mcp import ClientSession

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
