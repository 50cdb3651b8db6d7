"""Asking the model for what a stage wants: checked by rules, repaired, and never asked for twice."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from grid.datasets.slate.construct.journal import Broken, Journal, Key, Line
from grid.engines.base import Engine, Prompt, SchemaAnswer, Section
from grid.errors import ContextError, ModelError, UnfinishedError, one_line
from grid.runner.prices import Price
from grid.seeds import derive_seed
from grid.text.answers import only_one
from grid.text.objects import UnreadableError
from grid.text.untrusted import shown
from grid.types import Json, Usage, to_json

T = TypeVar("T")
R = TypeVar("R")
NO_JSON, CHARACTERS, FORM, LENGTH = "JSON", "characters", "form", "context"
_DIGITS = 16
_SHOWN = 20  # rules that a repair names at most


@dataclass(frozen=True)
class Checked(Generic[T]):
    """What an answer holds that breaks no rule, and the rules that the rest of it breaks."""

    kept: tuple[T, ...]
    broken: tuple[Broken, ...]


@dataclass(frozen=True)
class Item(Generic[T]):
    """One answer that a stage wants.

    Args:
        key: its name within the stage.
        sections: the prompt, up to what is wanted of this item.
        form: the lines that say of which form the answer is.
        schema: the JSON schema of the same.
        check: what an answer of that form holds; raises ValidationError for one of another form.
        wanted: how many products one answer holds.
    """

    key: str
    sections: tuple[Section, ...]
    form: tuple[str, ...]
    schema: Mapping[str, Any]
    check: Callable[[Mapping[str, Json]], Checked[T]]
    wanted: int = 1


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
    """

    def __init__(
        self,
        folder: Path,
        how: How,
        engine: Callable[[], Awaitable[Engine]],
        price: Price | None,
        say: Callable[[str], None],
    ) -> None:
        self.stages: list[Stage] = []
        self._folder, self._how, self._make, self._price, self._say = folder, how, engine, price, say
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
            line, checked = await self._attempt(stage, item, attempt, found.tries[-1] if found.tries else None)
            found.tries.append((line, checked))
            if not checked.broken:
                break
        return found

    async def _attempt(
        self, stage: Stage, item: Item[T], attempt: int, before: tuple[Line, Checked[T]] | None
    ) -> tuple[Line, Checked[T]]:
        prompt = prompt_of(item, before)
        seed = derive_seed(self._how.seed, stage.name, item.key, attempt)
        key = item.key, attempt, self._digest(prompt, seed)
        line = stage.journal.find(key)
        if line is None:
            text, usage, broken = await self._ask(prompt, seed)
            checked = read(item, text) if broken is None else Checked((), (broken,))
            line = Line(
                item=item.key,
                attempt=attempt,
                prompt=key[2],
                seed=seed,
                input_tokens=usage.input_tokens,
                cached_input_tokens=usage.cached_input_tokens,
                output_tokens=usage.output_tokens,
                money=self._price.of(usage) if self._price else None,
                answer=text,
                refused=[*checked.broken],
            )
            stage.asked += 1
            stage.journal.add(line)
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


def prompt_of(item: Item[Any], before: tuple[Line, Checked[Any]] | None) -> Prompt:
    """An item's prompt; behind an answer that was refused, with that answer and the rules that it broke."""
    sections = [*item.sections]
    if before:
        line, checked = before
        rules = [f"- {one.text}" for one in checked.broken[:_SHOWN]]
        sections.append(Section("draft", ("Your last answer was:", line.answer or "(nothing)")))
        sections.append(Section("errors", ("It was refused, because of these rules:", *rules)))
        sections.append(Section("retry", ("Write the whole answer again, so that it keeps all rules.",)))
    sections.append(Section("instruction", item.form))
    return Prompt(tuple(sections), SchemaAnswer(to_json(item.schema)))


def read(item: Item[T], text: str) -> Checked[T]:
    """What an answer holds."""
    try:
        answer = only_one(text, lambda value: value if isinstance(value, dict) else None, "it holds no JSON object")
    except UnreadableError as error:
        return Checked((), (Broken(gate=NO_JSON, text=f"The answer is one JSON object: {one_line(error, 200)}."),))
    flat = {name: _flat(value) for name, value in answer.items()}
    if any(shown(text) != text for text in _texts(flat)):
        return Checked((), (Broken(gate=CHARACTERS, text="Texts have no characters that cannot be seen."),))
    try:
        return item.check(flat)
    except ValidationError as error:
        return Checked((), tuple(Broken(gate=FORM, text=_told(one)) for one in error.errors()[:_SHOWN]))


def _flat(value: Json) -> Json:
    """A value with every text on one line."""
    if isinstance(value, list):
        return [_flat(item) for item in value]
    if isinstance(value, dict):
        return {name: _flat(item) for name, item in value.items()}
    return " ".join(value.split()) if isinstance(value, str) else value


def _texts(value: Json) -> Iterator[str]:
    """Every text in a value, names too."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _told(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    return one_line(f"The answer has the form that is asked for: {place or 'the object'}: {error['msg']}.", 200)


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
