"""The contents of a dataset: cases with worlds and references, the tool library for retrievers, and skipped records."""

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

# The reference solution of a case, which planners never see.


@dataclass(frozen=True)
class Substitute:
    """The tool that replaces a tool that is out of service.

    `arguments` maps the argument names of the tool that is out of service to the argument names of `tool`.
    """

    tool: str
    arguments: Mapping[str, str]

    def call(self, call: ToolCall) -> ToolCall:
        """Turn a call to the tool that is out of service into a call to the replacement."""
        return ToolCall(self.tool, {self.arguments.get(name, name): value for name, value in call.arguments.items()})


@dataclass(frozen=True)
class Milestone:
    """A call that should be made on the way to a resolution, or that must not be made (`Reference.forbidden`).

    A successful call reaches the milestone if its arguments include `arguments` and its result includes `result`; each
    value may be in any equal form. A milestone can also be a state of the world, described by a call that shows the
    state. A state that no call shows is described by `state`, a function of the world's last state; the milestone then
    has no `tool`. `after` names the milestones that earlier calls must have reached.
    """

    name: str
    tool: str = ""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    result: Mapping[str, Json] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    state: Callable[[Hashable], bool] | None = None


@dataclass(frozen=True)
class Reference:
    """The solution that planners never see: the reference call of each substep (None: no tool), in plan order.

    Arguments may contain `OUTPUT_FROM_STEP_i.j.field`; `resolution` names the substeps whose outcomes together are the
    case's resolution. `followed`: planners receive the substeps, so their steps can be compared with the calls; if
    false, there are other ways to reach the resolution. `ordered`: the order of the calls matters; if false, the calls
    are a set (traject_bench §3.2, parallel queries). `answer` is the final answer, if there is one. `failing` are the
    substeps whose calls are right although they return a failure, as they did when the reference was recorded. In a
    case without an outline, None in place of a call marks the end of a turn. `unsolvable`: a refusal is the right
    answer; the calls, if there are any, are the refusal (a call of REJECT), or those that a planner makes if it
    overlooks that the case is unsolvable.
    `told`: a planner that ends the work has to give the answer verbatim. `substitutes` maps the name of a tool that is
    out of service to its replacement. `milestones` should be reached on the way to the resolution; `forbidden` calls
    should not be made. Milestones and forbidden calls have their own metrics (`grid.metrics.milestones`), separate from
    success.
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
        """The reference for planners that do not receive the substeps; substeps without a call are left out."""
        if not self.followed:
            return self
        return replace(self, calls={step: call for step, call in self.calls.items() if call}, followed=False)

    def part(self, first: int, most: int | None) -> Reference:
        """The part of the reference with at most `most` calls, starting at index `first`.

        Its resolution contains only those steps of the whole resolution that are in this part.
        """
        kept = dict(islice(self.calls.items(), first, None if most is None else first + most))
        return replace(self, calls=kept, resolution=tuple(step for step in self.resolution if step in kept))


# The tools offered at a decision.


Mode: TypeAlias = Literal["static", "dynamic", "thought"]
"""The times at which tools are retrieved, and the text with which they are retrieved (traject_bench §4.1, §4.4).

`static`: once, with the query or substep. `dynamic`: before every decision, with the query or substep together with the
last thought and observation. `thought`: in every decision, between its thought and its action, with the new thought
alone, as in the authors' script.
"""


class Retriever(Protocol):
    """Finds tools in a library. `index` is called once per library, `retrieve` once per decision."""

    def index(self, library: Mapping[str, ToolSpec]) -> Index:
        """Prepare a library for search."""
        ...


class Index(Protocol):
    """A library that is ready for search.

    `query_top_k`: the maximum number of tools offered for a whole query, chosen from the tools for its substeps.
    """

    @property
    def query_top_k(self) -> int:
        """Maximum number of tools offered for a whole query; at least 1."""
        ...

    @property
    def mode(self) -> Mode:
        """The times at which `retrieve` is called.

        After the first call, the substep's text contains the last thought, the last observation, or both.
        """
        ...

    def retrieve(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The substep's candidates, best first; tools of equal rank are in the library's order."""
        ...

    def nearest(self, text: str) -> list[ToolSpec]:
        """The whole library, tools most similar to a text first; equally similar tools are in the library's order."""
        ...

    def of(self, names: Collection[str], at_least: int = 0) -> Index:
        """An index of only these tools, which ranks them in the same way as the index of the whole library.

        At least `at_least` of these tools are offered for a substep or a whole query.
        """
        ...


@runtime_checkable
class Told(Protocol):
    """The extra method of an index that needs a case's reference.

    The run layer calls this method; planners see no index.
    """

    def told(self, reference: Reference) -> Index:
        """The index for one case."""
        ...


OUTLINE, DEMONSTRATIONS, BRANCHING, REFERENCES = "outline", "demonstrations", "branching", "references"
EXAMINED, SIMULATED, SOLVED_FIRST = "examined", "simulated", "solved_first"
DIAGNOSED = "diagnosed"
TALKS = "talks"
GIVEN, HIDDEN, DRAFTED = "given", "hidden", "drafted"
Outline: TypeAlias = Literal["given", "hidden", "drafted"]
"""The outline that planners follow: the case's plan, no outline (decide one call at a time), or a plan drafted by the
model."""

Resolution: TypeAlias = Literal["last", "all"]
"""The calls that resolve a case with looked-up outcomes: the last call, or all calls whose outcome no other call uses.

Either way, a case is resolved once the outcomes of these calls have been obtained, whatever other calls were made. A
call obtains an outcome if it has every argument of the reference call in an equal form, and no further arguments except
arguments that the tool declares optional.
"""


AFTER = "after"
Answering: TypeAlias = Literal["after", "none"]
"""The answer that counts if answers are scored; with `none`, this is the answer with which the planner ends.

`after`: a planner that ends without an answer, or that wrote its answer before its calls were run, is asked once for an
answer after the calls (`grid.episode.answering`; tooltree, figure 2; traject_bench §4.1).
"""

JUDGED = "judge"
BOTH = "both"
Scorer: TypeAlias = Literal["symbolic", "judge", "both"]
"""How a plan is judged right or wrong: by computation, by a model (the role `evaluator`), or by both."""
TEXTS, PLANS = "texts", "plans"
"""The kinds of evaluator questions in a Dataset's `asks`: which texts mean the same, and which plans are right."""
Equivalence: TypeAlias = Literal["rules", "judge"]
"""How arguments with the same meaning are recognised if outcomes are looked up: by rules alone, or also by a model.

The model (the role `evaluator`) is asked about free texts that differ according to the rules. The rules alone decide
whether a case is solvable.
"""


class Candidates(Protocol):
    """A function that returns the tools offered for a substep, best first."""

    def __call__(self, case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        """The candidate tools of one substep of a case."""
        ...


class Demonstrations(Protocol):
    """A function that returns solved questions similar to a case's question."""

    def __call__(self, count: int) -> Sequence[Demonstration]:
        """The `count` most similar questions, the most similar first."""
        ...


def _none(count: int) -> Sequence[Demonstration]:
    return ()


class Evaluator(Protocol):
    """The model that is asked about a finished trajectory: the role `evaluator`."""

    async def score(self, prompt: Prompt, *key: object) -> float | None:
        """The model's score in [0, 1] for the object in the prompt; None if no answer could be read after retries."""
        ...

    async def vote(
        self, prompt: Prompt, candidates: Sequence[str], *key: object, temperature: float = 0.0
    ) -> int | None:
        """The index of the candidate that the model names; None if no answer could be read, after all retries.

        Above temperature 0, different keys may give different answers; an exact distribution has no temperature.
        """
        ...

    async def verdict(self, prompt: Prompt, *key: object, truth: Verdict | None = None) -> Verdict | None:
        """The verdict on a plan; None if no answer could be read after retries.

        Only engines with a planted accuracy receive `truth`.
        """
        ...


Measure: TypeAlias = Callable[[Trajectory], Mapping[str, Any]]
"""Computes, without a model, a benchmark's own metrics of a trajectory, by name."""
Examine: TypeAlias = Callable[[Trajectory, Evaluator], Awaitable[Mapping[str, Any]]]
"""Computes, with the help of a model, a benchmark's own metrics of a finished trajectory, by name."""


def no_baselines() -> Mapping[str, bool | None]:
    """No baselines."""
    return {}


NOTHING = "nothing_success"
BASELINES = ("constant_success", "constant_by_function_success", NOTHING, "transfer_success")
"""The columns of `episodes` that `Problem.baselines` may fill; the world fills the column NOTHING if `baselines` does
not fill it."""


def as_it_is(trajectory: Trajectory) -> Trajectory:
    """The trajectory unchanged."""
    return trajectory


def no_measure(trajectory: Trajectory) -> Mapping[str, Any]:
    """The `measure` of a benchmark that has no metrics of its own."""
    return {}


@dataclass(frozen=True)
class Problem:
    """One case ready to run: the case as planners see it, the world that they act on, and the reference for scoring.

    Robustness settings map a Problem to a Problem. `same_function` maps a tool to the common name of all tools with the
    same function. `domain` is the case's domain, with the same name as in the `category` of tools. `own` names the
    candidates that the benchmark itself provides for the case, including the reference's tools; it is empty if the
    benchmark provides no candidates. `measure` and `examine` compute the benchmark's own metrics. `baselines` states,
    for columns in BASELINES, whether answers given without reading the query resolve the case; None if only a judge can
    decide. `controls` (the column `controls`) are the variables, by name (letters, digits and _), that a regression
    controls for in addition to the plan's shape and the dataset (planning_horizon B.3). Without `controls`, the
    regression controls for the plan's last tool. `kind` is the task of agent_planning_benchmark to which the case
    belongs, if any. If a robustness setting has its own tools or states, `as_stated` translates a trajectory into the
    reference's terms; metrics are computed from the translation.

    The run layer sets how tools are retrieved. `parts` are the substeps whose candidates form the tools of the whole
    query, at most `query_tools` tools; without `parts`, tools are retrieved for the query's text. `retrieved`: the
    times at which tools are retrieved.
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
    baselines: Callable[[], Mapping[str, bool | None]] = no_baselines
    controls: Mapping[str, bool | str] = field(default_factory=dict)
    kind: TaskKind | None = None
    as_stated: Callable[[Trajectory], Trajectory] = as_it_is
    parts: tuple[Substep, ...] = ()
    query_tools: int = 50
    retrieved: Mode = "static"


@runtime_checkable
class Stating(Protocol):
    """A dataset whose evaluator may be asked which statements about an episode are true.

    The engine of such an evaluator must understand text, since comparing the words of two texts does not show whether a
    statement is true.
    """

    @property
    def stating(self) -> bool:
        """Whether the evaluator is asked about statements for any case."""
        ...


class Dataset(Protocol):
    """A benchmark that is created from YAML, reads its files on first use, and then answers from memory.

    `provides` lists the features of the cases. OUTLINE: a plan of substeps to follow. DEMONSTRATIONS: solved questions.
    BRANCHING: worlds that can continue from a state more than once. REFERENCES: the calls that resolve a case are known
    and can be given to an engine. EXAMINED: problems have `examine`, for settings that name an evaluator.
    SIMULATED: worlds are `grid.worlds.simulated.Played`, for settings that name a simulator. DIAGNOSED: the truth about
    a plan can be computed. SOLVED_FIRST: if only one of two trajectories passed, the one that passed is better
    (`grid.roles.comparing.SOLVED_FIRST_RULE`). TALKS: a model in the role `user` talks with the planner
    (`grid.worlds.simulated.Talking`).

    A dataset that needs an evaluator has `asks`, which maps a kind of question (TEXTS, PLANS) to the dataset's key that
    enables it. Without `asks`, the dataset has no questions for an evaluator.
    """

    @property
    def provides(self) -> frozenset[str]:
        """The features that the dataset provides as configured."""
        ...

    @property
    def outline(self) -> Outline:
        """The configured outline.

        A problem always has the case's own plan; the run layer applies the configured outline.
        """
        ...

    @property
    def version(self) -> str:
        """A version that changes whenever a case, a tool or an outcome changes; it is part of every cell's id."""
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
        """The ids of the cases, in the dataset's order; at most `limit` ids."""
        ...

    def cluster(self, case_id: str) -> str:
        """The name of the case's cluster; cases generated from the same template are in the same cluster.

        Cases from one template tend to succeed or fail together, so intervals are computed over clusters. Planners do
        not see the cluster.
        """
        ...

    def problem(self, case_id: str) -> Problem:
        """One case. The case's candidates are the whole library."""
        ...


@runtime_checkable
class Judged(Protocol):
    """A dataset whose problems have `examine`."""

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """The metrics of `examine` for an episode that ended early, whose case is unsolved by the benchmark's rule.

        These metrics need no model. With these metrics, judged rates cover the same cases as success.
        """
        ...
