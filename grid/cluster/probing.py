"""As a sweep will ask its models: what a server refuses of it is found before the first cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from grid.core.engine import SAMPLE
from grid.core.problem import DRAFTED
from grid.core.roles import ACTOR, CRITIC, EVALUATOR, JUDGE
from grid.engines.probe import Probe
from grid.episode.episode import Planner
from grid.planners.refining import Refining
from grid.settings.make import load_class, make
from grid.settings.roles import judging, model_key, models, simulating, tools_ask
from grid.settings.setting import REFINE, Setting


def probes_of(settings: Sequence[Setting]) -> dict[str, tuple[Probe, ...]]:
    """By the key of a model, every way in which it is sampled: by whom and at which temperature, each once."""
    found: dict[str, dict[Probe, None]] = {}
    for setting in settings:
        keys = {role: model_key(model) for role, model in models(setting.config).items()}
        for probe in _probes(setting.config):
            found.setdefault(keys[probe.role], {})[probe] = None
    return {key: tuple(sorted(probes)) for key, probes in found.items()}


def _probes(config: Mapping[str, Any]) -> Iterator[Probe]:
    """One for each temperature at which a role of a setting is asked; of a model alone, which is no setting, none."""
    if "planner" not in config:
        return
    planner = cast(Planner, make("planner", config["planner"]))
    own: float | None = getattr(planner, "temperature", None)  # a plugin's may have none
    if own is not None and SAMPLE in planner.needs:
        yield Probe(ACTOR, own)
    if config["dataset"].get("outline") == DRAFTED:
        yield Probe(ACTOR, 0.0)
    if REFINE in config:
        refining = cast(Refining, make(REFINE, config[REFINE]))
        yield Probe(CRITIC if refining.mode == CRITIC else ACTOR, refining.temperature)
    for role, how in judging(config).items():
        if how.verb != SAMPLE:
            continue
        if role == EVALUATOR:
            data = load_class("dataset", config["dataset"])
            yield Probe(EVALUATOR, how.at(getattr(data, "evaluator_temperature", 0.0)))
        if role == JUDGE and JUDGE in planner.needs:
            yield Probe(JUDGE, how.at(getattr(planner, "judge_temperature", 0.0)))
        if role == JUDGE and tools_ask(config):
            yield Probe(JUDGE, how.at(0.0))
    for role, playing in simulating(config).items():
        yield Probe(role, playing.temperature)
