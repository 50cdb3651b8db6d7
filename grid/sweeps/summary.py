"""The end-of-run summaries: of the replicas, and of what was kept of requests."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from grid.cluster.batch import Report
from grid.cluster.fleet import Totals
from grid.core.untrusted import shown


def replicas_table(totals: Sequence[Totals]) -> Table:
    """What each replica has done, one a line."""
    table = Table(title="replicas", box=box.SIMPLE_HEAD, title_justify="left")
    table.caption = (
        "tokens of prompts computed (prefill) and read from a cache, and generated (decoded); /s: over all the time / "
        "over the time in which the replica computed; batch: mean number of requests computed at once; KV: peak use"
    )
    if any(total.stats.usage.uncounted_answers for total in totals):
        table.caption += "; ≥: of some answers the server told no tokens"
    gpus = sum(total.stats.gpus * total.seconds for total in totals)
    if gpus:
        table.caption += f"; {gpus:,.0f} GPU seconds since they were ready"
    figures = "requests|failed|restarts|batch|prefill|cached|decoded|prefill/s|decoded/s|KV"
    for column in ("model", "replica", *figures.split("|")):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
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
    """Cells of which is kept what they asked and were answered, and the bytes that were written of it, in this run."""

    def __init__(self) -> None:
        self._cells = self._bytes = 0

    def count(self, report: Report) -> None:
        """Take in what a try of a chunk reports."""
        self._cells += report.kept
        self._bytes += report.transcripts

    def line(self, on_disk: int) -> str:
        """What was kept; nothing where nothing was. `on_disk` are the bytes of the files as they are now."""
        if not self._cells:
            return ""
        return (
            f"kept what {self._cells:,} cells asked and were answered: {self._bytes:,} bytes, "
            f"{self._bytes / self._cells:,.0f} per cell as they were written; with merged files all of this name takes "
            f"{on_disk:,} bytes"
        )


def _rates(tokens: int, seconds: float, busy: float) -> str:
    return " / ".join(f"{tokens / span:,.0f}" if span > 0 else "-" for span in (seconds, busy))
