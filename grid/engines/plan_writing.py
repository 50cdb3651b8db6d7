"""Predicted plans as engines that are no language models write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grid.core.chains import ChainCall
from grid.core.plan_answers import ChainAnswer, MessagesAnswer
from grid.core.types import FINISH, NO_TOOL, Json
from grid.text.chains import Predicted, chain_text, messages_text

SUMMARY = "Calls to be made: {count}."


def plan_text(
    answer: ChainAnswer | MessagesAnswer, calls: Sequence[Mapping[str, Json]], reasons: Sequence[str] = ()
) -> str:
    """Calls, each `{"tool", "arguments"}`, in the form that an answer has.

    Where the answer has no tool to finish with, a finish is no entry of a chain, and a message without a call. Messages
    are as many as are wanted.
    """
    offered = {tool.name for tool in answer.tools}
    entries: list[ChainCall | None] = []
    for place, call in enumerate(calls):
        tool, arguments = str(call["tool"]), call["arguments"]
        named = tool != NO_TOOL and (tool != FINISH or FINISH in offered)
        reason = reasons[place] if place < len(reasons) else ""
        given = dict(arguments) if isinstance(arguments, dict) else {}
        if named:
            entries.append(ChainCall(tool, given, reason))
        elif tool == NO_TOOL or isinstance(answer, MessagesAnswer):
            entries.append(None)
    if isinstance(answer, MessagesAnswer):
        entries = [*entries, *[None] * (answer.count - len(entries))][: answer.count]
        return messages_text(Predicted(tuple(entries)))
    kept = tuple(entry for entry in entries if entry or answer.may_decline)
    return chain_text(Predicted(kept, plan=SUMMARY.format(count=sum(entry is not None for entry in kept))))


def refusal_text(reason: str) -> str:
    """A refusal."""
    return chain_text(Predicted((), reason))
