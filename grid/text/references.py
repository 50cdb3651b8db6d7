"""`OUTPUT_FROM_STEP_i.j.field`: how an argument names an earlier step's output (egb_slate §3.4, appendix A)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from grid.core.reference import Reference
from grid.core.types import RESULT, Json, Observation, Step, ToolCall, to_json

PATTERN = re.compile(r"OUTPUT_FROM_STEP_(\d+(?:\.\d+)*)\.([A-Za-z_]\w*)")


def reference(step: str, field: str) -> str:
    """The text that stands for a field of a step's output."""
    return f"OUTPUT_FROM_STEP_{step}.{field}"


def answering(steps: Sequence[str]) -> str:
    """What a finish tells where the answer is the results of these steps: the one, or a numbered line for each."""
    results = [reference(step, RESULT) for step in steps]
    return results[0] if len(results) == 1 else numbered(results)


def numbered(texts: Sequence[str]) -> str:
    """Texts as numbered lines, from 1."""
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))


def found_in(call: ToolCall) -> Iterator[tuple[str, str]]:
    """Every (step id, field) that a call's arguments refer to, nested values included."""
    pending: list[Json] = list(call.arguments.values())
    for value in pending:  # which grows
        if isinstance(value, str):
            yield from PATTERN.findall(value)
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()


def unreadable(call: ToolCall) -> str | None:
    """A text among the call's arguments that begins a reference and is none; None where all can be read."""
    rest = PATTERN.sub("", to_json(dict(call.arguments)))
    place = rest.find("OUTPUT_FROM_STEP")
    return rest[place : place + 40] if place >= 0 else None


def refers(call: ToolCall) -> bool:
    """Whether any argument may hold a reference."""
    return bool(call.arguments) and "OUTPUT_FROM_STEP_" in str(call.arguments)


def resolve(call: ToolCall, outputs: Mapping[str, Mapping[str, Json]]) -> ToolCall:
    """The call with every reference that `outputs` (step id to fields) can answer filled in, others left."""
    return ToolCall(call.tool, {name: _fill(value, outputs) for name, value in call.arguments.items()})


def outputs_of(steps: tuple[Step, ...] | list[Step]) -> dict[str, Mapping[str, Json]]:
    """Step id to output fields, of the steps that called a tool."""
    return {step.substep.id: step.observation.content for step in steps if isinstance(step.observation, Observation)}


def _fill(value: Json, outputs: Mapping[str, Mapping[str, Json]]) -> Json:
    if isinstance(value, list):
        return [_fill(item, outputs) for item in value]
    if isinstance(value, dict):
        return {name: _fill(item, outputs) for name, item in value.items()}
    if not isinstance(value, str):
        return value
    whole = PATTERN.fullmatch(value)
    if whole:
        return outputs.get(whole[1], {}).get(whole[2], value)

    def within(match: re.Match[str]) -> str:
        found = outputs.get(match[1], {}).get(match[2], match[0])
        return found if isinstance(found, str) else to_json(found)

    return PATTERN.sub(within, value)


def order(calls: Mapping[str, ToolCall]) -> list[str]:
    """The calls' step ids, producers before consumers, else as they stand. Raises as `chains`."""
    chain = chains(calls)
    return sorted(chain, key=chain.__getitem__)


def depth(calls: Mapping[str, ToolCall]) -> int:
    """The longest chain of dependent calls, counted in calls (planning_horizon §3.1); 0 without calls."""
    return max(chains(calls).values(), default=0)


def chains(calls: Mapping[str, ToolCall]) -> dict[str, int]:
    """For each step the calls of the longest chain that ends with it.

    Raises:
        ValueError: a reference names a step that makes no call, or references run in a circle.
    """
    needs = {step: [producer for producer, _ in found_in(call)] for step, call in calls.items()}
    for step, producers in needs.items():
        for producer in producers:
            if producer not in calls:
                raise ValueError(f"step {step} refers to the output of step {producer}, which makes no call")
    consumers: dict[str, list[str]] = {step: [] for step in calls}
    for step, producers in needs.items():
        for producer in producers:
            consumers[producer].append(step)
    waiting = {step: len(producers) for step, producers in needs.items()}
    chain = dict.fromkeys((step for step, count in waiting.items() if not count), 1)
    ready = list(chain)
    for producer in ready:
        for step in consumers[producer]:
            waiting[step] -= 1
            chain[step] = max(chain.get(step, 1), chain[producer] + 1)
            if not waiting[step]:
                ready.append(step)
    if len(ready) < len(calls):
        circle = ", ".join(step for step in calls if waiting[step])
        raise ValueError(f"references run in a circle among steps {circle}")
    return {step: chain[step] for step in calls}


def final_steps(calls: Mapping[str, ToolCall]) -> list[str]:
    """The steps whose output no other call uses, in plan order."""
    used = {producer for call in calls.values() for producer, _ in found_in(call)}
    return [step for step in calls if step not in used]


def needed(reference: Reference) -> frozenset[str]:
    """The steps of a reference's resolution, and those whose outputs they use, directly or not."""
    found, pending = set(reference.resolution), list(reference.resolution)
    for step in pending:  # which grows
        call = reference.calls.get(step)
        new = {producer for producer, _ in found_in(call)} - found if call else set()
        found |= new
        pending += sorted(new)
    return frozenset(found)
