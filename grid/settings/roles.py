"""The models of a setting's roles (acting model, judge, evaluator, simulator and others), and the cost of tokens."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grid.core.engine import ACTOR, ASKED, CRITIC, EVALUATOR, JUDGE, SIMULATOR, USER, Engine, Role
from grid.core.errors import ConfigError
from grid.core.problem import EXAMINED, SIMULATED, TALKS
from grid.core.types import Usage
from grid.engines.hosted import Informed, Listed, Listing
from grid.episode.judging import Judging
from grid.planners.refining import Criticising
from grid.planners.restoring import NOT_RESTORED, Restoring
from grid.roles.simulation import Simulating
from grid.settings.make import PRICE, config_error, make, plain, takes, unpriced
from grid.settings.parts import Parts, parts_of
from grid.settings.remembered import remembering
from grid.settings.setting import GROUPS, REFINE, Setting

HOW: Mapping[Role, type[Judging | Simulating | Criticising]] = {
    JUDGE: Judging,
    EVALUATOR: Judging,
    SIMULATOR: Simulating,
    CRITIC: Criticising,
    USER: Simulating,
}
"""For each role, the class that says how it is asked; its fields are the role's keys other than the model's keys."""
RESTORING = tuple(item.name for item in dataclasses.fields(Restoring))
"""A judge's additional keys that are not keys of the model."""
_TEMPERATURE = "temperature"
T = TypeVar("T")


def models(config: Mapping[str, Any]) -> dict[Role, Mapping[str, Any]]:
    """The model for every role of a setting, as a config of the model group, without its price."""
    found = {ACTOR: config["model"]} | {role: _model(role, config[role]) for role in ASKED if role in config}
    return {role: unpriced(model) for role, model in found.items()}


def by_pool(config: Mapping[str, Any]) -> dict[str, list[Role]]:
    """For each model's key, the roles of a setting that share the model."""
    found: dict[str, list[Role]] = {}
    for role, model in models(config).items():
        found.setdefault(model_key(model), []).append(role)
    return found


def model_key(model: Mapping[str, Any]) -> str:
    """A key for a model; models with the same key share a pool of replicas."""
    return json.dumps(model, sort_keys=True)


def label_of(role: Role, labels: Mapping[str, str]) -> str:
    """The label of a role's model: the role's label without the part that says how the role is asked."""
    return labels["model"] if role == ACTOR else labels[role].partition("[")[0]


def judging(config: Mapping[str, Any]) -> dict[Role, Judging]:
    """How each role that gives scores is asked. Raises ConfigError."""
    asked = ((role, _how(role, config[role])) for role in ASKED if role in config)
    return {role: how for role, how in asked if isinstance(how, Judging)}


def simulating(config: Mapping[str, Any]) -> dict[Role, Simulating]:
    """How each role that plays tools or users for the environment is asked. Raises ConfigError."""
    asked = ((role, _how(role, config[role])) for role in ASKED if role in config)
    return {role: how for role, how in asked if isinstance(how, Simulating)}


def restoring(config: Mapping[str, Any]) -> Restoring:
    """Which of the judge's decisions are corrected. Raises ConfigError."""
    return _restoring(config.get(JUDGE) or {})


def with_roles(config: Mapping[str, Any]) -> dict[str, Any]:
    """A setting's config, including refining, memory and the roles that the setting asks, with all values filled in.

    If no model is named for the judge (`model@judge=NAME`), the acting model judges. The judge that tools ask must be
    named, because it must be the same for all models that are compared. An evaluator must be named, because models that
    are compared must not examine themselves or score their own plans; if only a judge is named, the judge also examines
    finished trajectories. The model that is named as the simulator plays the tools. Raises ConfigError.
    """
    groups = {group: config[group] for group in GROUPS} | {"model": plain(config["model"])}
    parts = parts_of(config)
    refining = {"_target_": config[REFINE]["_target_"], **dataclasses.asdict(parts.refining)} if parts.refines else None
    found = ({REFINE: refining} if refining else {}) | remembering(config)
    for role in ASKED:
        given = _given(role, config)
        how, model = _how(role, given), _model(role, given)
        if role == EVALUATOR and not model and _examines(parts):
            model = _examiner(config, parts)
        if not _asks(role, parts, model):
            continue
        if not model:
            _expect_default(role, parts, groups["dataset"])
        found[role] = asked(how) | (model or groups["model"])
        if _TEMPERATURE in asked(how) and isinstance(how, Judging) and takes(found[role], _TEMPERATURE):
            allowed = f"must be null, because the model has its own key {_TEMPERATURE} ({found[role]['_target_']})"
            raise ConfigError(f"{role}.{_TEMPERATURE}", how.temperature, allowed)
        if role == JUDGE:
            found[role] |= dataclasses.asdict(_restoring(given))
    return groups | found


def asked(how: Judging | Simulating | Criticising) -> dict[str, Any]:
    """The keys of a role's config that say how the role is asked; keys that are null are left out."""
    return {key: value for key, value in dataclasses.asdict(how).items() if value is not None}


def _expect_default(role: Role, parts: Parts, dataset: Mapping[str, Any]) -> None:
    """Raise ConfigError unless there is a default model for this role, which is asked although no model is named."""
    named = f"with model@{role}=NAME, a file in conf/model (this role has no default model)"
    if role == JUDGE and parts.tools_ask:
        raise ConfigError(f"robustness.{parts.tools_ask}", True, f"false, or true {named}")
    if role == EVALUATOR and (key := parts.judges_plans):
        allowed = "a scorer that needs no model, or model@judge=NAME, a file in conf/model (there is no default model)"
        raise ConfigError(f"dataset.{key}", dataset.get(key), allowed)
    if role == EVALUATOR and (key := parts.compares_texts):
        raise ConfigError(f"dataset.{key}", dataset.get(key), f"rules, or judge {named}")
    if role == USER:
        raise ConfigError("dataset.user", dataset.get("user", "model"), f"instructions, or model {named}")
    if role == CRITIC:
        raise ConfigError("refine.mode", CRITIC, f"none or self, or critic {named}")


def is_named(role: Role, config: Mapping[str, Any]) -> bool:
    """Whether a job's config names a model for a role, or changes how the role is asked. Raises ConfigError."""
    given = _given(role, config)
    restored = role == JUDGE and _restoring(given).restored != NOT_RESTORED
    return bool(_model(role, given)) or _how(role, given) != HOW[role]() or restored


def _asks(role: Role, parts: Parts, model: Mapping[str, Any]) -> bool:
    if role == JUDGE:
        return parts.tools_ask is not None or JUDGE in parts.planner.needs
    if role == CRITIC:
        return parts.refining.mode == CRITIC
    if role == USER:
        return TALKS in parts.dataset.provides
    if role == SIMULATOR:
        return bool(model) and SIMULATED in parts.dataset.provides
    return bool(parts.compares_texts or parts.judges_plans or (model and _examines(parts)))


def _examines(parts: Parts) -> bool:
    """Whether the dataset has questions about finished trajectories, including plans."""
    return not parts.compares_texts and EXAMINED in parts.dataset.provides


def _examiner(config: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """The model named as the judge; empty if no judge is named.

    It is also empty if the model is told the references and the dataset does not ask about plans, because such a model
    can only examine plans.
    """
    model = _model(JUDGE, _given(JUDGE, config))
    return {} if model and not parts.judges_plans and isinstance(make("model", unpriced(model)), Informed) else model


def _given(role: Role, config: Mapping[str, Any]) -> Mapping[str, Any]:
    given = config.get(role) or {}
    if not isinstance(given, Mapping):
        raise ConfigError(
            role,
            given,
            f"must be a mapping of keys; to choose the model, set model@{role}=NAME with a file in conf/model",
        )
    return given


def _model(role: Role, given: Mapping[str, Any]) -> dict[str, Any]:
    own = (*_own(role, given), *(RESTORING if role == JUDGE else ()))
    return plain({key: value for key, value in given.items() if key not in own})


def _restoring(given: Mapping[str, Any]) -> Restoring:
    return _made(JUDGE, Restoring, given)


def _how(role: Role, given: Mapping[str, Any]) -> Judging | Simulating | Criticising:
    keys = _own(role, given)
    return _made(role, HOW[role], {key: value for key, value in given.items() if key in keys})


def _own(role: Role, given: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys that say how a role is asked; `temperature` is left out if the engine of a scoring role has its own."""
    keys, engines = _keys(HOW[role]), HOW[role] is Judging and "_target_" in given and takes(given, _TEMPERATURE)
    return tuple(key for key in keys if not (engines and key == _TEMPERATURE))


def _made(role: Role, kind: type[T], given: Mapping[str, Any]) -> T:
    """An object of a class, made from the keys of a role's config that are fields of the class."""
    keys = _keys(kind)
    try:
        return kind(**{key: given[key] for key in keys if key in given})
    except ValidationError as error:
        raise config_error(f"{role}.", error, keys) from None


def _keys(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in dataclasses.fields(kind))


# The cost of tokens: a model's key `price`, and the money that a cell's roles have spent at these prices.


_MILLION = 1_000_000
_MODEL = "model"  # key of the acting role's model
_FORM = "{input: 2.5, cached: 1.25, output: 10}, US dollars per million tokens"
_Dollars = Annotated[float, Field(ge=0, le=1_000_000)]


class Price(BaseModel):
    """US dollars per million tokens: for prompts, the cached part of prompts (null: like `input`), and answers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    input: _Dollars
    cached: _Dollars | None = None
    output: _Dollars

    def of(self, usage: Usage) -> float:
        """The cost of a usage in US dollars; uncounted answers are left out."""
        cached = self.input if self.cached is None else self.cached
        read = min(usage.cached_input_tokens, usage.input_tokens)
        dollars = (usage.input_tokens - read) * self.input + read * cached + usage.output_tokens * self.output
        return max(dollars, 0.0) / _MILLION

    @property
    def free(self) -> bool:
        """Whether all tokens are free."""
        return not (self.input or self.cached or self.output)


_FREE, _NOTHING = Price(input=0, output=0), Usage()
Prices = Mapping[Role, Price | None]
"""The prices of a setting by role; a price is None if it is unknown."""


def prices_of(config: Mapping[str, Any], engines: Mapping[Role, Engine]) -> dict[Role, Price | None]:
    """Each role's model price: the given price, else the engine's list price; engines inside the task are free.

    Raises:
        ConfigError: a price is invalid, a model has two prices, or the model is not in the engine's list.
    """
    found = {role: _price(role, config, engine) for role, engine in engines.items()}
    for roles in by_pool(config).values():  # a pool's replicas do not distinguish roles
        for role in roles[1:]:
            if found[role] != found[roles[0]]:
                other = f"{_key(roles[0])}.{PRICE}"
                raise ConfigError(
                    f"{role}.{PRICE}",
                    config[role].get(PRICE),
                    f"must be the same as {other}, because both prices are for the same model",
                )
    return found


def _price(role: Role, config: Mapping[str, Any], engine: object) -> Price | None:
    listed = _listed(engine)  # always looked up, because the list checks the model's name
    if (given := _prices_given(role, config)) or listed is None:
        return given or (_FREE if getattr(engine, "home", None) == "task" else None)
    return Price(input=listed.input, cached=listed.cached, output=listed.output)


def _listed(engine: object) -> Listing | None:
    return engine.listing() if isinstance(engine, Listed) else None


def listed_lines(setting: Setting, engines: Mapping[Role, Engine]) -> Iterator[str]:
    """A line for each model whose price comes from the engine's list because the user gave no price."""
    for role, engine in engines.items():
        listed = _listed(engine)
        if listed and not _prices_given(role, setting.config):
            known = {key: value for key, value in listed._asdict().items() if isinstance(value, float)}
            dollars = ", ".join(f"{key}: {value:g}" for key, value in known.items())
            label = label_of(role, setting.labels)
            yield (
                f"{label}: no price is given, so the price of {listed.of} is used: {{{dollars}}}, US dollars per "
                "million tokens"
            )


def money(prices: Prices, spent: Mapping[Role, Usage]) -> float | None:
    """The US dollars that all roles of a setting spent; None if the price or the usage of a role is unknown.

    Uncounted answers of a free model that was asked cost nothing, so they do not make the usage unknown. None also if
    there are no prices.
    """
    for role, price in prices.items():
        used = spent.get(role, _NOTHING)
        asked = price and price.free and used.llm_calls  # without calls, an agent used its own model, at its own price
        if price and used.uncounted_answers and not asked:
            return None
    return at_least(prices, spent)


def at_least(prices: Prices, spent: Mapping[Role, Usage]) -> float | None:
    """The US dollars that all roles spent, with uncounted answers taken as free.

    None if a price is unknown, or if there are no prices.
    """
    dollars = 0.0
    for role, price in prices.items():
        if price is None:
            return None
        dollars += price.of(spent.get(role, _NOTHING))
    return dollars if prices else None


def expect_prices(setting: Setting, prices: Prices, limits: Mapping[str, float]) -> None:
    """Raise ConfigError if there are limits and a model has no price, because reaching a limit would not be noticed.

    `limits` maps keys of the budget to US dollars.
    """
    if not limits:
        return
    key, limit = next(iter(limits.items()))
    for role, price in prices.items():
        if price is None:
            file = f"conf/model/{label_of(role, setting.labels).partition('[')[0]}.yaml"
            raise ConfigError(
                f"{_key(role)}.{PRICE}",
                None,
                f"needs a price such as {_FORM}, because budget.{key}={limit:g} is given and {file} has no price",
            )


def expect_counts(
    settings: Iterable[Setting], uncounted: Collection[str], tokens: int | None, dollars: Mapping[str, float]
) -> None:
    """Raise ConfigError if a budget cannot be kept because a model's server does not report its answers' tokens.

    `uncounted` has the `model_key` of each such model. `tokens` is the budget of tokens (None: no limit), `dollars`
    maps keys of the budget to limits in US dollars.
    """
    for setting in settings:
        for role, model in models(setting.config).items():
            if model_key(model) not in uncounted:
                continue
            told = (
                f"must be null, because the server of {label_of(role, setting.labels)} does not report tokens (usage)"
            )
            if tokens is not None:
                raise ConfigError("budget.tokens", tokens, told)
            if dollars and not (_price(role, setting.config, make("model", model)) or _FREE).free:
                key, limit = next(iter(dollars.items()))
                raise ConfigError(f"budget.{key}", limit, told)


def _key(role: Role) -> str:
    return _MODEL if role == ACTOR else role


def _prices_given(role: Role, config: Mapping[str, Any]) -> Price | None:
    key = _key(role)
    given = config[key].get(PRICE)
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ConfigError(f"{key}.{PRICE}", given, f"null, or {_FORM}")
    try:
        return Price.model_validate(dict(given))
    except ValidationError as error:
        raise config_error(f"{key}.{PRICE}.", error, [*Price.model_fields]) from None
