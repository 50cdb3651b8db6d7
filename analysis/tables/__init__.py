"""The tables of a sweep, one file per subject: each file first computes the numbers and then shows them.

For every sweep: `rates` (success, costs, paired differences), `success` (with pass^k), `measures` (means of
groups of cells, and any metric by its name), `by_value`, `two_numbers`, `win_rates` (with ranks over data sets).

For events within episodes: `trajectories`, `branches`, `rewards`, `disturbances`, `remembered`, `restoration`,
`thresholds`, `frontier`; `calibrated` (the numbers) and `calibration` (their tables); `failure_cells` (the input of
rules), `failure_rules`, `failed` (the classes of a folder's cells) and `failures` (the number of cells of each class);
`search_cells` and `search`; `plan_cells` and `plans`; `regression`; `scored_again` (the changes that `agent-grid
rescore` made).

This package imports `page`, `stats` and `load`. All names that `from analysis import tables` provided before this
package existed can still be imported from here.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.load import name_of as plain_name
    from analysis.tables.branches import CHOICES, ENTROPY_BINS, entropy_centres, entropy_errors
    from analysis.tables.rates import (
        CHECKS,
        COSTS,
        PAIRED,
        RATES,
        REFERENCE,
        TIMES,
        corrected,
        in_order,
        paired_differences,
        paired_models,
        ranked,
        reference_of,
        results,
        token_ratios,
    )

__all__ = [
    "CHECKS", "CHOICES", "COSTS", "ENTROPY_BINS", "PAIRED", "RATES", "REFERENCE", "TIMES", "corrected",
    "entropy_centres", "entropy_errors", "in_order", "paired_differences", "paired_models", "plain_name", "ranked",
    "reference_of", "results", "token_ratios",
]  # fmt: skip
_OF_ENTROPY = ("CHOICES", "ENTROPY_BINS", "entropy_centres", "entropy_errors")


def __getattr__(name: str) -> Any:
    """A name of another module, imported on first use, because scipy loads slowly and some modules do not need it."""
    if name not in __all__:
        raise AttributeError(name)
    from analysis.load import name_of
    from analysis.tables import branches, rates

    if name == "plain_name":
        return name_of
    return getattr(branches if name in _OF_ENTROPY else rates, name)
