"""Who answers what in a setting, the acting model, a judge, an evaluator, a simulator, and what their tokens cost."""

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
"""How each role is asked: its fields are the keys of the role that are no keys of its model."""
RESTORING = tuple(item.name for item in dataclasses.fields(Restoring))
"""Further ones of a judge."""
_TEMPERATURE = "temperature"
T = TypeVar("T")


def models(config: Mapping[str, Any]) -> dict[Role, Mapping[str, Any]]:
    """The model of every role of a setting, as a config of the model group, without its price."""
    found = {ACTOR: config["model"]} | {role: _model(role, config[role]) for role in ASKED if role in config}
    return {role: unpriced(model) for role, model in found.items()}


def by_pool(config: Mapping[str, Any]) -> dict[str, list[Role]]:
    """The roles of a setting that share a model, by its key."""
    found: dict[str, list[Role]] = {}
    for role, model in models(config).items():
        found.setdefault(model_key(model), []).append(role)
    return found


def model_key(model: Mapping[str, Any]) -> str:
    """Equal for models that share a pool of replicas."""
    return json.dumps(model, sort_keys=True)


def label_of(role: Role, labels: Mapping[str, str]) -> str:
    """How a role's model is called: the own label of one that is asked for scores also says how."""
    return labels["model"] if role == ACTOR else labels[role].partition("[")[0]


def judging(config: Mapping[str, Any]) -> dict[Role, Judging]:
    """How each role of a setting that scores is asked. Raises ConfigError."""
    asked = ((role, _how(role, config[role])) for role in ASKED if role in config)
    return {role: how for role, how in asked if isinstance(how, Judging)}


def simulating(config: Mapping[str, Any]) -> dict[Role, Simulating]:
    """How those are asked who play something for a setting's environment. Raises ConfigError."""
    asked = ((role, _how(role, config[role])) for role in ASKED if role in config)
    return {role: how for role, how in asked if isinstance(how, Simulating)}


def restoring(config: Mapping[str, Any]) -> Restoring:
    """Which of the judge's decisions are set right. Raises ConfigError."""
    return _restoring(config.get(JUDGE) or {})


def with_roles(config: Mapping[str, Any]) -> dict[str, Any]:
    """A setting's config with what it refines and remembers, and the roles that it asks, all values filled in.

    Where no model is named for the judge (`model@judge=NAME`), the acting model judges, but for tools, whose judge must
    be named: one for all models that are compared. An evaluator must be named: models that are compared shall not each
    examine themselves, nor score their own plans. Who is named as the judge examines finished trajectories too, where
    nobody is named as the evaluator. Tools are played by whoever is named. Raises ConfigError.
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
            allowed = f"null: {_TEMPERATURE} is a key of its model's own ({found[role]['_target_']})"
            raise ConfigError(f"{role}.{_TEMPERATURE}", how.temperature, allowed)
        if role == JUDGE:
            found[role] |= dataclasses.asdict(_restoring(given))
    return groups | found


def asked(how: Judging | Simulating | Criticising) -> dict[str, Any]:
    """How a role is asked, as keys of its config; one that is null is left out, as if it were not there."""
    return {key: value for key, value in dataclasses.asdict(how).items() if value is not None}


def _expect_default(role: Role, parts: Parts, dataset: Mapping[str, Any]) -> None:
    """Raise ConfigError where a role is asked that nobody has by default."""
    named = f"with model@{role}=NAME, a file of conf/model (no model is it by default)"
    if role == JUDGE and parts.tools_ask:
        raise ConfigError(f"robustness.{parts.tools_ask}", True, f"false, or true {named}")
    if role == EVALUATOR and (key := parts.judges_plans):
        allowed = "a scorer without a model, or model@judge=NAME, a file of conf/model (no model is it by default)"
        raise ConfigError(f"dataset.{key}", dataset.get(key), allowed)
    if role == EVALUATOR and (key := parts.compares_texts):
        raise ConfigError(f"dataset.{key}", dataset.get(key), f"rules, or judge {named}")
    if role == USER:
        raise ConfigError("dataset.user", dataset.get("user", "model"), f"instructions, or model {named}")
    if role == CRITIC:
        raise ConfigError("refine.mode", CRITIC, f"none or self, or critic {named}")


def is_named(role: Role, config: Mapping[str, Any]) -> bool:
    """Whether a job's config says who has a role, or how it is asked, other than by default. Raises ConfigError."""
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
    """Whether the dataset has questions about finished trajectories, plans included."""
    return not parts.compares_texts and EXAMINED in parts.dataset.provides


def _examiner(config: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """The model that is named as the judge; none where it is told references: it could examine nothing but plans."""
    model = _model(JUDGE, _given(JUDGE, config))
    return {} if model and not parts.judges_plans and isinstance(make("model", unpriced(model)), Informed) else model


def _given(role: Role, config: Mapping[str, Any]) -> Mapping[str, Any]:
    given = config.get(role) or {}
    if not isinstance(given, Mapping):
        raise ConfigError(
            role, given, f"keys of its own; model@{role}=NAME, with a file of conf/model, names its model"
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
    """The keys that say how a role is asked; a temperature that the engine of who scores has itself is the engine's."""
    keys, engines = _keys(HOW[role]), HOW[role] is Judging and "_target_" in given and takes(given, _TEMPERATURE)
    return tuple(key for key in keys if not (engines and key == _TEMPERATURE))


def _made(role: Role, kind: type[T], given: Mapping[str, Any]) -> T:
    """The part of a role's config that is an object of a kind."""
    keys = _keys(kind)
    try:
        return kind(**{key: given[key] for key in keys if key in given})
    except ValidationError as error:
        raise config_error(f"{role}.", error, keys) from None


def _keys(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in dataclasses.fields(kind))


# What tokens cost: the key `price` of a model, and the money that a cell's roles have spent by it.


_MILLION = 1_000_000
_MODEL = "model"  # the key of the acting role's
_FORM = "{input: 2.5, cached: 1.25, output: 10}, US dollars per million tokens"
_Dollars = Annotated[float, Field(ge=0, le=1_000_000)]


class Price(BaseModel):
    """US dollars per million tokens: of prompts, of their part that a cache had (null: as input), and of answers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)
    input: _Dollars
    cached: _Dollars | None = None
    output: _Dollars

    def of(self, usage: Usage) -> float:
        """The US dollars of what was used; where answers are uncounted, of the others."""
        cached = self.input if self.cached is None else self.cached
        read = min(usage.cached_input_tokens, usage.input_tokens)
        dollars = (usage.input_tokens - read) * self.input + read * cached + usage.output_tokens * self.output
        return max(dollars, 0.0) / _MILLION

    @property
    def free(self) -> bool:
        """Whether nothing costs anything, however much it is."""
        return not (self.input or self.cached or self.output)


_FREE, _NOTHING = Price(input=0, output=0), Usage()
Prices = Mapping[Role, Price | None]
"""By role of a setting; None where the price is not known."""


def prices_of(config: Mapping[str, Any], engines: Mapping[Role, Engine]) -> dict[Role, Price | None]:
    """The price of each role's model: the one given, else that of its engine's list, or nothing in the task.

    Raises:
        ConfigError: a price that is none, or two of one model; a model that its engine's list does not have.
    """
    found = {role: _price(role, config, engine) for role, engine in engines.items()}
    for roles in by_pool(config).values():  # whose replicas do not tell roles apart
        for role in roles[1:]:
            if found[role] != found[roles[0]]:
                other = f"{_key(roles[0])}.{PRICE}"
                raise ConfigError(
                    f"{role}.{PRICE}", config[role].get(PRICE), f"as {other}, since the model is the same"
                )
    return found


def _price(role: Role, config: Mapping[str, Any], engine: object) -> Price | None:
    listed = _listed(engine)  # in any case: it knows the names of models
    if (given := _prices_given(role, config)) or listed is None:
        return given or (_FREE if getattr(engine, "home", None) == "task" else None)
    return Price(input=listed.input, cached=listed.cached, output=listed.output)


def _listed(engine: object) -> Listing | None:
    return engine.listing() if isinstance(engine, Listed) else None


def listed_lines(setting: Setting, engines: Mapping[Role, Engine]) -> Iterator[str]:
    """A line for each model whose price is its engine's list's, as the user gave none."""
    for role, engine in engines.items():
        listed = _listed(engine)
        if listed and not _prices_given(role, setting.config):
            known = {key: value for key, value in listed._asdict().items() if isinstance(value, float)}
            dollars = ", ".join(f"{key}: {value:g}" for key, value in known.items())
            label = label_of(role, setting.labels)
            yield f"{label}: no price is given; by {listed.of} it is {{{dollars}}}, US dollars per million tokens"


def money(prices: Prices, spent: Mapping[Role, Usage]) -> float | None:
    """The US dollars that all roles of a setting spent; None where the price of one, or what it used, is not known."""
    for role, price in prices.items():
        used = spent.get(role, _NOTHING)
        asked = price and price.free and used.llm_calls  # without, an agent has a model of its own, with another price
        if price and used.uncounted_answers and not asked:
            return None
    return at_least(prices, spent)


def at_least(prices: Prices, spent: Mapping[Role, Usage]) -> float | None:
    """The same where what is not counted costs nothing; None where a price is not known."""
    dollars = 0.0
    for role, price in prices.items():
        if price is None:
            return None
        dollars += price.of(spent.get(role, _NOTHING))
    return dollars if prices else None


def expect_prices(setting: Setting, prices: Prices, limits: Mapping[str, float]) -> None:
    """Raise ConfigError where a model of a setting has no price, so that nobody could say when a limit is reached.

    `limits` are US dollars by their keys of the budget.
    """
    if not limits:
        return
    key, limit = next(iter(limits.items()))
    for role, price in prices.items():
        if price is None:
            file = f"conf/model/{label_of(role, setting.labels).partition('[')[0]}.yaml"
            raise ConfigError(
                f"{_key(role)}.{PRICE}", None, f"{_FORM}: budget.{key}={limit:g} is given, and {file} has no price"
            )


def expect_counts(
    settings: Iterable[Setting], uncounted: Collection[str], tokens: int | None, dollars: Mapping[str, float]
) -> None:
    """Raise ConfigError where a budget of tokens or money cannot hold: of a model's answers nobody tells the tokens.

    `uncounted` are such models, by `roles.model_key`; `tokens` and `dollars` the budgets, where there are any;
    those of dollars by their keys.
    """
    for setting in settings:
        for role, model in models(setting.config).items():
            if model_key(model) not in uncounted:
                continue
            told = f"null: the server of {label_of(role, setting.labels)} tells no tokens of its answers (usage)"
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
