"""What an engine is asked, in what role, and what it answers."""

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
"""What stands above a whole plan that is judged, and above the next steps of a work that has begun."""


@dataclass(frozen=True)
class VerdictAnswer:
    """A JSON object `{"reasoning", "E1", ..., "E6", "grade", "is_correct"}` is wanted: a `grid.core.types.Verdict`.

    Without `errors` it is `{"reasoning", "is_correct"}` alone. The reasoning comes first, so that what is concluded can
    follow from it.
    """

    errors: bool = True


def verdict_properties(answer: VerdictAnswer, reasoning: dict[str, Any]) -> dict[str, Any]:
    """The schema of each key, in their order; `reasoning` is that of a text."""
    truth: dict[str, Any] = {"type": "boolean"}
    named = dict.fromkeys(ERRORS, truth) | {"grade": {"enum": [*GRADES]}} if answer.errors else {}
    return {"reasoning": reasoning, **named, "is_correct": truth}


# The answers in which whole plans are predicted (agent_planning_benchmark C.2, C.3).


@dataclass(frozen=True)
class ChainAnswer:
    """A JSON object `{"plan", "tool_chain": [{"name", "parameter_description", "reason"}, ...]}` is wanted (C.3).

    The chain has `least` to `most` entries in order; where they `may_decline`, an entry may name no tool. Where the
    whole plan `may_refuse`, `{"status": "REJECT", "reason"}` is an answer too. `free`: the plan is diagnosed and not
    run, so that names and arguments may be any: which tools there are is for the answer to know.
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
    with one call, or with none where nothing is to be called. `may_refuse` and `free` are as of a chain.
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
"""What an engine provides that is handed tools as functions (`functions.py`): the key `model.tools`."""
MESSAGES = "conversations"
"""What an engine provides that is handed what was done so far as messages: the key `model.history`."""
Tools = Literal["prompt", "native"]
History = Literal["text", "messages"]


def shown_as(history: History | None, tools: Tools) -> History:
    """How a model is shown what was done so far: as `model.history` says, else as it is handed tools.

    Models with native calls were trained on messages with calls and results.
    """
    return history or ("messages" if tools == "native" else "text")


PLAIN_SAMPLER = '{"top_p":1,"top_k":null,"min_p":0,"repetition_penalty":1}'
"""Tokens are drawn from softmax(logits / temperature) and nothing else: what every engine does where it can."""


_SHORT = 1000  # characters of a section whose digest is looked up by what it holds


@dataclass(frozen=True)
class Section:
    """One part of a prompt: `entries` are its lines or blocks, in order, `options` the lines that are numbered below.

    The engine numbers them, so that the numbers shown are those that it scores.
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
        """Of all lines; of options, which many prompts share, counted once."""
        return sum(map(len, self.lines()))

    def lines(self, padded: bool = False) -> tuple[str, ...]:
        """All lines, the options as `0. text` on; `padded`: as `option_numbers` has them."""
        return (*self.entries, *_numbered(self.options, padded)) if self.options else self.entries


def _digest(kind: str, entries: tuple[str, ...], options: tuple[str, ...]) -> str:
    text = "\0".join((f"{kind} {len(entries)}", *entries, *options))
    if text.count("\0") > len(entries) + len(options):  # a text has one of its own: where it ends must be told
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
    """A thought is wanted on what comes next: tools are sought by its words."""


@dataclass(frozen=True)
class ToolCallAnswer:
    """A JSON object `{"action": {"tool", "arguments"}}` is wanted, with one of `tools`, or no tool where `may_decline`.

    `thought`: a key of that name comes first, with so many characters at most; 0 for none. `native` is the instruction
    where tools are handed over as functions; it takes the place of the prompt's, which tells the object's form.
    `results` are the earlier results that there are to be taken; None where that is not known.
    """

    tools: tuple[ToolSpec, ...]
    may_decline: bool
    thought: int = 0
    native: tuple[str, ...] = ()
    results: tuple[str, ...] | None = None


@dataclass(frozen=True)
class PlanAnswer:
    """A JSON object `{"plan": [{"tool", "arguments"}, ...]}` is wanted: `least` to `most` calls of `tools` in order.

    Where they `may_decline`, an entry may have no tool. `thought`: as of a call, in front of the whole plan. `native`:
    as of a call; all calls stand in one answer.
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

    The prompt's section `functions` defines them, one a line as JSON. `named` has pairs of a function's name and that
    of its tool, or NO_TOOL.
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
    """A JSON object `{"best", "explanation"}` is wanted, the best a number from 0 to `candidates` - 1."""

    candidates: int


@dataclass(frozen=True)
class SchemaAnswer:
    """A JSON object under a schema of the asking side's own is wanted; `schema` is that one, as JSON."""

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

    With `names`, those of the options in their order, no two alike, it is wanted by its name instead, in a tool call
    that begins with `{"action": {"tool": name`.
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
        """The prompt as plain text, sections apart by a blank line."""
        return "\n\n".join("\n".join(section.lines()) for section in self.sections)

    def functions(self) -> list[dict[str, Any]]:
        """The functions that are handed over, as they are defined; none where tools stand in the prompt."""
        return [json.loads(entry) for entry in self.entries("functions")]

    def size(self) -> int:
        """Characters of the sections and of the answer's options."""
        lines = sum([section.characters for section in self.sections])
        return lines + (sum(map(len, self.answer.options)) if isinstance(self.answer, ChoiceAnswer) else 0)

    def entries(self, kind: SectionKind) -> tuple[str, ...]:
        """All lines of one kind of section."""
        return tuple(line for section in self.sections if section.kind == kind for line in section.lines())


class Source(NamedTuple):
    """Who answered, as a server says: the model's name, its configuration's fingerprint, and a gateway's provider."""

    model: str | None = None
    fingerprint: str | None = None
    provider: str | None = None


@dataclass(frozen=True)
class Sampled:
    """Completions, what they cost, and the seconds in which they were being computed, waiting left out.

    `cut` has the places of those that the limit on tokens ended, `withheld` those of which the server kept back what
    the model wrote (they are empty), with its words; `sources` are those who answered, where a server did. `reasoning`
    has, by the completion's place, what the server told of a thought, behind its key of the message.
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

    `unassigned` is the model's probability that went to no option, `error_bound` bounds the total variation that
    options left unscored can have cost; both None where the engine is no language model. `computed_seconds`: in which
    it was being computed, waiting left out. `sources`: as of Sampled.
    """

    probabilities: tuple[float, ...]
    usage: Usage
    unassigned: float | None = None
    error_bound: float | None = None
    computed_seconds: float = field(default=0.0, compare=False)
    sources: frozenset[Source] = field(default=frozenset(), compare=False)


class Engine(Protocol):
    """Something that answers prompts. Building one checks its values and loads nothing.

    `provides` names the verbs it can do, NATIVE and MESSAGES, `name` the kind of engine in tables. `home` says where
    it lives: in every task (it costs next to nothing, so a dry run may pilot it), in the replicas of a pool (it holds
    weights), or in one actor through which all requests pass (its limits are those of the whole sweep).
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
        """Of SAMPLE, CHOOSE, NATIVE and MESSAGES, what it can do as it is configured."""
        ...

    @property
    def version(self) -> str:
        """What must be named to get the same answers again."""
        ...

    @property
    def sampler(self) -> str | None:
        """What shapes the distribution that tokens are drawn from, as JSON; None for what is no language model."""
        ...

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` independent completions; prompt tokens are counted once for each."""
        ...

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The exact distribution over the options of a ChoiceAnswer; no sampling temperature."""
        ...


def option_numbers(count: int, padded: bool = False) -> tuple[str, ...]:
    """The numbers of so many options, from 0; `padded`: all as wide as the last one (`00` to `99`)."""
    width = len(str(count - 1)) if padded else 1
    return tuple(f"{number:0{width}d}" for number in range(count))


# In what role an engine is asked.


Role = Literal["actor", "judge", "evaluator", "simulator", "critic", "user"]
ACTOR: Role = "actor"
JUDGE: Role = "judge"
"""Scores what a planner does with it, for the planner."""
EVALUATOR: Role = "evaluator"
"""Says for the environment which texts mean the same and what a finished trajectory is worth; no planner sees it."""
SIMULATOR: Role = "simulator"
"""Plays, for the environment, tools whose servers cannot be reached; no planner sees it."""
CRITIC: Role = "critic"
"""Reviews a plan in words before it counts, for whoever wrote it."""
USER: Role = "user"
"""Plays, for the environment, the user whom planners talk to through a tool."""
OF_WORLD = (EVALUATOR, SIMULATOR, USER)
"""Whom no planner may ask."""
ASKED: tuple[Role, ...] = (JUDGE, EVALUATOR, SIMULATOR, CRITIC, USER)
"""The roles besides the acting one: each has keys, a model and columns of its own where a setting has it."""
