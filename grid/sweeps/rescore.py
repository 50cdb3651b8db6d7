"""Scores a results folder's cells again, with the current code, and writes the rows next to the first scores."""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import pyarrow as pa
import pyarrow.compute as pc

from grid import plugins, store
from grid.cells.rescoring import Again, Stored, Value, needs_requests, recorded, score_again, was_scored
from grid.core.engine import ASKED, EVALUATOR, Engine
from grid.core.errors import ConfigError, GridError, UnfinishedError, one_line
from grid.core.metric import together
from grid.core.moved import named_today
from grid.core.problem import EXAMINED
from grid.core.types import Usage, to_json
from grid.core.untrusted import loads
from grid.episode.judging import Judging
from grid.imports import RECORDED
from grid.metrics.scores import SUCCESS
from grid.settings.build import KNOWN, Built, build, code_of
from grid.settings.check import git_commit
from grid.settings.config import BudgetConfig
from grid.settings.roles import Price, money
from grid.settings.served import as_in
from grid.settings.setting import GROUPS, MEMORY, REFINE, Setting, cells
from grid.store.transcripts import transcripts

State: TypeAlias = Literal["equal", "changed", "new", "gone", "unknown"]
STATES: tuple[State, ...] = get_args(State)
EQUAL, CHANGED, NEW, GONE, UNKNOWN = STATES
SCORERS = ("dataset", "metrics", "robustness", "retriever", "pool")
"""Those groups of a setting whose code can change a score."""
NOTHING_CHANGED = (
    "neither code nor data changed, so either the stored rows are not enough to compute the scores again, or a scorer "
    "is not deterministic"
)
_A_PART = 500  # cells that are scored together
_AT_ONCE = 16
_DIGITS = 16
_EPISODE = [
    *("cell_id", "setting_id", *GROUPS, REFINE, MEMORY, *ASKED, "case_id", "case_digest", "trial", "status"),
    *("error_kind", SUCCESS, "answer", "budget_reached", "n_steps", "replans", "branches", "branched_steps"),
    *("dataset_version", "config", "code_parts"),
]
_SPENT = ("llm_calls", "forward_passes", "input_tokens", "output_tokens")


@dataclass(frozen=True)
class Judge:
    """The model that judges: its label, its config, its engine, the way of asking it (`how`), and its price.

    `most`: the maximum cost of the judge in US dollars, if it has a price.
    """

    label: str
    config: Mapping[str, Any]
    engine: Engine
    how: Judging
    price: Price | None = None
    most: float | None = None


class Compared(NamedTuple):
    """One metric of one cell, compared between the first scoring and the new one.

    `state` is `new` if there is a value only now, `gone` if there was a value and its scorer now gives none, and
    `unknown` if there was a value that cannot be computed now. For `unknown`, `why` is the reason; for all other
    differences, it says what has changed.
    """

    dataset: str
    metric: str
    state: State
    then: Value | None
    now: Value | None
    why: str
    planner: str
    case_id: str
    trial: int
    cell_id: str


@dataclass
class Rescored:
    """The result for a folder: all comparisons, the number of cells that never had scores, and the judge's costs.

    `imported` is the number of imported cells, which stay unchanged because the code that scored them is not available.
    """

    compared: list[Compared] = field(default_factory=list)
    never: int = 0
    imported: int = 0
    spent: Usage = field(default_factory=Usage)
    money: float | None = 0.0

    @property
    def wrong(self) -> list[Compared]:
        """The values that differ although nothing that they depend on has changed."""
        return [one for one in self.compared if one.why == NOTHING_CHANGED]


async def rescore(
    root: Path, judge: Judge | None = None, done: Callable[[int], object] = lambda cells: None
) -> Rescored:
    """Score all cells of a folder again, and write the results next to the first scores.

    A judge is not asked again about a cell that it has already judged with the same code and data. `done` is called
    with the number of cells scored since the last call.

    Raises:
        ConfigError: no data set asks the judge, the judge's price is unknown although `most` is given, or a metric is
            declared differently than in the folder.
        EngineError, UnfinishedError: the judge does not answer, or has reached its limit in US dollars; the answers so
            far are written.
        StoreError: the folder cannot be read or written to, or a sweep has locked it.
    """
    if judge and judge.most is not None and judge.price is None:
        raise ConfigError(
            f"{EVALUATOR}.price", None, f"the judge needs a price, because budget.money={judge.most:g} is given"
        )
    store.check_there(root)
    with store.locked(root):
        store.check(root)
        return await _Work(root, judge, done).run()


class _Group(NamedTuple):
    """A setting's cells that have the same config, and the setting built to score them, or why it cannot be built."""

    episodes: list[dict[str, Any]]
    setting: Setting
    built: Built | None
    why: str = ""

    @property
    def examines(self) -> bool:
        """Whether the setting's data set asks an evaluator."""
        return self.built is not None and (self.built.compares_texts or EXAMINED in self.built.dataset.provides)


class _Work:
    """The state of scoring one folder again."""

    def __init__(self, root: Path, judge: Judge | None, done: Callable[[int], object]) -> None:
        self._root, self._judge, self._done = root, judge, done
        self._found, self._spent, self._commit = Rescored(), Usage(), git_commit()

    async def run(self) -> Rescored:
        """Score the folder; returns all results."""
        ran = ~pc.field("engine").isin([*RECORDED])
        rows = store.read(self._root, "episodes", _EPISODE, ran)
        self._found.imported = len(store.read(self._root, "episodes", ["cell_id"], ~ran))
        groups = [self._group(own.to_pylist()) for own in _by_config(rows)]
        if self._judge and not any(group.examines for group in groups):
            allowed = "needs a folder with a data set that asks an evaluator, but this folder has no such data set"
            raise ConfigError(f"model@{EVALUATOR}", self._judge.label, allowed)
        for group in groups:
            self._declare(group.built)
            known = self._known(digest := self._digest(group))
            for first in range(0, len(group.episodes), _A_PART):
                await self._part(group, group.episodes[first : first + _A_PART], digest, known)
        self._found.money = self._money(self._spent)
        self._found.spent = self._spent
        return self._found

    def _group(self, episodes: list[dict[str, Any]]) -> _Group:
        config, judge = named_today(loads(episodes[0]["config"])), self._judge
        seed, budget = config.pop("seed"), config.pop("budget")
        labels = {name: episodes[0][name] for name in (*GROUPS, REFINE, MEMORY, *ASKED) if name in config}
        setting = as_in(Setting(config, labels, seed, budget), episodes[0]["setting_id"])
        scored = [row for row in episodes if was_scored(row)]
        self._found.never += len(episodes) - len(scored)
        try:
            alone = replace(setting, config={name: part for name, part in config.items() if name != MEMORY})
            built, code = build(alone, BudgetConfig(**budget)), code_of(alone.config)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything, and all other settings count
            why = str(error) if isinstance(error, GridError) else f"{type(error).__name__}: {error}"
            return _Group(scored, setting, None, f"the setting cannot be built: {one_line(why, 300)}")
        if judge:
            roles, judging = {**built.roles, EVALUATOR: judge.engine}, {**built.judging, EVALUATOR: judge.how}
            built = replace(built, roles=roles, judging=judging)
        return _Group(scored, replace(setting, code={name: code[name] for name in SCORERS if name in code}), built)

    def _declare(self, built: Built | None) -> None:
        """Write a setting's metric definitions; raises ConfigError if the folder defines one of them differently."""
        there = store.metrics(self._root)
        own = {name: metric for name, metric in built.metrics.items() if name not in KNOWN} if built else {}
        together([("the data set or planner of a setting", own.values()), (f"results in {self._root}", there.values())])
        fresh = [metric for name, metric in own.items() if name not in there]
        store.write(self._root, {"metrics": store.metric_rows(fresh)})

    def _digest(self, group: _Group) -> str:
        """The digest of everything that scores depend on: the setting, its code, its data, plugins and the judge."""
        judge, version = self._judge, group.built.version if group.built else group.why
        asked = [judge.label, dict(judge.config), judge.engine.version] if judge else None
        text = to_json([group.setting.id, dict(group.setting.code), version, _plugins(), asked])
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    def _known(self, digest: str) -> dict[str, Again]:
        """Results by cell from earlier scorings with the same digest (the same code, data and judge)."""
        mine = store.read(self._root, "scorings", ["scoring"], pc.field("digest") == digest)["scoring"].to_pylist()
        where, found = pc.field("scoring").isin(pa.array(mine, pa.string())), dict[str, Again]()
        for row in store.read(self._root, "rescores", where=where).to_pylist() if mine else []:
            again = found.setdefault(row["cell_id"], Again({}, {}))
            value = row["value"] if row["text"] is None else row["text"]
            if value is None:
                cast(dict[str, str], again.lacking)[row["name"]] = row["why"]
            else:
                cast(dict[str, Value], again.scores)[row["name"]] = value
        return found

    async def _part(
        self, group: _Group, part: Sequence[dict[str, Any]], digest: str, known: Mapping[str, Again]
    ) -> None:
        """Score some cells, and write the results of those that had no `known` result."""
        seeds, fresh, before = _seeds(group, part), list[Compared](), self._spent
        waiting = iter(_stored(self._root, part, group.built is not None and needs_requests(group.built)))

        async def one_after_another() -> None:
            for one in waiting:
                cell = one.episode["cell_id"]
                again = known.get(cell) if self._judge else None
                again = again or await self._again(group, one, seeds.get(cell, 0))
                found = list(_compared(group, one, again, self._judge is not None and group.examines))
                self._found.compared += found
                fresh.extend(found if cell not in known else ())
                self._done(1)

        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(_AT_ONCE if self._judge else 1):
                    tasks.create_task(one_after_another())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            if fresh:
                self._write(group, digest, fresh, before)

    async def _again(self, group: _Group, one: Stored, seed: int) -> Again:
        episode, built = one.episode, group.built
        if built is None:
            return Again(why=group.why)
        if built.version != episode["dataset_version"]:
            return Again(
                why=f"the data set had version {episode['dataset_version']} when the cell ran, but now has version "
                f"{built.version}"
            )
        asks = self._judge is not None and group.examines
        evaluation = built.evaluation(episode["case_id"], group.setting.seed) if asks else None
        if evaluation and self._judge and (most := self._judge.most) is not None:
            used = self._money(self._spent)
            if used is None or used >= most:
                told = "no longer known" if used is None else f"${used:.4f}"
                raise UnfinishedError(
                    f"the scoring ends because of budget.money={most:g}: the cost of {self._judge.label} is {told}"
                )
        try:
            return await score_again(built, one, seed, evaluation)
        finally:
            if evaluation:
                self._spent += evaluation.requests.spent[EVALUATOR]

    def _money(self, spent: Usage) -> float | None:
        return money({EVALUATOR: self._judge.price}, {EVALUATOR: spent}) if self._judge else 0.0

    def _write(self, group: _Group, digest: str, fresh: Sequence[Compared], before: Usage) -> None:
        """Write cells' new results, and a row about the scoring; `before` is the judge's usage before these cells."""
        name, judge, setting = uuid.uuid4().hex, self._judge, group.setting
        spent = Usage(**{name: count - vars(before)[name] for name, count in vars(self._spent).items()})
        counts, asked = spent.known(), judge is not None and group.examines
        scoring = {
            "scoring": name,
            "digest": digest,
            "setting_id": setting.id,
            "dataset_version": group.built.version if group.built else None,
            "code_parts": to_json(dict(setting.code)),
            "plugins": to_json(_plugins()),
            "evaluator": judge.label if judge and asked else None,
            "evaluator_config": to_json(dict(judge.config)) if judge and asked else None,
            "evaluator_version": judge.engine.version if judge and asked else None,
            **{column: counts[column] for column in _SPENT},
            "money": self._money(spent),
            "git_commit": self._commit,
            "created_at": dt.datetime.now(dt.UTC),
        }
        rows = [{"scoring": name, **_columns(one)} for one in fresh if one.now is not None or one.state == UNKNOWN]
        store.write(self._root, {"rescores": rows, "scorings": [scoring]})


def _compared(group: _Group, one: Stored, again: Again, asked: bool) -> Iterator[Compared]:
    """Compare the first and the new scoring of a cell, metric by metric."""
    episode = one.episode
    then = loads(episode["code_parts"] or "{}")
    other = [name for name, code in group.setting.code.items() if then.get(name) != code]
    differs = [*[f"code of {', '.join(other)}"] * bool(other), *["who is asked"] * asked]
    place = (episode["planner"], episode["case_id"], episode["trial"], episode["cell_id"])
    skip = recorded(group.built) if group.built else frozenset[str]()
    for name in sorted({*one.scores, *again.scores} - skip):
        before, now, why = one.scores.get(name), again.scores.get(name), " and ".join(differs) or NOTHING_CHANGED
        state: State = "equal" if before == now else "new" if before is None else "gone" if now is None else "changed"
        reason = again.why or again.lacking.get(name)
        if state == GONE and reason:
            state, why = "unknown", reason
        yield Compared(episode["dataset"], name, state, before, now, "" if state == EQUAL else why, *place)


def _columns(one: Compared) -> dict[str, Any]:
    """The columns from `cell_id` to `why` of a row of `rescores`."""
    text = isinstance(one.now, str)
    values = {"value": None if text else one.now, "text": one.now if text else None}
    return {"cell_id": one.cell_id, "name": one.metric, **values, "why": one.why if one.now is None else None}


def _plugins() -> dict[str, str]:
    return {name: plugin.version for name, plugin in sorted(plugins.allowed().items())}


def _by_config(rows: pa.Table) -> Iterator[pa.Table]:
    """Yield the rows of each setting; a setting is identified by its config."""
    for config in rows["config"].unique():
        yield rows.filter(pc.equal(rows["config"], config))


def _seeds(group: _Group, part: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The disturbance seeds, by cell; empty if the setting has no robustness settings, or cannot be built."""
    if group.built is None or not group.built.robustness:
        return {}
    ids, trials = list({row["case_id"]: None for row in part}), 1 + max(row["trial"] for row in part)
    made = {(cell.case_id, cell.trial): cell for cell in cells(group.setting, group.built.version, ids, trials)}
    return {row["cell_id"]: made[row["case_id"], row["trial"]].disturbance_seed for row in part}


def _stored(root: Path, part: Sequence[Mapping[str, Any]], requests: bool) -> Iterator[Stored]:
    """Yield cells with everything stored about them; transcripts are included if scoring needs `requests`."""
    ids = [row["cell_id"] for row in part]
    mine = pc.field("cell_id").isin(pa.array(ids, pa.string()))
    steps: dict[str, list[dict[str, Any]]] = {cell: [] for cell in ids}
    for row in store.read(root, "steps", where=mine).to_pylist():
        steps[row["cell_id"]].append(row)
    scores: dict[str, dict[str, Value]] = {cell: {} for cell in ids}
    for row in store.read(root, "scores", where=mine).to_pylist():
        scores[row["cell_id"]][row["name"]] = row["value"] if row["text"] is None else row["text"]
    asked = transcripts(root, ids) if requests else {}
    for row in part:
        success = {} if row[SUCCESS] is None else {SUCCESS: float(row[SUCCESS])}
        cell = row["cell_id"]
        yield Stored(row, steps[cell], {**scores[cell], **success}, asked.get(cell))
