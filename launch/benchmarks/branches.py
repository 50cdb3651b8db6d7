"""EGB's branches side by side against one after another, on a local HTTP server that takes its time for every answer.

The server plays a model without skill: each answer is a random one of those that the request's JSON schema allows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rich.console import Console
from rich.table import Table

from grid.cells.run import Stamp, run_chunk
from grid.engines.http.engine import OpenAIHTTP
from grid.settings.build import Built, build
from grid.settings.config import BudgetConfig
from grid.settings.setting import GROUPS, Setting, cells

BUDGET = BudgetConfig()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The size, the latency and the budgets."""
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--trajectories", type=int, nargs="+", default=[5, 10], help="EGB's budgets b")
    parser.add_argument("--latency-ms", type=float, default=50.0, help="of every answer")
    parser.add_argument("--repeats", type=int, default=3)


def run(arguments: argparse.Namespace, console: Console) -> None:
    """Each budget, both ways in turn; the ratio of each round."""
    table = Table(
        title=f"egb_sampling on SLATE, {arguments.cases} cases, every answer after {arguments.latency_ms:g} ms"
    )
    for column in ("b", "one after another", "side by side", "ratio", "tokens", "unresolved"):
        table.add_column(column, justify="right")
    with server(arguments.latency_ms / 1000) as url:
        for budget in arguments.trajectories:
            rounds = [_round(url, budget, arguments.cases) for _ in range(arguments.repeats)]
            slow, fast = ([seconds[way] for seconds, *_ in rounds] for way in (False, True))
            ratios = [a / b for a, b in zip(slow, fast, strict=True)]
            table.add_row(
                f"{budget}",
                f"{statistics.median(slow):.2f} s",
                f"{statistics.median(fast):.2f} s",
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
                f"{rounds[0][1]:.2f}",
                f"{rounds[0][2]} of {arguments.cases}",
            )
    console.print(table)
    console.print("seconds: mean wall time of an unresolved case; tokens: side by side over one after another")


def _round(url: str, budget: int, cases: int) -> tuple[dict[bool, float], float, int]:
    """Mean wall seconds of an unresolved case each way, the ratio of tokens, and how many cases were unresolved."""
    seconds, tokens, unresolved = {}, {}, 0
    for parallel in (False, True):
        rows = _episodes(url, budget, cases, parallel)
        lost = [row for row in rows if not row["success"]]
        seconds[parallel] = statistics.mean(row["wall_seconds"] for row in lost)
        tokens[parallel] = sum(row["input_tokens"] + row["output_tokens"] for row in rows)
        unresolved = len(lost)
    return seconds, tokens[True] / tokens[False], unresolved


def _episodes(url: str, budget: int, cases: int, parallel: bool) -> list[dict[str, Any]]:
    config: dict[str, dict[str, Any]] = {
        "model": {"_target_": "grid.engines.http.engine.OpenAIHTTP", "base_url": url, "model": "random",
                  "serving": {"max_in_flight": 64}},
        "planner": {"_target_": "grid.planners.egb.EGBSampling", "trajectories": budget, "parallel": parallel,
                    "step_branch_limit": budget},
        "dataset": {"_target_": "grid.datasets.slate.dataset.Slate", "limit": cases},
        "robustness": {},
        "retriever": {"_target_": "grid.retrievers.bm25.BM25", "top_k": 10},
        "pool": {"_target_": "grid.pools.whole.Whole"},
    }  # fmt: skip
    names = ("random", "egb_sampling", "slate", "none", "bm25")
    setting = Setting(config, dict(zip(GROUPS, names, strict=True)), seed=0)

    async def chunk() -> list[dict[str, Any]]:
        engine = OpenAIHTTP(**{name: value for name, value in config["model"].items() if name != "_target_"})
        await engine.load()
        built: Built = replace(build(setting, BUDGET), engine=engine)
        chosen = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
        return (await run_chunk(built, setting, chosen, Stamp("branches", None), at_once=1)).take()["episodes"]

    return asyncio.run(chunk())


@contextmanager
def server(latency: float) -> Iterator[str]:
    """The address of a server on loopback, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(latency, there), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/v1"
    finally:
        process.terminate()
        process.join()


def _serve(latency: float, told: Any) -> None:
    """Serve for ever, once the port is told."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, latency))
    server.daemon_threads = True
    told.send(server.server_port)
    server.serve_forever()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(self, latency: float, *rest: Any) -> None:
        self._latency = latency
        super().__init__(*rest)

    def do_GET(self) -> None:
        """The list of models."""
        self._send({"object": "list", "data": [{"id": "random", "object": "model"}]})

    def do_POST(self) -> None:
        """One completion."""
        began, body = time.monotonic(), json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = _answer(body)
        time.sleep(max(self._latency - (time.monotonic() - began), 0.0))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": len(str(body["messages"])) // 4, "completion_tokens": 20, "total_tokens": 0}
        self._send({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage})

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _send(self, value: Any) -> None:
        data = json.dumps(value).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            self.close_connection = True  # the client has cancelled


def _answer(body: dict[str, Any]) -> str:
    """A random call of the schema, drawn by the request's own seed."""
    action = body["response_format"]["json_schema"]["schema"]["properties"]["action"]
    call = random.Random(body.get("seed")).choice(action.get("anyOf") or [action])
    return json.dumps({"action": {"tool": call["properties"]["tool"]["const"], "arguments": {}}})
