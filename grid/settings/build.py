"""Build the live objects of a setting from its config."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, cast

from grid import plugins
from grid.code_digest import code_digest
from grid.core.engine import ACTOR, ASKED, CRITIC, EVALUATOR, JUDGE, SIMULATOR, USER, Engine, Role
from grid.core.errors import ConfigError, UnfinishedError
from grid.core.metric import BY_NAME, Metric, declared_by, together
from grid.core.problem import DEMONSTRATIONS, DRAFTED, GIVEN, REFERENCES, Dataset, Demonstrations, Problem
from grid.core.types import Case, Demonstration, Plan
from grid.core.util import can, changed, derive_seed
from grid.datasets.dataset import part_of
from grid.datasets.question_answering import Nearest, question_words
from grid.engines.hosted import Informed
from grid.engines.places import places_of
from grid.episode.episode import Episode, Planner
from grid.episode.judging import Judging
from grid.episode.outline import draft
from grid.episode.progress import Budget
from grid.metrics.scores import SUCCESS
from grid.metrics.stepwise import score
from grid.planners.refining import Refining
from grid.planners.restoring import Restoring
from grid.retrievers.scored import bm25_texts
from grid.robustness.base import Robustness
from grid.roles.customer import Customer
from grid.roles.evaluation import Audit, Evaluation
from grid.roles.grounding import GroundingByModel
from grid.roles.simulation import Simulating, Simulation
from grid.settings.config import BudgetConfig
from grid.settings.make import make
from grid.settings.parts import KEPT, Parts, Pooled, dataset_of, key_of, key_of_data, ordering, parts_of, pooled
from grid.settings.remembered import Memory, memory_of
from grid.settings.roles import Prices, judging, models, prices_of, restoring, simulating
from grid.settings.setting import GROUPS, MEMORY, REFINE, WHICH_CASES, Setting
from grid.store.schema import COSTS, JOINED, SCORES, TEXT
from grid.worlds.layers import within
from grid.worlds.simulated import Referenced

# Solved cases from one half of a dataset: examples of plans for searches (ToolChain*) on cases of the other half.
#
# They are for datasets without demonstrations of their own. A case only gets cases from the half to which it does not
# belong, so it never gets itself. It also gets no case from its own cluster, whose cases have the same plan with
# different names. The halves are halves of the whole dataset, so a sweep's limit or order does not change any result.


_MOST = 1_000
"""The number of a dataset's first cases that may serve as solved cases; limited because every process builds all of
them."""


class Solved:
    """The solved cases among the first `_MOST` cases of a whole dataset."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def nearest(self, case: Case, cluster: str, count: int) -> tuple[Demonstration, ...]:
        """The `count` solved cases whose queries are most similar to a case's query, the most similar first.

        All of them are from the half of the dataset to which the case does not belong; there are fewer if that half has
        fewer. The calls of a solved case are its reference's calls. There are no solved cases if the calls that resolve
        cases are unknown, or if the dataset has its own demonstrations.
        """
        if not count or not self._plans:
            return ()
        return self._nearest(case.query, count, {self._half(case.id), _cluster(cluster)})

    @cached_property
    def _plans(self) -> dict[str, Demonstration]:
        """Solved cases by id, from the dataset's first `_MOST` cases; of cases with the same query, only the first."""
        if REFERENCES not in self._dataset.provides or DEMONSTRATIONS in self._dataset.provides:
            return {}
        found: dict[str, Demonstration] = {}
        asked = set[str]()
        for case_id in self._dataset.case_ids()[:_MOST]:
            problem = self._dataset.problem(case_id)
            calls = {place: call for place, call in problem.reference.calls.items() if call}
            if calls and problem.case.query not in asked:
                asked.add(problem.case.query)
                found[case_id] = Demonstration(problem.case.query, calls, problem.reference.answer or "")
        return found

    @cached_property
    def _nearest(self) -> Nearest[Demonstration]:
        plans = list(self._plans.values())
        texts = [plan.question for plan in plans]
        kept_apart = [{self._half(one), _cluster(self._dataset.cluster(one))} for one in self._plans]
        return Nearest(texts, plans.__getitem__, bm25_texts(lambda: texts, question_words), kept_apart)

    def _half(self, case_id: str) -> str:
        return "half test" if case_id in self._of_test else "half validation"

    @cached_property
    def _of_test(self) -> frozenset[str]:
        return frozenset(part_of(self._dataset.case_ids(), "test"))


def solved_of(dataset: Mapping[str, Any]) -> Solved:
    """Solved cases of a dataset; the choice and order of cases in its config are ignored. Raises like `dataset_of`."""
    return _solved(key_of({key: value for key, value in dataset.items() if key not in WHICH_CASES}))


@lru_cache(maxsize=KEPT)
def _solved(key: str) -> Solved:
    return Solved(dataset_of(key))


def _cluster(name: str) -> str:
    return f"cluster {name}"


_ASKING: Mapping[Role, tuple[Callable[..., object], ...]] = {
    JUDGE: (Audit, Judging),
    EVALUATOR: (Evaluation, Judging),
    SIMULATOR: (Simulation, Simulating),
    CRITIC: (Refining,),
    USER: (Customer, Simulating),
}
"""For each role, the code that asks the role's model."""
_OF_CASES = ("grid.metrics.scores.plan_shape", "grid.metrics.scores.solvable")
"""The full names of metrics that depend on the case alone.

They are given as texts, because `plan_shape` is a `Once`, which has no `__qualname__`.
"""

SAME: Mapping[str, str] = dict(
    line.split()[:2] for line in Path(__file__).with_name("same_code.txt").read_text(encoding="utf-8").splitlines()
)
"""Maps later digests to the first one; `python launch/same_code.py` adds lines for code changes that have no effect."""
KNOWN: Mapping[str, Metric] = {**BY_NAME, SUCCESS: Metric(SUCCESS, kind="flag")}
"""The metrics that no part of a setting has to declare."""
_COLUMNS = {*JOINED.names, SCORES, TEXT, COSTS} - {*KNOWN}


@dataclass(frozen=True)
class Built:
    """One setting's live objects.

    `engine` acts, `roles` has the engines of all other roles, and `judging` says how roles that give scores are asked.
    `order_seed` is the seed of the options' order; None means the order of retrieval. `compares_texts`: whether the
    evaluator says which texts mean the same thing (`dataset.equivalence=judge`). `tools_ask`: whether tools ask the
    judge which names were meant. `cell_money`: the maximum cost of an episode in US dollars, at `prices`.
    """

    engine: Engine
    planner: Planner
    dataset: Dataset
    pooled: Pooled
    robustness: tuple[Robustness, ...]
    budget: Budget
    roles: Mapping[Role, Engine] = field(default_factory=dict)
    judging: Mapping[Role, Judging] = field(default_factory=dict)
    restoring: Restoring = field(default_factory=Restoring)
    simulating: Mapping[Role, Simulating] = field(default_factory=dict)
    order_seed: int | None = 0
    compares_texts: bool = False
    tools_ask: bool = False
    prices: Prices = field(default_factory=dict)
    cell_money: float | None = None
    memory: Memory | None = None
    solved: Solved | None = None
    metrics: Mapping[str, Metric] = field(default_factory=lambda: KNOWN)

    @property
    def engines(self) -> dict[Role, Engine]:
        """All engines by role."""
        return {ACTOR: self.engine, **self.roles}

    def evaluation(self, case_id: str, sweep_seed: int) -> Evaluation | None:
        """The evaluator for a case, which judges texts' meanings and trajectories; None if there is no evaluator."""
        if EVALUATOR not in self.roles:
            return None
        seed = derive_seed(sweep_seed, "evaluation", self.dataset.version, case_id)
        return Evaluation(self.roles[EVALUATOR], self.judging[EVALUATOR], seed)

    def simulation(self, sweep_seed: int) -> Simulation | None:
        """The simulation of a case's tools; None if no model plays tools. The seed is the same for all cases."""
        if SIMULATOR not in self.roles:
            return None
        seed = derive_seed(sweep_seed, "simulation", self.dataset.version)
        return Simulation(self.roles[SIMULATOR], self.simulating[SIMULATOR], seed)

    def customer(self, seed: int) -> Customer | None:
        """The model that plays a cell's user; None if there is no such model. The seed is the same for all planners."""
        if USER not in self.roles:
            return None
        return Customer(self.roles[USER], self.simulating[USER], derive_seed(seed, "user"))

    def grounding(self, case_id: str, sweep_seed: int) -> GroundingByModel | None:
        """The judge that decides which names in a case's schema were meant; None if tools do not ask for this."""
        if not self.tools_ask:
            return None
        seed = derive_seed(sweep_seed, "grounding", self.dataset.version, case_id)
        return GroundingByModel(self.roles[JUDGE], self.judging[JUDGE], seed)

    @property
    def version(self) -> str:
        """The dataset's version, together with the version of the files that the pool reads."""
        return "+".join(filter(None, (self.dataset.version, self.pooled.version)))

    def remembered(self, case: Case) -> tuple[str, ...]:
        """The traces of other cases, for this case's prompts."""
        return self.memory.nearest(case.id, self.dataset.cluster(case.id), case.query) if self.memory else ()

    def solved_like(self, case: Case) -> Demonstrations:
        """A function that returns solved cases similar to a case: as many as its argument says, as `Solved.nearest`.

        It returns none if the setting's planner does not use solved cases.
        """
        if self.solved is None:
            return lambda count: ()
        return partial(self.solved.nearest, case, self.dataset.cluster(case.id))

    def audit(self, problem: Problem) -> Audit | None:
        """The audit that compares a problem's judge with its reference; None without a judge or a reference."""
        if JUDGE not in self.judging or REFERENCES not in self.dataset.provides:
            return None
        substitutes = frozenset(problem.reference.substitutes)
        return Audit(self.judging[JUDGE], self.restoring, places_of(problem.reference, substitutes))

    def problem(self, case_id: str, disturbance_seed: int) -> Problem:
        """A case with its pool and its candidates from the retriever, disturbed by the setting's robustness settings.

        If planners are not given the outline, the case's substeps are hidden. The tools for the whole query are still
        the tools that are retrieved for the substeps, so that settings with and without an outline differ in nothing
        else. If the acting engine is told the reference, tools that answer questions give the reference's answers,
        unless a model plays these tools.
        """
        problem, index = self.pooled.problem(case_id)
        for setting in self.robustness:
            problem = setting.disturb(problem, index, disturbance_seed)
        if can(type(self.engine), Informed) and SIMULATOR not in self.roles:
            world = within(problem.world, lambda own: own.by_reference() if isinstance(own, Referenced) else own)
            problem = replace(problem, world=world)
        parts = problem.case.plan.substeps
        if self.dataset.outline == GIVEN:
            return changed(problem, parts=parts)
        case, reference = replace(problem.case, plan=Plan(())), problem.reference.unfollowed()
        return changed(problem, parts=parts, case=case, reference=reference)


def build(setting: Setting, budget: BudgetConfig) -> Built:
    """Build one setting; no engine is loaded.

    Raises:
        ConfigError: a value cannot be used.
        DataError: a dataset's file cannot be read.
        StoreError, UnfinishedError: as for `memory_of`; or this machine has another version of a plugin.
    """
    config, parts = setting.config, parts_of(setting.config)
    engines = {role: engine_of(role, model) for role, model in models(config).items()}
    keys = key_of_data(config)
    built = Built(
        prices=prices_of(config, engines),
        engine=engines.pop(ACTOR),
        planner=parts.refining.around(parts.planner),
        dataset=parts.dataset,
        pooled=pooled(*keys),  # reads the dataset's files, so everything that reads none is built first
        robustness=tuple(parts.robustness.values()),
        budget=Budget(**budget.model_dump(exclude={"cell_money"})),
        cell_money=budget.cell_money,
        roles=engines,
        judging=judging(config),
        restoring=restoring(config),
        simulating=simulating(config),
        order_seed=ordering(config).seed(setting.seed),
        compares_texts=parts.compares_texts is not None,
        tools_ask=parts.tools_ask is not None,
        solved=solved_of(config["dataset"]) if parts.goes_by_solved else None,
    )
    return replace(built, memory=memory_of(setting, built.version), metrics=_metrics_of(built))


def _metrics_of(built: Built) -> Mapping[str, Metric]:
    """The metrics of a setting's cells: our own, and any that the dataset or the planner declares in `metrics`."""
    parts = {type(part).__qualname__: declared_by(part) for part in (built.dataset, built.planner)}
    return together([("ours", KNOWN.values()), *parts.items()], reserved=_COLUMNS) if any(parts.values()) else KNOWN


def code_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the code of each group in a checked setting, and of the metrics' code (docs/results.md).

    If a code change is known to have no effect on results, the first digest is used in place of the new one (SAME).
    """
    own = tuple(sorted(plugins.allowed()))
    named = code_names(config, parts_of(config))
    found = {name: code_digest(names, own) for name, names in named.items()}
    return {name: SAME.get(digest, digest) for name, digest in found.items()}


def code_names(config: Mapping[str, Any], parts: Parts) -> dict[str, tuple[str, ...]]:
    """For each group, the definitions whose code is part of the group's digest.

    A planner makes requests and acts on the world through the episode, so the episode's code counts as the planner's
    code, although no planner names it.
    """
    grouped = {group: [config[group]] for group in GROUPS} | {"robustness": list(config["robustness"].values())}
    grouped |= {key: [config[key]] for key in (REFINE, MEMORY, *ASKED) if key in config}
    targets = {name: {part["_target_"] for part in parts} for name, parts in grouped.items()}
    further: dict[str, list[Callable[..., object]]] = {"planner": [Episode], "metrics": [score]}
    if MEMORY in config:
        further[MEMORY] = [memory_of]
    if parts.goes_by_solved:
        further["planner"].append(solved_of)
    if parts.dataset.outline == DRAFTED:
        further["planner"].append(draft)
    for role in (role for role in ASKED if role in config):
        further[role] = [*_ASKING[role], *[GroundingByModel] * (role == JUDGE and bool(parts.tools_ask))]
    for name, definitions in further.items():
        targets.setdefault(name, set()).update(f"{one.__module__}.{one.__qualname__}" for one in definitions)
    targets["metrics"].update(_OF_CASES)
    return {name: tuple(sorted(found)) for name, found in targets.items()}


def expect_code(setting: Setting) -> None:
    """Raise UnfinishedError if a setting was checked with code that differs from the code on this machine."""
    here = code_of(setting.config) if setting.code else {}
    changed = [name for name, digest in setting.code.items() if here[name] != digest]
    if changed:
        raise UnfinishedError(
            f"{socket.gethostname()} and the sweep's driver have different code (it differs in {', '.join(changed)}); "
            "install the same version on all nodes, and run again with the same name"
        )


def build_engine(model: Mapping[str, Any]) -> Engine:
    """The engine of a model group's config; nothing is loaded."""
    return _engine(key_of(model))


def engine_of(role: Role, model: Mapping[str, Any]) -> Engine:
    """Like `build_engine`, but an error in a role's model names the role's keys."""
    try:
        return build_engine(model)
    except ConfigError as error:
        group, dot, key = error.key.partition(".")
        if role == ACTOR or group != "model":
            raise
        raise ConfigError(f"{role}{dot}{key}", error.value, error.allowed) from None


@lru_cache(maxsize=8)
def _engine(key: str) -> Engine:
    return cast(Engine, make("model", json.loads(key)))
