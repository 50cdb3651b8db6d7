"""From config to live objects. Checks a whole sweep before anything starts."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from grid.code_digest import code_digest
from grid.datasets.base import GIVEN, OUTLINE, Dataset, Problem
from grid.engines.base import CHOOSE, SAMPLE, Engine
from grid.errors import ConfigError, UnfinishedError
from grid.metrics.stepwise import score
from grid.planners.base import Budget, Planner
from grid.retrievers.base import Index, Retriever
from grid.robustness.base import Robustness
from grid.sweep.cell import GROUPS, Setting
from grid.types import FINISH, NO_TOOL, Plan

ROOMS = {
    "model": "grid.engines",
    "planner": "grid.planners",
    "dataset": "grid.datasets",
    "robustness": "grid.robustness",
    "retriever": "grid.retrievers",
}
_MEMBERS = {
    "model": ("provides", "home", "sample", "choose"),
    "planner": ("needs", "solve"),
    "dataset": ("provides", "case_ids", "problem"),
    "robustness": ("disturb",),
    "retriever": ("index",),
}


_MOST = 2**31 - 1
"""Of what an episode may do or read: the tables count in 32 bits."""
_Seconds = Annotated[float, Field(gt=0, le=10_000_000)]
"""At most 115 days."""
_Count = Annotated[int, Field(ge=1, le=100_000)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class StoreConfig(_Section):
    """Where results lie."""

    root: str = Field(min_length=1)


class BudgetConfig(_Section):
    """What one episode may ask for."""

    llm_calls: Annotated[int, Field(ge=1, le=_MOST)]
    tool_calls: Annotated[int, Field(ge=1, le=_MOST)]
    prompt_characters: Annotated[int, Field(ge=1, le=_MOST)] = 1_000_000
    observation_characters: Annotated[int, Field(ge=1, le=_MOST)] = 100_000


class ClusterConfig(_Section):
    """The Ray cluster and how work is cut for it."""

    kind: Literal["local", "address"]
    address: str | None = None
    auth: Literal["token", "disabled"] = "token"
    cpus: _Count | None = None
    chunk_cells: Annotated[int, Field(ge=1, le=10_000)] = 25
    chunks_in_flight: _Count | None = None
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    ready_seconds: _Seconds = 1800.0
    case_seconds: _Seconds = 3600.0
    worker_memory_gib: Annotated[float, Field(gt=0, le=100_000)] = 8.0
    dashboard: bool = True

    @model_validator(mode="after")
    def _has_address(self) -> ClusterConfig:
        """`host:port` where a cluster is joined."""
        if self.kind == "address" and not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:]+):[0-9]{1,5}", self.address or ""):
            raise ConfigError("cluster.address", self.address, "the address of a running cluster, host:port")
        return self


def _retry(value: object) -> object:
    """Not 1 either, which equals True."""
    if not isinstance(value, bool) and value != "all":
        raise ConfigError("retry_failed", value, "true, false or all")
    return value


class SweepConfig(_Section):
    """The keys that all settings of a sweep share."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    store: StoreConfig
    trials: Annotated[int, Field(ge=1, le=10_000)]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    dry_run: bool
    retry_failed: Annotated[bool | Literal["all"], BeforeValidator(_retry)]
    accept_code: bool = False
    budget: BudgetConfig
    cluster: ClusterConfig


@dataclass(frozen=True)
class Built:
    """One setting's live objects."""

    engine: Engine
    planner: Planner
    dataset: Dataset
    index: Index
    robustness: tuple[Robustness, ...]
    budget: Budget

    def problem(self, case_id: str, disturbance_seed: int) -> Problem:
        """A case with its candidates from the retriever, disturbed as the setting says.

        Without a given outline its substeps are hidden; the tools of the whole query are still those of its substeps,
        so that all that differs is the outline.
        """
        problem = replace(self.dataset.problem(case_id), candidates=self.index.retrieve)
        for setting in self.robustness:
            problem = setting.disturb(problem, self.index, disturbance_seed)
        problem = replace(problem, pool=problem.case.plan.substeps)
        if self.dataset.outline == GIVEN:
            return problem
        hidden, unfollowed = replace(problem.case, plan=Plan(())), replace(problem.reference, followed=False)
        return replace(problem, case=hidden, reference=unfollowed)


def sweep_config(config: Mapping[str, Any]) -> SweepConfig:
    """The shared keys, checked; raises ConfigError with the dotted key."""
    try:
        return SweepConfig.model_validate({key: value for key, value in config.items() if key not in GROUPS})
    except ValidationError as error:
        raise _config_error("", error, [*SweepConfig.model_fields, *GROUPS]) from None


def build(setting: Setting, budget: BudgetConfig) -> Built:
    """Build one setting; raises ConfigError, or DataError from the dataset's files."""
    config = setting.config
    robustness = tuple(
        cast(Robustness, make(f"robustness.{name}", part, "robustness")) for name, part in config["robustness"].items()
    )
    return Built(
        engine=build_engine(config["model"]),
        planner=cast(Planner, make("planner", config["planner"])),
        dataset=_dataset(_key(config["dataset"])),
        index=_index(_key(config["dataset"]), _key(config["retriever"])),  # reads the dataset's files, so at the end
        robustness=robustness,
        budget=Budget(**budget.model_dump()),
    )


def code_of(config: Mapping[str, Any]) -> dict[str, str]:
    """A digest of the code behind each group of a checked setting, and of the metrics (README, 'What makes an id')."""
    named = {group: [config[group]] for group in GROUPS} | {"robustness": list(config["robustness"].values())}
    modules = {
        group: tuple(sorted(part["_target_"].rpartition(".")[0] for part in parts)) for group, parts in named.items()
    }
    return {name: code_digest(found) for name, found in {**modules, "metrics": (score.__module__,)}.items()}


def expect_code(setting: Setting) -> None:
    """Raise UnfinishedError where a setting was checked with other code than this machine's."""
    here = code_of(setting.config) if setting.code else {}
    changed = [name for name, digest in setting.code.items() if here[name] != digest]
    if changed:
        raise UnfinishedError(
            f"{socket.gethostname()} has other code than the sweep's driver (of {', '.join(changed)}); "
            "install the same on all nodes, and run again with the same name"
        )


def build_engine(model: Mapping[str, Any]) -> Engine:
    """The engine of a model group's config; nothing is loaded."""
    return _engine(_key(model))


def invalid_reason(setting: Setting) -> str | None:
    """Why a setting's parts do not go together, naming both YAML files; None where they do."""
    planner = cast(Planner, make("planner", setting.config["planner"]))
    dataset = _dataset(_key(setting.config["dataset"]))
    of = f"conf/dataset/{_file(setting, 'dataset')}.yaml"
    if dataset.outline == GIVEN and OUTLINE not in dataset.provides:
        return f"{of} has no outline of its own, so that dataset.outline is hidden or drafted"
    verbs, cases = planner.needs & {SAMPLE, CHOOSE}, planner.needs - {SAMPLE, CHOOSE}
    needs = f"conf/planner/{_file(setting, 'planner')}.yaml needs"
    missing = verbs - build_engine(setting.config["model"]).provides
    if missing:
        return f"{needs} {', '.join(sorted(missing))}, which conf/model/{_file(setting, 'model')}.yaml cannot do"
    missing = cases - dataset.provides
    return f"{needs} {', '.join(sorted(missing))}, which {of} does not have" if missing else None


def _file(setting: Setting, group: str) -> str:
    """The YAML's name: the label without the values that were changed in it."""
    return setting.labels[group].partition("[")[0]


def make(key: str, config: Mapping[str, Any], room: str | None = None) -> object:
    """The object that a config names: a class of its own room in `grid`, its values checked.

    Raises:
        ConfigError: the dotted key, the value and what is allowed.
    """
    cls = load_class(key, config, room)
    try:
        return cls(**{str(name): value for name, value in config.items() if name != "_target_"})
    except ValidationError as error:
        raise _config_error(f"{key}.", error, _fields(cls)) from None


def load_class(key: str, config: Mapping[str, Any], room: str | None = None) -> type:
    """The class named by `_target_`; only classes of the group's own package are loaded."""
    package = ROOMS[room or key]
    target = config.get("_target_") if isinstance(config, Mapping) else None
    allowed = f"the dotted name of a class under {package}"
    if not isinstance(target, str) or not target.startswith(f"{package}."):
        raise ConfigError(f"{key}._target_", target, allowed)
    module, _, name = target.rpartition(".")
    try:
        cls = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{key}._target_", target, f"{allowed} ({error})") from None
    members = _MEMBERS[room or key]
    if not isinstance(cls, type) or cls.__module__ != module or inspect.isabstract(cls):
        raise ConfigError(f"{key}._target_", target, allowed)
    if getattr(cls, "_is_protocol", False) or not all(hasattr(cls, member) for member in members):
        raise ConfigError(f"{key}._target_", target, f"{allowed} with {', '.join(members)}")
    return cls


def _fields(cls: type) -> Sequence[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init] if dataclasses.is_dataclass(cls) else []


def _config_error(prefix: str, error: ValidationError, fields: Sequence[str]) -> ConfigError:
    """The first thing that is wrong, in words."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    unknown = first["type"] in ("unexpected_keyword_argument", "extra_forbidden")
    if unknown:
        close = difflib.get_close_matches(place.split(".")[-1], list(fields), n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        # Whoever mistakes a key of a model may have written a secret behind it.
        value = "(not shown)" if prefix == "model." else first["input"]
        return ConfigError(prefix + place, value, f"no such key{hint}; the keys here are {', '.join(fields)}")
    missing = first["type"] in ("missing", "missing_argument")
    return ConfigError(prefix + place, None if missing else first["input"], first["msg"])


def _key(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


@lru_cache(maxsize=8)
def _dataset(key: str) -> Dataset:
    return cast(Dataset, make("dataset", json.loads(key)))


@lru_cache(maxsize=8)
def _engine(key: str) -> Engine:
    return cast(Engine, make("model", json.loads(key)))


@lru_cache(maxsize=8)
def _index(dataset: str, retriever: str) -> Index:
    found = cast(Retriever, make("retriever", json.loads(retriever)))
    tools = _dataset(dataset).tools
    taken = [name for name in (NO_TOOL, FINISH) if name in tools]
    if taken:
        raise ConfigError("dataset", taken, "a library without tools of these names, which are options of every choice")
    return found.index(tools)
