"""The end-of-run summary of the replicas."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.markup import escape
from rich.table import Table

from grid.replicas.fleet import Totals
from grid.text.untrusted import shown


def replicas_table(totals: Sequence[Totals]) -> Table:
    """What each replica has done, one a line."""
    table = Table(title="replicas", box=box.SIMPLE_HEAD, title_justify="left")
    table.caption = (
        "tokens of prompts computed (prefill) and read from a cache, and generated (decoded); /s: over all the time / "
        "over the time in which the replica computed; batch: mean number of requests computed at once; KV: peak use"
    )
    figures = "requests|failed|restarts|batch|prefill|cached|decoded|prefill/s|decoded/s|KV"
    for column in ("model", "replica", *figures.split("|")):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for total in totals:
        stats, usage = total.stats, total.stats.usage
        computed = usage.input_tokens - usage.cached_input_tokens
        table.add_row(
            escape(shown(total.label)),
            total.name.rpartition("-")[2],
            f"{stats.requests:,}",
            f"{stats.failed:,}",
            f"{total.restarts:,}",
            f"{stats.batch:.1f}",
            f"{computed:,}",
            f"{usage.cached_input_tokens:,}",
            f"{usage.output_tokens:,}",
            *(_rates(tokens, total.seconds, stats.busy_seconds) for tokens in (computed, usage.output_tokens)),
            "" if stats.kv_cache is None else f"{100 * stats.kv_cache:.0f}%",
        )
    return table


def _rates(tokens: int, seconds: float, busy: float) -> str:
    return " / ".join(f"{tokens / span:,.0f}" if span > 0 else "-" for span in (seconds, busy))
