"""The keys of a sweep that all its settings share, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from grid import plugins
from grid.core.engine import ASKED
from grid.core.errors import ConfigError
from grid.datasets.dataset import Part
from grid.episode.requests import MOST_CHARACTERS
from grid.settings.make import config_error
from grid.settings.setting import FURTHER, GROUPS, OPTIONS, Keep
from grid.text.objects import MAX_CHARACTERS

_MOST = 2**31 - 1
"""Of what an episode may do or read: the tables count in 32 bits."""
_Seconds = Annotated[float, Field(gt=0, le=10_000_000)]
"""At most 115 days."""
_Dollars = Annotated[float, Field(gt=0, le=1_000_000_000)]
_Count = Annotated[int, Field(ge=1, le=100_000)]
_Calls = Annotated[int, Field(ge=1, le=_MOST)]
CASES, ALL_CASES, FAILED_OF = "cases", "all", "failed_of:"
CASES_ALLOWED = f"{ALL_CASES}, ids in brackets: [one,two], a file with one id a line, or {FAILED_OF}results/NAME"
Tracing = Literal["none", "otel", "otel_content"]
"""`otel`: what happened, without a word of prompts, answers, arguments and results; `otel_content`: with these."""
_OF_SETTINGS = (*GROUPS, *FURTHER, *ASKED, OPTIONS, "paths", "stand_ins")
"""The keys in which settings of one sweep may differ, and those that say which settings these are."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _transcripts(text: str) -> str:
    Keep.of(text)
    return text


class StoreConfig(_Section):
    """Where results lie, and of which cells it is kept what they asked: `transcripts` of at most about so many GiB."""

    root: str = Field(min_length=1)
    transcripts: Annotated[str, AfterValidator(_transcripts)] = "all"
    transcripts_gib: Annotated[float, Field(gt=0, le=1_000_000)] = 2.0


class BudgetConfig(_Section):
    """What one episode may use."""

    llm_calls: Annotated[int, Field(ge=1, le=_MOST)] = 5000
    steps: Annotated[int, Field(ge=1, le=_MOST)] = 1000
    tokens: Annotated[int, Field(ge=1, le=_MOST)] | None = None
    seconds: _Seconds | None = None
    cell_money: _Dollars | None = None
    prompt_characters: Annotated[int, Field(ge=1, le=_MOST)] = 1_000_000
    observation_characters: Annotated[int, Field(ge=1, le=_MOST)] = 100_000
    answer_characters: Annotated[int, Field(ge=100, le=MAX_CHARACTERS)] = MOST_CHARACTERS

    @property
    def identity(self) -> dict[str, Any]:
        """What makes a cell's id: a key that came later is not in it as long as it has its default."""
        later = {"answer_characters": MOST_CHARACTERS, "cell_money": None}
        return self.model_dump(exclude={key for key, default in later.items() if getattr(self, key) == default})


class SweepBudgetConfig(BudgetConfig):
    """The same, and how many US dollars all cells of a sweep's name may take; `hard`: no request goes beyond them."""

    money: _Dollars | None = None
    hard: bool = True

    @property
    def dollars(self) -> dict[str, float]:
        """The limits in US dollars, by their keys."""
        return {key: limit for key in ("money", "cell_money") if (limit := getattr(self, key)) is not None}

    @property
    def of_episode(self) -> BudgetConfig:
        """What makes a difference to an episode."""
        return BudgetConfig(**self.model_dump(exclude={"money", "hard"}))


class DryRun(_Section):
    """A dry run whose pilot may ask any engine, at most so many times for each setting."""

    pilot: _Calls


class ClusterConfig(_Section):
    """The Ray cluster and how work is cut for it."""

    kind: Literal["local", "address", "inline"]
    address: str | None = None
    auth: Literal["auto", "token", "disabled"] = "auto"
    cpus: _Count | None = None
    chunk_cells: Annotated[int, Field(ge=1, le=10_000)] = 25
    chunks_in_flight: _Count | None = None
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    grows_to: _Count | None = None
    ready_seconds: _Seconds = 1800.0
    case_seconds: _Seconds = 3600.0
    retries: Annotated[int, Field(ge=0, le=100)] = 1
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


def _fail_fast(value: object) -> object:
    """A count or a share; a union's own errors would name both."""
    whole = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST
    if value is not None and not whole and not (isinstance(value, float) and 0 < value < 1):
        raise ConfigError(
            "fail_fast", value, "null, a whole number of cells from 1, or a share of cells between 0 and 1"
        )
    return value


def _dry_run(value: object) -> object:
    """`{pilot: N}`, or a boolean; a union's own errors would name both."""
    if isinstance(value, Mapping):
        try:
            return DryRun.model_validate(value)
        except ValidationError as error:
            raise config_error("dry_run.", error, [*DryRun.model_fields]) from None
    if not isinstance(value, bool):
        raise ConfigError("dry_run", value, "a boolean, true or false, or dry_run.pilot=N for calls of any engine")
    return value


def _cases(value: object) -> object:
    """A text, or ids in brackets, some of them numbers for YAML; a union's own errors would name both."""
    if isinstance(value, list) and all(isinstance(one, str | int) and not isinstance(one, bool) for one in value):
        return [str(one) for one in value]
    if not isinstance(value, str):
        raise ConfigError(CASES, value, CASES_ALLOWED)
    return value


def _allowed(names: list[str]) -> list[str]:
    for name in names:
        if name not in plugins.allowed():
            raise ConfigError(
                plugins.KEY, name, "a package that the command line names, or plugins.yaml in --config-dir"
            )
    return names


class SweepConfig(_Section):
    """The keys that all settings of a sweep share."""

    plugins: Annotated[list[str], AfterValidator(_allowed)] = Field(default_factory=list)
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    store: StoreConfig
    trials: Annotated[int, Field(ge=1, le=10_000)]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    part: Part = "all"
    cases: Annotated[str | list[str], BeforeValidator(_cases)] = ALL_CASES
    dry_run: Annotated[bool | DryRun, BeforeValidator(_dry_run)]
    retry_failed: Annotated[bool | Literal["all"], BeforeValidator(_retry)]
    fail_fast: Annotated[int | float | None, BeforeValidator(_fail_fast)] = None
    most_unknown: Annotated[float, Field(gt=0, le=1)] | None = 0.5
    accept_code: bool = False
    tracing: Tracing = "none"
    budget: SweepBudgetConfig
    cluster: ClusterConfig

    @model_validator(mode="after")
    def _are_whole(self) -> SweepConfig:
        """Halves are those of the data set's cases, not of some that are named."""
        if self.cases != ALL_CASES and self.part != "all":
            raise ConfigError("part", self.part, f"all, where cases are named ({CASES})")
        return self


def sweep_config(config: Mapping[str, Any]) -> SweepConfig:
    """The shared keys, checked; raises ConfigError with the dotted key."""
    try:
        return SweepConfig.model_validate({key: value for key, value in config.items() if key not in _OF_SETTINGS})
    except ValidationError as error:
        raise config_error("", error, [*SweepConfig.model_fields, *_OF_SETTINGS]) from None
