"""What came of a construction, as tables."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table

from grid.datasets.slate.dataset import Slate
from grid.synthesis.slate.asking import Settled, Stage
from grid.synthesis.slate.journal import Line

_PADDING = (0, 1, 0, 0)


def stages(found: Sequence[Stage]) -> Table:
    """What each stage was asked for, kept, repaired and refused, and what its answers cost."""
    table = Table(
        title="Stages",
        box=SIMPLE,
        padding=_PADDING,
        caption="Asked, kept, refused: tools, plans and so on. Repaired: kept after a repair. Answers, tokens and "
        "dollars: of all answers in the stage's file.",
    )
    for column in ("stage", "asked", "kept", "repaired", "refused", "answers", "tokens in", "out", "dollars"):
        table.add_column(column, justify="left" if column == "stage" else "right", no_wrap=True)
    every: list[Line] = []
    for stage in found:
        lines = [*stage.journal.lines.values()]
        every += lines
        wanted = sum(one.item.wanted for one in stage.settled)
        kept = sum(map(_kept, stage.settled))
        repaired = sum(_kept(one) for one in stage.settled if one.best)
        table.add_row(stage.name, *(f"{count:,}" for count in (wanted, kept, repaired, wanted - kept)), *_spent(lines))
    table.add_section()
    table.add_row("all", "", "", "", "", *_spent(every))
    return table


def gates(found: Sequence[Stage]) -> Table:
    """Which rules refused what: answers that broke each, and items that ended so."""
    table = Table(
        title="Gates",
        box=SIMPLE,
        padding=_PADDING,
        caption="An answer may break several rules. In the end: after the last repair.",
    )
    for column in ("stage", "gate", "answers refused", "% of answers", "in the end"):
        table.add_column(column, justify="left" if column in ("stage", "gate") else "right")
    for stage in found:
        answers = sum(len(one.tries) for one in stage.settled)
        refused: Counter[str] = Counter()
        ended: Counter[str] = Counter()
        for one in stage.settled:
            for _, checked in one.tries:
                refused.update({broken.gate for broken in checked.broken})
            last = {broken.gate for broken in one.tries[one.best][1].broken}
            ended.update(last | {broken.gate for broken in one.dropped})
            refused.update({broken.gate for broken in one.dropped} - last)
        for gate, count in refused.most_common():
            table.add_row(stage.name, gate, f"{count:,}", f"{100 * count / answers:.0f}", f"{ended[gate]:,}")
    return table


def quality(dataset: Slate) -> Table:
    """What a reviewer of a benchmark would measure, as far as the set is large enough for it."""
    from grid.datasets.slate.quality import groups  # scikit-learn is slow to import

    table = Table(
        title="The set as a benchmark", box=SIMPLE, padding=_PADDING, caption="Targets are those of SLATE itself."
    )
    for column in ("figure", "here", "target"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for group in groups(dataset):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few items in a fold
            try:
                for figure in group:
                    table.add_row(figure.name, f"{figure.value:.3g} {figure.unit}".strip(), figure.target)
            except (ValueError, IndexError, ZeroDivisionError):
                table.add_row("further figures of this kind", "too few", "")
    return table


def _kept(one: Settled[object]) -> int:
    return len(one.products) - len(one.dropped)


def _spent(lines: Sequence[Line]) -> tuple[str, str, str, str]:
    return (
        f"{len(lines):,}",
        _sum([line.input_tokens for line in lines], ","),
        _sum([line.output_tokens for line in lines], ","),
        _sum([line.money for line in lines], ".4f"),
    )


def _sum(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known):{form}}" if len(known) == len(values) else "unknown"
