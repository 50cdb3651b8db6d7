"""Win rates: `python launch/win_rate.py results/<name> model@evaluator=NAME [against=zero_shot]`.

An evaluator compares every finished episode with the reference planner's episode on the same case, and says which of
the two served the request better. Pairs that were compared before are skipped. Further arguments are the keys of
`launch/sweep.py` that say how the evaluator is asked (`evaluator.form=digits`) and where its replicas run
(`cluster=address ...`).
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.progress import Progress

from analysis.load import unknowns
from analysis.page.render import show
from analysis.tables import reference_of, win_rates
from grid import CONF, store
from grid.cluster.answering import Answering, answering
from grid.core.engine import EVALUATOR, SAMPLE, Engine
from grid.core.errors import ConfigError, EngineError, GridError, UnfinishedError
from grid.core.moved import named_today
from grid.core.places import folder_at
from grid.core.problem import Dataset
from grid.core.types import Trajectory
from grid.datasets.grading import told
from grid.engines.hosted import HostedEngine, Informed, Probe, Probed
from grid.episode.judging import Judging
from grid.roles.comparing import Rule, Shown, Verdict, compare, comparison_id, rule_of
from grid.settings.build import build_engine
from grid.settings.check import git_commit
from grid.settings.config import ClusterConfig, sweep_config
from grid.settings.make import make
from grid.settings.roles import Price, asked, judging, models, prices_of
from grid.store.steps import step_of
from grid.sweeps.arguments import refusal

AGAINST = "zero_shot"
DONE, UNFINISHED, CANNOT_RUN = 0, 1, 2
_TAKEN = ("model@evaluator=", "evaluator.", "cluster=", "cluster.")


def main() -> int:
    """Exit status 1 if the evaluator or the user stopped the command, 2 if it cannot run, else 0."""
    arguments = sys.argv[1:]
    return ended(lambda: _run(arguments), arguments, "all comparisons so far are kept")


def _run(arguments: Sequence[str]) -> int:
    console = Console(highlight=False, emoji=False)
    root, against, overrides = _given(arguments)
    store.check_there(root)
    evaluating = evaluator(overrides)
    compared = compare_all(root, against, evaluating, console)
    console.print(compared, markup=False, soft_wrap=True)
    for table in unknowns.noted(win_rates.tables(root)):
        show(console, table, wide=True)
    return DONE


def ended(run: Callable[[], int], arguments: Sequence[str], kept: str) -> int:
    """Run a command that asks an evaluator; returns the exit status.

    The exit status is UNFINISHED if the evaluator or the user stopped the command, CANNOT_RUN if it cannot run, and
    otherwise what `run` returns. `arguments` are the command line's, for the error message; `kept` says, in the message
    about an early stop, what is kept.
    """
    try:
        return run()
    except (UnfinishedError, EngineError) as error:
        print(f"stopped: {error}; {kept}; run the command again to continue", file=sys.stderr)
        return UNFINISHED
    except KeyboardInterrupt:
        print(f"stopped: {kept}; run the command again to continue", file=sys.stderr)
        return UNFINISHED
    except (GridError, HydraException, OmegaConfBaseException) as error:
        print(f"error: {refusal(error, arguments)}", file=sys.stderr)
        return CANNOT_RUN


def _given(arguments: Sequence[str]) -> tuple[Path, str, list[str]]:
    """The folder, the reference planner, and the overrides for Hydra."""
    folders = [one for one in arguments if "=" not in one]
    if len(folders) != 1:
        raise ConfigError(
            "arguments",
            list(arguments),
            f"must be one sweep's folder, and any of the keys {', '.join(_TAKEN)}, against=",
        )
    against, rest = AGAINST, list[str]()
    for one in (one for one in arguments if "=" in one):
        if one.startswith("against="):
            against = one.partition("=")[2]
        elif one.startswith(_TAKEN):
            rest.append(one)
        else:
            key, _, value = one.partition("=")
            raise ConfigError(key, value, f"only the keys {', '.join(_TAKEN)} and against= are allowed")
    return folder_at(folders[0]), against, rest


def evaluator(overrides: Sequence[str], informed: bool = False) -> Evaluating:
    """The evaluator that the command line names; `informed`: a model that is told the answers is accepted too.

    Raises ConfigError, or an error of Hydra.
    """
    from hydra_plugins.grid_sweeper import register  # this module can only be found from the command line

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
        raise ConfigError(f"model@{EVALUATOR}", None, "the name of a file in conf/model")
    engine = build_engine(model)
    if isinstance(engine, Informed) and not informed:
        raise ConfigError(
            f"model@{EVALUATOR}",
            label,
            "must be a model that does not see the reference; this one does, so it cannot compare",
        )
    if how.verb not in engine.provides:
        raise ConfigError(
            f"{EVALUATOR}.form",
            how.form,
            f"a form that conf/model/{label}.yaml supports; it does not support {how.verb}",
        )
    price = prices_of({"model": {}, EVALUATOR: given}, {EVALUATOR: engine})[EVALUATOR]
    changed = [one.removeprefix(f"{EVALUATOR}.") for one in overrides if one.startswith(f"{EVALUATOR}.")]
    label = f"{label}[{','.join(changed)}]" if changed else label
    shared = sweep_config(values)
    return Evaluating(label, dict(model), how, shared.cluster, price, shared.budget.money)


# Comparing a sweep's finished episodes with a reference planner's episodes; an evaluator decides which is better.


_AT_ONCE = 32
_A_FILE = 256  # comparisons per file


@dataclass(frozen=True)
class Evaluating:
    """The evaluator: its label, its model's config, the way of asking it, and the cluster for its replicas.

    `most`: the maximum cost of the evaluator in US dollars, at its `price`.
    """

    label: str
    model: Mapping[str, Any]
    how: Judging
    cluster: ClusterConfig
    price: Price | None = None
    most: float | None = None

    @property
    def asked(self) -> Answering:
        """The model to ask, without the way of asking it."""
        return Answering(self.label, self.model, self.cluster)

    @property
    def config(self) -> Mapping[str, Any]:
        """All values in which evaluators can differ: the way of asking, and the model's config."""
        return {**asked(self.how), **self.model}


def compare_all(root: Path, against: str, evaluating: Evaluating, console: Console) -> str:
    """Compare all pairs that have not been compared yet; returns a line about the results.

    Raises:
        ConfigError: as `pairs` does; or a planner's episodes were imported without their cases.
        EngineError, UnfinishedError: the evaluator does not answer; finished comparisons are written.
        StoreError: the folder cannot be read or written to, or a sweep has locked it.
    """
    with store.locked(root):
        store.check(root)
        found = pairs(root, against)
        rules = {pair.cells: rule_of(_dataset_of(pair)) for pair in found}
        ids = {cells: comparison_id(cells, evaluating.config, rule) for cells, rule in rules.items()}
        known = set(store.read(root, "comparisons", ["comparison_id"])["comparison_id"].to_pylist())
        left = [pair for pair in found if ids[pair.cells] not in known]
        console.print(
            f"{len(found):,} pairs against {against}; {len(found) - len(left):,} were compared before", soft_wrap=True
        )
        by: Counter[str] = Counter()
        if left:
            say = partial(console.print, markup=False, soft_wrap=True)
            with answering(evaluating.asked, say) as engine, Progress(console=console, transient=True) as bar:
                task = bar.add_task("compared", total=len(left))
                work = _Work(root, evaluating, engine, rules, ids, partial(bar.advance, task))
                by = asyncio.run(work.run(left))
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(by.items())) or "none"
    return f"compared now: {told}"


def _dataset_of(pair: Pair) -> Dataset:
    config = named_today(json.loads(pair.own["config"]))
    if "dataset" not in config:
        raise ConfigError(
            "planner", pair.own["planner"], "a planner of a sweep; this one was imported without its cases"
        )
    return _dataset(json.dumps(config["dataset"], sort_keys=True))


@lru_cache(maxsize=8)
def _dataset(config: str) -> Dataset:
    return cast(Dataset, make("dataset", json.loads(config)))


@dataclass(frozen=True)
class _Work:
    """The work of one run that compares pairs."""

    root: Path
    evaluating: Evaluating
    engine: Engine
    rules: Mapping[tuple[str, str], Rule]
    ids: Mapping[tuple[str, str], str]
    done: Callable[[int], object]

    async def run(self, left: Sequence[Pair]) -> Counter[str]:
        """Compare the pairs, file by file; returns the number of pairs for each decision."""
        if self.engine.home == "gateway":
            await cast(HostedEngine, self.engine).load()
            if isinstance(self.engine, Probed) and self.evaluating.how.verb == SAMPLE:
                rules = {self.evaluating.how.at(rule.temperature) for rule in self.rules.values()}
                await self.engine.probe([Probe(EVALUATOR, temperature) for temperature in sorted(rules)])
        by: Counter[str] = Counter()
        part: list[tuple[Pair, Shown, Shown]] = []
        for one in shown(self.root, left):
            part.append(one)
            if len(part) == _A_FILE:
                by += await self._file(part)
                part = []
        return by + await self._file(part)

    async def _file(self, part: Sequence[tuple[Pair, Shown, Shown]]) -> Counter[str]:
        """Compare the pairs of one file, and write the file, even if the evaluator stops early."""
        rows: list[dict[str, Any]] = []
        waiting = iter(part)

        async def one_after_another() -> None:
            for pair, own, other in waiting:
                query = _dataset_of(pair).problem(pair.own["case_id"]).case.query
                rule, seed = self.rules[pair.cells], int(self.ids[pair.cells], 16) >> 1
                verdict = await compare(query, own, other, rule, self.engine, self.evaluating.how, seed)
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
        spent = verdict.usage.known()
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
            **{name: spent[name] for name in ("llm_calls", "forward_passes", "input_tokens", "output_tokens")},
            "git_commit": git_commit(),
            "created_at": dt.datetime.now(dt.UTC),
        }


# The pairs of a sweep's finished episodes from which a win rate is computed.


_PLACE = ["model", "dataset", "dataset_version", "robustness", "retriever", "pool", "simulator", "user"]
"""Columns in which the two episodes of a pair agree, in addition to case and trial."""
_SAME = [*_PLACE, "case_id", "trial"]
_OWN = ["cell_id", "setting_id", "planner", "passed", "answer", "config"]
_STEPS = ["cell_id", "substep_id", "substep", "chosen_tool", "thought", "written", "observation", "failed"]
_TOGETHER = 2_000  # pairs whose steps are read at once


class Pair(NamedTuple):
    """Two rows of `episodes` on the same case: a planner's row, and the reference planner's row."""

    own: Mapping[str, Any]
    against: Mapping[str, Any]

    @property
    def cells(self) -> tuple[str, str]:
        """The ids of both cells."""
        return self.own["cell_id"], self.against["cell_id"]


def pairs(root: Path, against: str) -> list[Pair]:
    """Every finished episode of other planners, paired with the episode of `against` on the same case and trial.

    Episodes for which there is no such episode are left out. Both episodes agree in the model, the dataset and the
    other columns of `_PLACE`. An episode is finished if its success is known, even if its model failed. If `against`
    has several settings, the one whose label has the same changes as the compared planner's label is used.

    Raises:
        ConfigError: there is no pair, or several settings of the planner `against` have the same label.
        StoreError: the folder cannot be read.
    """
    known = pc.field("success").is_valid()
    frame: pd.DataFrame = store.read(root, "episodes", [*_SAME, *_OWN], known).to_pandas()
    found = [pair for _, group in frame.groupby(_PLACE, sort=True, dropna=False) for pair in _of(group, against)]
    if not found:
        planners = sorted(set(frame["planner"]))
        allowed = (
            f"a planner with which other planners in {root} can be compared; found: {', '.join(planners) or 'none'}"
        )
        raise ConfigError("against", against, allowed)
    return found


def _of(group: pd.DataFrame, against: str) -> Iterator[Pair]:
    """The pairs of one group of rows, which agree in the columns `_PLACE`."""
    planners = list(dict.fromkeys(group["planner"]))
    for planner in planners:
        reference = reference_of(planner, planners, against)
        if reference is None:
            continue
        theirs = group[group["planner"] == reference]
        if theirs["setting_id"].nunique() > 1:
            several = theirs["setting_id"].nunique()
            raise ConfigError(
                "against", reference, f"must be the label of only one setting, but {several} settings have it"
            )
        by_case = {(row["case_id"], row["trial"]): row for row in theirs.to_dict("records")}
        for row in group[group["planner"] == planner].to_dict("records"):
            if (row["case_id"], row["trial"]) in by_case:
                yield Pair(_plain(row), _plain(by_case[row["case_id"], row["trial"]]))


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): None if pd.isna(value) else value for name, value in row.items()}


def shown(root: Path, wanted: Sequence[Pair]) -> Iterator[tuple[Pair, Shown, Shown]]:
    """Yield each pair with the parts of both episodes that an evaluator sees."""
    for start in range(0, len(wanted), _TOGETHER):
        part = wanted[start : start + _TOGETHER]
        steps = _steps(root, {cell for pair in part for cell in pair.cells})
        for pair in part:
            own, other = (_shown(row, steps.get(row["cell_id"], [])) for row in pair)
            yield pair, own, other


def _steps(root: Path, cells: set[str]) -> dict[str, list[Mapping[str, Any]]]:
    """The steps on each cell's path, in order, keyed by the cell's id."""
    mine = pc.field("cell_id").isin(pa.array(sorted(cells), pa.string())) & pc.field("on_path")
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in store.read(root, "steps", [*_STEPS, "step"], mine).to_pylist():
        found.setdefault(row["cell_id"], []).append(row)
    return {cell: sorted(rows, key=lambda row: row["step"]) for cell, rows in found.items()}


def _shown(episode: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Shown:
    steps = tuple(map(step_of, rows))
    return Shown(told(Trajectory(steps, steps, answer=episode["answer"])), episode["passed"])


if __name__ == "__main__":
    sys.exit(main())
