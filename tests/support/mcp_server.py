"""A small MCP server that needs nothing but Python: JSON-RPC by hand, so that it can also do what no server should.

`python -I -S tests/support/mcp_server.py MODE`; a mode that it does not know is good behaviour.
"""

import json
import os
import subprocess
import sys
import time
from typing import Any

TEXT: Any = {"type": "string"}
NAME = {"name": TEXT}


def tool(name: str, told: str, properties: Any = None, required: tuple[str, ...] = ()) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or {}, "required": [*required]}
    return {"name": name, "description": told, "inputSchema": schema}


def schema(properties: Any, **more: Any) -> dict[str, Any]:
    return {"inputSchema": {"type": "object", "properties": properties, **more}}


COUNTED = {"name": {**TEXT, "description": "of the item"}, "count": {"type": "integer", "default": 1}}
CONVERTED = {"amount": TEXT, "currency": {**TEXT, "enum": ["USD", "EUR"]}}
TOOLS = [
    tool("add_item", "Adds items to the basket.", COUNTED, ("name",)),
    tool("count_items", "How many items of a name are in the basket.", NAME, ("name",)),
    tool("price", "What one item costs.", NAME, ("name",)),
    tool("convert", "Puts a price into another currency.", CONVERTED, ("amount", "currency")),
    tool("note", "Writes a line into the file notes.txt and returns the whole file.", {"line": TEXT}, ("line",)),
]
DOUBLING = {f"a{n}": {"properties": {name: {"$ref": f"#/$defs/a{n + 1}"} for name in "xy"}} for n in range(30)}
NESTED = {
    "name": "order",
    "title": "Orders something",
    "inputSchema": {
        "type": "object",
        "properties": {
            "address": {"$ref": "#/$defs/Address"},
            "note": {"anyOf": [{"type": "null"}, {"type": "string"}], "default": None},
            "$ref": {"type": ["null", "integer"]},
            "kind": {"enum": ["a", "b"]},
        },
        "required": ["address"],
        "$defs": {
            "Address": {
                "type": "object",
                "properties": {"street": {"type": "string"}, "of": {"$ref": "#/$defs/Address"}},
                "required": ["street"],
            }
        },
    },
    "outputSchema": {"type": "object", "properties": {"id": {"type": "integer"}, "total": {"type": "number"}}},
}
EITHER: dict[str, Any] = {
    "name": "either",
    "description": "Has parts of several kinds.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "b": {"anyOf": [{"type": "boolean"}, {"type": "number"}], "description": "a flag or a share"},
            "t": {"type": ["integer", "array", "null"], "items": {"type": "integer"}},
            "o": {
                "oneOf": [
                    {"properties": {"x": {"type": "number", "minimum": 0}}, "required": ["x"]},
                    {"properties": {"name": TEXT}, "required": ["name"], "additionalProperties": False},
                ]
            },
            "a": {"allOf": [{"properties": {"p": {"type": "integer"}}, "required": ["p"]}, {"$ref": "#/$defs/Q"}]},
            "n": {"type": "integer", "minimum": 1, "maximum": 5},
            "l": {"type": "array"},
        },
        "allOf": [{"properties": {"z": {"anyOf": [TEXT, {"type": "null"}]}}, "required": ["z"]}],
        "anyOf": [{"required": ["b"]}, {"required": ["o", "a"]}],
        "$defs": {"Q": {"properties": {"q": {"type": "boolean"}}, "required": ["q"]}},
    },
}
BROKEN = [
    {"name": "typed", **schema({"a": {"type": 7}})},
    {"name": "lost", **schema({"a": {"$ref": "#/$defs/none"}})},
    tool("has a blank", "odd"),
    {"name": "bomb", **schema({"a": {"$ref": "#/$defs/a0"}}, **{"$defs": {**DOUBLING, "a30": TEXT}})},
]
PRICES = {"mug": "9.50", "lamp": "20", "Tür": "300"}
ODD = {
    "pid": "returns the process' id and folder",
    "child": "returns the id of a process that it starts",
    "environment": "returns the names of all variables, and the value of SECRET on the standard error",
    "die": "dies",
    "hang": "never answers",
    "flood": "sends one huge message",
    "chatter": "sends notifications without end",
    "garbage": "sends what is no JSON",
    "half": "sends half a surrogate pair",
    "long": "returns a long text",
    "deep": "returns a deep structure",
    "number": "returns a number that is too large",
    "fields": "returns structured content",
    "image": "returns an image and a link",
    "error": "fails",
    "refusal": "is answered with an error of the protocol",
    "shape": "returns a result of another shape",
}
SHAPES: dict[str, Any] = {
    "fields": {"content": [{"type": "text", "text": "{}"}], "structuredContent": {"id": 7, "name": "Tür"}},
    "image": {
        "content": [
            {"type": "text", "text": "a chart"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource_link", "uri": "file:///chart", "name": "chart"},
        ]
    },
    "error": {"content": [{"type": "text", "text": "no such thing"}], "isError": True},
    "shape": {"content": "text"},
}
basket: dict[str, int] = {}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def call(name: str, given: dict[str, Any]) -> str:
    if name == "add_item":
        basket[given["name"]] = basket.get(given["name"], 0) + given.get("count", 1)
        return f"{basket[given['name']]} {given['name']} in the basket"
    if name == "count_items":
        return str(basket.get(given["name"], 0))
    if name == "price" and given["name"] in PRICES:
        return PRICES[given["name"]]
    if name == "convert" and given["currency"] in ("USD", "EUR"):
        return f"{float(given['amount']) * 2:.2f} {given['currency']}"
    if name == "note":
        with open("notes.txt", "a", encoding="utf-8") as file:
            file.write(given["line"] + "\n")
        with open("notes.txt", encoding="utf-8") as file:
            return file.read()
    if name == "pid":
        return f"{os.getpid()} {os.getcwd()}"
    if name == "child":
        return str(subprocess.Popen(["sleep", "600"]).pid)
    if name == "environment":
        print(os.environ.get("SECRET"), file=sys.stderr, flush=True)
        return " ".join(sorted(os.environ))
    if name == "long":
        return "é" * int(given.get("size", 1_000_000))
    raise ValueError(f"nothing is known of {json.dumps(given)}")


def odd(name: str) -> None:
    """What no server should do."""
    if name == "die":
        print("Fatal: out of cheese", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "hang":
        time.sleep(600)
    if name == "flood":
        part = "x" * 2**20
        sys.stdout.write('{"jsonrpc": "2.0", "id": 1, "result": "')
        while True:
            sys.stdout.write(part)
    while name == "chatter":
        send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "again"}})
    if name == "garbage":
        print('{"jsonrpc": "2.0", "id": 1, "result": ', flush=True)
    if name == "half":
        print('{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "\\ud800"}]}}', flush=True)


def listing(mode: str, cursor: str | None) -> dict[str, Any]:
    if mode == "pages":
        return {"tools": [tool(f"t{cursor}", "")], "nextCursor": str(int(cursor or 0) + 1)}
    if mode == "endless":
        return {"tools": [], "nextCursor": "again"}
    if mode == "two_pages":
        return {"tools": TOOLS[3:]} if cursor else {"tools": TOOLS[:3], "nextCursor": "more"}
    tools = list(TOOLS)
    if mode == "twins":
        tools.append(tool("price", "another"))
    if mode == "array":
        tools.append({"name": "odd", "inputSchema": {"type": "array"}})
    if mode == "untyped":
        tools.append({"name": "odd"})
    if mode == "nested":
        tools.append(NESTED)
    if mode == "either":
        tools.append(EITHER)
    if mode == "broken":
        tools += BROKEN
    if mode == "odd":
        tools += [tool(name, told, {"size": {"type": "integer"}}) for name, told in ODD.items()]
    return {"tools": tools}


def answer(mode: str, asked: dict[str, Any]) -> Any:
    method, params = asked["method"], asked.get("params") or {}
    if method == "initialize":
        if mode == "hang_at_start":
            time.sleep(600)
        told = {"name": "small", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": told}
    if method == "tools/list":
        if mode == "hang_at_list":
            time.sleep(600)
        return listing(mode, params.get("cursor"))
    name = params["name"]
    if name in SHAPES:
        return SHAPES[name]
    if name == "deep":
        content: Any = 1
        for _ in range(100):
            content = {"a": content}
        return {"content": [], "structuredContent": content}
    odd(name)
    try:
        return {"content": [{"type": "text", "text": call(name, params.get("arguments") or {})}]}
    except (ValueError, TypeError, KeyError) as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}


def main(mode: str) -> None:
    if mode == "dies_at_start":
        sys.exit("no database")
    if mode == "banner":
        print("Welcome to the small server!", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        head = {"jsonrpc": "2.0", "id": asked["id"]}
        if (asked.get("params") or {}).get("name") == "refusal":
            send({**head, "error": {"code": -32602, "message": "not like this"}})
        elif (asked.get("params") or {}).get("name") == "number":
            print(json.dumps(head)[:-1] + ', "result": {"content": [], "structuredContent": {"n": 1e999}}}', flush=True)
        else:
            send({**head, "result": answer(mode, asked)})


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
