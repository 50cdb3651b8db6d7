"""Engines: the prompts that they get, the roles in which they are asked, and their answers."""

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
"""The titles of a whole plan that is judged, and of the next steps of work that has begun."""


@dataclass(frozen=True)
class VerdictAnswer:
    """A JSON object `{"reasoning", "E1", ..., "E6", "grade", "is_correct"}` is wanted: a `grid.core.types.Verdict`.

    Without `errors` it is `{"reasoning", "is_correct"}` alone. The reasoning comes first, so that the conclusions can
    follow from it.
    """

    errors: bool = True


def verdict_properties(answer: VerdictAnswer, reasoning: dict[str, Any]) -> dict[str, Any]:
    """The schemas of the keys, in their order; `reasoning` is the schema of the text."""
    truth: dict[str, Any] = {"type": "boolean"}
    named = dict.fromkeys(ERRORS, truth) | {"grade": {"enum": [*GRADES]}} if answer.errors else {}
    return {"reasoning": reasoning, **named, "is_correct": truth}


# The answers in which whole plans are predicted (agent_planning_benchmark C.2, C.3).


@dataclass(frozen=True)
class ChainAnswer:
    """A JSON object `{"plan", "tool_chain": [{"name", "parameter_description", "reason"}, ...]}` is wanted (C.3).

    The chain has `least` to `most` entries in order. `may_decline`: an entry may name no tool. `may_refuse`:
    `{"status": "REJECT", "reason"}` instead of a plan is an answer too. `free`: the plan is diagnosed and not run, so
    any names and arguments are allowed: the answer itself has to know which tools there are.
    """

    tools: tuple[ToolSpec, ...]
    least: int
    most: int
    may_decline: bool = False
    may_refuse: bool = False
    free: bool = False


@dataclass(frozen=True)
class MessagesAnswer:
    """Exactly `count` messages of an assistant are wanted (C.2), as a JSON object or, of several, as a JSON array.

    Each is `{"role": "assistant", "thought", "tool_calls": [{"type": "function", "function": {"name", "arguments"}}]}`
    with one call, or with none if nothing is to be called. `may_refuse` and `free` are as in ChainAnswer.
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
"""The ability of an engine to get tools as functions (`functions.py`), in its `provides`: the key `model.tools`."""
MESSAGES = "conversations"
"""The ability of an engine to get the history as messages, in its `provides`: the key `model.history`."""
Tools = Literal["prompt", "native"]
History = Literal["text", "messages"]


def shown_as(history: History | None, tools: Tools) -> History:
    """The form in which a model is shown the history: as `model.history` says, else according to how it gets tools.

    Models with native calls were trained on messages with calls and results.
    """
    return history or ("messages" if tools == "native" else "text")


PLAIN_SAMPLER = '{"top_p":1,"top_k":null,"min_p":0,"repetition_penalty":1}'
"""Tokens are drawn from softmax(logits / temperature) and nothing else; every engine does this if it can."""


_SHORT = 1000  # characters of a section, at most, whose digest is cached by its content


@dataclass(frozen=True)
class Section:
    """One part of a prompt: `entries` are its lines or blocks, in order, `options` the numbered lines below them.

    The engine numbers the options, so that the numbers shown are those that it scores.
    """

    kind: SectionKind
    entries: tuple[str, ...]
    options: tuple[str, ...] = ()

    @kept
    def digest(self) -> str:
        """32 hexadecimal digits of its content."""
        compute = _digest_of_short if self.characters <= _SHORT else _digest  # short ones are often made anew
        return compute(self.kind, self.entries, self.options)

    @kept
    def characters(self) -> int:
        """The characters of all lines; those of options, which many prompts share, are counted once."""
        return sum(map(len, self.lines()))

    def lines(self, padded: bool = False) -> tuple[str, ...]:
        """All lines, the options numbered from `0. text` on; `padded`: numbered as by `option_numbers`."""
        return (*self.entries, *_numbered(self.options, padded)) if self.options else self.entries


def _digest(kind: str, entries: tuple[str, ...], options: tuple[str, ...]) -> str:
    text = "\0".join((f"{kind} {len(entries)}", *entries, *options))
    if text.count("\0") > len(entries) + len(options):  # a text contains a separator: the lengths must be part of it
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
    """A thought about the next step is wanted: tools are retrieved by its words."""


@dataclass(frozen=True)
class ToolCallAnswer:
    """A JSON object `{"action": {"tool", "arguments"}}` is wanted, with one of `tools`, or no tool if `may_decline`.

    `thought`: a key of that name comes first, with so many characters at most; 0 for none. `native` is the instruction
    if tools are handed over as functions; it replaces the prompt's instruction, which describes the object's form.
    `results` are the earlier results that an argument may take; None if they are not known.
    """

    tools: tuple[ToolSpec, ...]
    may_decline: bool
    thought: int = 0
    native: tuple[str, ...] = ()
    results: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PlanAnswer:
    """A JSON object `{"plan": [{"tool", "arguments"}, ...]}` is wanted: `least` to `most` calls of `tools` in order.

    `may_decline`: an entry may have no tool. `thought`: as in ToolCallAnswer, before the whole plan. `native`: as in
    ToolCallAnswer; all calls are in one answer.
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

    The prompt's section `functions` defines them as JSON, one per line. `named` has pairs of a function's name and the
    name of its tool, or NO_TOOL.
    """

    named: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class OutlineAnswer:
    """A JSON object `{"outline": [text, ...]}` is wanted, of `most` substeps at most."""

    most: int


@dataclass(frozen=True)
class ScoreAnswer:
    """A JSON object `{"score", "explanation"}` is wanted, the score a whole number from 0 to MAX_SCORE."""


@dataclass(frozen=True)
class VoteAnswer:
    """A JSON object `{"best", "explanation"}` is wanted, with `best` a number from 0 to `candidates` - 1."""

    candidates: int


@dataclass(frozen=True)
class SchemaAnswer:
    """A JSON object under a schema of the caller's own is wanted; `schema` is that schema, as JSON."""

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
    """One of `options` is wanted by its number; option k is the text numbered k (from 0).

    With `names` (the names of the options in their order, no two alike) the option is wanted by its name instead, in a
    tool call that begins with `{"action": {"tool": name`.
    """

    options: tuple[str, ...]
    names: tuple[str, ...] = ()


Answer = TextAnswer | JsonAnswer | ChoiceAnswer | FunctionsAnswer


@dataclass(frozen=True)
class Prompt:
    """Sections in the order in which they are rendered (static ones first, so that prefixes are shared)."""

    sections: tuple[Section, ...]
    answer: Answer

    def text(self) -> str:
        """The prompt as plain text, a blank line between sections."""
        return "\n\n".join("\n".join(section.lines()) for section in self.sections)

    def functions(self) -> list[dict[str, Any]]:
        """The definitions of the functions that are handed over; none if the tools are in the prompt's text."""
        return [json.loads(entry) for entry in self.entries("functions")]

    def size(self) -> int:
        """Characters of the sections and of the answer's options."""
        lines = sum([section.characters for section in self.sections])
        return lines + (sum(map(len, self.answer.options)) if isinstance(self.answer, ChoiceAnswer) else 0)

    def entries(self, kind: SectionKind) -> tuple[str, ...]:
        """All lines of one kind of section."""
        return tuple(line for section in self.sections if section.kind == kind for line in section.lines())


class Source(NamedTuple):
    """Who answered, as the server says: the model's name, its configuration's fingerprint, and a gateway's provider."""

    model: str | None = None
    fingerprint: str | None = None
    provider: str | None = None


@dataclass(frozen=True)
class Sampled:
    """Completions, what they cost, and the seconds of their computation, without waiting.

    `cut` has the places of completions that the limit on tokens ended. `withheld` has, by place, the server's words
    about completions whose text it kept back (they are empty). `sources` says who answered, if a server did.
    `reasoning` has, by the completion's place, the key in the server's message that held a thought, and the thought.
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
    """The probability of each option (sums to 1, in the options' order), and what it cost.

    `unassigned` is the model's probability that went to no option. `error_bound` bounds the error, in total variation,
    that can come from options left unscored. Both are None if the engine is no language model. `computed_seconds`: the
    seconds of its computation, without waiting. `sources`: as in Sampled.
    """

    probabilities: tuple[float, ...]
    usage: Usage
    unassigned: float | None = None
    error_bound: float | None = None
    computed_seconds: float = field(default=0.0, compare=False)
    sources: frozenset[Source] = field(default=frozenset(), compare=False)


class Engine(Protocol):
    """Something that answers prompts. Building one checks its values and loads nothing.

    `provides` names those of SAMPLE, CHOOSE, NATIVE and MESSAGES that it can do, `name` is the kind of engine in
    tables. `home` says where it lives: in every task (it costs next to nothing, so a dry run may pilot it), in the
    replicas of a pool (it holds weights), or in one actor through which all requests pass (its limits are those of the
    whole sweep).
    """

    @property
    def name(self) -> str:
        """The kind of engine."""
        ...

    @property
    def home(self) -> Home:
        """Where it lives."""
        ...

    @property
    def provides(self) -> frozenset[str]:
        """Those of SAMPLE, CHOOSE, NATIVE and MESSAGES that it can do as it is configured."""
        ...

    @property
    def version(self) -> str:
        """The version that must be named to get the same answers again."""
        ...

    @property
    def sampler(self) -> str | None:
        """What shapes the distribution that tokens are drawn from, as JSON; None if it is no language model."""
        ...

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` independent completions; prompt tokens are counted once for each."""
        ...

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The exact distribution over the options of a ChoiceAnswer; no sampling temperature."""
        ...


def option_numbers(count: int, padded: bool = False) -> tuple[str, ...]:
    """The numbers of `count` options, from 0; `padded`: all as wide as the last number (`00` to `99`)."""
    width = len(str(count - 1)) if padded else 1
    return tuple(f"{number:0{width}d}" for number in range(count))


# The roles in which engines are asked.


Role = Literal["actor", "judge", "evaluator", "simulator", "critic", "user"]
ACTOR: Role = "actor"
JUDGE: Role = "judge"
"""Gives scores to a planner that asks for them."""
EVALUATOR: Role = "evaluator"
"""Says for the environment which texts mean the same and how good a finished trajectory is; no planner sees it."""
SIMULATOR: Role = "simulator"
"""Plays, for the environment, tools whose servers cannot be reached; no planner sees it."""
CRITIC: Role = "critic"
"""Reviews a plan in words before it counts, for the planner that wrote it."""
USER: Role = "user"
"""Plays, for the environment, the user whom planners talk to through a tool."""
OF_WORLD = (EVALUATOR, SIMULATOR, USER)
"""The roles that no planner may ask."""
ASKED: tuple[Role, ...] = (JUDGE, EVALUATOR, SIMULATOR, CRITIC, USER)
"""The roles besides the acting one: each has its own keys, model and columns in a setting that has the role."""
