"""Composed Hydra configs to one checked sweep, and its exit status."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from rich.console import Console
from rich.markup import escape

from grid.cell import GROUPS, NO_INFLUENCE
from grid.check import Job, check_sweep
from grid.errors import ConfigError, GridError, UnfinishedError
from grid.untrusted import shown_lines
from launch.session import run_checked

RAN, UNFINISHED, CANNOT_RUN = 0, 1, 2


class SweepEnded(SystemExit):
    """The sweep's own exit status, told apart from Hydra's."""


def run_jobs(configs: Sequence[DictConfig]) -> NoReturn:
    """Check and run composed configs (each with its `hydra` node); raises SweepEnded with the exit status."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    try:
        checked = check_sweep([_job(config) for config in configs])
        complete = run_checked(checked, dry_run=bool(configs[0].dry_run))
    except UnfinishedError as error:
        console.print(f"[bold red]stopped:[/] {escape(shown_lines(str(error)))}")
        raise SweepEnded(UNFINISHED) from None
    except GridError as error:
        console.print(f"[bold red]error:[/] {escape(shown_lines(str(error)))}")
        raise SweepEnded(CANNOT_RUN) from None
    except KeyboardInterrupt:
        console.print("stopped: what is written stays; run again with the same name to go on")
        raise SweepEnded(UNFINISHED) from None
    except Exception:  # noqa: BLE001 - whatever it is, the sweep did not finish, and what is written stays
        console.print_exception()
        raise SweepEnded(UNFINISHED) from None
    raise SweepEnded(RAN if complete else UNFINISHED)


def _job(config: DictConfig) -> Job:
    choices = dict(config.hydra.runtime.choices)
    overrides = [str(override) for override in config.hydra.overrides.task]
    plain = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    try:
        resolved: Any = OmegaConf.to_container(plain, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        raise ConfigError(str(error.full_key), "???", "this key has no default and must be given") from None
    except OmegaConfBaseException as error:
        raise ConfigError(str(error.full_key), None, str(error.msg or error)) from None
    dataset = resolved.get("dataset")
    if isinstance(dataset, dict) and dataset.get("path"):
        dataset["path"] = str(Path(dataset["path"]).expanduser().absolute())  # workers may stand elsewhere
    # A list of settings is no single choice; their names are the keys of the composed group.
    choices.setdefault("robustness", "+".join(resolved.get("robustness") or {}))
    return Job(resolved, {group: _label(group, str(choices.get(group)), overrides) for group in GROUPS})


def _label(group: str, name: str, overrides: Sequence[str]) -> str:
    """The YAML's name, with what was changed in it: `egb_logits[trajectories=3]`; what changes no result left out."""
    changed = []
    for override in overrides:
        key, _, value = override.lstrip("+").partition("=")
        if key.startswith(f"{group}.") and not f"{key}.".startswith(tuple(f"{left}." for left in NO_INFLUENCE)):
            # `robustness.extraneous.k` of the setting extraneous is its k.
            changed.append(f"{key[len(group) + 1 :].removeprefix(f'{name}.')}={value}")
    return f"{name}[{','.join(changed)}]" if changed else name
