"""What a dataset gives: cases with worlds and references, a tool library that retrievers search, what it skipped."""

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

# What a case is held against, and a planner never sees.


@dataclass(frozen=True)
class Substitute:
    """The tool that does what another one, which is out of service, does not any more.

    `arguments` maps the other's argument names to its own.
    """

    tool: str
    arguments: Mapping[str, str]

    def call(self, call: ToolCall) -> ToolCall:
        """A call of the other as one of this tool."""
        return ToolCall(self.tool, {self.arguments.get(name, name): value for name, value in call.arguments.items()})


@dataclass(frozen=True)
class Milestone:
    """A call to be made on the way to a resolution, or one that must not be made (`Reference.forbidden`).

    A call that succeeds is the milestone's if it gives `arguments` (it may give others) and returned `result` (there
    may be more in it), each in any equal form; so a state is named, too: by what a call shows of it. A world's own
    state can be named by `state`, which looks at the last one; such a milestone has no `tool`. `after` names
    milestones that earlier calls have to have reached.
    """

    name: str
    tool: str = ""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    result: Mapping[str, Json] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    state: Callable[[Hashable], bool] | None = None


@dataclass(frozen=True)
class Reference:
    """What a planner never sees: per substep the reference call (None: no tool), in plan order.

    Arguments may hold `OUTPUT_FROM_STEP_i.j.field`; `resolution` names the substeps whose outcomes together
    are the case's resolution. `followed`: planners are given the substeps, so that their steps can be held against
    the calls; otherwise there are other ways to the resolution. `ordered`: the calls come in this order; otherwise they
    are a set (traject_bench §3.2, parallel queries). `answer` is the final one, where there is one. `failing` are the
    substeps whose calls are right and return a failure all the same, as they did when they were recorded. Where there
    is no outline, None is the end of a turn. `unsolvable`: a refusal is right, and the calls, where there are any, are
    those of whoever does not see it. `told`: the answer is what whoever ends the work has to tell, word for word.
    `substitutes`: by the name of a tool that is out of service what replaces it. `milestones` lie on the way to the
    resolution, `forbidden` beside it: metrics of their own (`grid.metrics.milestones`), which say nothing of success.
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
        """The same where nobody is given its substeps: those without a call are no steps then."""
        if not self.followed:
            return self
        return replace(self, calls={step: call for step, call in self.calls.items() if call}, followed=False)

    def part(self, first: int, most: int | None) -> Reference:
        """Of the calls those from a place on, so many at most; of the resolution what is among them."""
        kept = dict(islice(self.calls.items(), first, None if most is None else first + most))
        return replace(self, calls=kept, resolution=tuple(step for step in self.resolution if step in kept))


# Which tools a decision is offered.


Mode: TypeAlias = Literal["static", "dynamic", "thought"]
"""When tools are retrieved (traject_bench §4.1, §4.4), and what they are sought by.

`static`: once. `dynamic`: before every decision, by the last thought and observation besides the query or substep.
`thought`: in every decision between thought and action, by the new thought alone, as the authors' script does it.
"""


class Retriever(Protocol):
    """Finds tools in a library. `index` once per library, `retrieve` once per decision."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """Prepare a library for search."""
        ...


class Index(Protocol):
    """A library made ready.

    `query_top_k`: tools that a whole query is offered at most, of what its substeps are offered.
    """

    @property
    def query_top_k(self) -> int:
        """At least 1."""
        ...

    @property
    def mode(self) -> Mode:
        """When `retrieve` is asked: what has happened since is in the substep's text."""
        ...

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The substep's candidates, best first, ties in the library's order."""
        ...

    def nearest(self, text: str) -> list[ToolSpec]:
        """The whole library, nearest to a text first, ties in the library's order."""
        ...

    def of(self, names: Collection[str], at_least: int = 0) -> Index:
        """An index of these tools alone, found as in the whole library: their order among themselves is the same.

        A substep, and a whole query, is offered `at_least` so many of them.
        """
        ...


@runtime_checkable
class Told(Protocol):
    """What an index has besides that must be told a case's reference. The run layer tells it; planners see no index."""

    def told(self, reference: Reference) -> Index:
        """The index for one case."""
        ...


OUTLINE, DEMONSTRATIONS, BRANCHING, REFERENCES = "outline", "demonstrations", "branching", "references"
EXAMINED, SIMULATED, SOLVED_FIRST = "examined", "simulated", "solved_first"
DIAGNOSED = "diagnosed"
TALKS = "talks"
GIVEN, HIDDEN, DRAFTED = "given", "hidden", "drafted"
Outline: TypeAlias = Literal["given", "hidden", "drafted"]
"""What planners follow: the cases' own plan, none (the next call, or finish), or one that the model writes first."""

Resolution: TypeAlias = Literal["last", "all"]
"""Whose outcomes resolve a case whose tools are looked up: its last call's, or every call's that no other call uses.

Either way a case is resolved when those outcomes were obtained, by whatever calls before, beside or after them. A call
obtains an outcome when it gives every argument of the reference's in an equal form, and none besides that its tool does
not declare optional.
"""


AFTER = "after"
Answering: TypeAlias = Literal["after", "none"]
"""What counts as a query's answer where it is scored: `none`, what the planner told at its end.

`after`: whoever ends without one, or wrote it before the calls were run, is asked for it once behind them
(`grid.episode.answering`; tooltree, figure 2; traject_bench §4.1).
"""

JUDGED = "judge"
BOTH = "both"
Scorer: TypeAlias = Literal["symbolic", "judge", "both"]
"""Who says whether a plan is right: what can be computed, a model (the role `evaluator`), or each beside the other."""
TEXTS, PLANS = "texts", "plans"
"""What a dataset may ask an evaluator: which texts mean the same; which plans are right (`asks` of a Dataset)."""
Equivalence: TypeAlias = Literal["rules", "judge"]
"""Who says which arguments mean the same where tools are looked up: rules alone, or also a model.

The model (the role `evaluator`) is asked of free texts that the rules find different. Whether a case is solvable is
told by the rules alone.
"""


class Candidates(Protocol):
    """Which tools a substep is offered, best first."""

    def __call__(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The candidate tools of one substep of a case."""
        ...


class Demonstrations(Protocol):
    """Solved questions like a case's."""

    def __call__(self, count: int) -> Sequence[Demonstration]:
        """The `count` nearest, the nearest first."""
        ...


def _none(count: int) -> Sequence[Demonstration]:
    return ()


class Evaluator(Protocol):
    """A model that is asked about a finished trajectory: the role `evaluator`."""

    async def score(self, prompt: Prompt, *key: object) -> float | None:
        """Its score in [0, 1] of what the prompt shows; None where no answer can be read, after all retries."""
        ...

    async def vote(
        self, prompt: Prompt, candidates: Sequence[str], *key: object, temperature: float = 0.0
    ) -> int | None:
        """The place of the candidate that it names; None as for a score.

        Above temperature 0 other keys may have other answers; an exact distribution has no temperature.
        """
        ...

    async def verdict(self, prompt: Prompt, *key: object, truth: Verdict | None = None) -> Verdict | None:
        """What it says of a plan; None as for a score. `truth` is told to engines of planted accuracy alone."""
        ...


Measure: TypeAlias = Callable[[Trajectory], Mapping[str, Any]]
"""A benchmark's own metrics of a trajectory that take no model: some of the fields of `Scores`."""
Examine: TypeAlias = Callable[[Trajectory, Evaluator], Awaitable[Mapping[str, Any]]]
"""What a benchmark lets a model say of a finished trajectory: some of the fields of `Scores`."""


def no_baselines() -> Mapping[str, bool]:
    """No baseline that needs no model."""
    return {}


NOTHING = "nothing_success"
BASELINES = ("constant_success", "constant_by_function_success", NOTHING, "transfer_success")
"""The columns of `episodes` that `Problem.baselines` may fill; NOTHING is what the world says, where it does not."""


def as_it_is(trajectory: Trajectory) -> Trajectory:
    """In its own terms."""
    return trajectory


def no_measure(trajectory: Trajectory) -> Mapping[str, Any]:
    """No metrics of its own."""
    return {}


@dataclass(frozen=True)
class Problem:
    """One case ready to run: what the planner sees, what it acts on, and what it is scored against.

    Robustness settings map a Problem to a Problem. `same_function` maps a tool to the name that stands for all
    tools of its function. `domain` is the case's, as tools' `category` has it; `own` names the candidates that the
    benchmark gives the case itself, those of its reference among them; empty: it gives none. `measure` and `examine`
    are the benchmark's own metrics; `baselines` says whether answers that take no reading resolve the case, by
    BASELINES. `controls` are what a regression controls for besides the plan's shape and the dataset, by name (letters,
    digits and _; planning_horizon B.3): the column `controls`. Where a dataset gives none, it is the plan's last tool.
    `kind` says which task of agent_planning_benchmark it is, where it is one. `as_stated` puts a trajectory into the
    reference's terms, where a robustness setting has tools or states of its own; metrics are taken of that.

    The run layer says how tools are retrieved: `parts` are the substeps whose candidates are the tools of the whole
    query, `query_tools` at most; without any it is the query that they are retrieved for. `retrieved`: when they
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

    That takes an engine that reads: words that two texts share say nothing of it.
    """

    @property
    def stating(self) -> bool:
        """Whether it is asked of any case."""
        ...


class Dataset(Protocol):
    """A benchmark. Built from YAML; reads its files on first use and then answers from memory.

    `provides` says what a planner finds in its cases: OUTLINE, a plan of substeps to follow; DEMONSTRATIONS; BRANCHING,
    worlds whose states can be gone on from more than once. REFERENCES: its cases say which calls resolve them, so that
    an engine can be told. EXAMINED: its problems have `examine`, for whoever names an evaluator. SIMULATED: its worlds
    are `grid.worlds.simulated.Played`, for whoever names a simulator. DIAGNOSED: what is true of a plan can be
    computed. SOLVED_FIRST: of two trajectories a sole one that passed is the better
    (`grid.roles.comparing.SOLVED_FIRST_RULE`).

    One that cannot do without an evaluator says so in `asks`, a mapping from what it asks (TEXTS, PLANS) to the key of
    its own that has it do so; without it none is asked for these.
    """

    @property
    def provides(self) -> frozenset[str]:
        """As configured."""
        ...

    @property
    def outline(self) -> Outline:
        """As configured. A problem holds the cases' own plan whatever this says: the run layer sees to it."""
        ...

    @property
    def version(self) -> str:
        """Changes whenever a case, a tool or an outcome does; part of every cell's id."""
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
        """What the case shares with others: the same name for all that were made from one template.

        Such cases succeed and fail together, so that intervals are over clusters. Planners do not see it.
        """
        ...

    def problem(self, case_id: str) -> Problem:
        """One case. Its candidates are the whole library."""
        ...


@runtime_checkable
class Judged(Protocol):
    """A dataset whose problems have `examine`."""

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """What `examine` would say of an episode of the case that broke off: by the benchmark's rule it is unsolved.

        Nobody is asked, so that rates which are judged are over the cases that success is over.
        """
        ...
