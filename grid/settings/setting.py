"""Settings and cells, with their ids, keys and seeds; and the choice of cells whose requests are kept."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any, Literal, get_args

from grid.core.engine import ASKED, CRITIC, JUDGE, shown_as
from grid.core.errors import ConfigError, Status
from grid.core.moved import named_first
from grid.core.types import to_json
from grid.metrics.scores import SCORING
from grid.planners.restoring import NOT_RESTORED
from grid.settings.weights import FOLDERS, IDENTITY, MODELS, was_read

GROUPS = ("model", "planner", "dataset", "robustness", "retriever", "pool")
REFINE = "refine"
MEMORY = "memory"
FURTHER = (REFINE, MEMORY)
"""Groups that a setting has only if plans are refined, or if other cases are remembered."""
OPTIONS = "options"
"""The key `options` of a setting's config, which is not a group."""
DATA = ("path", "responses", "sentence_model", "train", "corpus", "ontology", "graph", "folder")
"""A dataset's keys that say where its files are; the files' contents are part of the dataset's version."""
WHERE = ("command", "url", "headers")
"""A dataset's keys that say how a server is reached; the server itself reports its identity."""
WHICH_CASES = ("limit", "order", "draw", "max_substeps")
"""A dataset's keys that say which of its cases are run."""
ADDRESS = "base_url"
"""The key of a model's server. A model is identified by its name, or by `identity` if several have the same name."""
PLACES = (ADDRESS, *FOLDERS)
"""A model's keys that say where it is."""
NO_INFLUENCE = (
    *(f"dataset.{key}" for key in (*DATA, *WHERE, *WHICH_CASES)),
    *(f"{role}.{key}" for role in MODELS for key in ("serving", "price", ADDRESS)),
    *(f"{role}.history" for role in ASKED),
    "planner.parallel",
    *("pool.path", "memory.path", "memory.held"),
)
"""Keys that do not change results: the places of files and servers, the choice of cases, the batching and prices of
requests, parallelism, `history` of all roles but the acting one, and the counts of a memory.

The contents of files and the identity of a server do change results: the versions of dataset and pool include them.
"""
NO_ANSWER = frozenset(
    {
        *("pipeline_parallel_size", "max_parallel_loading_workers", "download_dir", "enforce_eager"),
        *("max_num_batched_tokens", "max_num_partial_prefills", "cpu_offload_gb", "swap_space", "disable_log_stats"),
        *("compilation_config", "block_size", "num_gpu_blocks_override", "async_scheduling", "scheduling_policy"),
    }
)
"""Names in `serving.engine_args` whose values change answers only by rounding."""
LATER: Mapping[str, Any] = {
    "planner.fit_tokens": False,
    "planner.solved": "none",
    "planner.state_visits": "below",
    "planner.result": "best",
    "planner.post_pruned": "kept",
    "planner.stop_by": "trajectory",
    "planner.empty_rollouts": "counted",
    "dataset.demonstrations_hold_out": "template",
    "dataset.answering": "none",
    "dataset.without": [],
    "retriever.found_by": "all",
    "dataset.plan_f1": "links",
    "dataset.servers": None,
    **{f"{role}.least_temperature": 0.0 for role in MODELS},
    **{f"{role}.{IDENTITY}": None for role in MODELS},
}
"""Keys added later, with the values that mean the same as leaving the key out; keys with these values do not change
ids."""
_OWN_DEMONSTRATIONS = "demonstrations_hold_out"
"""A key that only datasets with demonstrations have; for such datasets, `planner.solved` has no effect."""
_BEHIND = ("answering", "plan_f1")
"""A dataset's keys that have an effect only after the calls have been made."""
_DIGITS = 16


@dataclass(frozen=True)
class Setting:
    """One point of model x planner x dataset x robustness: the resolved config of its groups, and their labels.

    `labels` are for people (`egb_logits`, `extraneous[k=4]`); `config`, `seed` and `budget` (the limits of an episode)
    determine the id. Config and labels also have the groups of FURTHER that have an effect, and the roles that the
    setting asks (`judge`, `evaluator`, `simulator`, `critic`, `user`). The config also has OPTIONS. `code` has a digest
    of the code of each group and of the metrics, and is part of the cells' ids. `placed` has the places of models by
    role and key, if the ids of earlier rows include these places (`served`).
    """

    config: Mapping[str, Any]
    labels: Mapping[str, str]
    seed: int
    budget: Mapping[str, int] = field(default_factory=dict)
    code: Mapping[str, str] = field(default_factory=dict)
    placed: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits: a digest of all that can change a result, except code and the version of data."""
        return self._digest(self.config)

    @cached_property
    def seed_id(self) -> str:
        """The id without restoring, refining, memory, `planner.solved` and the keys in `_BEHIND`.

        Seeds derive from it. So restoring does not change seeds (tooltree A.2), a refined plan has the same draft as
        without refining, trials with and without memory are paired, and the keys in `_BEHIND` do not change the calls.
        """
        config, judge = dict(self.config), self.config.get(JUDGE)
        if judge is not None and judge.get("restored", NOT_RESTORED) != NOT_RESTORED:
            config[JUDGE] = {**judge, "restored": NOT_RESTORED}
        config["dataset"] = {key: value for key, value in config["dataset"].items() if key not in _BEHIND}
        config["planner"] = {key: value for key, value in config["planner"].items() if key != "solved"}
        config = {key: value for key, value in config.items() if key not in (*FURTHER, CRITIC)}
        return self._digest(config)

    def _digest(self, config: Mapping[str, Any]) -> str:
        roles = [role for role in self.placed if role in config]
        found = influential({**config, **{role: _by_folder(config[role]) for role in roles}})
        for role in roles:
            found[role] |= {key: place for key, place in self.placed[role].items() if key == ADDRESS}
        return _digest({"config": found, "seed": self.seed, "budget": dict(self.budget)})

    @cached_property
    def code_id(self) -> str:
        """Sixteen hexadecimal digits: a digest of the code that can change a result."""
        return _digest(dict(self.code))

    @cached_property
    def text(self) -> str:
        """Config, seed and budget as JSON, as stored in every row."""
        return to_json({**named_first(self.config), "seed": self.seed, "budget": dict(self.budget)})


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting x case x trial: the unit that runs, fails and resumes, and that has one row.

    `cell_key` does not depend on the code; `cell_id` does. Seeds do not depend on the code either, so that one can see
    whether a code change affects results. The engine's seed derives from `seed_key` (from `Setting.seed_id`) or, if it
    is None, from `cell_key`.
    """

    case_id: str
    trial: int
    cell_id: str
    cell_key: str
    disturbance_id: str
    seed_key: str | None = None

    @property
    def seed(self) -> int:
        """The seed of the engine."""
        return int(self.seed_key or self.cell_key, 16) >> 1

    @property
    def disturbance_seed(self) -> int:
        """The seed of the robustness settings, the same for all planners and models."""
        return int(_key(self.disturbance_id, self.case_id, self.trial), 16) >> 1


def influential(config: Mapping[str, Any]) -> dict[str, Any]:
    """The groups' configs without keys that do not change results, and without keys in LATER that have their defaults.

    Robustness settings stay in order. Classes keep their original names, even if their modules have moved.
    """
    groups = {group: config[group] for group in (*GROUPS, *FURTHER, *ASKED, OPTIONS) if group in config}
    groups["model"] = _told(groups["model"])
    groups |= {role: _served(groups[role]) for role in MODELS if role in groups}
    found = named_first(
        {
            group: {
                key: _unplaced(value) if key == "servers" else value
                for key, value in keys.items()
                if _counts(f"{group}.{key}", value)
            }
            for group, keys in groups.items()
        }
    )
    if _OWN_DEMONSTRATIONS in config["dataset"]:
        found["planner"].pop("solved", None)
    return found | {"robustness": [*found["robustness"].items()]}


def _told(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model with its effective `history`; `text` is left out, as it was the only form before the key was added."""
    if "history" not in model:
        return dict(model)
    told = shown_as(model["history"], model["tools"])
    others = {key: value for key, value in model.items() if key != "history"}
    return others if told == "text" else others | {"history": told}


def _by_folder(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model's config without any identity computed from files; as in earlier ids, the folders' names identify it."""
    return {key: value for key, value in model.items() if not (key == IDENTITY and was_read(value))}


def _served(model: Mapping[str, Any]) -> Mapping[str, Any]:
    """A model with only the engine arguments that can change answers, and without folders if it has an identity."""
    if model.get(IDENTITY):
        model = {key: value for key, value in model.items() if key not in FOLDERS}
    told = answering(model)
    return {**model, "engine_args": told} if told else model


def answering(model: Mapping[str, Any]) -> dict[str, Any]:
    """The engine arguments that can change a model's answers, such as `quantization`."""
    serving = model.get("serving")
    given = serving.get("engine_args") if isinstance(serving, Mapping) else None
    return {name: value for name, value in (given or {}).items() if name not in NO_ANSWER}


def _unplaced(servers: Any) -> Any:
    """A dataset's servers by name, without the keys that give their places."""
    if not isinstance(servers, Mapping):
        return servers
    own = ((name, one) for name, one in servers.items() if isinstance(one, Mapping))
    return {name: {key: value for key, value in one.items() if key not in (*WHERE, *DATA)} for name, one in own}


def _counts(key: str, value: object) -> bool:
    return key not in NO_INFLUENCE and not (key in LATER and value == LATER[key])


def cells(setting: Setting, dataset_version: str, case_ids: Sequence[str], trials: int) -> Iterator[Cell]:
    """The setting's cells, trial by trial, made lazily."""
    versions = {"dataset_version": dataset_version, "scoring": SCORING}
    parts = influential(setting.config)
    # Disturbance seeds ignore these keys, so that settings that differ only in them have the same disturbances.
    compared = ("outline", "resolution", "equivalence", "demonstrations_hold_out", *_BEHIND)
    data = {key: value for key, value in parts["dataset"].items() if key not in compared}
    shared = {
        "config": {"dataset": data, "robustness": parts["robustness"]},
        "seed": setting.seed,
        "dataset_version": dataset_version,
    }
    head, seed_head = (_digest({"setting": name} | versions) for name in (setting.id, setting.seed_id))
    shared_head, code = _digest(shared), setting.code_id
    for trial in range(trials):
        for case_id in case_ids:
            key = _key(head, case_id, trial)
            cell_id = hashlib.sha256(f"{key}{code}".encode()).hexdigest()[:_DIGITS]
            seed_key = None if seed_head == head else _key(seed_head, case_id, trial)
            yield Cell(case_id, trial, cell_id, key, shared_head, seed_key)


def _key(head: str, case_id: str, trial: int) -> str:
    """Like `_digest([head, case_id, trial])`, but several times as fast, because there may be millions of cells."""
    text = f'["{head}", {encode_basestring(case_id)}, {trial}]'
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


# Which cells' requests and answers are kept (`store.transcripts`).


Cells = Literal["all", "failed", "none"]
REST_SHARE = 0.05  # share of cells kept once a sweep's transcripts have reached their limit
_ALLOWED = (
    "all, failed, none, or sample:SHARE, where SHARE is a share of the cells above 0 and at most 1, such as sample:0.05"
)


@dataclass(frozen=True)
class Keep:
    """The cells whose requests are kept: a `share` of all cells, or of failed cells, chosen by cell keys; or none.

    A cell failed if it broke off or did not resolve its case.
    """

    cells: Cells = "all"
    share: float = 1.0

    @classmethod
    def of(cls, text: str) -> Keep:
        """Parse the value of `store.transcripts`; raises ConfigError."""
        for cells in get_args(Cells):
            if text == cells:
                return cls(cells)
        share = re.fullmatch(r"sample:(\d*\.?\d+)", text)
        if share is None or not 0 < float(share[1]) <= 1:
            raise ConfigError("store.transcripts", text, _ALLOWED)
        return cls("all", float(share[1]))

    def rest(self) -> Keep:
        """The choice among further cells once the space for transcripts is used up."""
        return replace(self, share=min(self.share, REST_SHARE))

    def keeps(self, episode: dict[str, Any]) -> bool:
        """Whether the requests of a cell are kept, given the cell's row."""
        if self.cells == "none" or int(episode["cell_key"][-8:], 16) >= self.share * 16**8:
            return False
        return self.cells == "all" or episode["status"] != Status.OK or episode["success"] is False


KEEP_NONE = Keep("none")
