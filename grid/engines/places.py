"""Finds a prompt's decision point and the reference's step for it, and checks the call that is shown to a judge.

If the outline comes from the case, its substeps are the reference's steps. With an outline that the policy drafted,
substep k is the reference's k-th call; without an outline, decision k is the k-th call. After the last call, and at the
end of a turn, the right option is `finish`. A step that went wrong is not repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice

from grid.core.engine import ChainAnswer, MessagesAnswer, Prompt, Section
from grid.core.problem import Reference
from grid.core.types import FINISH, NO_TOOL, ChainCall, Json, ToolCall, ToolSpec, to_json
from grid.core.untrusted import loads
from grid.text import references
from grid.text.answers import Predicted, chain_text, messages_text
from grid.text.references import answering

_ARGUMENTS = re.compile(r"\((?:\)|[^():]{1,200}: )")  # in an option's line; a name may contain brackets and colons, too
_FINISH = f'{{"tool": "{FINISH}"'
_NONE = "none"
_LOST = "lost"  # the first step of an unsolvable case: no tool is right there
NOT_FOUND = "the simulated policy does not find the decision that the prompt is about"
_LESSON = re.compile(r"\bStep (\S+) went wrong\b")


@dataclass(frozen=True)
class Place:
    """A decision point: the reference's step, its number in the prompt, and its call with the prompt's numbering.

    `step`: None if all calls of the case, or of a turn, have been made. `call`: None if no tool is right. `known`:
    false if the policy follows its own drafted outline, whose substep for this point does not name the right tool.
    `blind`: earlier steps have been taken, but their results are not shown. `outlined`: the outline has a substep for
    this point, but all calls have been made. `answer`: if all calls have been made, references to the results that
    answer the question; None if the reference names no such results.
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
        """The reference's calls, by step."""
        return {step: call for step, call in self.reference.calls.items() if call}

    @cached_property
    def needed(self) -> frozenset[str]:
        """The steps that are needed to resolve the case."""
        return references.needed(self.reference)

    @property
    def right_tools(self) -> frozenset[str]:
        """The tools of the reference's calls, and the replacements of tools out of service."""
        instead = (one.tool for one in self.reference.substitutes.values())
        return frozenset((*(known.tool for known in self.calls.values()), *instead))

    def at(self, prompt: Prompt) -> Place:
        """The decision point that a prompt is about; raises ValueError if the prompt does not identify it."""
        left = self.left(prompt, 1)
        if not left:
            raise ValueError(
                f"{NOT_FOUND}: by its section `history` all {len(self.reference.calls)} substeps are done; a section "
                "`request` (request_section(view.substep)) names the present substep"
            )
        return left[0]

    def left(self, prompt: Prompt, least: int) -> list[Place]:
        """The decisions from the prompt's decision point on; without the case's own outline, no fewer than `least`.

        Raises ValueError if the section `request` names a substep that the outline does not have.
        """
        outline, done, request = _outline(prompt), _steps_done(prompt), prompt.entries("request")
        if request:
            number = request[-1].partition(": ")[2].partition(" ")[0]
            numbered = [known for known, _ in outline]
            if number not in numbered:
                raise ValueError(
                    f"{NOT_FOUND}: its section `request` is about substep {number!r:.40}, which its section `task` "
                    "does not have; a prompt of your own takes both from grid: task_section(episode) and "
                    "request_section(view.substep)"
                )
            done = numbered.index(number)
        blind = done > 0 and not _observed(prompt)
        if self.reference.followed:
            steps = islice(self.reference.calls.items(), done, None)
            return [Place(step, step, call, blind=blind) for step, call in steps]
        calls = self.reference.calls
        numbers = [number for number, _ in outline] or [str(place) for place in range(len(calls))]
        written = dict(zip(calls, numbers, strict=False))
        drafted = [text for _, text in outline]
        if self.reference.unsolvable and not self.calls:
            return [Place(_LOST, "0", None), *(Place(None, str(n), None) for n in range(1, done + least + 1))][done:]
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
        """The remaining decisions (as in `left`) of the current turn, but no fewer than `least` decisions."""
        left = self.left(prompt, least)
        if self.reference.followed:
            return left
        end = next((place for place, found in enumerate(left) if found.step is None), len(left))
        return left[: max(end + 1, least)]

    def is_outlined(self, prompt: Prompt) -> bool:
        """Whether the prompt has an outline, which gives the next steps."""
        return bool(_outline(prompt))

    def failed(self, prompt: Prompt) -> str | None:
        """The number of the first needed step in a prompt's history that differs from the reference's step.

        The result is None if there is no such step.
        """
        history = prompt.entries("history")[1:]
        start = Prompt(tuple(s for s in prompt.sections if s.kind not in ("history", "request")), prompt.answer)
        for place, line in zip(self.left(start, len(history)), history, strict=False):
            done = place.call.text() in line if place.call else line.endswith("no tool")
            if place.step in self.needed and not done:
                return place.number
        return None

    def candidates_right(self, prompt: Prompt) -> list[bool]:
        """For each candidate (a heading, then a line for each step): whether all needed steps are right."""
        shown = tuple(section for section in prompt.sections if section.kind != "candidates")
        found = (option for section in prompt.sections if section.kind == "candidates" for option in section.options)
        told = (Section("history", ("Done so far:", *text.split("\n")[1:])) for text in found)
        return [self.failed(Prompt((*shown, history), prompt.answer)) is None for history in told]


def is_right(prompt: Prompt, places: Places) -> bool:
    """Whether the call shown to a judge is right according to the reference.

    If all steps are shown together, the result is whether all needed steps are right. If the call has been run, it is
    right if it succeeded and its tool is one of the reference's tools, or if it failed and is a reference call that is
    known to fail. If the call has not been run, it is right if it is the reference's call at the prompt's decision
    point. A finish that refers to an earlier result is right if that result answers the question; an answer in words
    cannot be checked and counts as right.
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
    """Whether all steps are shown to a judge together."""
    return len(prompt.entries("proposal")) == 1


def takes_answer(tools: Iterable[ToolSpec]) -> bool:
    """Whether the tools include a `finish` that requires the answer as an argument."""
    return any(tool.name == FINISH and any(p.required for p in tool.parameters) for tool in tools)


def calls_nothing(prompt: Prompt) -> bool:
    """Whether the proposed step that is shown to a judge has no call or is a finish."""
    call = _proposed(prompt)
    return call == _NONE or call.startswith(_FINISH)


def _proposed(prompt: Prompt) -> str:
    proposal = prompt.entries("proposal")
    return proposal[-1] if proposal else ""


def named_in_lessons(prompt: Prompt) -> frozenset[str]:
    """The step numbers of all steps that went wrong, according to the lessons in the prompt."""
    return frozenset(number for line in prompt.entries("lessons") for number in _LESSON.findall(line))


def in_memory(prompt: Prompt, tool: str) -> bool:
    """Whether a trace in a prompt's memory has a step with this tool (if it is `no_tool`: a step without a tool)."""
    traces = prompt.entries("memory")[1:]
    if tool == NO_TOOL:
        return any(" no tool\n" in f"{trace}\n" for trace in traces)
    called = ToolCall(tool, {}).text().partition(",")[0]
    return any(called in trace for trace in traces)


def lesson(number: str) -> str:
    """The text of a reflection that names a step."""
    return f"Step {number} went wrong. Look at it anew, and do something else there."


def name_of(option: str) -> str:
    """The tool (or `no_tool`) named in an option's line: the text before the arguments, or else before the colon."""
    arguments = _ARGUMENTS.search(option)
    return option[: arguments.start()] if arguments else option.partition(":")[0].strip()


_BEHIND = re.compile(r"\s*(?:[(:]|$)")


def _names(substep: str, tool: str) -> bool:
    """Whether a line of a drafted outline begins with the name of a given tool."""
    return substep.startswith(tool) and bool(_BEHIND.match(substep, len(tool)))


def _outline(prompt: Prompt) -> list[tuple[str, str]]:
    """The number and the text of each of the outline's substeps."""
    pairs = (line.partition(" ") for line in prompt.entries("task")[2:])
    return [(number, text) for number, _, text in pairs]


def is_outlined(prompt: Prompt) -> bool:
    """Whether a prompt has an outline."""
    return bool(_outline(prompt))


def _steps_done(prompt: Prompt) -> int:
    return max(len(prompt.entries("history")) - 1, 0)


def _observed(prompt: Prompt) -> bool:
    """Whether a prompt shows earlier steps together with the results of all their calls."""
    history = prompt.entries("history")
    bare = (
        '{"tool"' in line and _FINISH not in line and not (" returned {" in line or " failed: {" in line)
        for line in history
    )
    return bool(history) and not any(bare)


def written_as(call: ToolCall, numbers: Mapping[str, str]) -> ToolCall:
    """The call, with the steps in its references renumbered as in `numbers`."""
    text = references.PATTERN.sub(
        lambda found: references.reference(numbers.get(found[1], found[1]), found[2]), json.dumps(dict(call.arguments))
    )
    return ToolCall(call.tool, json.loads(text))


# Predicted plans, as written by engines that are not language models.


SUMMARY = "Calls to be made: {count}."


def plan_text(
    answer: ChainAnswer | MessagesAnswer, calls: Sequence[Mapping[str, Json]], reasons: Sequence[str] = ()
) -> str:
    """A plan's text in the form that the answer requires; each item of `calls` is `{"tool", "arguments"}`.

    If the answer offers no tool for finishing, a finish is left out of a chain; among messages, it becomes a message
    without a call. A call of `no_tool` becomes an entry without a call, and is left out of a chain that may not
    decline. The number of messages is as requested: messages without a call are added if calls are missing, and calls
    that are too many are left out. `reasons` are the calls' reasons, in order; missing reasons are empty.
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
    """The text of a refusal."""
    return chain_text(Predicted((), reason))


# A prompt's decision point in a case with tools out of service: a step whose call failed is repeated.
#
# The policy is given each broken tool's replacement, but reacts to the tool's failure only in some cases, drawn at
# random. In these cases the policy calls the replacement after it has seen the tool fail. The policy sees a failure in
# the steps taken, in sibling branches, and in a lesson that names the step. Without an outline the policy repeats the
# failed step, so later steps get higher numbers. With an outline, whose numbers are fixed, the policy calls the
# replacement only if the tool is needed later.


@dataclass(frozen=True)
class RecoveringPlaces(Places):
    """A case's reference, looked up by prompt; after a broken tool in `minded` fails, its replacement is called."""

    minded: frozenset[str] = frozenset()

    def left(self, prompt: Prompt, least: int) -> list[Place]:
        """The decisions from the prompt's decision point on, including a failed step that is repeated."""
        known = self._known_broken(prompt)
        if is_outlined(prompt):
            return [self._mended(place, known) for place in super().left(prompt, least)]
        history = prompt.entries("history")[1:]
        done, written = self._aligned(history)
        steps = list(self.reference.calls.items())
        for ahead, (step, _) in enumerate(steps[done:]):
            written[step] = str(len(history) + ahead)
        blind = super().left(prompt, 1)[0].blind
        places = [
            self._mended(Place(step, written[step], written_as(call, written), blind=blind), known)
            if call
            else Place(None, written[step], None)
            for step, call in steps[done:]
        ]
        resolving = [written[step] for step in self.reference.resolution if step in written]
        answer = answering(resolving) if resolving else None
        end = max(least, len(places) + 1)
        first = len(history)
        return [*places, *(Place(None, str(first + n), None, answer=answer) for n in range(len(places), end))]

    def failed(self, prompt: Prompt) -> str | None:
        """The number of the first needed step that is not the reference's step, or failed and was not repeated."""
        history = prompt.entries("history")[1:]
        if is_outlined(prompt):
            return next(filter(None, self._wrong_outlined(prompt, history)), None)
        done, last = 0, len(history) - 1
        steps = list(self.reference.calls.items())
        _, written = self._aligned(history)
        for number, line in enumerate(history):
            if done >= len(steps):
                break
            step, call = steps[done]
            if self._fails(line, call):
                if call and call.tool in self.minded and number < last:
                    continue
                if step in self.needed:
                    return str(number)
            elif step in self.needed and not self._is_done(line, call and written_as(call, written)):
                return str(number)
            done += 1
        return None

    def _wrong_outlined(self, prompt: Prompt, history: Sequence[str]) -> Iterator[str | None]:
        start = Prompt(tuple(s for s in prompt.sections if s.kind not in ("history", "request")), prompt.answer)
        for place, line in zip(super().left(start, len(history)), history, strict=False):
            done = place.call is None and line.endswith("no tool")
            right = done or (not self._fails(line, place.call) and self._is_done(line, place.call))
            yield place.number if place.step in self.needed and not right else None

    def _aligned(self, history: Sequence[str]) -> tuple[int, dict[str, str]]:
        """The number of reference steps taken in a history without an outline, and their positions in the history."""
        steps, done, written = list(self.reference.calls.items()), 0, dict[str, str]()
        for number, line in enumerate(history):
            if done < len(steps):
                step, call = steps[done]
                written[step] = str(number)
                done += not (call and call.tool in self.minded and self._fails(line, call))
        return done, written

    def _known_broken(self, prompt: Prompt) -> frozenset[str]:
        """The tools in `minded` whose failure a prompt shows."""
        lines = [*prompt.entries("history"), *prompt.entries("siblings")]
        steps, lessons = list(self.reference.calls.values()), named_in_lessons(prompt)
        numbers = dict(self.reference.calls) if self.reference.followed else {str(n): c for n, c in enumerate(steps)}
        told = {call.tool for number, call in numbers.items() if call and number in lessons}
        return frozenset(tool for tool in self.minded if tool in told or any(_failed(line, tool) for line in lines))

    def _mended(self, place: Place, broken: frozenset[str]) -> Place:
        call = place.call
        return (
            replace(place, call=self.reference.substitutes[call.tool].call(call))
            if call and call.tool in broken
            else place
        )

    def _fails(self, line: str, call: ToolCall | None) -> bool:
        return call is not None and call.tool in self.reference.substitutes and _failed(line, call.tool)

    def _is_done(self, line: str, call: ToolCall | None) -> bool:
        """Whether a history line shows the call, or the same call with the tool's replacement."""
        if call is None:
            return line.endswith("no tool")
        other = self.reference.substitutes.get(call.tool)
        return call.text() in line or (other is not None and other.call(call).text() in line)


def places_of(reference: Reference, minded: frozenset[str]) -> Places:
    """A reference, looked up by prompt; broken tools that are in `minded` are replaced after they fail."""
    return RecoveringPlaces(reference, minded) if reference.substitutes else Places(reference)


def _failed(line: str, tool: str) -> bool:
    """Whether a line shows a failed call of a tool."""
    return f'{{"tool": {to_json(tool)},' in line and " failed: {" in line


# For engines without weights, a token is a word or a punctuation mark.


_TOKEN = re.compile(r"\w+|[^\w\s]")


@lru_cache(maxsize=262144)
def count_tokens(text: str) -> int:
    """The number of words and punctuation marks."""
    return len(_TOKEN.findall(text))


def prompt_tokens(prompt: Prompt) -> int:
    """The number of tokens in a whole prompt."""
    return sum(sum(map(count_tokens, section.lines())) for section in prompt.sections)
