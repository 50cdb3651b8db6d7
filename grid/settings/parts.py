"""The parts of a setting other than engines, as objects that are built once, and their questions to models.

Parts declare their questions themselves (`asks`). Questions are not recognised by the names of keys, so a plugin's keys
may have any names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Literal, cast

from pydantic import ValidationError
from pydantic.dataclasses import dataclass as strict_dataclass

from grid.core.engine import JUDGE
from grid.core.errors import ConfigError
from grid.core.problem import PLANS, TEXTS, Dataset, Index, Problem, Retriever, Told
from grid.core.types import FINISH, GIVE_UP, NO_TOOL, ToolSpec
from grid.core.util import STRICT, can, changed
from grid.episode.episode import Planner
from grid.planners.refining import NOT_REFINED, Refining
from grid.pools.whole import Pool
from grid.retrievers.scored import RedefinedIndex
from grid.robustness.base import Robustness
from grid.settings.make import config_error, make
from grid.settings.setting import OPTIONS, REFINE


@dataclass(frozen=True)
class Parts:
    """The objects of a setting, without engines. Making them does not read any of the dataset's files."""

    planner: Planner
    dataset: Dataset
    robustness: Mapping[str, Robustness]
    refining: Refining

    @property
    def compares_texts(self) -> str | None:
        """The dataset's key that lets an evaluator say which texts mean the same thing; None if no evaluator does."""
        return _asks(self.dataset).get(TEXTS)

    @property
    def judges_plans(self) -> str | None:
        """The dataset's key that lets an evaluator decide which plans are right; None if no evaluator is asked."""
        return _asks(self.dataset).get(PLANS)

    @property
    def tools_ask(self) -> str | None:
        """The robustness setting's key that makes tools ask the judge which names were meant; None if no tool asks."""
        keys = ((name, _asks(part).get(JUDGE)) for name, part in self.robustness.items())
        return next((f"{name}.{key}" for name, key in keys if key), None)

    @property
    def goes_by_solved(self) -> bool:
        """Whether the planner uses solved cases, which are from the half of the dataset without the current case."""
        return bool(getattr(self.planner, "goes_by_solved", False))

    @property
    def refines(self) -> bool:
        """Whether plans are refined."""
        return self.refining.mode != NOT_REFINED


def parts_of(config: Mapping[str, Any]) -> Parts:
    """The parts of a setting's config; all are new objects except the dataset, which is shared. Raises ConfigError."""
    refine = config.get(REFINE)
    if refine is not None and not isinstance(refine, Mapping):
        raise ConfigError(REFINE, refine, "one of the files in conf/refine")
    robustness = ((name, make(f"robustness.{name}", part, "robustness")) for name, part in config["robustness"].items())
    return Parts(
        planner=cast(Planner, make("planner", config["planner"])),
        dataset=dataset_of(key_of(config["dataset"])),
        robustness={name: cast(Robustness, part) for name, part in robustness},
        refining=Refining() if refine is None else cast(Refining, make(REFINE, refine)),
    )


def _asks(part: object) -> Mapping[str, str]:
    """For each kind of question to a model, the part's key that enables it; empty if no questions are declared."""
    return getattr(part, "asks", None) or {}


# A process's datasets, pools and retrievers, each built once: the tools that a case may get, and their retrieval.
# All functions accept their groups' configs as JSON, so settings that share a dataset share its cases and its index.


KEPT = 8
"""The number of datasets, with their pools and retrievers, that a process keeps."""
_KEPT = 64
"""The number of pools that are kept: a pool of 10,000 tools takes half a megabyte."""


class Pooled:
    """A dataset's cases, each with its pool and a search index for the pool.

    A case's own tools are defined as in the library of its problem. `stock` has the tools of all pools, and `index`
    finds these tools. A case whose plan is diagnosed is offered all its own tools, whatever the pool and the retriever
    are: the set of tools is part of the task (agent_planning_benchmark §3.1), and tools of other cases could solve an
    unsolvable case.
    """

    def __init__(self, dataset: Dataset, pool: Pool, stock: Mapping[str, ToolSpec], index: Index) -> None:
        self._dataset, self._pool, self._stock, self._index = dataset, pool, stock, index
        self.version = pool.version
        self._known: dict[str, tuple[Mapping[str, ToolSpec], Index]] = {}

    def problem(self, case_id: str) -> tuple[Problem, Index]:
        """A case whose library is its pool, and the pool's index; raises ConfigError if a pool cannot be made."""
        problem = self._dataset.problem(case_id)
        if problem.case.diagnosed:
            return problem, self._index
        if case_id not in self._known:  # all planners and trials use the same cases
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[case_id] = self._search(problem)
        tools, index = self._known[case_id]
        problem = changed(
            problem,
            library=tools,
            candidates=index.retrieve,
            query_tools=index.query_top_k,
            retrieved=index.mode,
        )
        return problem, index

    def _search(self, problem: Problem) -> tuple[Mapping[str, ToolSpec], Index]:
        tools, index = self._pool.tools(problem, self._stock), self._index
        if tools is not self._stock:
            index = index.of(tools, at_least=len(tools) if len(tools) <= self._pool.in_context else 0)
        if can(type(index), Told):
            index = cast(Told, index).told(problem.reference)
        # If several cases define a tool differently, the stock has only one of the definitions.
        own = {name: problem.library[name] for name in problem.own if name in tools}
        changed = {name: tool for name, tool in own.items() if tool != tools[name]}
        return ({**tools, **changed}, RedefinedIndex(index, changed)) if changed else (tools, index)


def key_of_data(config: Mapping[str, Any]) -> tuple[str, str, str]:
    """The arguments of `pooled` for a setting's config; settings with equal arguments share the pooled cases."""
    return key_of(config["dataset"]), key_of(config["pool"]), key_of(config["retriever"])


def key_of(config: Mapping[str, Any]) -> str:
    """A text that is the same for equal configs of a group."""
    return json.dumps(config, sort_keys=True)


@lru_cache(maxsize=KEPT)
def dataset_of(key: str) -> Dataset:
    """The dataset of a config; raises ConfigError."""
    return cast(Dataset, make("dataset", json.loads(key)))


@lru_cache(maxsize=KEPT)
def pooled(dataset: str, pool: str, retriever: str) -> Pooled:
    """The cases with their pools, for the configs of three groups.

    Raises:
        ConfigError: a config cannot be used, the library has no tools, or a tool has the name of an option.
        DataError: a dataset's file cannot be read.
    """
    data, chosen = dataset_of(dataset), _pool(pool)
    found = cast(Retriever, make("retriever", json.loads(retriever)))
    stock = _stock(dataset, pool)
    return Pooled(data, chosen, stock, found.index(stock))


@lru_cache(maxsize=64)
def lacking(dataset: str, pool: str) -> str | None:
    """The pool's requirement that some case of a dataset does not meet; None if all cases fit the pool.

    In the text, `{file}` stands for the dataset's YAML file.

    Raises:
        ConfigError: the dataset or the pool cannot be made.
        DataError: a dataset's file cannot be read.
    """
    data, chosen = dataset_of(dataset), _pool(pool)
    if chosen.needs is None:
        return None
    unfit = next((case_id for case_id in data.case_ids() if not chosen.fits(data.problem(case_id))), None)
    return f"{chosen.needs}, but {{file}} has none for case {unfit}" if unfit else None


@lru_cache(maxsize=KEPT)
def _pool(key: str) -> Pool:
    return cast(Pool, make("pool", json.loads(key)))


@lru_cache(maxsize=KEPT)
def _stock(dataset: str, pool: str) -> Mapping[str, ToolSpec]:
    """All tools that may be offered to cases; retrievers share this library."""
    tools = dataset_of(dataset).tools
    if not tools:
        raise ConfigError("dataset", "a library of 0 tools", "at least one tool")
    taken = [name for name in (NO_TOOL, FINISH, GIVE_UP) if name in tools]
    if taken:
        raise ConfigError(
            "dataset", taken, "tools must not have these names, because every choice has options with these names"
        )
    return _pool(pool).stock(tools)


# The key `options`: the order in which every decision's options are shown.


@strict_dataclass(frozen=True, config=STRICT)
class Ordering:
    """`shuffled`: a random order per case and step, the same for all planners, models and trials.

    `ranked`: the order of retrieval, with the best tool first, and `no_tool` or `finish` last.
    """

    order: Literal["shuffled", "ranked"] = "shuffled"

    def seed(self, of_sweep: int) -> int | None:
        """The seed of random orders; None if orders are not random."""
        return of_sweep if self.order == "shuffled" else None


def ordering(config: Mapping[str, Any]) -> Ordering:
    """The ordering of a setting, or the default if the config has none; raises ConfigError."""
    given = config.get(OPTIONS, {})
    if not isinstance(given, Mapping):
        raise ConfigError(OPTIONS, given, "must be set by its key: options.order=shuffled or options.order=ranked")
    try:
        return Ordering(**{str(key): value for key, value in given.items()})
    except ValidationError as error:
        raise config_error(f"{OPTIONS}.", error, ["order"]) from None


def with_ordering(config: Mapping[str, Any], groups: dict[str, Any]) -> dict[str, Any]:
    """The groups of a setting's config and the key `options`, whose defaults are filled in; raises ConfigError."""
    return groups | {OPTIONS: asdict(ordering(config))}
