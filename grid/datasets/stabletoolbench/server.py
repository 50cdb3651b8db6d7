"""What is known of the APIs' responses: recorded calls, and what their documentation says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from grid.core.types import ToolCall, to_json
from grid.datasets.stabletoolbench.made_up import made_up, shape_of
from grid.datasets.stabletoolbench.recorded import Recorded
from grid.datasets.stabletoolbench.records import Api, Argument, Definition
from grid.worlds.simulated import Documentation, Response

_MOST = 2048
"""Characters of a description, of a shape and of all arguments that a simulator is shown."""


@dataclass(frozen=True)
class ApiServer:
    """The responses of all APIs, by the tools' names."""

    apis: Mapping[str, Api]
    definitions: Mapping[Api, Definition]
    records: Recorded | None = None

    def recorded(self, call: ToolCall) -> Response | None:
        """What was recorded for a call; None where nothing was."""
        return self.records.find(self.apis[call.tool], call.arguments) if self.records else None

    def made_up(self, call: ToolCall) -> Response:
        """Values of the kinds that the documentation shows."""
        return Response("", made_up(call, shape_of(self.definitions[self.apis[call.tool]].template)))

    def about(self, tool: str) -> Documentation:
        """The API's documentation, and a few recorded calls."""
        api = self.apis[tool]
        known = self.definitions[api]
        arguments = "; ".join(map(_described, known.arguments)) or "none"
        lines = [
            f"Service: {api.tool} ({api.category})",
            f"API: {api.name}, called as {tool}",
            f"Description: {known.description[:_MOST] or 'none'}",
            f"Arguments: {arguments[:_MOST]}",
        ]
        if (shape := shape_of(known.template)) is not None:
            lines.append(f"Shape of a response: {to_json(shape)[:_MOST]}")
        return Documentation(lines, self.records.examples(api) if self.records else ())


def _described(argument: Argument) -> str:
    kind = f"{argument.type}{', required' if argument.required else ''}"
    example = f", such as {to_json(argument.default)}" if argument.default not in (None, "") else ""
    return f"{argument.name} ({kind}{example}) {argument.description}".rstrip()
