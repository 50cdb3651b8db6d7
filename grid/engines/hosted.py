"""An engine that an actor holds, and what it has in hand; and engines that are told the reference."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from grid.core.engine import (
    ACTOR,
    CHOOSE,
    EVALUATOR,
    JUDGE,
    ChoiceAnswer,
    Engine,
    Prompt,
    Role,
    ScoreAnswer,
    Section,
    TextAnswer,
    ToolCallAnswer,
)
from grid.core.errors import ContextError, EngineDiedError, ModelError
from grid.core.problem import Reference
from grid.core.types import Parameter, ToolSpec, Verdict, to_json


@dataclass(frozen=True)
class Occupancy:
    """What an engine has in hand: requests being computed and waiting, and the share of its KV cache in use."""

    running: int
    waiting: int
    kv_cache: float | None = None


class HostedEngine(Engine, Protocol):
    """An engine that an actor holds. Its `sample` and `choose` may raise EngineDiedError: the actor then ends.

    It may also have `replicas`, how many there are to be of it (None: as many as the sweep says), and `bundles`, the
    GPUs of each process that it starts (without: one process has all of `gpus`).
    """

    @property
    def gpus(self) -> float:
        """GPUs that one replica takes: a whole number, a share of one, or 0 on a CPU."""
        ...

    @property
    def environment(self) -> tuple[str, ...]:
        """The names of the driver's environment variables that it needs where it loads."""
        ...

    @property
    def capacity(self) -> int:
        """About how many cases keep one replica busy."""
        ...

    async def load(self) -> None:
        """Make ready to answer, once; raises ConfigError for what can never work."""
        ...

    async def check(self) -> None:
        """Raise EngineDiedError where it will not answer any more; awaits nothing, so that any event loop may ask."""
        ...

    def occupancy(self) -> Occupancy:
        """What it has in hand now."""
        ...


# What this process and its children have written, where their output goes to files, as Ray's workers' does.


_STREAMS = (1, 2)
_MOST_BYTES = 20_000


def sizes() -> dict[int, int]:
    """How much was written so far, by stream."""
    found = {stream: os.fstat(stream) for stream in _STREAMS}
    return {stream: what.st_size for stream, what in found.items() if stat.S_ISREG(what.st_mode)}


def tail(lines: int, since: Mapping[int, int] | None = None) -> list[str]:
    """The last lines written, if asked `since` there was so much; empty where output goes to no file."""
    found: deque[str] = deque(maxlen=lines)
    for stream, size in sizes().items():
        begin = (since or {}).get(stream, 0)
        with open(f"/proc/self/fd/{stream}", "rb") as file:  # its name may be gone
            file.seek(max(size - _MOST_BYTES, begin))
            found.extend(line for line in file.read().decode(errors="replace").splitlines() if line.strip())
    return list(found)


# Whether an engine that has work gets on with it.


STALLED_SECONDS = 120.0
_A_STEP = 5.0  # seconds of processor time: on a CPU one step may take minutes


class Progress:
    """When an engine last made a step; one without a step for `stalled_seconds` while it has requests hangs.

    Read and written by several threads: every value is replaced whole. `requests` are those in hand now.

    Args:
        processor: the seconds of processor time that the engine's process has used, which count as steps; None where
            it computes elsewhere, on a GPU.
        now: a clock in seconds.
    """

    def __init__(self, processor: Callable[[], float] | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.stalled_seconds = STALLED_SECONDS
        self.processor, self._now = processor, now
        self.requests = 0
        self._last, self._used = now(), 0.0

    @contextmanager
    def request(self) -> Iterator[None]:
        """The engine has a request for as long as the block lasts."""
        if not self.requests:
            self.step()  # the time without work does not count
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    def step(self) -> None:
        """A step was made."""
        self._last = self._now()

    def check(self) -> None:
        """Raise EngineDiedError where there is work and no step was made for too long."""
        if self.processor and (used := self.processor()) >= self._used + _A_STEP:
            self._used = used
            self.step()
        still = self._now() - self._last
        if self.requests and still > self.stalled_seconds:
            raise EngineDiedError(f"the engine has made no step for {still:.0f} s while it had requests")


# What engines are asked before a sweep: a call, and a plain choice, of which a share may go to no option at all.


MUCH = 0.5
"""From here on the model does not begin its answers with a number, and what it would choose is not known."""
_FRUIT = (
    "a horse",
    "a hammer",
    "an apple",
    "a river",
    "a window",
    "a shoe",
    "a cloud",
    "a train",
    "a letter",
    "a drum",
    "a stone",
    "a lamp",
)
CLOCK = ToolSpec("get_time", "The time in a city.", (Parameter("city", "string", "The city's name."),))
CALL_PROBE = Prompt((Section("request", ("What time is it in Paris?",)),), ToolCallAnswer((CLOCK,), may_decline=True))
PROBED_WORDS = "Lisbon", "half past nine"
"""What has to be seen of the conversation that is tried: an argument of its call, and the result."""


def conversation_probe(native: bool, reasoning: tuple[str, str] | None = None) -> Prompt:
    """An answer, with a native call or one in words and perhaps a thought, and what the call returned."""
    of = {"role": "tool", "id": "step00000"} if native else {"role": "user"}
    called: dict[str, Any] = {
        "content": to_json({"action": {"tool": CLOCK.name, "arguments": {"city": PROBED_WORDS[0]}}})
    }
    if native:
        call = {"id": of["id"], "name": CLOCK.name, "arguments": {"city": PROBED_WORDS[0]}}
        called = {"content": "", "calls": [call]}
    answer = {"role": "assistant", **called, **dict([reasoning] if reasoning else [])}
    lines = answer, of | {"content": f"Step 0 returned {PROBED_WORDS[1]}"}
    return Prompt((*CALL_PROBE.sections, Section("conversation", tuple(map(to_json, lines)))), CALL_PROBE.answer)


CHOICE_PROBE = Prompt(
    (
        Section("role", ("You answer questions.",)),
        Section("tools", ("Options:",), _FRUIT),
        Section("request", ("Which of the options is a fruit?",)),
        Section("instruction", ("Answer with the number of one option, and nothing else.",)),
    ),
    ChoiceAnswer(_FRUIT),
)
_SCORE = Section("instruction", ('Answer with one JSON object: {"score": 0 to 10, "explanation": why}.',))
_SCORE_PROBE = Prompt((Section("request", ("Judge how well a hammer drives a nail.",)), _SCORE), ScoreAnswer())
_TEXT_PROBE = Prompt((Section("request", ("What is the colour of the sky? Answer with one word.",)),), TextAnswer())


class Probe(NamedTuple):
    """A request as a role will make them: its kind of answer, at its temperature."""

    role: Role
    temperature: float

    @property
    def prompt(self) -> Prompt:
        """What is asked: for a call, for a score, or for words."""
        return {ACTOR: CALL_PROBE, JUDGE: _SCORE_PROBE, EVALUATOR: _SCORE_PROBE}.get(self.role, _TEXT_PROBE)

    @property
    def told(self) -> str:
        """How an error tells of it."""
        own = "its planner's temperature" if self.role == ACTOR else f"{self.role}.temperature"
        whose = "" if self.role == ACTOR else f"; where model@{self.role} is set the key is {self.role}.omit"
        return f"the {self.role} is asked at temperature {self.temperature:g} ({own}{whose})"


class Listing(NamedTuple):
    """What a million tokens cost in US dollars, as somebody's list says: of prompts, of their cached part, of answers.

    `of`: whose list, with its version.
    """

    input: float
    cached: float | None
    output: float
    of: str


@runtime_checkable
class Listed(Protocol):
    """An engine that knows a list of models and prices."""

    def listing(self) -> Listing | None:
        """The model's price; None where the list has none. Raises ConfigError for a model that is not in it."""
        ...


@runtime_checkable
class Probed(Protocol):
    """An engine whose server may refuse what it is asked, so that it is asked before."""

    async def probe(self, probes: Sequence[Probe]) -> None:
        """Ask as will be asked; raises ConfigError for what is refused."""
        ...


async def unassigned(engine: Engine) -> float | None:
    """The probability that a loaded engine gives to no option of a plain question; None where that tells nothing.

    It does not of algorithm 3 as printed: however a model begins its answers, one-digit numbers have none there.
    """
    if CHOOSE not in engine.provides or getattr(engine, "printed_form", False):
        return None
    try:
        return (await engine.choose(CHOICE_PROBE, seed=0)).unassigned
    except ModelError:
        return 1.0  # not one option has any
    except ContextError:
        return None


def warning(label: str, share: float | None) -> str | None:
    """What to tell the user of a model of that label; None where all is well."""
    if share is None or share <= MUCH:
        return None
    name = label.partition("[")[0]
    return (
        f"warning: {label} puts {share:.2f} of its probability on none of twelve numbered options of a plain question: "
        f"it does not begin answers with a number, and choices (`unassigned` in the tables) rest on the little that is "
        f"left. See conf/model/{name}.yaml: chat_template_kwargs turns thinking off ({{enable_thinking: false}}; over "
        "HTTP extra.chat_template_kwargs), answer_prefix goes in front of an answer (a channel, an empty thought)"
    )


# Stretches of time, as (begin, end) of one clock in seconds.


Span = tuple[float, float]


def covered(spans: Iterable[Span]) -> float:
    """The seconds that lie in at least one of the spans."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total


# Engines that must be told a case's reference, and what is expected of a single pass.
#
# The run layer tells them, cell by cell; planners never see a reference, nor the engine that knows it.


class Stage(NamedTuple):
    """One step of a pass, as far as it decides how the pass ends.

    `needed`: the pass fails where this step is not the reference's. `calls`: it takes a tool, which is `offered`.
    `arguments`: its call can have wrong ones. `forgiven`: a misspelt name in them is read as it was meant. `uses`: the
    places of the stages whose outputs its call takes. `others`: how many wrong options it has, to call none among them;
    0 where it has to call one.
    """

    needed: bool
    calls: bool
    offered: bool = True
    arguments: bool = True
    forgiven: bool = False
    uses: tuple[int, ...] = ()
    others: int = 0


class SinglePass(NamedTuple):
    """A pass that decides every stage once.

    `answers`: so many different ones are asked for before what cannot be read is a failure, which ends the pass where
    it is `fatal`. `blind`: all stages but the first are decided without observations. `replans`: a plan is made of all
    stages, and so many times another of those that are left, when a call failed; None: stages are decided one by one.
    `outlined`: the last stage ends the pass; otherwise one more decision does.
    """

    stages: Sequence[Stage]
    answers: int = 1
    fatal: bool = False
    blind: bool = False
    replans: int | None = None
    outlined: bool = True


@runtime_checkable
class Informed(Protocol):
    """What an engine has besides `Engine` that needs a reference."""

    def told(self, reference: Reference, tools: Mapping[str, ToolSpec], seed: int) -> Engine:
        """The engine for one cell. `tools` is the library; `seed` drives what all trials and planners share."""
        ...

    def expected(self, single: SinglePass) -> float:
        """The probability that a single pass succeeds, over all that is drawn."""
        ...


@runtime_checkable
class Knowing(Protocol):
    """What an engine has besides `Engine` that judges plans with a planted accuracy, and so needs to know the truth."""

    def knowing(self, truth: Verdict, seed: int) -> Engine:
        """The engine for the questions about one plan, of which this is true; the same seed says the same."""
        ...
