"""Run one cell, and one chunk of cells: solve, score, return rows. One bad case never ends a chunk."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, cast

from grid import store
from grid.cells.deadline import CaseTime
from grid.cells.environment import NOBODY, Environment, environment
from grid.cells.expected import expected_success
from grid.cells.paying import PaidEpisode, Paying
from grid.cells.rows import (
    ChunkResult,
    Outcome,
    case_row,
    costs_of,
    outcome_columns,
    ranked_of,
    score_columns,
    source_columns,
    step_rows,
    storable,
    summed,
    taken,
    time_columns,
)
from grid.core.engine import ACTOR, ASKED, EVALUATOR, JUDGE, OF_WORLD
from grid.core.errors import (
    BudgetError,
    ContextError,
    ErrorKind,
    GridError,
    ModelError,
    Status,
    ToolError,
    UnfinishedError,
    VerdictError,
)
from grid.core.metric import checked
from grid.core.problem import AFTER, DRAFTED, NOTHING, Judged, Problem, Reference
from grid.core.types import Case, Step, TaskKind, Trajectory, Usage, to_json
from grid.core.util import can, derive_seed
from grid.core.world import State, resolved_by
from grid.engines.hosted import Informed
from grid.episode.answering import answered_after
from grid.episode.episode import Episode
from grid.episode.outline import draft
from grid.episode.progress import Improvement
from grid.episode.prompts import all_turns
from grid.episode.requests import Requests
from grid.episode.tree import Node
from grid.metrics.scores import SUCCESS, UNSCORED, plan_shape, solvable
from grid.metrics.stepwise import scored
from grid.planners.refining import NOT_REFINED
from grid.planners.remembering import NOT_REMEMBERED
from grid.roles.evaluation import Audit
from grid.settings.build import Built
from grid.settings.setting import GROUPS, KEEP_NONE, MEMORY, REFINE, Cell, Keep, Setting
from grid.store.scanning import EpisodeRow
from grid.worlds.layers import bare, close, settle
from grid.worlds.schema import mends

CONCURRENT_CELLS = 16


@dataclass(frozen=True)
class Stamp:
    """The facts in every row of a run: the sweep's name, the code's commit, and the row's time.

    `after` is the time of the newest row so far. New rows get later times, even if a clock was set back or the clocks
    of machines differ, because the latest of a cell's rows counts.
    """

    sweep: str
    git_commit: str | None
    after: dt.datetime | None = None
    clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)

    def now(self) -> dt.datetime:
        """The clock's time, or a time just after `after` if the clock is behind."""
        now = self.clock()
        return now if self.after is None or now > self.after else self.after + dt.timedelta(microseconds=1)

    def columns(self, passed: float, own: float) -> dict[str, Any]:
        """The columns with a row's sweep, commit and time, and with the seconds that the cell took."""
        return time_columns(passed, own, self.now()) | {"sweep": self.sweep, "git_commit": self.git_commit}


async def run_chunk(
    built: Built,
    setting: Setting,
    cells: Sequence[Cell],
    stamp: Stamp,
    *,
    attempt_id: str | None = None,
    case_seconds: float | None = None,
    at_once: int = CONCURRENT_CELLS,
    result: ChunkResult | None = None,
    keep: Keep = KEEP_NONE,
    stopping: Callable[[], bool] = lambda: False,
    paying: Paying | None = None,
) -> ChunkResult:
    """Run cells, `at_once` of them in parallel, each for at most `case_seconds` of its own time (in a CaseLoop).

    `keep` says which cells' requests are kept. `result` gets a cell's rows as soon as the cell has ended. No more cells
    begin when `stopping` returns true, or after a cell has reached the limit on money (`paying`). A cell that reached
    this limit has no row. Returns `result` or, without it, a new ChunkResult.

    Raises:
        UnfinishedError: the run cannot continue, for example because no engine is left; cells in flight have no rows.
    """
    attempt_id, result, waiting = attempt_id or uuid.uuid4().hex, result or ChunkResult(), iter(cells)
    head = identity(setting, built)

    async def one_after_another() -> None:
        for cell in waiting:  # all runners share this iterator
            if stopping() or (paying and paying.unpaid):
                return
            own, paid = paying.cell(built) if paying else (built, None)
            outcome = await run_cell(own, setting, cell, stamp, attempt_id, case_seconds, keep, head)
            if not (paid and paid.refused):
                result.add(outcome)
            await asyncio.sleep(0)  # if an engine never waits, its cells must not block the rest of the loop

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(cells))):
                group.create_task(one_after_another())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return result


def killed_cell(
    built: Built, setting: Setting, cell: Cell, stamp: Stamp, attempt_id: str, kind: ErrorKind, message: str
) -> dict[str, Any]:
    """The failed row of a cell that ends or blocks its worker, or whose models cannot be loaded.

    The cell's problem is not built, because building it may have ended the worker.
    """
    scores = UNSCORED
    if kind in UNRESOLVED:
        least = {**UNSCORED, SUCCESS: False}
        scores = _declared({**least, **unsolved(built, cell.case_id)}, built) or least
    row = cell_columns(cell, built, attempt_id) | plan_shape(Reference({}, ()))
    row |= outcome_columns(None, Trajectory((), ()), Status.FAILED, kind, message)
    row |= score_columns(scores) | costs_of(built.engines, {}, {})
    return EpisodeRow(identity(setting, built) | storable(row | stamp.columns(0.0, 0.0)))


async def run_cell(
    built: Built,
    setting: Setting,
    cell: Cell,
    stamp: Stamp,
    attempt_id: str,
    case_seconds: float | None = None,
    keep: Keep = KEEP_NONE,
    head: Mapping[str, Any] | None = None,
) -> Outcome:
    """Run one cell; its errors are recorded in its row, except UnfinishedError and a request to end the whole run.

    `head` has the columns that are the same in all of the setting's rows; callers that run many cells pass it.
    """
    head = identity(setting, built) if head is None else head
    if case_seconds is None:
        return await _run_cell(built, setting, cell, stamp, attempt_id, None, keep, head)
    own = CaseTime(cell.cell_id, case_seconds)
    return await own.counted(_run_cell(built, setting, cell, stamp, attempt_id, own, keep, head))


_NO_STEPS, _NO_CALLS = Trajectory((), ()), Reference({}, ())


@dataclass
class _Run:
    """The parts of a cell that exist so far; these are needed however the cell ends."""

    problem: Problem | None = None
    environment: Environment = NOBODY
    audit: Audit | None = None
    episode: Episode | None = None
    trajectory: Trajectory = _NO_STEPS
    scores: Mapping[str, Any] = field(default_factory=lambda: UNSCORED)
    told: dict[str, Any] = field(default_factory=dict)
    trace: str | None = None


async def _run_cell(
    built: Built,
    setting: Setting,
    cell: Cell,
    stamp: Stamp,
    attempt_id: str,
    own: CaseTime | None,
    keep: Keep,
    head: Mapping[str, Any],
) -> Outcome:
    started, run = time.perf_counter(), _Run()
    status, kind, message = Status.OK, None, None
    try:
        await _scored(run, built, setting, cell, own)
    except UnfinishedError:
        raise
    except BaseException as error:  # a failure becomes a row, whatever other people's code raises
        if _of_the_run(error):
            raise
        status = Status.FAILED
        kind, message = _failed(run, error, built, cell, own)
    problem, episode = run.problem, run.episode
    spent = summed(part.spent for part in (episode, *run.environment.requests) if part)
    reference = problem.reference if problem else _NO_CALLS
    row = cell_columns(cell, built, attempt_id)
    for columns in (
        plan_shape(reference),
        kind_columns(problem),
        outcome_columns(episode, run.trajectory, status, kind, message),
        costs_of(built.engines, built.prices, spent),
        score_columns(_told(run, built)),
        source_columns(episode.sources if episode else ()),
    ):
        row.update(columns)
    row["error_traceback"] = run.trace
    row["controls"] = to_json(dict(problem.controls)) if problem and problem.controls else None
    passed = time.perf_counter() - started
    row.update(stamp.columns(passed, own.now() if own else passed))
    rows = _tables(run, cell.cell_id, attempt_id, reference)
    row["case_digest"] = rows["cases"][0]["digest"] if problem else None
    kept = [*episode.messages, *run.environment.messages] if episode and keep.keeps(row) else None
    row["n_messages"] = None if kept is None else len(kept)
    row["n_nodes"], row["n_improvements"] = len(rows["nodes"]), len(rows["improvements"])
    if episode:
        _let_go(episode)
    episode_row = EpisodeRow(head)
    episode_row.update(storable(row))
    return Outcome(episode_row, rows, kept or ())


def _of_the_run(error: BaseException) -> bool:
    """Whether an error ends more than one cell: the cell's task was cancelled, or Ray was told to end the process.

    Other errors of these kinds come from the code of planners or tools: a CancelledError without a request to cancel,
    an exit, or a KeyboardInterrupt.
    """
    cancelled = not isinstance(error, Exception) and cast(Any, asyncio.current_task()).cancelling() > 0
    return cancelled or isinstance(error, GeneratorExit) or hasattr(error, "ray_terminate_msg")


def _let_go(episode: Episode) -> None:
    """Break the reference cycle of a finished episode, its requests and its first pass, to free memory immediately.

    This is not a method of Episode, because every planner's code reaches Episode's methods, so a new method would
    change all cells' ids.
    """
    episode.first_pass = None
    vars(episode).pop("_Episode__requests", None)


def _told(run: _Run, built: Built) -> dict[str, Any]:
    """All metrics of an episode, including those of the environment and of the planner itself."""
    return {**run.scores, **run.told, **taken(run.episode, run.trajectory), **_failures(run, built)}


async def _scored(run: _Run, built: Built, setting: Setting, cell: Cell, own: CaseTime | None) -> None:
    """Solve a cell's case and score the result."""
    seed = cell.disturbance_seed if built.robustness else 0  # computing it takes a hash, which nothing else uses
    run.problem = problem = built.problem(cell.case_id, seed)
    try:
        await _solved_and_scored(run, problem, built, setting, cell, own)
    finally:
        await close(problem.world)


async def _solved_and_scored(
    run: _Run, problem: Problem, built: Built, setting: Setting, cell: Cell, own: CaseTime | None
) -> None:
    nothing = problem.world.resolved(problem.world.start())
    run.told |= {NOTHING: nothing, **problem.baselines(), "solvable": solvable(problem)}
    run.environment = environment(built, cell, setting.seed)
    run.audit = built.audit(problem)
    run.problem = problem = await run.environment.around(built, problem)
    run.episode = episode = episode_of(
        built, problem, cell.seed, setting.seed, own, run.audit, run.environment.requests
    )
    run.told |= {"expected_success": await expected_success(built, problem, episode.case)}
    solving = solve(built, episode)
    run.trajectory = trajectory = await (own.limited(solving) if own else solving)
    await settle(problem.world, trajectory.end)
    evaluation = run.environment.evaluation
    said = await problem.examine(trajectory, evaluation) if problem.examine and evaluation else {}
    broken = broken_off(episode.budget_reached, episode.case, trajectory.steps)
    resolved = resolved_by(problem.world, trajectory.steps, trajectory.end, broken)
    scores = checked({**scored(problem, trajectory, resolved, said), **trajectory.measured}, built.metrics)
    unknown = episode.unjudged or (evaluation and evaluation.undecided and not scores[SUCCESS])
    run.scores = scores | {SUCCESS: None} if unknown else scores


def _failures(run: _Run, built: Built) -> dict[str, int | None]:
    """For each role, the number of unreadable answers; None for roles that are not asked."""
    found = run.environment.failures()
    if run.episode and JUDGE in built.planner.needs:
        found["judge_failures"] = (found["judge_failures"] or 0) + run.episode.unread_verdicts
    return found


def broken_off(budget_reached: str | None, case: Case, steps: Sequence[Step]) -> bool:
    """Whether the budget ended the work before it was done."""
    outline = case.plan.substeps
    done = len(steps) >= len(outline) if outline else bool(steps) and steps[-1].finished
    return budget_reached is not None and not done


def _failed(run: _Run, error: BaseException, built: Built, cell: Cell, own: CaseTime | None) -> tuple[ErrorKind, str]:
    """The kind and message of an error; stores in `run` the best trajectory and, if the agent failed, its scores."""
    kind = error_kind(error)
    message = str(error) if isinstance(error, GridError) else f"{type(error).__name__}: {error}"
    if own and own.expired:
        kind, message = ErrorKind.TIMEOUT, f"not done after {own.used:.0f} s of its own time (cluster.case_seconds)"
    elif kind == ErrorKind.CODE:
        message += f" ({place_of(error, built)}, case {cell.case_id})"
        run.trace = "".join(traceback.format_exception(error))
    run.trajectory = run.episode.best() if run.episode else _NO_STEPS
    if run.problem and run.episode and kind in UNRESOLVED:
        said = unsolved(built, cell.case_id) if run.problem.examine else {}
        found = scored(run.problem, run.trajectory, resolved=False, said=said)
        found = found if found[SUCCESS] is None else {**found, SUCCESS: False}
        run.scores = _declared(found, built) or run.scores
    return kind, message


def _declared(found: Mapping[str, Any], built: Built) -> dict[str, Any]:
    """The metrics of a failed cell; empty if one of them is not declared or has an invalid value.

    In other cells, such a metric is a failure of its own; the failed cell keeps the message of its own failure.
    """
    with suppress(ValueError):
        return checked(found, built.metrics)
    return {}


def unsolved(built: Built, case_id: str) -> Mapping[str, Any]:
    """The judged metrics of an episode that broke off, whose case is unsolved; empty if no evaluator is asked."""
    judged = EVALUATOR in built.roles and can(type(built.dataset), Judged)
    return cast(Judged, built.dataset).unsolved(case_id) if judged else {}


def _tables(run: _Run, cell_id: str, attempt_id: str, reference: Reference) -> dict[store.Table, list[dict[str, Any]]]:
    """A cell's rows in the tables other than `episodes`."""
    ids, problem, episode = (cell_id, attempt_id), run.problem, run.episode
    mended = problem is not None and mends(bare(problem.world))
    nodes = node_rows(*ids, episode.nodes, run.trajectory, run.audit.right if run.audit else {}) if episode else []
    better = (
        improvement_rows(*ids, episode.improvements, partial(resolved_by, problem.world)) if episode and problem else []
    )
    steps = step_rows(*ids, run.trajectory, reference, ranked_of(problem), mended)
    cases = [case_row(problem)] if problem else []
    rows: dict[store.Table, Any] = {"steps": steps, "nodes": nodes, "improvements": better}
    return {table: list(map(storable, found)) for table, found in rows.items()} | {"cases": cases}


def episode_of(
    built: Built,
    problem: Problem,
    seed: int,
    sweep_seed: int = 0,
    own: CaseTime | None = None,
    audit: Audit | None = None,
    beside: Sequence[Requests] = (),
) -> Episode:
    """The episode in which the setting's planner works on a problem.

    Engines that need a reference get it only in this function. For engines that need a reference, a case has a
    difficulty that is derived from the sweep's seed, the dataset's version and the case, so the difficulty is the same
    for all planners and trials. If there is an `audit`, the judge's answers to planners go through it. The requests in
    `beside` also count towards the episode's money.
    """
    dollars = built.cell_money
    kind = Episode if dollars is None else partial(PaidEpisode, built.prices, dollars, beside)
    engines = {
        role: _informed(engine, built, problem, sweep_seed) if can(type(engine), Informed) else engine
        for role, engine in built.engines.items()
        if role not in OF_WORLD  # planners may not ask these roles
    }
    return kind(
        problem.case,
        problem.world,
        engines.pop(ACTOR),
        problem.candidates,
        built.budget,
        seed,
        parts=problem.parts,
        query_tools=problem.query_tools,
        retrieved=problem.retrieved,
        order_seed=built.order_seed,
        demonstrations=problem.demonstrations,
        solved=built.solved_like(problem.case),
        remembered=built.remembered(problem.case),
        roles=engines,
        judging=audit or built.judging.get(JUDGE),
        clock=own.now if own else None,
        fit_tokens=getattr(built.planner, "fit_tokens", False),
    )


def _informed(engine: Any, built: Built, problem: Problem, sweep_seed: int) -> Any:
    difficulty = derive_seed(sweep_seed, "difficulty", built.dataset.version, problem.case.id)
    return cast(Informed, engine).told(problem.reference, problem.library, difficulty)


async def solve(built: Built, episode: Episode) -> Trajectory:
    """The planner's trajectory. If the dataset says so, the model drafts an outline first.

    If the budget is used up, or if the work ends because no answer of a judge can be read, the best trajectory so far
    is returned.
    """
    try:
        if built.dataset.outline == DRAFTED:
            await draft(episode)
        found = await all_turns(built.planner, episode)
        whole = episode.case.decisions is None  # the whole query, not one step of it
        if whole and getattr(built.dataset, "answering", None) == AFTER:
            found = await answered_after(episode, found, built.planner)
    except BudgetError:
        return episode.best()
    except VerdictError:
        episode.unjudged = True
        return episode.best()
    if not episode.improvements or episode.improvements[-1].trajectory.steps != found.steps:
        episode.improved(found)
    return episode.own(found)


# The kind of failure that an exception means, and the place where it was raised.


UNRESOLVED = {ErrorKind.MODEL, ErrorKind.CONTEXT, ErrorKind.TIMEOUT}
"""Failures of the agent, after which the case counts as not resolved. After other failures, success is unknown."""
_KINDS: tuple[tuple[type[Exception], ErrorKind], ...] = (
    (ModelError, ErrorKind.MODEL),
    (ContextError, ErrorKind.CONTEXT),
    (ToolError, ErrorKind.TOOL),
)


def error_kind(error: BaseException) -> ErrorKind:
    """The kind of failure that an exception means; an unforeseen exception is a failure of the code.

    Errors of the operating system and of the cluster, a lack of memory, and all GridErrors except those in `_KINDS` are
    failures of the infrastructure.
    """
    foreseen = isinstance(error, GridError | OSError | MemoryError) or type(error).__module__.startswith("ray.")
    otherwise = ErrorKind.INFRASTRUCTURE if foreseen else ErrorKind.CODE
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), otherwise)


def place_of(error: BaseException, built: Built) -> str:
    """The last file and line in an exception's traceback that belong to the grid or to the setting's classes."""
    classes = (Episode, *map(type, (built.planner, built.dataset, *built.engines.values(), *built.robustness)))
    packages = {cls.__module__.partition(".")[0] for cls in classes}
    walked = [(frame.f_globals.get("__name__", ""), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    module, line = [place for place in walked if place[0].partition(".")[0] in packages][-1]
    return f"{module.replace('.', '/')}.py:{line}"


# The columns of a cell's row that identify it; they are known before it runs.


_KIND = tuple(item.name for item in fields(TaskKind))


def identity(setting: Setting, built: Built) -> dict[str, Any]:
    """The columns that all rows of a setting share: id, labels and versions; null for roles that the setting lacks."""
    return storable(
        {
            "setting_id": setting.id,
            **{group: setting.labels[group] for group in GROUPS},
            REFINE: setting.labels.get(REFINE, NOT_REFINED),
            MEMORY: setting.labels.get(MEMORY, NOT_REMEMBERED),
            **{role: setting.labels.get(role) for role in ASKED},
            "engine": built.engine.name,
            "engine_version": built.engine.version,
            "sampler": built.engine.sampler,
            "dataset_version": built.version,
            "config": setting.text,
            "code": setting.code_id,
            "code_parts": to_json(dict(setting.code)),
        }
    )


def cell_columns(cell: Cell, built: Built, attempt_id: str) -> dict[str, Any]:
    """The columns that identify the cell of a row, and the attempt that made the row."""
    return {
        "cell_id": cell.cell_id,
        "cell_key": cell.cell_key,
        "attempt_id": attempt_id,
        "case_id": cell.case_id,
        "cluster": built.dataset.cluster(cell.case_id),
        "trial": cell.trial,
        "seed": cell.seed,
    }


def kind_columns(problem: Problem | None) -> dict[str, Any]:
    """The columns of a case's task in agent_planning_benchmark; empty if the case is not such a task."""
    kind = problem.kind if problem else None
    return {} if kind is None else {name: getattr(kind, name) for name in _KIND}


# The rows of a search tree's nodes, and a row for each trajectory that was the best so far, with the cost up to then.


def node_rows(
    cell_id: str, attempt_id: str, nodes: Sequence[Node], returned: Trajectory, right: Mapping[str, bool]
) -> list[dict[str, Any]]:
    """One row per node, in the order in which the nodes were created; the root is the first and has no call.

    For each request to the judge, `right` says whether the judged call is right.
    """
    on_path = {id(step) for step in returned.steps}
    return [
        {
            "cell_id": cell_id,
            "attempt_id": attempt_id,
            "node": node.label,
            "parent": node.parent.label if node.parent else None,
            "depth": node.label.count("."),
            "order": node.place,
            "execution": node.execution,
            "chosen_tool": node.action.tool if node.action and node.action.unreadable is None else None,
            "written": node.action.call.text() if node.action and node.action.call else None,
            "failed": _tree_rows_failed(node),
            "share": node.share,
            "entropy": node.entropy,
            "r_pre": node.r_pre,
            "r_post": node.r_post,
            "pre_right": right.get(node.pre_asked or ""),
            "post_right": right.get(node.post_asked or ""),
            "visits": node.visits,
            "value": node.value,
            "pruned": node.pruned,
            "on_path": node.parent is None or bool(node.path and id(node.path.steps[-1]) in on_path),
            **_tokens(node.spent),
        }
        for node in nodes
    ]


def _tokens(usage: Usage) -> dict[str, int | None]:
    known = usage.known()
    return {name: known[name] for name in ("input_tokens", "output_tokens")}


def _tree_rows_failed(node: Node) -> bool | None:
    """Whether a node's call returned no valid result; None if no call was run."""
    if node.execution is None or node.path is None or not node.path.steps:
        return None
    observation = node.path.steps[-1].observation
    return observation.failed if observation else None


def improvement_rows(
    cell_id: str,
    attempt_id: str,
    improvements: Sequence[Improvement],
    resolved: Callable[[Sequence[Step], State], bool],
) -> list[dict[str, Any]]:
    """One row for each trajectory that was better than all earlier ones; if work ended well, the last is the result."""
    return [
        {
            "cell_id": cell_id,
            "attempt_id": attempt_id,
            "improvement": place,
            "node": found.node,
            "value": found.value if found.value is None or abs(found.value) < float("inf") else None,
            "success": resolved(found.trajectory.steps, found.trajectory.end),
            "n_steps": len(found.trajectory.steps),
            "tool_calls": found.tool_calls,
            "llm_calls": found.usage.llm_calls,
            "forward_passes": found.usage.forward_passes,
            **_tokens(found.usage),
            "seconds": found.seconds,
        }
        for place, found in enumerate(improvements)
    ]
