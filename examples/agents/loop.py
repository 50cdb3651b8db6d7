"""An agent in forty lines: OpenAI's client for the model, an MCP client for the tools. Both addresses are variables."""

import asyncio
import json
import os

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from openai import AsyncOpenAI


async def main() -> None:
    """Ask for the next call and make it, until the work is over or the model has none."""
    model, openai = os.environ["OPENAI_MODEL"], AsyncOpenAI(max_retries=0)
    bearer = {"Authorization": f"Bearer {os.environ['AGENT_GRID_TOKEN']}"}
    async with httpx2.AsyncClient(headers=bearer, timeout=None) as http:
        server = streamable_http_client(os.environ["AGENT_GRID_MCP_URL"], http_client=http)
        async with Client(server) as mcp:
            query = (await mcp.get_prompt("query")).messages[0].content.text
            messages = [{"role": "user", "content": query}]
            while tools := [function(tool) for tool in (await mcp.list_tools()).tools]:
                answer = await openai.chat.completions.create(model=model, messages=messages, tools=tools)
                said = answer.choices[0].message
                if not said.tool_calls:
                    await mcp.call_tool("finish", {"answer": said.content or ""})
                    return
                messages.append(said.model_dump(exclude_none=True))
                for call in said.tool_calls:
                    result = await mcp.call_tool(call.function.name, json.loads(call.function.arguments))
                    if call.function.name in ("finish", "give_up") and not result.is_error:
                        return
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result.content[0].text})


def function(tool) -> dict:
    """A tool of the server's as the model is handed it."""
    parameters = {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
    return {"type": "function", "function": parameters}


asyncio.run(main())
