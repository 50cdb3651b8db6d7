"""Show the requests of a planner: `agent-grid show DATASET CASE --planner P`.

The case runs as in a sweep with this case alone, with the lexical engine unless you name a different model. Every
request is printed in the form in which the engine receives it, with the engine's answer.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.text import Text

from grid import CONF, plugins
from grid.cells import deadline
from grid.cells.environment import Environment, environment
from grid.cells.run import episode_of, solve
from grid.core.engine import ASKED, JUDGE
from grid.core.errors import ConfigError, GridError, nearest
from grid.core.moved import named_today
from grid.core.problem import Problem
from grid.core.untrusted import shown_lines
from grid.episode.requests import Message
from grid.settings.build import Built, build
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from grid.settings.parts import with_ordering
from grid.settings.roles import with_roles
from grid.settings.setting import FURTHER, GROUPS, OPTIONS, Cell, Setting, cells
from grid.store.transcripts import answer_lines
from grid.worlds.layers import close, settle

_KEYS = (*GROUPS, *FURTHER, *ASKED, OPTIONS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the requests of one case; the exit status is 1 if the case fails, and 2 if it cannot run."""
    given = _parser().parse_intermixed_args(arguments)
    try:
        plugins.allow(given.plugin)
        setting = _setting(given)
        reason = invalid_reason(setting)
        if reason:
            raise ConfigError("planner, dataset", f"{given.planner}, {given.dataset}", reason)
        built = build(setting, BudgetConfig())
        cell = _cell(built, setting, given.case)
        problem = built.problem(cell.case_id, cell.disturbance_seed)
        around = environment(built, cell, setting.seed)
        ended, told, asked = deadline.run(_ended(built, cell, around, problem))
        messages = [*asked, *around.messages]
    except GridError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    _print(messages, given.first, told)
    return int(not ended)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", help="a file in conf/dataset")
    parser.add_argument("case", help="a case's id, or its index in the dataset, counted from 0")
    parser.add_argument("--planner", default="react", help="a file in conf/planner")
    parser.add_argument("--model", default="lexical", help="a file in conf/model")
    parser.add_argument("--robustness", default="none", help="a file in conf/robustness")
    parser.add_argument("--retriever", default="bm25", help="a file in conf/retriever")
    parser.add_argument("--pool", default="all", help="a file in conf/pool")
    parser.add_argument("--judge", help="a file in conf/model (default: the file of --model)")
    parser.add_argument("--evaluator", help="a file in conf/model, for dataset.equivalence=judge")
    parser.add_argument("--simulator", help="a file in conf/model, for datasets whose tools a model can play")
    parser.add_argument("--user", help="a file in conf/model, for datasets whose planners talk to a user")
    parser.add_argument("--refine", default="none", help="a file in conf/refine")
    parser.add_argument(
        "--memory", default="none", help="a file in conf/memory; memory.path=FOLDER names the earlier sweep"
    )
    parser.add_argument("--critic", help="a file in conf/model, for refine=critic")
    parser.add_argument(
        "--plugin", action="append", default=[], help="a plugin package, to use the files in its conf folder too"
    )
    parser.add_argument("--first", type=int, metavar="N", help="print only the first N requests")
    parser.add_argument(
        "values",
        nargs="*",
        metavar="KEY=VALUE",
        help="such as dataset.outline=hidden options.order=ranked robustness=unsolvable",
    )
    return parser


def _setting(given: argparse.Namespace) -> Setting:
    """The setting from the files and values that the user specifies; raises ConfigError."""
    changed = OmegaConf.from_dotlist(given.values)
    labels = {group: getattr(given, group) for group in (*GROUPS, *FURTHER)}
    labels |= {
        group: changed.pop(group) for group in labels if isinstance(changed.get(group), str)
    }  # in the same form as sweeps
    roles = {role: getattr(given, role) for role in ASKED if getattr(given, role)}
    files = {group: file_of(group, name) for group, name in labels.items()}
    config = OmegaConf.create(files | {role: file_of("model", name, f"model@{role}") for role, name in roles.items()})
    if "limit" in config.dataset:
        config.dataset.limit = None  # any case can be shown
    for group in changed:
        if group not in _KEYS:
            raise ConfigError(str(group), changed[group], f"must be a key in one of these groups: {', '.join(_KEYS)}")
        if group in labels and not isinstance(changed[group], DictConfig):
            raise ConfigError(
                str(group),
                changed[group],
                f"a key of this group, such as {group}.KEY=VALUE, or one of its files, {group}=NAME",
            )
    merged = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.merge(config, changed)))
    merged = named_today(merged)
    resolved, told = with_ordering(merged, with_roles(merged)), labels | {JUDGE: labels["model"]} | roles
    return Setting(resolved, told, seed=0, budget=BudgetConfig().model_dump())


def file_of(group: str, name: str, key: str | None = None) -> Any:
    """The config in a named file, possibly in a plugin; raises ConfigError, which lists the existing names.

    The error names `key`, or the group if `key` is None.
    """
    folders = [CONF, *(plugin.conf for plugin in plugins.allowed().values())]
    files = {file.stem: file for conf in folders for file in (conf / group).glob("*.yaml")}
    if name not in files:
        raise ConfigError(
            key or group,
            name,
            f"one of {', '.join(sorted(files))}, or a file of a plugin with --plugin PACKAGE{nearest(name, [*files])}",
        )
    return OmegaConf.load(files[name])


def _cell(built: Built, setting: Setting, case: str) -> Cell:
    every = list(cells(setting, built.version, built.dataset.case_ids(), 1))
    found = {cell.case_id: cell for cell in every} | {str(place): cell for place, cell in enumerate(every)}
    if case not in found:
        raise ConfigError("case", case, f"an id such as {every[0].case_id}, or an index from 0 to {len(every) - 1}")
    return found[case]


async def _ended(
    built: Built, cell: Cell, around: Environment, problem: Problem
) -> tuple[bool, str, Sequence[Message]]:
    """Three values: whether the planner ended without an error; a line about its end; and its requests.

    Raises GridError if an engine cannot load.
    """
    for engine in built.engines.values():
        if engine.home != "task":
            await cast(Any, engine).load()
    asked: Sequence[Message] = ()
    try:
        problem = await around.around(built, problem)
        episode = episode_of(built, problem, cell.seed, 0)
        asked = episode.messages
        found = await solve(built, episode)
        await settle(problem.world, found.end)
    except GridError as error:
        return False, f"failed: {error}", asked
    finally:
        await close(problem.world)
    resolved = "resolved" if problem.world.resolved(found.end) else "not resolved"
    return True, f"{len(found.steps)} steps, {resolved}, answer: {found.answer or 'none'}", asked


def _print(messages: Sequence[Message], first: int | None, told: str) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for number, message in enumerate(messages[:first]):
        console.rule(f"request {number}: {message.role}, {message.decision}", align="left", style="bold")
        console.print(Text(shown_lines(message.prompt.text())))
        for line in answer_lines(message):
            console.print(Text(shown_lines(line), style="cyan"))
    left = len(messages) - len(messages[:first])
    console.rule("end", align="left", style="bold")
    console.print(Text((f"{left} more requests; " if left else "") + shown_lines(told)))


if __name__ == "__main__":
    sys.exit(main())
