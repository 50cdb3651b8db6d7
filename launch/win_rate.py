"""Win rates: `python launch/win_rate.py results/<name> model@evaluator=NAME [against=zero_shot]`.

An evaluator says of every finished episode and that of the reference planner on the same case which one served the
request better. What was compared before is not asked again. Further arguments are those of `launch/sweep.py` that say
how the evaluator is asked (`evaluator.form=digits`) and where its replicas run (`cluster=address ...`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from hydra_plugins.grid_sweeper import register
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from analysis.load import unknowns
from analysis.page.render import show
from analysis.tables import win_rates
from grid import CONF, store
from grid.core.errors import ConfigError, EngineError, GridError, UnfinishedError
from grid.core.roles import EVALUATOR
from grid.engines.informed import Informed
from grid.settings.build import build_engine
from grid.settings.config import sweep_config
from grid.settings.roles import judging, models
from grid.sweeps.arguments import refusal
from launch.comparing import Evaluating, compare_all

AGAINST = "zero_shot"
DONE, UNFINISHED, CANNOT_RUN = 0, 1, 2
_TAKEN = ("model@evaluator=", "evaluator.", "cluster=", "cluster.")


def main() -> int:
    """Exit status 0, 1 where an evaluator stopped answering, or 2 for what cannot run."""
    arguments = sys.argv[1:]
    console = Console(highlight=False, emoji=False)
    try:
        root, against, overrides = _given(arguments)
        store.check_there(root)
        evaluating = evaluator(overrides)
        compared = compare_all(root, against, evaluating, console)
        console.print(compared, markup=False, soft_wrap=True)
        for table in unknowns.noted(win_rates.tables(root)):
            show(console, table, wide=True)
    except (UnfinishedError, EngineError) as error:
        print(f"stopped: {error}; what was compared stays, run again to go on", file=sys.stderr)
        return UNFINISHED
    except KeyboardInterrupt:
        print("stopped: what was compared stays, run again to go on", file=sys.stderr)
        return UNFINISHED
    except (GridError, HydraException, OmegaConfBaseException) as error:
        print(f"error: {refusal(error, arguments)}", file=sys.stderr)
        return CANNOT_RUN
    return DONE


def _given(arguments: Sequence[str]) -> tuple[Path, str, list[str]]:
    """The folder, the reference planner, and what is Hydra's."""
    folders = [one for one in arguments if "=" not in one]
    if len(folders) != 1:
        raise ConfigError(
            "arguments", list(arguments), f"one folder of a sweep, and keys: {', '.join(_TAKEN)} against="
        )
    against, rest = AGAINST, list[str]()
    for one in (one for one in arguments if "=" in one):
        if one.startswith("against="):
            against = one.partition("=")[2]
        elif one.startswith(_TAKEN):
            rest.append(one)
        else:
            key, _, value = one.partition("=")
            raise ConfigError(key, value, f"no key but {', '.join(_TAKEN)} and against=")
    return Path(folders[0]), against, rest


def evaluator(overrides: Sequence[str], informed: bool = False) -> Evaluating:
    """Who is asked, from the command line; `informed`: it may be who is told the truth.

    Raises ConfigError, or what Hydra raises.
    """
    register()
    with initialize_config_dir(str(CONF), version_base=None):
        composed = compose("config", list(overrides), return_hydra_config=True)
    label = str(composed.hydra.runtime.choices.get(f"model@{EVALUATOR}"))
    plain = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    values = cast(dict[str, Any], OmegaConf.to_container(plain, resolve=True))
    given = values[EVALUATOR]
    how = judging({EVALUATOR: given})[EVALUATOR]
    model = models({"model": {}, EVALUATOR: given})[EVALUATOR]
    if not model:
        raise ConfigError(f"model@{EVALUATOR}", None, "the name of a file of conf/model")
    engine = build_engine(model)
    if isinstance(engine, Informed) and not informed:
        raise ConfigError(f"model@{EVALUATOR}", label, "a model that is told no reference: it could not compare")
    if how.verb not in engine.provides:
        raise ConfigError(f"{EVALUATOR}.form", how.form, f"what conf/model/{label}.yaml can do, not {how.verb}")
    changed = [one.removeprefix(f"{EVALUATOR}.") for one in overrides if one.startswith(f"{EVALUATOR}.")]
    label = f"{label}[{','.join(changed)}]" if changed else label
    return Evaluating(label, dict(model), how, sweep_config(values).cluster)


if __name__ == "__main__":
    sys.exit(main())
