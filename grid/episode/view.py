"""The path so far, and what one decision looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from grid.core.types import Step, Substep
from grid.core.util import kept
from grid.core.world import State
from grid.episode import prompts
from grid.episode.options import Options
from grid.episode.prompts import Offer, Seen


@dataclass(frozen=True)
class Path:
    """The steps done so far, and the world's state behind them; `finished` with an `answer` where one was given.

    `lines` are the steps as a history tells them, `said` what the user said behind them, by their places.
    """

    steps: tuple[Step, ...]
    state: State
    lines: tuple[str, ...] = ()
    finished: bool = False
    answer: str | None = None
    said: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """What one decision looks at: the point, the path so far and what is seen of it, the options, earlier lessons.

    `whole_query`: the tools are those of the whole query, the same at every point. `siblings`: lines that tell what was
    tried at this point before. `may_give_up`: that is an option too. `most_observed`: characters of each outcome.
    `answered`: to finish takes an answer. `plan`: the lines of a plan that was written before anything was run.
    `thought`: what was thought of this decision before its tools were retrieved.
    """

    substep: Substep
    path: Path
    options: Options
    whole_query: bool = False
    seen: Seen = "all"
    lessons: tuple[str, ...] = ()
    siblings: tuple[str, ...] = ()
    may_give_up: bool = False
    most_observed: int | None = None
    answered: bool = False
    plan: tuple[str, ...] = ()
    thought: str = ""

    @kept
    def guided(self) -> bool:
        """Whether an outline says what comes next."""
        return bool(self.substep.text)

    @property
    def history(self) -> tuple[str, ...]:
        """What is seen of the path, a line a step."""
        if self.seen == "all" and self.most_observed is None:
            return self.path.lines
        if self.seen == "none":
            return ()
        lines = (prompts.step_text(step, self.seen == "all", self.most_observed) for step in self.path.steps)
        return tuple(prompts.with_message(line, self.path.said.get(place)) for place, line in enumerate(lines))

    @kept
    def offer(self) -> Offer:
        """The options as a prompt lists them."""
        return prompts.offer(self.options, not self.guided, self.may_give_up, self.answered)
