"""An agent of OpenAI's agents' library (`pip install openai-agents`): all that it knows of agent-grid are addresses."""

import asyncio
import os

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI


async def main() -> None:
    """Run the library's own loop on the query; its last words are the answer."""
    set_tracing_disabled(True)
    where = {
        "url": os.environ["AGENT_GRID_MCP_URL"],
        "headers": {"Authorization": f"Bearer {os.environ['AGENT_GRID_TOKEN']}"},
    }
    async with MCPServerStreamableHttp(where) as server:
        query = (await server.get_prompt("query")).messages[0].content.text
        model = OpenAIChatCompletionsModel(os.environ["OPENAI_MODEL"], AsyncOpenAI(max_retries=0))
        agent = Agent(name="agent", model=model, mcp_servers=[server], model_settings=ModelSettings(temperature=1.0))
        print((await Runner.run(agent, query, max_turns=40)).final_output)


asyncio.run(main())
