"""The files that the contracts test: the files of the plugins that `--plugin` names, or our own."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, product
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import pytest
from omegaconf import OmegaConf

from grid import CONF
from grid.core.engine import ASKED, Engine
from grid.core.problem import BRANCHING, DRAFTED, GIVEN, OUTLINE, Dataset
from grid.core.util import derive_seed
from grid.episode.episode import Planner
from grid.plugins import allowed
from grid.settings.check import invalid_reason
from grid.settings.make import ROOMS, make, unpriced
from grid.settings.parts import parts_of
from grid.settings.roles import with_roles
from grid.settings.setting import Setting

GROUPS = tuple(ROOMS)
_WITH_A_NEW_DATASET = ("react", "lats", "plan_first", "egb_logits")
_WITH_A_NEW_SETTING = ("react", "egb_logits")
"""Our planners with which a plugin's robustness settings and engines are tested, one planner of each kind."""
Point = tuple[str, str, str, str, str]
P = TypeVar("P", bound=tuple[str, ...])
Pair = tuple[tuple[int, str], tuple[int, str]]


@dataclass(frozen=True)
class Subject:
    """The names of the files under test, by group. `ours` says whether the files are our own or a plugin's."""

    files: Mapping[str, Sequence[str]]
    ours: bool

    @cached_property
    def disturbing(self) -> list[str]:
        """The robustness settings that the points use in turn."""
        found = self.files["robustness"] or names("robustness")
        return [name for name in found if yaml("robustness", name)]

    @cached_property
    def cheap(self) -> list[str]:
        """The engines that the points use in turn. They run inside a task, so they cost nothing."""
        found = dict.fromkeys([*names("model"), *self.files["model"]])
        return [name for name in found if "???" not in yaml("model", name).values() and _is_light(name)]

    def points(self, with_files: Sequence[str] = ()) -> list[Point]:
        """All points: dataset, outline, planner, and the robustness setting and engine whose turn it is.

        Each of our datasets is combined with each of our planners. Each file of a plugin is combined with all or some
        of our files. `with_files` are datasets whose files are available although their YAML names no path. The turn of
        a plugin's planner depends on its name alone, so that other planners of the plugin do not change its points.
        """
        every = dict.fromkeys([*names("dataset"), *self.files["dataset"]])
        datasets = [name for name in every if not lacks_path(name) or name in with_files]
        pairs = [(dataset, outline) for dataset in datasets for outline in outlines(dataset)]
        planners = [name for name in dict.fromkeys([*names("planner"), *self.files["planner"]]) if _is_whole(name)]
        disturbing, cheap, own = self.disturbing, self.cheap, names("planner")
        turns = [place if name in own else derive_seed(0, name) for place, name in enumerate(planners)]
        return [
            (*pair, planner, disturbing[(place + turn) % len(disturbing)], cheap[(place + turn) % len(cheap)])
            for (place, pair), (turn, planner) in product(enumerate(pairs), zip(turns, planners, strict=True))
            if self._meet(pair[0], planner)
        ]

    def paired(self, points: Sequence[Point], may_lack: Collection[str] = ()) -> list[Point]:
        """A few points in which every pair of our files, or of a file and an outline, occurs.

        Files and outlines form a pair if they fit together. `points` are all points. A machine may lack the datasets in
        `may_lack`; the points without these datasets still contain every pair of the remaining files.
        """
        every = [
            (dataset, outline, planner, disturbed, repeated)
            for dataset, outline, planner, *_ in points
            for disturbed, repeated in product(self.disturbing, self.cheap)
            if fits(dataset=dataset, robustness=disturbed)
            and fits(dataset=dataset, model=repeated)
            and fits(planner=planner, model=repeated)
        ]
        found = covering([point for point in every if point[0] not in may_lack])
        return [*found, *covering([point for point in every if point[0] in may_lack], found)]

    def _meet(self, dataset: str, planner: str) -> bool:
        if not goes_together(dataset, planner):
            return False
        if self.ours or planner in self.files["planner"]:
            return True
        if dataset in self.files["dataset"]:
            return planner in _WITH_A_NEW_DATASET
        others = self.files["robustness"] or self.files["model"]
        return bool(others) and planner in _WITH_A_NEW_SETTING


def subject_of(config: pytest.Config) -> Subject:
    """The subject for the plugins that the command line names."""
    return _subject(tuple(config.getoption("--plugin", default=()) or ()))


@cache
def _subject(given: tuple[str, ...]) -> Subject:
    if not given:
        return Subject({group: names(group) for group in GROUPS}, ours=True)
    folders = [allowed()[name].conf for name in dict.fromkeys(given)]
    return Subject({group: [name for conf in folders for name in names(group, conf)] for group in GROUPS}, ours=False)


def _is_whole(planner: str) -> bool:
    """Whether a planner's file is complete, so that a user need not fill in a value (such as the program)."""
    return "???" not in _read(file_of("planner", planner)).values()


def _is_light(model: str) -> bool:
    return cast(Engine, make("model", unpriced(yaml("model", model)))).home == "task"


# A few points that contain every pair of values that occurs in any point; such pairs reveal most of the errors that all
# points would reveal.


def pairs_of(point: Sequence[str]) -> Iterable[Pair]:
    """All pairs of a point's values. Each value comes with its position in the point."""
    return combinations(enumerate(point), 2)


def covering(points: Sequence[P], known: Sequence[P] = ()) -> list[P]:
    """A selection of the points, in their original order.

    Together with `known`, these points contain every pair of values that any point has.

    Pairs that occur in `known` are already covered. Pairs that few points have are covered first. Among the points with
    the pair to be covered, the point that adds the most missing pairs is chosen. If several points add equally many
    missing pairs, the point whose pairs were chosen least often is chosen, so that all pairs take turns. The same
    points always give the same result.
    """
    holding: dict[Pair, list[int]] = {}
    pairs = [list(pairs_of(point)) for point in points]
    for place, found in enumerate(pairs):
        for pair in found:
            holding.setdefault(pair, []).append(place)
    taken = Counter(pair for point in known for pair in pairs_of(point))

    def adds(place: int) -> tuple[int, int]:
        times = [taken[pair] for pair in pairs[place]]
        return -times.count(0), sum(times)

    chosen = set[int]()
    for pair in sorted(holding, key=lambda each: len(holding[each])):
        if not taken[pair]:
            best = min(holding[pair], key=adds)
            chosen.add(best)
            taken.update(pairs[best])
    return [points[place] for place in sorted(chosen)]


# The files in conf/ and in the allowed plugins, and settings made from these files.


LEFT_OPEN: dict[str, dict[str, Any]] = {}
"""Values that a dataset's or planner's file leaves open, such as a program; a dataset's path is not included.

Test runs set these values.
"""


def names(group: str, conf: Path = CONF) -> list[str]:
    """The names of the YAML files of a group."""
    return sorted(path.stem for path in (conf / group).glob("*.yaml"))


def file_of(group: str, name: str) -> Path:
    """The path of a file in conf/, or in a plugin's folder."""
    folders = [CONF, *(plugin.conf for plugin in allowed().values())]
    return next(path for path in (conf / group / f"{name}.yaml" for conf in folders) if path.is_file())


def yaml(group: str, name: str) -> dict[str, Any]:
    """The values in a file. A missing value is '???', unless LEFT_OPEN provides a value."""
    said = LEFT_OPEN.get(name, {}) if group in ("dataset", "planner") else {}
    return copy.deepcopy(_read(file_of(group, name))) | said


@cache
def _read(path: Path) -> dict[str, Any]:
    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(path), resolve=True))


def outlines(dataset: str) -> list[str]:
    """The possible values of `dataset.outline` for a dataset."""
    made = _absent(dataset)
    if "outline" not in yaml("dataset", dataset):
        return [made.outline]
    return [GIVEN, "hidden", DRAFTED] if OUTLINE in made.provides else ["hidden", DRAFTED]


def goes_together(dataset: str, planner: str) -> bool:
    """Whether a planner and a dataset fit together: if the planner branches, the dataset's worlds must branch too."""
    return BRANCHING not in _needs(planner) or BRANCHING in _absent(dataset).provides


@cache
def _needs(planner: str) -> frozenset[str]:
    return cast(Planner, make("planner", yaml("planner", planner))).needs


@cache
def fits(**labels: str) -> bool:
    """Whether the named files fit together in a setting."""
    named: Any = {"dataset": "null_cases"} | labels
    absent = {"path": "/absent"} if lacks_path(named["dataset"]) else {}
    return invalid_reason(setting_of(absent, **named)) is None


@cache
def lacks_path(dataset: str) -> bool:
    """Whether a dataset's file leaves the path of the data to the user."""
    return yaml("dataset", dataset).get("path") == "???"


@cache
def _absent(dataset: str) -> Dataset:
    """The dataset object, created with paths that do not exist."""
    values = {name: "/absent" if value == "???" else value for name, value in yaml("dataset", dataset).items()}
    return cast(Dataset, make("dataset", values))


def setting_of(
    dataset_values: Mapping[str, Any] = MappingProxyType({}),
    planner_values: Mapping[str, Any] = MappingProxyType({}),
    model_values: Mapping[str, Any] = MappingProxyType({}),
    **labels: str,
) -> Setting:
    """A setting made from the named files, with some values of dataset, planner and model changed."""
    labels = {"model": "lexical", "planner": "react", "robustness": "none", "retriever": "bm25", "pool": "all"} | labels
    config = {group: yaml("model" if group in ASKED else group, name) for group, name in labels.items()}
    config["dataset"] |= dataset_values
    config["planner"] |= planner_values
    config["model"] |= model_values
    if parts_of(config).judges_plans:
        config["evaluator"], labels["evaluator"] = yaml("model", "lexical"), "lexical"
    return Setting(with_roles(config), labels, seed=0)
