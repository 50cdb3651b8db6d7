"""How many cases and trials are needed to detect a difference in success between two planners.

`agent-grid power results/PILOT --difference 5` estimates the variation of cases, clusters and trials from a sweep of
both planners; `agent-grid power --simulated planner=react,egb_logits --difference 5` estimates it with the simulated
policy; `agent-grid power --rate 0.3 --difference 5` uses the values that you give. The test is the same as in the
report: the paired difference over cases, with its interval over clusters. The table shows the power computed by a
formula and, next to it, the share of simulated studies in which the test finds the difference.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Sequence

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from grid.core.errors import ConfigError, GridError
from grid.sweeps.arguments import refusal

DONE, CANNOT_RUN = 0, 2


def main() -> int:
    """Exit status 0, or 2 for a question that cannot be answered."""
    given = sys.argv[1:]
    try:
        arguments = parsed(given, __doc__)
        from launch.power_table import answer  # only after the command line is checked, as this import takes seconds

        answer(arguments)
    except (GridError, HydraException, OmegaConfBaseException) as error:
        print(f"error: {refusal(error, [one for one in given if '=' in one])}", file=sys.stderr)
        return CANNOT_RUN
    return DONE


# The command line of `agent-grid power`, checked before anything heavy is imported.


_MOST_TRIALS = 100
_SIZES = (1, 100_000)
_BETWEEN_PLANNERS = re.compile(r",(?![^\[]*\])")  # the changes in a label are in brackets


def _number(key: str, allowed: str, holds: Callable[[float], bool]) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not holds(value):
            raise ConfigError(key, text, allowed)
        return value

    return read


def _whole(key: str, least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text) or not least <= int(text) <= most:
            raise ConfigError(key, text, f"a whole number from {least:,} to {most:,}")
        return int(text)

    return read


def _trials(text: str) -> tuple[int, ...]:
    read = _whole("trials", 1, _MOST_TRIALS)
    return tuple(sorted({read(one.strip()) for one in text.split(",")}))


def _planners(text: str) -> tuple[str, ...]:
    return tuple(_BETWEEN_PLANNERS.split(text))


def parsed(given: Sequence[str], about: str | None) -> argparse.Namespace:
    """The arguments of a command line; for `--help` and unknown options argparse ends the process.

    Raises:
        ConfigError: a value is impossible, or arguments do not fit together.
    """
    arguments = _parser(about).parse_intermixed_args(given)
    _check(arguments)
    return arguments


def _parser(about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, of_share = parser.add_argument, "a share above 0 and below 1"
    points = _number(
        "difference", "a number of points of success from -100 to 100, but not 0", lambda d: 0 < abs(d) <= 100
    )
    share, part = (lambda p: 0 < p < 1), (lambda p: 0 <= p <= 1)
    place = (
        "a pilot's folder; if it has several models, datasets or robustness settings, also the one to use, "
        "such as dataset=slate"
    )
    together = (
        "the number N of differences tested together, each at alpha / N (Bonferroni; Holm never needs more cases)"
    )
    icc = "the share of the cases' variation that lies between clusters; default: the pilot's, or 0 without a pilot"
    add("given", nargs="*", metavar="RESULTS|KEY=VALUE", help=f"{place}; with --simulated, the keys of a sweep")
    better = "points by which the other planner is better than the reference; if negative, it is worse"
    add("--difference", type=points, help=better)
    add("--power", type=_number("power", of_share, share), default=0.8, help="default: 0.8")
    add(
        "--alpha",
        type=_number("alpha", of_share, share),
        default=0.05,
        help="the level of the two-sided test; default: 0.05",
    )
    add("--comparisons", type=_whole("comparisons", 1, 10_000), default=1, help=together)
    add(
        "--planners",
        type=_planners,
        default=(),
        help="two of the pilot's planners, the reference first: react,egb_logits",
    )
    add("--trials", type=_trials, help="numbers of trials to look at; default: 1,3,5")
    add("--icc", type=_number("icc", "a share from 0 to 1", part), help=icc)
    add(
        "--studies",
        type=_whole("studies", 200, 100_000),
        default=2_000,
        help="number of simulated studies for each row; default: 2000",
    )
    add("--seed", type=_whole("seed", 0, 10**9 - 1), default=0, help="the seed of all draws; default: 0")
    metric = "the metric that is compared: success, or a metric of the pilot with values from 0 to 1; default: success"
    add("--metric", default="success", metavar="NAME", help=metric)
    how = "how cells of the pilot count if it is not known whether they succeeded; default: left_out"
    add("--unknown", choices=("left_out", "failure"), default="left_out", help=how)
    add("--simulated", action="store_true", help="run the pilot now, with the simulated policy")
    _add_design(parser.add_argument_group("without a pilot").add_argument, _number("rate", of_share, share))
    return parser


def _add_design(add: Callable[..., object], rate: Callable[[str], float]) -> None:
    """The options of a design without a pilot."""

    def logits(key: str) -> Callable[[str], float]:
        return _number(key, "logits from 0 to 10", lambda s: 0 <= s <= 10)

    difficulty = "standard deviation of the cases' difficulty for both planners, in logits; default: 1"
    between = "standard deviation of the planners' difference from case to case, in logits; default: 0.5"
    add("--rate", type=rate, help="the reference's success as a share, such as 0.3")
    add("--cluster-size", type=_whole("cluster-size", *_SIZES), help="the number of cases in a cluster; default: 1")
    add("--case-sd", type=logits("case-sd"), help=difficulty)
    add("--difference-sd", type=logits("difference-sd"), help=between)


def _check(arguments: argparse.Namespace) -> None:
    """Raise ConfigError if the arguments of a command line do not fit together."""
    folders = [one for one in arguments.given if "=" not in one]
    if arguments.difference is None:
        raise ConfigError(
            "difference",
            None,
            "must be the difference that the study should find, in points of success, such as --difference 5",
        )
    alone = [name for name in ("cluster_size", "case_sd", "difference_sd") if getattr(arguments, name) is not None]
    if arguments.rate is not None:
        if arguments.given or arguments.simulated or arguments.planners or arguments.metric != "success":
            raise ConfigError(
                "rate", arguments.rate, "must be given without a pilot, --simulated, --planners or --metric"
            )
        return
    if alone:
        raise ConfigError(
            alone[0].replace("_", "-"), getattr(arguments, alone[0]), "is allowed only with --rate, without a pilot"
        )
    if arguments.simulated and folders:
        raise ConfigError("simulated", folders[0], "needs keys of a sweep (planner=react,egb_logits), not a folder")
    if not arguments.simulated and len(folders) != 1:
        raise ConfigError(
            "results", folders, "must be one pilot's folder, results/NAME (unless --simulated or --rate is given)"
        )


if __name__ == "__main__":
    sys.exit(main())
