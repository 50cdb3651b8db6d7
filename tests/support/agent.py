"""A program that is an agent, with Python's own library alone: it starts in 50 ms. Its first argument is what it does.

`loop` asks the model and calls the tools, as examples/agents/loop.py does. All others do what no agent should.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen


def own() -> str:
    """The token of the episode."""
    return os.environ["OPENAI_API_KEY"]


def post(url: str, body: bytes, token: str | None = None) -> Any:
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {own() if token is None else token}",
    }
    request = Request(url, body, headers)  # noqa: S310
    with urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.loads(answer.read() or b"null")


def chat(messages: list[Any], **more: Any) -> Any:
    body = {"model": "agent-grid", "messages": messages, **more}
    return post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json.dumps(body).encode())


def mcp(method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    found = post(os.environ["AGENT_GRID_MCP_URL"], json.dumps(body).encode())
    if "error" in found:
        raise RuntimeError(found["error"]["message"])
    return found["result"]


def functions() -> list[Any]:
    return [
        {"type": "function", "function": {"name": tool["name"], "parameters": tool["inputSchema"]}}
        for tool in mcp("tools/list")["tools"]
    ]


def loop(most: int = 1000) -> None:
    messages: list[Any] = [
        {"role": "user", "content": mcp("prompts/get", name="query")["messages"][0]["content"]["text"]}
    ]
    for _ in range(most):
        try:
            tools = functions()
            said = chat(messages, tools=tools)["choices"][0]["message"]
            messages.append(said)
            if not said.get("tool_calls"):
                return
            for call in said["tool_calls"]:
                made = json.loads(call["function"]["arguments"])
                result = mcp("tools/call", name=call["function"]["name"], arguments=made)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result["content"][0]["text"]})
        except (HTTPError, RuntimeError):
            return


def status(work: Any) -> int:
    """Of the answer to a request that is refused; 0 where it was cut off."""
    try:
        work()
    except HTTPError as error:
        return error.code
    except URLError:
        return 0
    return 200


def bad() -> None:
    """Requests that are refused, and one that is not; the status of each."""
    root, hello = os.environ["OPENAI_BASE_URL"], [{"role": "user", "content": "hello"}]
    url, body = f"{root}/chat/completions", json.dumps({"model": "agent-grid", "messages": hello}).encode()
    asked: dict[str, tuple[str, bytes, str]] = {
        "token": (url, body, "another"),
        "none": (url, body, ""),
        "mcp": (os.environ["AGENT_GRID_MCP_URL"], body, "another"),
        "model": (url, json.dumps({"model": "gpt-9", "messages": hello}).encode(), own()),
        "large": (url, b" " * 10 * 2**20, own()),
        "json": (url, b"{" * 10, own()),
        "deep": (url, b"[" * 100_000, own()),
        "newer": (f"{root}/responses", body, own()),
        "newer token": (f"{root}/responses", body, "another"),
        "mcp large": (os.environ["AGENT_GRID_MCP_URL"], b" " * 10 * 2**20, own()),
        "mcp deep": (os.environ["AGENT_GRID_MCP_URL"], b"[" * 100_000, own()),
        "path": (f"{root}/../etc", b"{}", own()),
        "good": (url, body, own()),
    }
    print(json.dumps({name: status(partial(post, *request)) for name, request in asked.items()}))


def sleep() -> None:
    time.sleep(600)


def print_much(mebibytes: str) -> None:
    for _ in range(int(mebibytes)):
        sys.stdout.buffer.write(b"x" * 2**20)
    print("the end")


def fail() -> int:
    loop(1)
    print("it went wrong", file=sys.stderr)
    return 1


def killed() -> None:
    loop(1)
    os.kill(os.getpid(), 9)


def fork() -> None:
    """Leaves two processes behind, one in a session of its own."""
    for session in (False, True):
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=session)
    loop()


def bomb() -> None:
    """Leaves sixteen processes behind, about half of them in sessions of their own, each of which had forked."""
    code = "import os, time\nfor _ in range(4): os.fork()\nos.setsid() if os.getpid() % 2 else None\ntime.sleep(600)"
    subprocess.Popen([sys.executable, "-I", "-S", "-c", code])
    loop()


def look(*rest: str) -> None:
    print(json.dumps({"environment": {**os.environ}, "files": os.listdir("."), "arguments": rest}))


def save(file: str) -> None:
    Path(file).write_text(own())


def again(file: str) -> None:
    """Asks with the token of an episode that has ended."""
    body = json.dumps({"model": "agent-grid", "messages": [{"role": "user", "content": "x"}]}).encode()
    print(status(partial(post, f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, Path(file).read_text())))


def late() -> None:
    """Asks when its work is over."""
    mcp("tools/call", name="finish", arguments={})
    print(status(partial(chat, [{"role": "user", "content": "and now?"}])))


def for_ever() -> None:
    while status(partial(chat, [{"role": "user", "content": "again"}])):
        pass


def side_by_side() -> None:
    """Calls the first tool eight times at once."""
    name = mcp("tools/list")["tools"][0]["name"]
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda _: mcp("tools/call", name=name, arguments={})["content"][0]["text"], range(8))
        print(json.dumps([result.split()[1].rstrip(":") for result in results]))


# Kept from one episode to the next.


def episodes() -> Iterator[str]:
    """The token of each episode that it is handed; its variables are those of a program that is started for it."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it may be killed
    for line in sys.stdin:
        os.environ.update(json.loads(line))
        yield own()


def kept(*words: str) -> None:
    """Does for each episode what the words say."""
    for token in episodes():
        print(os.getpid())
        globals()[words[0]](*words[1:])
        print(token, flush=True)


def kept_look() -> None:
    """What it knows before an episode, and is told with each."""
    before = sorted(os.environ)
    for token in episodes():
        print(json.dumps({"before": before, "told": {**os.environ}}))
        print(token)


def finish_and_sleep() -> None:
    mcp("tools/call", name="finish", arguments={})
    sleep()


def kept_once(how: str) -> int | None:
    """Works on an episode, and then does what no agent should."""
    last = ""
    for number, token in enumerate(episodes()):
        print(os.getpid(), number)
        if number and how == "hangs":
            sleep()
        if number and how == "dies":
            return 3
        if number and how == "repeats":
            print(last, flush=True)
            body = json.dumps({"model": "agent-grid", "messages": [{"role": "user", "content": "x"}]}).encode()
            print("old", status(partial(post, f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, last)))
        loop()
        last = token
        print(token, flush=True)
        if how == "leaves":
            return 0
    return None


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
