"""An agent that speaks MCP alone: it asks no model of the grid's, and calls the tool whose words the query has."""

import asyncio
import os
import re

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


def words(text: str) -> set[str]:
    """Its words of at least four letters."""
    return set(re.findall(r"[a-z]{4,}", text.lower()))


async def main() -> None:
    """Call the two tools that share the most words with the query, and finish."""
    bearer = {"Authorization": f"Bearer {os.environ['AGENT_GRID_TOKEN']}"}
    async with httpx2.AsyncClient(headers=bearer) as http:
        server = streamable_http_client(os.environ["AGENT_GRID_MCP_URL"], http_client=http)
        async with Client(server) as mcp:
            query = words((await mcp.get_prompt("query")).messages[0].content.text)
            for _ in range(2):
                tools = [tool for tool in (await mcp.list_tools()).tools if tool.name not in ("finish", "give_up")]
                if not tools:
                    return
                best = max(tools, key=lambda tool: len(query & words(f"{tool.name} {tool.description}")))
                result = await mcp.call_tool(best.name, {})
                print(best.name, result.content[0].text[:200])
            if any(tool.name == "finish" for tool in (await mcp.list_tools()).tools):
                await mcp.call_tool("finish", {})


asyncio.run(main())
