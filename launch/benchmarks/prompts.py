"""Prompts of a wanted length for the benchmarks: choices among SLATE's tools, no two with a common beginning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, cast

from omegaconf import OmegaConf

from grid import CONF
from grid.core.engine import ChoiceAnswer, Prompt, Section, TextAnswer
from grid.datasets.slate.dataset import Slate

_SERIAL = count()
_STEP = "Step {step}: order_status(order={step}) returned the order's state, its parcel and the day it was shipped."


def model_config(name: str, values: Sequence[str] = ()) -> dict[str, Any]:
    """The config of `conf/model/<name>.yaml`, with values as `KEY=VALUE`."""
    return group_config("model", name, values)


def group_config(group: str, name: str, values: Sequence[str] = ()) -> dict[str, Any]:
    """The config of `conf/<group>/<name>.yaml`, with values as `KEY=VALUE`."""
    config = OmegaConf.merge(OmegaConf.load(CONF / group / f"{name}.yaml"), OmegaConf.from_dotlist(list(values)))
    return cast(dict[str, Any], OmegaConf.to_container(config))


def choice_prompt(options: int, tokens: int, length: Callable[[Prompt], int]) -> Prompt:
    """A fresh choice among so many of SLATE's tools, with about so many tokens.

    The tools' descriptions are cut where that is too long; where it is too short, earlier steps are told.
    """
    tools = list(Slate().tools.values())[:options]
    fresh = f"Request {next(_SERIAL)}: choose the tool that the substep takes."
    low, high = 0, 400
    while low < high:  # the longest cut that is not too long
        middle = (low + high + 1) // 2
        texts = tuple(f"{tool.name}: {tool.description}"[:middle] for tool in tools)
        low, high = (middle, high) if length(_prompt(fresh, texts)) <= tokens else (low, middle - 1)
    texts = tuple(f"{tool.name}: {tool.description}"[:low] for tool in tools)
    short = tokens - length(_prompt(fresh, texts))
    if low < 400 or short < 0:
        return _prompt(fresh, texts)
    one = length(_prompt(fresh, texts, 11)) - length(_prompt(fresh, texts, 10))
    return _prompt(fresh, texts, short // one)


def as_text(prompt: Prompt) -> Prompt:
    """The same with free text wanted, from another beginning, so that nothing of it is in a cache."""
    first, *rest = prompt.sections
    fresh = Section("role", (f"Request {next(_SERIAL)}: " + first.entries[0].partition(": ")[2],))
    return Prompt((fresh, *rest), TextAnswer())


def _prompt(role: str, options: tuple[str, ...], earlier: int = 0) -> Prompt:
    sections = (
        Section("role", (role,)),
        Section("tools", ("Tools:",), options),
        *([Section("history", tuple(_STEP.format(step=step) for step in range(earlier)))] if earlier else []),
        Section("request", ("Present substep: 1.1 Look up when the order was shipped.",)),
        Section("instruction", ("Answer with the number of the option that this substep takes, and nothing else.",)),
    )
    return Prompt(sections, ChoiceAnswer(options))
