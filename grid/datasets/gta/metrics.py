"""GTA's metrics, as the authors' evaluator counts them (their `gta_bench.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from grid.core.types import Step, ToolCall

CATEGORIES = {
    "perception": ("OCR", "ImageDescription", "RegionAttributeDescription", "TextToBbox"),
    "operation": ("DrawBox", "AddText", "GoogleSearch"),
    "logic": ("Calculator", "Solver", "Plot", "MathOCR", "CountGivenObject"),
    "creativity": ("TextToImage", "ImageStylization"),
}
"""The fourteen tools by category."""


def category_of(tool: str) -> str:
    """A tool's category; empty for other tools, such as those that a pool adds."""
    return next((name for name, tools in CATEGORIES.items() if tool in tools), "")


def tool_counts(made: Sequence[str], gold: Sequence[str]) -> dict[str, list[int]]:
    """By category hits, calls made and gold calls; the F1 is of their sums over all cases.

    As published, a hit is a gold call whose tool was called at all: twice in the gold path and once made are two hits.
    """
    called = set(made)
    return {
        name: [
            sum(tool in tools and tool in called for tool in gold),
            sum(tool in tools for tool in made),
            sum(tool in tools for tool in gold),
        ]
        for name, tools in CATEGORIES.items()
    }


def step_scores(step: Step | None, gold: ToolCall | None) -> dict[str, float | None]:
    """instruction_accuracy, tool_accuracy and argument_accuracy of one decision; `gold` None: to answer was right.

    instruction: a tool was called where that was right, or the answer was given. tool: the right one was called.
    argument: that with exactly the gold arguments. The last two are None where no tool was to be called. What cannot be
    read, or no decision, is wrong in each.
    """
    call = step.call if step and not step.malformed else None
    if gold is None:
        return {"instruction_accuracy": float(step is not None and step.finished and not step.malformed)}
    right = call is not None and call.tool == gold.tool
    return {
        "instruction_accuracy": float(call is not None),
        "tool_accuracy": float(right),
        "argument_accuracy": float(right and call is not None and dict(call.arguments) == dict(gold.arguments)),
    }
