"""Run one cell, and one chunk of cells: solve, score, return rows. One bad case never ends a chunk."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from grid import store
from grid.datasets.base import BASELINES, DRAFTED, Problem
from grid.engines.informed import Informed
from grid.engines.roles import ACTOR, JUDGE, OF_WORLD
from grid.errors import BudgetError, ErrorKind, GridError, Status, UnfinishedError
from grid.metrics.plan_shape import plan_shape
from grid.metrics.scores import Scores
from grid.metrics.solvable import solvable
from grid.metrics.stepwise import scored
from grid.planners.base import Episode
from grid.planners.outline import draft
from grid.planners.turns import all_turns
from grid.reference import Reference
from grid.robustness.schema_matching import MatchingWorld
from grid.seeds import derive_seed
from grid.sweep.attempts import ChunkResult, Outcome
from grid.sweep.audit import Audit
from grid.sweep.build import Built
from grid.sweep.cell import Cell, Setting
from grid.sweep.costs import cost_columns, summed
from grid.sweep.deadline import CaseTime
from grid.sweep.evaluation import Evaluation
from grid.sweep.expected import expected_success
from grid.sweep.failures import UNRESOLVED, error_kind, place_of
from grid.sweep.grounding import GroundingByModel
from grid.sweep.identity import identity, kind_columns
from grid.sweep.rows import ranked_of, step_rows, storable
from grid.sweep.simulation import Simulation
from grid.sweep.transcripts import KEEP_NONE, Keep
from grid.sweep.tree_rows import improvement_rows, node_rows
from grid.types import Trajectory, to_json
from grid.worlds.base import ComparesTexts
from grid.worlds.layers import bare, within
from grid.worlds.schema import mends
from grid.worlds.simulated import Played

CONCURRENT_CELLS = 16
_MAX_MESSAGE = 2000  # characters of an error


@dataclass(frozen=True)
class Stamp:
    """What goes into every row of a run: the sweep's name, where the code came from, and when it was made.

    `after` is the newest row there was: of a cell's rows the latest counts, also where a clock was set back or
    another machine's is slow.
    """

    sweep: str
    git_commit: str | None
    after: dt.datetime | None = None
    clock: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)

    def now(self) -> dt.datetime:
        """The clock's time, or one that is later than `after`."""
        now = self.clock()
        return now if self.after is None or now > self.after else self.after + dt.timedelta(microseconds=1)


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
) -> ChunkResult:
    """Run the cells, so many at once, each for `case_seconds` of its own at most (in a CaseLoop).

    `keep` says of which it is kept what they asked. `result` has each cell's rows as soon as it has ended. No further
    cell begins while `stopping`.

    Raises:
        UnfinishedError: nothing is left that could answer; what was in flight has no rows.
    """
    attempt_id, result, waiting = attempt_id or uuid.uuid4().hex, result or ChunkResult(), iter(cells)

    async def one_after_another() -> None:
        for cell in waiting:  # of all runners
            if stopping():
                return
            result.add(await run_cell(built, setting, cell, stamp, attempt_id, case_seconds, keep))
            await asyncio.sleep(0)  # cells of an engine that never waits must not keep the loop from all else

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
    """The row of a cell that ends the worker which runs it."""
    row = identity(setting, built, cell, attempt_id) | plan_shape(Reference({}, ())) | vars(Scores())
    row |= _outcome(None, Trajectory((), ()), Status.FAILED, kind, message)
    row |= cost_columns(built.engines, {}) | kind_columns(None)
    return storable(row | _stamped(0.0, 0.0, stamp))


async def run_cell(
    built: Built,
    setting: Setting,
    cell: Cell,
    stamp: Stamp,
    attempt_id: str,
    case_seconds: float | None = None,
    keep: Keep = KEEP_NONE,
) -> Outcome:
    """What came of one cell; whatever goes wrong becomes its row's error, but UnfinishedError."""
    if case_seconds is None:
        return await _run_cell(built, setting, cell, stamp, attempt_id, None, keep)
    own = CaseTime(cell.cell_id, case_seconds)
    return await own.counted(_run_cell(built, setting, cell, stamp, attempt_id, own, keep))


async def _run_cell(
    built: Built, setting: Setting, cell: Cell, stamp: Stamp, attempt_id: str, own: CaseTime | None, keep: Keep
) -> Outcome:
    started = time.perf_counter()
    episode: Episode | None = None
    evaluation: Evaluation | None = None
    simulation: Simulation | None = None
    grounding: GroundingByModel | None = None
    problem: Problem | None = None
    audit: Audit | None = None
    trajectory, reference, scores = Trajectory((), ()), Reference({}, ()), Scores()
    status, kind, message, trace = Status.OK, None, None, None
    fair: bool | None = None
    told: Mapping[str, bool] = {}
    expected: float | None = None
    try:
        problem = built.problem(cell.case_id, cell.disturbance_seed)
        reference, fair, told = problem.reference, solvable(problem), problem.baselines()
        evaluation, simulation = built.evaluation(cell.case_id, setting.seed), built.simulation(setting.seed)
        grounding, audit = built.grounding(cell.case_id, setting.seed), built.audit(problem)
        episode = episode_of(built, problem, cell.seed, setting.seed, own, evaluation, audit, simulation, grounding)
        expected = await expected_success(built, problem, episode.case)
        solving = solve(built, episode)
        trajectory = await (own.limited(solving) if own else solving)
        said = await problem.examine(trajectory, evaluation) if problem.examine and evaluation else {}
        scores = scored(problem, trajectory, problem.world.resolved(trajectory.end), said)
    except UnfinishedError:
        raise
    except Exception as error:  # noqa: BLE001 - a failure is a row
        status, kind = Status.FAILED, error_kind(error)
        message = str(error) if isinstance(error, GridError) else f"{type(error).__name__}: {error}"
        if own and own.expired:
            kind, message = ErrorKind.TIMEOUT, f"not done after {own.used:.0f} s of its own (cluster.case_seconds)"
        elif kind == ErrorKind.CODE:
            message += f" ({place_of(error, built)}, case {cell.case_id})"
            trace = "".join(traceback.format_exception(error))
        trajectory = episode.best() if episode else Trajectory((), ())
        if problem and kind in UNRESOLVED:
            scores = scored(problem, trajectory, resolved=False)
    of_world = (part.requests for part in (evaluation, simulation, grounding) if part)
    asked = [part for part in (episode, *of_world) if part]
    spent = summed(part.spent for part in asked)
    row = identity(setting, built, cell, attempt_id) | plan_shape(reference) | vars(scores)
    row |= _outcome(episode, trajectory, status, kind, message) | cost_columns(built.engines, spent)
    row |= {"error_traceback": trace, "solvable": fair, "expected_success": expected}
    row |= {**dict.fromkeys(BASELINES), **told}
    row |= {"controls": to_json(dict(problem.controls)) if problem and problem.controls else None} | kind_columns(
        problem
    )
    passed = time.perf_counter() - started
    row |= _stamped(passed, own.now() if own else passed, stamp)
    ids = cell.cell_id, attempt_id
    rows: dict[store.Table, list[dict[str, Any]]] = {
        "steps": step_rows(
            *ids, trajectory, reference, ranked_of(problem), problem is not None and mends(bare(problem.world))
        ),
        "nodes": node_rows(*ids, episode.nodes, trajectory, audit.right if audit else {}) if episode else [],
        "improvements": improvement_rows(*ids, episode.improvements, problem.world.resolved)
        if episode and problem
        else [],
    }
    kept = [message for part in asked for message in part.messages] if episode and keep.keeps(row) else None
    unread = {"simulator_failures": simulation, "judge_failures": grounding}
    row |= {name: part.failures if part else None for name, part in unread.items()}
    row |= {"n_messages": None if kept is None else len(kept)}
    row |= {f"n_{table}": len(rows[table]) for table in ("nodes", "improvements")}
    return Outcome(storable(row), {table: list(map(storable, found)) for table, found in rows.items()}, kept or ())


def episode_of(
    built: Built,
    problem: Problem,
    seed: int,
    sweep_seed: int = 0,
    own: CaseTime | None = None,
    evaluation: Evaluation | None = None,
    audit: Audit | None = None,
    simulation: Simulation | None = None,
    grounding: GroundingByModel | None = None,
) -> Episode:
    """The episode in which a planner of this setting meets a problem.

    Engines that need a reference are told it here and nowhere else. How hard a case is for them follows from the
    sweep's seed, the dataset's version and the case, so that it is the same for all planners and trials. Where there
    are such, `evaluation` tells the world which texts mean the same, `simulation` plays its tools, `grounding` says
    which names were meant, and the judge's answers to planners go through `audit`.
    """
    difficulty = derive_seed(sweep_seed, "difficulty", built.dataset.version, problem.case.id)
    engines = {
        role: engine.told(problem.reference, problem.library, difficulty) if isinstance(engine, Informed) else engine
        for role, engine in built.engines.items()
        if role not in OF_WORLD  # who are no planner's to ask
    }
    world = problem.world
    if evaluation and built.compares_texts:
        same = evaluation.same
        world = within(world, lambda inner: cast(ComparesTexts, inner).asking(same))
    if simulation:
        world = within(world, lambda inner: cast(Played, inner).played_by(simulation))
    if grounding:
        world = within(world, lambda i: i.judged_by(grounding) if isinstance(i, MatchingWorld) else i)
    return Episode(
        problem.case,
        world,
        engines.pop(ACTOR),
        problem.candidates,
        built.budget,
        seed,
        parts=problem.parts,
        query_tools=problem.query_tools,
        dynamic=problem.dynamic,
        order_seed=built.order_seed,
        demonstrations=problem.demonstrations,
        roles=engines,
        judging=audit or built.judging.get(JUDGE),
        clock=own.now if own else None,
    )


async def solve(built: Built, episode: Episode) -> Trajectory:
    """The planner's trajectory, behind an outline that is drafted first where the dataset says so.

    Where its budget is used up, the best so far.
    """
    try:
        if built.dataset.outline == DRAFTED:
            await draft(episode)
        found = await all_turns(built.planner, episode)
    except BudgetError:
        return episode.best()
    if not episode.improvements or episode.improvements[-1].trajectory.steps != found.steps:
        episode.improved(found)
    return episode.own(found)


def _outcome(
    episode: Episode | None, trajectory: Trajectory, status: Status, kind: ErrorKind | None, message: str | None
) -> dict[str, Any]:
    """How an episode ended, and what it took."""
    return {
        "status": status,
        "error_kind": kind,
        "error_message": message[:_MAX_MESSAGE] if message else None,
        "answer": trajectory.answer or None,
        "n_steps": len(trajectory.steps),
        "budget_reached": episode.budget_reached if episode else None,
        "tool_calls": episode.tool_calls if episode else 0,
        "resolved_checks": episode.resolved_checks if episode else 0,
        "replans": trajectory.replans,
        "branches": trajectory.branches,
        "branched_steps": trajectory.branched_steps,
        "unassigned": _mean(step.unassigned for step in trajectory.decisions),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    """Of the values there are; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _stamped(passed: float, own: float, stamp: Stamp) -> dict[str, Any]:
    """Whose row it is, the seconds that passed, and those of them that were the case's own, as its deadline counts."""
    times = {"wall_seconds": passed, "case_seconds": own, "created_at": stamp.now()}
    return times | {"sweep": stamp.sweep, "git_commit": stamp.git_commit}
