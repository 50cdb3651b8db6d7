"""A dry run: it shows the settings that a sweep would run, and forecasts their cost with a pilot.

It stands apart from `jobs` because `jobs` is imported before a command line has been checked, and importing this module
takes seconds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis.page.render import wide
from grid.cells.pilot import CASES, Estimate, Forecast, Pilot, forecast, pilots_here, total
from grid.cluster.pilots import Side, pilots_on
from grid.core.engine import ASKED
from grid.core.labels import short
from grid.core.untrusted import shown
from grid.settings.check import Checked
from grid.settings.config import DryRun
from grid.settings.extras import expect_installed
from grid.settings.setting import FURTHER, GROUPS
from grid.sweeps.session import announce, counted, fleet_of, say

UNKNOWN, _NOTHING = "unknown", "–"


@dataclass(frozen=True)
class Tried:
    """Pilots by setting id, and measurements of the cluster, if one was started.

    `loading` is the number of seconds until models were loaded. `start` is the number of seconds until Ray was running
    and workers began their first cells, not counting `loading`. `gpus` is the highest number of GPUs that
    replicas used at once.
    """

    pilots: Mapping[str, Pilot]
    sides: tuple[Side, ...] = ()
    start: float = 0.0
    loading: float = 0.0
    gpus: float = 0


def describe(checked: Checked, dry_run: bool | DryRun) -> None:
    """Print the settings that would run, and the forecast.

    Raises:
        ConfigError, EngineError: as for `fleet_of`, which is only used for a pilot (`dry_run.pilot`).
        GridError: a pilot's worker cannot run anything at all.
        StoreError: the results folder cannot be read.
    """
    console, plan = Console(highlight=False, emoji=False, force_jupyter=False), checked.plan
    done = plan.finished()
    pending = plan.missing(done)
    announce(checked, console, plan.total() - sum(pending.values()))
    for line in expect_installed(plan.settings, here=False):
        say(console, line)
    needing = [setting for setting in plan.settings if pending[setting.id]]
    if isinstance(dry_run, DryRun) and needing:
        began = time.monotonic()
        with fleet_of(plan, needing, console) as fleet:
            ready = time.monotonic() - began
            pilots, sides = pilots_on(plan, fleet, done, dry_run.pilot)
            start = ready - fleet.loading + max(one.start for one in pilots.values())
            tried = Tried(pilots, tuple(sides), start, fleet.loading, fleet.gpus)
    else:
        tried = Tried(pilots_here(plan, needing, done))
    forecasts = {name: forecast(pilot, pending[name]) for name, pilot in tried.pilots.items()}
    wide(console).print(settings_table(checked, pending, tried, forecasts))
    for line in (*_unknown(tried), *_sums(tried, pending, forecasts)):
        say(console, line)


def settings_table(
    checked: Checked, pending: Mapping[str, int], tried: Tried, forecasts: Mapping[str, Forecast | None]
) -> Table:
    """The table of a dry run, with one line per setting."""
    plan, settings = checked.plan, checked.plan.settings
    asked = bool(tried.sides)
    caption = "forecasts for the cells to run, ± twice the standard error, which is computed from the cells of a pilot"
    caption += (
        ""
        if asked
        else f" with {CASES} cells of each setting; dry_run.pilot=N runs more cells and also forecasts the time"
    )
    caption += "; time: the time that the setting would take alone, without the time to start" if asked else ""
    table = Table(title="dry run: no results were kept", caption=caption, box=box.SIMPLE_HEAD, title_justify="left")
    names = (*GROUPS, *(name for name in (*FURTHER, *ASKED) if any(name in setting.labels for setting in settings)))
    priced = any(one.money and one.money.value for one in forecasts.values() if one)
    figures = ["cases", "cells", "to run", "tokens in", "tokens out", *["time"] * asked, *["US dollars"] * priced]
    for column in (*names, *figures):
        figure = column not in names
        table.add_column(column, justify="right" if figure else "left", no_wrap=figure, overflow="fold")
    called = {name: short(setting.labels.get(name, "") for setting in settings) for name in names}
    times = _times(tried, pending)
    for setting in settings:
        cases, one = len(plan.case_ids[setting.id]), forecasts.get(setting.id)
        counts = [f"{count:,}" for count in (cases, cases * plan.trials, pending[setting.id])]
        missing = UNKNOWN if pending[setting.id] else _NOTHING
        tokens = [one.input_tokens, one.output_tokens] if one else []
        cells = [told(part) if part else UNKNOWN for part in tokens] or [missing] * 2
        cells += [clock(times[setting.id]) if one and asked else missing] * asked
        cells += [(told(one.money, 2) if one.money else UNKNOWN) if one else missing] * priced
        table.add_row(*(escape(shown(called[name][setting.labels.get(name, "")])) for name in names), *counts, *cells)
    return table


def _times(tried: Tried, pending: Mapping[str, int]) -> dict[str, float]:
    """The seconds that each setting's cells would take if the setting ran alone."""
    return {
        setting.id: side.seconds([setting], tried.pilots, pending) for side in tried.sides for setting in side.settings
    }


def _unknown(tried: Tried) -> list[str]:
    """Lines about forecasts that are missing, each with the reason, and about forecasts that may be wrong."""
    reasons = Counter(pilot.why for pilot in tried.pilots.values() if pilot.why)
    lines = [f"forecast unknown for {counted(count, 'setting')}: {why}" for why, count in reasons.items()]
    if low := sum(pilot.broken_off for pilot in tried.pilots.values() if pilot.batches):
        lines.append(
            f"forecasts of {counted(low, 'setting')} may be too low: the pilot's calls ran out in the middle of "
            "cells, and these cells, which may be longer than the others, are not counted; a larger dry_run.pilot "
            "makes the forecasts more exact"
        )
    if single := sum(len(pilot.took) == 1 for pilot in tried.pilots.values() if tried.sides):
        lines.append(f"forecasts of {counted(single, 'setting')} rest on one cell, so their error (±) is not known")
    for side in tried.sides:
        few = [p for s in side.settings if (p := tried.pilots.get(s.id)) and p.batches and p.largest.side < side.cells]
        if few and side.pooled:
            how = (
                "running more cells at once takes no longer, up to the server's limit"
                if side.capacity
                else "running more cells at once does not save time"
            )
            least = min(pilot.largest.side for pilot in few)
            lines.append(
                f"times of {counted(len(few), 'setting')} are less certain: the smallest pilot ran "
                f"{counted(least, 'cell')} at once, the sweep runs {side.cells:,}, and the forecast assumes that {how}"
                "; a larger dry_run.pilot makes the times more exact"
            )
    return lines


def _sums(tried: Tried, pending: Mapping[str, int], forecasts: Mapping[str, Forecast | None]) -> list[str]:
    known = [one for one in forecasts.values() if one]
    if not known:
        return []
    places = "in all" if len(known) == len(forecasts) else f"in all, for the {len(known):,} settings with a forecast"
    read, written = ([part for part in parts if part] for parts in zip(*map(_tokens, known), strict=True))
    parts = [f"{told(total(read))} tokens in, {told(total(written))} out"] if read else []
    if len(read) < len(known):
        unread = counted(len(known) - len(read), "setting")
        parts.append(f"tokens unknown for {unread}, because the server does not report them")
    money = [one.money for one in known if one.money]
    if len(money) < len(known):
        parts.append(
            f"US dollars unknown: {len(known) - len(money):,} settings have a model whose price or token counts are "
            "not known"
        )
    elif any(one.value for one in money):
        parts.append(f"{told(total(money), 2)} US dollars")
    lines = [f"{places}: {'; '.join(parts)}"]
    if tried.sides:
        cells = max(side.seconds(side.settings, tried.pilots, pending) for side in tried.sides)
        line = (
            f"wall time on this cluster: {clock(tried.start + tried.loading + cells)}, of which "
            f"{clock(tried.start)} to start, "
        )
        line += f"{clock(tried.loading)} to load models, " if tried.loading >= 1 else ""
        line += f"{clock(cells)} for the cells"
        line += f"; {tried.gpus * (tried.loading + cells):,.0f} GPU seconds" if tried.gpus else ""
        lines.append(line)
        lines.append(
            f"the pilot made {sum(pilot.calls for pilot in tried.pilots.values()):,} calls; its rows are not kept"
        )
    return lines


def _tokens(one: Forecast) -> tuple[Estimate | None, Estimate | None]:
    return one.input_tokens, one.output_tokens


def told(one: Estimate, digits: int = 0) -> str:
    """An estimate as text, `1,234 ± 56`; amounts of money below 1 have six decimal places."""
    if digits and 0 < one.value < 1:
        digits = 6
    return f"{one.value:,.{digits}f}" + ("" if one.spread is None else f" ± {one.spread:,.{digits}f}")


def clock(seconds: float) -> str:
    """A time as text, `0:07` or `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
