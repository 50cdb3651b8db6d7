"""Asking the model for what a stage wants: checked by rules, repaired, and never asked for twice."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from grid.core.engine import ACTOR, Engine, Prompt
from grid.core.errors import ContextError, ModelError, UnfinishedError, one_line
from grid.core.types import Usage, to_json
from grid.core.util import derive_seed
from grid.settings.roles import Price, money
from grid.synthesis.slate.items import Checked, Item, prompt_of, read
from grid.synthesis.slate.journal import Broken, Journal, Key, Line

T = TypeVar("T")
R = TypeVar("R")
LENGTH = "context"
_DIGITS = 16


@dataclass
class Settled(Generic[T]):
    """An item after its last attempt: the one that holds the most counts, of equals the first.

    `dropped` are rules that its products break beside those of other items.
    """

    item: Item[T]
    tries: list[tuple[Line, Checked[T]]]
    dropped: list[Broken] = field(default_factory=list)

    @property
    def best(self) -> int:
        """The attempt that counts."""
        return max(range(len(self.tries)), key=lambda index: (len(self.tries[index][1].kept), -index))

    def draft(self) -> str | None:
        """The last answer, to be mended; not one that repeats an earlier one: it would only be copied again."""
        answers = [line.answer for line, _ in self.tries]
        return answers[-1] if answers and answers[-1] not in answers[:-1] else None

    @property
    def products(self) -> tuple[T, ...]:
        """What it holds that breaks no rule."""
        return self.tries[self.best][1].kept


@dataclass(frozen=True)
class How:
    """How the model is asked: part of every question, as `model` is, its config."""

    model: Mapping[str, Any]
    seed: int
    repairs: int
    temperature: float
    max_tokens: int
    at_once: int


@dataclass
class Stage:
    """What one stage asked and got."""

    name: str
    journal: Journal
    settled: list[Settled[Any]] = field(default_factory=list)
    asked: int = 0
    """Answers that this process asked for."""


class Asker:
    """Runs stages one after another: each is asked for what its file does not have.

    Args:
        folder: of the stages' files.
        how: how the model is asked.
        engine: makes the engine ready, when the first answer is wanted.
        price: of its tokens, where it is known.
        say: shows a line to the user.
        progress: shows how far the present stage is.
    """

    def __init__(
        self,
        folder: Path,
        how: How,
        engine: Callable[[], Awaitable[Engine]],
        price: Price | None,
        say: Callable[[str], None],
        progress: Callable[[str], None],
    ) -> None:
        self.stages: list[Stage] = []
        self._folder, self._how, self._make, self._price = folder, how, engine, price
        self._say, self._progress = say, progress
        self._engine: Engine | None = None
        self._starting = asyncio.Lock()
        self._gate = asyncio.Semaphore(how.at_once)

    async def run(self, name: str, lanes: Iterable[Coroutine[Any, Any, list[R]]]) -> list[R]:
        """A stage's products: its lanes run side by side, and their lists are joined in the lanes' order.

        Raises:
            UnfinishedError: nothing of what was asked for was kept.
            EngineError: the model does not answer. What was answered is kept.
        """
        stage = Stage(name, Journal(self._folder / f"{name}.jsonl", self._say))
        self.stages.append(stage)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(lane) for lane in lanes]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [product for task in tasks for product in task.result()]

    def end(self) -> None:
        """Close the present stage's file, and say what came of it.

        Raises:
            UnfinishedError: nothing of what was asked for was kept.
        """
        stage = self.stages[-1]
        lines: dict[Key, list[Broken]] = {
            line.key: [*checked.broken] for one in stage.settled for line, checked in one.tries
        }
        stage.journal.close(lines)
        wanted = sum(one.item.wanted for one in stage.settled)
        kept = sum(len(one.products) - len(one.dropped) for one in stage.settled)
        left = len(stage.journal.lines) - len(lines)
        unused = f"; {left} earlier answers to other questions are not used" if left else ""
        known = len(lines) - stage.asked
        self._say(f"{stage.name}: {kept} of {wanted} kept, {stage.asked} answers now, {known} from before{unused}")
        if wanted and not kept:
            raise UnfinishedError(_nothing(stage, wanted))

    async def settle(self, item: Item[T]) -> Settled[T]:
        """Ask for an item until an answer breaks no rule, or as often as is allowed."""
        stage = self.stages[-1]
        found = Settled(item, [])
        stage.settled.append(found)
        for attempt in range(self._how.repairs + 1):
            broken = found.tries[-1][1].broken if found.tries else ()
            line, checked = await self._attempt(stage, item, attempt, prompt_of(item, broken, found.draft()))
            found.tries.append((line, checked))
            if not checked.broken:
                break
        return found

    async def _attempt(self, stage: Stage, item: Item[T], attempt: int, prompt: Prompt) -> tuple[Line, Checked[T]]:
        seed = derive_seed(self._how.seed, stage.name, item.key, attempt)
        key = item.key, attempt, self._digest(prompt, seed)
        line = stage.journal.find(key)
        if line is None:
            text, usage, broken = await self._ask(prompt, seed)
            checked = read(item, text) if broken is None else Checked((), (broken,))
            spent = usage.known()
            line = Line(
                item=item.key,
                attempt=attempt,
                prompt=key[2],
                seed=seed,
                **{name: spent[name] for name in ("input_tokens", "cached_input_tokens", "output_tokens")},
                money=money({ACTOR: self._price}, {ACTOR: usage}),
                answer=text,
                refused=[*checked.broken],
            )
            stage.asked += 1
            stage.journal.add(line)
            self._progress(f"{stage.name}: {stage.asked} answers")
            return line, checked
        length = next((one for one in line.refused if one.gate == LENGTH), None)
        return line, Checked((), (length,)) if length else read(item, line.answer)

    async def _ask(self, prompt: Prompt, seed: int) -> tuple[str, Usage, Broken | None]:
        """The answer and what it cost, or why there is none and never will be."""
        async with self._gate:
            engine = await self._ready()
            try:
                sampled = await engine.sample(
                    prompt, n=1, temperature=self._how.temperature, max_tokens=self._how.max_tokens, seed=seed
                )
            except (ContextError, ModelError) as error:
                return "", Usage(), Broken(gate=LENGTH, text=one_line(error, 300))
        return sampled.completions[0], sampled.usage, None

    async def _ready(self) -> Engine:
        async with self._starting:
            if self._engine is None:
                self._engine = await self._make()
        return self._engine

    def _digest(self, prompt: Prompt, seed: int) -> str:
        """Of all that was asked and how; the model and the settings among it."""
        how = [self._how.model, self._how.temperature, self._how.max_tokens, seed]
        text = to_json([*(section.digest for section in prompt.sections), prompt.answer.schema, how])  # type: ignore[union-attr]
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def kept(settled: Sequence[Settled[T]], rule: Callable[[T], Broken | None]) -> list[T]:
    """The products that keep a rule beside those before them; the others are dropped."""
    found = []
    for one in settled:
        for product in one.products:
            problem = rule(product)
            if problem is None:
                found.append(product)
            else:
                one.dropped.append(problem)
    return found


def _nothing(stage: Stage, wanted: int) -> str:
    """What a stage says that kept nothing."""
    gates = Counter(
        gate for one in stage.settled for _, checked in one.tries for gate in {broken.gate for broken in checked.broken}
    )
    gates.update(broken.gate for one in stage.settled for broken in one.dropped)
    answers = sum(len(one.tries) for one in stage.settled)
    said = ", ".join(f"{gate} {count}" for gate, count in gates.most_common())
    example = next((line.answer for one in stage.settled for line, checked in one.tries if checked.broken), "")
    return (
        f"stage {stage.name}: none of {wanted} was kept after {answers} answers; refused by: {said}. An answer begins "
        f"'{one_line(example, 80)}'. All answers are kept in {stage.journal.path}, and those of the stages before in "
        "their files; more repairs=, another seed or a stronger model may do"
    )
