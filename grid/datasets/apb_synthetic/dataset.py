"""Planning tasks whose truth can be computed (agent_planning_benchmark §3.1, B.4, B.5), generated.

The paper's task families, categories, lengths and numbers of tools, over typed programs (`grid.worlds.programs.model`)
of an authored stock: a case is a goal, its tools and a reference chain, and whether a chain reaches the goal is a
matter of what its calls find. None of the cases is the paper's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.code_digest import digest_of
from grid.core.problem import (
    BOTH,
    BRANCHING,
    DIAGNOSED,
    EXAMINED,
    JUDGED,
    PLANS,
    REFERENCES,
    Examine,
    Problem,
    Reference,
    Scorer,
)
from grid.core.types import Case, Family, Observation, Plan, Step, Substep, TaskKind, ToolCall, ToolSpec, Trajectory
from grid.core.util import STRICT, derive_seed, made_once
from grid.datasets.apb_synthetic.build import NOTE, Built, build
from grid.datasets.apb_synthetic.draw import draw
from grid.datasets.apb_synthetic.records import CASES, Recipe, judged_task, read, resolving, truth, write
from grid.datasets.apb_synthetic.stock import STOCK, categories, instead_of, tool_of, useless
from grid.datasets.dataset import RecordDataset
from grid.datasets.files import fingerprint
from grid.datasets.sampling import Stratum, ordered
from grid.episode.plan_judging import UNSOLVED, plan_examine
from grid.episode.planning import chain_of
from grid.worlds.layers import REJECT_TOOL
from grid.worlds.programs import search
from grid.worlds.programs.model import Task
from grid.worlds.programs.scoring import diagnose
from grid.worlds.programs.world import ProgramWorld

FAMILIES: tuple[Family, ...] = tuple(name for name in get_args(Family) if name != "stages")
"""Those of the paper's counts; its table 15 takes `stages` besides."""
ADAPTER = 2
"""Raise when the same recipes and stock give other cases, tools or outcomes."""


_PLAIN = ("holistic", "stepwise")
_HORIZONS = ("stepwise", "stages", "extraneous")
"""The families that may ask for some calls, and no whole plan."""


@dataclass(config=STRICT)
class ApbSynthetic(RecordDataset[Recipe]):
    """The cases of one seed, of the task families named.

    Step-wise cases stand behind calls that were made, and have `horizon` decisions; broken ones stand behind a call
    that failed. Every case offers `reject` beside its tools. Success is the scorer's verdict: the chain is correct;
    broken: the failed call was replaced, or got round with other tools; unsolvable: it was refused and nothing called.

    Args:
        families: which of the task families; `stages` has the trajectories of `stepwise` cut early and late.
        horizon: of the step-wise and extraneous cases that predict some calls, those that predict so many.
        n_extraneous: of the extraneous cases those with so many useless tools.
        counterparts: of holistic and step-wise cases only those of which cases of the other families were made, so that
            each has its counterpart; `limit` then counts these, and what was made of them comes with them.
        scorer: who says what is wrong with a plan.
        judge_reference: whether a judge sees the reference; false: it is blind (§D.1).
    """

    families: Annotated[list[Family], Field(min_length=1)] = Field(default_factory=lambda: list(FAMILIES))
    horizon: Literal[1, 2, 3] | None = None
    n_extraneous: Literal[2, 4, 6, 8, 10] | None = None
    counterparts: bool = False
    scorer: Scorer = "symbolic"
    judge_reference: bool = True
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def provides(self) -> frozenset[str]:
        """Questions about plans where a model judges them."""
        return frozenset({BRANCHING, DIAGNOSED, REFERENCES, *([EXAMINED] if self.asks else [])})

    @property
    def asks(self) -> Mapping[str, str]:
        """An evaluator which plans are right, where that is configured."""
        return {PLANS: "scorer"} if self.scorer in (JUDGED, BOTH) else {}

    @cached_property
    def root(self) -> Path:
        """The folder with `cases.jsonl`."""
        return generated(self.seed)

    @cached_property
    def version(self) -> str:
        """The adapter's version, the fingerprints of the stock and of the recipes, and the seed."""
        stock = fingerprint(*sorted(STOCK.glob("*.yaml")), self.root / CASES)
        return f"apb-synthetic-a{ADAPTER}-{stock}-{self.seed}"

    @cached_property
    def records(self) -> Mapping[str, Recipe]:
        """All cases of the seed by id, also those of other families."""
        return {recipe.id: recipe for recipe in read(self.root / CASES)}

    @cached_property
    def tools(self) -> Mapping[str, ToolSpec]:
        """All tools of the stock, and `reject`. A case may have them with costs, or for more items."""
        found = {REJECT_TOOL.name: REJECT_TOOL}
        for category in categories().values():
            tools = [
                *(tool_of(category, name, 1) for name in category.functions),
                *(instead_of(category, name, 1) for name in category.instead),
                *(useless(category, name, 1) for name in category.useless),
            ]
            found |= {tool.spec.name: tool.spec for tool in tools}
        return found

    def chosen(self) -> Sequence[str]:
        """Those of the families, horizons and numbers of useless tools."""
        return [name for name, recipe in self.records.items() if self._chosen(recipe)]

    def strata(self) -> Sequence[Stratum]:
        """Families of tasks, in them categories, and in these goals."""
        return lambda name: self.records[name].task_family, lambda name: self.records[name].category, self.cluster

    def case_ids(self) -> Sequence[str]:
        """The cases of the families, at most `limit` of them; a sample has its share of families and categories."""
        if not self.counterparts:
            return super().case_ids()
        chosen = self.chosen()
        made = [name for name in chosen if self.records[name].task_family not in _PLAIN]
        bases = {self._base(name) for name in made}
        plain = [name for name in chosen if self.records[name].task_family in _PLAIN and self._base(name) in bases]
        kept = ordered(plain, self.order, self.strata())[: self.limit]
        own = {self._base(name) for name in kept}
        return kept + [name for name in made if self._base(name) in own]

    def cluster(self, case_id: str) -> str:
        """The goal family: its cases have the same functions and phrasings."""
        return self.records[case_id].family

    def problem(self, case_id: str) -> Problem:
        """One case."""
        return self._problems(case_id)

    def built(self, case_id: str) -> Built:
        """A case's task, with what is known of it."""
        return build(self.records[case_id])

    def _base(self, case_id: str) -> tuple[str, int | None]:
        """What a case was made of: the solvable case, and how many of its calls are asked for."""
        return self.records[case_id].base, self.records[case_id].k

    def _chosen(self, recipe: Recipe) -> bool:
        return (
            recipe.task_family in self.families
            and self.horizon in (None, recipe.k if recipe.task_family in _HORIZONS else self.horizon)
            and self.n_extraneous in (None, recipe.n_extraneous or self.n_extraneous)
        )

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """Of an episode that broke off: no plan, and so none that is right."""
        return UNSOLVED[self.scorer]

    @cached_property
    def _problems(self) -> Callable[[str], Problem]:
        """The latest are kept: nothing of a problem changes."""
        return lru_cache(maxsize=1024)(self._problem)

    def _problem(self, case_id: str) -> Problem:
        built = self.built(case_id)
        task = built.task
        offered = _offered(built)
        tools = {tool.name: tool for tool in offered}
        return Problem(
            case=Case(
                case_id,
                task.query,
                Plan(()),
                done=done_steps(built),
                decisions=task.horizon,
                notes=(NOTE,) if built.kind.task_family == "costs" else (),
                diagnosed=True,
            ),
            reference=reference(built),
            world=ProgramWorld(task),
            candidates=lambda case, substep: offered,
            library=tools,
            same_function={tool.spec.name: tool.stands_for for tool in task.tools.values() if tool.stands_for},
            domain=built.kind.task_category,
            own=tuple(tools),
            measure=partial(measure, task, built.kind, least_cost_of(task)),
            examine=self._examine(built),
            kind=built.kind,
        )

    def _examine(self, built: Built) -> Examine | None:
        """What a judge says of a chain; the symbolic scorer needs none."""
        task, kind = built.task, built.kind
        shown = judged_task(task, kind, done_steps(built))
        return plan_examine(shown, self.scorer, self.judge_reference, partial(truth, task, kind))


def reference(built: Built) -> Reference:
    """The reference of a case; of an unsolvable one the calls of the solvable case that it was made from."""
    task = built.solvable
    calls: dict[str, ToolCall | None] = {
        str(place): ToolCall(name, dict(arguments)) for place, (name, arguments) in enumerate(task.reference)
    }
    behind = len(task.done)
    wanted = tuple(str(behind + number) for number in range(task.horizon)) if task.horizon else resolving(task)
    failing = frozenset(str(place) for place, done in enumerate(task.done) if done.failed)
    return Reference(calls, wanted, followed=False, failing=failing, unsolvable=built.kind.task_family == "unsolvable")


def done_steps(built: Built) -> tuple[Step, ...]:
    """The calls that were made before the prediction begins."""
    return tuple(
        Step(
            0,
            Substep(str(place), "", ""),
            call := ToolCall(done.tool, dict(done.arguments)),
            Observation(dict(done.content), done.failed),
            written=call,
        )
        for place, done in enumerate(built.task.done)
    )


def _offered(built: Built) -> tuple[ToolSpec, ...]:
    """The tools in the task's order, `reject` at a place that the seed draws."""
    specs = [tool.spec for tool in built.task.tools.values()]
    rng = random.Random(derive_seed(built.recipe.seed, "reject", built.recipe.id))
    specs.insert(rng.randint(0, len(specs)), REJECT_TOOL)
    return tuple(specs)


def generate(target: Path, seed: int) -> None:
    """Write `cases.jsonl` into an existing folder."""
    write(draw(seed), target / CASES)


def generated(seed: int) -> Path:
    """The cached folder of one seed."""
    key = f"{digest_of(generate)}-s{seed}"
    return made_once("apb_synthetic", key, (CASES,), partial(generate, seed=seed))


# Scores of a chain by the symbolic scorer (agent_planning_benchmark §3.3, §4.2).


def least_cost_of(task: Task) -> Callable[[], int | None]:
    """The least cost that solves a task, searched for when it is first asked for."""
    return cache(partial(search.least_cost, task))


def measure(
    task: Task, kind: TaskKind, least_cost: Callable[[], int | None], trajectory: Trajectory
) -> Mapping[str, Any]:
    """The fields of `Scores` that speak of plans, `success` among them; `unrefined_*` where there was a critique."""
    chain = chain_of(trajectory)
    found = diagnose(task, kind, chain)
    scores: dict[str, Any] = {
        "success": found.correct,
        "plan_correct": found.correct,
        "plan_grade": found.grade,
        "plan_errors": tuple(sorted(found.errors)),
        "behaviour": found.behaviour,
        "refused": found.refused,
        "extraneous_calls": found.extraneous_calls,
        "unresolved_arguments": found.unresolved_arguments,
    }
    if kind.task_family == "costs":
        scores |= {"plan_cost": found.cost, "least_cost": least_cost()}
    if trajectory.unrefined is not None:
        before = diagnose(task, kind, trajectory.unrefined)
        scores |= {
            "unrefined_correct": before.correct,
            "unrefined_grade": before.grade,
            "unrefined_errors": tuple(sorted(before.errors)),
        }
    return scores
