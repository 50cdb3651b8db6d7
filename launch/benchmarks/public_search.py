"""The loops of published tree-search agents, run as they were released, with a model and a world that cost no time.

`python -m launch.benchmarks.public_search lats|dfsdt FOLDER COUNT released|silent` runs a short search, then a search
of COUNT iterations (LATS) or requests (ToolLLM), and prints, as JSON, the number of nodes (executed calls) and the CPU
seconds of the second search. With `silent`, the agents write no logs and print nothing. The agents' code is not in this
module but imported from a checkout. Modules that this code imports from elsewhere (a model's client, a tokenizer,
Wikipedia) are replaced by stand-ins that cost no time; the prompts are the agents' own.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import random
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

BRANCHING, DEPTH = 5, 7
_SHORT = 10  # iterations or requests of the short search


class NullWorld:
    """A world for LATS in which each action finds something; LATS itself ends the tree at depth 7."""

    def __init__(self) -> None:
        self.executed = 0

    def reset(self, idx: int) -> str:
        """The question."""
        return "Question: A question."

    def step(self, action: str) -> tuple[str, int, bool, dict[str, Any]]:
        """The observation, the reward, whether the episode ends, and further information."""
        self.executed += 1
        return "a value", 0, False, {}


class NullTools:
    """A world for ToolLLM, which copies the world for every node; the only state is a count that all copies share."""

    task_description = "You should use functions."
    input_description = "A question."
    functions: tuple[dict[str, Any], ...] = ()
    executed = 0

    def step(self, action_name: str, action_input: str) -> tuple[str, int]:
        """The observation, and the status code of a successful call."""
        NullTools.executed += 1
        return '{"found": "a value"}', 0

    def check_success(self) -> int:
        """Return 0, because the search never succeeds."""
        return 0

    def to_json(self) -> dict[str, Any]:
        """An empty object."""
        return {}


class NullModel:
    """A model for ToolLLM; no two of its calls are equal, because each has a new key."""

    def __init__(self) -> None:
        self.asked = 0

    def change_messages(self, messages: list[dict[str, Any]]) -> None:
        """Ignore the messages of the request."""

    def parse(self, functions: object, process_id: int) -> tuple[dict[str, Any], int, int]:
        """A message, an error code, and a number of tokens."""
        self.asked += 1
        call = {"name": f"tool{self.asked % BRANCHING}", "arguments": f'{{"key": "{self.asked}"}}'}
        return {"role": "assistant", "content": "a key", "function_call": call}, 0, 0


def lats(folder: Path, silent: bool, log: Path) -> Callable[[int], int]:
    """LATS on HotpotQA (hotpot/lats.py): a function that runs one search and returns the number of executed nodes.

    No leaf fails, so LATS makes no reflections. The rollouts of LATS end at depth 4, however deep the tree is.
    """
    world, drawn = NullWorld(), random.Random(0)

    def gpt(prompt: str, n: int = 1, stop: str | None = None, **_: object) -> list[str]:
        if stop is None:
            return [f"Thus the correctness score is {drawn.randrange(1, 9)}"] * n
        keys = [f"{drawn.randrange(1 << 24)}-{i}" for i in range(n)]
        return [f"a key\nAction 1: Search[{key}]\n" for key in keys]

    tokenizer = Namespace(from_pretrained=lambda name: Namespace(encode=lambda text: ()))
    _stand_in("models", gpt=gpt)
    _stand_in("transformers", GPT2Tokenizer=tokenizer)
    _stand_in("requests", exceptions=Namespace(Timeout=TimeoutError))
    _stand_in("wikienv", WikiEnv=lambda: world)
    _stand_in("wrappers", HotPotQAWrapper=lambda env, split: env, LoggingWrapper=lambda env: env)
    sys.path.insert(0, str(folder / "hotpot"))
    loop: Any = import_module("lats")
    tasks = import_module("hotpotqa")
    given = Namespace(
        backend="null", temperature=1.0, n_generate_sample=BRANCHING, n_evaluate_sample=1, prompt_sample="cot", log=log
    )
    if silent:
        logging.disable()

    def search(iterations: int) -> int:
        before = world.executed
        loop.gpt = gpt  # the search before replaced it with a version that has bound arguments
        loop.lats_search(given, tasks.HotPotQATask(), 0, iterations, not silent)
        return world.executed - before

    return search


def dfsdt(folder: Path, silent: bool, log: Path) -> Callable[[int], int]:
    """ToolLLM's DFSDT (toolbench/inference/Algorithms/DFS.py) without its ranking, as ToolLLM runs it by default.

    DFSDT prints to stdout, but keeps no log.
    """
    _stand_in("termcolor", colored=lambda text, color: text)
    _stand_in("utils", softmax_bias=None)
    sys.path.insert(0, str(folder / "toolbench" / "inference"))
    found = import_module("Algorithms.DFS")

    def search(requests: int) -> int:
        before = NullTools.executed
        chain = found.DFS_tree_search(NullModel(), NullTools(), process_id=int(silent))
        nodes_of_a_call = 3  # thought, action, and the action's input
        chain.start(nodes_of_a_call * DEPTH, BRANCHING, requests, answer=1, with_filter=False)
        return NullTools.executed - before

    return search


def _stand_in(module: str, **members: object) -> None:
    made = sys.modules[module] = ModuleType(module)
    vars(made).update(members)


def main() -> None:
    """Search twice, and measure the second search."""
    name, folder, count, told = sys.argv[1:]
    with (
        tempfile.TemporaryDirectory() as scratch,
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        loop = {"lats": lats, "dfsdt": dfsdt}[name]
        search = loop(Path(folder), told == "silent", Path(scratch, "log"))
        search(_SHORT)
        gc.collect()
        gc.freeze()
        started = time.process_time()
        nodes = search(int(count))
        spent = time.process_time() - started
    print(json.dumps({"nodes": nodes, "seconds": spent}))


if __name__ == "__main__":
    main()
