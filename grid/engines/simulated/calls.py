"""The simulated policy's calls as it writes them, right or wrong: all have the form that their tools ask for.

A call that does not fit a tool which takes results is asked for again instead of being run: a policy that wrote its
errors in such calls would be right more often than it is told to be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from grid.core.engine import Prompt
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, RESULT, UNKNOWN, Json, Parameter, ToolCall, ToolSpec
from grid.text.arguments import misfit, misplaced
from grid.text.references import found_in, reference

_NUMBER = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4})*(?= )")
_TEXTS = ("string", "date")


def results(prompt: Prompt) -> dict[str, bool]:
    """The steps that a prompt shows by number, in their order: whether they may have a result.

    A call that is shown without its outcome may.
    """
    numbered = [(_NUMBER.match(line), line) for line in prompt.entries("history")]
    return {found[0]: '{"tool"' in line and " failed: {" not in line for found, line in numbered if found}


def told(answer: str | None, before: Mapping[str, bool]) -> str:
    """What it finishes with: the result that is the answer, or words where the step of that result has none."""
    if answer is None or any(before.get(step) is False for step, _ in found_in(ToolCall(FINISH, {"answer": answer}))):
        return UNKNOWN
    return answer


@dataclass(frozen=True)
class Writer:
    """How calls of some tools are written."""

    tools: Mapping[str, ToolSpec]

    def call(self, tool: str, known: ToolCall | None, right: bool, before: Mapping[str, bool]) -> dict[str, Json]:
        """A call of a tool as text.

        Args:
            tool: its name, or that of no tool.
            known: the right call, where it is of this tool.
            right: whether its arguments are the right ones. Otherwise it has every argument that it must have, and of
                those that are plain texts none has the right value.
            before: the steps before it, by number: whether they may have a result.
        """
        if tool in (NO_TOOL, FINISH, GIVE_UP):
            return {"tool": tool, "arguments": {}}
        spec = self.tools.get(tool)
        if spec and spec.takes_results:
            return self._exact(spec, known, right, before)
        if known:
            arguments: dict[str, Json] = dict(known.arguments) if right else dict.fromkeys(known.arguments, UNKNOWN)
        else:
            arguments = {one.name: UNKNOWN for one in spec.parameters if one.required} if spec else {}
        return {"tool": tool, "arguments": arguments}

    def _exact(
        self, spec: ToolSpec, known: ToolCall | None, right: bool, before: Mapping[str, bool]
    ) -> dict[str, Json]:
        """The call of a tool that takes results; that of another where no call of it is right, or none wrong."""
        given: Mapping[str, Json] = known.arguments if known else {}
        texts = [one.name for one in spec.parameters if one.type in _TEXTS and not one.values]
        arguments = {one.name: given.get(one.name, _any(one, before)) for one in spec.parameters}
        if not right:
            arguments |= dict.fromkeys(texts, UNKNOWN)
        call = ToolCall(spec.name, arguments)
        # Some planners are shown nothing of the steps before: what the right call refers to is there all the same.
        lost = any(before.get(step) is False for step, _ in found_in(call)) if right else misplaced(call, before)
        if misfit(call, spec) or lost or not (right or texts):
            return self._failing()
        return {"tool": spec.name, "arguments": arguments}

    def _failing(self) -> dict[str, Json]:
        """A call that can be run anywhere and asks for what there is not."""
        free = (tool for tool in self.tools.values() if tool.parameters and not tool.takes_results)
        tool = min(free, key=lambda one: one.name, default=None)
        return self.call(tool.name, None, False, {}) if tool else {"tool": NO_TOOL, "arguments": {}}


def _any(parameter: Parameter, before: Mapping[str, bool]) -> Json:
    """Some value that an argument may have."""
    if parameter.type != RESULT:
        return parameter.values[0] if parameter.values else UNKNOWN
    latest = next((step for step, has_result in reversed([*before.items()]) if has_result), UNKNOWN)
    return reference(latest, RESULT)
