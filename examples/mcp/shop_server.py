"""The shop of `shop.sql` as an MCP server over HTTP: `python examples/mcp/shop_server.py 8000`.

Each session has a shop of its own, so that no episode sees what another one changed.
"""

import sqlite3
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

SHOP = Path(__file__).with_name("shop.sql")
server = MCPServer[Any]("shop", version="1", log_level="ERROR")
_shops: dict[str, sqlite3.Connection] = {}


def _shop(ctx: Context[Any, Any]) -> sqlite3.Connection:
    session = getattr(ctx.request_context.request, "headers", {}).get("mcp-session-id", "")
    if session not in _shops:
        _shops[session] = sqlite3.connect(":memory:", check_same_thread=False)
        _shops[session].executescript(SHOP.read_text(encoding="utf-8"))
    return _shops[session]


@server.tool()
def products(category: str, ctx: Context[Any, Any]) -> list[str]:
    """The names of the products of a category: kitchen, light or paper."""
    rows = _shop(ctx).execute("SELECT name FROM products WHERE category = ? ORDER BY id", (category,))
    return [name for (name,) in rows]


@server.tool()
def stock(product: str, ctx: Context[Any, Any]) -> int:
    """How many of a product are in stock, by its name."""
    found = _shop(ctx).execute("SELECT stock FROM products WHERE name = ?", (product,)).fetchone()
    if found is None:
        raise ToolError(f"there is no product {product!r}")
    return int(found[0])


@server.tool()
def sell(product: str, quantity: int, ctx: Context[Any, Any]) -> str:
    """Takes so many of a product off the stock."""
    left = stock(product, ctx) - quantity
    if quantity < 1 or left < 0:
        raise ToolError(f"{quantity} of {product} cannot be sold")
    _shop(ctx).execute("UPDATE products SET stock = ? WHERE name = ?", (left, product))
    return f"{left} of {product} are left"


if __name__ == "__main__":
    server.run("streamable-http", port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
