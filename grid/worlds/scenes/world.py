"""A case's images and the fourteen tools that look at them, change them and calculate."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from grid.core.types import Observation, ToolCall
from grid.core.world import State, own_state
from grid.worlds.scenes import making, reckoning, seeing
from grid.worlds.scenes.given import CallError, Given, Outcome
from grid.worlds.scenes.scene import Scene, same_picture
from grid.worlds.scenes.web import Web
from grid.worlds.schema import ERROR


@dataclass(frozen=True)
class SceneState:
    """The images that were made, and what was obtained so far.

    The name of an image tells what is on it, so that states are equal where the names are.
    """

    made: frozenset[str] = frozenset()
    obtained: frozenset[Hashable] = frozenset()
    scenes: tuple[tuple[str, Scene], ...] = field(default=(), compare=False, repr=False)


_START = SceneState()


@dataclass(frozen=True)
class SceneWorld:
    """Images by name, the web, and what resolves the case: `wanted`, all of which must have been obtained.

    A call does what its tool would do with these arguments, whether the reference makes it or not. It obtains what it
    found, as far as it matters: of Calculator and Solver the numbers, of GoogleSearch the entries shown, of what looks
    at an image which objects of which image it told of, and of what makes one the image (`same_picture`). One that
    cannot be done, or finds nothing, has failed: {"error": why}.
    """

    images: tuple[tuple[str, Scene], ...]
    web: Web
    wanted: frozenset[Hashable]
    begin: SceneState = _START
    branches: ClassVar[bool] = True

    @cached_property
    def _images(self) -> Mapping[str, Scene]:
        return dict(self.images)

    def start(self) -> SceneState:
        """What the gold steps before the first decision left; without any nothing was made or obtained."""
        return self.begin

    async def apply(self, state: State, call: ToolCall) -> tuple[SceneState, Observation]:
        """Run one call; whatever is wrong with it is the observation's `error`."""
        return self.run(own_state(state, SceneState), call)

    def run(self, before: SceneState, call: ToolCall) -> tuple[SceneState, Observation]:
        """As `apply`, at once."""
        try:
            outcome = self.outcome(before, call)
        except CallError as error:
            return before, Observation({ERROR: f"{error}."}, failed=True)
        made, scenes = before.made, before.scenes
        if outcome.made and outcome.made.handle not in made:
            made |= {outcome.made.handle}
            scenes = (*scenes, (outcome.made.handle, outcome.made))
        return SceneState(made, before.obtained | outcome.obtained, scenes), Observation(outcome.content)

    def outcome(self, state: SceneState, call: ToolCall) -> Outcome:
        """What a call gives; raises CallError."""
        if call.tool not in _TOOLS:
            raise CallError(f"there is no tool {call.tool[:80]!r}")
        return _TOOLS[call.tool](Given(call, {**self._images, **dict(state.scenes)}, self.web))

    def resolved(self, state: State) -> bool:
        """Whether everything that was wanted has been obtained."""
        obtained = own_state(state, SceneState).obtained
        pictures = [one for one in obtained if isinstance(one, Scene)]
        return all(
            any(same_picture(one, other) for other in pictures) if isinstance(one, Scene) else one in obtained
            for one in self.wanted
        )

    def answer(self, state: State) -> str | None:
        """None: outcomes are obtained, no question is answered."""
        return None


_TOOLS: Mapping[str, Callable[[Given], Outcome]] = {
    "OCR": seeing.read_text,
    "ImageDescription": seeing.describe,
    "RegionAttributeDescription": seeing.describe_region,
    "TextToBbox": seeing.find,
    "DrawBox": making.draw_box,
    "AddText": making.add_text,
    "GoogleSearch": reckoning.search,
    "Calculator": reckoning.calculate,
    "Plot": making.plot,
    "MathOCR": seeing.read_formulas,
    "CountGivenObject": seeing.count,
    "Solver": reckoning.solve,
    "TextToImage": making.generate,
    "ImageStylization": making.stylize,
}
