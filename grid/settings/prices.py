"""What tokens cost: the key `price` of a model, and the money that a cell's roles have spent by it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from grid.core.engine import Engine
from grid.core.errors import ConfigError
from grid.core.roles import ACTOR, Role
from grid.core.types import Usage
from grid.settings.make import PRICE, config_error
from grid.settings.roles import by_pool, label_of, model_key, models
from grid.settings.setting import Setting

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


_FREE = Price(input=0, output=0)
Prices = Mapping[Role, Price | None]
"""By role of a setting; None where the price is not known."""


def prices_of(config: Mapping[str, Any], engines: Mapping[Role, Engine]) -> dict[Role, Price | None]:
    """The price of each role's model: an engine that runs in the task costs nothing where no other is given.

    Raises:
        ConfigError: a price that is none, or two of one model.
    """
    found = {role: _given(role, config) or (_FREE if engine.home == "task" else None)
             for role, engine in engines.items()}  # fmt: skip
    for roles in by_pool(config).values():  # whose replicas do not tell roles apart
        for role in roles[1:]:
            if found[role] != found[roles[0]]:
                other = f"{_key(roles[0])}.{PRICE}"
                raise ConfigError(
                    f"{role}.{PRICE}", config[role].get(PRICE), f"as {other}, since the model is the same"
                )
    return found


def money(prices: Prices, spent: Mapping[Role, Usage]) -> float | None:
    """The US dollars that all roles of a setting spent; None where the price of one, or what it used, is not known."""
    if any(price and not price.free and spent.get(role, Usage()).uncounted_answers for role, price in prices.items()):
        return None
    return at_least(prices, spent)


def at_least(prices: Prices, spent: Mapping[Role, Usage]) -> float | None:
    """The same where what is not counted costs nothing; None where a price is not known."""
    dollars = 0.0
    for role, price in prices.items():
        if price is None:
            return None
        dollars += price.of(spent.get(role, Usage()))
    return dollars if prices else None


def expect_prices(setting: Setting, prices: Prices, limit: float) -> None:
    """Raise ConfigError where a model of a setting has no price, so that nobody could say when `limit` is reached."""
    for role, price in prices.items():
        if price is None:
            file = f"conf/model/{label_of(role, setting.labels).partition('[')[0]}.yaml"
            raise ConfigError(
                f"{_key(role)}.{PRICE}", None, f"{_FORM}: budget.money={limit:g} is given, and {file} has no price"
            )


def expect_counts(
    settings: Iterable[Setting], uncounted: Collection[str], tokens: int | None, dollars: float | None
) -> None:
    """Raise ConfigError where a budget of tokens or money cannot hold: of a model's answers nobody tells the tokens.

    `uncounted` are such models, by `roles.model_key`; `tokens` and `dollars` the budgets, where there are any.
    """
    for setting in settings:
        for role, model in models(setting.config).items():
            if model_key(model) not in uncounted:
                continue
            told = f"null: the server of {label_of(role, setting.labels)} tells no tokens of its answers (usage)"
            if tokens is not None:
                raise ConfigError("budget.tokens", tokens, told)
            if dollars is not None and not (_given(role, setting.config) or _FREE).free:
                raise ConfigError("budget.money", dollars, told)


def _key(role: Role) -> str:
    return _MODEL if role == ACTOR else role


def _given(role: Role, config: Mapping[str, Any]) -> Price | None:
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
