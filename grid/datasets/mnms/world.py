"""The tools of m&m's, played by names: no image is drawn and no text is written.

A call that fits its tool returns for each field of its output a handle, `image-3fa91c07`, that is made of the call
alone: the same call has the same handles in all cases, and they say nothing of a reference.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from grid.core.types import Json, Observation, Step, Substep, ToolCall, to_json
from grid.core.world import State, own_state
from grid.datasets.mnms.records import SUFFIXES, Calls, as_references
from grid.datasets.mnms.tools import TOOLS, Kind
from grid.text import references
from grid.worlds.schema import ERROR

_FIELDS = "|".join(sorted({field for tool in TOOLS.values() for field in tool.gives}))
_HANDLE = re.compile(rf"\b(?:{_FIELDS})-[0-9a-f]{{8}}\b")
_SHOWN = 80  # characters of a value in an error
_WANTED: Mapping[Kind, str] = {
    "image": "an image file of the request or an earlier image",
    "audio": "an audio file of the request",
    "objects": "an earlier list of objects",
    "object": "an earlier object",
    "integer": "a number or an earlier one",
    "text": "a text, in which earlier texts and numbers may stand",
}


class _RefusedError(Exception):
    """A call that does not fit, with the reason."""


@dataclass(frozen=True)
class MadeState:
    """The calls that succeeded, as (tool, digest of the call), sorted; each as often as it was made."""

    calls: tuple[tuple[str, str], ...] = ()

    @cached_property
    def handles(self) -> Mapping[str, Kind]:
        """What the calls returned, and of which kind it is."""
        return {f"{field}-{digest}": kind for tool, digest in self.calls for field, kind in TOOLS[tool].gives.items()}


@dataclass(frozen=True)
class MnmsWorld:
    """One case's tools. Resolved: all calls of one of `plans` were made, each as often as there, whatever else was.

    Calls are equal when the scorer's values are: as texts, whatever their case. Arguments of images, audio and objects
    take an earlier output of their kind, and of `files` those that end like one; anything else is refused with the
    reason, and so are arguments that are missing or that the tool does not have.
    """

    files: frozenset[str]
    plans: tuple[MadeState, ...] = ()
    begin: MadeState = MadeState()
    branches: ClassVar[bool] = True

    def start(self) -> MadeState:
        """Behind the calls that were made before the case begins."""
        return self.begin

    async def apply(self, state: State, call: ToolCall) -> tuple[MadeState, Observation]:
        """Handles by output field; `{"error"}` where the call does not fit."""
        return self.respond(own_state(state, MadeState), call)

    def respond(self, state: MadeState, call: ToolCall) -> tuple[MadeState, Observation]:
        """As `apply`."""
        try:
            self._check(state, call)
        except _RefusedError as refused:
            return state, Observation({ERROR: str(refused)}, failed=True)
        digest = _digest(call)
        outputs: dict[str, Json] = {field: f"{field}-{digest}" for field in TOOLS[call.tool].gives}
        return MadeState(tuple(sorted((*state.calls, (call.tool, digest))))), Observation(outputs)

    def resolved(self, state: State) -> bool:
        """Whether a whole plan was made."""
        made = Counter(own_state(state, MadeState).calls)
        return any(Counter(plan.calls) <= made for plan in self.plans)

    def answer(self, state: State) -> str | None:
        """None: handles are no answers."""
        return None

    def run(self, plan: Calls) -> tuple[list[Step], MadeState, str | None]:
        """The steps of a plan from the empty state, the state behind them, and the error of the first that fails."""
        state, steps = MadeState(), list[Step]()
        for place, written in enumerate(map(as_references, plan)):
            call = references.resolve(written, references.outputs_of(steps))
            state, observation = self.respond(state, call)
            if observation.failed:
                return steps, state, str(observation.content[ERROR])
            steps.append(Step(0, Substep(str(place), "", ""), call, observation, written=written))
        return steps, state, None

    def _check(self, state: MadeState, call: ToolCall) -> None:
        tool = TOOLS.get(call.tool)
        if tool is None:
            raise _RefusedError(f"there is no tool {call.tool:.60}")
        missing = [name for name in tool.takes if call.arguments.get(name) in (None, "")]
        unknown = [name for name in call.arguments if name not in tool.takes]
        if missing or unknown:
            parts = [f"lacks {', '.join(missing)}"] if missing else []
            parts += [f"takes no {', '.join(unknown)[:_SHOWN]}"] if unknown else []
            raise _RefusedError(f"the call of {call.tool} {' and '.join(parts)}")
        for name, kind in tool.takes.items():
            if not self._fits(kind, call.arguments[name], state.handles):
                shown = str(call.arguments[name])[:_SHOWN]
                raise _RefusedError(f"{name} of {call.tool} must be {_WANTED[kind]}, not {shown}")

    def _fits(self, kind: Kind, value: Json, handles: Mapping[str, Kind]) -> bool:
        if isinstance(value, list | dict | None):
            return False
        text = str(value)
        if kind not in ("text", "integer"):
            return handles.get(text) == kind or (text in self.files and text.endswith(SUFFIXES.get(kind, ("\0",))))
        held = _HANDLE.findall(text)
        if "OUTPUT_FROM_STEP" in text or any(handles.get(handle) not in ("text", "integer") for handle in held):
            return False
        if kind == "integer" and held:
            return handles.get(text) == "integer"
        return kind == "text" or any(map(str.isdigit, text))


def _digest(call: ToolCall) -> str:
    """Eight hexadecimal digits of a call, of which values count as the scorer compares them."""
    values = {name: str(value).lower() for name, value in sorted(call.arguments.items())}
    return hashlib.blake2b(to_json([call.tool, values]).encode(), digest_size=4).hexdigest()
