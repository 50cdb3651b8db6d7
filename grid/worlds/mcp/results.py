"""What a call of an MCP server's tool returned, as an observation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grid.core.types import RESULT, Json, Observation, ToolCall, to_json
from grid.text.objects import MAX_DEPTH, depth
from grid.worlds.schema import ERROR

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp_types import CallToolResult


async def called(client: ClientSession, call: ToolCall) -> CallToolResult:
    """What a tool returns.

    The client's own `call_tool` holds it against the schema that the server tells, whose regular expressions may take
    for ever; nothing here rests on that.
    """
    from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

    params = CallToolRequestParams(name=call.tool, arguments=dict(call.arguments))
    return await client.send_request(CallToolRequest(params=params), CallToolResult)


def failed(why: str) -> Observation:
    """A call that came to nothing."""
    return Observation({ERROR: why}, failed=True)


def observation(result: CallToolResult, most: int) -> Observation:
    """The structured content, its fields where it has any; else the texts, a line each, as the field `result`.

    Images, sounds and resources are named. An error is a failed call with the text; so is a result of more than `most`
    characters, of which nothing is shown, since a part of it might mislead.
    """
    structured = result.structured_content
    told = "\n".join(_text(block) for block in result.content)
    if result.is_error:
        return failed(told[:most] or "The call failed.")
    content: dict[str, Json] = structured if isinstance(structured, dict) and structured else {RESULT: told}
    if structured is not None and not isinstance(structured, dict):
        content = {RESULT: structured}
    if depth(dict(content)) > MAX_DEPTH:
        return failed(f"The result is nested more than {MAX_DEPTH} levels deep.")
    size = len(to_json(content))
    if size > most:
        return failed(f"The result has {size:,} characters, {most:,} at most are shown (dataset.result_characters).")
    return Observation(content)


def _text(block: Any) -> str:
    """A block of a result: its text, or what it is."""
    if block.type == "text":
        return str(block.text)
    resource = getattr(block, "resource", None)
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    about = [getattr(block, "mime_type", None) or getattr(resource, "mime_type", None), getattr(block, "name", None)]
    about += [str(uri) if (uri := getattr(block, "uri", None) or getattr(resource, "uri", None)) else None]
    return f"[{' '.join([block.type, *filter(None, about)])}]"
