"""The entropy above which `egb_tree` should branch: `agent-grid threshold results/PILOT [results/TESTED ...]`.

A pilot is a sweep that makes exact choices on cases not used for testing: planner=egb_logits planner.trajectories=1
trials=1. The command reads the pilot's first pass through each case, and prints the threshold that best separates wrong
decisions from right ones (Youden's J), with an interval and the keys to set. Further folders have results on the cases
used for testing. These folders are read first, and the command stops if any of these cases is also in the pilot.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from grid.core.errors import ConfigError, GridError, one_line
from grid.core.places import folder_at

DONE, CANNOT_RUN = 0, 2


def main() -> int:
    """Exit status 0, or 2 if nothing can be learned, or if tested cases are in the pilot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told = "the pilot's results, followed by results that must not have any of the pilot's cases"
    parser.add_argument("results", type=folder_at, nargs="+", metavar="RESULTS", help=told)
    given = parser.parse_args()
    try:
        answer(given.results[0], given.results[1:])
    except GridError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return CANNOT_RUN
    return DONE


def answer(pilot: Path, tested: Sequence[Path]) -> None:
    """Print the thresholds for a pilot's settings, and the keys to set.

    Raises:
        GridError: a folder cannot be read, a case of the pilot is tested, or nothing can be learned from the pilot.
    """
    from rich.console import Console

    from analysis.errors import AnalysisError
    from analysis.page.render import show
    from analysis.tables import thresholds
    from grid import store

    for root in (pilot, *tested):
        store.check_there(root)
        store.check(root)
    for root in tested:
        for dataset, (shared, cases) in thresholds.overlap(pilot, root).items():
            allowed = (
                f"must be results without the pilot's cases, but {shared:,} of their {cases:,} cases of {dataset} are "
                f"also in {pilot} (part=validation and part=test have no case in common)"
            )
            raise ConfigError("tested", str(root), allowed)
    met, query = thresholds.decisions(pilot)
    table = thresholds.learned(met)
    known = table[table["threshold"].notna()]
    if known.empty:
        raise AnalysisError(
            f"{pilot}: no threshold can be learned, because all decisions are right, all are wrong, or all have the "
            "same entropy"
        )
    console = Console(highlight=False, emoji=False)
    show(console, thresholds.table(table, query), wide=True)
    for row in known.to_dict("records"):
        console.print(_keys(row), markup=False, soft_wrap=True)


def _keys(row: dict[Any, Any]) -> str:
    from analysis.tables.thresholds import DIGITS
    from grid.core.untrusted import shown

    place = ", ".join(str(row[name]) for name in ("model", "dataset", "robustness"))
    keys = f"planner=egb_tree planner.entropy_threshold={row['threshold']:.{DIGITS}g} planner.labels={row['labels']}"
    return f"{shown(place)}: {keys}"


if __name__ == "__main__":
    sys.exit(main())
