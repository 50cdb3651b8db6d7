"""Where a prompt stands in a case, what the reference does there, and whether what a judge is shown is right.

Given the case's own outline, its substeps are the reference's. Under an outline that the policy drafted, substep k is
the reference's k-th call, and without one the k-th decision is; after the last call, and at the end of a turn, comes
`finish`. A step that went wrong is not made again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from grid.core.chains import ChainCall
from grid.core.engine import Prompt, Section
from grid.core.plan_answers import ChainAnswer, MessagesAnswer
from grid.core.reference import Reference
from grid.core.types import FINISH, NO_TOOL, Json, ToolCall, ToolSpec, to_json
from grid.core.untrusted import loads
from grid.engines.choice import NameSearch, Prefix
from grid.text import references
from grid.text.chains import Predicted, chain_text, messages_text

_ARGUMENTS = re.compile(r"\((?:\)|[^():]{1,200}: )")  # of an option's line; a name may have brackets and colons too
_BEHIND = re.compile(r"\s*(?:[(:]|$)")
_FINISH = f'{{"tool": "{FINISH}"'
_NONE = "none"
_LOST = "lost"  # the step of whoever begins what cannot be done: no tool is right there
_LESSON = re.compile(r"\bStep (\S+) went wrong\b")


@dataclass(frozen=True)
class Place:
    """A decision point: the reference's step there, its number in the prompt, and the call as it is written there.

    `step` None: all calls are made. `call` None: no tool is right. `known`: no outline of the policy's own leads astray
    here. `blind`: earlier steps were made, and what they returned is not shown. `outlined`: an outline has substeps for
    which no call is left. `answer` stands for the results that answer the question, where all calls are made.
    """

    step: str | None
    number: str
    call: ToolCall | None
    known: bool = True
    blind: bool = False
    outlined: bool = False
    answer: str | None = None

    @property
    def right(self) -> str:
        """The right option."""
        return self.call.tool if self.call else NO_TOOL if self.step or self.outlined else FINISH


@dataclass(frozen=True)
class Places:
    """A case's reference, looked up by prompt."""

    reference: Reference

    @cached_property
    def calls(self) -> dict[str, ToolCall]:
        """The calls by step."""
        return {step: call for step, call in self.reference.calls.items() if call}

    @cached_property
    def needed(self) -> frozenset[str]:
        """The steps without which the case is not resolved."""
        return references.needed(self.reference)

    @property
    def right_tools(self) -> frozenset[str]:
        """The reference's tools, and what replaces those that are out of service."""
        instead = (one.tool for one in self.reference.substitutes.values())
        return frozenset((*(known.tool for known in self.calls.values()), *instead))

    def at(self, prompt: Prompt) -> Place:
        """The decision point that a prompt is about."""
        return self.left(prompt, 1)[0]

    def left(self, prompt: Prompt, least: int) -> list[Place]:
        """What is left to decide from the prompt's point on; without an outline at least so many decisions."""
        outline, done, request = _outline(prompt), _steps_done(prompt), prompt.entries("request")
        if request:
            number = request[-1].partition(": ")[2].partition(" ")[0]
            done = next(place for place, (known, _) in enumerate(outline) if known == number)
        blind = done > 0 and not _observed(prompt)
        if self.reference.followed:
            steps = islice(self.reference.calls.items(), done, None)
            return [Place(step, step, call, blind=blind) for step, call in steps]
        calls = self.reference.calls
        numbers = [number for number, _ in outline] or [str(place) for place in range(len(calls))]
        written = dict(zip(calls, numbers, strict=False))
        drafted = [text for _, text in outline]
        if self.reference.unsolvable and not self.calls:
            return [Place(_LOST, "0", None), *(Place(None, str(n), None) for n in range(1, least + 1))][done:]
        places = [
            Place(step, number, written_as(call, written), not drafted or _names(drafted[place], call.tool), blind)
            if call
            else Place(None, number, None)
            for place, ((step, call), number) in enumerate(zip(calls.items(), numbers, strict=False))
        ]
        end = max(done + least, len(places) + 1)
        answering = [written[step] for step in self.reference.resolution if step in written]
        answer = references.answering(answering) if answering else None
        numbers_left = range(len(places), end)
        rest = (Place(None, str(n), None, outlined=n < len(drafted), answer=answer) for n in numbers_left)
        return [*places, *rest][done:]

    def of_turn(self, prompt: Prompt, least: int) -> list[Place]:
        """Of what is `left` the decisions up to the end of the present turn, so many at least."""
        left = self.left(prompt, least)
        if self.reference.followed:
            return left
        end = next((place for place, found in enumerate(left) if found.step is None), len(left))
        return left[: max(end + 1, least)]

    def is_outlined(self, prompt: Prompt) -> bool:
        """Whether an outline says what comes next."""
        return bool(_outline(prompt))

    def failed(self, prompt: Prompt) -> str | None:
        """The number of the first step of a prompt's history that was needed and is not the reference's."""
        history = prompt.entries("history")[1:]
        start = Prompt(tuple(s for s in prompt.sections if s.kind not in ("history", "request")), prompt.answer)
        for place, line in zip(self.left(start, len(history)), history, strict=False):
            done = place.call.text() in line if place.call else line.endswith("no tool")
            if place.step in self.needed and not done:
                return place.number
        return None

    def candidates_right(self, prompt: Prompt) -> list[bool]:
        """Of each candidate (a heading, then a line a step), whether no step that is needed went wrong."""
        shown = tuple(section for section in prompt.sections if section.kind != "candidates")
        found = (option for section in prompt.sections if section.kind == "candidates" for option in section.options)
        told = (Section("history", ("Done so far:", *text.split("\n")[1:])) for text in found)
        return [self.failed(Prompt((*shown, history), prompt.answer)) is None for history in told]


def is_right(prompt: Prompt, places: Places) -> bool:
    """Whether the call that a judge is shown is the reference's.

    Of all steps together: whether none that is needed went wrong. After the call: whether it is the tool of one of the
    reference's calls and returned something, or is one that is known to fail. Before it: whether it is the call at the
    prompt's point. A finish with an earlier result is right with the one that answers; words cannot be told.
    """
    outcome, call = prompt.entries("outcome"), _proposed(prompt)
    if is_whole(prompt):
        return places.failed(prompt) is None
    if outcome:
        found = loads(call) if call.startswith("{") else {}
        if "failed" in outcome[0]:
            return call in {places.calls[step].text() for step in places.reference.failing}
        if not call.startswith(_FINISH):
            return isinstance(found, dict) and found.get("tool") in places.right_tools
    at = places.left(prompt, 1)
    if not at:
        return False
    here = at[0]
    if here.call:
        return call == here.call.text()
    if here.right != FINISH:
        return call == _NONE
    named = references.PATTERN.findall(call)
    return call.startswith(_FINISH) and (not named or named == references.PATTERN.findall(here.answer or ""))


def is_whole(prompt: Prompt) -> bool:
    """Whether a judge is shown all steps together."""
    return len(prompt.entries("proposal")) == 1


def takes_answer(tools: Iterable[ToolSpec]) -> bool:
    """Whether among tools is a finish that must be given the answer."""
    return any(tool.name == FINISH and any(p.required for p in tool.parameters) for tool in tools)


def calls_nothing(prompt: Prompt) -> bool:
    """Whether what a judge is shown is to call no tool, or to finish."""
    call = _proposed(prompt)
    return call == _NONE or call.startswith(_FINISH)


def _proposed(prompt: Prompt) -> str:
    proposal = prompt.entries("proposal")
    return proposal[-1] if proposal else ""


def named_in_lessons(prompt: Prompt) -> frozenset[str]:
    """The numbers of the steps that lessons of this policy say went wrong."""
    return frozenset(number for line in prompt.entries("lessons") for number in _LESSON.findall(line))


def in_memory(prompt: Prompt, tool: str) -> bool:
    """Whether a trace of another case, in a prompt's memory, shows a step with a tool, or with none."""
    traces = prompt.entries("memory")[1:]
    if tool == NO_TOOL:
        return any(" no tool\n" in f"{trace}\n" for trace in traces)
    called = ToolCall(tool, {}).text().partition(",")[0]
    return any(called in trace for trace in traces)


def lesson(number: str) -> str:
    """What a reflection says that names a step."""
    return f"Step {number} went wrong. Look at it anew, and do something else there."


def name_of(option: str) -> str:
    """The tool of an option's line, or `no_tool`: what stands before its arguments, or else before the colon."""
    arguments = _ARGUMENTS.search(option)
    return option[: arguments.start()] if arguments else option.partition(":")[0].strip()


def _names(substep: str, tool: str) -> bool:
    """Whether a line of a drafted outline begins with a tool's name."""
    return substep.startswith(tool) and bool(_BEHIND.match(substep, len(tool)))


def _outline(prompt: Prompt) -> list[tuple[str, str]]:
    """The outline's substeps: number and text."""
    pairs = (line.partition(" ") for line in prompt.entries("task")[2:])
    return [(number, text) for number, _, text in pairs]


def is_outlined(prompt: Prompt) -> bool:
    """Whether a prompt has an outline."""
    return bool(_outline(prompt))


def _steps_done(prompt: Prompt) -> int:
    return max(len(prompt.entries("history")) - 1, 0)


def _observed(prompt: Prompt) -> bool:
    """Whether a prompt shows earlier steps, and what all their calls returned."""
    history = prompt.entries("history")
    bare = (
        '{"tool"' in line and _FINISH not in line and not (" returned {" in line or " failed: {" in line)
        for line in history
    )
    return bool(history) and not any(bare)


def written_as(call: ToolCall, numbers: Mapping[str, str]) -> ToolCall:
    """The call with its references to the steps as they are numbered here."""
    text = references.PATTERN.sub(
        lambda found: references.reference(numbers.get(found[1], found[1]), found[2]), json.dumps(dict(call.arguments))
    )
    return ToolCall(call.tool, json.loads(text))


# Tools' names as the labels of options: a tool call, as it is sampled, up to the name's closing quote.
#
# With its quote no name begins another. The call is tokenised as a whole from where the answer begins, so that a name
# has the tokens that a model writes in such a call, also where its first ones hold a part of what stands in front. Of
# the ways to write a name in tokens the tokenizer's own counts, with each token that it has for the quote and what
# comes next (`"` and `",`), since a sampler under a schema may take either. Other ways do not: a call that a model
# begins with `{` and `"`, where the tokenizer has `{"`, stands behind other tokens, and its names may have other
# probabilities.


_NAMES_BEHIND = 3  # characters behind the quote that a token may hold with it: `", "`


class Search(NamedTuple):
    """A search, and the tokens between the prompt and its root: those that all labels begin with."""

    search: NameSearch
    stem: Prefix


def beginnings(name: str) -> tuple[str, ...]:
    """The call up to the name's closing quote, and with up to so many characters behind it as its token may hold."""
    end = len(to_json({"action": {"tool": name}})) - 2
    call = to_json({"action": {"tool": name, "arguments": {}}})
    return tuple(call[: end + more] for more in range(_NAMES_BEHIND + 1))


def ways(rows: Sequence[Prefix]) -> tuple[Prefix, ...]:
    """The name's labels, of the tokens of its `beginnings`: those that end with the token that holds the quote."""
    first, *others = rows
    return tuple(dict.fromkeys([first, *(row for row in others if len(row) == len(first) and row[:-1] == first[:-1])]))


def search(labels: Sequence[Sequence[Prefix]], bound: float) -> Search:
    """A fresh search for options with these labels."""
    every = [label for own in labels for label in own]
    first, last = min(every), max(every)  # what these two share, all share
    most = min(map(len, every)) - 1
    stem = first[: next((place for place in range(most) if first[place] != last[place]), most)]
    return Search(NameSearch([[label[len(stem) :] for label in own] for own in labels], bound=bound), stem)


# Predicted plans as engines that are no language models write them.


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
