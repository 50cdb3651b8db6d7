"""A plugin whose engine claims GPUs that it does not use: models that take turns, on a machine without any."""

from __future__ import annotations

from pathlib import Path

from tests.support.plugins import write

ENGINE = '''"""An engine that claims GPUs and answers at once, each model in its own way."""

import asyncio
import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from grid.core.engine import Choice, ChoiceAnswer, Sampled, ToolCallAnswer
from grid.core.types import Usage, to_json
from grid.engines.hosted import Occupancy
from grid.engines.null import Null


@dataclass
class Claiming:
    """Its answers hang on `who` it is and on the prompt; `log` gets a line as it loads."""

    who: str
    gpus: float = 1
    load_seconds: float = 0.0
    seconds: float = 0.0
    fails: str = ""
    log: str = ""
    replicas: int | None = None
    provides: ClassVar = Null.provides
    home: ClassVar = "replica"
    name: ClassVar = "claiming"
    sampler: ClassVar = None
    version: ClassVar = "claiming-1"
    environment: ClassVar = ()
    capacity: ClassVar = 8

    async def load(self):
        if self.log:
            with open(self.log, "a") as file:
                file.write(json.dumps([self.who, time.time()]) + "\\n")
        if self.fails and Path(self.fails).exists():
            raise RuntimeError("no memory on this card")
        await asyncio.sleep(self.load_seconds)

    async def check(self):
        pass

    def occupancy(self):
        return Occupancy(0, 0)

    def _number(self, prompt, count):
        told = repr((self.who, prompt.sections))
        return int(hashlib.sha256(told.encode()).hexdigest(), 16) % count

    async def sample(self, prompt, *, n, **how):
        await asyncio.sleep(self.seconds)
        answer = prompt.answer
        if not isinstance(answer, ToolCallAnswer) or not answer.tools:
            return await Null().sample(prompt, n=n, **how)
        tool = answer.tools[self._number(prompt, len(answer.tools))]
        return Sampled((to_json({"tool": tool.name, "arguments": {}}),) * n, Usage(llm_calls=n, input_tokens=7 * n))

    async def choose(self, prompt, **how):
        await asyncio.sleep(self.seconds)
        count = len(prompt.answer.options) if isinstance(prompt.answer, ChoiceAnswer) else 1
        best = self._number(prompt, count)
        return Choice(tuple(float(place == best) for place in range(count)), Usage(forward_passes=1))
'''


def package(folder: Path, **models: str) -> Path:
    """Write the plugin `claimers` below a folder, with a file of `conf/model` for each of some models; the folder."""
    head = "# Claims GPUs.\n_target_: claimers.engine.Claiming\n"
    files = {"claimers/__init__.py": "", "claimers/engine.py": ENGINE}
    for name, keys in models.items():
        files[f"claimers/conf/model/{name}.yaml"] = f"{head}who: {name}\n{keys}"
    return write(folder, files)
