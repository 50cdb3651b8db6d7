"""What `agent-grid power` answers."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.table import Table

from analysis.intervals import interval
from analysis.power.doubts import doubts
from analysis.power.latent import Latent, components, planted
from analysis.power.needed import endless
from analysis.power.pilot import Counts, fitted
from analysis.power.plans import MOST, Row, Wanted, false_alarms, rows
from analysis.render import wide
from grid.core.errors import ConfigError
from grid.core.untrusted import shown
from launch import pilots
from launch.power_arguments import possible

_TRIALS = (1, 3, 5)
_REFERENCE, _OTHER = "the reference", "the other planner"
_SIZE, _CASE_SD, _DIFFERENCE_SD = 1, 1.0, 0.5
_WIDTH = 100


@dataclass(frozen=True)
class _Question:
    """All that a table takes; `tokens` and `money` are of one trial of a case by both planners."""

    reference: str
    other: str
    rate: float
    latent: Latent
    order: npt.NDArray[np.int64]
    wanted: Wanted
    told: Sequence[str]
    icc: float | None = None
    pilot: Counts | None = None
    tokens: float = 0.0
    money: float | None = None


def answer(arguments: argparse.Namespace) -> None:
    """Print the designs that would do.

    Raises:
        GridError: the question cannot be answered from what is given.
    """
    console = wide(Console(), _WIDTH)
    question = _alone(arguments) if arguments.rate is not None else _of_pilot(arguments)
    _say(console, _asked(arguments, question), *question.told)
    for line in _components(question):
        _say(console, line)
    found = rows(question.latent, question.rate, question.order, question.wanted, question.pilot, question.icc)
    enough = [row for row in found if row.enough]
    best = min(enough, key=lambda row: _cost(question, row), default=None)
    console.print(_table(question, found, best))
    _say(console, *_conclusions(question, found, best))


def _of_pilot(arguments: argparse.Namespace) -> _Question:
    given = arguments.given
    if arguments.simulated:
        pilot = pilots.of_policy(given, arguments.planners, arguments.metric)
    else:
        place = dict(one.split("=", 1) for one in given if "=" in one)
        (folder,) = (Path(one) for one in given if "=" not in one)
        pilot = pilots.of_folder(folder, place, arguments.planners, arguments.unknown, arguments.metric)
    counts, rate = pilot.counts, pilot.counts.rates[0]
    if not 0 < rate < 1:
        many = "all" if rate else "none"
        cells = f"{pilot.reference} succeeds in {many} of {int(counts.tried[:, 0].sum()):,}"
        allowed = f"first a reference that succeeds in some cells and fails in others; {cells}"
        raise ConfigError("planners", f"{pilot.reference},{pilot.other}", allowed)
    possible(arguments.difference, rate, pilot.reference)
    trials = arguments.trials or (_TRIALS if counts.trials > 1 else (1,))
    if counts.trials < 2 and max(trials) > 1:
        raise ConfigError("trials", ",".join(map(str, trials)), "1: the pilot has no case with two trials of both "
                          "planners, and cannot tell what more trials gain")  # fmt: skip
    latent = fitted(counts, arguments.icc)
    if pilot.order is not None and pilot.order.max() == 0:
        allowed = f"a dataset of several clusters of cases; all {len(pilot.order):,} of this one's are of one"
        raise ConfigError("dataset", pilot.dataset, allowed)
    order = endless([int(size) for size in counts.sizes], MOST) if pilot.order is None else pilot.order
    if pilot.order is None:
        cases = f"taken to be of further clusters like the pilot's: its dataset cannot be read here ({pilot.unread})"
    else:
        cases = f"the dataset's {len(order):,} of {int(order.max()) + 1:,} clusters, as dataset.limit takes them"
    told = [_pilot(pilot), *pilot.warnings, f"further cases: {cases}"]
    return _Question(
        pilot.reference, pilot.other, rate, latent, order, _wanted(arguments, trials), told,
        arguments.icc, counts, pilot.tokens, pilot.money
    )  # fmt: skip


def _alone(arguments: argparse.Namespace) -> _Question:
    def value(name: str, default: float) -> float:
        return default if getattr(arguments, name) is None else float(getattr(arguments, name))

    size, icc = int(value("cluster_size", _SIZE)), value("icc", 0.0)
    case_sd, difference_sd = value("case_sd", _CASE_SD), value("difference_sd", _DIFFERENCE_SD)
    told = (
        f"without a pilot: cases' difficulty varies by {case_sd:g} logits (--case-sd), the planners' difference by "
        f"{difference_sd:g} (--difference-sd), {100 * icc:g}% of both between clusters (--icc) of {size:,} "
        f"case{'s' * (size > 1)} each (--cluster-size)"
    )
    latent = planted(case_sd, difference_sd, icc)
    wanted = _wanted(arguments, arguments.trials or _TRIALS)
    return _Question(_REFERENCE, _OTHER, arguments.rate, latent, endless([size], MOST), wanted, [told])


def _wanted(arguments: argparse.Namespace, trials: Sequence[int]) -> Wanted:
    alpha = arguments.alpha / arguments.comparisons
    return Wanted(arguments.difference / 100, arguments.power, alpha, trials, arguments.studies, arguments.seed)


def _asked(arguments: argparse.Namespace, question: _Question) -> str:
    level = f"α = {arguments.alpha:g}"
    if arguments.comparisons > 1:
        level += f" / {arguments.comparisons:,} comparisons = {question.wanted.alpha:.3g} (Bonferroni)"
    return (
        f"to see {question.other} {arguments.difference:+g} points from {question.reference} "
        f"({100 * question.rate:.1f}% to {100 * question.rate + arguments.difference:.1f}%) with power "
        f"{100 * arguments.power:g}%, two-sided, {level}"
    )


def _pilot(pilot: pilots.Pilot) -> str:
    found, rates = pilot.counts, [f"{100 * rate:.1f}%" for rate in pilot.counts.rates]
    mean, low, high = (100 * value for value in interval(found.differences, reach=1.0))
    bounds = "" if math.isnan(low) else f", 95% interval [{low:+.1f}, {high:+.1f}]"
    return (
        f"pilot: {pilot.told}; {len(found.cluster):,} cases of {found.clusters:,} clusters, {_trials(found.trials)}; "
        f"{pilot.reference} {rates[0]}, {pilot.other} {rates[1]}: {mean:+.1f} points{bounds}"
    )


def _components(question: _Question) -> list[str]:
    parts = components(question.latent, (question.rate, question.rate + question.wanted.difference))
    told = {
        "clusters": "between clusters of cases: only more clusters average it out",
        "cases": "between cases of a cluster: more cases average it out",
        "trial": "luck of one trial of each planner: more cases or more trials average it out",
    }
    if question.pilot is not None and question.pilot.trials < 2:
        told["trial"] += " (not told from cases' own with one trial)"
    lines = ["the difference varies by (standard deviation, points of success):"]
    return lines + [f"  {100 * math.sqrt(getattr(parts, name)):5.1f}  {text}" for name, text in told.items()]


def _cost(question: _Question, row: Row) -> float:
    """What makes one design cheaper than another: US dollars, else tokens, else cells."""
    return (question.money or question.tokens or 2) * row.claim.cases * row.trials


def _table(question: _Question, found: Sequence[Row], best: Row | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    priced, tokens = bool(question.money), bool(question.tokens)
    bounded = question.pilot is not None
    names = ["trials", "cases", *["95% interval"] * bounded, "clusters", "cells", *["tokens"] * tokens,
             *["US dollars"] * priced, "power", "simulated", ""]  # fmt: skip
    for name in names:
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    most = len(question.order)
    for row in found:
        each = row.claim.cases * row.trials
        cells = [f"{row.trials}", f"{row.claim.cases:,}" if row.enough else f"> {most:,}"]
        cells += [f"[{_count(row.low, most)}, {_count(row.high, most)}]"] * bounded
        cells += [f"{row.claim.clusters:,}", f"{row.cells:,}"]
        cells += [_large(each * question.tokens)] * tokens + [f"{each * (question.money or 0):,.2f}"] * priced
        cells += [f"{100 * row.claim.power:.1f}%", f"{100 * row.found.share:.1f} ± {200 * row.found.error:.1f}%"]
        table.add_row(*cells, "cheapest" if row is best and len(found) > 1 else "" if row.enough else "not enough")
    return table


def _count(value: float, most: int) -> str:
    return "unknown" if math.isnan(value) else f"> {most:,}" if math.isinf(value) else f"{value:,.0f}"


def _large(value: float) -> str:
    return f"{value / 1e6:,.1f} million" if value >= 1e6 else f"{value:,.0f}"


def _conclusions(question: _Question, found: Sequence[Row], best: Row | None) -> list[str]:
    lines = [_caption(question)]
    for row in (row for row in found if not row.enough):
        beyond = f"about {row.beyond:,}" if row.beyond else f"more than {MOST:,}"
        told = f"all {row.claim.cases:,} cases have power {100 * row.claim.power:.0f}%"
        lines.append(f"{_trials(row.trials)}: {told}; {beyond} would be needed, of further clusters like these")
    if best:
        null = false_alarms(question.latent, question.rate, question.order, best, question.wanted)
        cases, trials = best.claim.cases, best.trials
        alone = f"{cases:,} cases, {_trials(trials)}"
        lines.append(
            f"{f'run: dataset.limit={cases} trials={trials}' if question.pilot else alone}; without any difference the "
            f"test finds one in {100 * null.share:.1f} ± {200 * null.error:.1f}% of simulated studies "
            f"(α: {100 * question.wanted.alpha:.3g}%)"
        )
    if question.pilot is not None:
        cases = (best or found[-1]).claim.cases
        sizes = np.bincount(question.order[:cases]).astype(np.float64)
        lines += [f"warning: {line}" for line in doubts(question.pilot, found, sizes, question.icc)]
    return lines


def _caption(question: _Question) -> str:
    bootstrap = "95% interval: bootstrap over the pilot's clusters; " if question.pilot is not None else ""
    used = "cells and tokens (in and out)" if question.tokens else "cells"
    return (
        f"{bootstrap}{used}: of both planners; power: of the paired test over clusters that the report uses, by a "
        "formula, which simulated studies correct where the mean difference is skewed; simulated: how often that test "
        "finds the difference in further studies, drawn from the same components, ± twice the standard error"
    )


def _trials(count: int) -> str:
    return f"{count:,} trial{'s' * (count != 1)}"


def _say(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(shown(line), markup=False)
