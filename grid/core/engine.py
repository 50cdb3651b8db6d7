"""Engines: the prompts that engines receive, the roles in which engines are asked, and the answers that they give."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol

from grid.core.types import ERRORS, GRADES, ToolSpec, Usage
from grid.core.util import kept

# The answer of a judge of plans (agent_planning_benchmark §C).


PLAN, STEPS = "Plan:", "Predicted steps:"
"""The titles above the judged text: a whole plan, or the predicted next steps of work already started."""


@dataclass(frozen=True)
class VerdictAnswer:
    """A JSON object `{"reasoning", "E1", ..., "E6", "grade", "is_correct"}` is wanted: a `grid.core.types.Verdict`.

    Without `errors` the object is only `{"reasoning", "is_correct"}`. The reasoning is the first key, so that the model
    writes it before its conclusions.
    """

    errors: bool = True


def verdict_properties(answer: VerdictAnswer, reasoning: dict[str, Any]) -> dict[str, Any]:
    """The schemas of the answer's keys, in the keys' order; `reasoning` is the schema of the key `reasoning`."""
    truth: dict[str, Any] = {"type": "boolean"}
    named = dict.fromkeys(ERRORS, truth) | {"grade": {"enum": [*GRADES]}} if answer.errors else {}
    return {"reasoning": reasoning, **named, "is_correct": truth}


# The answers in which whole plans are predicted (agent_planning_benchmark C.2, C.3).


@dataclass(frozen=True)
class ChainAnswer:
    """A JSON object `{"plan", "tool_chain": [{"name", "parameter_description", "reason"}, ...]}` is wanted (C.3).

    The chain has `least` to `most` entries in order. `may_decline`: an entry need not name a tool. `may_refuse`:
    `{"status": "REJECT", "reason"}` is also a valid answer, instead of a plan. `free`: the plan is diagnosed and not
    run, so the schema allows any names and arguments, and only the prompt tells the model which tools exist.
    """

    tools: tuple[ToolSpec, ...]
    least: int
    most: int
    may_decline: bool = False
    may_refuse: bool = False
    free: bool = False


@dataclass(frozen=True)
class MessagesAnswer:
    """Exactly `count` assistant messages are wanted (C.2): a single message as a JSON object, several as a JSON array.

    Each message is `{"role": "assistant", "thought", "tool_calls": [{"type": "function", "function": {"name",
    "arguments"}}]}` with one call, or without a call if no tool is to be called. `may_refuse` and `free` are as in
    ChainAnswer.
    """

    tools: tuple[ToolSpec, ...]
    count: int
    may_refuse: bool = False
    free: bool = False


SectionKind = Literal[
    "role", "notes", "task", "plan", "demonstrations", "memory", "lessons", "history", "tools", "request", "siblings",
    "candidates", "proposal", "outcome", "argument", "texts", "instruction", "functions", "retry", "draft", "errors",
    "critique", "thought", "conversation",
]  # fmt: skip
Home = Literal["task", "replica", "gateway"]
SAMPLE, CHOOSE = "sample", "choose"
NATIVE = "native tool calls"
"""In an engine's `provides`: the engine can receive tools as functions (`functions.py`), for the key `model.tools`."""
MESSAGES = "conversations"
"""In an engine's `provides`: the engine can receive the history as messages, for the key `model.history`."""
Tools = Literal["prompt", "native"]
History = Literal["text", "messages"]


def shown_as(history: History | None, tools: Tools) -> History:
    """The form of the history in prompts: `model.history` or, if that is None, the form that fits `model.tools`.

    Models with native calls receive messages, because they were trained on messages with calls and results.
    """
    return history or ("messages" if tools == "native" else "text")


PLAIN_SAMPLER = '{"top_p":1,"top_k":null,"min_p":0,"repetition_penalty":1}'
"""The sampler that draws tokens from the unmodified distribution softmax(logits / temperature).

Every engine that can draw tokens in this way does so.
"""


_SHORT = 1000  # maximum length, in characters, of a section whose digest is cached by its content


@dataclass(frozen=True)
class Section:
    """One part of a prompt: `entries` are its lines or blocks, in order; `options` are the numbered lines below them.

    The engine numbers the options, so that the numbers in the prompt are the numbers that the engine scores.
    """

    kind: SectionKind
    entries: tuple[str, ...]
    options: tuple[str, ...] = ()

    @kept
    def digest(self) -> str:
        """32 hexadecimal digits that identify the section's content."""
        compute = _digest_of_short if self.characters <= _SHORT else _digest  # short sections are often created again
        return compute(self.kind, self.entries, self.options)

    @kept
    def characters(self) -> int:
        """The number of characters in all lines."""
        return sum(map(len, self.lines()))

    def lines(self, padded: bool = False) -> tuple[str, ...]:
        """The entries, then the options with numbers (`0. text`, `1. text`); `padded`: as in `option_numbers`."""
        return (*self.entries, *_numbered(self.options, padded)) if self.options else self.entries


def _digest(kind: str, entries: tuple[str, ...], options: tuple[str, ...]) -> str:
    text = "\0".join((f"{kind} {len(entries)}", *entries, *options))
    if text.count("\0") > len(entries) + len(options):  # a text contains a separator, so add the lengths
        text = f"{[*map(len, entries)]} {text}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_digest_of_short = lru_cache(maxsize=16_384)(_digest)


@lru_cache(maxsize=4096)  # many prompts offer the same options
def _numbered(options: tuple[str, ...], padded: bool) -> tuple[str, ...]:
    numbers = option_numbers(len(options), padded)
    return tuple(f"{number}. {text}" for number, text in zip(numbers, options, strict=True))


@dataclass(frozen=True)
class TextAnswer:
    """Free text is wanted."""


@dataclass(frozen=True)
class ThoughtAnswer(TextAnswer):
    """A thought about the next step is wanted; its text is used to retrieve tools."""


@dataclass(frozen=True)
class ToolCallAnswer:
    """A JSON object `{"action": {"tool", "arguments"}}` is wanted, with one of `tools`, or no tool if `may_decline`.

    `thought`: the object starts with a key `thought`, whose text has at most this many characters; with 0 there is no
    such key. `native` is the instruction for tools that are passed as functions; `native` replaces the prompt's
    instruction, which describes the object's form. `results` are the references to earlier results that an argument may
    contain; None if the references are not known.
    """

    tools: tuple[ToolSpec, ...]
    may_decline: bool
    thought: int = 0
    native: tuple[str, ...] = ()
    results: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PlanAnswer:
    """A JSON object `{"plan": [{"tool", "arguments"}, ...]}` is wanted: `least` to `most` calls to `tools` in order.

    `may_decline`: an entry need not have a tool. `thought`: as in ToolCallAnswer; one thought comes before the whole
    plan. `native`: as in ToolCallAnswer; one answer contains all calls.
    """

    tools: tuple[ToolSpec, ...]
    least: int
    most: int
    may_decline: bool = False
    thought: int = 0
    native: tuple[str, ...] = ()


@dataclass(frozen=True)
class FunctionsAnswer:
    """Calls of functions are wanted, in the format of the model's chat template or server.

    The prompt's section `functions` defines the functions as JSON, one function per line. `named` contains pairs of a
    function's name and the name of its tool (or NO_TOOL).
    """

    named: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class OutlineAnswer:
    """A JSON object `{"outline": [text, ...]}` with at most `most` substeps is wanted."""

    most: int


@dataclass(frozen=True)
class ScoreAnswer:
    """A JSON object `{"score", "explanation"}` is wanted, where the score is a whole number from 0 to MAX_SCORE."""


@dataclass(frozen=True)
class VoteAnswer:
    """A JSON object `{"best", "explanation"}` is wanted, with `best` a number from 0 to `candidates` - 1."""

    candidates: int


@dataclass(frozen=True)
class SchemaAnswer:
    """A JSON object that fits the caller's own schema is wanted; `schema` is the schema as JSON."""

    schema: str


JsonAnswer = (
    ToolCallAnswer
    | PlanAnswer
    | ChainAnswer
    | MessagesAnswer
    | OutlineAnswer
    | ScoreAnswer
    | VoteAnswer
    | VerdictAnswer
    | SchemaAnswer
)
"""Answers that have a JSON schema."""


@dataclass(frozen=True)
class ChoiceAnswer:
    """The number of an option (from `options`) is wanted; option k is the text numbered k (from 0).

    With `names` (a distinct name for each option, in the options' order), the option's name is wanted, in a tool call
    that starts with `{"action": {"tool": name`.
    """

    options: tuple[str, ...]
    names: tuple[str, ...] = ()


Answer = TextAnswer | JsonAnswer | ChoiceAnswer | FunctionsAnswer


@dataclass(frozen=True)
class Prompt:
    """Sections in the order in which they are rendered (static sections first, so that prefixes are shared)."""

    sections: tuple[Section, ...]
    answer: Answer

    def text(self) -> str:
        """The prompt as plain text, with a blank line between sections."""
        return "\n\n".join("\n".join(section.lines()) for section in self.sections)

    def functions(self) -> list[dict[str, Any]]:
        """The definitions of the functions passed to the engine; empty if the tools are in the prompt's text."""
        return [json.loads(entry) for entry in self.entries("functions")]

    def size(self) -> int:
        """The number of characters in the sections and in the answer's options."""
        lines = sum([section.characters for section in self.sections])
        return lines + (sum(map(len, self.answer.options)) if isinstance(self.answer, ChoiceAnswer) else 0)

    def entries(self, kind: SectionKind) -> tuple[str, ...]:
        """The lines of all sections of one kind."""
        return tuple(line for section in self.sections if section.kind == kind for line in section.lines())


class Source(NamedTuple):
    """Who answered, according to the server: the model, its configuration's fingerprint, and a gateway's provider."""

    model: str | None = None
    fingerprint: str | None = None
    provider: str | None = None


@dataclass(frozen=True)
class Sampled:
    """Completions, their cost, and the computing time in seconds, without waiting time.

    `cut` contains the indices of completions that the token limit cut off. If a server withheld a completion's text,
    the completion is empty, and `withheld` maps its index to the reason given by the server. `sources` says who
    answered, if a server did. If a completion's thought came in a separate key of the server's message, `reasoning`
    maps the completion's index to this key and the thought.
    """

    completions: tuple[str, ...]
    usage: Usage
    computed_seconds: float = field(default=0.0, compare=False)
    cut: frozenset[int] = frozenset()
    sources: frozenset[Source] = field(default=frozenset(), compare=False)
    withheld: Mapping[int, str] = field(default_factory=dict)
    reasoning: Mapping[int, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """The options' probabilities, in the options' order (their sum is 1), and the cost of computing them.

    `unassigned` is the model's probability mass that fell on no option. `error_bound` is the largest error, in total
    variation, that options without a score can cause. `unassigned` and `error_bound` are None if the engine is not a
    language model. `computed_seconds`: the computing time in seconds, without waiting time. `sources`: as in Sampled.
    """

    probabilities: tuple[float, ...]
    usage: Usage
    unassigned: float | None = None
    error_bound: float | None = None
    computed_seconds: float = field(default=0.0, compare=False)
    sources: frozenset[Source] = field(default=frozenset(), compare=False)


class Engine(Protocol):
    """Something that answers prompts. Creating an engine checks its values and loads nothing.

    `provides` lists the abilities of the engine (among SAMPLE, CHOOSE, NATIVE and MESSAGES). `name` is the kind of
    engine, as shown in tables. `home` is the place where the engine lives. A `task` engine lives in every task; it
    costs next to nothing, so a dry run may use it. A `replica` engine has weights and lives in the replicas of a pool.
    A `gateway` engine lives in one actor through which all requests pass, so that its limits apply to the whole sweep.
    """

    @property
    def name(self) -> str:
        """The kind of engine."""
        ...

    @property
    def home(self) -> Home:
        """Where the engine lives."""
        ...

    @property
    def provides(self) -> frozenset[str]:
        """The abilities of the engine as configured: some of SAMPLE, CHOOSE, NATIVE and MESSAGES."""
        ...

    @property
    def version(self) -> str:
        """The version that has to be specified to get the same answers again."""
        ...

    @property
    def sampler(self) -> str | None:
        """The parameters of the distribution from which tokens are drawn, as JSON.

        None if the engine is not a language model.
        """
        ...

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` independent completions; the prompt's tokens count once for each completion.

        Raises:
            ContextError: the prompt does not fit the model's context.
            EngineError: the server or the engine did not answer, after all retries.
            EngineDiedError: the engine no longer answers (only engines with weights).
        """
        ...

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The exact distribution over the options of a ChoiceAnswer, without a sampling temperature.

        Raises the errors of `sample`, and ModelError if no option has any probability.
        """
        ...


def option_numbers(count: int, padded: bool = False) -> tuple[str, ...]:
    """The numbers of `count` options, from 0; `padded`: all numbers are as wide as the last number (`00` to `99`)."""
    width = len(str(count - 1)) if padded else 1
    return tuple(f"{number:0{width}d}" for number in range(count))


# The roles in which engines are asked.


Role = Literal["actor", "judge", "evaluator", "simulator", "critic", "user"]
ACTOR: Role = "actor"
JUDGE: Role = "judge"
"""Gives a planner the scores that the planner asks for."""
EVALUATOR: Role = "evaluator"
"""Decides for the environment which texts mean the same and how good a finished trajectory is; hidden from planners."""
SIMULATOR: Role = "simulator"
"""Simulates, for the environment, tools whose servers cannot be reached. Planners do not see this role."""
CRITIC: Role = "critic"
"""Writes a review of a plan for the planner that wrote it, before the plan is used."""
USER: Role = "user"
"""Plays, for the environment, the user with whom planners talk through a tool."""
OF_WORLD = (EVALUATOR, SIMULATOR, USER)
"""The roles that no planner may ask."""
ASKED: tuple[Role, ...] = (JUDGE, EVALUATOR, SIMULATOR, CRITIC, USER)
"""All roles except the acting role. If a setting has such a role, the role has its own keys, model and columns."""
