"""The load, log, progress and probes of an engine in an actor; also the interfaces of engines that need a reference."""

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
    """An engine's load: the numbers of running and waiting requests, and the share of its KV cache in use."""

    running: int
    waiting: int
    kv_cache: float | None = None


class HostedEngine(Engine, Protocol):
    """The engine in an actor; if the engine's `sample` or `choose` raises EngineDiedError, the actor ends.

    The engine may also have `replicas`, the number of its replicas (None: as many as the sweep sets), and `bundles`,
    the GPUs of each process that it starts (without `bundles`, one process has all of `gpus`).
    """

    @property
    def gpus(self) -> float:
        """The GPUs that one replica needs: a whole number, a share of one GPU, or 0 on a CPU."""
        ...

    @property
    def environment(self) -> tuple[str, ...]:
        """The names of the driver's environment variables that the engine needs in the process that loads it."""
        ...

    @property
    def capacity(self) -> int:
        """The approximate number of cases that keep one replica busy."""
        ...

    async def load(self) -> None:
        """Prepare to answer, once; raises ConfigError if the engine can never work as configured."""
        ...

    async def check(self) -> None:
        """Raise EngineDiedError if the engine can no longer answer.

        The method awaits nothing, so that any event loop may call it.
        """
        ...

    def occupancy(self) -> Occupancy:
        """The engine's current load."""
        ...


# The output of this process and its children, if the output goes to files, as it does in Ray's workers.


_STREAMS = (1, 2)
_MOST_BYTES = 20_000


def sizes() -> dict[int, int]:
    """The number of bytes written so far to each stream (1 and 2) that goes to a file."""
    found = {stream: os.fstat(stream) for stream in _STREAMS}
    return {stream: what.st_size for stream, what in found.items() if stat.S_ISREG(what.st_mode)}


def tail(lines: int, since: Mapping[int, int] | None = None) -> list[str]:
    """The last `lines` lines that this process and its children wrote; empty if their output does not go to files.

    Standard output comes before standard error. Blank lines are left out, and only the last `_MOST_BYTES` of a stream
    are read. With `since`, only the lines written after the streams had these sizes are returned.
    """
    found: deque[str] = deque(maxlen=lines)
    for stream, size in sizes().items():
        begin = (since or {}).get(stream, 0)
        with open(f"/proc/self/fd/{stream}", "rb") as file:  # the file may have been renamed or deleted
            file.seek(max(size - _MOST_BYTES, begin))
            found.extend(line for line in file.read().decode(errors="replace").splitlines() if line.strip())
    return list(found)


# Checks that an engine with requests makes progress.


STALLED_SECONDS = 120.0
_A_STEP = 5.0  # seconds of processor time that count as a step: on a CPU one step may take minutes


class Progress:
    """The time of an engine's last step; an engine hangs if it has requests and makes no step for `stalled_seconds`.

    Several threads read and write an instance, so every value is replaced as a whole. `requests` is the number of
    current requests.

    Args:
        processor: returns the processor time, in seconds, that the engine's process has used; the use of at least
            `_A_STEP` seconds since the last such step counts as a step. None if the engine computes on a GPU.
        now: a clock in seconds.
    """

    def __init__(self, processor: Callable[[], float] | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self.stalled_seconds = STALLED_SECONDS
        self.processor, self._now = processor, now
        self.requests = 0
        self._last, self._used = now(), 0.0

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count one more request of the engine while the `with` block runs."""
        if not self.requests:
            self.step()  # idle time does not count
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1

    def step(self) -> None:
        """Record that the engine has made a step."""
        self._last = self._now()

    def check(self) -> None:
        """Raise EngineDiedError if there are requests but the engine has made no step for too long."""
        if self.processor and (used := self.processor()) >= self._used + _A_STEP:
            self._used = used
            self.step()
        still = self._now() - self._last
        if self.requests and still > self.stalled_seconds:
            raise EngineDiedError(f"the engine has made no step for {still:.0f} s while it had requests")


# The requests that engines get before a sweep: one asks for a call, another for a simple choice, which shows how much
# probability goes to no option at all.


MUCH = 0.5
"""If `unassigned` is above this share, the model does not begin its answers with a number, so its choice is unknown."""
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
"""Texts from the probe's conversation that a rendered prompt must contain: the call's argument and its result."""


def conversation_probe(native: bool, reasoning: tuple[str, str] | None = None) -> Prompt:
    """A prompt with an earlier answer (a call, native or as text, perhaps after a thought) and the call's result."""
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
    """A request like those that a role will make, with the role's kind of answer and temperature."""

    role: Role
    temperature: float

    @property
    def prompt(self) -> Prompt:
        """The request's prompt, which asks for a call, a score or a text."""
        return {ACTOR: CALL_PROBE, JUDGE: _SCORE_PROBE, EVALUATOR: _SCORE_PROBE}.get(self.role, _TEXT_PROBE)

    @property
    def told(self) -> str:
        """The description of the request in an error message."""
        own = "its planner's temperature" if self.role == ACTOR else f"{self.role}.temperature"
        whose = "" if self.role == ACTOR else f"; if model@{self.role} is set, the key is {self.role}.omit"
        return f"the {self.role} is asked at temperature {self.temperature:g} ({own}{whose})"


class Listing(NamedTuple):
    """The listed prices per million tokens, in US dollars: for prompts, the cached part of prompts, and answers.

    `of`: the owner and version of the price list.
    """

    input: float
    cached: float | None
    output: float
    of: str


@runtime_checkable
class Listed(Protocol):
    """An engine that has a list of models and prices."""

    def listing(self) -> Listing | None:
        """The model's price; None if the list has no price. Raises ConfigError for a model that is not in the list."""
        ...


@runtime_checkable
class Probed(Protocol):
    """An engine whose server may refuse requests, which is why some requests are tried before a sweep."""

    async def probe(self, probes: Sequence[Probe]) -> None:
        """Try requests like those of the sweep; raises ConfigError if one is refused."""
        ...


async def unassigned(engine: Engine) -> float | None:
    """The share of probability that a loaded engine gives to texts other than the options of a simple question.

    The result is None if the share cannot be measured: the engine provides no choices, the context is too small, or
    algorithm 3 is used as printed, which gives one-digit numbers no probability, however a model begins its answers. It
    is 1 if no option has any probability. All errors of `choose` but ModelError and ContextError are raised.
    """
    if CHOOSE not in engine.provides or getattr(engine, "printed_form", False):
        return None
    try:
        return (await engine.choose(CHOICE_PROBE, seed=0)).unassigned
    except ModelError:
        return 1.0  # no option has any probability
    except ContextError:
        return None


def warning(label: str, share: float | None) -> str | None:
    """The warning that the model with this label leaves a `share` above MUCH unassigned; None for any other share."""
    if share is None or share <= MUCH:
        return None
    name = label.partition("[")[0]
    return (
        f"warning: {label} gives {share:.2f} of its probability (`unassigned` in the tables) to texts other "
        f"than the twelve numbered options of a plain question. It does not begin answers with a number, so choices "
        f"rest on the little probability that is left. In conf/model/{name}.yaml, chat_template_kwargs can turn "
        "thinking off ({enable_thinking: false}; for a model over HTTP, extra.chat_template_kwargs), and "
        "answer_prefix can begin every answer with a given text, such as a channel or an empty thought"
    )


# Time spans, as pairs (begin, end) in seconds of the same clock.


Span = tuple[float, float]


def covered(spans: Iterable[Span]) -> float:
    """The number of seconds covered by at least one of the spans."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return total


# Engines that need a case's reference, and the expected success of a single pass.
#
# The run layer gives these engines the reference for each cell; planners see neither a reference nor an engine that
# knows one.


class Stage(NamedTuple):
    """One step of a pass, with the properties that affect whether the pass succeeds.

    `needed`: the pass fails if this step differs from the reference's step. `calls`: the step calls a tool. `offered`:
    the called tool is among the options. `arguments`: the step's call can have wrong arguments. `forgiven`: a misspelt
    name in the arguments is read as intended. `uses`: the indices of the stages whose outputs the call takes. `others`:
    the number of wrong options at this step, counting the option to call no tool; 0 if a tool must be called.
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

    `answers`: a decision fails after this number of unreadable answers; if `fatal`, that failure ends the pass.
    `blind`: all stages but the first are decided without observations. `replans`: the maximum number of new plans, if
    stages are planned: one plan has all stages, and after a failed call a new plan has the remaining stages; None:
    stages are decided one by one. `outlined`: the last stage ends the pass; otherwise one more decision ends it.
    """

    stages: Sequence[Stage]
    answers: int = 1
    fatal: bool = False
    blind: bool = False
    replans: int | None = None
    outlined: bool = True


@runtime_checkable
class Informed(Protocol):
    """The additional methods of an engine that needs a reference."""

    def told(self, reference: Reference, tools: Mapping[str, ToolSpec], seed: int) -> Engine:
        """The engine for one cell. `tools` is the library; `seed` is for draws that all trials and planners share."""
        ...

    def expected(self, single: SinglePass) -> float:
        """The probability, over all random draws, that a single pass succeeds."""
        ...


@runtime_checkable
class Knowing(Protocol):
    """The additional method of an engine that judges plans with a planted accuracy, and so needs to know the truth."""

    def knowing(self, truth: Verdict, seed: int) -> Engine:
        """The engine for questions about a plan whose true verdict is `truth`; the same seed gives the same answers."""
        ...
