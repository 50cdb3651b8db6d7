"""A small file in the form in which Agent Planning Benchmark is released; its queries, tools and plans are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def tool(name: str, *parameters: str, **more: Any) -> Row:
    """A tool as a record lists it."""
    properties = {one: {"type": "string", "description": f"the {one}"} for one in parameters}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"name": name, "description": f"What {name.replace('_', ' ')} does.", "parameters": schema, **more}


TOOLS = [tool("find_parcel", "order"), tool("parcel_weight", "parcel"), tool("postage_for", "weight")]
CHAIN = [
    {"name": "find_parcel", "parameter_description": {"order": "AB-17"}, "reason": "to know the parcel"},
    {"name": "parcel_weight", "parameter_description": {"parcel": "the parcel found in step 1"}, "reason": "needed"},
    {"name": "postage_for", "parameter_description": {"weight": "the weight from step 2"}, "reason": "asked for"},
]


def message(name: str, thought: str = "next", **arguments: Any) -> Row:
    """An assistant's message with one call."""
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "thought": thought, "tool_calls": [call]}


PREFIX = [message("find_parcel", order="AB-17"), {"role": "tool", "content": '{"parcel": "P9"}'}]
REST = [message("parcel_weight", parcel="P9"), message("postage_for", weight="2 kg")]


def row(number: str, **changed: Any) -> Row:
    """A holistic record; `..._json` fields are written as JSON texts."""
    own: Row = {
        "id": number, "split": "holistic", "planning_regime": "holistic", "task_family": "gaia",
        "task_category": "Logistics", "source": "GTA", "source_subset": "", "files": [],
        "query": f"What is the postage for order AB-{number}?", "tools_json": TOOLS,
        "tool_names_json": [one["name"] for one in TOOLS], "plan": "find, weigh, price", "tool_chain_json": CHAIN,
        "unsolvable_type": "", "extraneous_tool_names_json": [], "prediction_horizon": None,
        "trajectory_prefix_json": [], "ground_truth_steps_json": [], "reference_remaining_steps_json": [],
        "broken_tool_name": "", "replacement_tool_json": None,
    }  # fmt: skip
    own |= changed
    return {name: json.dumps(value) if name.endswith("_json") and not isinstance(value, str) else value
            for name, value in own.items()}  # fmt: skip


def stepwise(number: str, k: int = 1, **changed: Any) -> Row:
    """A record of the next k steps behind the first."""
    own: Row = {"split": "stepwise", "tool_chain_json": [], "prediction_horizon": k, "trajectory_prefix_json": PREFIX}
    own |= {"ground_truth_steps_json": REST[:k], "reference_remaining_steps_json": REST}
    return row(number, **(own | changed))


TRAP = tool("parcel_insurance", "parcel")
BROKEN = [*PREFIX, message("parcel_weight", parcel="P9"), {"role": "tool", "content": "Error: tool is broken"}]
SPARE = tool("weigh_item", "item")
ROWS: list[Row] = [
    row("1"),
    row("2", files=["notes/terms.pdf", {"name": "rates.txt"}]),
    stepwise("3"),
    stepwise("4", 2),
    row("5", split="extraneous", tools_json=[*TOOLS, TRAP], extraneous_tool_names_json=[TRAP["name"]]),
    stepwise("6", tools_json=[TRAP, *TOOLS], extraneous_tool_names_json=[TRAP["name"]]),
    stepwise("7", trajectory_prefix_json=BROKEN, broken_tool_name="parcel_weight", replacement_tool_json=SPARE,
             ground_truth_steps_json=[message("weigh_item", item="P9")]),
    row("8", unsolvable_type="tool_removal", tools_json=TOOLS[:2], tool_chain_json=[]),
    row("9", unsolvable_type="Information Missing", tool_chain_json=[]),
    row("10", tools_json=[tool("find_parcel", "order", cost=3), tool("parcel_weight", "parcel", cost=2),
                          tool("postage_for", "weight", cost=4), tool("postage_of_order", "order", cost=5)]),
]  # fmt: skip
"""One record at least of each task."""


def write(folder: Path, *rows: Row | str, name: str = "released.jsonl") -> str:
    """A folder with the records, or texts as they are, a line each; those of ROWS without any."""
    lines = [one if isinstance(one, str) else json.dumps(one) for one in rows or ROWS]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder)
