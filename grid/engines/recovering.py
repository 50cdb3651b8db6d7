"""Where a prompt stands in a case of which tools are out of service: behind a failed call its step is made again.

The policy is told what replaces a broken tool, and minds it in some cases only, by lot: there, once it has seen the
tool fail, it calls the replacement. It sees that in the steps done, in what was tried beside, and in a lesson that
names the step. Without an outline it makes the failed step again, so that the steps behind have other numbers; under an
outline, which numbers its steps itself, it only calls the replacement where that tool is needed later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from grid.core.engine import Prompt
from grid.core.reference import Reference
from grid.core.types import ToolCall, to_json
from grid.engines.places import Place, Places, is_outlined, named_in_lessons, written_as
from grid.text.references import answering


@dataclass(frozen=True)
class RecoveringPlaces(Places):
    """A case's reference, looked up by prompt; `minded` are the broken tools whose failures are minded."""

    minded: frozenset[str] = frozenset()

    def left(self, prompt: Prompt, least: int) -> list[Place]:
        """What is left to decide, the failed step among it where it is made again."""
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
        """The number of the first needed step that is not the reference's, or that failed and was not made again."""
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
        """How many steps of the reference a history without an outline has behind it, and their numbers in it."""
        steps, done, written = list(self.reference.calls.items()), 0, dict[str, str]()
        for number, line in enumerate(history):
            if done < len(steps):
                step, call = steps[done]
                written[step] = str(number)
                done += not (call and call.tool in self.minded and self._fails(line, call))
        return done, written

    def _known_broken(self, prompt: Prompt) -> frozenset[str]:
        """The minded tools that a prompt shows to have failed."""
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
        """Whether a line has the call, or the same of what replaces its tool."""
        if call is None:
            return line.endswith("no tool")
        other = self.reference.substitutes.get(call.tool)
        return call.text() in line or (other is not None and other.call(call).text() in line)


def places_of(reference: Reference, minded: frozenset[str]) -> Places:
    """A reference by prompt, with what is minded of its broken tools, where it has any."""
    return RecoveringPlaces(reference, minded) if reference.substitutes else Places(reference)


def _failed(line: str, tool: str) -> bool:
    """Whether a line tells of a failed call of a tool."""
    return f'{{"tool": {to_json(tool)},' in line and " failed: {" in line
