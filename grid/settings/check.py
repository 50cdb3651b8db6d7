"""Check a whole sweep before it starts: each setting's parts must fit together, and are built without weights."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grid import store
from grid.core.engine import (
    ACTOR,
    ASKED,
    CHOOSE,
    CRITIC,
    EVALUATOR,
    JUDGE,
    MESSAGES,
    NATIVE,
    SAMPLE,
    SIMULATOR,
    USER,
    Engine,
    Role,
)
from grid.core.errors import ConfigError
from grid.core.metric import Metric, together
from grid.core.places import Address, folder_at
from grid.core.problem import DIAGNOSED, GIVEN, OUTLINE, REFERENCES, Dataset, Stating
from grid.core.types import Skipped
from grid.datasets.dataset import part_of
from grid.engines.hosted import Informed, Knowing
from grid.episode.episode import Planner
from grid.planners.refining import writes_plans
from grid.planners.restoring import NOT_RESTORED
from grid.settings.build import build, build_engine, code_of, engine_of
from grid.settings.config import ALL_CASES, SweepConfig, sweep_config
from grid.settings.make import PRICE
from grid.settings.named import named
from grid.settings.parts import Parts, key_of, lacking, parts_of, with_ordering
from grid.settings.plan import Plan
from grid.settings.remembered import line_of, with_contents
from grid.settings.roles import expect_prices, is_named, judging, listed_lines, models, restoring, with_roles
from grid.settings.served import as_stored
from grid.settings.setting import ADDRESS, FURTHER, GROUPS, NO_INFLUENCE, OPTIONS, REFINE, Keep, Setting
from grid.settings.weights import MODELS, with_weights

MOST_REASONS = 50
"""The maximum number of kinds of reasons that are shown separately."""
OTHER_REASONS = "other reasons"
_OWN = re.compile(r"\([^()]*\)|'[^']*'|\"[^\"]*\"|\b\d[\d,.]*\b")
_SHORT = {"(": "(…)", "'": "'…'", '"': '"…"'}


@dataclass(frozen=True)
class Job:
    """One composed job: its resolved config and the labels of its groups."""

    config: Mapping[str, Any]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Checked:
    """The plan for all valid settings, invalid settings with reasons, the datasets' skipped records, and lines to show.

    The lines are about roles that are never asked, answers that are cut off, the contents of memories, list prices, and
    models that have moved to a new place.
    """

    plan: Plan
    invalid: Sequence[tuple[Setting, str]]
    skipped: Mapping[str, Sequence[Skipped]]
    unasked: Sequence[str] = ()
    cut: Sequence[str] = ()
    remembered: Sequence[str] = ()
    priced: Sequence[str] = ()
    moved: Sequence[str] = ()

    def skipped_by_reason(self) -> dict[str, dict[str, int]]:
        """For each dataset label, the reasons for skipping records with their counts, the most frequent first."""
        return {name: by_kind(skips) for name, skips in self.skipped.items()}

    def skipped_lines(self) -> list[str]:
        """Lines about skipped records: one per task in a user's own file, and one per reason for all other records."""
        lines = []
        for name, skips in self.skipped.items():
            own = [skip.text() for skip in skips if skip.place]
            lines += [f"{name}: a task is left out: {text}" for text in own[:MOST_REASONS]]
            if len(own) > MOST_REASONS:
                lines.append(
                    f"{name}: {len(own) - MOST_REASONS:,} more tasks are left out (agent-grid data --check names them)"
                )
            others = by_kind(skip for skip in skips if not skip.place)
            lines += [
                f"{name}: {count:,} record{'s' * (count > 1)} skipped: {reason}" for reason, count in others.items()
            ]
        return lines


_NOBODY = {JUDGE: "no planner and no tool of this sweep needs it", CRITIC: "no setting has refine.mode=critic"}


class _Found:
    """The results of checking a sweep's settings, one after another."""

    def __init__(self, shared: SweepConfig) -> None:
        self._shared = shared
        self._ids_of: dict[str, Sequence[str]] = {}
        self._named = named(shared.cases)
        self.valid: list[Setting] = []
        self.invalid: list[tuple[Setting, str]] = []
        self.cut: list[str | None] = []
        self.priced: list[str] = []
        self.case_ids: dict[str, Sequence[str]] = {}
        self.versions: dict[str, str] = {}
        self.skipped: dict[str, Sequence[Skipped]] = {}
        self.measured: dict[tuple[str, str], Mapping[str, Metric]] = {}

    def add(self, setting: Setting) -> None:
        """Build a setting, or record why it is invalid.

        Raises:
            ConfigError: a value cannot be used.
            DataError: a dataset's file cannot be read.
            StoreError: the folder of the setting's memory has no results, or cannot be read.
        """
        if reason := invalid_reason(setting):
            self.invalid.append((setting, reason))
            return
        built, budget = build(setting, self._shared.budget.of_episode), self._shared.budget
        setting = with_contents(setting, built.memory)
        expect_prices(setting, built.prices, budget.dollars)
        self.measured[setting.labels["dataset"], setting.labels["planner"]] = built.metrics
        self.cut.append(cut(built.engine, built.planner, setting.labels, "max_tokens" in setting.config["model"]))
        self.priced += listed_lines(setting, {ACTOR: built.engine, **built.roles})
        self.valid.append(replace(setting, code=code_of(setting.config)))
        self.case_ids[setting.id] = ids = self._ids(setting, built.dataset)
        if built.memory:
            built.memory.expect_others(ids)
        self.versions[setting.id] = built.version
        self.skipped[setting.labels["dataset"]] = built.dataset.skipped

    def _ids(self, setting: Setting, dataset: Dataset) -> Sequence[str]:
        """The ids of a setting's cases, found once per dataset, because there may be many cases and many settings."""
        key = json.dumps(setting.config["dataset"], sort_keys=True)
        if key not in self._ids_of:
            every = dataset.case_ids()
            own = self._named.among(setting.labels["dataset"], every) if self._named else every
            self._ids_of[key] = part_of(own, self._shared.part)
            _check_cases(dataset, self._ids_of[key], setting.labels["dataset"])
        return self._ids_of[key]

    def expect_named(self) -> None:
        """Raise ConfigError if a named case is not in any data set."""
        if self._named and self.valid:
            self._named.expect_all()


def check_sweep(jobs: Sequence[Job]) -> Checked:
    """Build all settings; equal settings count once. Building an engine does not load weights.

    Raises:
        ConfigError: a value cannot be used, jobs differ in a key that must have one value for the whole sweep, or no
            setting can run.
        DataError: a dataset's file cannot be read.
        StoreError: the results, or the folder of a memory, have a schema version that is not supported, or cannot be
            read; or the folder of a memory has no results.
    """
    shared = sweep_config(jobs[0].config)
    settings, found = _settings(jobs, shared), _Found(shared)
    root = folder_at(shared.store.root) / shared.name
    if isinstance(root, Address):
        root.expect_usable("store.root", shared.store.root)
    else:
        _check_root(shared.store.root, root)
    store.check(root, damage=False)
    with store.without_damaged():  # damaged files are put aside when the sweep has locked the folder
        (settings, moved), stored = as_stored(root, settings), store.metrics(root).values()
    for setting in settings:
        found.add(setting)
    found.expect_named()
    if not found.valid:
        reason = found.invalid[0][1]
        raise ConfigError(
            "planner, model",
            "all pairs",
            f"no setting can run, because each has parts that do not fit together; the first reason: {reason}",
        )
    retry: store.Retry = {True: "infrastructure", False: "none", "all": "all"}[shared.retry_failed]  # type: ignore[assignment]
    measured = [(" x ".join(labels), metrics.values()) for labels, metrics in found.measured.items()]
    plan = Plan(
        name=shared.name,
        root=root,
        settings=found.valid,
        case_ids=found.case_ids,
        dataset_versions=found.versions,
        trials=shared.trials,
        budget=shared.budget.of_episode,
        cluster=shared.cluster,
        retry=retry,
        accept_code=shared.accept_code,
        git_commit=git_commit(),
        keep=Keep.of(shared.store.transcripts),
        transcripts_bytes=int(shared.store.transcripts_gib * 2**30),
        dollars=shared.budget.dollars,
        hard=shared.budget.hard,
        fail_fast=shared.fail_fast,
        most_unknown=shared.most_unknown,
        tracing=shared.tracing,
        metrics=together([*measured, (f"results in {root}", stored)]),
    )
    said = found.cut, map(line_of, found.valid), found.priced
    told, remembered, priced = ([*dict.fromkeys(filter(None, part))] for part in said)
    return Checked(plan, found.invalid, found.skipped, _unasked(jobs, settings), told, remembered, priced, moved)


def _check_cases(dataset: Dataset, case_ids: Sequence[str], label: str) -> None:
    """Raise ConfigError if there is no case, or if a case has no cluster: intervals need the clusters of all cases."""
    if not case_ids:
        reasons = "; ".join(sorted({skip.text() if skip.place else skip.reason for skip in dataset.skipped}))
        raise ConfigError(
            "dataset", label, f"the dataset must have at least one usable case ({reasons or 'it has none'})"
        )
    cluster = getattr(dataset, "cluster", lambda case_id: None)  # a plugin may have forgotten `cluster`
    for case_id in case_ids:
        found = cluster(case_id)
        if not (isinstance(found, str) and found.strip()):
            raise ConfigError(
                "dataset", label, f"every case must have a cluster, but the cluster of case {case_id!r} is {found!r}"
            )


def _check_root(given: str, root: Path) -> None:
    """Raise ConfigError if results could not be written; no file is created, so that dry runs can check this too."""
    try:
        for folder in (root / "episodes" / f"{'0' * 32}.parquet", root, *root.parents):
            with suppress(FileNotFoundError):
                folder.stat()
                if not folder.is_dir():
                    raise ConfigError("store.root", given, f"must be a folder, but {folder} is not a folder")
                if not os.access(folder, os.W_OK | os.X_OK):
                    raise ConfigError(
                        "store.root", given, f"must be a folder that can be written to, but {folder} is not writable"
                    )
                return
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError("store.root", given, f"must be a folder that can be written to ({reason})") from None


_TELLS_APART = {
    f"model.{ADDRESS}": ", because every listed model is asked at every address; for two models at two addresses, "
    "write a file for each (conf/model/NAME.yaml in the folder of --config-dir, with the keys "
    "defaults: [openai_http, _self_], base_url and model; see docs/endpoint.md); if both servers use the same model "
    "name, give each file its own identity",
}


def _settings(jobs: Sequence[Job], shared: SweepConfig) -> list[Setting]:
    """The distinct settings of the jobs.

    Raises:
        ConfigError: jobs differ in keys that all settings must share, or differ only in keys that change no result.
    """
    settings: dict[str, Setting] = {}
    for job in jobs:
        config = _groups(job.config)
        if shared.cases != ALL_CASES and "limit" in config["dataset"]:  # the choice of cases changes no cell's id
            config["dataset"] = {**config["dataset"], "limit": None}
        labels = {group: label for group, label in job.labels.items() if group in config}
        setting = Setting(config, labels, shared.seed, _budget(shared, config))
        _check_alike(jobs[0].config, job.config)
        known = settings.setdefault(setting.id, setting)
        if known.config != setting.config:
            for key in (*NO_INFLUENCE, "dataset.servers"):
                values = [_value(other.config, key) for other in (known, setting)]
                if values[0] != values[1]:
                    raise ConfigError(
                        key, values, f"must have one value for the whole sweep{_TELLS_APART.get(key, '')}"
                    )
    return list(settings.values())


def _budget(shared: SweepConfig, config: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a budget that goes into ids. If a cell's money is limited, prices change results and are included."""
    budget = shared.budget.of_episode
    if budget.cell_money is None:
        return budget.identity
    given = {role: config[role].get(PRICE) for role in MODELS if role in config}
    return {**budget.identity, "prices": {role: price for role, price in given.items() if price is not None}}


def _value(config: Mapping[str, Any], key: str) -> object:
    """The value of a dotted key; None if there is no such key."""
    found: Any = config
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _unasked(jobs: Sequence[Job], settings: Sequence[Setting]) -> list[str]:
    """A line for each role that no setting asks although jobs name its model or change how it is asked (`is_named`)."""
    lines = []
    for role in ASKED:
        named = sorted({job.labels.get(role, "") for job in jobs if is_named(role, job.config)})
        asked = any(role in setting.config for setting in settings)
        if role == JUDGE:  # the judge may examine trajectories in place of an evaluator
            asked |= any(parts_of(setting.config).judges_plans for setting in settings)
        if named and not asked:
            why = _NOBODY.get(role, "no dataset of this sweep needs it")
            lines.append(f"{role} {', '.join(named)}: never asked, because {why}")
    return lines


def _groups(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config of every group, of the options, and of the roles that are asked; each group must be a mapping."""
    for group in GROUPS:
        if not isinstance(config.get(group), Mapping):
            raise ConfigError(group, config.get(group), f"one of the files in conf/{group}")
    return with_weights(with_ordering(config, with_roles(config)))


def _check_alike(first: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Raise ConfigError if two jobs have different values of a key that all settings must share."""
    for key in first:
        if key not in (*GROUPS, *FURTHER, *ASKED, OPTIONS) and first[key] != other.get(key):
            raise ConfigError(key, [first[key], other.get(key)], "must have one value for the whole sweep")


def git_commit() -> str | None:
    """The commit of this code, with `-dirty` appended if files differ or are untracked.

    None if git does not tell it: outside a checkout, without git, or if git takes more than ten seconds.
    """
    try:
        commit = _git("rev-parse", "HEAD")
        return f"{commit}-dirty" if _git("status", "--porcelain", "--untracked-files=normal") else commit
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    here = Path(__file__).parent
    found = subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603, S607
    return found.stdout.strip()


def by_kind(skips: Iterable[Skipped]) -> dict[str, int]:
    """The number of records skipped for each kind of reason, the most frequent kind first.

    Reasons that differ only in details of a record (names in quotes or brackets, and numbers) are of the same kind, and
    are shown without the details. A reason that is the only one of its kind is shown in full. The records of all kinds
    after the first MOST_REASONS are counted together, as OTHER_REASONS, which comes last.
    """
    kinds: dict[str, dict[str, int]] = {}
    for skip in skips:
        own = kinds.setdefault(_OWN.sub(lambda part: _SHORT.get(part[0][0], "N"), skip.reason), {})
        own[skip.reason] = own.get(skip.reason, 0) + 1
    counts = {(kind if len(own) > 1 else next(iter(own))): sum(own.values()) for kind, own in kinds.items()}
    ranked = sorted(counts.items(), key=lambda one: -one[1])
    rest = sum(count for _, count in ranked[MOST_REASONS:])
    return dict(ranked[:MOST_REASONS]) | ({OTHER_REASONS: rest} if rest else {})


# If a model's limit on an answer's tokens is below a planner's, this is reported, or refused, before a sweep.


def cut(engine: Engine, planner: Planner, labels: Mapping[str, str], given: bool = True) -> str | None:
    """A line about how a model's limits affect a planner's answers; None if the planner's own limit is not higher.

    With `planner.fit_tokens` there is a line about every engine with a limit, because then the prompts limit the
    answers too.

    `given`: whether the model's config sets the limit; otherwise the limit is the default of the model's class.

    Raises:
        ConfigError: the planner plans all calls in one answer, and the model's limit would cut off its plans. The limit
            would not cut off the single calls of other planners, so the planners could not be compared (unless all use
            `planner.fit_tokens`).
    """
    most, wanted = getattr(engine, "max_tokens", None), getattr(planner, "max_tokens", None)
    if wanted is None:
        return None
    if getattr(planner, "fit_tokens", False):
        return _fitted(engine, wanted, labels)
    if most is None or most >= wanted:
        return None
    if getattr(planner, "plans_ahead", False):
        allowed = (
            f"must be at least planner.max_tokens={wanted}, because {labels['planner']} plans all calls in one answer; "
            f"or set planner.max_tokens={most} for all planners of the sweep"
        )
        if not given:
            allowed += (
                f"; the file of {labels['model']} does not set model.max_tokens, so the default of the class is used; "
                "to start from another file, such as openai_http, write defaults: [openai_http, _self_]"
            )
        raise ConfigError("model.max_tokens", most, allowed)
    return (
        f"warning: model.max_tokens={most} of {labels['model']} is below planner.max_tokens={wanted} of "
        f"{labels['planner']}: answers are cut off at {most} tokens"
    )


def _fitted(engine: Engine, wanted: int, labels: Mapping[str, str]) -> str | None:
    """A line about the limits of answers if `wanted` tokens are asked for; None for an engine without a limit."""
    most, context = getattr(engine, "max_tokens", None), getattr(engine, "context", None)
    if most is None:
        return None
    apart = f"if model.max_tokens were {wanted}, only the context would be the limit"
    lower = f"by model.max_tokens={most} of {labels['model']} ({apart}), and "
    size = f" ({context} tokens)" if context else ""
    return (
        f"planner.max_tokens={wanted} of {labels['planner']} is limited {lower if most < wanted else ''}by the "
        f"space that the prompt leaves in the context of {labels['model']}{size}, because planner.fit_tokens is "
        "true; transcripts show the limit of each request"
    )


# Whether the parts of a setting fit together and, if not, why; this is reported before anything starts.


def invalid_reason(setting: Setting) -> str | None:
    """The reason why parts of a setting do not fit, with the names of their YAML files; None if all parts fit.

    Raises:
        ConfigError: a value cannot be used.
        DataError: a dataset's file cannot be read; files are only read for a pool that has a requirement (`lacking`).
    """
    parts = parts_of(setting.config)
    planner, dataset = parts.planner, parts.dataset
    of = f"conf/dataset/{_file(setting, 'dataset')}.yaml"
    if dataset.outline == GIVEN and OUTLINE not in dataset.provides:
        return f"{of} has no outline of its own; set dataset.outline=hidden or dataset.outline=drafted"
    for role, model in models(setting.config).items():
        reason = _unfit(setting, role, engine_of(role, model), parts)
        if reason:
            return reason
    if setting.config["retriever"].get("mode") == "thought" and not getattr(planner, "thinks_first", False):
        between = f"conf/retriever/{_file(setting, 'retriever')}.yaml retrieves between a thought and its action"
        return (
            f"{between} (retriever.mode=thought), but conf/planner/{_file(setting, 'planner')}.yaml writes no separate "
            "thoughts (react does)"
        )
    if parts.refines and not writes_plans(planner):
        plans = f"conf/planner/{_file(setting, 'planner')}.yaml writes no plan before it acts"
        return f"conf/refine/{_file(setting, REFINE)}.yaml refines plans, but {plans}"
    verbs, cases = planner.needs & {SAMPLE, CHOOSE}, planner.needs - {SAMPLE, CHOOSE, JUDGE}
    needs = f"conf/planner/{_file(setting, 'planner')}.yaml needs"
    provided, by = build_engine(models(setting.config)[ACTOR]).provides, f"conf/model/{_file(setting, 'model')}.yaml"
    missing = verbs - provided
    if missing:
        return f"{needs} {', '.join(sorted(missing))}, which {by} cannot do"
    language = build_engine(models(setting.config)[ACTOR]).sampler is not None
    if getattr(planner, "talks", False) and language and not {NATIVE, MESSAGES} <= provided:
        agent = (
            f"conf/planner/{_file(setting, 'planner')}.yaml is an agent, which sends messages and function definitions"
        )
        return f"{agent}; {by} accepts them only with model.tools=native"
    if CHOOSE in verbs and NATIVE in provided:
        return f"{needs} choices among the tools in the prompt, but {by} has model.tools=native"
    missing = cases - dataset.provides
    if missing:
        return f"{needs} {', '.join(sorted(missing))}, which {of} does not have"
    for name, disturbing in parts.robustness.items():
        if missing := disturbing.needs - dataset.provides:
            return f"conf/robustness/{name}.yaml needs {', '.join(sorted(missing))}, which {of} does not have"
    what = lacking(key_of(setting.config["dataset"]), key_of(setting.config["pool"]))
    return f"conf/pool/{_file(setting, 'pool')}.yaml needs {what.format(file=of)}" if what else None


def _unfit(setting: Setting, role: Role, engine: Engine, parts: Parts) -> str | None:
    """The reason why an engine cannot take its role in a setting, whatever the planner is; None if it can."""
    dataset = parts.dataset
    of = f"conf/dataset/{_file(setting, 'dataset')}.yaml"
    how = judging(setting.config).get(role)
    if role == CRITIC and SAMPLE not in engine.provides:
        refine = f"conf/refine/{_file(setting, REFINE)}.yaml"
        return f"{refine} needs a critic that can {SAMPLE}; conf/model/{_file(setting, role)}.yaml cannot"
    if role in (SIMULATOR, USER) and (SAMPLE not in engine.provides or engine.sampler is None):
        who = "tools" if role == SIMULATOR else "user"
        return (
            f"{of} needs a language model to play the {who}; conf/model/{_file(setting, role)}.yaml is not a language "
            "model"
        )
    if role == EVALUATOR and parts.judges_plans:
        return _no_judge_of_plans(setting, engine, parts)
    if role == EVALUATOR and engine.sampler is None and isinstance(dataset, Stating) and dataset.stating:
        asks = f"{of} asks which statements about an episode are true, and only a language model can answer this"
        return (
            f"{asks}; model@evaluator={_file(setting, role)} (or model@judge, if used in its place) is not a language "
            "model"
        )
    if isinstance(engine, Informed) and role == EVALUATOR:
        texts = "asks which texts mean the same (dataset.{}=judge)"
        what = texts.format(parts.compares_texts) if parts.compares_texts else "asks questions about its episodes"
        return f"{of} {what}; conf/model/{_file(setting, role)}.yaml cannot answer this"
    if isinstance(engine, Informed) and REFERENCES not in dataset.provides:
        file = _file(setting, "model" if role == ACTOR else role)
        return f"conf/model/{file}.yaml needs the cases' references, which {of} does not have"
    if how and how.verb not in engine.provides:
        by = of if role == EVALUATOR else f"conf/planner/{_file(setting, 'planner')}.yaml"
        asks = f"{by} asks the {role} with {role}.form={how.form}, which needs {how.verb}"
        return f"{asks}; conf/model/{_file(setting, role)}.yaml cannot do it"
    restored = restoring(setting.config).restored
    if role == JUDGE and restored != NOT_RESTORED and REFERENCES not in dataset.provides:
        return f"judge.restored={restored} needs the cases' references, which {of} does not have"
    if role == JUDGE and isinstance(engine, Informed) and parts.tools_ask:
        file = f"conf/model/{_file(setting, role)}.yaml"
        return f"robustness.{parts.tools_ask} asks the judge which names are meant; {file} cannot answer this"
    return None


def _no_judge_of_plans(setting: Setting, engine: Engine, parts: Parts) -> str | None:
    """The reason why an engine cannot say which plans are right; None if it can."""
    of, by = (f"conf/{file}.yaml" for file in (f"dataset/{_file(setting, 'dataset')}",
                                               f"model/{_file(setting, EVALUATOR)}"))  # fmt: skip
    if isinstance(engine, Informed) and (not isinstance(engine, Knowing) or DIAGNOSED not in parts.dataset.provides):
        return f"{by} judges with a planted accuracy and needs plans whose correctness can be computed; {of} has none"
    if SAMPLE not in engine.provides:
        return f"{of} asks for verdicts (dataset.{parts.judges_plans}), which need {SAMPLE}; {by} cannot do it"
    return None


def _file(setting: Setting, group: str) -> str:
    """The name of the YAML file, which is the label without the changed values."""
    return setting.labels[group].partition("[")[0]
