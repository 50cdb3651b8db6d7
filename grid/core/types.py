"""The basic types of the project (calls, cases, steps, predicted plans); every module may import them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from json.encoder import JSONEncoder, c_make_encoder, encode_basestring  # type: ignore[attr-defined]
from operator import add
from typing import Any, Literal, TypeAlias, TypeVar

from grid.core.util import kept

# A predicted plan: a chain of tool calls, or a refusal (agent_planning_benchmark §3.1).


REPLACE, ALTER, RETRY, REFUSE, OTHER = "replace", "alter", "retry", "refuse", "other"
BEHAVIOURS = (REPLACE, ALTER, RETRY, REFUSE, OTHER)
"""The possible behaviours of an agent after a tool broke (agent_planning_benchmark §4.2.3)."""
ERRORS = ("E1", "E2", "E3", "E4", "E5", "E6")
"""The kinds of errors: goal understanding, premature end or incompleteness, constraint, logic, tool use, hallucination
(§3.3)."""
GRADES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""The possible grades of a plan (agent_planning_benchmark §3.3)."""
Family: TypeAlias = Literal["holistic", "stepwise", "extraneous", "broken", "unsolvable", "costs", "stages"]
"""The benchmark's tasks (agent_planning_benchmark §3.1, §5.4). `stages` asks for the next call early and late in the
trajectories of `stepwise` (§5.2, table 15); the benchmark's counts do not include `stages`.
"""
Stage: TypeAlias = Literal["early", "middle", "late"]


@dataclass(frozen=True)
class ChainCall:
    """One node of a tool chain: the tool's name, its arguments and the reason for the call.

    An argument is a value, a reference `OUTPUT_FROM_STEP_i.field`, or a text that describes where the value comes from.
    """

    name: str
    arguments: Mapping[str, Any]
    reason: str = ""


@dataclass(frozen=True)
class Chain:
    """The plan that a planner predicts: its calls in order, or the reason for a refusal.

    `plan` contains the planner's own text: the summary before the calls, the text after the calls, or the text instead
    of calls.

    `first` is the step number that references and texts use for the first call.
    """

    calls: tuple[ChainCall, ...]
    refusal: str | None = None
    plan: str = ""
    first: int = 0


@dataclass(frozen=True)
class TaskKind:
    """The benchmark task that a case belongs to (agent_planning_benchmark §3.1); each field has a column of that name.

    `horizon_k` is the number of steps to predict, and `stage` is the position of these steps in the trajectory; both
    are None for whole plans. `unsolvable_kind` is contradictory_constraints, missing_information, tool_removal or
    attachment_missing.
    """

    task_family: Family
    task_category: str = ""
    horizon_k: int | None = None
    stage: Stage | None = None
    n_extraneous: int | None = None
    unsolvable_kind: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A scorer's verdict on a plan: whether it is right, its errors (among ERRORS) and its grade (among GRADES).

    `errors` and `grade` are None if the scorer was asked only whether the plan is right.
    """

    is_correct: bool
    errors: frozenset[str] | None = None
    grade: float | None = None
    reasoning: str = field(default="", compare=False)

    @property
    def correct(self) -> bool:
        """Whether the plan counts as right: `is_correct` is true and there are no errors (§C.2)."""
        return self.is_correct and not self.errors

    @property
    def contradicted(self) -> bool | None:
        """Whether `is_correct` and `errors` contradict each other; None if the scorer was not asked for errors."""
        return None if self.errors is None else self.is_correct == bool(self.errors)


Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
RESULT = "result"
"""The type of arguments whose value is an earlier call's result; also the name of the field that contains an
observation's result."""
NO_TOOL = "no_tool"
"""The name, used in tables too, of the option 'this substep needs no tool'."""
MAX_SCORE = 10
"""The highest score that judges give; scores are whole numbers from 0."""
FINISH = "finish"
"""The name of the option 'finish with this answer', which is offered if there is no outline."""
GIVE_UP = "give_up"
"""The name of the option 'this path leads nowhere', if a planner offers it."""
REJECT = "reject"
"""The name of the option 'the request cannot be carried out with these tools', if a case offers it."""
BETWEEN = "; "
"""The separator between the values of an answer."""
USER = "The user: "
"""The beginning of each line of the history that shows one of the user's later messages."""
TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")
"""The fields of a Usage that count tokens."""
UNKNOWN = "unknown"
"""The value of all arguments in a call that is wrong on purpose."""


# Does the same as json.JSONEncoder(ensure_ascii=False, check_circular=False).encode, but does not create a new encoder
# for every value.
_ENCODE = c_make_encoder(None, JSONEncoder().default, encode_basestring, None, ": ", ", ", False, False, True)
T = TypeVar("T", bound=type)


def to_json(value: object) -> str:
    """The value as JSON on one line, with keys in their order; characters are escaped only if JSON requires it.

    Raises:
        TypeError: the value contains an object that JSON does not have.
    """
    return "".join(_ENCODE(value, 0))


def hashed_once(cls: T) -> T:
    """A decorator for frozen dataclasses that serve as cache keys: an object's hash is computed once.

    Strings hash differently in every process, so the hash is not pickled with the object.
    """
    compute: Any = cls.__hash__

    def kept(self: Any) -> int:
        try:
            found: int = self.__dict__["_hash"]
        except KeyError:
            found = self.__dict__["_hash"] = compute(self)
        return found

    def state(self: Any) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}

    type.__setattr__(cls, "__hash__", kept)
    type.__setattr__(cls, "__getstate__", state)
    return cls


@hashed_once
@dataclass(frozen=True)
class Parameter:
    """One argument of a tool; `type` is a JSON type name, several of these (`boolean|number`), `date`, or RESULT.

    `values` are the values listed in the argument's schema; without such a list, any value of the type is possible.
    `schema` is the argument's whole JSON schema, if it contains more than type and description.
    """

    name: str
    type: str
    description: str
    required: bool = True
    values: tuple[str, ...] = ()
    schema: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The types that the argument's values may have."""
        return tuple(self.type.split("|"))


@hashed_once
@dataclass(frozen=True)
class ToolSpec:
    """A tool as a planner sees it. `returns` names the fields of the tool's outcome."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    returns: tuple[str, ...] = ()
    category: str = ""

    @kept
    def takes_results(self) -> bool:
        """Whether any argument accepts an earlier call's result. All other arguments are texts, as in KoPL."""
        return any(parameter.type == RESULT for parameter in self.parameters)


@dataclass(frozen=True)
class ToolCall:
    """A tool and its arguments. An argument `OUTPUT_FROM_STEP_i.j.field` is filled in before execution."""

    tool: str
    arguments: Mapping[str, Json]

    def text(self) -> str:
        """The call as JSON, with arguments in the given order."""
        return self._text

    @kept
    def _text(self) -> str:
        return to_json({"tool": self.tool, "arguments": dict(self.arguments)})


@dataclass(frozen=True)
class Observation:
    """The fields of a tool's result. `failed`: the tool returned nothing valid (planning_horizon §4.1)."""

    content: Mapping[str, Json]
    failed: bool = False

    def text(self) -> str:
        """The outcome as JSON."""
        return self._text

    @kept
    def _text(self) -> str:
        return to_json(dict(self.content))


@dataclass(frozen=True)
class Substep:
    """One substep `i.j` of a plan: its own text and the high-level step (`goal`) that it serves.

    `drafted`: the model wrote the substep. Without an outline, a decision's substep has a number and no text.
    """

    id: str
    text: str
    goal: str
    drafted: bool = False


@dataclass(frozen=True)
class Plan:
    """A hierarchical plan, with its substeps in execution order (egb_slate §3.1)."""

    substeps: tuple[Substep, ...]

    @kept
    def lines(self) -> tuple[str, ...]:
        """The substeps with their numbers, one per line."""
        return tuple(f"{substep.id} {substep.text}" for substep in self.substeps)


@dataclass(frozen=True)
class UserMessage:
    """A user message after the query; `tools` are offered only from this message on."""

    text: str
    tools: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Case:
    """The part of a case that a planner may know: the query, the plan to follow, and more.

    `messages` are the user's later messages; a planner receives each message after the preceding turn has ended. `done`
    are steps of the reference that count as already taken. `decisions` is the number of further decisions that are
    allowed (None: as many as the planner's keys allow). `answered`: the planner finishes with an answer, which is
    passed to the world, and the world may refuse it; without `answered`, only the results of the work count. `notes`
    explain the objects that the tools work with, one per line; every planner shows the notes. `diagnosed`: only the
    written chain of calls is scored, so a planner that plans ahead need not run the calls. `policy` contains the rules
    that the work has to follow; every planner and every judge sees these rules.
    """

    id: str
    query: str
    plan: Plan
    messages: tuple[UserMessage, ...] = ()
    done: tuple[Step, ...] = field(default=(), hash=False)  # calls have no hash; the id distinguishes cases
    decisions: int | None = None
    answered: bool = False
    notes: tuple[str, ...] = ()
    diagnosed: bool = False
    policy: str = ""


@dataclass(frozen=True)
class Demonstration:
    """A solved question from the training split; its calls may have arguments `OUTPUT_FROM_STEP_i.field`.

    `resolution` names the steps whose results are the answer; if it is empty, the last step's result is the answer.
    """

    question: str
    calls: Mapping[str, ToolCall]
    answer: str
    resolution: tuple[str, ...] = ()


@dataclass(frozen=True)
class OptionProbability:
    """One option of a decision; `probability` may also be the option's share of votes."""

    tool: str
    probability: float


@dataclass(frozen=True)
class Step:
    """One decision. `call` is None if no tool was called; `entropy` is in nats, or None if it was not computed.

    `call` is the call as it was run, and `written` is the call as the model wrote it, with references. `finished`: the
    step ended the trajectory. If a step ends the trajectory of a case that needs an answer, `written` is the finish,
    and the observation is the answer as the world understood it. A finish that the world refused is a failed `call` and
    does not end the trajectory. `candidates` are the offered tools, in the order shown: the tools for the whole query
    (`whole_query`) or for the substep; `sought` is the additional text used to retrieve the offered tools. Token counts
    are None if they were not reported. `reasoning`: if the server sent a thought in a separate key of its message, this
    key and the thought. `with_last`: the call came in the same answer as the previous step's call.
    """

    branch: int
    substep: Substep
    call: ToolCall | None
    observation: Observation | None
    written: ToolCall | None = None
    thought: str | None = None
    malformed: bool = False
    finished: bool = False
    entropy: float | None = None
    options: tuple[OptionProbability, ...] = ()
    candidates: tuple[str, ...] = ()
    whole_query: bool = False
    sought: str = ""
    unassigned: float | None = None
    error_bound: float | None = None
    input_tokens: int | None = 0
    cached_input_tokens: int | None = 0
    output_tokens: int | None = 0
    reasoning: tuple[str, str] | None = None
    with_last: bool = False

    @property
    def chosen(self) -> str | None:
        """The tool, `NO_TOOL`, `FINISH`, or None if the model's answer could not be read."""
        if self.malformed:
            return None
        return self.call.tool if self.call else FINISH if self.finished else NO_TOOL


@dataclass(frozen=True)
class Trajectory:
    """The result of a planner.

    `steps` is the path that the planner finally chose, one step per substep, and `end` is the world's state after this
    path. `decisions` contains every decision of all branches, each decision once. `branches` is the number of
    trajectories tried after the first one. `branched_steps` is the number of distinct decisions of the first trajectory
    at which later trajectories branch off (None: the planner never branches). `chain` is a plan that the planner
    predicted without running it; the plan is then the result. `planned` is the plan that the planner wrote before it
    ran anything, if the result consists of the calls that the planner ran afterwards. `unrefined` is the draft of
    `chain` or `planned` before a critique. `told_after`: the answer was requested after the last step. `measured`
    contains the planner's own measurements, keyed by the names of the metrics that it declares.
    """

    steps: tuple[Step, ...]
    decisions: tuple[Step, ...]
    end: Hashable = None
    branches: int = 0
    branched_steps: int | None = None
    replans: int = 0
    answer: str | None = None
    chain: Chain | None = None
    planned: Chain | None = None
    unrefined: Chain | None = None
    told_after: bool = False
    measured: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    """The usage of an engine: completions, scoring passes, and tokens (input tokens include cached tokens).

    `resent_requests` were sent again because the replica with the request was lost or a server did not answer; the cost
    of the lost attempts is not known. `cut_answers` ended at the token limit. `empty_answers` are the cut answers that
    ended before their first word, because thinking used up the whole limit. `reasoning_tokens` are the output tokens of
    thoughts. `uncounted_answers` came without token counts, so the token sums do not include them.
    """

    llm_calls: int = 0
    forward_passes: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    resent_requests: int = 0
    empty_answers: int = 0
    cut_answers: int = 0
    reasoning_tokens: int = 0
    uncounted_answers: int = 0

    def known(self) -> dict[str, int | None]:
        """The counts by name. If some answers are uncounted, token counts are None, because they would be too low."""
        counts: dict[str, int | None] = {**vars(self)}
        return counts | dict.fromkeys(TOKENS) if self.uncounted_answers else counts

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class Skipped:
    """A dataset record that cannot become a case, and the reason.

    `place` is the file and line of a task that the user wrote, such as `desk.jsonl:3`; empty for published records.
    """

    record: str
    reason: str
    place: str = ""

    def text(self) -> str:
        """Place, record and reason on one line: `desk.jsonl:3 (desk-0003): there is no tool`."""
        return f"{self.place} ({self.record}): {self.reason}" if self.place else f"{self.record}: {self.reason}"
