"""Win rates: `python launch/win_rate.py results/<name> model@evaluator=NAME [against=zero_shot]`.

An evaluator says of every finished episode and that of the reference planner on the same case which one served the
request better. What was compared before is not asked again. Further arguments are those of `launch/sweep.py` that say
how the evaluator is asked (`evaluator.form=digits`) and where its replicas run (`cluster=address ...`).
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import sys
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from hydra_plugins.grid_sweeper import register
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.progress import Progress

from analysis import win_rates
from analysis.render import terminal
from analysis.report import wide
from grid import store
from grid.datasets.base import Dataset
from grid.engines.base import Engine, HostedEngine
from grid.engines.informed import Informed
from grid.engines.roles import EVALUATOR
from grid.errors import ConfigError, EngineError, GridError, UnfinishedError
from grid.planners.judging import Judging
from grid.replicas.client import PooledEngine
from grid.replicas.fleet import Fleet
from grid.sweep import cluster
from grid.sweep.build import build_engine
from grid.sweep.cell import Setting
from grid.sweep.check import git_commit
from grid.sweep.comparing import Rule, Shown, Verdict, compare, comparison_id, rule_of
from grid.sweep.config import ClusterConfig, sweep_config
from grid.sweep.make import make
from grid.sweep.roles import judging, models
from launch.pairs import Pair, pairs, shown
from launch.refusals import refusal

CONF = Path(__file__).resolve().parents[1] / "conf"
AGAINST = "zero_shot"
DONE, UNFINISHED, CANNOT_RUN = 0, 1, 2
_TAKEN = ("model@evaluator=", "evaluator.", "cluster=", "cluster.")
_AT_ONCE = 32
_A_FILE = 256  # comparisons


@dataclass(frozen=True)
class Evaluating:
    """Who is asked, and how: its label, its config with how it is asked, and where replicas of it would run."""

    label: str
    model: Mapping[str, Any]
    how: Judging
    cluster: ClusterConfig

    @property
    def config(self) -> Mapping[str, Any]:
        """All that tells one evaluator from another."""
        return {**asdict(self.how), **self.model}


def main() -> int:
    """Exit status 0, 1 where an evaluator stopped answering, or 2 for what cannot run."""
    arguments = sys.argv[1:]
    console = Console(highlight=False, emoji=False)
    try:
        root, against, overrides = _given(arguments)
        store.check_there(root)
        evaluating = evaluator(overrides)
        compared = _compare(root, against, evaluating, console)
        console.print(compared, markup=False, soft_wrap=True)
        for sheet in win_rates.sheets(root):
            table = terminal(sheet)
            wide(console, Console(width=10_000).measure(table).maximum).print(table)
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


def evaluator(overrides: Sequence[str]) -> Evaluating:
    """Who is asked, from the command line. Raises ConfigError, or what Hydra raises."""
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
    if isinstance(engine, Informed):
        raise ConfigError(f"model@{EVALUATOR}", label, "a model that is told no reference: it could not compare")
    if how.verb not in engine.provides:
        raise ConfigError(f"{EVALUATOR}.form", how.form, f"what conf/model/{label}.yaml can do, not {how.verb}")
    changed = [one.removeprefix(f"{EVALUATOR}.") for one in overrides if one.startswith(f"{EVALUATOR}.")]
    label = f"{label}[{','.join(changed)}]" if changed else label
    return Evaluating(label, dict(model), how, sweep_config(values).cluster)


def _compare(root: Path, against: str, evaluating: Evaluating, console: Console) -> str:
    """Compare what was not compared yet; a line that says what came of it."""
    with store.locked(root):
        store.check(root)
        found = pairs(root, against)
        rules = {pair.cells: _rule(pair) for pair in found}
        ids = {cells: comparison_id(cells, evaluating.config, rule) for cells, rule in rules.items()}
        known = set(store.read(root, "comparisons", ["comparison_id"])["comparison_id"].to_pylist())
        left = [pair for pair in found if ids[pair.cells] not in known]
        console.print(
            f"{len(found):,} pairs against {against}, {len(found) - len(left):,} compared before", soft_wrap=True
        )
        by: Counter[str] = Counter()
        if left:
            with _engine(evaluating, console) as engine, Progress(console=console, transient=True) as bar:
                task = bar.add_task("compared", total=len(left))
                work = _Work(root, evaluating, engine, rules, ids, partial(bar.advance, task))
                by = asyncio.run(work.run(left))
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(by.items())) or "none"
    return f"compared now: {told}"


def _rule(pair: Pair) -> Rule:
    return rule_of(_dataset(json.dumps(json.loads(pair.own["config"])["dataset"], sort_keys=True)))


@lru_cache(maxsize=8)
def _dataset(config: str) -> Dataset:
    return cast(Dataset, make("dataset", json.loads(config)))


@contextmanager
def _engine(evaluating: Evaluating, console: Console) -> Iterator[Engine]:
    """The evaluator, ready to answer: in this process, or in replicas where it holds weights."""
    engine = build_engine(evaluating.model)
    if engine.home != "replica":
        yield engine
        return
    say = partial(console.print, markup=False, soft_wrap=True)
    say(cluster.connect(evaluating.cluster))
    setting = Setting({"model": evaluating.model}, {"model": evaluating.label}, seed=0)
    try:
        where = evaluating.cluster
        with Fleet([setting], where.replicas, where.ready_seconds, say) as fleet:
            yield cast(Engine, PooledEngine(engine, fleet.handles(evaluating.model), uuid.uuid4().hex))
    finally:
        cluster.disconnect()


@dataclass(frozen=True)
class _Work:
    """The comparisons of one run."""

    root: Path
    evaluating: Evaluating
    engine: Engine
    rules: Mapping[tuple[str, str], Rule]
    ids: Mapping[tuple[str, str], str]
    done: Any

    async def run(self, left: Sequence[Pair]) -> Counter[str]:
        """Compare the pairs, file by file; returns how many were decided by what."""
        if self.engine.home == "gateway":
            await cast(HostedEngine, self.engine).load()
        by: Counter[str] = Counter()
        part: list[tuple[Pair, Shown, Shown]] = []
        for one in shown(self.root, left):
            part.append(one)
            if len(part) == _A_FILE:
                by += await self._file(part)
                part = []
        return by + await self._file(part)

    async def _file(self, part: Sequence[tuple[Pair, Shown, Shown]]) -> Counter[str]:
        """Compare a file's pairs and write it, also where asking ends early."""
        rows: list[dict[str, Any]] = []
        waiting = iter(part)

        async def one_after_another() -> None:
            for pair, own, other in waiting:
                query = _dataset(json.dumps(json.loads(pair.own["config"])["dataset"], sort_keys=True))
                text = query.problem(pair.own["case_id"]).case.query
                seed = int(self.ids[pair.cells], 16) >> 1
                asked = self.evaluating.how
                verdict = await compare(text, own, other, self.rules[pair.cells], self.engine, asked, seed)
                rows.append(self._row(pair, verdict))
                self.done(1)
                await asyncio.sleep(0)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_AT_ONCE, len(part))):
                    group.create_task(one_after_another())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            store.write(self.root, {"comparisons": rows})
        return Counter("unreadable" if row["win"] is None else f"by {row['decided_by']}" for row in rows)

    def _row(self, pair: Pair, verdict: Verdict) -> dict[str, Any]:
        cell, other = pair.cells
        usage = verdict.usage
        return {
            "comparison_id": self.ids[pair.cells],
            "cell_id": cell,
            "against_cell_id": other,
            "planner": pair.own["planner"],
            "against": pair.against["planner"],
            "evaluator": self.evaluating.label,
            "evaluator_config": json.dumps(self.evaluating.config, sort_keys=True),
            "evaluator_version": self.engine.version,
            "rule": self.rules[pair.cells].name,
            "win": verdict.win,
            "decided_by": verdict.by,
            "shown_first": verdict.first,
            "shown_second": verdict.second,
            "llm_calls": usage.llm_calls,
            "forward_passes": usage.forward_passes,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "git_commit": git_commit(),
            "created_at": dt.datetime.now(dt.UTC),
        }


if __name__ == "__main__":
    sys.exit(main())
