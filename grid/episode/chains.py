"""The chain of calls that a trajectory made or predicted (agent_planning_benchmark §3.1)."""

from __future__ import annotations

from dataclasses import replace

from grid.core.chains import Chain, ChainCall
from grid.core.types import FINISH, REJECT, ToolCall, Trajectory


def chain_of(trajectory: Trajectory) -> Chain:
    """What a planner predicted, or the calls that it made as it wrote them, references included.

    A call of REJECT ends the chain, which is then a refusal; calls before it stay. A finish is no call. Where nothing
    was said with the calls, the chain's words are what was told at the end.
    """
    if trajectory.chain is not None:
        return trajectory.chain if trajectory.chain.plan else replace(trajectory.chain, plan=trajectory.answer or "")
    calls: list[ChainCall] = []
    first = trajectory.steps[0].substep.id if trajectory.steps else "0"
    refusal = None
    for step in trajectory.steps:
        written = step.written
        if written is not None and written.tool == REJECT:
            refusal = _reason(written)
            break
        if written is not None and written.tool != FINISH:
            calls.append(ChainCall(written.tool, dict(written.arguments), step.thought or ""))
    return Chain(tuple(calls), refusal, trajectory.answer or "", int(first) if first.isdecimal() else 0)


def _reason(call: ToolCall) -> str:
    return str(call.arguments.get("reason", ""))
