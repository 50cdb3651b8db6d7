"""The contents of a dataset: cases with worlds and references, a tool library for retrievers, and skipped records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from grid.core.engine import Prompt
from grid.core.types import (
    Case,
    Demonstration,
    Json,
    Skipped,
    Substep,
    TaskKind,
    ToolCall,
    ToolSpec,
    Trajectory,
    Verdict,
)
from grid.core.world import World

# What a case is compared with, and a planner never sees.


@dataclass(frozen=True)
class Substitute:
    """The tool that replaces another tool, which is out of service.

    `arguments` maps the other tool's argument names to its own.
    """

    tool: str
    arguments: Mapping[str, str]

    def call(self, call: ToolCall) -> ToolCall:
        """A call of the other tool, turned into a call of this tool."""
        return ToolCall(self.tool, {self.arguments.get(name, name): value for name, value in call.arguments.items()})


@dataclass(frozen=True)
class Milestone:
    """A call to be made on the way to a resolution, or one that must not be made (`Reference.forbidden`).

    A successful call reaches the milestone if it gives `arguments` (it may give others) and returns `result` (it may
    return more), each in any equal form. A milestone can also be a state, described by what a call shows of it. A
    state that no call shows is described by `state`, a function of the last state of the world; such a milestone has no
    `tool`. `after` names milestones that earlier calls must have reached.
    """

    name: str
    tool: str = ""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    result: Mapping[str, Json] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    state: Callable[[Hashable], bool] | None = None


@dataclass(frozen=True)
class Reference:
    """The reference that a planner never sees: the reference call of each substep (None: no tool), in plan order.

    Arguments may contain `OUTPUT_FROM_STEP_i.j.field`; `resolution` names the substeps whose outcomes together
    are the case's resolution. `followed`: planners are given the substeps, so that their steps can be compared with
    the calls; otherwise there are other ways to the resolution. `ordered`: the calls come in this order; otherwise they
    are a set (traject_bench §3.2, parallel queries). `answer` is the final answer, if there is one. `failing` are the
    substeps whose calls are right but return a failure, as they did when they were recorded. If there is no outline,
    None is the end of a turn. `unsolvable`: a refusal is right, and the calls, if there are any, are those of a planner
    that does not see this. `told`: a planner that ends the work has to tell the answer word for word. `substitutes`
    maps the name of a tool that is out of service to its replacement. `milestones` are on the way to the resolution,
    `forbidden` calls are off it: both have metrics of their own (`grid.metrics.milestones`), apart from success.
    """

    calls: Mapping[str, ToolCall | None]
    resolution: tuple[str, ...]
    followed: bool = True
    ordered: bool = True
    answer: str | None = None
    failing: frozenset[str] = frozenset()
    unsolvable: bool = False
    substitutes: Mapping[str, Substitute] = field(default_factory=dict)
    told: bool = False
    milestones: tuple[Milestone, ...] = ()
    forbidden: tuple[Milestone, ...] = ()

    def unfollowed(self) -> Reference:
        """The same reference for planners that are not given its substeps: substeps without a call are left out."""
        if not self.followed:
            return self
        return replace(self, calls={step: call for step, call in self.calls.items() if call}, followed=False)

    def part(self, first: int, most: int | None) -> Reference:
        """The reference with at most `most` calls, from place `first` on, and the resolution's steps among them."""
        kept = dict(islice(self.calls.items(), first, None if most is None else first + most))
        return replace(self, calls=kept, resolution=tuple(step for step in self.resolution if step in kept))


# Which tools a decision is offered.


Mode: TypeAlias = Literal["static", "dynamic", "thought"]
"""When tools are retrieved (traject_bench §4.1, §4.4), and by which text.

`static`: once. `dynamic`: before every decision, by the query or substep with the last thought and observation.
`thought`: in every decision between thought and action, by the new thought alone, as in the authors' script.
"""


class Retriever(Protocol):
    """Finds tools in a library. `index` once per library, `retrieve` once per decision."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """Prepare a library for search."""
        ...


class Index(Protocol):
    """A library that is ready for search.

    `query_top_k`: the most tools that a whole query is offered, out of those that its substeps are offered.
    """

    @property
    def query_top_k(self) -> int:
        """The most tools that a whole query is offered; at least 1."""
        ...

    @property
    def mode(self) -> Mode:
        """When `retrieve` is called; for later calls, the substep's text includes what has happened since."""
        ...

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The substep's candidates, best first, ties in the library's order."""
        ...

    def nearest(self, text: str) -> list[ToolSpec]:
        """The whole library, the tools nearest to a text first, ties in the library's order."""
        ...

    def of(self, names: Collection[str], at_least: int = 0) -> Index:
        """An index of these tools alone, which ranks them as the index of the whole library does.

        A substep, or a whole query, is offered `at_least` so many of them.
        """
        ...


@runtime_checkable
class Told(Protocol):
    """The extra method of an index that needs a case's reference. The run layer calls it; planners see no index."""

    def told(self, reference: Reference) -> Index:
        """The index for one case."""
        ...


OUTLINE, DEMONSTRATIONS, BRANCHING, REFERENCES = "outline", "demonstrations", "branching", "references"
EXAMINED, SIMULATED, SOLVED_FIRST = "examined", "simulated", "solved_first"
DIAGNOSED = "diagnosed"
TALKS = "talks"
GIVEN, HIDDEN, DRAFTED = "given", "hidden", "drafted"
Outline: TypeAlias = Literal["given", "hidden", "drafted"]
"""The outline that planners follow: the cases' own plan, none (next call or finish), or one that the model drafts."""

Resolution: TypeAlias = Literal["last", "all"]
"""The calls whose outcomes resolve a case with looked-up outcomes: the last one, or all that no other call uses.

Either way a case is resolved when those outcomes were obtained, whatever other calls were made. A call obtains an
outcome if it gives every argument of the reference call in an equal form, and no further argument except those that its
tool declares optional.
"""


AFTER = "after"
Answering: TypeAlias = Literal["after", "none"]
"""What counts as the answer to a query if answers are scored: with `none`, the planner's answer at its end.

`after`: a planner that ends without an answer, or wrote it before the calls were run, is asked for it once after the
calls (`grid.episode.answering`; tooltree, figure 2; traject_bench §4.1).
"""

JUDGED = "judge"
BOTH = "both"
Scorer: TypeAlias = Literal["symbolic", "judge", "both"]
"""How it is decided whether a plan is right: by computation, by a model (the role `evaluator`), or by both."""
TEXTS, PLANS = "texts", "plans"
"""A dataset's questions to an evaluator: which texts mean the same; which plans are right (`asks` of a Dataset)."""
Equivalence: TypeAlias = Literal["rules", "judge"]
"""How it is decided which arguments mean the same if outcomes are looked up: by rules alone, or also by a model.

The model (the role `evaluator`) is asked about free texts that the rules find different. Whether a case is solvable is
decided by the rules alone.
"""


class Candidates(Protocol):
    """Which tools a substep is offered, best first."""

    def __call__(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The candidate tools of one substep of a case."""
        ...


class Demonstrations(Protocol):
    """Solved questions that are similar to a case's."""

    def __call__(self, count: int) -> Sequence[Demonstration]:
        """The `count` nearest questions, the nearest first."""
        ...


def _none(count: int) -> Sequence[Demonstration]:
    return ()


class Evaluator(Protocol):
    """A model that is asked about a finished trajectory: the role `evaluator`."""

    async def score(self, prompt: Prompt, *key: object) -> float | None:
        """Its score in [0, 1] for what the prompt shows; None if no answer can be read, after all retries."""
        ...

    async def vote(
        self, prompt: Prompt, candidates: Sequence[str], *key: object, temperature: float = 0.0
    ) -> int | None:
        """The place of the candidate that it names; None as for a score.

        Above temperature 0, different keys may give different answers; an exact distribution has no temperature.
        """
        ...

    async def verdict(self, prompt: Prompt, *key: object, truth: Verdict | None = None) -> Verdict | None:
        """Its verdict on a plan; None as for a score. Only engines with a planted accuracy are given `truth`."""
        ...


Measure: TypeAlias = Callable[[Trajectory], Mapping[str, Any]]
"""A benchmark's own metrics of a trajectory that need no model, by name."""
Examine: TypeAlias = Callable[[Trajectory, Evaluator], Awaitable[Mapping[str, Any]]]
"""A benchmark's own metrics of a finished trajectory that a model decides, by name."""


def no_baselines() -> Mapping[str, bool]:
    """No baselines."""
    return {}


NOTHING = "nothing_success"
BASELINES = ("constant_success", "constant_by_function_success", NOTHING, "transfer_success")
"""The columns of `episodes` that `Problem.baselines` may fill; if it leaves NOTHING out, the world says its value."""


def as_it_is(trajectory: Trajectory) -> Trajectory:
    """The trajectory unchanged."""
    return trajectory


def no_measure(trajectory: Trajectory) -> Mapping[str, Any]:
    """No metrics of its own."""
    return {}


@dataclass(frozen=True)
class Problem:
    """One case ready to run: what the planner sees, what it acts on, and what it is scored against.

    Robustness settings map a Problem to a Problem. `same_function` maps a tool to the common name of all tools of its
    function. `domain` is the case's domain, named like the `category` of tools; `own` names the candidates that the
    benchmark gives the case itself, including those of its reference; empty: it gives none. `measure` and `examine`
    are the benchmark's own metrics; `baselines` says, by BASELINES, whether answers that need no reading resolve the
    case. `controls` are the variables that a regression controls for besides the plan's shape and the dataset, by name
    (letters, digits and _; planning_horizon B.3): the column `controls`. If a dataset gives none, the control is the
    plan's last tool. `kind` says which task of agent_planning_benchmark it is, if it is one. `as_stated` puts a
    trajectory into the reference's terms, if a robustness setting has tools or states of its own; metrics are computed
    from the result.

    The run layer says how tools are retrieved: `parts` are the substeps whose candidates are the tools of the whole
    query, `query_tools` at most; if there are none, tools are retrieved for the query. `retrieved`: when tools
    are retrieved.
    """

    case: Case
    reference: Reference
    world: World
    candidates: Candidates
    library: Mapping[str, ToolSpec]
    same_function: Mapping[str, str]
    demonstrations: Demonstrations = _none
    domain: str = ""
    own: tuple[str, ...] = ()
    measure: Measure = no_measure
    examine: Examine | None = None
    baselines: Callable[[], Mapping[str, bool]] = no_baselines
    controls: Mapping[str, bool | str] = field(default_factory=dict)
    kind: TaskKind | None = None
    as_stated: Callable[[Trajectory], Trajectory] = as_it_is
    parts: tuple[Substep, ...] = ()
    query_tools: int = 50
    retrieved: Mode = "static"


@runtime_checkable
class Stating(Protocol):
    """A dataset whose evaluator may be asked which statements about an episode are true.

    That needs an engine that reads: words that two texts share do not show whether a statement is true.
    """

    @property
    def stating(self) -> bool:
        """Whether the evaluator is asked so for any case."""
        ...


class Dataset(Protocol):
    """A benchmark. Built from YAML; reads its files on first use and then answers from memory.

    `provides` says what a planner finds in its cases: OUTLINE, a plan of substeps to follow; DEMONSTRATIONS; BRANCHING,
    worlds that can continue from a state more than once. REFERENCES: its cases say which calls resolve them, so that
    an engine can be told. EXAMINED: its problems have `examine`, for settings that name an evaluator. SIMULATED: its
    worlds are `grid.worlds.simulated.Played`, for settings that name a simulator. DIAGNOSED: the truth about a plan can
    be computed. SOLVED_FIRST: if only one of two trajectories passed, it is the better one
    (`grid.roles.comparing.SOLVED_FIRST_RULE`).

    A dataset that needs an evaluator says so in `asks`, a mapping from what it asks (TEXTS, PLANS) to its own key that
    makes it ask; without `asks`, no evaluator is asked these questions.
    """

    @property
    def provides(self) -> frozenset[str]:
        """What it provides, as configured."""
        ...

    @property
    def outline(self) -> Outline:
        """The configured outline. A problem always has the case's own plan: the run layer applies this value."""
        ...

    @property
    def version(self) -> str:
        """The version changes whenever a case, a tool or an outcome does; it is part of every cell's id."""
        ...

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The whole tool library by name."""
        ...

    @property
    def skipped(self) -> Sequence[Skipped]:
        """Records that cannot be cases, each with its reason."""
        ...

    def case_ids(self) -> Sequence[str]:
        """The cases in the dataset's order, at most `limit` of them."""
        ...

    def cluster(self, case_id: str) -> str:
        """The name of the case's cluster: the same for all cases that were made from one template.

        Such cases succeed and fail together, so intervals are computed over clusters. Planners do not see it.
        """
        ...

    def problem(self, case_id: str) -> Problem:
        """One case. Its candidates are the whole library."""
        ...


@runtime_checkable
class Judged(Protocol):
    """A dataset whose problems have `examine`."""

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """The metrics of `examine` for an episode of the case that broke off: by the benchmark's rule it is unsolved.

        No model is asked, so that judged rates are over the same cases as success.
        """
        ...
