"""What data sets skipped, under the tables of their cases: a rate says nothing of records that are no cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from analysis.page.table import Table
from grid import store

_KINDS = 5
"""Reasons that a line names; the record of the runs has all."""


def skipped(root: Path) -> dict[str, str]:
    """A line for each data set of which records were left out, by its label; none where nobody recorded it.

    Raises:
        StoreError: the record cannot be read.
    """
    return {dataset: _line(dataset, reasons) for dataset, reasons in store.runs(root).get("skipped", {}).items()}


def with_skipped(sheets: Sequence[Table], lines: Mapping[str, str]) -> list[Table]:
    """The tables, each with the lines of the data sets that it shows among its notes."""
    return [replace(sheet, notes=[*sheet.notes, *_shown(sheet, skipped)]) for sheet in sheets]


def _shown(sheet: Table, lines: Mapping[str, str]) -> list[str]:
    shown = set(sheet.values["dataset"].dropna().astype(str)) if "dataset" in sheet.values else set()
    return [line for dataset, line in skipped.items() if dataset in shown]


def _line(dataset: str, reasons: Mapping[str, int]) -> str:
    ranked = sorted(reasons.items(), key=lambda one: -one[1])
    told = "; ".join(f"{count:,}: {reason}" for reason, count in ranked[:_KINDS])
    more = f"; and {len(ranked) - _KINDS:,} more reasons (run.json)" if len(ranked) > _KINDS else ""
    return f"left out of {dataset}, and in no figure: {sum(reasons.values()):,} records ({told}{more})"
