"""The world of a case of APIBench: it takes down the call that is made, and says nothing of its worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from grid.core.types import Observation, ToolCall
from grid.core.world import State, own_state
from grid.datasets.apibench.scorer import Api, score
from grid.datasets.apibench.tools import RECORDED, Record
from grid.datasets.apibench.trees import MAX_BYTES
from grid.worlds.schema import ERROR


@dataclass(frozen=True)
class CallWorld:
    """A call is the answer until the next one is made. The state is its code, empty before the first.

    No API is run. `apis` are the hub's in the order in which answers are held against them.
    """

    records: Mapping[str, Record]
    apis: Sequence[Api]
    reference: Api
    branches: ClassVar[bool] = True

    def start(self) -> str:
        """Nothing called."""
        return ""

    async def apply(self, state: State, call: ToolCall) -> tuple[str, Observation]:
        """The call as code, recorded; a failure for an unknown tool, a name that no code has, or a call too long."""
        before = own_state(state, str)
        record = self.records.get(call.tool)
        if record is None:
            return before, Observation({ERROR: f"there is no tool {call.tool:.200}"}, failed=True)
        try:
            code = record.render(call.arguments)
            size = len(code.encode())
        except ValueError as error:  # also half a surrogate pair
            return before, Observation({ERROR: f"{error!s:.200}"}, failed=True)
        if size > MAX_BYTES:
            return before, Observation({ERROR: f"a call of more than {MAX_BYTES:,} bytes"}, failed=True)
        return code, Observation({RECORDED: code, "status": "this call is the answer now"})

    def resolved(self, state: State) -> bool:
        """Whether the recorded call is right."""
        code = own_state(state, str)
        return bool(code) and score(code, self.reference, self.apis).right

    def answer(self, state: State) -> str | None:
        """The recorded call."""
        return own_state(state, str) or None
