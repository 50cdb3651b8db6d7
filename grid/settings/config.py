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
"""The upper bound of an episode's limits, because the tables store counts in 32 bits."""
_Seconds = Annotated[float, Field(gt=0, le=10_000_000)]
"""A number of seconds; the maximum is about 115 days."""
_Dollars = Annotated[float, Field(gt=0, le=1_000_000_000)]
_Count = Annotated[int, Field(ge=1, le=100_000)]
_Calls = Annotated[int, Field(ge=1, le=_MOST)]
CASES, ALL_CASES, FAILED_OF = "cases", "all", "failed_of:"
CASES_ALLOWED = (
    f"{ALL_CASES}, ids in brackets such as [one,two], a file with one id per line, or {FAILED_OF}results/NAME"
)
Tracing = Literal["none", "otel", "otel_content"]
"""`otel`: traces without the texts of prompts, answers, arguments and results; `otel_content`: with these texts."""
_OF_SETTINGS = (*GROUPS, *FURTHER, *ASKED, OPTIONS, "paths", "stand_ins")
"""The keys in which settings of one sweep may differ, and the keys that define a sweep's settings."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _transcripts(text: str) -> str:
    Keep.of(text)
    return text


class StoreConfig(_Section):
    """Where results go; `transcripts` says which cells' requests are kept, in at most about `transcripts_gib` GiB."""

    root: str = Field(min_length=1)
    transcripts: Annotated[str, AfterValidator(_transcripts)] = "all"
    transcripts_gib: Annotated[float, Field(gt=0, le=1_000_000)] = 2.0


class BudgetConfig(_Section):
    """The limits of one episode."""

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
        """The limits that go into cells' ids; keys that were added later are left out if they have their defaults."""
        later = {"answer_characters": MOST_CHARACTERS, "cell_money": None}
        return self.model_dump(exclude={key for key, default in later.items() if getattr(self, key) == default})


class SweepBudgetConfig(BudgetConfig):
    """The limits of episodes, and `money`, a limit on all cells of a sweep, in US dollars.

    `hard`: no request may exceed `money`.
    """

    money: _Dollars | None = None
    hard: bool = True

    @property
    def dollars(self) -> dict[str, float]:
        """The limits in US dollars, by key."""
        return {key: limit for key in ("money", "cell_money") if (limit := getattr(self, key)) is not None}

    @property
    def of_episode(self) -> BudgetConfig:
        """The limits that apply to a single episode."""
        return BudgetConfig(**self.model_dump(exclude={"money", "hard"}))


class DryRun(_Section):
    """A dry run with a pilot, which may ask any engine and makes at most `pilot` calls per setting."""

    pilot: _Calls


class ClusterConfig(_Section):
    """The Ray cluster, and how work is divided among its workers."""

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
        """Require an address `host:port` if a running cluster is joined."""
        if self.kind == "address" and not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s:]+):[0-9]{1,5}", self.address or ""):
            raise ConfigError("cluster.address", self.address, "the address of a running cluster, host:port")
        return self


def _retry(value: object) -> object:
    """Accept a boolean or `all`, and refuse 1, although 1 equals True."""
    if not isinstance(value, bool) and value != "all":
        raise ConfigError("retry_failed", value, "true, false or all")
    return value


def _fail_fast(value: object) -> object:
    """Accept a count or a share; this is checked here because pydantic's errors for a union name all types."""
    whole = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST
    if value is not None and not whole and not (isinstance(value, float) and 0 < value < 1):
        raise ConfigError(
            "fail_fast", value, "null, a whole number of cells (at least 1), or a share of cells between 0 and 1"
        )
    return value


def _dry_run(value: object) -> object:
    """Accept `{pilot: N}` or a boolean; this is checked here because pydantic's errors for a union name all types."""
    if isinstance(value, Mapping):
        try:
            return DryRun.model_validate(value)
        except ValidationError as error:
            raise config_error("dry_run.", error, [*DryRun.model_fields]) from None
    if not isinstance(value, bool):
        raise ConfigError("dry_run", value, "true or false, or dry_run.pilot=N for a pilot that may call any engine")
    return value


def _cases(value: object) -> object:
    """Accept a text, or ids in brackets (in YAML also numbers); pydantic's errors for a union name all types."""
    if isinstance(value, list) and all(isinstance(one, str | int) and not isinstance(one, bool) for one in value):
        return [str(one) for one in value]
    if not isinstance(value, str):
        raise ConfigError(CASES, value, CASES_ALLOWED)
    return value


def _allowed(names: list[str]) -> list[str]:
    for name in names:
        if name not in plugins.allowed():
            raise ConfigError(
                plugins.KEY, name, "must be named on the command line or in plugins.yaml in the folder of --config-dir"
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
    accept_code: bool | None = None
    tracing: Tracing = "none"
    budget: SweepBudgetConfig
    cluster: ClusterConfig

    @model_validator(mode="after")
    def _are_whole(self) -> SweepConfig:
        """Refuse `part` with named cases, because a part is half of a data set's cases, not half of the named cases."""
        if self.cases != ALL_CASES and self.part != "all":
            raise ConfigError("part", self.part, f"must be `all` if cases are named by the key {CASES}")
        return self


def sweep_config(config: Mapping[str, Any]) -> SweepConfig:
    """The shared keys, checked; raises ConfigError with the dotted key."""
    try:
        return SweepConfig.model_validate({key: value for key, value in config.items() if key not in _OF_SETTINGS})
    except ValidationError as error:
        raise config_error("", error, [*SweepConfig.model_fields, *_OF_SETTINGS]) from None
