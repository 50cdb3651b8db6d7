"""Turns composed Hydra configs into one checked sweep, runs it, and determines its exit status."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from rich.console import Console

from grid.core.engine import ASKED, EVALUATOR, JUDGE
from grid.core.errors import ConfigError, GridError, UnfinishedError, one_line
from grid.core.labels import without_folders
from grid.core.moved import named_today
from grid.core.places import folder_at
from grid.core.untrusted import shown, shown_lines
from grid.planners.restoring import NOT_RESTORED
from grid.settings.config import sweep_config
from grid.settings.make import check_plain, look_at, make
from grid.settings.setting import DATA, FURTHER, GROUPS, NO_INFLUENCE, OPTIONS, answering
from grid.settings.weights import expect_one_source
from grid.sweeps.composing import Composed

RAN, UNFINISHED, CANNOT_RUN = 0, 1, 2
_WITH_PATHS = (("retriever", "path"), ("pool", "path"), ("memory", "path"))


def settings(composed: Iterable[Composed]) -> list[Setting]:
    """A sweep's settings, each with the folder of its data set; prints lines about settings that are left out.

    Each setting is checked as soon as it is composed, so that a mistake in the first setting is reported at once.

    Raises:
        ConfigError: a key or a value is wrong, if this can be seen without a data set's files.
    """
    folders = Folders()
    found = folders.without_stand_ins(map(_looked_at, folders.with_files(composed)))
    found, lines = one_retriever(found)
    for line in (*folders.lines, *lines):
        print(shown(line))
    return found


def run(found: Sequence[Setting], report: bool = True) -> bool:
    """Check and run a sweep's settings, and print its tables if `report` is true.

    Returns True after a dry run, or if every cell has a row and no cell failed because of infrastructure or code.

    Raises:
        GridError: the sweep cannot run, or did not end.
    """
    # Imported only after all keys have been checked, because these imports take seconds.
    from grid.settings.check import Job, check_sweep

    checked = check_sweep([Job(config, labels) for config, labels in found])
    dry_run = sweep_config(found[0][0]).dry_run
    if dry_run:
        from grid.sweeps.dry_run import describe

        describe(checked, dry_run)
        return True
    if checked.plan.cluster.kind == "inline":
        from grid.sweeps.inline import run_inline

        return run_inline(checked, report)
    from grid.sweeps.session import run_checked

    return run_checked(checked, report)


def _looked_at(composed: Composed) -> Setting:
    config, labels = resolved(composed)
    sweep_config(config)
    expect_one_source(config)
    look_at(config)
    return config, labels


class SweepEnded(SystemExit):
    """The exit of a sweep, with its status; the type distinguishes it from an exit of Hydra itself."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(status)


def run_jobs(composed: Iterable[Composed]) -> NoReturn:
    """Check and run composed settings; raises SweepEnded with the exit status.

    An error that occurs while the settings are composed is raised unchanged.
    """
    found = settings(composed)
    try:
        complete = run(found)
    except UnfinishedError as error:
        _say("stopped", error)
        raise SweepEnded(UNFINISHED) from None
    except GridError as error:
        _say("error", error)
        raise SweepEnded(CANNOT_RUN) from None
    except KeyboardInterrupt:
        print("stopped: all rows written so far are kept; to continue, run again with the same name", file=sys.stderr)
        raise SweepEnded(UNFINISHED) from None
    except Exception:  # noqa: BLE001 - whatever the error, the sweep did not finish, and written rows stay
        Console(stderr=True, soft_wrap=True, highlight=False, emoji=False).print_exception()
        raise SweepEnded(UNFINISHED) from None
    raise SweepEnded(RAN if complete else UNFINISHED)


def _say(what: str, error: GridError) -> None:
    # The log in an EngineError is printed with its line breaks.
    text = one_line(error) if isinstance(error, ConfigError) else shown_lines(str(error))
    print(f"{what}: {text}", file=sys.stderr)


def resolved(composed: Composed) -> tuple[dict[str, Any], dict[str, str]]:
    """The config of one setting, as plain values that a row can hold, and the labels of the setting's groups.

    Raises:
        ConfigError: a key without a default is missing, or a value cannot be resolved or is not plain.
    """
    try:
        config: Any = OmegaConf.to_container(composed.config, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise ConfigError(str(error.full_key), "???", "this key has no default and must be given") from None
    except OmegaConfBaseException as error:
        raise ConfigError(str(error.full_key), None, str(error.msg or error)) from None
    check_plain(config)
    config = named_today(config)
    for group, key in (*(("dataset", name) for name in DATA), *_WITH_PATHS):
        part = config.get(group)
        if isinstance(part, dict) and isinstance(part.get(key), str) and part[key]:
            part[key] = _absolute(f"{group}.{key}", part[key])
    choices, robustness = dict(composed.choices), config.get("robustness")
    # For several robustness settings, Hydra records no single choice, so their names are taken from the composed
    # group's keys.
    choices.setdefault("robustness", "+".join(robustness) if isinstance(robustness, Mapping) else None)
    labels = {
        group: _label(group, str(choices.get(group)), composed.overrides, config) for group in (*GROUPS, *FURTHER)
    }
    unnamed = {JUDGE: labels["model"], EVALUATOR: choices.get(f"model@{JUDGE}") or "none"}
    roles = {role: choices.get(f"model@{role}") or unnamed.get(role, "none") for role in ASKED}
    labels |= {role: _label(role, name, composed.overrides, config) for role, name in roles.items()}
    return config, labels | {JUDGE: with_restored(labels[JUDGE], config.get(JUDGE))}


def with_restored(label: str, judge: object) -> str:
    """The judge's label, which shows the key `restored` (set by an override or in a file) unless it has its default."""
    restored = f"restored={judge['restored']}" if isinstance(judge, dict) and "restored" in judge else ""
    if not restored or restored == f"restored={NOT_RESTORED}" or restored in label:
        return label
    return f"{label[:-1]},{restored}]" if label.endswith("]") else f"{label}[{restored}]"


def _absolute(key: str, path: str) -> str:
    """The absolute path, because workers may run in a different folder."""
    try:
        return str(folder_at(path).expanduser().absolute())
    except RuntimeError as error:  # no such user
        raise ConfigError(key, path, f"a folder ({error})") from None


def _label(group: str, name: str, overrides: Sequence[str], config: Mapping[str, Any]) -> str:
    """The YAML file's name with those changed values that have an effect, such as `egb_logits[trajectories=3]`.

    Only the last part of a path is shown, because other people see tables and file names too.
    """
    changed = []
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        if key.startswith(f"{group}.serving.engine_args"):
            told = answering(config.get(group) or {})
            texts = [f"{argument}={without_folders(str(told[argument]))}" for argument in told]
            changed += [text for text in texts if text not in changed]
            continue
        value = value.lower() if value in ("True", "False") else value  # as they are written in a list of values
        if key.startswith(f"{group}.") and not f"{key}.".startswith(tuple(f"{left}." for left in NO_INFLUENCE)):
            # `robustness.extraneous.k` of the setting `extraneous` becomes `k`.
            changed.append(f"{key[len(group) + 1 :].removeprefix(f'{name}.')}={without_folders(value)}")
        elif group == "retriever" and key.startswith(f"{OPTIONS}."):  # `options` has no label of its own
            changed.append(f"{key}={value}")
    # If the judge is the acting model, the judge's name already shows the changes to that model.
    return f"{name.removesuffix(']')}{',' if name.endswith(']') else '['}{','.join(changed)}]" if changed else name


# Stand-ins for retrievers that may not be installed (`stand_ins: {bm25: dense}`): of these two retrievers, only one
# runs.
#
# So a preset uses the embedding search of its paper (egb_slate, algorithm 1, line 5) if it is installed, and still runs
# where it is not installed. A line says which retriever was used.


def one_retriever(settings: Sequence[Setting]) -> tuple[list[Setting], list[str]]:
    """Two values: the settings without those whose retriever is left out, and lines about the retrievers left out.

    If a sweep names both a retriever and its stand-in, the original stays, or the stand-in if the original is not
    installed. If a sweep names only one of the two, that one stays.
    """
    asked = {_name(labels): config["retriever"] for config, labels in settings}
    stand_ins = {name: other for config, _ in settings for name, other in (config.get("stand_ins") or {}).items()}
    gone, lines = set[str](), list[str]()
    for name, other in stand_ins.items():
        if name not in asked or other not in asked:
            continue
        if getattr(make("retriever", asked[other]), "installed", True):
            gone.add(name)
            lines.append(f"left out retriever {name}: {other} runs in its place")
        else:
            gone.add(other)
            lines.append(f"left out retriever {other}: it is not installed; {name} runs in its place")
    return [(config, labels) for config, labels in settings if _name(labels) not in gone], lines


def _name(labels: dict[str, str]) -> str:
    return labels["retriever"].partition("[")[0]


# The folders of several data sets in one sweep: `paths.NAME=FOLDER` sets one of them; `dataset.path` would set all.
#
# A data set without a folder is left out if others remain, and a line says so.


Setting = tuple[dict[str, Any], dict[str, str]]
"""The config of one setting and the labels of its groups."""


class Folders:
    """The folders of a sweep's data sets, and `lines` about data sets that were left out."""

    def __init__(self) -> None:
        self._lacking: dict[str, None] = {}
        self.lines: list[str] = []

    def with_files(self, composed: Iterable[Composed]) -> Iterator[Composed]:
        """Yield the settings, each with the folder of its data set; settings whose data set has no folder are left out.

        Raises:
            ConfigError: no setting is left, or the value given as a folder is not a text.
        """
        left = False
        for one in composed:
            name, dataset = str(one.choices.get("dataset")), one.config.get("dataset")
            if OmegaConf.is_dict(dataset) and OmegaConf.is_missing(dataset, "path"):
                folder = self._folder(name, one.config.get("paths") or {})
                if folder is None:
                    continue
                dataset.path = folder
            left = True
            yield one
        self.lines += [f"left out dataset {name}: no folder is given (paths.{name}=FOLDER)" for name in self._lacking]
        if not left:
            also = ", or " + " ".join(f"paths.{name}=FOLDER" for name in self._lacking)
            raise ConfigError("dataset.path", "???", f"this key has no default and must be given{also}")

    def _folder(self, name: str, paths: Mapping[str, object]) -> str | None:
        found = paths.get(name)
        if found is None:
            self._lacking[name] = None
        elif not isinstance(found, str):
            raise ConfigError(f"paths.{name}", found, "a folder")
        return found

    def without_stand_ins(self, settings: Iterable[Setting]) -> list[Setting]:
        """The settings, except settings of a stand-in (`stand_ins`) whose original data set runs too."""
        found = list(settings)
        run = {_folders_name(labels) for _, labels in found}
        stand_ins = {name: other for config, _ in found for name, other in (config.get("stand_ins") or {}).items()}
        gone = {name: other for name, other in stand_ins.items() if name in run and other in run}
        self.lines += [f"left out dataset {name}: {other} runs in its place" for name, other in gone.items()]
        return [(config, labels) for config, labels in found if _folders_name(labels) not in gone]


def _folders_name(labels: Mapping[str, str]) -> str:
    return labels["dataset"].partition("[")[0]
