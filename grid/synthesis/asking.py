"""Asking the model for a stage's items: answers are checked by rules, repaired, saved, and never asked for twice."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from grid.core.engine import ACTOR, Engine, Prompt, SchemaAnswer, Section
from grid.core.errors import ContextError, DataError, ModelError, StoreError, UnfinishedError, one_line
from grid.core.types import Json, Usage, to_json
from grid.core.untrusted import loads, shown
from grid.core.util import derive_seed
from grid.settings.roles import Price, money
from grid.text.answers import only_one
from grid.text.objects import UnreadableError
from grid.text.words import stems
from grid.worlds.equivalence import equivalent

# A stage's file: each line holds one answer of the model, with the answer's cost and the rules that it broke.


Key = tuple[str, int, str]
"""The item's key, the number of the attempt, and the digest of the prompt."""


class Broken(BaseModel):
    """A rule that an answer breaks: the name of the rule's gate, and a text on how to repair the answer."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    gate: str
    text: str


class Line(BaseModel):
    """One answer of the model, as a line of the journal.

    `prompt` is a digest (16 hexadecimal digits) of the request and its parameters. Tokens are null if the server did
    not report them. `money` is in US dollars, or null if the price or the tokens are unknown. `answer` is the unchanged
    text, and `refused` has the rules that the answer breaks; it is empty if the answer was kept.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    item: str
    attempt: int
    prompt: str
    seed: int
    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    money: float | None
    answer: str
    refused: list[Broken]

    @property
    def key(self) -> Key:
        """The key under which the journal has the line."""
        return self.item, self.attempt, self.prompt


class Journal:
    """The answers of one stage; each answer is saved to disk before it is used.

    If a process died while writing the last line, the incomplete line is removed, and a message says so.

    Raises:
        DataError: a line is not valid, or two lines answer the same request.
        StoreError: the file cannot be read or, if it is to be repaired or extended, written.
    """

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path = path
        self.lines: dict[Key, Line] = {}
        if path.exists():
            self._read(say)

    def find(self, key: Key) -> Line | None:
        """The answer to a request; None if the model has not given one yet."""
        return self.lines.get(key)

    def add(self, line: Line) -> None:
        """Append one more answer."""
        self.lines[line.key] = line
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(_written(line))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be written ({error.strerror})") from None

    def close(self, refused: Mapping[Key, list[Broken]]) -> None:
        """Rewrite the file in the order of its keys, with the rules that the used answers now break."""
        for key, broken in refused.items():
            self.lines[key] = self.lines[key].model_copy(update={"refused": broken})
        write(self.path, b"".join(_written(self.lines[key]) for key in sorted(self.lines)))

    def _read(self, say: Callable[[str], None]) -> None:
        try:
            data = self.path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            if len(whole) < len(data):
                say(f"{self.path}: the last line is incomplete; it is removed, and its answer is asked for again")
                os.truncate(self.path, len(whole))
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be read or repaired ({error.strerror})") from None
        for number, text in enumerate(whole.split(b"\n")[:-1], 1):
            try:
                line = Line.model_validate(loads(text))
            except (ValidationError, ValueError, RecursionError) as error:
                why = str(error).split("\n", 1)[0]
                raise DataError(
                    self.path, number, f"not a line of this pipeline ({why}); remove the line or the file"
                ) from None
            if line.key in self.lines:
                raise DataError(self.path, number, f"the file has {line.item} attempt {line.attempt} twice")
            self.lines[line.key] = line


def write(path: Path, data: bytes) -> None:
    """Write a file completely, or leave the existing one unchanged; raises StoreError."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from None


def as_line(value: Any) -> bytes:
    """A value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def _written(line: Line) -> bytes:
    return json.dumps(line.model_dump()).encode() + b"\n"  # in ASCII, since an answer may contain unpaired surrogates


# The request for one item of a stage: its prompt, its schema, and the rules that check the answer.


T = TypeVar("T")
NO_JSON, CHARACTERS, FORM = "JSON", "characters", "form"
_SHOWN = 20  # maximum number of rules that a repair names


@dataclass(frozen=True)
class Checked(Generic[T]):
    """An answer's products that break no rule, and the rules that its other products break."""

    kept: tuple[T, ...]
    broken: tuple[Broken, ...]


@dataclass(frozen=True)
class Item(Generic[T]):
    """One answer that a stage needs.

    Args:
        key: the item's name within the stage.
        sections: the prompt up to and including the item's task.
        form: the lines that describe the form of the answer.
        schema: the JSON schema of this form.
        check: a function that reads an answer of this form; raises ValidationError for any other form.
        wanted: the number of products that one answer should have.
    """

    key: str
    sections: tuple[Section, ...]
    form: tuple[str, ...]
    schema: Mapping[str, Any]
    check: Callable[[Mapping[str, Json]], Checked[T]]
    wanted: int = 1


def prompt_of(item: Item[Any], broken: Sequence[Broken] = (), draft: str | None = None) -> Prompt:
    """An item's prompt. After a refused answer, the prompt includes this answer as a draft, and the broken rules."""
    sections = [*item.sections]
    if draft is not None:
        sections.append(Section("draft", ("Your last answer was:", draft or "(nothing)")))
    if broken:
        rules = [f"- {one.text}" for one in broken[:_SHOWN]]
        sections.append(Section("errors", ("Your last answer was refused, because of these rules:", *rules)))
        sections.append(Section("retry", ("Write the whole answer again. It must follow all rules.",)))
    sections.append(Section("instruction", item.form))
    return Prompt(tuple(sections), SchemaAnswer(to_json(item.schema)))


def read(item: Item[T], text: str) -> Checked[T]:
    """Read an answer: its products, and the rules that it breaks."""
    try:
        answer = only_one(text, lambda value: value if isinstance(value, dict) else None, "it contains no JSON object")
    except UnreadableError as error:
        return Checked((), (Broken(gate=NO_JSON, text=f"The answer must be one JSON object: {one_line(error, 200)}."),))
    flat = {name: _flat(value) for name, value in answer.items()}
    if any(shown(text) != text for text in _texts(flat)):
        return Checked((), (Broken(gate=CHARACTERS, text="Texts must not contain invisible characters."),))
    try:
        return item.check(flat)
    except ValidationError as error:
        return Checked((), tuple(Broken(gate=FORM, text=_told(one)) for one in error.errors()[:_SHOWN]))


def _flat(value: Json) -> Json:
    """The value, with every text on one line."""
    if isinstance(value, list):
        return [_flat(item) for item in value]
    if isinstance(value, dict):
        return {name: _flat(item) for name, item in value.items()}
    return " ".join(value.split()) if isinstance(value, str) else value


def _texts(value: Json) -> Iterator[str]:
    """Every text in a value, including objects' keys."""
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
    return one_line(f"The answer must have the form that was asked for: {place or 'the object'}: {error['msg']}.", 200)


# Asking the model for a stage's items: answers are checked by rules, repaired, and never asked for twice.


R = TypeVar("R")
LENGTH = "context"
_DIGITS = 16


@dataclass
class Settled(Generic[T]):
    """An item after its last attempt. The attempt with the most products counts; among equals, the first one.

    `dropped` has the rules that this item's products break together with other items' products.
    """

    item: Item[T]
    tries: list[tuple[Line, Checked[T]]]
    dropped: list[Broken] = field(default_factory=list)

    @property
    def best(self) -> int:
        """The index of the attempt that counts."""
        return max(range(len(self.tries)), key=lambda index: (len(self.tries[index][1].kept), -index))

    def draft(self) -> str | None:
        """The last answer, to be repaired; None if it repeats an earlier one, since the model would copy it again."""
        answers = [line.answer for line, _ in self.tries]
        return answers[-1] if answers and answers[-1] not in answers[:-1] else None

    @property
    def products(self) -> tuple[T, ...]:
        """The products that break no rule, from the attempt that counts."""
        return self.tries[self.best][1].kept


@dataclass(frozen=True)
class How:
    """The parameters of every request, including `model`, the model's config.

    All but `repairs` (the number of further attempts after a refused answer) and `at_once` (the maximum number of
    requests in flight) are part of a request's digest.
    """

    model: Mapping[str, Any]
    seed: int
    repairs: int
    temperature: float
    max_tokens: int
    at_once: int


@dataclass
class Stage:
    """The requests of one stage and their results."""

    name: str
    journal: Journal
    settled: list[Settled[Any]] = field(default_factory=list)
    asked: int = 0
    """The number of answers that this process has requested from the model."""


class Asker:
    """Runs stages one after another; the model is only asked for answers that are not yet in a stage's file.

    Args:
        folder: the folder of the stages' files.
        how: how the model is asked.
        engine: prepares the engine when the first answer is needed.
        price: the price of the model's tokens, if known.
        say: shows a line to the user.
        progress: shows the progress of the current stage.
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
        """Run a stage's lanes concurrently; returns their products, in the order of the lanes.

        The stage stays the current one until `end` is called.

        Raises:
            EngineError: the model does not answer. Earlier answers are kept.
            DataError, StoreError: as for `Journal`.
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
        """Close the current stage's file, and print a line about the stage's results.

        Raises:
            UnfinishedError: none of the products was kept.
            StoreError: the stage's file cannot be written.
        """
        stage = self.stages[-1]
        lines: dict[Key, list[Broken]] = {
            line.key: [*checked.broken] for one in stage.settled for line, checked in one.tries
        }
        stage.journal.close(lines)
        wanted = sum(one.item.wanted for one in stage.settled)
        kept = sum(len(one.products) - len(one.dropped) for one in stage.settled)
        left = len(stage.journal.lines) - len(lines)
        unused = f"; {left} earlier answers to other requests are not used" if left else ""
        known = len(lines) - stage.asked
        self._say(
            f"{stage.name}: {kept} of {wanted} kept, {stage.asked} new answers, {known} from earlier runs{unused}"
        )
        if wanted and not kept:
            raise UnfinishedError(_nothing(stage, wanted))

    async def settle(self, item: Item[T]) -> Settled[T]:
        """Ask for an item until an answer breaks no rule, or until all allowed repairs are used."""
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
        """The answer, its usage, and None if there was no error.

        After an error: an empty text, no usage, and the error as a broken rule.
        """
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
        """The digest of a request: its prompt, its parameters and the model."""
        how = [self._how.model, self._how.temperature, self._how.max_tokens, seed]
        text = to_json([*(section.digest for section in prompt.sections), prompt.answer.schema, how])  # type: ignore[union-attr]
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def kept(settled: Sequence[Settled[T]], rule: Callable[[T], Broken | None]) -> list[T]:
    """The products that break no rule in combination with earlier products; the others are dropped."""
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
    """The message about a stage that kept no product."""
    gates = Counter(
        gate for one in stage.settled for _, checked in one.tries for gate in {broken.gate for broken in checked.broken}
    )
    gates.update(broken.gate for one in stage.settled for broken in one.dropped)
    answers = sum(len(one.tries) for one in stage.settled)
    said = ", ".join(f"{gate} {count}" for gate, count in gates.most_common())
    example = next((line.answer for one in stage.settled for line, checked in one.tries if checked.broken), "")
    return (
        f"stage {stage.name}: none of {wanted} was kept after {answers} answers; these rules refused them: {said}. "
        f"One answer begins '{one_line(example, 80)}'. All answers are in {stage.journal.path}, and those of earlier "
        "stages are in their own files; more repairs (repairs=), another seed or a stronger model may help"
    )


# Rules that several stages use: on names, on texts, and on values that must occur in a text.


NAME = r"[a-z][a-z0-9]*(_[a-z0-9]+){1,4}"
FIELD = r"[a-z][a-z0-9]*(_[a-z0-9]+){0,4}"
LONGEST = 64  # maximum length of a name, in characters
_FEW_RUNS = 3  # minimum number of shared runs of three words; fewer may be chance
TYPES = ("string", "integer", "number", "boolean", "date")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DATES = re.compile(
    r"\d{4}-\d\d?-\d\d?|\d\d?/\d\d?/\d{2,4}"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d{1,2}(?:st|nd|rd|th)?(?:,? \d{4})?"
    r"|\d{1,2}(?:st|nd|rd|th)?(?: of)? (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?(?:,? \d{4})?",
    re.I,
)
_NUMBERS = re.compile(r"(?<![\w.,-])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w-])|(?<![\w.,-])-?\d+(?:\.\d+)?(?![\w-])")
_COUNTS = dict(
    enumerate(("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), 2)
)
_QUOTES = str.maketrans("“”‘’", "\"\"''")
_VAGUE = {"process", "handle", "manage", "perform", "execute", "run", "do", "general", "generic"} | {
    "request", "query", "task", "data", "operation", "action", "job",
}  # fmt: skip


def broken(gate: str, text: str) -> Broken:
    """A broken rule, with the gate's name and the text for the model."""
    return Broken(gate=gate, text=text)


def normal(text: str) -> str:
    """A text normalised for comparisons: without case, punctuation, endings and stop words, but with its numbers."""
    return " ".join([*stems(text), *re.findall(r"\d+", text)])


def copied(text: str, examples: Iterable[str], label: str) -> Iterator[Broken]:
    """Yield a broken rule if a text repeats a prompt's example, or much of its wording, as small models often do."""
    said = _runs(text)
    for example in examples:
        there = _runs(example)
        shared = len(said & there)
        if normal(text) == normal(example) or (shared >= _FEW_RUNS and 2 * shared >= min(len(said), len(there))):
            yield broken("example", f"{label} repeats the example's: {text:.60}. Write it for this domain.")
            return


def _runs(text: str) -> set[tuple[str, ...]]:
    """Every sequence of three words in a text."""
    words = re.findall(r"\w+", text.casefold())
    return {*zip(words, words[1:], words[2:], strict=False)}


def name_problems(name: str) -> Iterator[Broken]:
    """The rules that a tool's name breaks."""
    if not re.fullmatch(NAME, name) or len(name) > LONGEST:
        yield broken("name", f"Tool names must be snake_case with two to five words; {name!r:.60} is not.")
    elif set(name.split("_")) <= _VAGUE:
        yield broken("vague", f"A tool must do one specific thing; {name} could do anything.")


def stands_in(value: Json, text: str) -> bool:
    """Whether a text states a value: words and codes literally, numbers and dates in any form; true for booleans.

    Case, white space and the form of quotes do not matter. A list is stated if all its items are; null, objects and
    empty texts never are.
    """
    if isinstance(value, bool):
        return True
    if isinstance(value, int | float):
        word = _COUNTS.get(int(value)) if value == int(value) else None
        spelled = word is not None and re.search(rf"\b{word}\b", text, re.I) is not None
        return spelled or any(equivalent(value, found) for found in _NUMBERS.findall(text))
    if isinstance(value, list):
        return all(stands_in(item, text) for item in value)
    if not isinstance(value, str) or not value.strip():
        return False
    if DATE.fullmatch(value):
        return any(equivalent(value, found, "date") for found in _DATES.findall(text))
    return re.search(rf"(?<!\w){re.escape(_folded(value))}(?!\w)", _folded(text)) is not None


def fits(value: Json, kind: str) -> bool:
    """Whether a value has an argument's type."""
    match kind:
        case "integer":
            return type(value) is int
        case "number":
            return type(value) in (int, float)
        case "boolean":
            return type(value) is bool
        case "date":
            return isinstance(value, str) and DATE.fullmatch(value) is not None
        case _:
            return isinstance(value, str) and bool(value.strip())


def _folded(text: str) -> str:
    return " ".join(text.translate(_QUOTES).split()).casefold()
